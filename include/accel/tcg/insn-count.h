/*
 * Counts of retired guest instructions, for emulated PMUs
 *
 * Every vCPU has 64-bit totals that never go back and that the guest never
 * sees: a PMU takes them when a counter starts and again when somebody looks,
 * and shows the difference. They are kept apart for each privilege domain,
 * and there is one for each lane: lane 0 is the retired instructions, the
 * other lanes are what the target wants to know of them (branches, loads...),
 * as far as the translator can tell. One of the lanes is the units of the
 * target, which are always counted if anything is: the instructions, or what
 * each of them takes at least one of.
 *
 *  - A translation block adds up what its instructions count when it starts:
 *    one addition for the units, with a test of the sign, and one for each
 *    word of lanes that is in use and to which it adds something; the lanes of
 *    word 0 come with the units. Whatever ends the block early takes back what
 *    did not retire: cpu_restore_state() for faults, I/O recompiles, and
 *    self-modifying code; translator_insn_not_retired() for exceptions that
 *    the translator raises itself; translator_insn_again() for an instruction
 *    that starts again.
 *  - Nothing is emitted unless the vCPU counts. Blocks that count and blocks
 *    that do not are different blocks (CF_INSN_COUNT), so that switching
 *    invalidates none. On the vCPU's own thread it takes effect when the
 *    current block has ended, however it ends. Switching off is lazy: PMUs
 *    are switched off and on again around every sample and context switch,
 *    and finding other blocks each time would cost more than the counting.
 *  - insn_count_sync() makes the totals exact at the current instruction,
 *    which it does not include, wherever in a block that is.
 *  - A deadline is a number of units: "call me before more than that are
 *    counted in these domains". The hook is called right behind the
 *    instruction that reaches the deadline, in whatever blocks that is
 *    translated. In the middle of a block, that takes two blocks more, which
 *    are seldom of use again. So the target can choose to have it later: in
 *    front of the next instruction that ends any block, which does not depend
 *    on how blocks are divided either.
 *  - The test of the sign is also the test for requests to exit to the main
 *    loop: there is no other in blocks that count, unless one of their
 *    instructions can start again, or -icount is on. What the vCPU's own
 *    thread asks for, it sees at the next block. What another thread asks for
 *    (it cannot change the word), it sees when the units run out: after at
 *    most INSN_COUNT_MAX_UNITS in each domain, and soon fewer while these take
 *    more than 50 microseconds. In stock QEMU, a block of x86 can repeat a
 *    string instruction 65,536 times before it looks.
 *  - It works the same with MTTCG, -icount, record/replay, and
 *    one-insn-per-tb. It is not there in user-mode binaries and on 32-bit
 *    hosts.
 *
 * The first word of a domain, as generated code sees it (the sign is set
 * when a block would use up more units than there are, or is to exit):
 *
 *    63           46 45                                                0
 *   +---------------+---------------------------------------------------+
 *   | units left    | lanes of the target                               |
 *   +---------------+---------------------------------------------------+
 *
 * If none of these lanes are in use, a block adds only to the upper half of
 * it, which takes a third less code. Units are what has been used of them.
 *
 * The other words hold only lanes of the target. Units bound all of them: a
 * budget of units is limited, and before the next one the words are emptied
 * into the totals.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_INSN_COUNT_H
#define ACCEL_TCG_INSN_COUNT_H

#include "qemu/seqlock.h"

#define INSN_COUNT_DOMAINS      4
#define INSN_COUNT_WORDS        4
#define INSN_COUNT_LANES        20

#define INSN_COUNT_UNITS_SHIFT  46

/*
 * The most that one instruction may use up, a block (which ends then), and a
 * budget; that can be overdrawn by an instruction
 */
#define INSN_COUNT_INSN_UNITS   1023
#define INSN_COUNT_TB_UNITS     UINT16_MAX
#define INSN_COUNT_MAX_UNITS    ((1 << 17) - 1 - INSN_COUNT_INSN_UNITS)

/* What is counted, a bit mask: always the units, and the lanes of words */
#define INSN_COUNT_UNITS        1u
#define INSN_COUNT_WORD(word)   (2u << (word))

/* For how many units blocks go on to count what they need not any more */
#define INSN_COUNT_LINGER       (1 << 18)

/* No deadline */
#define INSN_COUNT_NEVER        INT64_MAX

/* Displacements that differ by this are the same one to the host, see below */
#define INSN_COUNT_ALIAS        1024

#define INSN_COUNT_DOMAIN_SIZE  (INSN_COUNT_WORDS * sizeof(uint64_t))

/**
 * CPUInsnCount: the counts of a vCPU, owned by its thread except @shown
 * @room: it has in it the words that generated code adds to; they are at
 *        InsnCountOps.word
 * @limit: the largest budget, if the lanes have no room for one of
 *         INSN_COUNT_MAX_UNITS, else 0; set by the target before it counts. It
 *         must be enough for any block.
 * @budget: units that were left in the words when they were last looked at
 * @withheld: units that are neither in words nor in @budget, so that blocks
 *            exit
 * @total: the counts
 * @due: units until the deadline, for each set of domains (a bit mask)
 * @linger: units until @wanted replaces @what
 * @most: the largest budget to hand out, 0 if not yet known
 * @spent: units that were used up since
 * @paced: the host's time when @most was chosen
 * @what: what is counted, INSN_COUNT_UNITS and so on
 * @wanted: what insn_count_start() asked for
 * @seq: held while words, @budget, and @total are changed together
 * @shown: the most that insn_count_read() has returned, protected by the BQL
 *
 * It belongs to the target's ArchCPU, behind all fields that generated code
 * uses, so that nothing moves.
 */
typedef struct CPUInsnCount {
    uint8_t room[INSN_COUNT_ALIAS +
                 INSN_COUNT_DOMAINS * INSN_COUNT_DOMAIN_SIZE];
    int64_t limit;
    int64_t budget[INSN_COUNT_DOMAINS];
    int64_t withheld[INSN_COUNT_DOMAINS];
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    int64_t due[1 << INSN_COUNT_DOMAINS];
    int64_t linger;
    int64_t most;
    int64_t spent;
    int64_t paced;
    uint8_t what;
    uint8_t wanted;
    QemuSeqLock seq;
    uint64_t shown;
} CPUInsnCount;

/**
 * INSN_COUNT_WORD_AT: a place for the words in ArchCPU
 * @type: the target's name of ArchCPU
 * @member: its CPUInsnCount
 * @place: the lower bits of the displacement from env, a multiple of 8. The
 *         words of one domain follow those of the other.
 *
 * The host's CPU guesses that a load is from where a store has just been to
 * when only the lower bits are the same, and starts over when it was wrong:
 * 10 bits of the displacement on Zen 5 (measured: 29 cycles), 12 bits of the
 * address on Intel's (Optimization Reference Manual, "4-KByte memory
 * aliasing"). Each block first stores a word, then loads from env. So no field
 * that generated code often loads may have the same lower bits as a word;
 * those from -0x110 to -1 (in CPUNegativeOffsetState) are such, too.
 */
#define INSN_COUNT_WORD_AT(type, member, place)                               \
    (ROUND_UP(offsetof(type, member.room) - sizeof(CPUState) - (place),       \
              INSN_COUNT_ALIAS) + sizeof(CPUState) + (place))

/* Where a lane lies; in word 0, below the units */
typedef struct InsnCountLane {
    uint8_t word;
    uint8_t shift;
    uint8_t bits;
} InsnCountLane;

/**
 * InsnCountOps: what a target counts
 * @offset: where ArchCPU has its CPUInsnCount
 * @word: where it has the words in that, an INSN_COUNT_WORD_AT()
 * @units: which lane is the units
 * @domains: number of its privilege domains
 * @lanes: number of its lanes, with lane 0
 * @lane: layout of all lanes but that of the units. Lane 0 is from bit 0 of
 *        word 0 on, if it is none.
 * @deadline: called on the vCPU's thread between two blocks, without the BQL,
 *            when a deadline is reached. The totals are exact. It must set
 *            the deadlines again. @ends: the next instruction is a branch, or
 *            ends all blocks for another reason, or the CPU has halted. Where
 *            it is called besides that depends on how blocks are divided.
 *            NULL if there never are any deadlines.
 * @reaches: does it matter if that is called only behind instructions that
 *           count these lanes in this domain, and in front of one that @ends
 *           the block or does not? They do not include what the last one
 *           counts by translator_count_here(). If it does for some
 *           instructions, then for more of them, too, with the same @ends; and
 *           with @ends if without. If NULL, all units matter.
 */
typedef struct InsnCountOps {
    size_t offset;
    size_t word;
    unsigned units;
    unsigned domains;
    unsigned lanes;
    InsnCountLane lane[INSN_COUNT_LANES];
    void (*deadline)(CPUState *cpu, bool ends);
    bool (*reaches)(CPUState *cpu, unsigned domain, const uint64_t *lanes,
                    bool ends);
} InsnCountOps;

/* Can this accelerator count at all? */
bool insn_count_available(void);

/**
 * insn_count_start: choose what is counted
 * @cpu: the vCPU, on its own thread or not running
 * @what: INSN_COUNT_UNITS and so on; 0 to stop
 * @linger: what is not counted any more may be counted for a while; pass
 *          false if the target's code in blocks that count must not run then
 */
void insn_count_start(CPUState *cpu, unsigned what, bool linger);

/**
 * insn_count_sync: bring the totals up to date
 * @cpu: the vCPU, on its own thread or not running
 * @ra: as GETPC(), for a helper; 0 between blocks
 */
void insn_count_sync(CPUState *cpu, uintptr_t ra);

/**
 * insn_count_set_due: set all deadlines
 * @cpu: the vCPU, on its own thread or not running, after insn_count_sync()
 * @domain: the current domain
 * @due: for each set of domains, the units from now on; see @due above
 */
void insn_count_set_due(CPUState *cpu, unsigned domain, const int64_t *due);

/**
 * insn_count_read: the retired instructions of all domains, from any thread
 * @cpu: the vCPU
 *
 * They must be in use. Needs the BQL. On the vCPU's own thread, which must be
 * between two blocks or in the last instruction of one, the count is exact and
 * includes that instruction. It is exact, too, if the vCPU is not executing
 * code: it is halted or stopped, it does not count, or it is another one's
 * turn. While it executes, another thread gets a lower bound, at most
 * TCG_MAX_INSNS behind. No value is below an earlier one, whoever asked for it.
 *
 * Other threads must not start, stop, or set deadlines; async_run_on_cpu()
 * can. What the vCPU executes until then is not counted, or counted longer.
 */
uint64_t insn_count_read(CPUState *cpu);

/**
 * insn_count_peek: a total, from any thread
 * @cpu: the vCPU
 * @domain: one of its domains
 * @lane: one of its lanes
 *
 * It includes what the block has added that the vCPU executes, and which it
 * may take back: a later look can show less, by at most that. It is exact if
 * the vCPU is not executing code, or in the last instruction of a block.
 */
uint64_t insn_count_peek(CPUState *cpu, unsigned domain, unsigned lane);

/*
 * For accel/tcg
 */

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

/*
 * In the table that a block has for cpu_restore_state(), each line has also,
 * for each word in use, what is to be taken back if execution stops before
 * this instruction: two columns, with the upper 18 and the lower 46 bits.
 * Like the others, they are differences to the line before.
 */
#ifdef CONFIG_USER_ONLY
static inline bool insn_count_expired(CPUState *cpu, TranslationBlock *tb)
{
    return false;
}

static inline bool insn_count_resumes(CPUState *cpu, TranslationBlock *tb)
{
    return false;
}

static inline void insn_count_exit_done(CPUState *cpu)
{
}

static inline void insn_count_leave(CPUState *cpu)
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
/* Has @tb refused to start because units ran out? If so, hand out more. */
bool insn_count_expired(CPUState *cpu, TranslationBlock *tb);

/*
 * May that be executed next without a look at anything else? Looking it up
 * would take longer than all the rest: blocks that are chained are often not
 * in the jump cache.
 */
bool insn_count_resumes(CPUState *cpu, TranslationBlock *tb);

/* Requests to exit are about to be honoured. */
void insn_count_exit_done(CPUState *cpu);

/*
 * The CPU stops to execute code. A deadline that it has reached with the last
 * instruction can wake it, or be what a replay waits for.
 */
void insn_count_leave(CPUState *cpu);

/* Take back what @tb has added for instructions that it did not execute */
void insn_count_unwind(CPUState *cpu, TranslationBlock *tb,
                       const uint64_t *ahead);

uint8_t *insn_count_encode(const TranslationBlock *tb, int insn, uint8_t *p);
void insn_count_decode(const TranslationBlock *tb, const uint8_t **pp,
                       uint64_t *count);
#endif

#endif
