/*
 * Arm generic timers of EL2 and of the Secure state: migration
 *
 * machine.c saves the QEMUTimers of the EL1 physical and the EL1 virtual timer.
 * Software at EL2 has timers of its own, and a Linux kernel with VHE uses one:
 * without it, a CPU that sleeps never wakes up after loadvm or an incoming
 * migration. The registers of these timers are in the stream, but nothing arms
 * the QEMUTimers from them.
 *
 * The subsection exists only while one of these timers is pending, so that the
 * stream of a machine whose software does not use them is that of stock QEMU.
 *
 * Reference: Arm ARM (DDI 0487), "The Generic Timer in AArch64 state".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "machine-internal.h"
#include "qemu/timer.h"
#include "target/arm/gtimer.h"

static bool el2_timers_needed(void *opaque)
{
    ARMCPU *cpu = opaque;
    int i;

    for (i = GTIMER_HYP; i < NUM_GTIMERS; i++) {
        if (cpu->gt_timer[i] && timer_pending(cpu->gt_timer[i])) {
            return true;
        }
    }
    return false;
}

const VMStateDescription vmstate_arm_el2_timers = {
    .name = "cpu/el2-timers",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = el2_timers_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_TIMER_PTR(gt_timer[GTIMER_HYP], ARMCPU),
        VMSTATE_TIMER_PTR(gt_timer[GTIMER_SEC], ARMCPU),
        VMSTATE_TIMER_PTR(gt_timer[GTIMER_HYPVIRT], ARMCPU),
        VMSTATE_TIMER_PTR(gt_timer[GTIMER_S_EL2_PHYS], ARMCPU),
        VMSTATE_TIMER_PTR(gt_timer[GTIMER_S_EL2_VIRT], ARMCPU),
        VMSTATE_END_OF_LIST()
    }
};
