/*
 * Arm PMUv3: external view of a CPU's counters for on-chip agents
 *
 * See pmu-ext.h for the contract. An agent may sample a hundred CPUs every
 * millisecond with the BQL held. So these functions touch only the counters in
 * use, and the agent reads the clock once for all CPUs.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pmu-ext.h"
#include "qemu/main-loop.h"
#include "cpu.h"
#include "internals.h"
#include "machine-internal.h"
#include "migration/vmstate.h"
#include "pmu-internal.h"

/* PMCNTEN, PMINTEN and PMOVS bit of the cycle counter */
#define PMU_EXT_CYCLES (1U << 31)

/* First counter index above the range that @cfg covers on this CPU */
static unsigned pmu_ext_after_last(CPUARMState *env, const ArmPmuExtConfig *cfg)
{
    g_assert(cfg->nr_counters <= ARM_PMU_EXT_MAX_COUNTERS);
    return MIN(cfg->first + cfg->nr_counters, pmu_num_counters(env));
}

static uint64_t pmu_ext_mask(CPUARMState *env, const ArmPmuExtConfig *cfg)
{
    uint64_t mask = cfg->cycles ? PMU_EXT_CYCLES : 0;
    unsigned end = pmu_ext_after_last(env, cfg);

    if (end > cfg->first) {
        mask |= MAKE_64BIT_MASK(cfg->first, end - cfg->first);
    }
    return mask;
}

static uint16_t pmu_ext_event(CPUARMState *env, unsigned counter)
{
    return env->cp15.c14_pmevtyper[counter] & PMXEVTYPER_EVTCOUNT;
}

/*
 * The cycles of a CPU at the time @now of QEMU_CLOCK_VIRTUAL: one per ns. With
 * "pmu-topdown", cycles follow from issue slots, and only the present number is
 * known.
 */
static uint64_t pmu_ext_cycles_at(CPUARMState *env, int64_t now)
{
    return pmu_topdown_supported(env) ? pmu_get_CPU_CYCLES(env) : now;
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

void arm_pmu_ext_hold(ARMCPU *cpu)
{
    pmu_insn_hold(&cpu->env);
}

void arm_pmu_ext_release(ARMCPU *cpu)
{
    pmu_insn_release(&cpu->env);
}

bool arm_pmu_ext_start(ARMCPU *cpu, const ArmPmuExtConfig *cfg, int64_t now)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_after_last(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);

    g_assert(bql_locked());

    if (cpu->power_state != PSCI_ON) {
        return false;
    }

    if (cfg->cycles) {
        pmu_ext_write_pmcr(env, cfg->pmcr);
    }

    /*
     * The delta of a disabled counter is the current count of its event. The
     * delta of an enabled counter is that count minus the counter's value,
     * which is 0 here. So the deltas need no change when counters are enabled.
     */
    env->cp15.c9_pmcnten &= ~used;
    for (i = cfg->first; i < end; i++) {
        env->cp15.c14_pmevtyper[i] =
            cfg->evtyper[i - cfg->first] & PMXEVTYPER_MASK;
        env->cp15.c14_pmevcntr[i] = 0;
        if (pmu_ext_event(env, i) == PMU_CPU_CYCLES) {
            env->cp15.c14_pmevcntr_delta[i] = pmu_ext_cycles_at(env, now);
        } else {
            pmevcntr_op_start(env, i);
        }
    }
    if (cfg->cycles) {
        env->cp15.pmccfiltr_el0 = cfg->pmccfiltr & PMCCFILTR_EL0;
        env->cp15.c15_ccnt = 0;
        env->cp15.c15_ccnt_delta = pmu_ext_cycles_at(env, now);
    }

    env->cp15.c9_pmcnten |= used;
    for (i = cfg->first; i < end; i++) {
        /* Arm the overflow timer; a counter of 64 bits never overflows. */
        if (!pmevcntr_is_64_bit(env, i)) {
            pmevcntr_op_finish(env, i);
        }
    }
    if (cfg->cycles) {
        pmccntr_op_finish(env);
    }
    pmu_insn_update(env);

    env->pmu_state.ext_started = true;
    return true;
}

/* The value of an event counter in use at @now */
static uint64_t pmu_ext_evcntr(CPUARMState *env, unsigned i, int64_t now)
{
    if (pmu_ext_event(env, i) != PMU_CPU_CYCLES) {
        pmevcntr_op_start(env, i);
    } else if (pmu_counter_enabled(env, i)) {
        return pmu_ext_cycles_at(env, now) - env->cp15.c14_pmevcntr_delta[i];
    }
    return env->cp15.c14_pmevcntr[i];
}

static uint64_t pmu_ext_ccntr(CPUARMState *env, int64_t now)
{
    uint64_t cycles = pmu_ext_cycles_at(env, now);

    if (!pmu_counter_enabled(env, 31)) {
        return env->cp15.c15_ccnt;
    }
    return (pmccntr_clockdiv_enabled(env) ? cycles / 64 : cycles) -
           env->cp15.c15_ccnt_delta;
}

bool arm_pmu_ext_stop(ARMCPU *cpu, const ArmPmuExtConfig *cfg, int64_t now,
                      ArmPmuExtSample *sample)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_after_last(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);
    unsigned length = arm_pmu_ext_counter_bits(cpu);

    g_assert(bql_locked());

    if (!env->pmu_state.ext_started) {
        return false;
    }
    env->pmu_state.ext_started = false;

    memset(sample, 0, sizeof(*sample));
    for (i = cfg->first; i < end; i++) {
        sample->events[i - cfg->first] =
            extract64(pmu_ext_evcntr(env, i, now), 0, length);
        env->cp15.c14_pmevcntr[i] = 0;
    }
    if (cfg->cycles) {
        sample->cycles = pmu_ext_ccntr(env, now);
        env->cp15.c15_ccnt = 0;
    }
    /* The vCPU's thread writes these without the BQL; a recent value will do */
    sample->contextidr_el1 =
        qatomic_read_u64(&env->cp15.contextidr_el[1]);
    sample->contextidr_el2 =
        qatomic_read_u64(&env->cp15.contextidr_el[2]);

    /*
     * The CPU continues to count instructions until arm_pmu_ext_idle(), because
     * the next window probably needs them from its beginning.
     */
    env->cp15.c9_pmcnten &= ~used;
    if (env->cp15.c9_pmovsr & used) {
        env->cp15.c9_pmovsr &= ~used;
        pmu_update_irq(env);
    }
    return cpu->power_state == PSCI_ON;
}

void arm_pmu_ext_idle(ARMCPU *cpu)
{
    g_assert(bql_locked());
    pmu_insn_update(&cpu->env);
}

bool arm_pmu_ext_can_count(uint16_t event)
{
    return event_supported(event);
}

unsigned arm_pmu_ext_nr_counters(ARMCPU *cpu)
{
    return pmu_num_counters(&cpu->env);
}

unsigned arm_pmu_ext_counter_bits(ARMCPU *cpu)
{
    return cpu_isar_feature(any_pmuv3p5, cpu) ? 64 : 32;
}

static bool pmu_ext_needed(void *opaque)
{
    ARMCPU *cpu = opaque;

    return cpu->env.pmu_state.ext_started || cpu->pmu_count.topdown;
}

const VMStateDescription vmstate_arm_pmu_ext = {
    .name = "cpu/pmu-ext",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = pmu_ext_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(env.pmu_state.ext_started, ARMCPU),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription * const []) {
#ifdef CONFIG_TCG
        &vmstate_arm_pmu_topdown,
#endif
        NULL
    }
};
