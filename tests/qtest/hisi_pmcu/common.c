/*
 * QTest of the HiSilicon PMCU: what the parts share
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qobject/qdict.h"

const PmcuTestReg rw_regs[PMCU_RW_REGS] = {
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

const unsigned ro_regs[] = { A_FSM_STATUS, A_INT_STAT };
const unsigned action_regs[] = { A_FSM_CTRL, A_FSM_BRK, A_INT_CLR };

Pmcu pmcu_init(const char *args)
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
void pmcu_run(const Pmcu *p, const PmcuRun *run)
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
Pmcu pmcu_init_irq(const char *args)
{
    Pmcu p = pmcu_init(args);

    pmcu_write(&p, A_INT_EN, DONE | BRK);
    pmcu_events(&p, EVENT_BASE, HISI_PMCU_MAX_EV_LEN, EV_CPU_CYCLES);
    return p;
}

void pmcu_quit(Pmcu *p)
{
    qtest_quit(p->qts);
}

Pmcu pmcu_init_log(const char *args, char **log)
{
    g_autofree char *all = NULL;
    int fd = g_file_open_tmp("hisi_pmcu-XXXXXX", log, NULL);

    g_assert(fd >= 0);
    close(fd);
    all = g_strdup_printf("%s -D %s", args, *log);
    return pmcu_init(all);
}

char *pmcu_quit_log(Pmcu *p, const char *log)
{
    char *text;

    pmcu_quit(p);
    g_assert(g_file_get_contents(log, &text, NULL, NULL));
    unlink(log);
    return text;
}

void pmcu_step(const Pmcu *p, int64_t ns)
{
    qtest_clock_step(p->qts, ns);
}

void assert_canary(const Pmcu *p, uint64_t addr, size_t len)
{
    g_autofree uint8_t *buf = g_malloc(len);

    qtest_memread(p->qts, addr, buf, len);
    for (size_t i = 0; i < len; i++) {
        g_assert_cmphex(buf[i], ==, CANARY);
    }
}

/* A run has been stopped early or has not come to its end */
void assert_int(const Pmcu *p, uint32_t stat)
{
    g_assert_cmphex(pmcu_read(p, A_INT_STAT), ==, stat);
    g_assert_cmpint(pmcu_irq(p), ==, stat != 0);
}

void assert_regs_reset(const Pmcu *p)
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

void raise_int(const Pmcu *p, uint32_t stat)
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

bool set_property(const Pmcu *p, const char *path, const char *name,
                  const char *value)
{
    QDict *rsp = qtest_qmp(p->qts, "{'execute': 'qom-set', 'arguments':"
                           " {'path': %s, 'property': %s, 'value': %s}}",
                           path, name, value);
    bool ok = qdict_haskey(rsp, "return");

    qobject_unref(rsp);
    return ok;
}

bool set_synthetic(const Pmcu *p, const char *path, const char *list)
{
    return set_property(p, path, "synthetic-events", list);
}

/* A machine at time @ns with the state of @file; does it accept that? */
bool migrate_from_file(Pmcu *p, const char *args, const char *file,
                       uint64_t ns)
{
    g_autofree char *all = g_strdup_printf("%s -incoming defer", args);

    *p = pmcu_init(all);
    /* The time of qtest does not migrate */
    qtest_clock_set(p->qts, ns);
    return pmcu_load(p->qts, file);
}
