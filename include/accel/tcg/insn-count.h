/*
 * Counts of retired guest instructions, for emulated PMUs
 *
 * For a target that has a PMU, TCG counts what each vCPU retires: exactly,
 * without -icount, and at no cost while no counter of the vCPU is enabled.
 *
 * What is counted
 *
 *   A *total* is a 64-bit count that never decreases and that the guest never
 *   sees. A counter of the PMU takes the total when it starts and when it is
 *   read, and shows the difference. Each vCPU has one total for each *lane*
 *   (retired instructions, branches, loads...: the target defines them) in
 *   each privilege *domain*.
 *
 *   A *unit* is what a deadline is counted in. Every instruction uses at least
 *   one. Arm and POWER: a unit is an instruction. x86: a quarter of an issue
 *   slot.
 *
 * What a translation block does
 *
 *   Each domain has a few 64-bit *words* in ArchCPU, into which several lanes
 *   are packed. A block begins by adding what all of its instructions count:
 *   one addition for each word that is in use. The first word has the units
 *   that are left of a *budget* in its upper bits, and a block subtracts its
 *   units from them:
 *
 *    63           46 45                                                0
 *   +---------------+---------------------------------------------------+
 *   | units left    | lanes                                             |
 *   +---------------+---------------------------------------------------+
 *
 *   If that makes the word negative, the block has changed nothing yet and
 *   *refuses*: it returns to the main loop as if somebody had requested an
 *   exit, see insn_count_refused(). Stock QEMU's own test for exit requests
 *   stays: a block takes one branch if either value is negative.
 *
 *   Blocks that count and blocks that do not are different blocks
 *   (CF_INSN_COUNT), so switching invalidates none.
 *
 * What takes counts back
 *
 *   Whatever ends a block early subtracts what did not retire:
 *   cpu_restore_state() after a fault, an I/O recompile, or self-modifying
 *   code; translator_insn_not_retired() for an exception that the translator
 *   raises itself; translator_insn_again() for an instruction that starts
 *   again, such as a repeated string instruction.
 *
 * Deadlines
 *
 *   A deadline is a number of units: "call me before more than that are
 *   counted in these domains". Budgets are handed out so that together they
 *   never exceed a deadline. So the block in which a deadline lies refuses.
 *   insn_count_refused() finds the instruction that reaches it and has the
 *   block retranslated up to there; the next block then refuses, because no
 *   units are left, and the target's hook is called, directly after that
 *   instruction. The hook raises the PMU's interrupt, which the main loop
 *   delivers before it executes anything else.
 *
 *   A block that was cut to a number of instructions (CF_COUNT_MASK) may
 *   overdraw the budget by its last one: it refuses only if the deadline comes
 *   before that. So a block of a single instruction always starts unless the
 *   hook is to be called first, and whoever executes one outside the main loop
 *   (cpu_exec_step_atomic(), gdb) makes progress. Blocks that must not be
 *   interrupted (CF_NOIRQ) never refuse.
 *
 * Reading
 *
 *   insn_count_sync() makes the totals exact at the current instruction, which
 *   it does not include, wherever in a block that is.
 *
 * It works the same with MTTCG, -icount, record/replay, and one-insn-per-tb.
 * It does not exist in user-mode binaries and on 32-bit hosts.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_INSN_COUNT_H
#define ACCEL_TCG_INSN_COUNT_H

#include "qemu/seqlock.h"

#define INSN_COUNT_DOMAINS      4
#define INSN_COUNT_WORDS        7
#define INSN_COUNT_LANES        32

/* The most words of all domains together */
#define INSN_COUNT_SPACE        24

/* Where the units left begin in word 0 */
#define INSN_COUNT_UNITS_SHIFT  46

/* The most units of an instruction, of a block, and of a budget */
#define INSN_COUNT_INSN_UNITS   1023
#define INSN_COUNT_TB_UNITS     UINT16_MAX
#define INSN_COUNT_MAX_UNITS    ((1 << 17) - 1 - INSN_COUNT_INSN_UNITS)

/*
 * What is counted, a bit mask: always the units; the lanes of words. There are
 * no more bits in cflags than for four words. The last bit stands for all later
 * words, too; a block without lanes of a word has no code for it.
 */
#define INSN_COUNT_UNITS        1u
#define INSN_COUNT_WORD_BITS    4
#define INSN_COUNT_WORD(word)   (2u << MIN(word, INSN_COUNT_WORD_BITS - 1))

/* No deadline */
#define INSN_COUNT_NEVER        INT64_MAX

/* Displacements that differ by this alias in the host's CPU, see below */
#define INSN_COUNT_ALIAS        1024

/**
 * CPUInsnCount: the counts of a vCPU, owned by its thread
 * @space: contains the words, at InsnCountOps.word
 * @limit: the largest budget in units, if the lanes have no room for
 *         INSN_COUNT_MAX_UNITS, else 0; set by the target before it counts. It
 *         must be enough for any block.
 * @budget: units left in word 0 of each domain when it was last folded
 * @total: the totals, without what is still in the words
 * @due: units until the deadline of each set of domains (index: a bit mask);
 *       INSN_COUNT_NEVER without one
 * @due_sets: which sets have a deadline, a bit for each
 * @linger: units until @wanted replaces @counted
 * @counted: what blocks count, INSN_COUNT_UNITS and so on
 * @wanted: what insn_count_enable() asked for last
 * @seq: held while words, @budget, and @total change together
 *
 * Not migrated: a target whose guests see more than differences of totals
 * migrates @total itself, as x86 does.
 *
 * Last in the target's ArchCPU, so that the offsets of fields that generated
 * code uses stay.
 */
typedef struct CPUInsnCount {
    uint8_t space[INSN_COUNT_ALIAS + INSN_COUNT_SPACE * sizeof(uint64_t)];
    int64_t limit;
    int64_t budget[INSN_COUNT_DOMAINS];
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    int64_t due[1 << INSN_COUNT_DOMAINS];
    uint32_t due_sets;
    int64_t linger;
    uint8_t counted;
    uint8_t wanted;
    QemuSeqLock seq;
} CPUInsnCount;

/* Where a lane lies; in word 0, below the units */
typedef struct InsnCountLane {
    uint8_t word;
    uint8_t shift;
    uint8_t bits;
} InsnCountLane;

/**
 * InsnCountOps: what a target counts
 * @offset: of the CPUInsnCount in ArchCPU
 * @word: of the words in ArchCPU, an INSN_COUNT_WORD_AT(); those of one domain
 *        follow those of the other
 * @units: the lane that is the units
 * @domains: number of privilege domains
 * @words: number of words of a domain
 * @lanes: number of lanes; lane 0 is the retired instructions
 * @lane: layout of all lanes except @units. If lane 0 is not the units, it
 *        begins at bit 0 of word 0. A lane must have room for what a budget of
 *        units and one more instruction can count.
 * @deadline: called on the vCPU's thread between two blocks, without the BQL,
 *            when a deadline is reached, and sometimes without need. The
 *            totals are exact. Must set new deadlines. NULL if the target
 *            never sets any.
 * @whole_blocks: may @deadline be called as late as at the end of the block in
 *                which a deadline lies? Then no block is cut for it.
 * @reaches: would the target do anything in @deadline if it were called after
 *           instructions that count @lanes more in @domain? Lets a target use
 *           deadlines that are lower bounds without having blocks cut in vain.
 *           @lanes do not include what the last instruction adds by
 *           translator_count_here(). If true for some instructions, it must
 *           be true for more of them. @loose: answer also for what may wait
 *           until just before the last instruction of the block. NULL if
 *           deadlines are exact numbers of units.
 */
typedef struct InsnCountOps {
    size_t offset;
    size_t word;
    unsigned units;
    unsigned domains;
    unsigned words;
    unsigned lanes;
    InsnCountLane lane[INSN_COUNT_LANES];
    void (*deadline)(CPUState *cpu);
    bool whole_blocks;
    bool (*reaches)(CPUState *cpu, unsigned domain, const uint64_t *lanes,
                    bool loose);
} InsnCountOps;

/**
 * INSN_COUNT_WORD_AT: choose where the words lie in ArchCPU
 * @type: the target's name of ArchCPU
 * @member: its CPUInsnCount
 * @place: the lower 10 bits of the displacement from env, a multiple of 8
 *
 * A CPU of the host guesses that a load depends on an earlier store when only
 * the lower bits of the two agree, and restarts the load when it was wrong:
 * 10 bits of the displacement on Zen 5 (measured: 29 cycles), 12 bits of the
 * address on Intel's (Optimization Reference Manual, "4-KByte memory
 * aliasing"). Each block stores a word first and loads from env next. So choose
 * a place at which no field lies that generated code loads often; those from
 * -0x110 to -1 (CPUNegativeOffsetState) are loaded often, too.
 */
#define INSN_COUNT_WORD_AT(type, member, place)                               \
    (ROUND_UP(offsetof(type, member.space) - sizeof(CPUState) - (place),      \
              INSN_COUNT_ALIAS) + sizeof(CPUState) + (place))

/* Whether this accelerator can count at all */
bool insn_count_available(void);

/**
 * insn_count_enable: choose what is counted
 * @cpu: the vCPU, on its own thread or not running
 * @counted: INSN_COUNT_UNITS and so on; 0 to stop
 * @linger: blocks may go on to count for a while what is no longer wanted,
 *          because PMUs are switched off and on around every sample and
 *          context switch, and finding other blocks each time costs more than
 *          counting; pass false if code in blocks that count must not run
 *
 * Takes effect at the end of the current block.
 */
void insn_count_enable(CPUState *cpu, unsigned counted, bool linger);

/**
 * insn_count_sync: bring the totals up to date
 * @cpu: the vCPU, on its own thread or not running
 * @ra: as GETPC(), for a helper; 0 between blocks
 */
void insn_count_sync(CPUState *cpu, uintptr_t ra);

/**
 * insn_count_set_deadlines: set all deadlines
 * @cpu: the vCPU, on its own thread or not running, after insn_count_sync()
 * @domain: the current domain
 * @due: for each set of domains, units from now on; see CPUInsnCount.due
 */
void insn_count_set_deadlines(CPUState *cpu, unsigned domain,
                              const int64_t *due);

/**
 * insn_count_read: totals of all domains, from any thread
 * @cpu: the vCPU
 * @lanes: which of its lanes, a bit mask; they must be counted
 * @total: gets the totals, each at the number of its lane
 *
 * Needs the BQL. Returns whether the totals are exact. They are on the vCPU's
 * own thread, which must be between two blocks or in the last instruction of
 * one, with that instruction; and while the vCPU executes no code (halted,
 * stopped, not counting, or another vCPU's turn). If it executes, they include
 * all of its current block, which may end early, and the words are read in the
 * order of the lanes, so those of a later word can include later blocks.
 *
 * Other threads must not enable, disable, or set deadlines; async_run_on_cpu()
 * can. The vCPU keeps its old setting until that has run.
 */
bool insn_count_read(CPUState *cpu, uint32_t lanes, uint64_t *total);

/**
 * insn_count_peek: a total, from any thread
 * @cpu: the vCPU
 * @domain: one of its domains
 * @lane: one of its lanes
 *
 * Includes all of the block that the vCPU executes, some of which may be taken
 * back: a later look can show less, by at most one block. Exact if the vCPU is
 * not executing code, or in the last instruction of a block.
 */
uint64_t insn_count_peek(CPUState *cpu, unsigned domain, unsigned lane);

/*
 * For accel/tcg
 */

/* Why a block has returned TB_EXIT_REQUESTED, and what to do */
typedef enum InsnCountRefusal {
    INSN_COUNT_NOT_REFUSED,     /* not because of units */
    INSN_COUNT_RESUME,          /* execute the block again at once */
    INSN_COUNT_LOOK_UP,         /* go round the main loop */
} InsnCountRefusal;

/*
 * What the block of @host_pc has added for the current and later instructions;
 * returns its domain, or -1 if it does not count
 */
int insn_count_ahead(uintptr_t host_pc, uint64_t *ahead);

/* In translate-all.c */
int cpu_unwind_data_from_tb(TranslationBlock *tb, uintptr_t host_pc,
                            uint64_t *data, uint64_t *count);
uint8_t *encode_sleb128(uint8_t *p, int64_t val);
int64_t decode_sleb128(const uint8_t **pp);

#ifdef CONFIG_USER_ONLY
static inline InsnCountRefusal insn_count_refused(CPUState *cpu,
                                                  TranslationBlock *tb)
{
    return INSN_COUNT_NOT_REFUSED;
}

static inline void insn_count_exec_end(CPUState *cpu)
{
}

static inline void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                                     const uint64_t *ahead)
{
}

static inline uint8_t *insn_count_encode(const TranslationBlock *tb, int insn,
                                         uint8_t *p)
{
    return p;
}

static inline void insn_count_decode(const TranslationBlock *tb,
                                     const uint8_t **pp, uint64_t *count)
{
}
#else
/* @tb has returned TB_EXIT_REQUESTED: call the hook, hand out new budgets */
InsnCountRefusal insn_count_refused(CPUState *cpu, TranslationBlock *tb);

/*
 * cpu_exec() returns. The hook must see a deadline that the last instruction
 * has reached: it can wake a CPU that has halted, and a replay may wait for it.
 */
void insn_count_exec_end(CPUState *cpu);

/* Subtract what @tb has added for instructions that it did not execute */
void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                       const uint64_t *ahead);

/*
 * In the table that a block has for cpu_restore_state(), each line also says,
 * for each word in use, what to subtract if execution stops before this
 * instruction: two columns, the upper 18 and the lower 46 bits. Like the other
 * columns, they are differences to the line before.
 */
uint8_t *insn_count_encode(const TranslationBlock *tb, int insn, uint8_t *p);
void insn_count_decode(const TranslationBlock *tb, const uint8_t **pp,
                       uint64_t *count);
#endif

#endif
