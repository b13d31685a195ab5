/*
 * PMU of Intel CPUs under TCG: events
 *
 * An event has a source: one of the accelerator's totals, or a formula over
 * several of them. All formulas are monotonic, so that a counter can add the
 * difference of two looks. An event that is a fraction of totals has a
 * denominator, x86_pmu_event_parts(); what the formulas return is the numerator.
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
#include "pmu-internal.h"

/* Upper byte: unit mask, lower byte: event select */
enum {
    EVENT_CYCLES            = 0x003c,
    EVENT_INSNS             = 0x00c0,
    EVENT_REF               = 0x013c,
    EVENT_REF_FIXED         = 0x0300,   /* pseudo code, fixed counter 2 */
    EVENT_SLOTS             = 0x01a4,
    EVENT_BACKEND           = 0x02a4,
    EVENT_BAD_SPECULATION   = 0x04a4,
    EVENT_MISPREDICT_SLOTS  = 0x08a4,
    EVENT_MEMORY_BOUND      = 0x10a4,
    EVENT_RETIRING          = 0x02c2,
    EVENT_NOT_DELIVERED     = 0x019c,   /* by the frontend */
    EVENT_ISSUED            = 0x010e,   /* Ice Lake */
    EVENT_ISSUED_SPR        = 0x01ae,
    EVENT_CLEARS            = 0x010d,   /* of any kind, Ice Lake */
    EVENT_CLEARS_SPR        = 0x01ad,
    EVENT_MACHINE_CLEARS    = 0x01c3,
    EVENT_SLOTS_FIXED       = 0x0400,   /* pseudo code, fixed counter 3 */
    EVENT_LLC_REF           = 0x4f2e,
    EVENT_LLC_MISS          = 0x412e,
    EVENT_BRANCHES          = 0x00c4,
    EVENT_COND_TAKEN        = 0x01c4,
    EVENT_CALLS             = 0x02c4,
    EVENT_RETS              = 0x08c4,
    EVENT_COND_NOT_TAKEN    = 0x10c4,
    EVENT_COND              = 0x11c4,
    EVENT_TAKEN             = 0x20c4,   /* near branches only */
    EVENT_FAR               = 0x40c4,
    EVENT_INDIRECT          = 0x80c4,
    EVENT_MISPREDICTED      = 0x00c5,
    EVENT_MISPREDICTED_COND = 0x11c5,
    EVENT_LOADS             = 0x81d0,
    EVENT_STORES            = 0x82d0,
};


static const PMUEvent core_cycles = { EVENT_CYCLES, SOURCE_CYCLES };
const PMUEvent *const x86_pmu_cycles = &core_cycles;

const PMUEvent *x86_pmu_fixed_event(unsigned index)
{
    static const PMUEvent events[PMU_FIXED] = {
        { EVENT_INSNS, SOURCE_TOTAL, X86_COUNT_INSNS,
          .name = "INST_RETIRED.ANY" },
        { EVENT_CYCLES, SOURCE_CYCLES, .name = "CPU_CLK_UNHALTED.THREAD" },
        { EVENT_REF_FIXED, SOURCE_CYCLES, .name = "CPU_CLK_UNHALTED.REF_TSC" },
        { EVENT_SLOTS_FIXED, SOURCE_SLOTS, .name = "TOPDOWN.SLOTS" },
    };

    return &events[index];
}

const PMUEvent *x86_pmu_find_event(uint16_t code)
{
    static const PMUEvent none = { };
    static const PMUEvent events[] = {
        { EVENT_INSNS, SOURCE_TOTAL, X86_COUNT_INSNS,
          .name = "INST_RETIRED.ANY_P" },
        { EVENT_LOADS, SOURCE_TOTAL, X86_COUNT_LOADS,
          .name = "MEM_INST_RETIRED.ALL_LOADS" },
        { EVENT_STORES, SOURCE_TOTAL, X86_COUNT_STORES,
          .name = "MEM_INST_RETIRED.ALL_STORES" },
        { EVENT_BRANCHES, SOURCE_BRANCH, X86_COUNT_BRANCHES,
          .name = "BR_INST_RETIRED.ALL_BRANCHES" },
        { EVENT_COND, SOURCE_BRANCH, X86_COUNT_COND,
          .name = "BR_INST_RETIRED.COND" },
        { EVENT_COND_TAKEN, SOURCE_BRANCH, X86_COUNT_COND_TAKEN,
          .name = "BR_INST_RETIRED.COND_TAKEN" },
        { EVENT_CALLS, SOURCE_BRANCH, X86_COUNT_CALLS,
          .name = "BR_INST_RETIRED.NEAR_CALL" },
        { EVENT_RETS, SOURCE_BRANCH, X86_COUNT_RETS,
          .name = "BR_INST_RETIRED.NEAR_RETURN" },
        { EVENT_FAR, SOURCE_BRANCH, X86_COUNT_FAR,
          .name = "BR_INST_RETIRED.FAR_BRANCH" },
        { EVENT_INDIRECT, SOURCE_BRANCH, X86_COUNT_INDIRECT,
          .name = "BR_INST_RETIRED.INDIRECT" },
        { EVENT_CYCLES, SOURCE_CYCLES, .name = "CPU_CLK_UNHALTED.THREAD_P" },
        { EVENT_REF, SOURCE_CYCLES, .name = "CPU_CLK_UNHALTED.REF_TSC_P" },
        { EVENT_SLOTS, SOURCE_SLOTS, .name = "TOPDOWN.SLOTS_P" },
        { EVENT_RETIRING, SOURCE_CATEGORY, TOPDOWN_RETIRING,
          .name = "UOPS_RETIRED.SLOTS" },
        { EVENT_BAD_SPECULATION, SOURCE_CATEGORY, TOPDOWN_BAD,
          .name = "TOPDOWN.BAD_SPEC_SLOTS" },
        { EVENT_NOT_DELIVERED, SOURCE_CATEGORY, TOPDOWN_FRONTEND,
          .name = "IDQ_UOPS_NOT_DELIVERED.CORE" },
        { EVENT_BACKEND, SOURCE_CATEGORY, TOPDOWN_BACKEND,
          .name = "TOPDOWN.BACKEND_BOUND_SLOTS" },
        { EVENT_MISPREDICT_SLOTS, SOURCE_CATEGORY, TOPDOWN_MISPREDICT,
          .name = "TOPDOWN.BR_MISPREDICT_SLOTS" },
        { EVENT_MEMORY_BOUND, SOURCE_CATEGORY, TOPDOWN_MEMORY,
          .name = "TOPDOWN.MEMORY_BOUND_SLOTS" },
        { EVENT_ISSUED, SOURCE_FORMULA, .name = "UOPS_ISSUED.ANY" },
        { EVENT_ISSUED_SPR, SOURCE_FORMULA, .name = "UOPS_ISSUED.ANY" },
        { EVENT_COND_NOT_TAKEN, SOURCE_FORMULA,
          .name = "BR_INST_RETIRED.COND_NTAKEN" },
        { EVENT_TAKEN, SOURCE_FORMULA, .name = "BR_INST_RETIRED.NEAR_TAKEN" },
        { EVENT_LLC_REF, SOURCE_FORMULA,
          .name = "LONGEST_LAT_CACHE.REFERENCE" },
        { EVENT_LLC_MISS, SOURCE_FORMULA, .name = "LONGEST_LAT_CACHE.MISS" },
        { EVENT_MISPREDICTED, SOURCE_FORMULA,
          .name = "BR_MISP_RETIRED.ALL_BRANCHES" },
        { EVENT_MISPREDICTED_COND, SOURCE_FORMULA,
          .name = "BR_MISP_RETIRED.COND" },
        { EVENT_MACHINE_CLEARS, SOURCE_FORMULA,
          .name = "MACHINE_CLEARS.COUNT" },
        { EVENT_CLEARS, SOURCE_FORMULA, .name = "INT_MISC.CLEARS_COUNT" },
        { EVENT_CLEARS_SPR, SOURCE_FORMULA, .name = "INT_MISC.CLEARS_COUNT" },
    };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(events); i++) {
        if (events[i].code == code) {
            return &events[i];
        }
    }
    return &none;
}

unsigned x86_pmu_event_lanes(X86CPU *cpu, const PMUEvent *e)
{
    switch (e->source) {
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return 1 << e->index;
    case SOURCE_CATEGORY:
        return x86_topdown_lanes(cpu);
    case SOURCE_FORMULA:
        break;
    default:
        return 0;
    }
    switch (e->code) {
    case EVENT_COND_NOT_TAKEN:
        return 1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case EVENT_TAKEN:
        return 1 << X86_COUNT_BRANCHES | 1 << X86_COUNT_FAR |
               1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case EVENT_LLC_REF:
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? 0 : 1 << X86_COUNT_LOADS;
    default:
        /* Slots that are issued, and what bad speculation consists of */
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
    unsigned cycle = 4 * cpu->pmu->width;
    bool fixed_shares = cpu->pmu->model == X86_PMU_STATIC;

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
    switch (e->code) {
    case EVENT_ISSUED:
    case EVENT_ISSUED_SPR:
        return 4;
    case EVENT_LLC_REF:
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? 1 : 64;
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return fixed_shares ? 64 : X86_PRICE_MISPREDICT * cycle;
    case EVENT_MACHINE_CLEARS:
        return X86_PRICE_CLEAR * cycle;
    case EVENT_CLEARS:
    case EVENT_CLEARS_SPR:
        return X86_PRICE_CLEAR * cycle * (fixed_shares ? 64 : 1);
    default:
        return 1;
    }
}

uint64_t x86_pmu_event_of_totals(X86CPU *cpu, const PMUEvent *e, unsigned domain,
                              const uint64_t *total)
{
    bool fixed_shares = cpu->pmu->model == X86_PMU_STATIC;
    uint64_t part[TOPDOWN_CATEGORIES], clears;

    switch (e->source) {
    case SOURCE_NONE:
        return 0;
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return total[e->index];
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
        return total[X86_COUNT_SLOTS];
    default:
        break;
    }

    x86_topdown_split(cpu, domain, total, part);
    if (e->source == SOURCE_CATEGORY) {
        return part[e->index];
    }
    clears = part[TOPDOWN_BAD] - part[TOPDOWN_MISPREDICT];
    switch (e->code) {
    case EVENT_ISSUED:
    case EVENT_ISSUED_SPR:
        return part[TOPDOWN_RETIRING] + part[TOPDOWN_BAD];
    case EVENT_COND_NOT_TAKEN:
        return total[X86_COUNT_COND] - total[X86_COUNT_COND_TAKEN];
    case EVENT_TAKEN:
        return total[X86_COUNT_BRANCHES] - total[X86_COUNT_FAR] -
               total[X86_COUNT_COND] + total[X86_COUNT_COND_TAKEN];
    case EVENT_LLC_REF:
        return cpu->pmu_precise ? total[X86_COUNT_LLC_REF]
                                : 5 * total[X86_COUNT_LOADS];
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? total[X86_COUNT_LLC_MISS]
                                : total[X86_COUNT_LOADS];
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return fixed_shares ? total[X86_COUNT_COND] : part[TOPDOWN_MISPREDICT];
    case EVENT_MACHINE_CLEARS:
        /* Cycles: two for each, so that the number is that of the edges */
        return 2 * clears;
    case EVENT_CLEARS:
    case EVENT_CLEARS_SPR:
        if (fixed_shares) {
            return 2 * (64 * clears + total[X86_COUNT_COND] * X86_PRICE_CLEAR *
                                      4 * cpu->pmu->width);
        }
        return 2 * (clears + part[TOPDOWN_MISPREDICT] * X86_PRICE_CLEAR /
                             X86_PRICE_MISPREDICT);
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
    return MAX(1, muldiv64_round_up(quarters, least, most));
}

int64_t x86_pmu_event_units(X86CPU *cpu, const PMUEvent *e, uint64_t n,
                            uint64_t rest)
{
    switch (e->source) {
    case SOURCE_NONE:
        return INSN_COUNT_NEVER;
    case SOURCE_TOTAL:
        return n * X86_COUNT_INSN_SLOTS;
    case SOURCE_BRANCH:
        return n * X86_COUNT_BRANCH_SLOTS;
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
        return x86_pmu_units_of(cpu, x86_pmu_event_parts(cpu, e) * n - rest);
    default:
        /*
         * For each quarter of a slot, of itself or that the precise model
         * adds, it is at most one, and another from a share that was nearly
         * full.
         */
        return x86_pmu_units_of(cpu, n - 1);
    }
}
