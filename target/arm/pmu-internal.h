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
#include "cpregs.h"

/* Does this counter (31 for PMCCNTR) count in the current state of the CPU? */
bool pmu_counter_enabled(CPUARMState *env, uint8_t counter);

/* Does this event counter overflow at 64 bits? If not, at 32 */
bool pmevcntr_is_64_bit(CPUARMState *env, int counter);

/* Does PMCCNTR count every 64th cycle only? */
bool pmccntr_clockdiv_enabled(CPUARMState *env);

/*
 * Convert one counter from its delta form to the guest-visible value and
 * back; the single-counter versions of pmu_op_start() and pmu_op_finish().
 * For a disabled counter, op_start only refreshes the baseline.
 */
void pmccntr_op_finish(CPUARMState *env);
void pmevcntr_op_start(CPUARMState *env, uint8_t counter);
void pmevcntr_op_finish(CPUARMState *env, uint8_t counter);

/* Recompute the PMU interrupt after a change of PMOVS, PMINTEN or PMCR.E. */
void pmu_update_irq(CPUARMState *env);

/*
 * What MDCR_EL2.HPMN hides, pmu-hpmn.c: for reads of registers with a bit for
 * each counter, and for accesses to registers of one counter
 */
uint64_t pmu_visible_read(CPUARMState *env, const ARMCPRegInfo *ri);
CPAccessResult pmu_hidden_access(CPUARMState *env, const ARMCPRegInfo *ri);

/* The event INST_RETIRED, pmu-insn.c */
#define PMU_INST_RETIRED 0x08

struct InsnCountOps;
extern const struct InsnCountOps arm_insn_count_ops;

bool pmu_insn_supported(CPUARMState *env);
uint64_t pmu_insn_get_count(CPUARMState *env);
int64_t pmu_insn_ns_per(uint64_t count);

/*
 * For reads of PMCEID0; the raw one is that of QEMU without this event, so
 * that migration from and to it works.
 */
uint64_t pmu_pmceid0_read(CPUARMState *env, const ARMCPRegInfo *ri);
uint64_t pmu_pmceid0_rawread(CPUARMState *env, const ARMCPRegInfo *ri);

/*
 * To be called after op_finish when counters have been reprogrammed, enabled,
 * disabled, or written: start or stop to count instructions. On the vCPU's
 * own thread this concerns the next instruction. A vCPU that executes while
 * another thread calls this follows when it has left its current block.
 */
#ifdef CONFIG_USER_ONLY
static inline void pmu_insn_update(CPUARMState *env)
{
}
#else
void pmu_insn_update(CPUARMState *env);
#endif

#endif
