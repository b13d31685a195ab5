/*
 * Arm PMUv3: the counter operations that helper.c shares with pmu-ext.c
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_INTERNAL_H
#define TARGET_ARM_PMU_INTERNAL_H

#include "cpu.h"

/* Does this counter (31 for PMCCNTR) count in the current state of the CPU? */
bool pmu_counter_enabled(CPUARMState *env, uint8_t counter);

/* Does this event counter overflow at 64 bits? If not, at 32 */
bool pmevcntr_is_64_bit(CPUARMState *env, int counter);

/*
 * Convert one counter from its delta form to the guest-visible value and
 * back; the single-counter versions of pmu_op_start() and pmu_op_finish().
 * For a disabled counter, op_start only refreshes the baseline.
 */
void pmccntr_op_start(CPUARMState *env);
void pmccntr_op_finish(CPUARMState *env);
void pmevcntr_op_start(CPUARMState *env, uint8_t counter);
void pmevcntr_op_finish(CPUARMState *env, uint8_t counter);

/* Recompute the PMU interrupt after a change of PMOVS, PMINTEN or PMCR.E. */
void pmu_update_irq(CPUARMState *env);

#endif
