/*
 * Counts of retired guest instructions: the translator's part
 *
 * See insn-count.h for the model, and translator-count.h for what a target's
 * translator calls.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "insn-count-internal.h"
#include "exec/translator-count.h"
#include "tcg/tcg.h"
#include "tcg/tcg-op-common.h"
#include "tcg/tcg-temp-internal.h"

/**
 * InsnCountGen: the block that a thread translates
 * @insn: what each instruction adds to the words; at the end of translation,
 *        the sum from it to the end of the block
 * @add: the addition to each word, with a load before and a store after it
 * @add_last: the addition to word 0 of the last instruction, which may overdraw
 *            the budget; NULL if the block may not
 * @units: sum of what translator_insn_counts() was told in this block
 * @delayed: what follows is the path of an exception, whose counts
 *           translator_insns_again() has taken back
 * @taken_back: another path of this instruction takes back what it adds
 */
typedef struct InsnCountGen {
    uint64_t insn[TCG_MAX_INSNS][INSN_COUNT_WORDS];
    TCGOp *add[INSN_COUNT_WORDS];
    TCGOp *add_last;
    unsigned units;
    bool delayed;
    bool taken_back;
} InsnCountGen;

static __thread InsnCountGen *gen;

/* The most of each lane in a block so far, not migrated: of what runs here */
static unsigned block_most[INSN_COUNT_LANES];

static const InsnCountOps *insn_count_gen_ops(void)
{
    return insn_count_ops(tcg_ctx->cpu);
}

static bool insn_count_block_adds(const DisasContextBase *db, unsigned word)
{
    return insn_count_adds(tb_cflags(db->tb), word);
}

bool translator_counts_lanes(const DisasContextBase *db, unsigned word)
{
    return tb_cflags(db->tb) & insn_count_lanes_cflag(word);
}

/* What an instruction of so many units adds to word 0 besides its lanes */
static uint64_t insn_count_of_units(const DisasContextBase *db, unsigned units)
{
    bool lane_0 = insn_count_gen_ops()->units_lane &&
                  translator_counts_lanes(db, 0);

    return lane_0 - units * INSN_COUNT_UNIT;
}

static uint64_t *insn_count_of_current(const DisasContextBase *db)
{
    return gen->insn[db->num_insns - 1];
}

/*
 * What the target's translator says
 */

void translator_count_domain(const DisasContextBase *db, unsigned domain)
{
    db->tb->count_domain = domain;
}

void translator_insn_counts(DisasContextBase *db, unsigned units,
                            const uint64_t *lanes)
{
    uint64_t *insn = insn_count_of_current(db);
    unsigned i;

    tcg_debug_assert(units >= 1 && units <= INSN_COUNT_INSN_UNITS);
    if (!insn[0]) {
        /* The instruction does not retire */
        return;
    }
    for (i = 0; i < insn_count_gen_ops()->words; i++) {
        insn[i] = translator_counts_lanes(db, i) ? lanes[i] : 0;
    }
    insn[0] += insn_count_of_units(db, units);
    gen->units += units;
    if (gen->units > INSN_COUNT_TB_UNITS - INSN_COUNT_INSN_UNITS) {
        /* There might not be room for another instruction */
        db->max_insns = db->num_insns;
    }
}

/* Where stock QEMU's request for an exit lies, from env; negative if set */
#define INSN_COUNT_REQUEST  (offsetof(CPUState, neg.icount_decr.u32) - \
                             sizeof(CPUState))

/*
 * Add @value to the 64 bits at @at, or to the 32 bits. Returns the addition.
 *
 * With @request, which is negative if an exit is requested: if it is, or the
 * sum is negative, exit instead of storing the sum. One test of both takes 1 %
 * less of the host's time than two.
 *
 * With @add_last, the test is between two additions, of which the second is
 * returned there.
 */
static TCGOp *insn_count_gen_add_i64(const DisasContextBase *db, intptr_t at,
                                     TCGv_i64 value, TCGv_i32 request,
                                     TCGOp **add_last)
{
    TCGv_i64 t = tcg_temp_ebb_new_i64();
    TCGOp *add;

    tcg_gen_ld_i64(t, tcg_env, at);
    tcg_gen_add_i64(t, t, value);
    add = tcg_last_op();
    if (request) {
        TCGv_i64 either = tcg_temp_ebb_new_i64();

        if (tb_cflags(db->tb) & CF_USE_ICOUNT) {
            tcg_gen_ext_i32_i64(either, request);
        } else {
            /* Shorter; nothing else uses @request */
            tcg_gen_ld32s_i64(either, tcg_env, INSN_COUNT_REQUEST);
        }
        tcg_gen_or_i64(either, either, t);
        tcg_gen_brcondi_i64(TCG_COND_LT, either, 0, tcg_ctx->exitreq_label);
        tcg_temp_free_i64(either);
    }
    if (add_last) {
        tcg_gen_add_i64(t, t, tcg_constant_i64(0));
        *add_last = tcg_last_op();
    }
    tcg_gen_st_i64(t, tcg_env, at);
    tcg_temp_free_i64(t);
    return add;
}

static TCGOp *insn_count_gen_add_i32(intptr_t at, TCGv_i32 value,
                                     TCGv_i32 request, TCGOp **add_last)
{
    TCGv_i32 t = tcg_temp_ebb_new_i32();
    TCGOp *add;

    tcg_gen_ld_i32(t, tcg_env, at);
    tcg_gen_add_i32(t, t, value);
    add = tcg_last_op();
    if (request) {
        TCGv_i32 either = tcg_temp_ebb_new_i32();

        tcg_gen_or_i32(either, request, t);
        tcg_gen_brcondi_i32(TCG_COND_LT, either, 0, tcg_ctx->exitreq_label);
        tcg_temp_free_i32(either);
    }
    if (add_last) {
        tcg_gen_add_i32(t, t, tcg_constant_i32(0));
        *add_last = tcg_last_op();
    }
    tcg_gen_st_i32(t, tcg_env, at);
    tcg_temp_free_i32(t);
    return add;
}

/* Where a word lies, from env: CPUArchState follows CPUState */
static intptr_t insn_count_at(const DisasContextBase *db, unsigned word)
{
    return insn_count_offset(insn_count_gen_ops(), db->tb->count_domain,
                             word) - sizeof(CPUState);
}

/*
 * Add @value to a word, or to the upper half of word 0 if none of its lanes are
 * in use, which takes a third less code.
 */
static TCGOp *insn_count_gen_add(const DisasContextBase *db, unsigned word,
                                 uint64_t value, TCGv_i32 request,
                                 TCGOp **add_last)
{
    intptr_t at = insn_count_at(db, word);

    if (translator_counts_lanes(db, word)) {
        return insn_count_gen_add_i64(db, at, tcg_constant_i64(value),
                                      request, add_last);
    }
    return insn_count_gen_add_i32(at + (HOST_BIG_ENDIAN ? 0 : 4),
                                  tcg_constant_i32(value >> 32), request,
                                  add_last);
}

void translator_count_here(const DisasContextBase *db, unsigned word,
                           uint64_t lanes)
{
    /* A block that counts nothing has not even the constant */
    if (translator_counts_lanes(db, word)) {
        translator_count_here_i64(db, word, tcg_constant_i64(lanes));
    }
}

void translator_count_here_i64(const DisasContextBase *db, unsigned word,
                               TCGv_i64 lanes)
{
    if (translator_counts_lanes(db, word)) {
        db->tb->count_words |= 1 << word;
        insn_count_gen_add_i64(db, insn_count_at(db, word), lanes, NULL, NULL);
    }
}

/* Emit code that takes back what instruction @n of the block on adds */
static void insn_count_gen_again(const DisasContextBase *db, int n)
{
    unsigned i;

    for (i = 0; i < insn_count_gen_ops()->words; i++) {
        if (insn_count_block_adds(db, i)) {
            uint64_t sum = 0;
            int insn;

            for (insn = n; insn <= db->num_insns; insn++) {
                sum += gen->insn[insn - 1][i];
            }
            insn_count_gen_add(db, i, -sum, NULL, NULL);
        }
    }
}

void translator_insn_not_retired(const DisasContextBase *db)
{
    if (!translator_counts(db) || gen->delayed) {
        return;
    }
    if (gen->taken_back) {
        /* The block has to add what that path takes back: take it back here. */
        insn_count_gen_again(db, db->num_insns);
    } else {
        memset(insn_count_of_current(db), 0, sizeof(gen->insn[0]));
    }
}

void translator_insn_again(const DisasContextBase *db)
{
    if (translator_counts(db) && !gen->delayed) {
        insn_count_gen_again(db, db->num_insns);
    }
}

void translator_insns_again(const DisasContextBase *db, int n)
{
    if (translator_counts(db)) {
        insn_count_gen_again(db, n);
        gen->delayed = true;
    }
}

void translator_insn_goes_on(DisasContextBase *db)
{
    if (translator_counts(db)) {
        gen->delayed = false;
        gen->taken_back = true;
        db->max_insns = db->num_insns;
    }
}

/*
 * For translator_loop()
 */

void insn_count_block_begin(const DisasContextBase *db)
{
    db->tb->count_domain = 0;
    db->tb->count_words = 0;
    db->tb->count_units = 0;
    if (translator_counts(db)) {
        if (!gen) {
            static GPrivate owner = G_PRIVATE_INIT(g_free);

            tcg_debug_assert(insn_count_gen_ops()->domains *
                             insn_count_gen_ops()->words <= INSN_COUNT_SPACE);
            gen = g_new(InsnCountGen, 1);
            g_private_set(&owner, gen);
        }
        gen->units = 0;
        gen->delayed = false;
    }
}

/*
 * Emit the additions, with stock QEMU's test for exit requests (@request);
 * what they add is known at the end of the block
 */
void insn_count_block_start_code(const DisasContextBase *db, TCGv_i32 request)
{
    uint32_t cflags = tb_cflags(db->tb);
    unsigned i;

    if (!translator_counts(db)) {
        return;
    }
    if (cflags & CF_SINGLE_STEP && tcg_ctx->exitreq_label) {
        /* To refuse would be a step that does not move */
        tcg_gen_brcondi_i32(TCG_COND_LT, request, 0, tcg_ctx->exitreq_label);
    }
    gen->add_last = NULL;
    for (i = 0; i < insn_count_gen_ops()->words; i++) {
        if (insn_count_block_adds(db, i)) {
            bool test = i == 0 && !(cflags & (CF_NOIRQ | CF_SINGLE_STEP));
            bool overdraws = test && (cflags & CF_COUNT_MASK);

            gen->add[i] = insn_count_gen_add(db, i, 0, test ? request : NULL,
                                             overdraws ? &gen->add_last : NULL);
        }
    }
}

void insn_count_insn_start(const DisasContextBase *db)
{
    if (translator_counts(db)) {
        uint64_t *insn = insn_count_of_current(db);

        memset(insn, 0, sizeof(gen->insn[0]));
        insn[0] = insn_count_of_units(db, 1);
        gen->taken_back = false;
    }
}

static void insn_count_set_addend(const DisasContextBase *db, TCGOp *add,
                                  unsigned word, uint64_t sum)
{
    if (translator_counts_lanes(db, word)) {
        tcg_set_insn_param(add, 2, tcgv_i64_arg(tcg_constant_i64(sum)));
    } else {
        tcg_set_insn_param(add, 2, tcgv_i32_arg(tcg_constant_i32(sum >> 32)));
    }
}

/* @sums: what a block adds to each word */
static void insn_count_note_most(const uint64_t *sums)
{
    const InsnCountOps *ops = insn_count_gen_ops();
    unsigned i, old;

    for (i = 0; i < ops->lanes; i++) {
        const InsnCountLane *l = &ops->lane[i];
        unsigned adds = i == ops->units_lane ? -insn_count_units(sums[0]) :
                        extract64(sums[l->word], l->shift, l->bits);

        do {
            old = qatomic_read(&block_most[i]);
        } while (adds > old && qatomic_cmpxchg(&block_most[i], old,
                                               adds) != old);
    }
}

unsigned insn_count_block_most(unsigned lane)
{
    /* A block is in block_most before it changes words: read these first. */
    smp_rmb();
    return qatomic_read(&block_most[lane]);
}

void insn_count_block_end(const DisasContextBase *db)
{
    unsigned i;
    int n;

    if (!translator_counts(db)) {
        /* The CPU may be one without InsnCountOps */
        return;
    }
    for (i = 0; i < insn_count_gen_ops()->words; i++) {
        uint64_t sum = 0, last;
        TCGOp *add;

        if (!insn_count_block_adds(db, i)) {
            continue;
        }
        add = gen->add[i];
        last = gen->insn[db->num_insns - 1][i];
        for (n = db->num_insns - 1; n >= 0; n--) {
            sum += gen->insn[n][i];
            gen->insn[n][i] = sum;
        }
        if (i == 0) {
            if (gen->add_last && last) {
                /* One unit must be left when the last instruction starts */
                last += INSN_COUNT_UNIT;
                sum -= last;
                insn_count_set_addend(db, gen->add_last, i, last);
            }
            db->tb->count_units = -insn_count_units(sum);
        }
        if (i > 0 && !sum) {
            tcg_op_remove(tcg_ctx, QTAILQ_PREV(add, link));
            tcg_op_remove(tcg_ctx, QTAILQ_NEXT(add, link));
            tcg_op_remove(tcg_ctx, add);
        } else {
            db->tb->count_words |= 1 << i;
            insn_count_set_addend(db, add, i, sum);
        }
    }
    insn_count_note_most(gen->insn[0]);
}

uint8_t *insn_count_encode(const TranslationBlock *tb, int insn, uint8_t *p)
{
    int i;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return p;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(tb_cflags(tb), i)) {
            uint64_t prev = insn > 0 ? gen->insn[insn - 1][i] : 0;
            uint64_t more = gen->insn[insn][i] - prev;
            int64_t low = sextract64(more, 0, INSN_COUNT_UNITS_SHIFT);

            p = encode_sleb128(p, (int64_t)(more - low) >>
                                  INSN_COUNT_UNITS_SHIFT);
            p = encode_sleb128(p, low);
        }
    }
    return p;
}

void insn_count_decode(const TranslationBlock *tb, const uint8_t **pp,
                       uint64_t *count)
{
    int i;

    if (!(tb_cflags(tb) & CF_INSN_COUNT)) {
        return;
    }
    for (i = 0; i < INSN_COUNT_WORDS; i++) {
        if (insn_count_adds(tb_cflags(tb), i)) {
            count[i] += (uint64_t)decode_sleb128(pp) << INSN_COUNT_UNITS_SHIFT;
            count[i] += decode_sleb128(pp);
        }
    }
}
