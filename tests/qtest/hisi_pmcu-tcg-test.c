/*
 * QTest of the HiSilicon PMCU with CPUs that execute code
 *
 * The CPUs run TCG and call functions for the test; see guest_call(). Time is
 * real time here, so windows are measured with "at least"; only under -icount
 * they are exact.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hisi_pmcu-util.h"

#define SVC_LOOP        (GUEST_MAILBOX(0) + 0x1000)

#define DONE            R_INT_STAT_DONE_MASK
#define BRK             R_INT_STAT_BRK_MASK

#define INSN_ERET       0xd69f03e0

/* System registers, as in bits 20:5 of MRS and MSR */
#define CONTEXTIDR_EL1  0x18d020
#define CONTEXTIDR_EL2  0x1cd020
#define MDCR_EL2        0x1c1120
#define PMCR_EL0        0x1b9c00
#define PMCNTENSET_EL0  0x1b9c20
#define PMCNTENCLR_EL0  0x1b9c40
#define PMOVSCLR_EL0    0x1b9c60
#define PMCCNTR_EL0     0x1b9d00
#define PMOVSSET_EL0    0x1b9e60
#define PMINTENSET_EL1  0x189e20
#define PMEVCNTR_EL0(n) (0x1be800 + ((n) << 5))
#define PMEVTYPER_EL0(n) (0x1bec00 + ((n) << 5))
#define PMCCFILTR_EL0   0x1befe0

/* What PSCI_AFFINITY_INFO returns */
#define PSCI_OFF        1

static Pmcu tcg_init(const char *args)
{
    g_autofree char *all = g_strdup_printf("-accel tcg %s", args);
    Pmcu p = guest_init(all);

    pmcu_write(&p, A_INT_EN, DONE | BRK);
    pmcu_events(&p, EVENT_BASE, HISI_PMCU_MAX_EV_LEN, EV_CPU_CYCLES);
    return p;
}

/* PSCI_CPU_OFF, on a machine without EL2, until CPU 0 is told that it is off */
static void guest_cpu_off(const Pmcu *p, unsigned cpu)
{
    static const uint32_t code[] = {
        0xd2800040,     /* mov     x0, #0x2 */
        0xf2b08000,     /* movk    x0, #0x8400, lsl #16 */
        0xd4000002,     /* hvc     #0x0 */
    };
    static const uint32_t affinity_info[] = {
        0xaa0003e1,     /* mov     x1, x0 */
        0xd2800080,     /* mov     x0, #0x4 */
        0xf2b88000,     /* movk    x0, #0xc400, lsl #16 */
        0xd2800002,     /* mov     x2, #0x0 */
        0xd4000002,     /* hvc     #0x0 */
        INSN_RET,
    };
    int i;

    guest_start(p, cpu, 0, code, ARRAY_SIZE(code));
    for (i = 0; guest_call(p, 0, cpu, affinity_info,
                           ARRAY_SIZE(affinity_info)) != PSCI_OFF; i++) {
        g_assert_cmpint(i, <, 60000);
        g_usleep(1000);
    }
}

static void run_to_end(const Pmcu *p, const PmcuRun *run)
{
    /* It starts between two instructions that are known to the clock. */
    qtest_qmp_assert_success(p->qts, "{'execute': 'stop'}");
    pmcu_start(p, run);
    qtest_qmp_assert_success(p->qts, "{'execute': 'cont'}");
    pmcu_wait_stored(p, run->nr_loop * run->ev_len / run->nr_pmu);
    g_assert_cmpint(pmcu_error(p), ==, 0);
    g_assert_cmphex(pmcu_read(p, A_INT_STAT), ==, DONE);
    pmcu_write(p, A_INT_CLR, DONE);
    g_assert_cmpint(pmcu_state(p), ==, HISI_PMCU_IDLE);
}

static void test_contextidr(void)
{
    Pmcu p = tcg_init("-cpu max -smp 2");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    /* CONTEXTIDR_EL1 in the first block, nothing in the second */
    guest_cpu_on(&p, 0, 1, false);
    guest_write(&p, 0, CONTEXTIDR_EL1, 0x12345678);
    guest_write(&p, 1, CONTEXTIDR_EL1, 0x9abcdef0);
    run_to_end(&p, &run);
    for (int slot = 0; slot < 8; slot++) {
        g_assert_cmphex(qtest_readl(p.qts, STORE_BASE + 4 * slot), ==,
                        slot == 0 ? 0x12345678 :
                        slot == 1 ? 0x9abcdef0 : 0);
        g_assert_cmphex(qtest_readl(p.qts, STORE_BASE + 0x20 + 4 * slot), ==,
                        0);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 + 8 * slot) >= MS,
                        ==, slot < 2);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80 + 8 * slot) >= MS,
                        ==, slot < 2);
    }

    /* They are sampled anew for each record; a CPU that is off has none */
    guest_write(&p, 0, CONTEXTIDR_EL1, 0xcafe);
    guest_cpu_off(&p, 1);
    run_to_end(&p, &run);
    g_assert_cmphex(qtest_readl(p.qts, STORE_BASE), ==, 0xcafe);
    g_assert_cmphex(qtest_readl(p.qts, STORE_BASE + 4), ==, 0);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x48), ==, 0);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x88), ==, 0);
    qtest_quit(p.qts);

    /* CONTEXTIDR_EL2 in the second one */
    p = tcg_init("-cpu max -smp 2 -M virtualization=on");
    guest_cpu_on(&p, 0, 1, true);
    for (int cpu = 0; cpu < 2; cpu++) {
        guest_write(&p, cpu, CONTEXTIDR_EL1, 0x11111111 + cpu);
        guest_write(&p, cpu, CONTEXTIDR_EL2, 0x22222222 + cpu);
    }
    run_to_end(&p, &run);
    for (int slot = 0; slot < 8; slot++) {
        g_assert_cmphex(qtest_readl(p.qts, STORE_BASE + 4 * slot), ==,
                        slot < 2 ? 0x11111111 + slot : 0);
        g_assert_cmphex(qtest_readl(p.qts, STORE_BASE + 0x20 + 4 * slot), ==,
                        slot < 2 ? 0x22222222 + slot : 0);
    }
    qtest_quit(p.qts);
}

/* Only a CPU that is on for the whole of a window is in its record. */
static void test_cpu_power(void)
{
    const uint64_t window = 1000 * MS;    /* a loaded host is slow */
    Pmcu p = tcg_init("-cpu max -smp 2");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .wait_cnt = window / HISI_PMCU_TICK_NS,
    };
    bool expect[5] = { false, true, false, true, false };

    pmcu_start(&p, &run);
    guest_cpu_on(&p, 0, 1, false);                 /* on in window 0 */
    g_assert_cmpint(pmcu_stored(&p), ==, 0);
    pmcu_wait_stored(&p, 2);
    guest_cpu_off(&p, 1);                   /* off and on in window 2 */
    guest_cpu_on(&p, 0, 1, false);
    guest_write(&p, 1, CONTEXTIDR_EL1, 0x1234);
    g_assert_cmpint(pmcu_stored(&p), ==, 2);
    pmcu_wait_stored(&p, 4);
    guest_cpu_off(&p, 1);                   /* off in window 4 */
    g_assert_cmpint(pmcu_stored(&p), ==, 4);
    pmcu_wait_stored(&p, 5);

    for (int i = 0; i < 5; i++) {
        uint64_t rec = STORE_BASE + 0xc0 * i;
        uint64_t count = qtest_readq(p.qts, rec + 0x48);
        uint64_t cycles = qtest_readq(p.qts, rec + 0x88);

        g_assert_cmpint(qtest_readq(p.qts, rec + 0x40), >=, window);
        if (expect[i]) {
            g_assert_cmpint(count, >=, window);
            g_assert_cmpint(cycles, >=, window);
        } else {
            g_assert_cmpint(count, ==, 0);
            g_assert_cmpint(cycles, ==, 0);
        }
        g_assert_cmphex(qtest_readl(p.qts, rec + 4), ==, i == 3 ? 0x1234 : 0);
    }
    qtest_quit(p.qts);
}

/*
 * No sample may be short while the CPU takes exceptions and returns from them
 * all the time: the PMCU must not see the PMU in the middle of a change of
 * exception level.
 */
static void test_exception_return(void)
{
    static const uint32_t loop[] = {
        0xd518c000,     /* msr     vbar_el1, x0 */
        0x91200001,     /* add     x1, x0, #0x800 */
        0xd5184021,     /* msr     elr_el1, x1 */
        0xd518401f,     /* msr     spsr_el1, xzr */
        INSN_ERET,
    };
    Pmcu p = tcg_init("-cpu max");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 10, .nr_loop = 200,
        .kill_base = STORE_BASE + 2000 * 0xc0,
    };
    unsigned n_short = 0;

    /* The vector of system calls from EL0 returns; EL0 calls for ever. */
    qtest_writel(p.qts, SVC_LOOP + 0x400, INSN_ERET);
    qtest_writel(p.qts, SVC_LOOP + 0x800, 0xd4000001);  /* svc #0 */
    qtest_writel(p.qts, SVC_LOOP + 0x804, 0x17ffffff);  /* b .-4 */
    guest_start(&p, 0, SVC_LOOP, loop, ARRAY_SIZE(loop));

    run_to_end(&p, &run);
    for (int i = 0; i < 2000; i++) {
        uint64_t rec = STORE_BASE + 0xc0 * i;

        n_short += qtest_readq(p.qts, rec + 0x40) < MS ||
                   qtest_readq(p.qts, rec + 0x80) < MS;
    }
    g_assert_cmpint(n_short, ==, 0);
    qtest_quit(p.qts);
}

/* What the CPU's software has in its PMU before the run... */
static void owner_setup(const Pmcu *p)
{
    guest_write(p, 0, PMCR_EL0, 0);
    guest_write(p, 0, PMEVTYPER_EL0(0), EV_L2D_CACHE);
    guest_write(p, 0, PMEVCNTR_EL0(0), 0x1111);
    guest_write(p, 0, PMEVTYPER_EL0(1), EV_L2D_CACHE + 1);
    guest_write(p, 0, PMEVCNTR_EL0(1), 0x2222);
    guest_write(p, 0, PMCCNTR_EL0, 0x3333);
    guest_write(p, 0, PMCCFILTR_EL0, FILTER_P);
    guest_write(p, 0, PMCNTENCLR_EL0, 0xffffffff);
    guest_write(p, 0, PMCNTENSET_EL0, 0x80000003);
    guest_write(p, 0, PMOVSCLR_EL0, 0xffffffff);
    guest_write(p, 0, PMOVSSET_EL0, 0x3);
    guest_write(p, 0, PMINTENSET_EL1, 0x2);
}

static void test_owner_state(const void *data)
{
    bool restore = data != NULL;
    Pmcu p = tcg_init(restore ? "-cpu max -global hisi-pmcu.save-restore=on" :
                                "-cpu max");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 3, .pmccfiltr = FILTER_NSH,
    };

    for (int how = 0; how < 3; how++) {
        owner_setup(&p);
        if (how == 0) {
            run_to_end(&p, &run);
        } else if (how == 1) {
            run.wait_cnt *= 1000;
            pmcu_start(&p, &run);
            run.wait_cnt /= 1000;
            pmcu_break(&p);
        } else {
            run.kill_base = STORE_BASE + 0xc0;
            pmcu_start(&p, &run);
            while (pmcu_state(&p) == HISI_PMCU_COUNT) {
                g_usleep(100);
            }
            g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_KILL);
        }
        pmcu_write(&p, A_INT_CLR, DONE | BRK);

        /* ...and what is left of it after the run */
        g_assert_cmphex(guest_read(&p, 0, PMCR_EL0) & 0xff, ==,
                        restore ? 0 : PMCR_DRIVER);
        g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(0)), ==,
                        restore ? EV_L2D_CACHE : EV_CPU_CYCLES);
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==,
                        restore ? 0x1111 : 0);
        g_assert_cmphex(guest_read(&p, 0, PMCCNTR_EL0), ==,
                        restore ? 0x3333 : 0);
        g_assert_cmphex(guest_read(&p, 0, PMCCFILTR_EL0), ==,
                        restore ? FILTER_P : FILTER_NSH);
        g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==,
                        restore ? 0x80000003 : 0x00000002);
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==,
                        restore ? 0x3 : 0x2);
        /* Of counters that are not in use, nothing is touched */
        g_assert_cmphex(guest_read(&p, 0, PMINTENSET_EL1), ==, 0x2);
        g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(1)), ==,
                        EV_L2D_CACHE + 1);
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(1)), ==, 0x2222);
    }

    /* What was in a counter is not in the records, even if nothing counts */
    owner_setup(&p);
    run.kill_base = STORE_BASE + 0x1000;
    pmcu_events(&p, EVENT_BASE, 3, EV_NULL);
    run_to_end(&p, &run);
    for (int i = 0; i < 3; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40), ==,
                        0);
    }
    pmcu_events(&p, EVENT_BASE, 3, EV_CPU_CYCLES);

    /* A counter that runs goes on from where it was */
    guest_write(&p, 0, PMCR_EL0, R_PMCR_E_MASK | R_PMCR_LC_MASK);
    guest_write(&p, 0, PMCCFILTR_EL0, 0);
    guest_write(&p, 0, PMCCNTR_EL0, 1000000 * MS);
    guest_write(&p, 0, PMEVCNTR_EL0(0), 1000000 * MS);
    guest_write(&p, 0, PMCNTENSET_EL0, 0x80000001);
    g_usleep(50000);
    run_to_end(&p, &run);
    if (restore) {
        uint64_t count = guest_read(&p, 0, PMCCNTR_EL0);

        g_assert_cmpint(count, >, 1000050 * MS);
        g_assert_cmpint(count, <, 1100000 * MS);
        g_assert_cmpint(guest_read(&p, 0, PMCCNTR_EL0), >, count);
    } else {
        g_assert_cmpint(guest_read(&p, 0, PMCCNTR_EL0), ==, 0);
    }
    for (int i = 0; i < 3; i++) {
        uint64_t count = qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40);
        uint64_t cycles = qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x80);

        /* The PMCU started from 0 nevertheless */
        g_assert_cmpint(count, >=, MS);
        g_assert_cmpint(count, <, 1000000 * MS);
        g_assert_cmpint(cycles, >=, MS);
        g_assert_cmpint(cycles, <, 1000000 * MS);
    }
    qtest_quit(p.qts);
}

/*
 * A 32-bit counter overflows after 4.3 s, which interrupts the CPU if that has
 * PMINTEN set. Reading the counter clears the overflow.
 */
static void test_overflow(void)
{
    Pmcu p = tcg_init("-cpu a64fx");
    g_autofree char *cpu = pmcu_find_device(p.qts, "a64fx-arm-cpu", 0);
    PmcuRun run = { PMCU_RUN_DEFAULT, .wait_cnt = 500000000 };
    int i;

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_write(&p, 0, PMINTENSET_EL1, 0x1);
    pmcu_start(&p, &run);
    g_usleep(3000000);
    /* QEMU notices that bit 31 falls only if it has seen it set. */
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(0)), >, 0x80000000);
    g_assert_false(qtest_get_irq(p.qts, 0));
    for (i = 0; i < 500 && !qtest_get_irq(p.qts, 0); i++) {
        g_usleep(10000);
    }
    g_assert_true(qtest_get_irq(p.qts, 0));
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 1);
    pmcu_break(&p);
    g_assert_false(qtest_get_irq(p.qts, 0));
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0);
    qtest_quit(p.qts);
}

/* Software that uses the same counters gets wrong numbers, and no more. */
static void test_contention(void)
{
    Pmcu p = tcg_init("-cpu max");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 100 };

    pmcu_start(&p, &run);
    while (pmcu_state(&p) == HISI_PMCU_COUNT) {
        guest_write(&p, 0, PMEVTYPER_EL0(0), EV_SW_INCR);
        guest_write(&p, 0, PMEVCNTR_EL0(0), UINT32_MAX);
        guest_write(&p, 0, PMCNTENCLR_EL0, 0x80000001);
        guest_write(&p, 0, PMCR_EL0, 0x6);
        guest_write(&p, 0, PMCNTENSET_EL0, 0x80000001);
    }
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 100 << 16);
    pmcu_write(&p, A_INT_CLR, DONE);
    run.ev_len = 10;
    run_to_end(&p, &run);
    for (int i = 0; i < 10; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40), >=,
                        MS);
    }
    qtest_quit(p.qts);
}

/*
 * With HPMN = 3, counters 3 to 7 obey MDCR_EL2.HPME and not PMCR.E, and the
 * PMCU in compatibility mode leaves all others alone.
 */
static void test_comp_hpme(void)
{
    Pmcu p = tcg_init("-cpu a64fx -M virtualization=on");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .comp = true };

    pmcu_events(&p, EVENT_BASE, 5, EV_CPU_CYCLES | FILTER_NSH);
    guest_write(&p, 0, PMEVTYPER_EL0(2), EV_L2D_CACHE);
    guest_write(&p, 0, PMCCFILTR_EL0, FILTER_P);
    guest_write(&p, 0, PMCCNTR_EL0, 0x3333);
    for (int hpme = 0; hpme < 2; hpme++) {
        guest_write(&p, 0, MDCR_EL2, 3 | hpme << 7);
        run_to_end(&p, &run);
        for (int i = 0; i < 5; i++) {
            uint64_t count = qtest_readq(p.qts, STORE_BASE + 0x40 + 0x40 * i);

            if (hpme) {
                g_assert_cmpint(count, >=, MS);
            } else {
                g_assert_cmpint(count, ==, 0);
            }
        }
    }
    g_assert_cmphex(guest_read(&p, 0, PMCR_EL0) & 0xff, ==, 0x40);
    g_assert_cmphex(guest_read(&p, 0, PMCCFILTR_EL0), ==, FILTER_P);
    g_assert_cmphex(guest_read(&p, 0, PMCCNTR_EL0), ==, 0x3333);
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==, 0);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(2)), ==, EV_L2D_CACHE);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(3)), ==,
                    EV_CPU_CYCLES | FILTER_NSH);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(7)), ==,
                    EV_CPU_CYCLES | FILTER_NSH);
    qtest_quit(p.qts);
}

/* Under -icount windows are exact, and a run can be repeated bit for bit. */
static void test_icount(void)
{
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 60, .nr_pmu = 3 };
    uint8_t records[2][20 * 0x140];

    for (int i = 0; i < 2; i++) {
        Pmcu p = tcg_init("-cpu max -icount shift=0,sleep=off");

        for (int e = 0; e < 60; e += 3) {
            qtest_writel(p.qts, EVENT_BASE + 4 * e, EV_INST_RETIRED);
        }
        run_to_end(&p, &run);
        for (int r = 0; r < 20; r++) {
            uint64_t rec = STORE_BASE + 0x140 * r;

            for (int e = 0; e < 4; e++) {
                g_assert_cmpint(qtest_readq(p.qts, rec + 0x40 * (e + 1)), ==,
                                MS);
            }
        }
        qtest_memread(p.qts, STORE_BASE, records[i], sizeof(records[i]));
        qtest_quit(p.qts);
    }
    g_assert_cmpmem(records[0], sizeof(records[0]),
                    records[1], sizeof(records[1]));
}

/* Live migration: no record gets lost, and none is written twice or short. */
static void test_migrate(void)
{
    const unsigned n = 240 * 10;
    const char *args = "-cpu max -m 64M";
    Pmcu p = tcg_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 240, .nr_loop = 10 };
    g_autofree char *file = NULL;
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    unsigned before;

    qtest_memset(p.qts, STORE_BASE, CANARY, (n + 1) * 0xc0);
    pmcu_start(&p, &run);
    pmcu_wait_stored(&p, 100);
    file = pmcu_save(p.qts);
    before = pmcu_stored(&p);
    g_assert_cmpint(before, <, n);
    qtest_quit(p.qts);

    p = tcg_init(incoming);
    g_assert_true(pmcu_load(p.qts, file));
    unlink(file);
    g_assert_cmpint(pmcu_stored(&p), >=, before);
    pmcu_wait_stored(&p, n);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, n << 16);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
    for (unsigned i = 0; i < n; i++) {
        uint64_t rec = STORE_BASE + 0xc0 * i;

        g_assert_cmphex(qtest_readq(p.qts, rec), ==, 0);
        for (int e = 1; e < 3; e++) {
            uint64_t count = qtest_readq(p.qts, rec + 0x40 * e);

            g_assert_cmpint(count, >=, MS);
            g_assert_cmpint(count, <, 10000 * MS);
        }
    }
    g_assert_cmphex(qtest_readb(p.qts, STORE_BASE + 0xc0 * n), ==, CANARY);
    qtest_quit(p.qts);
}

/* PMCR.N and the reset value of HPMN follow pmu-counters. */
static void test_pmu_counters(void)
{
    static const unsigned counters[] = { 0, 1, 8, 31 };

    for (int i = 0; i < ARRAY_SIZE(counters); i++) {
        g_autofree char *args = g_strdup_printf(
            "-cpu max,pmu-counters=%u -M virtualization=on", counters[i]);
        unsigned want = counters[i] ?: 6;
        Pmcu p = tcg_init(args);

        g_assert_cmpint(extract64(guest_read(&p, 0, PMCR_EL0), 11, 5), ==,
                        want);
        g_assert_cmpint(guest_read(&p, 0, MDCR_EL2) & 0x1f, ==, want);
        qtest_quit(p.qts);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    if (!qtest_has_accel("tcg")) {
        g_test_skip("No TCG accelerator available");
        return 0;
    }

    qtest_add_func("hisi_pmcu/tcg/context-ids", test_contextidr);
    qtest_add_func("hisi_pmcu/tcg/cpu-power-in-window", test_cpu_power);
    qtest_add_func("hisi_pmcu/tcg/exception-return", test_exception_return);
    qtest_add_data_func("hisi_pmcu/tcg/owner-state-lost", NULL,
                        test_owner_state);
    qtest_add_data_func("hisi_pmcu/tcg/owner-state-restored", "",
                        test_owner_state);
    qtest_add_func("hisi_pmcu/tcg/overflow-interrupt", test_overflow);
    qtest_add_func("hisi_pmcu/tcg/contention", test_contention);
    qtest_add_func("hisi_pmcu/tcg/compatibility-mode-hpme", test_comp_hpme);
    qtest_add_func("hisi_pmcu/tcg/icount-exact", test_icount);
    qtest_add_func("hisi_pmcu/tcg/live-migration", test_migrate);
    qtest_add_func("hisi_pmcu/tcg/pmu-counters", test_pmu_counters);

    return g_test_run();
}
