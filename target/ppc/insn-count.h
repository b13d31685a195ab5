/*
 * What POWER CPUs count for emulated PMUs: instructions, and time
 *
 * This is target/ppc's side of accel/tcg/insn-count.h. Counting is off until a
 * device switches it on, and exists only in 64-bit system emulation with TCG.
 *
 * Each thread has its own counts. They never decrease, and do not change while
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
 * Lanes, which are counted separately in each domain. Only retired instructions
 * count. An instruction that the interrupt handler returns to has not retired;
 * one that the handler returns after has (sc, scv, and a traced instruction).
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

/**
 * PPCCounts: what a thread has counted, all at one moment
 * @lane: each lane of each domain
 * @run_insns: instructions that started with CTRL[RUN] set ("with the run
 *             latch"), in each domain
 * @busy_ns: virtual time for which the thread counted and was not halted. With
 *           -accel tcg,thread=single, a thread that waits for its turn is not
 *           halted.
 * @run_ns: the part of it with CTRL[RUN] set
 *
 * @run_ns is at most @busy_ns. Exact on the thread's own thread, and while the
 * thread executes nothing; otherwise a later look can show less.
 *
 * Not migrated: a copy for who calls ppc_count_peek().
 */
typedef struct PPCCounts {
    uint64_t lane[PPC_COUNT_DOMAINS][PPC_COUNT_LANES];
    uint64_t run_insns[PPC_COUNT_DOMAINS];
    int64_t busy_ns;
    int64_t run_ns;
} PPCCounts;

#if defined(CONFIG_TCG) && defined(TARGET_PPC64) && !defined(CONFIG_USER_ONLY)

#include "accel/tcg/insn-count.h"

/**
 * PPCInsnCount: the counts of a thread, which no other thread writes
 * @insns: the totals of the accelerator
 * @on: whether counting is on
 * @base: while counting is on, totals minus counts; while it is off, the counts
 * @running: whether the time from @since on belongs to @ns, by kind of time
 * @since: time of the last change of @running, see ppc_count_now()
 * @ns: time until @since, of each kind
 * @run_insns: instructions with CTRL[RUN] until it was last cleared, by domain
 * @run_from: instructions when CTRL[RUN] was last set, by domain
 * @seq: held for writing while @running to @run_from change together
 * @call: function to call, see ppc_count_call(); NULL for none
 * @call_at: sum of all instructions at which @call is due
 * @ldbar_written: hook for writes of LDBAR, see ldbar.h; NULL for none
 *
 * Not migrated: only imc=on counts, which blocks migration.
 */
typedef struct PPCInsnCount {
    CPUInsnCount insns;
    bool on;
    uint64_t base[PPC_COUNT_DOMAINS][PPC_COUNT_LANES];
    bool running[2];
    int64_t since;
    int64_t ns[2];
    uint64_t run_insns[PPC_COUNT_DOMAINS];
    uint64_t run_from[PPC_COUNT_DOMAINS];
    QemuSeqLock seq;
    void (*call)(PowerPCCPU *cpu);
    uint64_t call_at;
    void (*ldbar_written)(PowerPCCPU *cpu);
} PPCInsnCount;

extern const InsnCountOps ppc_insn_count_ops;

/* Can TCG count here? */
bool ppc_count_available(void);

/**
 * ppc_count_enable: switch counting on or off
 * @cpu: the CPU, on its own thread or not running
 * @on: count from now on, or no more
 *
 * On the CPU's own thread it takes effect at the end of the current block,
 * which is where an instruction that calls this should end it.
 */
void ppc_count_enable(PowerPCCPU *cpu, bool on);

/**
 * ppc_count_sync: make counts exact
 * @cpu: the CPU, on its own thread or not running
 * @ra: as GETPC(), for a helper; 0 between blocks, or in the last instruction
 *      of one. That is included then; with @ra the current one is not.
 */
void ppc_count_sync(PowerPCCPU *cpu, uintptr_t ra);

/* A count, as of ppc_count_sync() */
uint64_t ppc_count_read(PowerPCCPU *cpu, unsigned domain, unsigned lane);

/**
 * ppc_count_peek: look without ppc_count_sync(), see insn_count_peek()
 * @cpu: the CPU; ppc_count_enable() for it is called with the BQL, as this is
 * @counts: gets the counts
 * @whole: whether to count a block of instructions that the CPU is executing,
 *         and whose end it may not reach. Without it, the counts are too low,
 *         by at most what the largest block so far counts.
 */
void ppc_count_peek(PowerPCCPU *cpu, PPCCounts *counts, bool whole);

/**
 * ppc_count_call: call a function after a number of instructions
 * @cpu: the thread, on its own thread; counting must be on
 * @insns: number of instructions; the call can be a few instructions late
 * @call: function to call once, on the thread, between two blocks, without the
 *        BQL; NULL cancels
 *
 * The call costs one exit from the main loop of the thread. An idle thread
 * executes no instructions, so its call waits.
 */
void ppc_count_call(PowerPCCPU *cpu, uint64_t insns,
                    void (*call)(PowerPCCPU *cpu));

/* For cpu_init.c: properties; execution starts, or stops */
void ppc_count_class_init(ObjectClass *oc);
void ppc_count_time(PowerPCCPU *cpu);

/*
 * For pnv_core.c: the thread has been stopped. It may be between two blocks,
 * and then does not notice until it is started again.
 */
void ppc_count_stopped(PowerPCCPU *cpu);

#else

/* Not migrated: no counts */
typedef struct PPCInsnCount {
    void (*ldbar_written)(PowerPCCPU *cpu);
} PPCInsnCount;

static inline bool ppc_count_available(void)
{
    return false;
}

static inline void ppc_count_enable(PowerPCCPU *cpu, bool on)
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

static inline void ppc_count_peek(PowerPCCPU *cpu, PPCCounts *counts,
                                  bool whole)
{
    *counts = (PPCCounts) {};
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

static inline void ppc_count_stopped(PowerPCCPU *cpu)
{
}

#endif
#endif
