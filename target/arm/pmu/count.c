/*
 * Arm translation: the lanes that each instruction adds to, for PMU events
 *
 * Each instruction is classified by its encoding alone, so that the counts are
 * the same on all hosts: see count-kinds.c.inc. Our decisions, where the Arm
 * ARM allows several:
 *
 *  - An atomic operation (LDADD, SWP, CAS, and CPY*) is a load and a store.
 *  - A prefetch is neither; DC ZVA is a store. So are stores of tags, and DC
 *    GVA and GZVA.
 *  - A branch counts as a branch also when it is not taken. An AArch32
 *    instruction whose condition fails counts nowhere else.
 *  - A return from an exception writes the PC, but is no branch.
 *  - Moves between general and floating-point registers belong to the latter.
 *  - Instructions of FEAT_SHA3, such as EOR3, are cryptographic.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "tcg/translate.h"
#include "pmu-internal.h"
#include "tcg/tcg-temp-internal.h"

#define LANE    PMU_LANE

#define PRICE(slots) ((slots) + QEMU_BUILD_BUG_ON_ZERO((slots) > PMU_MAX_PRICE))

#define COUNTS(NAME, LANES, FRONTEND, BACKEND)                          \
    static bool trans_##NAME(DisasContext *s, Nothing *a)               \
    {                                                                   \
        static const CountKind kind = {                                 \
            (LANES), PRICE(FRONTEND), PRICE(BACKEND)                    \
        };                                                              \
        s->count_kind = &kind;                                          \
        return true;                                                    \
    }

#include "count-kinds.c.inc"

/* The values that a kind of instruction adds to the words of counts */
static void count_words(const CountKind *kind, uint64_t *words)
{
    const InsnCountLane *lane = arm_insn_count_ops.lane;
    const InsnCountLane *frontend = &lane[PMU_LANE_FRONTEND];
    const InsnCountLane *backend = &lane[PMU_LANE_BACKEND];
    uint32_t l;

    memset(words, 0, INSN_COUNT_WORDS * sizeof(uint64_t));
    for (l = kind->lanes; l; l &= l - 1) {
        words[lane[ctz32(l)].word] += 1ULL << lane[ctz32(l)].shift;
    }
    if (pmu_topdown_supported(cpu_env(current_cpu))) {
        words[frontend->word] += (uint64_t)kind->frontend << frontend->shift;
        words[backend->word] += (uint64_t)kind->backend << backend->shift;
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

void count_insn(DisasContext *s)
{
    uint64_t words[INSN_COUNT_WORDS];

    s->count_kind = NULL;
    if (translator_counts(&s->base) && count_counts_lanes(s)) {
        trans_NONE(s, NULL);
        count_classify(s);
        count_words(s->count_kind, words);
        translator_insn_counts(&s->base, 1, words);
    }
}

/* The lanes of an AArch32 instruction whose condition fails */
static uint32_t count_lanes_if_failed(uint32_t lanes)
{
    if (lanes & LANE(BR_IMMED)) {
        return LANE(BR_IMMED);
    }
    return lanes & (LANE(BR_INDIRECT) | LANE(LD_BR)) ? LANE(BR_INDIRECT)
                                                     : LANE(OTHER);
}

bool gen_count_condition(DisasContext *s, uint32_t cond)
{
    uint64_t passed[INSN_COUNT_WORDS], failed[INSN_COUNT_WORDS];
    TCGLabel *pass = NULL;
    unsigned i;

    if (!s->count_kind) {
        return false;
    }
    count_words(s->count_kind, passed);
    count_words(&(CountKind) { count_lanes_if_failed(s->count_kind->lanes) },
                failed);
    for (i = 0; i < arm_insn_count_ops.words; i++) {
        if (failed[i] == passed[i] || !translator_counts_lanes(&s->base, i)) {
            continue;
        }
        if (!pass) {
            pass = gen_new_label();
            arm_gen_test_cc(cond, pass);
        }
        translator_count_here(&s->base, i, failed[i] - passed[i]);
    }
    if (!pass) {
        return false;
    }
    tcg_gen_br(s->condlabel.label);
    gen_set_label(pass);
    return true;
}

void gen_count_taken(DisasContext *s)
{
    const InsnCountLane *l = &arm_insn_count_ops.lane[PMU_LANE_PC_WRITE];

    translator_count_here(&s->base, l->word, 1ULL << l->shift);
}

void gen_count_strex_i64(DisasContext *s, TCGv_i64 failed)
{
    const InsnCountLane *pass = &arm_insn_count_ops.lane[PMU_LANE_STREX_PASS];
    const InsnCountLane *fail = &arm_insn_count_ops.lane[PMU_LANE_STREX_FAIL];

    assert(pass->word == fail->word);
    if (translator_counts_lanes(&s->base, fail->word)) {
        TCGv_i64 from = tcg_temp_new_i64(), to = tcg_temp_new_i64();

        tcg_gen_shli_i64(from, failed, pass->shift);
        tcg_gen_shli_i64(to, failed, fail->shift);
        tcg_gen_sub_i64(to, to, from);
        translator_count_here_i64(&s->base, fail->word, to);
    }
}

void gen_count_strex_i32(DisasContext *s, TCGv_i32 failed)
{
    TCGv_i64 wide;

    if (translator_counts(&s->base)) {
        wide = tcg_temp_new_i64();
        tcg_gen_extu_i32_i64(wide, failed);
        gen_count_strex_i64(s, wide);
    }
}
