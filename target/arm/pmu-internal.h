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

/*
 * What instructions add to, see tcg/count.c: lanes of the accelerator's counts,
 * accel/tcg/insn-count.h. A bit mask of them is made by PMU_LANE().
 *
 * Each instruction is in one class: the lanes from LD to OTHER, or data
 * processing, which has none. The others are properties that it may have, too.
 */
typedef enum ARMPmuLane {
    PMU_LANE_INST,
    PMU_LANE_LD,
    PMU_LANE_ST,
    PMU_LANE_BR_IMMED,
    PMU_LANE_BR_INDIRECT,   /* but for those that load the PC */
    PMU_LANE_ATOMIC,        /* loads and stores */
    PMU_LANE_LD_BR,         /* loads the PC, in AArch32 */
    PMU_LANE_OTHER,
    PMU_LANE_PC_WRITE,
    PMU_LANE_FRONTEND,      /* slots, with "pmu-topdown" */
    PMU_LANE_BACKEND,
    PMU_LANE_BR_RETURN,
    PMU_LANE_ASE,
    PMU_LANE_VFP,
    PMU_LANE_CRYPTO,
    PMU_LANE_SVE,
    PMU_LANE_LDREX,
    PMU_LANE_STREX_PASS,
    PMU_LANE_STREX_FAIL,
    PMU_LANE_ISB,
    PMU_LANE_DSB,
    PMU_LANE_DMB,
    PMU_LANE_CID_WRITE,
    PMU_LANE_TTBR_WRITE,
    PMU_LANES
} ARMPmuLane;

#define PMU_LANE(name)  (1u << PMU_LANE_##name)

/* The most slots that an instruction adds to FRONTEND, and to BACKEND */
#define PMU_MAX_PRICE 32

struct InsnCountOps;
extern const struct InsnCountOps arm_insn_count_ops;

/* Does QEMU implement this event for the CPUs of this machine? helper.c */
bool event_supported(uint16_t number);

/*
 * For the table of events in helper.c: can TCG count, and has the CPU what
 * the event is about? When does an event overflow? (It is not a matter of
 * time: pmu_insn_update() sets a deadline.) What is the count of each event?
 */
bool pmu_insn_supported(CPUARMState *env);
bool pmu_sve_supported(CPUARMState *env);
int64_t pmu_insn_ns_per(uint64_t count);

#define PMU_INSN_EVENT(number, name, plus, minus)   \
    uint64_t pmu_get_##name(CPUARMState *env);
#define PMU_SLOT_EVENT(number, name)                \
    uint64_t pmu_get_##name(CPUARMState *env);
#define PMU_EXC_EVENT(number, name, exception)      \
    uint64_t pmu_get_##name(CPUARMState *env);
#include "pmu-events.h.inc"

/*
 * With the CPU property "pmu-topdown", pmu-topdown.c: choose the numbers that
 * belong to the CPU model; is it on? What is PMMIR_EL1? (0 if it is off.) What
 * is the value of an event, given the totals of the lanes, and what does an
 * instruction add to it at most?
 */
void pmu_topdown_init(ARMCPU *cpu);
bool pmu_topdown_supported(CPUARMState *env);
#ifdef CONFIG_USER_ONLY
static inline uint64_t pmu_pmmir(ARMCPU *cpu)
{
    return 0;
}
#else
uint64_t pmu_pmmir(ARMCPU *cpu);
#endif
uint64_t pmu_topdown_value(const ARMPmuSlots *s, ARMPmuInsnEvent event,
                           const uint64_t *total);
unsigned pmu_topdown_most(const ARMPmuSlots *s, ARMPmuInsnEvent event);

/*
 * For reads of PMCEID0 and PMCEID1. The raw value is that of QEMU without
 * these events, so that migration from and to it works.
 */
uint64_t pmu_pmceid_read(CPUARMState *env, const ARMCPRegInfo *ri);
uint64_t pmu_pmceid_rawread(CPUARMState *env, const ARMCPRegInfo *ri);

/*
 * To be called after op_finish when counters have been reprogrammed, enabled,
 * disabled, or written: start or stop to count what instructions do. On the
 * vCPU's own thread this concerns the next instruction. A vCPU that executes
 * while another thread calls this follows when it has left its current block.
 */
#ifdef CONFIG_USER_ONLY
static inline void pmu_insn_update(CPUARMState *env)
{
}
#else
void pmu_insn_update(CPUARMState *env);
#endif

#endif
