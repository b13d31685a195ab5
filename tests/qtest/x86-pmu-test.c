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
#include "qobject/qdict.h"
#include "qemu/bswap.h"
#include "x86-pmu/cases.h"
#include "x86-pmu/guest.h"
#include "x86-pmu/x86-pmu-guest.inc"

#define MACHINE     "-M q35 -m 16 -nodefaults -no-user-config "
/* Its versions before 4 have the model number of another microarchitecture */
#define ICELAKE     "-cpu Icelake-Server-v6,pmu=on "
#define SAPPHIRE    "-cpu SapphireRapids,pmu=on "

/* Far more than any case takes, for slow hosts */
#define TIMEOUT_S   120

typedef struct Guest {
    QTestState *qts;
    unsigned boots;
} Guest;

static const struct {
    const char *path;
    int flags;
} cases[] = {
#define X(sym, path, flags) [GUEST_CASE(sym)] = { path, flags },
    GUEST_CASES(X)
#undef X
};

/* Several QEMUs may use it; they read it at start and at reset. */
static char *image_file;

/* The image, with a command to run without a mailbox */
static char *write_image(uint32_t command)
{
    g_autofree uint8_t *image = g_memdup2(x86_pmu_guest,
                                          sizeof(x86_pmu_guest));
    char *file;
    int fd = g_file_open_tmp("x86-pmu-XXXXXX", &file, NULL);

    QEMU_BUILD_BUG_ON(sizeof(x86_pmu_guest) != GUEST_ROM_SIZE);
    g_assert(fd >= 0);
    stl_le_p(image, command);
    g_assert_cmpint(write(fd, image, sizeof(x86_pmu_guest)), ==,
                    sizeof(x86_pmu_guest));
    close(fd);
    return file;
}

static uint32_t mailbox(Guest *g, unsigned reg)
{
    return qtest_readl(g->qts, MAILBOX_ADDR + reg);
}

/* Wait until a word in the mailbox has a value. */
static void wait_for(Guest *g, unsigned reg, uint32_t value)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT_S * G_USEC_PER_SEC;

    while (mailbox(g, reg) != value) {
        if (mailbox(g, MAILBOX_PHASE) == MAILBOX_DEAD) {
            return;
        }
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
}

static Guest guest_init(const char *args)
{
    Guest g = {
        .qts = qtest_initf(MACHINE "-bios %s %s -accel tcg", image_file,
                           args),
        .boots = 1,
    };

    wait_for(&g, MAILBOX_BOOTS, 1);
    return g;
}

static void guest_quit(Guest *g)
{
    qtest_quit(g->qts);
}

static void guest_start(Guest *g, uint32_t command, uint64_t arg)
{
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_CHECKS, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_FAILURES, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_PHASE, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_LENGTH, 0);
    qtest_writeq(g->qts, MAILBOX_ADDR + MAILBOX_ARG, arg);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_COMMAND, command);
}

/* Each line of the program's report, and whether it found a failure */
static void guest_finish(Guest *g)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    uint32_t length;

    wait_for(g, MAILBOX_COMMAND, 0);
    /* It does not reset itself */
    g_assert_cmpint(mailbox(g, MAILBOX_BOOTS), ==, g->boots);
    length = mailbox(g, MAILBOX_LENGTH);
    g_assert_cmpint(length, <=, MAILBOX_TEXT_SIZE);
    text = g_malloc0(length + 1);
    qtest_memread(g->qts, MAILBOX_ADDR + MAILBOX_TEXT, text, length);
    lines = g_strsplit(text, "\n", -1);
    for (int i = 0; lines[i]; i++) {
        if (*lines[i]) {
            g_test_message("%s", lines[i]);
        }
    }
    g_assert_cmpint(mailbox(g, MAILBOX_CHECKS), >, 0);
    if (mailbox(g, MAILBOX_FAILURES)) {
        g_test_fail();
    }
}

static void guest_run(Guest *g, uint32_t command, uint64_t arg)
{
    guest_start(g, command, arg);
    guest_finish(g);
}

static void test_case(const void *data)
{
    uint32_t command = GPOINTER_TO_UINT(data);
    bool smp = cases[command].flags & CASE_SMP;
    Guest g = guest_init(smp ? ICELAKE "-smp 2" : ICELAKE);

    guest_run(&g, command, 0);
    guest_quit(&g);
}

/* All cases in a row, with other CPUs and options */
static void test_all(const void *data)
{
    const char *args = data;
    Guest g = guest_init(args);

    guest_run(&g, GUEST_CASE_ALL, strstr(args, "-smp 2") != NULL);
    guest_quit(&g);
}

/* ------------------------------------------------- Properties and reset */

static void test_reset(void)
{
    Guest g = guest_init(ICELAKE);

    guest_run(&g, GUEST_CASE(reset_values), 0);
    guest_run(&g, GUEST_CASE(dirty), 0);
    qtest_qmp_assert_success(g.qts, "{ 'execute': 'system_reset' }");
    wait_for(&g, MAILBOX_BOOTS, ++g.boots);
    guest_run(&g, GUEST_CASE(reset_values), 0);
    guest_run(&g, GUEST_CASE(cpuid), 0);
    guest_quit(&g);
}

static void test_no_pmu(const void *data)
{
    Guest g = guest_init(data);

    guest_run(&g, GUEST_CASE(no_pmu), 0);
    guest_quit(&g);
}

static void test_no_pmu_intel(const void *data)
{
    Guest g = guest_init(data);

    guest_run(&g, GUEST_CASE(no_pmu_intel), 0);
    guest_quit(&g);
}

static void test_no_full_width(void)
{
    Guest g = guest_init("-cpu Icelake-Server-v6,pmu=on,full-width-write=off");

    guest_run(&g, GUEST_CASE(no_full_width), 0);
    guest_quit(&g);
}

/*
 * Run a program that needs no mailbox to its end, and return what it prints,
 * and what QEMU does.
 */
static char *run_alone(uint32_t command, const char *args, char **messages)
{
    g_autofree char *image = write_image(command);
    g_autofree char *out = NULL, *line = NULL, *errors = NULL;
    g_auto(GStrv) argv = NULL;
    char *text;
    int status, fd = g_file_open_tmp("x86-pmu-out-XXXXXX", &out, NULL);
    GError *err = NULL;

    g_assert(fd >= 0);
    close(fd);
    line = g_strdup_printf("%s " MACHINE "-display none -bios %s "
                           "-debugcon file:%s "
                           "-device isa-debug-exit,iobase=0x%x %s "
                           "-accel tcg",
                           getenv("QTEST_QEMU_BINARY"), image, out,
                           EXIT_PORT, args);
    g_test_message("%s", line);
    g_assert(g_shell_parse_argv(line, NULL, &argv, NULL));
    g_spawn_sync(NULL, argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL,
                 NULL, &errors, &status, &err);
    g_assert_no_error(err);
    if (*errors) {
        g_test_message("%s", errors);
    }
    /* The status says little: isa-debug-exit makes it odd, replay makes it 0 */
    g_assert(WIFEXITED(status));
    g_assert(g_file_get_contents(out, &text, NULL, NULL));
    if (strstr(text, "FAIL") || !g_str_has_suffix(text, "END\n")) {
        g_test_message("%s", text);
        g_test_fail();
    }
    unlink(out);
    unlink(image);
    if (messages) {
        *messages = g_steal_pointer(&errors);
    }
    return text;
}

/* The lines of one text which the other does not have */
static unsigned new_lines(const char *text, const char *old)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    unsigned n = 0;

    for (int i = 0; lines[i]; i++) {
        if (*lines[i] && !strstr(old, lines[i])) {
            g_test_message("new: %s", lines[i]);
            n++;
        }
    }
    return n;
}

static void check_same(const char *a, const char *b)
{
    g_auto(GStrv) lines_a = g_strsplit(a, "\n", -1);
    g_auto(GStrv) lines_b = g_strsplit(b, "\n", -1);
    unsigned n = 0;

    for (int i = 0; lines_a[i] && lines_b[i]; i++) {
        if (strcmp(lines_a[i], lines_b[i]) != 0 && n++ < 20) {
            g_test_message("%s, but then %s", lines_a[i], lines_b[i]);
        }
    }
    if (strcmp(a, b) != 0) {
        g_test_fail();
    }
}

/* pmu=on has no effect where there cannot be one, but a warning. */
static void test_unsupported(const void *data)
{
    const char *model = data;
    g_autofree char *with = g_strdup_printf("-cpu %s,pmu=on", model);
    g_autofree char *without = g_strdup_printf("-cpu %s", model);
    g_autofree char *out = NULL, *out_without = NULL, *messages = NULL;
    g_autofree char *messages_without = NULL;

    out = run_alone(GUEST_CASE(no_pmu), with, &messages);
    out_without = run_alone(GUEST_CASE(no_pmu), without, &messages_without);
    check_same(out, out_without);
    g_assert_cmpint(new_lines(messages, messages_without), <=, 1);
}

/* On a model that has one there is nothing to say. */
static void test_quiet(const void *data)
{
    const char *model = data;
    g_autofree char *with = g_strdup_printf("-cpu %s,pmu=on", model);
    g_autofree char *without = g_strdup_printf("-cpu %s", model);
    g_autofree char *out = NULL, *out_without = NULL, *messages = NULL;
    g_autofree char *messages_without = NULL;

    out = run_alone(GUEST_CASE(cpuid), with, &messages);
    out_without = run_alone(GUEST_CASE(no_pmu), without, &messages_without);
    g_assert_cmpint(new_lines(messages, messages_without), ==, 0);
}

/* ---------------------------------------------------------- Determinism */

static void test_same_values(const void *data)
{
    const char *args = data;
    g_autofree char *first = run_alone(GUEST_CASE(values), args, NULL);
    g_autofree char *second = run_alone(GUEST_CASE(values), args, NULL);

    g_assert_cmpint(strlen(first), >, 1000);
    check_same(first, second);
}

/* The counts do not depend on how QEMU runs the code, nor on time. */
static void test_same_values_icount(void)
{
    g_autofree char *plain = run_alone(GUEST_CASE(values), ICELAKE, NULL);
    g_autofree char *single =
        run_alone(GUEST_CASE(values),
                  ICELAKE "-accel tcg,thread=single,tb-size=1", NULL);
    g_autofree char *icount =
        run_alone(GUEST_CASE(values), ICELAKE "-icount shift=1", NULL);

    check_same(plain, single);
    check_same(plain, icount);
}

/* With interrupts of a timer, at the same instructions each time */
#define TIMER_ARG   "-device loader,addr=0x20018,data=1,data-len=8 "

static void test_replay(void)
{
    g_autofree char *log = NULL, *record = NULL, *replay = NULL;
    g_autofree char *args = NULL, *args_replay = NULL;
    int fd = g_file_open_tmp("x86-pmu-rr-XXXXXX", &log, NULL);

    QEMU_BUILD_BUG_ON(MAILBOX_ADDR + MAILBOX_ARG != 0x20018);
    g_assert(fd >= 0);
    close(fd);
    args = g_strdup_printf(ICELAKE TIMER_ARG
                           "-icount shift=1,rr=record,rrfile=%s", log);
    record = run_alone(GUEST_CASE(values), args, NULL);
    args_replay = g_strdup_printf(ICELAKE TIMER_ARG
                                  "-icount shift=1,rr=replay,rrfile=%s", log);
    replay = run_alone(GUEST_CASE(values), args_replay, NULL);
    unlink(log);
    g_assert_cmpint(strlen(record), >, 1000);
    check_same(record, replay);
}

/* ------------------------------------------------------------ Migration */

static void wait_migrated(QTestState *qts)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT_S * G_USEC_PER_SEC;

    for (;;) {
        QDict *rsp = qtest_qmp_assert_success_ref(
            qts, "{ 'execute': 'query-migrate' }");
        const char *status = qdict_get_try_str(rsp, "status");
        bool done = g_strcmp0(status, "completed") == 0;

        g_assert_cmpstr(status, !=, "failed");
        qobject_unref(rsp);
        if (done) {
            return;
        }
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(1000);
    }
}

static void test_migrate(const void *data)
{
    const char *args = data;
    Guest from = guest_init(args), to = { .boots = 1 };
    g_autofree char *stream = NULL, *uri = NULL;
    int fd = g_file_open_tmp("x86-pmu-mig-XXXXXX", &stream, NULL);

    g_assert(fd >= 0);
    close(fd);
    uri = g_strdup_printf("file:%s", stream);
    guest_start(&from, GUEST_CASE(migrate), 0);
    wait_for(&from, MAILBOX_PHASE, 1);
    qtest_qmp_assert_success(from.qts, "{ 'execute': 'migrate', "
                             "'arguments': { 'uri': %s } }", uri);
    wait_migrated(from.qts);
    /* Otherwise it did not migrate in mid run */
    g_assert_cmpint(mailbox(&from, MAILBOX_PHASE), ==, 1);
    guest_quit(&from);

    to.qts = qtest_initf(MACHINE "-bios %s %s -incoming %s -accel tcg",
                         image_file, args, uri);
    wait_migrated(to.qts);
    unlink(stream);
    guest_finish(&to);
    guest_quit(&to);
}

/* -------------------------------------------------------------- Nonsense */

static void test_random(void)
{
    uint32_t seed = g_test_rand_int();
    Guest g = guest_init(ICELAKE);

    g_test_message("seed 0x%x, chosen by --seed", seed);
    guest_run(&g, GUEST_CASE(monkey), seed);
    guest_quit(&g);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    if (!qtest_has_accel("tcg")) {
        g_test_skip("needs TCG");
        return g_test_run();
    }
    image_file = write_image(0);

    for (int i = 1; i < ARRAY_SIZE(cases); i++) {
        if (!(cases[i].flags & CASE_MANUAL)) {
            g_autofree char *path = g_strdup_printf("x86-pmu/%s",
                                                    cases[i].path);

            qtest_add_data_func(path, GUINT_TO_POINTER(i), test_case);
        }
    }

    qtest_add_data_func("x86-pmu/all/sapphire-rapids", SAPPHIRE "-smp 2",
                        test_all);
    qtest_add_data_func("x86-pmu/all/i440fx", ICELAKE "-M pc", test_all);
    qtest_add_data_func("x86-pmu/all/icount", ICELAKE "-icount shift=1",
                        test_all);
    qtest_add_data_func("x86-pmu/all/one-insn-per-tb",
                        ICELAKE "-accel tcg,one-insn-per-tb=on", test_all);
    qtest_add_data_func("x86-pmu/all/single-thread",
                        ICELAKE "-smp 2 -accel tcg,thread=single", test_all);

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

    qtest_add_data_func("x86-pmu/same-values/icelake", ICELAKE,
                        test_same_values);
    qtest_add_data_func("x86-pmu/same-values/icount",
                        ICELAKE TIMER_ARG "-icount shift=1",
                        test_same_values);
    qtest_add_func("x86-pmu/same-values/by-any-means",
                   test_same_values_icount);
    qtest_add_func("x86-pmu/replay", test_replay);
    qtest_add_data_func("x86-pmu/migrate", ICELAKE, test_migrate);
    qtest_add_data_func("x86-pmu/migrate-icount", ICELAKE "-icount shift=1",
                        test_migrate);
    qtest_add_func("x86-pmu/random", test_random);

    ret = g_test_run();
    unlink(image_file);
    g_free(image_file);
    return ret;
}
