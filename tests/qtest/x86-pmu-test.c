/*
 * QTest of the performance monitoring unit of x86 TCG CPUs
 *
 * The CPUs run a program (x86-pmu/) that has the test cases: it programs the
 * PMU, runs hand-counted code, and reports in RAM what is not as it should
 * be. Here are the CPU models and QEMU options to run it with, and what needs
 * the host: reset, migration, record and replay, bad properties.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "x86-pmu-util.h"

static void test_case(const void *data)
{
    uint32_t command = GPOINTER_TO_UINT(data);
    bool smp = guest_case_flags(command) & CASE_SMP;
    Guest g = guest_init(smp ? ICELAKE " -smp 2" : ICELAKE, 0);

    guest_run(&g, command, 0, 0);
    guest_quit(&g);
}

/* All cases in a row, with other CPUs and options */
static void test_all(const void *data)
{
    const char *args = data;
    Guest g = guest_init(args, strstr(args, "-smp 2") ? CONFIG_SMP : 0);

    guest_run(&g, GUEST_CASE(all), 0, 0);
    guest_quit(&g);
}

/* With SVM, VMMCALL is translated to a helper, which raises #UD. */
static void test_vmmcall(const void *data)
{
    Guest g = guest_init(data, 0);

    guest_run(&g, GUEST_CASE(modes_vmmcall), 0, 0);
    guest_quit(&g);
}

/* ------------------------------------------------- Properties and reset */

static void test_reset(void)
{
    Guest g = guest_init(ICELAKE, 0);

    guest_run(&g, GUEST_CASE(reset_values), 0, 0);
    guest_run(&g, GUEST_CASE(dirty), 0, 0);
    guest_reset(&g);
    guest_run(&g, GUEST_CASE(reset_values), 0, 0);
    guest_run(&g, GUEST_CASE(cpuid), 0, 0);
    guest_quit(&g);
}

static void test_no_pmu(const void *data)
{
    Guest g = guest_init(data, 0);

    guest_run(&g, GUEST_CASE(no_pmu), 0, 0);
    guest_quit(&g);
}

static void test_no_pmu_intel(const void *data)
{
    Guest g = guest_init(data, 0);

    guest_run(&g, GUEST_CASE(no_pmu_intel), 0, 0);
    guest_quit(&g);
}

static void test_no_full_width(void)
{
    Guest g = guest_init(ICELAKE ",full-width-write=off", 0);

    guest_run(&g, GUEST_CASE(no_full_width), 0, 0);
    guest_quit(&g);
}

/* The lines that pmu=on makes QEMU print; the case holds with it. */
static unsigned new_messages(const char *model, uint32_t command, char **out,
                             char **out_without)
{
    g_autofree char *with = g_strdup_printf("-cpu %s,pmu=on", model);
    g_autofree char *without = g_strdup_printf("-cpu %s", model);
    g_autofree char *messages = NULL, *messages_without = NULL;

    *out = guest_must_run(command, 0, with, &messages);
    *out_without = guest_must_run(GUEST_CASE(no_pmu), 0, without,
                                  &messages_without);
    return guest_new_lines(messages, messages_without);
}

/* pmu=on has no effect where there cannot be one, but a warning. */
static void test_unsupported(const void *data)
{
    g_autofree char *out = NULL, *without = NULL;

    g_assert_cmpint(new_messages(data, GUEST_CASE(no_pmu), &out, &without),
                    <=, 1);
    guest_check_same(out, without);
}

/* On a model that has one there is nothing to say. */
static void test_quiet(const void *data)
{
    g_autofree char *out = NULL, *without = NULL;

    g_assert_cmpint(new_messages(data, GUEST_CASE(cpuid), &out, &without),
                    ==, 0);
}

/* ---------------------------------------------------------- Determinism */

/* The counts do not depend on how QEMU runs the code, nor on time. */
static void test_same_values(void)
{
    static const char *const args[] = {
        ICELAKE, ICELAKE, ICELAKE " -accel tcg,thread=single,tb-size=1",
        ICELAKE " -icount shift=1", NULL
    };

    guest_check_runs(GUEST_CASE(values), 0, args);
}

/* With interrupts of a timer, at the same instructions each time */
static void test_same_values_timer(void)
{
    static const char *const args[] = {
        ICELAKE " -icount shift=1", ICELAKE " -icount shift=1", NULL
    };

    guest_check_runs(GUEST_CASE(values), CONFIG_TIMER, args);
}

static void test_replay(void)
{
    guest_check_replay(GUEST_CASE(values), CONFIG_TIMER, ICELAKE);
}

/* ------------------------------------------------------------ Migration */

static void test_migrate(const void *data)
{
    const char *args = data;
    Guest from = guest_init(args, 0), to;

    guest_start(&from, GUEST_CASE(migrate), 0, 0);
    guest_wait_phase(&from, 1);
    to = guest_migrate(&from, args);
    guest_finish(&to);
    guest_quit(&to);
}

/* RESET, and so the start of the other QEMU, leaves GLOBAL_CTRL set. */
static void test_migrate_zero(void)
{
    Guest g = guest_init(ICELAKE, 0);

    guest_start(&g, GUEST_CASE(migrate_zero), 0, 0);
    guest_wait_phase(&g, 1);
    g = guest_migrate(&g, ICELAKE);
    guest_set_phase(&g, 2);
    guest_finish(&g);
    guest_quit(&g);
}

static size_t find(const char *text, size_t size, const char *what)
{
    const char *p = memmem(text, size, what, strlen(what));

    g_assert(p);
    return p - text;
}

/* An interrupt that was pending when all counters froze is not stranded. */
static void test_migrate_pending(void)
{
    Guest g = guest_init(ICELAKE, 0);
    g_autofree char *stream = NULL, *text = NULL;
    const char *section = "\013cpu/tcg_pmu";
    size_t size, at;

    guest_start(&g, GUEST_CASE(migrate_pending), 0, 0);
    guest_wait_phase(&g, 1);
    stream = guest_save(&g);
    guest_quit(&g);
    g_assert(g_file_get_contents(stream, &text, &size, NULL));
    /* Behind the version and DEBUGCTL */
    at = find(text, size, section) + strlen(section) + 4 + 8;
    g_assert_cmpint(text[at], ==, 0);
    text[at] = 1;
    g_assert(g_file_set_contents(stream, text, size, NULL));
    g = guest_load(&g, ICELAKE, stream);
    guest_set_phase(&g, 2);
    guest_finish(&g);
    guest_quit(&g);
}

typedef struct Mismatch {
    const char *path, *from, *to, *why;
} Mismatch;

/* The line that says why is the only one that is not QEMU's own. */
static void check_refusal(const char *messages, const char *why)
{
    g_auto(GStrv) lines = g_strsplit(messages, "\n", -1);
    unsigned n = 0;

    for (int i = 0; lines[i]; i++) {
        n += *lines[i] && !strstr(lines[i], "warning: ") &&
             !strstr(lines[i], "error while loading state ") &&
             !strstr(lines[i], "load of migration failed");
    }
    if (!strstr(messages, why)) {
        g_test_message("not because of \"%s\"", why);
        g_test_fail();
    }
    if (n != 1) {
        g_test_message("%u lines", n);
        g_test_fail();
    }
}

/* A CPU that differs is refused, and the one that was saved goes on. */
static void test_mismatch(const void *data)
{
    const Mismatch *m = data;
    Guest g = guest_init(m->from, 0);
    bool pmu = strstr(m->from, "pmu=on");
    g_autofree char *stream = NULL, *messages = NULL;

    if (pmu) {
        guest_start(&g, GUEST_CASE(migrate), 0, 0);
        guest_wait_phase(&g, 1);
    }
    stream = guest_save(&g);
    messages = guest_refusal(m->to, stream);
    check_refusal(messages, m->why);
    unlink(stream);
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'query-status' }");
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'cont' }");
    if (pmu) {
        guest_finish(&g);
    } else {
        guest_run(&g, GUEST_CASE(no_pmu), 0, 0);
    }
    guest_quit(&g);
}

#define ICELAKE_OFF     "-cpu Icelake-Server-v6"
#define MIX             ",pmu-model=pinned,topdown-mix=40/20/15/25"

static const Mismatch mismatches[] = {
    { "on-off", ICELAKE, ICELAKE_OFF,
      "the CPU of the stream has a PMU, this one has none: give both pmu=on "
      "or neither" },
    { "off-on", ICELAKE_OFF, ICELAKE,
      "the CPU of the stream has no PMU, this one has one: give both pmu=on "
      "or neither" },
    { "precise-off", ICELAKE ",pmu-model=precise", ICELAKE_OFF,
      "the CPU of the stream has a PMU, this one has none: give both pmu=on "
      "or neither" },
    { "on-amd", ICELAKE, "-cpu EPYC,pmu=on",
      "the CPU of the stream has a PMU, this one has none: give both pmu=on "
      "or neither" },
    { "precise-static", ICELAKE ",pmu-model=precise", ICELAKE,
      "the CPU of the stream has pmu-model=precise, this one has static: give "
      "both the same" },
    { "static-precise", ICELAKE, ICELAKE ",pmu-model=precise",
      "the CPU of the stream has pmu-model=static, this one has precise" },
    { "static-pinned", ICELAKE, ICELAKE MIX,
      "the CPU of the stream has pmu-model=static, this one has pinned" },
    { "pinned-static", ICELAKE MIX, ICELAKE,
      "the CPU of the stream has pmu-model=pinned, this one has static" },
    { "width", ICELAKE, ICELAKE ",pmu-width=6",
      "the CPU of the stream has pmu-width=5, this one has 6: give both the "
      "same" },
    { "limit", ICELAKE, ICELAKE ",pmu-metrics-ovf=4096",
      "the CPU of the stream has pmu-metrics-ovf=281474976710656, this one has "
      "4096" },
    { "full-width-write", ICELAKE, ICELAKE ",full-width-write=off",
      "the CPU of the stream has full-width-write=true, this one has false" },
    { "perf-metrics", ICELAKE, ICELAKE ",perf-metrics=off",
      "the CPU of the stream has perf-metrics=true, this one has false" },
    { "level", SAPPHIRE, ICELAKE ",pmu-width=6",
      "the CPU of the stream has PERF_METRICS level=2, this one has 1" },
};

/* ---------------------------------------------------- Streams of nobody */

#define FLIPS           40

/* What is wrong in it is refused or does no harm. */
static void test_corrupt(const void *data)
{
    const char *args = data;
    g_autoptr(GRand) rand = NULL;
    Guest g = guest_init(args, 0);
    g_autofree char *stream = NULL, *text = NULL;
    size_t size, start, end;
    unsigned loaded = 0;
    uint32_t seed = g_test_rand_int();

    g_test_message("seed 0x%x, chosen by --seed", seed);
    rand = g_rand_new_with_seed(seed);
    guest_start(&g, GUEST_CASE(migrate), 0, 0);
    guest_wait_phase(&g, 1);
    stream = guest_save(&g);
    guest_quit(&g);
    g_assert(g_file_get_contents(stream, &text, &size, NULL));

    /* Our sections, but not those behind them: the state is longer. */
    start = find(text, size, "cpu/msr_architectural_pmu");
    end = find(text, size, "\013cpu/tcg_pmu") + 0x380;
    g_assert_cmpint(start, <, end);
    g_assert_cmpint(end, <, size);
    for (int i = 0; i < FLIPS; i++) {
        g_autofree char *bad = g_memdup2(text, size);
        size_t at = g_rand_int_range(rand, start, end);
        unsigned n = 1 + g_rand_int_range(rand, 0, 8);

        for (unsigned j = 0; j < n; j++) {
            bad[at + j] = i % 4 ? g_rand_int(rand) : 0xff;
        }
        g_assert(g_file_set_contents(stream, bad, size, NULL));
        g_test_message("%u bytes from 0x%zx", n, at);
        loaded += guest_try_load(args, stream);
    }
    g_test_message("loaded: %u of %u", loaded, FLIPS);
    unlink(stream);
}

/* ------------------------------------------------------------- Stopping */

typedef struct Endless {
    const char *path, *args;
    uint64_t body;
} Endless;

/* A CPU that counts, and never leaves its blocks by itself */
static void test_stop(const void *data)
{
    const Endless *e = data;
    Guest g = guest_init(e->args, 0);

    guest_start(&g, GUEST_CASE(endless), e->body, 0);
    guest_wait_phase(&g, 1);
    for (int i = 0; i < 20; i++) {
        g_usleep(1000);
        qtest_qmp_assert_success(g.qts, "{ 'execute': 'stop' }");
        qtest_qmp_assert_success(g.qts, "{ 'execute': 'cont' }");
    }
    guest_reset(&g);
    guest_run(&g, GUEST_CASE(reset_values), 0, 0);
    guest_quit(&g);
}

/* -------------------------------------------------------------- Nonsense */

static void test_random(void)
{
    uint32_t seed = g_test_rand_int();
    Guest g = guest_init(ICELAKE, 0);

    g_test_message("seed 0x%x, chosen by --seed", seed);
    guest_run(&g, GUEST_CASE(monkey), seed, 0);
    guest_quit(&g);
}

int main(int argc, char **argv)
{
    static const Endless endless[] = {
        { "x86-pmu/stop/jmp", ICELAKE, 0 },
        { "x86-pmu/stop/rep", ICELAKE, 1 },
        { "x86-pmu/stop/jmp-single-thread",
          ICELAKE " -smp 2 -accel tcg,thread=single", 0 },
        { "x86-pmu/stop/rep-single-thread",
          ICELAKE " -smp 2 -accel tcg,thread=single", 1 },
        { "x86-pmu/stop/jmp-icount", ICELAKE " -icount shift=1", 0 },
        { "x86-pmu/stop/rep-icount", ICELAKE " -icount shift=1", 1 },
    };
    int ret;

    g_test_init(&argc, &argv, NULL);
    if (!guest_setup()) {
        return g_test_run();
    }
    guest_add_cases("x86-pmu", GUEST_CASE(none) + 1, GUEST_CASE(all),
                    test_case);

    qtest_add_data_func("x86-pmu/all/sapphire-rapids", SAPPHIRE " -smp 2",
                        test_all);
    qtest_add_data_func("x86-pmu/all/i440fx", ICELAKE " -M pc", test_all);
    qtest_add_data_func("x86-pmu/all/icount", ICELAKE " -icount shift=1",
                        test_all);
    qtest_add_data_func("x86-pmu/all/one-insn-per-tb",
                        ICELAKE " -accel tcg,one-insn-per-tb=on", test_all);
    qtest_add_data_func("x86-pmu/all/single-thread",
                        ICELAKE " -smp 2 -accel tcg,thread=single", test_all);

    qtest_add_data_func("x86-pmu/modes/vmmcall-with-svm", ICELAKE ",svm=on",
                        test_vmmcall);

    qtest_add_func("x86-pmu/reset", test_reset);
    qtest_add_func("x86-pmu/no-full-width-write", test_no_full_width);
    qtest_add_data_func("x86-pmu/no-pmu/intel", "-cpu Icelake-Server-v6",
                        test_no_pmu_intel);
    qtest_add_data_func("x86-pmu/no-pmu/intel-off",
                        "-cpu SapphireRapids,pmu=off", test_no_pmu_intel);
    qtest_add_data_func("x86-pmu/no-pmu/amd", "-cpu EPYC", test_no_pmu);
    qtest_add_data_func("x86-pmu/no-pmu/max", "-cpu max", test_no_pmu);
    qtest_add_data_func("x86-pmu/unsupported/amd", "EPYC", test_unsupported);
    qtest_add_data_func("x86-pmu/unsupported/max", "max", test_unsupported);
    qtest_add_data_func("x86-pmu/quiet", "SapphireRapids", test_quiet);

    qtest_add_func("x86-pmu/same-values/by-any-means", test_same_values);
    qtest_add_func("x86-pmu/same-values/timer", test_same_values_timer);
    qtest_add_func("x86-pmu/replay", test_replay);
    qtest_add_data_func("x86-pmu/migrate", ICELAKE, test_migrate);
    qtest_add_data_func("x86-pmu/migrate-icount", ICELAKE " -icount shift=1",
                        test_migrate);
    qtest_add_func("x86-pmu/migrate-zero", test_migrate_zero);
    qtest_add_func("x86-pmu/migrate-pending", test_migrate_pending);
    for (int i = 0; i < ARRAY_SIZE(mismatches); i++) {
        g_autofree char *path = g_strdup_printf("x86-pmu/mismatch/%s",
                                                mismatches[i].path);

        qtest_add_data_func(path, &mismatches[i], test_mismatch);
    }
    qtest_add_data_func("x86-pmu/corrupt/static", ICELAKE, test_corrupt);
    qtest_add_data_func("x86-pmu/corrupt/precise",
                        ICELAKE ",pmu-model=precise", test_corrupt);
    qtest_add_data_func("x86-pmu/corrupt/pinned", ICELAKE MIX, test_corrupt);
    for (int i = 0; i < ARRAY_SIZE(endless); i++) {
        qtest_add_data_func(endless[i].path, &endless[i], test_stop);
    }
    qtest_add_func("x86-pmu/random", test_random);

    ret = g_test_run();
    guest_cleanup();
    return ret;
}
