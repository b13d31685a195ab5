/*
 * QTest of the HiSilicon PMCU: interrupts and breaks
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"

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

void add_interrupts_tests(void)
{
    qtest_add_func("hisi_pmcu/int/enable-mask-clear", test_int_matrix);
    qtest_add_func("hisi_pmcu/int/late-clear-keeps-done", test_int_hold);
    qtest_add_func("hisi_pmcu/break/idle", test_break_idle);
    qtest_add_func("hisi_pmcu/break/done-pending", test_break_done_pending);
    qtest_add_func("hisi_pmcu/break/counting", test_break_count);
    qtest_add_func("hisi_pmcu/break/counting-done-pending",
                   test_break_count_done_pending);
    qtest_add_func("hisi_pmcu/break/done-held", test_break_hold);
}
