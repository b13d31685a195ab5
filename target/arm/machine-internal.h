/*
 * Subsections of a CPU's migration stream that machine.c has from other files
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_MACHINE_INTERNAL_H
#define TARGET_ARM_MACHINE_INTERNAL_H

#include "migration/vmstate.h"

extern const VMStateDescription vmstate_arm_pmu_ext;
extern const VMStateDescription vmstate_arm_el2_timers;

#endif
