/*
 * QTest of the HiSilicon PMCU: anything at all
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qemu/units.h"

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

void add_random_tests(void)
{
    qtest_add_func("hisi_pmcu/monkey", test_monkey);
}
