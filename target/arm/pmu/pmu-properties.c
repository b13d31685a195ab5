/*
 * Arm PMUv3: the CPU properties "pmu-counters" and "pmu-topdown"
 *
 * The number of event counters is implementation defined; PMCR_EL0.N and the
 * reset value of MDCR_EL2.HPMN report it. "pmu-counters" replaces the number
 * that the CPU model has.
 *
 * "pmu-topdown" gives the CPU the events of pmu-topdown.c, and lets cycles
 * follow from issue slots.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pmu-properties.h"
#include "pmu-internal.h"
#include "internals.h"
#include "machine-internal.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/error-report.h"
#include "system/hw_accel.h"

static void arm_cpu_get_pmu_counters(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    visit_type_uint8(v, name, &ARM_CPU(obj)->pmu_counters, errp);
}

static bool pmu_can_be_changed(Object *obj, const char *name, Error **errp)
{
    if (DEVICE(obj)->realized) {
        error_setg(errp, "'%s' can no longer be changed", name);
        return false;
    }
    return true;
}

static void arm_cpu_set_pmu_counters(Object *obj, Visitor *v, const char *name,
                                     void *opaque, Error **errp)
{
    uint8_t n;

    if (!pmu_can_be_changed(obj, name, errp) ||
        !visit_type_uint8(v, name, &n, errp)) {
        return;
    }
    if (n > PMU_MAX_COUNTERS) {
        error_setg(errp, "'pmu-counters' must be in the range 1 to %u",
                   PMU_MAX_COUNTERS);
        return;
    }
    ARM_CPU(obj)->pmu_counters = n;
}

static bool arm_cpu_finalize_pmu_counters(ARMCPU *cpu, Error **errp)
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

#ifndef CONFIG_USER_ONLY

static bool arm_cpu_get_pmu_topdown(Object *obj, Error **errp)
{
    return ARM_CPU(obj)->pmu_count.topdown;
}

static void arm_cpu_set_pmu_topdown(Object *obj, bool value, Error **errp)
{
    if (pmu_can_be_changed(obj, "pmu-topdown", errp)) {
        ARM_CPU(obj)->pmu_count.topdown = value;
    }
}

static bool arm_cpu_finalize_pmu_topdown(ARMCPU *cpu, Error **errp)
{
    if (!cpu->pmu_count.topdown) {
        return true;
    }
    if (!arm_feature(&cpu->env, ARM_FEATURE_PMU)) {
        error_setg(errp, "'pmu-topdown' cannot be used with pmu=off");
        return false;
    }
    if (!cpu_isar_feature(any_pmuv3p4, cpu)) {
        error_setg(errp, "'pmu-topdown' needs a CPU model with FEAT_PMUv3p4, "
                   "such as neoverse-v1, neoverse-n2, or max");
        return false;
    }
    if (!pmu_insn_supported(&cpu->env)) {
        error_setg(errp, "'pmu-topdown' needs TCG on a 64-bit host");
        return false;
    }
    pmu_topdown_init(cpu);
    return true;
}

/* A register of the PMU in a stream */
#define PMU_REG(op1, crn, crm, op2)                                         \
    (CP_REG_ARM64 | CP_REG_SIZE_U64 | CP_REG_ARM64_SYSREG |                 \
     3ULL << CP_REG_ARM64_SYSREG_OP0_SHIFT |                                \
     (op1) << CP_REG_ARM64_SYSREG_OP1_SHIFT |                               \
     (crn) << CP_REG_ARM64_SYSREG_CRN_SHIFT |                               \
     (crm) << CP_REG_ARM64_SYSREG_CRM_SHIFT |                               \
     (op2) << CP_REG_ARM64_SYSREG_OP2_SHIFT)
#define PMU_PMCR_EL0        PMU_REG(3, 9, 12, 0)
#define PMU_PMMIR_EL1       PMU_REG(0, 9, 14, 6)

/* Set @value to that of a register of the stream; false if it has none. */
static bool arm_cpu_incoming(const ARMCPU *cpu, uint64_t index, uint64_t *value)
{
    int i;

    for (i = 0; i < cpu->cpreg_vmstate_array_len; i++) {
        if (cpu->cpreg_vmstate_indexes[i] == index) {
            *value = cpu->cpreg_vmstate_values[i];
            return true;
        }
    }
    return false;
}

void arm_cpu_pmu_pre_load(ARMCPU *cpu)
{
    /* PMEVCNTR<n> and PMEVTYPER<n> */
    int n = cpu->cpreg_array_len + 2 * PMU_MAX_COUNTERS;

    cpu->cpreg_vmstate_indexes = g_renew(uint64_t, cpu->cpreg_vmstate_indexes,
                                         n);
    cpu->cpreg_vmstate_values = g_renew(uint64_t, cpu->cpreg_vmstate_values, n);
    cpu->cpreg_vmstate_array_len = n;
    /* Registers that the stream lacks keep their values. */
    write_cpustate_to_list(cpu, false);
}

bool arm_cpu_pmu_same_properties(ARMCPU *cpu)
{
    unsigned n = extract32(cpu->isar.reset_pmcr_el0, PMCRN_SHIFT, 5), other;
    uint64_t pmcr, pmmir;

    if (kvm_enabled()) {
        return true;
    }
    if (arm_cpu_incoming(cpu, PMU_PMCR_EL0, &pmcr)) {
        other = extract32(pmcr, PMCRN_SHIFT, 5);
        /* All CPUs of QEMU 7.1 and before had 4 counters. */
        if (other != n && (other != 4 || cpu->pmu_counters)) {
            error_report("the CPU of the stream has pmu-counters=%u, this one "
                         "has %u: give both the same", other, n);
            return false;
        }
    }
    if (arm_cpu_incoming(cpu, PMU_PMMIR_EL1, &pmmir) &&
        (pmmir != 0) != cpu->pmu_count.topdown) {
        error_report("the CPU of the stream has pmu-topdown=%s, this one has "
                     "%s: give both the same", pmmir ? "on" : "off",
                     cpu->pmu_count.topdown ? "on" : "off");
        return false;
    }
    return true;
}

static void arm_cpu_pmu_add_topdown(ARMCPU *cpu)
{
    object_property_add_bool(OBJECT(cpu), "pmu-topdown",
                             arm_cpu_get_pmu_topdown, arm_cpu_set_pmu_topdown);
    object_property_set_description(OBJECT(cpu), "pmu-topdown",
                                    "Count issue slots and stalls, at fixed "
                                    "prices of instructions");
}

#else

static bool arm_cpu_finalize_pmu_topdown(ARMCPU *cpu, Error **errp)
{
    return true;
}

static void arm_cpu_pmu_add_topdown(ARMCPU *cpu)
{
}

#endif

void arm_cpu_pmu_add_properties(ARMCPU *cpu)
{
    object_property_add(OBJECT(cpu), "pmu-counters", "uint8",
                        arm_cpu_get_pmu_counters, arm_cpu_set_pmu_counters,
                        NULL, NULL);
    object_property_set_description(OBJECT(cpu), "pmu-counters",
                                    "Number of PMU event counters, 1 to 31 "
                                    "(0: as the CPU model has)");
    arm_cpu_pmu_add_topdown(cpu);
}

bool arm_cpu_pmu_finalize(ARMCPU *cpu, Error **errp)
{
    return arm_cpu_finalize_pmu_counters(cpu, errp) &&
           arm_cpu_finalize_pmu_topdown(cpu, errp);
}
