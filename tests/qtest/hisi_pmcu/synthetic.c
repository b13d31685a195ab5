/*
 * QTest of the HiSilicon PMCU: synthetic events
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qemu/units.h"
#include "qobject/qdict.h"

static void test_synthetic_values(void)
{
    static const uint32_t events[] = {
        0x10, EV_CPU_CYCLES, 0x13, EV_SW_INCR, 0x40, 0xff, 0x100, EV_NULL,
    };
    Pmcu p = pmcu_init_irq(
        "-smp 4,clusters=2,cores=2 -cpu max,pmu-counters=8 -global hisi-pmcu."
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
    Pmcu p = pmcu_init_irq("-smp 4,sockets=2,clusters=2,cores=1 -global hisi-"
                           "pmcu.synthetic-events=0x16=rate:3");
    PmcuRun run = { PMCU_RUN_DEFAULT };

    pmcu_power_cpu(p.qts, 2, true);
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 1, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, 3000);
    p.base += HISI_PMCU_MMIO_SIZE;
    p.spi++;
    pmcu_run(&p, &run);
    /* Slot 0 of the second die follows 16 slots of the first */
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x80), ==, 3016);
    pmcu_quit(&p);
}

static void test_synthetic_set(void)
{
    Pmcu p = pmcu_init_irq("");
        PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 8, .nr_pmu = 8 };
    uint64_t first = STORE_BASE + 0x40;

    /* Off by default */
    pmcu_events(&p, EVENT_BASE, 8, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 0);

    /* A counter that the CPU does not have stays 0 */
    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:1"));
    pmcu_run(&p, &run);
    for (int i = 0; i < 8; i++) {
        g_assert_cmpint(qtest_readq(p.qts, first + 0x40 * i), ==, i < 6);
    }

    /* A change is for the next run; a bad value changes nothing */
    run.ev_len = 1;
    run.nr_pmu = 1;
    pmcu_start(&p, &run);
    g_assert_true(set_synthetic(&p, PMCU_PATH, "0x16=const:2"));
    g_assert_false(set_synthetic(&p, PMCU_PATH, "0x16=const"));
    pmcu_step(&p, MS);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 1);
    pmcu_write(&p, A_INT_CLR, DONE);
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 2);

    /* As wide as the counter: 32 bits here */
    g_assert_true(set_synthetic(&p, PMCU_PATH,
                                "0x16=const:0x123456789abcdef0"));
    pmcu_run(&p, &run);
    g_assert_cmphex(qtest_readq(p.qts, first), ==, 0x9abcdef0);

    /* It is the user's, and stays when the guest starts again. */
    qtest_system_reset(p.qts);
    pmcu_events(&p, EVENT_BASE, 1, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    g_assert_cmphex(qtest_readq(p.qts, first), ==, 0x9abcdef0);

    g_assert_true(set_synthetic(&p, PMCU_PATH, ""));
    pmcu_run(&p, &run);
    g_assert_cmpint(qtest_readq(p.qts, first), ==, 0);
    pmcu_quit(&p);
}

/*
 * Compatibility mode counts with counters 3 to 7. The CPU has 6 counters, 0 to
 * 5, and so the values of counters 6 and 7 are 0.
 */
static void test_synthetic_comp(void)
{
    Pmcu p = pmcu_init_irq("-global hisi-pmcu.synthetic-events=0x16=const:1");
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 5, .nr_pmu = 5, .comp = true };

    pmcu_events(&p, EVENT_BASE, 5, EV_L2D_CACHE);
    pmcu_run(&p, &run);
    for (int i = 0; i < 5; i++) {
        g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40 + 0x40 * i), ==,
                        i < 3);
    }
    pmcu_quit(&p);
}

/*
 * Set a list of @length bytes; returns the answer. That takes seconds, since a
 * monitor reads byte by byte, so that each length has a test of its own.
 */
static QDict *set_long_synthetic(const Pmcu *p, size_t length)
{
    static const char begin[] = "0x16=const:";
    g_autofree char *list = g_malloc(length + 1);

    /* Zeros before a decimal number change nothing but the length. */
    memset(list, '0', length - 1);
    memcpy(list, begin, sizeof(begin) - 1);
    strcpy(list + length - 1, "3");
    return qtest_qmp(p->qts, "{'execute': 'qom-set', 'arguments': {"
                     " 'path': %s, 'property': 'synthetic-events',"
                     " 'value': %s}}", PMCU_PATH, list);
}

static void test_synthetic_longest(void)
{
    const char *args = "-m 16M";
    Pmcu p = pmcu_init(args);
    QDict *rsp = set_long_synthetic(&p, 512 * KiB);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    g_autofree char *file = NULL;

    g_assert_true(qdict_haskey(rsp, "return"));
    qobject_unref(rsp);

    /* A run with this list migrates. */
    pmcu_events(&p, EVENT_BASE, 1, EV_L2D_CACHE);
    pmcu_start(&p, &run);
    file = pmcu_save(p.qts);
    pmcu_quit(&p);
    g_assert_true(migrate_from_file(&p, args, file, 0));
    unlink(file);
    pmcu_step(&p, MS);
    g_assert_cmpint(qtest_readq(p.qts, STORE_BASE + 0x40), ==, 3);
    pmcu_quit(&p);
}

static void test_synthetic_too_long(void)
{
    Pmcu p = pmcu_init("");
    QDict *rsp = set_long_synthetic(&p, 512 * KiB + 1);

    g_assert_true(qdict_haskey(rsp, "error"));
    g_assert_cmpstr(qdict_get_str(qdict_get_qdict(rsp, "error"), "desc"), ==,
                    "synthetic-events is longer than 524288 bytes");
    qobject_unref(rsp);
    pmcu_quit(&p);
}

/* The trace has the synthetic values that are in memory, and no others. */
static void test_synthetic_trace(void)
{
    g_autofree char *log = NULL;
    g_autofree char *text = NULL;
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .ev_len = 4, .nr_pmu = 2,
        .kill_base = STORE_BASE + 0x100,
    };
    Pmcu p = pmcu_init_log("-smp 2 -trace hisi_pmcu_synthetic -global hisi-"
                           "pmcu.synthetic-events=0x11=hash,0x16=rate:3", &log);

    for (int i = 0; i < 4; i++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * i,
                     i % 2 ? EV_L2D_CACHE : EV_CPU_CYCLES);
    }
    /* The second record passes KILL_BASE. */
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    1 << 16 | HISI_PMCU_ERR_KILL << 8);
    /* It cannot be written. */
    run.kill_base = STORE_BASE + 0x1000;
    run.wait_cnt = 2 * MS_TICKS;
    g_assert_true(set_property(&p, PMCU_PATH, "faults", "dma-write:1"));
    pmcu_start(&p, &run);
    pmcu_step(&p, 4 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    1 << 16 | HISI_PMCU_ERR_DMA_WRITE << 8);
    g_assert_true(set_property(&p, PMCU_PATH, "faults", ""));
    /* A break takes it away. */
    run.wait_cnt = 3 * MS_TICKS;
    pmcu_start(&p, &run);
    pmcu_step(&p, 5 * MS);
    pmcu_break(&p);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 1 << 16);
    /* And one whose first record has no RAM: flash can be read only. */
    run.store_base = FLASH_BASE;
    run.kill_base = FLASH_BASE + 0x1000;
    pmcu_start(&p, &run);
    pmcu_step(&p, 3 * MS);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    HISI_PMCU_ERR_DMA_WRITE << 8);

    text = pmcu_quit_log(&p, log);
    /* CPU 0 is on, and counts cycles by itself. */
    g_assert_cmpstr(text, ==,
        "hisi_pmcu_synthetic die 0 slot 0 record 0 event 0x0016 synthetic "
        "value 3000\n"
        "hisi_pmcu_synthetic die 0 slot 0 record 0 event 0x0016 synthetic "
        "value 6000\n"
        "hisi_pmcu_synthetic die 0 slot 0 record 0 event 0x0016 synthetic "
        "value 9000\n");
}

/* tests/unit/test-pmu-synthetic.c has all of the grammar. */
static void test_synthetic_grammar(void)
{
    Pmcu p = pmcu_init("");
    QDict *rsp;

    g_assert_true(set_synthetic(&p, PMCU_PATH, "0xffff=hash,1-2=const:3"));
    g_assert_false(set_synthetic(&p, PMCU_PATH, "0x10000=hash"));
    rsp = qtest_qmp(p.qts, "{'execute': 'qom-get', 'arguments': {'path': %s,"
                    " 'property': 'synthetic-events'}}", PMCU_PATH);
    g_assert_cmpstr(qdict_get_str(rsp, "return"), ==,
                    "0xffff=hash,1-2=const:3");
    qobject_unref(rsp);
    pmcu_quit(&p);
}

void add_synthetic_tests(void)
{
    qtest_add_func("hisi_pmcu/synthetic/values", test_synthetic_values);
    qtest_add_func("hisi_pmcu/synthetic/dies-differ", test_synthetic_dies);
    qtest_add_func("hisi_pmcu/synthetic/set-at-run-time", test_synthetic_set);
    qtest_add_func("hisi_pmcu/synthetic/compatibility-mode",
                   test_synthetic_comp);
    qtest_add_func("hisi_pmcu/synthetic/trace", test_synthetic_trace);
    qtest_add_func("hisi_pmcu/synthetic/grammar", test_synthetic_grammar);
    qtest_add_func("hisi_pmcu/synthetic/longest", test_synthetic_longest);
    qtest_add_func("hisi_pmcu/synthetic/too-long", test_synthetic_too_long);
}
