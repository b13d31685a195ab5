/*
 * Arm PMUv3: external view of a CPU's counters for on-chip agents
 *
 * See pmu-ext.h for the contract. An agent may sample a hundred CPUs every
 * millisecond with the BQL held, so only the counters in use are touched, and
 * the current count of an event is taken only once per CPU.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "target/arm/pmu-ext.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "internals.h"
#include "pmu-internal.h"

/* PMCNTEN, PMINTEN and PMOVS bit of the cycle counter */
#define PMU_EXT_CYCLES (1U << 31)

/* The event that the cycle counter counts, too */
#define PMU_EXT_CPU_CYCLES 0x11

/* CPUARMState.pmu_ext_flags, all 0 after a reset of the CPU */
#define PMU_EXT_STARTED (1U << 0)   /* from arm_pmu_ext_start() to _read() */
#define PMU_EXT_SAVED   (1U << 1)   /* from arm_pmu_ext_save() to _restore() */

/* First counter index above the range that @cfg covers on this CPU */
static unsigned pmu_ext_end(CPUARMState *env, const ArmPmuExtConfig *cfg)
{
    g_assert(cfg->nr_counters <= ARM_PMU_EXT_MAX_COUNTERS);
    return MIN(cfg->first + cfg->nr_counters, pmu_num_counters(env));
}

static uint64_t pmu_ext_mask(CPUARMState *env, const ArmPmuExtConfig *cfg)
{
    uint64_t mask = cfg->cycles ? PMU_EXT_CYCLES : 0;
    unsigned end = pmu_ext_end(env, cfg);

    if (end > cfg->first) {
        mask |= MAKE_64BIT_MASK(cfg->first, end - cfg->first);
    }
    return mask;
}

/*
 * While counters are between op_start and op_finish, their delta is the current
 * count of the event. Find it in a counter that has been through op_start
 * before @counter: the cycle counter, or an event counter below this one.
 */
static bool pmu_ext_current_count(CPUARMState *env, const ArmPmuExtConfig *cfg,
                                  unsigned counter, uint64_t *count)
{
    uint16_t event = env->cp15.c14_pmevtyper[counter] & PMXEVTYPER_EVTCOUNT;
    unsigned i;

    if (cfg->cycles && event == PMU_EXT_CPU_CYCLES) {
        *count = env->cp15.c15_ccnt_delta;
        return true;
    }
    for (i = cfg->first; i < counter; i++) {
        if ((env->cp15.c14_pmevtyper[i] & PMXEVTYPER_EVTCOUNT) == event) {
            *count = env->cp15.c14_pmevcntr_delta[i];
            return true;
        }
    }
    return false;
}

/*
 * op_start for all counters in use, which are disabled: take the current
 * counts as the baselines.
 */
static void pmu_ext_set_baseline(CPUARMState *env, const ArmPmuExtConfig *cfg)
{
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t count;

    if (cfg->cycles) {
        pmccntr_op_start(env);
    }
    for (i = cfg->first; i < end; i++) {
        if (pmu_ext_current_count(env, cfg, i, &count)) {
            env->cp15.c14_pmevcntr_delta[i] = count;
        } else {
            pmevcntr_op_start(env, i);
        }
    }
}

static void pmu_ext_write_pmcr(CPUARMState *env, uint32_t value)
{
    uint32_t mask = PMCR_WRITABLE_MASK;

    if (!cpu_isar_feature(any_pmuv3p5, env_archcpu(env))) {
        /* LP is RES0 before FEAT_PMUv3p5 */
        value &= ~PMCRLP;
    }
    value = (env->cp15.c9_pmcr & ~mask) | (value & mask);
    if (value != env->cp15.c9_pmcr) {
        /* PMCR concerns every counter of this CPU, used here or not */
        pmu_op_start(env);
        env->cp15.c9_pmcr = value;
        pmu_op_finish(env);
    }
}

bool arm_pmu_ext_start(ARMCPU *cpu, const ArmPmuExtConfig *cfg)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);

    g_assert(bql_locked());

    if (cpu->power_state != PSCI_ON) {
        return false;
    }

    if (cfg->cycles) {
        pmu_ext_write_pmcr(env, cfg->pmcr);
    }

    /*
     * While the counters are disabled, op_start takes the current count of
     * the new event as the baseline, without a look at what an earlier event
     * left behind.
     */
    env->cp15.c9_pmcnten &= ~used;
    for (i = cfg->first; i < end; i++) {
        env->cp15.c14_pmevtyper[i] =
            cfg->evtyper[i - cfg->first] & PMXEVTYPER_MASK;
        env->cp15.c14_pmevcntr[i] = 0;
    }
    if (cfg->cycles) {
        env->cp15.pmccfiltr_el0 = cfg->pmccfiltr & PMCCFILTR_EL0;
        env->cp15.c15_ccnt = 0;
    }
    pmu_ext_set_baseline(env, cfg);

    env->cp15.c9_pmcnten |= used;
    for (i = cfg->first; i < end; i++) {
        /*
         * The baseline is the delta already, because the counter is 0. What
         * remains to be done is the timer for an overflow, and 64 bits do not
         * overflow.
         */
        if (!pmevcntr_is_64_bit(env, i)) {
            pmevcntr_op_finish(env, i);
        }
    }
    if (cfg->cycles) {
        pmccntr_op_finish(env);
    }
    pmu_insn_update(env);

    env->pmu_ext_flags |= PMU_EXT_STARTED;
    return true;
}

void arm_pmu_ext_stop(ARMCPU *cpu, const ArmPmuExtConfig *cfg)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t count;

    g_assert(bql_locked());

    if (!(env->pmu_ext_flags & PMU_EXT_STARTED)) {
        return;
    }

    if (cfg->cycles) {
        pmccntr_op_start(env);
    }
    for (i = cfg->first; i < end; i++) {
        if (!pmu_ext_current_count(env, cfg, i, &count)) {
            pmevcntr_op_start(env, i);
        } else if (pmu_counter_enabled(env, i)) {
            /* No need to look for an overflow: PMOVS is cleared on reading */
            env->cp15.c14_pmevcntr[i] =
                count - env->cp15.c14_pmevcntr_delta[i];
        }
    }
    /*
     * Disabled counters have no delta form, so there is nothing to finish.
     * The CPU goes on to count instructions until arm_pmu_ext_end(): the next
     * window is likely to need them from its beginning.
     */
    env->cp15.c9_pmcnten &= ~pmu_ext_mask(env, cfg);
}

bool arm_pmu_ext_read(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                      uint64_t *events, uint64_t *cycles)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);
    bool valid = cpu->power_state == PSCI_ON;
    unsigned length = arm_pmu_ext_counter_bits(cpu);

    g_assert(bql_locked());

    if (!(env->pmu_ext_flags & PMU_EXT_STARTED)) {
        return false;
    }
    env->pmu_ext_flags &= ~PMU_EXT_STARTED;

    for (i = cfg->first; i < cfg->first + cfg->nr_counters; i++) {
        if (valid) {
            events[i - cfg->first] = i < end ?
                extract64(env->cp15.c14_pmevcntr[i], 0, length) : 0;
        }
        if (i < end) {
            env->cp15.c14_pmevcntr[i] = 0;
        }
    }
    if (cfg->cycles) {
        if (valid) {
            *cycles = env->cp15.c15_ccnt;
        }
        env->cp15.c15_ccnt = 0;
    }
    if (env->cp15.c9_pmovsr & used) {
        env->cp15.c9_pmovsr &= ~used;
        pmu_update_irq(env);
    }
    return valid;
}

void arm_pmu_ext_end(ARMCPU *cpu)
{
    g_assert(bql_locked());
    pmu_insn_update(&cpu->env);
}

bool arm_pmu_ext_started(ARMCPU *cpu)
{
    return cpu->env.pmu_ext_flags & PMU_EXT_STARTED;
}

bool arm_pmu_ext_saved(ARMCPU *cpu)
{
    return cpu->env.pmu_ext_flags & PMU_EXT_SAVED;
}

void arm_pmu_ext_set_flags(ARMCPU *cpu, bool started, bool saved)
{
    cpu->env.pmu_ext_flags = (started ? PMU_EXT_STARTED : 0) |
                             (saved ? PMU_EXT_SAVED : 0);
}

bool arm_pmu_ext_save(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                      ArmPmuExtState *state)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);

    g_assert(bql_locked());

    if (cpu->power_state != PSCI_ON) {
        return false;
    }

    memset(state, 0, sizeof(*state));
    pmu_op_start(env);
    for (i = cfg->first; i < end; i++) {
        state->evcntr[i - cfg->first] = env->cp15.c14_pmevcntr[i];
        state->evtyper[i - cfg->first] = env->cp15.c14_pmevtyper[i];
    }
    if (cfg->cycles) {
        state->ccntr = env->cp15.c15_ccnt;
        state->ccfiltr = env->cp15.pmccfiltr_el0;
        state->pmcr = env->cp15.c9_pmcr;
    }
    state->cnten = env->cp15.c9_pmcnten & pmu_ext_mask(env, cfg);
    state->ovs = env->cp15.c9_pmovsr & pmu_ext_mask(env, cfg);
    pmu_op_finish(env);

    env->pmu_ext_flags |= PMU_EXT_SAVED;
    return true;
}

void arm_pmu_ext_restore(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                         const ArmPmuExtState *state)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);

    g_assert(bql_locked());

    if (!(env->pmu_ext_flags & PMU_EXT_SAVED)) {
        return;
    }
    env->pmu_ext_flags &= ~PMU_EXT_SAVED;

    if (cfg->cycles) {
        pmu_ext_write_pmcr(env, state->pmcr);
    }

    /* The same order as in arm_pmu_ext_start(), for the same reason */
    env->cp15.c9_pmcnten &= ~used;
    for (i = cfg->first; i < end; i++) {
        env->cp15.c14_pmevtyper[i] =
            state->evtyper[i - cfg->first] & PMXEVTYPER_MASK;
        env->cp15.c14_pmevcntr[i] = state->evcntr[i - cfg->first];
    }
    if (cfg->cycles) {
        env->cp15.pmccfiltr_el0 = state->ccfiltr & PMCCFILTR_EL0;
        env->cp15.c15_ccnt = state->ccntr;
    }
    pmu_ext_set_baseline(env, cfg);

    env->cp15.c9_pmcnten |= state->cnten & used;
    for (i = cfg->first; i < end; i++) {
        pmevcntr_op_finish(env, i);
    }
    if (cfg->cycles) {
        pmccntr_op_finish(env);
    }
    pmu_insn_update(env);

    env->cp15.c9_pmovsr = (env->cp15.c9_pmovsr & ~used) | (state->ovs & used);
    pmu_update_irq(env);
}

bool arm_pmu_ext_can_count(ARMCPU *cpu, uint16_t event)
{
    /* The common events, which are the only ones that QEMU has */
    if (event < 0x20) {
        return extract64(cpu->pmceid0, event, 1);
    }
    return event < 0x40 && extract64(cpu->pmceid1, event - 0x20, 1);
}

unsigned arm_pmu_ext_nr_counters(ARMCPU *cpu)
{
    return pmu_num_counters(&cpu->env);
}

unsigned arm_pmu_ext_counter_bits(ARMCPU *cpu)
{
    return cpu_isar_feature(any_pmuv3p5, cpu) ? 64 : 32;
}

void arm_pmu_ext_contextidr(ARMCPU *cpu, uint32_t *el1, uint32_t *el2)
{
    CPUARMState *env = &cpu->env;

    /* The vCPU thread writes these without the BQL; any recent value will do */
    *el1 = qatomic_read__nocheck(&env->cp15.contextidr_el[1]);
    *el2 = qatomic_read__nocheck(&env->cp15.contextidr_el[2]);
}
