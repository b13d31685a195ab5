/*
 * Branch predictors and caches for the PMU (pmu-model=precise)
 *
 * What is missed costs slots of its category. See pmu-precise.h for what is
 * done in translated code, and what here.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "exec/helper-proto.h"
#include "migration/vmstate.h"
#include "tcg/pmu-precise.h"
#include "pmu-internal.h"

X86PMUPrecise *x86_pmu_precise_new(void)
{
    return g_new0(X86PMUPrecise, 1);
}

void x86_pmu_precise_reset(X86PMUPrecise *p)
{
    memset(p, 0, sizeof(*p));
}

static uint64_t *precise_total(X86CPU *cpu, bool user)
{
    return cpu->insn_count.total[user ? X86_COUNT_USER : X86_COUNT_KERNEL];
}

/* Cycles that are lost to a category and its part */
static void precise_lose(X86CPU *cpu, bool user, unsigned cycles,
                         unsigned level_1, unsigned level_2)
{
    uint64_t *total = precise_total(cpu, user);
    unsigned slots = 4 * cpu->pmu->width * cycles;

    total[X86_COUNT_SLOTS] += slots;
    total[level_1] += slots;
    total[level_2] += slots;
}

void helper_pmu_mispredict(CPUX86State *env)
{
    X86CPU *cpu = env_archcpu(env);
    bool user = env->hflags & HF_CPL_MASK;

    precise_lose(cpu, user, X86_PRICE_MISPREDICT, X86_COUNT_BAD,
                 X86_COUNT_MISPREDICT);
    precise_lose(cpu, user, X86_PRICE_RESTEER, X86_COUNT_FRONTEND,
                 X86_COUNT_FETCH_LAT);
}

void helper_pmu_fetch_miss(CPUX86State *env)
{
    precise_lose(env_archcpu(env), env->hflags & HF_CPL_MASK,
                 X86_PRICE_L1_MISS, X86_COUNT_FRONTEND, X86_COUNT_FETCH_LAT);
}

void x86_pmu_precise_drain(X86CPU *cpu)
{
    X86PMUPrecise *p = cpu->pmu_precise;
    unsigned i;

    for (i = 0; i < p->misses; i++) {
        uint64_t line = p->miss[i] & ~X86_PMU_MISS_USER;
        bool user = p->miss[i] & X86_PMU_MISS_USER;
        uint64_t *in_cache = &p->llc[line % X86_PMU_LLC_LINES];
        uint64_t *total = precise_total(cpu, user);
        unsigned cycles = X86_PRICE_L1_MISS;

        total[X86_COUNT_LLC_REF]++;
        if (*in_cache != line) {
            *in_cache = line;
            total[X86_COUNT_LLC_MISS]++;
            cycles += X86_PRICE_LLC_MISS;
        }
        precise_lose(cpu, user, cycles, X86_COUNT_BACKEND, X86_COUNT_MEMORY);
    }
    p->misses = 0;
}

void helper_pmu_drain(CPUX86State *env)
{
    x86_pmu_precise_drain(env_archcpu(env));
}

void helper_pmu_indirect(CPUX86State *env, target_ulong eip)
{
    X86PMUPrecise *p = env_archcpu(env)->pmu_precise;
    uint64_t *target = &p->target[(eip ^ eip / X86_PMU_TARGETS) &
                                  (X86_PMU_TARGETS - 1)];

    if (*target != env->eip) {
        *target = env->eip;
        helper_pmu_mispredict(env);
    }
}

void helper_pmu_call(CPUX86State *env, target_ulong next)
{
    X86PMUPrecise *p = env_archcpu(env)->pmu_precise;

    p->returns[p->top] = next;
    p->top = (p->top + 1) % X86_PMU_RETURNS;
}

void helper_pmu_ret(CPUX86State *env)
{
    X86PMUPrecise *p = env_archcpu(env)->pmu_precise;

    p->top = (p->top + X86_PMU_RETURNS - 1) % X86_PMU_RETURNS;
    if (p->returns[p->top] != env->eip) {
        helper_pmu_mispredict(env);
    }
}

static int precise_post_load(void *opaque, int version_id)
{
    X86PMUPrecise *p = opaque;

    p->top %= X86_PMU_RETURNS;
    return 0;
}

/* Nothing is to be drained when it is saved */
const VMStateDescription vmstate_x86_pmu_precise = {
    .name = "cpu/tcg_pmu/precise/state",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = precise_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(l1i, X86PMUPrecise, X86_PMU_L1_LINES),
        VMSTATE_UINT64_ARRAY(l1d, X86PMUPrecise, X86_PMU_L1_LINES),
        VMSTATE_UINT64_ARRAY(llc, X86PMUPrecise, X86_PMU_LLC_LINES),
        VMSTATE_UINT8_ARRAY(gshare, X86PMUPrecise, X86_PMU_GSHARE),
        VMSTATE_UINT32(history, X86PMUPrecise),
        VMSTATE_UINT64_ARRAY(target, X86PMUPrecise, X86_PMU_TARGETS),
        VMSTATE_UINT64_ARRAY(returns, X86PMUPrecise, X86_PMU_RETURNS),
        VMSTATE_UINT8(top, X86PMUPrecise),
        VMSTATE_END_OF_LIST()
    }
};
