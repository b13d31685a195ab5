/*
 * Helpers for qtests of the HiSilicon PMCU
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hisi_pmcu-util.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qemu/bswap.h"

/* Flattened device tree: Devicetree Specification v0.4, chapter 5 */
#define FDT_MAGIC       0xd00dfeed
#define FDT_BEGIN_NODE  1
#define FDT_END_NODE    2
#define FDT_PROP        3
#define FDT_NOP         4

static const uint32_t guest_firmware[] = {
    0xd53800a1,     /*     mrs     x1, mpidr_el1 */
    0x92401c21,     /*     and     x1, x1, #0xff */
    0xd2a82013,     /*     mov     x19, #0x41000000 */
    0x8b014273,     /*     add     x19, x19, x1, lsl #16 */
    0x91400661,     /*     add     x1, x19, #0x1000 */
    0xd518c001,     /*     msr     vbar_el1, x1 */
    0xd5033fdf,     /*     isb */
    0x14000002,     /*     b       2f */
    0xd503203f,     /* 1:  yield: to the next CPU, if they take turns */
    0xf9400274,     /* 2:  ldr     x20, [x19] */
    0xb4ffffd4,     /*     cbz     x20, 1b */
    0xf9400660,     /*     ldr     x0, [x19, #8] */
    0xd63f0280,     /*     blr     x20 */
    0xf9000a60,     /*     str     x0, [x19, #16] */
    0xf900027f,     /*     str     xzr, [x19] */
    0x17fffffa,     /*     b       2b */
};

void pmcu_wait_stored(const Pmcu *p, unsigned n)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (pmcu_stored(p) >= n) {
            return;
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
}

Pmcu guest_init(const char *args)
{
    Pmcu p = { .base = PMCU_BASE, .spi = PMCU_SPI };
    g_autofree char *file = NULL;
    uint32_t code[ARRAY_SIZE(guest_firmware)];
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &file, NULL);

    g_assert(fd >= 0);
    for (int i = 0; i < ARRAY_SIZE(code); i++) {
        code[i] = cpu_to_le32(guest_firmware[i]);
    }
    g_assert_cmpint(write(fd, code, sizeof(code)), ==, sizeof(code));
    close(fd);
    p.qts = qtest_initf("-M virt,gic-version=3,pmcu=on -nic none -bios %s %s",
                        file, args);
    unlink(file);
    return p;
}

void guest_put(const Pmcu *p, uint64_t addr, const uint32_t *code, size_t n)
{
    for (int i = 0; i < n; i++) {
        qtest_writel(p->qts, addr + 4 * i, code[i]);
    }
}

void guest_start(const Pmcu *p, unsigned cpu, uint64_t arg,
                 const uint32_t *code, size_t n)
{
    g_assert_cmpint(GUEST_CODE + 4 * n, <=,
                    GUEST_VECTORS(0) - GUEST_MAILBOX(0));
    guest_put(p, GUEST_MAILBOX(cpu) + GUEST_CODE, code, n);
    qtest_writeq(p->qts, GUEST_MAILBOX(cpu) + GUEST_ARG, arg);
    qtest_writeq(p->qts, GUEST_MAILBOX(cpu) + GUEST_FN,
                 GUEST_MAILBOX(cpu) + GUEST_CODE);
}

uint64_t guest_wait(const Pmcu *p, unsigned cpu)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (!qtest_readq(p->qts, GUEST_MAILBOX(cpu) + GUEST_FN)) {
            return qtest_readq(p->qts, GUEST_MAILBOX(cpu) + GUEST_RESULT);
        }
        /* Most calls take a fraction of a millisecond */
        g_usleep(i < 20 ? 50 : 1000);
    }
    g_assert_not_reached();
}

uint64_t guest_call(const Pmcu *p, unsigned cpu, uint64_t arg,
                    const uint32_t *code, size_t n)
{
    guest_start(p, cpu, arg, code, n);
    return guest_wait(p, cpu);
}

const uint32_t guest_enter_a32[6] = {
    0x91400661,         /* add     x1, x19, #0x1000 */
    0xd51cc001,         /* msr     vbar_el2, x1 */
    0xd51c4020,         /* msr     elr_el2, x0 */
    0xd2803a62,         /* mov     x2, #0x1d3: Supervisor mode, A32 */
    0xd51c4002,         /* msr     spsr_el2, x2 */
    0xd69f03e0,         /* eret */
};

uint64_t guest_read(const Pmcu *p, unsigned cpu, uint32_t sysreg)
{
    const uint32_t code[] = { INSN_MRS_X0 | sysreg, INSN_RET };

    return guest_call(p, cpu, 0, code, ARRAY_SIZE(code));
}

void guest_write(const Pmcu *p, unsigned cpu, uint32_t sysreg, uint64_t value)
{
    const uint32_t code[] = { INSN_MSR_X0 | sysreg, INSN_RET };

    guest_call(p, cpu, value, code, ARRAY_SIZE(code));
}

void guest_cpu_on(const Pmcu *p, unsigned caller, uint64_t mpidr,
                  bool have_el2)
{
    const uint32_t code[] = {
        0xaa0003e1,     /* mov     x1, x0 */
        0xd2800060,     /* mov     x0, #0x3 */
        0xf2b88000,     /* movk    x0, #0xc400, lsl #16 */
        0xd2800002,     /* mov     x2, #0x0 */
        0xd2800003,     /* mov     x3, #0x0 */
        have_el2 ?
        0xd4000003 :    /* smc     #0x0 */
        0xd4000002,     /* hvc     #0x0 */
        INSN_RET,
    };

    qtest_writeq(p->qts, GUEST_MAILBOX(mpidr & 0xff) + GUEST_FN, 0);
    g_assert_cmpint(guest_call(p, caller, mpidr, code, ARRAY_SIZE(code)), ==,
                    0);
}

char *pmcu_find_device(QTestState *qts, const char *type, unsigned nth)
{
    g_autofree char *child = g_strdup_printf("child<%s>", type);
    QDict *rsp = qtest_qmp(qts, "{'execute': 'qom-list',"
                           " 'arguments': {'path': '/machine/unattached'}}");
    QList *list = qdict_get_qlist(rsp, "return");
    QListEntry *entry;
    char *path = NULL;

    g_assert(list);
    QLIST_FOREACH_ENTRY(list, entry) {
        QDict *obj = qobject_to(QDict, qlist_entry_obj(entry));

        if (!strcmp(qdict_get_str(obj, "type"), child) && nth-- == 0) {
            path = g_strdup_printf("/machine/unattached/%s",
                                   qdict_get_str(obj, "name"));
            break;
        }
    }
    qobject_unref(rsp);
    g_assert(path);
    return path;
}

void pmcu_power_cpu(QTestState *qts, unsigned cpu, bool on)
{
    QDict *rsp = qtest_qmp(qts, "{'execute': 'query-cpus-fast'}");
    QList *list = qdict_get_qlist(rsp, "return");
    QListEntry *entry;
    bool found = false;

    g_assert(list);
    QLIST_FOREACH_ENTRY(list, entry) {
        QDict *obj = qobject_to(QDict, qlist_entry_obj(entry));

        if (qdict_get_int(obj, "cpu-index") == cpu) {
            qtest_qom_set_bool(qts, qdict_get_str(obj, "qom-path"),
                               "start-powered-off", !on);
            found = true;
        }
    }
    qobject_unref(rsp);
    g_assert(found);
}

/* Wait for the end of a migration; was it successful? */
static bool pmcu_wait_migration(QTestState *qts)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        QDict *rsp = qtest_qmp_assert_success_ref(
            qts, "{'execute': 'query-migrate'}");
        const char *status = qdict_get_try_str(rsp, "status");
        bool completed = !g_strcmp0(status, "completed");
        bool failed = !g_strcmp0(status, "failed");

        if (failed) {
            g_test_message("migration failed: %s",
                           qdict_get_try_str(rsp, "error-desc"));
        }
        qobject_unref(rsp);
        if (completed || failed) {
            return completed;
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
}

/* "completed" comes before QEMU is done: until then, it refuses "cont". */
static void pmcu_wait_saved(QTestState *qts)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        QDict *rsp = qtest_qmp_assert_success_ref(
            qts, "{'execute': 'query-status'}");
        bool saved = g_str_equal(qdict_get_str(rsp, "status"), "postmigrate");

        qobject_unref(rsp);
        if (saved) {
            return;
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
}

char *pmcu_disk(void)
{
    g_autofree char *disk = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &disk, NULL);

    g_assert(fd >= 0);
    close(fd);
    g_assert(mkimg(disk, "qcow2", 64));
    return g_steal_pointer(&disk);
}

char *pmcu_save(QTestState *qts)
{
    g_autofree char *file = NULL;
    g_autofree char *uri = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &file, NULL);

    g_assert(fd >= 0);
    close(fd);
    uri = g_strdup_printf("file:%s", file);
    qtest_qmp_assert_success(qts, "{'execute': 'migrate',"
                             " 'arguments': {'uri': %s}}", uri);
    g_assert_true(pmcu_wait_migration(qts));
    pmcu_wait_saved(qts);
    return g_steal_pointer(&file);
}

bool pmcu_load(QTestState *qts, const char *file)
{
    g_autofree char *uri = g_strdup_printf("file:%s", file);

    qtest_qmp_assert_success(qts, "{'execute': 'migrate-incoming',"
                             " 'arguments': {'uri': %s,"
                             " 'exit-on-error': false}}", uri);
    return pmcu_wait_migration(qts);
}

void pmcu_refused(const char *args, const char *file, const char *why)
{
    /* What QEMU says of any stream that it refuses */
    static const char *const others[] = {
        "warning: ", "error while loading state ", "load of migration failed",
    };
    g_autofree char *all = g_strdup_printf("-M virt,gic-version=3,pmcu=on "
                                           "-nic none -S %s -incoming file:%s",
                                           args, file);
    g_autofree char *err = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned n = 0;

    g_assert_cmpint(pmcu_run_qemu(all, &err), ==, 1);
    lines = g_strsplit(err, "\n", -1);
    for (int i = 0; lines[i]; i++) {
        bool other = !*lines[i];

        for (int k = 0; k < ARRAY_SIZE(others); k++) {
            other |= strstr(lines[i], others[k]) != NULL;
        }
        /* From QEMU 10.1 on, the last line can have the reason. */
        n += !other || strstr(lines[i], why);
    }
    if (n != 1 || !strstr(err, why)) {
        g_test_message("%s: %u lines, not only \"%s\": %s", args, n, why, err);
        g_test_fail();
    }
}

int pmcu_run_qemu(const char *args, char **err)
{
    g_autofree char *cmd = g_strdup_printf(
        "timeout 60 %s -display none -nodefaults %s %s",
        getenv("QTEST_QEMU_BINARY"),
        strstr(args, "-accel") ? "" : "-accel qtest", args);
    g_autofree char *out = NULL;
    int status;

    g_assert(g_spawn_command_line_sync(cmd, &out, err, &status, NULL));
    g_assert(WIFEXITED(status));
    /* With AddressSanitizer, QEMU begins with a warning about coroutines. */
    if (g_str_has_prefix(*err, "==")) {
        const char *rest = strchr(*err, '\n') + 1;

        memmove(*err, rest, strlen(rest) + 1);
    }
    return WEXITSTATUS(status);
}

bool pmcu_has_cpu(const char *model)
{
    g_autofree char *args = g_strdup_printf("-M virt -cpu %s,nosuch=1", model);
    g_autofree char *err = NULL;

    g_assert_cmpint(pmcu_run_qemu(args, &err), ==, 1);
    return !strstr(err, "Invalid CPU model");
}

char *pmcu_dump_dtb(const char *machine_opts, const char *args, size_t *len)
{
    g_autofree char *err = NULL;
    g_autofree char *file = NULL;
    g_autofree char *cmd = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &file, NULL);
    char *dtb;

    g_assert(fd >= 0);
    close(fd);
    /* Without random seeds, so that trees can be compared */
    cmd = g_strdup_printf("-M virt,dtb-randomness=off,dumpdtb=%s%s -cpu max %s",
                          file, machine_opts, args);
    g_assert_cmpint(pmcu_run_qemu(cmd, &err), ==, 0);
    g_assert(g_file_get_contents(file, &dtb, len, NULL));
    unlink(file);
    return dtb;
}

const uint8_t *pmcu_dtb_prop(const char *dtb, const char *path,
                             const char *prop, uint32_t *len)
{
    const char *p = dtb + ldl_be_p(dtb + 8);
    const char *strings = dtb + ldl_be_p(dtb + 12);
    g_autoptr(GString) node = g_string_new("");

    g_assert_cmphex((uint32_t)ldl_be_p(dtb), ==, FDT_MAGIC);
    for (;;) {
        uint32_t token = ldl_be_p(p);

        p += 4;
        switch (token) {
        case FDT_BEGIN_NODE:
            if (*p) {
                g_string_append_printf(node, "/%s", p);
            }
            p += ROUND_UP(strlen(p) + 1, 4);
            break;
        case FDT_END_NODE:
            if (!node->len) {
                return NULL;
            }
            g_string_truncate(node, strrchr(node->str, '/') - node->str);
            break;
        case FDT_PROP:
            *len = ldl_be_p(p);
            if (!strcmp(node->str, path) &&
                !strcmp(strings + ldl_be_p(p + 4), prop)) {
                return (const uint8_t *)p + 8;
            }
            p += 8 + ROUND_UP(*len, 4);
            break;
        case FDT_NOP:
            break;
        default:
            return NULL;
        }
    }
}
