/*
 * What the qtests of the x86 PMU have in common
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "qobject/qdict.h"
#include "qemu/bswap.h"
#include "x86-pmu-util.h"
#include "x86-pmu/x86-pmu-guest.inc"

#define MACHINE     "-M q35 -m 16 -nodefaults -no-user-config"

/* Far more than any case takes, for slow hosts */
#define TIMEOUT_S   600

static const struct {
    const char *path;
    unsigned flags;
} cases[GUEST_CASE(all_topdown)] = {
#define X(sym, path, flags) [GUEST_CASE(sym)] = { path, flags },
    MODES_CASES(X)
    PMU_CASES(X)
    TOPDOWN_CASES(X)
#undef X
};

/* Several QEMUs may use it; they read it at start and at reset. */
static char *image_file;

/* The image, with a command to run without a mailbox */
static char *write_image(uint32_t command, uint32_t config)
{
    g_autofree uint8_t *image = g_memdup2(x86_pmu_guest,
                                          sizeof(x86_pmu_guest));
    char *file;
    int fd = g_file_open_tmp("x86-pmu-XXXXXX", &file, NULL);

    QEMU_BUILD_BUG_ON(sizeof(x86_pmu_guest) != GUEST_ROM_SIZE);
    g_assert(fd >= 0);
    stl_le_p(image, command);
    stl_le_p(image + 4, config);
    g_assert_cmpint(write(fd, image, sizeof(x86_pmu_guest)), ==,
                    sizeof(x86_pmu_guest));
    close(fd);
    return file;
}

char *guest_temporary_file(void)
{
    char *file;
    int fd = g_file_open_tmp("x86-pmu-XXXXXX", &file, NULL);

    g_assert(fd >= 0);
    close(fd);
    return file;
}

bool guest_setup(void)
{
    if (!qtest_has_accel("tcg")) {
        g_test_skip("needs TCG");
        return false;
    }
    image_file = write_image(0, 0);
    return true;
}

void guest_cleanup(void)
{
    unlink(image_file);
    g_free(image_file);
}

void guest_add_cases(const char *prefix, unsigned first, unsigned end,
                     void (*fn)(const void *))
{
    for (unsigned i = first; i < end; i++) {
        if (!(cases[i].flags & CASE_MANUAL)) {
            g_autofree char *path = g_strdup_printf("%s/%s", prefix,
                                                    cases[i].path);

            qtest_add_data_func(path, GUINT_TO_POINTER(i), fn);
        }
    }
}

unsigned guest_case_flags(unsigned command)
{
    return cases[command].flags;
}

/* -------------------------------------------------------- With a mailbox */

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

Guest guest_init(const char *args, uint32_t config)
{
    Guest g = {
        .qts = qtest_initf(MACHINE " -bios %s %s -accel tcg", image_file,
                           args),
        .boots = 1,
        .config = config,
    };

    wait_for(&g, MAILBOX_BOOTS, 1);
    return g;
}

void guest_quit(Guest *g)
{
    qtest_quit(g->qts);
}

void guest_wait_boot(Guest *g)
{
    wait_for(g, MAILBOX_BOOTS, ++g->boots);
}

void guest_reset(Guest *g)
{
    qtest_qmp_assert_success(g->qts, "{ 'execute': 'system_reset' }");
    guest_wait_boot(g);
}

void guest_start(Guest *g, uint32_t command, uint64_t arg, uint64_t arg2)
{
    g->phase = -1;
    g->command = command;
    g->arg = arg;
    g->arg2 = arg2;
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_CHECKS, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_FAILURES, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_PHASE, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_LENGTH, 0);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_CONFIG, g->config);
    qtest_writeq(g->qts, MAILBOX_ADDR + MAILBOX_ARG, arg);
    qtest_writeq(g->qts, MAILBOX_ADDR + MAILBOX_ARG2, arg2);
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_COMMAND, command);
}

void guest_wait_phase(Guest *g, uint32_t phase)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT_S * G_USEC_PER_SEC;

    while (mailbox(g, MAILBOX_PHASE) != phase) {
        if (mailbox(g, MAILBOX_PHASE) == MAILBOX_DEAD) {
            return;
        }
        if (!mailbox(g, MAILBOX_COMMAND)) {
            guest_start(g, g->command, g->arg, g->arg2);
        }
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(500);
    }
    g->phase = phase;
}

void guest_set_phase(Guest *g, uint32_t phase)
{
    g->phase = -1;
    qtest_writel(g->qts, MAILBOX_ADDR + MAILBOX_PHASE, phase);
}

char *guest_text(Guest *g)
{
    uint32_t length = mailbox(g, MAILBOX_LENGTH);
    char *text;

    g_assert_cmpint(length, <=, MAILBOX_TEXT_SIZE);
    text = g_malloc0(length + 1);
    qtest_memread(g->qts, MAILBOX_ADDR + MAILBOX_TEXT, text, length);
    return text;
}

/* Each line of the program's report, and whether it found a failure */
void guest_finish(Guest *g)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    wait_for(g, MAILBOX_COMMAND, 0);
    /* It does not reset itself */
    g_assert_cmpint(mailbox(g, MAILBOX_BOOTS), ==, g->boots);
    text = guest_text(g);
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

void guest_run(Guest *g, uint32_t command, uint64_t arg, uint64_t arg2)
{
    guest_start(g, command, arg, arg2);
    guest_finish(g);
}

/* Until query-migrate or query-status answers with a status */
static void wait_status(QTestState *qts, const char *query, const char *wanted)
{
    gint64 end = g_get_monotonic_time() + TIMEOUT_S * G_USEC_PER_SEC;
    bool done = false;

    while (!done) {
        QDict *rsp = qtest_qmp_assert_success_ref(qts, "{ 'execute': %s }",
                                                  query);
        const char *status = qdict_get_try_str(rsp, "status");

        g_assert_cmpstr(status, !=, "failed");
        done = g_strcmp0(status, wanted) == 0;
        qobject_unref(rsp);
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(done ? 0 : 1000);
    }
}

char *guest_save(Guest *g)
{
    char *stream = guest_temporary_file();
    g_autofree char *uri = g_strdup_printf("file:%s", stream);
    unsigned tries = 0;

    /* On a loaded host, a case could end while its memory is saved. */
    qtest_qmp_assert_success(g->qts, "{ 'execute': 'stop' }");
    while (g->phase >= 0 && mailbox(g, MAILBOX_PHASE) != g->phase) {
        qtest_qmp_assert_success(g->qts, "{ 'execute': 'cont' }");
        wait_for(g, MAILBOX_COMMAND, 0);
        g_assert_cmpint(tries++, <, 10);
        guest_wait_phase(g, g->phase);
        qtest_qmp_assert_success(g->qts, "{ 'execute': 'stop' }");
    }
    qtest_qmp_assert_success(g->qts, "{ 'execute': 'migrate', "
                             "'arguments': { 'uri': %s } }", uri);
    wait_status(g->qts, "query-migrate", "completed");
    /* Only then is QEMU done: until then, it refuses "cont". */
    wait_status(g->qts, "query-status", "postmigrate");
    return stream;
}

Guest guest_load(const Guest *g, const char *args, const char *stream)
{
    Guest to = *g;

    to.qts = qtest_initf(MACHINE " -bios %s %s -incoming file:%s -accel tcg",
                         image_file, args, stream);
    wait_status(to.qts, "query-migrate", "completed");
    unlink(stream);
    qtest_qmp_assert_success(to.qts, "{ 'execute': 'cont' }");
    return to;
}

Guest guest_migrate(Guest *g, const char *args)
{
    g_autofree char *stream = guest_save(g);

    guest_quit(g);
    return guest_load(g, args, stream);
}

char *guest_disk(void)
{
    g_autofree char *disk = NULL;
    int fd = g_file_open_tmp("x86-pmu-XXXXXX", &disk, NULL);

    g_assert(fd >= 0);
    close(fd);
    g_assert(mkimg(disk, "qcow2", 64));
    return g_steal_pointer(&disk);
}

char *guest_run_migrating(Guest *g, const char *args, uint32_t command,
                          uint64_t arg, uint64_t arg2, unsigned *n)
{
    guest_start(g, command, arg, arg2);
    while (*n) {
        g_usleep(g_test_rand_int_range(0, 30000));
        if (!mailbox(g, MAILBOX_COMMAND)) {
            break;
        }
        if (args) {
            g_autofree char *stream = guest_save(g);

            guest_quit(g);
            *g = guest_load(g, args, stream);
        } else {
            g_autofree char *saved = qtest_hmp(g->qts, "savevm s"), *loaded;

            g_usleep(g_test_rand_int_range(0, 60000));
            loaded = qtest_hmp(g->qts, "loadvm s");
            g_assert_cmpstr(saved, ==, "");
            g_assert_cmpstr(loaded, ==, "");
        }
        --*n;
    }
    wait_for(g, MAILBOX_COMMAND, 0);
    /* A case for its text alone has no rules. */
    if (mailbox(g, MAILBOX_CHECKS)) {
        guest_finish(g);
    }
    return guest_text(g);
}

QTestState *guest_load_bad(const char *args, const char *stream, bool *done)
{
    QTestState *qts = qtest_initf(MACHINE " -bios %s %s -S -incoming defer "
                                  "-accel tcg", image_file, args);
    g_autofree char *uri = g_strdup_printf("file:%s", stream);
    gint64 end = g_get_monotonic_time() + TIMEOUT_S * G_USEC_PER_SEC;
    bool failed = false;

    *done = false;
    qtest_qmp_assert_success(qts, "{ 'execute': 'migrate-incoming', "
                             "'arguments': { 'uri': %s, "
                             "'exit-on-error': false } }", uri);
    while (!*done && !failed) {
        QDict *rsp = qtest_qmp_assert_success_ref(
            qts, "{ 'execute': 'query-migrate' }");
        const char *status = qdict_get_try_str(rsp, "status");

        *done = g_strcmp0(status, "completed") == 0;
        failed = g_strcmp0(status, "failed") == 0;
        qobject_unref(rsp);
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(1000);
    }
    return qts;
}

bool guest_try_load(const char *args, const char *stream)
{
    bool done;
    QTestState *qts = guest_load_bad(args, stream, &done);

    /* Also of half a stream */
    g_free(qtest_hmp(qts, "info pmu"));
    if (done) {
        g_free(qtest_hmp(qts, "info registers"));
        qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
        g_usleep(5000);
        qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
    }
    qtest_quit(qts);
    return done;
}

char *guest_refusal(const char *args, const char *stream)
{
    g_autofree char *line = NULL;
    g_auto(GStrv) argv = NULL;
    GError *err = NULL;
    char *errors;
    int status;

    line = g_strdup_printf("timeout %d %s " MACHINE " -display none -bios %s "
                           "%s -S -incoming file:%s -accel tcg", TIMEOUT_S / 5,
                           getenv("QTEST_QEMU_BINARY"), image_file, args,
                           stream);
    g_assert(g_shell_parse_argv(line, NULL, &argv, NULL));
    g_spawn_sync(NULL, argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL |
                 G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &errors, &status,
                 &err);
    g_assert_no_error(err);
    g_test_message("%s", errors);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
        g_test_message("status 0x%x: %s", status, line);
        g_test_fail();
    }
    return errors;
}

/* --------------------------------------------------------------- Alone */

char *guest_run_alone(uint32_t command, uint32_t config, const char *args,
                      char **messages)
{
    g_autofree char *image = write_image(command, config);
    g_autofree char *out = guest_temporary_file(), *line = NULL, *errors = NULL;
    g_auto(GStrv) argv = NULL;
    char *text;
    int status;
    GError *err = NULL;

    line = g_strdup_printf("%s " MACHINE " -display none -bios %s "
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
    unlink(out);
    unlink(image);
    if (messages) {
        *messages = g_steal_pointer(&errors);
    }
    return text;
}

char *guest_must_run(uint32_t command, uint32_t config, const char *args,
                     char **messages)
{
    char *text = guest_run_alone(command, config, args, messages);

    if (strstr(text, "FAIL") || !g_str_has_suffix(text, "END\n")) {
        g_test_message("%s", text);
        g_test_fail();
    }
    return text;
}

unsigned guest_new_lines(const char *text, const char *old)
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

void guest_check_same(const char *a, const char *b)
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

void guest_check_runs(uint32_t command, uint32_t config,
                      const char *const *args)
{
    g_autofree char *first = guest_must_run(command, config, args[0], NULL);

    g_assert_cmpint(strlen(first), >, 1000);
    for (int i = 1; args[i]; i++) {
        g_autofree char *other = guest_must_run(command, config, args[i],
                                                NULL);

        guest_check_same(first, other);
    }
}

void guest_check_replay(uint32_t command, uint32_t config, const char *args)
{
    static const char *const modes[] = { "record", "replay" };
    g_autofree char *log = guest_temporary_file();
    char *line[3] = { };

    for (int i = 0; i < ARRAY_SIZE(modes); i++) {
        line[i] = g_strdup_printf("%s -icount shift=1,rr=%s,rrfile=%s", args,
                                  modes[i], log);
    }
    guest_check_runs(command, config, (const char *const *)line);
    unlink(log);
    g_free(line[0]);
    g_free(line[1]);
}
