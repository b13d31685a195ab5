/*
 * PMU of Intel CPUs under TCG: events
 *
 * An event has a source: one of the accelerator's totals, or a formula over
 * several of them. All formulas are monotonic, so that a counter can add the
 * difference of two looks; some start again when topdown-mix changes. An event
 * that is a fraction of totals has a denominator, x86_pmu_event_parts(); the
 * formulas return the numerator.
 *
 * The total of a lane stands still while no event needs the lane. So only the
 * differences of totals mean something, and formulas are linear; exceptions
 * look at lanes that are counted together.
 *
 * The same code is another event on another microarchitecture: each row of the
 * table names those on which the row is true. A code without a row counts 0.
 *
 * The formulas share one picture of the CPU, so that no event contradicts
 * another one:
 *  - In each cycle, all slots belong to one category. So a cycle executes
 *    micro-operations in full width, or it stalls, and only backend-bound
 *    cycles stall. Nothing of a wrong path is issued: bad speculation consists
 *    of recovery.
 *  - After the first level of the data cache comes the last level. Each
 *    demand load that misses L1 misses L2. One miss is outstanding at a time.
 *  - A walk of the page tables is a part of a miss of a cache. Stores wait
 *    neither for a cache nor for a walk.
 *  - An eighth of the micro-operations comes from the legacy decoder, the rest
 *    from the cache of decoded ones. While bandwidth limits, half of the slots
 *    are filled.
 *
 * Reference: Intel SDM volume 3, "Architectural Performance Events"; the event
 * lists of Linux, tools/perf/pmu-events/arch/x86.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "qemu/host-utils.h"
#include "qemu/pmu-compat.h"
#include "pmu-internal.h"

/* For SOURCE_FORMULA: what the event counts */
enum {
    /* Cycles, from quarters of a slot */
    CYCLES_RETIRING,            /* retiring, issuing */
    CYCLES_NOT_RETIRING,
    CYCLES_EXECUTING,           /* not bound by the backend */
    CYCLES_BACKEND,
    CYCLES_MEMORY,
    CYCLES_CORE,
    CYCLES_L1D_MISS,            /* a load that missed L1 and L2 waits */
    CYCLES_LLC_MISS,            /* and missed the last level */
    CYCLES_RECOVERY,
    CYCLES_FRONTEND_OK,
    CYCLES_FETCH_LATENCY,
    CYCLES_RESTEER,             /* parts of fetch latency: mispredicts... */
    CYCLES_UNKNOWN_BRANCH,      /* ...indirect branches... */
    CYCLES_ICACHE,              /* ...and misses of the code cache, no walks */
    CYCLES_HEAVY,
    CYCLES_DECODER_ANY,
    CYCLES_DECODER_OK,
    CYCLES_DSB_ANY,
    CYCLES_DSB_OK,
    CYCLES_DIVIDE,
    CYCLES_PAUSE,

    UOPS_DECODER,
    UOPS_DSB,
    DECODED_INSNS,
    HEAVY_SWITCHES,
    BACLEARS,

    COND_NOT_TAKEN,
    TAKEN,
    MEMORY_INSNS,

    LLC_REFS,
    LLC_MISSES,
    LLC_HITS,
    BUFFERS_FULL,               /* no buffer is free for a miss of L1 */
    L1D_HITS,
    CODE_MISSES,
    L2_REFS,

    /* Address translation: by the second level, or by a walk; cycles of it */
    DTLB_HITS,
    DTLB_WALKS,
    DTLB_CYCLES,
    ITLB_HITS,
    ITLB_WALKS,
    ITLB_CYCLES,

    MISPREDICTED,
    MISPREDICTED_COND,
    MISPREDICTED_COND_TAKEN,
    MISPREDICTED_COND_NOT_TAKEN,
    MISPREDICTED_TAKEN,
    MISPREDICTED_RET,
    MISPREDICTED_INDIRECT,
    MACHINE_CLEARS,
    CLEARS,
};

/*
 * Added to a difference of totals that are not counted at the same times, so
 * that it is not negative. A counter adds only what a formula has increased by.
 */
#define DIFFERENCE_BASE         (1ull << 60)
/* Cycles of latency of indirect branches for which BACLEARS.ANY counts one */
#define BACLEAR_CYCLES          10
/* Of eight micro-operations or instructions, from the decoder */
#define DECODER_SHARE           1
#define SHARES                  8
/* Of so many misses of L1, one finds no free buffer, for a cycle */
#define BUFFERS_SHARE           64
/* Not precise: of so many loads, one walks, and three need the second level */
#define WALK_SHARE              1024
/* Not precise: walks take 3/128 of the cycles of memory, see count.c.inc */
#define WALK_CYCLES_SHARE       128

#define ALL     UINT8_MAX
#define SKL     (1 << X86_PMU_SKYLAKE)
#define ICL     (1 << X86_PMU_ICELAKE)
#define GLC     (1 << X86_PMU_GOLDEN_COVE)
#define ICL_UP  (ICL | GLC)
#define SKL_ICL (SKL | ICL)
#define SKL_UP  (SKL | ICL | GLC)
#define NOT_GLC (ALL & ~GLC)

/* Filters that are part of an event */
#define CMASK(n)        ((n) << 8)
#define CMASK_EDGE      (CMASK(1) | PMU_FILTER_EDGE)
#define CMASK_INV(n)    (CMASK(n) | PMU_FILTER_INV)
/* At most one in a cycle, see PMU_FILTER_SINGLE */
#define SINGLE          PMU_FILTER_SINGLE

#define TOTAL(on, code, filter, name, of) \
    { name, code, filter, on, SOURCE_TOTAL, X86_COUNT_##of }
#define BRANCH(on, code, filter, name, of) \
    { name, code, filter, on, SOURCE_BRANCH, X86_COUNT_##of }
#define CATEGORY(on, code, filter, name, of) \
    { name, code, filter, on, SOURCE_CATEGORY, TOPDOWN_##of }
#define FORMULA(on, code, filter, name, of) \
    { name, code, filter, on, SOURCE_FORMULA, of }
/* The unit mask chooses the lanes, of which the last two do not exist */
#define FP(umask, name) \
    { "FP_ARITH_INST_RETIRED." name, (umask) << 8 | 0xc7, 0, SKL_UP, \
      SOURCE_FP, (umask) & 0x3f }

/* Upper byte of a code: unit mask, lower byte: event select */
static const PMUEvent pmu_events[] = {
    /* Architectural */
    TOTAL(ALL, 0x00c0, 0, "INST_RETIRED.ANY_P", INSNS),
    { "CPU_CLK_UNHALTED.THREAD_P", 0x003c, SINGLE, ALL, SOURCE_CYCLES },
    { "CPU_CLK_UNHALTED.REF_TSC_P", 0x013c, SINGLE, GLC, SOURCE_CYCLES },
    { "CPU_CLK_UNHALTED.REF_XCLK", 0x013c, SINGLE, NOT_GLC, SOURCE_CYCLES },
    BRANCH(ALL, 0x00c4, 0, "BR_INST_RETIRED.ALL_BRANCHES", BRANCHES),
    FORMULA(ALL, 0x00c5, 0, "BR_MISP_RETIRED.ALL_BRANCHES", MISPREDICTED),
    FORMULA(ALL, 0x4f2e, 0, "LONGEST_LAT_CACHE.REFERENCE", LLC_REFS),
    FORMULA(ALL, 0x412e, 0, "LONGEST_LAT_CACHE.MISS", LLC_MISSES),
    { "TOPDOWN.SLOTS_P", 0x01a4, 0, ALL, SOURCE_SLOTS },

    /* Clocks */
    { "CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", 0x023c, SINGLE, SKL_UP,
      SOURCE_CYCLES },
    { "CPU_CLK_UNHALTED.REF_DISTRIBUTED", 0x083c, SINGLE, ICL_UP,
      SOURCE_CYCLES },
    { "CPU_CLK_UNHALTED.DISTRIBUTED", 0x02ec, SINGLE, ICL_UP,
      SOURCE_CYCLES },
    FORMULA(GLC, 0x40ec, SINGLE, "CPU_CLK_UNHALTED.PAUSE", CYCLES_PAUSE),
    TOTAL(GLC, 0x40ec, CMASK_EDGE, "CPU_CLK_UNHALTED.PAUSE_INST", PAUSES),
    FORMULA(GLC, 0x70ec, SINGLE, "CPU_CLK_UNHALTED.C0_WAIT", CYCLES_PAUSE),
    TOTAL(SKL, 0x40cc, 0, "ROB_MISC_EVENTS.PAUSE_INST", PAUSES),
    TOTAL(ICL, 0x40cc, 0, "MISC_RETIRED.PAUSE_INST", PAUSES),

    /* Branches */
    BRANCH(SKL, 0x01c4, 0, "BR_INST_RETIRED.CONDITIONAL", COND),
    BRANCH(ICL_UP, 0x01c4, 0, "BR_INST_RETIRED.COND_TAKEN", COND_TAKEN),
    BRANCH(SKL_UP, 0x02c4, 0, "BR_INST_RETIRED.NEAR_CALL", CALLS),
    /* For PEBS on Skylake; Linux's branch-loads on Golden Cove */
    BRANCH(SKL | GLC, 0x04c4, 0, "BR_INST_RETIRED.ALL_BRANCHES", BRANCHES),
    BRANCH(SKL_UP, 0x08c4, 0, "BR_INST_RETIRED.NEAR_RETURN", RETS),
    FORMULA(SKL, 0x10c4, 0, "BR_INST_RETIRED.NOT_TAKEN", COND_NOT_TAKEN),
    FORMULA(ICL_UP, 0x10c4, 0, "BR_INST_RETIRED.COND_NTAKEN", COND_NOT_TAKEN),
    BRANCH(ICL_UP, 0x11c4, 0, "BR_INST_RETIRED.COND", COND),
    FORMULA(SKL_UP, 0x20c4, 0, "BR_INST_RETIRED.NEAR_TAKEN", TAKEN),
    BRANCH(SKL_UP, 0x40c4, 0, "BR_INST_RETIRED.FAR_BRANCH", FAR),
    BRANCH(ICL_UP, 0x80c4, 0, "BR_INST_RETIRED.INDIRECT", INDIRECT),
    FORMULA(SKL, 0x01c5, 0, "BR_MISP_RETIRED.CONDITIONAL", MISPREDICTED_COND),
    FORMULA(ICL_UP, 0x01c5, 0, "BR_MISP_RETIRED.COND_TAKEN",
            MISPREDICTED_COND_TAKEN),
    FORMULA(SKL | GLC, 0x04c5, 0, "BR_MISP_RETIRED.ALL_BRANCHES", MISPREDICTED),
    FORMULA(ICL_UP, 0x08c5, 0, "BR_MISP_RETIRED.RET", MISPREDICTED_RET),
    FORMULA(ICL_UP, 0x10c5, 0, "BR_MISP_RETIRED.COND_NTAKEN",
            MISPREDICTED_COND_NOT_TAKEN),
    FORMULA(ICL_UP, 0x11c5, 0, "BR_MISP_RETIRED.COND", MISPREDICTED_COND),
    FORMULA(SKL_UP, 0x20c5, 0, "BR_MISP_RETIRED.NEAR_TAKEN",
            MISPREDICTED_TAKEN),
    FORMULA(ICL_UP, 0x80c5, 0, "BR_MISP_RETIRED.INDIRECT",
            MISPREDICTED_INDIRECT),

    /* Slots */
    CATEGORY(ICL_UP, 0x02a4, 0, "TOPDOWN.BACKEND_BOUND_SLOTS", BACKEND),
    CATEGORY(GLC, 0x04a4, 0, "TOPDOWN.BAD_SPEC_SLOTS", BAD),
    CATEGORY(GLC, 0x08a4, 0, "TOPDOWN.BR_MISPREDICT_SLOTS", MISPREDICT),
    CATEGORY(GLC, 0x10a4, 0, "TOPDOWN.MEMORY_BOUND_SLOTS", MEMORY),

    /* Retiring and issuing */
    CATEGORY(SKL, 0x02c2, 0, "UOPS_RETIRED.RETIRE_SLOTS", RETIRING),
    CATEGORY(ICL_UP, 0x02c2, 0, "UOPS_RETIRED.SLOTS", RETIRING),
    FORMULA(SKL, 0x02c2, CMASK(1), "UOPS_RETIRED.RETIRE_SLOTS:c1",
            CYCLES_RETIRING),
    FORMULA(ICL, 0x02c2, CMASK(1), "UOPS_RETIRED.SLOTS:c1", CYCLES_RETIRING),
    FORMULA(GLC, 0x02c2, CMASK(1), "UOPS_RETIRED.CYCLES", CYCLES_RETIRING),
    FORMULA(SKL_UP, 0x02c2, CMASK_INV(1), "UOPS_RETIRED.STALL_CYCLES",
            CYCLES_NOT_RETIRING),
    { "UOPS_RETIRED.TOTAL_CYCLES", 0x02c2, CMASK_INV(16), SKL, SOURCE_CYCLES },
    { "UOPS_RETIRED.TOTAL_CYCLES", 0x02c2, CMASK_INV(10), ICL, SOURCE_CYCLES },
    CATEGORY(GLC, 0x01c2, 0, "UOPS_RETIRED.HEAVY", HEAVY),
    CATEGORY(GLC, 0x04c2, 0, "UOPS_RETIRED.MS", HEAVY),
    FORMULA(GLC, 0x04c2, CMASK(1), "UOPS_RETIRED.MS:c1", CYCLES_HEAVY),
    FORMULA(GLC, 0x04c2, CMASK_EDGE, "UOPS_RETIRED.MS:c1:e", HEAVY_SWITCHES),
    CATEGORY(SKL_ICL, 0x010e, 0, "UOPS_ISSUED.ANY", RETIRING),
    FORMULA(SKL_ICL, 0x010e, CMASK(1), "UOPS_ISSUED.ANY:c1", CYCLES_RETIRING),
    FORMULA(SKL_ICL, 0x010e, CMASK_INV(1), "UOPS_ISSUED.STALL_CYCLES",
            CYCLES_NOT_RETIRING),
    CATEGORY(GLC, 0x01ae, 0, "UOPS_ISSUED.ANY", RETIRING),
    FORMULA(GLC, 0x01ae, CMASK(1), "UOPS_ISSUED.CYCLES", CYCLES_RETIRING),

    /* Execution */
    CATEGORY(SKL_UP, 0x01b1, 0, "UOPS_EXECUTED.THREAD", RETIRING),
    FORMULA(ICL_UP, 0x01b1, CMASK(1), "UOPS_EXECUTED.CYCLES_GE_1",
            CYCLES_EXECUTING),
    FORMULA(ICL_UP, 0x01b1, CMASK(2), "UOPS_EXECUTED.CYCLES_GE_2",
            CYCLES_RETIRING),
    FORMULA(ICL_UP, 0x01b1, CMASK(3), "UOPS_EXECUTED.CYCLES_GE_3",
            CYCLES_RETIRING),
    FORMULA(ICL_UP, 0x01b1, CMASK(4), "UOPS_EXECUTED.CYCLES_GE_4",
            CYCLES_RETIRING),
    FORMULA(SKL, 0x01b1, CMASK(1), "UOPS_EXECUTED.CYCLES_GE_1_UOP_EXEC",
            CYCLES_EXECUTING),
    FORMULA(SKL, 0x01b1, CMASK(2), "UOPS_EXECUTED.CYCLES_GE_2_UOPS_EXEC",
            CYCLES_RETIRING),
    FORMULA(SKL, 0x01b1, CMASK(3), "UOPS_EXECUTED.CYCLES_GE_3_UOPS_EXEC",
            CYCLES_RETIRING),
    FORMULA(SKL, 0x01b1, CMASK(4), "UOPS_EXECUTED.CYCLES_GE_4_UOPS_EXEC",
            CYCLES_RETIRING),
    FORMULA(SKL_UP, 0x01b1, CMASK_INV(1), "UOPS_EXECUTED.STALL_CYCLES",
            CYCLES_BACKEND),
    CATEGORY(SKL_UP, 0x02b1, 0, "UOPS_EXECUTED.CORE", RETIRING),
    FORMULA(SKL_UP, 0x02b1, CMASK(1), "UOPS_EXECUTED.CORE_CYCLES_GE_1",
            CYCLES_EXECUTING),
    FORMULA(SKL_UP, 0x02b1, CMASK(2), "UOPS_EXECUTED.CORE_CYCLES_GE_2",
            CYCLES_RETIRING),
    FORMULA(SKL_UP, 0x02b1, CMASK(3), "UOPS_EXECUTED.CORE_CYCLES_GE_3",
            CYCLES_RETIRING),
    FORMULA(SKL_UP, 0x02b1, CMASK(4), "UOPS_EXECUTED.CORE_CYCLES_GE_4",
            CYCLES_RETIRING),
    TOTAL(ICL, 0x04a1, 0, "UOPS_DISPATCHED.PORT_2_3", LOADS),
    TOTAL(ICL, 0x10a1, 0, "UOPS_DISPATCHED.PORT_4_9", STORES),
    TOTAL(ICL, 0x80a1, 0, "UOPS_DISPATCHED.PORT_7_8", STORES),
    TOTAL(GLC, 0x04b2, 0, "UOPS_DISPATCHED.PORT_2_3_10", LOADS),
    TOTAL(GLC, 0x10b2, 0, "UOPS_DISPATCHED.PORT_4_9", STORES),
    TOTAL(GLC, 0x80b2, 0, "UOPS_DISPATCHED.PORT_7_8", STORES),
    FORMULA(SKL, 0x0114, CMASK(1), "ARITH.DIVIDER_ACTIVE", CYCLES_DIVIDE),
    FORMULA(ICL, 0x0914, CMASK(1), "ARITH.DIVIDER_ACTIVE", CYCLES_DIVIDE),
    FORMULA(GLC, 0x09b0, CMASK(1), "ARITH.DIV_ACTIVE", CYCLES_DIVIDE),

    /* Stalls */
    FORMULA(SKL_UP, 0x01a3, CMASK(1), "CYCLE_ACTIVITY.CYCLES_L2_MISS",
            CYCLES_L1D_MISS),
    FORMULA(SKL, 0x02a3, CMASK(2), "CYCLE_ACTIVITY.CYCLES_L3_MISS",
            CYCLES_LLC_MISS),
    FORMULA(SKL_UP, 0x04a3, CMASK(4), "CYCLE_ACTIVITY.STALLS_TOTAL",
            CYCLES_BACKEND),
    FORMULA(SKL_UP, 0x05a3, CMASK(5), "CYCLE_ACTIVITY.STALLS_L2_MISS",
            CYCLES_L1D_MISS),
    FORMULA(SKL_UP, 0x06a3, CMASK(6), "CYCLE_ACTIVITY.STALLS_L3_MISS",
            CYCLES_LLC_MISS),
    FORMULA(SKL_UP, 0x08a3, CMASK(8), "CYCLE_ACTIVITY.CYCLES_L1D_MISS",
            CYCLES_L1D_MISS),
    FORMULA(SKL_UP, 0x0ca3, CMASK(12), "CYCLE_ACTIVITY.STALLS_L1D_MISS",
            CYCLES_L1D_MISS),
    FORMULA(SKL_UP, 0x10a3, CMASK(16), "CYCLE_ACTIVITY.CYCLES_MEM_ANY",
            CYCLES_MEMORY),
    FORMULA(SKL_ICL, 0x14a3, CMASK(20), "CYCLE_ACTIVITY.STALLS_MEM_ANY",
            CYCLES_MEMORY),
    FORMULA(GLC, 0x0247, CMASK(2), "MEMORY_ACTIVITY.CYCLES_L1D_MISS",
            CYCLES_L1D_MISS),
    FORMULA(GLC, 0x0347, CMASK(3), "MEMORY_ACTIVITY.STALLS_L1D_MISS",
            CYCLES_L1D_MISS),
    FORMULA(GLC, 0x0547, CMASK(5), "MEMORY_ACTIVITY.STALLS_L2_MISS",
            CYCLES_L1D_MISS),
    FORMULA(GLC, 0x0947, CMASK(9), "MEMORY_ACTIVITY.STALLS_L3_MISS",
            CYCLES_LLC_MISS),
    FORMULA(SKL, 0x01a6, SINGLE, "EXE_ACTIVITY.EXE_BOUND_0_PORTS",
            CYCLES_CORE),
    /* On Icelake, perf uses this without a name */
    FORMULA(ICL_UP, 0x80a6, SINGLE, "EXE_ACTIVITY.EXE_BOUND_0_PORTS",
            CYCLES_CORE),
    FORMULA(GLC, 0x21a6, CMASK(5), "EXE_ACTIVITY.BOUND_ON_LOADS",
            CYCLES_MEMORY),

    /* Bad speculation */
    FORMULA(SKL_UP, 0x01c3, CMASK_EDGE, "MACHINE_CLEARS.COUNT",
            MACHINE_CLEARS),
    FORMULA(SKL_ICL, 0x010d, SINGLE, "INT_MISC.RECOVERY_CYCLES",
            CYCLES_RECOVERY),
    FORMULA(ICL, 0x030d, CMASK(1), "INT_MISC.ALL_RECOVERY_CYCLES",
            CYCLES_RECOVERY),
    FORMULA(SKL_ICL, 0x010d, CMASK_EDGE, "INT_MISC.CLEARS_COUNT", CLEARS),
    FORMULA(SKL_ICL, 0x800d, SINGLE, "INT_MISC.CLEAR_RESTEER_CYCLES",
            CYCLES_RESTEER),
    FORMULA(GLC, 0x01ad, SINGLE, "INT_MISC.RECOVERY_CYCLES", CYCLES_RECOVERY),
    FORMULA(GLC, 0x01ad, CMASK_EDGE, "INT_MISC.CLEARS_COUNT", CLEARS),
    FORMULA(GLC, 0x40ad, SINGLE, "INT_MISC.UNKNOWN_BRANCH_CYCLES",
            CYCLES_UNKNOWN_BRANCH),
    FORMULA(GLC, 0x40ad, CMASK_EDGE, "INT_MISC.UNKNOWN_BRANCH_CYCLES:c1:e",
            BACLEARS),
    FORMULA(GLC, 0x80ad, SINGLE, "INT_MISC.CLEAR_RESTEER_CYCLES",
            CYCLES_RESTEER),

    /* Frontend */
    CATEGORY(SKL_UP, 0x019c, 0, "IDQ_UOPS_NOT_DELIVERED.CORE", FRONTEND),
    FORMULA(SKL, 0x019c, CMASK(4),
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE",
            CYCLES_FETCH_LATENCY),
    FORMULA(ICL, 0x019c, CMASK(5),
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE",
            CYCLES_FETCH_LATENCY),
    FORMULA(GLC, 0x019c, CMASK(6),
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE",
            CYCLES_FETCH_LATENCY),
    FORMULA(SKL_UP, 0x019c, CMASK_INV(1),
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_FE_WAS_OK", CYCLES_FRONTEND_OK),
    FORMULA(SKL_UP, 0x0479, 0, "IDQ.MITE_UOPS", UOPS_DECODER),
    FORMULA(SKL, 0x0479, CMASK(1), "IDQ.MITE_CYCLES", CYCLES_DECODER_ANY),
    FORMULA(SKL, 0x2479, CMASK(1), "IDQ.ALL_MITE_CYCLES_ANY_UOPS",
            CYCLES_DECODER_ANY),
    FORMULA(SKL, 0x2479, CMASK(4), "IDQ.ALL_MITE_CYCLES_4_UOPS",
            CYCLES_DECODER_OK),
    FORMULA(ICL_UP, 0x0479, CMASK(1), "IDQ.MITE_CYCLES_ANY",
            CYCLES_DECODER_ANY),
    FORMULA(SKL_ICL, 0x0479, CMASK(4), "IDQ.MITE_UOPS:c4", CYCLES_DECODER_OK),
    FORMULA(ICL, 0x0479, CMASK(5), "IDQ.MITE_CYCLES_OK", CYCLES_DECODER_OK),
    FORMULA(GLC, 0x0479, CMASK(6), "IDQ.MITE_CYCLES_OK", CYCLES_DECODER_OK),
    FORMULA(SKL_UP, 0x0879, 0, "IDQ.DSB_UOPS", UOPS_DSB),
    FORMULA(SKL, 0x0879, CMASK(1), "IDQ.DSB_CYCLES", CYCLES_DSB_ANY),
    FORMULA(SKL, 0x1879, CMASK(1), "IDQ.DSB_CYCLES_ANY", CYCLES_DSB_ANY),
    FORMULA(SKL, 0x1879, CMASK(4), "IDQ.DSB_CYCLES_OK", CYCLES_DSB_OK),
    FORMULA(ICL_UP, 0x0879, CMASK(1), "IDQ.DSB_CYCLES_ANY", CYCLES_DSB_ANY),
    FORMULA(SKL, 0x0879, CMASK(4), "IDQ.DSB_UOPS:c4", CYCLES_DSB_OK),
    FORMULA(ICL, 0x0879, CMASK(5), "IDQ.DSB_CYCLES_OK", CYCLES_DSB_OK),
    FORMULA(GLC, 0x0879, CMASK(6), "IDQ.DSB_CYCLES_OK", CYCLES_DSB_OK),
    CATEGORY(SKL_ICL, 0x3079, 0, "IDQ.MS_UOPS", HEAVY),
    FORMULA(SKL_ICL, 0x3079, CMASK_EDGE, "IDQ.MS_SWITCHES", HEAVY_SWITCHES),
    CATEGORY(GLC, 0x2079, 0, "IDQ.MS_UOPS", HEAVY),
    FORMULA(GLC, 0x2079, CMASK(1), "IDQ.MS_CYCLES_ANY", CYCLES_HEAVY),
    FORMULA(GLC, 0x2079, CMASK_EDGE, "IDQ.MS_SWITCHES", HEAVY_SWITCHES),
    FORMULA(ICL, 0x0155, 0, "INST_DECODED.DECODERS", DECODED_INSNS),
    FORMULA(ICL, 0x0155, CMASK(1), "INST_DECODED.DECODERS:c1",
            CYCLES_DECODER_OK),
    FORMULA(ICL, 0x0155, CMASK(2), "INST_DECODED.DECODERS:c2",
            CYCLES_DECODER_OK),
    FORMULA(GLC, 0x0175, 0, "INST_DECODED.DECODERS", DECODED_INSNS),
    FORMULA(GLC, 0x0175, CMASK(1), "INST_DECODED.DECODERS:c1",
            CYCLES_DECODER_OK),
    FORMULA(GLC, 0x0175, CMASK(2), "INST_DECODED.DECODERS:c2",
            CYCLES_DECODER_OK),
    FORMULA(SKL_ICL, 0x0480, SINGLE, "ICACHE_16B.IFDATA_STALL", CYCLES_ICACHE),
    FORMULA(SKL_ICL, 0x0480, CMASK_EDGE, "ICACHE_16B.IFDATA_STALL:c1:e",
            CODE_MISSES),
    FORMULA(GLC, 0x0480, SINGLE, "ICACHE_DATA.STALLS", CYCLES_ICACHE),
    FORMULA(GLC, 0x0480, CMASK_EDGE, "ICACHE_DATA.STALL_PERIODS", CODE_MISSES),
    FORMULA(SKL_ICL, 0x0283, 0, "ICACHE_64B.IFTAG_MISS", CODE_MISSES),
    FORMULA(SKL_ICL, 0x01e6, 0, "BACLEARS.ANY", BACLEARS),
    FORMULA(GLC, 0x0160, 0, "BACLEARS.ANY", BACLEARS),

    /* Address translation */
    FORMULA(SKL, 0x0108, 0, "DTLB_LOAD_MISSES.MISS_CAUSES_A_WALK", DTLB_WALKS),
    FORMULA(SKL_ICL, 0x0208, 0, "DTLB_LOAD_MISSES.WALK_COMPLETED_4K",
            DTLB_WALKS),
    FORMULA(SKL_ICL, 0x0e08, 0, "DTLB_LOAD_MISSES.WALK_COMPLETED", DTLB_WALKS),
    FORMULA(SKL_ICL, 0x1008, SINGLE, "DTLB_LOAD_MISSES.WALK_PENDING",
            DTLB_CYCLES),
    FORMULA(SKL_ICL, 0x2008, SINGLE, "DTLB_LOAD_MISSES.STLB_HIT", DTLB_HITS),
    FORMULA(GLC, 0x0212, 0, "DTLB_LOAD_MISSES.WALK_COMPLETED_4K", DTLB_WALKS),
    FORMULA(GLC, 0x0e12, 0, "DTLB_LOAD_MISSES.WALK_COMPLETED", DTLB_WALKS),
    FORMULA(GLC, 0x1012, SINGLE, "DTLB_LOAD_MISSES.WALK_PENDING", DTLB_CYCLES),
    FORMULA(GLC, 0x2012, SINGLE, "DTLB_LOAD_MISSES.STLB_HIT", DTLB_HITS),
    FORMULA(SKL, 0x0185, 0, "ITLB_MISSES.MISS_CAUSES_A_WALK", ITLB_WALKS),
    FORMULA(SKL_ICL, 0x0285, 0, "ITLB_MISSES.WALK_COMPLETED_4K", ITLB_WALKS),
    FORMULA(SKL_ICL, 0x0e85, 0, "ITLB_MISSES.WALK_COMPLETED", ITLB_WALKS),
    FORMULA(SKL_ICL, 0x1085, SINGLE, "ITLB_MISSES.WALK_PENDING", ITLB_CYCLES),
    FORMULA(SKL_ICL, 0x2085, SINGLE, "ITLB_MISSES.STLB_HIT", ITLB_HITS),
    FORMULA(GLC, 0x0211, 0, "ITLB_MISSES.WALK_COMPLETED_4K", ITLB_WALKS),
    FORMULA(GLC, 0x0e11, 0, "ITLB_MISSES.WALK_COMPLETED", ITLB_WALKS),
    FORMULA(GLC, 0x1011, SINGLE, "ITLB_MISSES.WALK_PENDING", ITLB_CYCLES),
    FORMULA(GLC, 0x2011, SINGLE, "ITLB_MISSES.STLB_HIT", ITLB_HITS),
    FORMULA(SKL_UP, 0x11d0, 0, "MEM_INST_RETIRED.STLB_MISS_LOADS", DTLB_WALKS),
    FORMULA(SKL_ICL, 0x0483, SINGLE, "ICACHE_64B.IFTAG_STALL", ITLB_CYCLES),
    FORMULA(GLC, 0x0483, SINGLE, "ICACHE_TAG.STALLS", ITLB_CYCLES),

    /* Floating point */
    FP(0x01, "SCALAR_DOUBLE"),
    FP(0x02, "SCALAR_SINGLE"),
    FP(0x03, "SCALAR"),
    FP(0x04, "128B_PACKED_DOUBLE"),
    FP(0x08, "128B_PACKED_SINGLE"),
    FP(0x10, "256B_PACKED_DOUBLE"),
    FP(0x18, "4_FLOPS"),
    FP(0x20, "256B_PACKED_SINGLE"),
    FP(0x40, "512B_PACKED_DOUBLE"),
    FP(0x60, "8_FLOPS"),
    FP(0x80, "512B_PACKED_SINGLE"),
    FP(0xfc, "VECTOR"),

    /* Loads, stores, and caches */
    TOTAL(SKL_UP, 0x81d0, 0, "MEM_INST_RETIRED.ALL_LOADS", LOADS),
    TOTAL(SKL_UP, 0x82d0, 0, "MEM_INST_RETIRED.ALL_STORES", STORES),
    FORMULA(SKL_UP, 0x83d0, 0, "MEM_INST_RETIRED.ANY", MEMORY_INSNS),
    FORMULA(GLC, 0x03e5, 0, "MEM_UOP_RETIRED.ANY", MEMORY_INSNS),
    FORMULA(SKL_UP, 0x01d1, 0, "MEM_LOAD_RETIRED.L1_HIT", L1D_HITS),
    FORMULA(SKL_UP, 0x04d1, 0, "MEM_LOAD_RETIRED.L3_HIT", LLC_HITS),
    FORMULA(SKL_UP, 0x08d1, 0, "MEM_LOAD_RETIRED.L1_MISS", LLC_REFS),
    FORMULA(SKL_UP, 0x10d1, 0, "MEM_LOAD_RETIRED.L2_MISS", LLC_REFS),
    FORMULA(SKL_UP, 0x20d1, 0, "MEM_LOAD_RETIRED.L3_MISS", LLC_MISSES),
    FORMULA(SKL_UP, 0x08d2, 0, "MEM_LOAD_L3_HIT_RETIRED.XSNP_NONE", LLC_HITS),
    FORMULA(SKL_UP, 0x01d3, 0, "MEM_LOAD_L3_MISS_RETIRED.LOCAL_DRAM",
            LLC_MISSES),
    FORMULA(GLC, 0xfd43, 0, "MEM_LOAD_COMPLETED.L1_MISS_ANY", LLC_REFS),
    FORMULA(SKL_UP, 0x0151, 0, "L1D.REPLACEMENT", LLC_REFS),
    FORMULA(SKL_UP, 0x0148, SINGLE, "L1D_PEND_MISS.PENDING", CYCLES_L1D_MISS),
    FORMULA(SKL_UP, 0x0248, SINGLE, "L1D_PEND_MISS.FB_FULL", BUFFERS_FULL),
    FORMULA(SKL, 0x0248, CMASK_EDGE, "L1D_PEND_MISS.FB_FULL:c1:e",
            BUFFERS_FULL),
    FORMULA(ICL_UP, 0x0248, CMASK_EDGE, "L1D_PEND_MISS.FB_FULL_PERIODS",
            BUFFERS_FULL),
    FORMULA(SKL_UP, 0x2124, 0, "L2_RQSTS.DEMAND_DATA_RD_MISS", LLC_REFS),
    FORMULA(SKL_UP, 0x2724, 0, "L2_RQSTS.ALL_DEMAND_MISS", LLC_REFS),
    FORMULA(SKL_UP, 0x3f24, 0, "L2_RQSTS.MISS", LLC_REFS),
    FORMULA(SKL_UP, 0xc424, 0, "L2_RQSTS.CODE_RD_HIT", CODE_MISSES),
    FORMULA(SKL_UP, 0xe124, 0, "L2_RQSTS.ALL_DEMAND_DATA_RD", LLC_REFS),
    FORMULA(SKL_UP, 0xe424, 0, "L2_RQSTS.ALL_CODE_RD", CODE_MISSES),
    FORMULA(SKL_UP, 0xe724, 0, "L2_RQSTS.ALL_DEMAND_REFERENCES", L2_REFS),
    FORMULA(SKL_UP, 0xff24, 0, "L2_RQSTS.REFERENCES", L2_REFS),
    FORMULA(SKL_ICL, 0x1ff1, 0, "L2_LINES_IN.ALL", LLC_REFS),
    FORMULA(GLC, 0x1f25, 0, "L2_LINES_IN.ALL", LLC_REFS),
    FORMULA(SKL_ICL, 0x01b0, 0, "OFFCORE_REQUESTS.DEMAND_DATA_RD", LLC_REFS),
    FORMULA(SKL_ICL, 0x08b0, 0, "OFFCORE_REQUESTS.ALL_DATA_RD", LLC_REFS),
    FORMULA(SKL_ICL, 0x10b0, 0, "OFFCORE_REQUESTS.L3_MISS_DEMAND_DATA_RD",
            LLC_MISSES),
    FORMULA(SKL_ICL, 0x80b0, 0, "OFFCORE_REQUESTS.ALL_REQUESTS", LLC_REFS),
    FORMULA(GLC, 0x0121, 0, "OFFCORE_REQUESTS.DEMAND_DATA_RD", LLC_REFS),
    FORMULA(GLC, 0x0821, 0, "OFFCORE_REQUESTS.DATA_RD", LLC_REFS),
    FORMULA(GLC, 0x1021, 0, "OFFCORE_REQUESTS.L3_MISS_DEMAND_DATA_RD",
            LLC_MISSES),
    FORMULA(GLC, 0x8021, 0, "OFFCORE_REQUESTS.ALL_REQUESTS", LLC_REFS),
    FORMULA(SKL_ICL, 0x0160, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.DEMAND_DATA_RD", CYCLES_L1D_MISS),
    FORMULA(SKL_ICL, 0x0860, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.ALL_DATA_RD", CYCLES_L1D_MISS),
    FORMULA(SKL_ICL, 0x1060, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.L3_MISS_DEMAND_DATA_RD",
            CYCLES_LLC_MISS),
    FORMULA(GLC, 0x0120, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.DEMAND_DATA_RD", CYCLES_L1D_MISS),
    FORMULA(GLC, 0x0820, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.DATA_RD", CYCLES_L1D_MISS),
    FORMULA(GLC, 0x1020, SINGLE,
            "OFFCORE_REQUESTS_OUTSTANDING.L3_MISS_DEMAND_DATA_RD",
            CYCLES_LLC_MISS),
};

static const PMUEvent core_cycles = {
    "CPU_CLK_UNHALTED.THREAD", 0x003c, 0, ALL, SOURCE_CYCLES
};
const PMUEvent *const x86_pmu_cycles = &core_cycles;

/* The first two are general events, too; the other codes are made up. */
const PMUEvent *x86_pmu_fixed_event(unsigned index)
{
    static const PMUEvent events[PMU_FIXED] = {
        TOTAL(ALL, 0x00c0, 0, "INST_RETIRED.ANY", INSNS),
        { "CPU_CLK_UNHALTED.THREAD", 0x003c, 0, ALL, SOURCE_CYCLES },
        { "CPU_CLK_UNHALTED.REF_TSC", 0x0300, 0, ALL, SOURCE_CYCLES },
        { "TOPDOWN.SLOTS", 0x0400, 0, ALL, SOURCE_SLOTS },
    };

    return &events[index];
}

/* The events that OFFCORE_RSP_0 and 1 belong to */
static const uint16_t offcore_codes[X86_PMU_ARCHES][2] = {
    [X86_PMU_SKYLAKE] = { 0x01b7, 0x01bb },
    [X86_PMU_ICELAKE] = { 0x01b7, 0x01bb },
    [X86_PMU_GOLDEN_COVE] = { 0x012a, 0x012b },
};

bool x86_pmu_is_offcore(X86CPU *cpu, uint16_t code)
{
    const uint16_t *codes = offcore_codes[cpu->pmu->arch];

    return code && (code == codes[0] || code == codes[1]);
}

/*
 * Requests that leave the core: a register chooses what is counted. The model
 * has reads of data by loads, which the last level cache or local memory
 * answers; no other core is asked.
 */
static const PMUEvent *x86_pmu_find_offcore(X86CPU *cpu, uint16_t code)
{
    enum {
        OCR_DATA_RD     = 1 << 0,
        OCR_ANY         = 1 << 16,
        OCR_L3_HIT      = 0xf << 18,
        OCR_LOCAL_DRAM  = 1 << 26,
    };
    static const PMUEvent ocr_any =
        FORMULA(SKL_UP, 0, 0, "OCR.DEMAND_DATA_RD.ANY_RESPONSE", LLC_REFS);
    static const PMUEvent ocr_hit =
        FORMULA(SKL_UP, 0, 0, "OCR.DEMAND_DATA_RD.L3_HIT", LLC_HITS);
    static const PMUEvent ocr_miss =
        FORMULA(SKL_UP, 0, 0, "OCR.DEMAND_DATA_RD.L3_MISS", LLC_MISSES);
    const uint64_t snoop_not_needed = BIT_ULL(32);
    uint64_t rsp;

    if (!x86_pmu_is_offcore(cpu, code)) {
        return NULL;
    }
    rsp = cpu->pmu->extra[code == offcore_codes[cpu->pmu->arch][0] ?
                          PMU_OFFCORE_RSP_0 : PMU_OFFCORE_RSP_1];
    if (!(rsp & OCR_DATA_RD)) {
        return NULL;
    }
    if (rsp & OCR_ANY) {
        return &ocr_any;
    }
    if (!(rsp & snoop_not_needed)) {
        return NULL;
    }
    if (rsp & OCR_L3_HIT) {
        return rsp & OCR_LOCAL_DRAM ? &ocr_any : &ocr_hit;
    }
    return rsp & OCR_LOCAL_DRAM ? &ocr_miss : NULL;
}

static const PMUEvent *x86_pmu_find_row(X86CPU *cpu, uint16_t code,
                                        uint32_t filter)
{
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(pmu_events); i++) {
        const PMUEvent *e = &pmu_events[i];

        if (e->code == code && e->filter == filter &&
            (e->archs & 1 << cpu->pmu->arch)) {
            return e;
        }
    }
    return NULL;
}

bool x86_pmu_event_is_zero(X86CPU *cpu, const PMUEvent *e)
{
    X86PMUModel model = cpu->pmu->model;

    if (e->source != SOURCE_FORMULA) {
        /* TCG has no AVX-512, so that its events have no lanes */
        return e->source == SOURCE_NONE ||
               (e->source == SOURCE_FP && !e->index);
    }
    switch (e->index) {
    case ITLB_HITS:
    case ITLB_WALKS:
    case ITLB_CYCLES:
    case CYCLES_RESTEER:
    case MISPREDICTED_RET:
    case MISPREDICTED_INDIRECT:
        return model != X86_PMU_PRECISE;
    case CYCLES_ICACHE:
    case CODE_MISSES:
        return model == X86_PMU_STATIC;
    case CYCLES_DIVIDE:
    case CYCLES_PAUSE:
    case CYCLES_UNKNOWN_BRANCH:
    case BACLEARS:
        return model == X86_PMU_PINNED;
    default:
        return false;
    }
}

/* How often an event can come in a cycle: some are parts of others */
static unsigned x86_pmu_event_most(X86CPU *cpu, const PMUEvent *e)
{
    bool most = false;

    if (e->filter & SINGLE) {
        return 1;
    }
    switch (e->source) {
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
    case SOURCE_BRANCH:
        most = true;
        break;
    case SOURCE_TOTAL:
        most = e->index == X86_COUNT_INSNS || e->index == X86_COUNT_LOADS ||
               e->index == X86_COUNT_STORES;
        break;
    case SOURCE_FORMULA:
        most = (e->index >= UOPS_DECODER && e->index <= DECODED_INSNS) ||
               (e->index >= COND_NOT_TAKEN && e->index <= MEMORY_INSNS) ||
               (e->index >= MISPREDICTED &&
                e->index <= MISPREDICTED_INDIRECT);
        break;
    default:
        break;
    }
    return most ? cpu->pmu->width : UINT_MAX;
}

void x86_pmu_find_event(X86CPU *cpu, PMUConfig *c)
{
    static const PMUEvent none = { };
    const PMUEvent *e = NULL;
    unsigned most;

    if (c->cmask || c->edge) {
        e = x86_pmu_find_row(cpu, c->code,
                             CMASK(c->cmask) |
                             (c->cmask && c->inv ? PMU_FILTER_INV : 0) |
                             (c->edge ? PMU_FILTER_EDGE : 0));
    }
    if (e) {
        /* The filter is part of the event. */
        c->cmask = 0;
        c->edge = c->inv = false;
        c->event = e;
        return;
    }
    if (c->cmask && c->inv && !c->edge) {
        e = x86_pmu_find_row(cpu, c->code, CMASK(c->cmask));
        if (e) {
            /* The cycles that are not those of that event */
            c->cmask = 1;
            c->event = e;
            return;
        }
    }
    e = x86_pmu_find_row(cpu, c->code, SINGLE);
    if (!e) {
        e = x86_pmu_find_row(cpu, c->code, 0);
    }
    if (!e) {
        e = x86_pmu_find_offcore(cpu, c->code);
    }
    if (!e) {
        e = &none;
    }
    most = x86_pmu_event_most(cpu, e);
    if (c->cmask > most || (most == 1 && !c->edge && !c->inv)) {
        if (c->cmask > most) {      /* in no cycle, and none begins or ends */
            e = c->inv && !c->edge ? x86_pmu_cycles : &none;
        }
        c->cmask = 0;
        c->edge = c->inv = false;
    }
    c->event = e;
    if (c->cmask && e->source == SOURCE_CATEGORY) {
        /* All slots of a cycle are of one category */
        c->cmask = cpu->pmu->width;
    }
    if (c->edge && (c->cmask && c->inv ? x86_pmu_event_is_zero(cpu, c->event)
                                       : c->event->source == SOURCE_CYCLES ||
                                         c->event->source == SOURCE_SLOTS)) {
        /* What is true in every cycle begins in none. */
        c->cmask = 0;
        c->edge = c->inv = false;
        c->event = &none;
    }
}

unsigned x86_pmu_event_lanes(X86CPU *cpu, const PMUEvent *e)
{
    switch (e->source) {
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return 1 << e->index;
    case SOURCE_FP:
        return e->index * (1u << X86_COUNT_FP_SCALAR_DOUBLE);
    case SOURCE_CATEGORY:
        return x86_topdown_lanes(cpu);
    case SOURCE_FORMULA:
        break;
    default:
        return 0;
    }
    switch (e->index) {
    case COND_NOT_TAKEN:
        return 1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case TAKEN:
        return 1 << X86_COUNT_BRANCHES | 1 << X86_COUNT_FAR |
               1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case MEMORY_INSNS:
        return 1 << X86_COUNT_LOADS | 1 << X86_COUNT_STORES;
    case DECODED_INSNS:
        return 1 << X86_COUNT_INSNS;
    case LLC_REFS:
    case LLC_MISSES:
    case LLC_HITS:
    case BUFFERS_FULL:
    case DTLB_HITS:
    case DTLB_WALKS:
        return cpu->pmu_precise ? 0 : 1 << X86_COUNT_LOADS;
    case ITLB_HITS:
    case ITLB_WALKS:
    case ITLB_CYCLES:
        return 0;
    case L1D_HITS:
        return 1 << X86_COUNT_LOADS;
    case L2_REFS:
        return x86_topdown_lanes(cpu) | 1 << X86_COUNT_LOADS;
    case CYCLES_DIVIDE:
        return 1 << X86_COUNT_DIVIDES;
    case CYCLES_PAUSE:
        return 1 << X86_COUNT_PAUSES;
    case MISPREDICTED_COND_TAKEN:
    case MISPREDICTED_COND_NOT_TAKEN:
    case MISPREDICTED_TAKEN:
        return 1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    default:
        /* What the categories consist of */
        return x86_topdown_lanes(cpu);
    }
}

unsigned x86_pmu_words_of_lanes(unsigned lanes)
{
    unsigned words = INSN_COUNT_UNITS;
    unsigned i;

    for (i = 0; i < X86_COUNT_LANES; i++) {
        if (lanes & (1 << i)) {
            words |= INSN_COUNT_WORD(x86_insn_count_ops.lane[i].word);
        }
    }
    return words;
}

unsigned x86_pmu_event_parts(X86CPU *cpu, const PMUEvent *e)
{
    X86PMUModel model = cpu->pmu->model;
    unsigned cycle = 4 * cpu->pmu->width;

    switch (e->source) {
    case SOURCE_CYCLES:
        return cycle;
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
        return 4;
    case SOURCE_FORMULA:
        break;
    default:
        return 1;
    }
    switch (e->index) {
    case CYCLES_RETIRING ... CYCLES_BACKEND:
    case CYCLES_MEMORY:
    case CYCLES_CORE:
    case CYCLES_RECOVERY ... CYCLES_UNKNOWN_BRANCH:
    case CYCLES_ICACHE:
    case CYCLES_HEAVY:
    case CYCLES_DIVIDE:
    case CYCLES_PAUSE:
        return cycle;
    case CYCLES_L1D_MISS:
    case CYCLES_LLC_MISS:
        return model == X86_PMU_PRECISE ? 1 : 4 * cycle;
    case CYCLES_DECODER_ANY ... CYCLES_DSB_OK:
        return SHARES * cycle;
    case UOPS_DECODER:
    case UOPS_DSB:
        return 4 * SHARES;
    case DECODED_INSNS:
        return SHARES;
    case HEAVY_SWITCHES:
        return X86_PRICE_HEAVY;
    case BACLEARS:
        return BACLEAR_CYCLES * cycle;
    case CODE_MISSES:
        return X86_PRICE_L1_MISS * cycle;
    case LLC_REFS:
    case LLC_MISSES:
    case LLC_HITS:
    case L1D_HITS:
        return model == X86_PMU_PRECISE ? 1 : 64;
    case BUFFERS_FULL:
        return model == X86_PMU_PRECISE ? BUFFERS_SHARE : 64 * BUFFERS_SHARE;
    case L2_REFS:
        return model == X86_PMU_PRECISE ? 1 :
               64 * X86_PRICE_L1_MISS * cycle;
    case DTLB_HITS:
    case DTLB_WALKS:
        return model == X86_PMU_PRECISE ? 1 : WALK_SHARE;
    case DTLB_CYCLES:
        return model == X86_PMU_PRECISE ? 1 : WALK_CYCLES_SHARE * cycle;
    case MISPREDICTED:
    case MISPREDICTED_COND:
    case MISPREDICTED_COND_TAKEN:
    case MISPREDICTED_COND_NOT_TAKEN:
    case MISPREDICTED_TAKEN:
        if (model == X86_PMU_STATIC) {
            return 64;
        }
        if (model == X86_PMU_PRECISE) {
            return 1;
        }
        return X86_PRICE_MISPREDICT * cycle *
               (e->index == MISPREDICTED || e->index == MISPREDICTED_COND ?
                1 : 2);
    case MACHINE_CLEARS:
        return X86_PRICE_CLEAR * cycle;
    case CLEARS:
        return X86_PRICE_CLEAR * cycle * (model == X86_PMU_STATIC ? 64 : 1);
    default:
        return 1;
    }
}

/*
 * Mispredicted branches. Static: a share of the conditional ones; pinned: as
 * many as their slots pay for, half of them taken; precise: each one is known.
 */
static uint64_t x86_pmu_mispredicted(X86CPU *cpu, unsigned formula,
                                     unsigned domain, const uint64_t *total,
                                     const uint64_t *part)
{
    const uint64_t *missed = cpu->pmu->missed[domain];
    uint64_t cond = total[X86_COUNT_COND], taken = total[X86_COUNT_COND_TAKEN];

    if (cpu->pmu->model == X86_PMU_STATIC) {
        switch (formula) {
        case MISPREDICTED:
        case MISPREDICTED_COND:
            return cond;
        case MISPREDICTED_COND_TAKEN:
        case MISPREDICTED_TAKEN:
            return taken;
        case MISPREDICTED_COND_NOT_TAKEN:
            return DIFFERENCE_BASE + cond - taken;
        default:
            return 0;
        }
    }
    if (cpu->pmu->model == X86_PMU_PINNED) {
        return formula == MISPREDICTED_RET ||
               formula == MISPREDICTED_INDIRECT ? 0 : part[TOPDOWN_MISPREDICT];
    }
    switch (formula) {
    case MISPREDICTED:
        return missed[PMU_MISSED_TAKEN] + missed[PMU_MISSED_NOT_TAKEN] +
               missed[PMU_MISSED_RET] + missed[PMU_MISSED_INDIRECT];
    case MISPREDICTED_COND:
        return missed[PMU_MISSED_TAKEN] + missed[PMU_MISSED_NOT_TAKEN];
    case MISPREDICTED_COND_TAKEN:
        return missed[PMU_MISSED_TAKEN];
    case MISPREDICTED_COND_NOT_TAKEN:
        return missed[PMU_MISSED_NOT_TAKEN];
    case MISPREDICTED_TAKEN:
        return missed[PMU_MISSED_TAKEN] + missed[PMU_MISSED_RET] +
               missed[PMU_MISSED_INDIRECT];
    case MISPREDICTED_RET:
        return missed[PMU_MISSED_RET];
    default:
        return missed[PMU_MISSED_INDIRECT];
    }
}

/*
 * Retiring slots of cycles in which bandwidth does not limit. Of a pinned mix
 * there may be none, so they start at 0 with each mix: a lack of them now is no
 * debt of the next mix.
 */
static uint64_t x86_pmu_full_width(const uint64_t *part,
                                   const uint64_t *mix_start)
{
    uint64_t now[TOPDOWN_CATEGORIES], bandwidth;
    unsigned i;

    for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
        now[i] = part[i] - mix_start[i];
    }
    bandwidth = now[TOPDOWN_FRONTEND] - now[TOPDOWN_FETCH_LAT];
    return now[TOPDOWN_RETIRING] - MIN(now[TOPDOWN_RETIRING], bandwidth);
}

static uint64_t x86_pmu_formula(X86CPU *cpu, unsigned formula, unsigned domain,
                                const uint64_t *total)
{
    X86PMUModel model = cpu->pmu->model;
    bool precise = model == X86_PMU_PRECISE;
    uint64_t slots = total[X86_COUNT_SLOTS], loads = total[X86_COUNT_LOADS];
    uint64_t refs = precise ? total[X86_COUNT_LLC_REF] : 5 * loads;
    uint64_t misses = precise ? total[X86_COUNT_LLC_MISS] : loads;
    uint64_t part[TOPDOWN_CATEGORIES], resteer, unknown, icache, bandwidth;
    unsigned cycle = 4 * cpu->pmu->width;

    /* Those that do not look at categories */
    switch (formula) {
    case COND_NOT_TAKEN:
        return DIFFERENCE_BASE + total[X86_COUNT_COND] -
               total[X86_COUNT_COND_TAKEN];
    case TAKEN:
        return DIFFERENCE_BASE + total[X86_COUNT_BRANCHES] -
               total[X86_COUNT_FAR] - total[X86_COUNT_COND] +
               total[X86_COUNT_COND_TAKEN];
    case MEMORY_INSNS:
        return loads + total[X86_COUNT_STORES];
    case DECODED_INSNS:
        return total[X86_COUNT_INSNS] * DECODER_SHARE;
    /* Whatever is divided, a pinned mix may have no core-bound cycles. */
    case CYCLES_DIVIDE:
        return model == X86_PMU_PINNED ? 0 :
               total[X86_COUNT_DIVIDES] * X86_PRICE_DIVIDE * cycle;
    case CYCLES_PAUSE:
        return model == X86_PMU_PINNED ? 0 :
               total[X86_COUNT_PAUSES] * X86_PRICE_PAUSE * cycle;
    case LLC_REFS:
    case BUFFERS_FULL:
        return refs;
    case LLC_MISSES:
        return misses;
    case LLC_HITS:
        return refs - misses;
    case DTLB_HITS:
        return precise ? total[X86_COUNT_DTLB_HIT] : 3 * loads;
    case DTLB_WALKS:
        return precise ? total[X86_COUNT_DTLB_WALK] : loads;
    /* If not precise, no code waits for its translation: these stay 0 */
    case ITLB_HITS:
        return total[X86_COUNT_ITLB_HIT];
    case ITLB_WALKS:
        return total[X86_COUNT_ITLB_WALK];
    case ITLB_CYCLES:
        return total[X86_COUNT_ITLB_WALK] * X86_PRICE_WALK;
    case L1D_HITS:
        /* Misses are counted also while the lane of loads is not. */
        return (precise ? DIFFERENCE_BASE + loads : 64 * loads) - refs;
    default:
        break;
    }

    x86_topdown_split(cpu, domain, total, part);
    /*
     * Fetch latency: with the precise model, mispredicts and the code cache
     * add to that of indirect branches; a pinned mix is all code cache.
     */
    resteer = precise ? part[TOPDOWN_MISPREDICT] / X86_PRICE_MISPREDICT *
                        X86_PRICE_RESTEER : 0;
    unknown = model == X86_PMU_PINNED ? 0 :
              total[X86_COUNT_INDIRECT] * X86_PRICE_INDIRECT;
    icache = part[TOPDOWN_FETCH_LAT] - resteer - unknown;
    bandwidth = part[TOPDOWN_FRONTEND] - part[TOPDOWN_FETCH_LAT];

    switch (formula) {
    case CYCLES_RETIRING:
        return part[TOPDOWN_RETIRING];
    case CYCLES_NOT_RETIRING:
        return slots - part[TOPDOWN_RETIRING];
    case CYCLES_EXECUTING:
        return slots - part[TOPDOWN_BACKEND];
    case CYCLES_BACKEND:
        return part[TOPDOWN_BACKEND];
    case CYCLES_MEMORY:
        return part[TOPDOWN_MEMORY];
    case CYCLES_CORE:
        return part[TOPDOWN_BACKEND] - part[TOPDOWN_MEMORY];
    case CYCLES_L1D_MISS:
        /* Not precise: three quarters of all that memory costs... */
        return precise ? refs * X86_PRICE_L1_MISS +
                         misses * X86_PRICE_LLC_MISS
                       : 3 * part[TOPDOWN_MEMORY];
    case CYCLES_LLC_MISS:
        /* ...of which two are misses of the last level */
        return precise ? misses * (X86_PRICE_L1_MISS + X86_PRICE_LLC_MISS)
                       : 2 * part[TOPDOWN_MEMORY];
    case CYCLES_RECOVERY:
        return part[TOPDOWN_BAD];
    case CYCLES_FRONTEND_OK:
        return slots - part[TOPDOWN_FRONTEND];
    case CYCLES_FETCH_LATENCY:
        return part[TOPDOWN_FETCH_LAT];
    case CYCLES_RESTEER:
        return resteer;
    case CYCLES_UNKNOWN_BRANCH:
    case BACLEARS:
        return unknown;
    case CYCLES_ICACHE:
        return icache - total[X86_COUNT_ITLB_WALK] * X86_PRICE_WALK * cycle;
    case CODE_MISSES:
        return icache;
    case DTLB_CYCLES:
        return precise ? total[X86_COUNT_DTLB_WALK] * X86_PRICE_WALK
                       : 3 * part[TOPDOWN_MEMORY];
    case L2_REFS:
        return precise ? refs + icache / (X86_PRICE_L1_MISS * cycle) :
               refs * X86_PRICE_L1_MISS * cycle + icache * 64;
    case CYCLES_HEAVY:
    case HEAVY_SWITCHES:
        return part[TOPDOWN_HEAVY];
    case UOPS_DECODER:
        return DIFFERENCE_BASE +
               (part[TOPDOWN_RETIRING] - part[TOPDOWN_HEAVY]) * DECODER_SHARE;
    case UOPS_DSB:
        return DIFFERENCE_BASE +
               (part[TOPDOWN_RETIRING] - part[TOPDOWN_HEAVY]) *
               (SHARES - DECODER_SHARE);
    case CYCLES_DECODER_ANY:
        return (part[TOPDOWN_RETIRING] + bandwidth) * DECODER_SHARE;
    case CYCLES_DECODER_OK:
        return x86_pmu_full_width(part, cpu->pmu->topdown.split[domain]) *
               DECODER_SHARE;
    case CYCLES_DSB_ANY:
        return (part[TOPDOWN_RETIRING] + bandwidth) * (SHARES - DECODER_SHARE);
    case CYCLES_DSB_OK:
        return x86_pmu_full_width(part, cpu->pmu->topdown.split[domain]) *
               (SHARES - DECODER_SHARE);
    case MISPREDICTED ... MISPREDICTED_INDIRECT:
        return x86_pmu_mispredicted(cpu, formula, domain, total, part);
    case MACHINE_CLEARS:
        return part[TOPDOWN_BAD] - part[TOPDOWN_MISPREDICT];
    case CLEARS:
        if (model == X86_PMU_STATIC) {
            return 64 * (part[TOPDOWN_BAD] - part[TOPDOWN_MISPREDICT]) +
                   total[X86_COUNT_COND] * X86_PRICE_CLEAR * cycle;
        }
        return part[TOPDOWN_BAD] - part[TOPDOWN_MISPREDICT] +
               part[TOPDOWN_MISPREDICT] * X86_PRICE_CLEAR /
               X86_PRICE_MISPREDICT;
    default:
        g_assert_not_reached();
    }
}

uint64_t x86_pmu_event_of_totals(X86CPU *cpu, const PMUEvent *e,
                                 unsigned domain, const uint64_t *total)
{
    uint64_t part[TOPDOWN_CATEGORIES], sum = 0;
    unsigned i;

    switch (e->source) {
    case SOURCE_NONE:
        return 0;
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return total[e->index];
    case SOURCE_FP:
        for (i = 0; e->index >> i; i++) {
            if (e->index & (1 << i)) {
                sum += total[X86_COUNT_FP_SCALAR_DOUBLE + i];
            }
        }
        return sum;
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
        return total[X86_COUNT_SLOTS];
    case SOURCE_CATEGORY:
        x86_topdown_split(cpu, domain, total, part);
        return part[e->index];
    case SOURCE_FORMULA:
        return x86_pmu_formula(cpu, e->index, domain, total);
    default:
        g_assert_not_reached();
    }
}

uint64_t x86_pmu_event_sum(X86CPU *cpu, const PMUEvent *e, uint8_t domains)
{
    uint64_t sum = 0;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            sum += x86_pmu_event_of_totals(cpu, e, d, cpu->insn_count.total[d]);
        }
    }
    return sum;
}

int64_t x86_pmu_units_of(X86CPU *cpu, uint64_t quarters)
{
    uint64_t least = X86_COUNT_INSN_SLOTS, most = least;
    int64_t units;

    if (cpu->pmu_precise) {
        /*
         * And a load, two lines of code, and a branch that are missed; for
         * each load more there are the same slots again.
         */
        most += 4 * cpu->pmu->width *
                (X86_PRICE_L1_MISS + X86_PRICE_LLC_MISS +
                 2 * X86_PRICE_L1_MISS +
                 X86_PRICE_MISPREDICT + X86_PRICE_RESTEER);
    }
    units = MAX(1, muldiv64_round_up(quarters, least, most));
    return cpu->pmu_precise && !icount_enabled() ?
           MAX(units, x86_pmu_precise_units(cpu, quarters)) : units;
}

/* The least quarters of a slot of an instruction that adds to a lane */
static unsigned x86_pmu_least_price(X86CPU *cpu, unsigned lane)
{
    unsigned cycle = 4 * cpu->pmu->width;

    switch (lane) {
    case X86_COUNT_FAR:
        return X86_PRICE_CLEAR * cycle;
    case X86_COUNT_DIVIDES:
        return X86_COUNT_INSN_SLOTS + X86_PRICE_DIVIDE * cycle;
    case X86_COUNT_PAUSES:
        return X86_COUNT_INSN_SLOTS + X86_PRICE_PAUSE * cycle;
    default:
        return X86_COUNT_INSN_SLOTS;
    }
}

/* The parts of a formula that a load adds; 0: other things add to it */
static unsigned x86_pmu_parts_of_load(X86CPU *cpu, unsigned formula)
{
    static const uint64_t none[X86_COUNT_TOTALS];
    static const uint64_t load[X86_COUNT_TOTALS] = { [X86_COUNT_LOADS] = 1 };

    if (cpu->pmu->model == X86_PMU_PRECISE) {
        return 0;                   /* misses do */
    }
    switch (formula) {
    case LLC_REFS ... L1D_HITS:
    case DTLB_HITS:
    case DTLB_WALKS:
        return x86_pmu_formula(cpu, formula, X86_COUNT_KERNEL, load) -
               x86_pmu_formula(cpu, formula, X86_COUNT_KERNEL, none);
    default:
        return 0;
    }
}

/* The most parts of a formula that a quarter of a slot is; 0: not known */
static unsigned x86_pmu_parts_of_quarter(X86CPU *cpu, unsigned formula)
{
    X86PMUModel model = cpu->pmu->model;

    switch (formula) {
    case CYCLES_L1D_MISS:
    case DTLB_CYCLES:
        return model == X86_PMU_PRECISE ? 0 : 3;
    case CYCLES_LLC_MISS:
        return model == X86_PMU_PRECISE ? 0 : 2;
    case CYCLES_RETIRING ... CYCLES_CORE:
    case CYCLES_RECOVERY ... CYCLES_HEAVY:
    case HEAVY_SWITCHES:
    case BACLEARS:
    case CODE_MISSES:
    case MACHINE_CLEARS:
        return 1;
    case UOPS_DECODER:
    case CYCLES_DECODER_ANY:
    case CYCLES_DECODER_OK:
        return DECODER_SHARE;
    case UOPS_DSB:
    case CYCLES_DSB_ANY:
    case CYCLES_DSB_OK:
        return SHARES - DECODER_SHARE;
    case MISPREDICTED ... MISPREDICTED_TAKEN:
        return model == X86_PMU_PINNED;
    default:
        return 0;
    }
}

/* x86_pmu_event_units() of a formula */
static int64_t x86_pmu_formula_units(X86CPU *cpu, const PMUEvent *e,
                                     uint64_t n, uint64_t rest)
{
    /* Shares of slots are rounded, and a formula adds up to four of them. */
    const unsigned rounding = 4;
    uint64_t parts = x86_pmu_event_parts(cpu, e) * n - rest;
    unsigned most;

    switch (e->index) {
    case CYCLES_DIVIDE:
        return DIV_ROUND_UP(n, X86_PRICE_DIVIDE) *
               x86_pmu_least_price(cpu, X86_COUNT_DIVIDES);
    case CYCLES_PAUSE:
        return DIV_ROUND_UP(n, X86_PRICE_PAUSE) *
               x86_pmu_least_price(cpu, X86_COUNT_PAUSES);
    case COND_NOT_TAKEN:
    case TAKEN:
        return n * X86_COUNT_BRANCH_SLOTS;
    case MEMORY_INSNS:
        return n * X86_COUNT_INSN_SLOTS / 2;
    case DECODED_INSNS:
        return parts / DECODER_SHARE * X86_COUNT_INSN_SLOTS;
    case MISPREDICTED ... MISPREDICTED_TAKEN:
        if (cpu->pmu->model == X86_PMU_STATIC) {
            return parts * X86_COUNT_BRANCH_SLOTS;
        }
        break;
    }
    most = x86_pmu_parts_of_load(cpu, e->index);
    if (most) {
        return parts * X86_COUNT_INSN_SLOTS / most;
    }
    most = x86_pmu_parts_of_quarter(cpu, e->index);
    if (most) {
        return x86_pmu_units_of(cpu, MAX(parts / most, rounding) - rounding);
    }
    /*
     * Each quarter of a slot, of code or added by the precise model, adds at
     * most one count. One more can come from a share that was nearly full.
     */
    return x86_pmu_units_of(cpu, n - 1);
}

int64_t x86_pmu_event_units(X86CPU *cpu, const PMUEvent *e, uint64_t n,
                            uint64_t rest)
{
    if (x86_pmu_event_is_zero(cpu, e)) {
        /*
         * Without samples, perf shortens the period again and again; deadlines
         * by that would slow down each block.
         */
        return INSN_COUNT_NEVER;
    }
    switch (e->source) {
    case SOURCE_TOTAL:
        return n * x86_pmu_least_price(cpu, e->index);
    case SOURCE_BRANCH:         /* FAR branches have a price of their own */
        return n * MAX(X86_COUNT_BRANCH_SLOTS,
                       x86_pmu_least_price(cpu, e->index));
    case SOURCE_FP:
        /* An instruction counts once or twice */
        return n * X86_COUNT_INSN_SLOTS / 2;
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
        return x86_pmu_units_of(cpu, x86_pmu_event_parts(cpu, e) * n - rest);
    default:
        return x86_pmu_formula_units(cpu, e, n, rest);
    }
}
