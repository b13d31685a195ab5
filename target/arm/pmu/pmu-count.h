/*
 * Arm PMUv3: counts of a CPU, in ARMCPU
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_COUNT_H
#define TARGET_ARM_PMU_COUNT_H

#include "accel/tcg/insn-count.h"
#include "target/arm/cpu-qom.h"

/* Most event counters of a PMU, without PMCCNTR */
#define PMU_MAX_COUNTERS 31

/* Counts of pmu-exceptions.c: exceptions, returns, and exceptions by class */
typedef enum ARMPmuException {
    PMU_EXC_TAKEN,
    PMU_EXC_RETURN,
    PMU_EXC_UNDEF,
    PMU_EXC_SVC,
    PMU_EXC_PABORT,
    PMU_EXC_DABORT,
    PMU_EXC_IRQ,
    PMU_EXC_FIQ,
    PMU_EXC_SMC,
    PMU_EXC_HVC,
    PMU_EXC_TRAP_PABORT,
    PMU_EXC_TRAP_DABORT,
    PMU_EXC_TRAP_OTHER,
    PMU_EXC_TRAP_IRQ,
    PMU_EXC_TRAP_FIQ,
    PMU_EXCEPTIONS
} ARMPmuException;

/*
 * The events of instructions, numbered by the offsets of members: the table has
 * no commas for an enum.
 */
typedef struct ARMPmuInsnEvents {
#define PMU_INSN_EVENT(number, name, plus, minus) uint8_t name;
#define PMU_SLOT_EVENT(number, name) uint8_t name;
#include "pmu-events.h.inc"
} ARMPmuInsnEvents;

#define PMU_INSN(name)  offsetof(ARMPmuInsnEvents, name)
#define PMU_INSN_EVENTS sizeof(ARMPmuInsnEvents)

/* A PMU_INSN() */
typedef unsigned ARMPmuInsnEvent;

/*
 * A counter in use: it overflows when the count of @event reaches @at. Not
 * migrated: computed from the registers
 */
typedef struct ARMPmuOverflow {
    ARMPmuInsnEvent event;
    uint64_t at;
} ARMPmuOverflow;

/*
 * Issue slots of a cycle, and the cycles that the frontend and the backend need
 * to recover from a mispredicted branch. Not migrated: of the CPU model
 */
typedef struct ARMPmuSlots {
    uint8_t per_cycle;
    uint8_t frontend;
    uint8_t backend;
} ARMPmuSlots;

/*
 * What the events of issue slots are computed from: instructions, branches that
 * are taken, and the stalls of the frontend and the backend by instructions
 */
typedef struct ARMPmuSlotTotals {
    uint64_t insns;
    uint64_t taken;
    uint64_t frontend;
    uint64_t backend;
} ARMPmuSlotTotals;

/**
 * ARMPmuCount: counts of a CPU since its creation
 * @insns: counts of instructions, see pmu-insn.c
 * @shown: largest value of each event that pmu_insn_get() has returned,
 *         protected by the BQL
 * @topdown: the property "pmu-topdown"
 * @slots: properties of the pipeline, valid with @topdown
 * @slots_on: whether a counter in use has an event of issue slots
 * @slots_base: while @slots_on, what the totals are ahead of those that such
 *              counters have seen; else these totals themselves, protected by
 *              the BQL. Quotients of them are counted, so that their remainders
 *              matter: they are migrated, see pmu-topdown.c
 * @held: totals of the moment of pmu_insn_hold()
 * @holds: whether pmu_insn_get() uses @held
 * @held_exact: whether @held is exact, see insn_count_read()
 * @overflow: the counters in use, as the vCPU's thread saw them last
 * @overflows: number of entries of @overflow
 * @due: total of instructions at which the vCPU looks for changed counters at
 *       the latest
 * @changed: another thread has changed counters since @overflow was written
 * @pending: another thread has asked the vCPU to call pmu_insn_update()
 * @count_since_request: with @pending, count the instructions executed since
 *                       the request, too; only with -icount, where their number
 *                       is known
 * @exceptions: counts of exceptions, protected by the BQL
 *
 * The rest is not migrated: guests see only differences, in counters.
 */
typedef struct ARMPmuCount {
    CPUInsnCount insns;
    uint64_t shown[PMU_INSN_EVENTS];
    bool topdown;
    ARMPmuSlots slots;
    bool slots_on;
    ARMPmuSlotTotals slots_base;
    uint64_t held[INSN_COUNT_LANES];
    bool holds;
    bool held_exact;
    /* One more for PMCCNTR */
    ARMPmuOverflow overflow[PMU_MAX_COUNTERS + 1];
    unsigned overflows;
    uint64_t due;
    bool changed;
    bool pending;
    bool count_since_request;
    uint64_t exceptions[PMU_EXCEPTIONS];
} ARMPmuCount;

/**
 * ARMPmuState: state of the PMU that a CPU reset clears, in CPUARMState
 * @ext_started: an external agent uses counters, see pmu-ext.c, by which it is
 *               migrated
 * @op_cycles: the cycles that a pmu_op_start() under way uses for all counters,
 *             else 0. Not migrated: 0 while nobody holds the BQL
 */
typedef struct ARMPmuState {
    bool ext_started;
    uint64_t op_cycles;
} ARMPmuState;

/* Number of event counters that the current exception level can access */
uint32_t pmu_visible_counters(CPUArchState *env);

/*
 * Count the exception in cs->exception_index, which the CPU is about to take,
 * and a return from an exception. Call these before pmu_op_start(); the first
 * one needs the BQL.
 */
#ifdef CONFIG_USER_ONLY
static inline void pmu_count_exception_return(ARMCPU *cpu)
{
}
#else
void pmu_count_exception(ARMCPU *cpu);
void pmu_count_exception_return(ARMCPU *cpu);
#endif

#endif
