/*
 * QTest of the HiSilicon PMCU: bad programming
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qemu/units.h"

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

        /* Break gets a driver out of it, and the reason stays */
        pmcu_break(&p);
        assert_int(&p, BRK);
        pmcu_write(&p, A_INT_CLR, BRK);
        g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, cases[i].error << 8);

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

    /* Reserved bits do not matter */
    pmcu_program(&p, &run);
    pmcu_write(&p, A_FSM_CFG, pmcu_fsm_cfg(1, 1, 1) | 0xfff00000);
    pmcu_write(&p, A_FSM_CTRL, 0xffffffff);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, HISI_PMCU_COUNT);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
    pmcu_write(&p, A_INT_CLR, 0xffffffff);
    assert_int(&p, 0);
    pmcu_write(&p, A_FSM_BRK, 0xffffffff);
    assert_int(&p, BRK);
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

/* An error sets BRK, and leaves the DONE of the run before to the guest. */
static void test_bad_done_pending(void)
{
    Pmcu p = pmcu_init_irq("");
    PmcuRun run = { PMCU_RUN_DEFAULT, .kill_base = STORE_BASE + 8 };

    raise_int(&p, DONE);
    pmcu_start(&p, &run);
    pmcu_step(&p, MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, HISI_PMCU_ERR_KILL << 8);
    assert_int(&p, DONE | BRK);
    pmcu_write(&p, A_INT_CLR, BRK);
    assert_int(&p, DONE);
    pmcu_write(&p, A_INT_CLR, DONE);
    assert_int(&p, 0);
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

void add_errors_tests(void)
{
    qtest_add_func("hisi_pmcu/bad/trigger-while-busy", test_bad_busy);
    qtest_add_func("hisi_pmcu/bad/configuration", test_bad_config);
    qtest_add_func("hisi_pmcu/bad/reserved-bits", test_bad_reserved);
    qtest_add_func("hisi_pmcu/bad/largest-good-values", test_bad_largest);
    qtest_add_func("hisi_pmcu/bad/kill-base", test_bad_kill);
    qtest_add_func("hisi_pmcu/bad/done-pending", test_bad_done_pending);
    qtest_add_func("hisi_pmcu/bad/dma-read", test_bad_dma_read);
    qtest_add_func("hisi_pmcu/bad/dma-write", test_bad_dma_write);
    qtest_add_func("hisi_pmcu/bad/dma-write-half", test_bad_dma_half);
    qtest_add_func("hisi_pmcu/bad/address-wrap", test_bad_wrap);
    qtest_add_func("hisi_pmcu/memory-above-4g", test_high_memory);
}
