/*
 * Arm PMUv3: what a CPU has counted, in ARMCPU
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TARGET_ARM_PMU_COUNT_H
#define TARGET_ARM_PMU_COUNT_H

#include "accel/tcg/insn-count.h"
#include "cpu-qom.h"

/* The most counters that a PMU has, besides PMCCNTR */
#define PMU_MAX_COUNTERS 31

/* What pmu-exceptions.c counts: all, returns, and all by their classes */
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

/* The events that instructions count: each has a byte here, and its offset */
typedef struct ARMPmuInsnEvents {
#define PMU_INSN_EVENT(number, name, plus, minus) uint8_t name;
#define PMU_SLOT_EVENT(number, name) uint8_t name;
#include "pmu-events.h.inc"
} ARMPmuInsnEvents;

#define PMU_INSN(name)  offsetof(ARMPmuInsnEvents, name)
#define PMU_INSN_EVENTS sizeof(ARMPmuInsnEvents)

/* A PMU_INSN() */
typedef unsigned ARMPmuInsnEvent;

/* A counter in use overflows when its event reaches @at */
typedef struct ARMPmuOverflow {
    ARMPmuInsnEvent event;
    uint64_t at;
} ARMPmuOverflow;

/*
 * Issue slots of a cycle; in how many cycles the frontend and the backend
 * recover from a mispredicted branch
 */
typedef struct ARMPmuSlots {
    uint8_t per_cycle;
    uint8_t frontend;
    uint8_t backend;
} ARMPmuSlots;

/**
 * ARMPmuCount: what a CPU has counted since it was created
 * @insns: by instructions, see pmu-insn.c
 * @shown: the largest value of each event that anybody has seen, protected by
 *         the BQL
 * @topdown: the property "pmu-topdown"
 * @slots: with @topdown
 * @overflow: of the counters in use, as the vCPU's thread saw them last
 * @overflows: how many there are
 * @due: total of instructions at the deadline that was set last
 * @changed: another thread has changed counters since
 * @pending: another thread has asked for pmu_insn_update()
 * @late: it has asked to start, and what the CPU has executed since is known
 * @exceptions: by exceptions; protected by the BQL
 *
 * Nothing here is migrated: guests see only differences, in counters.
 */
typedef struct ARMPmuCount {
    CPUInsnCount insns;
    uint64_t shown[PMU_INSN_EVENTS];
    bool topdown;
    ARMPmuSlots slots;
    /* PMCCNTR, too */
    ARMPmuOverflow overflow[PMU_MAX_COUNTERS + 1];
    unsigned overflows;
    uint64_t due;
    bool changed;
    bool pending;
    bool late;
    uint64_t exceptions[PMU_EXCEPTIONS];
} ARMPmuCount;

/*
 * The CPU takes the exception in cs->exception_index, to be called before
 * pmu_op_start(); the CPU returns from one. Both need the BQL.
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
