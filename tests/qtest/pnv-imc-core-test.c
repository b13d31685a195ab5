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
#include "libqtest.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"

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

static QTestState *start(const Generation *g, const char *machine,
                         const char *args)
{
    return qtest_initf("-M %s,imc=on%s %s", g->machine, machine, args);
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

/* Counters where there is no memory: said once, and otherwise harmless */
static void test_bad_address(const void *data)
{
    const Generation *g = data;
    const uint64_t bad[] = {
        0x0003ffffffffe000, 1ull << 30,         /* behind 1 GiB of RAM */
        scom(g, 0, 0, R_HTM_MODE) & ~0x1fffull, /* registers */
        XSCOM_BASE,
    };
    g_autofree char *log = NULL;
    g_autofree char *text = NULL;
    g_autofree char *args = NULL;
    g_auto(GStrv) lines = NULL;
    QTestState *qts;
    unsigned i, said = 0;
    int fd = g_file_open_tmp("pnv-imc-XXXXXX", &log, NULL);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    args = g_strdup_printf("-m 1G -d guest_errors -D %s", log);
    qts = start(g, "", args);
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

    g_assert_true(g_file_get_contents(log, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", 0);
    for (i = 0; lines[i]; i++) {
        said += !!strstr(lines[i], "no memory for counters");
    }
    g_assert_cmpuint(said, ==, ARRAY_SIZE(bad));
    unlink(log);
}

static void test_properties(const void *data)
{
    static const char *names[] = { "post-period-ns", "trace-min-period-ns" };
    QTestState *qts = start(data, "", "");
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(names); i++) {
        QDict *error = qtest_qmp_assert_failure_ref(qts,
            "{ 'execute': 'qom-set', 'arguments': { 'path': "
            "'/machine/chip[0]/imc', 'property': %s, 'value': 0 } }",
            names[i]);

        g_assert_nonnull(strstr(qdict_get_str(error, "desc"), names[i]));
        qobject_unref(error);
        set_period(qts, 0, names[i], 10000);
    }
    qtest_quit(qts);
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
#define B(words)        (0x48000000 | (((words) * 4) & 0x3fffffc))
#define BDNZ_HERE       0x42000000
#define NOP             0x60000000
#define STOP            0x4c0002e4
#define RFID            0x4c000024
#define HRFID           0x4c000224
#define MFMSR(rt)       (31u << 26 | (rt) << 21 | 83 << 1)
#define MTMSRD(rs)      (31u << 26 | (rs) << 21 | 178 << 1)
#define MSGSND(rb)      (31u << 26 | (rb) << 11 | 206 << 1)
#define LIS(rt, value)  (15u << 26 | (rt) << 21 | (value))
#define ORI(ra, rs, n)  (24u << 26 | (rs) << 21 | (ra) << 16 | (n))
#define XORI(ra, rs, n) (26u << 26 | (rs) << 21 | (ra) << 16 | (n))
#define ADDI(rt, ra, n) (14u << 26 | (rt) << 21 | (ra) << 16 | ((n) & 0xffff))
#define CMPDI(ra, n)    (11u << 26 | 1u << 21 | (ra) << 16 | ((n) & 0xffff))
#define MSR_EE          0x8000
#define SRR1            27
#define HSRR1           315
#define LPCR            318
#define LPCR_HVICE      2
#define CTR             9
#define DEC             22
#define LDBAR           850
#define PSSCR           855
#define TIR             446

/* What the programs load: at these addresses */
#define DATA_HTM        0x800
#define DATA_HTM_RUN    0x808
#define DATA_HTM_STOP   0x810
#define DATA_LDBAR      0x818
#define DATA_TIMES      0x820
#define DATA_DONE       0x828
#define DATA_OTHER      0x830
#define DATA_LDBAR_1    0x838

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
    unsigned tries;

    for (tries = 0; tries < 30000; tries++) {
        if (qtest_readq(qts, addr)) {
            return;
        }
        g_usleep(1000);
    }
    g_assert_not_reached();
}

/*
 * Thread 0 counts a loop, then says so; the other one looks at its own LDBAR
 * until then.
 */
static uint32_t thread_program[] = {
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(19),
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
                         const char *args, uint64_t times, unsigned threads)
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
    if (threads == 1) {
        /* And nop, mtspr, nop, nop, std */
        g_assert_cmpuint(core, ==, (times + 6) / g->scale);
    } else {
        g_assert_cmpuint(core, >=, (times + 6) / g->scale);
    }
    g_assert_cmphex(qtest_readq(qts, DATA_OTHER), ==, 0);

    /* It is over */
    g_usleep(20000);
    g_assert_cmpuint(word(qts, PAGE, g->hv_insns), ==, core);
    qtest_quit(qts);
}

static void test_thread(const void *data)
{
    check_thread(data, "", "-smp 1", 1000, 1);
    check_thread(data, "", "-smp 1", 100000000, 1);
    check_thread(data, "", "-smp 1 -icount shift=0,sleep=off", 12345678, 1);
    check_thread(data, "", "-smp 2,cores=1,threads=2", 10000000, 2);
    check_thread(data, ",lpar-per-core=on", "-smp 2,cores=1,threads=2",
                 10000000, 2);
}

/* Both threads are traced; thread 1 stops, and thread 0 loops. */
static uint32_t trace_program[] = {
    LD(4, DATA_HTM),
    LD(5, DATA_HTM_RUN),
    LD(7, DATA_LDBAR),
    LD(8, DATA_LDBAR_1),
    LI(9, 0),
    MFSPR(3, TIR),
    ANDI(3, 3, 7),
    BNE(4),
    MTSPR(LDBAR, 7),
    STD(5, 4),
    B(0),               /* 0x38 */
    MTSPR(LDBAR, 8),    /* thread 1 */
    MTSPR(PSSCR, 9),
    STOP,
    B(-1),
};
#define TRACE_LOOP      0x38

static void check_record(QTestState *qts, const Generation *g, uint64_t addr)
{
    uint64_t tb = qtest_readq(qts, addr);
    unsigned i;

    g_assert_cmphex(qtest_readq(qts, addr + 8), ==, TRACE_LOOP);
    g_assert_cmphex(qtest_readq(qts, addr + 16), ==,
                    g->trace_msr ? 0x8000000000000000 : 0);
    for (i = 24; i < 56; i += 8) {
        g_assert_cmphex(qtest_readq(qts, addr + i), ==, 0);
    }
    g_assert_cmphex(qtest_readq(qts, addr + 56), ==, tb & 0x3ffffffffff);
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
    /* A few before it stopped, at most */
    g_assert_cmphex(qtest_readq(qts, buffer_1 + 16 * 64), ==, 0);
    /* No counters of threads that are traced */
    g_assert_cmpuint(word(qts, PAGE, g->ref_clock), >, 0);

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
    qtest_quit(qts);
}

/*
 * Thread 0 is traced, and thread 1 counted, while thread 0 executes a loop and
 * writes a SCOM.
 */
static uint32_t repeat_program[] = {
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
    LI(3, 1),
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
    char *first[ARRAY_SIZE(range)];
    Program p = {
        repeat_program, ARRAY_SIZE(repeat_program), .times = 20000000,
        .ldbar = LDBAR_TRACE | BUFFER, .ldbar_1 = LDBAR_ENABLE | PAGE_OF(1),
    };
    unsigned n, i;

    for (n = 0; n < 2; n++) {
        QTestState *qts = run(g, &p, "", "-smp 2,cores=1,threads=2 "
                              "-icount shift=1,sleep=off");

        set_up(qts, g, 0, 0, PAGE);
        put(qts, g, 0, 0, R_TRACE, g->trace);
        go(qts);
        wait_for(qts, DATA_DONE);
        for (i = 0; i < ARRAY_SIZE(range); i++) {
            g_autofree char *now = g_malloc(range[i].size);

            qtest_memread(qts, range[i].addr, now, range[i].size);
            if (n == 0) {
                first[i] = g_steal_pointer(&now);
            } else {
                g_assert_cmpmem(now, range[i].size, first[i], range[i].size);
            }
        }
        /* Of 40 ms or more: 2 ns each, and both threads have turns */
        g_assert_cmphex(qtest_readq(qts, BUFFER + 100 * 64), !=, 0);
        g_assert_cmpuint(word(qts, PAGE, g->hv_insns), >=,
                         p.times / g->scale);
        g_assert_cmpuint(word(qts, PAGE_OF(1), g->hv_insns), >, 0);
        qtest_quit(qts);
    }
    for (i = 0; i < ARRAY_SIZE(first); i++) {
        g_free(first[i]);
    }
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
    if (qtest_has_accel("tcg")) {
        add("thread", test_thread);
        add("trace", test_trace);
        add("repeat", test_repeat);
        add("interrupts", test_interrupts);
        add("stress", test_stress);
    }
    return g_test_run();
}
