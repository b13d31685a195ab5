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
#include <sys/un.h>
#include "qemu/bswap.h"
#include "libqtest.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"
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
    unsigned config = (strstr(args, "-smp 2") ? CONFIG_SMP : 0) |
                      (strstr(args, "precise") ? CONFIG_PRECISE : 0) |
                      (strstr(args, "thread=single") ? CONFIG_TURNS : 0);
    Guest g = guest_init(args, config);

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

/* -------------------------------- Other versions, numbers, and widths */

typedef struct Shape {
    const char *path, *args;
    unsigned version, gp, fixed, width;
    bool all;               /* has what all cases need */
} Shape;

static void test_shape(const void *data)
{
    const Shape *s = data;
    g_autofree char *args =
        g_strdup_printf("%s,pmu-version=%u,pmu-gp-counters=%u,"
                        "pmu-fixed-counters=%u,pmu-counter-width=%u", s->args,
                        s->version, s->gp, s->fixed, s->width);
    Guest g = guest_init(args, CONFIG_SHAPE(s->version, s->gp, s->fixed,
                                            s->width));

    guest_run(&g, GUEST_CASE(cpuid), 0, 0);
    guest_run(&g, GUEST_CASE(shape), 0, 0);
    if (s->all) {
        guest_run(&g, GUEST_CASE(all), 0, 0);
    }
    guest_quit(&g);
}

static void test_svm(void)
{
    Guest g = guest_init(ICELAKE ",svm=on", 0);

    guest_run(&g, GUEST_CASE(svm_int), 0, 0);
    guest_run(&g, GUEST_CASE(svm_pmu), 0, 0);
    guest_quit(&g);
}

/* One line of error for what no CPU has */
static void test_bad_shape(void)
{
    static const char *const rows[][2] = {
        { "pmu-version=1", "pmu-version: must be 2 to 5" },
        { "pmu-version=6", "pmu-version: must be 2 to 5" },
        { "pmu-gp-counters=0", "pmu-gp-counters: must be 2 to 8" },
        { "pmu-gp-counters=9", "pmu-gp-counters: must be 2 to 8" },
        { "pmu-gp-counters=-1", "pmu-gp-counters: must be 2 to 8" },
        { "pmu-fixed-counters=2", "pmu-fixed-counters: must be 3 to 4" },
        { "pmu-fixed-counters=5", "pmu-fixed-counters: must be 3 to 4" },
        { "pmu-counter-width=31", "pmu-counter-width: must be 32 to 48" },
        { "pmu-counter-width=49", "pmu-counter-width: must be 32 to 48" },
        { "pmu-version=4,pmu-fixed-counters=4",
          "pmu-fixed-counters=4: needs pmu-version=5" },
        { "pmu-version=4,perf-metrics=on",
          "perf-metrics=on: needs pmu-version=5 and pmu-fixed-counters=4" },
        { "perf-metrics=on,pmu-fixed-counters=3",
          "perf-metrics=on: needs pmu-version=5 and pmu-fixed-counters=4" },
        { "pmu=off,pmu-version=4", "need pmu=on" },
    };

    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        g_autofree char *args = g_strdup_printf(ICELAKE ",%s", rows[i][0]);
        g_autofree char *messages = NULL;
        g_autofree char *out = guest_run_alone(GUEST_CASE(cpuid), 0, args,
                                               &messages);

        g_assert_cmpstr(out, ==, "");
        if (!strstr(messages, rows[i][1])) {
            g_test_message("%s: %s", rows[i][0], messages);
            g_test_fail();
        }
    }
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

/* The second CPU starts with an INIT, which must not change what RESET is. */
static void test_reset_two(void)
{
    Guest g = guest_init(ICELAKE " -smp 2", 0);

    guest_run(&g, GUEST_CASE(smp_reset), 0, 0);
    guest_reset(&g);
    guest_run(&g, GUEST_CASE(smp_reset), 0, 0);
    guest_quit(&g);
}

static void test_code_of_another(void)
{
    Guest g = guest_init(ICELAKE " -smp 2", 0);

    guest_run(&g, GUEST_CASE(smp_code), 0, 0);
    guest_quit(&g);
}

/* INIT of the CPU that boots, which starts the program again */
static void test_init(void)
{
    Guest g = guest_init(ICELAKE, 0);

    guest_start(&g, GUEST_CASE(init), 0, 0);
    guest_wait_boot(&g);
    guest_run(&g, GUEST_CASE(init_kept), 0, 0);
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
                             char **out_without, char **messages)
{
    g_autofree char *with = g_strdup_printf("-cpu %s,pmu=on", model);
    g_autofree char *without = g_strdup_printf("-cpu %s", model);
    g_autofree char *messages_without = NULL;

    *out = guest_must_run(command, 0, with, messages);
    *out_without = guest_must_run(GUEST_CASE(no_pmu), 0, without,
                                  &messages_without);
    return guest_new_lines(*messages, messages_without);
}

/* There is no PMU, and so many new lines; returns all that QEMU says. */
static char *check_unsupported(const char *model, unsigned lines)
{
    g_autofree char *out = NULL, *without = NULL;
    char *messages = NULL;

    g_assert_cmpint(new_messages(model, GUEST_CASE(no_pmu), &out, &without,
                                 &messages), ==, lines);
    guest_check_same(out, without);
    return messages;
}

/* pmu=on has no effect where there cannot be one, but a warning. */
static void test_unsupported(const void *data)
{
    g_autofree char *messages = check_unsupported(data, 1);

    g_assert_nonnull(strstr(messages, "pmu=on has no effect: "));
}

/* max turns it on itself: not even that. */
static void test_unsupported_max(const void *data)
{
    g_autofree char *messages = check_unsupported(data, 0);

    g_assert_null(strstr(messages, "pmu=on"));
}

/* On a CPU model that has a PMU, pmu=on prints nothing. */
static void test_quiet(const void *data)
{
    g_autofree char *out = NULL, *without = NULL, *messages = NULL;

    g_assert_cmpint(new_messages(data, GUEST_CASE(cpuid), &out, &without,
                                 &messages), ==, 0);
}

/* ------------------------------------------------------------ query-pmu */

static QList *query_pmu(Guest *g)
{
    QDict *rsp = qtest_qmp(g->qts, "{ 'execute': 'query-pmu' }");
    QList *list = qdict_get_qlist(rsp, "return");

    g_assert(list);
    qobject_ref(list);
    qobject_unref(rsp);
    return list;
}

static QDict *query_cpu(const QList *list, unsigned cpu)
{
    const QListEntry *e = qlist_first(list);

    for (; cpu; cpu--) {
        e = qlist_next(e);
    }
    return qobject_to(QDict, qlist_entry_obj(e));
}

static uint64_t get_u64(const QDict *d, const char *key)
{
    const QNum *n = qobject_to(QNum, qdict_get(d, key));
    uint64_t value;

    g_assert(n && qnum_get_try_uint(n, &value));
    return value;
}

/* Only counter 0 has overflowed, or none; its interrupt waits, or none does. */
static void check_overflow(const QDict *cpu, bool pending, uint32_t lvt)
{
    const QListEntry *e = qlist_first(qdict_get_qlist(cpu, "counters"));

    g_assert_cmpint(get_u64(cpu, "global-status"), ==, pending);
    g_assert_cmpint(qdict_get_bool(cpu, "interrupt-pending"), ==, pending);
    g_assert_cmphex(get_u64(cpu, "lvt"), ==, lvt);
    for (int i = 0; e; i++, e = qlist_next(e)) {
        g_assert_cmpint(qdict_get_bool(qobject_to(QDict, qlist_entry_obj(e)),
                                       "overflow"), ==, pending && !i);
    }
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

#include "hostile-stream.c.inc"

static void test_migrate_changed(const void *data)
{
    static const char *const prefixes[] = {
        "cpu/tcg_pmu", "cpu/msr_architectural_pmu", NULL
    };
    const char *args = data;
    Guest g = guest_init(args, 0);
    g_autofree char *stream = NULL;

    guest_start(&g, GUEST_CASE(migrate), 0, 0);
    guest_wait_phase(&g, 1);
    stream = guest_save(&g);
    guest_quit(&g);
    stream_torture(stream, prefixes, guest_try_load, args);
}

/*
 * Random programs, in the middle of which the machine migrates again and
 * again, or goes back to a snapshot: all counts and interrupts are what they
 * are without. The environment variable PMU_MIGRATIONS has the number.
 */
static void check_often(const char *args, bool back)
{
    const char *number = g_getenv("PMU_MIGRATIONS");
    unsigned n = number ? atoi(number) : back ? 6 : 20;
    Guest g = guest_init(args, 0);

    while (n && !g_test_failed()) {
        uint32_t seed = g_test_rand_int();

        g_test_message("seed 0x%x, chosen by --seed", seed);
        g_free(guest_run_migrating(&g, back ? NULL : args,
                                   GUEST_CASE(random_programs), seed,
                                   back ? 50 : 25, &n));
    }
    guest_quit(&g);
}

#define OFTEN ICELAKE " -smp 2 -icount shift=1,sleep=off"

static void test_migrate_often(void)
{
    check_often(OFTEN, false);
}

static void test_back_often(void)
{
    g_autofree char *disk = guest_disk();
    g_autofree char *args = g_strdup_printf(OFTEN GUEST_DISK, disk);

    check_often(args, true);
    unlink(disk);
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

/* An interrupt waits for its privilege level, whatever the host asks for. */
static void check_pmi_away(const char *args)
{
    Guest g = guest_init(args, 0);

    guest_start(&g, GUEST_CASE(pmi_away), 0, 0);
    guest_wait_phase(&g, 1);
    for (int i = 0; i < 10; i++) {
        QList *list = query_pmu(&g);

        /* Vector table: NMI, not masked as by delivery */
        check_overflow(query_cpu(list, 0), true, 0x400);
        qobject_unref(list);
    }
    guest_set_phase(&g, 2);
    guest_finish(&g);
    guest_quit(&g);
}

static void test_pmi_away(void)
{
    check_pmi_away(ICELAKE);
}

/* RESET drops it, before any software looks. */
static void test_reset_pending(void)
{
    Guest g = guest_init(ICELAKE, 0);
    g_autofree char *stream = NULL;
    QList *list;

    guest_start(&g, GUEST_CASE(pmi_away), 0, 0);
    guest_wait_phase(&g, 1);
    /* That looks at the counters, and so makes the interrupt pending. */
    stream = guest_save(&g);
    unlink(stream);
    list = query_pmu(&g);
    check_overflow(query_cpu(list, 0), true, 0x400);
    qobject_unref(list);
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'system_reset' }");
    qtest_qmp_eventwait(g.qts, "RESET");
    list = query_pmu(&g);
    check_overflow(query_cpu(list, 0), false, 0x10000);
    qobject_unref(list);
    guest_quit(&g);
}

/*
 * With FREEZE_PERFMON_ON_PMI, what a read would show: stopped counters. No
 * counter counts differently because of the look.
 */
static void check_info_frozen(const char *args, uint32_t config,
                              const char *state)
{
    Guest g = guest_init(args, config);

    guest_start(&g, GUEST_CASE(pmi_away), 1ull << 12, 0);
    guest_wait_phase(&g, 1);
    for (int i = 0; i < 2; i++) {
        QList *list = query_pmu(&g);
        QList *counters = qdict_get_qlist(query_cpu(list, 0), "counters");
        const QDict *c = qobject_to(QDict,
                                    qlist_entry_obj(qlist_first(counters)));

        g_assert_cmpstr(qdict_get_str(c, "state"), ==, state);
        qobject_unref(list);
    }
    guest_set_phase(&g, 2);
    guest_finish(&g);
    guest_quit(&g);
}

static void test_info_frozen(void)
{
    check_info_frozen(ICELAKE, 0, "frozen");
    /* Before version 4, all bits of GLOBAL_CTRL go instead. */
    check_info_frozen(ICELAKE ",pmu-version=3,pmu-fixed-counters=3",
                      CONFIG_SHAPE(3, 8, 3, 48), "global-disabled");
}

static void test_pmi_slices(void)
{
    /* An instruction takes 2 ns. */
    Guest g = guest_init(ICELAKE " -icount shift=1", 0);

    guest_run(&g, GUEST_CASE(pmi_slices), 0, 0);
    guest_quit(&g);
}

/* With record/replay, the vCPU needs a lock that monitor commands hold. */
static void test_query_record(void)
{
    g_autofree char *log = guest_temporary_file();
    g_autofree char *args = g_strdup_printf(
        ICELAKE " -icount shift=1,rr=record,rrfile=%s", log);

    check_pmi_away(args);
    unlink(log);
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

typedef struct StreamBytes {
    const char *section;    /* its name, behind the length of that */
    size_t at;              /* behind its version */
    size_t size;
} StreamBytes;

/* The case waits for the host, and goes on with all these bits set. */
static void check_ones(uint32_t command, const StreamBytes *ones, size_t n)
{
    Guest g = guest_init(ICELAKE, 0);
    g_autofree char *stream = NULL, *text = NULL;
    size_t size;

    guest_start(&g, command, 0, 0);
    guest_wait_phase(&g, 1);
    stream = guest_save(&g);
    guest_quit(&g);
    g_assert(g_file_get_contents(stream, &text, &size, NULL));
    for (size_t i = 0; i < n; i++) {
        memset(text + find(text, size, ones[i].section) +
               strlen(ones[i].section) + 4 + ones[i].at, 0xff, ones[i].size);
    }
    g_assert(g_file_set_contents(stream, text, size, NULL));
    g = guest_load(&g, ICELAKE, stream);
    guest_set_phase(&g, 2);
    guest_finish(&g);
    guest_quit(&g);
}

/* Registers of a stream are reduced to what the guest could have set. */
static void test_migrate_ones(void)
{
    static const StreamBytes ones[] = {
        /*
         * Four registers of control and status, three fixed and 18 general
         * counters, 18 event selectors
         */
        { "\031cpu/msr_architectural_pmu", 0, 8 * (4 + 3 + 18 + 18) },
        /* DEBUGCTL */
        { "\013cpu/tcg_pmu", 0, 8 },
        { "\050cpu/msr_architectural_pmu/msr_fixed_ctr3", 0, 8 },
        { "\052cpu/msr_architectural_pmu/msr_perf_metrics", 0, 8 },
    };

    check_ones(GUEST_CASE(migrate_ones), ones, ARRAY_SIZE(ones));
}

/* Nor does a counter stand still for what else is in a stream. */
static void test_migrate_state_ones(void)
{
    /*
     * Behind DEBUGCTL: the interrupt, TopDown, 30 totals of two privileges, 12
     * counters, 64 fractions with an index, four registers that only store, and
     * four kinds of mispredicted branches
     */
    static const StreamBytes ones = {
        "\013cpu/tcg_pmu", 8,
        1 + (1 + 8 * (8 + 1 + 2 * 8 + 2)) + 8 * 2 * 30 + 12 * (8 * 4 + 3) +
        64 * (8 * 2 + 2) + 1 + 8 * 4 + 8 * 2 * 4
    };

    check_ones(GUEST_CASE(migrate_state_ones), &ones, 1);
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
    bool counts = pmu && !strstr(m->from, "full-width-write=off");
    g_autofree char *stream = NULL, *messages = NULL;

    if (counts) {
        guest_start(&g, GUEST_CASE(migrate), 0, 0);
        guest_wait_phase(&g, 1);
    }
    stream = guest_save(&g);
    messages = guest_refusal(m->to, stream);
    check_refusal(messages, m->why);
    unlink(stream);
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'query-status' }");
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'cont' }");
    if (counts) {
        guest_finish(&g);
    } else {
        guest_run(&g, pmu ? GUEST_CASE(no_full_width) : GUEST_CASE(no_pmu),
                  0, 0);
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
    { "version", ICELAKE ",perf-metrics=off",
      ICELAKE ",perf-metrics=off,pmu-version=4",
      "the CPU of the stream has pmu-version=5, this one has 4" },
    { "gp-counters", ICELAKE, ICELAKE ",pmu-gp-counters=4",
      "the CPU of the stream has pmu-gp-counters=8, this one has 4" },
    { "fixed-counters", ICELAKE ",perf-metrics=off",
      ICELAKE ",perf-metrics=off,pmu-fixed-counters=3",
      "the CPU of the stream has pmu-fixed-counters=4, this one has 3" },
    { "counter-width", ICELAKE, ICELAKE ",pmu-counter-width=40",
      "the CPU of the stream has pmu-counter-width=48, this one has 40" },
    /* Without PDCM, CPUs have neither of the others. */
    { "pdcm", ICELAKE ",perf-metrics=off,full-width-write=off",
      ICELAKE ",pdcm=off",
      "the CPU of the stream has pdcm=true, this one has false" },
    { "level", SAPPHIRE, ICELAKE ",pmu-width=6",
      "the CPU of the stream has PERF_METRICS level=2, this one has 1" },
    { "microarchitecture", "-cpu Cascadelake-Server-v5,pmu=on",
      "-cpu Broadwell-v4,pmu=on",
      "the CPU of the stream has microarchitecture=1, this one has 0" },
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
    g_assert_true(guest_try_load(args, stream));

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

/* Load the snapshot in @disk, which is refused, and let the guest go on. */
static void guest_go_on(const char *args, const char *disk, const char *text,
                        size_t size)
{
    g_autofree char *loaded = NULL;
    Guest g;

    g_assert(g_file_set_contents(disk, text, size, NULL));
    g = guest_init(args, 0);
    loaded = qtest_hmp(g.qts, "loadvm s");
    g_test_message("%s", loaded);
    g_assert_cmpstr(loaded, !=, "");
    guest_set_phase(&g, 2);
    for (unsigned i = 0; i < 10; i++) {
        qtest_qmp_assert_success(g.qts, "{ 'execute': 'cont' }");
        g_usleep(5000);
        qtest_qmp_assert_success(g.qts, "{ 'execute': 'stop' }");
    }
    guest_quit(&g);
}

/*
 * A snapshot that is refused half way leaves parts of it behind, with which the
 * user may let the guest go on: no index of these leads out of its array, and
 * whatever else they are, QEMU goes on, too.
 */
static void test_refused(const void *data)
{
    /* A subsection that nobody knows, directly behind X86PMULookup */
    static const char bad[] = "\005\036cpu/tcg_pmu/precise/lookup/bad\0\0\0\1";
    const char *cpu = data;
    bool precise = strstr(cpu, "precise");
    g_autofree char *disk = guest_disk();
    g_autofree char *args = g_strdup_printf("%s" GUEST_DISK, cpu, disk);
    Guest g = guest_init(args, 0);
    g_autofree char *saved = NULL, *text = NULL;
    size_t size, at, start, end;

    guest_start(&g, GUEST_CASE(migrate_refused), 0, 0);
    guest_wait_phase(&g, 1);
    saved = qtest_hmp(g.qts, "savevm s");
    g_assert_cmpstr(saved, ==, "");
    guest_quit(&g);
    g_assert(g_file_get_contents(disk, &text, &size, NULL));
    start = find(text, size, "\013cpu/tcg_pmu") + 12 + 4;
    if (precise) {
        /*
         * X86PMULookup.top: behind the version, all arrays of X86PMUPrecise,
         * and those of X86PMULookup, which it ends
         */
        at = find(text, size, "\023cpu/tcg_pmu/precise") + 20 + 4 +
             (512 + 32768 + 2 * (64 + 1024) + 512) * 8 + 512 * 8 + 4096 + 4 +
             16 * 8;
        g_assert_cmpint(text[at], <=, 16);
        memcpy(text + at + 1, bad, sizeof(bad) - 1);
        end = at + 1;
    } else {
        /* X86PMU.irq_domains is behind the version and DEBUGCTL */
        end = find(text, size, "\017cpu/tcg_pmu/mix");
        memset(text + end + 16 + 4, 0xff, 4);
        at = start + 8;
    }
    for (unsigned value = 16; value < 26; value++) {
        g_autofree char *changed = g_memdup2(text, size);

        changed[at] = value;
        guest_go_on(args, disk, changed, size);
    }
    g_assert_cmpint(start + 0x380, <=, end);
    for (unsigned n = 0; n < FLIPS / 2; n++) {
        g_autofree char *changed = g_memdup2(text, size);

        /* Half of them in X86PMU, which is much smaller than the caches */
        for (unsigned i = 0; i < 100; i++) {
            changed[g_test_rand_int_range(start, start + 0x380)] =
                g_test_rand_int();
            changed[g_test_rand_int_range(start, end)] = g_test_rand_int();
        }
        guest_go_on(args, disk, changed, size);
    }
    unlink(disk);
}

/* ---------------------------------------------------------- A debugger */

typedef struct Stepped {
    const char *path;
    uint32_t command;
} Stepped;

static void gdb_send(int fd, const char *packet)
{
    uint8_t sum = 0;
    g_autofree char *text = NULL;

    for (const char *p = packet; *p; p++) {
        sum += *p;
    }
    text = g_strdup_printf("$%s#%02x", packet, sum);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, strlen(text));
}

/* Skip acknowledgements; the answer must begin with @start. */
static void gdb_expect(int fd, const char *start)
{
    char text[256];
    size_t length = 0;

    do {
        g_assert_cmpint(length, <, sizeof(text) - 1);
        g_assert_cmpint(read(fd, text + length, 1), ==, 1);
        length += length || text[0] == '$';
    } while (length < 3 || text[length - 3] != '#');
    text[length] = 0;
    g_assert_true(g_str_has_prefix(text + 1, start));
    g_assert_cmpint(write(fd, "+", 1), ==, 1);
}

/* Start a guest and connect to it as gdb does; @fd gets the socket */
static Guest gdb_guest_init(int *fd)
{
    g_autofree char *dir = g_dir_make_tmp("x86-pmu-XXXXXX", NULL);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = 60 };
    g_autofree char *args = NULL;
    Guest g;

    snprintf(at.sun_path, sizeof(at.sun_path), "%s/gdb", dir);
    args = g_strdup_printf(ICELAKE " -gdb unix:%s,server=on,wait=off",
                           at.sun_path);
    g = guest_init(args, 0);
    *fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    g_assert_cmpint(connect(*fd, (struct sockaddr *)&at, sizeof(at)), ==, 0);
    unlink(at.sun_path);
    rmdir(dir);
    return g;
}

/*
 * Counts and interrupts are at the same instructions when gdb executes the
 * program one instruction at a time: each block of one instruction starts.
 */
static void test_gdb(const void *data)
{
    const Stepped *s = data;
    unsigned steps = 0;
    int fd;
    Guest g = gdb_guest_init(&fd);

    gdb_send(fd, "?");
    gdb_expect(fd, "T");
    /* By default, a step holds off interrupts: the PMU's must arrive. */
    gdb_send(fd, "Qqemu.sstep=1");
    gdb_expect(fd, "OK");

    guest_start(&g, s->command, 0, 0);
    do {
        for (int i = 0; i < 100; i++) {
            gdb_send(fd, "s");
            gdb_expect(fd, "T05");
        }
        steps += 100;
        g_assert_cmpint(steps, <, 100000);
    } while (qtest_readl(g.qts, MAILBOX_ADDR + MAILBOX_COMMAND));
    g_test_message("%u steps", steps);
    gdb_send(fd, "D");
    gdb_expect(fd, "OK");
    close(fd);
    guest_finish(&g);
    guest_quit(&g);
}

/*
 * A breakpoint is hit whose block has long been found when gdb sets it, and in
 * a CPU that counts
 */
static void test_gdb_breakpoint(void)
{
    g_autofree char *insert = NULL, *at = NULL;
    uint64_t far;
    int fd;
    Guest g = gdb_guest_init(&fd);

    gdb_send(fd, "?");
    gdb_expect(fd, "T");
    gdb_send(fd, "c");
    guest_start(&g, GUEST_CASE(endless), 2, 0);
    guest_wait_phase(&g, 1);
    g_usleep(10000);
    far = qtest_readq(g.qts, MAILBOX_ADDR + MAILBOX_ARG2);
    insert = g_strdup_printf("Z0,%" PRIx64 ",1", far);
    at = g_strdup_printf("%016" PRIx64, bswap64(far));
    for (int i = 0; i < 3; i++) {
        g_assert_cmpint(write(fd, "\x03", 1), ==, 1);
        gdb_expect(fd, "T02");
        gdb_send(fd, insert);
        gdb_expect(fd, "OK");
        gdb_send(fd, "c");
        gdb_expect(fd, "T05");
        gdb_send(fd, "p10");
        gdb_expect(fd, at);
        insert[0] = 'z';
        gdb_send(fd, insert);
        gdb_expect(fd, "OK");
        insert[0] = 'Z';
        gdb_send(fd, "c");
        g_usleep(10000);
    }
    guest_reset(&g);
    guest_quit(&g);
    close(fd);
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

/* -------------------------------------------------------------- Monitor */

/*
 * What each counter must look like when case_info() has halted. There have been
 * an indirect CALL (4 slots), twice PAUSE (1 and 30 cycles), NOP, and HLT.
 */
#define INFO_INSNS      5
#define INFO_SLOTS      (4 + 2 * (1 + 30 * 5) + 2)

typedef struct InfoRow {
    const char *name, *state, *event;
    int64_t value;                  /* -1: not checked */
    bool overflow;
} InfoRow;

static void check_row(const QDict *c, const InfoRow *row)
{
    g_assert_cmpstr(qdict_get_str(c, "name"), ==, row->name);
    g_assert_cmpstr(qdict_get_str(c, "state"), ==, row->state);
    g_assert_cmpstr(qdict_get_str(c, "event"), ==, row->event);
    g_assert_cmpint(qdict_get_bool(c, "overflow"), ==, row->overflow);
    if (row->value >= 0) {
        g_assert_cmpint(get_u64(c, "value"), ==, row->value);
    }
}

static void check_info(QList *list)
{
    static const InfoRow rows[] = {
        { "gp0", "counting", "r01c2", INFO_SLOTS / 5 },
        { "gp1", "counting", "BR_INST_RETIRED.ALL_BRANCHES", -1 },
        { "gp2", "no-event", "ITLB_MISSES.WALK_COMPLETED", 0 },
        { "gp3", "disabled", "r01c2", 0 },
        { "gp4", "global-disabled", "INST_RETIRED.ANY_P", 0 },
        { "gp5", "filtered", "INST_RETIRED.ANY_P", 0 },
        { "gp6", "counting", "INST_RETIRED.ANY_P",
          INFO_INSNS - 1, true },
        { "gp7", "counting", "INST_RETIRED.ANY_P",
          INFO_SLOTS / 5 - INFO_INSNS },
        { "fixed0", "counting", "INST_RETIRED.ANY",
          (1ull << 48) - 1000 + INFO_INSNS },
        { "fixed1", "disabled", "CPU_CLK_UNHALTED.THREAD", 0 },
        { "fixed2", "disabled", "CPU_CLK_UNHALTED.REF_TSC", 0 },
        { "fixed3", "counting", "TOPDOWN.SLOTS", INFO_SLOTS },
    };
    QDict *cpu = query_cpu(list, 0), *d;
    const QListEntry *e = qlist_first(qdict_get_qlist(cpu, "counters"));
    int i;

    for (i = 0; i < ARRAY_SIZE(rows); i++, e = qlist_next(e)) {
        d = qobject_to(QDict, qlist_entry_obj(e));
        check_row(d, &rows[i]);
        g_assert_cmpint(qdict_get_bool(d, "interrupt"), ==,
                        i == 1 || i == 8);
        g_assert_cmpint(qdict_get_int(d, "cmask"), ==,
                        i == 1 ? 2 : i == 0 || i == 7 ? 1 : 0);
        g_assert_cmpint(qdict_get_bool(d, "edge"), ==, i == 1);
        g_assert_cmpint(qdict_get_bool(d, "inv"), ==, i <= 1 || i == 7);
        g_assert_cmpint(qdict_get_bool(d, "usr"), ==, i == 1 || i == 5);
    }
    g_assert(!e);
    g_assert_cmpint(qdict_get_int(cpu, "version"), ==, 5);
    g_assert_cmpint(qdict_get_int(cpu, "counter-width"), ==, 48);
    g_assert_cmpint(get_u64(cpu, "global-ctrl"), ==, 0x1000f000000efull);
    g_assert_cmpint(get_u64(cpu, "global-status"), ==, 1 << 6);
    g_assert_cmpint(qdict_get_bool(cpu, "interrupt-pending"), ==, false);
    g_assert_cmpint(get_u64(cpu, "lvt"), ==, 0x400);
    /*
     * Retiring are 2 + 2 + 2 slots, the frontend's 2, PAUSE is backend bound;
     * rounded to the nearest 1/255
     */
    d = qdict_get_qdict(cpu, "perf-metrics");
    g_assert_cmpint(get_u64(d, "value"), ==, 5 | 2 << 16 | 248u << 24);
    g_assert_cmpint(qdict_get_double(d, "retiring") * 1000, ==, 1960);
    g_assert_cmpint(qdict_get_double(d, "bad-speculation") * 1000, ==, 0);
    g_assert_cmpint(qdict_get_double(d, "frontend-bound") * 1000, ==, 784);
    g_assert_cmpint(qdict_get_double(d, "backend-bound") * 1000, ==, 97254);
    g_assert(!qdict_haskey(d, "memory-bound"));

    /* The other CPU waits to be started. */
    cpu = query_cpu(list, 1);
    g_assert_cmpint(qdict_get_int(cpu, "cpu-index"), ==, 1);
    g_assert(qdict_get_bool(cpu, "halted"));
    g_assert_cmpint(get_u64(cpu, "global-ctrl"), ==, 0xff);
}

/* The words that "info pmu" has for a counter's state in case_info() */
static const char *state_words(const char *state, bool halted)
{
    static const char *const words[][2] = {
        { "disabled", "no: neither OS nor USR" },
        { "global-disabled", "no: GLOBAL_CTRL" },
        { "no-event", "no: TCG does not count this event" },
        { "filtered", "no: not at CPL 0" },
    };

    for (int i = 0; i < ARRAY_SIZE(words); i++) {
        if (g_str_equal(state, words[i][0])) {
            return words[i][1];
        }
    }
    g_assert_cmpstr(state, ==, "counting");
    return halted ? "no: halted" : "yes";
}

static void hmp_counter(GString *s, const QDict *c, bool halted)
{
    int cmask = qdict_get_int(c, "cmask");

    g_string_append_printf(s, "%s 0x%012" PRIx64 "%s %02x/%02x %s",
                           qdict_get_str(c, "name"), get_u64(c, "value"),
                           qdict_get_bool(c, "overflow") ? "!" : "",
                           (int)qdict_get_int(c, "event-select"),
                           (int)qdict_get_int(c, "umask"),
                           qdict_get_str(c, "event"));
    g_string_append(s, qdict_get_bool(c, "os") ? " os" : "");
    g_string_append(s, qdict_get_bool(c, "usr") ? " usr" : "");
    g_string_append(s, qdict_get_bool(c, "interrupt") ? " int" : "");
    if (cmask) {
        g_string_append_printf(s, " cmask=%d", cmask);
    }
    g_string_append(s, qdict_get_bool(c, "inv") ? " inv" : "");
    g_string_append(s, qdict_get_bool(c, "edge") ? " edge" : "");
    g_string_append_printf(s, " %s\n",
                           state_words(qdict_get_str(c, "state"), halted));
}

/* What "info pmu" should say of a CPU, with one blank between words */
static void hmp_cpu(GString *s, const QDict *cpu)
{
    bool halted = qdict_get_bool(cpu, "halted");
    const QDict *m = qdict_get_qdict(cpu, "perf-metrics");
    unsigned lvt = qdict_get_int(cpu, "lvt");
    const QListEntry *e;

    g_string_append_printf(
        s, "CPU %d: version %d, counters of %d bits; CPL %d%s\n"
        "GLOBAL_CTRL 0x%016" PRIx64 " GLOBAL_STATUS 0x%016" PRIx64 "\n"
        "FIXED_CTR_CTRL 0x%" PRIx64 " DEBUGCTL 0x%" PRIx64 "\n"
        "LVT 0x%05x (%s), %s interrupt pending\n"
        "PERF_METRICS 0x%016" PRIx64 ": retiring %.1f%%, "
        "bad speculation %.1f%%, frontend %.1f%%, backend %.1f%%\n"
        "value code event when counts now\n",
        (int)qdict_get_int(cpu, "cpu-index"),
        (int)qdict_get_int(cpu, "version"),
        (int)qdict_get_int(cpu, "counter-width"),
        (int)qdict_get_int(cpu, "cpl"), halted ? ", halted" : "",
        get_u64(cpu, "global-ctrl"), get_u64(cpu, "global-status"),
        get_u64(cpu, "fixed-ctr-ctrl"), get_u64(cpu, "debugctl"),
        lvt, lvt & 0x10000 ? "masked" : "not masked",
        qdict_get_bool(cpu, "interrupt-pending") ? "an" : "no",
        get_u64(m, "value"), qdict_get_double(m, "retiring"),
        qdict_get_double(m, "bad-speculation"),
        qdict_get_double(m, "frontend-bound"),
        qdict_get_double(m, "backend-bound"));
    QLIST_FOREACH_ENTRY(qdict_get_qlist(cpu, "counters"), e) {
        hmp_counter(s, qobject_to(QDict, qlist_entry_obj(e)), halted);
    }
}

/* "info pmu" says the same as query-pmu. */
static void check_hmp(Guest *g, const QList *list)
{
    g_autofree char *text = qtest_hmp(g->qts, "info pmu");
    g_autoptr(GString) want = g_string_new(NULL);
    g_auto(GStrv) found = g_strsplit_set(text, " \r\n", -1);
    g_auto(GStrv) words = NULL;
    const QListEntry *e;
    int i, j = 0;

    QLIST_FOREACH_ENTRY(list, e) {
        hmp_cpu(want, qobject_to(QDict, qlist_entry_obj(e)));
    }
    words = g_strsplit_set(want->str, "\n ", -1);
    for (i = 0; words[i]; i++) {
        if (*words[i]) {
            while (found[j] && !*found[j]) {
                j++;
            }
            g_assert_cmpstr(found[j], ==, words[i]);
            j++;
        }
    }
    while (found[j] && !*found[j]) {
        j++;
    }
    g_assert_null(found[j]);
}

/* The interrupt waits until the guest sets IF, or returns from an NMI. */
static void test_query_pending(void)
{
    Guest g = guest_init(ICELAKE, 0);

    for (int nmi = 0; nmi < 2; nmi++) {
        uint32_t lvt = nmi ? 0x400 : 0x40;
        QList *list;

        guest_start(&g, GUEST_CASE(pmi_pending), nmi, 0);
        guest_wait_phase(&g, 1);
        list = query_pmu(&g);
        /* Delivery to the local APIC has masked the entry. */
        check_overflow(query_cpu(list, 0), true, 0x10000 | lvt);
        check_hmp(&g, list);
        qobject_unref(list);
        guest_set_phase(&g, 2);
        guest_finish(&g);
        list = query_pmu(&g);
        check_overflow(query_cpu(list, 0), false, lvt);
        check_hmp(&g, list);
        qobject_unref(list);
    }
    guest_quit(&g);
}

/* A CPU without a local APIC */
static void test_no_apic(void)
{
    Guest g = guest_init(ICELAKE ",apic=off", 0);
    g_autofree char *text = NULL;
    QList *list;
    QDict *cpu;

    guest_run(&g, GUEST_CASE(no_apic), 0, 0);
    list = query_pmu(&g);
    cpu = query_cpu(list, 0);
    g_assert_cmpint(get_u64(cpu, "global-status"), ==, 1);
    g_assert_false(qdict_get_bool(cpu, "interrupt-pending"));
    g_assert_false(qdict_haskey(cpu, "lvt"));
    text = qtest_hmp(g.qts, "info pmu");
    g_assert_nonnull(strstr(text, "no local APIC, no interrupt pending"));
    qobject_unref(list);
    guest_quit(&g);
}

static void wait_halted(Guest *g)
{
    for (int tries = 0; ; tries++) {
        g_autofree char *text = qtest_hmp(g->qts, "info registers");

        if (strstr(text, "HLT=1")) {
            return;
        }
        g_assert_cmpint(tries, <, 100000);
        g_usleep(1000);
    }
}

static char *run_info(const char *args, bool look)
{
    Guest g = guest_init(args, 0);
    char *text;

    guest_start(&g, GUEST_CASE(info), 0, 0);
    guest_wait_phase(&g, 1);
    /* A few instructions later */
    wait_halted(&g);
    for (int i = 0; look && i < 3; i++) {
        QList *list = query_pmu(&g);

        check_info(list);
        check_hmp(&g, list);
        qobject_unref(list);
        if (i == 1) {
            qtest_qmp_assert_success(g.qts, "{ 'execute': 'stop' }");
        }
    }
    if (look) {
        qtest_qmp_assert_success(g.qts, "{ 'execute': 'cont' }");
    }
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'inject-nmi' }");
    guest_finish(&g);
    text = guest_text(&g);
    guest_quit(&g);
    return text;
}

/* A halted CPU, in a VM that runs or is stopped; it does not notice. */
static void test_info_halted(const void *data)
{
    g_autofree char *with = run_info(data, true);
    g_autofree char *without = run_info(data, false);

    guest_check_same(with, without);
}

/* CPUs that count all the time, one instruction over and over */
static void test_info_running(const void *data)
{
    Guest g = guest_init(data, 0);
    uint64_t before = 0;

    guest_start(&g, GUEST_CASE(endless), 0, 0);
    guest_wait_phase(&g, 1);
    for (int i = 0; i < 100 || before <= 1000; i++) {
        QList *list = query_pmu(&g);
        QDict *cpu = query_cpu(list, 0), *c;
        uint64_t insns;

        g_assert_cmpint(i, <, 100000);

        c = qobject_to(QDict, qlist_peek(qdict_get_qlist(cpu, "counters")));
        insns = get_u64(c, "value");
        g_assert_cmpint(insns, >=, before);
        before = insns;
        qobject_unref(list);
    }
    guest_quit(&g);
}

static char *run_values(const char *args, bool look)
{
    Guest g = guest_init(args, 0);
    GString *text = g_string_new(NULL);
    unsigned looks = 0;

    for (int i = 0; i < 10; i++) {
        g_autofree char *once = NULL;

        guest_start(&g, GUEST_CASE(values), 0, 0);
        /* It only reports, and has no rules to check. */
        while (qtest_readl(g.qts, MAILBOX_ADDR + MAILBOX_COMMAND)) {
            if (look) {
                qobject_unref(query_pmu(&g));
                looks++;
            }
        }
        once = guest_text(&g);
        g_string_append(text, once);
    }
    guest_quit(&g);
    g_assert(!look || looks > 0);
    return g_string_free(text, false);
}

/* All counts and interrupts are the same, however often somebody looks. */
static void test_info_unnoticed(const void *data)
{
    g_autofree char *with = run_values(data, true);
    g_autofree char *without = run_values(data, false);

    guest_check_same(with, without);
}

/* CPUs without a PMU */
static void test_info_none(const void *data)
{
    static const struct {
        const char *args, *kind, *sentence;
    } rows[] = {
        { "-cpu Icelake-Server-v6", "off",
          "CPU 0: no PMU (pmu=on is not set)\r\n" },
        { "-cpu EPYC,pmu=on", "unsupported",
          "CPU 0: no PMU (TCG has none for this CPU model or on this "
          "host)\r\n" },
    };

    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        Guest g = guest_init(rows[i].args, 0);
        QList *list = query_pmu(&g);
        g_autofree char *text = qtest_hmp(g.qts, "info pmu");

        g_assert_cmpstr(qdict_get_str(query_cpu(list, 0), "kind"), ==,
                        rows[i].kind);
        g_assert_cmpstr(text, ==, rows[i].sentence);
        qobject_unref(list);
        guest_quit(&g);
    }
}

/* Each interrupt is in the trace, and each deadline that leads to it. */
static void test_trace(void)
{
    g_autofree char *dir = g_dir_make_tmp("x86-pmu-XXXXXX", NULL);
    g_autofree char *file = g_strdup_printf("%s/trace", dir);
    g_autofree char *args = NULL, *text = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned interrupts = 0, deadlines = 0;
    Guest g;

    args = g_strdup_printf(ICELAKE " -D %s -trace x86_pmu_interrupt "
                           "-trace x86_pmu_deadline", file);
    g = guest_init(args, 0);
    /* 10 samples by an NMI (0x400), one each 100 branches at CPL 3 */
    guest_run(&g, GUEST_CASE(pmi_sampling), 0, 0);
    guest_quit(&g);
    g_assert(g_file_get_contents(file, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", -1);
    for (int i = 0; lines[i]; i++) {
        if (strstr(lines[i], "x86_pmu_interrupt cpu 0 rip 0x")) {
            g_assert_nonnull(strstr(lines[i],
                                    " status 0x1 lvt 0x400 masked 0"));
            interrupts++;
        } else if (strstr(lines[i], "x86_pmu_deadline cpu 0 rip 0x")) {
            /* None at CPL 0, where nothing counts */
            g_assert_nonnull(strstr(lines[i], "at CPL 0 9223372036854775807, "
                                              "at CPL > 0 "));
            deadlines++;
        }
    }
    g_assert_cmpint(interrupts, ==, 10);
    g_assert_cmpint(deadlines, >=, interrupts);
    unlink(file);
    rmdir(dir);
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

/*
 * Counts of random programs are known, however QEMU runs the code. The
 * environment variable PMU_RANDOM_PROGRAMS has their number. The guest gets a
 * few at a time, for which it has TIMEOUT_S.
 */
static void test_random_programs(const void *data)
{
    const char *number = g_getenv("PMU_RANDOM_PROGRAMS");
    bool precise = strstr(data, "precise");
    bool slow = precise || strstr(data, "one-insn-per-tb");
    unsigned left = number ? atoi(number) : slow ? 20 : 60;
    Guest g = guest_init(data, precise ? CONFIG_PRECISE : 0);

    while (left && !g_test_failed()) {
        uint32_t seed = g_test_rand_int();
        unsigned n = MIN(left, 20);

        g_test_message("seed 0x%x, chosen by --seed", seed);
        guest_run(&g, GUEST_CASE(random_programs), seed, n);
        left -= n;
    }
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
    static const Stepped stepped[] = {
        { "x86-pmu/gdb/sampling", GUEST_CASE(pmi_sampling) },
        { "x86-pmu/gdb/single-step", GUEST_CASE(count_single_step) },
        { "x86-pmu/gdb/both-rings", GUEST_CASE(count_both_rings) },
    };
    static const Shape shapes[] = {
        { "x86-pmu/shape/core2", "-cpu Penryn,pmu=on", 2, 2, 3, 40 },
        { "x86-pmu/shape/nehalem", "-cpu Nehalem,pmu=on", 3, 4, 3, 48 },
        { "x86-pmu/shape/skylake", "-cpu Skylake-Server,pmu=on", 4, 4, 3, 48 },
        { "x86-pmu/shape/version-2", ICELAKE, 2, 4, 3, 40 },
        { "x86-pmu/shape/least-width", ICELAKE, 5, 2, 4, 32 },
        { "x86-pmu/shape/all-4-40", ICELAKE, 4, 8, 3, 40, true },
        { "x86-pmu/shape/all-5-36", ICELAKE, 5, 8, 4, 36, true },
        { "x86-pmu/shape/all-5-33", SAPPHIRE, 5, 8, 3, 33, true },
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
    qtest_add_data_func("x86-pmu/all/split-wx",
                        ICELAKE " -accel tcg,split-wx=on", test_all);
    qtest_add_data_func("x86-pmu/all/single-thread",
                        ICELAKE " -smp 2 -accel tcg,thread=single", test_all);

    /* Exact counts and interrupts are the same with each model. */
    qtest_add_data_func("x86-pmu/all/precise",
                        ICELAKE ",pmu-model=precise -smp 2", test_all);

    qtest_add_data_func("x86-pmu/modes/vmmcall-with-svm", ICELAKE ",svm=on",
                        test_vmmcall);

    for (int i = 0; i < ARRAY_SIZE(shapes); i++) {
        qtest_add_data_func(shapes[i].path, &shapes[i], test_shape);
    }
    qtest_add_func("x86-pmu/shape/bad", test_bad_shape);
    qtest_add_func("x86-pmu/svm", test_svm);
    qtest_add_func("x86-pmu/reset", test_reset);
    qtest_add_func("x86-pmu/reset-of-two", test_reset_two);
    qtest_add_func("x86-pmu/init", test_init);
    qtest_add_func("x86-pmu/no-full-width-write", test_no_full_width);
    qtest_add_data_func("x86-pmu/no-pmu/intel", "-cpu Icelake-Server-v6",
                        test_no_pmu_intel);
    qtest_add_data_func("x86-pmu/no-pmu/intel-off",
                        "-cpu SapphireRapids,pmu=off", test_no_pmu_intel);
    qtest_add_data_func("x86-pmu/no-pmu/amd", "-cpu EPYC", test_no_pmu);
    qtest_add_data_func("x86-pmu/no-pmu/max", "-cpu max", test_no_pmu);
    qtest_add_data_func("x86-pmu/unsupported/amd", "EPYC", test_unsupported);
    qtest_add_data_func("x86-pmu/unsupported/max", "max",
                        test_unsupported_max);
    qtest_add_data_func("x86-pmu/unsupported/max-of-intel",
                        "max,vendor=GenuineIntel", test_unsupported_max);
    qtest_add_data_func("x86-pmu/quiet", "SapphireRapids", test_quiet);

    qtest_add_func("x86-pmu/same-values/by-any-means", test_same_values);
    qtest_add_func("x86-pmu/same-values/timer", test_same_values_timer);
    qtest_add_func("x86-pmu/replay", test_replay);
    qtest_add_data_func("x86-pmu/migrate", ICELAKE, test_migrate);
    qtest_add_data_func("x86-pmu/migrate-icount", ICELAKE " -icount shift=1",
                        test_migrate);
    qtest_add_data_func("x86-pmu/migrate-changed/none", ICELAKE,
                        test_migrate_changed);
    qtest_add_data_func("x86-pmu/migrate-changed/static",
                        ICELAKE ",pmu-model=static", test_migrate_changed);
    qtest_add_data_func("x86-pmu/migrate-changed/precise",
                        ICELAKE ",pmu-model=precise", test_migrate_changed);
    qtest_add_func("x86-pmu/migrate-often", test_migrate_often);
    qtest_add_func("x86-pmu/back-often", test_back_often);
    qtest_add_func("x86-pmu/migrate-zero", test_migrate_zero);
    qtest_add_func("x86-pmu/pmi-away", test_pmi_away);
    qtest_add_func("x86-pmu/code-of-another", test_code_of_another);
    qtest_add_func("x86-pmu/reset-pending", test_reset_pending);
    qtest_add_func("x86-pmu/pmi-slices", test_pmi_slices);
    qtest_add_func("x86-pmu/query/record", test_query_record);
    qtest_add_func("x86-pmu/query/pending", test_query_pending);
    qtest_add_func("x86-pmu/no-apic", test_no_apic);
    qtest_add_func("x86-pmu/migrate-pending", test_migrate_pending);
    qtest_add_func("x86-pmu/migrate-ones", test_migrate_ones);
    qtest_add_func("x86-pmu/migrate-state-ones", test_migrate_state_ones);
    for (int i = 0; i < ARRAY_SIZE(mismatches); i++) {
        g_autofree char *path = g_strdup_printf("x86-pmu/mismatch/%s",
                                                mismatches[i].path);

        qtest_add_data_func(path, &mismatches[i], test_mismatch);
    }
    qtest_add_data_func("x86-pmu/corrupt/static", ICELAKE, test_corrupt);
    qtest_add_data_func("x86-pmu/corrupt/precise",
                        ICELAKE ",pmu-model=precise", test_corrupt);
    qtest_add_data_func("x86-pmu/corrupt/pinned", ICELAKE MIX, test_corrupt);
    qtest_add_data_func("x86-pmu/refused/pinned", ICELAKE MIX, test_refused);
    qtest_add_data_func("x86-pmu/refused/precise",
                        ICELAKE ",pmu-model=precise", test_refused);
    for (int i = 0; i < ARRAY_SIZE(stepped); i++) {
        qtest_add_data_func(stepped[i].path, &stepped[i], test_gdb);
    }
    qtest_add_func("x86-pmu/gdb/breakpoint", test_gdb_breakpoint);
    for (int i = 0; i < ARRAY_SIZE(endless); i++) {
        qtest_add_data_func(endless[i].path, &endless[i], test_stop);
    }
    qtest_add_data_func("x86-pmu/info/halted", ICELAKE " -smp 2",
                        test_info_halted);
    qtest_add_data_func("x86-pmu/info/halted-icount",
                        ICELAKE " -smp 2 -icount shift=1", test_info_halted);
    qtest_add_data_func("x86-pmu/info/running", ICELAKE, test_info_running);
    qtest_add_data_func("x86-pmu/info/unnoticed", ICELAKE,
                        test_info_unnoticed);
    qtest_add_data_func("x86-pmu/info/unnoticed-precise",
                        ICELAKE ",pmu-model=precise", test_info_unnoticed);
    qtest_add_data_func("x86-pmu/info/none", NULL, test_info_none);
    qtest_add_func("x86-pmu/info/frozen", test_info_frozen);
    qtest_add_func("x86-pmu/trace", test_trace);
    qtest_add_func("x86-pmu/random", test_random);
    qtest_add_data_func("x86-pmu/random-programs/mttcg", ICELAKE " -smp 2",
                        test_random_programs);
    qtest_add_data_func("x86-pmu/random-programs/precise",
                        ICELAKE ",pmu-model=precise -smp 2",
                        test_random_programs);
    qtest_add_data_func("x86-pmu/random-programs/single-thread",
                        ICELAKE " -smp 2 -accel tcg,thread=single",
                        test_random_programs);
    qtest_add_data_func("x86-pmu/random-programs/icount",
                        ICELAKE " -smp 2 -icount shift=1",
                        test_random_programs);
    qtest_add_data_func("x86-pmu/random-programs/one-insn-per-tb",
                        ICELAKE " -smp 2 -accel tcg,one-insn-per-tb=on",
                        test_random_programs);

    ret = g_test_run();
    guest_cleanup();
    return ret;
}
