/*
 * QTest of the HiSilicon PMCU on the Arm virt machine
 *
 * No CPU executes under qtest, so the counters are a matter of arithmetic:
 * CPU_CYCLES and the cycle counter of a CPU that is on count 1 per nanosecond
 * of virtual time, everything else is 0. CPU 0 is on after reset, the others
 * are not unless the test says so.
 *
 * The rules are those of docs/specs/hisi-pmcu.rst.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hisi_pmcu-util.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include "qobject/qdict.h"
#include "standard-headers/linux/qemu_fw_cfg.h"

#define FLASH_BASE      0x0ULL
#define FW_CFG_BASE     0x09020000ULL
#define UART_BASE       0x09000000ULL
#define UNMAPPED        0x0f800000ULL

#define DONE            R_INT_STAT_DONE_MASK
#define BRK             R_INT_STAT_BRK_MASK

static Pmcu pmcu_init(const char *args)
{
    Pmcu p = { .base = PMCU_BASE, .spi = PMCU_SPI };
    g_autofree char *gic = NULL;

    p.qts = qtest_initf("-M virt,gic-version=3,pmcu=on -nic none %s%s",
                        strstr(args, "-cpu") ? "" : "-cpu max ", args);
    gic = pmcu_find_device(p.qts, "arm-gicv3", 0);
    qtest_irq_intercept_in(p.qts, gic);
    return p;
}

/* Trigger a run, let it come to its end, and clear the interrupt */
static void pmcu_run(const Pmcu *p, const PmcuRun *run)
{
    unsigned windows = run->nr_loop * run->ev_len / run->nr_pmu;

    pmcu_start(p, run);
    qtest_clock_step(p->qts, (uint64_t)windows * run->wait_cnt *
                     HISI_PMCU_TICK_NS);
    g_assert_cmphex(pmcu_read(p, A_FSM_STATUS), ==, windows << 16);
    g_assert_cmphex(pmcu_read(p, A_INT_STAT), ==, R_INT_STAT_DONE_MASK);
    pmcu_write(p, A_INT_CLR, R_INT_CLR_DONE_MASK);
}

/* For tests that need the interrupt enabled and one event to count */
static Pmcu pmcu_init_irq(const char *args)
{
    Pmcu p = pmcu_init(args);

    pmcu_write(&p, A_INT_EN, DONE | BRK);
    pmcu_events(&p, EVENT_BASE, HISI_PMCU_MAX_EV_LEN, EV_CPU_CYCLES);
    return p;
}

static void pmcu_quit(Pmcu *p)
{
    qtest_quit(p->qts);
}

static void pmcu_step(const Pmcu *p, int64_t ns)
{
    qtest_clock_step(p->qts, ns);
}

static void assert_canary(const Pmcu *p, uint64_t addr, size_t len)
{
    g_autofree uint8_t *buf = g_malloc(len);

    qtest_memread(p->qts, addr, buf, len);
    for (size_t i = 0; i < len; i++) {
        g_assert_cmphex(buf[i], ==, CANARY);
    }
}

/* A run has been stopped early or has not come to its end */
static void assert_int(const Pmcu *p, uint32_t stat)
{
    g_assert_cmphex(pmcu_read(p, A_INT_STAT), ==, stat);
    g_assert_cmpint(pmcu_irq(p), ==, stat != 0);
}

/* ------------------------------------------------------------------------ */
/* Registers */

static const struct {
    unsigned offset;
    uint32_t mask;
} rw_regs[] = {
    { A_FSM_CFG,        0x000fffff },
    { A_EVENT_BASE_H,   0xffffffff },
    { A_EVENT_BASE_L,   0xffffffff },
    { A_KILL_BASE_H,    0xffffffff },
    { A_KILL_BASE_L,    0xffffffff },
    { A_STORE_BASE_H,   0xffffffff },
    { A_STORE_BASE_L,   0xffffffff },
    { A_WAIT_CNT,       0xffffffff },
    { A_COMP,           0x00000001 },
    { A_INT_EN,         0x00000003 },
    { A_INT_MSK,        0x00000003 },
    { A_PMCR,           0x000000ff },
    { A_PMCCFILTR,      0xff000000 },
};

static const unsigned ro_regs[] = { A_FSM_STATUS, A_INT_STAT };
static const unsigned action_regs[] = { A_FSM_CTRL, A_FSM_BRK, A_INT_CLR };
static const unsigned no_regs[] = {
    0x024, 0x028, 0x02c, 0x030, 0x034, 0x040, 0x048, 0x0fc, 0x110, 0x1fc,
    0x208, 0x1000, HISI_PMCU_MMIO_SIZE - 4,
};

static void assert_regs_reset(const Pmcu *p)
{
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        g_assert_cmphex(pmcu_read(p, rw_regs[i].offset), ==, 0);
    }
    for (int i = 0; i < ARRAY_SIZE(ro_regs); i++) {
        g_assert_cmphex(pmcu_read(p, ro_regs[i]), ==, 0);
    }
    for (int i = 0; i < ARRAY_SIZE(action_regs); i++) {
        g_assert_cmphex(pmcu_read(p, action_regs[i]), ==, 0);
    }
}

static void test_reg_offsets(void)
{
    static const unsigned offsets[] = {
        A_FSM_STATUS, 0x000, A_FSM_CFG, 0x004, A_EVENT_BASE_H, 0x008,
        A_EVENT_BASE_L, 0x00c, A_KILL_BASE_H, 0x010, A_KILL_BASE_L, 0x014,
        A_STORE_BASE_H, 0x018, A_STORE_BASE_L, 0x01c, A_WAIT_CNT, 0x020,
        A_FSM_CTRL, 0x038, A_FSM_BRK, 0x03c, A_COMP, 0x044, A_INT_EN, 0x100,
        A_INT_MSK, 0x104, A_INT_STAT, 0x108, A_INT_CLR, 0x10c, A_PMCR, 0x200,
        A_PMCCFILTR, 0x204,
    };

    /* The header is shared with the model: check it against the driver's */
    for (int i = 0; i < ARRAY_SIZE(offsets); i += 2) {
        g_assert_cmphex(offsets[i], ==, offsets[i + 1]);
    }
    g_assert_cmphex(pmcu_fsm_cfg(240, 255, 8), ==, 0x8fff0);
}

static void test_reg_rw(void)
{
    Pmcu p = pmcu_init("");

    assert_regs_reset(&p);
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        pmcu_write(&p, rw_regs[i].offset, 0xffffffff);
        for (int j = 0; j < ARRAY_SIZE(rw_regs); j++) {
            g_assert_cmphex(pmcu_read(&p, rw_regs[j].offset), ==,
                            j <= i ? rw_regs[j].mask : 0);
        }
    }
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        pmcu_write(&p, rw_regs[i].offset, 0x12345678 + 0x11111111 * i);
    }
    for (int i = 0; i < ARRAY_SIZE(rw_regs); i++) {
        g_assert_cmphex(pmcu_read(&p, rw_regs[i].offset), ==,
                        (0x12345678 + 0x11111111 * i) & rw_regs[i].mask);
    }
    /* Nothing takes effect before a trigger */
    for (int i = 0; i < ARRAY_SIZE(ro_regs); i++) {
        g_assert_cmphex(pmcu_read(&p, ro_regs[i]), ==, 0);
    }

    qtest_system_reset(p.qts);
    assert_regs_reset(&p);
    pmcu_quit(&p);
}

static void test_reg_ro(void)
{
    Pmcu p = pmcu_init("");

    for (int i = 0; i < ARRAY_SIZE(ro_regs); i++) {
        pmcu_write(&p, ro_regs[i], 0xffffffff);
    }
    for (int i = 0; i < ARRAY_SIZE(no_regs); i++) {
        g_assert_cmphex(pmcu_read(&p, no_regs[i]), ==, 0);
        pmcu_write(&p, no_regs[i], 0xffffffff);
        g_assert_cmphex(pmcu_read(&p, no_regs[i]), ==, 0);
    }
    /* Zeros do not trigger, break or clear anything; nor do other bits */
    for (int i = 0; i < ARRAY_SIZE(action_regs); i++) {
        pmcu_write(&p, action_regs[i], 0);
        pmcu_write(&p, action_regs[i], 0xfffffffc);
    }
    pmcu_write(&p, A_FSM_CTRL, 2);
    pmcu_write(&p, A_FSM_BRK, 2);
    assert_regs_reset(&p);
    pmcu_quit(&p);
}

static void test_reg_access_size(void)
{
    Pmcu p = pmcu_init("");
    uint64_t reg = p.base + A_WAIT_CNT;

    pmcu_write(&p, A_WAIT_CNT, 0x12345678);
    g_assert_cmphex(qtest_readb(p.qts, reg), ==, 0);
    g_assert_cmphex(qtest_readw(p.qts, reg), ==, 0);
    g_assert_cmphex(qtest_readl(p.qts, reg + 2), ==, 0);
    qtest_writeb(p.qts, reg, 0xff);
    qtest_writew(p.qts, reg, 0xffff);
    qtest_writel(p.qts, reg + 2, 0xffffffff);
    qtest_writel(p.qts, reg - 1, 0xffffffff);
    /* (qtest itself turns an access of 8 bytes into two of 4.) */
    g_assert_cmphex(pmcu_read(&p, A_WAIT_CNT), ==, 0x12345678);
    g_assert_cmphex(pmcu_read(&p, A_STORE_BASE_L), ==, 0);

    qtest_writeb(p.qts, p.base + A_FSM_BRK, 1);
    qtest_writew(p.qts, p.base + A_FSM_BRK, 1);
    g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, 0);
    pmcu_quit(&p);
}

static void test_reg_guest_errors(void)
{
    g_autofree char *log = NULL;
    g_autofree char *args = NULL;
    g_autofree char *text = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &log, NULL);
    Pmcu p;

    g_assert(fd >= 0);
    close(fd);
    args = g_strdup_printf("-d guest_errors -D %s", log);
    p = pmcu_init(args);
    pmcu_read(&p, 0x024);
    pmcu_write(&p, 0x040, 0);
    pmcu_write(&p, A_INT_STAT, 0);
    pmcu_write(&p, A_FSM_CFG, 0xfff00000);
    pmcu_trigger(&p);
    /* None for these */
    pmcu_read(&p, A_INT_CLR);
    pmcu_write(&p, A_PMCR, PMCR_DRIVER);
    pmcu_break(&p);
    pmcu_quit(&p);

    g_assert(g_file_get_contents(log, &text, NULL, NULL));
    unlink(log);
    g_assert_cmpstr(text, ==,
        "hisi_pmcu die 0: bad read offset 0x24\n"
        "hisi_pmcu die 0: bad write offset 0x40\n"
        "hisi_pmcu die 0: write to read-only register INT_STAT\n"
        "hisi_pmcu die 0: reserved bits of FSM_CFG ignored in 0xfff00000\n"
        "hisi_pmcu die 0: trigger refused: NR_PMU out of range\n");
}

/* ------------------------------------------------------------------------ */
/* Runs: sequence, timing, values */

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
    /* A CPU with 64-bit event counters */
    Pmcu p = pmcu_init_irq("-cpu cortex-a710");

    for (int i = 0; i < ARRAY_SIZE(ticks); i++) {
        PmcuRun run = { PMCU_RUN_DEFAULT, .wait_cnt = ticks[i] };
        uint64_t ns = (uint64_t)ticks[i] * 20;

        pmcu_start(&p, &run);
        pmcu_step(&p, ns - 1);
        assert_int(&p, 0);
        pmcu_step(&p, 1);
        assert_int(&p, DONE);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, ns);
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
        Pmcu p = pmcu_init_irq(args);
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8, .wait_cnt = ns / 20,
        };

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

/* ------------------------------------------------------------------------ */
/* Synthetic events */

static bool set_property(const Pmcu *p, const char *path, const char *name,
                         const char *value)
{
    QDict *rsp = qtest_qmp(p->qts, "{'execute': 'qom-set', 'arguments':"
                           " {'path': %s, 'property': %s, 'value': %s}}",
                           path, name, value);
    bool ok = qdict_haskey(rsp, "return");

    qobject_unref(rsp);
    return ok;
}

static bool set_synthetic(const Pmcu *p, const char *path, const char *list)
{
    return set_property(p, path, "synthetic-events", list);
}

static void test_synthetic_values(void)
{
    static const uint32_t events[] = {
        0x10, EV_CPU_CYCLES, 0x13, EV_SW_INCR, 0x40, 0xff, 0x100, EV_NULL,
    };
    Pmcu p = pmcu_init_irq(
        "-smp 4,clusters=2,cores=2 -cpu a64fx -global hisi-pmcu."
        "synthetic-events=0x10=rate:250,19=const:7,0x40-0xff=hash,"
        "0xc000=const:1,0x11=const:1,0=const:1 "
        "-global hisi-pmcu.synthetic-seed=5");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 8, .nr_loop = 3, .nr_pmu = 8 };
    /* Of slots 0 and 3, for each record; no later version may change them */
    static const uint32_t hash_40[2][3] = {
        { 0x0860a211, 0x278038a3, 0x0da66b4a },
        { 0x14091a75, 0xead247d2, 0x5b0570ea },
    }, hash_ff[2][3] = {
        { 0x42bf8282, 0xba202de3, 0x7b24f6eb },
        { 0xdab96bc7, 0xd8b10cea, 0xa4ab510c },
    };

    /* CPU 3 is core 1 of cluster 1 and so in slot 3 of 16 */
    pmcu_power_cpu(p.qts, 3, true);
    qtest_system_reset(p.qts);
    for (int i = 0; i < ARRAY_SIZE(events); i++) {
        /* Filters are not part of the number */
        qtest_writel(p.qts, EVENT_BASE + 4 * i,
                     events[i] | (i % 2 ? 0 : FILTER_NSH));
    }
    pmcu_run(&p, &run);
    for (int r = 0; r < 3; r++) {
        for (unsigned slot = 0; slot < 16; slot++) {
            bool on = slot == 0 || slot == 3;
            const uint64_t values[] = {
                1000 * 250 + slot,  /* per microsecond */
                MS,                 /* what can be counted is counted, */
                7,
                0,                  /* even if the count is 0 */
                hash_40[slot == 3][r],
                hash_ff[slot == 3][r],
                0,                  /* not in the list */
                0,                  /* the null event never counts */
            };

            for (int i = 0; i < ARRAY_SIZE(events); i++) {
                g_assert_cmphex(qtest_readq(p.qts, STORE_BASE + 0x500 * r +
                                            0x80 + 0x80 * i + 8 * slot), ==,
                                on ? values[i] : 0);
            }
        }
    }
    pmcu_quit(&p);
}

/* Values of dies differ: a driver that mixes up dies is found out */
static void test_synthetic_dies(void)
{
    Pmcu p = pmcu_init_irq("-smp 2,sockets=2 -global hisi-pmcu."
                           "synthetic-events=0x16=rate:3");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    pmcu_power_cpu(p.qts, 1, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 1, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 3000);
    p.base += HISI_PMCU_MMIO_SIZE;
    p.spi++;
    pmcu_run(&p, &run);
    /* Slot 0 of the second die follows 8 slots of the first */
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 3008);
    pmcu_quit(&p);
}

static void test_synthetic_set(void)
{
    Pmcu p = pmcu_init_irq("");
    const char *path = "/machine/pmcu[0]";
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8 };
    uint64_t first = STORE_BASE + 0x40;

    /* Off by default */
    pmcu_events(&p, EVENT_BASE, 8, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 0);

    /* A counter that the CPU does not have stays 0 */
    g_assert_true(set_synthetic(&p, path, "0x16=const:1"));
    pmcu_run(&p, &run);
    for (int i = 0; i < 8; i++) {
        g_assert_cmpint(qtest_readq(p.qts, first + 0x40 * i), ==, i < 6);
    }

    /* A change is for the next run; a bad value changes nothing */
    run.ev_len = 1;
    run.nr_pmu = 1;
    pmcu_start(&p, &run);
    g_assert_true(set_synthetic(&p, path, "0x16=const:2"));
    g_assert_false(set_synthetic(&p, path, "0x16=const"));
    pmcu_step(&p, MS);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 1);
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 2);

    /* As wide as the counter: 32 bits here */
    g_assert_true(set_synthetic(&p, path, "0x16=const:0x123456789abcdef0"));
    pmcu_run(&p, &run);
    g_assert_cmphex(qtest_readq(p.qts, first), ==, 0x9abcdef0);

    g_assert_true(set_synthetic(&p, path, ""));
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 0);
    pmcu_quit(&p);
}

static void test_synthetic_grammar(void)
{
    static const char *const good[] = {
        "1=hash", "0x0=const:0", "65535=const:18446744073709551615",
        "1-2=hash,3-3=rate:0,0x4-5=const:0xff", "5=hash,1-4=hash",
        "0xffff=rate:4294967295",
    };
    static const char *const bad[] = {
        ",", "1=hash,", ",1=hash", "1", "=", "=hash", "1=", "1=hash:1",
        "1=rate", "1=rate:", "1=rate:x", "1=rate:-1", "1=rate:4294967296",
        "1=const:", "1=const:18446744073709551616", "1=random", "1=Hash",
        "1 =hash", " 1=hash", "1= hash", "1=const: 1", "1=const:1 ", "+1=hash",
        "-1=hash", "1-=hash", "2-1=hash", "1-2-3=hash", "0x=hash", "x=hash",
        "0x10000=hash", "1-0x10000=hash", "1=hash,1=hash", "1-5=hash,3=const:1",
        "3=const:1,1-5=hash", "1=hash=hash", "08x=hash", "0x1g=hash",
    };
    Pmcu p = pmcu_init("");
    const char *path = "/machine/pmcu[0]";

    for (int i = 0; i < ARRAY_SIZE(good); i++) {
        QDict *rsp;

        g_assert_true(set_synthetic(&p, path, good[i]));
        rsp = qtest_qmp(p.qts, "{'execute': 'qom-get', 'arguments': {'path': "
                        "%s, 'property': 'synthetic-events'}}", path);
        g_assert_cmpstr(qdict_get_str(rsp, "return"), ==, good[i]);
        qobject_unref(rsp);
    }
    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        if (set_synthetic(&p, path, bad[i])) {
            g_test_message("'%s' was accepted", bad[i]);
            g_test_fail();
        }
    }
    pmcu_quit(&p);
}

/* ------------------------------------------------------------------------ */
/* Records: which CPU is where */

/* Worked example: CPU 9 of 4 clusters with 8 cores is in slot 5 */
static void test_record_example1(void)
{
    Pmcu p = pmcu_init_irq("-smp 32,clusters=4,cores=8 -cpu a64fx");
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
    Pmcu p = pmcu_init_irq("-smp 4,clusters=2,cores=2 -cpu a64fx");
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

/* ------------------------------------------------------------------------ */
/* Interrupts */

static void raise_int(const Pmcu *p, uint32_t stat)
{
    PmcuRun run = { PMCU_RUN_DEFAULT };

    if (stat & BRK) {
        pmcu_break(p);
    }
    if (stat & DONE) {
        pmcu_start(p, &run);
        pmcu_step(p, MS);
    }
    g_assert_cmphex(pmcu_read(p, A_INT_STAT), ==, stat);
}

static void test_int_matrix(void)
{
    Pmcu p = pmcu_init_irq("");

    for (uint32_t stat = 0; stat < 4; stat++) {
        /* The status does not depend on what is enabled */
        pmcu_write(&p, A_INT_EN, 0);
        pmcu_write(&p, A_INT_MSK, 3);
        raise_int(&p, stat);
        g_assert_false(pmcu_irq(&p));
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t en = i & 3, msk = i >> 2;

            pmcu_write(&p, A_INT_EN, en);
            pmcu_write(&p, A_INT_MSK, msk);
            g_assert_cmpint(pmcu_irq(&p), ==, (stat & en & ~msk) != 0);
            g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, stat);
        }
        for (uint32_t clr = 0; clr < 4; clr++) {
            pmcu_write(&p, A_INT_CLR, 3);
            pmcu_write(&p, A_INT_EN, 3);
            pmcu_write(&p, A_INT_MSK, 0);
            assert_int(&p, 0);
            raise_int(&p, stat);
            g_assert_cmpint(pmcu_irq(&p), ==, stat != 0);
            pmcu_write(&p, A_INT_CLR, clr);
            assert_int(&p, stat & ~clr);
        }
    }
    pmcu_quit(&p);
}

static void test_int_hold(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    raise_int(&p, DONE);
    /* The interrupt handler triggers first and clears DONE too late */
    pmcu_start(&p, &run);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    pmcu_step(&p, MS);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    g_assert_cmpint(pmcu_stored(&p), ==, 1);
    assert_int(&p, DONE);

    /* Held means busy */
    pmcu_trigger(&p);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_BUSY);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);

    /* Only the one bit releases it */
    pmcu_write(&p, A_INT_CLR, BRK);
    pmcu_write(&p, A_INT_CLR, 0);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    assert_int(&p, DONE);

    /* The clear takes the first DONE away, the second one appears */
    pmcu_write(&p, A_INT_CLR, DONE);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
    assert_int(&p, DONE);

    pmcu_write(&p, A_INT_CLR, DONE);
    assert_int(&p, 0);

    /* A late clear before the run ends, as on fast machines */
    raise_int(&p, DONE);
    pmcu_start(&p, &run);
    pmcu_write(&p, A_INT_CLR, DONE);
    assert_int(&p, 0);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
    pmcu_quit(&p);
}

/* ------------------------------------------------------------------------ */
/* Break */

static void test_break_idle(void)
{
    Pmcu p = pmcu_init_irq("");

    pmcu_break(&p);
    assert_int(&p, BRK);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 0);
    pmcu_write(&p, A_INT_CLR, BRK);
    assert_int(&p, 0);
    pmcu_quit(&p);
}

static void test_break_done_pending(void)
{
    Pmcu p = pmcu_init_irq("");

    raise_int(&p, DONE);
    pmcu_break(&p);
    assert_int(&p, BRK);
    pmcu_quit(&p);
}

static void test_break_count(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 3 };

    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    for (int i = 0; i < 3; i++) {
        pmcu_start(&p, &run);
        pmcu_step(&p, i * MS + 1 + (i == 2 ? MS - 2 : 0));
        pmcu_break(&p);
        /* At once, in the write itself */
        assert_int(&p, BRK);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, i << 16);
        pmcu_step(&p, 10 * MS);
        assert_int(&p, BRK);
        g_assert_cmpint(pmcu_stored(&p), ==, i);
        assert_canary(&p, STORE_BASE + 0xc0 * i, 0x100);
        pmcu_write(&p, A_INT_CLR, BRK);
    }

    /* What was counted before the break is not in the next record */
    run.ev_len = 1;
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS);
    pmcu_quit(&p);
}

static void test_break_hold(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    raise_int(&p, DONE);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    pmcu_break(&p);
    assert_int(&p, BRK);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
    /* The held DONE is gone for good */
    pmcu_write(&p, A_INT_CLR, DONE | BRK);
    assert_int(&p, 0);
    raise_int(&p, DONE);
    pmcu_quit(&p);
}

static void test_break_count_done_pending(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    raise_int(&p, DONE);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS / 2);
    pmcu_break(&p);
    assert_int(&p, BRK);
    pmcu_step(&p, MS);
    assert_int(&p, BRK);
    pmcu_quit(&p);
}

/* ------------------------------------------------------------------------ */
/* Bad programming */

static void test_bad_busy(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };

    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    pmcu_trigger(&p);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_BUSY);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_COUNT);
    g_assert_cmpint(pmcu_stored(&p), ==, 1);
    assert_int(&p, 0);
    /* The run goes on, and its window was not prolonged */
    pmcu_step(&p, MS / 2 - 1);
    assert_int(&p, 0);
    pmcu_step(&p, 1);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_stored(&p), ==, 2);
    /* The error stays until a trigger is accepted */
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_BUSY);
    pmcu_trigger(&p);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_NONE);
    g_assert_cmpint(pmcu_stored(&p), ==, 0);
    pmcu_quit(&p);
}

static void test_bad_config(void)
{
    static const struct {
        PmcuRun run;
        unsigned error;
    } cases[] = {
#define CASE(error, ...) { { PMCU_RUN_DEFAULT, __VA_ARGS__ }, error }
#define CFG HISI_PMCU_ERR_CFG
#define ADDR HISI_PMCU_ERR_ADDR
        CASE(CFG, .ev_len = 0, .nr_loop = 0, .nr_pmu = 0),
        CASE(CFG, .nr_pmu = 0),
        CASE(CFG, .ev_len = 9, .nr_pmu = 9),
        CASE(CFG, .ev_len = 15, .nr_pmu = 15),
        CASE(CFG, .ev_len = 6, .nr_pmu = 6, .comp = true),
        CASE(CFG, .ev_len = 8, .nr_pmu = 8, .comp = true),
        CASE(CFG, .ev_len = 0),
        CASE(CFG, .ev_len = 241),
        CASE(CFG, .ev_len = 255),
        CASE(CFG, .ev_len = 5, .nr_pmu = 2),
        CASE(CFG, .ev_len = 1, .nr_pmu = 2),
        CASE(CFG, .nr_loop = 0),
        CASE(ADDR, .event_base = EVENT_BASE + 1),
        CASE(ADDR, .event_base = EVENT_BASE + 2),
        CASE(ADDR, .store_base = STORE_BASE + 1),
        CASE(ADDR, .store_base = STORE_BASE + 4),
        CASE(ADDR, .kill_base = STORE_BASE),
        CASE(ADDR, .kill_base = STORE_BASE - 8),
        CASE(ADDR, .kill_base = 0),
        /* Compare 64 bits, not the halves */
        CASE(ADDR, .store_base = 0x100000000, .kill_base = 0x40000000),
#undef CASE
#undef CFG
#undef ADDR
    };
    Pmcu p = pmcu_init_irq("");

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        PmcuRun good = { PMCU_RUN_DEFAULT };

        qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
        pmcu_start(&p, &cases[i].run);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, cases[i].error << 8);
        assert_int(&p, 0);
        pmcu_step(&p, 10 * MS);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, cases[i].error << 8);
        assert_int(&p, 0);
        assert_canary(&p, STORE_BASE, 0x1000);

        /* Break gets a driver out of it */
        pmcu_break(&p);
        assert_int(&p, BRK);
        pmcu_write(&p, A_INT_CLR, BRK);

        pmcu_start(&p, &good);
        g_assert_cmpint(pmcu_error(&p), ==, 0);
        pmcu_step(&p, MS);
        assert_int(&p, DONE);
        pmcu_write(&p, A_INT_CLR, DONE);
        pmcu_write(&p, A_FSM_CFG, 0);
        /* A refused trigger says nothing about the run before */
        pmcu_trigger(&p);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                        1 << 16 | HISI_PMCU_ERR_CFG << 8);
        /* Until the next accepted one */
        pmcu_start(&p, &good);
        pmcu_break(&p);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 0);
        pmcu_write(&p, A_INT_CLR, BRK);
    }
    pmcu_quit(&p);
}

static void test_bad_reserved(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    /* Reserved bits of FSM_CFG do not matter */
    pmcu_program(&p, &run);
    pmcu_write(&p, A_FSM_CFG, pmcu_fsm_cfg(1, 1, 1) | 0xfff00000);
    pmcu_trigger(&p);
    g_assert_cmpint(pmcu_error(&p), ==, 0);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    pmcu_quit(&p);
}

static void test_bad_largest(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 240, .nr_loop = 2, .nr_pmu = 8,
        .kill_base = STORE_BASE + 60 * 0x280,
    };
    PmcuRun comp = {
        PMCU_RUN_DEFAULT, .ev_len = 240, .nr_pmu = 5, .comp = true,
        .kill_base = STORE_BASE + 48 * 0x180,
    };

    /* The largest values that are good */
    pmcu_start(&p, &run);
    pmcu_step(&p, 60 * MS);
    assert_int(&p, DONE);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 60 << 16);
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_start(&p, &comp);
    pmcu_step(&p, 48 * MS);
    assert_int(&p, DONE);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 48 << 16);
    pmcu_quit(&p);
}

static void test_bad_kill(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 3 };
    const unsigned size = 0xc0;

    for (unsigned room = 1; room <= 3 * size; room++) {
        unsigned n = room / size;

        if (room % size > 8 && room % size < size - 8) {
            continue;
        }
        qtest_memset(p.qts, STORE_BASE - 0x100, CANARY, 0x1000);
        run.kill_base = STORE_BASE + room;
        pmcu_start(&p, &run);
        g_assert_cmpint(pmcu_error(&p), ==, 0);
        pmcu_step(&p, 10 * MS);

        /* Records are whole or not there, and what follows is untouched */
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, n << 16 |
                        (n < 3 ? HISI_PMCU_ERR_KILL : 0) << 8);
        assert_int(&p, n < 3 ? BRK : DONE);
        assert_canary(&p, STORE_BASE - 0x100, 0x100);
        assert_canary(&p, STORE_BASE + n * size, 0x400);
        for (int i = 0; i < n; i++) {
            g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + i * size + 0x40),
                            ==, MS);
        }
        pmcu_write(&p, A_INT_CLR, DONE | BRK);
    }
    pmcu_quit(&p);
}

static void test_bad_dma_read(void)
{
    static const uint64_t bases[] = {
        FLASH_BASE, UART_BASE, UNMAPPED, PMCU_BASE, PMCU_BASE + A_FSM_BRK,
        RAM_BASE - 4, RAM_BASE + 128 * MiB - 4, RAM_BASE + 128 * MiB,
        0xfffffffc, 0x100000000, UINT64_MAX - 3, UINT64_MAX - 7,
    };
    Pmcu p = pmcu_init_irq("-m 128M");

    for (int i = 0; i < ARRAY_SIZE(bases); i++) {
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 2, .event_base = bases[i],
        };

        pmcu_start(&p, &run);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                        HISI_PMCU_ERR_DMA_READ << 8);
        assert_int(&p, BRK);
        pmcu_step(&p, 10 * MS);
        assert_int(&p, BRK);
        pmcu_write(&p, A_INT_CLR, BRK);
    }

    /* In mid run: the records before it count */
    for (int i = 0; i < 2; i++) {
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 2, .nr_pmu = 1,
            .event_base = RAM_BASE + 128 * MiB - 4,
        };

        pmcu_events(&p, run.event_base, 1, EV_CPU_CYCLES);
        pmcu_start(&p, &run);
        pmcu_step(&p, 10 * MS);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                        1 << 16 | HISI_PMCU_ERR_DMA_READ << 8);
        assert_int(&p, BRK);
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
        pmcu_write(&p, A_INT_CLR, BRK);
    }
    pmcu_quit(&p);
}

static void test_bad_dma_write(void)
{
    static const uint64_t bases[] = {
        FLASH_BASE, UART_BASE, UNMAPPED, PMCU_BASE, PMCU_BASE + 0x38,
        RAM_BASE - 8, RAM_BASE + 128 * MiB - 8, RAM_BASE + 128 * MiB - 0xb8,
        RAM_BASE + 128 * MiB, 0xfffffff8, 0x100000000,
    };
    Pmcu p = pmcu_init_irq("-m 128M");

    qtest_memset(p.qts, RAM_BASE, CANARY, 0x1000);
    qtest_memset(p.qts, RAM_BASE + 128 * MiB - 0x100, CANARY, 0x100);
    for (int i = 0; i < ARRAY_SIZE(bases); i++) {
        PmcuRun run = {
            PMCU_RUN_DEFAULT, .ev_len = 2, .store_base = bases[i],
            .kill_base = bases[i] + 0x1000,
        };

        pmcu_start(&p, &run);
        pmcu_step(&p, MS - 1);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, HISI_PMCU_COUNT);
        pmcu_step(&p, 10 * MS);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                        HISI_PMCU_ERR_DMA_WRITE << 8);
        assert_int(&p, BRK);
        pmcu_write(&p, A_INT_CLR, BRK);
        g_assert_cmphex(pmcu_read(&p, A_EVENT_BASE_L), ==, EVENT_BASE);
    }
    /* Not even the part that is RAM is written */
    assert_canary(&p, RAM_BASE, 0x1000);
    assert_canary(&p, RAM_BASE + 128 * MiB - 0x100, 0x100);
    pmcu_quit(&p);
}

/*
 * A record that begins in RAM and ends in registers: nothing of it is written.
 * The RAM is a BAR of a device, as is what follows it.
 */
static void test_bad_dma_half(void)
{
    enum { BAR0 = 0x10, BAR2 = 0x18, COMMAND = 4, MEMORY_AND_MASTER = 6 };
    const uint64_t config = 0x3f000000 + (1 << 15);     /* 00:01.0 */
    const uint64_t ram = 0x10000000, ram_size = 1 * MiB;
    Pmcu p = pmcu_init_irq("-M highmem=off -m 64M "
                           "-object memory-backend-ram,id=bar,size=1M "
                           "-device ivshmem-plain,memdev=bar,addr=1");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .store_base = ram + ram_size - 0x80,
        .kill_base = ram + ram_size + 0x80,
    };

    g_assert_cmphex(qtest_readl(p.qts, config), ==, 0x11101af4);
    qtest_writel(p.qts, config + BAR2, ram);
    qtest_writel(p.qts, config + BAR2 + 4, 0);
    qtest_writel(p.qts, config + BAR0, ram + ram_size);
    qtest_writew(p.qts, config + COMMAND, MEMORY_AND_MASTER);
    qtest_memset(p.qts, ram + ram_size - 0x100, CANARY, 0x100);

    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    HISI_PMCU_ERR_DMA_WRITE << 8);
    assert_int(&p, BRK);
    assert_canary(&p, ram + ram_size - 0x100, 0x100);

    /* One that fits into this RAM is written. */
    pmcu_write(&p, A_INT_CLR, BRK);
    run.store_base -= 0x40;
    run.kill_base = ram + ram_size;
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, run.store_base + 0x40), ==, MS);
    pmcu_quit(&p);
}

static void test_bad_wrap(void)
{
    Pmcu p = pmcu_init_irq("-m 128M");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .store_base = UINT64_MAX - 15,
        .kill_base = UINT64_MAX,
    };

    /* STORE_BASE + size wraps around, but KILL_BASE comes first */
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_KILL);
    assert_int(&p, BRK);
    pmcu_quit(&p);
}

static void test_high_memory(void)
{
    /* RAM from 1 GiB to 4 GiB + 128 MiB */
    Pmcu p = pmcu_init_irq("-m 3200M");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 4, .nr_pmu = 2,
        .event_base = 0x100000000 - 8, .store_base = 0x100000000 - 0x180,
        .kill_base = 0x100000000 + 0x80,
    };

    /* The list and the second record cross 4 GiB */
    pmcu_events(&p, run.event_base, 4, EV_CPU_CYCLES);
    qtest_memset(p.qts, 0x100000000 + 0x80, CANARY, 0x80);
    qtest_memset(p.qts, RAM_BASE, CANARY, 0x100);
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    assert_int(&p, DONE);
    for (int i = 0; i < 2; i++) {
        for (int e = 0; e < 3; e++) {
            g_assert_cmpint(qtest_readq(p.qts, run.store_base + 0x100 * i +
                                        0x40 * (e + 1)), ==, MS);
        }
    }
    assert_canary(&p, 0x100000000 + 0x80, 0x80);
    assert_canary(&p, RAM_BASE, 0x100);

    /* All above 4 GiB */
    pmcu_write(&p, A_INT_CLR, DONE);
    run.event_base = 0x104000000;
    run.store_base = 0x105000000;
    run.kill_base = 0x105000200;
    pmcu_events(&p, run.event_base, 4, EV_CPU_CYCLES);
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    assert_int(&p, DONE);
    g_assert_cmpint(qtest_readq(p.qts, run.store_base + 0x140), ==, MS);
    pmcu_quit(&p);
}

/* ------------------------------------------------------------------------ */
/* Reset, snapshots, migration */

static void test_reset_count(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    pmcu_trigger(&p);
    qtest_system_reset(p.qts);
    assert_regs_reset(&p);
    assert_int(&p, 0);
    pmcu_events(&p, EVENT_BASE, 4, EV_CPU_CYCLES);
    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_step(&p, 10 * MS);
    assert_regs_reset(&p);
    assert_canary(&p, STORE_BASE, 0x1000);

    /* Also with an interrupt pending and a completion held */
    pmcu_write(&p, A_INT_EN, DONE | BRK);
    raise_int(&p, DONE);
    run.ev_len = 1;
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    qtest_system_reset(p.qts);
    assert_regs_reset(&p);
    g_assert_false(pmcu_irq(&p));

    pmcu_write(&p, A_INT_EN, DONE | BRK);
    pmcu_events(&p, EVENT_BASE, 4, EV_CPU_CYCLES);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, MS);
    pmcu_quit(&p);
}

/* A machine at time @ns with the state of @file; does it accept that? */
static bool migrate_from_file(Pmcu *p, const char *args, const char *file,
                              uint64_t ns)
{
    g_autofree char *all = g_strdup_printf("%s -incoming defer", args);

    *p = pmcu_init(all);
    /* The time of qtest does not migrate */
    qtest_clock_set(p->qts, ns);
    return pmcu_load(p->qts, file);
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

/* Big-endian words of the device's section, from its "sccl_id" on */
enum {
    S_SCCL_ID, S_NR_CLUSTER, S_REGS,
    S_STATE = S_REGS + HISI_PMCU_NR_REGS, S_ERROR, S_STORED,
    S_FSM_CFG, S_RUN_WAIT_CNT, S_RUN_COMP, S_RUN_PMCR, S_RUN_PMCCFILTR,
    S_EVENT_BASE_H, S_EVENT_BASE_L, S_KILL_H, S_KILL_L, S_STORE_H, S_STORE_L,
    S_POS, S_LOOP, S_EVENTS,
    S_WINDOW_END_H = S_EVENTS + HISI_PMCU_MAX_COUNTERS, S_WINDOW_END_L,
};

static void test_migrate_hostile(void)
{
    static const struct {
        unsigned word;
        uint32_t value;
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
        { S_STORED, 0 },
        { S_STORED, 3 },
        { S_STORED, 61201 },
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
        { S_POS, 6 },
        { S_POS, 0xfffffffe },
        { S_LOOP, 1 },
        { S_LOOP, 2 },
        { S_LOOP, 0xffffffff },
        { S_WINDOW_END_H, 0xffffffff },
        { S_WINDOW_END_H, 0x7fffffff },
        { S_WINDOW_END_H, 1 },
    };
    const char *args = "-m 16M -smp 4,clusters=2,cores=2";
    Pmcu p = pmcu_init(args);
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 6, .nr_pmu = 2, .nr_loop = 2,
        .event_base = RAM_BASE, .store_base = RAM_BASE + 0x1000,
        .kill_base = RAM_BASE + 0x10000,
    };
    g_autofree char *file = NULL;
    g_autofree char *stream = NULL;
    uint8_t *section = NULL;
    size_t len;

    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 123456);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    /* The name of the section, its instance ID and its version precede it */
    g_assert(g_file_get_contents(file, &stream, &len, NULL));
    for (char *s = stream; s < stream + len - 17; s++) {
        if (!memcmp(s, "\x09hisi-pmcu\0\0\0\0\0\0\0\1", 18)) {
            section = (uint8_t *)s + 18;
            break;
        }
    }
    g_assert(section);
    /* We know where we are */
    g_assert_cmphex(ldl_be_p(section + 4 * S_NR_CLUSTER), ==, 2);
    g_assert_cmphex(ldl_be_p(section + 4 * S_STATE), ==, HISI_PMCU_COUNT);
    g_assert_cmphex(ldl_be_p(section + 4 * S_STORED), ==, 2);
    g_assert_cmphex(ldl_be_p(section + 4 * S_POS), ==, 4);
    g_assert_cmpint(ldl_be_p(section + 4 * S_WINDOW_END_L), ==, 3 * MS);

    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        uint8_t *word = section + 4 * bad[i].word;
        uint32_t old = ldl_be_p(word);

        stl_be_p(word, bad[i].value);
        g_assert(g_file_set_contents(file, stream, len, NULL));
        stl_be_p(word, old);
        if (migrate_from_file(&p, args, file, 2 * MS + 123456)) {
            g_test_message("word %u = 0x%x was accepted", bad[i].word,
                           bad[i].value);
            g_test_fail();
        }
        pmcu_quit(&p);
    }

    /* The original is fine, also if the window should have ended by now */
    g_assert(g_file_set_contents(file, stream, len, NULL));
    g_assert_true(migrate_from_file(&p, args, file, 2 * MS + 123456));
    pmcu_quit(&p);
    g_assert_true(migrate_from_file(&p, args, file, 3 * MS + 1000));
    g_assert_cmpint(pmcu_stored(&p), ==, 2);
    pmcu_step(&p, 1);
    g_assert_cmpint(pmcu_stored(&p), ==, 3);
    /* Counters migrate as values: what was counted before, and 1 ns now */
    g_assert_cmpint(qtest_readq(p.qts, run.store_base + 2 * 0x200 + 0x180), ==,
                    123456 + 1);
    pmcu_quit(&p);
    unlink(file);
}

/* A run goes on with the list and the seed that it was triggered with. */
static void test_migrate_synthetic(void)
{
    const char *args = "-m 16M -global hisi-pmcu.synthetic-events=0x16=const:1";
    const char *path = "/machine/pmcu[0]";
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
        { "0x16=const:3", 4 * MiB + 2 },
    };
    Pmcu p = pmcu_init(args);
    g_autofree char *file = NULL;
    g_autofree char *stream = NULL;
    char *list = NULL;
    size_t len;

    pmcu_events(&p, RAM_BASE, 4, EV_L2D_CACHE);
    g_assert_true(set_synthetic(&p, path, "0x16=const:3"));
    pmcu_start(&p, &run);
    pmcu_step(&p, MS + MS / 2);
    g_assert_true(set_synthetic(&p, path, "0x16=const:4"));
    file = pmcu_save(p.qts);
    pmcu_quit(&p);

    g_assert_true(migrate_from_file(&p, args, file, MS + MS / 2));
    g_assert_true(set_synthetic(&p, path, "0x16=const:5"));
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

static void test_snapshot(void)
{
    g_autofree char *disk = NULL;
    g_autofree char *args = NULL;
    g_autofree char *out = NULL;
    int fd;
    Pmcu p;
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 4 };

    if (!have_qemu_img()) {
        g_test_skip("no qemu-img");
        return;
    }
    fd = g_file_open_tmp("hisi_pmcu-XXXXXX", &disk, NULL);
    g_assert(fd >= 0);
    close(fd);
    g_assert(mkimg(disk, "qcow2", 64));
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

/* ------------------------------------------------------------------------ */
/* The machine */

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

        g_assert_cmpint(pmcu_run_qemu(args, &err), ==, 1);
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

/* ------------------------------------------------------------------------ */
/* Faults on demand, and what the device says about itself */

static const char pmcu_path[] = "/machine/pmcu[0]";

static void set_faults(const Pmcu *p, const char *list)
{
    g_assert_true(set_property(p, pmcu_path, "faults", list));
}

static void assert_property(const Pmcu *p, const char *name, const char *value)
{
    QDict *rsp = qtest_qmp(p->qts, "{'execute': 'qom-get', 'arguments': {"
                           "'path': %s, 'property': %s}}", pmcu_path, name);

    g_assert_cmpstr(qdict_get_str(rsp, "return"), ==, value);
    qobject_unref(rsp);
}

static void test_fault_dma(void)
{
    Pmcu p = pmcu_init_irq("-global hisi-pmcu.faults=dma-read:2");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 3, .nr_loop = 2 };

    qtest_memset(p.qts, STORE_BASE, CANARY, 0x1000);
    pmcu_start(&p, &run);
    pmcu_step(&p, 10 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    2 << 16 | HISI_PMCU_ERR_DMA_READ << 8);
    assert_int(&p, BRK);
    assert_property(&p, "error", "dma-read");
    assert_canary(&p, STORE_BASE + 2 * 0xc0, 0x100);
    pmcu_write(&p, A_INT_CLR, BRK);

    /* At run time, and what is changed during a run acts on it */
    set_faults(&p, "dma-write:5");
    pmcu_start(&p, &run);
    pmcu_step(&p, MS / 2);
    set_faults(&p, "dma-write:3");
    pmcu_step(&p, 10 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    3 << 16 | HISI_PMCU_ERR_DMA_WRITE << 8);
    assert_int(&p, BRK);
    assert_property(&p, "error", "dma-write");
    for (int i = 0; i < 3; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0xc0 * i + 0x40), ==,
                        MS);
    }
    assert_canary(&p, STORE_BASE + 3 * 0xc0, 0x100);
    pmcu_write(&p, A_INT_CLR, BRK);

    /* A run without that record is not concerned. */
    run.nr_loop = 1;
    pmcu_run(&p, &run);
    set_faults(&p, "");
    run.nr_loop = 2;
    pmcu_run(&p, &run);
    assert_property(&p, "error", "none");
    pmcu_quit(&p);
}

static void test_fault_refuse(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    for (unsigned error = 1; error <= 3; error++) {
        g_autofree char *list = g_strdup_printf("refuse:%u", error);

        set_faults(&p, list);
        pmcu_start(&p, &run);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, error << 8);
        pmcu_step(&p, 10 * MS);
        assert_int(&p, 0);
    }
    set_faults(&p, "");
    pmcu_run(&p, &run);
    pmcu_quit(&p);
}

static void test_fault_done(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };

    set_faults(&p, "lose-done");
    pmcu_start(&p, &run);
    pmcu_step(&p, 10 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 2 << 16);
    assert_int(&p, 0);

    set_faults(&p, "repeat-done");
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    for (int i = 0; i < 2; i++) {
        assert_int(&p, DONE);
        pmcu_write(&p, A_INT_CLR, BRK);
        assert_int(&p, DONE);
        pmcu_write(&p, A_INT_CLR, DONE);
    }
    assert_int(&p, 0);
    /* Not after a break, which takes away each DONE */
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    pmcu_break(&p);
    pmcu_write(&p, A_INT_CLR, DONE | BRK);
    assert_int(&p, 0);

    set_faults(&p, "delay-done:500000");
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 500000 - 1);
    assert_int(&p, 0);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    2 << 16 | HISI_PMCU_STORE);
    assert_property(&p, "state", "storing");
    pmcu_trigger(&p);
    g_assert_cmpint(pmcu_error(&p), ==, HISI_PMCU_ERR_BUSY);
    pmcu_step(&p, 1);
    assert_int(&p, DONE);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
    /* The DONE that is there already holds back the late one. */
    pmcu_start(&p, &run);
    pmcu_step(&p, 3 * MS);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    pmcu_break(&p);
    pmcu_write(&p, A_INT_CLR, BRK);
    /* A break comes first. */
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 1);
    pmcu_break(&p);
    assert_int(&p, BRK);
    pmcu_step(&p, 10 * MS);
    assert_int(&p, BRK);
    pmcu_write(&p, A_INT_CLR, BRK);

    set_faults(&p, "stay-busy");
    pmcu_start(&p, &run);
    pmcu_step(&p, 1000000 * MS);
    assert_int(&p, 0);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    2 << 16 | HISI_PMCU_STORE);
    set_faults(&p, "");
    pmcu_step(&p, MS);
    assert_int(&p, 0);
    pmcu_break(&p);
    assert_int(&p, BRK);
    pmcu_write(&p, A_INT_CLR, BRK);
    pmcu_run(&p, &run);
    pmcu_quit(&p);
}

/* No fault changes what is in records. */
static void test_fault_records(void)
{
    static const char *const lists[] = {
        "", "lose-done", "repeat-done", "delay-done:1000",
    };
    Pmcu p = pmcu_init_irq("-smp 2 -global hisi-pmcu.synthetic-events="
                           "0x40-0x7f=hash");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 64, .nr_loop = 2, .nr_pmu = 4 };
    const size_t size = 32 * 0x180;
    g_autofree uint8_t *first = g_malloc(size), *again = g_malloc(size);

    for (int i = 0; i < 64; i++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * i, 0x40 + i);
    }
    for (int i = 0; i < ARRAY_SIZE(lists); i++) {
        set_faults(&p, lists[i]);
        qtest_memset(p.qts, STORE_BASE, CANARY, size + 0x100);
        pmcu_start(&p, &run);
        pmcu_step(&p, 100 * MS);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 32 << 16);
        qtest_memread(p.qts, STORE_BASE, i ? again : first, size);
        assert_canary(&p, STORE_BASE + size, 0x100);
        if (i) {
            g_assert_cmpmem(first, size, again, size);
        }
        pmcu_break(&p);
        pmcu_write(&p, A_INT_CLR, BRK);
    }
    pmcu_quit(&p);
}

static void test_fault_migrate(void)
{
    static const struct {
        const char *faults;
        uint64_t left;          /* ns until DONE, when it is saved */
    } cases[] = {
        { "delay-done:500000", 300000 }, { "repeat-done", 0 },
        { "stay-busy", UINT64_MAX },
    };
    PmcuRun run = { PMCU_RUN_DEFAULT };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        Pmcu p = pmcu_init_irq("-m 16M");
        g_autofree char *file = NULL;

        run.event_base = RAM_BASE;
        run.store_base = RAM_BASE + 0x1000;
        set_faults(&p, cases[i].faults);
        pmcu_start(&p, &run);
        pmcu_step(&p, MS + 200000);
        file = pmcu_save(p.qts);
        pmcu_quit(&p);

        /* The faults themselves are options of each side. */
        g_assert_true(migrate_from_file(&p, "-m 16M", file, MS + 200000));
        unlink(file);
        if (cases[i].left == UINT64_MAX) {
            pmcu_step(&p, 1000 * MS);
            assert_int(&p, 0);
            pmcu_break(&p);
            assert_int(&p, BRK);
            pmcu_write(&p, A_INT_CLR, BRK);
        } else {
            if (cases[i].left) {
                pmcu_step(&p, cases[i].left - 1);
                assert_int(&p, 0);
                pmcu_step(&p, 1);
            } else {
                g_assert_cmphex(pmcu_read(&p, A_INT_STAT), ==, DONE);
                pmcu_write(&p, A_INT_CLR, DONE);
            }
            assert_int(&p, DONE);
            pmcu_write(&p, A_INT_CLR, DONE);
            assert_int(&p, 0);
        }
        pmcu_run(&p, &run);
        pmcu_quit(&p);
    }
}

static void test_fault_grammar(void)
{
    static const char *const good[] = {
        "", "refuse:1", "refuse:3", "dma-read:0", "dma-write:61199",
        "lose-done", "delay-done:1", "delay-done:86400000000000",
        "repeat-done", "stay-busy",
        "refuse:2,dma-read:7,dma-write:0,lose-done,delay-done:5",
        "delay-done:5,repeat-done",
    };
    static const char *const bad[] = {
        ",", "lose-done,", "x", "refuse", "refuse:", "refuse:0", "refuse:4",
        "refuse:-1", "refuse:1 ", "dma-read", "dma-read:61200", "dma-write:x",
        "lose-done:1", "delay-done:0", "delay-done:86400000000001",
        "delay-done", "Stay-busy", "stay-busy,lose-done",
        "stay-busy,delay-done:1", "repeat-done,lose-done", "lose-done ,x",
    };
    Pmcu p = pmcu_init("");

    for (int i = 0; i < ARRAY_SIZE(good); i++) {
        set_faults(&p, good[i]);
        assert_property(&p, "faults", good[i]);
    }
    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        if (set_property(&p, pmcu_path, "faults", bad[i])) {
            g_test_message("'%s' was accepted", bad[i]);
            g_test_fail();
        }
    }
    /* A bad list changes nothing. */
    assert_property(&p, "faults", good[ARRAY_SIZE(good) - 1]);
    pmcu_quit(&p);
}

static void test_properties(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 6, .nr_loop = 2, .nr_pmu = 3,
    };
    QDict *rsp;

    assert_property(&p, "state", "idle");
    assert_property(&p, "error", "none");
    assert_property(&p, "run", "none since reset");
    pmcu_start(&p, &run);
    pmcu_step(&p, 3 * MS);
    assert_property(&p, "state", "counting");
    assert_property(&p, "run", "loop 1 of 2, event 3 of 6, 3 counters from 0 "
                    "on, windows of 1000000 ns, events at 0x40100000, next "
                    "record at 0x402003c0, kill base 0x40300000");
    rsp = qtest_qmp(p.qts, "{'execute': 'qom-get', 'arguments': {'path': %s,"
                    " 'property': 'records'}}", pmcu_path);
    g_assert_cmpint(qdict_get_int(rsp, "return"), ==, 3);
    qobject_unref(rsp);
    pmcu_trigger(&p);
    assert_property(&p, "error", "busy");
    pmcu_step(&p, MS);
    assert_property(&p, "state", "idle");
    g_assert_false(set_property(&p, pmcu_path, "state", "idle"));
    /* The machine's option is for its creation only. */
    rsp = qtest_qmp(p.qts, "{'execute': 'qom-set', 'arguments': {'path': "
                    "'/machine', 'property': 'pmcu', 'value': false}}");
    g_assert_true(qdict_haskey(rsp, "error"));
    qobject_unref(rsp);
    pmcu_quit(&p);
}

/* ------------------------------------------------------------------------ */
/* Anything at all; use --seed to repeat */

static uint64_t monkey_address(void)
{
    static const uint64_t edges[] = {
        0, FLASH_BASE + 0x100, UART_BASE, UNMAPPED, PMCU_BASE, RAM_BASE - 8,
        RAM_BASE + 64 * MiB - 0x80, RAM_BASE + 64 * MiB, 0xfffffff8,
        0x100000000, 0x7ffffffffffffff8, 0xfffffffffffffff8, UINT64_MAX,
    };

    switch (g_test_rand_int_range(0, 4)) {
    case 0:
        return edges[g_test_rand_int_range(0, ARRAY_SIZE(edges))];
    case 1:
        return (uint64_t)g_test_rand_int() << 32 | (uint32_t)g_test_rand_int();
    default:
        return STORE_BASE + g_test_rand_int_range(0, 0x10000) * 8;
    }
}

static void test_monkey(void)
{
    Pmcu p = pmcu_init_irq("-m 64M -smp 8,sockets=2,clusters=2,cores=2");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    for (int i = 0; i < (g_test_slow() ? 100000 : 4000); i++) {
        uint32_t any = g_test_rand_int();
        unsigned reg = rw_regs[g_test_rand_int_range(0, ARRAY_SIZE(rw_regs))].
                       offset;
        uint32_t stat, status;

        p.base = PMCU_BASE + (any % 2) * HISI_PMCU_MMIO_SIZE;
        p.spi = PMCU_SPI + any % 2;
        switch (g_test_rand_int_range(0, 16)) {
        case 0:
            pmcu_write(&p, reg, any);
            break;
        case 1:
            pmcu_write(&p, (any % HISI_PMCU_MMIO_SIZE) & ~3, g_test_rand_int());
            break;
        case 2:
            pmcu_break(&p);
            break;
        case 3:
        case 4:
            pmcu_write(&p, A_INT_CLR, any >> 8);
            break;
        case 5:
            pmcu_write(&p, A_INT_EN + (any >> 8) % 4 * 4, any >> 16);
            break;
        case 6:
        case 7:
            pmcu_trigger(&p);
            break;
        case 8:
        case 9:
        case 10:
            run.nr_pmu = g_test_rand_int_range(0, 10);
            run.ev_len = run.nr_pmu * g_test_rand_int_range(0, 32);
            run.nr_loop = g_test_rand_int_range(0, 256);
            run.wait_cnt = extract32(any, 0, 1 + (any >> 27));
            run.comp = any & 4;
            run.pmcr = any >> 8;
            run.pmccfiltr = any;
            run.event_base = monkey_address();
            run.store_base = monkey_address() & ~(any & 8 ? 0 : 7);
            run.kill_base = any & 16 ? monkey_address() :
                                       run.store_base + any % 0x100000;
            pmcu_start(&p, &run);
            break;
        case 11:
            qtest_system_reset(p.qts);
            break;
        case 12:
            qtest_writew(p.qts, p.base + any % 0x300, any >> 16);
            break;
        default:
            pmcu_step(&p, 1 + any % (1 << g_test_rand_int_range(1, 24)));
            break;
        }

        /* What is always true */
        stat = pmcu_read(&p, A_INT_STAT);
        status = pmcu_read(&p, A_FSM_STATUS);
        g_assert_cmpint(pmcu_irq(&p), ==,
                        (stat & pmcu_read(&p, A_INT_EN) &
                         ~pmcu_read(&p, A_INT_MSK)) != 0);
        switch (status & 0xff) {
        case HISI_PMCU_DONE_HOLD:
            g_assert_cmphex(stat & DONE, ==, DONE);
            break;
        case HISI_PMCU_IDLE:
        case HISI_PMCU_COUNT:
            break;
        default:
            g_assert_not_reached();
        }
        g_assert_cmpint((status >> 8) & 0xff, <=, HISI_PMCU_ERR_DMA_WRITE);
    }

    /* And then it still works */
    p.base = PMCU_BASE;
    p.spi = PMCU_SPI;
    pmcu_break(&p);
    pmcu_write(&p, A_INT_CLR, DONE | BRK);
    pmcu_events(&p, EVENT_BASE, 1, EV_CPU_CYCLES);
    pmcu_run(&p, &(PmcuRun) { PMCU_RUN_DEFAULT });
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x100), ==, MS);
    pmcu_quit(&p);
}

int main(int argc, char **argv)
{
    static const unsigned clusters[] = { 1, 2, 4, 5 };

    g_test_init(&argc, &argv, NULL);

    qtest_add_func("hisi_pmcu/reg/offsets", test_reg_offsets);
    qtest_add_func("hisi_pmcu/reg/read-write-reset", test_reg_rw);
    qtest_add_func("hisi_pmcu/reg/read-only-and-actions", test_reg_ro);
    qtest_add_func("hisi_pmcu/reg/access-size", test_reg_access_size);
    qtest_add_func("hisi_pmcu/reg/guest-errors-logged", test_reg_guest_errors);

    qtest_add_func("hisi_pmcu/run/done-at-exact-time", test_run_timing);
    qtest_add_func("hisi_pmcu/run/window-is-wait-cnt", test_run_wait_cnt);
    qtest_add_func("hisi_pmcu/run/wait-cnt-0-is-1-tick", test_run_wait_cnt_0);
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
    qtest_add_func("hisi_pmcu/synthetic/values", test_synthetic_values);
    qtest_add_func("hisi_pmcu/synthetic/dies-differ", test_synthetic_dies);
    qtest_add_func("hisi_pmcu/synthetic/set-at-run-time", test_synthetic_set);
    qtest_add_func("hisi_pmcu/synthetic/grammar", test_synthetic_grammar);

    qtest_add_func("hisi_pmcu/record/4x8-cpu9-slot5", test_record_example1);
    qtest_add_func("hisi_pmcu/record/1x2-both-modes", test_record_example2);
    qtest_add_func("hisi_pmcu/record/2-clusters-comp", test_record_example3);
    for (int i = 0; i < ARRAY_SIZE(clusters); i++) {
        g_autofree char *name =
            g_strdup_printf("hisi_pmcu/record/slots-of-%u-clusters",
                            clusters[i]);

        qtest_add_data_func(name, &clusters[i], test_record_slots);
    }

    qtest_add_func("hisi_pmcu/int/enable-mask-clear", test_int_matrix);
    qtest_add_func("hisi_pmcu/int/late-clear-keeps-done", test_int_hold);

    qtest_add_func("hisi_pmcu/break/idle", test_break_idle);
    qtest_add_func("hisi_pmcu/break/done-pending", test_break_done_pending);
    qtest_add_func("hisi_pmcu/break/counting", test_break_count);
    qtest_add_func("hisi_pmcu/break/counting-done-pending",
                   test_break_count_done_pending);
    qtest_add_func("hisi_pmcu/break/done-held", test_break_hold);

    qtest_add_func("hisi_pmcu/bad/trigger-while-busy", test_bad_busy);
    qtest_add_func("hisi_pmcu/bad/configuration", test_bad_config);
    qtest_add_func("hisi_pmcu/bad/reserved-bits", test_bad_reserved);
    qtest_add_func("hisi_pmcu/bad/largest-good-values", test_bad_largest);
    qtest_add_func("hisi_pmcu/bad/kill-base", test_bad_kill);
    qtest_add_func("hisi_pmcu/bad/dma-read", test_bad_dma_read);
    qtest_add_func("hisi_pmcu/bad/dma-write", test_bad_dma_write);
    qtest_add_func("hisi_pmcu/bad/dma-write-half", test_bad_dma_half);
    qtest_add_func("hisi_pmcu/bad/address-wrap", test_bad_wrap);
    qtest_add_func("hisi_pmcu/memory-above-4g", test_high_memory);

    qtest_add_func("hisi_pmcu/state/reset", test_reset_count);
    qtest_add_func("hisi_pmcu/state/snapshot-counting", test_snapshot);
    qtest_add_func("hisi_pmcu/state/migrate-counting", test_migrate_count);
    qtest_add_func("hisi_pmcu/state/migrate-done-held", test_migrate_hold);
    qtest_add_func("hisi_pmcu/state/migrate-hostile", test_migrate_hostile);

    qtest_add_func("hisi_pmcu/state/migrate-synthetic",
                   test_migrate_synthetic);
    qtest_add_func("hisi_pmcu/monkey", test_monkey);

    qtest_add_func("hisi_pmcu/fault/dma", test_fault_dma);
    qtest_add_func("hisi_pmcu/fault/refuse", test_fault_refuse);
    qtest_add_func("hisi_pmcu/fault/done", test_fault_done);
    qtest_add_func("hisi_pmcu/fault/records", test_fault_records);
    qtest_add_func("hisi_pmcu/fault/migrate", test_fault_migrate);
    qtest_add_func("hisi_pmcu/fault/grammar", test_fault_grammar);
    qtest_add_func("hisi_pmcu/properties", test_properties);
    qtest_add_func("hisi_pmcu/machine/dies", test_machine_dies);
    qtest_add_func("hisi_pmcu/machine/16-dies", test_machine_16_dies);
    qtest_add_func("hisi_pmcu/machine/device-tree-and-mpidr", test_machine_dt);
    qtest_add_func("hisi_pmcu/machine/acpi", test_machine_acpi);
    qtest_add_func("hisi_pmcu/machine/off", test_machine_off);
    qtest_add_func("hisi_pmcu/machine/constraints", test_machine_constraints);

    return g_test_run();
}
