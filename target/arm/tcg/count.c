/*
 * Arm translation: what each instruction counts, for the events of the PMU
 *
 * Each instruction is classified by its encoding alone, so that the counts are
 * the same on all hosts: see count-kinds.c.inc. Our decisions, where the Arm
 * ARM allows several:
 *
 *  - An atomic operation (LDADD, SWP, CAS, and CPY*) is a load and a store.
 *  - A prefetch is neither; DC ZVA is a store. So are stores of tags.
 *  - A branch counts in BR_RETIRED and BR_IMMED_RETIRED also when it is not
 *    taken. An AArch32 instruction whose condition fails counts nowhere else.
 *  - A return from an exception writes the PC, but is no branch.
 *  - Moves between general and floating-point registers belong to the latter.
 *  - Instructions of FEAT_SHA3, such as EOR3, are cryptographic.
 *  - A store-exclusive that throws its result away (to WZR) passes.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "translate.h"
#include "target/arm/pmu-internal.h"
#include "tcg/tcg-temp-internal.h"

#define LANE        PMU_LANE
#define DIRECT      (LANE(BR) | LANE(BR_IMMED))
#define INDIRECT    (LANE(BR) | LANE(BR_INDIRECT) | LANE(PC_WRITE))
#define LD          (LANE(LD) | LANE(LDST))
#define ST          (LANE(ST) | LANE(LDST))

#define COUNTS(NAME, LANES)                                     \
    static bool trans_##NAME(DisasContext *s, Nothing *a)       \
    {                                                           \
        s->count_lanes = (LANES);                               \
        return true;                                            \
    }

#include "count-kinds.c.inc"

/* What an AArch32 instruction counts also if its condition fails */
#define UNCONDITIONAL DIRECT

/* What lanes (a bit mask) add to the words */
static void count_words(uint32_t lanes, uint64_t *words)
{
    memset(words, 0, INSN_COUNT_WORDS * sizeof(uint64_t));
    for (; lanes; lanes &= lanes - 1) {
        const InsnCountLane *l = &arm_insn_count_ops.lane[ctz32(lanes)];

        words[l->word] += 1ULL << l->shift;
    }
}

static bool count_counts_lanes(DisasContext *s)
{
    unsigned i;

    for (i = 0; i < arm_insn_count_ops.words; i++) {
        if (translator_counts_lanes(&s->base, i)) {
            return true;
        }
    }
    return false;
}

static void gen_count_lanes(DisasContext *s, uint32_t lanes, bool add)
{
    uint64_t words[INSN_COUNT_WORDS];
    unsigned i;

    count_words(lanes, words);
    for (i = 0; i < arm_insn_count_ops.words; i++) {
        if (words[i]) {
            translator_count_here(&s->base, i, add ? words[i] : -words[i]);
        }
    }
}

void count_insn(DisasContext *s)
{
    uint64_t words[INSN_COUNT_WORDS];

    s->count_lanes = 0;
    if (count_counts_lanes(s)) {
        count_classify(s);
        count_words(s->count_lanes, words);
        translator_insn_counts(&s->base, 1, words);
    }
}

bool gen_count_condition(DisasContext *s, uint32_t cond)
{
    uint32_t lanes = s->count_lanes & ~UNCONDITIONAL;
    TCGLabel *pass;

    if (!lanes) {
        return false;
    }
    pass = gen_new_label();
    arm_gen_test_cc(cond, pass);
    gen_count_lanes(s, lanes, false);
    tcg_gen_br(s->condlabel.label);
    gen_set_label(pass);
    return true;
}

void gen_count_taken(DisasContext *s)
{
    if (s->count_lanes) {
        gen_count_lanes(s, LANE(PC_WRITE), true);
    }
}

void gen_count_strex_i64(DisasContext *s, TCGv_i64 failed)
{
    const InsnCountLane *pass = &arm_insn_count_ops.lane[PMU_LANE_STREX_PASS];
    const InsnCountLane *fail = &arm_insn_count_ops.lane[PMU_LANE_STREX_FAIL];

    if (s->count_lanes) {
        TCGv_i64 from = tcg_temp_new_i64(), to = tcg_temp_new_i64();

        assert(pass->word == fail->word);
        tcg_gen_shli_i64(from, failed, pass->shift);
        tcg_gen_shli_i64(to, failed, fail->shift);
        tcg_gen_sub_i64(to, to, from);
        translator_count_here_i64(&s->base, fail->word, to);
    }
}

void gen_count_strex_i32(DisasContext *s, TCGv_i32 failed)
{
    TCGv_i64 wide;

    if (s->count_lanes) {
        wide = tcg_temp_new_i64();
        tcg_gen_extu_i32_i64(wide, failed);
        gen_count_strex_i64(s, wide);
    }
}
