/*
 * The test cases of TopDown: slots and PERF_METRICS
 *
 * What they expect is computed from the number of instructions of each kind,
 * counted by hand, and from the table of prices below. The seven rules are
 * those of fixed counter 3 and PERF_METRICS in Intel's SDM, volume 3,
 * "Performance Metrics", as software relies on them.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"
#include "topdown.h"

#define SLOTS               3       /* the fixed counter */
#define ENABLE_SLOTS        FIXED_BIT(SLOTS)
#define ENABLE_ALL          (COUNTERS_MASK | METRICS_MASK)
#define SLOTS_CTRL(rings)   ((uint64_t)(rings) << 4 * SLOTS)

/* So many slots that what a block adds does not show, and divisible by 255 */
#define MANY_SLOTS          (255ull << 32)

#define LINE                64
#define LINES(bytes)        ((bytes) / LINE)
#define L1_SIZE             0x8000
#define LLC_SIZE            0x200000
#define PAGE                0x1000
#define TLB_PAGES           64
#define STLB_PAGES          1024
/* Memory that nobody else loads from */
#define CHASE_AREA          GUEST_DATA_AREA
#define LINES_AREA          (GUEST_DATA_AREA + 0x400000)

/* --------------------------------------------------------------- Prices */

/* Those of byte i of level 1 are 2 i and 2 i + 1; the latter is byte 4 + i. */
enum {
    LIGHT, HEAVY, MACHINE_CLEARS, MISPREDICTS, BANDWIDTH, LATENCY, CORE,
    MEMORY, LEAVES
};

#define L(leaf)             (1 << (leaf))
#define RETIRING_LEAVES     (L(LIGHT) | L(HEAVY))
#define BAD_LEAVES          (L(MACHINE_CLEARS) | L(MISPREDICTS))
#define FRONTEND_LEAVES     (L(BANDWIDTH) | L(LATENCY))
#define BACKEND_LEAVES      (L(CORE) | L(MEMORY))
#define ALL_LEAVES          (BIT(LEAVES) - 1)

/* In any unit, mostly quarters of a slot */
typedef struct Leaves {
    uint64_t n[LEAVES];
} Leaves;

/*
 * What an instruction is; most are more than one of these. Those of several
 * operations (heavy ones) have their load among them.
 */
enum {
    ANY, LOAD, LOAD_AGAIN, COND, JMP, JMP_INDIRECT, CALL, CALL_INDIRECT, RET,
    LOOP, LOCK, DIVIDE, SERIALISING, FAR, PAUSE, KINDS
};

/* How many of each there are in some code */
typedef struct Code {
    uint32_t n[KINDS];
} Code;

/* The precise models: what is not as predicted, or not in a cache */
#define MISPREDICT_CYCLES   10
#define RESTEER_CYCLES      4       /* of fetch latency, on top */
#define L1D_MISS_CYCLES     8
#define LLC_MISS_CYCLES     30      /* on top */
#define L1I_MISS_CYCLES     8
#define WALK_CYCLES         6       /* of those of the line that missed */

/* A cycle has as many slots as the CPU is wide, and a slot four quarters. */
#define CYCLES(n)           (8 * 4 * (n))

static const struct {
    int16_t quarters[LEAVES];
    int16_t widths[LEAVES];         /* eighths of a quarter for each slot */
} prices[KINDS] = {
    [ANY] = { .quarters = { [LIGHT] = 4 } },
    /* A 32nd of a miss of L1 */
    [LOAD] = { .widths = { [MEMORY] = CYCLES(L1D_MISS_CYCLES) / 32 } },
    /* In the precise models, of the same instruction */
    [LOAD_AGAIN] = { .quarters = { [MEMORY] = 4 } },
    /* A 64th of a mispredict */
    [COND] = {
        .quarters = { [BANDWIDTH] = 2 },
        .widths = { [MISPREDICTS] = CYCLES(MISPREDICT_CYCLES) / 64 },
    },
    [JMP] = { .quarters = { [BANDWIDTH] = 4 } },
    [JMP_INDIRECT] = { .quarters = { [LATENCY] = 4, [BANDWIDTH] = 4 } },
    [CALL] = { .quarters = { [LIGHT] = 4, [BANDWIDTH] = 4 } },
    [CALL_INDIRECT] = {
        .quarters = { [LIGHT] = 4, [LATENCY] = 4, [BANDWIDTH] = 4 },
    },
    [RET] = { .quarters = { [BANDWIDTH] = 4 } },
    /* Four operations instead of one */
    [LOOP] = {
        .quarters = {
            [LIGHT] = -4, [HEAVY] = 16, [CORE] = -16, [BANDWIDTH] = 2,
        },
        .widths = {
            [CORE] = CYCLES(6),
            [MISPREDICTS] = CYCLES(MISPREDICT_CYCLES) / 64,
        },
    },
    [LOCK] = { .widths = { [MEMORY] = CYCLES(8) } },
    [DIVIDE] = {
        .quarters = { [LIGHT] = -4, [HEAVY] = 16 },
        .widths = { [CORE] = CYCLES(10) },
    },
    [SERIALISING] = {
        .quarters = { [LIGHT] = -4, [HEAVY] = 16 },
        .widths = { [MACHINE_CLEARS] = CYCLES(20) },
    },
    /* It serialises, too */
    [FAR] = { .quarters = { [BANDWIDTH] = 4 } },
    [PAUSE] = { .widths = { [CORE] = CYCLES(30) } },
};

typedef struct Block {
    const char *name;
    void (*run)(void);
    Code code;
} Block;

/* Code of each kind, alone */
#define PRICED(X)                                                           \
    X(nops, [ANY] = 40)                                                     \
    X(plain, [ANY] = 12)                                                    \
    X(loads, [ANY] = 8, [LOAD] = 8)                                         \
    X(stores, [ANY] = 8)                                                    \
    X(load_ops, [ANY] = 8, [LOAD] = 8)                                      \
    X(updates, [ANY] = 8, [LOAD] = 8)                                       \
    X(push_pop, [ANY] = 8, [LOAD] = 4)                                      \
    X(taken, [ANY] = 9, [COND] = 8)                                         \
    X(not_taken, [ANY] = 9, [COND] = 8)                                     \
    X(jumps, [ANY] = 8, [JMP] = 8)                                          \
    X(jumps_indirect, [ANY] = 8, [JMP_INDIRECT] = 4)                        \
    X(jumps_memory, [ANY] = 4, [LOAD] = 4, [JMP_INDIRECT] = 4)              \
    X(calls, [ANY] = 8, [CALL] = 4, [LOAD] = 4, [RET] = 4)                  \
    X(calls_indirect, [ANY] = 9, [CALL_INDIRECT] = 4, [LOAD] = 4, [RET] = 4)\
    X(calls_memory, [ANY] = 8, [CALL_INDIRECT] = 4, [LOAD] = 8, [RET] = 4)  \
    X(loops, [ANY] = 12, [LOOP] = 8)                                        \
    X(locks, [ANY] = 4, [LOAD] = 4, [LOCK] = 4)                             \
    X(divides, [ANY] = 10, [DIVIDE] = 4)                                    \
    X(sse, [ANY] = 4, [DIVIDE] = 4)                                         \
    X(expensive, [ANY] = 2418, [COND] = 8, [SERIALISING] = 2400)            \
    X(avx, [ANY] = 4, [DIVIDE] = 4)                                         \
    X(cpuid, [ANY] = 8, [SERIALISING] = 4)                                  \
    X(wrmsr, [ANY] = 7, [SERIALISING] = 4)                                  \
    X(mov_cr, [ANY] = 4, [SERIALISING] = 4)                                 \
    X(ints, [ANY] = 8, [SERIALISING] = 8, [FAR] = 8, [LOAD] = 4)            \
    X(far_returns, [ANY] = 16, [SERIALISING] = 4, [FAR] = 4, [LOAD] = 4)    \
    X(pauses, [ANY] = 4, [PAUSE] = 4)                                       \
    X(strings, [ANY] = 10, [LOAD] = 4)                                      \
    X(compares, [ANY] = 6, [LOAD] = 4, [LOAD_AGAIN] = 4)                    \
    X(tie, [ANY] = 12, [JMP] = 4, [LOAD] = 4)                               \
    X(mispredicted, [ANY] = 515, [COND] = 256, [SERIALISING] = 2)           \
    X(same_history, [ANY] = 341, [COND] = 300)

static const Block blocks[] = {
#define X(name, ...) { #name, block_##name, { { __VA_ARGS__ } } },
    PRICED(X)
#undef X
};

/* Number of each: the offset in a structure of bytes */
typedef struct BlockIndex {
#define X(name, ...) char name;
    PRICED(X)
#undef X
} BlockIndex;

#define BLOCK(name)         (&blocks[offsetof(BlockIndex, name)])

/* What is behind the code of a block: the instruction before RDPMC, and all */
static const Code before_read = { { [ANY] = 1 } };
static const Code block_end = { { [ANY] = 8, [SERIALISING] = 1 } };

/* At CPL 3, what run_user() adds to the body; at CPL 0, all of it */
static const Code user_call = {
    { [ANY] = 2, [CALL_INDIRECT] = 1, [SERIALISING] = 1, [FAR] = 1 }
};
static const Code user_os = {
    { [ANY] = 5, [LOAD] = 1, [SERIALISING] = 2, [FAR] = 1 }
};
/* And what run_kernel() adds */
static const Code kernel_call = {
    { [ANY] = 5, [CALL_INDIRECT] = 1, [SERIALISING] = 1 }
};
static const Code ret_code = {
    { [ANY] = 1, [LOAD] = 1, [RET] = 1 }
};
static const Code mixed_code = {
    { [ANY] = 12, [LOAD] = 3, [COND] = 4, [JMP] = 4 }
};
static const Code syscalls_code = {
    { [ANY] = 7, [LOAD] = 3, [SERIALISING] = 4, [FAR] = 4 }
};
/* At CPL 0 */
static const Code sysret_code = {
    { [ANY] = 1, [SERIALISING] = 1, [FAR] = 1 }
};

static unsigned width(void)
{
    return MAILBOX(MAILBOX_CONFIG) & CONFIG_WIDTH;
}

static bool has_level_2(void)
{
    return MAILBOX(MAILBOX_CONFIG) & CONFIG_LEVEL_2;
}

/* In quarters of a slot, without what only the precise models know */
static void add(Leaves *sum, const Code *code, uint64_t times)
{
    int kind, leaf, w = width();
    bool precise = IS_PRECISE;

    for (kind = 0; kind < KINDS; kind++) {
        if (!code->n[kind] || (kind == LOAD && precise) ||
            (kind == LOAD_AGAIN && !precise)) {
            continue;
        }
        for (leaf = 0; leaf < LEAVES; leaf++) {
            int price = prices[kind].quarters[leaf] +
                        w * prices[kind].widths[leaf] / 8;

            if (leaf == MISPREDICTS && precise) {
                continue;
            }
            sum->n[leaf] += times * code->n[kind] * price;
        }
    }
}

static uint64_t sum(const Leaves *l, unsigned leaves)
{
    uint64_t n = 0;
    int i;

    for (i = 0; i < LEAVES; i++) {
        n += leaves >> i & 1 ? l->n[i] : 0;
    }
    return n;
}

static unsigned byte(uint64_t metrics, int i)
{
    return metrics >> 8 * i & 0xff;
}

static unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * What both registers stand for when they are written: of level 1, more than
 * 255 is clipped from byte 0 on, and what is missing is backend bound.
 */
static void add_written(Leaves *l, uint64_t slots, uint64_t metrics)
{
    unsigned left = 255;
    int i;

    for (i = 0; i < 4; i++) {
        unsigned all = i < 3 ? min(byte(metrics, i), left) : left;
        unsigned part = has_level_2() ? min(byte(metrics, 4 + i), all) : 0;

        left -= all;
        l->n[2 * i] += 4 * slots * (all - part) / 255;
        l->n[2 * i + 1] += 4 * slots * part / 255;
    }
}

/*
 * Level 1 adds up to 255: what is missing after the division goes to the
 * largest remainders, of equal ones to the lowest byte. Level 2 is rounded,
 * but no more than its byte of level 1.
 */
static uint64_t metrics_of(const Leaves *l)
{
    uint64_t total = sum(l, ALL_LEAVES), rest[4], metrics = 0;
    unsigned bytes[4], missing = 255;
    int i, largest;

    if (!total) {
        return 0;
    }
    for (i = 0; i < 4; i++) {
        uint64_t n = 255 * (l->n[2 * i] + l->n[2 * i + 1]);

        bytes[i] = n / total;
        rest[i] = n % total;
        missing -= bytes[i];
    }
    while (missing--) {
        for (largest = 0, i = 1; i < 4; i++) {
            if (rest[i] > rest[largest]) {
                largest = i;
            }
        }
        bytes[largest]++;
        rest[largest] = 0;
    }
    for (i = 0; i < 4; i++) {
        uint64_t level_2 = (2 * 255 * l->n[2 * i + 1] + total) / (2 * total);

        metrics |= (uint64_t)bytes[i] << 8 * i;
        if (has_level_2()) {
            metrics |= (uint64_t)min(level_2, bytes[i]) << 8 * (4 + i);
        }
    }
    return metrics;
}

/* -------------------------------------------------------------- Measuring */

/* Microarchitectures, whose events differ */
enum { SKL = 1, ICL = 2, GLC = 4, ALL_ARCHS = 7 };

static unsigned arch(void)
{
    uint32_t r[4];

    get_cpuid(1, r);
    switch ((r[0] >> 4 & 0xf) | (r[0] >> 12 & 0xf0)) {
    case 0x55:
        return SKL;
    case 0x6a:
        return ICL;
    default:
        return GLC;
    }
}

static const struct {
    const char *name;
    uint16_t code;
    uint8_t leaves;
    uint8_t archs;              /* others count 0 */
} events[] = {
    { "slots", EV_SLOTS, ALL_LEAVES, ALL_ARCHS },
    { "retiring slots", EV_RETIRING, RETIRING_LEAVES, ALL_ARCHS },
    { "bad speculation", EV_BAD, BAD_LEAVES, GLC },
    { "branch mispredicts", EV_MISPREDICTS, L(MISPREDICTS), GLC },
    { "frontend bound", EV_FRONTEND, FRONTEND_LEAVES, ALL_ARCHS },
    { "backend bound", EV_BACKEND, BACKEND_LEAVES, ICL | GLC },
    { "memory bound", EV_MEMORY, L(MEMORY), GLC },
    { "issued (SPR)", EV_ISSUED_SPR, RETIRING_LEAVES, GLC },
    { "issued", EV_ISSUED, RETIRING_LEAVES, SKL | ICL },
    { "dropped", EV_DROPPED, 0, ALL_ARCHS },
    { "dropped (SPR)", EV_DROPPED_SPR, 0, ALL_ARCHS },
};

enum { E_SLOTS, E_RETIRING, E_BAD, E_MISPREDICTS, E_FRONTEND, E_BACKEND,
       E_MEMORY, E_ISSUED };

static unsigned event_leaves(int i)
{
    return events[i].archs & arch() ? events[i].leaves : 0;
}

static uint64_t slots(void)
{
    return rdmsr(MSR_FIXED_CTR(SLOTS));
}

static uint64_t metrics(void)
{
    return rdmsr(MSR_PERF_METRICS);
}

/* Software starts both from zero, the counter first. */
static void clear_both(void)
{
    wrmsr(MSR_FIXED_CTR(SLOTS), 0);
    wrmsr(MSR_PERF_METRICS, 0);
}

static void start(unsigned rings)
{
    pmu_reset();
    clear_both();
    wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(rings));
    pmu_enable = ENABLE_ALL;
}

/* As at the switch to a program that has already run */
static void restore(unsigned rings, uint64_t saved_slots,
                    uint64_t saved_metrics)
{
    start(rings);
    wrmsr(MSR_FIXED_CTR(SLOTS), saved_slots);
    wrmsr(MSR_PERF_METRICS, saved_metrics);
}

static void program_events(int first, uint64_t rings)
{
    int i;

    for (i = 0; i < GP_COUNTERS && first + i < ARRAY_SIZE(events); i++) {
        program(i, events[first + i].code | rings);
    }
}

static void check_events(int first, int step, const Leaves *l)
{
    int i;

    for (i = 0; i < GP_COUNTERS && first + i < ARRAY_SIZE(events); i++) {
        uint64_t n = sum(l, event_leaves(first + i));

        check_range(events[first + i].name, step, rdmsr(MSR_PMC(i)), n / 4,
                    (n + 3) / 4);
    }
}

static void check_slots(const char *name, int step, uint64_t start,
                        const Leaves *l)
{
    uint64_t n = sum(l, ALL_LEAVES);

    check_range(name, step, (slots() - start) & WIDTH_MASK, n / 4,
                (n + 3) / 4);
}

/* What holds as soon as a slot was counted */
static void check_invariants(const char *name, int step, uint64_t got)
{
    int i;

    check(name, step, byte(got, 0) + byte(got, 1) + byte(got, 2) +
          byte(got, 3), 255);
    for (i = 0; i < 4; i++) {
        check_range("level 2 in level 1", i, byte(got, 4 + i), 0,
                    has_level_2() ? byte(got, i) : 0);
    }
}

/*
 * Within the rounding of one unit, and of one slot in each of the two leaves
 * of a category
 */
static void check_near(const char *name, int step, uint64_t got,
                       const Leaves *l)
{
    uint64_t want = metrics_of(l);
    unsigned slack = 1 + 2 * 255 * 4 / sum(l, ALL_LEAVES);
    int i;

    check_invariants(name, step, got);
    for (i = 0; i < (has_level_2() ? 8 : 4); i++) {
        unsigned b = byte(want, i);

        check_range(name, step, byte(got, i), b - min(b, slack), b + slack);
    }
}

/* Slots are width x cycles, but for the cycle that is not complete. */
static void check_cycles(int step)
{
    uint64_t cycles = rdmsr(MSR_FIXED_CTR(1));
    unsigned w = width();

    check_range("slots and cycles", step, slots() + w, cycles * w + 1,
                cycles * w + 2 * w - 1);
}

static void add_block(Leaves *l, const Block *b, uint64_t times)
{
    add(l, &b->code, times);
    add(l, &block_end, times);
}

static void check_block(const Block *b, int step)
{
    Leaves inside = { }, all = { };

    context(b->name);
    add(&inside, &b->code, 1);
    add(&inside, &before_read, 1);
    add_block(&all, b, 1);

    start(FIXED_OS);
    program_events(0, EVTSEL_OS);
    program_fixed(0, FIXED_OS);
    program_fixed(1, FIXED_OS);
    b->run();
    check("METRICS by RDPMC inside", step, block_metrics,
          metrics_of(&inside));
    check("METRICS", step, metrics(), metrics_of(&all));
    check("slots", step, slots(), sum(&all, ALL_LEAVES) / 4);
    check_events(0, step, &all);
    check("instructions", step, rdmsr(MSR_FIXED_CTR(0)),
          b->code.n[ANY] + block_end.n[ANY]);
    check_cycles(step);
    context("");
}

/* SSE and AVX are off otherwise, so that they fault as other cases want. */
static void enable_vectors(bool on)
{
    uint64_t bits = CR4_OSFXSR | CR4_OSXSAVE;

    if (on) {
        write_cr4(read_cr4() | bits);
    }
    asm volatile("xsetbv" : : "c" (0), "a" (on ? 7 : 1), "d" (0));
    if (!on) {
        write_cr4(read_cr4() & ~bits);
    }
}

static bool is_vector(const Block *b)
{
    return b->run == block_sse || b->run == block_avx;
}

static bool hook_host(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    wait_for_host();
    return true;
}

/* The two halves of body_td_halves, with what run_user() adds */
static void add_halves(Leaves *first, Leaves *second, uint32_t turns)
{
    const Code half = { { [ANY] = 1 + 3 * turns, [COND] = turns } };
    const Code call = { { [ANY] = 1, [CALL_INDIRECT] = 1 } };
    const Code trap = { { [ANY] = 1, [SERIALISING] = 1, [FAR] = 1 } };

    add(first, &call, 1);
    add(first, &half, 1);
    add(first, &trap, 1);
    add(second, &half, 1);
    add(second, &ret_code, 1);
    add(second, &trap, 1);
}

/* ------------------------------------------------------------- Registers */

static void case_td_reset_values(void)
{
    check("METRICS", NO_STEP, metrics(), 0);
    check("RDPMC", NO_STEP, rdpmc(RDPMC_METRICS), 0);
    check("slots", NO_STEP, slots(), 0);
    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL), GP_MASK);
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
}

/* Without the feature, slots are there all the same. */
static void case_td_no_metrics(void)
{
    static const uint32_t has_bit_48[] = {
        MSR_GLOBAL_CTRL, MSR_STATUS_SET, MSR_STATUS_RESET,
    };
    Leaves l = { };
    uint64_t v;
    int i;

    check("PERF_CAPABILITIES[15]", NO_STEP, rdmsr(MSR_PERF_CAP) & BIT(15), 0);
    check("read of METRICS", NO_STEP, rdmsr_safe(MSR_PERF_METRICS, &v),
          VEC_GP);
    check("write of METRICS", NO_STEP, wrmsr_safe(MSR_PERF_METRICS, 0),
          VEC_GP);
    check("RDPMC of METRICS", NO_STEP, rdpmc_safe(RDPMC_METRICS, &v), VEC_GP);
    for (i = 0; i < ARRAY_SIZE(has_bit_48); i++) {
        uint64_t old = rdmsr(has_bit_48[i]);

        check("bit 48 of MSR", has_bit_48[i],
              wrmsr_safe(has_bit_48[i], STATUS_METRICS), VEC_GP);
        check("MSR afterwards", has_bit_48[i], rdmsr(has_bit_48[i]), old);
    }
    check("other bits of GLOBAL_CTRL", NO_STEP,
          wrmsr_safe(MSR_GLOBAL_CTRL, COUNTERS_MASK), 0);

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program_events(0, EVTSEL_OS);
    program_fixed(SLOTS, FIXED_OS);
    kernel(body_straight, 0);
    add(&l, &(Code) { { [ANY] = 23 } }, 1);
    add(&l, &ret_code, 1);
    add(&l, &kernel_call, 1);
    check_slots("slots", NO_STEP, 0, &l);
    check_events(0, NO_STEP, &l);
    check("RDPMC of slots", NO_STEP, rdpmc(RDPMC_FIXED + SLOTS), slots());
}

/* Any value can be written; without level 2 half of it is ignored. */
static void case_td_metrics(void)
{
    uint64_t mask = has_level_2() ? ~0ull : ~0u;
    uint64_t v;
    int bit;

    check("PERF_CAPABILITIES[15]", NO_STEP, rdmsr(MSR_PERF_CAP) & BIT(15),
          BIT(15));
    pmu_reset();
    for (bit = 0; bit < 64; bit++) {
        check("write of bit", bit, wrmsr_safe(MSR_PERF_METRICS, BIT(bit)), 0);
        check("METRICS after bit", bit, metrics(), BIT(bit) & mask);
        check("RDPMC after bit", bit, rdpmc_safe(RDPMC_METRICS, &v), 0);
        check("its value after bit", bit, v, BIT(bit) & mask);
    }
    check("write of all bits", NO_STEP, wrmsr_safe(MSR_PERF_METRICS, ~0ull),
          0);
    check("METRICS after all", NO_STEP, metrics(), mask);
    check("slots afterwards", NO_STEP, slots(), 0);
    check("GLOBAL_INUSE", NO_STEP, rdmsr(MSR_GLOBAL_INUSE), 0);
}

/* Until a slot arrives, what was written reads back, whatever it is. */
static void case_td_verbatim(void)
{
    static const uint64_t values[] = {
        0x40404041, 0x1020304050607080, 0xffffffffffffffff, 1,
        0x0123456789abcdef,
    };
    static const uint64_t counters[] = { 0, 1, 1000, MANY_SLOTS };
    int i, j;

    for (i = 0; i < ARRAY_SIZE(values); i++) {
        uint64_t v = has_level_2() ? values[i] : values[i] & ~0u;

        for (j = 0; j < ARRAY_SIZE(counters); j++) {
            restore(FIXED_USR, counters[j], values[i]);
            check("METRICS", i, metrics(), v);
            check("RDPMC", i, rdpmc(RDPMC_METRICS), v);
            /* Nothing of this is at CPL 3. */
            block_jumps();
            check("RDPMC while CPL 3 is counted", i, block_metrics, v);
            check("METRICS after CPL 0", i, metrics(), v);
            check("slots after CPL 0", i, slots(), counters[j]);

            /* Slots that are not for METRICS */
            wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(FIXED_OS));
            pmu_enable = ENABLE_SLOTS;
            block_jumps();
            check("METRICS without bit 48", i, metrics(), v);
            check_range("slots without bit 48", i, slots(), counters[j] + 1,
                        counters[j] + 1000);

            pmu_enable = ENABLE_ALL;
            block_jumps();
            check_invariants("sum after slots", i, metrics());
        }
    }
}

static void case_td_global_ctrl(void)
{
    uint64_t legal = COUNTERS_MASK | STATUS_METRICS;
    int bit;

    pmu_reset();
    for (bit = 0; bit < 64; bit++) {
        check("write of bit", bit, wrmsr_safe(MSR_GLOBAL_CTRL, BIT(bit)),
              legal >> bit & 1 ? 0 : VEC_GP);
    }
    wrmsr(MSR_GLOBAL_CTRL, legal);
    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL), legal);
    wrmsr(MSR_GLOBAL_CTRL, 0);
}

/* Software may set the bit, which is no overflow. */
static void case_td_global_status(void)
{
    restore(FIXED_OS | FIXED_PMI, 1000, 0x40404041);
    wrmsr(MSR_STATUS_SET, STATUS_METRICS);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), STATUS_METRICS);
    check("PMI", NO_STEP, apic_irr(VEC_PMI), false);
    block_nops();
    check("PMI after counting", NO_STEP, apic_irr(VEC_PMI), false);
    wrmsr(MSR_STATUS_RESET, ~STATUS_METRICS & STATUS_MASK);
    check("status after other bits", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS);
    wrmsr(MSR_STATUS_RESET, STATUS_METRICS);
    check("status after reset", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("SET reads", NO_STEP, rdmsr(MSR_STATUS_SET), 0);
    check("RESET reads", NO_STEP, rdmsr(MSR_STATUS_RESET), 0);
}

/* Adds up to 255: 128, 64, 32, and 31, of which 16, 32, 32, and 5 */
#define SOME_METRICS        0x052020101f204080

/* As METRICS reads back, without slots */
static uint64_t readable(uint64_t written)
{
    return has_level_2() ? written : written & ~0u;
}

/*
 * Registers to be kept by something: with a state that has counted, or with
 * one that was written. Meanwhile CPL 3 is counted, where nothing runs.
 */
static void fill(bool written)
{
    start(FIXED_OS);
    if (written) {
        wrmsr(MSR_FIXED_CTR(SLOTS), MANY_SLOTS);
        wrmsr(MSR_PERF_METRICS, SOME_METRICS);
    } else {
        block_jumps();
    }
    wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(FIXED_USR | FIXED_PMI));
    wrmsr(MSR_STATUS_SET, STATUS_METRICS);
    wrmsr(MSR_GLOBAL_CTRL, ENABLE_ALL);
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS);
}

/* They have been kept, and go on from there. */
static void check_filled(bool written)
{
    Leaves l = { };

    context(written ? "written" : "counted");
    if (written) {
        add_written(&l, MANY_SLOTS, SOME_METRICS);
        check("METRICS", NO_STEP, metrics(), readable(SOME_METRICS));
    } else {
        add_block(&l, BLOCK(jumps), 1);
        check("METRICS", NO_STEP, metrics(), metrics_of(&l));
    }
    check("slots", NO_STEP, slots(), sum(&l, ALL_LEAVES) / 4);
    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL), ENABLE_ALL);
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS);
    check("FIXED_CTR_CTRL", NO_STEP, rdmsr(MSR_FIXED_CTR_CTRL),
          SLOTS_CTRL(FIXED_USR | FIXED_PMI));

    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(FIXED_OS));
    pmu_enable = ENABLE_ALL;
    block_divides();
    add_block(&l, BLOCK(divides), 1);
    check("slots later", NO_STEP, slots(), sum(&l, ALL_LEAVES) / 4);
    check("METRICS later", NO_STEP, metrics(), metrics_of(&l));
    context("");
}

/* By whatever the qtest does between the two, with MAILBOX_ARG */
static void case_td_fill(void)
{
    fill(MAILBOX_64(MAILBOX_ARG));
}

static void case_td_filled(void)
{
    check_filled(MAILBOX_64(MAILBOX_ARG));
}

static void fill_written(void)
{
    fill(true);
}

static void fill_counted(void)
{
    fill(false);
}

static void check_written(void)
{
    check_filled(true);
}

static void check_counted(void)
{
    check_filled(false);
}

/* INIT keeps them. */
static void case_td_init(void)
{
    static void (*const jobs[][2])(void) = {
        { fill_written, check_written }, { fill_counted, check_counted },
    };
    int i;

    for (i = 0; i < ARRAY_SIZE(jobs); i++) {
        start_ap();
        call_ap(jobs[i][0]);
        call_ap_wait();
        start_ap();
        call_ap(jobs[i][1]);
        call_ap_wait();
    }
    call_ap(pmu_reset);
    call_ap_wait();
}

/* ------------------------- Rule 1: METRICS counts when fixed counter 3 does */

static void case_td_enable(void)
{
    static const Block *const b[] = {
        BLOCK(jumps), BLOCK(loads), BLOCK(divides),
    };
    Leaves one = { }, two = { }, three = { };
    int i;

    /* Each of the three bits that it takes */
    add_block(&one, b[0], 1);
    for (i = 0; i < 8; i++) {
        bool counts = (i & 3) == 3;

        start(i & 1 ? FIXED_OS : 0);
        pmu_enable = (i & 2 ? ENABLE_SLOTS : 0) |
                     (i & 4 ? STATUS_METRICS : 0);
        b[0]->run();
        check("slots", i, slots(), counts ? sum(&one, ALL_LEAVES) / 4 : 0);
        check("METRICS", i, metrics(), i == 7 ? metrics_of(&one) : 0);
    }

    /* Off in the middle: by GLOBAL_CTRL[48], [35], and by FIXED_CTR_CTRL */
    two = one;
    add_block(&two, b[1], 1);
    for (i = 0; i < 3; i++) {
        start(FIXED_OS);
        b[0]->run();
        pmu_enable = i == 0 ? ENABLE_SLOTS
                            : i == 1 ? STATUS_METRICS : ENABLE_ALL;
        if (i == 2) {
            wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(FIXED_USR));
        }
        b[1]->run();
        check("slots after a pause", i, slots(),
              sum(i == 0 ? &two : &one, ALL_LEAVES) / 4);
        check("METRICS after a pause", i, metrics(), metrics_of(&one));

        wrmsr(MSR_FIXED_CTR_CTRL, SLOTS_CTRL(FIXED_OS));
        pmu_enable = ENABLE_ALL;
        b[2]->run();
        three = one;
        add_block(&three, b[2], 1);
        check("METRICS later", i, metrics(), metrics_of(&three));
    }
}

static void case_td_filter(void)
{
    unsigned rings;

    for (rings = 0; rings < 4; rings++) {
        Leaves l = { };

        start(rings);
        program_events(0, (rings & FIXED_OS ? EVTSEL_OS : 0) |
                          (rings & FIXED_USR ? EVTSEL_USR : 0));
        user(body_td_mixed, 0);
        user(body_td_syscalls, 0);
        block_jumps();
        if (rings & FIXED_USR) {
            add(&l, &mixed_code, 1);
            add(&l, &syscalls_code, 1);
            add(&l, &user_call, 2);
            add(&l, &ret_code, 2);
        }
        if (rings & FIXED_OS) {
            add(&l, &user_os, 2);
            add(&l, &sysret_code, 4);
            add_block(&l, BLOCK(jumps), 1);
        }
        check_slots("slots", rings, 0, &l);
        check_events(0, rings, &l);
        if (rings == FIXED_USR || !rings) {
            /* No part of a slot is left. */
            check("METRICS", rings, metrics(), metrics_of(&l));
        } else {
            check_near("METRICS", rings, metrics(), &l);
        }
    }
}

/* ---------------------------------- Rule 2: the counter is written first */

static void case_td_order(void)
{
    const uint64_t m = SOME_METRICS, r = readable(m);
    Leaves l = { }, restored = { };

    add_block(&l, BLOCK(jumps), 1);
    restored = l;
    add_written(&restored, MANY_SLOTS, m);

    context("both from zero");
    start(FIXED_OS);
    check("METRICS", NO_STEP, metrics(), 0);
    block_jumps();
    check("METRICS later", NO_STEP, metrics(), metrics_of(&l));
    clear_both();
    check("METRICS cleared", NO_STEP, metrics(), 0);
    block_jumps();
    check("METRICS once more", NO_STEP, metrics(), metrics_of(&l));

    context("METRICS first");
    wrmsr(MSR_PERF_METRICS, m);
    check("METRICS", NO_STEP, metrics(), r);
    wrmsr(MSR_FIXED_CTR(SLOTS), 0);
    check("METRICS restarted", NO_STEP, metrics(), 0);
    block_jumps();
    check("METRICS later", NO_STEP, metrics(), metrics_of(&l));
    wrmsr(MSR_PERF_METRICS, m);
    wrmsr(MSR_FIXED_CTR(SLOTS), MANY_SLOTS);
    check("METRICS with a new counter", NO_STEP, metrics(), 0);
    block_jumps();
    check("METRICS of what is new", NO_STEP, metrics(), metrics_of(&l));
    check("slots", NO_STEP, slots(),
          MANY_SLOTS + sum(&l, ALL_LEAVES) / 4);

    context("the counter first");
    wrmsr(MSR_FIXED_CTR(SLOTS), MANY_SLOTS);
    wrmsr(MSR_PERF_METRICS, m);
    check("METRICS", NO_STEP, metrics(), r);
    check("slots", NO_STEP, slots(), MANY_SLOTS);
    block_jumps();
    check("METRICS later", NO_STEP, metrics(), metrics_of(&restored));

    /* The last write of METRICS is what it goes on from. */
    context("METRICS twice");
    wrmsr(MSR_FIXED_CTR(SLOTS), MANY_SLOTS);
    wrmsr(MSR_PERF_METRICS, 0xff);
    wrmsr(MSR_PERF_METRICS, m);
    check("METRICS", NO_STEP, metrics(), r);
    block_jumps();
    check("METRICS later", NO_STEP, metrics(), metrics_of(&restored));

    context("with a counter of 0");
    clear_both();
    wrmsr(MSR_PERF_METRICS, m);
    check("METRICS", NO_STEP, metrics(), r);
    block_jumps();
    check("METRICS later", NO_STEP, metrics(), metrics_of(&l));
    context("");
}

/* ------------------------------------ Rule 3: saved values are restored */

static void case_td_restore(void)
{
    static const uint64_t counters[] = {
        MANY_SLOTS, 0x123456789abc, 1000000, 1000, 255, 2, 1,
    };
    static const uint64_t values[] = {
        SOME_METRICS, 0x4040403f, 0xff, 0xff00, 0xff0000,
        0xff000000, 0xff000000ff000000, 0x0102030405f00505,
    };
    int i, j;

    for (i = 0; i < ARRAY_SIZE(counters); i++) {
        for (j = 0; j < ARRAY_SIZE(values); j++) {
            uint64_t s = counters[i];
            Leaves l = { };

            restore(FIXED_OS, s, values[j]);
            check("METRICS", j, metrics(), readable(values[j]));
            block_calls_memory();
            add_block(&l, BLOCK(calls_memory), 1);
            check("slots", i, slots(), s + sum(&l, ALL_LEAVES) / 4);
            add_written(&l, s, values[j]);
            context("going on");
            if (s == MANY_SLOTS) {
                check("METRICS", j, metrics(), metrics_of(&l));
            } else {
                check_near("METRICS", j, metrics(), &l);
            }
            context("");
        }
    }
}

/* Software may write what no CPU has counted. */
static void case_td_restore_odd(void)
{
    static const struct {
        const char *name;
        uint64_t written, want;
    } t[] = {
        { "nothing", 0, 0xff000000 },
        { "less than 255", 0x0000000014000a64, 0x0000000091000a64 },
        { "255 in one", 0x01ff, 0x00ff },
        { "more than 255", 0x323264c8, 0x000037c8 },
        { "all of all", 0xffffffff, 0xff },
        { "more at level 2", 0x383c3c7837323264, 0x3732326437323264 },
    };
    const uint64_t few = 4000;
    const int turns = 20;
    int i, j;

    for (i = 0; i < ARRAY_SIZE(t); i++) {
        Leaves l = { };

        context(t[i].name);
        restore(FIXED_OS, MANY_SLOTS, t[i].written);
        check("METRICS", NO_STEP, metrics(), readable(t[i].written));
        block_jumps();
        check("METRICS later", NO_STEP, metrics(), readable(t[i].want));
        add_written(&l, MANY_SLOTS, t[i].written);
        add_block(&l, BLOCK(jumps), 1);
        check("METRICS as computed", NO_STEP, metrics(), metrics_of(&l));

        /* So few slots that what comes then is as much as they are */
        restore(FIXED_OS, few, t[i].written);
        for (j = 0; j < turns; j++) {
            block_nops();
        }
        l = (Leaves) { };
        add_written(&l, few, t[i].written);
        add_block(&l, BLOCK(nops), turns);
        check_near("METRICS of both", NO_STEP, metrics(), &l);
    }
}

/* As the kernel does it: a program keeps both registers while others run. */
static void case_td_restore_shared(void)
{
    static const Block *const b[] = { BLOCK(divides), BLOCK(locks) };
    uint64_t saved_slots[2] = { }, saved_metrics[2] = { };
    const int turns = 50;
    int i, j;

    for (i = 0; i < turns; i++) {
        for (j = 0; j < 2; j++) {
            restore(FIXED_OS, saved_slots[j], saved_metrics[j]);
            b[j]->run();
            saved_slots[j] = rdpmc(RDPMC_FIXED + SLOTS);
            saved_metrics[j] = rdpmc(RDPMC_METRICS);
        }
    }
    for (j = 0; j < 2; j++) {
        Leaves l = { };

        context(b[j]->name);
        add_block(&l, b[j], turns);
        check("slots", NO_STEP, saved_slots[j], sum(&l, ALL_LEAVES) / 4);
        check_near("METRICS", NO_STEP, saved_metrics[j], &l);
    }
}

/* ------------------------------------- Rule 4: RDPMC and RDMSR are the same */

static void case_td_rdpmc(void)
{
    static const uint32_t bad[] = {
        RDPMC_METRICS + 1, RDPMC_METRICS + 3, RDPMC_METRICS + 0xffff,
        RDPMC_METRICS + 0x10000, RDPMC_METRICS + 0x0fffffff,
        RDPMC_METRICS | RDPMC_FIXED,
    };
    Cpu *cpu = this_cpu();
    uint64_t cr4 = read_cr4(), v;
    int i;

    for (i = 0; i < ARRAY_SIZE(blocks); i++) {
        if (is_vector(&blocks[i])) {
            continue;
        }
        start(FIXED_OS);
        blocks[i].run();
        context(blocks[i].name);
        check("RDPMC", NO_STEP, rdpmc(RDPMC_METRICS), metrics());
        check("RDPMC of slots", NO_STEP, rdpmc(RDPMC_FIXED + SLOTS),
              slots());
    }
    context("");
    for (i = 0; i < ARRAY_SIZE(bad); i++) {
        check("bad index", bad[i], rdpmc_safe(bad[i], &v), VEC_GP);
    }

    v = metrics();
    pmu_enable = 0;
    cpu->hook = skip_rdpmc;
    write_cr4(cr4 & ~CR4_PCE);
    payload_result[0] = 0;
    user(body_td_rdpmc_metrics, 0);
    check("#GP at CPL 3 without PCE", NO_STEP, cpu->events, 1);
    kernel(body_td_rdpmc_metrics, 0);
    check("CPL 0 without PCE", NO_STEP, payload_result[0], v);
    write_cr4(cr4 | CR4_PCE);
    payload_result[0] = 0;
    user(body_td_rdpmc_metrics, 0);
    check("CPL 3 with PCE", NO_STEP, payload_result[0], v);
    check("no further #GP", NO_STEP, cpu->events, 1);
    write_cr4(cr4);
    cpu->hook = NULL;
}

/* -------------------------- Rule 5: overflow, until both have been reset */

static uint64_t slots_of_block(const Block *b)
{
    Leaves l = { };

    add_block(&l, b, 1);
    return sum(&l, ALL_LEAVES) / 4;
}

static void run_slots(const Block *b, uint64_t n)
{
    uint64_t once = slots_of_block(b), i;

    for (i = 0; i < n; i += once) {
        b->run();
    }
}

/* One slot before the limit, at it, and after it */
static void case_td_overflow_exact(void)
{
    uint64_t n = slots_of_block(BLOCK(nops));
    int i, pmi;

    for (pmi = 0; pmi < 2; pmi++) {
        for (i = -1; i <= 1; i++) {
            context(pmi ? "with PMI" : "without PMI");
            restore(FIXED_OS | (pmi ? FIXED_PMI : 0), METRICS_LIMIT - n + i,
                    SOME_METRICS);
            block_nops();
            check("status", i + 1, rdmsr(MSR_GLOBAL_STATUS),
                  i < 0 ? 0 : STATUS_METRICS);
            check("PMI", i + 1, apic_irr(VEC_PMI), i >= 0 && pmi);
            check("LVTPC", i + 1, apic_read(APIC_LVTPC),
                  VEC_PMI | (i >= 0 && pmi ? LVT_MASKED : 0));
            check("slots", i + 1, slots(), METRICS_LIMIT + i);
            check_invariants("METRICS", i + 1, metrics());
            interrupts();
            check("interrupts", i + 1, this_cpu()->pmis, i >= 0 && pmi);
        }
    }

    /* Slots alone have no limit, and METRICS counts only its own. */
    context("not for METRICS");
    start(FIXED_OS | FIXED_PMI);
    pmu_enable = ENABLE_SLOTS;
    run_slots(BLOCK(nops), 2 * METRICS_LIMIT);
    check_range("slots", NO_STEP, slots(), 2 * METRICS_LIMIT, WIDTH_MASK);
    pmu_enable = ENABLE_ALL;
    block_nops();
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("PMI", NO_STEP, apic_irr(VEC_PMI), false);
    context("");
}

static void check_overflow(const char *name, unsigned pmis)
{
    Cpu *cpu = this_cpu();

    interrupts();
    check(name, NO_STEP, cpu->pmis, pmis);
    if (cpu->pmis) {
        check("status in the handler", NO_STEP, cpu->pmi_status,
              STATUS_METRICS);
    }
    check("status afterwards", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    cpu->pmis = 0;
}

static void case_td_overflow_once(void)
{
    const Block *b = BLOCK(nops);
    uint64_t n = slots_of_block(b);

    start(FIXED_OS | FIXED_PMI);
    run_slots(b, METRICS_LIMIT - n - 1);
    check_overflow("before the limit", 0);
    run_slots(b, n + 1);
    check_overflow("at the limit", 1);
    run_slots(b, 5 * METRICS_LIMIT);
    check_overflow("not again", 0);
    wrmsr(MSR_PERF_METRICS, SOME_METRICS);
    run_slots(b, 5 * METRICS_LIMIT);
    check_overflow("not again by METRICS", 0);

    clear_both();
    run_slots(b, METRICS_LIMIT);
    check_overflow("after both are reset", 1);
    run_slots(b, 2 * METRICS_LIMIT);
    check_overflow("but once", 0);
    wrmsr(MSR_FIXED_CTR(SLOTS), 0);
    run_slots(b, METRICS_LIMIT);
    check_overflow("after the counter is reset", 1);
    wrmsr(MSR_FIXED_CTR(SLOTS), METRICS_LIMIT / 2);
    wrmsr(MSR_PERF_METRICS, SOME_METRICS);
    run_slots(b, METRICS_LIMIT / 2 - n - 1);
    check_overflow("before the rest", 0);
    run_slots(b, n + 1);
    check_overflow("after the rest", 1);
}

/*
 * The counter has wrapped, so that it is smaller than what METRICS has
 * counted: writing METRICS then makes it start from there.
 */
static void case_td_overflow_smaller(void)
{
    const Block *b = BLOCK(nops);
    uint64_t n = slots_of_block(b), left;

    start(FIXED_OS);
    wrmsr(MSR_FIXED_CTR(SLOTS), negative(METRICS_LIMIT));
    run_slots(b, METRICS_LIMIT);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS | FIXED_BIT(SLOTS));
    wrmsr(MSR_STATUS_RESET, STATUS_METRICS | FIXED_BIT(SLOTS));
    check_range("slots", NO_STEP, slots(), 0, n);
    wrmsr(MSR_PERF_METRICS, SOME_METRICS);
    left = METRICS_LIMIT - slots();
    run_slots(b, left - n);
    check("status before", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    b->run();
    check("status again", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), STATUS_METRICS);
}

/* Before the first of the NOPs: CALL indirect and JMP */
#define CHAIN_START         (4 + 2)
/* 62 NOPs and a JMP */
#define CHAIN_SLOTS         (62 + 2)

static void case_td_overflow_pmi(void)
{
    const uint64_t chain = (uintptr_t)payload_nop_chain;
    Cpu *cpu = this_cpu();
    unsigned block, i;

    for (block = 0; block < 60; block += 7) {
        /* The last instruction of the 63 is the JMP. */
        for (i = 0; i < 63; i += i < 60 ? 6 : 1) {
            uint64_t end = chain + 64 * (block + 1);
            uint64_t n = CHAIN_START + CHAIN_SLOTS * block + i + 1;

            restore(FIXED_OS | FIXED_PMI, METRICS_LIMIT - n, SOME_METRICS);
            apic_write(APIC_LVTPC, LVT_NMI);
            kernel(body_nop_chain, 0);
            check("interrupts", i, cpu->pmis, 1);
            check("RIP", i, cpu->pmi_rip, i < 62 ? end - 64 + i + 1 : end);
            check("status in the handler", i, cpu->pmi_status,
                  STATUS_METRICS);
            check("LVTPC in the handler", i, cpu->pmi_lvtpc,
                  LVT_NMI | LVT_MASKED);
        }
    }
}

static uint64_t handled_slots, handled[4];

/* What a driver does: it takes the counts, and starts both from zero. */
static bool hook_take(Frame *f)
{
    uint64_t s, m;
    int i;

    if (f->vector != VEC_NMI) {
        return false;
    }
    s = rdpmc(RDPMC_FIXED + SLOTS);
    m = rdpmc(RDPMC_METRICS);
    handled_slots += s;
    for (i = 0; i < 4; i++) {
        handled[i] += s * byte(m, i) / 255;
    }
    this_cpu()->events++;
    check_range("slots in the handler", NO_STEP, s, METRICS_LIMIT,
                METRICS_LIMIT + 41 * width());
    clear_both();
    pmi_acknowledge();
    return true;
}

static void case_td_overflow_handler(void)
{
    const uint32_t turns = 1000, runs = 20;
    const Code loop = { { [ANY] = 1 + 3 * turns, [COND] = turns } };
    Cpu *cpu = this_cpu();
    Leaves l = { };
    uint64_t n;
    int i;

    add(&l, &loop, runs);
    add(&l, &user_call, runs);
    add(&l, &ret_code, runs);
    n = sum(&l, ALL_LEAVES) / 4;

    start(FIXED_USR | FIXED_PMI);
    program_events(0, EVTSEL_USR);
    apic_write(APIC_LVTPC, LVT_NMI);
    handled_slots = 0;
    memset(handled, 0, sizeof(handled));
    cpu->hook = hook_take;
    for (i = 0; i < (int)runs; i++) {
        user(body_loop_jnz, 0);
    }
    cpu->hook = NULL;
    handled_slots += slots();
    /* At most what one instruction costs is beyond the limit. */
    check_range("overflows", NO_STEP, cpu->events,
                n / (METRICS_LIMIT + 41 * width()), n / METRICS_LIMIT);
    /* Writing the counter drops a fraction. */
    check_range("slots", NO_STEP, handled_slots, n - cpu->events, n + 1);
    check_events(0, NO_STEP, &l);
    for (i = 0; i < 4; i++) {
        uint64_t want = sum(&l, 3 << 2 * i) / 4;

        handled[i] += slots() * byte(metrics(), i) / 255;
        /* One unit of 255 each time, and what division cuts off */
        check_range("category", i, handled[i] + n / 255 + runs, want,
                    want + 2 * (n / 255 + runs));
    }
}

/* DEBUGCTL[12]: all counters stop at the PMI, until bit 59 is reset. */
static void case_td_freeze(void)
{
    const uint64_t n = CHAIN_START + CHAIN_SLOTS * 20 + 10;
    uint64_t frozen, insns;

    restore(FIXED_OS | FIXED_PMI, METRICS_LIMIT - n, SOME_METRICS);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    program_fixed(0, FIXED_OS);
    kernel(body_nop_chain, 0);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS | STATUS_FROZEN);
    check("slots", NO_STEP, slots(), METRICS_LIMIT);
    insns = rdmsr(MSR_FIXED_CTR(0));
    check("instructions", NO_STEP, insns, 2 + 63 * 20 + 10);
    frozen = metrics();
    check_invariants("METRICS", NO_STEP, frozen);

    /* Frozen, although enabled; also with the overflow bit reset */
    block_divides();
    check("frozen METRICS", NO_STEP, metrics(), frozen);
    wrmsr(MSR_STATUS_RESET, STATUS_METRICS);
    block_divides();
    check("METRICS before bit 59 is reset", NO_STEP, metrics(), frozen);
    check("slots before bit 59 is reset", NO_STEP, slots(), METRICS_LIMIT);
    check("instructions before bit 59 is reset", NO_STEP,
          rdmsr(MSR_FIXED_CTR(0)), insns);

    wrmsr(MSR_STATUS_RESET, STATUS_FROZEN);
    block_divides();
    check("slots afterwards", NO_STEP, slots(),
          METRICS_LIMIT + slots_of_block(BLOCK(divides)));
    check("status afterwards", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    interrupts();

    /* An overflow without PMI does not freeze. */
    restore(FIXED_OS, METRICS_LIMIT - n, SOME_METRICS);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    kernel(body_nop_chain, 0);
    check("status without PMI", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS);
    check_range("slots without PMI", NO_STEP, slots(),
                METRICS_LIMIT + CHAIN_SLOTS * 40, WIDTH_MASK);
    pmu_reset();
}

/* With a limit that cannot be reached but by writing the registers */
static void case_td_default_limit(void)
{
    uint64_t n = slots_of_block(BLOCK(nops));

    start(FIXED_OS | FIXED_PMI);
    run_slots(BLOCK(nops), 100 * METRICS_LIMIT);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    restore(FIXED_OS, negative(n + 1), SOME_METRICS);
    block_nops();
    check("status before", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("slots before", NO_STEP, slots(), WIDTH_MASK);
    restore(FIXED_OS, negative(n), SOME_METRICS);
    block_nops();
    check("status at the wrap", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          STATUS_METRICS | FIXED_BIT(SLOTS));
    check("slots at the wrap", NO_STEP, slots(), 0);
}

/* --------------------------------------- Rule 6: reading while they count */

/* The code of body_td_reads, step by step */
static void check_reads(void)
{
    const Code call = { { [ANY] = 3, [CALL_INDIRECT] = 1 } };
    const Code choose = { { [ANY] = 4, [COND] = 1 } };
    const Code load = { { [ANY] = 2, [LOAD] = 1, [JMP] = 1 } };
    const Code divide = { { [ANY] = 4, [DIVIDE] = 1 } };
    const Code last = {
        { [ANY] = 3, [CALL] = 1, [RET] = 1, [LOAD] = 1 }
    };
    const Code turn = { { [ANY] = 6, [COND] = 1 } };
    Leaves l = { };
    uint32_t i;

    add(&l, &call, 1);
    for (i = 0; i < td_reads_end - td_reads_metrics; i++) {
        uint32_t random = i * 1103515245 + 12345;

        add(&l, &choose, 1);
        add(&l, random >> 13 & 1 ? &divide : &load, 1);
        add(&l, &last, 1);
        check_near("METRICS", i, td_reads_metrics[i], &l);
        add(&l, &turn, 1);
    }
}

static void case_td_read_running(void)
{
    uint64_t cr4 = read_cr4();

    write_cr4(cr4 | CR4_PCE);
    context("CPL 0");
    start(FIXED_OS);
    kernel(body_td_reads, 0);
    check_reads();
    context("CPL 3");
    start(FIXED_USR);
    user(body_td_reads, 0);
    check_reads();
    write_cr4(cr4);
    context("");
}

/* ------------------------ Rule 7: METRICS does not depend on the counter */

static void case_td_sampling(void)
{
    const Block *b = BLOCK(jumps);
    uint64_t n = slots_of_block(b);
    Cpu *cpu = this_cpu();
    Leaves one = { };

    add_block(&one, b, 1);

    context("before the overflow");
    start(FIXED_OS | FIXED_PMI);
    wrmsr(MSR_FIXED_CTR(SLOTS), negative(n + 1));
    check("METRICS at first", NO_STEP, metrics(), 0);
    b->run();
    check("slots", NO_STEP, slots(), WIDTH_MASK);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("METRICS", NO_STEP, metrics(), metrics_of(&one));

    /* The counter wraps, METRICS goes on. */
    context("after the overflow");
    block_divides();
    add_block(&one, BLOCK(divides), 1);
    check("slots", NO_STEP, slots(), slots_of_block(BLOCK(divides)) - 1);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), FIXED_BIT(SLOTS));
    check("METRICS", NO_STEP, metrics(), metrics_of(&one));
    interrupts();
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("status in the handler", NO_STEP, cpu->pmi_status,
          FIXED_BIT(SLOTS));

    /* Without METRICS in GLOBAL_CTRL it is a counter as any other. */
    context("alone");
    start(FIXED_OS | FIXED_PMI);
    pmu_enable = ENABLE_SLOTS;
    wrmsr(MSR_FIXED_CTR(SLOTS), negative(n));
    b->run();
    check("slots", NO_STEP, slots(), 0);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), FIXED_BIT(SLOTS));
    check("METRICS", NO_STEP, metrics(), 0);
    context("");
}

/* Whatever was there: METRICS is 0 until a slot comes, and then as new. */
static void case_td_counter_alone(void)
{
    const uint64_t counters[] = {
        0, 1, 1000, MANY_SLOTS, WIDTH_MASK - 10000,
    };
    Leaves l = { };
    int i;

    add_block(&l, BLOCK(jumps), 1);
    for (i = 0; i < ARRAY_SIZE(counters); i++) {
        start(FIXED_OS);
        block_divides();
        check_invariants("METRICS", i, metrics());
        wrmsr(MSR_FIXED_CTR(SLOTS), counters[i]);
        check("METRICS restarted", i, metrics(), 0);
        check("RDPMC restarted", i, rdpmc(RDPMC_METRICS), 0);
        block_jumps();
        check("METRICS later", i, metrics(), metrics_of(&l));
        check("slots later", i, slots(),
              counters[i] + sum(&l, ALL_LEAVES) / 4);
    }
}

/* ---------------------------------------------------- The static model */

static void case_td_prices(void)
{
    int i, step;

    enable_vectors(true);
    /* Once more, now that it is translated */
    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(blocks); i++) {
            check_block(&blocks[i], step);
        }
    }
    enable_vectors(false);
}

static void case_td_prices_user(void)
{
    static const struct {
        const char *name;
        void (*body)(void);
        const Code *code;
    } t[] = {
        { "mixed", body_td_mixed, &mixed_code },
        { "SYSCALL", body_td_syscalls, &syscalls_code },
    };
    int i, step;

    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(t); i++) {
            Leaves l = { };

            context(t[i].name);
            add(&l, t[i].code, 1);
            add(&l, &user_call, 1);
            add(&l, &ret_code, 1);
            start(FIXED_USR);
            program_events(0, EVTSEL_USR);
            program_fixed(1, FIXED_USR);
            user(t[i].body, 0);
            check("slots", step, slots(), sum(&l, ALL_LEAVES) / 4);
            check("METRICS", step, metrics(), metrics_of(&l));
            check_events(0, step, &l);
            check_cycles(step);
        }
    }
    context("");
}

/*
 * Cycles for a line of memory, where a loop of ten instructions loads once from
 * each, as in the "pmu" test of kvm-unit-tests. Narrow CPUs need more.
 */
static void check_walk(uint64_t lines, uint64_t cycles, uint64_t misses)
{
    uint64_t at = CHASE_AREA, n = lines;

    start(FIXED_OS);
    program(0, EV_LLC_MISSES | EVTSEL_OS);
    program_fixed(1, FIXED_OS);
    wrmsr(MSR_GLOBAL_CTRL, ENABLE_ALL);
    asm volatile("1: mov (%0), %%rax; add $64, %0; nop; nop; nop; nop; nop;"
                 "nop; nop; loop 1b"
                 : "+r" (at), "+c" (n) : : "rax", "cc", "memory");
    wrmsr(MSR_GLOBAL_CTRL, 0);
    check_range("misses", NO_STEP, rdmsr(MSR_PMC(0)), misses, misses + 10);
    if (width() > 4) {
        check("cycles a line", NO_STEP,
              (rdmsr(MSR_FIXED_CTR(1)) + lines / 2) / lines, cycles);
    }
}

/* One load in 64 misses. */
static void case_td_lines(void)
{
    check_walk(6400, 8, 100);
}

/* Nothing is fetched ahead: each line misses, also after the first time. */
static void case_tdp_lines(void)
{
    const uint64_t lines = LINES(2 * LLC_SIZE);

    check_walk(lines, 46, lines);
    check_walk(lines, 46, lines);
}

/* ------------------------------------------------------------ Invariants */

/* Of a NOP there is one slot, and nothing else. */
static void case_td_retiring(void)
{
    /* The WRMSR at the end has four operations. */
    const uint64_t extra = 3;
    static const Block *const simple[] = {
        BLOCK(nops), BLOCK(plain), BLOCK(loads), BLOCK(stores), BLOCK(taken),
        BLOCK(not_taken), BLOCK(jumps), BLOCK(jumps_indirect),
    };
    int i;

    for (i = 0; i < ARRAY_SIZE(simple); i++) {
        start(FIXED_OS);
        program_events(0, EVTSEL_OS);
        program_fixed(0, FIXED_OS);
        simple[i]->run();
        check("retiring slots", i, rdmsr(MSR_PMC(E_RETIRING)),
              rdmsr(MSR_FIXED_CTR(0)) + extra);
    }

    /* 3000 of them, with CALL of run_kernel(), which is one slot more */
    start(FIXED_OS);
    program_events(0, EVTSEL_OS);
    program_fixed(0, FIXED_OS);
    kernel(body_long_block, 0);
    check("retiring slots of 3000 NOPs", NO_STEP, rdmsr(MSR_PMC(E_RETIRING)),
          3000 + 2 + 1 + 3 + 4);
    check("instructions", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), 3000 + 6);
}

/* Quarters of slots are not lost when counting stops, nor at a read. */
static void case_td_fractions(void)
{
    const Code code = { { [ANY] = 2, [COND] = 1, [LOAD] = 1 } };
    Leaves l = { };
    int i;

    start(FIXED_OS);
    program_events(0, EVTSEL_OS);
    program_fixed(1, FIXED_OS);
    for (i = 0; i < 200; i++) {
        block_fractions();
        add(&l, &code, 1);
        add(&l, &block_end, 1);
        check_slots("slots", i, 0, &l);
        check_events(0, i, &l);
        check_near("METRICS", i, metrics(), &l);
        check_cycles(i);
    }
}

/* ---------------------------------------------- Events of other counters */

static void case_td_events(void)
{
    unsigned a = arch();
    const struct {
        const char *name;
        uint64_t evtsel;
        uint64_t mispredicts, clears;   /* times what they are counted as */
    } t[] = {
        { "clears", EV_CLEARS | EVTSEL_CMASK(1) | EVTSEL_EDGE,
          !(a & GLC), !(a & GLC) },
        { "clears (SPR)", EV_CLEARS_SPR | EVTSEL_CMASK(1) | EVTSEL_EDGE,
          !!(a & GLC), !!(a & GLC) },
        { "machine clears",
          EV_MACHINE_CLEARS | EVTSEL_CMASK(1) | EVTSEL_EDGE, 0, 1 },
        /* The filter is part of this event. */
        { "machine clears without filter", EV_MACHINE_CLEARS, 0, 0 },
        { "mispredicted branches", EV_BRANCH_MISSES, 1, 0 },
        { "mispredicted conditional branches",
          (a & SKL ? 0x0100 : 0x1100) | EV_BRANCH_MISSES, 1, 0 },
    };
    const Block *b = BLOCK(mispredicted);
    uint64_t clears = b->code.n[SERIALISING] + block_end.n[SERIALISING];
    /* One in 64 */
    uint64_t mispredicts = b->code.n[COND] / 64;
    int i, step;

    for (step = 0; step < 3; step++) {
        start(FIXED_OS);
        for (i = 0; i < ARRAY_SIZE(t); i++) {
            program(i, t[i].evtsel | EVTSEL_OS);
        }
        b->run();
        for (i = 0; i < ARRAY_SIZE(t); i++) {
            check(t[i].name, step, rdmsr(MSR_PMC(i)),
                  t[i].mispredicts * mispredicts + t[i].clears * clears);
        }
    }

    /* The rest of those in slots */
    enable_vectors(true);
    for (i = 0; i < ARRAY_SIZE(blocks); i++) {
        Leaves l = { };

        context(blocks[i].name);
        add_block(&l, &blocks[i], 1);
        start(FIXED_OS);
        program_events(GP_COUNTERS, EVTSEL_OS);
        blocks[i].run();
        check_events(GP_COUNTERS, NO_STEP, &l);
    }
    enable_vectors(false);
    context("");
}

/* Filters that are part of events */
#define F(cmask)            EVTSEL_CMASK(cmask)
#define F_WIDTH             EVTSEL_CMASK(255)   /* that of the processor */
#define F_EDGE              (EVTSEL_CMASK(1) | EVTSEL_EDGE)
#define F_INV               (EVTSEL_CMASK(1) | EVTSEL_INV)

/* The same code is another event elsewhere, or none. */
static void case_td_models(void)
{
    static const struct {
        uint16_t code;
        uint8_t archs;
        /* Of 8 branches that are taken, of 8 that are not, of 8 loads */
        uint8_t taken, not_taken, loads;
    } t[] = {
        { 0x01c4, SKL, 8, 8, 0 },               /* conditional */
        { 0x01c4, ICL | GLC, 8, 0, 0 },         /* and taken */
        { 0x04c4, SKL | GLC, 8, 8, 0 },
        { 0x04c4, ICL, 0, 0, 0 },
        { 0x11c4, ICL | GLC, 8, 8, 0 },
        { 0x11c4, SKL, 0, 0, 0 },
        { 0x10c4, SKL | ICL | GLC, 0, 8, 0 },
        { 0x04a1, ICL, 0, 0, 8 },               /* uops of the port of loads */
        { 0x04a1, SKL | GLC, 0, 0, 0 },
        { 0x04b2, GLC, 0, 0, 8 },
        { 0x04b2, SKL | ICL, 0, 0, 0 },
        { 0x81d0, SKL | ICL | GLC, 0, 0, 8 },
    };
    int i;

    for (i = 0; i < ARRAY_SIZE(t); i++) {
        if (!(t[i].archs & arch())) {
            continue;
        }
        start(FIXED_OS);
        program(0, t[i].code | EVTSEL_OS);
        BLOCK(taken)->run();
        check("taken", t[i].code, rdmsr(MSR_PMC(0)), t[i].taken);
        start(FIXED_OS);
        program(0, t[i].code | EVTSEL_OS);
        BLOCK(not_taken)->run();
        check("not taken", t[i].code, rdmsr(MSR_PMC(0)), t[i].not_taken);
        start(FIXED_OS);
        program(0, t[i].code | EVTSEL_OS);
        BLOCK(loads)->run();
        check("loads", t[i].code, rdmsr(MSR_PMC(0)), t[i].loads);
    }
}

/*
 * An event that is always 0 has no deadline, however near its overflow is. And
 * the more instructions than cycles there have been, the farther is that of
 * cycles in which nothing retires.
 */
static void case_td_zero(void)
{
    static const uint64_t evtsel[] = { 0x0e85, EV_INSNS | F_INV };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(evtsel); i++) {
        start(0);
        program(0, evtsel[i] | EVTSEL_OS | EVTSEL_INT);
        wrmsr(MSR_A_PMC(0), negative(2));
        block_simple_loop();
        check("counter", i, rdmsr(MSR_PMC(0)), negative(2));
    }
}

/*
 * Branches that are not taken are all without those that are. These were
 * counted alone before, in a CPU that has counted nothing else.
 */
static void case_td_difference(void)
{
    unsigned i;

    start(0);
    program(0, 0x01c4 | EVTSEL_OS);
    for (i = 0; i < 3; i++) {
        BLOCK(taken)->run();
    }
    check("taken", NO_STEP, rdmsr(MSR_PMC(0)), 24);
    start(0);
    program(0, 0x10c4 | EVTSEL_OS);
    for (i = 1; i <= 6; i++) {
        BLOCK(not_taken)->run();
        check("not taken", i, rdmsr(MSR_PMC(0)), 8 * i);
    }
}

/*
 * Cycles of a category are its slots, divided by the width; their CMASK is
 * part of the event.
 */
static void case_td_cycles(void)
{
    static const struct {
        uint64_t evtsel;
        uint8_t archs, leaves;
    } t[] = {
        { 0x04a3 | F(4), SKL | ICL | GLC, BACKEND_LEAVES },
        { 0x10a3 | F(16), SKL | ICL | GLC, L(MEMORY) },
        { 0x14a3 | F(20), SKL | ICL, L(MEMORY) },
        { 0x21a6 | F(5), GLC, L(MEMORY) },
        { 0x80a6, ICL | GLC, L(CORE) },
        { 0x01a6, SKL, L(CORE) },
        { 0x01b1 | F(1), SKL | ICL | GLC, ALL_LEAVES & ~BACKEND_LEAVES },
        { 0x01b1 | F_INV, SKL | ICL | GLC, BACKEND_LEAVES },
        { 0x02c2 | F(1), SKL | ICL | GLC, RETIRING_LEAVES },
        { 0x02c2 | F_INV, SKL | ICL | GLC, ALL_LEAVES & ~RETIRING_LEAVES },
        { 0x010e | F_INV, SKL | ICL, ALL_LEAVES & ~RETIRING_LEAVES },
        { 0x01ae | F(1), GLC, RETIRING_LEAVES },
        { 0x010d, SKL | ICL, BAD_LEAVES },
        { 0x010d | F(1), SKL | ICL, BAD_LEAVES },
        { 0x01ad, GLC, BAD_LEAVES },
        { 0x019c | F(4), SKL, L(LATENCY) },
        { 0x019c | F(5), ICL, L(LATENCY) },
        { 0x019c | F(6), GLC, L(LATENCY) },
        { 0x019c | F_INV, SKL | ICL | GLC, ALL_LEAVES & ~FRONTEND_LEAVES },
        { 0x02ec, ICL | GLC, ALL_LEAVES },
        /* At most one in a cycle, never two */
        { 0x010d | F(2), SKL | ICL, 0 },
        { 0x010d | F(2) | EVTSEL_EDGE, SKL | ICL, 0 },
        { 0x010d | F(2) | EVTSEL_INV | EVTSEL_EDGE, SKL | ICL, 0 },
        { 0x01ad | F(2) | EVTSEL_EDGE, GLC, 0 },
        { 0x003c | F(1), SKL | ICL | GLC, ALL_LEAVES },
        { 0x003c | F(2), SKL | ICL | GLC, 0 },
        { 0x003c | F(2) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0x003c | F_INV, SKL | ICL | GLC, 0 },
        { 0x013c | F(2), SKL | ICL | GLC, 0 },
        { 0x013c | F(2) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0x013c | F_EDGE, SKL | ICL | GLC, 0 },
        { 0x023c | F(2), SKL | ICL | GLC, 0 },
        { 0x083c | F(2), ICL | GLC, 0 },
        /* Not more than the processor is wide */
        { EV_INSNS | F(16), SKL | ICL | GLC, 0 },
        { EV_INSNS | F(16) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { EV_BRANCHES | F(16) | EVTSEL_EDGE, SKL | ICL | GLC, 0 },
        { 0x10c4 | F(16) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0x20c4 | F(16), SKL | ICL | GLC, 0 },
        { 0x00c5 | F(16), SKL | ICL | GLC, 0 },
        { 0x20c5 | F(16) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0x81d0 | F(16), SKL | ICL | GLC, 0 },
        { 0x82d0 | F(16), SKL | ICL | GLC, 0 },
        { 0x0879 | F(16), SKL | ICL | GLC, 0 },
        { 0x0479 | F(16), SKL | ICL | GLC, 0 },
        { 0x02c2 | F(16), SKL | ICL | GLC, 0 },
        { 0x02c2 | F(16) | EVTSEL_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0x019c | F(16), SKL | ICL | GLC, 0 },
        { 0x01a4 | F(16), ICL | GLC, 0 },
        /* All slots of a cycle are of one category: any CMASK finds it */
        { 0x02c2 | F_WIDTH, SKL | ICL | GLC, RETIRING_LEAVES },
        { 0x02c2 | F_WIDTH | EVTSEL_INV, SKL | ICL | GLC,
          ALL_LEAVES & ~RETIRING_LEAVES },
        { 0x010e | F_WIDTH, SKL | ICL, RETIRING_LEAVES },
        { 0x02a4 | F_WIDTH, ICL | GLC, BACKEND_LEAVES },
        { 0x019c | F(1), SKL | ICL | GLC, FRONTEND_LEAVES },
        /* Cycles that are not those of an event with a CMASK */
        { 0x04a3 | F(4) | EVTSEL_INV, SKL | ICL | GLC,
          ALL_LEAVES & ~BACKEND_LEAVES },
        { 0x01ae | F_INV, GLC, ALL_LEAVES & ~RETIRING_LEAVES },
        { 0x02b1 | F_INV, SKL | ICL | GLC, BACKEND_LEAVES },
        /* What is true in every cycle begins in none. */
        { 0x003c | F_EDGE, SKL | ICL | GLC, 0 },
        { 0x003c | EVTSEL_EDGE, SKL | ICL | GLC, 0 },
        { 0x01a4 | F_EDGE, ICL | GLC, 0 },
        { 0xffff | F_INV, SKL | ICL | GLC, ALL_LEAVES },
        { 0xffff | F_INV | EVTSEL_EDGE, SKL | ICL | GLC, 0 },
        { 0x02ec | F(2), ICL | GLC, 0 },
        /* Without its filter, it is no event. */
        { 0x04a3, SKL | ICL | GLC, 0 },
    };
    unsigned cycle = 4 * width();
    int first, i, j;

    if (IS_PRECISE) {
        return;
    }
    for (first = 0; first < ARRAY_SIZE(t); first += GP_COUNTERS) {
        for (i = 0; i < ARRAY_SIZE(blocks); i++) {
            Leaves l = { };

            if (is_vector(&blocks[i])) {
                continue;
            }
            context(blocks[i].name);
            add_block(&l, &blocks[i], 1);
            start(FIXED_OS);
            for (j = 0; j < GP_COUNTERS && first + j < ARRAY_SIZE(t); j++) {
                uint64_t evtsel = t[first + j].evtsel | EVTSEL_OS;

                if ((evtsel & F_WIDTH) == F_WIDTH) {
                    evtsel = (evtsel & ~F_WIDTH) | F(width());
                }
                program(j, evtsel);
            }
            blocks[i].run();
            for (j = 0; j < GP_COUNTERS && first + j < ARRAY_SIZE(t); j++) {
                uint64_t n = sum(&l, t[first + j].leaves);

                if (!(t[first + j].archs & arch())) {
                    continue;
                }
                check_range("cycles", t[first + j].evtsel & 0xffff,
                            rdmsr(MSR_PMC(j)), n / cycle,
                            (n + cycle - 1) / cycle);
            }
        }
    }
    context("");
}

/* Sums: what is left is what is right, or not more. */
#define TERMS               4

static const struct {
    const char *name;
    uint64_t left[TERMS], right[TERMS];
    uint8_t archs;
    enum { EQUAL, AT_MOST } relation;
} identities[] = {
    { "cycles", { 0x003c }, { 0x04a3 | F(4), 0x01b1 | F(1) },
      ALL_ARCHS, EQUAL },
    { "stalls", { 0x04a3 | F(4) }, { 0x10a3 | F(16), 0x80a6 },
      ICL | GLC, EQUAL },
    { "uops by source", { 0x02c2 }, { 0x0479, 0x0879, 0x3079 },
      SKL | ICL, EQUAL },
    { "uops by source", { 0x02c2 }, { 0x0479, 0x0879, 0x2079 }, GLC, EQUAL },
    { "issued", { 0x02c2 }, { 0x010e }, SKL | ICL, EQUAL },
    { "issued", { 0x02c2 }, { 0x01ae }, GLC, EQUAL },
    { "executed", { 0x02c2 }, { 0x01b1 }, ALL_ARCHS, EQUAL },
    { "conditional", { 0x11c4 }, { 0x01c4, 0x10c4 }, ICL | GLC, EQUAL },
    { "mispredicts", { 0x00c5 }, { 0x11c5, 0x08c5, 0x80c5 },
      ICL | GLC, EQUAL },
    { "conditional mispredicts", { 0x11c5 }, { 0x01c5, 0x10c5 },
      ICL | GLC, EQUAL },
    { "taken mispredicts", { 0x20c5 }, { 0x01c5, 0x08c5, 0x80c5 },
      ICL | GLC, EQUAL },
    { "mispredicts as branch-load-misses", { 0x00c5 }, { 0x04c5 },
      GLC, EQUAL },
    { "branches as branch-loads", { 0x00c4 }, { 0x04c4 }, SKL | GLC, EQUAL },
    { "mispredicts and branches", { 0x00c5 }, { 0x00c4 }, ALL_ARCHS, AT_MOST },
    { "loads", { 0x81d0 }, { 0x01d1, 0x08d1 }, ALL_ARCHS, EQUAL },
    { "L1 misses", { 0x08d1 }, { 0x02d1, 0x04d1, 0x20d1 }, ALL_ARCHS, EQUAL },
    { "L1 replacements", { 0x08d1 }, { 0x0151 }, ALL_ARCHS, EQUAL },
    { "L2 requests", { 0xff24 }, { 0xe124, 0xe424 }, ALL_ARCHS, EQUAL },
    { "L2 misses", { 0x3f24 }, { 0x4f2e }, ALL_ARCHS, EQUAL },
    { "L2 hits", { 0xe424 }, { 0xc424 }, ALL_ARCHS, EQUAL },
    { "LLC misses", { 0x412e }, { 0x20d1 }, ALL_ARCHS, EQUAL },
    { "LLC misses and references", { 0x412e }, { 0x4f2e },
      ALL_ARCHS, AT_MOST },
    { "stalls behind L1", { 0x0ca3 | F(12) }, { 0x10a3 | F(16) },
      ALL_ARCHS, AT_MOST },
    { "stalls behind L2", { 0x05a3 | F(5) }, { 0x0ca3 | F(12) },
      ALL_ARCHS, AT_MOST },
    { "stalls behind L3", { 0x06a3 | F(6) }, { 0x05a3 | F(5) },
      ALL_ARCHS, AT_MOST },
    { "stalls behind L3", { 0x0947 | F(9) }, { 0x0547 | F(5) }, GLC, AT_MOST },
    { "stalls of memory", { 0x0547 | F(5) }, { 0x21a6 | F(5) }, GLC, AT_MOST },
    { "outstanding", { 0x0148 }, { 0x0148 | F(1) }, ALL_ARCHS, EQUAL },
    { "fetch latency", { 0x0480, 0x800d }, { 0x019c | F(5) }, ICL, AT_MOST },
    { "fetch latency", { 0x0480, 0x80ad, 0x40ad }, { 0x019c | F(6) },
      GLC, EQUAL },
    /* Names for the same, several at a time */
    { "cycles of L3 misses", { 0x02a3 | F(2) }, { 0x06a3 | F(6) }, SKL, EQUAL },
    { "memory accesses", { 0x03e5 }, { 0x83d0 }, GLC, EQUAL },
    { "more L2 misses", { 0x10d1, 0x2124, 0x2724 }, { 0x4f2e, 0x4f2e, 0x4f2e },
      ALL_ARCHS, EQUAL },
    { "L2 lines", { 0x1ff1, 0x01b0, 0x08b0, 0x80b0 },
      { 0x4f2e, 0x4f2e, 0x4f2e, 0x4f2e }, SKL | ICL, EQUAL },
    { "L2 lines", { 0x1f25, 0x0121, 0x0821, 0x8021 },
      { 0x4f2e, 0x4f2e, 0x4f2e, 0x4f2e }, GLC, EQUAL },
    { "completed L1 misses", { 0xfd43 }, { 0x4f2e }, GLC, EQUAL },
    { "L3 hits", { 0x08d2 }, { 0x04d1 }, ALL_ARCHS, EQUAL },
    { "L2 demands", { 0xe724 }, { 0xff24 }, ALL_ARCHS, EQUAL },
    { "executed by the core", { 0x02b1 }, { 0x02c2 }, ALL_ARCHS, EQUAL },
    { "cycles of the core", { 0x02b1 | F(1) }, { 0x01b1 | F(1) },
      ALL_ARCHS, EQUAL },
    { "busy cycles", { 0x02b1 | F(2), 0x02b1 | F(3), 0x02b1 | F(4) },
      { 0x02c2 | F(1), 0x02c2 | F(1), 0x02c2 | F(1) }, ALL_ARCHS, EQUAL },
    { "microcode", { 0x04c2 }, { 0x2079 }, GLC, EQUAL },
    { "microcode, cycles", { 0x04c2 | F(1) }, { 0x2079 | F(1) }, GLC, EQUAL },
    { "microcode, switches", { 0x04c2 | F_EDGE }, { 0x2079 | F_EDGE },
      GLC, EQUAL },
    { "stores", { 0x10a1, 0x80a1 }, { 0x82d0, 0x82d0 }, ICL, EQUAL },
    { "stores", { 0x10b2, 0x80b2 }, { 0x82d0, 0x82d0 }, GLC, EQUAL },
    { "cycles behind L1", { 0x01a3 | F(1), 0x08a3 | F(8) },
      { 0x0ca3 | F(12), 0x0ca3 | F(12) }, ALL_ARCHS, EQUAL },
    { "cycles behind L1", { 0x0247 | F(2), 0x0347 | F(3) },
      { 0x0ca3 | F(12), 0x0ca3 | F(12) }, GLC, EQUAL },
    { "cycles of requests", { 0x0160, 0x0860 }, { 0x0148, 0x0148 },
      SKL | ICL, EQUAL },
    { "cycles of requests", { 0x0120, 0x0820 }, { 0x0148, 0x0148 },
      GLC, EQUAL },
    { "cycles behind L3", { 0x1060 }, { 0x06a3 | F(6) }, SKL | ICL, EQUAL },
    { "recovery", { 0x030d | F(1) }, { 0x010d }, ICL, EQUAL },
    { "unknown branches", { 0x0160 }, { 0x40ad | F_EDGE }, GLC, EQUAL },
    { "indirect mispredicts", { 0x80c5 }, { 0x80c4 }, ICL | GLC, AT_MOST },
    { "decoder", { 0x2479 | F(1) }, { 0x0479 | F(1) }, SKL, EQUAL },
    { "decoder", { 0x2479 | F(4) }, { 0x0479 | F(4) }, SKL, EQUAL },
    { "uop cache", { 0x1879 | F(1) }, { 0x0879 | F(1) }, SKL, EQUAL },
    { "uop cache", { 0x1879 | F(4) }, { 0x0879 | F(4) }, SKL, EQUAL },
    { "code misses", { 0x0283 }, { 0xe424 }, SKL | ICL, EQUAL },
    { "walks of loads", { 0x0108, 0x0208, 0x0e08 },
      { 0x11d0, 0x11d0, 0x11d0 }, SKL, EQUAL },
    { "walks of loads", { 0x0208, 0x0e08 }, { 0x11d0, 0x11d0 }, ICL, EQUAL },
    { "walks of loads", { 0x0212, 0x0e12 }, { 0x11d0, 0x11d0 }, GLC, EQUAL },
    { "cycles of walks", { 0x11d0 }, { 0x1008 }, SKL | ICL, AT_MOST },
    { "cycles of walks", { 0x11d0 }, { 0x1012 }, GLC, AT_MOST },
    { "walks for code", { 0x0185 }, { 0x0e85 }, SKL, EQUAL },
    { "walks for code", { 0x0285 }, { 0x0e85 }, SKL | ICL, EQUAL },
    { "walks for code", { 0x0211 }, { 0x0e11 }, GLC, EQUAL },
    { "cycles of walks for code", { 0x1085 }, { 0x0483 }, SKL | ICL, EQUAL },
    { "cycles of walks for code", { 0x1011 }, { 0x0483 }, GLC, EQUAL },
    { "full buffers", { 0x0248 }, { 0x0248 | F_EDGE }, ALL_ARCHS, EQUAL },
};

static int program_terms(int counter, const uint64_t *terms)
{
    int i;

    for (i = 0; i < TERMS && terms[i]; i++) {
        program(counter++, terms[i] | EVTSEL_OS);
    }
    return counter;
}

/* MAILBOX_ARG: the mix is pinned */
static void check_identities(void (*run)(int), int arg)
{
    bool pinned = MAILBOX_64(MAILBOX_ARG);
    int i, j;

    for (i = 0; i < ARRAY_SIZE(identities); i++) {
        uint64_t left = 0, right = 0, least;
        int n, all;

        if (!(identities[i].archs & arch()) ||
            (pinned && identities[i].left[0] == EV_BRANCH_MISSES &&
             identities[i].relation == AT_MOST)) {
            continue;
        }
        start(FIXED_OS);
        n = program_terms(0, identities[i].left);
        all = program_terms(n, identities[i].right);
        run(arg);
        for (j = 0; j < all; j++) {
            *(j < n ? &left : &right) += rdmsr(MSR_PMC(j));
        }
        /* A fraction of each is not counted yet. */
        least = identities[i].relation == EQUAL ? right + 1 : 0;
        check_range(identities[i].name, i, left + all, least, right + 2 * all);
    }
}

static void run_block(int i)
{
    blocks[i].run();
}

static void case_td_identities(void)
{
    int i;

    for (i = 0; i < ARRAY_SIZE(blocks); i++) {
        if (!is_vector(&blocks[i])) {
            context(blocks[i].name);
            check_identities(run_block, i);
        }
    }
    context("");
}

static bool hook_skip(Frame *f)
{
    return f->vector == VEC_BP;
}

/*
 * With INV, a counter falls while more events than cycles come. Only software
 * that reads it in between keeps it from that; not QEMU, which looks now and
 * then whether an event that does not come has overflowed its counter.
 */
static void case_td_inverted(void)
{
    uint64_t cycles, insns;
    int looks;

    for (looks = 0; looks < 2; looks++) {
        start(FIXED_USR);
        program(0, EV_INSNS | EVTSEL_USR | F_INV);
        program(1, EV_INSNS | EVTSEL_USR);
        program(2, EV_CYCLES | EVTSEL_USR);
        if (looks) {
            program(3, 0x01c7 | EVTSEL_USR | EVTSEL_INT);   /* SSE2 */
            wrmsr(MSR_A_PMC(3), negative(3000));
        }
        this_cpu()->hook = hook_skip;
        user(body_td_slow_then_dense, 400);
        this_cpu()->hook = NULL;
        insns = rdmsr(MSR_PMC(1));
        cycles = rdmsr(MSR_PMC(2));
        check("INV", looks, rdmsr(MSR_PMC(0)),
              cycles - (insns < cycles ? insns : cycles));
        check_range("cycles", looks, cycles, insns + 1, 100 * insns);
    }
}

/* Of one kind, and none of the others that are core bound, too */
static void case_td_divides(void)
{
    static const struct {
        const char *name;
        uint64_t evtsel;
        uint8_t archs, kind, times;
    } t[] = {
        { "cycles of divisions", 0x0114 | F(1), SKL, DIVIDE, 10 },
        { "cycles of divisions", 0x0914 | F(1), ICL, DIVIDE, 10 },
        { "cycles of divisions", 0x09b0 | F(1), GLC, DIVIDE, 10 },
        { "PAUSEs", 0x40cc, SKL | ICL, PAUSE, 1 },
        { "PAUSEs", 0x40ec | F_EDGE, GLC, PAUSE, 1 },
        { "cycles of PAUSEs", 0x40ec, GLC, PAUSE, 30 },
        { "cycles of PAUSEs", 0x70ec, GLC, PAUSE, 30 },
        { "cycles of PAUSEs", 0x40ec | F(1), GLC, PAUSE, 30 },
    };
    int i, j;

    enable_vectors(true);
    for (i = 0; i < ARRAY_SIZE(blocks); i++) {
        context(blocks[i].name);
        start(FIXED_OS);
        for (j = 0; j < ARRAY_SIZE(t); j++) {
            program(j, (t[j].archs & arch() ? t[j].evtsel : 0) | EVTSEL_OS);
        }
        blocks[i].run();
        for (j = 0; j < ARRAY_SIZE(t); j++) {
            check(t[j].name, j, rdmsr(MSR_PMC(j)),
                  t[j].archs & arch() ?
                  t[j].times * blocks[i].code.n[t[j].kind] : 0);
        }
    }
    enable_vectors(false);
    context("");
}

/* They overflow where others do, whatever they are computed from. */
static void case_td_model_overflow(void)
{
    static const uint64_t evtsel[] = {
        0x04a3 | F(4), 0x10a3 | F(16), 0x06a3 | F(6), 0x02c2 | F_INV,
        0x019c | F(5), 0x019c | F(6), 0x0479, 0x0879, 0x0879 | F(1),
        0x0914 | F(1), 0x09b0 | F(1), 0x010d, 0x01ad, 0x01c3 | F_EDGE,
        0x010d | F_EDGE, 0x01ad | F_EDGE, 0x01d1, 0x08d1, 0x83d0, 0x01c5,
        0x10c5, 0x3079, 0x2079,
    };
    static const uint8_t which[] = {
        offsetof(BlockIndex, divides), offsetof(BlockIndex, jumps_memory),
        offsetof(BlockIndex, mispredicted), offsetof(BlockIndex, locks),
    };
    int e, i, d;

    for (e = 0; e < ARRAY_SIZE(evtsel); e++) {
        for (i = 0; i < ARRAY_SIZE(which); i++) {
            const Block *b = &blocks[which[i]];
            uint64_t n;

            start(FIXED_OS);
            program(0, evtsel[e] | EVTSEL_OS);
            wrmsr(MSR_A_PMC(0), 0);
            b->run();
            n = rdmsr(MSR_PMC(0));
            /*
             * For 2, the last run would start at -1, where the first one ends,
             * and with the fraction that it left.
             */
            if (n < 3) {
                continue;
            }
            context(b->name);
            for (d = -1; d <= 1; d++) {
                start(FIXED_OS);
                program(0, evtsel[e] | EVTSEL_OS | EVTSEL_INT);
                wrmsr(MSR_A_PMC(0), negative(n - d));
                b->run();
                check("counter", evtsel[e] & 0xffff, rdmsr(MSR_A_PMC(0)),
                      d & WIDTH_MASK);
                check("status", evtsel[e] & 0xffff,
                      rdmsr(MSR_GLOBAL_STATUS) & ~STATUS_METRICS, d >= 0);
                check("PMI", evtsel[e] & 0xffff, apic_irr(VEC_PMI), d >= 0);
            }
        }
    }
    context("");
}

static bool hook_filtered(Frame *f)
{
    if (f->vector == VEC_BP) {
        /* Deadlines are computed anew, in the middle of a cycle. */
        program(1, EV_INSNS | EVTSEL_USR);
        return true;
    }
    if (f->vector == VEC_NMI) {
        this_cpu()->events = slots();
    }
    return false;
}

/*
 * Cycles in which something retires: all are full here. The interrupt comes
 * after the NOP that completes one, whatever part of it is done at a stop.
 */
static void case_td_filtered_overflow(void)
{
    Cpu *cpu = this_cpu();
    unsigned k, turns;

    for (k = 100; k < 110; k++) {
        for (turns = 1; turns <= 10; turns++) {
            start(FIXED_USR);
            apic_write(APIC_LVTPC, LVT_NMI);
            program(0, EV_CYCLES | F(1) | EVTSEL_USR | EVTSEL_INT);
            wrmsr(MSR_A_PMC(0), negative(k));
            cpu->hook = hook_filtered;
            user(body_td_filtered, turns);
            cpu->hook = NULL;
            check("interrupts", k, cpu->pmis, 1);
            /* The precise models are looser: by a block at most */
            check_range("slots", k, cpu->events, k * width(),
                        k * width() + (IS_PRECISE ? 600 : 2));
        }
    }
}

/* Registers that hold a value. Linux flips the bits 0 and 4 to find them. */
static const struct {
    uint32_t msr;
    uint64_t legal;
} extras[] = {
    { 0x1a6, (1ull << 38) - 1 },
    { 0x1a7, (1ull << 38) - 1 },
    { 0x3f6, 0xffff },
    { 0x3f7, 0x7fff1f },
};

static void case_td_extra(void)
{
    uint64_t v;
    int i, bit;

    for (i = 0; i < ARRAY_SIZE(extras); i++) {
        for (bit = 0; bit < 64; bit++) {
            bool legal = extras[i].legal >> bit & 1;

            wrmsr(extras[i].msr, 0);
            check("write of a bit", bit,
                  wrmsr_safe(extras[i].msr, 1ull << bit), legal ? 0 : VEC_GP);
            check("read", bit, rdmsr_safe(extras[i].msr, &v), 0);
            check("value", bit, v, legal ? 1ull << bit : 0);
        }
        v = extras[i].legal ^ 0x11;
        wrmsr(extras[i].msr, v);
        check("all bits", i, rdmsr(extras[i].msr), v);
        wrmsr(extras[i].msr, 0);
    }
}

/* By qtest around a reset and a migration: MAILBOX_ARG is 1 if they are kept */
static void case_td_extra_fill(void)
{
    int i;

    for (i = 0; i < ARRAY_SIZE(extras); i++) {
        check("MSR after reset", i, rdmsr(extras[i].msr), 0);
        wrmsr(extras[i].msr, extras[i].legal & 0x5555555555555555);
    }
}

static void case_td_extra_check(void)
{
    int i;

    for (i = 0; i < ARRAY_SIZE(extras); i++) {
        check("MSR", i, rdmsr(extras[i].msr),
              extras[i].legal & 0x5555555555555555);
    }
}

/* What is read from memory: all, hits, and misses, as the registers say */
static void case_td_offcore(void)
{
    static const struct {
        uint64_t rsp;
        uint16_t same;
    } t[] = {
        { 0, 0 },
        { 0x10001, 0x4f2e },            /* any response */
        { 0x10002, 0 },                 /* of stores */
        { 0x1003c0001, 0x04d1 },        /* L3, no snoop */
        { 0x10003c0001, 0 },            /* L3, HITM of another core */
        { 0x104000001, 0x412e },        /* local memory */
        { 0x3fbfc00001, 0x412e },       /* not in L3 */
        { 0x730000001, 0 },             /* remote memory */
    };
    uint16_t code[2] = { 0x01b7, 0x01bb };
    int i, j, k;

    if (arch() == GLC) {
        code[0] = 0x012a;
        code[1] = 0x012b;
    }
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        for (j = 0; j < 2; j++) {
            start(FIXED_OS);
            program(0, code[j] | EVTSEL_OS);
            program(1, t[i].same | EVTSEL_OS);
            wrmsr(extras[j].msr, t[i].rsp);
            wrmsr(extras[!j].msr, 0);
            for (k = 0; k < 8; k++) {
                BLOCK(loads)->run();
            }
            check("offcore event", i, rdmsr(MSR_PMC(0)), rdmsr(MSR_PMC(1)));
            wrmsr(extras[j].msr, 0);
        }
    }

    /* Misses of L3 under other names */
    start(FIXED_OS);
    program(0, 0x412e | EVTSEL_OS);
    program(1, 0x01d3 | EVTSEL_OS);
    program(2, (arch() == GLC ? 0x1021 : 0x10b0) | EVTSEL_OS);
    for (k = 0; k < 8; k++) {
        BLOCK(loads)->run();
    }
    for (i = 1; i < 3; i++) {
        check("L3 misses", i, rdmsr(MSR_PMC(i)), rdmsr(MSR_PMC(0)));
    }
}

/* They overflow as others do: one before 0, at 0, and behind it. */
static void case_td_event_overflow(void)
{
    int e, i, d;

    for (e = 0; e < ARRAY_SIZE(events); e++) {
        for (i = 0; i < ARRAY_SIZE(blocks); i++) {
            Leaves l = { };
            uint64_t n;

            if (is_vector(&blocks[i])) {
                continue;
            }
            add_block(&l, &blocks[i], 1);
            n = sum(&l, event_leaves(e)) / 4;
            if (n < 2) {
                continue;
            }
            context(events[e].name);
            for (d = -1; d <= 1; d++) {
                start(FIXED_OS);
                program(e & 7, events[e].code | EVTSEL_OS | EVTSEL_INT);
                wrmsr(MSR_A_PMC(e & 7), negative(n - d));
                blocks[i].run();
                check("counter", d + 1, rdmsr(MSR_A_PMC(e & 7)),
                      d & WIDTH_MASK);
                check("status", d + 1,
                      rdmsr(MSR_GLOBAL_STATUS) & ~STATUS_METRICS,
                      d < 0 ? 0 : BIT(e & 7));
                check("PMI", d + 1, apic_irr(VEC_PMI), d >= 0);
            }
        }
    }
    context("");
}

#define MOST_STEPS          32

/*
 * What CALL and the first instructions cost, where they end, and whether the
 * next one is PAUSE or RET, which end any block
 */
typedef struct Steps {
    uint64_t quarters[MOST_STEPS], rip[MOST_STEPS];
    bool last[MOST_STEPS];
    int n;
} Steps;

static void make_steps(Steps *steps)
{
    static const Code codes[] = {
        [STEP_NOP] = { { [ANY] = 1 } },
        [STEP_DIVIDE] = { { [ANY] = 1, [DIVIDE] = 1 } },
        [STEP_PAUSE] = { { [ANY] = 1, [PAUSE] = 1 } },
        [STEP_LOCK] = {
            { [ANY] = 1, [LOAD] = 1, [LOCK] = 1 }
        },
    };
    const TdStep *s;
    Leaves l = { };

    add(&l, &(Code) { { [ANY] = 1, [CALL_INDIRECT] = 1 } }, 1);
    steps->quarters[0] = sum(&l, ALL_LEAVES);
    steps->rip[0] = (uintptr_t)body_td_expensive;
    steps->last[0] = false;
    steps->n = 1;
    for (s = td_steps; s != td_steps_end && steps->n < MOST_STEPS; s++) {
        add(&l, &codes[s->kind], 1);
        steps->quarters[steps->n] = sum(&l, ALL_LEAVES);
        steps->last[steps->n] = s + 1 == td_steps_end ||
                                s[1].kind == STEP_PAUSE;
        steps->rip[steps->n++] = s->end;
    }
}

/* Where so many quarters are reached, or 0 */
static uint64_t step_after(const Steps *steps, uint64_t quarters)
{
    int i;

    for (i = 0; i < steps->n; i++) {
        if (steps->quarters[i] >= quarters) {
            return steps->rip[i];
        }
    }
    return 0;
}

/* What it costs to call a body */
static unsigned call_quarters(void)
{
    Leaves l = { };

    add(&l, &(Code) { { [ANY] = 1, [CALL_INDIRECT] = 1 } }, 1);
    return sum(&l, ALL_LEAVES);
}

#define LOOSE_PAGE            0x420000

/* Counter 2 is to interrupt by an NMI when it has counted @n. */
static void start_event(uint64_t code, unsigned n, uint64_t rings)
{
    start(FIXED_OS);
    apic_write(APIC_LVTPC, LVT_NMI);
    program(2, code | rings | EVTSEL_INT);
    wrmsr(MSR_A_PMC(2), negative(n));
}

#define TD_FP_TIMES         2000    /* as in topdown.S */
#define TD_FP_INSNS         64      /* the same */

static void case_td_fp(void)
{
    enum { FP_LANES = 6 };
    static const struct {
        const char *name;
        void (*run)(void);
        uint8_t n[FP_LANES];            /* by the bits of the unit mask */
    } t[] = {
        { "SSE", block_fp, { 3, 2, 5, 7 } },
        { "AVX", block_fp_avx, { 3, 3, 1, 2, 6, 7 } },
    };
    /* Kinds of 512 bits are there, and nothing does them. */
    static const uint8_t umasks[] = {
        0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x03, 0x18, 0x60, 0xfc,
    };
    /* Instructions that count twice, by the bits of the unit mask */
    static const struct {
        const char *name;
        void (*run)(void);
    } many[FP_LANES] = {
        { "scalar double", block_fp_many_sd },
        { "scalar single", block_fp_many_ss },
        { "128 double", block_fp_many_128_pd },
        { "128 single", block_fp_many_128_ps },
        { "256 double", block_fp_many_256_pd },
        { "256 single", block_fp_many_256_ps },
    };
    Cpu *cpu = this_cpu();
    int i, j, bit;

    enable_vectors(true);
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        context(t[i].name);
        for (j = 0; j < ARRAY_SIZE(umasks); j++) {
            uint64_t n = 0;

            for (bit = 0; bit < FP_LANES; bit++) {
                n += umasks[j] & (1 << bit) ? t[i].n[bit] : 0;
            }
            /* With others, or alone */
            start(j % 2 ? FIXED_OS : 0);
            program(0, 0xc7 | umasks[j] << 8 | EVTSEL_OS);
            t[i].run();
            check("operations", umasks[j], rdmsr(MSR_PMC(0)), n);
        }
        /* Those that count twice step over the last but one count. */
        for (j = 1; j <= t[i].n[1] + 1; j++) {
            start_event(0x02c7, j, EVTSEL_OS);
            t[i].run();
            check("interrupts", j, cpu->pmis, j <= t[i].n[1]);
        }
    }
    /* Nothing of it is lost where there is nearly nothing else. */
    for (i = 0; i < FP_LANES; i++) {
        context(many[i].name);
        start(0);
        program(0, 0xc7 | 0x100 << i | EVTSEL_OS);
        many[i].run();
        check("operations", i, rdmsr(MSR_PMC(0)),
              TD_FP_TIMES * TD_FP_INSNS * 2);
    }
    enable_vectors(false);
    context("");
}

/* Counters are frozen when the PMI comes, not when it is due. */
static bool hook_frozen(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    this_cpu()->events = rdmsr(MSR_A_PMC(2));
    pmi_acknowledge();
    return true;
}

/*
 * The instruction that reaches the count is the last one before the PMI, also
 * if it costs more than is left. Writing a counter drops what was left of a
 * slot or a cycle before.
 */
static void case_td_skid(void)
{
    static const char *const names[] = { "slots", "METRICS" };
    /* At most one comes with an instruction of a loop. */
    static const struct {
        uint16_t code;
        uint8_t archs;
    } small[] = {
        { 0x0479, ALL_ARCHS }, { 0x0879, ALL_ARCHS },
        { 0x20c4, ALL_ARCHS }, { 0x0155, ICL }, { 0x0175, GLC },
    };
    Cpu *cpu = this_cpu();
    Steps steps;
    unsigned n;
    int i;

    make_steps(&steps);
    for (i = 0; i < 2; i++) {
        context(names[i]);
        for (n = 1; step_after(&steps, n * 4); n++) {
            if (i == 0) {
                start_event(EV_SLOTS, n, EVTSEL_OS);
            } else {
                restore(FIXED_OS | FIXED_PMI, METRICS_LIMIT - n,
                        SOME_METRICS);
                apic_write(APIC_LVTPC, LVT_NMI);
            }
            kernel(body_td_expensive, 0);
            check("interrupts", n, cpu->pmis, 1);
            check("RIP", n, cpu->pmi_rip, step_after(&steps, n * 4));
        }
        check_range("steps", i, n, 100, WIDTH_MASK);
    }

    /* No deadline is late: the counter has just overflowed in the handler. */
    for (i = 0; i < ARRAY_SIZE(small); i++) {
        if (!(small[i].archs & arch())) {
            continue;
        }
        context("small steps");
        start_event(small[i].code, 40, EVTSEL_OS);
        wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
        cpu->hook = hook_frozen;
        kernel(body_loop_jnz, 0);
        cpu->hook = NULL;
        check("interrupts", small[i].code, cpu->pmis, 1);
        check("counter", small[i].code, cpu->events, 0);
    }
    wrmsr(MSR_DEBUGCTL, 0);

    /* A fault takes back what would have reached it: PUSH does, JMP is next */
    context("fault");
    start_event(EV_SLOTS, call_quarters() / 4 + LOOSE_NOPS + 1, EVTSEL_OS);
    set_present(LOOSE_PAGE, false);
    cpu->hook = skip_page_fault;
    kernel(body_td_loose_fault, LOOSE_PAGE);
    cpu->hook = NULL;
    set_present(LOOSE_PAGE, true);
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip,
          (uintptr_t)&trap_stubs[16 * VEC_PF + 2]);
    context("");
}

/*
 * With cycles, unless all are exact, it waits until just before the last
 * instruction of the block in which the count is reached; until after that one
 * if only the last one reaches the count.
 */
#define LONG_BLOCK          3000        /* NOPs of 3 bytes in body_long_block */
#define MOST_INSNS          512         /* of a block, TCG_MAX_INSNS */

static bool all_exact(void)
{
    return MAILBOX(MAILBOX_CONFIG) & CONFIG_EXACT;
}

static unsigned cycles(unsigned n)
{
    return n * 4 * width();
}

/* How many NOPs it takes to reach n cycles */
static unsigned exact_nops(unsigned n)
{
    return (cycles(n) - call_quarters() + 3) / 4;
}

/* CALL ends a block, and so does the instruction after one with last[] */
static uint64_t loose_step(const Steps *steps, unsigned n)
{
    int i, j;

    if (all_exact()) {
        return step_after(steps, cycles(n));
    }
    for (i = 0; i < steps->n; i++) {
        if (steps->quarters[i] >= cycles(n)) {
            for (j = i; i > 0 && !steps->last[i - 1] && !steps->last[j]; j++) {
                continue;
            }
            return steps->rip[j];
        }
    }
    return 0;
}

/* How many NOPs of body_long_block were executed before the PMI */
static unsigned nops_before_pmi(void)
{
    return (this_cpu()->pmi_rip - (uintptr_t)body_long_block) / 3;
}

static void check_loose_nops(unsigned n)
{
    check_range("NOPs before the interrupt", n, nops_before_pmi(),
                exact_nops(n), exact_nops(n) + (all_exact() ? 0 : MOST_INSNS));
}

/* A value that no counter has had, so that no fraction belongs to it */
static uint64_t new_value(void)
{
    static uint64_t last = 1ull << 32;

    return last += 1 << 20;
}

/* Let the CPU forget the fractions of all values but new ones. */
static void forget_fractions(void)
{
    int i;

    start(0);
    program(2, EV_BRANCH_MISSES | EVTSEL_OS);       /* 4 of 64 in each body */
    for (i = 0; i < 64; i++) {
        wrmsr(MSR_A_PMC(2), new_value());
        kernel(body_td_mixed, 0);
    }
}

static uint64_t insns_at_pmi;

static bool hook_at_pmi(Frame *f)
{
    insns_at_pmi = rdmsr(MSR_A_PMC(3));
    return hook_frozen(f);
}

/*
 * Count an event and instructions until one of them, counter @which, has
 * counted @n, or until the body has run some times. Returns whether the event
 * has reached @want then.
 */
static bool run_until(uint64_t evtsel, uint64_t want, void (*body)(void),
                      unsigned which, uint64_t n)
{
    Cpu *cpu = this_cpu();
    uint64_t from = new_value();
    int i;

    if (which == 2) {
        forget_fractions();
        from = negative(n);
    }
    start(0);
    apic_write(APIC_LVTPC, LVT_NMI);
    program(2, evtsel | EVTSEL_OS | (which == 2 ? EVTSEL_INT : 0));
    program(3, EV_INSNS | EVTSEL_OS | (which == 3 ? EVTSEL_INT : 0));
    wrmsr(MSR_A_PMC(2), from);
    wrmsr(MSR_A_PMC(3), which == 3 ? negative(n) : 0);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    cpu->hook = hook_at_pmi;
    for (i = 0; i < 8 && !cpu->pmis; i++) {
        kernel(body, 0);
    }
    cpu->hook = NULL;
    wrmsr(MSR_DEBUGCTL, 0);
    if (which == 2) {
        return cpu->pmis;
    }
    check("interrupts of instructions", n, cpu->pmis, 1);
    return cpu->events - from >= want;
}

/*
 * The interrupt of each event is behind the instruction that reaches its count:
 * one instruction before, it is not reached.
 */
static void case_td_bounds(void)
{
    static const uint64_t evtsel[] = {
        /* Loads and branches, and shares of them */
        0x412e, 0x4f2e, 0x04d1, 0x01d1, 0x83d0, 0x11d0, 0x2008, 0x2012, 0x0248,
        0x00c4, 0x11c4, 0x01c4, 0x20c4, 0x10c4, 0x40c4, 0x00c5, 0x01c5, 0x10c5,
        0x20c5, 0x0155, 0x0175,
        /* Slots and shares of them */
        0x04a3 | F(4), 0x10a3 | F(16), 0x14a3 | F(20), 0x21a6 | F(5), 0x01a6,
        0x80a6, 0x0ca3 | F(12), 0x05a3 | F(5), 0x06a3 | F(6), 0x01b1 | F(1),
        0x01b1 | F_INV, 0x02c2, 0x02c2 | F(1), 0x02c2 | F_INV, 0x010d, 0x01ad,
        0x019c, 0x019c | F(4), 0x019c | F(5), 0x019c | F(6), 0x019c | F_INV,
        0x0479, 0x0479 | F(1), 0x0879, 0x0879 | F(1), 0x3079, 0x2079,
        0x2079 | F_EDGE, 0x01e6, 0x0160, 0x40ad, 0x0480, 0x0283, 0x1008, 0x1012,
        0x01c3 | F_EDGE, 0x010d | F_EDGE, 0x01ad | F_EDGE, 0x2124, 0xff24,
        /* Instructions with a price of their own */
        0x0114 | F(1), 0x0914 | F(1), 0x09b0 | F(1), 0x40ec, 0x40ec | F_EDGE,
        0x40cc,
        /* Filters */
        EV_INSNS | F(2), 0x00c4 | F_EDGE, 0x003c | F(1), 0x010d | F(1) | F_EDGE,
    };
    static const unsigned counts[] = { 1, 2, 9, 31 };
    static void (*const bodies[])(void) = {
        body_td_expensive, body_td_mixed, body_td_dense, body_loop_jnz,
    };
    unsigned e, i, j, reached = 0;

    if (IS_PRECISE) {
        return;
    }
    for (e = 0; e < ARRAY_SIZE(evtsel); e++) {
        for (i = 0; i < ARRAY_SIZE(bodies); i++) {
            for (j = 0; j < ARRAY_SIZE(counts); j++) {
                unsigned n = counts[j];
                uint64_t insns, what = evtsel[e] & 0xffffffff;

                if (!run_until(evtsel[e], n, bodies[i], 2, n)) {
                    /* Then it is not reached by those that follow. */
                    check("no interrupt, status", what,
                          rdmsr(MSR_GLOBAL_STATUS) & BIT(2), 0);
                    break;
                }
                insns = insns_at_pmi;
                check("at the interrupt", what,
                      run_until(evtsel[e], n, bodies[i], 3, insns), true);
                if (insns > 1) {
                    check("just before", what,
                          run_until(evtsel[e], n, bodies[i], 3, insns - 1),
                          false);
                }
                reached++;
            }
        }
    }
    check_range("cases", NO_STEP, reached, 200, 1000);
}

static bool hook_unmask(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    apic_write(APIC_LVTPC, LVT_NMI);
    return true;
}

static void case_td_loose(void)
{
    Cpu *cpu = this_cpu();
    Steps steps;
    unsigned n, k;

    context("short blocks");
    make_steps(&steps);
    for (n = 1; loose_step(&steps, n); n++) {
        start_event(EV_CYCLES, n, EVTSEL_OS);
        kernel(body_td_expensive, 0);
        check("interrupts", n, cpu->pmis, 1);
        check("RIP", n, cpu->pmi_rip, loose_step(&steps, n));
        check("status", n, cpu->pmi_status & ~STATUS_METRICS, BIT(2));
    }
    check_range("steps", NO_STEP, n, 20, WIDTH_MASK);

    /* The same with a filter is exact. */
    context("with a filter");
    for (k = 0; k < 2; k++) {
        uint64_t total = EVTSEL_INV | 0x02c2 |
                         (arch() & SKL ? F(16) : F(10));

        if (k && !(arch() & (SKL | ICL))) {
            continue;
        }
        for (n = 1; step_after(&steps, cycles(n)); n++) {
            start_event(k ? total : EV_CYCLES | F(1), n, EVTSEL_OS);
            kernel(body_td_expensive, 0);
            check("interrupts", n, cpu->pmis, 1);
            check("RIP", n, cpu->pmi_rip, step_after(&steps, cycles(n)));
        }
        check_range("steps", NO_STEP, n, 20, WIDTH_MASK);
    }

    context("straight on");
    for (n = 5; cycles(n) < 4 * LONG_BLOCK; n += 3) {
        start_event(EV_CYCLES, n, EVTSEL_OS);
        kernel(body_long_block, 0);
        check("interrupts", n, cpu->pmis, 1);
        check_loose_nops(n);
    }

    /* HLT is what reaches the count. */
    context("HLT");
    for (n = 1; n < 20; n++) {
        k = (cycles(n) - call_quarters()) / 4 - 1;
        if (k <= LOOSE_NOPS) {
            start_event(EV_CYCLES, n, EVTSEL_OS);
            kernel((void (*)(void))(td_loose_hlt - k), 0);
            check("interrupts", n, cpu->pmis, 1);
            check("RIP", n, cpu->pmi_rip, (uintptr_t)td_loose_hlt + 1);
        }
    }

    /* One interrupt is for both, if the other one comes first. */
    context("another counter");
    for (n = 20; n < 25; n++) {
        for (k = 0; k < 2; k++) {
            unsigned nops = exact_nops(n) + (k ? 10 : -10);

            start_event(EV_CYCLES, n, EVTSEL_USR);
            program(3, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
            wrmsr(MSR_A_PMC(3), negative(1 + nops));
            user(body_long_block, 0);
            check("interrupts", n, cpu->pmis, k && !all_exact() ? 1 : 2);
            if (k) {
                check("NOPs before the interrupt", n, nops_before_pmi(), nops);
            } else {
                check_loose_nops(n);
            }
            check("status", n, cpu->pmi_status & ~STATUS_METRICS,
                  !k ? BIT(2) : all_exact() ? BIT(3) : BIT(2) | BIT(3));
        }
    }

    /* Nor does it come again if the bit stays set. */
    context("unacknowledged");
    start_event(EV_CYCLES, 20, EVTSEL_USR);
    program(3, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
    wrmsr(MSR_A_PMC(3), negative(1 + exact_nops(20) + 10));
    cpu->hook = hook_unmask;
    user(body_long_block, 0);
    cpu->hook = NULL;
    check("interrupts", NO_STEP, cpu->pmis, all_exact() ? 2 : 1);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS) & ~STATUS_METRICS,
          BIT(2) | BIT(3));

    context("freeze");
    for (n = 20; n < 25; n++) {
        start_event(EV_CYCLES, n, EVTSEL_OS);
        wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
        cpu->hook = hook_frozen;
        kernel(body_long_block, 0);
        cpu->hook = NULL;
        check("interrupts", n, cpu->pmis, 1);
        check_loose_nops(n);
        check("counter", n, cpu->events,
              (call_quarters() + 4 * nops_before_pmi()) / cycles(1) - n);
    }
    wrmsr(MSR_DEBUGCTL, 0);
    context("");
}

static bool hook_loose_status(Frame *f)
{
    if (!skip_page_fault(f)) {
        return false;
    }
    this_cpu()->events = rdmsr(MSR_GLOBAL_STATUS) & ~STATUS_METRICS;
    return true;
}

/*
 * A fault ends the block in which the count was reached. The interrupt comes
 * when as many units have been counted as the block has, or when software
 * looks at the PMU.
 */
static void case_td_loose_fault(void)
{
    Cpu *cpu = this_cpu();
    unsigned n;

    set_present(LOOSE_PAGE, false);
    for (n = 5; n < 8; n++) {
        context("not looked at");
        start_event(EV_CYCLES, n, EVTSEL_USR);
        cpu->hook = skip_page_fault;
        user(body_td_loose_fault, LOOSE_PAGE);
        check("interrupts", n, cpu->pmis, 1);
        check("status", n, cpu->pmi_status & ~STATUS_METRICS, BIT(2));

        context("looked at");
        start_event(EV_CYCLES, n, EVTSEL_USR);
        cpu->hook = hook_loose_status;
        user(body_td_loose_fault, LOOSE_PAGE);
        check("status", n, cpu->events, all_exact() ? 0 : BIT(2));
        check("interrupts", n, cpu->pmis, 1);
    }
    cpu->hook = NULL;
    set_present(LOOSE_PAGE, true);
    context("");
}

static bool hook_freeze(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    this_cpu()->events = rdmsr(MSR_PMC(0));
    pmi_acknowledge();
    return true;
}

/*
 * QEMU stops behind an OUT. The interrupt that freezes the counters there, or
 * shortly before or after that, comes before the body ends.
 */
static void case_td_freeze_stop(void)
{
    uint64_t n = MAILBOX_64(MAILBOX_ARG2);
    Cpu *cpu = this_cpu();

    start_event(EV_INSNS, n, EVTSEL_OS);
    program(0, EV_INSNS | EVTSEL_OS);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    cpu->hook = hook_freeze;
    kernel(body_td_loose_stop, MAILBOX_64(MAILBOX_ARG));
    cpu->hook = NULL;
    check("interrupts", n, cpu->pmis, 1);
    check("status", n, cpu->pmi_status & ~STATUS_METRICS,
          BIT(2) | STATUS_FROZEN);
    check("instructions", n, cpu->events, n);
    check_range("RIP", n, cpu->pmi_rip, (uintptr_t)body_td_loose_stop,
                (uintptr_t)td_loose_stop_ret);
}

/* There, when it comes depends on the models; but it comes once. */
static void case_tdp_skid(void)
{
    static const uint16_t codes[] = { EV_SLOTS, EV_CYCLES, EV_BACKEND };
    Cpu *cpu = this_cpu();
    unsigned n;
    int i;

    for (i = 0; i < ARRAY_SIZE(codes); i++) {
        for (n = 1; n < 100; n++) {
            start(FIXED_OS);
            apic_write(APIC_LVTPC, LVT_NMI);
            program(i, codes[i] | EVTSEL_OS | EVTSEL_INT);
            wrmsr(MSR_A_PMC(i), negative(n));
            kernel(body_td_expensive, 0);
            check("interrupts", n, cpu->pmis, 1);
            check_range("RIP", n, cpu->pmi_rip,
                        (uintptr_t)body_td_expensive,
                        (uintptr_t)td_expensive_end);
        }
    }
}

/* -------------------------------------------------------------- Two CPUs */

#define SMP_TURNS           200

static void smp_turns(const Block *b)
{
    Leaves l = { };
    int i;

    start(FIXED_OS);
    program_events(0, EVTSEL_OS);
    meet();
    for (i = 0; i < SMP_TURNS; i++) {
        b->run();
    }
    meet();
    /* One after the other, because they share the text */
    if (this_cpu()->index) {
        meet();
    }
    context(b->name);
    add_block(&l, b, SMP_TURNS);
    check("slots", this_cpu()->index, slots(), sum(&l, ALL_LEAVES) / 4);
    check("METRICS", this_cpu()->index, metrics(), metrics_of(&l));
    check_events(0, this_cpu()->index, &l);
    context("");
    if (!this_cpu()->index) {
        meet();
    }
}

static void ap_turns(void)
{
    smp_turns(BLOCK(locks));
}

static void case_td_smp(void)
{
    barrier = 0;
    start_ap();
    call_ap(ap_turns);
    smp_turns(BLOCK(divides));
    call_ap_wait();
}

static Shared32 ap_interrupts;

static bool hook_again(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    ap_interrupts++;
    wrmsr(MSR_A_PMC(0), negative(1000));
    pmi_acknowledge();
    return true;
}

static void ap_count_for_ever(void)
{
    start(FIXED_OS);
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_INSNS | EVTSEL_OS | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(1000));
    this_cpu()->hook = hook_again;
    wrmsr(MSR_GLOBAL_CTRL, ENABLE_ALL);
    for (;;) {
        asm volatile("" : : : "memory");
    }
}

/* The other CPU counts, and has interrupts of its PMU, until it is unplugged */
static void case_td_unplug(void)
{
    ap_interrupts = 0;
    start_ap();
    call_ap(ap_count_for_ever);
    while (ap_interrupts < 3) {
        asm volatile("pause" : : : "memory");
    }
    check_range("interrupts", NO_STEP, ap_interrupts, 3, UINT32_MAX);
}

/* --------------------------------------------------- The precise models */

/* So often until the predictor knows the branches of a few instructions */
#define LEARN               20
#define TURNS               5000    /* as in topdown.S */
#define TD_LINES            100     /* as in topdown.S */
#define TD_MISSED           100     /* the same */

/* A list of all lines of twice the last level cache, in no order */
static void make_chase(void)
{
    uint32_t n = LINES(2 * LLC_SIZE), i;

    for (i = 0; i < n; i++) {
        uint32_t next = (5 * i + 12345) % n;

        *(Shared64 *)(uintptr_t)(CHASE_AREA + LINE * (uint64_t)i) =
            CHASE_AREA + LINE * (uint64_t)next;
    }
    block_arg[0] = CHASE_AREA;
}

/* NOPs of five bytes, and RET */
static void make_code(uint64_t start, uint32_t size)
{
    static const uint8_t nop[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
    Shared8 *p = (Shared8 *)start;
    uint32_t i;

    for (i = 0; i < size; i++) {
        uint8_t byte = i == size - 1 ? 0xc3
                     : i < size - size % 5 ? nop[i % 5] : 0x90;

        /* Stores to a page with many translated blocks are slow. */
        if (p[i] != byte) {
            p[i] = byte;
        }
    }
    block_arg[0] = start;
}

/* All of them are what they are because of one category, and one part. */
static const struct {
    const char *name;
    void (*run)(void);
    int category;
    bool part;              /* mostly the byte of level 2, or hardly */
} programs[] = {
    { "random branches", block_random_branches, 1, true },
    { "pointer chase", block_pointer_chase, 3, true },
    { "divide chain", block_divide_chain, 3, false },
    { "straight code", block_straight_code, 2, true },
    { "simple loop", block_simple_loop, 0, false },
};

static void run_program(int i)
{
    if (programs[i].run == block_pointer_chase) {
        make_chase();
    } else if (programs[i].run == block_straight_code) {
        make_code(GUEST_CODE_AREA, 2 * L1_SIZE);
    }
    programs[i].run();
}

static void case_tdp_programs(void)
{
    int i, j, step;

    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(programs); i++) {
            int category = programs[i].category;
            uint64_t m;

            context(programs[i].name);
            start(FIXED_OS);
            run_program(i);
            m = metrics();
            check_invariants("METRICS", step, m);
            for (j = 0; j < 4; j++) {
                if (j != category) {
                    check_range("another category", j, byte(m, j), 0,
                                byte(m, category) - 1);
                }
            }
            /* It is not just the largest of four: */
            check_range("category", category, byte(m, category), 255 / 2,
                        255);
            if (has_level_2() && programs[i].part) {
                check_range("part", category, byte(m, 4 + category),
                            byte(m, category) * 3 / 4, byte(m, category));
            } else {
                check_range("part", category, byte(m, 4 + category), 0,
                            byte(m, category) / 4);
            }
        }
    }
    context("");
}

enum { P_MISPREDICTS = 3, P_LLC_REFS = 6, P_LLC_MISSES = 7 };

/* What is known of a block when it has run often enough */
typedef struct Misses {
    uint64_t min_mispredicts, max_mispredicts;
    uint64_t max_loads, max_lines;
} Misses;

/*
 * The code around a block is not counted, but the models may know it: what
 * they miss in the block is counted by events, and has its price. The way to
 * the block is the same each time, because history is part of a prediction.
 */
static void check_precise(const Block *b, const Misses *m)
{
    uint64_t w = width(), mispredicts, loads, llc, lines, want;
    Leaves l = { };
    int i;

    context(b->name);
    for (i = 0; i <= LEARN; i++) {
        start(FIXED_OS);
        program_events(0, EVTSEL_OS);
        program(P_MISPREDICTS, EV_BRANCH_MISSES | EVTSEL_OS);
        program(P_LLC_REFS, EV_LLC_REFS | EVTSEL_OS);
        program(P_LLC_MISSES, EV_LLC_MISSES | EVTSEL_OS);
        b->run();
    }
    mispredicts = rdmsr(MSR_PMC(P_MISPREDICTS));
    loads = rdmsr(MSR_PMC(P_LLC_REFS));
    llc = rdmsr(MSR_PMC(P_LLC_MISSES));
    check_range("mispredicts", NO_STEP, mispredicts, m->min_mispredicts,
                m->max_mispredicts);
    check_range("LLC references", NO_STEP, loads, 0, m->max_loads);
    check_range("LLC misses", NO_STEP, llc, 0, loads);

    add_block(&l, b, 1);
    l.n[MISPREDICTS] += 4 * mispredicts * MISPREDICT_CYCLES * w;
    l.n[LATENCY] += 4 * mispredicts * RESTEER_CYCLES * w;
    l.n[MEMORY] += 4 * (loads * L1D_MISS_CYCLES + llc * LLC_MISS_CYCLES) * w;
    /* The rest of what the frontend waits for is whole lines. */
    want = sum(&l, FRONTEND_LEAVES) / 4;
    lines = (rdmsr(MSR_PMC(E_FRONTEND)) - want) / (L1I_MISS_CYCLES * w);
    check_range("lines of code", NO_STEP, lines, 0, m->max_lines);
    l.n[LATENCY] += 4 * lines * L1I_MISS_CYCLES * w;

    check_slots("slots", NO_STEP, 0, &l);
    check("METRICS", NO_STEP, metrics(), metrics_of(&l));
    for (i = 0; i < P_LLC_REFS; i++) {
        if (i != P_MISPREDICTS) {
            want = sum(&l, event_leaves(i));
            check_range(events[i].name, NO_STEP, rdmsr(MSR_PMC(i)), want / 4,
                        (want + 3) / 4);
        }
    }
    context("");
}

/* Prices that do not depend on the models are as in the static one. */
static void case_tdp_prices(void)
{
    int i;

    enable_vectors(true);
    for (i = 0; i < ARRAY_SIZE(blocks); i++) {
        const Block *b = &blocks[i];
        const uint32_t *n = b->code.n;
        bool indirect = n[RET] + n[JMP_INDIRECT] + n[CALL_INDIRECT];
        /* At most the end of a loop is new. */
        Misses m = { 0, indirect || n[COND] || n[LOOP] ? 2 : 0, 2, 12 };

        check_precise(b, &m);
    }
    enable_vectors(false);
}

/* What the blocks "lines" and "stack..." load, @times times */
static void set_loads(uint64_t where, uint64_t n, uint64_t stride,
                      uint64_t times)
{
    block_arg[0] = where;
    block_arg[1] = n;
    block_arg[2] = stride;
    block_arg[3] = times;
}

/*
 * Lines of memory, with what is in no cache then. All of it is one block:
 * nothing else loads meanwhile.
 */
static void check_lines(const char *name, uint64_t where, uint64_t n,
                        uint64_t stride, uint64_t times, uint64_t l1_misses,
                        uint64_t llc_misses)
{
    uint64_t want = width() * (L1D_MISS_CYCLES * l1_misses +
                               LLC_MISS_CYCLES * llc_misses);

    set_loads(where, n, stride, times);
    start(FIXED_OS);
    /* In slots, or in cycles */
    if (arch() == GLC) {
        program(0, EV_MEMORY | EVTSEL_OS);
    } else {
        program(0, 0x14a3 | EVTSEL_CMASK(0x14) | EVTSEL_OS);
    }
    program(1, EV_BACKEND | EVTSEL_OS);
    program(2, EV_LLC_REFS | EVTSEL_OS);
    program(3, EV_LLC_MISSES | EVTSEL_OS);
    program(4, EV_LOADS | EVTSEL_OS);
    block_lines();
    context(name);
    check("memory bound", NO_STEP, rdmsr(MSR_PMC(0)),
          arch() == GLC ? want : want / width());
    check("backend bound", NO_STEP, rdmsr(MSR_PMC(1)), want);
    check("LLC references", NO_STEP, rdmsr(MSR_PMC(2)), l1_misses);
    check("LLC misses", NO_STEP, rdmsr(MSR_PMC(3)), llc_misses);
    check("loads", NO_STEP, rdmsr(MSR_PMC(4)), n * times);
    context("");
}

/* Each with memory that is in no cache before */
static void case_tdp_data(void)
{
    const uint64_t l1 = LINES(L1_SIZE), llc = LINES(LLC_SIZE);
    uint64_t area = LINES_AREA;

    /* What was there before is in no cache after that. */
    check_lines("twice LLC", area, 2 * llc, LINE, 1, 2 * llc, 2 * llc);
    check_lines("half of L1", area, l1 / 2, LINE, 1, l1 / 2, l1 / 2);
    area += L1_SIZE;
    check_lines("half of L1 twice", area, l1 / 2, LINE, 2, l1 / 2, l1 / 2);
    area += L1_SIZE;
    check_lines("L1 five times", area, l1, LINE, 5, l1, l1);
    area += L1_SIZE;
    check_lines("twice L1 twice", area, 2 * l1, LINE, 2, 4 * l1, 2 * l1);
    area += 2 * L1_SIZE;
    check_lines("a line 1000 times", area, 1, LINE, 1000, 1, 1);
    area += LINE;
    check_lines("eight loads of a line", area, 8, 8, 10, 1, 1);
    area += LINE;
    check_lines("two lines, L1 apart", area, 2, L1_SIZE, 10, 20, 2);
    area += LINE;
    check_lines("two lines, more apart", area, 2, L1_SIZE + LINE, 10, 2, 2);
    area += LINE;
    check_lines("two lines, LLC apart", area, 2, LLC_SIZE, 10, 20, 20);
}

/* What @block does with lines of memory: loads, of which some miss L1 */
static void check_loads(const char *name, void (*block)(void), uint64_t where,
                        uint64_t n, uint64_t l1_misses)
{
    set_loads(where, n, LINE, 1);
    start(FIXED_OS);
    program(0, EV_LLC_REFS | EVTSEL_OS);
    program(1, EV_LOADS | EVTSEL_OS);
    block();
    context(name);
    check("misses of L1", NO_STEP, rdmsr(MSR_PMC(0)), l1_misses);
    check("loads", NO_STEP, rdmsr(MSR_PMC(1)), n);
    context("");
}

/* Loads of what is on the stack are loads, but not looked up. */
static void case_tdp_stack(void)
{
    const uint64_t l1 = LINES(L1_SIZE);

    check_loads("other lines", block_lines, LINES_AREA + L1_SIZE, l1, l1);
    check_loads("stack", block_stack, LINES_AREA, l1, 0);
    check_loads("operands", block_stack_operands, LINES_AREA, l1, 0);
    check_loads("other lines again", block_lines, LINES_AREA + L1_SIZE, l1, 0);
    check_loads("array", block_stack_array, LINES_AREA, l1, l1);
    check_loads("lines of the stack", block_lines, LINES_AREA, l1, 0);
}

/* What misses counts at the CPL of the load, whenever it is looked up. */
static void case_tdp_privilege(void)
{
    enum { RUNS = 5, KERNEL_LINES = 10 };
    uint64_t area = LINES_AREA;
    int i;

    /* Other lines, so that none of these is there */
    set_loads(LINES_AREA + 2 * L1_SIZE, LINES(L1_SIZE), LINE, 1);
    block_lines();
    start(FIXED_OS);
    program(0, EV_LLC_REFS | EVTSEL_USR);
    program(1, EV_LLC_REFS | EVTSEL_OS);
    program(2, EV_LLC_REFS | EVTSEL_USR | EVTSEL_OS);
    for (i = 0; i < RUNS; i++) {
        user(body_td_lines, area);
        area += TD_LINES * LINE;
        set_loads(area, KERNEL_LINES, LINE, 1);
        block_lines();
        area += KERNEL_LINES * LINE;
    }
    check("CPL 3", NO_STEP, rdmsr(MSR_PMC(0)), RUNS * TD_LINES);
    /* And what enters and leaves CPL 3 */
    check_range("CPL 0", NO_STEP, rdmsr(MSR_PMC(1)), RUNS * KERNEL_LINES,
                RUNS * (KERNEL_LINES + 9));
    check("sum", NO_STEP, rdmsr(MSR_PMC(2)),
          rdmsr(MSR_PMC(0)) + rdmsr(MSR_PMC(1)));
}

/* Pages: what the first level lacks and the second has, and walks */
static void check_pages(const char *name, uint64_t where, uint64_t n,
                        uint64_t stride, uint64_t times, uint64_t hits,
                        uint64_t walks)
{
    uint64_t event = arch() == GLC ? 0x12 : 0x08;

    set_loads(where, n, stride, times);
    start(FIXED_OS);
    program(0, event | 0x2000 | EVTSEL_OS);
    program(1, event | 0x0e00 | EVTSEL_OS);
    program(2, event | 0x1000 | F(1) | EVTSEL_OS);
    program(3, 0x11d0 | EVTSEL_OS);
    block_lines();
    context(name);
    check("hits of the second level", NO_STEP, rdmsr(MSR_PMC(0)), hits);
    check("walks", NO_STEP, rdmsr(MSR_PMC(1)), walks);
    check("cycles of walks", NO_STEP, rdmsr(MSR_PMC(2)), walks * WALK_CYCLES);
    check("loads that walk", NO_STEP, rdmsr(MSR_PMC(3)), walks);
    context("");
}

/* All loads miss the cache: lines at a distance of a page share few places. */
static void case_tdp_pages(void)
{
    const uint64_t data = GUEST_CODE_AREA + (2 * STLB_PAGES + 16) * PAGE;
    int i;

    /* Twice, so that none of them hits the cache the second time */
    set_loads(CHASE_AREA, STLB_PAGES, PAGE, 2);
    start(FIXED_OS);
    program(0, EV_LLC_REFS | EVTSEL_OS);
    block_lines();

    check_pages("64 new pages", LINES_AREA, TLB_PAGES, PAGE, 1, 0, 64);
    check_pages("the same again", LINES_AREA, TLB_PAGES, PAGE, 1, 0, 0);
    check_pages("128 pages twice", LINES_AREA, 2 * TLB_PAGES, PAGE, 2, 128, 64);
    check_pages("two pages, 64 apart", LINES_AREA, 2, TLB_PAGES * PAGE,
                10, 20, 0);
    check_pages("two pages, 512 apart", LINES_AREA, 2, STLB_PAGES / 2 * PAGE,
                10, 19, 1);
    check_pages("two pages, 1024 apart", CHASE_AREA, 2, STLB_PAGES * PAGE,
                10, 0, 20);

    check_pages("pages like the code's", data, TLB_PAGES, PAGE, 1, 0, 64);
    check_pages("others", LINES_AREA, TLB_PAGES, PAGE, 1, 64, 0);

    /* Code: 64 pages, so that the first level has only these; then 16 new */
    for (i = 0; i < 2; i++) {
        uint64_t size = i ? 16 * PAGE : TLB_PAGES * PAGE;
        uint64_t event = arch() == GLC ? 0x11 : 0x85;

        make_code(GUEST_CODE_AREA + (i ? TLB_PAGES * PAGE : 0), size);
        start(FIXED_OS);
        program(0, event | 0x0e00 | EVTSEL_OS);
        program(1, event | 0x1000 | EVTSEL_OS);
        program(2, 0x0483 | EVTSEL_OS);
        block_straight_code();
    }
    context("code");
    /* And the page of the block itself, and of its end */
    check_range("walks", NO_STEP, rdmsr(MSR_PMC(0)), 16, 18);
    check("cycles of walks", NO_STEP, rdmsr(MSR_PMC(1)),
          rdmsr(MSR_PMC(0)) * WALK_CYCLES);
    check("cycles of tags", NO_STEP, rdmsr(MSR_PMC(2)), rdmsr(MSR_PMC(1)));
    context("");

    /* The code was at the same places of the second level. */
    check_pages("pages like the code's again", data, TLB_PAGES, PAGE, 1, 64, 0);
}

/* The frontend waits for lines of code that are new. */
static void case_tdp_code(void)
{
    /* Half of the cache away from the block itself */
    const uint64_t apart = GUEST_CODE_AREA +
        (((uintptr_t)block_straight_code + L1_SIZE / 2) & (L1_SIZE - 1) &
         -LINE);
    const uint64_t passes = 10;
    const Code code = {
        { [CALL_INDIRECT] = passes, [RET] = passes, [COND] = passes }
    };
    /* Of the block itself, which larger code pushes out each time */
    const uint64_t own_lines = 4;
    const struct {
        const char *name;
        uint64_t start;
        uint32_t size;
        uint64_t misses, more;          /* lines */
    } t[] = {
        { "twice L1", GUEST_CODE_AREA, 2 * L1_SIZE,
          passes * LINES(2 * L1_SIZE), passes * own_lines },
        { "eight times L1", GUEST_CODE_AREA, 8 * L1_SIZE,
          passes * LINES(8 * L1_SIZE), passes * own_lines },
        { "a quarter of L1", apart, L1_SIZE / 4,
          LINES(L1_SIZE / 4), own_lines },
    };
    int i;

    for (i = 0; i < ARRAY_SIZE(t); i++) {
        uint64_t miss = L1I_MISS_CYCLES * width(), fixed;
        Leaves l = { };

        context(t[i].name);
        add(&l, &code, 1);
        make_code(t[i].start, t[i].size);
        start(FIXED_OS);
        program(0, EV_FRONTEND | EVTSEL_OS);
        program(1, EV_BRANCH_MISSES | EVTSEL_OS);
        block_straight_code();
        fixed = sum(&l, FRONTEND_LEAVES) / 4 +
                rdmsr(MSR_PMC(1)) * RESTEER_CYCLES * width();
        check_range("frontend bound", NO_STEP, rdmsr(MSR_PMC(0)),
                    fixed + t[i].misses * miss,
                    fixed + (t[i].misses + t[i].more) * miss);
    }
    context("");
}

static void case_tdp_branches(void)
{
    static const Block random = {
        "random", block_random_branches,
        { { [ANY] = 2 + 6 * TURNS, [COND] = 2 * TURNS } }
    }, loop = {
        "loop", block_simple_loop,
        { { [ANY] = 1 + 22 * TURNS, [COND] = TURNS } }
    };
    /* At most the end of a loop is a surprise, and what is new then. */
    static const Misses learned = { 0, 20, 0, 12 },
        half = { TURNS * 2 / 5, TURNS * 3 / 5, 0, 12 };
    Block b = random;
    uint32_t x = 1;
    int i;

    check_precise(&loop, &learned);
    /* Half of them are guessed right; those not taken have a NOP more. */
    for (i = 0; i < TURNS; i++) {
        x = x * 1103515245 + 12345;
        b.code.n[ANY] += !(x >> 30 & 1);
    }
    check_precise(&b, &half);
}

/* As many return addresses as there are nested calls are known. */
static void case_tdp_returns(void)
{
    static const Block sixteen = {
        "16 calls", block_returns,
        { { [ANY] = 3 * 16, [CALL] = 16, [RET] = 16, [LOAD] = 16, [JMP] = 16 } }
    }, twenty_four = {
        "24 calls", block_deep_returns,
        { { [ANY] = 3 * 24, [CALL] = 24, [RET] = 24, [LOAD] = 24, [JMP] = 24 } }
    };

    static const Misses none = { 0, 0, 4, 20 }, eight = { 8, 8, 6, 20 };

    check_precise(&sixteen, &none);
    check_precise(&twenty_four, &eight);
}

static bool hook_present(Frame *f)
{
    if (f->vector != VEC_PF) {
        return false;
    }
    this_cpu()->events++;
    set_present(LOOSE_PAGE, true);
    return true;
}

/* A call whose push faults is no call yet: the stack grows, and it is one. */
static void case_tdp_faults(void)
{
    Cpu *cpu = this_cpu();
    unsigned n;

    for (n = 0; n < LEARN + 4; n++) {
        /* The first call with its push in the page, or none of the three */
        unsigned first = n < LEARN ? 3 : n - LEARN;

        set_present(LOOSE_PAGE, first == 3);
        start(0);
        program(P_MISPREDICTS, EV_BRANCH_MISSES | EVTSEL_USR);
        cpu->events = 0;
        cpu->hook = hook_present;
        user(body_td_calls, LOOSE_PAGE + 0x1000 + 8 * first);
        if (n >= LEARN) {
            check("faults", first, cpu->events, first < 3);
            check("mispredicts", first, rdmsr(MSR_PMC(P_MISPREDICTS)), 0);
        }
    }
    cpu->hook = NULL;
}

/* The last target is what is predicted. */
static void case_tdp_indirect(void)
{
    static const Block same = {
        "same target", block_same_target,
        { { [ANY] = 2 + 3 * TURNS, [JMP_INDIRECT] = TURNS, [COND] = TURNS } }
    }, other = {
        "other target", block_other_target,
        { { [ANY] = 3 + 4 * TURNS + TURNS / 2, [JMP_INDIRECT] = TURNS,
            [COND] = TURNS } }
    };

    static const Misses few = { 0, 20, 0, 12 },
        all = { TURNS - 1, TURNS + 20, 0, 12 };

    check_precise(&same, &few);
    check_precise(&other, &all);
}

/* Each mispredict is one of its kind, and all identities hold. */
static void case_tdp_kinds(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
        uint16_t code;              /* the kind */
    } t[] = {
        { "random branches", block_random_branches, 0x11c5 },
        { "24 calls", block_deep_returns, 0x08c5 },
        { "other target", block_other_target, 0x80c5 },
    };
    int i, j;

    for (i = 0; i < ARRAY_SIZE(programs); i++) {
        context(programs[i].name);
        check_identities(run_program, i);
    }
    context("");
    if (arch() == SKL) {
        return;
    }
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        context(t[i].name);
        for (j = 0; j <= LEARN; j++) {
            start(FIXED_OS);
            program(0, EV_BRANCH_MISSES | EVTSEL_OS);
            program(1, t[i].code | EVTSEL_OS);
            t[i].run();
        }
        check_range("mispredicts", NO_STEP, rdmsr(MSR_PMC(0)), 8, 5 * TURNS);
        check_range("of its kind", NO_STEP, rdmsr(MSR_PMC(1)),
                    rdmsr(MSR_PMC(0)) * 9 / 10, rdmsr(MSR_PMC(0)));
    }
    context("");
}

/* Mispredicted branches count, and cost slots, at their own CPL. */
static void case_tdp_missed(void)
{
    uint64_t all, price = (MISPREDICT_CYCLES + RESTEER_CYCLES) * width();
    int i;

    if (arch() == SKL) {
        return;
    }
    for (i = 0; i <= LEARN; i++) {
        start(FIXED_OS);
        program(0, 0x80c5 | EVTSEL_USR);
        program(1, 0x08c5 | EVTSEL_USR);
        program(2, EV_BRANCH_MISSES | EVTSEL_USR);
        program(3, EV_BRANCH_MISSES | EVTSEL_OS);
        program(4, EV_SLOTS | EVTSEL_USR);
        user(body_td_missed, 0);
    }
    all = rdmsr(MSR_PMC(2));
    check("jumps", NO_STEP, rdmsr(MSR_PMC(0)), TD_MISSED);
    check_range("returns", NO_STEP, rdmsr(MSR_PMC(1)), TD_MISSED,
                TD_MISSED + 1);
    check_range("all", NO_STEP, all, 2 * TD_MISSED + 1, 4 * TD_MISSED);
    /* What enters and leaves CPL 3 */
    check_range("CPL 0", NO_STEP, rdmsr(MSR_PMC(3)), 0, 9);
    /* The instructions of a turn have 16 slots, and wait for some lines. */
    check_range("slots", NO_STEP, rdmsr(MSR_PMC(4)), all * price,
                all * price + 25 * TD_MISSED);
}

/* What the events say is what METRICS says, for any program. */
static void case_tdp_sum(void)
{
    int i;

    for (i = 0; i < ARRAY_SIZE(programs); i++) {
        uint64_t pmc[MOST_GP_COUNTERS];
        Leaves l;
        int j;

        context(programs[i].name);
        start(FIXED_OS);
        program_events(0, EVTSEL_OS);
        program_fixed(1, FIXED_OS);
        run_program(i);
        for (j = 0; j < GP_COUNTERS; j++) {
            pmc[j] = rdmsr(MSR_PMC(j));
        }
        check("event and counter", NO_STEP, pmc[E_SLOTS], slots());
        check_cycles(NO_STEP);
        if (arch() != GLC) {
            /* There are no events for two of the categories. */
            continue;
        }
        check_range("sum", NO_STEP, pmc[E_RETIRING] + pmc[E_BAD] +
                    pmc[E_FRONTEND] + pmc[E_BACKEND] + 4,
                    pmc[E_SLOTS] + 1, pmc[E_SLOTS] + 7);
        check_range("issued", NO_STEP, pmc[E_ISSUED] + 2,
                    pmc[E_RETIRING] + 1, pmc[E_RETIRING] + 3);
        /* Their parts, as far as there are events */
        l = (Leaves) { { [LIGHT] = 4 * pmc[E_RETIRING],
                         [MISPREDICTS] = 4 * pmc[E_MISPREDICTS],
                         [MACHINE_CLEARS] =
                             4 * (pmc[E_BAD] - pmc[E_MISPREDICTS]),
                         [BANDWIDTH] = 4 * pmc[E_FRONTEND],
                         [MEMORY] = 4 * pmc[E_MEMORY],
                         [CORE] = 4 * (pmc[E_BACKEND] - pmc[E_MEMORY]) } };
        for (j = 0; j < 8; j++) {
            uint64_t want = byte(metrics_of(&l), j);

            if (j != 4 && j != 6) {
                check_range("METRICS", j, byte(metrics(), j) + 1, want,
                            want + 2);
            }
        }
    }
    context("");
}

/* ------------------------------------------------------- A pinned mix */

/*
 * MAILBOX_ARG and MAILBOX_ARG2: levels 1 and 2 in thousandths, 16 bits each,
 * in the order of the bytes of METRICS
 */
static void add_mix(Leaves *l, uint64_t level_1, uint64_t level_2,
                    uint64_t times)
{
    int i;

    for (i = 0; i < 4; i++) {
        uint64_t part = level_2 >> 16 * i & 0xffff;

        l->n[2 * i] += ((level_1 >> 16 * i & 0xffff) - part) * times;
        l->n[2 * i + 1] += part * times;
    }
}

/* Events, within the slot that rounding may take: @l is in thousandths */
static void check_mix_events(const Leaves *l, uint64_t n)
{
    int i;

    for (i = 0; i < GP_COUNTERS; i++) {
        uint64_t want = n * sum(l, event_leaves(i)) / sum(l, ALL_LEAVES);

        check_range(events[i].name, NO_STEP, rdmsr(MSR_PMC(i)) + 3, want,
                    want + 6);
    }
}

static void check_mix(void)
{
    const Code code = { { [ANY] = 1 + 22 * TURNS, [COND] = TURNS } };
    Leaves mix = { }, fixed = { };

    add_mix(&mix, MAILBOX_64(MAILBOX_ARG), MAILBOX_64(MAILBOX_ARG2), 1);
    add(&fixed, &code, 1);
    add(&fixed, &block_end, 1);
    start(FIXED_OS);
    program_events(0, EVTSEL_OS);
    program_fixed(0, FIXED_OS);
    program_fixed(1, FIXED_OS);
    block_simple_loop();
    /* The mix has nothing to say in how many there are. */
    check("instructions", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
          code.n[ANY] + block_end.n[ANY]);
    check_slots("slots", NO_STEP, 0, &fixed);
    check_cycles(NO_STEP);
    check("METRICS", NO_STEP, metrics(), metrics_of(&mix));
    check_mix_events(&mix, slots());
}

static void case_td_pinned(void)
{
    check_mix();

    /* A mix does not say which cycles are core bound. */
    start(FIXED_OS);
    program(0, 0x0914 | F(1) | EVTSEL_OS);
    block_divides();
    check("cycles of divisions", NO_STEP, rdmsr(MSR_PMC(0)), 0);
}

static void case_td_pinned_ap(void)
{
    start_ap();
    call_ap(check_mix);
    call_ap_wait();
}

/*
 * Two halves with one mix each, MAILBOX_ARG and MAILBOX_ARG2; the qtest makes
 * the change between them. Nobody looks at the counters at that time.
 */
static void case_td_pinned_change(void)
{
    Leaves first = { }, second = { }, all = { };
    uint32_t turns = TURNS;

    add_halves(&first, &second, turns);
    start(FIXED_USR);
    program_events(0, EVTSEL_USR);
    this_cpu()->hook = hook_host;
    user(body_td_halves, turns);
    this_cpu()->hook = NULL;
    add_mix(&all, MAILBOX_64(MAILBOX_ARG), 0, sum(&first, ALL_LEAVES));
    add_mix(&all, MAILBOX_64(MAILBOX_ARG2), 0, sum(&second, ALL_LEAVES));
    check("METRICS", NO_STEP, metrics(), metrics_of(&all));
    check_mix_events(&all, slots());
}

/* Retiring slots of code that bandwidth does not limit, in quarters, by mix */
static uint64_t full_width(uint64_t mix, const Leaves *code)
{
    Leaves l = { };
    uint64_t retiring, bandwidth;

    add_mix(&l, mix, 0, sum(code, ALL_LEAVES));
    retiring = sum(&l, RETIRING_LEAVES);
    bandwidth = sum(&l, L(BANDWIDTH));
    return retiring > bandwidth ? (retiring - bandwidth) / 1000 : 0;
}

/*
 * The same for cycles in which the legacy decoder, or the cache of decoded
 * operations, is as fast as it can be: seven of eight are of the latter. A mix
 * that has none takes none from another one.
 */
static void case_td_pinned_bandwidth(void)
{
    Leaves first = { }, second = { };
    uint32_t turns = TURNS;
    uint64_t all;

    add_halves(&first, &second, turns);
    start(FIXED_USR);
    program(0, 0x0479 | F(6) | EVTSEL_USR);
    program(1, 0x0879 | F(6) | EVTSEL_USR);
    this_cpu()->hook = hook_host;
    user(body_td_halves, turns);
    this_cpu()->hook = NULL;
    all = full_width(MAILBOX_64(MAILBOX_ARG), &first) +
          full_width(MAILBOX_64(MAILBOX_ARG2), &second);
    all /= 4 * 6;
    check_range("decoder", NO_STEP, rdmsr(MSR_PMC(0)) + 1, all / 8,
                all / 8 + 2);
    check_range("cache", NO_STEP, rdmsr(MSR_PMC(1)) + 1, all * 7 / 8,
                all * 7 / 8 + 2);
}

/* -------------------------------------------------- With the qtest's help */

/* It counts while it migrates, until the qtest says that it is there. */
static void case_td_migrate(void)
{
    Leaves l = { };
    uint64_t turns;

    start(FIXED_USR);
    program_events(0, EVTSEL_USR);
    program_fixed(1, FIXED_USR);
    MAILBOX(MAILBOX_PHASE) = 1;
    user(body_td_until_host, 0);
    turns = payload_result[0];

    add(&l, &(Code) { { [ANY] = 3, [LOAD] = 1, [COND] = 1 } },
        turns);
    add(&l, &(Code) { { [ANY] = 2 } }, 1);
    add(&l, &user_call, 1);
    add(&l, &ret_code, 1);
    check_slots("slots", NO_STEP, 0, &l);
    check("METRICS", NO_STEP, metrics(), metrics_of(&l));
    check_events(0, NO_STEP, &l);
    check_cycles(NO_STEP);
}

static bool hook_migrate_overflow(Frame *f)
{
    Cpu *cpu = this_cpu();

    if (f->vector == VEC_BP) {
        check("PMIs before", NO_STEP, cpu->pmis, 0);
        return hook_host(f);
    }
    if (f->vector != VEC_NMI) {
        return false;
    }
    cpu->events = slots();
    pmi_acknowledge();
    return true;
}

/* It migrates before the middle of what is left until METRICS overflows. */
static void case_td_migrate_overflow(void)
{
    const uint32_t turns = 400;
    Leaves first = { }, second = { }, all = { };
    Cpu *cpu = this_cpu();
    uint64_t n;
    int i;

    add_halves(&first, &second, turns);
    n = sum(&first, ALL_LEAVES) / 4 + sum(&second, ALL_LEAVES) / 8;
    restore(FIXED_USR | FIXED_PMI, METRICS_LIMIT - n, SOME_METRICS);
    apic_write(APIC_LVTPC, LVT_NMI);
    cpu->hook = hook_migrate_overflow;
    user(body_td_halves, turns);
    cpu->hook = NULL;

    check("PMIs", NO_STEP, cpu->pmis, 1);
    check("status in the handler", NO_STEP, cpu->pmi_status, STATUS_METRICS);
    check_range("slots in the handler", NO_STEP, cpu->events, METRICS_LIMIT,
                METRICS_LIMIT + 2);
    check_range("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)td_halves_second,
                (uintptr_t)td_halves_second + 16);
    for (i = 0; i < LEAVES; i++) {
        all.n[i] = first.n[i] + second.n[i];
    }
    check_slots("slots", NO_STEP, METRICS_LIMIT - n, &all);
    add_written(&all, METRICS_LIMIT - n, SOME_METRICS);
    check_near("METRICS", NO_STEP, metrics(), &all);
}

/*
 * Filters look at all that has been counted since the counter was enabled: the
 * numbers are the same whatever the qtest does in the middle.
 */
static void case_td_migrate_filter(void)
{
    static const uint64_t selects[MOST_GP_COUNTERS] = {
        EV_INSNS | EVTSEL_CMASK(2),
        EV_INSNS | EVTSEL_CMASK(3) | EVTSEL_INV,
        EV_INSNS | EVTSEL_EDGE,
        EV_BRANCHES | EVTSEL_CMASK(1) | EVTSEL_EDGE,
        EV_CYCLES | EVTSEL_CMASK(1) | EVTSEL_INV | EVTSEL_EDGE,
        EV_BACKEND | EVTSEL_CMASK(1),
        EV_RETIRING | EVTSEL_CMASK(6) | EVTSEL_INV,
        EV_BACKEND,
    };
    int i;

    start(FIXED_USR);
    for (i = 0; i < GP_COUNTERS; i++) {
        program(i, selects[i] | EVTSEL_USR);
    }
    this_cpu()->hook = hook_host;
    user(body_td_slow_then_dense, 333);
    this_cpu()->hook = NULL;
    for (i = 0; i < GP_COUNTERS; i++) {
        value("counter", i, rdmsr(MSR_PMC(i)));
    }
    /* Half of 2 + 5 * 333 and 2 + 22 * (333 / 4), and of the calls */
    check_range("packed", NO_STEP, rdmsr(MSR_PMC(0)), 1747, 1753);
}

/* --------------------------------------------------- The same in each run */

static void print_counters(void)
{
    int i;

    value("METRICS", NO_STEP, metrics());
    value("slots", NO_STEP, slots());
    for (i = 0; i < GP_COUNTERS; i++) {
        value(events[i].name, NO_STEP, rdmsr(MSR_PMC(i)));
    }
}

static bool hook_print(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    value("PMI at", NO_STEP, f->rip);
    value("status", NO_STEP, this_cpu()->pmi_status);
    value("slots", NO_STEP, rdpmc(RDPMC_FIXED + SLOTS));
    value("METRICS", NO_STEP, rdpmc(RDPMC_METRICS));
    clear_both();
    pmi_acknowledge();
    return true;
}

/*
 * The precise models know later what they knew before, whatever the qtest does
 * meanwhile. The numbers are the same if it does nothing.
 */
static void case_td_migrate_models(void)
{
    static const Block *const b[] = {
        BLOCK(taken), BLOCK(jumps_indirect), BLOCK(calls),
    };
    int i, step;

    make_chase();
    make_code(GUEST_CODE_AREA, L1_SIZE / 2);
    for (step = 0; step < 2; step++) {
        for (i = 0; i < LEARN; i++) {
            start(FIXED_OS);
            program_events(0, EVTSEL_OS);
            if (i < ARRAY_SIZE(b)) {
                b[i]->run();
            } else if (i < 3 + ARRAY_SIZE(b)) {
                run_program(i % 2 ? 0 : 4);
            } else {
                set_loads(LINES_AREA, 300 + i, LINE, 1);
                block_lines();
            }
            context("");
            print_counters();
        }
        if (!step) {
            wait_for_host();
        }
    }
    /* All but the code around it has left something to be found again. */
    start(FIXED_OS);
    program(0, EV_LLC_MISSES | EVTSEL_OS);
    block_lines();
    check_range("LLC misses", NO_STEP, rdmsr(MSR_PMC(0)), 0, 8);
}

/*
 * If time depends on nothing but instructions, timer interrupts have their
 * place among them, and disturb the models at the same place.
 */
static void case_td_values(void)
{
    bool timer = MAILBOX(MAILBOX_CONFIG) & CONFIG_TIMER;
    Cpu *cpu = this_cpu();
    int i, step;

    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(blocks); i++) {
            if (!is_vector(&blocks[i])) {
                context(blocks[i].name);
                start(FIXED_OS);
                program_events(0, EVTSEL_OS);
                blocks[i].run();
                print_counters();
            }
        }
        for (i = 0; i < ARRAY_SIZE(programs); i++) {
            context(programs[i].name);
            start(FIXED_OS);
            program_events(0, EVTSEL_OS);
            run_program(i);
            print_counters();
        }
        /* What is not counted may teach the models, but always the same */
        context("not counted");
        set_loads(LINES_AREA + step * LLC_SIZE, LINES(LLC_SIZE) / 2, LINE, 1);
        start(FIXED_OS);
        pmu_enable = 0;
        block_lines();
        start(FIXED_OS);
        program_events(0, EVTSEL_OS);
        block_lines();
        print_counters();

        /* Locked loads are TCG ops only where no other vCPU runs meanwhile */
        context("locked");
        start(FIXED_OS);
        program_events(0, EVTSEL_OS);
        wrmsr(MSR_GLOBAL_CTRL, pmu_enable);
        for (i = 0; i < LINES(LLC_SIZE) / 4; i += 2) {
            uint32_t *line = (void *)(uintptr_t)
                (LINES_AREA + step * LLC_SIZE + i * LINE);
            uint32_t n = i;

            asm volatile("lock incl %0\n\t"
                         "xchg %1, %2"
                         : "+m" (*line), "+m" (line[LINE / 4]), "+r" (n));
        }
        wrmsr(MSR_GLOBAL_CTRL, 0);
        print_counters();

        if (IS_PRECISE && !all_exact()) {
            /* When these come depends on how code is divided into blocks */
            continue;
        }
        context("PMIs");
        start(FIXED_OS | FIXED_USR | FIXED_PMI);
        program_events(0, EVTSEL_OS | EVTSEL_USR);
        apic_write(APIC_LVTPC, LVT_NMI);
        set_gate(VEC_TIMER, timer_return, 0);
        run_user_flags = 2 | RFLAGS_IF;
        payload_irqs = 0;
        cpu->hook = hook_print;
        if (timer) {
            apic_timer(100000, true);
            user(body_until_irqs, 3);
            apic_timer(0, false);
        }
        user(body_td_mixed, 0);
        user(body_calls, 0);
        user(body_long_block, 0);
        cpu->hook = NULL;
        interrupts();
        run_user_flags = 2;
        set_trap_gate(VEC_TIMER);
        value("PMIs", NO_STEP, cpu->pmis);
        print_counters();
    }
    context("");
}

/* ------------------------------------------------------------- Nonsense */

/*
 * MAILBOX_ARG: the seed. Whatever is written and counted, METRICS is what was
 * written, or adds up.
 */
static void case_td_random(void)
{
    const Block *b;
    uint64_t written = 0;
    int i;

    start(0);
    set_random_seed(MAILBOX_64(MAILBOX_ARG));
    for (i = 0; i < 10000; i++) {
        uint64_t r = random(), m;

        switch (r & 7) {
        case 0:
            wrmsr(MSR_FIXED_CTR(SLOTS),
                  r & 8 ? 0 : r & 16 ? negative(r >> 52) : random() >> 16);
            written = 0;
            break;
        case 1:
            written = random();
            wrmsr(MSR_PERF_METRICS, written);
            written = readable(written);
            break;
        case 2:
            pmu_enable = (r & 8 ? ENABLE_SLOTS : 0) |
                         (r & 16 ? STATUS_METRICS : 0) | (r >> 8 & GP_MASK);
            break;
        case 3:
            wrmsr(MSR_FIXED_CTR_CTRL,
                  SLOTS_CTRL((r >> 8 & 3) | (r & 8 ? FIXED_PMI : 0)));
            break;
        case 4:
            wrmsr(MSR_GLOBAL_CTRL, pmu_enable);
            break;
        case 5:
            wrmsr(MSR_STATUS_RESET, STATUS_MASK);
            interrupts();
            break;
        case 6:
            user(r & 8 ? body_td_mixed : body_memory, 0);
            break;
        default:
            b = &blocks[(r >> 8) % ARRAY_SIZE(blocks)];
            if (!is_vector(b)) {
                b->run();
            }
            break;
        }
        m = metrics();
        if (m != written) {
            check_invariants("METRICS", i, m);
        }
    }
    wrmsr(MSR_GLOBAL_CTRL, 0);
    check("RDPMC", NO_STEP, rdpmc(RDPMC_METRICS), metrics());
    wrmsr(MSR_STATUS_RESET, STATUS_MASK);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check_block(BLOCK(nops), NO_STEP);
}

/* ----------------------------------------------------------- The table */

const GuestCase topdown_cases[GUEST_CASE(all_topdown)] = {
#define X(sym, path, flags) [GUEST_CASE(sym)] = { case_##sym, flags, path },
    TOPDOWN_CASES(X)
#undef X
};
