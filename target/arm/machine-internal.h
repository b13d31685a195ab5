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
 * Before loading: make room for the registers of a CPU with more counters, and
 * let registers that the stream lacks keep their values.
 */
void arm_cpu_pmu_pre_load(ARMCPU *cpu);

/* If a property of the stream's CPU differs from ours, say which: false then */
bool arm_cpu_pmu_same_properties(ARMCPU *cpu);

#endif
