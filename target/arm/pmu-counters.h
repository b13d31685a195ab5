/*
 * Arm PMUv3: the CPU property "pmu-counters"
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_COUNTERS_H
#define TARGET_ARM_PMU_COUNTERS_H

#include "cpu.h"

/* Add the property to a CPU that has a PMU. */
void arm_cpu_pmu_counters_add_prop(ARMCPU *cpu);

/*
 * Put the property into effect. Call it from realize, before the PMU
 * registers are created: there is a set of them for each counter.
 */
bool arm_cpu_pmu_counters_finalize(ARMCPU *cpu, Error **errp);

#endif
