/*
 * What a target's translator says about retired instructions
 *
 * See accel/tcg/insn-count.h. All of this is for the instruction that is
 * being translated. Nothing needs to be called for an instruction that is one
 * unit and counts in no lane of the target.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef EXEC_TRANSLATOR_COUNT_H
#define EXEC_TRANSLATOR_COUNT_H

#include "exec/translation-block.h"
#include "exec/translator.h"
#include "tcg/tcg.h"

#ifdef CONFIG_USER_ONLY

static inline bool translator_counts(const DisasContextBase *db)
{
    return false;
}

static inline bool translator_counts_lanes(const DisasContextBase *db,
                                           unsigned word)
{
    return false;
}

static inline void translator_insn_counts(DisasContextBase *db, unsigned units,
                                          const uint64_t *lanes)
{
}

static inline void translator_insn_not_retired(const DisasContextBase *db)
{
}

static inline void translator_insn_again(const DisasContextBase *db)
{
}

static inline void translator_insns_again(const DisasContextBase *db, int n)
{
}

static inline void translator_insn_goes_on(DisasContextBase *db)
{
}

static inline void translator_count_here(const DisasContextBase *db,
                                         unsigned word, uint64_t lanes)
{
}

static inline void translator_count_here_i64(const DisasContextBase *db,
                                             unsigned word, TCGv_i64 lanes)
{
}

static inline void translator_count_domain(const DisasContextBase *db,
                                           unsigned domain)
{
}

static inline void insn_count_block_begin(const DisasContextBase *db)
{
}

static inline void insn_count_block_start_code(const DisasContextBase *db,
                                               TCGv_i32 request)
{
}

static inline void insn_count_insn_start(const DisasContextBase *db)
{
}

static inline void insn_count_block_end(const DisasContextBase *db)
{
}

#else

/* Does this block count anything? */
static inline bool translator_counts(const DisasContextBase *db)
{
    return tb_cflags(db->tb) & CF_INSN_COUNT;
}

/* Does it count the lanes of this word? */
bool translator_counts_lanes(const DisasContextBase *db, unsigned word);

/* From init_disas_context: the privilege domain of the block, if not 0 */
void translator_count_domain(const DisasContextBase *db, unsigned domain);

/**
 * translator_insn_counts: what the instruction adds
 * @db: the context
 * @units: its units, 1 to INSN_COUNT_INSN_UNITS
 * @lanes: for each word, what it adds to the lanes of the target there. A
 *         lane must be large enough for a budget of units, and one more
 *         instruction.
 */
void translator_insn_counts(DisasContextBase *db, unsigned units,
                            const uint64_t *lanes);

/* The instruction raises an exception instead of being executed */
void translator_insn_not_retired(const DisasContextBase *db);

/*
 * Emit code for a path on which the instruction has not retired, but starts
 * again. What it adds must be known before.
 */
void translator_insn_again(const DisasContextBase *db);

/*
 * Emit code for a path on which instruction @n of the block (the first is 1)
 * and those after it have not retired. Later on this path,
 * translator_insn_not_retired() and translator_insn_again() do nothing. From
 * tb_stop, or with translator_insn_goes_on() at the path's end, which makes the
 * instruction the last one of the block.
 */
void translator_insns_again(const DisasContextBase *db, int n);
void translator_insn_goes_on(DisasContextBase *db);

/*
 * Emit code that adds to lanes what is known only at run time. Nothing may
 * follow on this path that can keep the instruction from retiring.
 */
void translator_count_here(const DisasContextBase *db, unsigned word,
                           uint64_t lanes);
void translator_count_here_i64(const DisasContextBase *db, unsigned word,
                               TCGv_i64 lanes);

/* For translator_loop() */
void insn_count_block_begin(const DisasContextBase *db);
void insn_count_block_start_code(const DisasContextBase *db, TCGv_i32 request);
void insn_count_insn_start(const DisasContextBase *db);
void insn_count_block_end(const DisasContextBase *db);

#endif /* !CONFIG_USER_ONLY */
#endif
