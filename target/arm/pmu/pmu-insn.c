/*
 * Arm PMUv3: events that count instructions
 *
 * The TCG accelerator counts instructions, see accel/tcg/insn-count.h, and
 * count.c tells it which lanes each instruction adds to. It counts only
 * while a counter needs that which is enabled at the current exception level.
 *
 * An instruction counts if counting is on when the instruction starts. So an
 * instruction that changes a counter is counted by the old setting, and an
 * instruction that reads a counter counts in the value that it reads. An
 * instruction has not retired if its exception returns to it (UNDEF, BRK,
 * traps, aborts). SVC, HVC and SMC have retired, and so has an AArch32
 * instruction whose condition fails.
 *
 * Counters are programmed by instructions that end their block, at changes of
 * exception level, and by other threads: the PMU timer, and devices through
 * pmu-ext.c. All of them hold the BQL.
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
#include "qemu/pmu-compat.h"
#include "system/tcg.h"
#include "tcg/insn-start-words.h"
#ifdef CONFIG_TCG
#include "tcg/tcg.h"
#endif

#ifndef CONFIG_USER_ONLY

/* The narrowest lane has room for one instruction more than this. */
#define PMU_LANE_LIMIT (MAKE_64BIT_MASK(0, 15) - 1)

/*
 * The most instructions that insn_count_pass() lets a vCPU execute beyond a
 * deadline, about those of a millisecond. Then the vCPU also sees what other
 * threads have changed.
 */
#define PMU_LOOK_INSNS (1 << 20)

/*
 * A deadline in at most so many instructions is near. While it is,
 * insn_count_pass() lets blocks start that do not add to the event, for the
 * price of six blocks (measured). For a farther one, to call the hook now and
 * then costs less.
 */
#define PMU_NEAR 128

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
    /* No timer: pmu_insn_update() sets a deadline. */
    return -1;
}

#ifdef CONFIG_TCG

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

/* The event of this number, or PMU_INSN_EVENTS if instructions count none */
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

/* The value of an event, given the totals of the lanes */
static uint64_t pmu_insn_value(const ARMPmuCount *c, ARMPmuInsnEvent event,
                               const uint64_t *total)
{
    uint64_t value = 0;
    uint32_t lanes;

    if (pmu_insn_events[event].slots) {
        return pmu_topdown_value(c, event, total);
    }
    for (lanes = pmu_insn_events[event].plus; lanes; lanes &= lanes - 1) {
        value += total[ctz32(lanes)];
    }
    for (lanes = pmu_insn_events[event].minus; lanes; lanes &= lanes - 1) {
        value -= total[ctz32(lanes)];
    }
    return value;
}

/*
 * Lower bounds of the totals of an event's lanes, for a vCPU that may be inside
 * a block: less the most that a block adds. Lanes that the event subtracts keep
 * their totals: their words are not read before the others, so that they are
 * not older, on a host that keeps stores in order.
 */
static void pmu_insn_without_block(ARMPmuInsnEvent event,
                                   const uint64_t *total, uint64_t *least)
{
    uint32_t lanes;

    for (lanes = pmu_insn_events[event].plus; lanes; lanes &= lanes - 1) {
        unsigned lane = ctz32(lanes);

        least[lane] = total[lane] - MIN(insn_count_block_most(lane),
                                        total[lane]);
    }
    for (lanes = pmu_insn_events[event].minus; lanes; lanes &= lanes - 1) {
        least[ctz32(lanes)] = total[ctz32(lanes)];
    }
}

/* Is this the vCPU's own thread, or does that thread not exist yet? */
static bool pmu_insn_is_own(CPUState *cs)
{
    return !cs->created || qemu_cpu_is_self(cs);
}

#endif

/*
 * The value of an event. It is exact on the vCPU's own thread, and while the
 * vCPU does not execute code. While the vCPU executes code, another thread gets
 * a value that is too low by at most what blocks of this guest add. The value
 * never decreases from one call to the next.
 */
static uint64_t pmu_insn_get(CPUARMState *env, ARMPmuInsnEvent event)
{
#ifdef CONFIG_TCG
    CPUState *cs = env_cpu(env);
    ARMPmuCount *c = &env_archcpu(env)->pmu_count;
    uint64_t read[PMU_LANES], least[PMU_LANES], *total = read, value;
    bool exact;

    if (c->holds) {
        total = c->held;
        exact = c->held_exact;
    } else if (pmu_insn_is_own(cs)) {
        insn_count_sync(cs, 0);
        total = c->insns.total[0];
        exact = true;
    } else {
        exact = insn_count_read(cs, pmu_insn_events[event].plus |
                                    pmu_insn_events[event].minus, total);
    }
    if (!exact) {
        /* The current block may end early, so do not count it. */
        pmu_insn_without_block(event, total, least);
        total = least;
    }
    value = pmu_insn_value(c, event, total);
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

void pmu_insn_hold(CPUARMState *env)
{
    CPUState *cs = env_cpu(env);
    ARMPmuCount *c = &env_archcpu(env)->pmu_count;

    if (insn_count_available() && !pmu_insn_is_own(cs)) {
        c->held_exact = insn_count_read(cs, MAKE_64BIT_MASK(0, PMU_LANES),
                                        c->held);
        c->holds = true;
    }
}

void pmu_insn_release(CPUARMState *env)
{
    env_archcpu(env)->pmu_count.holds = false;
}

/* The words that blocks must count for an event, for insn_count_enable() */
static unsigned pmu_insn_counted(ARMPmuInsnEvent event)
{
    uint32_t lanes = pmu_insn_events[event].plus | pmu_insn_events[event].minus;
    unsigned counted = INSN_COUNT_UNITS;

    for (lanes &= ~PMU_LANE(INST); lanes; lanes &= lanes - 1) {
        counted |= INSN_COUNT_WORD(arm_insn_count_ops.lane[ctz32(lanes)].word);
    }
    return counted;
}

/* How many instructions can be executed before @o can overflow? */
static int64_t pmu_insn_until(const ARMPmuCount *c, const ARMPmuOverflow *o,
                              uint64_t value)
{
    uint64_t left = o->at - value;

    if (!left || left > 1ULL << 63) {
        /* A difference of more than half of the numbers is negative. */
        return 0;
    }
    if (pmu_insn_events[o->event].slots) {
        left = pmu_topdown_fewest(&c->slots, o->event, left);
    }
    return MIN(left, INT64_MAX);
}

/*
 * At which count does this counter (31 for PMCCNTR) overflow next, and how many
 * instructions can be executed before? Returns false if the counter is not in
 * use, or counts no event of instructions.
 *
 * pmevcntr_op_start() detects an overflow when the top bit of the counter goes
 * from 1 to 0, and so must see the bit at 1. Hence a change of the top bit to 1
 * is treated like an overflow here.
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
    /* Without "pmu-topdown", CPU_CYCLES follows the clock, as in stock QEMU. */
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

/* The words of an event's lanes; 0 for events that any block may count */
static unsigned pmu_insn_words_due(ARMPmuInsnEvent event)
{
    uint32_t lanes = pmu_insn_events[event].plus | pmu_insn_events[event].minus;
    unsigned words = 0;

    for (; lanes; lanes &= lanes - 1) {
        words |= 1 << arm_insn_count_ops.lane[ctz32(lanes)].word;
    }
    return words & 1 ? 0 : words;
}

/*
 * Set the deadline of the first overflow. Returns false if there has been one.
 * Call this on the vCPU's thread, after insn_count_sync().
 */
static bool pmu_insn_set_due(CPUState *cs)
{
    ARMPmuCount *c = &ARM_CPU(cs)->pmu_count;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    int64_t left = INSN_COUNT_NEVER, any = PMU_LOOK_INSNS;
    unsigned i, words = 0;

    for (i = 0; i < c->overflows; i++) {
        const ARMPmuOverflow *o = &c->overflow[i];
        int64_t until = pmu_insn_until(c, o, pmu_insn_value(
                                           c, o->event, c->insns.total[0]));
        unsigned of_event = until > PMU_NEAR ? 0
                                             : pmu_insn_words_due(o->event);

        left = MIN(left, until);
        words |= of_event;
        if (!of_event) {
            any = MIN(any, until);
        }
    }
    if (!left) {
        return false;
    }
    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = left;
    }
    c->insns.due_any = any;
    c->insns.due_words = words;
    insn_count_set_deadlines(cs, 0, due);
    qatomic_set_u64(&c->due, c->insns.total[0][PMU_LANE_INST] +
                             MAX(left, any));
    return true;
}

/* Run pmu_insn_update() on the vCPU's thread for another thread. */
static void pmu_insn_work(CPUState *cs, run_on_cpu_data asked_at)
{
    ARMCPU *cpu = ARM_CPU(cs);
    ARMPmuCount *c = &cpu->pmu_count;

    if (c->count_since_request && !c->insns.counted) {
        /*
         * With -icount, only this CPU has executed instructions since the
         * request, and their number is known. Count them, because counting was
         * on from the point of view of the thread that made the request.
         */
        c->insns.total[0][PMU_LANE_INST] +=
            icount_get_raw() - asked_at.target_ptr;
    }
    c->pending = false;
    c->count_since_request = false;
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
    bool own = pmu_insn_is_own(cs), slots = false;

    if (env->cp15.c9_pmovsr & env->cp15.c9_pminten) {
        /* What else the interrupt depends on may have changed. */
        pmu_update_irq(env);
    }
    if (!insn_count_available() ||
        (!arm_feature(env, ARM_FEATURE_PMU) && !c->insns.wanted)) {
        return;
    }
    if (!own) {
        /* Read this first, so that no deadline below is too late. */
        count = pmu_insn_get(env, PMU_INSN(INST_RETIRED));
    }
    for (i = 0; i <= pmu_num_counters(env); i++) {
        unsigned counter = i == pmu_num_counters(env) ? 31 : i;
        int64_t until;

        if (pmu_insn_in_use(env, counter, &overflow[overflows], &until)) {
            ARMPmuInsnEvent event = overflow[overflows++].event;

            counted |= pmu_insn_counted(event);
            slots |= pmu_insn_events[event].slots;
            left = MIN(left, until);
        }
    }
    if (own) {
        qatomic_set(&c->changed, false);
        if (!counted && !c->insns.wanted) {
            return;
        }
        insn_count_sync(cs, 0);
        pmu_topdown_switch(c, slots, c->insns.total[0]);
        insn_count_enable(cs, counted, true);
        /* Lanes that are no longer wanted may still be counted for a while. */
        c->insns.limit = c->insns.counted & ~INSN_COUNT_UNITS ? PMU_LANE_LIMIT
                                                              : 0;
        c->overflows = overflows;
        memcpy(c->overflow, overflow, overflows * sizeof(*overflow));
        if (counted) {
            pmu_insn_set_due(cs);
        }
        return;
    }

    if (slots && !c->slots_on) {
        /* If it still counts, it does so from here on. */
        uint64_t total[PMU_LANES];

        insn_count_read(cs, MAKE_64BIT_MASK(0, PMU_LANES), total);
        pmu_topdown_switch(c, true, total);
    }

    /*
     * Leave the vCPU undisturbed if its next deadline is not later than that
     * of the new counters. It looks at the new counters at its deadline.
     */
    qatomic_set(&c->changed, true);
    /* Pairs with that of pmu_insn_deadline(): @changed before @due */
    smp_mb();
    if (!c->pending && (counted != qatomic_read(&c->insns.wanted) ||
                        slots != c->slots_on ||
                        (counted && (int64_t)(count + left -
                                            qatomic_read_u64(&c->due)) < 0))) {
        run_on_cpu_data now = RUN_ON_CPU_NULL;

        c->pending = true;
        if (icount_enabled() && qatomic_read(&cs->running)) {
            c->count_since_request = counted != 0;
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

    /* The instructions may have counted less than they could have. */
    if (!qatomic_read(&c->changed) && pmu_insn_set_due(cs)) {
        /*
         * Another thread may have changed counters meanwhile, and have
         * compared them with the deadline before this one.
         */
        smp_mb();
        if (!qatomic_read(&c->changed)) {
            return;
        }
    }
    BQL_LOCK_GUARD();
    pmu_detect_overflows(env);
}

/*
 * Would a counter overflow in a block? It is not known in advance whether a
 * store-exclusive fails and whether an AArch32 condition passes: assume the
 * outcome that counts most.
 */
static bool pmu_insn_reaches(CPUState *cs, unsigned domain,
                             const uint64_t *lanes, bool loose)
{
    ARMPmuCount *c = &ARM_CPU(cs)->pmu_count;
    uint64_t total[PMU_LANES];
    unsigned i;

    if (qatomic_read(&c->changed) &&
        c->insns.total[0][PMU_LANE_INST] + lanes[PMU_LANE_INST] >= c->due) {
        return true;
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
 * Words 0 to 2 can be counted without the later ones. Word 0 has the lanes that
 * many instructions add to, and word 1 has the other classes, so that most
 * blocks add to word 0 only. What many of the other blocks add to has the lower
 * half of its word: to that, hosts can add a constant without loading it first.
 */
const InsnCountOps arm_insn_count_ops = {
    .offset = offsetof(ARMCPU, pmu_count.insns),
    /* Aliases the TLB descriptors of stage 2 and of physical addresses */
    .word = INSN_COUNT_WORD_AT(ARMCPU, pmu_count.insns, 0x3a0),
    .units_lane = PMU_LANE_INST,
    .domains = 1,
    .start_words = INSN_START_WORDS,
    .words = 7,
    .lanes = PMU_LANES,
    .lane = {
        [PMU_LANE_LD] = { 0, 0, 15 },
        [PMU_LANE_ST] = { 0, 15, 15 },
        [PMU_LANE_BR_IMMED] = { 0, 30, 15 },
        [PMU_LANE_BR_INDIRECT] = { 1, 0, 16 },
        [PMU_LANE_OTHER] = { 1, 16, 16 },
        [PMU_LANE_ATOMIC] = { 1, 32, 16 },
        [PMU_LANE_LD_BR] = { 1, 48, 16 },
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

void pmu_insn_hold(CPUARMState *env)
{
}

void pmu_insn_release(CPUARMState *env)
{
}

void pmu_insn_update(CPUARMState *env)
{
}

#endif
