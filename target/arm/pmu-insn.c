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
#ifdef CONFIG_TCG
#include "tcg/tcg.h"
#endif

#ifndef CONFIG_USER_ONLY

/* A lane has room for so many instructions, and one more */
#define PMU_LANE_LIMIT (MAKE_64BIT_MASK(0, 15) - 1)

static const struct {
    uint32_t plus;
    uint32_t minus;
    bool slots;
} pmu_insn_events[] = {
#define PMU_INSN_EVENT(number, name, plus, minus) { plus, minus, false },
#define PMU_SLOT_EVENT(number, name)                                    \
    { LANE(INST) | LANE(PC_WRITE) | LANE(FRONTEND) | LANE(BACKEND), 0, true },
#include "pmu-events.h.inc"
};

/* PMU_INSN_EVENTS if the event is not one of them */
static ARMPmuInsnEvent pmu_insn_event(uint16_t number)
{
    switch (number) {
#define PMU_INSN_EVENT(number, name, plus, minus)   \
    case number:                                    \
        return PMU_INSN(name);
#define PMU_SLOT_EVENT(number, name)                \
    case number:                                    \
        return PMU_INSN(name);
#include "pmu-events.h.inc"
    default:
        return PMU_INSN_EVENTS;
    }
}

bool pmu_insn_supported(CPUARMState *env)
{
    return tcg_enabled() && insn_count_available();
}

bool pmu_sve_supported(CPUARMState *env)
{
    return pmu_insn_supported(env) &&
           cpu_isar_feature(aa64_sve, env_archcpu(env));
}

int64_t pmu_insn_ns_per(uint64_t count)
{
    /* pmu_insn_update() sets a deadline */
    return -1;
}

#ifdef CONFIG_TCG

/* The value of an event, given the totals of the lanes */
static uint64_t pmu_insn_value(const ARMPmuCount *c, ARMPmuInsnEvent event,
                               const uint64_t *total)
{
    uint64_t value = 0;
    uint32_t lanes;

    if (pmu_insn_events[event].slots) {
        return pmu_topdown_value(&c->slots, event, total);
    }
    for (lanes = pmu_insn_events[event].plus; lanes; lanes &= lanes - 1) {
        value += total[ctz32(lanes)];
    }
    for (lanes = pmu_insn_events[event].minus; lanes; lanes &= lanes - 1) {
        value -= total[ctz32(lanes)];
    }
    return value;
}

/* What an instruction adds to an event at most */
static unsigned pmu_insn_most(const ARMPmuCount *c, ARMPmuInsnEvent event)
{
    return pmu_insn_events[event].slots ? pmu_topdown_most(&c->slots, event)
                                        : 1;
}

/* Is this the vCPU's own thread, or has it none yet? */
static bool pmu_insn_is_own(CPUState *cs)
{
    return !cs->created || qemu_cpu_is_self(cs);
}

#endif

/*
 * The value of an event. It is exact on the vCPU's own thread and while the
 * vCPU does not execute code. If it does, another thread sees at most as much
 * less as a block can add. Nobody sees less than somebody has seen before.
 */
static uint64_t pmu_insn_get(CPUARMState *env, ARMPmuInsnEvent event)
{
#ifdef CONFIG_TCG
    CPUState *cs = env_cpu(env);
    ARMPmuCount *c = &env_archcpu(env)->pmu_count;
    uint64_t total[PMU_LANES], value;

    if (pmu_insn_is_own(cs)) {
        insn_count_sync(cs, 0);
        value = pmu_insn_value(c, event, c->insns.total[0]);
    } else if (insn_count_read(cs, pmu_insn_events[event].plus |
                                   pmu_insn_events[event].minus, total)) {
        value = pmu_insn_value(c, event, total);
    } else {
        /*
         * The current block may end early. What is subtracted is in later
         * words, and so is not too old.
         */
        value = pmu_insn_value(c, event, total) -
                TCG_MAX_INSNS * pmu_insn_most(c, event);
    }
    if ((int64_t)(value - c->shown[event]) > 0) {
        c->shown[event] = value;
    }
    return c->shown[event];
#else
    g_assert_not_reached();
#endif
}

#define PMU_INSN_EVENT(number, name, plus, minus)       \
    uint64_t pmu_get_##name(CPUARMState *env)           \
    {                                                   \
        return pmu_insn_get(env, PMU_INSN(name));      \
    }
#define PMU_SLOT_EVENT(number, name)                    \
    PMU_INSN_EVENT(number, name, 0, 0)
#include "pmu-events.h.inc"

#endif

#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)

/* What blocks must count for an event, for insn_count_enable() */
static unsigned pmu_insn_counted(ARMPmuInsnEvent event)
{
    uint32_t lanes = pmu_insn_events[event].plus | pmu_insn_events[event].minus;
    unsigned counted = INSN_COUNT_UNITS;

    for (lanes &= ~PMU_LANE(INST); lanes; lanes &= lanes - 1) {
        counted |= INSN_COUNT_WORD(arm_insn_count_ops.lane[ctz32(lanes)].word);
    }
    return counted;
}

/* How many instructions can be executed before an overflow is possible? */
static int64_t pmu_insn_until(const ARMPmuCount *c, const ARMPmuOverflow *o,
                              uint64_t value)
{
    uint64_t left = o->at - value;

    if (left > 1ULL << 63) {
        /* Half of the numbers are in the past */
        return 0;
    }
    return MIN(DIV_ROUND_UP(left, pmu_insn_most(c, o->event)), INT64_MAX);
}

/*
 * When does this counter (31 for PMCCNTR) overflow next, and how many
 * instructions can be executed before? Returns false if it is not in use or
 * counts no such event.
 *
 * pmevcntr_op_start() sees an overflow when the top bit falls, but only if it
 * has seen it set before. So setting it is as good as an overflow here.
 */
static bool pmu_insn_in_use(CPUARMState *env, unsigned counter,
                            ARMPmuOverflow *o, int64_t *left)
{
    const ARMPmuCount *c = &env_archcpu(env)->pmu_count;
    uint64_t value, count, delta, top;
    unsigned divider = 1;

    if (counter == 31) {
        o->event = PMU_INSN(CPU_CYCLES);
        divider = pmccntr_clockdiv_enabled(env) ? 64 : 1;
        delta = env->cp15.c15_ccnt_delta;
        top = env->cp15.c9_pmcr & PMCRLC ? 1ULL << 63 : 1ULL << 31;
    } else {
        o->event = pmu_insn_event(env->cp15.c14_pmevtyper[counter] &
                                  PMXEVTYPER_EVTCOUNT);
        if (o->event == PMU_INSN_EVENTS) {
            return false;
        }
        delta = env->cp15.c14_pmevcntr_delta[counter];
        top = pmevcntr_is_64_bit(env, counter) ? 1ULL << 63 : 1ULL << 31;
    }
    /* Stock's CPU_CYCLES is a row of its own in the table of events */
    if ((pmu_insn_events[o->event].slots && !pmu_topdown_supported(env)) ||
        !pmu_counter_enabled(env, counter)) {
        return false;
    }
    value = pmu_insn_get(env, o->event);
    count = value / divider;
    o->at = (count + top - ((count - delta) & (top - 1))) * divider;
    *left = pmu_insn_until(c, o, value);
    return true;
}

/* Until the first overflow, on the vCPU's thread after insn_count_sync() */
static int64_t pmu_insn_left(const ARMPmuCount *c)
{
    int64_t least = INSN_COUNT_NEVER;
    unsigned i;

    for (i = 0; i < c->overflows; i++) {
        const ARMPmuOverflow *o = &c->overflow[i];
        uint64_t value = pmu_insn_value(c, o->event, c->insns.total[0]);

        least = MIN(least, pmu_insn_until(c, o, value));
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
    ARMPmuOverflow overflow[ARRAY_SIZE(c->overflow)];
    unsigned i, counted = 0, overflows = 0;
    int64_t left = INSN_COUNT_NEVER;
    uint64_t count = 0;
    bool own = pmu_insn_is_own(cs);

    if (!insn_count_available() || !arm_feature(env, ARM_FEATURE_PMU)) {
        return;
    }
    if (!own) {
        /* Before the other events, so that their deadlines are no later */
        count = pmu_insn_get(env, PMU_INSN(INST_RETIRED));
    }
    for (i = 0; i <= pmu_num_counters(env); i++) {
        unsigned counter = i == pmu_num_counters(env) ? 31 : i;
        int64_t until;

        if (pmu_insn_in_use(env, counter, &overflow[overflows], &until)) {
            counted |= pmu_insn_counted(overflow[overflows++].event);
            left = MIN(left, until);
        }
    }
    if (own) {
        qatomic_set(&c->changed, false);
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
            /* pmu_insn_get() has brought the totals up to date */
            pmu_insn_set_due(cs, left);
        }
        return;
    }

    /*
     * If nothing is due sooner than before, the vCPU goes on undisturbed, and
     * must look at the counters when something is.
     */
    qatomic_set(&c->changed, true);
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
    ARMPmuCount *c = &ARM_CPU(cs)->pmu_count;

    if (!qatomic_read(&c->changed)) {
        int64_t left = pmu_insn_left(c);

        if (left > 0) {
            /* Not every instruction has counted as much as it could have */
            pmu_insn_set_due(cs, left);
            return;
        }
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
    uint64_t total[PMU_LANES];
    unsigned i;

    if (qatomic_read(&c->changed)) {
        return c->insns.total[0][PMU_LANE_INST] + lanes[PMU_LANE_INST] >=
               c->due;
    }
    for (i = 0; i < PMU_LANES; i++) {
        total[i] = c->insns.total[0][i] + lanes[i];
    }
    total[PMU_LANE_STREX_FAIL] += lanes[PMU_LANE_STREX_PASS];
    for (i = 0; i < c->overflows; i++) {
        ARMPmuOverflow *o = &c->overflow[i];

        if ((int64_t)(pmu_insn_value(c, o->event, total) - o->at) >= 0) {
            return true;
        }
    }
    return false;
}

/*
 * Words 0 to 2 can be counted without the later ones. The first has what many
 * instructions add to, the second the other classes, so that most blocks add
 * to the first only.
 */
const InsnCountOps arm_insn_count_ops = {
    .offset = offsetof(ARMCPU, pmu_count.insns),
    /* Where the TLBs of stage 2 and of physical addresses are described */
    .word = INSN_COUNT_WORD_AT(ARMCPU, pmu_count.insns, 0x3a0),
    .units = PMU_LANE_INST,
    .domains = 1,
    .words = 7,
    .lanes = PMU_LANES,
    .lane = {
        [PMU_LANE_LD] = { 0, 0, 15 },
        [PMU_LANE_ST] = { 0, 15, 15 },
        [PMU_LANE_BR_IMMED] = { 0, 30, 15 },
        [PMU_LANE_BR_INDIRECT] = { 1, 0, 16 },
        [PMU_LANE_ATOMIC] = { 1, 16, 16 },
        [PMU_LANE_LD_BR] = { 1, 32, 16 },
        [PMU_LANE_OTHER] = { 1, 48, 16 },
        [PMU_LANE_PC_WRITE] = { 2, 0, 15 },
        [PMU_LANE_FRONTEND] = { 2, 15, 24 },
        [PMU_LANE_BACKEND] = { 2, 39, 24 },
        [PMU_LANE_BR_RETURN] = { 3, 0, 16 },
        [PMU_LANE_ASE] = { 3, 16, 16 },
        [PMU_LANE_VFP] = { 3, 32, 16 },
        [PMU_LANE_CRYPTO] = { 3, 48, 16 },
        [PMU_LANE_SVE] = { 4, 0, 16 },
        [PMU_LANE_LDREX] = { 4, 16, 16 },
        [PMU_LANE_STREX_PASS] = { 4, 32, 16 },
        [PMU_LANE_STREX_FAIL] = { 4, 48, 16 },
        [PMU_LANE_ISB] = { 5, 0, 16 },
        [PMU_LANE_DSB] = { 5, 16, 16 },
        [PMU_LANE_DMB] = { 5, 32, 16 },
        [PMU_LANE_CID_WRITE] = { 5, 48, 16 },
        [PMU_LANE_TTBR_WRITE] = { 6, 0, 16 },
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
