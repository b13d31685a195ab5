/*
 * Branch predictors and caches for the PMU of Intel CPUs under TCG
 *
 * Code that is translated for a CPU with pmu-model=precise, and that counts,
 * looks up each line of code that it enters, the address of each load that
 * the translator can see, and the outcome of each conditional branch; that is
 * in count.c.inc. Repeated string instructions and accesses in helpers are
 * left out. What misses goes to helpers, in system/pmu-precise.c.
 *
 * A load may be in the middle of an instruction, where there can be neither a
 * branch nor a cheap call. What misses there is written to a list, which is
 * emptied at the start of the next block, and whenever the PMU is looked at:
 * nobody can tell when that was.
 *
 * All of it follows virtual addresses in the order in which the guest
 * executes, so that it is the same in every run. The same line or address
 * twice in a row changes nothing the second time: an instruction that starts
 * again, or a block that ends elsewhere, makes no difference.
 *
 * The sizes are our decision: those of small cores, so that programs for
 * tests can be small, too. Everything is direct mapped.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_PMU_PRECISE_H
#define I386_TCG_PMU_PRECISE_H

#define X86_PMU_LINE_BITS   6
#define X86_PMU_L1_LINES    512         /* 32 KiB */
#define X86_PMU_LLC_LINES   32768       /* 2 MiB */
#define X86_PMU_GSHARE      4096
#define X86_PMU_TARGETS     512
#define X86_PMU_RETURNS     16

/* An instruction loads at most 8 times (POPA); all of a block fit */
#define X86_PMU_INSN_LOADS  8
#define X86_PMU_MISSES      (512 * X86_PMU_INSN_LOADS)

/* In a list of misses: at CPL > 0 */
#define X86_PMU_MISS_USER   BIT_ULL(63)

/**
 * X86PMUPrecise: what the CPU remembers
 * @misses: how many entries of @miss are to be drained
 * @l1i, @l1d, @llc: line numbers plus 1
 * @gshare: counters of two bits; taken from 2 on
 * @history: outcomes of conditional branches, the last one in bit 0
 * @miss: line numbers plus 1, with X86_PMU_MISS_USER
 * @target: of the last time, of indirect branches
 * @returns: stack of return addresses, @top is where the next one goes
 */
typedef struct X86PMUPrecise {
    uint32_t misses;
    uint32_t history;
    uint64_t l1d[X86_PMU_L1_LINES];
    uint64_t l1i[X86_PMU_L1_LINES];
    uint8_t gshare[X86_PMU_GSHARE];
    uint64_t miss[X86_PMU_MISSES];
    uint64_t target[X86_PMU_TARGETS];
    uint64_t returns[X86_PMU_RETURNS];
    uint8_t top;
    uint64_t llc[X86_PMU_LLC_LINES];
} X86PMUPrecise;

#endif
