/*
 * Counts of retired guest instructions: what the run time (insn-count.c) and
 * the translator (insn-count-translate.c) share
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_INSN_COUNT_INTERNAL_H
#define ACCEL_TCG_INSN_COUNT_INTERNAL_H

#include "accel/tcg/cpu-ops.h"
#include "accel/tcg/insn-count.h"
#include "exec/translation-block.h"
#include "hw/core/cpu.h"
#include "qemu/host-utils.h"

/* Where INSN_COUNT_UNITS and the bits above it lie in cflags */
#define CF_INSN_COUNT_SHIFT     ctz32(CF_INSN_COUNT)

/* A unit in word 0 */
#define INSN_COUNT_UNIT         (1ULL << INSN_COUNT_UNITS_SHIFT)

static inline const InsnCountOps *insn_count_ops(CPUState *cpu)
{
    return cpu->cc->tcg_ops->insn_count;
}

/* The units in word 0, or in a sum of what is added to it */
static inline int64_t insn_count_units(uint64_t word)
{
    return (int64_t)word >> INSN_COUNT_UNITS_SHIFT;
}

/* Where a word lies in ArchCPU */
static inline size_t insn_count_offset(const InsnCountOps *ops,
                                       unsigned domain, unsigned word)
{
    return ops->word + (domain * ops->words + word) * sizeof(uint64_t);
}

/* The bit of a word's lanes in cflags */
static inline uint32_t insn_count_lanes_cflag(unsigned word)
{
    return INSN_COUNT_WORD(word) << CF_INSN_COUNT_SHIFT;
}

/* Does a block with these cflags add to this word? */
static inline bool insn_count_adds(uint32_t cflags, unsigned word)
{
    return cflags & (word ? insn_count_lanes_cflag(word) : CF_INSN_COUNT);
}

#endif
