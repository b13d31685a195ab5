/*
 * QTest of TopDown on x86 TCG CPUs: slots and PERF_METRICS
 *
 * The rules of the registers, the prices of instructions, and the models are
 * test cases of a program (x86-pmu/topdown.c). Here are the CPU models and
 * properties to run it with, and what needs the host: reset, migration, record
 * and replay, mixes that change, bad properties.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "x86-pmu-util.h"

#define LIMIT           ",pmu-metrics-ovf=" stringify(METRICS_LIMIT)

/* Slots per cycle, and levels of TopDown, of the CPU models */
#define ICELAKE_CONFIG  5
#define SAPPHIRE_CONFIG (6 | CONFIG_LEVEL_2)
/* Others have the feature only if it is asked for. */
#define SKYLAKE         "-cpu Skylake-Server,pmu=on"
#define SKYLAKE_CONFIG  4

/* With one of its CPUs; the other is to come by -device. */
#define TWO_SOCKETS     " -smp 1,sockets=2,maxcpus=2"
#define SECOND_CPU      "SapphireRapids-x86_64-cpu"
#define SECOND_SOCKET   "socket-id=1,core-id=0,thread-id=0"
#define SECOND          " -device " SECOND_CPU "," SECOND_SOCKET

#define PRECISE         SAPPHIRE LIMIT ",pmu-model=precise"

/* The guest's part of unplugging a CPU: docs/specs/acpi_cpu_hotplug.rst */
#define HOTPLUG_SELECTOR    0xcd8
#define HOTPLUG_FLAGS       0xcdc
#define HOTPLUG_EJECT       8

/* For each CPU. QEMU itself takes 2 to 115, a precise model that stays 440. */
#define UNPLUG_LEAK_KIB     280

typedef struct Setup {
    const char *name;
    const char *args;
    uint32_t config;
} Setup;

static void test_case(const void *data)
{
    uint32_t command = GPOINTER_TO_UINT(data);
    unsigned flags = guest_case_flags(command);
    g_autofree char *args = g_strdup_printf(
        SAPPHIRE LIMIT "%s%s",
        flags & CASE_PRECISE ? ",pmu-model=precise" : "",
        flags & CASE_SMP ? " -smp 2" : "");
    Guest g = guest_init(args, SAPPHIRE_CONFIG |
                         (flags & CASE_PRECISE ? CONFIG_PRECISE : 0));

    guest_run(&g, command, 0, 0);
    guest_quit(&g);
}

/* All cases in a row, with other CPUs and options */
static const Setup all_setups[] = {
    { "icelake-level-1", ICELAKE LIMIT " -smp 2",
      ICELAKE_CONFIG | CONFIG_SMP },
    { "skylake-with-perf-metrics", SKYLAKE ",perf-metrics=on" LIMIT,
      SKYLAKE_CONFIG },
    { "width-1", SAPPHIRE LIMIT ",pmu-width=1", 1 | CONFIG_LEVEL_2 },
    { "width-3", ICELAKE LIMIT ",pmu-width=3", 3 },
    { "width-8", SAPPHIRE LIMIT ",pmu-width=8", 8 | CONFIG_LEVEL_2 },
    { "icount", SAPPHIRE LIMIT " -icount shift=1",
      SAPPHIRE_CONFIG | CONFIG_EXACT },
    { "one-insn-per-tb", SAPPHIRE LIMIT " -accel tcg,one-insn-per-tb=on",
      SAPPHIRE_CONFIG | CONFIG_EXACT },
    { "single-thread", SAPPHIRE LIMIT " -smp 2 -accel tcg,thread=single",
      SAPPHIRE_CONFIG | CONFIG_SMP },
    { "precise-icelake", ICELAKE LIMIT ",pmu-model=precise",
      ICELAKE_CONFIG | CONFIG_PRECISE },
    { "precise-one-insn-per-tb",
      SAPPHIRE LIMIT ",pmu-model=precise -accel tcg,one-insn-per-tb=on",
      SAPPHIRE_CONFIG | CONFIG_PRECISE | CONFIG_EXACT },
    { "precise-icount",
      SAPPHIRE LIMIT ",pmu-model=precise -icount shift=1",
      SAPPHIRE_CONFIG | CONFIG_PRECISE },
};

static void test_all(const void *data)
{
    const Setup *s = data;
    Guest g = guest_init(s->args, s->config);

    guest_run(&g, GUEST_CASE(all_topdown), 0, 0);
    guest_quit(&g);
}

/* One that needs another CPU */
static void run_one(uint32_t command, const char *args, uint32_t config)
{
    Guest g = guest_init(args, config);

    guest_run(&g, command, 0, 0);
    guest_quit(&g);
}

static const Setup no_metrics_setups[] = {
    { "icelake-off", ICELAKE ",perf-metrics=off", ICELAKE_CONFIG },
    { "sapphire-rapids-off", SAPPHIRE ",perf-metrics=off", SAPPHIRE_CONFIG },
    { "skylake", SKYLAKE, SKYLAKE_CONFIG },
};

static void test_no_metrics(const void *data)
{
    const Setup *s = data;

    run_one(GUEST_CASE(td_no_metrics), s->args, s->config);
}

static void test_difference(void)
{
    run_one(GUEST_CASE(td_difference), ICELAKE, ICELAKE_CONFIG);
    run_one(GUEST_CASE(td_difference), SAPPHIRE, SAPPHIRE_CONFIG);
}

static void test_zero(void)
{
    g_autofree char *file = guest_temporary_file();
    g_autofree char *args = g_strdup_printf(
        ICELAKE " -trace x86_pmu_deadline -trace x86_pmu_wrmsr -D %s", file);
    g_autofree char *text = NULL;
    unsigned deadlines = 0;

    run_one(GUEST_CASE(td_zero), args, ICELAKE_CONFIG);
    g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
    unlink(file);
    for (char *at = text; (at = strstr(at, "x86_pmu_deadline")); at++) {
        deadlines++;
    }
    /* Not in each of 5,000 turns; there is a trace, however. */
    g_assert_nonnull(strstr(text, "x86_pmu_wrmsr"));
    g_assert_cmpuint(deadlines, <, 100);
}

static void test_default_limit(void)
{
    run_one(GUEST_CASE(td_default_limit), SAPPHIRE, SAPPHIRE_CONFIG);
    run_one(GUEST_CASE(td_default_limit), SAPPHIRE ",pmu-counter-width=36",
            SAPPHIRE_CONFIG | CONFIG_SHAPE(5, 8, 4, 36));
}

static void test_reset(void)
{
    Guest g = guest_init(SAPPHIRE LIMIT, SAPPHIRE_CONFIG);

    for (int written = 0; written < 2; written++) {
        guest_run(&g, GUEST_CASE(td_reset_values), 0, 0);
        guest_run(&g, GUEST_CASE(td_fill), written, 0);
        guest_reset(&g);
    }
    guest_run(&g, GUEST_CASE(td_reset_values), 0, 0);
    guest_run(&g, GUEST_CASE(td_order), 0, 0);
    guest_quit(&g);
}

/* Software's values are kept by a migration, and cleared by a reset. */
static void test_extra(void)
{
    Guest g = guest_init(SAPPHIRE, SAPPHIRE_CONFIG);

    guest_run(&g, GUEST_CASE(td_extra_fill), 0, 0);
    guest_run(&g, GUEST_CASE(td_extra_check), 0, 0);
    g = guest_migrate(&g, SAPPHIRE);
    guest_run(&g, GUEST_CASE(td_extra_check), 0, 0);
    guest_reset(&g);
    guest_run(&g, GUEST_CASE(td_extra_fill), 0, 0);
    guest_quit(&g);
}

static QDict *query_pmu(QTestState *qts)
{
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'query-pmu' }");
    const QListEntry *first = qlist_first(qdict_get_qlist(rsp, "return"));
    QDict *pmu = qobject_to(QDict, qlist_entry_obj(first));

    qobject_ref(pmu);
    qobject_unref(rsp);
    return pmu;
}

/*
 * What follows from the model's number: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, volume 4, table 2-1. The level is that of
 * PERF_METRICS, and the registers are those of events that look at them.
 */
static void test_models(void)
{
    enum { NONE, SKL, ICL, GLC };
    static const struct {
        uint8_t width, level;
        bool registers;
    } what[] = {
        [NONE] = { 4, 0, false },
        [SKL] = { 4, 0, true },
        [ICL] = { 5, 1, true },
        [GLC] = { 6, 2, true },
    };
    static const struct {
        uint8_t model, is;
    } rows[] = {
        { 0x4d, NONE }, { 0x4e, SKL }, { 0x55, SKL }, { 0x56, NONE },
        { 0x5e, SKL }, { 0x6a, ICL }, { 0x6b, NONE }, { 0x6c, ICL },
        { 0x7d, ICL }, { 0x7e, ICL }, { 0x8c, ICL }, { 0x8d, ICL },
        { 0x8e, SKL }, { 0x8f, GLC }, { 0x9e, SKL }, { 0xa5, SKL },
        { 0xa6, SKL }, { 0xa7, ICL }, { 0xad, GLC }, { 0xae, GLC },
        { 0xcf, GLC },
    };

    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        unsigned is = rows[i].is, level = what[is].level;
        g_autofree char *args = g_strdup_printf(ICELAKE ",model=%u",
                                                rows[i].model);
        Guest g = guest_init(args, what[is].width |
                             (level > 1 ? CONFIG_LEVEL_2 : 0));
        QDict *pmu = query_pmu(g.qts);
        QDict *metrics = qdict_get_qdict(pmu, "perf-metrics");
        QDict *rsp = qtest_qmp(g.qts, "{ 'execute': 'qom-get', 'arguments':"
                               " { 'path': %s, 'property': 'pmu-width' } }",
                               qdict_get_str(pmu, "qom-path"));

        g_test_message("model 0x%x", rows[i].model);
        g_assert_cmpint(qdict_get_int(rsp, "return"), ==, what[is].width);
        g_assert_true(!metrics == !level);
        g_assert_true(level < 2 || qdict_haskey(metrics, "heavy-operations"));
        g_assert_true(level != 1 || !qdict_haskey(metrics,
                                                  "heavy-operations"));
        if (what[is].registers) {
            guest_run(&g, GUEST_CASE(td_extra), 0, 0);
        }
        qobject_unref(rsp);
        qobject_unref(pmu);
        guest_quit(&g);
    }
}

static void test_random(void)
{
    uint32_t seed = g_test_rand_int();
    Guest g = guest_init(SAPPHIRE LIMIT, SAPPHIRE_CONFIG);

    g_test_message("seed 0x%x, chosen by --seed", seed);
    guest_run(&g, GUEST_CASE(td_random), seed, 0);
    guest_quit(&g);
}

/* ------------------------------------------------------------- Pinned */

#define PINNED(mix)     SAPPHIRE LIMIT ",pmu-model=pinned,topdown-mix=" mix

/* Thousandths for the program */
#define MIX(a, b, c, d) ((a) | (b) << 16 | (uint64_t)(c) << 32 | \
                         (uint64_t)(d) << 48)

typedef struct Mix {
    const char *text;
    uint64_t level_1, level_2;
} Mix;

/* No fraction of a byte is close to where it is rounded. */
static const Mix mixes[] = {
    { "40/20/15/25", MIX(400, 200, 150, 250), 0 },
    { "11/39/21/29/5/35/11/25", MIX(110, 390, 210, 290),
      MIX(50, 350, 110, 250) },
    { "20/30/25/25/20/30/25/25", MIX(200, 300, 250, 250),
      MIX(200, 300, 250, 250) },
    { "33.3/33.3/33.3/0.1", MIX(333, 333, 333, 1), 0 },
    { "12.5%/62.5%/20%/5%/0%/3.1%/0/5%", MIX(125, 625, 200, 50),
      MIX(0, 31, 0, 50) },
    { "100/0/0/0", MIX(1000, 0, 0, 0), 0 },
    { "0/0/0/100/0/0/0/100", MIX(0, 0, 0, 1000), MIX(0, 0, 0, 1000) },
};

static void test_pinned(const void *data)
{
    const Mix *mix = data;
    g_autofree char *args = g_strdup_printf(PINNED("%s"), mix->text);
    Guest g = guest_init(args, SAPPHIRE_CONFIG);

    guest_run(&g, GUEST_CASE(td_pinned), mix->level_1, mix->level_2);
    guest_quit(&g);
}

static void test_pinned_level_1(void)
{
    const Mix *mix = &mixes[1];
    g_autofree char *args = g_strdup_printf(
        ICELAKE ",pmu-model=pinned,topdown-mix=%s", mix->text);
    Guest g = guest_init(args, ICELAKE_CONFIG);

    guest_run(&g, GUEST_CASE(td_pinned), mix->level_1, mix->level_2);
    guest_quit(&g);
}

static char *cpu_path(QTestState *qts, unsigned index)
{
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'query-cpus-fast' }");
    QList *cpus = qdict_get_qlist(rsp, "return");
    const QListEntry *e;
    char *path = NULL;

    QLIST_FOREACH_ENTRY(cpus, e) {
        QDict *cpu = qobject_to(QDict, qlist_entry_obj(e));

        if (qdict_get_int(cpu, "cpu-index") == index) {
            path = g_strdup(qdict_get_str(cpu, "qom-path"));
        }
    }
    qobject_unref(rsp);
    g_assert(path);
    return path;
}

static char *get_mix(QTestState *qts, unsigned cpu)
{
    g_autofree char *path = cpu_path(qts, cpu);
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'qom-get', 'arguments': "
                           "{ 'path': %s, 'property': 'topdown-mix' } }",
                           path);
    char *mix = g_strdup(qdict_get_str(rsp, "return"));

    qobject_unref(rsp);
    return mix;
}

static void set_mix(QTestState *qts, unsigned cpu, const char *mix)
{
    g_autofree char *path = cpu_path(qts, cpu);

    qtest_qmp_assert_success(qts, "{ 'execute': 'qom-set', 'arguments': "
                             "{ 'path': %s, 'property': 'topdown-mix', "
                             "'value': %s } }", path, mix);
}

static void check_mix(QTestState *qts, unsigned cpu, const char *want)
{
    g_autofree char *mix = get_mix(qts, cpu);

    g_assert_cmpstr(mix, ==, want);
}

/* Each CPU has its own, from the start and after a change. */
static void test_pinned_two(void)
{
    const Mix *one = &mixes[1], *two = &mixes[2];
    g_autofree char *args = g_strdup_printf(
        PINNED("%s") TWO_SOCKETS SECOND ",topdown-mix=%s",
        one->text, two->text);
    Guest g = guest_init(args, SAPPHIRE_CONFIG);

    guest_run(&g, GUEST_CASE(td_pinned), one->level_1, one->level_2);
    guest_run(&g, GUEST_CASE(td_pinned_ap), two->level_1, two->level_2);
    check_mix(g.qts, 0, one->text);
    check_mix(g.qts, 1, two->text);
    set_mix(g.qts, 1, mixes[0].text);
    check_mix(g.qts, 0, one->text);
    guest_run(&g, GUEST_CASE(td_pinned), one->level_1, one->level_2);
    guest_run(&g, GUEST_CASE(td_pinned_ap), mixes[0].level_1, 0);
    guest_quit(&g);
}

/* Only one of two models need be pinned. */
static void test_pinned_one_of_two(void)
{
    const Mix *mix = &mixes[1];
    g_autofree char *args = g_strdup_printf(
        SAPPHIRE LIMIT TWO_SOCKETS SECOND
        ",pmu-model=pinned,topdown-mix=%s", mix->text);
    Guest g = guest_init(args, SAPPHIRE_CONFIG);

    guest_run(&g, GUEST_CASE(td_prices), 0, 0);
    guest_run(&g, GUEST_CASE(td_pinned_ap), mix->level_1, mix->level_2);
    guest_run(&g, GUEST_CASE(td_prices), 0, 0);
    guest_quit(&g);
}

/* What the change leaves out is what has been counted before. */
#define FIRST_MIX       "40/20/15/25"
#define SECOND_MIX      "10/15/55/20"

static Guest start_change(void)
{
    Guest g = guest_init(PINNED(FIRST_MIX), SAPPHIRE_CONFIG);

    guest_start(&g, GUEST_CASE(td_pinned_change), MIX(400, 200, 150, 250),
                MIX(100, 150, 550, 200));
    guest_wait_phase(&g, 1);
    check_mix(g.qts, 0, FIRST_MIX);
    return g;
}

static void finish_change(Guest *g)
{
    check_mix(g->qts, 0, SECOND_MIX);
    guest_set_phase(g, 2);
    guest_finish(g);
    guest_quit(g);
}

static void test_pinned_change(void)
{
    Guest g = start_change();

    set_mix(g.qts, 0, SECOND_MIX);
    finish_change(&g);
}

/* Several, of which only the last one meets any slots */
static void test_pinned_changes(void)
{
    Guest g = start_change();

    set_mix(g.qts, 0, "100/0/0/0");
    set_mix(g.qts, 0, "0/0/0/100/0/0/0/100");
    set_mix(g.qts, 0, SECOND_MIX);
    finish_change(&g);
}

/*
 * Some events are retiring slots less those that bandwidth limits: none with a
 * mix of more bandwidth, before or after another mix.
 */
static void test_pinned_bandwidth(void)
{
    static const Mix pairs[][2] = {
        { { "40/20/15/25", MIX(400, 200, 150, 250) },
          { "10/15/55/20", MIX(100, 150, 550, 200) } },
        { { "10/15/55/20", MIX(100, 150, 550, 200) },
          { "40/20/15/25", MIX(400, 200, 150, 250) } },
        { { "40/20/15/25", MIX(400, 200, 150, 250) },
          { "30/35/10/25", MIX(300, 350, 100, 250) } },
    };

    for (int i = 0; i < ARRAY_SIZE(pairs); i++) {
        g_autofree char *args = g_strdup_printf(PINNED("%s"), pairs[i][0].text);
        Guest g = guest_init(args, SAPPHIRE_CONFIG);

        guest_start(&g, GUEST_CASE(td_pinned_bandwidth), pairs[i][0].level_1,
                    pairs[i][1].level_1);
        guest_wait_phase(&g, 1);
        set_mix(g.qts, 0, "0/0/100/0");
        set_mix(g.qts, 0, pairs[i][1].text);
        guest_set_phase(&g, 2);
        guest_finish(&g);
        guest_quit(&g);
    }
}

/*
 * No event contradicts another one, whatever the mix is; but it may ask for
 * more mispredicts than there are branches.
 */
static void test_pinned_identities(void)
{
    static const Setup setups[] = {
        { "level-2", PINNED(FIRST_MIX), SAPPHIRE_CONFIG },
        { "level-1",
          ICELAKE ",pmu-model=pinned,topdown-mix=10/30/35/25/3/20/5/15",
          ICELAKE_CONFIG },
    };

    for (int i = 0; i < ARRAY_SIZE(setups); i++) {
        Guest g = guest_init(setups[i].args, setups[i].config);

        guest_run(&g, GUEST_CASE(td_identities), 1, 0);
        guest_quit(&g);
    }
}

/* Migration takes the current mix along; the command line has another. */
static void test_pinned_migrate(void)
{
    Guest g = start_change();

    set_mix(g.qts, 0, SECOND_MIX);
    g = guest_migrate(&g, PINNED(FIRST_MIX));
    finish_change(&g);
}

/* A mix that adds up to too much is refused, and the old one stays. */
static void test_pinned_refused(void)
{
    static const char section[] = "cpu/tcg_pmu/mix";
    Guest g = guest_init(PINNED(FIRST_MIX), SAPPHIRE_CONFIG);
    g_autofree char *stream = NULL, *text = NULL;
    QTestState *qts;
    size_t size;
    char *mix;
    bool done;

    set_mix(g.qts, 0, SECOND_MIX);
    stream = guest_save(&g);
    guest_quit(&g);
    for (int i = 0; i < 2; i++) {
        qts = guest_load_bad(PINNED(FIRST_MIX), stream, &done);
        g_assert_cmpint(done, ==, i == 0);
        check_mix(qts, 0, i == 0 ? SECOND_MIX : FIRST_MIX);
        qtest_quit(qts);
        if (i == 0) {
            g_assert(g_file_get_contents(stream, &text, &size, NULL));
            mix = memmem(text, size, section, strlen(section));
            g_assert(mix);
            mix[strlen(section) + 4] = 1;       /* behind its version */
            g_assert(g_file_set_contents(stream, text, size, NULL));
        }
    }
    unlink(stream);
}

static void test_pinned_get(void)
{
    static const char *const t[][2] = {
        { "25/25/25/25", "25/25/25/25" },
        { "25,25,25,25", "25/25/25/25" },
        { "25%/25%/25%/25%", "25/25/25/25" },
        { "12.5/37.5/30/20/1/2/3/4.25", "12.5/37.5/30/20/1/2/3/4.25" },
        { "0/0/0/100/0/0/0/99.5", "0/0/0/100/0/0/0/99.5" },
    };
    Guest g = guest_init(PINNED(FIRST_MIX), SAPPHIRE_CONFIG);

    check_mix(g.qts, 0, FIRST_MIX);
    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        set_mix(g.qts, 0, t[i][0]);
        check_mix(g.qts, 0, t[i][1]);
    }
    guest_quit(&g);
}

/* Other than with -cpu, commas need not be in the way. */
static void test_pinned_comma(void)
{
    const Mix *mix = &mixes[1];
    g_autofree char *text = g_strdelimit(g_strdup(mix->text), "/", ',');
    g_autofree char *args = g_strdup_printf(
        SAPPHIRE ",pmu-model=pinned -global " SECOND_CPU ".topdown-mix=%s",
        text);
    Guest g = guest_init(args, SAPPHIRE_CONFIG);

    guest_run(&g, GUEST_CASE(td_pinned), mix->level_1, mix->level_2);
    check_mix(g.qts, 0, mix->text);
    guest_quit(&g);
}

/* ----------------------------------------------------------- Bad input */

static const char *const bad_mixes[] = {
    "50/20/20/20", "10/10/10/10", "40.02/20/20/20", "0/0/0/0",
    "40/20/20", "100", "40/20/20/20/10", "40/20/20/20/1/1/1",
    "40/20/20/20/1/1/1/1/1", "40/20/20/20/1/1/1/1/",
    "", "/", "///", "40/20/20/20/", "/40/20/20/20", "40//20/20/20",
    "-10/50/30/30", "110/-10/0/0", "40/20/20/20/-1/0/0/0",
    "nan/20/20/20", "nan/nan/nan/nan", "inf/0/0/0", "-inf/0/0/0",
    "1e999/0/0/0", "40/20/20/20/nan/0/0/0",
    "a/b/c/d", "retiring=40/20/20/20", "40x/20/20/20", "40%%/20/20/20",
    "40 %/20/20/20", "40/20/20/20 ", "%/20/20/60", "40:20:20:20",
    "40/20/20/20/41/0/0/0", "40/20/20/20/0/20.5/0/0",
    "40/20/20/20/0/0/100/0", "40/20/20/20/0/0/0/21",
};

/* QEMU ends at once, with one line that says why, besides any warnings. */
static void check_refused(const char *args, const char *why)
{
    g_autofree char *text = NULL, *messages = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned errors = 0;

    text = guest_run_alone(GUEST_CASE(cpuid), 0, args, &messages);
    lines = g_strsplit(messages, "\n", -1);
    for (int i = 0; lines[i]; i++) {
        errors += *lines[i] && !strstr(lines[i], ": warning: ");
    }
    if (*text) {
        g_test_message("not refused: %s", args);
        g_test_fail();
    } else if (!strstr(messages, why)) {
        g_test_message("not because of \"%s\"", why);
        g_test_fail();
    } else if (errors != 1) {
        g_test_message("not one line: %s", args);
        g_test_fail();
    }
}

static void test_bad_mixes(void)
{
    for (int i = 0; i < ARRAY_SIZE(bad_mixes); i++) {
        g_autofree char *args = g_strdup_printf(
            "-cpu 'SapphireRapids,pmu=on,pmu-model=pinned,topdown-mix=%s'",
            bad_mixes[i]);

        check_refused(args, "topdown-mix: ");
    }
}

/* Rounding of the first four is none of the user's business. */
static void test_good_mixes(void)
{
    static const char *const good[] = {
        "33.333/33.333/33.333/0", "40.005/20/20/20",
        "14.2857/28.5714/57.1429/0", "33.34/33.34/33.33/0/33.34/0/0/0",
    };

    for (int i = 0; i < ARRAY_SIZE(good); i++) {
        g_autofree char *args = g_strdup_printf(PINNED("%s"), good[i]);

        g_free(guest_must_run(GUEST_CASE(cpuid), 0, args, NULL));
    }
}

static const struct {
    const char *args, *why;
} bad_properties[] = {
    { SAPPHIRE ",pmu-model=pinned", "pmu-model=pinned: needs topdown-mix" },
    { SAPPHIRE ",topdown-mix=40/20/20/20",
      "topdown-mix: needs pmu-model=pinned" },
    { SAPPHIRE ",pmu-model=static,topdown-mix=40/20/20/20",
      "topdown-mix: needs pmu-model=pinned" },
    { SAPPHIRE ",pmu-model=precise,topdown-mix=40/20/20/20",
      "topdown-mix: needs pmu-model=pinned" },
    { SAPPHIRE ",pmu-model=exact", "exact" },
    { SAPPHIRE ",pmu-model=", "pmu-model" },
    { SAPPHIRE ",pmu-width=0", "pmu-width: must be 1 to 8 slots per cycle" },
    { SAPPHIRE ",pmu-width=9", "pmu-width: must be 1 to 8 slots per cycle" },
    { SAPPHIRE ",pmu-width=-1", "pmu-width: must be 1 to 8 slots per cycle" },
    { SAPPHIRE ",pmu-width=257",
      "pmu-width: must be 1 to 8 slots per cycle" },
    { SAPPHIRE ",pmu-width=4294967302",
      "pmu-width: must be 1 to 8 slots per cycle" },
    { SAPPHIRE ",pmu-width=5.5", "pmu-width" },
    { SAPPHIRE ",pmu-width=wide", "pmu-width" },
    { SAPPHIRE ",pmu-width=", "pmu-width" },
    { SAPPHIRE ",pmu-metrics-ovf=1023",
      "pmu-metrics-ovf: must be 1024 to 281474976710656 slots" },
    { SAPPHIRE ",pmu-metrics-ovf=0",
      "pmu-metrics-ovf: must be 1024 to 281474976710656 slots" },
    { SAPPHIRE ",pmu-metrics-ovf=281474976710657",
      "pmu-metrics-ovf: must be 1024 to 281474976710656 slots" },
    { SAPPHIRE ",pmu-metrics-ovf=-1", "pmu-metrics-ovf" },
    { SAPPHIRE ",pmu-metrics-ovf=many", "pmu-metrics-ovf" },
    { SAPPHIRE ",pmu-metrics-ovf=99999999999999999999", "pmu-metrics-ovf" },
    /* They would have no effect. */
    { "-cpu SapphireRapids,pmu-model=static", "need pmu=on" },
    { "-cpu SapphireRapids,pmu-model=precise", "need pmu=on" },
    { "-cpu SapphireRapids,pmu-width=6", "need pmu=on" },
    { "-cpu SapphireRapids,pmu-metrics-ovf=4096", "need pmu=on" },
    { "-cpu SapphireRapids,topdown-mix=40/20/20/20", "need pmu=on" },
    { "-cpu SapphireRapids,pmu=off,pmu-model=pinned,topdown-mix=40/20/20/20",
      "need pmu=on" },
    /* What the CPUs of a machine have in common */
    { SAPPHIRE TWO_SOCKETS SECOND ",pmu=off",
      "pmu: must be on for all CPUs or for none" },
    { "-cpu SapphireRapids" TWO_SOCKETS SECOND ",pmu=on",
      "pmu: must be on for all CPUs or for none" },
    /* Where there is no TCG, they have no effect either. */
    { "-accel qtest -cpu SapphireRapids,pmu-width=6",
      "pmu-width: needs -accel tcg" },
    { "-accel qtest -cpu SapphireRapids,pmu=on,pmu-model=static",
      "pmu-model: needs -accel tcg" },
    { "-accel qtest -cpu max,pmu-metrics-ovf=4096",
      "pmu-metrics-ovf: needs -accel tcg" },
    { "-accel qtest -cpu qemu64,topdown-mix=40/20/20/20",
      "topdown-mix: needs -accel tcg" },
    { SAPPHIRE TWO_SOCKETS SECOND ",pmu-width=5",
      "pmu-width: must be the same on all CPUs" },
    { SAPPHIRE ",pmu-width=5" TWO_SOCKETS SECOND ",pmu-width=6",
      "pmu-width: must be the same on all CPUs" },
    { SAPPHIRE TWO_SOCKETS SECOND ",pmu-model=precise",
      "pmu-model: must be precise on all CPUs or none" },
    { SAPPHIRE ",pmu-model=precise" TWO_SOCKETS SECOND ",pmu-model=static",
      "pmu-model: must be precise on all CPUs or none" },
    { SAPPHIRE ",pmu-model=precise" TWO_SOCKETS SECOND
      ",pmu-model=pinned,topdown-mix=40/20/20/20",
      "pmu-model: must be precise on all CPUs or none" },
};

static void test_bad_properties(void)
{
    for (int i = 0; i < ARRAY_SIZE(bad_properties); i++) {
        check_refused(bad_properties[i].args, bad_properties[i].why);
    }
}

/* pmu=on has no effect there, and neither have those that need it. */
static void test_bad_vendor(void)
{
    static const char *const properties[] = {
        "pmu-width=5", "pmu-model=precise", "pmu-metrics-ovf=4096",
        "pmu-model=pinned,topdown-mix=40/20/20/20",
    };
    static const char *const models[] = { "EPYC", "max" };

    for (int i = 0; i < ARRAY_SIZE(models); i++) {
        for (int j = 0; j < ARRAY_SIZE(properties); j++) {
            g_autofree char *args = g_strdup_printf("-cpu %s,pmu=on,%s",
                                                    models[i], properties[j]);

            check_refused(args, "need a CPU model of Intel");
        }
    }
}

static void check_error(QDict *error, const char *why)
{
    const char *desc = qdict_get_str(error, "desc");

    g_test_message("%s", desc);
    g_assert(strstr(desc, why));
    g_assert(!strchr(desc, '\n'));
    qobject_unref(error);
}

/* An error that changes nothing */
static void check_bad_set(QTestState *qts, const char *property,
                          const char *value, const char *why)
{
    g_autofree char *path = cpu_path(qts, 0);

    check_error(qtest_qmp_assert_failure_ref(
        qts, "{ 'execute': 'qom-set', 'arguments': "
        "{ 'path': %s, 'property': %s, 'value': %s } }",
        path, property, value), why);
}

static void check_bad_set_int(QTestState *qts, const char *property,
                              int value, const char *why)
{
    g_autofree char *path = cpu_path(qts, 0);

    check_error(qtest_qmp_assert_failure_ref(
        qts, "{ 'execute': 'qom-set', 'arguments': "
        "{ 'path': %s, 'property': %s, 'value': %d } }",
        path, property, value), why);
}

/* Among counting: nothing is different from a change that succeeds. */
static void test_bad_changes(void)
{
    Guest g = start_change();

    for (int i = 0; i < ARRAY_SIZE(bad_mixes); i++) {
        check_bad_set(g.qts, "topdown-mix", bad_mixes[i], "topdown-mix: ");
        check_mix(g.qts, 0, FIRST_MIX);
    }
    check_bad_set_int(g.qts, "topdown-mix", 100, "topdown-mix");
    check_mix(g.qts, 0, FIRST_MIX);
    set_mix(g.qts, 0, SECOND_MIX);
    for (int i = 0; i < ARRAY_SIZE(bad_mixes); i++) {
        check_bad_set(g.qts, "topdown-mix", bad_mixes[i], "topdown-mix: ");
    }
    finish_change(&g);
}

/* What is for the start only */
static void test_bad_time(void)
{
    static const char *const cpus[] = {
        SAPPHIRE LIMIT, SAPPHIRE LIMIT ",pmu-model=precise",
    };

    for (int i = 0; i < ARRAY_SIZE(cpus); i++) {
        Guest g = guest_init(cpus[i], SAPPHIRE_CONFIG |
                             (i ? CONFIG_PRECISE : 0));

        check_bad_set(g.qts, "pmu-model", "static",
                      "pmu-model: cannot be changed at run time");
        check_bad_set(g.qts, "pmu-model", "exact", "exact");
        check_bad_set_int(g.qts, "pmu-width", 5,
                          "pmu-width: cannot be changed at run time");
        check_bad_set_int(g.qts, "pmu-metrics-ovf", 2048,
                          "pmu-metrics-ovf: cannot be changed at run time");
        check_bad_set(g.qts, "topdown-mix", "40/20/20/20",
                      "topdown-mix: needs pmu-model=pinned");
        guest_run(&g, i ? GUEST_CASE(tdp_prices) : GUEST_CASE(td_prices),
                  0, 0);
        guest_run(&g, GUEST_CASE(td_overflow_exact), 0, 0);
        guest_quit(&g);
    }
}

/* All CPUs of a machine have a PMU, or none has, also those that come later. */
static void test_bad_hotplug_mixed(void)
{
    for (int on = 0; on < 2; on++) {
        Guest g = guest_init(on ? SAPPHIRE TWO_SOCKETS
                                : "-cpu SapphireRapids" TWO_SOCKETS, 0);

        check_error(qtest_qmp_assert_failure_ref(
            g.qts, "{ 'execute': 'device_add', 'arguments': { "
            "'driver': '" SECOND_CPU "', 'socket-id': 1, 'core-id': 0, "
            "'thread-id': 0, 'pmu': %i } }", !on),
            "pmu: must be on for all CPUs or for none");
        guest_run(&g, on ? GUEST_CASE(cpuid) : GUEST_CASE(no_pmu), 0, 0);
        guest_quit(&g);
    }
}

/* A CPU that comes later has to fit, too. */
static void test_bad_hotplug(void)
{
    static const struct {
        const char *model, *why;
        int width;
    } t[] = {
        { "static", "pmu-width: must be the same on all CPUs", 5 },
        { "precise", "pmu-model: must be precise on all CPUs or none", 6 },
        { "static", "pmu-width: must be 1 to 8 slots per cycle", 9 },
        { "pinned", "pmu-model=pinned: needs topdown-mix", 6 },
    };
    Guest g = guest_init(SAPPHIRE LIMIT TWO_SOCKETS,
                         SAPPHIRE_CONFIG | CONFIG_SMP);

    for (int i = 0; i < ARRAY_SIZE(t); i++) {
        check_error(qtest_qmp_assert_failure_ref(
            g.qts, "{ 'execute': 'device_add', 'arguments': { "
            "'driver': '" SECOND_CPU "', 'socket-id': 1, 'core-id': 0, "
            "'thread-id': 0, 'pmu-model': %s, 'pmu-width': %d } }",
            t[i].model, t[i].width), t[i].why);
    }
    qtest_qmp_assert_success(
        g.qts, "{ 'execute': 'device_add', 'arguments': { "
        "'driver': '" SECOND_CPU "', 'socket-id': 1, 'core-id': 0, "
        "'thread-id': 0 } }");
    guest_run(&g, GUEST_CASE(td_smp), 0, 0);
    guest_quit(&g);
}

static void plug_second(Guest *g)
{
    qtest_qmp_assert_success(
        g->qts, "{ 'execute': 'device_add', 'arguments': { "
        "'driver': '" SECOND_CPU "', 'id': 'second', 'socket-id': 1, "
        "'core-id': 0, 'thread-id': 0 } }");
}

static void unplug_second(Guest *g)
{
    /* The first 0 switches from the interface of before QEMU 2.7. */
    qtest_outl(g->qts, HOTPLUG_SELECTOR, 0);
    qtest_qmp_assert_success(g->qts, "{ 'execute': 'device_del', "
                             "'arguments': { 'id': 'second' } }");
    qtest_outl(g->qts, HOTPLUG_SELECTOR, 1);
    qtest_outb(g->qts, HOTPLUG_FLAGS, HOTPLUG_EJECT);
    qtest_qmp_eventwait(g->qts, "DEVICE_DELETED");
}

static uint64_t resident_kib(Guest *g)
{
    g_autofree char *file = g_strdup_printf("/proc/%d/status",
                                            qtest_pid(g->qts));
    g_autofree char *text = NULL;
    const char *line;

    g_assert(g_file_get_contents(file, &text, NULL, NULL));
    line = strstr(text, "\nVmRSS:");
    g_assert(line);
    return g_ascii_strtoull(line + strlen("\nVmRSS:"), NULL, 10);
}

/*
 * The least memory that QEMU has until this has not become less for half a
 * second: another thread of QEMU (call_rcu) frees what an unplugged CPU had.
 */
static uint64_t settled_kib(Guest *g)
{
    uint64_t least = UINT64_MAX;

    for (unsigned same = 0; same < 50; same++) {
        uint64_t now = resident_kib(g);

        if (now < least) {
            least = now;
            same = 0;
        }
        g_usleep(10000);
    }
    return least;
}

/*
 * CPUs that count, with a deadline set, are unplugged: nothing of their PMUs
 * stays, and those that come later count right.
 *
 * QEMU cannot unplug a CPU whose thread others share. It has as many contexts
 * of TCG as there can be CPUs, and each thread that starts takes another one.
 */
static void test_unplug(void)
{
    enum { WARM_UP = 3, TURNS = 8 };
    Guest g = guest_init(PRECISE " -smp 1,sockets=16,maxcpus=16",
                         SAPPHIRE_CONFIG | CONFIG_SMP | CONFIG_PRECISE);
    uint64_t before = 0, after;
    unsigned tries = 0;

    for (int i = 0; i < WARM_UP + TURNS; i++) {
        if (i == WARM_UP) {
            before = settled_kib(&g);
        }
        plug_second(&g);
        guest_run(&g, GUEST_CASE(td_unplug), 0, 0);
        unplug_second(&g);
    }
    /* On a busy host, the thread that frees can be late by seconds. */
    do {
        after = settled_kib(&g);
    } while (after > before + TURNS * UNPLUG_LEAK_KIB && ++tries < 60);
    g_test_message("from %" PRIu64 " to %" PRIu64 " KiB", before, after);
    g_assert_cmpint(after, <=, before + TURNS * UNPLUG_LEAK_KIB);
    plug_second(&g);
    guest_run(&g, GUEST_CASE(smp_independent), 0, 0);
    guest_quit(&g);
}

/* ---------------------------------------------------------- Determinism */

/* The counts do not depend on how QEMU runs the code, nor on time. */
static void test_same_values(void)
{
    static const char *const args[] = {
        SAPPHIRE LIMIT, SAPPHIRE LIMIT,
        SAPPHIRE LIMIT " -accel tcg,thread=single,tb-size=1",
        SAPPHIRE LIMIT " -accel tcg,one-insn-per-tb=on",
        SAPPHIRE LIMIT " -icount shift=1", NULL
    };

    guest_check_runs(GUEST_CASE(td_values), SAPPHIRE_CONFIG, args);
}

/*
 * Migrate again and again at random points, or go back to them: what the guest
 * counts, and where its interrupts come, is what it is without. The environment
 * variable PMU_MIGRATIONS has the number.
 */
static void check_often(const char *args, bool back)
{
    const char *number = g_getenv("PMU_MIGRATIONS");
    unsigned n = number ? atoi(number) : 20, none = 0;
    g_autofree char *expect = NULL;

    for (bool first = true; first || n; first = false) {
        /* A new one: what has run before is in caches and predictors. */
        Guest g = guest_init(args, SAPPHIRE_CONFIG | (strstr(args, "precise") ?
                                                      CONFIG_PRECISE : 0));
        g_autofree char *text = guest_run_migrating(&g, back ? NULL : args,
                                                    GUEST_CASE(td_values), 0,
                                                    0, first ? &none : &n);

        guest_quit(&g);
        if (first) {
            expect = g_steal_pointer(&text);
            g_assert_cmpint(strlen(expect), >, 0);
        } else if (strcmp(text, expect)) {
            g_test_message("%s", text);
            g_test_fail();
            break;
        }
    }
}

static void test_migrate_often(const void *args)
{
    check_often(args, false);
}

static void test_back_often(const void *args)
{
    g_autofree char *disk = guest_disk();
    g_autofree char *all = g_strdup_printf("%s" GUEST_DISK, (const char *)args,
                                           disk);

    check_often(all, true);
    unlink(disk);
}

static void test_same_values_precise(void)
{
    static const char *const args[] = {
        PRECISE, PRECISE, PRECISE " -accel tcg,thread=single,tb-size=1",
        PRECISE " -accel tcg,one-insn-per-tb=on",
        PRECISE " -smp 2",      /* in parallel: locked instructions differ */
        PRECISE " -icount shift=1", NULL
    };

    guest_check_runs(GUEST_CASE(td_values),
                     SAPPHIRE_CONFIG | CONFIG_PRECISE, args);
}

/* With interrupts of a timer, at the same instructions each time */
static void test_same_values_timer(void)
{
    static const char *const args[] = {
        PRECISE " -icount shift=1", PRECISE " -icount shift=1", NULL
    };

    guest_check_runs(GUEST_CASE(td_values),
                     SAPPHIRE_CONFIG | CONFIG_PRECISE | CONFIG_EXACT |
                     CONFIG_TIMER, args);
}

/* RESET clears predictors, caches, and fractions, as at the start. */
static void test_same_values_reset(void)
{
    Guest g = guest_init(PRECISE, SAPPHIRE_CONFIG | CONFIG_PRECISE);
    unsigned none = 0;
    char *text[2];

    for (int i = 0; i < 2; i++) {
        if (i) {
            guest_reset(&g);
        }
        text[i] = guest_run_migrating(&g, PRECISE, GUEST_CASE(td_values), 0, 0,
                                      &none);
    }
    guest_quit(&g);
    g_assert_cmpint(strlen(text[0]), >, 1000);
    guest_check_same(text[0], text[1]);
    g_free(text[0]);
    g_free(text[1]);
}

static void test_replay(void)
{
    guest_check_replay(GUEST_CASE(td_values), SAPPHIRE_CONFIG | CONFIG_TIMER,
                       SAPPHIRE LIMIT);
}

static void test_replay_precise(void)
{
    guest_check_replay(GUEST_CASE(td_values),
                       SAPPHIRE_CONFIG | CONFIG_PRECISE | CONFIG_EXACT |
                       CONFIG_TIMER, PRECISE);
}

/* ------------------------------------------------------------ Migration */

#define PANIC_PORT      0x505

static const Setup migrate_setups[] = {
    { "sapphire-rapids", SAPPHIRE LIMIT, SAPPHIRE_CONFIG },
    { "icelake", ICELAKE LIMIT, ICELAKE_CONFIG },
    { "icount", SAPPHIRE LIMIT " -icount shift=1",
      SAPPHIRE_CONFIG | CONFIG_EXACT },
};

/* While it counts, and with METRICS about to overflow */
static void test_migrate(const void *data)
{
    static const uint32_t commands[] = {
        GUEST_CASE(td_migrate), GUEST_CASE(td_migrate_overflow),
    };
    const Setup *s = data;
    Guest g = guest_init(s->args, s->config);

    for (int i = 0; i < ARRAY_SIZE(commands); i++) {
        guest_start(&g, commands[i], 0, 0);
        guest_wait_phase(&g, 1);
        g = guest_migrate(&g, s->args);
        guest_set_phase(&g, 2);
        guest_finish(&g);
    }
    guest_quit(&g);
}

/* When the counters freeze: the one that goes on is the saved or the loaded */
static void test_migrate_freeze(const void *data)
{
    const Setup *s = data;
    g_autofree char *args = g_strdup_printf("%s -device pvpanic,ioport=0x%x "
                                            "-action panic=pause", s->args,
                                            PANIC_PORT);

    for (int i = 0; i < 10; i++) {
        Guest g = guest_init(args, s->config), to;

        guest_start(&g, GUEST_CASE(td_freeze_stop), PANIC_PORT,
                    LOOSE_NOPS + 2 + i / 2);
        qtest_qmp_eventwait(g.qts, "STOP");
        if (i % 2) {
            to = guest_migrate(&g, args);
        } else {
            g_autofree char *stream = guest_save(&g);

            unlink(stream);
            to = g;
        }
        qtest_qmp_assert_success(to.qts, "{ 'execute': 'cont' }");
        guest_finish(&to);
        guest_quit(&to);
    }
}

/* Without counting in between: a state that was counted, or written */
static void test_migrate_registers(const void *data)
{
    const Setup *s = data;
    Guest g = guest_init(s->args, s->config);

    for (int written = 0; written < 2; written++) {
        guest_run(&g, GUEST_CASE(td_fill), written, 0);
        g = guest_migrate(&g, s->args);
        guest_run(&g, GUEST_CASE(td_filled), written, 0);
    }
    guest_quit(&g);
}

/*
 * Nothing is different from not migrating: the models go along, and the state
 * of filters.
 */
static void check_migrated(const Setup *s, uint32_t command)
{
    char *text[2];

    for (int i = 0; i < 2; i++) {
        Guest g = guest_init(s->args, s->config);

        guest_start(&g, command, 0, 0);
        guest_wait_phase(&g, 1);
        if (strstr(s->args, "pinned")) {
            set_mix(g.qts, 0, SECOND_MIX);
        }
        if (i) {
            g = guest_migrate(&g, s->args);
        }
        guest_set_phase(&g, 2);
        guest_finish(&g);
        text[i] = guest_text(&g);
        guest_quit(&g);
    }
    g_assert_cmpint(strlen(text[0]), >, 100);
    guest_check_same(text[0], text[1]);
    g_free(text[0]);
    g_free(text[1]);
}

static void test_migrate_models(void)
{
    static const Setup precise = {
        "precise", PRECISE, SAPPHIRE_CONFIG | CONFIG_PRECISE
    };

    check_migrated(&precise, GUEST_CASE(td_migrate_models));
}

static const Setup filter_setups[] = {
    { "static", SAPPHIRE LIMIT, SAPPHIRE_CONFIG },
    { "precise", PRECISE, SAPPHIRE_CONFIG | CONFIG_PRECISE },
    { "pinned", PINNED(FIRST_MIX), SAPPHIRE_CONFIG },
    { "icount", ICELAKE LIMIT " -icount shift=1", ICELAKE_CONFIG },
};

static void test_migrate_filter(const void *data)
{
    check_migrated(data, GUEST_CASE(td_migrate_filter));
}

static void add_setups(const char *prefix, const Setup *setups, unsigned n,
                       void (*fn)(const void *))
{
    for (unsigned i = 0; i < n; i++) {
        g_autofree char *path = g_strdup_printf("x86-topdown/%s/%s", prefix,
                                                setups[i].name);

        qtest_add_data_func(path, &setups[i], fn);
    }
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    if (!guest_setup()) {
        return g_test_run();
    }
    guest_add_cases("x86-topdown", GUEST_CASE(all) + 1,
                    GUEST_CASE(all_topdown), test_case);
    add_setups("all", all_setups, ARRAY_SIZE(all_setups), test_all);
    add_setups("registers/no-metrics", no_metrics_setups,
               ARRAY_SIZE(no_metrics_setups), test_no_metrics);
    qtest_add_func("x86-topdown/registers/reset", test_reset);
    qtest_add_func("x86-topdown/registers/offcore-kept-and-cleared",
                   test_extra);
    qtest_add_func("x86-topdown/registers/models", test_models);
    qtest_add_func("x86-topdown/rule-5/default-limit", test_default_limit);
    qtest_add_func("x86-topdown/random", test_random);
    qtest_add_func("x86-topdown/events/difference", test_difference);
    qtest_add_func("x86-topdown/events/zero", test_zero);

    for (int i = 0; i < ARRAY_SIZE(mixes); i++) {
        g_autofree char *path = g_strdup_printf("x86-topdown/pinned/mix/%d",
                                                i);

        qtest_add_data_func(path, &mixes[i], test_pinned);
    }
    qtest_add_func("x86-topdown/pinned/level-1", test_pinned_level_1);
    qtest_add_func("x86-topdown/pinned/two-cpus", test_pinned_two);
    qtest_add_func("x86-topdown/pinned/one-of-two-cpus",
                   test_pinned_one_of_two);
    qtest_add_func("x86-topdown/pinned/change", test_pinned_change);
    qtest_add_func("x86-topdown/pinned/changes", test_pinned_changes);
    qtest_add_func("x86-topdown/pinned/bandwidth", test_pinned_bandwidth);
    qtest_add_func("x86-topdown/pinned/identities", test_pinned_identities);
    qtest_add_func("x86-topdown/pinned/change-and-migrate",
                   test_pinned_migrate);
    qtest_add_func("x86-topdown/pinned/refused-stream",
                   test_pinned_refused);
    qtest_add_func("x86-topdown/pinned/get", test_pinned_get);
    qtest_add_func("x86-topdown/pinned/commas", test_pinned_comma);

    qtest_add_func("x86-topdown/bad-input/mixes", test_bad_mixes);
    qtest_add_func("x86-topdown/bad-input/not-bad", test_good_mixes);
    qtest_add_func("x86-topdown/bad-input/properties", test_bad_properties);
    qtest_add_func("x86-topdown/bad-input/vendor", test_bad_vendor);
    qtest_add_func("x86-topdown/bad-input/changes", test_bad_changes);
    qtest_add_func("x86-topdown/bad-input/at-run-time", test_bad_time);
    qtest_add_func("x86-topdown/bad-input/hotplug", test_bad_hotplug);
    qtest_add_func("x86-topdown/bad-input/hotplug-mixed",
                   test_bad_hotplug_mixed);
    qtest_add_func("x86-topdown/unplug", test_unplug);

    qtest_add_func("x86-topdown/same-values/static", test_same_values);
    qtest_add_func("x86-topdown/same-values/precise",
                   test_same_values_precise);
    qtest_add_func("x86-topdown/same-values/timer", test_same_values_timer);
    qtest_add_func("x86-topdown/same-values/reset", test_same_values_reset);
    qtest_add_func("x86-topdown/replay/static", test_replay);
    qtest_add_func("x86-topdown/replay/precise", test_replay_precise);

    add_setups("migrate/counting", migrate_setups,
               ARRAY_SIZE(migrate_setups), test_migrate);
    add_setups("migrate/registers", migrate_setups,
               ARRAY_SIZE(migrate_setups), test_migrate_registers);
    qtest_add_func("x86-topdown/migrate/models", test_migrate_models);
    qtest_add_data_func("x86-topdown/migrate/often/static",
                        SAPPHIRE LIMIT ",pmu-model=static"
                        " -icount shift=1,sleep=off",
                        test_migrate_often);
    qtest_add_data_func("x86-topdown/migrate/often/precise",
                        PRECISE " -icount shift=1,sleep=off",
                        test_migrate_often);
    qtest_add_data_func("x86-topdown/back/often/static",
                        SAPPHIRE LIMIT ",pmu-model=static"
                        " -icount shift=1,sleep=off", test_back_often);
    qtest_add_data_func("x86-topdown/back/often/precise",
                        PRECISE " -icount shift=1,sleep=off", test_back_often);
    add_setups("migrate/freeze", migrate_setups,
               ARRAY_SIZE(migrate_setups), test_migrate_freeze);
    add_setups("migrate/filter", filter_setups, ARRAY_SIZE(filter_setups),
               test_migrate_filter);

    ret = g_test_run();
    guest_cleanup();
    return ret;
}
