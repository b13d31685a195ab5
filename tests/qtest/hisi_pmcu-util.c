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
    for (int i = 0; i < 60000; i++) {
        QDict *rsp = qtest_qmp_assert_success_ref(
            qts, "{'execute': 'query-migrate'}");
        g_autofree char *status = g_strdup(qdict_get_try_str(rsp, "status"));

        qobject_unref(rsp);
        if (status && (!strcmp(status, "completed") ||
                       !strcmp(status, "failed"))) {
            return !strcmp(status, "completed");
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
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

int pmcu_run_qemu(const char *args, char **err)
{
    g_autofree char *cmd = g_strdup_printf(
        "%s -display none -nodefaults -accel qtest %s",
        getenv("QTEST_QEMU_BINARY"), args);
    g_autofree char *out = NULL;
    int status;

    g_assert(g_spawn_command_line_sync(cmd, &out, err, &status, NULL));
    g_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
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
