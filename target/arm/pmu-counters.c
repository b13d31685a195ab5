/*
 * Arm PMUv3: the CPU property "pmu-counters"
 *
 * The number of event counters is implementation defined; PMCR_EL0.N and the
 * reset value of MDCR_EL2.HPMN report it. The property replaces the number
 * that the CPU model has.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pmu-counters.h"
#include "internals.h"
#include "hw/qdev-properties.h"
#include "qapi/error.h"
#include "system/hw_accel.h"

static const Property arm_cpu_pmu_counters_prop =
    DEFINE_PROP_UINT8("pmu-counters", ARMCPU, pmu_counters, 0);

void arm_cpu_pmu_counters_add_prop(ARMCPU *cpu)
{
    qdev_property_add_static(DEVICE(cpu), &arm_cpu_pmu_counters_prop);
    object_property_set_description(OBJECT(cpu), "pmu-counters",
                                    "Number of PMU event counters, 1 to 31 "
                                    "(0: as the CPU model has)");
}

bool arm_cpu_pmu_counters_finalize(ARMCPU *cpu, Error **errp)
{
    unsigned n = cpu->pmu_counters;

    if (!n) {
        return true;
    }
    if (kvm_enabled() || hvf_enabled()) {
        error_setg(errp, "'pmu-counters' needs TCG, the number of counters is "
                   "that of the host otherwise");
        return false;
    }
    if (n > 31) {
        error_setg(errp, "'pmu-counters' must be in the range 1 to 31");
        return false;
    }
    if (!arm_feature(&cpu->env, ARM_FEATURE_PMU)) {
        error_setg(errp, "'pmu-counters' cannot be used with pmu=off");
        return false;
    }
    cpu->isar.reset_pmcr_el0 = deposit64(cpu->isar.reset_pmcr_el0,
                                         PMCRN_SHIFT, 5, n);
    return true;
}
