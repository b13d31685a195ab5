/*
 * Arm PMUv3: events that count instructions
 *
 * The counts are those of the TCG accelerator, see accel/tcg/insn-count.h;
 * what each instruction adds to which lane is in tcg/count.c. They run only
 * while a counter of this CPU that is enabled at the current exception level
 * needs them.
 *
 * An instruction counts if counting is on when it starts, so one that changes
 * a counter is counted by what the counter was before, and a read of a
 * counter includes itself. What has an exception that returns to it (UNDEF,
 * BRK, traps, aborts) has not retired; SVC, HVC and SMC have, and so has an
 * AArch32 instruction whose condition fails.
 *
 * Counters are programmed by instructions that are the last of their block,
 * at a change of exception level, and by other threads with the BQL held: the
 * PMU timer, and devices through pmu-ext.c. All of that has the BQL.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "pmu-internal.h"
#include "qemu/main-loop.h"
#include "system/cpu-timers.h"
#include "system/tcg.h"

#ifndef CONFIG_USER_ONLY

/* A lane has room for so many instructions, and one more */
#define PMU_LANE_LIMIT (MAKE_64BIT_MASK(0, 15) - 1)

/* The lanes of an event, 0 if it is not of this kind */
static uint32_t pmu_insn_lanes(uint16_t event)
{
    switch (event) {
#define PMU_INSN_EVENT(number, name, lanes)     \
    case number:                                \
        return lanes;
#define PMU_EXC_EVENT(number, name, exception)
#include "pmu-events.h.inc"
    default:
        return 0;
    }
}

bool pmu_insn_supported(CPUARMState *env)
{
    return insn_count_available();
}

bool pmu_sve_supported(CPUARMState *env)
{
    return insn_count_available() &&
           cpu_isar_feature(aa64_sve, env_archcpu(env));
}

int64_t pmu_insn_ns_per(uint64_t count)
{
    /* pmu_insn_update() sets a deadline */
    return -1;
}

/* The sum of some lanes, as other threads may see it, too */
static uint64_t pmu_insn_read(CPUARMState *env, uint32_t lanes)
{
#ifdef CONFIG_TCG
    uint64_t sum = 0;

    for (; lanes; lanes &= lanes - 1) {
        sum += insn_count_read(env_cpu(env), ctz32(lanes));
    }
    return sum;
#else
    g_assert_not_reached();
#endif
}

#define PMU_INSN_EVENT(number, name, lanes)     \
    uint64_t pmu_get_##name(CPUARMState *env)   \
    {                                           \
        return pmu_insn_read(env, lanes);       \
    }
#define PMU_EXC_EVENT(number, name, exception)
#include "pmu-events.h.inc"

#endif

#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)

/*
 * What a counter in use needs, in @o; returns what is to be counted for it, for
 * insn_count_enable(), or 0 if it is not in use or counts something else.
 *
 * pmevcntr_op_start() sees an overflow when the top bit falls, but only if it
 * has seen it set before. So setting it is as good as an overflow here.
 */
static unsigned pmu_insn_in_use(CPUARMState *env, unsigned counter,
                                ARMPmuOverflow *o)
{
    uint16_t event = env->cp15.c14_pmevtyper[counter] & PMXEVTYPER_EVTCOUNT;
    uint32_t lanes = pmu_insn_lanes(event);
    unsigned counted = INSN_COUNT_UNITS;
    uint64_t top, sum, value;

    if (!lanes || !pmu_counter_enabled(env, counter)) {
        return 0;
    }
    top = pmevcntr_is_64_bit(env, counter) ? 1ULL << 63 : 1ULL << 31;
    sum = pmu_insn_read(env, lanes);
    value = sum - env->cp15.c14_pmevcntr_delta[counter];
    o->lanes = lanes;
    o->at = sum + (top - (value & (top - 1)));

    for (lanes &= ~PMU_LANE(INST); lanes; lanes &= lanes - 1) {
        counted |= INSN_COUNT_WORD(arm_insn_count_ops.lane[ctz32(lanes)].word);
    }
    return counted;
}

/* The sum of some totals, on the vCPU's thread after insn_count_sync() */
static uint64_t pmu_insn_sum(ARMPmuCount *c, uint32_t lanes)
{
    uint64_t sum = 0;

    for (; lanes; lanes &= lanes - 1) {
        sum += c->insns.total[0][ctz32(lanes)];
    }
    return sum;
}

/*
 * After how many instructions must an overflow be looked for? Each adds at
 * most 1 to an event.
 */
static int64_t pmu_insn_left(ARMPmuCount *c)
{
    int64_t least = INSN_COUNT_NEVER;
    unsigned i;

    for (i = 0; i < c->overflows; i++) {
        ARMPmuOverflow *o = &c->overflow[i];
        uint64_t left = o->at - pmu_insn_sum(c, o->lanes);

        /* Half of the numbers are in the past */
        least = MIN(least, left > 1ULL << 63 ? 0 : MIN(left, INT64_MAX));
    }
    return least;
}

static void pmu_insn_set_due(CPUState *cs, int64_t left)
{
    ARMPmuCount *c = &ARM_CPU(cs)->pmu_count;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = left;
    }
    insn_count_set_deadlines(cs, 0, due);
    c->due = c->insns.total[0][PMU_LANE_INST] + left;
}

/* Another thread has asked for pmu_insn_update() */
static void pmu_insn_work(CPUState *cs, run_on_cpu_data asked_at)
{
    ARMCPU *cpu = ARM_CPU(cs);
    ARMPmuCount *c = &cpu->pmu_count;

    if (c->late && !c->insns.counted) {
        /*
         * With -icount only this CPU has been executing since then, and how
         * much is known. It belongs to the time that the asker has seen.
         */
        c->insns.total[0][PMU_LANE_INST] +=
            icount_get_raw() - asked_at.target_ptr;
    }
    c->pending = false;
    c->late = false;
    pmu_insn_update(&cpu->env);
}

void pmu_insn_update(CPUARMState *env)
{
    ARMCPU *cpu = env_archcpu(env);
    CPUState *cs = CPU(cpu);
    ARMPmuCount *c = &cpu->pmu_count;
    ARMPmuOverflow overflow[PMU_MAX_COUNTERS];
    unsigned i, counted = 0, overflows = 0;
    uint64_t count;
    int64_t left = INSN_COUNT_NEVER;

    if (!insn_count_available() || !arm_feature(env, ARM_FEATURE_PMU)) {
        return;
    }
    for (i = 0; i < pmu_num_counters(env); i++) {
        unsigned more = pmu_insn_in_use(env, i, &overflow[overflows]);

        counted |= more;
        overflows += more != 0;
    }
    if (!cs->created || qemu_cpu_is_self(cs)) {
        if (!counted && !c->insns.wanted) {
            return;
        }
        insn_count_enable(cs, counted, true);
        /* What is no longer wanted may still be counted for a while */
        c->insns.limit = c->insns.counted & ~INSN_COUNT_UNITS ? PMU_LANE_LIMIT
                                                              : 0;
        c->overflows = overflows;
        memcpy(c->overflow, overflow, overflows * sizeof(*overflow));
        if (counted) {
            insn_count_sync(cs, 0);
            pmu_insn_set_due(cs, pmu_insn_left(c));
        }
        return;
    }

    /* The totals may be ahead of what we see, so this is no later than it is */
    count = insn_count_read(cs, PMU_LANE_INST);
    for (i = 0; i < overflows; i++) {
        uint64_t until = overflow[i].at - pmu_insn_read(env, overflow[i].lanes);

        left = MIN(left, MIN(until, INT64_MAX));
    }
    if (!c->pending && (counted != qatomic_read(&c->insns.wanted) ||
                        (counted && (int64_t)(count + left - c->due) < 0))) {
        run_on_cpu_data now = RUN_ON_CPU_NULL;

        c->pending = true;
        if (icount_enabled() && qatomic_read(&cs->running)) {
            c->late = counted != 0;
            /* This type has 64 bits on all hosts, unlike unsigned long */
            now = RUN_ON_CPU_TARGET_PTR(icount_get_raw());
        }
        async_run_on_cpu(cs, pmu_insn_work, now);
    }
}

static void pmu_insn_deadline(CPUState *cs)
{
    CPUARMState *env = cpu_env(cs);
    int64_t left = pmu_insn_left(&ARM_CPU(cs)->pmu_count);

    if (left > 0) {
        /* Not every instruction has counted */
        pmu_insn_set_due(cs, left);
        return;
    }
    BQL_LOCK_GUARD();
    pmu_op_start(env);
    pmu_op_finish(env);
}

/*
 * Would a counter overflow in a block? Whether a store-exclusive fails and
 * whether an AArch32 condition passes is not known before: assume the most.
 */
static bool pmu_insn_reaches(CPUState *cs, unsigned domain,
                             const uint64_t *lanes, bool loose)
{
    ARMPmuCount *c = &ARM_CPU(cs)->pmu_count;
    unsigned i;

    for (i = 0; i < c->overflows; i++) {
        ARMPmuOverflow *o = &c->overflow[i];
        uint64_t sum = pmu_insn_sum(c, o->lanes);
        uint32_t l;

        for (l = o->lanes; l; l &= l - 1) {
            sum += lanes[ctz32(l)];
        }
        if (o->lanes == PMU_LANE(STREX_FAIL)) {
            sum += lanes[PMU_LANE_STREX_PASS];
        }
        if ((int64_t)(sum - o->at) >= 0) {
            return true;
        }
    }
    return false;
}

/* Lanes that many instructions add to share a word with the instructions */
const InsnCountOps arm_insn_count_ops = {
    .offset = offsetof(ARMCPU, pmu_count.insns),
    /* Where the TLBs of stage 2 and of physical addresses are described */
    .word = INSN_COUNT_WORD_AT(ARMCPU, pmu_count.insns, 0x3a0),
    .units = PMU_LANE_INST,
    .domains = 1,
    .words = 6,
    .lanes = PMU_LANES,
    .lane = {
        [PMU_LANE_LD] = { 0, 0, 15 },
        [PMU_LANE_ST] = { 0, 15, 15 },
        [PMU_LANE_BR] = { 0, 30, 15 },
        [PMU_LANE_BR_IMMED] = { 1, 0, 16 },
        [PMU_LANE_BR_RETURN] = { 1, 16, 16 },
        [PMU_LANE_BR_INDIRECT] = { 1, 32, 16 },
        [PMU_LANE_PC_WRITE] = { 1, 48, 16 },
        [PMU_LANE_LDST] = { 2, 0, 16 },
        [PMU_LANE_DP] = { 2, 16, 16 },
        [PMU_LANE_ASE] = { 2, 32, 16 },
        [PMU_LANE_VFP] = { 2, 48, 16 },
        [PMU_LANE_CRYPTO] = { 3, 0, 16 },
        [PMU_LANE_SVE] = { 3, 16, 16 },
        [PMU_LANE_LDREX] = { 3, 32, 16 },
        [PMU_LANE_STREX_PASS] = { 4, 0, 16 },
        [PMU_LANE_STREX_FAIL] = { 4, 16, 16 },
        [PMU_LANE_ISB] = { 4, 32, 16 },
        [PMU_LANE_DSB] = { 4, 48, 16 },
        [PMU_LANE_DMB] = { 5, 0, 16 },
        [PMU_LANE_CID_WRITE] = { 5, 16, 16 },
        [PMU_LANE_TTBR_WRITE] = { 5, 32, 16 },
    },
    .deadline = pmu_insn_deadline,
    .reaches = pmu_insn_reaches,
};

#elif !defined(CONFIG_USER_ONLY)

void pmu_insn_update(CPUARMState *env)
{
}

#endif

/* The events of QEMU without these files */
static uint64_t pmu_stock_events(bool pmceid1)
{
    if (pmceid1) {
        return BIT_ULL(0x23 - 0x20) | BIT_ULL(0x24 - 0x20) |
               BIT_ULL(0x3c - 0x20);
    }
    return BIT_ULL(0x00) | BIT_ULL(0x11) |
           (icount_enabled() == ICOUNT_PRECISE ? BIT_ULL(0x08) : 0);
}

uint64_t pmu_pmceid_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    ARMCPU *cpu = env_archcpu(env);
    uint64_t value = ri->opc2 & 1 ? cpu->pmceid1 : cpu->pmceid0;

    return ri->state == ARM_CP_STATE_AA32 ? (uint32_t)value : value;
}

uint64_t pmu_pmceid_rawread(CPUARMState *env, const ARMCPRegInfo *ri)
{
    uint64_t value = pmu_pmceid_read(env, ri);

    return tcg_enabled() ? value & pmu_stock_events(ri->opc2 & 1) : value;
}
