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
#include "qemu/memalign.h"
#include "pmu-internal.h"

void x86_pmu_precise_new(X86CPU *cpu)
{
    cpu->pmu_precise = qemu_memalign(X86_PMU_LOADS_SIZE,
                                     sizeof(X86PMUPrecise));
    x86_pmu_precise_reset(cpu);
}

void x86_pmu_precise_free(X86CPU *cpu)
{
    g_clear_pointer(&cpu->pmu_precise, qemu_vfree);
}

void x86_pmu_precise_reset(X86CPU *cpu)
{
    X86PMUPrecise *p = cpu->pmu_precise;

    memset(p, 0, sizeof(*p));
    memset(&cpu->pmu_lookup, 0, sizeof(cpu->pmu_lookup));
    memset(cpu->pmu_lookup.l1i, -1, sizeof(cpu->pmu_lookup.l1i));
    cpu->pmu_lookup.load = (uintptr_t)p->loads;
}

static unsigned precise_domain(CPUX86State *env)
{
    return env->hflags & HF_CPL_MASK ? X86_COUNT_USER : X86_COUNT_KERNEL;
}

/* Cycles that are lost; the slots are backend bound unless put elsewhere */
static uint64_t precise_lose(X86CPU *cpu, unsigned domain, uint64_t cycles)
{
    uint64_t slots = 4 * cpu->pmu->width * cycles;

    cpu->insn_count.total[domain][X86_COUNT_SLOTS] += slots;
    cpu->pmu_precise->lost += slots;
    return slots;
}

/*
 * How many slots misses will cost is not known. The most that is possible is
 * hundreds of times the usual loss, and deadlines by that would take thousands
 * of looks at the PMU. So assume at most twice the recent loss. If it stays as
 * it is, this looks again after half of the way, in the end at each block.
 */
int64_t x86_pmu_precise_units(X86CPU *cpu, uint64_t quarters)
{
    enum { WINDOW = 4096, MOST = 32768 };
    X86PMUPrecise *p = cpu->pmu_precise;
    uint64_t slots = 0, all, units;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        slots += cpu->insn_count.total[d][X86_COUNT_SLOTS];
    }
    all = slots - p->window_slots;
    units = all - (p->lost - p->window_lost);
    if (units >= WINDOW) {
        p->cost = DIV_ROUND_UP(all, units);
        p->window_slots = slots;
        p->window_lost = p->lost;
    }
    units = quarters / (2 * MAX(p->cost, 1));
    return MIN(MAX(units, 1), MOST);
}

/*
 * Look up the page of an address that missed the first level of a cache. Add to
 * @hits if it is in the second level of @tlb only, to @walks if in none.
 */
static void precise_translate(X86PMUTLB *tlb, uint64_t addr, uint64_t *hits,
                              uint64_t *walks)
{
    uint64_t page = (addr >> X86_PMU_PAGE_BITS) + 1;
    uint64_t *first = &tlb->first[page % X86_PMU_TLB];
    uint64_t *second = &tlb->second[page % X86_PMU_STLB];

    if (*first != page) {
        *first = page;
        ++*(*second == page ? hits : walks);
        *second = page;
    }
}

void helper_pmu_fetch_miss(CPUX86State *env, uint64_t at)
{
    X86CPU *cpu = env_archcpu(env);
    X86PMUPrecise *p = cpu->pmu_precise;
    uint64_t line = at >> X86_PMU_LINE_BITS;
    unsigned domain = precise_domain(env);
    uint64_t *total = cpu->insn_count.total[domain];

    cpu->pmu_lookup.l1i[line % X86_PMU_L1_LINES] = line << X86_PMU_LINE_BITS;
    precise_translate(&p->code, at, &total[X86_COUNT_ITLB_HIT],
                      &total[X86_COUNT_ITLB_WALK]);
    total[X86_COUNT_FETCH_LAT] += precise_lose(cpu, domain, X86_PRICE_L1_MISS);
}

/* Look up the loads that are written down */
static void precise_drain_loads(X86CPU *cpu)
{
    X86PMUPrecise *p = cpu->pmu_precise;
    uintptr_t user = cpu->pmu_lookup.load & X86_PMU_LOADS_USER;
    unsigned domain = user ? X86_COUNT_USER : X86_COUNT_KERNEL;
    uint64_t *total = cpu->insn_count.total[domain];
    const uint64_t *load, *end = (uint64_t *)(cpu->pmu_lookup.load - user);
    unsigned refs = 0, lost = 0;

    for (load = p->loads; load < end; load++) {
        uint64_t line = (*load >> X86_PMU_LINE_BITS) + 1;
        uint64_t *l1 = &p->l1d[line % X86_PMU_L1_LINES];
        uint64_t *llc = &p->llc[line % X86_PMU_LLC_LINES];

        if (likely(*l1 == line)) {
            continue;
        }
        *l1 = line;
        refs++;
        lost += *llc != line;
        *llc = line;
        precise_translate(&p->data, *load, &total[X86_COUNT_DTLB_HIT],
                          &total[X86_COUNT_DTLB_WALK]);
    }
    total[X86_COUNT_LLC_REF] += refs;
    total[X86_COUNT_LLC_MISS] += lost;
    precise_lose(cpu, domain,
                 refs * X86_PRICE_L1_MISS + lost * X86_PRICE_LLC_MISS);
    cpu->pmu_lookup.load = (uintptr_t)p->loads | user;
}

/* What the branches that were mispredicted have cost */
static void precise_drain_missed(X86CPU *cpu)
{
    unsigned d, kind;

    QEMU_BUILD_BUG_ON(ARRAY_SIZE(cpu->pmu_lookup.missed) != X86_COUNT_DOMAINS);

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        uint64_t *total = cpu->insn_count.total[d];
        uint64_t *missed = cpu->pmu_lookup.missed[d];
        uint64_t all = 0;

        for (kind = 0; kind < PMU_MISSED_KINDS; kind++) {
            all += missed[kind];
            cpu->pmu->missed[d][kind] += missed[kind];
            missed[kind] = 0;
        }
        total[X86_COUNT_MISPREDICT] +=
            precise_lose(cpu, d, all * X86_PRICE_MISPREDICT);
        total[X86_COUNT_FETCH_LAT] +=
            precise_lose(cpu, d, all * X86_PRICE_RESTEER);
    }
}

void x86_pmu_precise_drain(X86CPU *cpu)
{
    precise_drain_loads(cpu);
    precise_drain_missed(cpu);
}

/* For a block that has no room, or of the other privilege */
void helper_pmu_drain(CPUX86State *env)
{
    X86CPU *cpu = env_archcpu(env);

    precise_drain_loads(cpu);
    cpu->pmu_lookup.load = (uintptr_t)cpu->pmu_precise->loads |
                    (env->hflags & HF_CPL_MASK ? X86_PMU_LOADS_USER : 0);
}

void helper_pmu_indirect(CPUX86State *env, target_ulong eip)
{
    X86CPU *cpu = env_archcpu(env);
    X86PMUPrecise *p = cpu->pmu_precise;
    uint64_t *target = &p->target[(eip ^ eip / X86_PMU_TARGETS) &
                                  (X86_PMU_TARGETS - 1)];

    if (*target != env->eip) {
        *target = env->eip;
        cpu->pmu_lookup.missed[precise_domain(env)][PMU_MISSED_INDIRECT]++;
    }
}
