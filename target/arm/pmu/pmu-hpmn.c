/*
 * Arm PMUv3: event counters that belong to EL2
 *
 * MDCR_EL2.HPMN divides the event counters. All levels can use the counters
 * below it; the counters from HPMN on belong to EL2. EL1 and EL0 do not see the
 * latter: PMCR_EL0.N does not include them, their bits in registers with a bit
 * for each counter are RAZ/WI, PMCR_EL0.P does not reset them, and accesses to
 * their own registers trap to EL2.
 *
 * The trap is architected with FEAT_FGT. Without FEAT_FGT, and for
 * PMXEVTYPER_EL0 and PMXEVCNTR_EL0, the architecture permits several
 * behaviours. The trap is one of these, and hypervisors expect it.
 *
 * Reference: Arm ARM (DDI 0487), MDCR_EL2.HPMN and "Accessing the
 * PMEVCNTR<n>_EL0".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "pmu-internal.h"

uint64_t pmu_globally_enabled(CPUARMState *env)
{
    uint64_t el2 = 0;

    if (arm_feature(env, ARM_FEATURE_EL2)) {
        /* Also while EL2 is disabled: not arm_mdcr_el2_eff() */
        el2 = MAKE_64BIT_MASK(0, 31) &
              -(1ULL << (env->cp15.mdcr_el2 & MDCR_HPMN));
    }
    return (env->cp15.c9_pmcr & PMCRE ? ~el2 : 0) |
           (env->cp15.mdcr_el2 & MDCR_HPME ? el2 : 0);
}

bool pmu_enabled_overflow(CPUARMState *env)
{
    return env->cp15.c9_pmovsr & env->cp15.c9_pminten &
           pmu_globally_enabled(env);
}

uint32_t pmu_visible_counters(CPUARMState *env)
{
    uint32_t n = pmu_num_counters(env);

    if (arm_current_el(env) <= 1 && arm_is_el2_enabled(env)) {
        return MIN(n, env->cp15.mdcr_el2 & MDCR_HPMN);
    }
    return n;
}

CPAccessResult pmu_hidden_access(CPUARMState *env, const ARMCPRegInfo *ri)
{
    unsigned counter;

    if (ri->crn == 14 && ri->crm >= 8) {
        /* PMEVCNTR<n> and PMEVTYPER<n>; PMCCFILTR has the number 31 */
        counter = (ri->crm & 3) << 3 | (ri->opc2 & 7);
    } else if (ri->crn == 9 && ri->crm == 13 && ri->opc2 > 0) {
        /* PMXEVTYPER and PMXEVCNTR; PMSELR may select PMCCFILTR as well */
        counter = env->cp15.c9_pmselr & 31;
    } else {
        return CP_ACCESS_OK;
    }
    return counter < pmu_num_counters(env) &&
           counter >= pmu_visible_counters(env) ? CP_ACCESS_TRAP_EL2 :
                                                  CP_ACCESS_OK;
}
