/*
 * Unit test of synthetic events: the grammar of the list, and the values
 *
 * The rules are those of include/hw/misc/pmu-synthetic.h.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/misc/pmu-synthetic.h"
#include "qapi/error.h"

static bool by_name(void *opaque, const char *name, uint32_t *event)
{
    g_assert_cmpstr(opaque, ==, "names");
    *event = 0x18;
    return !strcmp(name, "a_name");
}

static const PmuSyntheticEvents plain = { .max = 0xffff };
static const PmuSyntheticEvents named = {
    .max = 0x100, .step = 8, .by_name = by_name, .opaque = (void *)"names",
};

static PmuSynthetic *parse(const PmuSyntheticEvents *events, const char *list)
{
    Error *err = NULL;
    PmuSynthetic *ps = pmu_synthetic_parse(list, events, &err);

    g_assert_true((ps != NULL) != (err != NULL));
    if (err) {
        /* It names what is wrong. */
        g_assert_nonnull(strstr(error_get_pretty(err), "synthetic event "));
        error_free(err);
    } else {
        g_assert_cmpstr(pmu_synthetic_list(ps), ==, list);
    }
    return ps;
}

static void test_good(void)
{
    static const struct {
        const PmuSyntheticEvents *events;
        const char *list;
    } t[] = {
        { &plain, "" },
        { &plain, "1=hash" },
        { &plain, "0x0=const:0" },
        { &plain, "65535=const:18446744073709551615" },
        { &plain, "1-2=hash,3-3=rate:0,0x4-5=const:0xff" },
        { &plain, "5=hash,1-4=hash" },
        { &plain, "0xffff=rate:4294967295" },
        { &plain, "1@0=hash,1@1-65535=rate:1,2=hash" },
        { &plain, "1-9@5=hash,1-9@4=hash,1-9@6-7=hash" },
        { &plain, "1=noise:4294967295:100,2=ramp:0:4294967295:65535" },
        { &plain, "1=ramp:5:0:0" },
        { &named, "a_name=hash" },
        { &named, "a_name@3=hash" },
        { &named, "0-0x10=hash,a_name=const:1,32=rate:2" },
    };

    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        PmuSynthetic *ps = parse(t[i].events, t[i].list);

        g_assert_nonnull(ps);
        pmu_synthetic_unref(ps);
    }
    g_assert_cmpstr(pmu_synthetic_list(NULL), ==, "");
    pmu_synthetic_unref(NULL);
}

static void test_bad(void)
{
    static const struct {
        const PmuSyntheticEvents *events;
        const char *list;
    } t[] = {
        { &plain, "," }, { &plain, "1=hash," }, { &plain, ",1=hash" },
        { &plain, "1" }, { &plain, "=" }, { &plain, "=hash" },
        { &plain, "1=" }, { &plain, "1=hash:1" }, { &plain, "1=hash=hash" },
        { &plain, "1=rate" }, { &plain, "1=rate:" }, { &plain, "1=rate:x" },
        { &plain, "1=rate:-1" }, { &plain, "1=rate:4294967296" },
        { &plain, "1=const:" }, { &plain, "1=const:18446744073709551616" },
        { &plain, "1=random" }, { &plain, "1=Hash" }, { &plain, "1 =hash" },
        { &plain, " 1=hash" }, { &plain, "1= hash" }, { &plain, "1=const: 1" },
        { &plain, "1=const:1 " }, { &plain, "+1=hash" }, { &plain, "-1=hash" },
        { &plain, "1-=hash" }, { &plain, "2-1=hash" }, { &plain, "1-2-3=hash" },
        { &plain, "0x=hash" }, { &plain, "x=hash" }, { &plain, "08x=hash" },
        { &plain, "0x1g=hash" }, { &plain, "0x10000=hash" },
        { &plain, "1-0x10000=hash" }, { &plain, "1=hash,1=hash" },
        { &plain, "1-5=hash,3=const:1" }, { &plain, "3=const:1,1-5=hash" },
        { &plain, "a_name=hash" },
        { &plain, "1@=hash" }, { &plain, "@1=hash" }, { &plain, "1@x=hash" },
        { &plain, "1@65536=hash" }, { &plain, "1@2-1=hash" },
        { &plain, "1@1-=hash" }, { &plain, "1@1@2=hash" },
        { &plain, "1@0=hash,1=hash" }, { &plain, "1=hash,1@9=hash" },
        { &plain, "1-9@1-5=hash,9@5=hash" },
        { &plain, "1@7=hash,2@7=hash,0-1@7-8=hash" },
        { &plain, "1=noise" }, { &plain, "1=noise:1" },
        { &plain, "1=noise:1:101" }, { &plain, "1=noise:4294967296:1" },
        { &plain, "1=noise:1:2:3" }, { &plain, "1=ramp:1:2" },
        { &plain, "1=ramp:1:2:65536" }, { &plain, "1=ramp:1::3" },
        { &plain, "1=ramp:4294967296:1:1" },
        { &named, "4=hash" }, { &named, "0x108=hash" }, { &named, "b=hash" },
        { &named, "a_name=hash,24=hash" },
    };

    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        PmuSynthetic *ps = parse(t[i].events, t[i].list);

        if (ps) {
            g_test_message("'%s' was accepted", t[i].list);
            g_test_fail();
        }
        pmu_synthetic_unref(ps);
    }
}

static void test_values(void)
{
    static const struct {
        PmuSyntheticSample sample;
        bool found;
        uint64_t value;
    } t[] = {
        { { .event = 0x10, .unit = 3, .window_ns = 1500999 }, true,
          375249 + 3 },
        /* Less than a microsecond, too: 249.75 */
        { { .event = 0x10, .unit = 3, .window_ns = 999 }, true, 249 + 3 },
        { { .event = 0x10, .unit = 4, .window_ns = 2000 }, true, 20 + 4 },
        { { .event = 0x10, .unit = 5, .window_ns = 2000 }, true, 20 + 5 },
        { { .event = 0x10, .unit = 6, .window_ns = 2000 }, false },
        /* The longest window of a PMCU, in which nothing may overflow */
        { { .event = 0x14, .window_ns = 85899345900 }, true,
          368934881302392340 },
        /* From 100 down to 60 per microsecond in 8 samples, of half of one */
        { { .event = 0x15, .index = 0, .window_ns = 500 }, true, 50 },
        { { .event = 0x15, .index = 1, .window_ns = 500 }, true, 48 },
        { { .event = 0x15, .index = 7, .window_ns = 500 }, true, 33 },
        { { .event = 0x15, .index = 8, .window_ns = 500 }, true, 30 },
        { { .event = 0x15, .index = 9999, .window_ns = 500 }, true, 30 },
        { { .event = 0x16, .index = 3, .window_ns = 1000 }, true, 13 },
        { { .event = 0x17, .index = 0, .window_ns = 1000 }, true, 9 },
        { { .event = 0x13, .unit = 3, .window_ns = 1000 }, true, 7 },
        /* No later version may change these. */
        { { .event = 0x40, .unit = 0, .index = 0, .seed = 5 }, true,
          0x0860a211 },
        { { .event = 0x40, .unit = 3, .index = 2, .seed = 5 }, true,
          0x5b0570ea },
        { { .event = 0xff, .unit = 3, .index = 0, .seed = 5 }, true,
          0xdab96bc7 },
        { { .event = 0x0f }, false }, { { .event = 0x11 }, false },
        { { .event = 0x3f }, false }, { { .event = 0x100 }, false },
    };
    PmuSynthetic *ps = parse(&plain,
                             "0x40-0xff=hash,0x10@0-3=rate:250,"
                             "0x10@4-5=rate:10,0x13=const:7,"
                             "0x14=rate:4294967295,0x15=ramp:100:60:8,"
                             "0x16=ramp:10:20:10,0x17=ramp:1:9:0");

    /* A second user keeps the list when the first one drops it. */
    g_assert_true(pmu_synthetic_ref(ps) == ps);
    pmu_synthetic_unref(ps);
    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        uint64_t value = 0x5a5a;

        g_assert_true(pmu_synthetic_value(ps, &t[i].sample, &value) ==
                      t[i].found);
        g_assert_cmphex(value, ==, t[i].found ? t[i].value : 0x5a5a);
        g_assert_false(pmu_synthetic_value(NULL, &t[i].sample, &value));
    }
    g_assert_null(pmu_synthetic_ref(NULL));
    pmu_synthetic_unref(ps);
}

/* 1000 plus or minus a tenth, and all of that is there. */
static void test_noise(void)
{
    PmuSynthetic *ps = parse(&plain, "1=noise:500:10,2=noise:500:0,"
                                     "3=noise:4294967295:100");
    PmuSyntheticSample sample = { .window_ns = 2000 };
    uint64_t value, least = UINT64_MAX, most = 0, sum = 0, again, widest = 0;

    for (sample.index = 0; sample.index < 10000; sample.index++) {
        sample.event = 1;
        g_assert_true(pmu_synthetic_value(ps, &sample, &value));
        g_assert_true(pmu_synthetic_value(ps, &sample, &again));
        g_assert_cmpint(value, ==, again);
        least = MIN(least, value);
        most = MAX(most, value);
        sum += value;
        sample.event = 2;
        g_assert_true(pmu_synthetic_value(ps, &sample, &value));
        g_assert_cmpint(value, ==, 1000);
        /* At most twice 2^33, not more */
        sample.event = 3;
        g_assert_true(pmu_synthetic_value(ps, &sample, &value));
        g_assert_cmpint(value, <=, 4 * 4294967295);
        widest = MAX(widest, value);
    }
    g_assert_cmpint(widest, >, 3 * 4294967295);
    g_assert_cmpint(least, >=, 900);
    g_assert_cmpint(least, <=, 901);
    g_assert_cmpint(most, <=, 1100);
    g_assert_cmpint(most, >=, 1099);
    g_assert_cmpint(sum / 10000, >=, 998);
    g_assert_cmpint(sum / 10000, <=, 1002);
    pmu_synthetic_unref(ps);
}

/* Each event of each unit has its own entry, in whatever order they come */
static void test_overlap(void)
{
    static const struct {
        unsigned first, last, first_unit, last_unit;
    } t[] = {
        { 0x20, 0x20, 6, 6 },
        { 0x00, 0xff, 5, 5 },
        { 0x30, 0x38, 6, 6 },
        { 0x10, 0x60, 7, 9 },
        { 0x21, 0x22, 6, 6 },
        { 0x120, 0x120, 0, 9 },
        { 0x61, 0x61, 7, 8 },
    };
    g_autoptr(GString) list = g_string_new(NULL);
    PmuSynthetic *ps;

    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        g_string_append_printf(list, "%s0x%x-0x%x@%u-%u=const:%u",
                               i ? "," : "", t[i].first, t[i].last,
                               t[i].first_unit, t[i].last_unit, 1 + i);
    }
    ps = parse(&plain, list->str);
    g_assert_nonnull(ps);
    for (unsigned event = 0; event < 0x130; event++) {
        for (unsigned unit = 0; unit < 11; unit++) {
            PmuSyntheticSample sample = {
                .event = event, .unit = unit, .window_ns = 1,
            };
            uint64_t value = 0, expect = 0;

            for (int i = 0; i < ARRAY_SIZE(t); i++) {
                if (event >= t[i].first && event <= t[i].last &&
                    unit >= t[i].first_unit && unit <= t[i].last_unit) {
                    expect = 1 + i;
                }
            }
            g_assert_true(pmu_synthetic_value(ps, &sample, &value) ==
                          (expect != 0));
            g_assert_cmpint(value, ==, expect);
        }
    }
    pmu_synthetic_unref(ps);
}

static void test_most(void)
{
    g_autoptr(GString) list = g_string_new("0=hash");
    Error *err = NULL;

    for (int i = 1; i < PMU_SYNTHETIC_MAX; i++) {
        g_string_append_printf(list, ",%d=hash", i);
    }
    pmu_synthetic_unref(parse(&plain, list->str));
    g_string_append(list, ",65535=hash");
    g_assert_null(pmu_synthetic_parse(list->str, &plain, NULL));
    /* However many: refused before any is looked at */
    g_string_append(list, ",,");
    g_assert_null(pmu_synthetic_split(list->str, &err));
    g_assert_nonnull(strstr(error_get_pretty(err), "more than 4096 entries"));
    error_free(err);
}

/* An event, or a range of them, has at most 1024 bytes. */
static void test_longest_event(void)
{
    for (int length = 1024; length <= 1025; length++) {
        g_autofree char *list = g_strdup_printf("%0*d@2=const:9", length, 5);
        PmuSyntheticSample sample = { .event = 5, .unit = 2 };
        PmuSynthetic *ps = parse(&plain, list);
        uint64_t value = 0;

        g_assert_true((ps != NULL) == (length == 1024));
        g_assert_true(pmu_synthetic_value(ps, &sample, &value) == (ps != NULL));
        g_assert_cmpint(value, ==, ps ? 9 : 0);
        pmu_synthetic_unref(ps);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pmu-synthetic/good-lists", test_good);
    g_test_add_func("/pmu-synthetic/bad-lists", test_bad);
    g_test_add_func("/pmu-synthetic/values", test_values);
    g_test_add_func("/pmu-synthetic/noise", test_noise);
    g_test_add_func("/pmu-synthetic/overlap", test_overlap);
    g_test_add_func("/pmu-synthetic/most-entries", test_most);
    g_test_add_func("/pmu-synthetic/longest-event", test_longest_event);
    return g_test_run();
}
