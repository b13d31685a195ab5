/*
 * Counts of retired guest instructions, for emulated PMUs
 *
 * For a target that has a PMU, TCG counts what each vCPU retires: exactly,
 * without -icount, and at no cost while no counter of the vCPU is enabled.
 *
 * What is counted
 *
 *   A *total* is a 64-bit count that is never reset. A counter of the PMU
 *   takes the total when it starts and when it is read, and shows the
 *   difference. Each vCPU has one total for each *lane* (retired instructions,
 *   branches, loads...: the target defines them) in each privilege *domain*
 *   (such as user mode).
 *
 *   A *deadline* is a number of units after which the PMU must act, such as the
 *   overflow of a counter. A *unit* is a retired instruction on Arm and POWER.
 *   On x86 it is a quarter of an issue slot of the modelled pipeline, and an
 *   instruction uses four or more, by its price.
 *
 * What a translation block does
 *
 *   Each domain has a few 64-bit *words* in ArchCPU, into which several lanes
 *   are packed. A block begins by adding what all of its instructions count:
 *   one addition for each word that they add to, word 0 first. The upper bits
 *   of word 0 are a *budget*: the units that blocks may still use before the
 *   accelerator must look at the deadlines. The same addition subtracts the
 *   block's units:
 *
 *    63           46 45                                                0
 *   +---------------+---------------------------------------------------+
 *   | units left    | lanes                                             |
 *   +---------------+---------------------------------------------------+
 *
 *   If the sum is negative, the block stores nothing and *refuses*: it returns
 *   to the main loop as if somebody had requested an exit, see
 *   insn_count_refused(). One branch tests the sum and stock QEMU's request.
 *
 *   Blocks that count and blocks that do not are different blocks
 *   (CF_INSN_COUNT), so switching invalidates none. Those that count find the
 *   next block faster than stock QEMU's do, which saves much of what counting
 *   costs: see insn-count-lookup.c.inc.
 *
 * What takes counts back
 *
 *   Whatever ends a block early subtracts what did not retire:
 *   cpu_restore_state() after a fault, an I/O recompile, or self-modifying
 *   code; translator_insn_again() for an instruction that starts again, such
 *   as a repeated string instruction. So a helper that raises an exception must
 *   restore the state (GETPC()), or be in the last instruction of its block. An
 *   instruction in whose place the translator raises an exception adds nothing:
 *   translator_insn_not_retired().
 *
 * Deadlines
 *
 *   The target's hook is called directly after the instruction with which the
 *   units of a set of domains reach their deadline; or, if that instruction
 *   leaves these domains, before the next one in them. The budgets of the
 *   domains together do not exceed the deadline, so the block in which it lies
 *   refuses. insn_count_refused() finds the instruction and has the block
 *   retranslated up to there. The block after that one refuses, because no
 *   units are left, and insn_count_refused() calls the hook. The hook raises
 *   the PMU's interrupt, which the main loop delivers before it executes
 *   anything else. One thing can come before the hook: the exception of a next
 *   instruction that cannot be fetched or is undefined, which uses no units.
 *   A block that refuses without a deadline in it gets a new budget and starts
 *   again.
 *
 *   A deadline may be too early: N times an event that only some instructions
 *   count need at least N units, and may need many more. If the event has not
 *   occurred so often at the deadline, the hook sets the next one. A block that
 *   contains the deadline, but not the event, is not cut: it starts with as
 *   many units as it needs (InsnCountOps.reaches). If no block since the last
 *   call of the hook adds to the event's words, and this one does not, it gets
 *   them without a call of the hook (CPUInsnCount.due_words).
 *
 *   The last instruction of a block that was cut to a number of instructions
 *   (CF_COUNT_MASK) may overdraw the budget: the block starts if one unit is
 *   left for that instruction. cpu_exec_step_atomic() relies on this: what the
 *   interrupted block takes back is at least one unit. Blocks never refuse that
 *   must not be interrupted (CF_NOIRQ), or that are a debugger's single step:
 *   the hook follows them when cpu_exec() returns.
 *
 * Reading
 *
 *   The vCPU's thread calls insn_count_sync(), which *folds* the words into the
 *   totals: these are then exact up to the current instruction, without it,
 *   also in the middle of a block. Other threads call insn_count_read() or
 *   insn_count_peek(), which add totals and words: while the vCPU executes a
 *   block, the result includes all of it, and says so.
 *
 * Counting is the same with MTTCG, -icount, record/replay, and one-insn-per-tb.
 * It does not exist in user-mode binaries and on 32-bit hosts.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_INSN_COUNT_H
#define ACCEL_TCG_INSN_COUNT_H

#include "hw/core/cpu.h"
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
 * What blocks count, a bit mask: INSN_COUNT_UNITS always, and a bit for the
 * lanes of each word. cflags has bits for four words, of which the last stands
 * for all later words, too. A block has no code for words that it leaves alone.
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
 * @limit: the largest budget in units, from the next one on, set by the target;
 *         0 if the lanes have room for INSN_COUNT_MAX_UNITS. A budget of @limit
 *         must be enough for any block.
 * @budget: units left in word 0 of each domain when it was last folded, or got
 *          a new budget
 * @total: the totals, without what is still in the words
 * @due: units from the last fold until the deadline of each set of domains
 *       (index: a bit mask); INSN_COUNT_NEVER without one
 * @due_sets: which sets have a deadline, a bit for each
 * @due_words, @due_any: set by a target that has @reaches, before
 *             insn_count_set_deadlines(). Some deadlines come nearer only with
 *             blocks that add to certain words: @due_words, a bit for each.
 *             @due_any is the units until the first of the others, which all
 *             blocks bring nearer; 0 if one of the former may be reached.
 * @linger: units until @wanted replaces @counted
 * @counted: what blocks count, INSN_COUNT_UNITS and so on
 * @wanted: what insn_count_enable() asked for last
 * @excess: a budget goes beyond the deadline, so that one block can start
 * @seq: held for writing while words, @budget, and @total change together
 *
 * Not migrated: a target for which differences of totals are not enough, such
 * as x86, migrates @total itself.
 *
 * Last in the target's ArchCPU, so that the offsets of other fields stay.
 */
typedef struct CPUInsnCount {
    uint8_t space[INSN_COUNT_ALIAS + INSN_COUNT_SPACE * sizeof(uint64_t)];
    int64_t limit;
    int64_t budget[INSN_COUNT_DOMAINS];
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    int64_t due[1 << INSN_COUNT_DOMAINS];
    uint32_t due_sets;
    int64_t due_any;
    uint8_t due_words;
    int64_t linger;
    uint8_t counted;
    uint8_t wanted;
    bool excess;
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
 * @offset: offset of the CPUInsnCount in ArchCPU
 * @word: offset of the words in ArchCPU, an INSN_COUNT_WORD_AT(): all words of
 *        domain 0, then all words of domain 1, and so on
 * @units_lane: the lane that is the units
 * @domains: number of privilege domains
 * @start_words: INSN_START_WORDS of the target
 * @words: number of words of a domain
 * @lanes: number of lanes; lane 0 is the retired instructions
 * @lane: layout of all lanes except @units_lane. If lane 0 is not the units, it
 *        begins at bit 0 of word 0. A lane must have room for what a budget of
 *        units and one more instruction can count.
 * @domain: returns the domain of the next instruction. NULL stands for domain
 *          0; allowed if each set with a deadline includes domain 0
 * @deadline: the hook: called on the vCPU's thread between two blocks, without
 *            the BQL, when a deadline is reached. The totals are exact. Must
 *            set new deadlines, of one unit at least if they include the next
 *            instruction's domain: cpu_exec_step_atomic() tries for ever to
 *            start a block without any. NULL if the target never sets any.
 * @whole_blocks: may @deadline be called as late as at the end of the block in
 *                which a deadline lies? Then no block is cut for it.
 * @reaches: would the hook do anything after instructions that count @lanes
 *           more in @domain? Lets a target set deadlines that are too early
 *           without having blocks cut in vain. @lanes do not include what the
 *           last instruction adds by translator_count_here(). If true for some
 *           instructions, it must be true for more of them. @loose: consider
 *           also events that may wait until just before the last instruction
 *           of the block. NULL if deadlines are exact.
 */
typedef struct InsnCountOps {
    size_t offset;
    size_t word;
    unsigned units_lane;
    unsigned domains;
    unsigned start_words;
    unsigned words;
    unsigned lanes;
    InsnCountLane lane[INSN_COUNT_LANES];
    unsigned (*domain)(CPUState *cpu);
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
 * insn_count_peek: totals of each domain, from any thread
 * @cpu: the vCPU
 * @lanes: which of its lanes, a bit mask; they must be counted
 * @total: gets the totals, by domain and lane
 *
 * On the vCPU's own thread, and while the vCPU executes no code (halted,
 * stopped, not counting, or another vCPU's turn), the totals are exact. The own
 * thread must be between two blocks, or in the last instruction of a block,
 * which the totals then include. While the vCPU executes, they include all of
 * its current block, which may end early: less insn_count_block_most(), they
 * are a lower bound. The words are read one after the other, within
 * nanoseconds, so that later ones can include blocks that earlier ones lack.
 *
 * Returns the domains whose totals may include such a block, a bit mask; 0 if
 * all totals are exact. Other threads need the BQL for this to be right.
 *
 * Other threads must not enable, disable, or set deadlines; async_run_on_cpu()
 * can. The vCPU keeps its old setting until that has run.
 */
unsigned insn_count_peek(CPUState *cpu, uint32_t lanes,
                         uint64_t (*total)[INSN_COUNT_LANES]);

/*
 * insn_count_peek() with the sums of all domains, at the numbers of their
 * lanes. Returns whether they are exact. Needs the BQL.
 */
bool insn_count_read(CPUState *cpu, uint32_t lanes, uint64_t *total);

/*
 * The most that any block translated so far adds to a lane when it starts. Call
 * this after insn_count_peek(), for a lower bound of totals that are not exact.
 */
unsigned insn_count_block_most(unsigned lane);

/**
 * insn_count_run_on_cpu: run_on_cpu() for monitor commands
 * @cpu: the vCPU
 * @func: what its thread does, with the BQL
 * @data: what @func gets
 *
 * With record/replay, these commands hold the replay lock, without which the
 * vCPU does not come to its work. So it is released meanwhile, as the BQL is.
 */
void insn_count_run_on_cpu(CPUState *cpu, run_on_cpu_func func,
                           run_on_cpu_data data);

/*
 * For accel/tcg
 */

/* What to do after a block has returned TB_EXIT_REQUESTED */
typedef enum InsnCountRefusal {
    INSN_COUNT_NOT_REFUSED,     /* not for lack of units */
    INSN_COUNT_RESUME,          /* execute the block again at once */
    INSN_COUNT_LOOK_UP,         /* go round the main loop */
} InsnCountRefusal;

/*
 * Set @ahead to what the block at @host_pc has added to each word for the
 * current and later instructions. Returns its domain, or -1 if it adds nothing.
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

/*
 * An interrupt or exception has come in front of a block. The block may have
 * got more units than are due, because it does not reach the deadline in them;
 * the handler must not use them.
 */
void insn_count_diverted(CPUState *cpu);

/*
 * Subtract what @tb has added for instructions that it did not execute, and
 * take back the units that it got above what is due
 */
void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                       const uint64_t *ahead);

/*
 * The line of an instruction in the table that a block has for
 * cpu_restore_state(). It also has, for each word in use, what to subtract if
 * execution stops before this instruction, in two columns: the upper 18 and the
 * lower 46 bits. Like other columns, they are differences from the line before.
 */
uint8_t *insn_count_encode(const TranslationBlock *tb, int insn, uint8_t *p);
void insn_count_decode(const TranslationBlock *tb, const uint8_t **pp,
                       uint64_t *count);
#endif

#endif
