/*
 * QTest of the HiSilicon PMCU: reset, snapshots, migration
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qemu/bswap.h"
#include "qemu/units.h"

/* A reset in each phase of a run leaves nothing of it; the next one is fine. */
static void test_reset_phases(void)
{
    static const struct {
        uint32_t pending;       /* INT_STAT before the run */
        const char *faults;
        uint64_t ns;            /* of the run, before the reset */
        unsigned state, error;
        uint32_t stat;          /* INT_STAT at the reset */
    } phases[] = {
        { 0, "", 1, HISI_PMCU_COUNT },
        { 0, "", MS + MS / 2, HISI_PMCU_COUNT },
        { BRK, "", MS, HISI_PMCU_COUNT, 0, BRK },
        { 0, "", 4 * MS, HISI_PMCU_IDLE, 0, DONE },
        { DONE, "", 4 * MS, HISI_PMCU_DONE_HOLD, 0, DONE },
        { DONE, "repeat-done", 4 * MS, HISI_PMCU_DONE_HOLD, 0, DONE },
        { 0, "repeat-done", 4 * MS, HISI_PMCU_IDLE, 0, DONE },
        { 0, "lose-done", 4 * MS, HISI_PMCU_IDLE },
        { 0, "delay-done:2000000", 5 * MS, HISI_PMCU_STORE },
        { 0, "stay-busy", 5 * MS, HISI_PMCU_STORE },
        { 0, "dma-read:1", MS, HISI_PMCU_IDLE, HISI_PMCU_ERR_DMA_READ, BRK },
        { BRK, "dma-write:1", 2 * MS, HISI_PMCU_IDLE, HISI_PMCU_ERR_DMA_WRITE,
          BRK },
        { DONE, "refuse:2", MS, HISI_PMCU_IDLE, 2, DONE },
    };
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:3"));
    for (int i = 0; i < ARRAY_SIZE(phases); i++) {
        g_test_message("phase %d", i);
        pmcu_write(&p, A_INT_EN, DONE | BRK);
        pmcu_events(&p, EVENT_BASE, 4, EV_CPU_CYCLES);
        raise_int(&p, phases[i].pending);
        g_assert_true(set_property(&p, PMCU_PATH, "faults", phases[i].faults));
        pmcu_start(&p, &run);
        pmcu_step(&p, phases[i].ns);
        g_assert_cmpint(pmcu_state(&p), ==, phases[i].state);
        g_assert_cmpint(pmcu_error(&p), ==, phases[i].error);
        assert_int(&p, phases[i].stat);
        qtest_system_reset(p.qts);
        assert_regs_reset(&p);
        g_assert_false(pmcu_irq(&p));
        g_assert_true(set_property(&p, PMCU_PATH, "faults", ""));
        pmcu_events(&p, EVENT_BASE, 4, EV_CPU_CYCLES);
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_write(&p, A_INT_EN, DONE | BRK);
        pmcu_step(&p, 10 * MS);
        assert_int(&p, 0);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 0);
        assert_canary(&p, STORE_BASE, 0x1000);
        pmcu_run(&p, &run);
        assert_int(&p, 0);
        for (int r = 0; r < 4; r++) {
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * r + 0x40),
                            ==, MS);
        }
        assert_canary(&p, STORE_BASE + 4 * 0xc0, 0x100);
    }
    pmcu_quit(&p);
}

/*
 * The configuration that a trigger has copied migrates: what the registers say
 * later is for the next run. With FILTER_P, the cycle counter stands still.
 */
static void test_migrate_latched(void)
{
    static const PmcuRun runs[] = {
        { PMCU_RUN_DEFAULT, .ev_len = 4, .pmccfiltr = FILTER_P },
        { PMCU_RUN_DEFAULT, .ev_len = 4, .comp = true },
    };
    const char *args = "-m 16M";

    for (int i = 0; i < ARRAY_SIZE(runs); i++) {
        unsigned size = runs[i].comp ? 0x80 : 0xc0;
        PmcuRun other = {
            .comp = !runs[i].comp, .event_base = RAM_BASE,
        };
        Pmcu p = pmcu_init_irq(args);
        g_autofree char *file = NULL;

        /* A run without COMP leaves PMCR.E set */
        pmcu_run(&p, &(PmcuRun) { PMCU_RUN_DEFAULT });
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &runs[i]);
        pmcu_step(&p, MS / 2);
        pmcu_program(&p, &other);
        file = pmcu_save(p.qts);
        pmcu_quit(&p);

        g_assert_true(migrate_from_file(&p, args, file, MS + MS / 2));
        unlink(file);
        pmcu_step(&p, 4 * MS);
        assert_int(&p, DONE);
        for (int r = 0; r < 4; r++) {
            uint64_t at = STORE_BASE + size * r;

            g_assert_cmpint(qtest_readq(p.qts, at + 0x40), ==, MS);
            if (!runs[i].comp) {
                g_assert_cmpint(qtest_readq(p.qts, at + 0x80), ==, 0);
            }
        }
        assert_canary(&p, STORE_BASE + 4 * size, 0x100);
        pmcu_quit(&p);
    }
}

/* A PMCU that was not triggered since the machine began has only registers. */
static void test_migrate_unused(void)
{
    const char *args = "-m 16M -smp 4,clusters=2,cores=2";
    Pmcu p = pmcu_init(args);
    g_autofree char *file = NULL;

    pmcu_write(&p, A_WAIT_CNT, 0x12345678);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, 0));
    unlink(file);
    g_assert_cmphex(pmcu_read(&p, A_WAIT_CNT), ==, 0x12345678);
    pmcu_quit(&p);
}

static void test_migrate_count(void)
{
    const char *args = "-m 64M -smp 4,clusters=2,cores=2";
    Pmcu p = pmcu_init_irq(args);
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 6, .nr_pmu = 2, .nr_loop = 2 };
    uint32_t regs[ARRAY_SIZE(rw_regs)];
    g_autofree char *file = NULL;

    /* In the middle of the 3rd of 6 windows */
    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 123456);
    pmcu_write(&p, A_WAIT_CNT, 1);
    pmcu_trigger(&p);
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        regs[i] = pmcu_read(&p, rw_regs[i].offset);
    }
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, 2 * MS + 123456));
    unlink(file);
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        g_assert_cmphex(pmcu_read(&p, rw_regs[i].offset), ==, regs[i]);
    }
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    2 << 16 | HISI_PMCU_ERR_BUSY << 8 | HISI_PMCU_COUNT);
    pmcu_step(&p, 4 * MS - 123456 - 1);
    assert_int(&p, 0);
    g_assert_cmpint(pmcu_stored(&p), ==, 5);
    pmcu_step(&p, 1);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_stored(&p), ==, 6);
    /* 16 slots: none lost, none twice, none short */
    for (int i = 0; i < 6; i++) {
        for (int e = 0; e < 3; e++) {
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x200 * i +
                                        0x80 * (e + 1)), ==, MS);
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x200 * i +
                                        0x80 * (e + 1) + 8), ==, 0);
        }
    }
    assert_canary(&p, STORE_BASE + 6 * 0x200, 0x100);
    pmcu_quit(&p);
}

/* The end of a window is now, and not yet handled: it is no later afterwards */
static void test_migrate_due(void)
{
    const char *args = "-m 64M -smp 4,clusters=2,cores=2";
    Pmcu p = pmcu_init_irq(args);
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 6, .nr_pmu = 2, .nr_loop = 2 };
    g_autofree char *file = NULL;

    pmcu_start(&p, &run);
    pmcu_step(&p, MS - 1);
    /* While the machine is stopped, time does not call timers */
    qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
    pmcu_step(&p, 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 0);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, MS));
    unlink(file);
    qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    pmcu_wait_stored(&p, 1);
    for (int e = 0; e < 3; e++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80 * (e + 1)), ==,
                        MS);
    }
    pmcu_step(&p, MS - 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 1);
    pmcu_step(&p, 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 2);
    pmcu_quit(&p);
}

static void test_migrate_hold(void)
{
    const char *args = "-m 64M";
    Pmcu p = pmcu_init_irq(args);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    g_autofree char *file = NULL;

    raise_int(&p, DONE);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, 2 * MS));
    unlink(file);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    1 << 16 | HISI_PMCU_DONE_HOLD);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
    pmcu_write(&p, A_INT_CLR, DONE);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
    assert_int(&p, DONE);
    pmcu_write(&p, A_INT_CLR, DONE);
    assert_int(&p, 0);
    pmcu_quit(&p);
}

/*
 * A machine with other options refuses the stream, and the one that was saved
 * goes on.
 */
static void test_migrate_mismatch(void)
{
#define DIES        "-smp 4,sockets=2,clusters=1,cores=2"
#define CLUSTERS    "-smp 4,sockets=1,clusters=2,cores=2"
#define CORES       "-smp 4,sockets=1,clusters=1,cores=4"
    static const struct {
        const char *from;
        struct {
            const char *to, *why;
        } rows[4];
    } pairs[] = {
        { CLUSTERS, {
            { CLUSTERS " -M pmcu=off", "'hisi-pmcu' 0" },
            { CORES, "hisi-pmcu: the stream has die 0, clusters: 2, CPUs: 4; "
              "here is die 0, clusters: 1, CPUs: 4: give both the same -smp" },
            { CLUSTERS " -cpu max,pmu-counters=12",
              "the CPU of the stream has pmu-counters=6, this one has 12: give "
              "both the same" },
        } },
        { CORES, {
            { CLUSTERS, "clusters: 1, CPUs: 4; here is die 0, clusters: 2" },
            { DIES,
              "clusters: 1, CPUs: 4; here is die 0, clusters: 1, CPUs: 2" },
        } },
        { DIES, {
            { CORES, "clusters: 1, CPUs: 2; here is die 0, clusters: 1" },
        } },
        { "-cpu max,pmu-counters=12", {
            { "-cpu max", "has pmu-counters=12, this one has 6" },
            { "-cpu max,pmu-counters=8",
              "has pmu-counters=12, this one has 8" },
            { "-cpu max,pmu-counters=31",
              "has pmu-counters=12, this one has 31" },
        } },
    };
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    for (int i = 0; i < ARRAY_SIZE(pairs); i++) {
        g_autofree char *args = g_strdup_printf("-m 64M %s", pairs[i].from);
        g_autofree char *file = NULL;
        Pmcu p = pmcu_init_irq(args);

        pmcu_start(&p, &run);
        pmcu_step(&p, 2 * MS + MS / 2);
        file = pmcu_save(p.qts);
        for (int k = 0; pairs[i].rows[k].to; k++) {
            const char *to = pairs[i].rows[k].to;
            g_autofree char *all = g_strdup_printf(
                "-m 64M %s %s", strstr(to, "-cpu") ? "" : "-cpu max", to);

            pmcu_refused(all, file, pairs[i].rows[k].why);
        }
        unlink(file);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        pmcu_step(&p, MS + MS / 2);
        assert_int(&p, DONE);
        for (int n = 0; n < 4; n++) {
            uint64_t size = i ? 0xc0 : 0x180;

            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + size * n +
                                        size / 3), ==, MS);
        }
        pmcu_quit(&p);
    }
}

/*
 * A stream without a PMCU can be loaded, as one without any other device: the
 * PMCU, which the guest has not used, is as after a reset. The CPU of the
 * stream has 4 counters, as all had in QEMU 7.1: that is refused only if one
 * asks for another number.
 */
static void test_migrate_none(void)
{
    Pmcu p = { .qts = qtest_init("-M virt,gic-version=3 -nic none -m 64M "
                                 "-cpu max,pmu-counters=4") };
    PmcuRun run = { PMCU_RUN_DEFAULT };
    g_autofree char *file = pmcu_save(p.qts);

    pmcu_quit(&p);
    pmcu_refused("-m 64M -cpu max,pmu-counters=6", file,
                 "has pmu-counters=4, this one has 6");
    /* glibc fills the heap: what the stream lacks must not come from there. */
    g_setenv("MALLOC_PERTURB_", "145", true);
    g_assert_true(migrate_from_file(&p, "-m 64M", file, 0));
    unlink(file);
    assert_regs_reset(&p);
    qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    pmcu_quit(&p);
}

/* Big-endian words of the device's section, from its "sccl_id" on */
enum {
    S_SCCL_ID, S_NR_CLUSTER, S_REGS,
    S_STATE = S_REGS + HISI_PMCU_NR_REGS, S_ERROR, S_STORED,
    S_FSM_CFG, S_RUN_WAIT_CNT, S_RUN_COMP, S_RUN_PMCR, S_RUN_PMCCFILTR,
    S_EVENT_BASE_H, S_EVENT_BASE_L, S_KILL_H, S_KILL_L, S_STORE_H, S_STORE_L,
    S_POS, S_LOOP, S_EVENTS,
    S_WINDOW_END_H = S_EVENTS + HISI_PMCU_MAX_COUNTERS, S_WINDOW_END_L,
    S_NR_CPUS,
};

/* The section of the device in a stream, from "sccl_id" on */
static uint8_t *find_section(char *stream, size_t len)
{
    /* The name of the section, its instance ID and its version precede it */
    for (char *s = stream; s < stream + len - 17; s++) {
        if (!memcmp(s, "\x09hisi-pmcu\0\0\0\0\0\0\0\2", 18)) {
            return (uint8_t *)s + 18;
        }
    }
    g_assert_not_reached();
}

static void test_migrate_hostile(void)
{
    static const struct {
        unsigned word;
        uint32_t value;
        bool idle;              /* in a stream whose PMCU is idle */
    } bad[] = {
        { S_SCCL_ID, 1 },
        { S_NR_CLUSTER, 3 },
        { S_NR_CLUSTER, 0xffffffff },
        { S_REGS + R_FSM_STATUS, 1 },
        { S_REGS + R_FSM_CFG, 0x100000 },
        { S_REGS + 0x24 / 4, 1 },
        { S_REGS + R_FSM_CTRL, 1 },
        { S_REGS + R_COMP, 2 },
        { S_REGS + R_INT_EN, 4 },
        { S_REGS + R_INT_STAT, 0x80000000 },
        { S_REGS + R_PMCCFILTR, 1 },
        { S_STATE, 1 },
        { S_STATE, 7 },
        { S_STATE, 0xffffffff },
        { S_STATE, HISI_PMCU_DONE_HOLD },
        { S_ERROR, 7 },
        { S_ERROR, 0xffffffff },
        { S_STORED, 0 },
        { S_STORED, 3 },
        { S_STORED, 61201 },
        { S_STORED, 61201, true },
        { S_FSM_CFG, 0 },
        { S_FSM_CFG, 2 << 16 | 2 << 8 | 241 },
        { S_FSM_CFG, 9 << 16 | 2 << 8 | 9 },
        { S_FSM_CFG, 15 << 16 | 2 << 8 | 240 },
        { S_FSM_CFG, 2 << 16 | 0 << 8 | 6 },
        { S_FSM_CFG, 2 << 16 | 2 << 8 | 4 }, /* pos == EV_LEN */
        { S_FSM_CFG, 0xfff00000 | 2 << 16 | 2 << 8 | 6 },
        { S_RUN_COMP, 2 },
        { S_RUN_COMP, 0xffffffff },
        { S_EVENT_BASE_L, 1 },
        { S_STORE_L, 4 },
        { S_STORE_L, RAM_BASE + 0x10008 },  /* past KILL_BASE */
        { S_STORE_H, 0xffffffff },
        { S_POS, 1 },
        { S_POS, 5 },
        { S_POS, 6 },
        { S_POS, 0xfffffffe },
        { S_LOOP, 1 },
        { S_LOOP, 2 },
        { S_LOOP, 0xffffffff },
        { S_LOOP, 0x80000000 }, /* times 6 events, modulo 2^32: 0 */
        { S_WINDOW_END_H, 0xffffffff },
        { S_WINDOW_END_H, 0x7fffffff },
        { S_WINDOW_END_H, 1 },
        { S_WINDOW_END_L, 3 * MS + 123456 + 1 },    /* longer than a window */
        { S_NR_CPUS, 0 },
        { S_NR_CPUS, 3 },
    }, good[] = {
        { S_STORED, 61200, true },
        { S_WINDOW_END_L, 3 * MS + 123456 },
    };
    static const char *const properties[] = { "state", "error", "run" };
    const char *args = "-m 16M -smp 4,clusters=2,cores=2";
    Pmcu p = pmcu_init(args);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 6, .nr_pmu = 2, .nr_loop = 2,
        .event_base = RAM_BASE, .store_base = RAM_BASE + 0x1000,
        .kill_base = RAM_BASE + 0x10000,
    };
    g_autofree char *file = NULL;
    g_autofree char *stream = NULL;
    uint8_t *section;
    size_t len;

    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 123456);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert(g_file_get_contents(file, &stream, &len, NULL));
    section = find_section(stream, len);
    /* We know where we are */
    g_assert_cmphex(ldl_be_p(section + 4 * S_NR_CLUSTER), ==, 2);
    g_assert_cmphex(ldl_be_p(section + 4 * S_STATE), ==, HISI_PMCU_COUNT);
    g_assert_cmphex(ldl_be_p(section + 4 * S_STORED), ==, 2);
    g_assert_cmphex(ldl_be_p(section + 4 * S_POS), ==, 4);
    g_assert_cmpint(ldl_be_p(section + 4 * S_WINDOW_END_L), ==, 3 * MS);
    g_assert_cmpint(ldl_be_p(section + 4 * S_NR_CPUS), ==, 4);

    for (int i = 0; i < ARRAY_SIZE(bad) + ARRAY_SIZE(good); i++) {
        bool valid = i >= ARRAY_SIZE(bad);
        typeof(*bad) *change = valid ? good + i - ARRAY_SIZE(bad) : bad + i;
        uint8_t *word = section + 4 * change->word;
        uint32_t old = ldl_be_p(word);

        stl_be_p(word, change->value);
        stl_be_p(section + 4 * S_STATE,
                 change->idle ? HISI_PMCU_IDLE :
                 change->word == S_STATE ? change->value : HISI_PMCU_COUNT);
        g_assert(g_file_set_contents(file, stream, len, NULL));
        stl_be_p(word, old);
        stl_be_p(section + 4 * S_STATE, HISI_PMCU_COUNT);
        if (migrate_from_file(&p, args, file, 2 * MS + 123456) != valid) {
            g_test_message("word %u = 0x%x was %s", change->word,
                           change->value, valid ? "refused" : "accepted");
            g_test_fail();
        }
        /* QEMU is alive, and may be asked */
        for (int k = 0; k < ARRAY_SIZE(properties); k++) {
            qtest_qmp_assert_success(
                p.qts, "{'execute': 'qom-get', 'arguments': {"
                " 'path': '/machine/pmcu[0]', 'property': %s}}", properties[k]);
        }
        pmcu_quit(&p);
    }

    /* The original is fine, also if the window should have ended by now */
    g_assert(g_file_set_contents(file, stream, len, NULL));
    g_assert_true(migrate_from_file(&p, args, file, 2 * MS + 123456));
    pmcu_quit(&p);
    g_assert_true(migrate_from_file(&p, args, file, 3 * MS + 1000));
    pmcu_wait_stored(&p, 3);
    g_assert_cmpint(pmcu_stored(&p), ==, 3);
    /* Counters migrate as values: what was counted before */
    g_assert_cmpint(qtest_readq(p.qts, run.store_base + 2 * 0x200 + 0x180), ==,
                    123456);
    pmcu_quit(&p);

    /* Version 1 did not have the number of CPUs: the stream is taken. */
    stl_be_p(section - 4, 1);
    section += 4 * S_NR_CPUS;
    memmove(section, section + 4, stream + len - (char *)section - 4);
    g_assert(g_file_set_contents(file, stream, len - 4, NULL));
    g_assert_true(migrate_from_file(&p, args, file, 2 * MS + 123456));
    pmcu_step(&p, MS - 123456);
    g_assert_cmpint(pmcu_stored(&p), ==, 3);
    pmcu_quit(&p);
    unlink(file);
}

/*
 * A run whose next record would pass KILL_BASE is valid while it counts: it
 * migrates, and then ends with ERR_KILL.
 */
static void test_migrate_full(void)
{
    const char *args = "-m 16M";
    Pmcu p = pmcu_init_irq(args);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 2, .kill_base = STORE_BASE + 0xc0,
    };
    g_autofree char *file = NULL;

    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    1 << 16 | HISI_PMCU_COUNT);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, MS + MS / 2));
    unlink(file);
    pmcu_step(&p, MS / 2);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    1 << 16 | HISI_PMCU_ERR_KILL << 8 | HISI_PMCU_IDLE);
    assert_int(&p, BRK);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    assert_canary(&p, STORE_BASE + 0xc0, 0x1000 - 0xc0);
    pmcu_quit(&p);
}

/*
 * In state STORE, DONE comes within a day, the longest delay-done, or never
 * (stay-busy). A stream with any other time is refused.
 */
static void test_migrate_store(void)
{
    const char *args = "-m 16M";
    const int64_t now = 5 * MS / 2, day = 86400000000000;
    const struct {
        int64_t end;
        bool valid;
    } ends[] = {
        { now + 1, true }, { now + day, true }, { INT64_MAX, true },
        { -1, false }, { INT64_MIN, false }, { now + day + 1, false },
        { INT64_MAX - 1, false },
    };
    Pmcu p = pmcu_init_irq(args);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    g_autofree char *file = NULL;
    g_autofree char *stream = NULL;
    uint8_t *section;
    size_t len;

    g_assert_true(set_property(&p, PMCU_PATH, "faults", "delay-done:2000000"));
    pmcu_start(&p, &run);
    pmcu_step(&p, now);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);
    g_assert(g_file_get_contents(file, &stream, &len, NULL));
    section = find_section(stream, len);
    g_assert_cmphex(ldl_be_p(section + 4 * S_STATE), ==, HISI_PMCU_STORE);
    g_assert_cmpint(ldq_be_p(section + 4 * S_WINDOW_END_H), ==, 3 * MS);

    for (int i = 0; i < ARRAY_SIZE(ends); i++) {
        stq_be_p(section + 4 * S_WINDOW_END_H, ends[i].end);
        g_assert(g_file_set_contents(file, stream, len, NULL));
        if (migrate_from_file(&p, args, file, now) != ends[i].valid) {
            g_test_message("end %" PRId64 " was %s", ends[i].end,
                           ends[i].valid ? "refused" : "accepted");
            g_test_fail();
        }
        pmcu_quit(&p);
    }
    unlink(file);
}

/* A run goes on with the list that it was triggered with. */
static void test_migrate_synthetic(void)
{
    const char *args = "-m 16M -global hisi-pmcu.synthetic-events=0x16=const:1";
        PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 4, .nr_pmu = 1, .event_base = RAM_BASE,
        .store_base = RAM_BASE + 0x1000, .kill_base = RAM_BASE + 0x10000,
    };
    static const struct {
        const char *list;
        uint32_t length;
    } bad[] = {
        { "0x16=const:x", 13 }, { "0x16=const:3;", 13 },
        { "0x16=const:33", 13 },
        { "0x16=const:3", 0 }, { "0x16=const:3", 12 }, { "0x16=const:3", 14 },
        { "0x16=const:3", 0x7fffffff }, { "0x16=const:3", 0xffffffff },
        { "0x16=const:3", 512 * KiB + 2 },
    };
    Pmcu p = pmcu_init(args);
    g_autofree char *file = NULL;
    g_autofree char *stream = NULL;
    char *list = NULL;
    size_t len;

    pmcu_events(&p, RAM_BASE, 4, EV_L2D_CACHE);
    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:3"));
    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:4"));
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, MS + MS / 2));
    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:5"));
    pmcu_step(&p, 3 * MS);
    for (int i = 0; i < 4; i++) {
        g_assert_cmpint(qtest_readq(p.qts, run.store_base + 0xc0 * i + 0x40),
                        ==, 3);
    }
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, run.store_base + 0x40), ==, 5);
    pmcu_quit(&p);

    /* Seed, length and list, which ends with a zero */
    g_assert(g_file_get_contents(file, &stream, &len, NULL));
    for (char *s = stream; s < stream + len - 64; s++) {
        if (!memcmp(s, "\x13hisi-pmcu/synthetic\0\0\0\1", 24)) {
            list = s + 24 + 8;
            break;
        }
    }
    g_assert(list);
    g_assert_cmpint(ldl_be_p(list - 4), ==, 13);
    g_assert_cmpstr(list, ==, "0x16=const:3");
    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        char old[17];

        memcpy(old, list - 4, sizeof(old));
        stl_be_p(list - 4, bad[i].length);
        memcpy(list, bad[i].list, strlen(bad[i].list));
        g_assert(g_file_set_contents(file, stream, len, NULL));
        memcpy(list - 4, old, sizeof(old));
        if (migrate_from_file(&p, args, file, MS + MS / 2)) {
            g_test_message("'%s' of length %u was accepted", bad[i].list,
                           bad[i].length);
            g_test_fail();
        }
        pmcu_quit(&p);
    }
    unlink(file);
}

/* The list of a run is in a stream while it counts, not after its end. */
static void test_migrate_synthetic_end(void)
{
    static const struct {
        uint64_t ns;
        bool end, reset, in_stream;
        uint64_t room;
    } ends[] = {
        { MS, .in_stream = true }, { MS, .end = true }, { MS, .reset = true },
        { 2 * MS }, { 2 * MS, .room = 0xc0 },
    };
    Pmcu p = pmcu_init("-m 16M -global hisi-pmcu.synthetic-events=0x16=hash");

    for (int i = 0; i < ARRAY_SIZE(ends); i++) {
        PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };
        g_autofree char *file = NULL;
        g_autofree char *stream = NULL;
        size_t len;

        if (ends[i].room) {
            run.kill_base = run.store_base + ends[i].room;
        }
        pmcu_start(&p, &run);
        pmcu_step(&p, ends[i].ns);
        if (ends[i].end) {
            pmcu_break(&p);
        }
        if (ends[i].reset) {
            qtest_system_reset(p.qts);
        }
        file = pmcu_save(p.qts);
        g_assert(g_file_get_contents(file, &stream, &len, NULL));
        unlink(file);
        g_assert_cmpint(memmem(stream, len, "hisi-pmcu/synthetic", 19) != NULL,
                        ==, ends[i].in_stream);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        pmcu_break(&p);
        pmcu_write(&p, A_INT_CLR, DONE | BRK);
    }
    pmcu_quit(&p);
}

/* The finalizer of MurmurHash3 */
static uint32_t mix(uint32_t h)
{
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

static void set_seed(const Pmcu *p, unsigned seed)
{
    qtest_qmp_assert_success(p->qts, "{'execute': 'qom-set', 'arguments': {"
                             " 'path': %s, 'property': 'synthetic-seed',"
                             " 'value': %u}}", PMCU_PATH, seed);
}

/* The records of slot 0 have the values of a seed. */
static void assert_seed(const Pmcu *p, const PmcuRun *run, uint32_t seed)
{
    for (int i = 0; i < 4; i++) {
        /* Seed, event, slot, record */
        uint32_t hash = mix(mix(mix(mix(seed + 1) ^ EV_L2D_CACHE) ^ 0) ^ i);

        g_assert_cmphex(qtest_readq(p->qts, run->store_base + 0xc0 * i + 0x40),
                        ==, hash);
    }
}

/*
 * The seed of a run is the seed at its trigger, also after a migration. A new
 * seed is for the next run.
 */
static void test_migrate_seed(void)
{
    const char *args = "-m 16M -global hisi-pmcu.synthetic-events=0x16=hash";
    Pmcu p = pmcu_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };
    g_autofree char *file = NULL;

    pmcu_events(&p, EVENT_BASE, 4, EV_L2D_CACHE);
    set_seed(&p, 5);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    set_seed(&p, 6);
    pmcu_step(&p, MS);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, 2 * MS + MS / 2));
    unlink(file);
    set_seed(&p, 7);
    pmcu_step(&p, 2 * MS);
    g_assert_cmpint(pmcu_stored(&p), ==, 4);
    assert_seed(&p, &run, 5);
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_run(&p, &run);
    assert_seed(&p, &run, 7);
    pmcu_quit(&p);
}

static void test_snapshot(void)
{
    g_autofree char *disk = NULL;
    g_autofree char *args = NULL;
    g_autofree char *out = NULL;
    Pmcu p;
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    if (!have_qemu_img()) {
        g_test_skip("no qemu-img");
        return;
    }
    disk = pmcu_disk();
    args = g_strdup_printf("-m 64M -drive if=none,format=qcow2,file=%s", disk);
    p = pmcu_init_irq(args);

    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + MS / 4);
    out = qtest_hmp(p.qts, "savevm s");
    g_assert_cmpstr(out, ==, "");

    /* Lose all of it */
    pmcu_break(&p);
    qtest_system_reset(p.qts);
    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    assert_regs_reset(&p);

    g_free(out);
    out = qtest_hmp(p.qts, "loadvm s");
    g_assert_cmpstr(out, ==, "");
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    2 << 16 | HISI_PMCU_COUNT);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, 0);
    pmcu_step(&p, MS / 4 * 3 - 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 2);
    pmcu_step(&p, MS + 1);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_stored(&p), ==, 4);
    for (int i = 0; i < 4; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40), ==,
                        MS);
    }
    pmcu_quit(&p);
    unlink(disk);
}

/* A machine that goes on after it has refused a snapshot has an idle PMCU */
static void test_snapshot_refused(void)
{
    static const char *const smp[] = {
        "clusters=2,cores=2", "clusters=1,cores=4",
    };
    g_autofree char *disk = NULL;
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    if (!have_qemu_img()) {
        g_test_skip("no qemu-img");
        return;
    }
    disk = pmcu_disk();
    for (int i = 0; i < ARRAY_SIZE(smp); i++) {
        g_autofree char *args = g_strdup_printf(
            "-m 64M -smp 4,%s -drive if=none,format=qcow2,file=%s", smp[i],
            disk);
        g_autofree char *out = NULL;
        Pmcu p = pmcu_init_irq(args);

        if (i == 0) {
            pmcu_start(&p, &run);
            pmcu_step(&p, 2 * MS + MS / 4);
            out = qtest_hmp(p.qts, "savevm s");
            g_assert_cmpstr(out, ==, "");
        } else {
            out = qtest_hmp(p.qts, "loadvm s");
            g_assert_nonnull(strstr(out, "Error"));
            qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
            qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
            pmcu_step(&p, 10 * MS);
            assert_regs_reset(&p);
            assert_canary(&p, STORE_BASE, 0x1000);
            pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
            run.ev_len = 1;
            pmcu_start(&p, &run);
            /* The refused state is gone: this run goes on after a pause. */
            pmcu_step(&p, MS / 2);
            qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
            qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
            pmcu_step(&p, MS / 2);
            g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 1 << 16);
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
        }
        pmcu_quit(&p);
    }
    unlink(disk);
}

void add_state_tests(void)
{
    qtest_add_func("hisi_pmcu/state/reset", test_reset_phases);
    qtest_add_func("hisi_pmcu/state/snapshot-counting", test_snapshot);
    qtest_add_func("hisi_pmcu/state/snapshot-refused", test_snapshot_refused);
    qtest_add_func("hisi_pmcu/state/migrate-unused", test_migrate_unused);
    qtest_add_func("hisi_pmcu/state/migrate-counting", test_migrate_count);
    qtest_add_func("hisi_pmcu/state/migrate-latched", test_migrate_latched);
    qtest_add_func("hisi_pmcu/state/migrate-due", test_migrate_due);
    qtest_add_func("hisi_pmcu/state/migrate-done-held", test_migrate_hold);
    qtest_add_func("hisi_pmcu/state/migrate-mismatch", test_migrate_mismatch);
    qtest_add_func("hisi_pmcu/state/migrate-none", test_migrate_none);
    qtest_add_func("hisi_pmcu/state/migrate-hostile", test_migrate_hostile);
    qtest_add_func("hisi_pmcu/state/migrate-kill-base", test_migrate_full);
    qtest_add_func("hisi_pmcu/state/migrate-storing", test_migrate_store);
    qtest_add_func("hisi_pmcu/state/migrate-synthetic",
                   test_migrate_synthetic);
    qtest_add_func("hisi_pmcu/state/migrate-synthetic-end",
                   test_migrate_synthetic_end);
    qtest_add_func("hisi_pmcu/state/migrate-seed", test_migrate_seed);
}
