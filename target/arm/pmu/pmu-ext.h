/*
 * Arm PMUv3: external view of a CPU's counters for on-chip agents
 *
 * Besides the system registers, a PMUv3 has an external, memory-mapped view
 * through which other agents of the chip program and read the counters. The
 * functions here are that view for device models; they can be used from
 * target-independent code.
 *
 * Accesses through the external view are not arbitrated against system
 * register accesses, are not subject to traps, and see all implemented
 * counters whatever MDCR_EL2.HPMN says. What a counter counts is decided by
 * the same registers as always: PMCR, PMCNTEN, MDCR_EL2, MDCR_EL3 and the
 * filter bits of PMEVTYPER and PMCCFILTR.
 *
 * All functions must be called with the BQL held, which also keeps the vCPU
 * threads away from the PMU state and from changes of exception level. So an
 * agent that reads the clock once, and does not release the BQL until it has
 * started or stopped all CPUs at that time, has no skew between them: CPUs that
 * count cycles all of the time have the same number of them.
 *
 * The functions do not wait for a vCPU. They interrupt a vCPU only if it must
 * start or stop counting events of instructions. The vCPU does so when it
 * leaves its current block. So the first window in which a CPU counts
 * instructions lacks the first few, except under -icount. While a vCPU executes
 * code, other threads see up to some hundred instructions fewer than it has
 * executed. The next window counts these instructions. All counters of a CPU
 * start at the same instruction, and stop at the same one, but for a few blocks
 * that it executes within the nanoseconds in which they are read. An agent that
 * holds the counts of all CPUs at one time (arm_pmu_ext_hold()) has them of the
 * same moment as the cycles, too.
 *
 * Reference: Arm Architecture Reference Manual for A-profile (DDI 0487),
 * "The Performance Monitors Extension" and "Performance Monitors external
 * register descriptions".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_EXT_H
#define TARGET_ARM_PMU_EXT_H

#include "target/arm/cpu-qom.h"

/* Most event counters that one configuration can cover */
#define ARM_PMU_EXT_MAX_COUNTERS 8

/**
 * ArmPmuExtConfig: values to program into the PMU of each CPU
 * @first: index of the first event counter
 * @nr_counters: how many event counters; those that the CPU does not
 *               implement are ignored on writes and read as 0
 * @cycles: also use the cycle counter, and with it PMCR and PMCCFILTR
 * @pmcr: new PMCR_EL0.{LP,LC,DP,X,D,E}; other bits are ignored
 * @pmccfiltr: new PMCCFILTR_EL0; bits that the CPU lacks are ignored
 * @evtyper: new PMEVTYPER<first + n>_EL0; bits that the CPU lacks are ignored
 */
typedef struct ArmPmuExtConfig {
    uint8_t first;
    uint8_t nr_counters;
    bool cycles;
    uint32_t pmcr;
    uint32_t pmccfiltr;
    uint32_t evtyper[ARM_PMU_EXT_MAX_COUNTERS];
} ArmPmuExtConfig;

/**
 * ArmPmuExtSample: counts and context IDs of a CPU
 * @events: the event counters, zero-extended; 0 for those that the CPU does not
 *          implement
 * @cycles: the cycle counter, if the configuration uses it
 * @contextidr_el1: CONTEXTIDR_EL1 when the counters stop, as in PMCID1SR
 * @contextidr_el2: CONTEXTIDR_EL2, as in PMCID2SR
 */
typedef struct ArmPmuExtSample {
    uint64_t events[ARM_PMU_EXT_MAX_COUNTERS];
    uint64_t cycles;
    uint32_t contextidr_el1;
    uint32_t contextidr_el2;
} ArmPmuExtSample;

/**
 * arm_pmu_ext_hold: let counts of instructions stand still
 * @cpu: CPU whose instructions the functions below see as they are now, until
 *       arm_pmu_ext_release(), which must follow before the BQL is released
 */
void arm_pmu_ext_hold(ARMCPU *cpu);
void arm_pmu_ext_release(ARMCPU *cpu);

/**
 * arm_pmu_ext_start: program the counters, set them to 0 and enable them
 * @cpu: CPU to program
 * @cfg: what to program
 * @now: time in ns of QEMU_CLOCK_VIRTUAL from which on cycles count, read since
 *       the BQL was taken
 *
 * The counters are in use until arm_pmu_ext_stop(), or a reset of the CPU. This
 * state migrates with the CPU.
 *
 * Returns: false, with nothing changed, if the CPU is powered off
 */
bool arm_pmu_ext_start(ARMCPU *cpu, const ArmPmuExtConfig *cfg, int64_t now);

/**
 * arm_pmu_ext_stop: disable the counters, read them, and set them to 0
 * @cpu: CPU to stop
 * @cfg: the configuration it was started with
 * @now: time in ns of QEMU_CLOCK_VIRTUAL until which cycles count, read since
 *       the BQL was taken
 * @sample: where to store what was counted
 *
 * Clears the overflow flags of these counters.
 *
 * Returns: false, with an invalid @sample, if the CPU was not started, has been
 * reset since arm_pmu_ext_start(), or is powered off
 */
bool arm_pmu_ext_stop(ARMCPU *cpu, const ArmPmuExtConfig *cfg, int64_t now,
                      ArmPmuExtSample *sample);

/**
 * arm_pmu_ext_idle: let a CPU stop counting instructions
 * @cpu: CPU that has been stopped
 *
 * Optional. Call it if the CPU is not started again soon, because counting
 * instructions makes a CPU a little slower.
 */
void arm_pmu_ext_idle(ARMCPU *cpu);

/* Can the CPUs of this machine count this event? */
bool arm_pmu_ext_can_count(uint16_t event);

/* Number of event counters, and their width in bits */
unsigned arm_pmu_ext_nr_counters(ARMCPU *cpu);
unsigned arm_pmu_ext_counter_bits(ARMCPU *cpu);

#endif
