/*
 * Parts of a CPU's migration stream that machine.c has from other files
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_MACHINE_INTERNAL_H
#define TARGET_ARM_MACHINE_INTERNAL_H

#include "cpu.h"
#include "migration/vmstate.h"

extern const VMStateDescription vmstate_arm_pmu_ext;
extern const VMStateDescription vmstate_arm_el2_timers;

/*
 * Make room for the registers of a CPU with other properties, and let this one
 * keep those that the stream lacks; say which property of the stream's CPU
 * differs from this one's; false if one does.
 */
void arm_cpu_pmu_pre_load(ARMCPU *cpu);
bool arm_cpu_pmu_same_properties(ARMCPU *cpu);

#endif
