/*
 * QTest of the HiSilicon PMCU: registers
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"

static const unsigned no_regs[] = {
    0x024, 0x028, 0x02c, 0x030, 0x034, 0x040, 0x048, 0x0fc, 0x110, 0x1fc,
    0x208, 0x1000, HISI_PMCU_MMIO_SIZE - 4,
};

/* The header is shared with the model: check it against the driver's. */
static const struct {
    const char *name;
    unsigned offset, driver;
} regs[] = {
#define REG(name, driver) { #name, A_##name, driver }
    REG(FSM_STATUS, 0x000), REG(FSM_CFG, 0x004), REG(EVENT_BASE_H, 0x008),
    REG(EVENT_BASE_L, 0x00c), REG(KILL_BASE_H, 0x010), REG(KILL_BASE_L, 0x014),
    REG(STORE_BASE_H, 0x018), REG(STORE_BASE_L, 0x01c), REG(WAIT_CNT, 0x020),
    REG(FSM_CTRL, 0x038), REG(FSM_BRK, 0x03c), REG(COMP, 0x044),
    REG(INT_EN, 0x100), REG(INT_MSK, 0x104), REG(INT_STAT, 0x108),
    REG(INT_CLR, 0x10c), REG(PMCR, 0x200), REG(PMCCFILTR, 0x204),
#undef REG
};

/* A test that uses these names does not notice if a bit or a code moves. */
static const struct {
    uint32_t value, documented;
} fields[] = {
    { R_FSM_CTRL_TRIGGER_MASK, 1 }, { R_FSM_BRK_BRK_MASK, 1 },
    { R_COMP_ENABLE_MASK, 1 },
    { R_INT_EN_DONE_MASK, 1 }, { R_INT_EN_BRK_MASK, 2 },
    { R_INT_MSK_DONE_MASK, 1 }, { R_INT_MSK_BRK_MASK, 2 },
    { R_INT_STAT_DONE_MASK, 1 }, { R_INT_STAT_BRK_MASK, 2 },
    { R_INT_CLR_DONE_MASK, 1 }, { R_INT_CLR_BRK_MASK, 2 },
    { PMCR_DRIVER, 0xc1 }, { R_PMCR_D_MASK, 8 },
    { R_FSM_STATUS_STATE_MASK, 0xf }, { R_FSM_STATUS_ERROR_MASK, 0xff00 },
    { R_FSM_STATUS_STORED_MASK, 0xffff0000 },
    { HISI_PMCU_IDLE, 0 }, { HISI_PMCU_COUNT, 3 }, { HISI_PMCU_STORE, 5 },
    { HISI_PMCU_DONE_HOLD, 6 },
    { HISI_PMCU_ERR_BUSY, 1 }, { HISI_PMCU_ERR_CFG, 2 },
    { HISI_PMCU_ERR_ADDR, 3 }, { HISI_PMCU_ERR_KILL, 4 },
    { HISI_PMCU_ERR_DMA_READ, 5 }, { HISI_PMCU_ERR_DMA_WRITE, 6 },
};

static void test_reg_offsets(void)
{
    for (int i = 0; i < ARRAY_SIZE(regs); i++) {
        g_assert_cmphex(regs[i].offset, ==, regs[i].driver);
    }
    for (int i = 0; i < ARRAY_SIZE(fields); i++) {
        g_assert_cmphex(fields[i].value, ==, fields[i].documented);
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
    g_autofree char *text = NULL;
    Pmcu p = pmcu_init_log("-d guest_errors", &log);

    pmcu_read(&p, 0x024);
    pmcu_write(&p, 0x040, 0);
    pmcu_write(&p, A_FSM_STATUS, 0);
    pmcu_write(&p, A_INT_STAT, 0);
    pmcu_write(&p, A_FSM_CFG, 0xfff00000);
    pmcu_trigger(&p);
    /* None for these */
    for (int i = 0; i < ARRAY_SIZE(action_regs); i++) {
        pmcu_read(&p, action_regs[i]);
    }
    pmcu_write(&p, A_PMCR, PMCR_DRIVER);
    pmcu_break(&p);
    text = pmcu_quit_log(&p, log);
    g_assert_cmpstr(text, ==,
        "hisi_pmcu die 0: bad read offset 0x24\n"
        "hisi_pmcu die 0: bad write offset 0x40\n"
        "hisi_pmcu die 0: write to read-only register FSM_STATUS\n"
        "hisi_pmcu die 0: write to read-only register INT_STAT\n"
        "hisi_pmcu die 0: reserved bits of FSM_CFG ignored in 0xfff00000\n"
        "hisi_pmcu die 0: trigger refused: NR_PMU out of range\n");
}

/* A trace of accesses names each register, and the die. */
static void test_reg_trace(void)
{
    g_autofree char *log = NULL;
    g_autofree char *text = NULL;
    g_autoptr(GString) expected = g_string_new("");
    Pmcu p = pmcu_init_log("-smp 2,sockets=2 -trace hisi_pmcu_read "
                           "-trace hisi_pmcu_write", &log);

    for (unsigned die = 0; die < 2; die++) {
        for (int i = 0; i < ARRAY_SIZE(regs); i++) {
            pmcu_write(&p, regs[i].driver, 0);
            pmcu_read(&p, regs[i].driver);
            g_string_append_printf(expected,
                                   "hisi_pmcu_write die %u %s (0x%03x) "
                                   "value 0x00000000\n"
                                   "hisi_pmcu_read die %u %s (0x%03x) "
                                   "value 0x00000000\n",
                                   die, regs[i].name, regs[i].driver,
                                   die, regs[i].name, regs[i].driver);
        }
        p.base += HISI_PMCU_MMIO_SIZE;
    }
    text = pmcu_quit_log(&p, log);
    g_assert_cmpstr(text, ==, expected->str);
}

void add_registers_tests(void)
{
    qtest_add_func("hisi_pmcu/reg/offsets", test_reg_offsets);
    qtest_add_func("hisi_pmcu/reg/read-write-reset", test_reg_rw);
    qtest_add_func("hisi_pmcu/reg/read-only-and-actions", test_reg_ro);
    qtest_add_func("hisi_pmcu/reg/access-size", test_reg_access_size);
    qtest_add_func("hisi_pmcu/reg/guest-errors-logged", test_reg_guest_errors);
    qtest_add_func("hisi_pmcu/reg/names-in-trace", test_reg_trace);
}
