/*
 * Arm PMUv3: external view of a CPU's counters for on-chip agents
 *
 * See pmu-ext.h for the contract. Only the counters in use are touched: an
 * agent that samples every millisecond must not pay for all the counters of
 * all CPUs.
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
        pmevcntr_op_start(env, i);
    }
    if (cfg->cycles) {
        env->cp15.pmccfiltr_el0 = cfg->pmccfiltr & PMCCFILTR_EL0;
        env->cp15.c15_ccnt = 0;
        pmccntr_op_start(env);
    }

    env->cp15.c9_pmcnten |= used;
    for (i = cfg->first; i < end; i++) {
        pmevcntr_op_finish(env, i);
    }
    if (cfg->cycles) {
        pmccntr_op_finish(env);
    }

    env->pmu_ext_in_use = true;
    return true;
}

void arm_pmu_ext_stop(ARMCPU *cpu, const ArmPmuExtConfig *cfg)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);

    g_assert(bql_locked());

    if (!env->pmu_ext_in_use) {
        return;
    }

    for (i = cfg->first; i < end; i++) {
        pmevcntr_op_start(env, i);
    }
    if (cfg->cycles) {
        pmccntr_op_start(env);
    }
    /* Disabled counters have no delta form, so there is nothing to finish */
    env->cp15.c9_pmcnten &= ~pmu_ext_mask(env, cfg);
}

bool arm_pmu_ext_read(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                      uint64_t *events, uint64_t *cycles)
{
    CPUARMState *env = &cpu->env;
    unsigned i, end = pmu_ext_end(env, cfg);
    uint64_t used = pmu_ext_mask(env, cfg);
    bool valid = cpu->power_state == PSCI_ON;
    int length = cpu_isar_feature(any_pmuv3p5, cpu) ? 64 : 32;

    g_assert(bql_locked());

    if (!env->pmu_ext_in_use) {
        return false;
    }
    env->pmu_ext_in_use = false;

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

bool arm_pmu_ext_in_use(ARMCPU *cpu)
{
    return cpu->env.pmu_ext_in_use;
}

void arm_pmu_ext_set_in_use(ARMCPU *cpu)
{
    cpu->env.pmu_ext_in_use = true;
}

void arm_pmu_ext_contextidr(ARMCPU *cpu, uint32_t *el1, uint32_t *el2)
{
    CPUARMState *env = &cpu->env;

    /* The vCPU thread writes these without the BQL; any recent value will do */
    *el1 = qatomic_read(&env->cp15.contextidr_el[1]);
    *el2 = qatomic_read(&env->cp15.contextidr_el[2]);
}
