/*
 * QTest of the in-memory collection counters of POWER9 and POWER10 cores
 *
 * Registers, posts and reset are tested with CPUs that stand still and a clock
 * that the test moves; they count time, but execute nothing. LDBAR is an SPR,
 * so the counters and the trace of threads are tested with CPUs that execute
 * a few instructions, instead of firmware.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <sys/un.h>
#ifdef CONFIG_LINUX
#include <sched.h>
#include <sys/prctl.h>
#endif
#include "libqtest.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qobject/qbool.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qemu/host-utils.h"

#define XSCOM_BASE      0x000603fc00000000ull

/* What firmware writes */
#define HTM_STOP        0xe000000000000000ull
#define HTM_RUN         0xe800000000000000ull
#define EVENT_MASK      0x0402010000000000ull
#define TRACE_P9        0x7fffffc142020000ull
#define TRACE_P10       0x3fffffc142020000ull
#define LDBAR_ENABLE    0x8000000000000000ull
#define LDBAR_TRACE     0x4000000000000000ull

/* Where the test has the guest's counters: far from the program */
#define PAGE            0x2000000ull
#define PAGE_SIZE       0x2000
#define PAGE_OF(n)      (PAGE + (n) * 0x10000ull)
#define BUFFER          0x3000000ull
#define RECORDS         4096

/* Direct controls of the first core of a POWER10: see hw/ppc/pnv_core.c */
#define P10_DIRECT_CONTROLS (XSCOM_BASE + 0x20028449ull * 8)
#define DIRECT_START(n)     (1ull << (63 - 6 - 8 * (n)))
#define DIRECT_STOP(n)      (1ull << (63 - 7 - 8 * (n)))

#define US              1000ll
#define MS              1000000ll

/* Register of a core, in the order of the tables below */
enum { R_EVENT_MASK, R_TRACE, R_HTM_MODE, R_PDBAR, NR_REGS };

/* Events that exist on both, by what they count; offsets in the page */
typedef struct Generation {
    const char *machine;
    unsigned stride;            /* shift of the chip's number */
    unsigned scale;
    uint32_t ref_clock;         /* 32 MHz */
    uint32_t busy;              /* cycles of busy threads */
    uint32_t hv_insns;          /* hypervisor state */
    uint32_t hv_cycles;
    uint32_t prob_insns;
    uint32_t int_os;            /* external interrupts */
    uint32_t int_hyp;
    uint32_t int_doorbell;
    uint64_t trace;
    bool trace_msr;
} Generation;

static const Generation generations[] = {
    { "powernv9", 42, 512, 0xa0, 0x30, 0x698, 0x6a0, 0x658,
      0x3a0, 0x518, 0x558, TRACE_P9, false },
    { "powernv10", 44, 1, 0x118, 0x30, 0x3e0, 0x3a0, 0x2e0,
      0x1d8, 0x198, 0x218, TRACE_P10, true },
};

#define P9  (&generations[0])
#define P10 (&generations[1])

/* Events of POWER9 alone */
#define P9_CCYC         0x98
#define P9_ANY_THRD     0x58
#define P9_ALL_THRD     0x60
#define P9_0THRD        0xe0
#define P9_NTHRD(n)     (0x120 + ((n) - 1) * 0x40)
#define P9_CORE_PCYC    0x8d8
#define P9_SMT2_CCYC    0x860
#define P9_SMT4_CCYC    0x898
#define P9_PURR         0x920
#define USER            0x800
#define KERNEL          0x1000

static uint64_t scom(const Generation *g, unsigned chip, unsigned core,
                     unsigned reg)
{
    static const uint32_t p9_htm[] = { 0x12200, 0x12300, 0x12600, 0x12700 };
    static const uint32_t p10_htm[] = { 0x18680, 0x14680, 0x12680, 0x11680 };
    unsigned quad = core >> 2, in_quad = core & 3;
    uint64_t pcb;

    if (g == P9) {
        pcb = reg <= R_TRACE ? (0x20ull + core) << 24 | (0x10aa8 + reg)
                             : (0x10ull + quad) << 24 | p9_htm[in_quad];
    } else {
        pcb = (0x20ull + quad) << 24;
        pcb |= reg <= R_TRACE ? 0x20000 | (8 >> in_quad) << 12 | (0x400 + reg)
                              : p10_htm[in_quad];
    }
    if (reg == R_PDBAR) {
        pcb += 0xb;
    }
    return XSCOM_BASE + ((uint64_t)chip << g->stride) + pcb * 8;
}

static uint64_t get(QTestState *qts, const Generation *g, unsigned chip,
                    unsigned core, unsigned reg)
{
    return qtest_readq(qts, scom(g, chip, core, reg));
}

static void put(QTestState *qts, const Generation *g, unsigned chip,
                unsigned core, unsigned reg, uint64_t value)
{
    qtest_writeq(qts, scom(g, chip, core, reg), value);
}

static void set_up(QTestState *qts, const Generation *g, unsigned chip,
                   unsigned core, uint64_t page)
{
    put(qts, g, chip, core, R_PDBAR, page);
    put(qts, g, chip, core, R_EVENT_MASK, EVENT_MASK);
    put(qts, g, chip, core, R_HTM_MODE, HTM_STOP);
}

static uint64_t word(QTestState *qts, uint64_t page, uint32_t offset)
{
    return qtest_readq(qts, page + offset);
}

/* Wait until memory no longer has @value, on a loaded host, too */
static void wait_while(QTestState *qts, uint64_t addr, uint64_t value)
{
    unsigned tries;

    for (tries = 0; tries < 300000; tries++) {
        if (qtest_readq(qts, addr) != value) {
            return;
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
}

static uint64_t any_count(QTestState *qts, uint64_t page)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < PAGE_SIZE; i += 8) {
        sum |= word(qts, page, i);
    }
    return sum;
}

static void set_period(QTestState *qts, unsigned chip, const char *name,
                       uint64_t ns)
{
    g_autofree char *path = g_strdup_printf("/machine/chip[%u]/imc", chip);

    qtest_qmp_assert_success(qts, "{ 'execute': 'qom-set', 'arguments': { "
                             "'path': %s, 'property': %s, 'value': %" PRIu64
                             " } }", path, name, ns);
}

/* To fill a flash of the usual size takes most of the time of the start. */
static QTestState *start(const Generation *g, const char *machine,
                         const char *args)
{
    return qtest_initf("-M %s,imc=on%s -global pnv-pnor.size=0x100000 %s",
                       g->machine, machine, args);
}

/* Every register of every core reads back as it was written */
static void check_scoms(QTestState *qts, const Generation *g, unsigned chips,
                        unsigned cores)
{
    unsigned chip, core, reg, pass;

    for (pass = 0; pass < 2; pass++) {
        for (chip = 0; chip < chips; chip++) {
            for (core = 0; core < cores; core++) {
                for (reg = 0; reg < NR_REGS; reg++) {
                    /* Without the bit that runs, and no memory */
                    uint64_t value = (0x80ull + chip) << 56 | core << 8 | reg;

                    if (pass) {
                        g_assert_cmphex(get(qts, g, chip, core, reg), ==,
                                        value);
                    } else {
                        g_assert_cmphex(get(qts, g, chip, core, reg), ==, 0);
                        put(qts, g, chip, core, reg, value);
                    }
                }
            }
        }
    }
}

static void test_scoms(const void *data)
{
    const Generation *g = data;
    QTestState *qts;

    qts = start(g, "", "-smp 32,sockets=2,cores=8,threads=2 -m 2G");
    check_scoms(qts, g, 2, 8);
    /* Beside them, chiplets are as they were */
    g_assert_cmphex(qtest_readq(qts, scom(g, 0, 0, R_HTM_MODE) + 8), ==, -1);
    g_assert_cmphex(qtest_readq(qts, scom(g, 0, 0, R_EVENT_MASK) - 8), ==, 0);
    qtest_quit(qts);

    qts = start(g, ",big-core=on", "-smp 16,cores=2,threads=8");
    check_scoms(qts, g, 1, 4);
    qtest_quit(qts);
}

static void test_off(const void *data)
{
    const Generation *g = data;
    QTestState *qts = qtest_initf("-M %s -smp 2,cores=2", g->machine);

    set_up(qts, g, 0, 1, PAGE);
    put(qts, g, 0, 1, R_HTM_MODE, HTM_RUN);
    g_assert_cmphex(get(qts, g, 0, 1, R_HTM_MODE), ==, -1);
    g_assert_cmphex(get(qts, g, 0, 1, R_PDBAR), ==, -1);
    g_assert_cmphex(get(qts, g, 0, 1, R_EVENT_MASK), ==, 0);
    qtest_clock_step(qts, 10 * MS);
    g_assert_cmphex(any_count(qts, PAGE), ==, 0);
    qtest_quit(qts);
}

/* Posts come each ms; before that, nothing is there */
static void test_post(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "-smp 2,cores=2");

    set_up(qts, g, 0, 0, PAGE);
    qtest_clock_step(qts, 5 * MS);
    g_assert_cmphex(any_count(qts, PAGE), ==, 0);

    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, MS - 1);
    g_assert_cmphex(any_count(qts, PAGE), ==, 0);
    qtest_clock_step(qts, 1);
    g_assert_cmpuint(word(qts, PAGE, g->ref_clock), ==, 32000 / g->scale);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, MS / g->scale);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==, 0);
    g_assert_cmpuint(word(qts, PAGE, g->hv_cycles), ==, MS / g->scale);
    qtest_clock_step(qts, MS - 1);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, MS / g->scale);
    qtest_clock_step(qts, 1);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 2 * MS / g->scale);

    /* Another period; the one that runs ends as it began */
    set_period(qts, 0, "post-period-ns", 50 * US);
    qtest_clock_step(qts, MS);
    qtest_clock_step(qts, 50 * US);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==,
                     (3 * MS + 50 * US) / g->scale);
    qtest_quit(qts);
}

/* A century passes while nothing can run: one post has all of it, once. */
static void test_clock_jump(const void *data)
{
    const Generation *g = data;
    const uint64_t century = 876000ULL * 3600000 * MS;
    QTestState *qts = start(g, "", "");
    uint64_t busy;

    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, 3 * MS / 2);
    qtest_qmp_assert_success(qts, "{'execute': 'stop'}");
    qtest_clock_step(qts, century);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, MS / g->scale);
    qtest_qmp_assert_success(qts, "{'execute': 'cont'}");
    wait_while(qts, PAGE + g->busy, MS / g->scale);
    busy = word(qts, PAGE, g->busy);
    g_assert_cmpuint(busy, ==, (3 * MS / 2 + century) / g->scale);
    qtest_clock_step(qts, MS - 1);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, busy);
    qtest_clock_step(qts, 1);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==,
                     (5 * MS / 2 + century) / g->scale);
    qtest_quit(qts);
}

/* Lines of 64 bytes, with the time base at both ends of those with counts */
static void test_layout(const void *data)
{
    static const uint16_t p9[] = {
        /* What counts time, from the catalog */
        0x000, 0x018, 0x040, 0x048, 0x080, 0x088, 0x1c8, 0x688,
        0x800, 0x880, 0x8c0, 0x8c8, 0x900, 0x908,
        0x1800, 0x1880, 0x18c0, 0x18c8, 0x1900, 0x1908,
    };
    static const uint16_t p10[] = { 0x018, 0x080, 0x100, 0x388, 0x588, 0x5c8 };
    const Generation *g = data;
    const uint16_t *regs = g == P9 ? p9 : p10;
    unsigned n = g == P9 ? ARRAY_SIZE(p9) : ARRAY_SIZE(p10), i, j;
    QTestState *qts = start(g, "", "-smp 4,cores=1,threads=4");
    bool counts[PAGE_SIZE / 8] = { };

    for (i = 0; i < n; i++) {
        counts[(0x18 + regs[i]) / 8] = true;
    }
    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, MS);
    for (i = 0; i < PAGE_SIZE; i += 64) {
        bool used = false;

        for (j = 3; j <= 6; j++) {
            bool here = counts[i / 8 + j];

            g_assert_cmpint(!!word(qts, PAGE, i + j * 8), ==, here);
            used |= here;
        }
        g_assert_cmphex(word(qts, PAGE, i + 8), ==, 0);
        g_assert_cmphex(word(qts, PAGE, i + 16), ==, 0);
        g_assert_cmphex(word(qts, PAGE, i), ==, word(qts, PAGE, i + 56));
        g_assert_cmpint(!!word(qts, PAGE, i), ==, used);
    }

    /* It goes on, at 512 MHz */
    i = 0x18 & ~63;
    g_assert_cmpuint(word(qts, PAGE, i), ==, MS * 512 / 1000);
    qtest_clock_step(qts, MS);
    g_assert_cmpuint(word(qts, PAGE, i), ==, 2 * MS * 512 / 1000);
    qtest_quit(qts);
}

/* Counters are added to, and what is less than a count is kept */
static void test_carry(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "");
    unsigned i;

    set_period(qts, 0, "post-period-ns", 10 * US + 1);
    set_up(qts, g, 0, 0, PAGE);
    qtest_writeq(qts, PAGE + g->busy, 1000);
    qtest_writeq(qts, PAGE + g->ref_clock, -1);
    qtest_writeq(qts, PAGE + 8, 0x1234);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    for (i = 1; i <= 1000; i++) {
        uint64_t ns = i * (10 * US + 1);

        qtest_clock_step(qts, 10 * US + 1);
        g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 1000 + ns / g->scale);
        g_assert_cmpuint(word(qts, PAGE, g->ref_clock), ==,
                         ns * 32 / 1000 / g->scale - 1);
    }
    g_assert_cmphex(word(qts, PAGE, 8), ==, 0x1234);

    /* A page of its own begins without the rest of another one */
    put(qts, g, 0, 0, R_PDBAR, PAGE_OF(1));
    qtest_clock_step(qts, 500);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->busy), ==, 500 / g->scale);
    qtest_quit(qts);
}

/* Whoever stops an engine, or moves it, finds everything in memory */
static void test_flush(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "-smp 4,cores=2,threads=2");
    uint64_t busy;

    set_up(qts, g, 0, 0, PAGE);
    set_up(qts, g, 0, 1, PAGE_OF(1));
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, 300 * US);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 2 * 300 * US / g->scale);
    qtest_clock_step(qts, 10 * MS);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 2 * 300 * US / g->scale);
    g_assert_cmphex(any_count(qts, PAGE_OF(1)), ==, 0);

    /* Time without the engine is lost */
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    put(qts, g, 0, 1, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, 100 * US);
    put(qts, g, 0, 0, R_PDBAR, PAGE_OF(2));
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 2 * 400 * US / g->scale);
    busy = word(qts, PAGE, g->busy);
    qtest_clock_step(qts, 200 * US);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    put(qts, g, 0, 1, R_HTM_MODE, HTM_STOP);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, busy);
    g_assert_cmpuint(word(qts, PAGE_OF(2), g->busy), ==,
                     2 * 200 * US / g->scale);
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->busy), ==,
                     2 * 300 * US / g->scale);
    qtest_quit(qts);
}

/* Nothing is armed while no engine runs */
static void test_timers(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "");
    int64_t before, after;

    set_up(qts, g, 0, 0, PAGE);
    set_period(qts, 0, "post-period-ns", 10 * US);
    before = qtest_clock_step(qts, 1);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    after = qtest_clock_step_next(qts);
    g_assert_cmpint(after - before, ==, 10 * US);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    before = after;
    after = qtest_clock_step_next(qts);
    g_assert_true(after == before || after - before > 10 * US);

    /* Without PDBAR there is nothing to post */
    put(qts, g, 0, 0, R_PDBAR, 0);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    before = after;
    after = qtest_clock_step_next(qts);
    g_assert_true(after == before || after - before > 10 * US);
    qtest_quit(qts);
}

/* The numbers of POWER9 fit together */
static void test_sums(void)
{
    static const uint32_t both[] = {
        P9_SMT2_CCYC, P9_SMT4_CCYC, P9_CORE_PCYC, P9_PURR, 0x8e0, 0x818, 0x820,
    };
    static const unsigned threads[] = { 1, 2, 4 };
    unsigned i, j;

    for (i = 0; i < ARRAY_SIZE(threads); i++) {
        unsigned n = threads[i];
        g_autofree char *smp = g_strdup_printf("-smp %u,cores=1,threads=%u",
                                               n, n);
        QTestState *qts = start(P9, "", smp);
        uint64_t count = 3 * MS / 512;

        set_up(qts, P9, 0, 0, PAGE);
        put(qts, P9, 0, 0, R_HTM_MODE, HTM_RUN);
        qtest_clock_step(qts, 3 * MS);
        g_assert_cmpuint(word(qts, PAGE, P9_CCYC), ==, count);
        /* All are busy: nobody says otherwise */
        g_assert_cmpuint(word(qts, PAGE, P9_0THRD), ==, 0);
        for (j = 1; j <= 4; j++) {
            g_assert_cmpuint(word(qts, PAGE, P9_NTHRD(j)), ==,
                             j == n ? count : 0);
        }
        g_assert_cmpuint(word(qts, PAGE, P9_SMT2_CCYC), ==,
                         n == 2 ? count : 0);
        g_assert_cmpuint(word(qts, PAGE, P9_SMT4_CCYC), ==,
                         n == 4 ? count : 0);
        g_assert_cmpuint(word(qts, PAGE, P9->busy), ==, n * 3 * MS / 512);
        g_assert_cmpuint(word(qts, PAGE, P9_PURR), ==, n * 3 * MS / 1000);
        for (j = 0; j < ARRAY_SIZE(both); j++) {
            g_assert_cmpuint(word(qts, PAGE, both[j]), ==,
                             word(qts, PAGE, both[j] + USER) +
                             word(qts, PAGE, both[j] + KERNEL));
        }
        qtest_quit(qts);
    }
}

/* More than four busy threads count as four, and the core is in SMT4 mode. */
static void check_big_core_sums(QTestState *qts, uint64_t page, uint64_t count)
{
    unsigned n;

    g_assert_cmpuint(word(qts, page, P9_CCYC), ==, count);
    g_assert_cmpuint(word(qts, page, P9_0THRD), ==, 0);
    for (n = 1; n <= 4; n++) {
        g_assert_cmpuint(word(qts, page, P9_NTHRD(n)), ==, n == 4 ? count : 0);
    }
    g_assert_cmpuint(word(qts, page, P9_ANY_THRD), ==, count);
    g_assert_cmpuint(word(qts, page, P9_ALL_THRD), ==, count);
    g_assert_cmpuint(word(qts, page, P9_SMT2_CCYC), ==, 0);
    g_assert_cmpuint(word(qts, page, P9_SMT4_CCYC), ==, count);
}

/* The cores of a big core have one page and one engine */
static void test_big_core(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, ",big-core=on", "-smp 16,cores=2,threads=8");
    unsigned first, second;

    for (first = 0; first < 4; first++) {
        uint64_t page = PAGE_OF(first);

        second = first ^ 1;
        set_up(qts, g, 0, first, page);
        set_up(qts, g, 0, second, page);
        put(qts, g, 0, first, R_HTM_MODE, HTM_RUN);
        qtest_clock_step(qts, MS);
        /* Started through one, stopped through the other one */
        put(qts, g, 0, second, R_HTM_MODE, HTM_STOP);
        qtest_clock_step(qts, 5 * MS);
        g_assert_cmpuint(word(qts, page, g->busy), ==, 8 * MS / g->scale);
        g_assert_cmpuint(word(qts, page, g->ref_clock), ==,
                         32000 / g->scale);
        if (g == P9) {
            check_big_core_sums(qts, page, MS / g->scale);
        }
    }
    qtest_quit(qts);
}

static void test_chips(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "-smp 16,sockets=2,cores=4,threads=2 -m 2G");
    unsigned chip, core;

    for (chip = 0; chip < 2; chip++) {
        for (core = 0; core < 4; core++) {
            set_up(qts, g, chip, core, PAGE_OF(chip * 4 + core));
            put(qts, g, chip, core, R_HTM_MODE, HTM_RUN);
            qtest_clock_step(qts, 100 * US);
        }
    }
    for (chip = 0; chip < 2; chip++) {
        for (core = 0; core < 4; core++) {
            unsigned nth = chip * 4 + core;

            put(qts, g, chip, core, R_HTM_MODE, HTM_STOP);
            g_assert_cmpuint(word(qts, PAGE_OF(nth), g->busy), ==,
                             2 * (8 - nth) * 100 * US / g->scale);
        }
    }
    qtest_quit(qts);
}

static void test_reset(const void *data)
{
    const Generation *g = data;
    QTestState *qts = start(g, "", "-smp 2,cores=2");
    uint64_t busy;
    unsigned core, reg;

    for (core = 0; core < 2; core++) {
        set_up(qts, g, 0, core, PAGE_OF(core));
        put(qts, g, 0, core, R_TRACE, g->trace);
        put(qts, g, 0, core, R_HTM_MODE, HTM_RUN);
    }
    qtest_clock_step(qts, MS + 500 * US);
    busy = word(qts, PAGE, g->busy);
    g_assert_cmpuint(busy, ==, MS / g->scale);
    qtest_system_reset(qts);
    for (core = 0; core < 2; core++) {
        for (reg = 0; reg < NR_REGS; reg++) {
            g_assert_cmphex(get(qts, g, 0, core, reg), ==, 0);
        }
    }
    qtest_clock_step(qts, 10 * MS);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, busy);

    /* And it starts anew, when somebody starts it */
    put(qts, g, 0, 0, R_PDBAR, PAGE_OF(2));
    qtest_clock_step(qts, 10 * MS);
    g_assert_cmphex(any_count(qts, PAGE_OF(2)), ==, 0);
    set_up(qts, g, 0, 0, PAGE_OF(2));
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, MS);
    g_assert_cmpuint(word(qts, PAGE_OF(2), g->busy), ==, MS / g->scale);
    qtest_quit(qts);
}

/* An empty file for -D */
static char *log_file(void)
{
    char *file = NULL;
    int fd = g_file_open_tmp("pnv-imc-XXXXXX", &file, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    return file;
}

/* How often something is in the log, which is removed then */
static unsigned times_in_log(const char *file, const char *what)
{
    g_autofree char *text = NULL;
    unsigned times = 0;

    g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
    unlink(file);
    for (char *at = text; (at = strstr(at, what)); at++) {
        times++;
    }
    return times;
}

/* Counters where there is no memory: said once, and otherwise harmless */
static void test_bad_address(const void *data)
{
    const Generation *g = data;
    const uint64_t bad[] = {
        0x0003ffffffffe000, 1ull << 30,         /* behind 1 GiB of RAM */
        scom(g, 0, 0, R_HTM_MODE) & ~0x1fffull, /* registers */
        XSCOM_BASE,
    };
    g_autofree char *log = log_file();
    g_autofree char *args = g_strdup_printf("-m 1G -d guest_errors -D %s", log);
    QTestState *qts = start(g, "", args);
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(bad); i++) {
        set_up(qts, g, 0, 0, bad[i]);
        put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
        qtest_clock_step(qts, 5 * MS);
        put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
        g_assert_cmphex(get(qts, g, 0, 0, R_PDBAR), ==, bad[i]);
        g_assert_cmphex(get(qts, g, 0, 0, R_HTM_MODE), ==, HTM_STOP);
    }
    /* The last page of RAM is good */
    set_up(qts, g, 0, 0, (1ull << 30) - PAGE_SIZE);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, MS);
    g_assert_cmpuint(word(qts, (1ull << 30) - PAGE_SIZE, g->busy), ==,
                     MS / g->scale);
    qtest_quit(qts);
    g_assert_cmpuint(times_in_log(log, "no memory for counters"), ==,
                     ARRAY_SIZE(bad));
}

static uint64_t get_period(QTestState *qts, const char *name)
{
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'qom-get', 'arguments': { "
                           "'path': '/machine/chip[0]/imc', "
                           "'property': %s } }", name);
    uint64_t ns = qdict_get_int(rsp, "return");

    qobject_unref(rsp);
    return ns;
}

/* Periods are from 10 us to 1 s; a refused value changes nothing. */
static void test_properties(const void *data)
{
    static const char *names[] = { "post-period-ns", "trace-min-period-ns" };
    static const uint64_t good[] = { 10 * US, 1000 * MS, 20 * US };
    static const uint64_t bad[] = {
        0, 10 * US - 1, 1000 * MS + 1, 1ull << 32 | 10 * US,
    };
    QTestState *qts = start(data, "", "");
    unsigned i, j;

    for (i = 0; i < ARRAY_SIZE(names); i++) {
        for (j = 0; j < ARRAY_SIZE(good); j++) {
            set_period(qts, 0, names[i], good[j]);
            g_assert_cmpuint(get_period(qts, names[i]), ==, good[j]);
        }
        for (j = 0; j < ARRAY_SIZE(bad); j++) {
            QDict *error = qtest_qmp_assert_failure_ref(qts,
                "{ 'execute': 'qom-set', 'arguments': { 'path': "
                "'/machine/chip[0]/imc', 'property': %s, 'value': %" PRIu64
                " } }", names[i], bad[j]);

            g_assert_nonnull(strstr(qdict_get_str(error, "desc"), names[i]));
            qobject_unref(error);
            g_assert_cmpuint(get_period(qts, names[i]), ==, 20 * US);
        }
    }
    qtest_quit(qts);
}

static char *try_set(QTestState *qts, unsigned chip, const char *property,
                     const char *value)
{
    g_autofree char *path = g_strdup_printf("/machine/chip[%u]/imc", chip);
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'qom-set', 'arguments': { "
                           "'path': %s, 'property': %s, 'value': %s } }",
                           path, property, value);
    QDict *error = qdict_get_qdict(rsp, "error");
    char *desc = error ? g_strdup(qdict_get_str(error, "desc")) : NULL;

    qobject_unref(rsp);
    return desc;
}

static void set(QTestState *qts, unsigned chip, const char *property,
                const char *value)
{
    g_autofree char *error = try_set(qts, chip, property, value);

    g_assert_cmpstr(error, ==, NULL);
}

static void assert_refused(QTestState *qts, const char *property,
                           const char *value, const char *why)
{
    g_autofree char *error = try_set(qts, 0, property, value);

    g_assert_nonnull(error);
    if (!strstr(error, why)) {
        g_test_message("%s=%s: %s", property, value, error);
    }
    g_assert_nonnull(strstr(error, why));
    g_assert_null(strchr(error, '\n'));
}

/* What "engines" says of a core of a chip, or of a thread of it */
static int64_t query_chip(QTestState *qts, unsigned chip, unsigned core,
                          int thread, const char *what)
{
    g_autofree char *path = g_strdup_printf("/machine/chip[%u]/imc", chip);
    QDict *rsp = qtest_qmp(qts, "{ 'execute': 'qom-get', 'arguments': { "
                           "'path': %s, 'property': 'engines' } }", path);
    QListEntry *entry;
    int64_t found = -1;

    QLIST_FOREACH_ENTRY(qdict_get_qlist(rsp, "return"), entry) {
        QDict *dict = qobject_to(QDict, qlist_entry_obj(entry));
        QListEntry *t;
        int i = 0;

        if (qdict_get_int(dict, "core") != core) {
            continue;
        }
        if (thread >= 0) {
            QLIST_FOREACH_ENTRY(qdict_get_qlist(dict, "threads"), t) {
                if (i++ == thread) {
                    dict = qobject_to(QDict, qlist_entry_obj(t));
                    break;
                }
            }
        }
        found = qobject_type(qdict_get(dict, what)) == QTYPE_QBOOL
                ? qdict_get_bool(dict, what) : qdict_get_int(dict, what);
        break;
    }
    qobject_unref(rsp);
    return found;
}

static int64_t query(QTestState *qts, unsigned core, int thread,
                     const char *what)
{
    return query_chip(qts, 0, core, thread, what);
}

/* Events that no emulator can know: of cores, and of threads */
typedef struct MadeUp {
    const char *core;
    uint32_t core_at;
    const char *thread;
    uint32_t thread_at;
} MadeUp;

static const MadeUp *made_up(const Generation *g)
{
    static const MadeUp p9 = {
        "CPM_CS_DTLB_MISS_2M", 0x9d8, "CPM_CS_FLOP_USER", 0x1158,
    };
    static const MadeUp p10 = {
        "CPM_DERAT_MISS", 0xa0, "CPM_MMA_DISP", 0x618,
    };

    return g == P9 ? &p9 : &p10;
}

/* What a user makes up for cores is there, and replaces nothing that counts. */
static void test_core_synthetic(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *list = g_strdup_printf(
        "%s@0=rate:2048,core_imc/%s@1=const:51200,CPM_NON_IDLE_PCYC=const:1",
        m->core, m->core);
    g_autofree char *args = g_strdup_printf(
        "-smp 2,cores=2 -global pnv-imc.core-synthetic=%s", list);
    g_autofree char *by_number = g_strdup_printf("0x%x=const:1024",
                                                 m->core_at);
    QTestState *qts = start(g, "", args);
    unsigned core;

    for (core = 0; core < 2; core++) {
        set_up(qts, g, 0, core, PAGE_OF(core));
        put(qts, g, 0, core, R_HTM_MODE, HTM_RUN);
    }
    qtest_clock_step(qts, 5 * MS);
    g_assert_cmpuint(word(qts, PAGE_OF(0), m->core_at), ==,
                     5 * 2048 * 1000 / g->scale);
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->core_at), ==,
                     5 * 51200 / g->scale);
    for (core = 0; core < 2; core++) {
        g_assert_cmpuint(word(qts, PAGE_OF(core), g->busy), ==,
                         5 * MS / g->scale);
        g_assert_cmpint(query(qts, core, -1, "posts"), ==, 5);
        g_assert_cmpint(query(qts, core, -1, "runs"), ==, true);
        g_assert_cmpint(query(qts, core, -1, "counts"), ==, true);
        g_assert_cmpint(query(qts, core, -1, "address"), ==, PAGE_OF(core));
        g_assert_cmpint(query(qts, core, 0, "counts"), ==, false);
    }

    /* At run time, too, by offset; and an error changes nothing */
    set(qts, 0, "core-synthetic", by_number);
    assert_refused(qts, "core-synthetic", "CPM_NONE=const:1", "bad event");
    assert_refused(qts, "core-synthetic", "core_imc/=const:1", "bad event");
    assert_refused(qts, "core-synthetic", "0x2000=const:1", "up to 0x1ff8");
    assert_refused(qts, "core-synthetic", "demo", "not of the form");
    assert_refused(qts, "core-synthetic", "0x8=const:1", "no event is there");
    assert_refused(qts, "core-synthetic", "0x0-0x10=const:1",
                   "no event is there");
    qtest_clock_step(qts, 2 * MS);
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->core_at), ==,
                     (5 * 51200 + 2 * 1024) / g->scale);
    set(qts, 0, "core-synthetic", "");
    qtest_clock_step(qts, 2 * MS);
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->core_at), ==,
                     (5 * 51200 + 2 * 1024) / g->scale);
    qtest_quit(qts);
}

/* A change of the list is a post: the time until then has the old values. */
static void test_core_synthetic_change(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *slow = g_strdup_printf("%s=rate:512", m->core);
    g_autofree char *fast = g_strdup_printf("%s=rate:5120", m->core);
    QTestState *qts = start(g, "", "");

    set(qts, 0, "core-synthetic", slow);
    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, MS + 300 * US);
    set(qts, 0, "core-synthetic", fast);
    g_assert_cmpuint(word(qts, PAGE, m->core_at), ==, 1300 * 512 / g->scale);
    /* Twice at the same moment is one post */
    set(qts, 0, "core-synthetic", fast);
    g_assert_cmpint(query(qts, 0, -1, "posts"), ==, 2);
    qtest_clock_step(qts, 700 * US);
    g_assert_cmpuint(word(qts, PAGE, m->core_at), ==,
                     (1300 * 512 + 700 * 5120) / g->scale);
    qtest_quit(qts);
}

/*
 * Each kind, on each core of two chips: rate adds the number of the core, ramp
 * goes from post to post, noise stays within its limits, "@" chooses.
 */
static void test_core_kinds(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *rate = g_strdup_printf("%s=rate:512", m->core);
    g_autofree char *ramp = g_strdup_printf("%s@1-2=ramp:512:2560:4", m->core);
    g_autofree char *noise = g_strdup_printf("%s=noise:51200:10", m->core);
    g_autofree char *one = g_strdup_printf("%s@1=5120", m->core);
    QTestState *qts = start(g, "", "-smp 8,sockets=2,cores=4 -m 2G");
    uint64_t before, now, other = 0;
    unsigned chip, core, i;

    set(qts, 1, "core-synthetic", rate);
    for (chip = 0; chip < 2; chip++) {
        for (core = 0; core < 4; core++) {
            set_up(qts, g, chip, core, PAGE_OF(chip * 4 + core));
            put(qts, g, chip, core, R_HTM_MODE, HTM_RUN);
        }
    }
    qtest_clock_step(qts, 512 * MS);
    for (core = 0; core < 4; core++) {
        g_assert_cmpuint(word(qts, PAGE_OF(core), m->core_at), ==, 0);
        g_assert_cmpuint(word(qts, PAGE_OF(4 + core), m->core_at), ==,
                         512 * (512000 + core) / g->scale);
    }

    /* Once, to one core of the second chip */
    before = word(qts, PAGE_OF(5), m->core_at);
    set(qts, 1, "core-synthetic", "");
    set(qts, 1, "core-add", one);
    qtest_clock_step(qts, MS);
    g_assert_cmpuint(word(qts, PAGE_OF(5), m->core_at) - before, ==,
                     5120 / g->scale);
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->core_at), ==, 0);
    g_assert_cmpuint(word(qts, PAGE_OF(4), m->core_at), ==,
                     512 * 512000 / g->scale);

    /* Starts of the engine are starts of the ramp */
    for (core = 0; core < 4; core++) {
        put(qts, g, 0, core, R_HTM_MODE, HTM_STOP);
        put(qts, g, 0, core, R_HTM_MODE, HTM_RUN);
    }
    set(qts, 0, "core-synthetic", ramp);
    for (i = 0; i < 6; i++) {
        before = word(qts, PAGE_OF(1), m->core_at);
        qtest_clock_step(qts, MS);
        g_assert_cmpuint(word(qts, PAGE_OF(1), m->core_at) - before, ==,
                         1000 * 512 * (1 + MIN(i, 4)) / g->scale);
    }
    g_assert_cmpuint(word(qts, PAGE_OF(2), m->core_at), ==,
                     word(qts, PAGE_OF(1), m->core_at));
    g_assert_cmpuint(word(qts, PAGE_OF(0), m->core_at), ==, 0);
    g_assert_cmpuint(word(qts, PAGE_OF(3), m->core_at), ==, 0);

    set(qts, 0, "core-synthetic", noise);
    for (i = 0; i < 6; i++) {
        before = word(qts, PAGE_OF(0), m->core_at);
        qtest_clock_step(qts, MS);
        now = word(qts, PAGE_OF(0), m->core_at) - before;
        g_assert_cmpuint(now + 1, >=, 51200000 / 10 * 9 / g->scale);
        g_assert_cmpuint(now, <=, 51200000 / 10 * 11 / g->scale + 1);
        g_assert_cmpuint(now, !=, other);
        other = now;
    }
    qtest_quit(qts);
}

/* Once, with the next post, to whoever counts; also to what is counted */
static void test_core_add(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *both = g_strdup_printf(
        "%s=512,core_imc/CPM_NON_IDLE_PCYC@1=5120", m->core);
    g_autofree char *half = g_strdup_printf("%s=512,%s@7=1", m->core, m->core);
    g_autofree char *one = g_strdup_printf("%s=1", m->core);
    g_autofree char *most = g_strdup_printf("%s=%" PRIu64, m->core, UINT64_MAX);
    QTestState *qts = start(g, "", "-smp 2,cores=2");
    unsigned core;

    assert_refused(qts, "core-add", one, "no core counts that now");
    for (core = 0; core < 2; core++) {
        set_up(qts, g, 0, core, PAGE_OF(core));
        put(qts, g, 0, core, R_HTM_MODE, HTM_RUN);
    }
    qtest_clock_step(qts, 500 * US);
    set(qts, 0, "core-add", both);
    assert_refused(qts, "core-add", half, "no core counts that now");
    assert_refused(qts, "core-add", "CPM_NONE=1", "EVENT[@CORE]=COUNT");
    assert_refused(qts, "core-add", "0x8=1", "no event is there");
    assert_refused(qts, "thread-add", "0x8=1", "no event is there");
    assert_refused(qts, "thread-add", one, "no thread counts that now");
    assert_refused(qts, "thread-add", "=1", "EVENT[@PIR]=COUNT");
    g_assert_cmpuint(word(qts, PAGE_OF(0), m->core_at), ==, 0);
    qtest_clock_step(qts, 500 * US);
    for (core = 0; core < 2; core++) {
        g_assert_cmpuint(word(qts, PAGE_OF(core), m->core_at), ==,
                         512 / g->scale);
        g_assert_cmpuint(word(qts, PAGE_OF(core), g->busy), ==,
                         (MS + (core ? 5120 : 0)) / g->scale);
    }
    qtest_clock_step(qts, MS);
    g_assert_cmpuint(word(qts, PAGE_OF(0), m->core_at), ==, 512 / g->scale);

    /* More than a post can take: the most, and not what is left of a wrap */
    qtest_writeq(qts, PAGE_OF(0) + m->core_at, 0);
    set(qts, 0, "core-add", most);
    set(qts, 0, "core-add", most);
    qtest_clock_step(qts, MS);
    g_assert_cmphex(word(qts, PAGE_OF(0), m->core_at), ==,
                    UINT64_MAX / g->scale);
    qtest_quit(qts);
}

/* Run QEMU until it refuses its options; what does it say? */
static char *refused(const char *machine, const char *option, const char *value)
{
    char *text = NULL;
    const char *argv[] = {
        g_getenv("QTEST_QEMU_BINARY"), "-M", machine, "-display", "none", "-S",
        "-serial", "null", "-monitor", "none", option, value, NULL,
    };
    int status;

    g_assert_true(g_spawn_sync(NULL, (char **)argv, NULL,
                               G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
                               &text, &status, NULL));
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    return text;
}

/*
 * The state of these machines is not migrated, saved or loaded, so that it must
 * not seem so.
 */
static void test_no_migration(const void *data)
{
    const Generation *g = data;
    const char *why = "non-migratable device 'pnv-imc (imc=on)'";
    QTestState *qts = start(g, "", "");
    g_autofree char *hmp = NULL;
    g_autofree char *machine = g_strdup_printf("%s,imc=on", g->machine);
    g_autofree char *only = NULL;
    g_autofree char *incoming = NULL;
    g_autofree char *file = NULL;
    g_autofree char *uri = NULL;
    QDict *error = qtest_qmp_assert_failure_ref(qts,
        "{ 'execute': 'migrate', 'arguments': { 'uri': 'file:/dev/null' } }");
    int fd;

    g_assert_nonnull(strstr(qdict_get_str(error, "desc"), why));
    qobject_unref(error);
    qtest_qmp_assert_success(qts, "{ 'execute': 'query-status' }");
    hmp = qtest_hmp(qts, "savevm now");
    g_assert_nonnull(strstr(hmp, why));
    qtest_quit(qts);

    only = refused(machine, "-only-migratable", NULL);
    g_assert_nonnull(strstr(only, "pnv-imc-POWER"));
    g_assert_nonnull(strstr(only, "--only-migratable"));

    /* The stream of a machine without counters */
    fd = g_file_open_tmp("pnv-imc-XXXXXX", &file, NULL);
    g_assert_cmpint(fd, >=, 0);
    close(fd);
    uri = g_strdup_printf("file:%s", file);
    qts = qtest_initf("-M %s -S", g->machine);
    qtest_qmp_assert_success(qts, "{ 'execute': 'migrate', 'arguments': { "
                             "'uri': %s } }", uri);
    for (;;) {
        QDict *rsp = qtest_qmp(qts, "{ 'execute': 'query-migrate' }");
        const char *status = qdict_get_str(qdict_get_qdict(rsp, "return"),
                                           "status");
        bool completed = !strcmp(status, "completed");

        g_assert_cmpstr(status, !=, "failed");
        qobject_unref(rsp);
        if (completed) {
            break;
        }
        g_usleep(1000);
    }
    qtest_quit(qts);
    incoming = refused(machine, "-incoming", uri);
    g_assert_nonnull(strstr(incoming, why));
    unlink(file);
}

/* Compile a catalog of the test's own; returns options of QEMU. */
static char *catalog_args(const char *source, char **file)
{
    g_autofree char *dts = NULL;
    const char *dtc[] = { "dtc", "-q", "-O", "dtb", "-o", NULL, NULL, NULL };
    int fd = g_file_open_tmp("pnv-imc-XXXXXX", &dts, NULL), status;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    *file = g_strconcat(dts, ".dtb", NULL);
    g_assert_true(g_file_set_contents(dts, source, -1, NULL));
    dtc[5] = *file;
    dtc[6] = dts;
    g_assert_true(g_spawn_sync(NULL, (char **)dtc, NULL, G_SPAWN_SEARCH_PATH,
                               NULL, NULL, NULL, NULL, &status, NULL));
    g_assert_cmpint(status, ==, 0);
    unlink(dts);
    return g_strdup_printf("-global pnv-imc.catalog=%s", *file);
}

/* A catalog of the user's own says where events are. */
static void test_catalog(const void *data)
{
    const Generation *g = data;
    static const char source[] =
        "/dts-v1/; / { #address-cells = <1>; #size-cells = <1>;"
        "compatible = \"ibm,opal-in-memory-counters\";"
        "core_events: core-events { #address-cells = <1>; #size-cells = <1>;"
        " event@0 { reg = <0x40 8>; event-name = \"CCYC\"; };"
        " event@1 { reg = <0x48 8>; event-name = \"CS_INST_USER\"; };"
        " event@2 { reg = <0x80 8>; event-name = \"WIDGETS\"; scale = \"7\"; };"
        "};"
        "core@18 { compatible = \"ibm,imc-counters\"; type = <0x4>;"
        " size = <0x2000>; reg = <0x18 0x2000>; events = <&core_events>;"
        " events-prefix = \"CPM_\"; scale = \"1000\"; };"
        "};";
    g_autofree char *dtb = NULL;
    g_autofree char *catalog = catalog_args(source, &dtb);
    g_autofree char *args = g_strdup_printf("%s -global "
        "pnv-imc.core-synthetic=CPM_WIDGETS=const:100", catalog);
    QTestState *qts = start(g, "", args);

    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    qtest_clock_step(qts, 5 * MS);
    g_assert_cmpuint(word(qts, PAGE, 0x58), ==, 5 * MS / 1000);
    g_assert_cmpuint(word(qts, PAGE, 0x60), ==, 0);
    g_assert_cmpuint(word(qts, PAGE, 0x98), ==, 500 / 7);
    /* and not where QEMU's catalog has it */
    g_assert_cmpuint(word(qts, PAGE, P9_CCYC + 8), ==, 0);
    g_assert_cmpuint(word(qts, PAGE, g->busy), ==, 0);
    qtest_quit(qts);
    unlink(dtb);
}

/*
 * CPUs that execute code
 */

/* Instructions */
#define LD(rt, addr)    (58u << 26 | (rt) << 21 | (addr))
#define STD(rs, ra)     (62u << 26 | (rs) << 21 | (ra) << 16)
#define STD_AT(rs, addr) (62u << 26 | (rs) << 21 | (addr))
#define LI(rt, value)   (14u << 26 | (rt) << 21 | ((value) & 0xffff))
#define SPR_FIELD(n)    (((n) & 0x1f) << 16 | ((n) >> 5) << 11)
#define MTSPR(n, rs)    (31u << 26 | (rs) << 21 | SPR_FIELD(n) | 467 << 1)
#define MFSPR(rt, n)    (31u << 26 | (rt) << 21 | SPR_FIELD(n) | 339 << 1)
#define ANDI(ra, rs, n) (28u << 26 | (rs) << 21 | (ra) << 16 | (n))
#define BNE(words)      (0x40820000 | (((words) * 4) & 0xfffc))
#define BEQ(words)      (0x41820000 | (((words) * 4) & 0xfffc))
#define B(words)        (0x48000000 | (((words) * 4) & 0x3fffffc))
#define BDNZ(words)     (0x42000000 | (((words) * 4) & 0xfffc))
#define BDNZ_HERE       BDNZ(0)
#define NOP             0x60000000
#define MTVSRDD(vrt, ra, rb) (31u << 26 | (vrt) << 21 | (ra) << 16 | \
                         (rb) << 11 | 435 << 1 | 1)
#define XSSQRTQP(vrt, vrb) (63u << 26 | (vrt) << 21 | 27 << 16 | \
                         (vrb) << 11 | 804 << 1)
#define STOP            0x4c0002e4
#define RFID            0x4c000024
#define HRFID           0x4c000224
#define MFMSR(rt)       (31u << 26 | (rt) << 21 | 83 << 1)
#define LWARX(rt, rb)   (31u << 26 | (rt) << 21 | (rb) << 11 | 20 << 1)
#define STWCX(rs, rb)   (31u << 26 | (rs) << 21 | (rb) << 11 | 150 << 1 | 1)
#define TLBIEL(rb)      (31u << 26 | (rb) << 11 | 274 << 1)
#define TLBIE(rb)       (31u << 26 | (rb) << 11 | 306 << 1)
#define SC(lev)         (17u << 26 | (lev) << 5 | 2)
#define MTMSRD(rs)      (31u << 26 | (rs) << 21 | 178 << 1)
#define MSGSND(rb)      (31u << 26 | (rb) << 11 | 206 << 1)
#define LIS(rt, value)  (15u << 26 | (rt) << 21 | (value))
#define ORI(ra, rs, n)  (24u << 26 | (rs) << 21 | (ra) << 16 | (n))
#define XORI(ra, rs, n) (26u << 26 | (rs) << 21 | (ra) << 16 | (n))
#define ADDI(rt, ra, n) (14u << 26 | (rt) << 21 | (ra) << 16 | ((n) & 0xffff))
#define ADD(rt, ra, rb) (31u << 26 | (rt) << 21 | (ra) << 16 | (rb) << 11 | \
                         266 << 1)
#define MULLI(rt, ra, n) (7u << 26 | (rt) << 21 | (ra) << 16 | (n))
#define CMPDI(ra, n)    (11u << 26 | 1u << 21 | (ra) << 16 | ((n) & 0xffff))
#define MSR_EE          0x8000
#define SRR1            27
#define HSRR1           315
#define LPCR            318
#define LPIDR           319
#define LPCR_HVICE      2
#define CTR             9
#define CTRL            152
#define PTCR            464
#define SRR0            26
#define DEC             22
#define PIR             1023
#define LDBAR           850
#define PSSCR           855
#define TBL             268
#define TIR             446
#define FSCR            153
#define HFSCR           190
#define FACILITY_EBB    0x80
#define PMC6            792
#define MMCR0           795
#define MMCR0_FC_HIGH   0x8000
#define MMCR0_EBE_HIGH  0x10
#define MMCR0_PMCJCE    0x4000
#define BESCR           806
#define BESCR_PMEO      1
#define MSR_PR          0x4000

/* What the programs load: at these addresses */
#define DATA_HTM        0x800
#define DATA_HTM_RUN    0x808
#define DATA_HTM_STOP   0x810
#define DATA_LDBAR      0x818
#define DATA_TIMES      0x820
#define DATA_DONE       0x828
#define DATA_OTHER      0x830
#define DATA_LDBAR_1    0x838
#define DATA_TRACE_AT   0x840
#define DATA_TRACE      0x848

typedef struct Program {
    uint32_t *code;
    size_t words;
    uint64_t ldbar;
    uint64_t ldbar_1;
    uint64_t times;
    const uint32_t *handler;    /* of the interrupt at this vector */
    size_t handler_words;
    unsigned vector;
} Program;

/* A machine with a program as firmware: execution starts at 0x10. */
static QTestState *run(const Generation *g, const Program *p,
                       const char *machine, const char *args)
{
    g_autofree char *file = NULL;
    g_autofree char *all = NULL;
    uint8_t image[0x1000] = { };
    QTestState *qts;
    unsigned i;
    int fd;

    g_assert_cmpuint(p->words, <, (DATA_HTM - 0x10) / 4);
    for (i = 0; i < p->words; i++) {
        stl_be_p(image + 0x10 + i * 4, p->code[i]);
    }
    /* The decrementer begins with an interrupt: it is put off. */
    stl_be_p(image + 0x900, MTSPR(DEC, 22));
    stl_be_p(image + 0x904, RFID);
    for (i = 0; i < p->handler_words; i++) {
        stl_be_p(image + p->vector + i * 4, p->handler[i]);
    }
    stq_be_p(image + DATA_HTM, scom(g, 0, 0, R_HTM_MODE));
    stq_be_p(image + DATA_HTM_RUN, HTM_RUN);
    stq_be_p(image + DATA_HTM_STOP, HTM_STOP);
    stq_be_p(image + DATA_LDBAR, p->ldbar);
    stq_be_p(image + DATA_LDBAR_1, p->ldbar_1);
    stq_be_p(image + DATA_TIMES, p->times);

    fd = g_file_open_tmp("pnv-imc-XXXXXX", &file, NULL);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, image, sizeof(image)), ==, sizeof(image));
    close(fd);
    /* SCOMs before the program starts are the test's, so it waits. */
    all = g_strdup_printf("-accel tcg -S -bios %s %s", file, args);
    qts = start(g, machine, all);
    unlink(file);
    return qts;
}

static void go(QTestState *qts)
{
    qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
}

static void wait_for(QTestState *qts, uint64_t addr)
{
    wait_while(qts, addr, 0);
}

/*
 * Thread 0 counts a loop, then says so; the other one looks at its own LDBAR
 * until then.
 */
static uint32_t thread_program[] = {
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(21),            /* without RUN, it counts nothing */
    LI(3, 1),
    MTSPR(CTRL, 3),
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),
    LD(8, DATA_TIMES),
    LI(9, 0),
    MTSPR(CTR, 8),
    STD(5, 4),
    NOP,                /* the core counts from here */
    MTSPR(LDBAR, 7),
    BDNZ_HERE,          /* the thread, too, from here */
    MTSPR(LDBAR, 9),    /* to here */
    NOP,
    NOP,
    STD(6, 4),          /* to here */
    LI(3, 1),
    STD_AT(3, DATA_DONE),
    B(0),
    MFSPR(3, LDBAR),    /* the other thread */
    STD_AT(3, DATA_OTHER),
    B(-2),
};

static void check_thread(const Generation *g, const char *machine,
                         const char *args, uint64_t times)
{
    Program p = {
        thread_program, ARRAY_SIZE(thread_program),
        .ldbar = LDBAR_ENABLE | PAGE_OF(1), .times = times,
    };
    QTestState *qts = run(g, &p, machine, args);
    uint64_t core;

    set_up(qts, g, 0, 0, PAGE);
    qtest_writeq(qts, PAGE_OF(1) + g->hv_insns, 100);
    go(qts);
    wait_for(qts, DATA_DONE);
    /* bdnz each time, and mtspr */
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->hv_insns), ==,
                     100 + (times + 1) / g->scale);
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->prob_insns), ==, 0);
    core = word(qts, PAGE, g->hv_insns);
    /* And nop, mtspr, nop, nop, std */
    g_assert_cmpuint(core, ==, (times + 6) / g->scale);
    g_assert_cmphex(qtest_readq(qts, DATA_OTHER), ==, 0);

    /* It is over */
    g_usleep(20000);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==, core);
    qtest_quit(qts);
}

static void test_thread(const void *data)
{
    check_thread(data, "", "-smp 1", 1000);
    check_thread(data, "", "-smp 1", 100000000);
    check_thread(data, "", "-smp 1 -icount shift=0,sleep=off", 12345678);
    check_thread(data, "", "-smp 2,cores=1,threads=2", 10000000);
    check_thread(data, ",lpar-per-core=on", "-smp 2,cores=1,threads=2",
                 10000000);
    check_thread(data, ",big-core=on", "-smp 8,cores=1,threads=8", 10000000);
}

/* Vectors on; a number whose square root takes long is in VSR 32 */
static const uint32_t slow_start[] = {
    LI(3, 1),
    MTSPR(CTRL, 3),
    MFMSR(7),
    LIS(8, 0x280),
    ADD(7, 7, 8),
    MTMSRD(7),
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(9, DATA_TIMES),
    MTVSRDD(0, 9, 9),
};
#define SLOW            XSSQRTQP(1, 0)
#define SLOW_NUMBER     0x4000123456789abc      /* 2.14 */

static void add_code(Program *p, uint32_t insn, unsigned times)
{
    while (times--) {
        p->code[p->words++] = insn;
    }
}

static void add_slow_start(Program *p)
{
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(slow_start); i++) {
        add_code(p, slow_start[i], 1);
    }
}

/* The core counts @before + 1 instructions, and then not the next @after. */
static void add_counted(Program *p, unsigned before, unsigned after)
{
    add_code(p, STD(5, 4), 1);
    add_code(p, SLOW, before);
    add_code(p, STD(6, 4), 1);
    add_code(p, NOP, after);
}

/*
 * A post while a thread is in the middle of a block does not count the rest of
 * that block: an instruction in between may stop the engine.
 */
static void test_thread_early_stop(const void *data)
{
    enum { BEFORE = 360, AFTER = 110, ROUNDS = 300 };
    const Generation *g = data;
    uint32_t code[ARRAY_SIZE(slow_start) + BEFORE + AFTER + 20];
    Program p = { code, .times = SLOW_NUMBER };
    QTestState *qts;
    unsigned i, start;

    add_slow_start(&p);
    start = p.words;
    add_counted(&p, BEFORE, AFTER);
    add_code(&p, STD_AT(3, DATA_DONE), 1);
    add_code(&p, LD(7, DATA_DONE), 1);
    add_code(&p, CMPDI(7, 0), 1);
    add_code(&p, BNE(-2), 1);
    add_code(&p, B((int)(start - p.words)), 1);

    qts = run(g, &p, "", "-smp 1");
    set_up(qts, g, 0, 0, PAGE);
    set_period(qts, 0, "post-period-ns", 10000);
    go(qts);
    for (i = 1; i <= ROUNDS; i++) {
        wait_for(qts, DATA_DONE);
        g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==,
                         i * (BEFORE + 1) / g->scale);
        qtest_writeq(qts, DATA_DONE, 0);
    }
    qtest_quit(qts);
}

/* Let QEMU's main loop post again and again, until the program has ended. */
static void post_until_done(QTestState *qts)
{
    unsigned tries = 0;

    /* Slices of 375 instructions, which is no whole number of rounds */
    set_period(qts, 0, "post-period-ns", 12000);
    go(qts);
    while (!qtest_readq(qts, DATA_DONE)) {
        set(qts, 0, "core-synthetic", "");  /* the cores post before it */
        g_assert_cmpuint(++tries, <, 3000000);
    }
}

/*
 * The same for posts of QEMU's main loop with -icount, where a thread may have
 * begun the last block that it executes before a timer is due.
 */
static void test_thread_early_stop_icount(const void *data)
{
    enum { BEFORE = 300, AFTER = 110, ROUNDS = 3000 };
    const Generation *g = data;
    uint32_t code[ARRAY_SIZE(slow_start) + BEFORE + AFTER + 20];
    Program p = { code, .times = SLOW_NUMBER };
    QTestState *qts;
    unsigned start;

    add_slow_start(&p);
    add_code(&p, LI(10, ROUNDS), 1);
    add_code(&p, MTSPR(CTR, 10), 1);
    start = p.words;
    add_counted(&p, BEFORE, AFTER);
    add_code(&p, BDNZ((int)(start - p.words)), 1);
    add_code(&p, STD_AT(3, DATA_DONE), 1);
    add_code(&p, B(0), 1);

    qts = run(g, &p, "", "-smp 1 -icount shift=5,sleep=off");
    set_up(qts, g, 0, 0, PAGE);
    post_until_done(qts);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==,
                     ROUNDS * (BEFORE + 1) / g->scale);
    qtest_quit(qts);
}

/*
 * When a core begins to count, the block of instructions in which a thread is
 * does not count, even if the thread counts already: all that counts is a
 * number of turns of its loop.
 */
static void test_thread_late_start(void)
{
    enum { BEFORE = 300, TURN = 151, ROUNDS = 50 };
    uint32_t code[ARRAY_SIZE(slow_start) + BEFORE + TURN + 20];
    Program p = {
        code, .ldbar = LDBAR_ENABLE | PAGE_OF(1), .times = SLOW_NUMBER,
    };
    QTestState *qts;
    uint64_t counted = 0, before;
    unsigned i;

    add_slow_start(&p);
    add_code(&p, LD(7, DATA_LDBAR), 1);
    add_code(&p, MTSPR(LDBAR, 7), 1);
    add_code(&p, STD_AT(3, DATA_DONE), 1);
    /* A block that is larger than the others */
    add_code(&p, NOP, BEFORE);
    add_code(&p, SLOW, TURN - 1);
    add_code(&p, B(1 - TURN), 1);

    qts = run(P10, &p, "", "-smp 1");
    set_up(qts, P10, 0, 0, 0);              /* no memory: nothing counts */
    put(qts, P10, 0, 0, R_HTM_MODE, HTM_RUN);
    go(qts);
    wait_for(qts, DATA_DONE);
    for (i = 0; i < ROUNDS; i++) {
        before = counted;
        put(qts, P10, 0, 0, R_PDBAR, PAGE);
        /* A loaded host may not let the thread run for a while */
        wait_while(qts, PAGE + P10->hv_insns, before);
        qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
        put(qts, P10, 0, 0, R_PDBAR, 0);
        qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
        counted = word(qts, PAGE, P10->hv_insns);
        g_assert_cmpuint(counted, >, before);
        g_assert_cmpuint((counted - before) % TURN, ==, 0);
    }
    qtest_quit(qts);
}

/* The same for threads, whose unit is the PIR */
static void test_thread_synthetic(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *args = g_strdup_printf("-smp 1 -global "
        "pnv-imc.thread-synthetic=thread_imc/%s@0=const:5120,%s@1=const:1",
        m->thread, m->thread);
    Program p = {
        thread_program, ARRAY_SIZE(thread_program), .times = 10000000,
        .ldbar = LDBAR_ENABLE | PAGE_OF(1),
    };
    QTestState *qts = run(g, &p, "", args);

    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpint(query(qts, 0, 0, "posts"), >, 0);
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->thread_at), ==,
                     query(qts, 0, 0, "posts") * 5120 / g->scale);
    /* Not for the core */
    g_assert_cmpuint(word(qts, PAGE, m->thread_at), ==, 0);
    qtest_quit(qts);
}

/*
 * A catalog can move the events of threads: each is where it says, and there
 * only; the others are where cores have them.
 */
static void test_thread_catalog(const void *data)
{
    const Generation *g = data;
    static const char source[] =
        "/dts-v1/; / { #address-cells = <1>; #size-cells = <1>;"
        "compatible = \"ibm,opal-in-memory-counters\";"
        "core_events: core-events { #address-cells = <1>; #size-cells = <1>;"
        " event@0 { reg = <0x40 8>; event-name = \"NON_IDLE_INST\"; };"
        " event@1 { reg = <0x48 8>; event-name = \"32MHZ_CYC\"; };"
        " event@2 { reg = <0x80 8>; event-name = \"WIDGETS\"; };"
        "};"
        "thread_events: thread-events { #address-cells = <1>;"
        " #size-cells = <1>;"
        " event@0 { reg = <0x140 8>; event-name = \"NON_IDLE_INST\"; };"
        " event@1 { reg = <0x148 8>; event-name = \"WIDGETS\"; };"
        "};"
        "core@18 { compatible = \"ibm,imc-counters\"; type = <0x4>;"
        " size = <0x2000>; reg = <0x18 0x2000>; events = <&core_events>;"
        " events-prefix = \"CPM_\"; scale = \"1\"; };"
        "thread@18 { compatible = \"ibm,imc-counters\"; type = <0x1>;"
        " size = <0x2000>; reg = <0x18 0x2000>; events = <&thread_events>;"
        " events-prefix = \"CPM_\"; scale = \"10\"; };"
        "};";
    g_autofree char *dtb = NULL;
    g_autofree char *catalog = catalog_args(source, &dtb);
    g_autofree char *args = g_strdup_printf("-smp 1 %s -global "
        "pnv-imc.thread-synthetic=CPM_WIDGETS=const:30", catalog);
    Program p = {
        thread_program, ARRAY_SIZE(thread_program), .times = 20000000,
        .ldbar = LDBAR_ENABLE | PAGE_OF(1),
    };
    QTestState *qts = run(g, &p, "", args);

    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(word(qts, PAGE_OF(1), 0x158), ==, (p.times + 1) / 10);
    g_assert_cmpuint(word(qts, PAGE_OF(1), 0x58), ==, 0);
    g_assert_cmpuint(word(qts, PAGE_OF(1), 0x60), >, 0);
    g_assert_cmpint(query(qts, 0, 0, "posts"), >, 0);
    g_assert_cmpuint(word(qts, PAGE_OF(1), 0x160), ==,
                     3 * query(qts, 0, 0, "posts"));
    g_assert_cmpuint(word(qts, PAGE_OF(1), 0x98), ==, 0);
    /* The core's are where they were. */
    g_assert_cmpuint(word(qts, PAGE, 0x58), ==, p.times + 6);
    g_assert_cmpuint(word(qts, PAGE, 0x158), ==, 0);
    qtest_quit(qts);
    unlink(dtb);
}

/*
 * Threads on another chip than the first one; a rate adds the PIR. Thread-add
 * reaches a thread that counts.
 */
static uint32_t steer_program[] = {
    LD(7, DATA_LDBAR),
    MFSPR(3, PIR),
    CMPDI(3, 0x100),    /* the first thread of chip 1 */
    BNE(2),
    MTSPR(LDBAR, 7),
    LI(3, 1),
    STD_AT(3, DATA_DONE),
    B(0),
};

static void test_thread_steering(const void *data)
{
    const Generation *g = data;
    const MadeUp *m = made_up(g);
    g_autofree char *rate = g_strdup_printf("%s=rate:0", m->thread);
    g_autofree char *add = g_strdup_printf("%s@0x100=51200", m->thread);
    g_autofree char *other = g_strdup_printf("%s@0x101=1", m->thread);
    Program p = {
        steer_program, ARRAY_SIZE(steer_program),
        .ldbar = LDBAR_ENABLE | PAGE_OF(1),
    };
    QTestState *qts = run(g, &p, "", "-smp 2,sockets=2,cores=1 -m 2G");
    uint64_t posts;

    set(qts, 1, "thread-synthetic", rate);
    go(qts);
    wait_for(qts, DATA_DONE);
    while (query_chip(qts, 1, 0, 0, "address") != PAGE_OF(1)) {
        g_usleep(1000);
    }
    qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
    g_assert_cmpint(query_chip(qts, 1, 0, 0, "pir"), ==, 0x100);
    g_assert_cmpint(query_chip(qts, 0, 0, 0, "pir"), ==, 0);
    put(qts, g, 1, 0, R_HTM_MODE, HTM_RUN);
    g_assert_cmpint(query_chip(qts, 1, 0, 0, "counts"), ==, true);
    assert_refused(qts, "thread-add", add, "no thread counts that now");
    set(qts, 1, "thread-add", add);
    go(qts);
    /* 512 times 0x100 are a few whole counts on both */
    while (query_chip(qts, 1, 0, 0, "posts") < 512) {
        g_usleep(1000);
    }
    qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
    posts = query_chip(qts, 1, 0, 0, "posts");
    g_assert_cmpuint(word(qts, PAGE_OF(1), m->thread_at), ==,
                     (posts * 0x100 + 51200) / g->scale);
    {
        g_autofree char *error = try_set(qts, 1, "thread-add", other);

        g_assert_nonnull(strstr(error, "no thread counts that now"));
    }
    qtest_quit(qts);
}

/* Both threads are traced; thread 1 stops, and thread 0 loops. */
static uint32_t trace_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(7, DATA_LDBAR),
    LD(8, DATA_LDBAR_1),
    LI(9, 0),
    LI(3, 1),
    MTSPR(CTRL, 3),
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(4),
    MTSPR(LDBAR, 7),
    STD(5, 4),
    B(0),               /* 0x40 */
    MTSPR(LDBAR, 8),    /* thread 1 */
    MTSPR(PSSCR, 9),
    STOP,
    B(-1),
};
#define TRACE_LOOP      0x40
#define LOOP_NS         8           /* of an instruction, -icount shift=3 */

/* Offset of CPMC1 to 4 in a record */
#define CPMC(n)         (16 + (n) * 8)

static void check_record(QTestState *qts, const Generation *g, uint64_t addr)
{
    uint64_t tb = qtest_readq(qts, addr);

    g_assert_cmphex(qtest_readq(qts, addr + 8), ==, TRACE_LOOP);
    g_assert_cmphex(qtest_readq(qts, addr + 16), ==,
                    g->trace_msr ? 0x8000000000000000 : 0);
    g_assert_cmphex(qtest_readq(qts, addr + 56), ==, tb & 0x3ffffffffff);
}

static void assert_near(uint64_t is, uint64_t wanted, uint64_t error)
{
    g_assert_cmpuint(is + error, >=, wanted);
    g_assert_cmpuint(is, <=, wanted + error);
}

/*
 * What was counted from one record to a later one: firmware selects the 32 MHz
 * clock for one counter, and the catalog's line 4 or 2 for the other one. CPMC3
 * and 4 are instructions and cycles with the run latch.
 */
static void check_counts(QTestState *qts, const Generation *g, uint64_t from,
                         uint64_t to, unsigned other_insns)
{
    uint64_t ns = (qtest_readq(qts, to) - qtest_readq(qts, from)) * 1000 / 512;
    uint64_t count[5];
    unsigned i;

    for (i = 1; i <= 4; i++) {
        count[i] = qtest_readq(qts, to + CPMC(i)) -
                   qtest_readq(qts, from + CPMC(i));
    }
    assert_near(count[g == P9 ? 2 : 1], ns * 32 / 1000, 1);
    if (g == P9) {
        /* 1THRD_NON_IDLE_INST: the other thread is idle or has no latch */
        g_assert_cmpuint(count[1], ==, count[3]);
    } else {
        g_assert_cmpuint(count[2], ==, 0);      /* DERAT_MISS */
    }
    assert_near(count[3], ns / LOOP_NS, other_insns);
    assert_near(count[4], ns, other_insns * LOOP_NS);
}

static void test_trace(const void *data)
{
    const Generation *g = data;
    const uint64_t buffer_1 = BUFFER + 2 * RECORDS * 64;
    Program p = {
        trace_program, ARRAY_SIZE(trace_program),
        .ldbar = LDBAR_TRACE | BUFFER, .ldbar_1 = LDBAR_TRACE | buffer_1,
    };
    QTestState *qts = run(g, &p, "", "-smp 2,cores=1,threads=2 "
                          "-icount shift=3,sleep=off");
    uint64_t last = 0, tb;
    unsigned i;

    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_TRACE, g->trace);
    set_period(qts, 0, "trace-min-period-ns", 20 * US);
    go(qts);
    wait_for(qts, BUFFER + (RECORDS - 1) * 64);
    while (qtest_readq(qts, BUFFER) < qtest_readq(qts, BUFFER + 64 * 4095)) {
        g_usleep(1000);
    }
    qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");

    /* One seam, where time goes back by the whole buffer */
    for (i = 0; i < RECORDS; i++) {
        check_record(qts, g, BUFFER + i * 64);
        tb = qtest_readq(qts, BUFFER + i * 64);
        if (tb < last) {
            g_assert_cmpuint(last - tb, <=, RECORDS * 20 * 512 / 1000 * US);
            last = 0;
        } else if (last) {
            /* 20 us each, to the accuracy of a quantum of execution */
            g_assert_cmpuint(tb - last, >=, 5 * 512);
            g_assert_cmpuint(tb - last, <=, 60 * 512);
        }
        last = tb;
    }
    g_assert_cmphex(qtest_readq(qts, BUFFER + RECORDS * 64), ==, 0);
    for (i = 100; i < RECORDS - 1; i += 100) {
        if (qtest_readq(qts, BUFFER + i * 64) <
            qtest_readq(qts, BUFFER + (i + 1) * 64)) {
            /* The other thread has interrupts now and then */
            check_counts(qts, g, BUFFER + i * 64, BUFFER + (i + 1) * 64, 100);
        }
    }
    /* Some at its interrupts: a running one would have filled its buffer */
    g_assert_cmphex(qtest_readq(qts, buffer_1 + RECORDS / 16 * 64), ==, 0);
    /* No counters of threads that are traced */
    g_assert_cmpuint(word(qts, PAGE, g->ref_clock), >, 0);
    for (i = 0; i < 2; i++) {
        g_assert_cmpint(query(qts, 0, i, "traced"), ==, true);
        g_assert_cmpint(query(qts, 0, i, "counts"), ==, false);
        g_assert_cmpint(query(qts, 0, i, "pir"), ==, i);
    }
    /* The next record is the one after the newest. */
    i = query(qts, 0, 0, "records") % RECORDS;
    tb = qtest_readq(qts, BUFFER + (i + RECORDS - 1) % RECORDS * 64);
    g_assert_cmpuint(tb, >, qtest_readq(qts, BUFFER + i * 64));

    /* To start an engine that runs changes nothing. */
    i = query(qts, 0, 0, "records");
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    g_assert_cmpint(query(qts, 0, 0, "records"), ==, i);

    /* A start begins with the first record */
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    set_period(qts, 0, "trace-min-period-ns", 100 * MS);
    qtest_memset(qts, BUFFER, 0, RECORDS * 64);
    go(qts);
    g_usleep(20000);
    g_assert_cmphex(qtest_readq(qts, BUFFER), ==, 0);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    wait_for(qts, BUFFER);
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    check_record(qts, g, BUFFER);
    g_assert_cmphex(qtest_readq(qts, BUFFER + (RECORDS - 1) * 64), ==, 0);
    g_assert_cmpint(query(qts, 0, 0, "traced"), ==, false);
    qtest_quit(qts);
}

/*
 * TRACE_IMC decides which counter is sampled how often, and how large the
 * buffer is.
 */
#define TRACE(sampsel, count, cpmc1, cpmc2, size)                       \
    ((uint64_t)(sampsel) << 62 | ((1ull << 32) - (count)) << 30 |       \
     (uint64_t)(cpmc1) << 23 | (uint64_t)(cpmc2) << 16 |                \
     (uint64_t)(size) << 13)

static void test_trace_select(const void *data)
{
    const Generation *g = data;
    /* NON_IDLE_INST, line 0; the 32 MHz clock; and what nobody can know */
    const unsigned clock_cpmc = g == P9 ? 2 : 1, clock_line = g == P9 ? 2 : 4;
    const unsigned unknown = g == P9 ? 3 : 7;
    const struct {
        uint64_t trace;
        unsigned cpmc;          /* which is sampled, */
        uint64_t count;         /* as often as this */
        unsigned records;       /* that the buffer has, or 0 */
    } cases[] = {
        { TRACE(clock_cpmc - 1, 3200, clock_line, clock_line, 0),
          clock_cpmc, 3200, RECORDS },
        { TRACE(clock_cpmc - 1, 1, clock_line, clock_line, 2),
          clock_cpmc, 640, 4 * RECORDS },
        { TRACE(2, 12500, 0, 0, 1), 3, 12500, 2 * RECORDS },
        { TRACE(3, 100000, 0, 0, 0), 4, 100000, RECORDS },
        { TRACE(clock_cpmc - 1, 1, clock_line, clock_line, 4),
          clock_cpmc, 640, 16 * RECORDS },
        { TRACE(0, 100, unknown, 0, 0), 1, 0, 0 },
        { TRACE(clock_cpmc - 1, 1, 64 + clock_line, 64 + clock_line, 0),
          clock_cpmc, 0, 0 },
    };
    unsigned i, n, at;

    for (i = 0; i < ARRAY_SIZE(cases); i++) {
        const unsigned all = cases[i].records;
        Program p = {
            trace_program, ARRAY_SIZE(trace_program),
            .ldbar = LDBAR_TRACE | BUFFER,
        };
        QTestState *qts = run(g, &p, "", "-smp 1 -icount shift=3,sleep=off");
        uint64_t seen[3], step;

        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, cases[i].trace);
        set_period(qts, 0, "trace-min-period-ns", 20 * US);
        go(qts);
        if (!all) {
            wait_for(qts, PAGE + g->ref_clock);
            g_usleep(50000);
            g_assert_cmphex(qtest_readq(qts, BUFFER), ==, 0);
            qtest_quit(qts);
            continue;
        }
        /* It wraps at the end, and not before */
        wait_for(qts, BUFFER + (all - 1) * 64);
        while (qtest_readq(qts, BUFFER) <
               qtest_readq(qts, BUFFER + (all - 1) * 64)) {
            g_usleep(1000);
        }
        qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
        g_assert_cmphex(qtest_readq(qts, BUFFER + all * 64), ==, 0);

        /* Three records far from the newest one, which may be anywhere */
        at = (query(qts, 0, 0, "records") + all / 2) % all;
        at = MIN(at, all - 3);
        for (n = 0; n < 3; n++) {
            check_record(qts, g, BUFFER + (at + n) * 64);
            seen[n] = qtest_readq(qts, BUFFER + (at + n) * 64 +
                                  CPMC(cases[i].cpmc));
        }
        for (n = 1; n < 3; n++) {
            step = seen[n] - seen[n - 1];
            g_assert_cmpuint(step + 2, >=, cases[i].count);
            /* As late as the next look, 20 us behind, and a quantum */
            g_assert_cmpuint(step, <=, cases[i].count + 60 * US);
            if (cases[i].cpmc == clock_cpmc) {
                g_assert_cmpuint(step, <=, cases[i].count + 60 * 32);
            } else if (cases[i].cpmc == 3) {
                g_assert_cmpuint(step, <=,
                                 cases[i].count + 60 * US / LOOP_NS);
            }
        }
        qtest_quit(qts);
    }
}

/*
 * Three traced loops, of which the first one has twice the length. Between the
 * first two TRACE_IMC is written, and between the last two LDBAR.
 */
static uint32_t restart_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),
    LD(8, DATA_LDBAR_1),
    LD(10, DATA_TIMES),
    LD(11, DATA_TRACE_AT),
    LD(12, DATA_TRACE),
    LI(3, 1),
    MTSPR(CTRL, 3),
    MTSPR(LDBAR, 7),
    STD(5, 4),
    MTSPR(CTR, 10),
    BDNZ_HERE,
    MTSPR(CTR, 10),
    BDNZ_HERE,
    STD(12, 11),
    MTSPR(CTR, 10),
    BDNZ_HERE,
    MTSPR(LDBAR, 8),
    MTSPR(CTR, 10),
    BDNZ_HERE,
    STD(6, 4),
    STD_AT(3, DATA_DONE),
    B(0),
};

/* Run this with a record each 100 us, which are 12,500 instructions. */
static QTestState *run_restarts(const Generation *g, uint64_t first,
                                uint64_t second, const char *args)
{
    g_autofree char *all = g_strdup_printf("-smp 1 -icount shift=3,sleep=off "
                                           "%s", args);
    Program p = {
        restart_program, ARRAY_SIZE(restart_program), .times = 100000,
        .ldbar = LDBAR_TRACE | first, .ldbar_1 = LDBAR_TRACE | second,
    };
    QTestState *qts = run(g, &p, "", all);

    qtest_writeq(qts, DATA_TRACE_AT, scom(g, 0, 0, R_TRACE));
    qtest_writeq(qts, DATA_TRACE, g->trace);
    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_TRACE, g->trace);
    set_period(qts, 0, "trace-min-period-ns", 100 * US);
    go(qts);
    wait_for(qts, DATA_DONE);
    return qts;
}

/* The number of records, and what CPMC1 or 2 with the clock is in the first */
static unsigned records_in(QTestState *qts, const Generation *g,
                           uint64_t buffer, uint64_t *clock)
{
    unsigned n = 0;

    *clock = qtest_readq(qts, buffer + CPMC(g == P9 ? 2 : 1));
    while (qtest_readq(qts, buffer + n * 64)) {
        n++;
    }
    return n;
}

/*
 * A write of LDBAR, and one of TRACE_IMC, restart with the first record, with
 * counters of 0, and with a whole period.
 */
static void test_trace_restart(const void *data)
{
    const Generation *g = data;
    const uint64_t second = BUFFER + 2 * RECORDS * 64;
    /* A check begins the period, so that one to two have passed at the end. */
    const uint64_t period = 100 * 32;
    QTestState *qts = run_restarts(g, BUFFER, second, "");
    uint64_t clock;
    unsigned n;

    n = records_in(qts, g, BUFFER, &clock);
    g_assert_cmpuint(n, >=, 10);
    g_assert_cmpuint(clock, >=, period);
    g_assert_cmpuint(clock, <, 3 * period);
    /* The second loop has overwritten half of the records of the first one. */
    g_assert_cmpuint(qtest_readq(qts, BUFFER), >,
                     qtest_readq(qts, BUFFER + (n - 1) * 64));

    n = records_in(qts, g, second, &clock);
    g_assert_cmpuint(n, >=, 5);
    g_assert_cmpuint(n, <, 10);
    g_assert_cmpuint(clock, >=, period);
    g_assert_cmpuint(clock, <, 3 * period);
    g_assert_cmpint(query(qts, 0, 0, "records"), ==, 0);    /* it has stopped */
    qtest_quit(qts);
}

/*
 * A trace where there is no memory: said once after each restart, and otherwise
 * harmless
 */
static void test_trace_bad_address(const void *data)
{
    const Generation *g = data;
    g_autofree char *log = log_file();
    g_autofree char *args = g_strdup_printf("-m 1G -d guest_errors -D %s", log);
    QTestState *qts = run_restarts(g, 1ull << 30, BUFFER, args);
    uint64_t clock;

    /* Elsewhere there are records. */
    g_assert_cmpuint(records_in(qts, g, BUFFER, &clock), >=, 5);
    qtest_quit(qts);
    g_assert_cmpuint(times_in_log(log, "no memory for the trace"), ==, 2);
}

/*
 * Busy for 524 us, then idle for 500 us, until the decrementer wakes the
 * thread; its interrupt is disabled.
 */
static uint32_t idle_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),
    LD(20, DATA_TIMES),
    LI(9, 0),
    LIS(22, 8),         /* 1024 us of the decrementer */
    LIS(10, 1),         /* 65,536 instructions */
    MTSPR(PSSCR, 9),
    MTSPR(LDBAR, 7),
    STD(5, 4),
    MTSPR(DEC, 22),
    MTSPR(CTR, 10),
    BDNZ_HERE,
    STOP,
    ADDI(20, 20, -1),
    CMPDI(20, 0),
    BNE(-6),
    STD(6, 4),
    LI(3, 1),
    STD_AT(3, DATA_DONE),
    B(0),
};

/*
 * Samples that an idle thread missed are dropped: no two are closer than half a
 * period. While the thread is busy, a late sample does not delay the next one.
 */
static void test_trace_idle(const void *data)
{
    const Generation *g = data;
    const uint64_t us = 512;    /* ticks of the time base */
    Program p = {
        idle_program, ARRAY_SIZE(idle_program), .times = 20,
        .ldbar = LDBAR_TRACE | BUFFER,
    };
    QTestState *qts = run(g, &p, "", "-smp 1 -icount shift=3,sleep=off");
    unsigned n, i, idle = 0, busy = 0;
    uint64_t clock, step;

    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_TRACE, g->trace);
    set_period(qts, 0, "trace-min-period-ns", 100 * US);
    go(qts);
    wait_for(qts, DATA_DONE);
    n = records_in(qts, g, BUFFER, &clock);
    g_assert_cmpuint(n, >=, 3 * p.times);
    for (i = 1; i < n; i++) {
        step = qtest_readq(qts, BUFFER + i * 64) -
               qtest_readq(qts, BUFFER + (i - 1) * 64);
        g_assert_cmpuint(step, >=, 50 * us);
        if (step >= 400 * us) {
            idle++;
            busy = 0;
        } else if (++busy > 1) {
            /* Not 6 us more, which is how late each check is */
            assert_near(step, 100 * us, 4 * us);
        }
    }
    g_assert_cmpuint(idle, >=, p.times - 1);
    qtest_quit(qts);
}

/* Without an address there is no page, and no trace. */
static void test_ldbar_0(const void *data)
{
    const Generation *g = data;
    const uint64_t modes[] = { LDBAR_ENABLE, LDBAR_TRACE };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(modes); i++) {
        Program p = {
            trace_program, ARRAY_SIZE(trace_program), .ldbar = modes[i],
        };
        QTestState *qts = run(g, &p, "", "-smp 1");

        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, g->trace);
        go(qts);
        wait_for(qts, PAGE + g->ref_clock);
        g_usleep(10000);
        g_assert_cmpint(query(qts, 0, -1, "counts"), ==, true);
        g_assert_cmpint(query(qts, 0, 0, "counts"), ==, false);
        g_assert_cmpint(query(qts, 0, 0, "traced"), ==, false);
        g_assert_cmphex(word(qts, 0, 0), ==, 0);
        g_assert_cmphex(word(qts, 0, g->ref_clock), ==, 0);
        qtest_quit(qts);
    }
}

/*
 * gdb writes LDBAR as code does: the old page gets the counts until then, and
 * the new page those from then on.
 */
static void gdb_send(int fd, const char *packet)
{
    g_autofree char *text = NULL;
    uint8_t sum = 0;
    size_t i;

    for (i = 0; packet[i]; i++) {
        sum += packet[i];
    }
    text = g_strdup_printf("$%s#%02x", packet, sum);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, strlen(text));
}

/* The data of the next packet; acknowledgements are skipped. */
static char *gdb_receive(int fd)
{
    g_autoptr(GString) data = g_string_new(NULL);
    char c;

    do {
        g_assert_cmpint(read(fd, &c, 1), ==, 1);
    } while (c != '$');
    while (read(fd, &c, 1) == 1 && c != '#') {
        g_string_append_c(data, c);
    }
    g_assert_cmpint(read(fd, &c, 1), ==, 1);
    g_assert_cmpint(read(fd, &c, 1), ==, 1);
    g_assert_cmpint(write(fd, "+", 1), ==, 1);
    return g_string_free(g_steal_pointer(&data), false);
}

/* The number of LDBAR, from the description that gdb reads */
static unsigned gdb_ldbar(int fd)
{
    static const char name[] = "<reg name=\"ldbar\"";
    g_autoptr(GString) xml = g_string_new(NULL);
    const char *reg;
    unsigned number;
    char *part;
    bool more;

    do {
        g_autofree char *ask = g_strdup_printf(
            "qXfer:features:read:power-spr.xml:%zx,400", xml->len);

        gdb_send(fd, ask);
        part = gdb_receive(fd);
        more = *part == 'm';
        g_assert_true(more || *part == 'l');
        g_string_append(xml, part + 1);
        g_free(part);
    } while (more);
    reg = strstr(xml->str, name);
    g_assert_nonnull(reg);
    reg = strstr(reg, "regnum=\"");
    g_assert_nonnull(reg);
    g_assert_cmpint(sscanf(reg, "regnum=\"%u", &number), ==, 1);
    return number;
}

static void gdb_write(int fd, unsigned reg, uint64_t value)
{
    g_autofree char *packet = g_strdup_printf("P%x=%016" PRIx64, reg, value);
    g_autofree char *answer = NULL;

    gdb_send(fd, packet);
    answer = gdb_receive(fd);
    g_assert_cmpstr(answer, ==, "OK");
}

/* The core and the thread count the same, and for ever. */
static uint32_t gdb_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(7, DATA_LDBAR),
    LI(3, 1),
    MTSPR(CTRL, 3),
    MTSPR(LDBAR, 7),
    STD(5, 4),
    STD_AT(3, DATA_DONE),
    B(0),
};

static void test_gdb(const void *data)
{
    const Generation *g = data;
    g_autofree char *dir = g_dir_make_tmp("pnv-imc-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/gdb", dir);
    g_autofree char *args = g_strdup_printf(
        "-smp 1 -gdb unix:path=%s,server=on,wait=off", path);
    Program p = {
        gdb_program, ARRAY_SIZE(gdb_program),
        .ldbar = LDBAR_ENABLE | PAGE_OF(1),
    };
    QTestState *qts = run(g, &p, "", args);
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    g_autofree char *stopped = NULL;
    uint64_t insns;
    unsigned reg;

    pstrcpy(addr.sun_path, sizeof(addr.sun_path), path);
    g_assert_cmpint(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), ==, 0);
    gdb_send(fd, "qSupported:xmlRegisters=powerpc");
    g_free(gdb_receive(fd));
    gdb_send(fd, "qXfer:features:read:target.xml:0,400");
    g_free(gdb_receive(fd));
    reg = gdb_ldbar(fd);

    set_up(qts, g, 0, 0, PAGE);
    gdb_send(fd, "c");
    wait_for(qts, DATA_DONE);
    wait_for(qts, PAGE_OF(1) + g->hv_insns);
    g_assert_cmphex(query(qts, 0, 0, "address"), ==, PAGE_OF(1));
    g_assert_cmpint(write(fd, "\3", 1), ==, 1);
    stopped = gdb_receive(fd);
    g_assert_true(*stopped == 'T');

    gdb_write(fd, reg, LDBAR_ENABLE | PAGE_OF(2));
    g_assert_cmphex(query(qts, 0, 0, "address"), ==, PAGE_OF(2));
    g_assert_cmpint(query(qts, 0, 0, "counts"), ==, true);
    insns = word(qts, PAGE_OF(1), g->hv_insns);
    /* Nothing has been executed since, so that the core has the same. */
    put(qts, g, 0, 0, R_HTM_MODE, HTM_STOP);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==, insns);
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->hv_insns), ==, insns);
    g_assert_cmpuint(word(qts, PAGE_OF(2), g->hv_insns), ==, 0);

    put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
    gdb_send(fd, "c");
    wait_for(qts, PAGE_OF(2) + g->hv_insns);
    g_assert_cmpuint(word(qts, PAGE_OF(1), g->hv_insns), ==, insns);
    close(fd);
    qtest_quit(qts);
    unlink(path);
    rmdir(dir);
}

/* The address in LDBAR has more bits than that in PDBAR. */
static void test_ldbar_bits(const void *data)
{
    const Generation *g = data;
    unsigned bit;

    for (bit = 8; bit <= 13; bit++) {
        Program p = {
            thread_program, ARRAY_SIZE(thread_program), .times = 100000,
            .ldbar = LDBAR_ENABLE | PAGE_OF(1) | 1ull << (63 - bit),
        };
        QTestState *qts = run(g, &p, "", "-smp 1");

        set_up(qts, g, 0, 0, PAGE);
        go(qts);
        wait_for(qts, DATA_DONE);
        /* There is no memory, and so nothing is counted, nor elsewhere. */
        g_assert_cmphex(any_count(qts, PAGE_OF(1)), ==, 0);
        g_assert_cmpuint(word(qts, PAGE, g->hv_insns), >, 0);
        qtest_quit(qts);
    }
}

/*
 * Instructions with and without the run latch. The second thread has it all
 * the time, if there is one.
 */
static uint32_t latch_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(8, DATA_TIMES),
    LI(9, 0),
    LI(10, 1),
    MTSPR(CTRL, 10),
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(14),
    LD(11, DATA_OTHER), /* until the other thread is here */
    CMPDI(11, 0),
    BEQ(-2),
    MTSPR(CTR, 8),
    STD(5, 4),
    BDNZ_HERE,          /* with the latch */
    MTSPR(CTRL, 9),     /* the last one with it */
    MTSPR(CTR, 8),
    BDNZ_HERE,
    MTSPR(CTRL, 10),    /* the last one without it */
    STD(6, 4),
    STD_AT(10, DATA_DONE),
    B(0),
    STD_AT(10, DATA_OTHER),     /* the other thread */
    B(0),
};
#define P9_INST         0x20
#define NON_IDLE_INST   0x28
#define P9_NTHRD_INST(n) (0x118 + ((n) - 1) * 0x40)
#define P10_RUN_CYC_ST  0x18
#define P10_RUN_CYC_SMT2 0x58
#define P10_RUN_CYC_SMT4 0x98
#define P10_RUN_PURR    0x5a0
#define P10_RUN_SPURR   0x5e0

static void test_latch(const void *data)
{
    const Generation *g = data;
    Program p = {
        latch_program, ARRAY_SIZE(latch_program), .times = 512 * 1000,
    };
    QTestState *qts = run(g, &p, "", "-smp 1 -icount shift=0,sleep=off");
    uint64_t sum, alone, run_ns;
    unsigned n;

    qtest_writeq(qts, DATA_OTHER, 1);
    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(word(qts, PAGE, NON_IDLE_INST), ==,
                     (p.times + 2) / g->scale);
    /* All of them are the hypervisor's; without the latch, they are idle. */
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==,
                     (p.times + 2) / g->scale);
    if (g == P9) {
        g_assert_cmpuint(word(qts, PAGE, P9_INST), ==,
                         (2 * p.times + 4) / g->scale);
        g_assert_cmpuint(word(qts, PAGE, P9_NTHRD_INST(1)), ==,
                         (p.times + 2) / g->scale);
    } else {
        /* A nanosecond each; RUN_PURR counts it at 512 MHz */
        run_ns = word(qts, PAGE, g->busy);
        assert_near(run_ns, p.times + 2, 100);
        assert_near(word(qts, PAGE, P10_RUN_PURR), run_ns * 512 / 1000, 1);
        g_assert_cmpuint(word(qts, PAGE, P10_RUN_SPURR), ==,
                         word(qts, PAGE, P10_RUN_PURR));
    }
    qtest_quit(qts);

    if (g != P9) {
        return;
    }
    /* Of two threads, one is alone for as long as the other one idles. */
    qts = run(g, &p, "", "-smp 2,cores=1,threads=2 "
              "-icount shift=0,sleep=off");
    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    sum = 0;
    for (n = 1; n <= 4; n++) {
        sum += word(qts, PAGE, P9_NTHRD_INST(n));
    }
    alone = word(qts, PAGE, P9_NTHRD_INST(1));
    assert_near(sum, word(qts, PAGE, NON_IDLE_INST), 4);
    g_assert_cmpuint(alone, >, 0);
    g_assert_cmpuint(alone, <, sum);
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD_INST(3)), ==, 0);
    g_assert_cmpuint(word(qts, PAGE, NON_IDLE_INST), <,
                     word(qts, PAGE, P9_INST));
    /* "All" are two here, "any" is one or two, and the rest is nobody's. */
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD(1)), >, 0);
    assert_near(word(qts, PAGE, P9_ALL_THRD), word(qts, PAGE, P9_NTHRD(2)), 1);
    assert_near(word(qts, PAGE, P9_ANY_THRD),
                word(qts, PAGE, P9_NTHRD(1)) + word(qts, PAGE, P9_NTHRD(2)),
                2);
    assert_near(word(qts, PAGE, P9_CCYC),
                word(qts, PAGE, P9_0THRD) + word(qts, PAGE, P9_ANY_THRD), 2);
    qtest_quit(qts);

    /*
     * Of four threads, the last three have the latch all the time, and the
     * first one half of it: three and four are busy, never one or two, except
     * before they have all started.
     */
    qts = run(g, &p, "", "-smp 4,cores=1,threads=4 "
              "-icount shift=0,sleep=off");
    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    sum = 0;
    for (n = 1; n <= 4; n++) {
        sum += word(qts, PAGE, P9_NTHRD_INST(n));
    }
    assert_near(sum, word(qts, PAGE, NON_IDLE_INST), 4);
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD_INST(3)), >, sum / 10);
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD_INST(4)), >, sum / 10);
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD(3)), >, 0);
    g_assert_cmpuint(word(qts, PAGE, P9_NTHRD(4)), >, 0);
    qtest_quit(qts);
}

/* Each in a turn another number of times, so that none passes for another */
static uint32_t lanes_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(8, DATA_TIMES),
    LIS(9, 0x200),
    LIS(12, 0x100),
    LI(10, 1),
    MTSPR(CTR, 8),
    STD(5, 4),
    LWARX(3, 9),
    STWCX(3, 9),
    LWARX(3, 9),
    STWCX(3, 9),
    LWARX(3, 9),
    STWCX(3, 9),
    STWCX(3, 9),        /* nothing is reserved for these two */
    STWCX(3, 9),
    TLBIE(12),
    TLBIEL(12),
    TLBIEL(12),
    BDNZ(-11),
    STD(6, 4),
    STD_AT(10, DATA_DONE),
    B(0),
};

static void test_lanes(const void *data)
{
    const Generation *g = data;
    const uint32_t larx = g == P9 ? 0x360 : 0x1e0;
    const uint32_t stcx = g == P9 ? 0x318 : 0x220;
    const uint32_t fail = g == P9 ? 0x320 : 0x260;
    const uint32_t tlbie = g == P9 ? 0x358 : 0x1a0;
    Program p = {
        lanes_program, ARRAY_SIZE(lanes_program), .times = 512 * 4,
    };
    QTestState *qts = run(g, &p, "", "-smp 1");

    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(word(qts, PAGE, larx), ==, 3 * p.times / g->scale);
    g_assert_cmpuint(word(qts, PAGE, stcx), ==, 5 * p.times / g->scale);
    g_assert_cmpuint(word(qts, PAGE, fail), ==, 2 * p.times / g->scale);
    g_assert_cmpuint(word(qts, PAGE, tlbie), ==, p.times / g->scale);
    qtest_quit(qts);
}

/*
 * The hypervisor enters a state of the MSR, with or without the run latch. Code
 * in that state ends with a system call, whose handler stops the engine.
 */
#define GUEST_AT        0x400000
#define DATA_MSR        DATA_OTHER
#define DATA_CTRL       DATA_LDBAR
#define MSR_GUEST       0x8000000000001030ull   /* SF, ME, IR, DR */
#define MSR_GUEST_PR    (MSR_GUEST | 0x4000)
#define MSR_HV          (MSR_GUEST | 0x1000000000000000ull)
#define MSR_HV_PR       (MSR_HV | 0x4000)
static uint32_t guest_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(8, DATA_TIMES),
    LD(7, DATA_MSR),
    LD(3, DATA_CTRL),
    MTSPR(CTRL, 3),
    LIS(22, 0x7fff),
    MTSPR(DEC, 22),
    LIS(3, 0x10),
    MTSPR(PTCR, 3),
    LIS(3, 0x50),
    ORI(3, 3, 0x400),
    MTSPR(LPCR, 3),
    LI(3, 1),
    MTSPR(LPIDR, 3),
    LIS(3, GUEST_AT >> 16),
    MTSPR(SRR0, 3),
    MTSPR(SRR1, 7),
    MTSPR(CTR, 8),
    STD(5, 4),
    RFID,
};
#define GUEST_PROGRAM_HV 2                      /* rfid; std in the handler */
#define P9_CS_INST      0x820

/* Instructions and cycles by MSR[HV] and MSR[PR], as the catalogs say */
enum { PRIV, PROB, HYPERVISOR, ADJUNCT, STATES };
static const uint32_t p9_states[STATES][2] = {
    { 0x618, 0x620 }, { 0x658, 0x660 }, { 0x698, 0x6a0 }, { 0x6d8, 0x6e0 },
};
static const uint32_t p10_states[STATES][2] = {
    { 0x360, 0x320 }, { 0x2e0, 0x2a0 }, { 0x3e0, 0x3a0 }, { 0x460, 0x420 },
};

/* Memory below 1 GiB is mapped 1:1, as in ppc-count-test.c */
static void map_memory(QTestState *qts)
{
    static const struct {
        uint64_t addr;
        uint64_t value;
    } tables[] = {
        { 0x100000, 0xc0000000001100ad }, { 0x100008, 0x101000 },
        { 0x100010, 0xc0000000001100ad }, { 0x100018, 0x101000 },
        { 0x101000, 0x40000000001100ad },
        { 0x110000, 0x8000000000102009 },
        { 0x102000, 0xc000000000000187 },
    };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(tables); i++) {
        qtest_writeq(qts, tables[i].addr, tables[i].value);
    }
}

/*
 * The code of a guest, which is to end with a system call; if @stop, counting
 * then ends
 */
static QTestState *run_guest(const Generation *g, const char *args,
                             uint64_t msr, uint64_t times, bool latch,
                             bool stop)
{
    const uint32_t handler[] = {
        stop ? STD(6, 4) : NOP, LI(10, 1), STD_AT(10, DATA_DONE), B(0),
    };
    Program p = {
        guest_program, ARRAY_SIZE(guest_program), .times = times,
        .handler = handler, .handler_words = ARRAY_SIZE(handler),
        .vector = 0xc00, .ldbar = latch,
    };
    QTestState *qts = run(g, &p, "", args);
    const uint32_t code[] = { BDNZ_HERE, SC(1) };
    unsigned i;

    map_memory(qts);
    for (i = 0; i < ARRAY_SIZE(code); i++) {
        qtest_writel(qts, GUEST_AT + 4 * i, code[i]);
    }
    qtest_writeq(qts, DATA_MSR, msr);
    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    return qts;
}

/*
 * Instructions in problem state, of blocks that end early by a fault, whose
 * handler stops the engine: what QEMU's main loop posts meanwhile must not have
 * the rest of these blocks either.
 */
static void test_problem_early_stop_icount(const void *data)
{
    enum { BEFORE = 300, AFTER = 110, ROUNDS = 3000, NOT_MAPPED = 0x4000 };
    const Generation *g = data;
    const uint32_t (*at)[2] = g == P9 ? p9_states : p10_states;
    uint32_t code[ARRAY_SIZE(slow_start) + 20];
    uint32_t handler[] = {
        STD(6, 4), ADDI(20, 20, -1), CMPDI(20, 0), BEQ(2), 0 /* again */,
        LI(3, 1), STD_AT(3, DATA_DONE), B(0),
    };
    Program p = {
        code, .times = SLOW_NUMBER, .handler = handler,
        .handler_words = ARRAY_SIZE(handler), .vector = 0x300,
    };
    unsigned i, again;
    QTestState *qts;

    add_slow_start(&p);
    add_code(&p, LIS(22, 0x7fff), 1);
    add_code(&p, MTSPR(DEC, 22), 1);
    add_code(&p, LIS(3, 0x10), 1);
    add_code(&p, MTSPR(PTCR, 3), 1);
    add_code(&p, LIS(3, 0x50), 1);
    add_code(&p, MTSPR(LPCR, 3), 1);
    add_code(&p, ORI(7, 7, MSR_PR), 1);
    add_code(&p, LI(20, ROUNDS), 1);
    add_code(&p, LIS(21, GUEST_AT >> 16), 1);
    add_code(&p, LIS(11, NOT_MAPPED), 1);
    again = 0x10 + 4 * p.words;
    handler[4] = B(((int)again - (int)p.vector) / 4 - 4);
    add_code(&p, MTSPR(SRR0, 21), 1);
    add_code(&p, MTSPR(SRR1, 7), 1);
    add_code(&p, STD(5, 4), 1);
    add_code(&p, RFID, 1);

    qts = run(g, &p, "", "-smp 1 -m 1G -icount shift=5,sleep=off");
    map_memory(qts);
    for (i = 0; i < BEFORE + 1 + AFTER; i++) {
        qtest_writel(qts, GUEST_AT + 4 * i,
                     i < BEFORE ? SLOW : i == BEFORE ? STD(5, 11) : NOP);
    }
    set_up(qts, g, 0, 0, PAGE);
    post_until_done(qts);
    g_assert_cmpuint(word(qts, PAGE, at[ADJUNCT][0]), ==,
                     ROUNDS * BEFORE / g->scale);
    /* rfid, and the store that stops the engine */
    g_assert_cmpuint(word(qts, PAGE, at[HYPERVISOR][0]), ==,
                     ROUNDS * 2 / g->scale);
    qtest_quit(qts);
}

static void check_guest(const Generation *g, uint64_t msr, unsigned state,
                        bool latch)
{
    const uint32_t (*at)[2] = g == P9 ? p9_states : p10_states;
    const uint64_t times = 512 * 1000 - 1;
    QTestState *qts = run_guest(g, "-smp 1 -m 1G -icount shift=0,sleep=off",
                                msr, times, latch, true);
    unsigned i;

    for (i = 0; i < STATES; i++) {
        unsigned insns = (i == state ? times + 1 : 0) +
                         (i == HYPERVISOR ? GUEST_PROGRAM_HV : 0);

        g_assert_cmpuint(word(qts, PAGE, at[i][0]), ==,
                         latch ? insns / g->scale : 0);
        /* Cycles are not only those with the latch: a nanosecond each */
        g_assert_cmpuint(word(qts, PAGE, at[i][1]), >=, insns / g->scale);
        g_assert_cmpuint(word(qts, PAGE, at[i][1]), <=,
                         (insns + 100) / g->scale);
    }
    if (g == P9) {
        g_assert_cmpuint(word(qts, PAGE, P9_CS_INST), ==,
                         (times + 1 + GUEST_PROGRAM_HV) / g->scale);
        g_assert_cmpuint(word(qts, PAGE, P9_CS_INST + USER), ==,
                         state == PROB || state == ADJUNCT
                         ? (times + 1) / g->scale : 0);
    }
    qtest_quit(qts);
}

/*
 * What a thread executed in a state that it has left is exact in memory, while
 * it goes on in another one: posts lack instructions of its current state only.
 */
static void test_other_state(void)
{
    enum { TIMES = 1000 };
    QTestState *qts = run_guest(P10, "-smp 1 -m 1G", MSR_GUEST_PR, TIMES, true,
                                false);
    int64_t posts;
    unsigned i;

    for (i = 0; i < 20; i++) {
        posts = query(qts, 0, -1, "posts");
        while (query(qts, 0, -1, "posts") == posts) {
            g_usleep(1000);
        }
        g_assert_cmpuint(word(qts, PAGE, p10_states[PROB][0]), ==, TIMES + 1);
    }
    qtest_quit(qts);
}

static void test_guest(const void *data)
{
    static const uint64_t msr[STATES] = {
        MSR_GUEST, MSR_GUEST_PR, MSR_HV, MSR_HV_PR,
    };
    unsigned i;

    for (i = 0; i < STATES; i++) {
        check_guest(data, msr[i], i, true);
        check_guest(data, msr[i], i, false);
    }
}

#ifdef CONFIG_LINUX
/*
 * The host takes the CPU away for milliseconds: posts of that time have busy
 * time, and no instructions. It belongs to the state of the last ones.
 */
static void test_taken_away(const void *data)
{
    const Generation *g = data;
    const uint32_t (*at)[2] = g == P9 ? p9_states : p10_states;
    cpu_set_t all, one;
    double share = 1;
    int cpu = 0;

    g_assert_cmpint(sched_getaffinity(0, sizeof(all), &all), ==, 0);
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    /* Again, if it stood still when the hypervisor had just begun */
    for (unsigned tries = 0; share > 0.05 && tries < 5; tries++) {
        QTestState *qts;
        pid_t other;

        g_assert_cmpint(sched_setaffinity(0, sizeof(one), &one), ==, 0);
        other = fork();
        g_assert_cmpint(other, >=, 0);
        if (!other) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (true) {
                ;
            }
        }
        qts = run_guest(g, "-smp 1 -m 1G", MSR_HV_PR, 200 * 1000 * 1000, true,
                        true);
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        g_assert_cmpint(sched_setaffinity(0, sizeof(all), &all), ==, 0);
        share = (double)word(qts, PAGE, at[HYPERVISOR][1]) /
                word(qts, PAGE, at[ADJUNCT][1]);
        g_test_message("%.3f of the program's cycles", share);
        qtest_quit(qts);
    }
    g_assert_cmpfloat(share, <=, 0.05);
}
#endif

/*
 * Thread 0 is traced, and thread 1 counted, while thread 0 executes a loop and
 * writes a SCOM.
 */
static uint32_t repeat_program[] = {
    LI(3, 1),
    MTSPR(CTRL, 3),
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),
    LD(8, DATA_TIMES),
    LD(9, DATA_LDBAR_1),
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(9),
    MTSPR(LDBAR, 7),
    MTSPR(CTR, 8),
    STD(5, 4),
    BDNZ_HERE,
    STD(6, 4),
    MFSPR(3, TBL),      /* not 0 */
    STD_AT(3, DATA_DONE),
    B(0),
    MTSPR(LDBAR, 9),    /* thread 1 */
    NOP,
    B(-1),
};

/* What the engine writes is a function of what the guest does. */
static void test_repeat(const void *data)
{
    const Generation *g = data;
    static const struct {
        uint64_t addr;
        size_t size;
    } range[] = {
        { PAGE, PAGE_SIZE },
        { PAGE_OF(1), PAGE_SIZE },
        { BUFFER, RECORDS * 64 },
    };
    char *first[ARRAY_SIZE(range)] = { };
    Program p = {
        repeat_program, ARRAY_SIZE(repeat_program), .times = 20000000,
        .ldbar = LDBAR_TRACE | BUFFER, .ldbar_1 = LDBAR_ENABLE | PAGE_OF(1),
    };
    uint64_t first_time = 0, first_end = 0;
    unsigned n, i;
    bool same;

    /*
     * Once in a while, the virtual clock of QEMU 10.2 begins at 50 ms, the time
     * of the first timer, or the threads take turns at other moments: compare
     * two runs that began and ended at the same time.
     */
    for (n = 0, same = false; !same; n++) {
        QTestState *qts = run(g, &p, "", "-smp 2,cores=1,threads=2 "
                              "-icount shift=1,sleep=off");
        uint64_t time, end;

        g_assert_cmpuint(n, <, 10);
        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, g->trace);
        go(qts);
        wait_for(qts, DATA_DONE);
        time = qtest_readq(qts, BUFFER);
        end = qtest_readq(qts, DATA_DONE);
        same = n > 0 && time == first_time && end == first_end;
        first_time = time;
        first_end = end;
        for (i = 0; i < ARRAY_SIZE(range); i++) {
            g_autofree char *now = g_malloc(range[i].size);

            qtest_memread(qts, range[i].addr, now, range[i].size);
            if (same) {
                g_assert_cmpmem(now, range[i].size, first[i], range[i].size);
            }
            g_free(first[i]);
            first[i] = g_steal_pointer(&now);
        }
        /* Of 40 ms or more: 2 ns each, and both threads have turns */
        g_assert_cmphex(qtest_readq(qts, BUFFER + 100 * 64), !=, 0);
        g_assert_cmpuint(word(qts, PAGE, g->hv_insns), >=,
                         p.times / g->scale);
        g_assert_cmpuint(word(qts, PAGE_OF(1), g->hv_insns), >, 0);
        /* Each page says that the core has two threads: is in SMT2 mode */
        for (i = 0; g == P10 && i < 2; i++) {
            g_assert_cmpuint(word(qts, PAGE_OF(i), P10_RUN_CYC_ST), ==, 0);
            g_assert_cmpuint(word(qts, PAGE_OF(i), P10_RUN_CYC_SMT2), >, 0);
            g_assert_cmpuint(word(qts, PAGE_OF(i), P10_RUN_CYC_SMT4), ==, 0);
        }
        qtest_quit(qts);
    }
    for (i = 0; i < ARRAY_SIZE(first); i++) {
        g_free(first[i]);
    }
}

/*
 * What TRACE_IMC has selected does not survive a reset: without another write
 * of it, the same program stores no records.
 */
static void test_trace_reset(const void *data)
{
    const Generation *g = data;
    Program p = {
        repeat_program, ARRAY_SIZE(repeat_program), .times = 1000000,
        .ldbar = LDBAR_TRACE | BUFFER,
    };
    QTestState *qts = run(g, &p, "", "-smp 1 -icount shift=1,sleep=off");
    uint64_t clock;

    set_up(qts, g, 0, 0, PAGE);
    put(qts, g, 0, 0, R_TRACE, g->trace);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(records_in(qts, g, BUFFER, &clock), >=, 10);

    qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
    qtest_system_reset(qts);
    qtest_memset(qts, BUFFER, 0, RECORDS * 64);
    qtest_memset(qts, PAGE, 0, PAGE_SIZE);
    g_assert_cmphex(qtest_readq(qts, DATA_DONE), ==, 0);
    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), >=, p.times / g->scale);
    g_assert_cmpuint(records_in(qts, g, BUFFER, &clock), ==, 0);
    qtest_quit(qts);
}

/*
 * A reset forgets PDBAR and LDBAR: an engine that somebody starts afterwards
 * writes neither counters nor records to the places from before.
 */
static void test_thread_reset(const void *data)
{
    static const uint64_t modes[] = { LDBAR_ENABLE, LDBAR_TRACE };
    const Generation *g = data;
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(modes); i++) {
        Program p = {
            trace_program, ARRAY_SIZE(trace_program),
            .ldbar = modes[i] | BUFFER,
        };
        QTestState *qts = run(g, &p, "", "-smp 1");

        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, g->trace);
        go(qts);
        wait_for(qts, PAGE + g->ref_clock);
        wait_for(qts, BUFFER + (modes[i] == LDBAR_TRACE ? 0 : g->hv_insns));

        qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
        qtest_system_reset(qts);
        qtest_memset(qts, PAGE, 0, PAGE_SIZE);
        qtest_memset(qts, BUFFER, 0, PAGE_SIZE);
        qtest_writel(qts, 0x10, B(0));      /* instead of the program */
        put(qts, g, 0, 0, R_TRACE, g->trace);
        put(qts, g, 0, 0, R_HTM_MODE, HTM_RUN);
        go(qts);
        g_usleep(20000);
        put(qts, g, 0, 0, R_PDBAR, PAGE_OF(1));
        wait_for(qts, PAGE_OF(1) + g->ref_clock);
        g_assert_cmphex(any_count(qts, PAGE), ==, 0);
        g_assert_cmphex(any_count(qts, BUFFER), ==, 0);
        qtest_quit(qts);
    }
}

/* A thread looks at the clock no more often than it must for rare samples. */
static void check_trace_checks(const Generation *g, uint32_t *code, size_t n,
                               uint64_t times, unsigned loop)
{
    g_autofree char *log = log_file();
    g_autofree char *args = g_strdup_printf("-smp 1 "
        "-icount shift=1,sleep=off -trace pnv_imc_trace_check -D %s", log);
    Program p = { code, n, .times = times, .ldbar = LDBAR_TRACE | BUFFER };
    QTestState *qts = run(g, &p, "", args);
    unsigned checks;

    set_up(qts, g, 0, 0, PAGE);
    set_period(qts, 0, "trace-min-period-ns", 1000 * MS);
    put(qts, g, 0, 0, R_TRACE, g->trace);
    go(qts);
    wait_for(qts, DATA_DONE);
    qtest_quit(qts);

    checks = times_in_log(log, "pnv_imc_trace_check");
    /* After 100,000 instructions each, but for the first few */
    g_assert_cmpuint(checks, >=, times * loop / 100000);
    g_assert_cmpuint(checks, <, times * loop / 100000 + 20);
}

static void test_trace_checks(const void *data)
{
    enum { LOOP = 14, NOPS = 6 };
    uint32_t code[ARRAY_SIZE(repeat_program) + NOPS];
    int i;

    g_assert_cmphex(repeat_program[LOOP], ==, BDNZ_HERE);
    check_trace_checks(data, repeat_program, ARRAY_SIZE(repeat_program),
                       20000000, 1);

    /* A block of seven instructions, no multiple of which is 100,000 */
    memcpy(code, repeat_program, sizeof(repeat_program));
    for (i = LOOP; i < LOOP + NOPS; i++) {
        code[i] = NOP;
    }
    code[i] = BDNZ(-NOPS);
    memcpy(&code[i + 1], &repeat_program[LOOP + 1],
           sizeof(repeat_program) - (LOOP + 1) * sizeof(*code));
    check_trace_checks(data, code, ARRAY_SIZE(code), 3000000, 1 + NOPS);
}

/*
 * Send itself doorbells, with each having been taken before the next one; or
 * just wait for other interrupts.
 */
static uint32_t interrupt_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(20, DATA_TIMES),
    LIS(22, 0x7fff),    /* for the decrementer */
    MTSPR(DEC, 22),
    MFSPR(3, LPCR),
    ORI(3, 3, LPCR_HVICE),
    MTSPR(LPCR, 3),
    STD(5, 4),
    LIS(7, 5 << 11),    /* the type; to PIR 0 */
    MFMSR(3),
    ORI(3, 3, MSR_EE),
    MTMSRD(3),
    NOP,                /* msgsnd r7 */
    CMPDI(20, 0),
    BNE(-2),
    STD(6, 4),
    LI(3, 1),
    STD_AT(3, DATA_DONE),
    B(0),
};
#define INTERRUPT_MSGSND 14

static void check_interrupts(const Generation *g, unsigned vector,
                             bool hypervisor, int line, uint32_t event)
{
    const unsigned srr1 = hypervisor ? HSRR1 : SRR1;
    /* After the last one, the program goes on without interrupts. */
    const uint32_t handler[] = {
        ADDI(20, 20, -1),
        CMPDI(20, 0),
        BNE(4),
        MFSPR(21, srr1),
        XORI(21, 21, MSR_EE),
        MTSPR(srr1, 21),
        hypervisor ? HRFID : RFID,
    };
    const uint32_t all[] = { g->int_os, g->int_hyp, g->int_doorbell };
    uint32_t code[ARRAY_SIZE(interrupt_program)];
    Program p = {
        code, ARRAY_SIZE(code), .times = 3 * 512 + 100,
        .handler = handler, .handler_words = ARRAY_SIZE(handler),
        .vector = vector,
    };
    QTestState *qts;
    unsigned i;

    memcpy(code, interrupt_program, sizeof(code));
    if (line < 0) {
        code[INTERRUPT_MSGSND] = MSGSND(7);
    }
    qts = run(g, &p, "", "-smp 1");
    set_up(qts, g, 0, 0, PAGE);
    if (line >= 0) {
        qtest_set_irq_in(qts, "/machine/chip[0]/core[0]/thread[0]", NULL,
                         line, 1);
    }
    go(qts);
    wait_for(qts, DATA_DONE);
    for (i = 0; i < ARRAY_SIZE(all); i++) {
        g_assert_cmpuint(word(qts, PAGE, all[i]), ==,
                         all[i] == event ? p.times / g->scale : 0);
    }
    qtest_quit(qts);
}

/*
 * An event-based branch becomes pending as one of the performance monitor: PMC6
 * overflows while the thread is privileged. Before it is taken, at the first
 * instruction in problem state, BESCR says that it is an external one. The
 * branch goes to memory that is not mapped, and its interrupt comes back.
 */
static uint32_t ebb_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),      /* BESCR: GE, PME */
    LD(8, DATA_LDBAR_1),    /* BESCR: GE, EEO */
    LD(20, DATA_TIMES),
    LIS(22, 0x7fff),
    MTSPR(DEC, 22),
    LI(3, FACILITY_EBB),
    MTSPR(FSCR, 3),
    MTSPR(HFSCR, 3),
    STD(5, 4),
    MTSPR(BESCR, 7),        /* again and again from here */
    LIS(3, 0x7fff),
    ORI(3, 3, 0xff00),
    MTSPR(PMC6, 3),
    LIS(3, MMCR0_EBE_HIGH),
    ORI(3, 3, MMCR0_PMCJCE),
    MTSPR(MMCR0, 3),
    MFSPR(3, BESCR),
    ANDI(3, 3, BESCR_PMEO),
    BEQ(-2),
    LIS(3, MMCR0_FC_HIGH),
    MTSPR(MMCR0, 3),
    MTSPR(BESCR, 8),
    MFMSR(3),
    ORI(3, 3, MSR_PR),
    MTSPR(SRR0, 4),
    MTSPR(SRR1, 3),
    RFID,
};
#define EBB_AGAIN       12

static void test_ebb(const void *data)
{
    const Generation *g = data;
    const unsigned vector = 0x480;  /* no segment has the address */
    const uint32_t handler[] = {
        ADDI(20, 20, -1),
        CMPDI(20, 0),
        BEQ(2),
        B((0x10 - 0x480) / 4 - 3 + EBB_AGAIN),
        STD(6, 4),
        LI(3, 1),
        STD_AT(3, DATA_DONE),
        B(0),
    };
    const uint32_t all[] = { g->int_os, g->int_hyp, g->int_doorbell };
    Program p = {
        ebb_program, ARRAY_SIZE(ebb_program), .times = 512 + 100,
        .ldbar = 0x8000000100000000, .ldbar_1 = 0x8000000000000002,
        .handler = handler, .handler_words = ARRAY_SIZE(handler),
        .vector = vector,
    };
    QTestState *qts = run(g, &p, "", "-smp 1");
    unsigned i;

    set_up(qts, g, 0, 0, PAGE);
    go(qts);
    wait_for(qts, DATA_DONE);
    g_assert_cmpuint(word(qts, PAGE, g == P9 ? 0x4d8 : 0x158), ==,
                     p.times / g->scale);
    for (i = 0; i < ARRAY_SIZE(all); i++) {
        g_assert_cmpuint(word(qts, PAGE, all[i]), ==, 0);
    }
    qtest_quit(qts);
}

/* Interrupts of each kind count when they are taken. */
static void test_interrupts(const void *data)
{
    const Generation *g = data;

    check_interrupts(g, 0xe80, true, -1, g->int_doorbell);
    check_interrupts(g, 0x500, false, 0, g->int_os);
    check_interrupts(g, 0xea0, true, 1, g->int_hyp);
}

/*
 * All threads write LDBAR and HTM_MODE of core 0 for ever, while the test
 * resets the machine: it must survive that, and not deadlock.
 */
static uint32_t stress_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(7, DATA_LDBAR),
    LD(8, DATA_LDBAR_1),
    LD(10, DATA_TIMES),
    MTSPR(LDBAR, 7),    /* counts */
    STD(5, 4),
    MTSPR(CTR, 10),
    BDNZ_HERE,
    MTSPR(LDBAR, 8),    /* is traced */
    MTSPR(CTR, 10),
    BDNZ_HERE,
    STD(6, 4),
    STD_AT(10, DATA_DONE),
    B(-9),
};

static void test_stress(const void *data)
{
    const Generation *g = data;
    Program p = {
        stress_program, ARRAY_SIZE(stress_program), .times = 10000,
        .ldbar = LDBAR_ENABLE | PAGE_OF(1), .ldbar_1 = LDBAR_TRACE | BUFFER,
    };
    QTestState *qts = run(g, &p, "", "-smp 4,cores=2,threads=2");
    unsigned i;

    set_period(qts, 0, "post-period-ns", 50 * US);
    set_period(qts, 0, "trace-min-period-ns", 50 * US);
    go(qts);
    for (i = 0; i < 20; i++) {
        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, g->trace);
        qtest_writeq(qts, DATA_DONE, 0);
        qtest_writeq(qts, PAGE + g->ref_clock, 0);
        wait_for(qts, DATA_DONE);
        wait_for(qts, PAGE + g->ref_clock);
        qtest_system_reset(qts);
    }
    qtest_quit(qts);
}

/*
 * Eight threads write LDBAR, and HTM_MODE of core 0, at once, while the test
 * writes registers of both cores. The engine of core 1 runs all the time: each
 * of its threads counts as many instructions in each of two pages as it should.
 */
static uint32_t hammer_program[] = {
    LI(3, 1),
    MTSPR(CTRL, 3),
    MFSPR(3, PIR),
    ANDI(3, 3, 7),
    MULLI(3, 3, 0x4000),
    LD(7, DATA_LDBAR),      /* the first page of this thread */
    ADD(7, 7, 3),
    LD(8, DATA_LDBAR_1),    /* the second one */
    ADD(8, 8, 3),
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(6, DATA_HTM_STOP),
    LD(10, DATA_TIMES),
    LI(9, 0),
    MTSPR(CTR, 10),
    MTSPR(LDBAR, 7),
    STD(5, 4),              /* from here in the first page */
    NOP,
    NOP,
    MTSPR(LDBAR, 8),        /* to here */
    STD(6, 4),
    BDNZ(-6),               /* and this and the next in the second */
    MTSPR(LDBAR, 9),
    LIS(11, BUFFER >> 16),
    ADD(11, 11, 3),
    LI(3, 1),
    STD(3, 11),
    B(0),
};

static void test_hammer(const void *data)
{
    const Generation *g = data;
    const uint64_t pages = PAGE_OF(4);
    /* Each instruction counts, on POWER9, too */
    g_autofree char *source = g_strdup_printf(
        "/dts-v1/; / { #address-cells = <1>; #size-cells = <1>;"
        "compatible = \"ibm,opal-in-memory-counters\";"
        "events: events { #address-cells = <1>; #size-cells = <1>;"
        " event@0 { reg = <0x%x 8>; event-name = \"HV_INST\"; };"
        "};"
        "thread@18 { compatible = \"ibm,imc-counters\"; type = <0x1>;"
        " size = <0x2000>; reg = <0x18 0x2000>; events = <&events>;"
        " events-prefix = \"CPM_\"; scale = \"1\"; };"
        "};", g->hv_insns - 0x18);
    g_autofree char *dtb = NULL;
    g_autofree char *catalog = catalog_args(source, &dtb);
    g_autofree char *args = g_strdup_printf("-smp 8,cores=2,threads=4 %s",
                                            catalog);
    Program p = {
        hammer_program, ARRAY_SIZE(hammer_program), .times = 3000,
        .ldbar = LDBAR_ENABLE | pages,
        .ldbar_1 = LDBAR_ENABLE | (pages + PAGE_SIZE),
    };
    QTestState *qts = run(g, &p, "", args);
    unsigned pir, i;

    set_period(qts, 0, "post-period-ns", 50 * US);
    set_up(qts, g, 0, 0, PAGE_OF(1));
    set_up(qts, g, 0, 1, PAGE_OF(2));
    put(qts, g, 0, 1, R_HTM_MODE, HTM_RUN);
    go(qts);
    for (pir = 0; pir < 8; pir++) {
        while (!qtest_readq(qts, BUFFER + pir * 0x4000)) {
            for (i = 0; i < 2; i++) {
                put(qts, g, 0, i, R_EVENT_MASK, EVENT_MASK);
                put(qts, g, 0, i, R_TRACE, g->trace);
                g_assert_cmphex(get(qts, g, 0, i, R_TRACE), ==, g->trace);
            }
        }
    }
    for (pir = 0; pir < 8; pir++) {
        uint64_t first = word(qts, pages + pir * 0x4000, g->hv_insns);
        uint64_t second = word(qts, pages + pir * 0x4000 + PAGE_SIZE,
                               g->hv_insns);

        if (pir < 4) {
            /* The engine of core 0 does not run all the time */
            g_assert_cmpuint(first, <=, 4 * p.times);
            g_assert_cmpuint(second, <=, 3 * p.times);
        } else {
            g_assert_cmpuint(first, ==, 4 * p.times);
            g_assert_cmpuint(second, ==, 3 * p.times);
        }
    }
    qtest_quit(qts);
    unlink(dtb);
}

/* Reference clock and cycles of busy threads, at one moment, in ns */
static void look_at_time(QTestState *qts, uint64_t *clock, uint64_t *busy)
{
    do {
        *clock = word(qts, PAGE, P10->ref_clock);
        *busy = word(qts, PAGE, P10->hv_cycles);
    } while (word(qts, PAGE, P10->ref_clock) != *clock);
    *clock = *clock * 1000 / 32;
}

/*
 * Cycles that threads are busy in 20 ms or more, for each nanosecond. It begins
 * as much later: a thread that is started is busy from its next turn on.
 */
static double busy_threads(QTestState *qts)
{
    uint64_t clock[3], busy[3];
    unsigned i;

    look_at_time(qts, &clock[0], &busy[0]);
    for (i = 1; i < 3; i++) {
        do {
            look_at_time(qts, &clock[i], &busy[i]);
        } while (clock[i] - clock[i - 1] < 20 * MS);
    }
    return (double)(busy[2] - busy[1]) / (clock[2] - clock[1]);
}

/*
 * A thread that firmware has stopped is not busy, whatever it did when it was
 * stopped. With -icount, one of two threads waits for its turn.
 */
static void test_stopped(void)
{
    static uint32_t loop[] = { B(0) };
    Program p = { loop, ARRAY_SIZE(loop) };
    QTestState *qts = run(P10, &p, "",
                          "-smp 2,cores=1,threads=2 -icount shift=0");
    unsigned stopped, i;

    set_up(qts, P10, 0, 0, PAGE);
    put(qts, P10, 0, 0, R_HTM_MODE, HTM_RUN);
    go(qts);
    for (i = 0; i < 8; i++) {
        /* None, thread 0, thread 1, both; and again */
        stopped = i % 4;
        qtest_writeq(qts, P10_DIRECT_CONTROLS,
                     DIRECT_START(0) | DIRECT_START(1));
        qtest_writeq(qts, P10_DIRECT_CONTROLS,
                     (stopped & 1 ? DIRECT_STOP(0) : 0) |
                     (stopped & 2 ? DIRECT_STOP(1) : 0));
        g_assert_cmpfloat_with_epsilon(busy_threads(qts),
                                       2 - ctpop32(stopped), 0.1);
    }

    /* QEMU lets all CPUs run when the machine goes on; so they count again */
    qtest_qmp_assert_success(qts, "{ 'execute': 'stop' }");
    qtest_qmp_assert_success(qts, "{ 'execute': 'cont' }");
    g_assert_cmpfloat_with_epsilon(busy_threads(qts), 2, 0.1);

    /* So they do after a reset */
    qtest_writeq(qts, P10_DIRECT_CONTROLS, DIRECT_STOP(1));
    g_assert_cmpfloat_with_epsilon(busy_threads(qts), 1, 0.1);
    qtest_system_reset(qts);
    set_up(qts, P10, 0, 0, PAGE);
    put(qts, P10, 0, 0, R_HTM_MODE, HTM_RUN);
    g_assert_cmpfloat_with_epsilon(busy_threads(qts), 2, 0.1);
    qtest_quit(qts);
}

static void add(const char *name, GTestDataFunc test)
{
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(generations); i++) {
        const Generation *g = &generations[i];
        g_autofree char *path = g_strdup_printf("/pnv-imc-core/%s/%s",
                                                g->machine, name);

        qtest_add_data_func(path, g, test);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    add("scoms", test_scoms);
    add("off", test_off);
    add("post", test_post);
    add("clock-jump", test_clock_jump);
    add("layout", test_layout);
    add("carry", test_carry);
    add("flush", test_flush);
    add("timers", test_timers);
    qtest_add_func("/pnv-imc-core/powernv9/sums", test_sums);
    add("big-core", test_big_core);
    add("chips", test_chips);
    add("reset", test_reset);
    add("bad-address", test_bad_address);
    add("properties", test_properties);
    add("core-synthetic", test_core_synthetic);
    add("core-synthetic-change", test_core_synthetic_change);
    add("core-kinds", test_core_kinds);
    add("core-add", test_core_add);
    add("no-migration", test_no_migration);
    add("catalog", test_catalog);
    if (qtest_has_accel("tcg")) {
        add("thread", test_thread);
        add("thread-early-stop", test_thread_early_stop);
        add("thread-early-stop/icount", test_thread_early_stop_icount);
        add("thread-early-stop/problem/icount", test_problem_early_stop_icount);
        add("trace", test_trace);
        add("trace-select", test_trace_select);
        add("trace-restart", test_trace_restart);
        add("trace-bad-address", test_trace_bad_address);
        add("trace-idle", test_trace_idle);
        add("ldbar-bits", test_ldbar_bits);
        add("ldbar-0", test_ldbar_0);
        add("gdb", test_gdb);
        add("thread-synthetic", test_thread_synthetic);
        add("thread-steering", test_thread_steering);
        add("thread-catalog", test_thread_catalog);
        add("latch", test_latch);
        add("lanes", test_lanes);
        add("guest", test_guest);
#ifdef CONFIG_LINUX
        add("taken-away", test_taken_away);
#endif
        add("repeat", test_repeat);
        add("trace-reset", test_trace_reset);
        add("thread-reset", test_thread_reset);
        add("trace-checks", test_trace_checks);
        add("interrupts", test_interrupts);
        add("ebb", test_ebb);
        add("stress", test_stress);
        add("hammer", test_hammer);
        qtest_add_func("/pnv-imc-core/powernv10/stopped", test_stopped);
        qtest_add_func("/pnv-imc-core/powernv10/thread-late-start",
                       test_thread_late_start);
        qtest_add_func("/pnv-imc-core/powernv10/other-state",
                       test_other_state);
    }
    return g_test_run();
}
