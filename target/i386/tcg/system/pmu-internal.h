/*
 * The parts of the PMU of Intel CPUs under TCG
 *
 * pmu.c has counters and registers, pmu-topdown.c the categories of slots,
 * PERF_METRICS, and the properties, pmu-precise.c branch predictors and
 * caches.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_PMU_INTERNAL_H
#define I386_TCG_PMU_INTERNAL_H

#include "tcg/pmu.h"
#include "tcg/pmu-options.h"

#define PMU_GP                  8
#define PMU_FIXED               4
#define PMU_COUNTERS            (PMU_GP + PMU_FIXED)
#define PMU_SLOTS               (PMU_GP + 3)    /* the counter of slots */
#define PMU_WIDTH               48
#define PMU_MASK                MAKE_64BIT_MASK(0, PMU_WIDTH)

/* PERF_CAPABILITIES */
#define PMU_CAP_FULL_WRITE      BIT_ULL(13)
#define PMU_CAP_METRICS         PERF_CAP_TOPDOWN

/* GLOBAL_CTRL, and overflow in GLOBAL_STATUS */
#define PMU_METRICS_BIT         BIT_ULL(48)

/* What the registers say of a counter */
typedef struct PMUConfig {
    uint16_t code;          /* unit mask and event select */
    const struct PMUEvent *event;
    uint8_t cmask;
    bool edge;
    bool inv;
    bool irq;
    uint8_t domains;        /* bit mask, 0: does not count */
} PMUConfig;

/**
 * X86PMUTopDown: state behind PERF_METRICS, in quarters of a slot
 * @active: it counts now
 * @fresh: slots have been counted since the register was written
 * @part: the categories since the restart, @total: all slots
 * @seen: the same of all time, in the domains of the counter of slots, when
 *        @part and @total were brought up to date
 * @split: with a pinned mix, the categories when that was set...
 * @split_at: ...and the slots, for each domain
 */
typedef struct X86PMUTopDown {
    bool active;
    bool fresh;
    uint64_t part[TOPDOWN_CATEGORIES];
    uint64_t total;
    uint64_t seen[TOPDOWN_CATEGORIES];
    uint64_t seen_total;
    uint64_t split[X86_COUNT_DOMAINS][TOPDOWN_CATEGORIES];
    uint64_t split_at[X86_COUNT_DOMAINS];
} X86PMUTopDown;

/**
 * X86PMURun: a counter that counts
 * @event: what its event had come to when it was brought up to date last; with
 *         a filter, when it started
 * @cycles: and the cycles then
 * @got: what the register in CPUX86State has got since it started
 * @rest: the fraction that it has not got yet, and which is kept while it does
 *        not count; in the parts that an event consists of
 * @rest_of: the event
 */
typedef struct X86PMURun {
    uint64_t event;
    uint64_t cycles;
    uint64_t got;
    uint64_t rest;
    uint16_t rest_of;
} X86PMURun;

/**
 * X86PMU: state that is not in the registers
 * @config: what the counters count now, general before fixed
 * @run: see X86PMURun
 * @width: slots per cycle
 * @model: where the categories of slots come from
 * @level: of PERF_METRICS, 1 or 2
 * @in_init: the current reset is an INIT
 * @irq_pending: an interrupt to be delivered by the vCPU's thread
 * @late: counters whose interrupt may come later, as bits of GLOBAL_STATUS
 * @saved: the totals of the accelerator, in the migration stream
 */
typedef struct X86PMU {
    PMUConfig config[PMU_COUNTERS];
    X86PMURun run[PMU_COUNTERS];
    uint32_t width;
    X86PMUModel model;
    uint8_t level;
    bool in_init;
    bool irq_pending;
    uint64_t late;
    X86PMUTopDown topdown;
    uint64_t saved[X86_COUNT_DOMAINS * X86_COUNT_TOTALS];
} X86PMU;

/*
 * pmu.c: bring all registers up to date, except for the current instruction
 * of the helper whose GETPC() is @ra; start again after a change. Interrupts
 * are delivered by the next deadline.
 */
void x86_pmu_update(X86CPU *cpu, uintptr_t ra);
void x86_pmu_start(X86CPU *cpu);

/* A lower bound of the accelerator's units for @quarters of a slot */
int64_t x86_pmu_units_of(X86CPU *cpu, uint64_t quarters);

/*
 * pmu-topdown.c
 */

bool x86_topdown_realize(X86CPU *cpu, Error **errp);

/* Does the CPU have PERF_METRICS? */
bool x86_topdown_available(CPUX86State *env);

/* Which lanes the categories need besides slots (a bit mask) */
unsigned x86_topdown_lanes(X86CPU *cpu);

/* The categories that the @total of a domain consists of */
void x86_topdown_split(X86CPU *cpu, unsigned domain, const uint64_t *total,
                       uint64_t *part);

/* All of these are called when the counts are up to date. */
void x86_topdown_update(X86CPU *cpu);
void x86_topdown_start(X86CPU *cpu);
uint64_t x86_topdown_read(X86CPU *cpu);
void x86_topdown_write(X86CPU *cpu, uint64_t val);
void x86_topdown_restart(X86CPU *cpu);

/*
 * Quarters of a slot from the accelerator's totals until the overflow that
 * interrupts; 0: there is none
 */
uint64_t x86_topdown_left(X86CPU *cpu);

extern const VMStateDescription vmstate_x86_topdown;
extern const VMStateDescription vmstate_x86_pmu_mix;

/*
 * pmu-precise.c
 */

void x86_pmu_precise_new(X86CPU *cpu);
void x86_pmu_precise_free(X86CPU *cpu);
void x86_pmu_precise_reset(X86CPU *cpu);
void x86_pmu_precise_drain(X86CPU *cpu);
extern const VMStateDescription vmstate_x86_pmu_precise;

#endif
