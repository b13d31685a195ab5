/*
 * What POWER CPUs count for emulated PMUs: instructions, and time
 *
 * This is target/ppc's side of accel/tcg/insn-count.h. Nothing is counted
 * until somebody asks, and only 64-bit system emulation with TCG has it.
 *
 * Counts belong to a thread. They never go back, and they stand still while
 * counting is off. An instruction counts if counting is on when it starts.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_INSN_COUNT_H
#define PPC_INSN_COUNT_H

#include "cpu-qom.h"
#include "ldbar.h"

/*
 * Lanes, which are counted apart in each domain. Only what retires counts: not
 * an instruction that an interrupt returns to, but one that it returns behind
 * (sc, scv, and what has been traced).
 */
enum {
    PPC_COUNT_INSNS,
    PPC_COUNT_LARX,             /* l*arx */
    PPC_COUNT_STCX,             /* st*cx., successful or not */
    PPC_COUNT_STCX_FAIL,        /* st*cx. that has stored nothing */
    PPC_COUNT_TLBIE,            /* tlbie, but not tlbiel */
    PPC_COUNT_LANES,
};

/* The domains are MSR[HV] << 1 | MSR[PR]. HV is set on CPUs without it. */
#define PPC_COUNT_DOMAINS       4

#if defined(CONFIG_TCG) && defined(TARGET_PPC64) && !defined(CONFIG_USER_ONLY)

#include "accel/tcg/insn-count.h"

/**
 * PPCInsnCount: the counts of a thread, owned by it except @shown
 * @insns: the totals of the accelerator
 * @on: does it count?
 * @base: if it does, what the totals were ahead of the counts when it was
 *        switched on; if not, the counts
 * @running: is the time since @since to be added to @ns?
 * @ns: the time until @since, of each kind
 * @run_insns: instructions with CTRL[RUN] until it was cleared, and
 * @run_from: all that there were when it was set again
 * @seq: held while those from @running on are changed together
 * @shown: the most that has been returned, protected by the BQL
 * @shown_insns: the same for instructions with CTRL[RUN]
 * @call: to be called, see ppc_count_call(); NULL for nothing
 * @call_at: when this many instructions have been counted
 * @ldbar_written: whoever posts the counts wants to know, see ldbar.h
 */
typedef struct PPCInsnCount {
    CPUInsnCount insns;
    bool on;
    uint64_t base[PPC_COUNT_DOMAINS][PPC_COUNT_LANES];
    bool running[2];
    int64_t since;
    int64_t ns[2];
    uint64_t run_insns;
    uint64_t run_from;
    QemuSeqLock seq;
    int64_t shown[2];
    uint64_t shown_insns;
    void (*call)(PowerPCCPU *cpu);
    uint64_t call_at;
    void (*ldbar_written)(PowerPCCPU *cpu);
} PPCInsnCount;

extern const InsnCountOps ppc_insn_count_ops;

/* Can this CPU count? */
bool ppc_count_available(PowerPCCPU *cpu);

/**
 * ppc_count_start: switch counting on or off
 * @cpu: the CPU, on its own thread or not running
 * @on: count from now on, or no more
 *
 * On the CPU's own thread it takes effect at the end of the current block,
 * which is where an instruction that calls this should end it.
 */
void ppc_count_start(PowerPCCPU *cpu, bool on);

/**
 * ppc_count_sync: make counts exact
 * @cpu: the CPU, on its own thread or not running
 * @ra: as GETPC(), for a helper; 0 between blocks, or in the last instruction
 *      of one. That is included then; with @ra the current one is not.
 */
void ppc_count_sync(PowerPCCPU *cpu, uintptr_t ra);

/* A count, as of ppc_count_sync() */
uint64_t ppc_count_read(PowerPCCPU *cpu, unsigned domain, unsigned lane);

/*
 * A count without ppc_count_sync(), from any thread with the BQL, if
 * ppc_count_start() is called with the BQL, too; see insn_count_peek()
 */
uint64_t ppc_count_peek(PowerPCCPU *cpu, unsigned domain, unsigned lane);

/*
 * The virtual time, in ns, for which the thread counted and was not halted;
 * and of that, with CTRL[RUN] set. From any thread, with the BQL. Neither goes
 * back, and the second is at most the first of the same moment. If threads take
 * turns (-accel tcg,thread=single), one that waits for its turn is not halted.
 */
int64_t ppc_count_busy_ns(PowerPCCPU *cpu);
int64_t ppc_count_run_ns(PowerPCCPU *cpu);

/*
 * Instructions in all domains that started with CTRL[RUN] set ("with the run
 * latch"). From any thread, with the BQL, and like ppc_count_peek() otherwise;
 * it does not go back.
 */
uint64_t ppc_count_run_insns(PowerPCCPU *cpu);

/**
 * ppc_count_call: be called when a thread has executed some code
 * @cpu: the thread, on its own thread; it must count
 * @insns: after so many instructions, or a few more
 * @call: what to call, once: on the thread, between two blocks, without the
 *        BQL. NULL if a call is no longer wanted
 *
 * It costs no more than an exit from the main loop of the thread, and happens
 * only if the thread executes that much.
 */
void ppc_count_call(PowerPCCPU *cpu, uint64_t insns,
                    void (*call)(PowerPCCPU *cpu));

/* For cpu_init.c: properties; execution starts, or stops */
void ppc_count_class_init(ObjectClass *oc);
void ppc_count_time(PowerPCCPU *cpu);

#else

typedef struct PPCInsnCount {
    void (*ldbar_written)(PowerPCCPU *cpu);
} PPCInsnCount;

static inline bool ppc_count_available(PowerPCCPU *cpu)
{
    return false;
}

static inline void ppc_count_start(PowerPCCPU *cpu, bool on)
{
}

static inline void ppc_count_sync(PowerPCCPU *cpu, uintptr_t ra)
{
}

static inline uint64_t ppc_count_read(PowerPCCPU *cpu, unsigned domain,
                                      unsigned lane)
{
    return 0;
}

static inline uint64_t ppc_count_peek(PowerPCCPU *cpu, unsigned domain,
                                      unsigned lane)
{
    return 0;
}

static inline int64_t ppc_count_busy_ns(PowerPCCPU *cpu)
{
    return 0;
}

static inline int64_t ppc_count_run_ns(PowerPCCPU *cpu)
{
    return 0;
}

static inline uint64_t ppc_count_run_insns(PowerPCCPU *cpu)
{
    return 0;
}

static inline void ppc_count_call(PowerPCCPU *cpu, uint64_t insns,
                                  void (*call)(PowerPCCPU *cpu))
{
}

static inline void ppc_count_class_init(ObjectClass *oc)
{
}

static inline void ppc_count_time(PowerPCCPU *cpu)
{
}

#endif
#endif
