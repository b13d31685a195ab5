/*
 * TopDown: the categories of issue slots, and IA32_PERF_METRICS
 *
 * Every slot belongs to one of four categories of level 1, and part of each of
 * these to one of level 2. The register shows them as fractions of the slots
 * that fixed counter 3 has counted since software restarted both: it writes
 * the counter, which restarts the metrics, and then perhaps PERF_METRICS, to
 * go on from where they were.
 *
 * The categories are those of count.c.inc (pmu-model=static), with the misses
 * of pmu-precise.c (precise), or a mix that the user has set (pinned).
 *
 * Our decisions, where software cannot tell or nobody has written it down:
 *  - writing counter 3 clears PERF_METRICS;
 *  - what is written to PERF_METRICS reads back until slots are counted. If
 *    level 1 adds up to less than 255, the rest is backend bound; if to more,
 *    the later ones lose. A part of level 2 is not more than its category;
 *  - on models with level 1 only, the upper half is ignored and reads 0;
 *  - the metrics overflow once, when pmu-metrics-ovf slots have been counted
 *    since the restart.
 *
 * Reference: Intel SDM volume 3, "Performance Metrics"; Linux,
 * tools/perf/Documentation/topdown.txt and arch/x86/events/intel/core.c.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "hw/core/cpu.h"
#include "qemu/host-utils.h"
#include "pmu-internal.h"

#define METRICS_WHOLE       255

bool x86_topdown_available(CPUX86State *env)
{
    return env->features[FEAT_PERF_CAPABILITIES] & PMU_CAP_METRICS;
}

unsigned x86_topdown_lanes(X86CPU *cpu)
{
    if (cpu->pmu->model == X86_PMU_PINNED) {
        return 0;
    }
    return 1 << X86_COUNT_INSNS | 1 << X86_COUNT_BRANCHES |
           1 << X86_COUNT_COND | 1 << X86_COUNT_CALLS |
           1 << X86_COUNT_INDIRECT | 1 << X86_COUNT_CLEARS |
           1 << X86_COUNT_HEAVY | 1 << X86_COUNT_CORE;
}

/* The first @millionths of @whole, rounded down */
static uint64_t topdown_cut(uint64_t whole, uint32_t millionths)
{
    return muldiv64(whole, millionths, TOPDOWN_MIX_WHOLE);
}

static void topdown_split_mix(const uint32_t *mix, uint64_t slots,
                              uint64_t *part)
{
    uint64_t before = 0;
    uint32_t sum = 0;
    unsigned i;

    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        uint64_t to;

        sum += mix[i];
        to = topdown_cut(slots, sum);
        part[i] = to - before;
        before = to;
    }
    for (; i < TOPDOWN_CATEGORIES; i++) {
        part[i] = MIN(topdown_cut(slots, mix[i]), part[i - TOPDOWN_LEVEL_1]);
    }
}

void x86_topdown_split(X86CPU *cpu, unsigned domain, const uint64_t *total,
                       uint64_t *part)
{
    const X86PMUTopDown *t = &cpu->pmu->topdown;
    unsigned width = cpu->pmu->width;
    unsigned i;

    if (cpu->pmu->model == X86_PMU_PINNED) {
        topdown_split_mix(cpu->pmu_options.mix,
                          total[X86_COUNT_SLOTS] - t->split_at[domain], part);
        for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
            part[i] += t->split[domain][i];
        }
        return;
    }
    /* The prices of count.c.inc, and what the precise model adds */
    part[TOPDOWN_MISPREDICT] = total[X86_COUNT_MISPREDICT] +
        total[X86_COUNT_COND] * x86_pmu_price_of_cond(width, cpu->pmu_precise);
    part[TOPDOWN_BAD] = part[TOPDOWN_MISPREDICT] +
        total[X86_COUNT_CLEARS] * X86_PRICE_CLEAR * 4 * width;
    part[TOPDOWN_FETCH_LAT] = total[X86_COUNT_FETCH_LAT] +
        total[X86_COUNT_INDIRECT] * X86_PRICE_INDIRECT;
    part[TOPDOWN_FRONTEND] = part[TOPDOWN_FETCH_LAT] +
        total[X86_COUNT_COND] * X86_PRICE_COND +
        (total[X86_COUNT_BRANCHES] - total[X86_COUNT_COND]) * X86_PRICE_BRANCH;
    part[TOPDOWN_HEAVY] = total[X86_COUNT_HEAVY] * X86_PRICE_HEAVY;
    part[TOPDOWN_RETIRING] = part[TOPDOWN_HEAVY] +
        (total[X86_COUNT_INSNS] - total[X86_COUNT_HEAVY]) * X86_PRICE_INSN +
        total[X86_COUNT_CALLS] * X86_PRICE_CALL;
    /* All other slots; besides the core, that is memory */
    part[TOPDOWN_BACKEND] = total[X86_COUNT_SLOTS] - part[TOPDOWN_RETIRING] -
                            part[TOPDOWN_BAD] - part[TOPDOWN_FRONTEND];
    part[TOPDOWN_MEMORY] = part[TOPDOWN_BACKEND] - 4 * total[X86_COUNT_CORE];
}

/*
 * PERF_METRICS
 */

/* All slots so far, in the domains that the counter of slots counts */
static uint64_t topdown_slots(X86CPU *cpu)
{
    uint8_t domains = cpu->pmu->config[PMU_SLOTS_COUNTER].domains;
    uint64_t slots = 0;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            slots += cpu->insn_count.total[d][X86_COUNT_SLOTS];
        }
    }
    return slots;
}

/* The same by category */
static void topdown_parts(X86CPU *cpu, uint64_t *part)
{
    uint8_t domains = cpu->pmu->config[PMU_SLOTS_COUNTER].domains;
    uint64_t one[TOPDOWN_CATEGORIES];
    unsigned d, i;

    memset(part, 0, sizeof(one));
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            x86_topdown_split(cpu, d, cpu->insn_count.total[d], one);
            for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
                part[i] += one[i];
            }
        }
    }
}

static uint64_t topdown_limit(X86CPU *cpu)
{
    uint64_t most = cpu->pmu->mask + 1;

    return 4 * MIN(cpu->pmu_options.metrics_ovf ?: most, most);
}

void x86_topdown_clip(X86PMUTopDown *t)
{
    uint64_t left = t->total;
    unsigned i;

    for (i = 0; i < TOPDOWN_BACKEND; i++) {
        t->part[i] = MIN(t->part[i], left);
        left -= t->part[i];
    }
    t->part[TOPDOWN_BACKEND] = left;
    for (i = TOPDOWN_LEVEL_1; i < TOPDOWN_CATEGORIES; i++) {
        t->part[i] = MIN(t->part[i], t->part[i - TOPDOWN_LEVEL_1]);
    }
}

void x86_topdown_fold(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    X86PMUTopDown *t = &cpu->pmu->topdown;
    uint64_t part[TOPDOWN_CATEGORIES], slots, before = t->total;
    unsigned i;

    if (!t->active) {
        return;
    }
    slots = topdown_slots(cpu);
    if (slots == t->seen_total) {
        return;
    }
    topdown_parts(cpu, part);
    t->fresh = true;
    t->total += slots - t->seen_total;
    t->seen_total = slots;
    for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
        /*
         * A pinned mix rounds its categories: one can be a quarter of a slot
         * less than at the last fold.
         */
        if (part[i] > t->seen[i]) {
            t->part[i] += part[i] - t->seen[i];
            t->seen[i] = part[i];
        }
    }
    x86_topdown_clip(t);
    if (before < topdown_limit(cpu) && t->total >= topdown_limit(cpu)) {
        env->msr_global_status |= PMU_METRICS_BIT;
        x86_pmu_pend_interrupt(cpu, PMU_SLOTS_COUNTER);
    }
}

void x86_topdown_reconfigure(X86CPU *cpu)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;

    t->active = cpu->pmu->config[PMU_SLOTS_COUNTER].domains &&
                x86_topdown_available(&cpu->env) &&
                (cpu->env.msr_global_ctrl & PMU_METRICS_BIT);
    if (t->active) {
        t->seen_total = topdown_slots(cpu);
        topdown_parts(cpu, t->seen);
    }
}

uint64_t x86_topdown_left(X86CPU *cpu)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;
    uint64_t limit = topdown_limit(cpu), total;

    if (!t->active || !cpu->pmu->config[PMU_SLOTS_COUNTER].irq ||
        t->total >= limit) {
        return 0;
    }
    total = t->total + topdown_slots(cpu) - t->seen_total;
    return total < limit ? limit - total : 1;
}

/*
 * Whole fractions of 255: rounded down, then those with the largest
 * remainders get what is missing. It is at most three.
 */
uint64_t x86_topdown_read(X86CPU *cpu)
{
    const X86PMUTopDown *t = &cpu->pmu->topdown;
    uint64_t remainder[TOPDOWN_LEVEL_1], val = 0;
    unsigned byte[TOPDOWN_CATEGORIES] = { }, missing = METRICS_WHOLE;
    unsigned i, most;

    /* A stream that was refused half way may have left parts of anything */
    if (!t->fresh || !t->total) {
        return cpu->env.msr_perf_metrics;
    }
    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        byte[i] = METRICS_WHOLE * t->part[i] / t->total;
        remainder[i] = METRICS_WHOLE * t->part[i] % t->total;
        missing -= byte[i];
    }
    for (missing = MIN(missing, TOPDOWN_LEVEL_1 - 1); missing; missing--) {
        for (i = 1, most = 0; i < TOPDOWN_LEVEL_1; i++) {
            if (remainder[i] > remainder[most]) {
                most = i;
            }
        }
        remainder[most] = 0;
        byte[most]++;
    }
    if (cpu->pmu->level > 1) {
        for (i = TOPDOWN_LEVEL_1; i < TOPDOWN_CATEGORIES; i++) {
            byte[i] = (2 * METRICS_WHOLE * t->part[i] / t->total + 1) / 2;
            byte[i] = MIN(byte[i], byte[i - TOPDOWN_LEVEL_1]);
        }
    }
    for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
        val |= (uint64_t)byte[i] << 8 * i;
    }
    return val;
}

void x86_topdown_write(X86CPU *cpu, uint64_t val)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;
    unsigned i;

    if (cpu->pmu->level == 1) {
        val = (uint32_t)val;
    }
    cpu->env.msr_perf_metrics = val;
    t->total = 4 * cpu->env.msr_fixed_ctr3;
    for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
        t->part[i] = t->total * extract64(val, 8 * i, 8) / METRICS_WHOLE;
    }
    x86_topdown_clip(t);
    t->fresh = false;
}

void x86_topdown_clear(X86CPU *cpu)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;

    cpu->env.msr_perf_metrics = 0;
    t->total = 0;
    memset(t->part, 0, sizeof(t->part));
    t->fresh = false;
}

void x86_topdown_change_mix(X86CPU *cpu, const uint32_t *mix)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;
    unsigned d;

    x86_pmu_fold_unseen(cpu);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        const uint64_t *total = cpu->insn_count.total[d];
        uint64_t part[TOPDOWN_CATEGORIES];

        x86_topdown_split(cpu, d, total, part);
        memcpy(t->split[d], part, sizeof(part));
        t->split_at[d] = total[X86_COUNT_SLOTS];
    }
    memcpy(cpu->pmu_options.mix, mix, sizeof(cpu->pmu_options.mix));
    x86_pmu_restart_events(cpu);
}
