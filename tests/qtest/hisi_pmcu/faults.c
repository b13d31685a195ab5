/*
 * QTest of the HiSilicon PMCU: faults on demand, and what the device says
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "common.h"
#include "qobject/qdict.h"

static void set_faults(const Pmcu *p, const char *list)
{
    g_assert_true(set_property(p, PMCU_PATH, "faults", list));
}

static void assert_property(const Pmcu *p, const char *name, const char *value)
{
    QDict *rsp = qtest_qmp(p->qts, "{'execute': 'qom-get', 'arguments': {"
                           "'path': %s, 'property': %s}}", PMCU_PATH, name);

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

    /* The events of the first record are read by the trigger itself. */
    set_faults(&p, "dma-read:0");
    pmcu_start(&p, &run);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    HISI_PMCU_ERR_DMA_READ << 8);
    assert_int(&p, BRK);
    pmcu_write(&p, A_INT_CLR, BRK);

    /* A run without that record is not concerned. */
    set_faults(&p, "dma-write:3");
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

    /* A PMCU that is busy says so, and goes on. */
    pmcu_start(&p, &run);
    set_faults(&p, "refuse:3");
    pmcu_trigger(&p);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==,
                    HISI_PMCU_ERR_BUSY << 8 | HISI_PMCU_COUNT);
    pmcu_step(&p, MS);
    assert_int(&p, DONE);
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
    /* A DONE that is held until the DONE before it is cleared comes twice. */
    set_faults(&p, "");
    raise_int(&p, DONE);
    set_faults(&p, "repeat-done");
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_DONE_HOLD);
    for (int i = 0; i < 3; i++) {
        assert_int(&p, DONE);
        pmcu_write(&p, A_INT_CLR, DONE);
        g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_IDLE);
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
    /* To clear that DONE does not end the next run early. */
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 1);
    pmcu_write(&p, A_INT_CLR, DONE);
    assert_int(&p, 0);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_STORE);
    pmcu_step(&p, 500000 - 1);
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

    /* Busy for longer, and then no DONE */
    set_faults(&p, "lose-done,delay-done:500000");
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS + 500000 - 1);
    g_assert_cmpint(pmcu_state(&p), ==, HISI_PMCU_STORE);
    pmcu_step(&p, 1);
    g_assert_cmphex(pmcu_read(&p, A_FSM_STATUS), ==, 2 << 16);
    assert_int(&p, 0);

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

/* Each fault, and what follows from it, is in the log and in the trace. */
static void test_fault_log(void)
{
    g_autofree char *log = NULL;
    g_autofree char *text = NULL;
    static const char *const lists[] = {
        "refuse:2", "dma-read:1", "dma-write:0", "lose-done", "repeat-done",
        "delay-done:1000", "stay-busy",
    };
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2 };
    Pmcu p = pmcu_init_log("-d guest_errors -trace hisi_pmcu_fault "
                           "-trace hisi_pmcu_reject "
                           "-trace hisi_pmcu_dma_error", &log);

    for (int i = 0; i < ARRAY_SIZE(lists); i++) {
        set_faults(&p, lists[i]);
        pmcu_start(&p, &run);
        pmcu_step(&p, 10 * MS);
        pmcu_write(&p, A_INT_CLR, DONE | BRK);
        pmcu_break(&p);
        pmcu_write(&p, A_INT_CLR, DONE | BRK);
    }
    text = pmcu_quit_log(&p, log);
    g_assert_cmpstr(text, ==,
        "hisi_pmcu_fault die 0 refuse at record 0\n"
        "hisi_pmcu_reject die 0 error 2: fault on demand: refuse\n"
        "hisi_pmcu die 0: trigger refused: fault on demand: refuse\n"
        "hisi_pmcu_fault die 0 dma-read at record 1\n"
        "hisi_pmcu die 0: fault on demand: dma-read at record 1\n"
        "hisi_pmcu_dma_error die 0 read at 0x40100004 length 4 bytes\n"
        "hisi_pmcu die 0: DMA read of 4 bytes at 0x40100004 failed, "
        "run stopped\n"
        "hisi_pmcu_fault die 0 dma-write at record 0\n"
        "hisi_pmcu die 0: fault on demand: dma-write at record 0\n"
        "hisi_pmcu_dma_error die 0 write at 0x40200000 length 192 bytes\n"
        "hisi_pmcu die 0: DMA write of 192 bytes at 0x40200000 failed, "
        "run stopped\n"
        "hisi_pmcu_fault die 0 lose-done at record 2\n"
        "hisi_pmcu die 0: fault on demand: lose-done at record 2\n"
        "hisi_pmcu_fault die 0 repeat-done at record 2\n"
        "hisi_pmcu die 0: fault on demand: repeat-done at record 2\n"
        "hisi_pmcu_fault die 0 delay-done at record 2\n"
        "hisi_pmcu die 0: fault on demand: delay-done at record 2\n"
        "hisi_pmcu_fault die 0 stay-busy at record 2\n"
        "hisi_pmcu die 0: fault on demand: stay-busy at record 2\n");
}

/* The trace of runs: what starts and ends them, and each record */
static void test_trace(void)
{
    g_autofree char *log = NULL;
    g_autofree char *text = NULL;
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = 2, .nr_loop = 2, .nr_pmu = 2 };
    Pmcu p = pmcu_init_log("-trace hisi_pmcu_trigger -trace hisi_pmcu_reject "
                           "-trace hisi_pmcu_start -trace hisi_pmcu_store "
                           "-trace hisi_pmcu_done -trace hisi_pmcu_hold "
                           "-trace hisi_pmcu_break -trace hisi_pmcu_kill "
                           "-trace hisi_pmcu_dma_error", &log);

    pmcu_trigger(&p);
    pmcu_start(&p, &run);
    pmcu_step(&p, 2 * MS);
    run.nr_loop = 1;
    run.wait_cnt = 0;
    pmcu_start(&p, &run);       /* DONE of the first run is not cleared */
    pmcu_step(&p, 20);
    pmcu_trigger(&p);
    pmcu_break(&p);
    run.comp = true;
    run.kill_base = STORE_BASE + 8;
    pmcu_start(&p, &run);
    pmcu_step(&p, 20);
    run.store_base = UNMAPPED;
    run.kill_base = UNMAPPED + 0x1000;
    pmcu_start(&p, &run);
    pmcu_step(&p, 20);

    text = pmcu_quit_log(&p, log);
    g_assert_cmpstr(text, ==,
        "hisi_pmcu_reject die 0 error 2: NR_PMU out of range\n"
        "hisi_pmcu_trigger die 0 EV_LEN 2 NR_LOOP 2 NR_PMU 2 COMP 0 window "
        "1000000 ns events 0x40100000 store 0x40200000 kill 0x40300000\n"
        "hisi_pmcu_start die 0 loop 0 event 0 window 1000000 ns from 0 ns\n"
        "hisi_pmcu_store die 0 record at 0x40200000 length 256 bytes at "
        "1000000 ns\n"
        "hisi_pmcu_start die 0 loop 1 event 0 window 1000000 ns from "
        "1000000 ns\n"
        "hisi_pmcu_store die 0 record at 0x40200100 length 256 bytes at "
        "2000000 ns\n"
        "hisi_pmcu_done die 0 records 2\n"
        "hisi_pmcu_trigger die 0 EV_LEN 2 NR_LOOP 1 NR_PMU 2 COMP 0 window "
        "20 ns events 0x40100000 store 0x40200000 kill 0x40300000\n"
        "hisi_pmcu_start die 0 loop 0 event 0 window 20 ns from 2000000 ns\n"
        "hisi_pmcu_store die 0 record at 0x40200000 length 256 bytes at "
        "2000020 ns\n"
        "hisi_pmcu_done die 0 records 1\n"
        "hisi_pmcu_hold die 0 DONE not cleared yet\n"
        "hisi_pmcu_reject die 0 error 1: busy\n"
        "hisi_pmcu_break die 0 state 6 records 1\n"
        "hisi_pmcu_trigger die 0 EV_LEN 2 NR_LOOP 1 NR_PMU 2 COMP 1 window "
        "20 ns events 0x40100000 store 0x40200000 kill 0x40200008\n"
        "hisi_pmcu_start die 0 loop 0 event 0 window 20 ns from 2000020 ns\n"
        "hisi_pmcu_kill die 0 record at 0x40200000 length 192 bytes passes "
        "0x40200008\n"
        "hisi_pmcu_trigger die 0 EV_LEN 2 NR_LOOP 1 NR_PMU 2 COMP 1 window "
        "20 ns events 0x40100000 store 0xf800000 kill 0xf801000\n"
        "hisi_pmcu_start die 0 loop 0 event 0 window 20 ns from 2000040 ns\n"
        "hisi_pmcu_dma_error die 0 write at 0xf800000 length 192 bytes\n");
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
        "stay-busy,delay-done:1", "stay-busy,repeat-done",
        "repeat-done,lose-done", "lose-done ,x", "refuse:1,refuse:2",
        "dma-read:1,lose-done,dma-read:3", "lose-done,lose-done",
    };
    Pmcu p = pmcu_init("");

    for (int i = 0; i < ARRAY_SIZE(good); i++) {
        set_faults(&p, good[i]);
        assert_property(&p, "faults", good[i]);
    }
    for (int i = 0; i < ARRAY_SIZE(bad); i++) {
        if (set_property(&p, PMCU_PATH, "faults", bad[i])) {
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
                    " 'property': 'records'}}", PMCU_PATH);
    g_assert_cmpint(qdict_get_int(rsp, "return"), ==, 3);
    qobject_unref(rsp);
    pmcu_trigger(&p);
    assert_property(&p, "error", "busy");
    pmcu_step(&p, MS);
    assert_property(&p, "state", "idle");
    g_assert_false(set_property(&p, PMCU_PATH, "state", "idle"));
    /* The machine's option is for its creation only. */
    rsp = qtest_qmp(p.qts, "{'execute': 'qom-set', 'arguments': {'path': "
                    "'/machine', 'property': 'pmcu', 'value': false}}");
    g_assert_true(qdict_haskey(rsp, "error"));
    qobject_unref(rsp);

    /* Compatibility mode uses counters from 3 on */
    pmcu_write(&p, A_INT_CLR, DONE);
    run.comp = true;
    pmcu_run(&p, &run);
    assert_property(&p, "run", "loop 2 of 2, event 0 of 6, 3 counters from 3 "
                    "on, windows of 1000000 ns, events at 0x40100000, next "
                    "record at 0x40200400, kill base 0x40300000");
    qtest_system_reset(p.qts);
    assert_property(&p, "run", "none since reset");
    pmcu_quit(&p);
}

void add_faults_tests(void)
{
    qtest_add_func("hisi_pmcu/fault/dma", test_fault_dma);
    qtest_add_func("hisi_pmcu/fault/refuse", test_fault_refuse);
    qtest_add_func("hisi_pmcu/fault/done", test_fault_done);
    qtest_add_func("hisi_pmcu/fault/log", test_fault_log);
    qtest_add_func("hisi_pmcu/fault/records", test_fault_records);
    qtest_add_func("hisi_pmcu/fault/migrate", test_fault_migrate);
    qtest_add_func("hisi_pmcu/fault/grammar", test_fault_grammar);
    qtest_add_func("hisi_pmcu/properties", test_properties);
    qtest_add_func("hisi_pmcu/trace", test_trace);
}
