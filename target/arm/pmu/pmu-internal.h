/*
 * Arm PMUv3: what helper.c and the files of the PMU share
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_INTERNAL_H
#define TARGET_ARM_PMU_INTERNAL_H

#include "cpu.h"
#include "cpregs.h"
#include "pmu-properties.h"

/* CPU_CYCLES, which PMCCNTR counts as well */
#define PMU_CPU_CYCLES 0x11

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

/*
 * Recompute the PMU interrupt after a change of PMOVS or PMINTEN. After one of
 * PMCR.E, MDCR_EL2.HPME and HPMN, pmu_op_finish() does it.
 */
void pmu_update_irq(CPUARMState *env);

/*
 * The counters that PMCR.E or, from MDCR_EL2.HPMN on, HPME lets count and
 * interrupt: a mask in which PMCCNTR is bit 31, and which has bits of counters
 * that the CPU lacks as well. (Arm ARM, MDCR_EL2.HPME)
 */
uint64_t pmu_globally_enabled(CPUARMState *env);

/* Has one of them overflowed, whose interrupt is enabled? */
bool pmu_enabled_overflow(CPUARMState *env);

/*
 * The number of counts until the top bit of a counter changes, if @left counts
 * are left until it overflows. The counter has 64 bits if @wide, else 32; then
 * upper bits of @left mean nothing. pmevcntr_op_start() takes a change of the
 * top bit from 1 to 0 for an overflow, so it must be called while that is 1.
 */
static inline uint64_t pmu_until_top_bit(uint64_t left, bool wide)
{
    return ((left - 1) & (wide ? INT64_MAX : INT32_MAX)) + 1;
}

/* Detect overflows up to now, and set timer and deadline for the next one. */
static inline void pmu_detect_overflows(CPUARMState *env)
{
    pmu_op_start(env);
    pmu_op_finish(env);
}

/* Change what accesses to PMU registers do, after all have been defined. */
void pmu_adapt_regs(ARMCPU *cpu);

/*
 * May the current exception level access this register of a single counter, or
 * does MDCR_EL2.HPMN reserve the counter for EL2? See pmu-hpmn.c.
 */
CPAccessResult pmu_hidden_access(CPUARMState *env, const ARMCPRegInfo *ri);

/*
 * The lanes that an instruction adds to, see count.c. A lane is a count of
 * the TCG accelerator, see accel/tcg/insn-count.h; PMU_LANE() is its bit in a
 * mask of lanes.
 *
 * Each instruction belongs to one class. The classes are the lanes from LD to
 * OTHER, and data processing, which has no lane. The later lanes are properties
 * that an instruction of any class may have.
 */
typedef enum ARMPmuLane {
    PMU_LANE_INST,
    PMU_LANE_LD,
    PMU_LANE_ST,
    PMU_LANE_BR_IMMED,
    PMU_LANE_BR_INDIRECT,   /* without loads of the PC */
    PMU_LANE_ATOMIC,        /* both a load and a store */
    PMU_LANE_LD_BR,         /* loads of the PC, in AArch32 */
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
 * For the table of events in helper.c: does the CPU have the events of
 * instructions, and those of SVE? After which time does an event overflow?
 * (-1: time does not tell, and pmu_insn_update() sets a deadline instead.)
 * pmu_get_NAME() is the count of an event.
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
 * The CPU property "pmu-topdown", see pmu-topdown.c: choose the number of issue
 * slots of the CPU model; is the property on? PMMIR_EL1, which is 0 if it is
 * off; the value of an event, given the totals of the lanes; the fewest
 * instructions that add @count (not 0) to an event; and whether an event of a
 * counter in use needs issue slots, which it sees from these totals on.
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
uint64_t pmu_topdown_value(const ARMPmuCount *c, ARMPmuInsnEvent event,
                           const uint64_t *total);
uint64_t pmu_topdown_fewest(const ARMPmuSlots *s, ARMPmuInsnEvent event,
                            uint64_t count);
void pmu_topdown_switch(ARMPmuCount *c, bool on, const uint64_t *total);
extern const VMStateDescription vmstate_arm_pmu_topdown;

/*
 * Start or stop counting instructions, as the enabled counters need it, and
 * update the interrupt if an overflow is pending. Call this after op_finish
 * when counters have been reprogrammed, enabled, disabled, or written. On the
 * vCPU's own thread, the change takes effect with the next instruction. If
 * another thread calls this while the vCPU executes code, the change takes
 * effect when the vCPU leaves its current block.
 */
#ifdef CONFIG_USER_ONLY
static inline void pmu_insn_update(CPUARMState *env)
{
}
#else
void pmu_insn_update(CPUARMState *env);
#endif

/*
 * For another thread that reads several counters: until pmu_insn_release(), all
 * events of instructions have the values of this moment. Without it, the vCPU
 * executes code between two reads, and much of it if the host lets the reader
 * wait. The caller keeps the BQL from one to the other.
 */
void pmu_insn_hold(CPUARMState *env);
void pmu_insn_release(CPUARMState *env);

#endif
