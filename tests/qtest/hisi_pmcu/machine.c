/*
 * QTest of the HiSilicon PMCU: the machine
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include "standard-headers/linux/qemu_fw_cfg.h"

static void test_machine_dies(void)
{
    Pmcu p0 = pmcu_init_irq("-smp 6,sockets=3,clusters=1,cores=2");
    Pmcu p1 = p0, p2 = p0;
    PmcuRun run0 = { PMCU_RUN_DEFAULT, .wait_cnt = 3 * MS_TICKS };
    PmcuRun run2 = {
        PMCU_RUN_DEFAULT, .ev_len = 2, .store_base = STORE_BASE + 0x1000,
    };

    p1.base += HISI_PMCU_MMIO_SIZE;
    p1.spi++;
    p2.base += 2 * HISI_PMCU_MMIO_SIZE;
    p2.spi += 2;

    /* CPU 0 is core 0 of die 0, CPU 5 is core 1 of die 2 */
    pmcu_power_cpu(p0.qts, 5, true);
    qtest_system_reset(p0.qts);
    pmcu_events(&p0, EVENT_BASE, 2, EV_CPU_CYCLES);
    pmcu_write(&p0, A_INT_EN, DONE | BRK);
    pmcu_write(&p2, A_INT_EN, DONE | BRK);

    pmcu_start(&p0, &run0);
    pmcu_start(&p2, &run2);
    pmcu_step(&p0, 2 * MS - 1);
    assert_int(&p2, 0);
    pmcu_step(&p0, 1);
    assert_int(&p2, DONE);
    assert_int(&p1, 0);
    assert_int(&p0, 0);
    pmcu_break(&p1);
    g_assert_cmphex(pmcu_read(&p1, A_INT_STAT), ==, BRK);
    g_assert_false(pmcu_irq(&p1));
    pmcu_step(&p0, MS);
    assert_int(&p0, DONE);
    assert_int(&p2, DONE);
    pmcu_write(&p2, A_INT_CLR, DONE);
    assert_int(&p0, DONE);
    assert_int(&p2, 0);
    for (unsigned slot = 0; slot < 8; slot++) {
        g_assert_cmpint(qtest_readq(p0.qts, STORE_BASE + 0x40 + 8 * slot), ==,
                        slot == 0 ? 3 * MS : 0);
        for (int i = 0; i < 2; i++) {
            g_assert_cmpint(qtest_readq(p0.qts, STORE_BASE + 0x1040 + 0xc0 * i +
                                        8 * slot), ==, slot == 1 ? MS : 0);
        }
    }
    /* No fourth one */
    g_assert_cmphex(qtest_readl(p0.qts, PMCU_BASE + 3 * HISI_PMCU_MMIO_SIZE +
                                A_FSM_CFG), ==, 0);
    pmcu_quit(&p0);
}

static void test_machine_16_dies(void)
{
    Pmcu p = pmcu_init_irq("-smp 16,sockets=16,clusters=1,cores=1");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    p.base += 15 * HISI_PMCU_MMIO_SIZE;
    p.spi += 15;
    pmcu_power_cpu(p.qts, 15, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
    pmcu_write(&p, A_INT_EN, DONE);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    pmcu_quit(&p);
}

/* A die has at most 255 clusters. The first core of cluster K is in slot K. */
static void test_machine_255_clusters(void)
{
    Pmcu p = pmcu_init("-m 64M -smp 255,clusters=255,cores=1");
    PmcuRun run = { PMCU_RUN_DEFAULT };
    const unsigned slots = 8 * 255;
    g_autofree uint64_t *record = g_malloc(24 * slots);

    pmcu_power_cpu(p.qts, 254, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
    qtest_memset(p.qts, STORE_BASE, CANARY, 24 * slots + 0x100);
    pmcu_run(&p, &run);
    qtest_memread(p.qts, STORE_BASE, record, 24 * slots);
    for (unsigned i = 0; i < 3 * slots; i++) {
        unsigned slot = i % slots;

        g_assert_cmpint(le64_to_cpu(record[i]), ==,
                        i >= slots && (slot == 0 || slot == 254) ? MS : 0);
    }
    assert_canary(&p, STORE_BASE + 24 * slots, 0x100);
    pmcu_quit(&p);
}

static void assert_dtb_cells(const char *dtb, const char *path,
                             const char *prop, unsigned n, ...)
{
    uint32_t len;
    const uint8_t *value = pmcu_dtb_prop(dtb, path, prop, &len);
    va_list ap;

    g_assert(value);
    g_assert_cmpint(len, ==, 4 * n);
    va_start(ap, n);
    for (unsigned i = 0; i < n; i++) {
        g_assert_cmphex(ldl_be_p(value + 4 * i), ==, va_arg(ap, uint32_t));
    }
    va_end(ap);
}

static void test_machine_dt(void)
{
    const char *smp = "-smp 12,sockets=2,clusters=3,cores=2";
    g_autofree char *on = NULL, *off = NULL, *without = NULL;
    size_t on_len, off_len, without_len;
    uint32_t len;

    on = pmcu_dump_dtb(",pmcu=on", smp, &on_len);
    for (unsigned die = 0; die < 2; die++) {
        g_autofree char *node = g_strdup_printf("/pmcu@91%u0000", die);
        const uint8_t *compat = pmcu_dtb_prop(on, node, "compatible", &len);

        g_assert(compat);
        g_assert_cmpstr((char *)compat, ==, "hisilicon,pmcu");
        assert_dtb_cells(on, node, "reg", 4, 0, 0x09100000 + die * 0x10000, 0,
                         0x10000);
        /* SPI, level, active high */
        assert_dtb_cells(on, node, "interrupts", 3, 0, 176 + die, 4);
        assert_dtb_cells(on, node, "hisilicon,scl-id", 1, die);
        assert_dtb_cells(on, node, "hisilicon,nr-cluster", 1, 3);
        assert_dtb_cells(on, node, "dma-coherent", 0);
    }
    g_assert(!pmcu_dtb_prop(on, "/pmcu@9120000", "reg", &len));

    /* MPIDR: Aff2 is the die, Aff1 the cluster, Aff0 the core */
    for (unsigned cpu = 0; cpu < 12; cpu++) {
        g_autofree char *node = g_strdup_printf("/cpus/cpu@%u", cpu);

        assert_dtb_cells(on, node, "reg", 1,
                         cpu / 6 << 16 | cpu / 2 % 3 << 8 | cpu % 2);
    }

    off = pmcu_dump_dtb(",pmcu=off", smp, &off_len);
    without = pmcu_dump_dtb("", smp, &without_len);
    g_assert_cmpmem(off, off_len, without, without_len);
    g_assert(!pmcu_dtb_prop(off, "/pmcu@9100000", "reg", &len));
    assert_dtb_cells(off, "/cpus/cpu@11", "reg", 1, 11);
}

/* docs/specs/fw_cfg.rst: data at 0, selector at 8, all big endian */
static void fw_cfg_read(QTestState *qts, uint16_t key, void *buf, size_t len)
{
    qtest_writew(qts, FW_CFG_BASE + 8, bswap16(key));
    for (size_t i = 0; i < len; i += 8) {
        qtest_memread(qts, FW_CFG_BASE, (char *)buf + i, MIN(len - i, 8));
    }
}

/* The ACPI tables that the machine has for its firmware */
static char *acpi_tables(const char *args, size_t *len)
{
    QTestState *qts = qtest_initf("-M virt,gic-version=3 -cpu max -nic none "
                                  "%s", args);
    char dir[4 + 64 * 64] = { };
    char *tables = NULL;

    fw_cfg_read(qts, FW_CFG_FILE_DIR, dir, sizeof(dir));
    /* The directory begins with a word that is the number of files. */
    for (int i = 0; i < ldl_be_p(dir); i++) {
        struct fw_cfg_file *file = (void *)(dir + 4 + sizeof(*file) * i);

        g_assert((char *)(file + 1) <= dir + sizeof(dir));
        if (!strcmp(file->name, "etc/acpi/tables")) {
            *len = be32_to_cpu(file->size);
            tables = g_malloc(*len);
            fw_cfg_read(qts, be16_to_cpu(file->select), tables, *len);
        }
    }
    g_assert(tables);
    qtest_quit(qts);
    return tables;
}

static unsigned count_bytes(const char *data, size_t len, const void *what,
                            size_t n)
{
    unsigned count = 0;

    for (size_t i = 0; i + n <= len; i++) {
        count += !memcmp(data + i, what, n);
    }
    return count;
}

static void test_machine_acpi(void)
{
    /* Names and packages as in ACPI 6.5, chapter 20 */
    static const char hid[] = "\x08_HID\rHISI0451";
    static const char cca[] = "\x08_CCA\x01";
    static const char guid[] = "\x14\xd8\xff\xda\xba\x6e\x8c\x4d"
                               "\x8a\x91\xbc\x9b\xbf\x4a\xa3\x01";
    g_autofree char *on = NULL, *off = NULL;
    size_t on_len, off_len;

    on = acpi_tables("-M pmcu=on -smp 12,sockets=2,clusters=3,cores=2",
                     &on_len);
    off = acpi_tables("-smp 12,sockets=2,clusters=3,cores=2", &off_len);
    g_assert_cmpint(count_bytes(on, on_len, hid, sizeof(hid)), ==, 2);
    g_assert_cmpint(count_bytes(off, off_len, hid, sizeof(hid)), ==, 0);
    g_assert_cmpint(count_bytes(on, on_len, cca, 6), ==,
                    count_bytes(off, off_len, cca, 6) + 2);
    g_assert_cmpint(count_bytes(on, on_len, guid, 16), ==, 2);
    for (uint8_t die = 0; die < 2; die++) {
        /* Zero and One have a short form */
        const uint8_t uid[] = { 8, '_', 'U', 'I', 'D', die };
        /* Memory32Fixed, writable, then an exclusive, level, high interrupt */
        const uint8_t crs[] = {
            0x86, 9, 0, 1, 0, 0, 0x10 + die, 9, 0, 0, 1, 0,
            0x89, 6, 0, 1, 1, 208 + die, 0, 0, 0,
        };
        static const char scl[] = "\rhisilicon,scl-id";
        static const char nr[] = "\rhisilicon,nr-cluster\0\n\3";
        g_autofree char *scl_value = g_memdup2(scl, sizeof(scl) + 1);

        scl_value[sizeof(scl)] = die;
        g_assert_cmpint(count_bytes(on, on_len, uid, sizeof(uid)), >, 0);
        g_assert_cmpint(count_bytes(on, on_len, crs, sizeof(crs)), ==, 1);
        g_assert_cmpint(count_bytes(on, on_len, scl_value, sizeof(scl) + 1),
                        ==, 1);
        g_assert_cmpint(count_bytes(on, on_len, nr, sizeof(nr) - 1), ==, 2);
    }
}

static void test_machine_off(void)
{
    Pmcu p = { .base = PMCU_BASE };

    p.qts = qtest_init("-M virt -cpu max -nic none");
    pmcu_write(&p, A_WAIT_CNT, 1);
    g_assert_cmphex(pmcu_read(&p, A_WAIT_CNT), ==, 0);
    pmcu_quit(&p);
}

static void test_machine_constraints(void)
{
    static const struct {
        const char *args;
        const char *error;
    } cases[] = {
        { "-cpu max -smp 16",
          "pmcu=on supports at most 8 cores per cluster, try "
          "-smp 16,sockets=1,clusters=2,cores=8,threads=1" },
        { "-cpu max -smp 9",
          "try -smp 9,sockets=1,clusters=3,cores=3,threads=1" },
        { "-cpu max -smp 11",
          "try -smp 11,sockets=1,clusters=11,cores=1,threads=1" },
        { "-cpu max -smp 64,sockets=2,cores=32",
          "try -smp 64,sockets=2,clusters=4,cores=8,threads=1" },
        { "-cpu max -smp 4,maxcpus=16",
          "try -smp 4,maxcpus=16,sockets=1,clusters=2,cores=8,threads=1" },
        { "-cpu max -smp 4,cores=2,threads=2",
          "pmcu=on does not support threads, try "
          "-smp 4,sockets=1,clusters=1,cores=4,threads=1" },
        { "-cpu max -smp 16,clusters=2,cores=4,threads=2",
          "try -smp 16,sockets=1,clusters=2,cores=8,threads=1" },
        { "-cpu max -smp 17,sockets=17",
          "pmcu=on supports at most 16 sockets, try "
          "-smp 17,sockets=1,clusters=17,cores=1,threads=1" },
        { "-cpu max -smp 256,clusters=256,cores=1",
          "pmcu=on supports at most 255 clusters per socket, try "
          "-smp 256,sockets=2,clusters=128,cores=1,threads=1" },
        /* A prime number: nothing to suggest */
        { "-cpu max -smp 509,clusters=509,cores=1",
          "pmcu=on supports at most 255 clusters per socket\n" },
        { "-cpu max,pmu=off", "pmcu=on needs CPUs with a PMU" },
        { "-cpu max -M virt-2.6", "a machine type before virt-2.7" },
        { "-cpu max,pmu-counters=32", "'pmu-counters' must be in the range" },
        { "-cpu max,pmu=off,pmu-counters=8", "cannot be used with pmu=off" },
        { "-cpu max -global hisi-pmcu.synthetic-events=1=two", "bad kind" },
        { "-cpu cortex-a15", "pmcu=on needs AArch64 CPUs" },
        { "", "pmcu=on needs AArch64 CPUs, for example -cpu max" },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *args = g_strdup_printf(
            "-M virt,gic-version=3,pmcu=on %s", cases[i].args);
        g_autofree char *err = NULL;
        char *eol, *smp;

        /* It is the default, too */
        if ((strstr(args, "cortex-a15") || !cases[i].args[0]) &&
            !pmcu_has_cpu("cortex-a15")) {
            g_test_message("this QEMU has no cortex-a15 without TCG");
            continue;
        }
        g_assert_cmpint(pmcu_run_qemu(args, &err), ==, 1);
        /* QEMU drops old machine types */
        if (strstr(args, "virt-2.6") &&
            strstr(err, "unsupported machine type")) {
            g_test_message("this QEMU has no virt-2.6");
            continue;
        }
        g_assert_nonnull(strstr(err, cases[i].error));
        /* One line */
        eol = strchr(err, '\n');
        g_assert_nonnull(eol);
        g_assert_cmpstr(eol, ==, "\n");
        g_assert_cmpint(eol[-1], !=, '.');

        /* What is suggested works */
        smp = strstr(err, "-smp ");
        if (smp) {
            g_autofree char *good = NULL;
            QTestState *qts;

            *eol = '\0';
            good = g_strdup_printf("-M virt,gic-version=3,pmcu=on -nic none "
                                   "-cpu max %s", smp);
            qts = qtest_init(good);
            qtest_quit(qts);
        }
    }
}

/* The monitor shows each device with the address of its registers. */
static void test_machine_qtree(void)
{
    QTestState *qts = qtest_init("-M virt,gic-version=3,pmcu=on -cpu max "
                                 "-nic none -smp 2,sockets=2");
    g_autofree char *tree = qtest_hmp(qts, "info qtree");
    const char *device = tree;

    /* The newest device comes first */
    for (int die = 1; die >= 0; die--) {
        g_autofree char *mmio = g_strdup_printf(
            "mmio %016x/0000000000010000", 0x09100000 + die * 0x10000);
        const char *next;

        device = strstr(device, "dev: hisi-pmcu,");
        g_assert_nonnull(device);
        device++;
        next = strstr(device, "dev: ") ?: tree + strlen(tree);
        g_assert_nonnull(g_strstr_len(device, next - device, mmio));
    }
    g_assert_null(strstr(device, "dev: hisi-pmcu,"));
    qtest_quit(qts);
}

/* A machine has its devices or has not: pmcu cannot change at run time. */
static void test_machine_late(void)
{
    static const char *const options[] = { "", ",pmcu=off", ",pmcu=on" };

    for (int i = 0; i < ARRAY_SIZE(options); i++) {
        QTestState *qts = qtest_initf("-M virt,gic-version=3%s -cpu max "
                                      "-nic none", options[i]);
        bool on = !strcmp(options[i], ",pmcu=on");
        QDict *rsp;

        rsp = qtest_qmp(qts, "{'execute': 'qom-set', 'arguments': {"
                        "'path': '/machine', 'property': 'pmcu', "
                        "'value': true}}");
        g_assert_true(qdict_haskey(rsp, "error"));
        g_assert_cmpstr(qdict_get_str(qdict_get_qdict(rsp, "error"), "desc"),
                        ==, "pmcu cannot be set after the machine was created");
        qobject_unref(rsp);
        g_assert_cmpint(qtest_qom_get_bool(qts, "/machine", "pmcu"), ==, on);
        qtest_quit(qts);
    }
}

static void set_realized(const Pmcu *p, bool value)
{
    qtest_qmp_assert_success(p->qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': %s, 'property': 'realized', "
                             "'value': %i}}", PMCU_PATH, value);
}

/*
 * A device that is unrealized in the middle of a run ends it, and has no
 * registers; realized again, it does its work as before.
 */
static void test_machine_unrealize(void)
{
    Pmcu p = pmcu_init("-smp 2");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };

    pmcu_start(&p, &run);
    set_realized(&p, false);
    pmcu_step(&p, 10 * MS);
    pmcu_break(&p);
    pmcu_start(&p, &run);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 0);
    set_realized(&p, true);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS) & 0xff, ==, 0);
    pmcu_start(&p, &run);
    pmcu_step(&p, 10 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 2 << 16);
    pmcu_quit(&p);
}

/* What QEMU says when it starts; it ends after it has written its tree. */
static char *start_messages(const char *args)
{
    g_autofree char *file = NULL, *all = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &file, NULL);
    char *err;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    /* It replaces the file, so that /dev/null would be gone. */
    all = g_strdup_printf("%s -M gic-version=3,dumpdtb=%s", args, file);
    g_assert_cmpint(pmcu_run_qemu(all, &err), ==, 0);
    unlink(file);
    return err;
}

/*
 * Before the machine is created, pmcu can be set until set-numa-node asks for
 * the list of CPUs: it has their MPIDRs, which pmcu changes.
 */
static void test_machine_preconfig(void)
{
    for (int on = 0; on < 2; on++) {
        QTestState *qts = qtest_init("-M virt,gic-version=3 -cpu max -m 16M "
                                     "-object memory-backend-ram,id=ram,"
                                     "size=16M -nic none -preconfig");
        QDict *rsp;

        if (on) {
            qtest_qom_set_bool(qts, "/machine", "pmcu", true);
        }
        qtest_qmp_assert_success(qts, "{'execute': 'set-numa-node', "
            "'arguments': {'type': 'node', 'nodeid': 0, 'memdev': 'ram'}}");
        qtest_qmp_assert_success(qts, "{'execute': 'set-numa-node', "
            "'arguments': {'type': 'cpu', 'node-id': 0, 'core-id': 0}}");
        rsp = qtest_qmp(qts, "{'execute': 'qom-set', 'arguments': {"
                        "'path': '/machine', 'property': 'pmcu', 'value': %i}}",
                        !on);
        g_assert_true(qdict_haskey(rsp, "error"));
        g_assert_cmpstr(qdict_get_str(qdict_get_qdict(rsp, "error"), "desc"),
                        ==,
                        "pmcu cannot be set after the list of CPUs was made");
        qobject_unref(rsp);

        qtest_qmp_assert_success(qts, "{'execute': 'x-exit-preconfig'}");
        g_assert_cmpint(qtest_qom_get_bool(qts, "/machine", "pmcu"), ==, on);
        qtest_writel(qts, PMCU_BASE + A_WAIT_CNT, 1);
        g_assert_cmphex(qtest_readl(qts, PMCU_BASE + A_WAIT_CNT), ==, on);
        qtest_quit(qts);
    }
}

/*
 * Machine types before virt-6.2 make a socket, and so a die, of each CPU:
 * QEMU warns unless the user asked for that.
 */
static void test_machine_old_types(void)
{
    static const struct {
        const char *args;
        bool warns;
    } cases[] = {
        { "-M virt-6.1 -smp 4", true },
        { "-M virt-6.1 -smp 4,sockets=1", false },
        { "-M virt-6.1 -smp 4,sockets=2", false },
        { "-M virt-6.1 -smp 1", false },
        { "-M virt-6.2 -smp 4", false },
        { "-M virt-6.2 -smp 4,sockets=4", false },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *args = g_strdup_printf("%s -M pmcu=on -cpu max",
                                                cases[i].args);
        g_autofree char *err = start_messages(args);

        g_assert_cmpint(strstr(err, "warning: mach-virt: -smp 4 makes 4 dies "
                               "with one CPU each, because machine types "
                               "before virt-6.2 prefer sockets; for one die, "
                               "use -smp 4,sockets=1\n") != NULL, ==,
                        cases[i].warns);
        g_assert_cmpint(strstr(err, " dies") != NULL, ==, cases[i].warns);
    }
}

/* The posted Linux driver needs EL2 and VHE: QEMU warns if one is missing. */
static void test_machine_el2(void)
{
    static const struct {
        const char *args;
        const char *warning;
    } cases[] = {
        { "-M virt,pmcu=on -cpu max",
          "warning: mach-virt: pmcu=on without virtualization=on: the posted "
          "Linux driver needs EL2\n" },
        { "-M virt,pmcu=on,virtualization=on -cpu cortex-a57",
          "warning: mach-virt: pmcu=on with a CPU without VHE: the posted "
          "Linux driver needs to run at EL2\n" },
        { "-M virt,pmcu=on,virtualization=on -cpu max", NULL },
        { "-M virt,pmcu=off -cpu max", NULL },
    };

    if (!qtest_has_accel("tcg")) {
        g_test_skip("No TCG accelerator available");
        return;
    }
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *args = g_strdup_printf("%s -accel tcg",
                                                cases[i].args);
        g_autofree char *err = start_messages(args);

        g_test_message("%s: %s", args, err);
        if (cases[i].warning) {
            g_assert_nonnull(strstr(err, cases[i].warning));
        } else {
            g_assert_null(strstr(err, "mach-virt"));
        }
    }
}

void add_machine_tests(void)
{
    qtest_add_func("hisi_pmcu/machine/dies", test_machine_dies);
    qtest_add_func("hisi_pmcu/machine/16-dies", test_machine_16_dies);
    qtest_add_func("hisi_pmcu/machine/255-clusters", test_machine_255_clusters);
    qtest_add_func("hisi_pmcu/machine/device-tree-and-mpidr", test_machine_dt);
    qtest_add_func("hisi_pmcu/machine/acpi", test_machine_acpi);
    qtest_add_func("hisi_pmcu/machine/off", test_machine_off);
    qtest_add_func("hisi_pmcu/machine/constraints", test_machine_constraints);
    qtest_add_func("hisi_pmcu/machine/info-qtree", test_machine_qtree);
    qtest_add_func("hisi_pmcu/machine/set-at-run-time", test_machine_late);
    qtest_add_func("hisi_pmcu/machine/unrealize", test_machine_unrealize);
    qtest_add_func("hisi_pmcu/machine/set-before-creation",
                   test_machine_preconfig);
    qtest_add_func("hisi_pmcu/machine/old-types", test_machine_old_types);
    qtest_add_func("hisi_pmcu/machine/el2", test_machine_el2);
}
