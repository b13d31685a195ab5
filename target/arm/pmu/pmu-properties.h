/*
 * Arm PMUv3: the CPU properties "pmu-counters" and "pmu-topdown"
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_PROPERTIES_H
#define TARGET_ARM_PMU_PROPERTIES_H

#include "cpu.h"

/* Add the properties to a CPU that has a PMU. */
void arm_cpu_pmu_add_properties(ARMCPU *cpu);

/*
 * Apply the properties. Call this from realize, before the PMU registers are
 * created, because each counter has registers of its own.
 */
bool arm_cpu_pmu_finalize(ARMCPU *cpu, Error **errp);

#endif
