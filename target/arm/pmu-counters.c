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
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "system/hw_accel.h"

#define MAX_COUNTERS    31

static void arm_cpu_get_pmu_counters(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    visit_type_uint8(v, name, &ARM_CPU(obj)->pmu_counters, errp);
}

static void arm_cpu_set_pmu_counters(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    uint8_t n;

    if (DEVICE(obj)->realized) {
        error_setg(errp, "'pmu-counters' cannot be changed any more");
        return;
    }
    if (!visit_type_uint8(v, name, &n, errp)) {
        return;
    }
    if (n > MAX_COUNTERS) {
        error_setg(errp, "'pmu-counters' must be in the range 1 to %u",
                   MAX_COUNTERS);
        return;
    }
    ARM_CPU(obj)->pmu_counters = n;
}

void arm_cpu_pmu_counters_add_prop(ARMCPU *cpu)
{
    object_property_add(OBJECT(cpu), "pmu-counters", "uint8",
                        arm_cpu_get_pmu_counters, arm_cpu_set_pmu_counters,
                        NULL, NULL);
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
    if (!arm_feature(&cpu->env, ARM_FEATURE_PMU)) {
        error_setg(errp, "'pmu-counters' cannot be used with pmu=off");
        return false;
    }
    cpu->isar.reset_pmcr_el0 = deposit64(cpu->isar.reset_pmcr_el0,
                                         PMCRN_SHIFT, 5, n);
    return true;
}
