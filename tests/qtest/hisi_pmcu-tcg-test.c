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
#include "arm-sysregs.h"
#include "hisi_pmcu-util.h"
#include "qobject/qdict.h"

#define SVC_LOOP        (GUEST_MAILBOX(0) + 0x1000)

#define DONE            R_INT_STAT_DONE_MASK
#define BRK             R_INT_STAT_BRK_MASK

#define INSN_ERET       0xd69f03e0

/* Exception class in ESR_EL2 */
#define EC_HVC          0x16
#define EC_SYSREG       0x18

/* Exception class and fault status of an abort in ESR_EL1 */
#define EC_DATA_ABORT   0x25    /* without a change of exception level */
#define DFSC_EXTERNAL   0x10

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
        g_assert_cmpint(i, <, PATIENCE_MS);
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

    /* They are sampled for each record; a CPU that is off has none. */
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

/*
 * All counters of a die start at one moment, and stop at one moment: what
 * counts all of the time is equal, whatever the CPUs do and however busy the
 * host is.
 */
static void test_one_instant(void)
{
    static const uint32_t loop[] = { 0x14000000 };      /* b . */
    Pmcu p = tcg_init("-cpu max,pmu-counters=8 -smp 4");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 16, .nr_pmu = 8, .nr_loop = 200,
        .wait_cnt = MS_TICKS / 5,
    };

    for (int cpu = 1; cpu < 4; cpu++) {
        guest_cpu_on(&p, 0, cpu, false);
    }
    /* More than the host has CPUs, on many a host */
    for (int cpu = 0; cpu < 3; cpu++) {
        guest_start(&p, cpu, 0, loop, ARRAY_SIZE(loop));
    }
    /* Cycles, and something else between them */
    pmcu_events(&p, EVENT_BASE, 16, EV_CPU_CYCLES);
    qtest_writel(p.qts, EVENT_BASE + 4 * 3, EV_INST_RETIRED);
    run_to_end(&p, &run);
    for (int i = 0; i < 400; i++) {
        uint64_t rec = STORE_BASE + 0x280 * i;
        uint64_t cycles = qtest_readq(p.qts, rec + 0x240);

        g_assert_cmpint(cycles, >=, MS / 5);
        for (int cpu = 0; cpu < 4; cpu++) {
            for (int e = 0; e < 9; e++) {
                uint64_t count = qtest_readq(p.qts,
                                             rec + 0x40 + 0x40 * e + 8 * cpu);

                if (e != 3 || i % 2) {
                    g_assert_cmpint(count, ==, cycles);
                }
            }
        }
    }
    qtest_quit(p.qts);
}

/* The instructions from the first MRS on, by counter 5 */
static uint64_t count_insns(const Pmcu *p)
{
    static const uint32_t code[] = {
        INSN_MRS_X0 | PMEVCNTR_EL0(5) | 1,
        0xd503201f,                         /* nop */
        0xd503201f,                         /* nop */
        INSN_MRS_X0 | PMEVCNTR_EL0(5) | 0,
        0xcb010000,                         /* sub     x0, x0, x1 */
        INSN_RET,
    };

    return guest_call(p, 0, 0, code, ARRAY_SIZE(code));
}

/*
 * All counts of a CPU in a record are of one moment, while it executes code.
 * They stand still for that moment only: afterwards, a counter of the CPU's
 * software counts on.
 */
static void test_one_moment(void)
{
    static const uint32_t loop[] = { 0x14000000 };      /* b . */
    Pmcu p = tcg_init("-cpu max -smp 2");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .nr_loop = 200,
        .wait_cnt = MS_TICKS / 5,
    };
    uint64_t all = 0;

    guest_cpu_on(&p, 0, 1, false);
    guest_start(&p, 1, 0, loop, ARRAY_SIZE(loop));
    guest_write(&p, 0, PMEVTYPER_EL0(5), EV_INST_RETIRED);
    guest_write(&p, 0, PMCNTENSET_EL0, 1 << 5);
    guest_write(&p, 0, PMCR_EL0, PMCR_E);
    pmcu_events(&p, EVENT_BASE, 5, EV_INST_RETIRED);
    /* A loaded host may not let the other CPU run all the time */
    for (int tries = 0; !all; tries++) {
        g_assert_cmpint(tries, <, 1000);
        run_to_end(&p, &run);
        g_assert_cmpint(count_insns(&p), ==, 3);
        for (int i = 0; i < run.nr_loop; i++) {
            uint64_t rec = STORE_BASE + 0x1c0 * i;
            uint64_t insns = qtest_readq(p.qts, rec + 0x48);

            for (int e = 1; e < 5; e++) {
                g_assert_cmpint(qtest_readq(p.qts, rec + 0x48 + 0x40 * e), ==,
                                insns);
            }
            all += insns;
        }
    }

    run.wait_cnt = UINT32_MAX;
    pmcu_start(&p, &run);
    g_assert_cmpint(count_insns(&p), ==, 3);
    pmcu_break(&p);
    g_assert_cmpint(count_insns(&p), ==, 3);
    qtest_quit(p.qts);
}

/*
 * Eight CPUs, each with a thread of its own, write their PMU registers all the
 * time while the PMCU samples them. The counters that they leave alone are
 * right: each CPU's own counter of instructions, and all of the PMCU's.
 */
static void test_hammer(void)
{
    enum { CPUS = 8, ROUNDS = 4000, ROUND_INSNS = 18 };
    static const uint32_t code[] = {
        INSN_MRS_X0 | PMEVCNTR_EL0(4) | 5,
        0xd2800000 | ROUNDS << 5 | 3,       /* mov     x3, #ROUNDS */
        0xd2800c04,                         /* mov     x4, #0x60 */
        0xca003400,                         /* eor     x0, x0, x0, lsl #13 */
        0xca401c00,                         /* eor     x0, x0, x0, lsr #7 */
        0xca004400,                         /* eor     x0, x0, x0, lsl #17 */
        0x8a040001,                         /* and     x1, x0, x4 */
        0xd348fc02,                         /* lsr     x2, x0, #8 */
        INSN_MSR_X0 | PMCNTENCLR_EL0 | 1,   /* counters 5 and 6 */
        INSN_MSR_X0 | PMEVTYPER_EL0(5) | 2,
        INSN_MSR_X0 | PMEVCNTR_EL0(5) | 0,
        0x8b010042,                         /* add     x2, x2, x1 */
        0x8a040042,                         /* and     x2, x2, x4 */
        INSN_MSR_X0 | PMCNTENSET_EL0 | 2,
        INSN_MSR_X0 | PMEVCNTR_EL0(6) | 0,  /* instructions: an overflow */
        INSN_MSR_X0 | PMINTENSET_EL1 | 1,
        INSN_MSR_X0 | PMINTENCLR_EL1 | 2,
        INSN_MSR_X0 | PMOVSCLR_EL0 | 4,
        INSN_MRS_X0 | PMCCNTR_EL0 | 1,
        0xf1000463,                         /* subs    x3, x3, #1 */
        0x54fffde1,                         /* b.ne    to the first eor */
        INSN_MRS_X0 | PMEVCNTR_EL0(4) | 0,
        0xcb050000,                         /* sub     x0, x0, x5 */
        INSN_RET,
    };
    Pmcu p = tcg_init("-cpu max,pmu-counters=8 -smp 8");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 2, .nr_loop = 100,
        .wait_cnt = MS_TICKS / 5,
    };
    int cpu, i, j;

    for (cpu = 0; cpu < CPUS; cpu++) {
        if (cpu) {
            guest_cpu_on(&p, 0, cpu, false);
        }
        guest_write(&p, cpu, PMEVTYPER_EL0(4), EV_INST_RETIRED);
        guest_write(&p, cpu, PMEVTYPER_EL0(6), EV_INST_RETIRED);
        guest_write(&p, cpu, PMCNTENSET_EL0, 1 << 4);
        guest_write(&p, cpu, PMCR_EL0, PMCR_E);
    }
    for (cpu = 0; cpu < CPUS; cpu++) {
        guest_start(&p, cpu, 0x9e3779b97f4a7c15 * (cpu + 1), code,
                    ARRAY_SIZE(code));
    }
    pmcu_start(&p, &run);
    for (cpu = 0; cpu < CPUS; cpu++) {
        g_assert_cmpint(guest_wait(&p, cpu), ==, 3 + ROUNDS * ROUND_INSNS);
    }
    pmcu_wait_stored(&p, run.nr_loop);
    g_assert_cmpint(pmcu_error(&p), ==, 0);
    for (i = 0; i < run.nr_loop; i++) {
        uint64_t record = STORE_BASE + 0x100 * i;
        uint64_t cycles = qtest_readq(p.qts, record + 0xc0);

        g_assert_cmpint(cycles, >=, MS / 5);
        for (cpu = 0; cpu < CPUS; cpu++) {
            for (j = 0; j < 3; j++) {
                g_assert_cmpint(qtest_readq(p.qts, record + 0x40 + 0x40 * j +
                                                   8 * cpu), ==, cycles);
            }
        }
    }
    qtest_quit(p.qts);
}

/*
 * Stop the machine 5 times during a run. False if the host was so slow that the
 * run had ended before that.
 */
static bool stop_in_run(const Pmcu *p, const PmcuRun *run)
{
    bool in_time = true;

    pmcu_start(p, run);
    pmcu_wait_stored(p, 10);
    for (int i = 0; i < 5; i++) {
        unsigned stored;

        qtest_qmp_assert_success(p->qts, "{'execute': 'stop'}");
        in_time = in_time && pmcu_state(p) == HISI_PMCU_COUNT;
        stored = pmcu_stored(p);
        /* 20 windows */
        g_usleep(20 * run->wait_cnt * HISI_PMCU_TICK_NS / 1000);
        g_assert_cmpint(pmcu_stored(p), ==, stored);
        g_assert_cmphex(qtest_readb(p->qts, STORE_BASE + 0xc0 * stored), ==,
                        CANARY);
        qtest_qmp_assert_success(p->qts, "{'execute': 'cont'}");
    }
    pmcu_wait_stored(p, run->ev_len);
    return in_time;
}

/* Nothing is stored while the machine is stopped, and nothing gets lost. */
static void test_stop_cont(void)
{
    uint64_t window = MS;
    Pmcu p = tcg_init("-cpu max");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 200 };

    for (;; window *= 2) {
        bool in_time;

        run.wait_cnt = window / HISI_PMCU_TICK_NS;
        qtest_memset(p.qts, STORE_BASE, CANARY, 201 * 0xc0);
        in_time = stop_in_run(&p, &run);
        for (int i = 0; i < 200; i++) {
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40),
                            >=, window);
        }
        g_assert_cmphex(qtest_readb(p.qts, STORE_BASE + 0xc0 * 200), ==,
                        CANARY);
        if (in_time) {
            break;
        }
        g_assert_cmpint(window, <, 100 * MS);
        pmcu_write(&p, A_INT_CLR, DONE);
    }
    qtest_quit(p.qts);
}

/*
 * The same if one thread runs the CPUs and the timers: to save the machine
 * wakes it. With windows of 20 ns, a timer is due at one stop of 20 to 100.
 */
static void test_stop_icount(void)
{
    static const uint32_t loop[] = { 0x14000000 };      /* b . */
    Pmcu p = tcg_init("-cpu max,pmu-counters=8 -m 24M "
                      "-icount shift=0,sleep=off");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 240, .nr_pmu = 8, .nr_loop = 255,
        .wait_cnt = 1, .kill_base = STORE_BASE + 255 * 30 * 64 * (8 + 2),
    };

    guest_start(&p, 0, 0, loop, ARRAY_SIZE(loop));
    for (int i = 0; i < 80; i++) {
        g_autofree char *file = NULL;
        unsigned stored;

        if (pmcu_state(&p) != HISI_PMCU_COUNT) {
            pmcu_write(&p, A_INT_CLR, DONE);
            pmcu_start(&p, &run);
        }
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        stored = pmcu_stored(&p);
        file = pmcu_save(p.qts);
        unlink(file);
        g_assert_cmpint(pmcu_stored(&p), ==, stored);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    }
    qtest_quit(p.qts);
}

/*
 * CPU 1 is switched on in window 0, off and on in window 2, and off in window
 * 4. False, with CPU 1 off, if the host was too slow for one of them.
 */
static bool power_in_windows(const Pmcu *p, const PmcuRun *run)
{
    bool in_time;

    pmcu_start(p, run);
    guest_cpu_on(p, 0, 1, false);
    guest_read(p, 1, CONTEXTIDR_EL1);       /* it is on */
    in_time = pmcu_stored(p) == 0;
    pmcu_wait_stored(p, 2);
    guest_cpu_off(p, 1);
    guest_cpu_on(p, 0, 1, false);
    guest_write(p, 1, CONTEXTIDR_EL1, 0x1234);
    in_time = in_time && pmcu_stored(p) == 2;
    pmcu_wait_stored(p, 4);
    guest_cpu_off(p, 1);
    in_time = in_time && pmcu_stored(p) == 4;
    pmcu_wait_stored(p, 5);
    return in_time;
}

/* Only a CPU that is on for the whole of a window is in its record. */
static void test_cpu_power(void)
{
    uint64_t window = 125 * MS;
    Pmcu p = tcg_init("-cpu max -smp 2");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 5 };
    bool expect[5] = { false, true, false, true, false };

    for (;; window *= 2) {
        run.wait_cnt = window / HISI_PMCU_TICK_NS;
        if (power_in_windows(&p, &run)) {
            break;
        }
        g_assert_cmpint(window, <, 16000 * MS);
        pmcu_write(&p, A_INT_CLR, DONE);
    }

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

/* EL0 calls EL1 for ever, which returns at once: from AArch64, with ERET. */
static void start_calls_a64(const Pmcu *p)
{
    static const uint32_t enter[] = {
        0xd518c000,     /* msr     vbar_el1, x0 */
        0x91200001,     /* add     x1, x0, #0x800 */
        0xd5184021,     /* msr     elr_el1, x1 */
        0xd518401f,     /* msr     spsr_el1, xzr */
        INSN_ERET,
    };

    qtest_writel(p->qts, SVC_LOOP + 0x400, INSN_ERET);
    qtest_writel(p->qts, SVC_LOOP + 0x800, 0xd4000001); /* svc #0 */
    qtest_writel(p->qts, SVC_LOOP + 0x804, 0x17ffffff); /* b .-4 */
    guest_start(p, 0, SVC_LOOP, enter, ARRAY_SIZE(enter));
}

/* The same in AArch32, on a machine with EL2, which nothing comes back to */
static void start_calls_a32(const Pmcu *p)
{
    static const uint32_t enter[] = {
        0xd518c000,     /* msr     vbar_el1, x0 */
        0x91200001,     /* add     x1, x0, #0x800 */
        0xd51c4021,     /* msr     elr_el2, x1 */
        0xd2803a02,     /* mov     x2, #0x1d0: User mode, A32 */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        0xf900027f,     /* str     xzr, [x19]: guest_call() returns */
        INSN_ERET,
    };

    guest_write(p, 0, HCR_EL2, 0);
    qtest_writel(p->qts, SVC_LOOP + 0x8, 0xe1b0f00e);   /* movs pc, lr */
    qtest_writel(p->qts, SVC_LOOP + 0x800, 0xef000000); /* svc #0 */
    qtest_writel(p->qts, SVC_LOOP + 0x804, 0xeafffffd); /* b .-4 */
    guest_call(p, 0, SVC_LOOP, enter, ARRAY_SIZE(enter));
}

/*
 * No sample may be short while the CPU takes exceptions and returns from them
 * all the time: the PMCU must not see the PMU in the middle of a change of
 * exception level. At a change, all counters stop and start at one moment: the
 * cycles of EL0 and of EL1 are all that there are.
 */
static void test_exception_return(const void *args)
{
    Pmcu p = tcg_init(args);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 20, .nr_loop = 200, .nr_pmu = 2,
        .kill_base = STORE_BASE + 2000 * 0x100,
    };
    unsigned n_short = 0, n_uneven = 0, n_both = 0, tries = 0;

    if (strstr(args, "virtualization=on")) {
        start_calls_a32(&p);
    } else {
        start_calls_a64(&p);
    }
    for (int i = 0; i < 20; i++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * i,
                     EV_CPU_CYCLES | (i % 2 ? FILTER_U : FILTER_P));
    }
    /* If the host leaves the CPU no time in a window, one of them is 0. */
    do {
        g_assert_cmpint(tries++, <, 20);
        run_to_end(&p, &run);
        for (int i = 0; i < 2000; i++) {
            uint64_t rec = STORE_BASE + 0x100 * i;
            uint64_t el0 = qtest_readq(p.qts, rec + 0x40);
            uint64_t el1 = qtest_readq(p.qts, rec + 0x80);
            uint64_t cycles = qtest_readq(p.qts, rec + 0xc0);

            n_short += cycles < MS;
            n_uneven += el0 + el1 != cycles;
            n_both += el0 && el1;
        }
        g_assert_cmpint(n_short, ==, 0);
        g_assert_cmpint(n_uneven, ==, 0);
    } while (!n_both);
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
    guest_write(p, 0, PMOVSSET_EL0, 0x80000003);
    guest_write(p, 0, PMINTENSET_EL1, 0x80000003);
}

static void test_owner_state(void)
{
    Pmcu p = tcg_init("-cpu max");
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
        g_assert_cmphex(guest_read(&p, 0, PMCR_EL0) & 0xff, ==, PMCR_DRIVER);
        g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(0)), ==,
                        EV_CPU_CYCLES);
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, 0);
        g_assert_cmphex(guest_read(&p, 0, PMCCNTR_EL0), ==, 0);
        g_assert_cmphex(guest_read(&p, 0, PMCCFILTR_EL0), ==, FILTER_NSH);
        g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==, 0x00000002);
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0x2);
        g_assert_cmphex(guest_read(&p, 0, PMINTENSET_EL1), ==, 0x80000003);
        /* Of counters that are not in use, nothing is touched */
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

    /* Nor is what is in a counter that runs */
    guest_write(&p, 0, PMCR_EL0, R_PMCR_E_MASK | R_PMCR_LC_MASK);
    guest_write(&p, 0, PMCCFILTR_EL0, 0);
    guest_write(&p, 0, PMCCNTR_EL0, 1000000 * MS);
    guest_write(&p, 0, PMEVCNTR_EL0(0), 1000000 * MS);
    guest_write(&p, 0, PMCNTENSET_EL0, 0x80000001);
    g_usleep(50000);
    run_to_end(&p, &run);
    g_assert_cmpint(guest_read(&p, 0, PMCCNTR_EL0), ==, 0);
    for (int i = 0; i < 3; i++) {
        uint64_t count = qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40);
        uint64_t cycles = qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x80);

        g_assert_cmpint(count, >=, MS);
        g_assert_cmpint(count, <, 1000000 * MS);
        g_assert_cmpint(cycles, >=, MS);
        g_assert_cmpint(cycles, <, 1000000 * MS);
    }
    qtest_quit(p.qts);
}

/* A device that is unrealized in a window stops the counters of its CPU. */
static void test_unrealize(void)
{
    Pmcu p = guest_init("-accel tcg -cpu max");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    /* It ends only by what follows. */
    run.wait_cnt = UINT32_MAX;
    pmcu_start(&p, &run);
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), !=, 0);
    qtest_qmp_assert_success(p.qts, "{'execute': 'qom-set', 'arguments': {"
                             "'path': '/machine/pmcu[0]', "
                             "'property': 'realized', 'value': false}}");
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==, 0);
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
    PmcuRun run = { PMCU_RUN_DEFAULT, .wait_cnt = UINT32_MAX };
    uint64_t start;
    bool irq;
    int i;

    /* CNTVCT_EL0 is the virtual time in 16 ns */
    g_assert_cmpint(guest_read(&p, 0, CNTFRQ_EL0), ==, 62500000);
    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_write(&p, 0, PMINTENSET_EL1, 0x1);
    start = guest_read(&p, 0, CNTVCT_EL0);
    pmcu_start(&p, &run);
    /*
     * QEMU notices that bit 31 falls only if it has seen it set. Read the
     * interrupt before the time: when the counter cannot have overflowed yet,
     * the interrupt must not have been there.
     */
    for (i = 0;; i++) {
        irq = qtest_get_irq(p.qts, 0);
        if (guest_read(&p, 0, PMEVCNTR_EL0(0)) > 0x80000000) {
            break;
        }
        g_assert_cmpint(i, <, 3000);
        g_usleep(10000);
    }
    if (guest_read(&p, 0, CNTVCT_EL0) < start + (1 << 28)) {
        g_assert_false(irq);
    }
    for (i = 0; !qtest_get_irq(p.qts, 0); i++) {
        g_assert_cmpint(i, <, 3000);
        g_usleep(10000);
    }
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 1);
    pmcu_break(&p);
    g_assert_false(qtest_get_irq(p.qts, 0));
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0);
    qtest_quit(p.qts);
}

/*
 * A PMCU that sets PMCR_EL0.E lets the interrupt of another counter through,
 * and one that clears it ends the interrupt.
 */
static void test_pmcr_interrupt(void)
{
    Pmcu p = tcg_init("-cpu max");
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);
    PmcuRun run = { PMCU_RUN_DEFAULT, .wait_cnt = UINT32_MAX };
    const uint64_t other = 1 << 5;

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_write(&p, 0, PMCR_EL0, 0);
    guest_write(&p, 0, PMINTENSET_EL1, other);
    guest_write(&p, 0, PMOVSSET_EL0, other);
    g_assert_false(qtest_get_irq(p.qts, 0));
    pmcu_start(&p, &run);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    g_assert_true(qtest_get_irq(p.qts, 0));
    pmcu_break(&p);
    g_assert_true(qtest_get_irq(p.qts, 0));
    pmcu_write(&p, A_INT_CLR, BRK);
    run.pmcr = 0;
    pmcu_start(&p, &run);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    g_assert_false(qtest_get_irq(p.qts, 0));
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, other);
    pmcu_break(&p);
    qtest_quit(p.qts);
}

/*
 * Of PMCR, PMCCFILTR and the event words, the CPU takes the bits that it has.
 * PMCR.LP is RES0 before FEAT_PMUv3p5. PMCR.P and PMCR.C do nothing: a run sets
 * the counters that it uses to 0, and leaves the others alone.
 */
static void test_template_bits(void)
{
    static const struct {
        const char *args;
        uint32_t pmcr;
    } models[] = {
        { "-cpu a64fx", 0x79 },
        { "-cpu max", 0xf9 },
    };
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 2, .pmcr = 0xff,
        .pmccfiltr = 0xff000000,
    };

    for (int i = 0; i < ARRAY_SIZE(models); i++) {
        Pmcu p = tcg_init(models[i].args);

        qtest_writel(p.qts, EVENT_BASE, 0x01ff0000 | EV_CPU_CYCLES);
        qtest_writel(p.qts, EVENT_BASE + 4, 0xffffffff);
        guest_write(&p, 0, PMEVCNTR_EL0(2), 0x1234);
        run_to_end(&p, &run);
        g_assert_cmphex(guest_read(&p, 0, PMCR_EL0) & 0xff, ==,
                        models[i].pmcr);
        g_assert_cmphex(guest_read(&p, 0, PMCCFILTR_EL0), ==, 0xfc000000);
        g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(0)), ==,
                        EV_CPU_CYCLES);
        g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(1)), ==, 0xfe00ffff);
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(2)), ==, 0x1234);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), >=, MS);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, 0);
        qtest_quit(p.qts);
    }
}

/*
 * With FEAT_PMUv3p5, PMCR.LP says whether an event counter overflows at 32 or
 * 64 bits, and in compatibility mode, for counters from HPMN on, MDCR_EL2.HLP.
 */
static void test_long_counters(void)
{
    static const struct {
        bool comp, overflows;
        uint32_t pmcr, mdcr;
    } modes[] = {
        { false, false, PMCR_DRIVER, 8 },
        { false, true, PMCR_DRIVER & ~R_PMCR_LP_MASK, 8 },
        { true, true, PMCR_DRIVER, 3 | 1 << 7 },                /* HPME */
        { true, false, 0, 3 | 1 << 7 | 1 << 26 },               /* and HLP */
    };
    Pmcu p = tcg_init("-cpu max,pmu-counters=8 -M virtualization=on");

    pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES | FILTER_NSH);
    for (int i = 0; i < ARRAY_SIZE(modes); i++) {
        unsigned counter = modes[i].comp ? 3 : 0;
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .wait_cnt = UINT32_MAX, .comp = modes[i].comp,
            .pmcr = modes[i].pmcr,
        };
        int tries = 0;

        guest_write(&p, 0, MDCR_EL2, modes[i].mdcr);
        pmcu_start(&p, &run);
        guest_write(&p, 0, PMEVCNTR_EL0(counter), 0xfffffff0);
        while (guest_read(&p, 0, PMEVCNTR_EL0(counter)) <= UINT32_MAX) {
            g_assert_cmpint(tries++, <, 1000);
        }
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==,
                        modes[i].overflows ? 1 << counter : 0);
        g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
        pmcu_break(&p);
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0);
    }
    qtest_quit(p.qts);
}

/* An access of another size than 32 bits is a synchronous external abort. */
static void test_bus_error(void)
{
    static const struct {
        unsigned bits;
        uint32_t load, store;
    } sizes[] = {
        { 8, 0x39400000 /* ldrb w0, [x0] */, 0x3900001f /* strb wzr, [x0] */ },
        { 16, 0x79400000 /* ldrh w0, [x0] */, 0x7900001f /* strh wzr, [x0] */ },
        { 32, 0xb9400000 /* ldr w0, [x0] */, 0xb900001f /* str wzr, [x0] */ },
        { 64, 0xf9400000 /* ldr x0, [x0] */, 0xf900001f /* str xzr, [x0] */ },
    };
    static const uint32_t vector[] = { INSN_MRS_X0 | ESR_EL1, INSN_RET };
    Pmcu p = tcg_init("-cpu max");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, vector, ARRAY_SIZE(vector));
    for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
        for (int store = 0; store < 2; store++) {
            const uint32_t code[] = {
                store ? sizes[i].store : sizes[i].load,
                0xd2800000,     /* mov     x0, #0x0 */
                INSN_RET,
            };
            bool aborts = sizes[i].bits != 32;
            uint64_t esr;

            /* EVENT_BASE_H is at an address that all sizes may access. */
            pmcu_write(&p, A_EVENT_BASE_H, 0x12345678);
            pmcu_write(&p, A_EVENT_BASE_L, 0x9abcdef0);
            esr = guest_call(&p, 0, p.base + A_EVENT_BASE_H, code,
                             ARRAY_SIZE(code));
            g_assert_cmphex(esr >> 26, ==, aborts ? EC_DATA_ABORT : 0);
            g_assert_cmphex(esr & 0x3f, ==, aborts ? DFSC_EXTERNAL : 0);
            g_assert_cmphex(pmcu_read(&p, A_EVENT_BASE_H), ==,
                            store && !aborts ? 0 : 0x12345678);
            g_assert_cmphex(pmcu_read(&p, A_EVENT_BASE_L), ==, 0x9abcdef0);
        }
    }
    qtest_quit(p.qts);
}

/*
 * Software that uses the same counters gets wrong numbers, and no more; what it
 * has in counters that the PMCU does not use stays right.
 */
static void test_contention(void)
{
    Pmcu p = tcg_init("-cpu max");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 100 };
    unsigned increments = 0;

    guest_write(&p, 0, PMCR_EL0, PMCR_DRIVER);
    for (int i = 4; i < 6; i++) {
        guest_write(&p, 0, PMEVTYPER_EL0(i), i == 4 ? EV_SW_INCR : EV_NULL);
        guest_write(&p, 0, PMEVCNTR_EL0(i), 0x123400000000 + i);
    }
    guest_write(&p, 0, PMINTENSET_EL1, 0x30);
    pmcu_start(&p, &run);
    do {
        guest_write(&p, 0, PMEVTYPER_EL0(0), EV_SW_INCR);
        guest_write(&p, 0, PMEVCNTR_EL0(0), UINT32_MAX);
        guest_write(&p, 0, PMCNTENCLR_EL0, 0x80000001);
        guest_write(&p, 0, PMCR_EL0, 0x5);              /* C, and not P */
        guest_write(&p, 0, PMCNTENSET_EL0, 0x80000031);
        guest_write(&p, 0, PMSWINC_EL0, 0x10);
        increments++;
    } while (pmcu_state(&p) == HISI_PMCU_COUNT);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 100 << 16);
    pmcu_write(&p, A_INT_CLR, DONE);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(4)), ==, EV_SW_INCR);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(5)), ==, EV_NULL);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(4)), ==,
                    0x123400000004 + increments);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(5)), ==, 0x123400000005);
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0) & 0x3e, ==, 0x30);
    g_assert_cmphex(guest_read(&p, 0, PMINTENSET_EL1), ==, 0x30);
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
    guest_write(&p, 0, PMCNTENSET_EL0, 0x80000007);
    guest_write(&p, 0, PMOVSSET_EL0, 0x8000000f);
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
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==, 0x80000007);
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0x80000007);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(2)), ==, EV_L2D_CACHE);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(3)), ==,
                    EV_CPU_CYCLES | FILTER_NSH);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(7)), ==,
                    EV_CPU_CYCLES | FILTER_NSH);
    qtest_quit(p.qts);
}

#define INSN_SVC        0xd4000001
#define INSN_HVC        0xd4000002

/* x1 before and after code at a lower level, which has it at x19 + 24, too */
#define LOWER_X1        (GUEST_MAILBOX(0) + 24)

/*
 * Let CPU 0, which is at EL2, execute code at EL1 or EL0, by @spsr, until an
 * HVC, or a trap.
 */
static void lower_start(const Pmcu *p, uint32_t spsr, const uint32_t *code,
                        size_t n, uint64_t x1)
{
    const uint64_t vector = GUEST_VECTORS(0) + 0x400;   /* lower EL, AArch64 */
    const uint64_t lower_code = GUEST_VECTORS(0) + 0x800;
    const uint32_t enter[] = {
        0x91400661,     /* add     x1, x19, #0x1000 */
        0xd51cc001,     /* msr     vbar_el2, x1 */
        0xd2b00002,     /* mov     x2, #0x80000000 */
        0xd51c1102,     /* msr     hcr_el2, x2 */
        0xd51c4020,     /* msr     elr_el2, x0 */
        0xd2800002 | spsr << 5, /* mov x2, the SPSR */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        0xf9400e61,     /* ldr     x1, [x19, #24] */
        INSN_ERET,
    };
    const uint32_t leave[] = {
        0xf9000e61,     /* str     x1, [x19, #24] */
        0xd53c5200,     /* mrs     x0, esr_el2 */
        INSN_RET,       /* to where enter[] was called from, at EL2 */
    };

    guest_put(p, vector, leave, ARRAY_SIZE(leave));
    guest_put(p, lower_code, code, n);
    qtest_writeq(p->qts, LOWER_X1, x1);
    guest_start(p, 0, lower_code, enter, ARRAY_SIZE(enter));
}

/*
 * Let it execute one instruction, with *@x1 in x1. Returns the exception class
 * of what follows: the HVC after it, or its trap. EL0 has no HVC, and executes
 * an SVC to one of EL1.
 */
static unsigned lower_execute(const Pmcu *p, uint32_t spsr, uint32_t insn,
                              uint64_t *x1)
{
    const uint32_t code[] = {
        insn, spsr == SPSR_EL0_64 ? INSN_SVC : INSN_HVC,
    };
    unsigned ec;

    lower_start(p, spsr, code, ARRAY_SIZE(code), *x1);
    ec = guest_wait(p, 0) >> 26;
    *x1 = qtest_readq(p->qts, LOWER_X1);
    return ec;
}

static uint64_t lower_read(const Pmcu *p, uint32_t spsr, uint32_t sysreg)
{
    uint64_t x1 = 0xdead;

    g_assert_cmphex(lower_execute(p, spsr, INSN_MRS_X0 | sysreg | 1, &x1), ==,
                    EC_HVC);
    return x1;
}

static void lower_write(const Pmcu *p, uint32_t spsr, uint32_t sysreg,
                        uint64_t value)
{
    g_assert_cmphex(lower_execute(p, spsr, INSN_MSR_X0 | sysreg | 1, &value),
                    ==, EC_HVC);
}

static void assert_read_traps(const Pmcu *p, uint32_t spsr, uint32_t sysreg)
{
    uint64_t x1 = 0xdead;

    g_assert_cmphex(lower_execute(p, spsr, INSN_MRS_X0 | sysreg | 1, &x1), ==,
                    EC_SYSREG);
    g_assert_cmphex(x1, ==, 0xdead);
}

static void assert_write_traps(const Pmcu *p, uint32_t spsr, uint32_t sysreg)
{
    uint64_t x1 = 0xdead;

    g_assert_cmphex(lower_execute(p, spsr, INSN_MSR_X0 | sysreg | 1, &x1), ==,
                    EC_SYSREG);
}

static uint64_t el1_read(const Pmcu *p, uint32_t sysreg)
{
    return lower_read(p, SPSR_EL1_64, sysreg);
}

static void el1_write(const Pmcu *p, uint32_t sysreg, uint64_t value)
{
    lower_write(p, SPSR_EL1_64, sysreg, value);
}

static void assert_el1_traps(const Pmcu *p, uint32_t sysreg)
{
    assert_read_traps(p, SPSR_EL1_64, sysreg);
    assert_write_traps(p, SPSR_EL1_64, sysreg);
}

/*
 * Counters from MDCR_EL2.HPMN on do not exist for EL1: it can neither see nor
 * disturb them. (Arm ARM, MDCR_EL2.HPMN)
 */
static void test_hpmn(const void *cpu)
{
    static const struct {
        uint32_t set, clear;
    } bits[] = {
        { PMCNTENSET_EL0, PMCNTENCLR_EL0 }, { PMOVSSET_EL0, PMOVSCLR_EL0 },
        { PMINTENSET_EL1, PMINTENCLR_EL1 },
    };
    g_autofree char *args = g_strdup_printf("%s -M virtualization=on",
                                            (const char *)cpu);
    Pmcu p = tcg_init(args);
    uint64_t pmcr;

    /* An HPMN of all 8 counters, or of more, hides none. */
    for (int hpmn = 8; hpmn <= 31; hpmn += 23) {
        guest_write(&p, 0, MDCR_EL2, hpmn);
        g_assert_cmpint(extract64(el1_read(&p, PMCR_EL0), 11, 5), ==, 8);
        for (int i = 0; i < ARRAY_SIZE(bits); i++) {
            el1_write(&p, bits[i].set, UINT32_MAX);
            g_assert_cmphex(el1_read(&p, bits[i].set), ==, 0x800000ff);
            el1_write(&p, bits[i].clear, UINT32_MAX);
            g_assert_cmphex(guest_read(&p, 0, bits[i].set), ==, 0);
        }
    }

    guest_write(&p, 0, MDCR_EL2, 3 | 1 << 7);   /* HPME */
    guest_write(&p, 0, PMCR_EL0, R_PMCR_E_MASK);

    g_assert_cmpint(extract64(guest_read(&p, 0, PMCR_EL0), 11, 5), ==, 8);
    pmcr = el1_read(&p, PMCR_EL0);
    g_assert_cmpint(extract64(pmcr, 11, 5), ==, 3);

    for (int i = 0; i < ARRAY_SIZE(bits); i++) {
        guest_write(&p, 0, bits[i].clear, UINT32_MAX);
        el1_write(&p, bits[i].set, UINT32_MAX);
        g_assert_cmphex(guest_read(&p, 0, bits[i].set), ==, 0x80000007);
        guest_write(&p, 0, bits[i].set, UINT32_MAX);
        g_assert_cmphex(guest_read(&p, 0, bits[i].set), ==, 0x800000ff);
        g_assert_cmphex(el1_read(&p, bits[i].set), ==, 0x80000007);
        g_assert_cmphex(el1_read(&p, bits[i].clear), ==, 0x80000007);
        el1_write(&p, bits[i].clear, UINT32_MAX);
        g_assert_cmphex(guest_read(&p, 0, bits[i].set), ==, 0xf8);
        g_assert_cmphex(guest_read(&p, 0, bits[i].clear), ==, 0xf8);
    }

    /* All counters are enabled, and count PMSWINC at any exception level */
    guest_write(&p, 0, PMCNTENSET_EL0, UINT32_MAX);
    for (int i = 0; i < 8; i++) {
        guest_write(&p, 0, PMEVTYPER_EL0(i), EV_SW_INCR | FILTER_NSH);
        guest_write(&p, 0, PMEVCNTR_EL0(i), 0x100 + i);
    }
    el1_write(&p, PMSWINC_EL0, UINT32_MAX);
    for (int i = 0; i < 8; i++) {
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(i)), ==,
                        0x100 + i + (i < 3));
    }
    el1_write(&p, PMCR_EL0, R_PMCR_E_MASK | R_PMCR_P_MASK);
    for (int i = 0; i < 8; i++) {
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(i)), ==,
                        i < 3 ? 0 : 0x100 + i);
    }
    guest_write(&p, 0, PMSWINC_EL0, 0x81);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, 1);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(7)), ==, 0x108);

    for (int i = 0; i < 8; i++) {
        el1_write(&p, PMSELR_EL0, i);
        if (i < 3) {
            el1_write(&p, PMEVTYPER_EL0(i), EV_NULL + i);
            g_assert_cmphex(el1_read(&p, PMXEVTYPER_EL0), ==, EV_NULL + i);
            el1_write(&p, PMXEVCNTR_EL0, 0x200 + i);
            g_assert_cmphex(el1_read(&p, PMEVCNTR_EL0(i)), ==, 0x200 + i);
        } else {
            assert_el1_traps(&p, PMEVTYPER_EL0(i));
            assert_el1_traps(&p, PMEVCNTR_EL0(i));
            assert_el1_traps(&p, PMXEVTYPER_EL0);
            assert_el1_traps(&p, PMXEVCNTR_EL0);
        }
    }
    el1_write(&p, PMSELR_EL0, 31);
    el1_write(&p, PMXEVTYPER_EL0, FILTER_P);
    g_assert_cmphex(el1_read(&p, PMCCFILTR_EL0), ==, FILTER_P);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(3)), ==,
                    EV_SW_INCR | FILTER_NSH);
    g_assert_cmphex(guest_read(&p, 0, PMEVTYPER_EL0(2)), ==, EV_NULL + 2);
    qtest_quit(p.qts);
}

/*
 * Nor do they exist for EL0, whether PMUSERENR.EN lets it access all registers,
 * or ER only read event counters.
 */
static void test_hpmn_el0(void)
{
    enum { EN = 1 << 0, ER = 1 << 3 };
    static const uint32_t from_el0[] = { INSN_HVC };
    const uint64_t el1_vectors = GUEST_VECTORS(0) + 0x1000;
    const uint32_t el0 = SPSR_EL0_64;
    Pmcu p = tcg_init("-cpu max,pmu-counters=8 -M virtualization=on");

    guest_put(&p, el1_vectors + VECTOR_EL0_64, from_el0, ARRAY_SIZE(from_el0));
    guest_write(&p, 0, VBAR_EL1, el1_vectors);
    guest_write(&p, 0, MDCR_EL2, 3);
    for (int i = 0; i < 8; i++) {
        guest_write(&p, 0, PMEVCNTR_EL0(i), 0x100 + i);
    }

    guest_write(&p, 0, PMUSERENR_EL0, EN);
    g_assert_cmpint(extract64(lower_read(&p, el0, PMCR_EL0), 11, 5), ==, 3);
    lower_write(&p, el0, PMCNTENSET_EL0, UINT32_MAX);
    g_assert_cmphex(guest_read(&p, 0, PMCNTENSET_EL0), ==, 0x80000007);
    lower_write(&p, el0, PMEVCNTR_EL0(2), 0x202);
    g_assert_cmphex(lower_read(&p, el0, PMEVCNTR_EL0(2)), ==, 0x202);
    assert_read_traps(&p, el0, PMEVCNTR_EL0(3));
    assert_write_traps(&p, el0, PMEVCNTR_EL0(3));

    guest_write(&p, 0, PMUSERENR_EL0, ER);
    lower_write(&p, el0, PMSELR_EL0, 2);
    g_assert_cmphex(lower_read(&p, el0, PMEVCNTR_EL0(2)), ==, 0x202);
    g_assert_cmphex(lower_read(&p, el0, PMXEVCNTR_EL0), ==, 0x202);
    lower_write(&p, el0, PMSELR_EL0, 3);
    assert_read_traps(&p, el0, PMEVCNTR_EL0(3));
    assert_read_traps(&p, el0, PMXEVCNTR_EL0);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(3)), ==, 0x103);
    qtest_quit(p.qts);
}

/* A machine that migrates with its CPU at EL1 keeps what EL1 does not see. */
static void test_hpmn_migrate(void)
{
    static const uint32_t sets[] = {
        PMCNTENSET_EL0, PMOVSSET_EL0, PMINTENSET_EL1,
    };
    static const uint32_t wait[] = {
        0xf9400e61,     /* ldr     x1, [x19, #24] */
        0xb4ffffe1,     /* cbz     x1, back */
        INSN_HVC,
    };
    const char *args = "-cpu max,pmu-counters=8 -M virtualization=on";
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    g_autofree char *file = NULL;
    Pmcu p = tcg_init(args);

    guest_write(&p, 0, MDCR_EL2, 3);
    for (int i = 0; i < ARRAY_SIZE(sets); i++) {
        guest_write(&p, 0, sets[i], UINT32_MAX);
    }
    lower_start(&p, SPSR_EL1_64, wait, ARRAY_SIZE(wait), 0);
    file = pmcu_save(p.qts);
    qtest_quit(p.qts);

    p = tcg_init(incoming);
    g_assert_true(pmcu_load(p.qts, file));
    unlink(file);
    qtest_writeq(p.qts, LOWER_X1, 1);
    guest_wait(&p, 0);
    for (int i = 0; i < ARRAY_SIZE(sets); i++) {
        g_assert_cmphex(guest_read(&p, 0, sets[i]), ==, 0x800000ff);
    }
    qtest_quit(p.qts);
}

/* What EL1 does to all counters that it knows of does not disturb a run. */
static void test_comp_isolated(void)
{
    uint64_t window = 10 * MS;
    Pmcu p = tcg_init("-cpu a64fx -M virtualization=on");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 200, .nr_pmu = 5, .comp = true,
    };
    unsigned turns;     /* whole ones during the run */

    pmcu_events(&p, EVENT_BASE, 200, EV_CPU_CYCLES | FILTER_NSH);
    guest_write(&p, 0, MDCR_EL2, 3 | 1 << 7);
    /* A slow host needs a longer run for the same number of turns. */
    for (;; window *= 2) {
        run.wait_cnt = window / HISI_PMCU_TICK_NS;
        pmcu_start(&p, &run);
        for (turns = 0;; turns++) {
            el1_write(&p, PMCR_EL0, R_PMCR_P_MASK | R_PMCR_C_MASK);
            el1_write(&p, PMCNTENCLR_EL0, UINT32_MAX);
            el1_write(&p, PMOVSSET_EL0, UINT32_MAX);
            el1_write(&p, PMSWINC_EL0, UINT32_MAX);
            if (pmcu_state(&p) != HISI_PMCU_COUNT) {
                break;
            }
        }
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 40 << 16);
        for (int i = 0; i < 40; i++) {
            for (int e = 0; e < 5; e++) {
                g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x180 * i +
                                            0x40 + 0x40 * e), >=, window);
            }
        }
        if (turns >= 10) {
            break;
        }
        g_assert_cmpint(window, <, 1000 * MS);
        pmcu_write(&p, A_INT_CLR, DONE);
    }
    qtest_quit(p.qts);
}

/*
 * Under -icount shift=N, a window is rounded up to a multiple of 2^N ns, and a
 * run can be repeated bit for bit. (docs/system/arm/hisi-pmcu.rst)
 */
static void test_icount(void)
{
    static const struct {
        unsigned shift, wait_cnt;
    } cases[] = {
        { 0, MS_TICKS },
        { 3, 12345 },       /* 246900 ns are 30862 and a half times 8 ns */
        { 6, 12345 },
    };

    for (int i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        static uint8_t records[2][20 * 0x140];
        const unsigned shift = cases[i / 2].shift;
        g_autofree char *args = g_strdup_printf(
            "-cpu max -icount shift=%u,sleep=off", shift);
        Pmcu p = tcg_init(args);
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 60, .nr_pmu = 3,
            .wait_cnt = cases[i / 2].wait_cnt,
        };
        const uint64_t insns = DIV_ROUND_UP(run.wait_cnt * HISI_PMCU_TICK_NS,
                                            1 << shift);

        for (int e = 0; e < 60; e += 3) {
            qtest_writel(p.qts, EVENT_BASE + 4 * e, EV_INST_RETIRED);
        }
        run_to_end(&p, &run);
        for (int r = 0; r < 20; r++) {
            uint64_t rec = STORE_BASE + 0x140 * r;

            for (int e = 0; e < 4; e++) {
                g_assert_cmpint(qtest_readq(p.qts, rec + 0x40 * (e + 1)), ==,
                                e ? insns << shift : insns);
            }
        }
        qtest_memread(p.qts, STORE_BASE, records[i % 2], sizeof(records[0]));
        qtest_quit(p.qts);
        if (i % 2) {
            g_assert_cmpmem(records[0], sizeof(records[0]),
                            records[1], sizeof(records[1]));
        }
    }
}

/* Live migration: no record gets lost, and none is written twice or short. */
static void test_migrate(void)
{
    const unsigned n = 240 * 20;
    const char *args = "-cpu max -m 64M";
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 240, .nr_loop = 20 };
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    uint64_t sum[3] = { }, start, end;
    unsigned before;
    char *file;
    Pmcu p;

    /* A loaded host may save the machine only after the end of a run */
    for (;;) {
        p = tcg_init(args);
        qtest_memset(p.qts, STORE_BASE, CANARY, (n + 1) * 0xc0);
        /* CNTVCT_EL0 is the virtual time in ns */
        g_assert_cmpint(guest_read(&p, 0, CNTFRQ_EL0), ==, 1000000000);
        start = guest_read(&p, 0, CNTVCT_EL0);
        pmcu_start(&p, &run);
        pmcu_wait_stored(&p, 100);
        file = pmcu_save(p.qts);
        before = pmcu_stored(&p);
        qtest_quit(p.qts);
        if (before < n) {
            break;
        }
        unlink(file);
        g_free(file);
        run.wait_cnt *= 2;
        g_assert_cmpint(run.wait_cnt, <=, 64 * MS_TICKS);
    }

    p = tcg_init(incoming);
    g_assert_true(pmcu_load(p.qts, file));
    unlink(file);
    g_free(file);
    g_assert_cmpint(pmcu_stored(&p), >=, before);
    pmcu_wait_stored(&p, n);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, n << 16);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
    end = guest_read(&p, 0, CNTVCT_EL0);
    for (unsigned i = 0; i < n; i++) {
        uint64_t rec = STORE_BASE + 0xc0 * i;

        g_assert_cmphex(qtest_readq(p.qts, rec), ==, 0);
        for (int e = 1; e < 3; e++) {
            uint64_t count = qtest_readq(p.qts, rec + 0x40 * e);

            g_assert_cmpint(count, >=, MS);
            sum[e] += count;
        }
    }
    /* No time counts twice: windows do not overlap, on either machine. */
    for (int e = 1; e < 3; e++) {
        g_assert_cmpint(sum[e], <=, end - start);
    }
    g_assert_cmphex(qtest_readb(p.qts, STORE_BASE + 0xc0 * n), ==, CANARY);
    qtest_quit(p.qts);
}

/*
 * Each timer of EL2 and of the Secure state that alone is pending when the
 * machine migrates expires where it goes on. While none is, the stream does not
 * have them, as that of stock QEMU.
 */
static void test_el2_timers(void)
{
    enum { FIRST = 2 /* GTIMER_HYP */, CVAL = 0x20 /* after CTL */ };
    static const uint32_t ctl[] = {
        CNTHP_CTL_EL2, CNTPS_CTL_EL1, CNTHV_CTL_EL2, CNTHPS_CTL_EL2,
        CNTHVS_CTL_EL2,
    };
    const char *args = "-cpu max -m 64M -M virtualization=on,secure=on";
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    Pmcu p = tcg_init(args);
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

    qtest_irq_intercept_out(p.qts, cpu);
    /* With EEL2, all of them exist at EL3, where the CPU is */
    guest_write(&p, 0, SCR_EL3, guest_read(&p, 0, SCR_EL3) | 1 << 18);
    /* None at first */
    for (int timer = -1; timer < (int)ARRAY_SIZE(ctl); timer++) {
        g_autofree char *file = NULL;
        g_autofree char *stream = NULL;
        uint64_t due = 0;
        size_t size;
        bool expired = timer >= 0;

        /* On a slow host, it may expire before the machine is stopped. */
        for (uint64_t ahead = 125 * MS; expired; ahead *= 2) {
            g_assert_cmpint(ahead, <, 100000 * MS);
            qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
            due = guest_read(&p, 0, CNTVCT_EL0) + ahead;
            guest_write(&p, 0, ctl[timer] + CVAL, due);
            guest_write(&p, 0, ctl[timer], 1);
            qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
            expired = qtest_get_irq(p.qts, FIRST + timer);
        }
        file = pmcu_save(p.qts);
        g_assert_true(g_file_get_contents(file, &stream, &size, NULL));
        g_assert_cmpint(memmem(stream, size, "cpu/el2-timers", 14) != NULL, ==,
                        timer >= 0);
        if (timer >= 0) {
            qtest_quit(p.qts);
            p = tcg_init(incoming);
            qtest_irq_intercept_out(p.qts, cpu);
            g_assert_true(pmcu_load(p.qts, file));
            qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
            for (int ms = 0; !qtest_get_irq(p.qts, FIRST + timer); ms++) {
                g_assert_cmpint(ms, <, 200000);
                g_usleep(1000);
            }
            g_assert_cmpuint(guest_read(&p, 0, CNTVCT_EL0), >=, due);
            guest_write(&p, 0, ctl[timer], 0);
        }
        unlink(file);
    }
    qtest_quit(p.qts);
}

/*
 * A run that the CPU itself starts, on a machine that migrates. An instruction
 * is a nanosecond and a cycle, and a turn of the loop has five. A window ends
 * between the STR and the B.
 */
static void check_run(unsigned *migrations)
{
    const char *args = "-cpu max,pmu-counters=8 -m 64M "
                       "-icount shift=0,sleep=off";
    /* Start the PMCU, whose FSM_CTRL is at x0; then work */
    static const uint32_t code[] = {
        0x52800021,     /*     mov     w1, #1: TRIGGER */
        0xd5033f9f,     /*     dsb     sy */
        0xb9000001,     /*     str     w1, [x0] */
        0x91400e63,     /*     add     x3, x19, #3, lsl #12 */
        0xf9400064,     /* 1:  ldr     x4, [x3] */
        0xd518d024,     /*     msr     contextidr_el1, x4 */
        0x91000484,     /*     add     x4, x4, #1 */
        0xf9000064,     /*     str     x4, [x3] */
        0x17fffffc,     /*     b       1b */
    };
    static const uint16_t events[] = { EV_INST_RETIRED, EV_CPU_CYCLES, 6, 7 };
    const unsigned n = 240 * 8, size = n / 8 * (64 * (8 + 2));
    const unsigned window = 500000, turns = window / 5;
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    Pmcu p = tcg_init(args);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 240, .nr_pmu = 8, .nr_loop = 8,
        .wait_cnt = MS_TICKS / 2, .kill_base = STORE_BASE + size,
    };
    g_autofree uint64_t *records = g_malloc(size);

    for (int i = 0; i < 240; i++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * i,
                     events[i % ARRAY_SIZE(events)]);
    }
    pmcu_program(&p, &run);
    guest_start(&p, 0, p.base + A_FSM_CTRL, code, ARRAY_SIZE(code));
    while (*migrations && pmcu_stored(&p) < n / 8) {
        g_autofree char *file = NULL;

        g_usleep(g_test_rand_int_range(0, 50000));
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        file = pmcu_save(p.qts);
        qtest_quit(p.qts);
        p = tcg_init(incoming);
        if (*migrations % 2) {
            /* Timers of real time cut the guest's code anywhere */
            qtest_qmp_assert_success(p.qts, "{'execute': "
                "'migrate-set-parameters', 'arguments': {'announce-initial': 1,"
                " 'announce-max': 1, 'announce-step': 1,"
                " 'announce-rounds': 1000}}");
        }
        g_assert_true(pmcu_load(p.qts, file));
        unlink(file);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        --*migrations;
    }
    pmcu_wait_stored(&p, n / 8);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
    g_assert_cmpint(pmcu_error(&p), ==, 0);
    qtest_memread(p.qts, STORE_BASE, records, size);
    qtest_quit(p.qts);
    for (int r = 0; r < n / 8; r++) {
        uint64_t *expect = g_malloc0(64 * (8 + 2)), *got = records + r * 80;

        stl_le_p(expect, (r + 1) * turns - 1);
        for (int e = 0; e < 9; e++) {
            expect[8 + 8 * e] = cpu_to_le64(e % 4 < 2 ? window : turns);
        }
        for (int i = 0; i < 80; i++) {
            if (got[i] != expect[i]) {
                g_test_message("word %d of record %d: 0x%" PRIx64 ", not 0x%"
                               PRIx64, i, r, le64_to_cpu(got[i]),
                               le64_to_cpu(expect[i]));
                g_test_fail();
            }
        }
        g_free(expect);
    }
}

/* The environment variable PMU_MIGRATIONS has the number of migrations. */
static void test_migrate_often(void)
{
    const char *number = g_getenv("PMU_MIGRATIONS");
    unsigned n = number ? atoi(number) : 20, none = 0;

    check_run(&none);
    while (n) {
        check_run(&n);
    }
}

#include "hostile-stream.c.inc"

#define CHANGED_ARGS    "-cpu max,pmu-counters=8 -smp 2 -m 64M"

static bool try_load(const char *args, const char *file)
{
    g_autofree char *incoming = g_strdup_printf("%s -S -incoming defer", args);
    Pmcu p = tcg_init(incoming);
    bool loaded = pmcu_load(p.qts, file);

    if (loaded) {
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        g_usleep(5000);
        pmcu_read(&p, A_FSM_STATUS);
        pmcu_break(&p);
        pmcu_write(&p, A_INT_CLR, DONE | BRK);
        qtest_system_reset(p.qts);
    }
    qtest_quit(p.qts);
    return loaded;
}

/* The PMCU in the middle of a run, and counters of a CPU that works */
static void test_migrate_changed(void)
{
    static const char *const prefixes[] = { "hisi-pmcu", "cpu/pmu", NULL };
    static const uint32_t loop[] = { 0x14000000 };      /* b . */
    Pmcu p = tcg_init(CHANGED_ARGS);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 16, .nr_pmu = 8, .nr_loop = 255,
        .wait_cnt = 200 * MS_TICKS,
    };
    g_autofree char *file = NULL;

    pmcu_events(&p, EVENT_BASE, 16, EV_INST_RETIRED);
    guest_start(&p, 0, 0, loop, ARRAY_SIZE(loop));
    pmcu_start(&p, &run);
    pmcu_wait_stored(&p, 1);
    qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    file = pmcu_save(p.qts);
    qtest_quit(p.qts);
    stream_torture(file, prefixes, try_load, CHANGED_ARGS);
}

/* PMCR.N and the reset value of HPMN follow pmu-counters. */
static void test_pmu_counters(void)
{
    static const unsigned counters[] = { 0, 1, 8, 31 };

    for (int i = 0; i < ARRAY_SIZE(counters); i++) {
        g_autofree char *args = g_strdup_printf(
            "-cpu max,pmu-counters=%u -M virtualization=on", counters[i]);
        unsigned want = counters[i] ?: 6;
        QDict *rsp;
        Pmcu p = tcg_init(args);
        g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

        g_assert_cmpint(extract64(guest_read(&p, 0, PMCR_EL0), 11, 5), ==,
                        want);
        g_assert_cmpint(guest_read(&p, 0, MDCR_EL2) & 0x1f, ==, want);

        /* A CPU that exists keeps its counters. */
        rsp = qtest_qmp(p.qts, "{'execute': 'qom-set', 'arguments': {"
                        "'path': %s, 'property': 'pmu-counters', 'value': 4}}",
                        cpu);
        g_assert_true(qdict_haskey(rsp, "error"));
        g_assert_cmpstr(qdict_get_str(qdict_get_qdict(rsp, "error"), "desc"),
                        ==, "'pmu-counters' can no longer be changed");
        qobject_unref(rsp);

        /* Management software can ask for it. */
        rsp = qtest_qmp_assert_success_ref(p.qts,
            "{'execute': 'query-cpu-model-expansion', 'arguments': {"
            "'type': 'full', 'model': {'name': 'max', 'props': {"
            "'pmu-counters': %u}}}}", counters[i]);
        g_assert_cmpint(qdict_get_int(qdict_get_qdict(qdict_get_qdict(
            rsp, "model"), "props"), "pmu-counters"), ==, counters[i]);
        qobject_unref(rsp);
        rsp = qtest_qmp(p.qts,
            "{'execute': 'query-cpu-model-expansion', 'arguments': {"
            "'type': 'full', 'model': {'name': 'max', 'props': {"
            "'pmu-counters': 32}}}}");
        g_assert_true(qdict_haskey(rsp, "error"));
        qobject_unref(rsp);
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
    qtest_add_data_func("hisi_pmcu/tcg/exception-return/a64", "-cpu max",
                        test_exception_return);
    qtest_add_data_func("hisi_pmcu/tcg/exception-return/a32",
                        "-cpu max -M virtualization=on",
                        test_exception_return);
    qtest_add_func("hisi_pmcu/tcg/owner-state-lost", test_owner_state);
    qtest_add_func("hisi_pmcu/tcg/one-instant", test_one_instant);
    qtest_add_func("hisi_pmcu/tcg/one-moment", test_one_moment);
    qtest_add_func("hisi_pmcu/tcg/hammer", test_hammer);
    qtest_add_func("hisi_pmcu/tcg/stop-cont", test_stop_cont);
    qtest_add_func("hisi_pmcu/tcg/stop-icount", test_stop_icount);
    qtest_add_func("hisi_pmcu/tcg/unrealize", test_unrealize);
    qtest_add_func("hisi_pmcu/tcg/overflow-interrupt", test_overflow);
    qtest_add_func("hisi_pmcu/tcg/pmcr-interrupt", test_pmcr_interrupt);
    qtest_add_func("hisi_pmcu/tcg/template-bits", test_template_bits);
    qtest_add_func("hisi_pmcu/tcg/long-counters", test_long_counters);
    qtest_add_func("hisi_pmcu/tcg/bus-error", test_bus_error);
    qtest_add_func("hisi_pmcu/tcg/contention", test_contention);
    qtest_add_func("hisi_pmcu/tcg/compatibility-mode-hpme", test_comp_hpme);
    qtest_add_data_func("hisi_pmcu/tcg/hpmn/max", "-cpu max,pmu-counters=8",
                        test_hpmn);
    qtest_add_data_func("hisi_pmcu/tcg/hpmn/a64fx", "-cpu a64fx", test_hpmn);
    qtest_add_func("hisi_pmcu/tcg/hpmn/el0", test_hpmn_el0);
    qtest_add_func("hisi_pmcu/tcg/hpmn/migrate", test_hpmn_migrate);
    qtest_add_func("hisi_pmcu/tcg/compatibility-mode-isolated",
                   test_comp_isolated);
    qtest_add_func("hisi_pmcu/tcg/icount-exact", test_icount);
    qtest_add_func("hisi_pmcu/tcg/live-migration", test_migrate);
    qtest_add_func("hisi_pmcu/tcg/el2-timers", test_el2_timers);
    qtest_add_func("hisi_pmcu/tcg/migrate-changed", test_migrate_changed);
    qtest_add_func("hisi_pmcu/tcg/migrate-often", test_migrate_often);
    qtest_add_func("hisi_pmcu/tcg/pmu-counters", test_pmu_counters);

    return g_test_run();
}
