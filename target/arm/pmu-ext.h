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
 * Reading several CPUs without skew takes two passes: arm_pmu_ext_stop() for
 * each of them, then arm_pmu_ext_read() for each.
 *
 * All functions must be called with the BQL held, which also keeps the vCPU
 * threads away from the PMU state and from changes of exception level. They
 * do not wait for a vCPU, and interrupt it only where it must begin or cease
 * to count instructions (event 0x08). It does so when it has left its current
 * block, so the first window in which a CPU counts them lacks the first few,
 * except under -icount. Of a CPU that executes, another thread sees up to some
 * hundred instructions less than there are; the next window has them.
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
 * ArmPmuExtConfig: what to program into the PMU of each CPU
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
 * arm_pmu_ext_start: program the counters, set them to 0 and enable them
 * @cpu: CPU to program
 * @cfg: what to program
 *
 * The counters are in use until arm_pmu_ext_read(), or a reset of the CPU.
 *
 * Returns: false, with nothing changed, if the CPU is powered off
 */
bool arm_pmu_ext_start(ARMCPU *cpu, const ArmPmuExtConfig *cfg);

/**
 * arm_pmu_ext_stop: bring the counters up to date and disable them
 * @cpu: CPU to stop
 * @cfg: the configuration it was started with
 *
 * Nothing happens if the CPU is not started.
 */
void arm_pmu_ext_stop(ARMCPU *cpu, const ArmPmuExtConfig *cfg);

/**
 * arm_pmu_ext_read: read stopped counters, and set them to 0
 * @cpu: CPU to read
 * @cfg: the configuration it was started with
 * @events: where to store @cfg->nr_counters values, zero-extended
 * @cycles: where to store the cycle counter if @cfg->cycles
 *
 * Clears the overflow flags of these counters.
 *
 * Returns: false, with nothing stored, if the values do not belong to the
 * time since arm_pmu_ext_start(): the CPU was not started, has been reset
 * since then, or is powered off
 */
bool arm_pmu_ext_read(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                      uint64_t *events, uint64_t *cycles);

/**
 * arm_pmu_ext_end: the CPU will not be started again soon
 * @cpu: CPU that is not started
 *
 * Not necessary, but a CPU that counts instructions is a little slower.
 */
void arm_pmu_ext_end(ARMCPU *cpu);

/* Has the CPU been started, and neither read nor reset since then? */
bool arm_pmu_ext_started(ARMCPU *cpu);

/**
 * ArmPmuExtState: what a CPU has in the registers that a configuration uses
 */
typedef struct ArmPmuExtState {
    uint64_t evcntr[ARM_PMU_EXT_MAX_COUNTERS];
    uint64_t ccntr;
    uint32_t evtyper[ARM_PMU_EXT_MAX_COUNTERS];
    uint32_t ccfiltr;
    uint32_t pmcr;
    uint32_t cnten;
    uint32_t ovs;
} ArmPmuExtState;

/**
 * arm_pmu_ext_save: save the registers that a configuration uses
 * @cpu: CPU, neither started nor saved
 * @cfg: what will be used
 * @state: where to save it
 *
 * Returns: false, with nothing saved, if the CPU is powered off
 */
bool arm_pmu_ext_save(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                      ArmPmuExtState *state);

/**
 * arm_pmu_ext_restore: undo all that was done since arm_pmu_ext_save()
 * @cpu: CPU that is not started
 * @cfg: the configuration it was saved with
 * @state: what was saved
 *
 * Nothing happens if the CPU was reset since then: its state is a new one.
 */
void arm_pmu_ext_restore(ARMCPU *cpu, const ArmPmuExtConfig *cfg,
                         const ArmPmuExtState *state);

/* Has the CPU been saved, and neither restored nor reset since then? */
bool arm_pmu_ext_saved(ARMCPU *cpu);

/* Set what arm_pmu_ext_started() and arm_pmu_ext_saved() say, on migration */
void arm_pmu_ext_set_flags(ARMCPU *cpu, bool started, bool saved);

/* Can the CPU count this event at all? */
bool arm_pmu_ext_can_count(ARMCPU *cpu, uint16_t event);

/* Number of event counters, and their width in bits */
unsigned arm_pmu_ext_nr_counters(ARMCPU *cpu);
unsigned arm_pmu_ext_counter_bits(ARMCPU *cpu);

/* Sample CONTEXTIDR_EL1 and CONTEXTIDR_EL2, as PMCID1SR and PMCID2SR do */
void arm_pmu_ext_contextidr(ARMCPU *cpu, uint32_t *el1, uint32_t *el2);

#endif
