/*
 * Branch predictors and caches for the PMU of Intel CPUs under TCG
 *
 * Code that is translated for a CPU with pmu-model=precise, and that counts,
 * looks up each line of code that it enters, the outcome of each conditional
 * branch, and where each return goes; that is in count.c.inc. A line that
 * misses goes to a helper, in system/pmu-precise.c. Branches that are
 * mispredicted are added up, and priced whenever the PMU is looked at.
 *
 * Loads can be in the middle of an instruction, where there can be neither a
 * branch nor a cheap call. The addresses of those that the translator can see
 * are written down, and looked up when there are many, and whenever the PMU is
 * looked at: when that is makes no difference. Repeated string instructions,
 * accesses in helpers, and loads of the stack are left out.
 *
 * All of it follows virtual addresses in the order in which the guest
 * executes, so that it is the same in every run. The same line or address
 * twice in a row changes nothing the second time: an instruction that starts
 * again, or a block that ends elsewhere, makes no difference.
 *
 * TLBs are looked up when a line misses the first level of the caches: these
 * have no more lines than the second level of the TLBs has pages. A walk of the
 * page tables takes a part of the time that the miss of the line costs. TLBs
 * are never flushed, as if each program had its own PCID. Code and loads have
 * each their own second level: loads are looked up later than code.
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
#define X86_PMU_PAGE_BITS   12          /* whatever the page tables say */
#define X86_PMU_TLB         64
#define X86_PMU_STLB        1024
#define X86_PMU_GSHARE      4096
#define X86_PMU_TARGETS     512
#define X86_PMU_RETURNS     16

/*
 * Loads that are written down. A block that finds 512 of them looks them up
 * first: few enough to stay in the host's cache. An instruction has at most 8
 * loads written down, so that all loads of a block fit. Aligned to its size in
 * bytes, so that some bits of the position tell.
 */
#define X86_PMU_INSN_LOADS  8
#define X86_PMU_LOADS       (2 * 512 * X86_PMU_INSN_LOADS)
#define X86_PMU_LOADS_SIZE  (X86_PMU_LOADS * sizeof(uint64_t))
#define X86_PMU_LOADS_MANY  (X86_PMU_LOADS_SIZE - 512 * sizeof(uint64_t))

/*
 * X86PMULookup.load is where the next address goes. In its bit 0 is whether
 * those that are there are of CPL > 0: a block of the other privilege looks
 * them up.
 */
#define X86_PMU_LOADS_USER  1

/* Mispredicted branches that the precise model tells apart */
enum {
    PMU_MISSED_NOT_TAKEN,
    PMU_MISSED_TAKEN,
    PMU_MISSED_RET,
    PMU_MISSED_INDIRECT,
    PMU_MISSED_KINDS,
};

/**
 * X86PMUTLB: a TLB
 * @first: page numbers plus 1 that are in the first level
 * @second: and in the second level
 */
typedef struct X86PMUTLB {
    uint64_t first[X86_PMU_TLB];
    uint64_t second[X86_PMU_STLB];
} X86PMUTLB;

/**
 * X86PMULookup: what translated code reads and writes: in X86CPU, so that it
 *               gets there without a pointer
 * @gshare: counters from 0 to 3, as so many ones; from 2 on, predict taken
 * @returns: stack of return addresses
 * @missed: mispredicted branches that are not yet in X86PMU.missed: at CPL 0,
 *          and at CPL > 0 (not migrated: none are left at a save)
 * @load: where the next address of a load goes, in X86PMUPrecise.loads (not
 *        migrated: all are looked up before a save)
 * @history: outcomes of conditional branches, the last one in bit 0
 * @top: where the next return address goes in @returns, modulo their number
 * @l1i: addresses of lines
 *
 * In this order, what is written often and what is read soon after that do not
 * alias in the host's CPU, see INSN_COUNT_WORD_AT().
 */
typedef struct X86PMULookup {
    uint8_t gshare[X86_PMU_GSHARE];
    uint64_t returns[X86_PMU_RETURNS];
    uint64_t missed[2][PMU_MISSED_KINDS];
    uintptr_t load;
    uint32_t history;
    uint8_t top;
    uint64_t l1i[X86_PMU_L1_LINES];
} X86PMULookup;

/**
 * X86PMUPrecise: what the CPU remembers besides
 * @l1d, @llc: line numbers plus 1
 * @code, @data: TLBs
 * @target: where indirect branches went last time
 * @loads: addresses of one privilege, up to X86PMULookup.load (not migrated:
 *         looked up before)
 * @lost: quarters of a slot that misses have cost (not migrated, like the
 *        next three: they only predict deadlines)
 * @window_slots: all quarters when @cost was last computed (not migrated)
 * @window_lost: @lost then (not migrated)
 * @cost: what one of the accelerator's units cost recently, in quarters of a
 *        slot, rounded up; 0 if not yet known (not migrated)
 */
typedef struct X86PMUPrecise {
    uint64_t l1d[X86_PMU_L1_LINES];
    uint64_t target[X86_PMU_TARGETS];
    uint64_t loads[X86_PMU_LOADS] QEMU_ALIGNED(X86_PMU_LOADS_SIZE);
    uint64_t llc[X86_PMU_LLC_LINES];
    X86PMUTLB code;
    X86PMUTLB data;
    uint64_t lost;
    uint64_t window_slots;
    uint64_t window_lost;
    uint64_t cost;
} X86PMUPrecise;

#endif
