/*
 * QTest of the HiSilicon PMCU: runs and records
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"

static void test_run_timing(void)
{
    Pmcu p = pmcu_init_irq("-smp 2");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 4, .nr_loop = 3, .nr_pmu = 2,
    };
    /* 2 CPUs in 1 cluster: 8 slots, a record of 0x100 bytes */
    const uint32_t size = 0x100;

    qtest_memset(p.qts, STORE_BASE, CANARY, 7 * size);
    pmcu_start(&p, &run);
    for (int i = 0; i < 6; i++) {
        g_assert_cmphex(pmcu_state(&p), ==, HISI_PMCU_COUNT);
        g_assert_cmpint(pmcu_stored(&p), ==, i);
        pmcu_step(&p, MS - 1);
        g_assert_cmpint(pmcu_stored(&p), ==, i);
        assert_canary(&p, STORE_BASE + i * size, size);
        assert_int(&p, 0);
        pmcu_step(&p, 1);
    }
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 6 << 16);
    assert_int(&p, DONE);
    assert_canary(&p, STORE_BASE + 6 * size, size);

    for (int i = 0; i < 6; i++) {
        for (unsigned slot = 0; slot < 8; slot++) {
            for (int e = 0; e < 3; e++) {
                g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + i * size +
                                            0x40 + 0x40 * e + 8 * slot), ==,
                                slot == 0 ? MS : 0);
            }
        }
        /* Context IDs */
        for (unsigned offset = 0; offset < 0x40; offset += 4) {
            g_assert_cmpint(qtest_readl(p.qts, STORE_BASE + i * size + offset),
                            ==, 0);
        }
    }

    /* Nothing goes on after the end */
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_step(&p, 100 * MS);
    assert_int(&p, 0);
    assert_canary(&p, STORE_BASE + 6 * size, size);
    pmcu_quit(&p);
}

static void test_run_wait_cnt(void)
{
    static const uint32_t ticks[] = {
        1, 2, 50, 150000, 4294950000, 0xffffffff,
    };
    /* A CPU with 64-bit event counters, if this QEMU has one without TCG */
    bool wide = pmcu_has_cpu("cortex-a710");
    Pmcu p = pmcu_init_irq(wide ? "-cpu cortex-a710" : "-cpu max");

    for (int i = 0; i < ARRAY_SIZE(ticks); i++) {
        PmcuRun run = { PMCU_RUN_DEFAULT, .wait_cnt = ticks[i] };
        uint64_t ns = (uint64_t)ticks[i] * 20;

        pmcu_start(&p, &run);
        pmcu_step(&p, ns - 1);
        assert_int(&p, 0);
        pmcu_step(&p, 1);
        assert_int(&p, DONE);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==,
                        wide ? ns : (uint32_t)ns);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, ns);
        pmcu_write(&p, A_INT_CLR, DONE);
    }
    pmcu_quit(&p);
}

static void test_run_wait_cnt_0(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .wait_cnt = 0, .ev_len = 240, .nr_loop = 255,
        .kill_base = STORE_BASE + 61200 * 0xc0,
    };

    /* One tick for each: time goes on between any two sub-samples */
    pmcu_start(&p, &run);
    pmcu_step(&p, 19);
    g_assert_cmpint(pmcu_stored(&p), ==, 0);
    pmcu_step(&p, 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 1);
    pmcu_step(&p, 20 * 999);
    g_assert_cmpint(pmcu_stored(&p), ==, 1000);
    pmcu_step(&p, 20 * 60200 - 1);
    assert_int(&p, 0);
    g_assert_cmpint(pmcu_stored(&p), ==, 61199);
    pmcu_step(&p, 1);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_stored(&p), ==, 61200);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 61199 * 0xc0 + 0x40), ==,
                    20);
    pmcu_quit(&p);
}

static void test_run_event_list(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 6, .nr_loop = 2, .nr_pmu = 2 };
    uint64_t rec = STORE_BASE;

    /* Two at a time, in order, from a list that only needs 4-byte alignment */
    static const uint32_t events[] = {
        EV_CPU_CYCLES, EV_NULL, EV_L2D_CACHE, EV_CPU_CYCLES, EV_SW_INCR,
        EV_CPU_CYCLES | FILTER_P,
    };
    run.event_base = EVENT_BASE + 4;
    for (int i = 0; i < ARRAY_SIZE(events); i++) {
        qtest_writel(p.qts, run.event_base + 4 * i, events[i]);
    }
    pmcu_start(&p, &run);
    pmcu_step(&p, 6 * MS);
    assert_int(&p, DONE);
    for (int loop = 0; loop < 2; loop++) {
        for (int i = 0; i < ARRAY_SIZE(events); i++) {
            g_assert_cmpint(qtest_readq(p.qts, rec + 0x40 + 0x40 * (i % 2)),
                            ==, events[i] == EV_CPU_CYCLES ? MS : 0);
            if (i % 2) {
                g_assert_cmpint(qtest_readq(p.qts, rec + 0xc0), ==, MS);
                rec += 0x100;
            }
        }
    }
    pmcu_quit(&p);
}

static void test_run_event_list_live(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 1 };

    /* An event is fetched when its sub-sample begins */
    pmcu_start(&p, &run);
    qtest_writel(p.qts, EVENT_BASE, EV_NULL);
    qtest_writel(p.qts, EVENT_BASE + 4, EV_NULL);
    pmcu_step(&p, 2 * MS);
    assert_int(&p, DONE);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 + 0x40), ==, 0);
    pmcu_quit(&p);
}

static void test_run_latch(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };
    PmcuRun next = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .wait_cnt = 2 * MS_TICKS,
        .comp = true, .pmcr = 0, .pmccfiltr = FILTER_P,
        .event_base = EVENT_BASE + 0x1000, .store_base = STORE_BASE + 8,
        .kill_base = STORE_BASE + 16,
    };

    /* Writes while busy are for the next run */
    qtest_memset(p.qts, STORE_BASE, CANARY, 0x2000);
    pmcu_start(&p, &run);
    pmcu_program(&p, &next);
    pmcu_step(&p, 2 * MS);
    assert_int(&p, DONE);
    for (int i = 0; i < 2; i++) {
        uint64_t rec = STORE_BASE + 0xc0 * i;

        g_assert_cmpint(qtest_readq(p.qts, rec + 0x40), ==, MS);
        g_assert_cmpint(qtest_readq(p.qts, rec + 0x80), ==, MS);
    }
    assert_canary(&p, STORE_BASE + 2 * 0xc0, 0x1000);

    /* And there it is in force: too little room for a record */
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_trigger(&p);
    pmcu_step(&p, 2 * MS - 1);
    assert_int(&p, 0);
    pmcu_step(&p, 1);
    assert_int(&p, BRK);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_KILL);
    assert_canary(&p, STORE_BASE + 2 * 0xc0, 0x1000);
    pmcu_quit(&p);
}

static void test_run_filter_el2(void)
{
    Pmcu p = pmcu_init_irq("-M virtualization=on");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 2 };

    /* The CPU is at EL2, where counting needs NSH */
    qtest_writel(p.qts, EVENT_BASE + 4, EV_CPU_CYCLES | FILTER_NSH);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 0);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0), ==, 0);

    run.pmccfiltr = FILTER_NSH;
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 0);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0), ==, MS);
    pmcu_quit(&p);
}

static void test_run_filter_el1(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .pmccfiltr = FILTER_P };

    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, 0);
    pmcu_quit(&p);
}

static void test_run_pmcr(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .pmcr = PMCR_DRIVER & ~R_PMCR_E_MASK };

    /* Not enabled */
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 0);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, 0);

    /* Cycle counter divided by 64; that needs LC = 0 */
    run.pmcr = R_PMCR_E_MASK | R_PMCR_D_MASK;
    qtest_clock_set(p.qts, 64 * MS);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS / 64);

    run.pmcr = PMCR_DRIVER | R_PMCR_D_MASK;
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS);
    pmcu_quit(&p);
}

static void test_run_counters(void)
{
    static const struct {
        const char *cpu;
        unsigned counters;
        bool long_events;
    } models[] = {
        { "cortex-a72", 6, false },
        /* Under qtest, "max" is a Cortex-A57 */
        { "max", 6, false },
        { "a64fx", 8, false },
        { "cortex-a710", 20, true },
    };
    /* More than 32 bits worth of nanoseconds */
    const uint64_t ns = 5000 * MS;

    for (int m = 0; m < ARRAY_SIZE(models); m++) {
        g_autofree char *args = g_strdup_printf("-cpu %s", models[m].cpu);
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8, .wait_cnt = ns / 20,
        };
        Pmcu p;

        if (!pmcu_has_cpu(models[m].cpu)) {
            g_test_message("this QEMU has no %s without TCG", models[m].cpu);
            continue;
        }
        p = pmcu_init_irq(args);
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &run);
        pmcu_step(&p, ns);
        assert_int(&p, DONE);
        for (int i = 0; i < 8; i++) {
            uint64_t count = models[m].long_events ? ns : (uint32_t)ns;

            /* Counters that a CPU does not have read 0 */
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 + 0x40 * i),
                            ==, i < models[m].counters ? count : 0);
        }
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 + 0x40 * 8), ==,
                        ns);
        pmcu_quit(&p);
    }
}

static void test_run_comp(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun normal = { PMCU_RUN_DEFAULT };
    PmcuRun comp = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .comp = true,
    };

    /*
     * Compatibility mode does not touch PMCR, so PMCR.E is still 0 and the
     * counters stand still.
     */
    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_run(&p, &comp);
    for (int i = 0; i < 6 * 8; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 8 * i), ==, 0);
    }
    /* 8 slots: (5 + 1) * 64 bytes, without a cycle counter */
    assert_canary(&p, STORE_BASE + 0x180, 0x100);

    /* A normal run leaves PMCR.E as programmed */
    pmcu_run(&p, &normal);

    /* Counters 3 to 7, of which the CPU has 3 to 5 */
    comp.pmcr = 0;
    qtest_writel(p.qts, EVENT_BASE + 4, EV_NULL);
    pmcu_run(&p, &comp);
    for (int i = 0; i < 5; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 + 0x40 * i), ==,
                        i == 0 || i == 2 ? MS : 0);
    }
    pmcu_quit(&p);
}

static void test_run_pmu_counters(void)
{
    Pmcu p = pmcu_init_irq("-cpu max,pmu-counters=8");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8 };
    PmcuRun comp = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .comp = true,
    };

    pmcu_run(&p, &run);
    for (int i = 0; i < 9; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 * (i + 1)), ==,
                        MS);
    }
    pmcu_run(&p, &comp);
    for (int i = 0; i < 5; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 * (i + 1)), ==,
                        MS);
    }
    pmcu_quit(&p);
}

/* Worked example: CPU 9 of 4 clusters with 8 cores is in slot 5 */
static void test_record_example1(void)
{
    Pmcu p = pmcu_init_irq("-smp 32,clusters=4,cores=8 "
                           "-cpu max,pmu-counters=8");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8 };

    pmcu_power_cpu(p.qts, 0, false);
    pmcu_power_cpu(p.qts, 9, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 8, EV_CPU_CYCLES);
    qtest_memset(p.qts, STORE_BASE, CANARY, 0xb00);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
    for (unsigned offset = 0; offset < 0xa00; offset += 8) {
        bool slot5 = offset >= 0x100 && offset % 0x100 == 0x28;

        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + offset), ==,
                        slot5 ? MS : 0);
    }
    assert_canary(&p, STORE_BASE + 0xa00, 0x100);
    pmcu_quit(&p);
}

/* Worked example: 1 cluster with 2 CPUs, both modes */
static void test_record_example2(void)
{
    Pmcu p = pmcu_init_irq("-smp 2");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4, .nr_loop = 3, .nr_pmu = 2 };

    pmcu_power_cpu(p.qts, 1, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 4, EV_CPU_CYCLES);

    for (int comp = 0; comp < 2; comp++) {
        unsigned size = comp ? 0xc0 : 0x100;

        run.comp = comp;
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &run);
        pmcu_step(&p, 6 * MS);
        g_assert_cmpint(pmcu_stored(&p), ==, 6);
        for (unsigned offset = 0; offset < 6 * size; offset += 8) {
            unsigned in = offset % size;
            bool cpu = in >= 0x40 && in % 0x40 < 0x10;

            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + offset), ==,
                            cpu ? MS : 0);
        }
        assert_canary(&p, STORE_BASE + 6 * size, 0x100);
    }
    pmcu_quit(&p);
}

/* Worked example: compatibility mode, 2 clusters, 5 counters */
static void test_record_example3(void)
{
    Pmcu p = pmcu_init_irq("-smp 4,clusters=2,cores=2 -cpu max,pmu-counters=8");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .comp = true,
    };

    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmpint(pmcu_stored(&p), ==, 1);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x2f8), ==, 0);
    assert_canary(&p, STORE_BASE + 0x300, 0x100);
    pmcu_quit(&p);
}

static void test_record_slots(const void *data)
{
    unsigned clusters = *(const unsigned *)data;
    unsigned cores = clusters == 2 ? 8 : 3;
    unsigned slots = 8 * clusters;
    g_autofree char *args = g_strdup_printf("-smp %u,clusters=%u,cores=%u",
                                            clusters * cores, clusters, cores);
    Pmcu p = pmcu_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT };

    /* One CPU on after the other */
    for (unsigned cpu = 0; cpu < clusters * cores; cpu++) {
        unsigned want = cpu % cores * clusters + cpu / cores;

        pmcu_power_cpu(p.qts, 0, cpu == 0);
        if (cpu) {
            pmcu_power_cpu(p.qts, cpu - 1, false);
            pmcu_power_cpu(p.qts, cpu, true);
        }
        qtest_system_reset(p.qts);
        pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &run);
        pmcu_step(&p, MS);
        g_assert_cmpint(pmcu_stored(&p), ==, 1);
        for (unsigned slot = 0; slot < slots; slot++) {
            uint64_t count = slot == want ? MS : 0;

            g_assert_cmpint(qtest_readl(p.qts, STORE_BASE + 4 * slot), ==, 0);
            g_assert_cmpint(qtest_readl(p.qts, STORE_BASE +
                                        4 * (slots + slot)), ==, 0);
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE +
                                        8 * (slots + slot)), ==, count);
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE +
                                        8 * (2 * slots + slot)), ==, count);
        }
        assert_canary(&p, STORE_BASE + 24 * slots, 0x100);
    }
    pmcu_quit(&p);
}

/*
 * Time jumps while nothing can run: the window that is open gets longer, and
 * the others are as long as always. No record is lost, and none comes twice.
 */
static void test_run_clock_jumps(void)
{
    const uint64_t hour = 3600 * 1000 * MS, century = 100 * 365 * 24 * hour;
    const uint64_t jumps[] = { MS, hour, century - 1 };
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    for (int i = 0; i < ARRAY_SIZE(jumps); i++) {
        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &run);
        pmcu_step(&p, MS + MS / 2);
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        pmcu_step(&p, jumps[i]);
        g_assert_cmpint(pmcu_stored(&p), ==, 1);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        pmcu_wait_stored(&p, 2);
        g_assert_cmpint(pmcu_stored(&p), ==, 2);
        pmcu_step(&p, 2 * MS - 1);
        g_assert_cmpint(pmcu_stored(&p), ==, 3);
        assert_int(&p, 0);
        pmcu_step(&p, 1);
        assert_int(&p, DONE);
        for (int r = 0; r < 4; r++) {
            uint64_t at = STORE_BASE + 0xc0 * r;
            uint64_t ns = r == 1 ? MS / 2 + jumps[i] : MS;

            /* Without TCG, the event counters of "max" have 32 bits. */
            g_assert_cmpuint(qtest_readq(p.qts, at + 0x40), ==, (uint32_t)ns);
            g_assert_cmpuint(qtest_readq(p.qts, at + 0x80), ==, ns);
        }
        assert_canary(&p, STORE_BASE + 4 * 0xc0, 0x100);
        pmcu_write(&p, A_INT_CLR, DONE);
    }

    /* One step over the whole of a run, and much further */
    run.wait_cnt = UINT32_MAX;
    pmcu_start(&p, &run);
    pmcu_step(&p, century / 2);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 4 << 16);
    for (int r = 0; r < 4; r++) {
        g_assert_cmpuint(qtest_readq(p.qts, STORE_BASE + 0xc0 * r + 0x80), ==,
                         (uint64_t)UINT32_MAX * HISI_PMCU_TICK_NS);
    }
    pmcu_quit(&p);
}

void add_runs_tests(void)
{
    static const unsigned clusters[] = { 1, 2, 4, 5 };

    qtest_add_func("hisi_pmcu/run/done-at-exact-time", test_run_timing);
    qtest_add_func("hisi_pmcu/run/window-is-wait-cnt", test_run_wait_cnt);
    qtest_add_func("hisi_pmcu/run/wait-cnt-0-is-1-tick", test_run_wait_cnt_0);
    qtest_add_func("hisi_pmcu/run/clock-jumps", test_run_clock_jumps);
    qtest_add_func("hisi_pmcu/run/event-list-order", test_run_event_list);
    qtest_add_func("hisi_pmcu/run/event-list-fetched-late",
                   test_run_event_list_live);
    qtest_add_func("hisi_pmcu/run/trigger-latches", test_run_latch);
    qtest_add_func("hisi_pmcu/run/filter-el2", test_run_filter_el2);
    qtest_add_func("hisi_pmcu/run/filter-el1", test_run_filter_el1);
    qtest_add_func("hisi_pmcu/run/pmcr-template", test_run_pmcr);
    qtest_add_func("hisi_pmcu/run/counters-of-cpu-models", test_run_counters);
    qtest_add_func("hisi_pmcu/run/compatibility-mode", test_run_comp);
    qtest_add_func("hisi_pmcu/run/pmu-counters", test_run_pmu_counters);
    qtest_add_func("hisi_pmcu/record/4x8-cpu9-slot5", test_record_example1);
    qtest_add_func("hisi_pmcu/record/1x2-both-modes", test_record_example2);
    qtest_add_func("hisi_pmcu/record/2-clusters-comp", test_record_example3);

    for (int i = 0; i < ARRAY_SIZE(clusters); i++) {
        g_autofree char *name =
            g_strdup_printf("hisi_pmcu/record/slots-of-%u-clusters",
                            clusters[i]);

        qtest_add_data_func(name, &clusters[i], test_record_slots);
    }
}
