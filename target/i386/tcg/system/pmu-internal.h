/*
 * The parts of the PMU of Intel CPUs under TCG
 *
 *  pmu.c             life cycle: CPUID, realize, reset, INIT
 *  pmu-properties.c  properties of the CPU: pmu-model, topdown-mix, ...
 *  pmu-regs.c        MSRs and RDPMC
 *  pmu-counters.c    counters, overflow, interrupts
 *  pmu-events.c      what the events count
 *  pmu-topdown.c     the categories of slots, PERF_METRICS
 *  pmu-precise.c     branch predictors and caches
 *  pmu-shape.c       version, number and width of the counters
 *  pmu-info.c        the monitor's query-pmu and "info pmu"
 *  pmu-vmstate.c     migration
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_PMU_INTERNAL_H
#define I386_TCG_PMU_INTERNAL_H

#include "hw/registerfields.h"
#include "tcg/pmu.h"
#include "tcg/pmu-options.h"
#include "tcg/pmu-precise.h"

/* The default version, and the most counters and bits, see pmu-shape.c */
#define PMU_VERSION             5
#define PMU_GP                  8
#define PMU_FIXED               4
#define PMU_COUNTERS            (PMU_GP + PMU_FIXED)
#define PMU_SLOTS_COUNTER       (PMU_GP + 3)
#define PMU_COUNTER_WIDTH       48

/* Slots after which the metrics overflow, by default */
#define PMU_METRICS_OVF         BIT_ULL(PMU_COUNTER_WIDTH)

/* The unit of topdown-mix: millionths */
#define TOPDOWN_MIX_WHOLE       1000000

/* Room for the text of pmu-vmstate.c that says what the PMU is like */
#define PMU_SETUP_SIZE          512

/* PERF_CAPABILITIES */
#define PMU_CAP_FULL_WRITE      BIT_ULL(13)
#define PMU_CAP_METRICS         PERF_CAP_TOPDOWN

/* GLOBAL_CTRL, and overflow in GLOBAL_STATUS */
#define PMU_METRICS_BIT         BIT_ULL(48)

/* Bits of GLOBAL_CTRL, GLOBAL_STATUS, and the like */
#define PMU_STATUS_LBR_FRZ      BIT_ULL(58)
#define PMU_STATUS_CTR_FRZ      BIT_ULL(59)
#define PMU_STATUS_OVF_BUF      BIT_ULL(62)
#define PMU_STATUS_COND_CHGD    BIT_ULL(63)
#define PMU_INUSE_PMI           BIT_ULL(63)

/* In version 5, AnyThread is deprecated, so that its bits are reserved */
FIELD(EVTSEL, EVENT, 0, 16)
FIELD(EVTSEL, USR, 16, 1)
FIELD(EVTSEL, OS, 17, 1)
FIELD(EVTSEL, EDGE, 18, 1)
FIELD(EVTSEL, PC, 19, 1)
FIELD(EVTSEL, INT, 20, 1)
FIELD(EVTSEL, ANY, 21, 1)
FIELD(EVTSEL, EN, 22, 1)
FIELD(EVTSEL, INV, 23, 1)
FIELD(EVTSEL, CMASK, 24, 8)
#define PMU_EVTSEL_MASK         (MAKE_64BIT_MASK(0, 32) & ~R_EVTSEL_ANY_MASK)

/* For each fixed counter, four bits of FIXED_CTR_CTRL */
FIELD(FIXED, OS, 0, 1)
FIELD(FIXED, USR, 1, 1)
FIELD(FIXED, ANY, 2, 1)
FIELD(FIXED, INT, 3, 1)

FIELD(DEBUGCTL, LBR, 0, 1)
FIELD(DEBUGCTL, BTF, 1, 1)
FIELD(DEBUGCTL, FREEZE_LBRS_ON_PMI, 11, 1)
FIELD(DEBUGCTL, FREEZE_PERFMON_ON_PMI, 12, 1)
FIELD(DEBUGCTL, FREEZE_IN_SMM, 14, 1)
#define PMU_DEBUGCTL_MASK       (R_DEBUGCTL_LBR_MASK | R_DEBUGCTL_BTF_MASK | \
                                 R_DEBUGCTL_FREEZE_LBRS_ON_PMI_MASK | \
                                 R_DEBUGCTL_FREEZE_PERFMON_ON_PMI_MASK | \
                                 R_DEBUGCTL_FREEZE_IN_SMM_MASK)

/* Performance monitoring available; BTS and PEBS not; all read-only */
#define PMU_MISC_ENABLE         (BIT_ULL(7) | BIT_ULL(11) | BIT_ULL(12))

/* Where the count of an event comes from */
typedef enum PMUSource {
    SOURCE_NONE,            /* nothing is counted */
    SOURCE_TOTAL,           /* one of X86_COUNT_ */
    SOURCE_BRANCH,          /* the same, a kind of branch */
    SOURCE_FP,              /* a sum of X86_COUNT_FP_ */
    SOURCE_CYCLES,
    SOURCE_SLOTS,
    SOURCE_CATEGORY,        /* slots of one of TOPDOWN_ */
    SOURCE_FORMULA,         /* see x86_pmu_event_of_totals() */
} PMUSource;

/* Whose events the CPU has; OTHER: only the architectural ones */
typedef enum X86PMUArch {
    X86_PMU_OTHER,
    X86_PMU_SKYLAKE,
    X86_PMU_ICELAKE,
    X86_PMU_GOLDEN_COVE,
    X86_PMU_ARCHES,
} X86PMUArch;

/*
 * Filters that are part of an event; CMASK is in the upper byte. SINGLE: the
 * event comes at most once in a cycle. Software's CMASK of 1 makes no
 * difference then, and with a higher one the counter stands still.
 */
#define PMU_FILTER_EDGE         1
#define PMU_FILTER_INV          2
#define PMU_FILTER_SINGLE       4

/**
 * PMUEvent: an event
 * @name: Intel's name, as perf has it; NULL: nothing is counted
 * @code: unit mask and event select
 * @filter: the CMASK, EDGE, and INV that are part of the event, or
 *          PMU_FILTER_SINGLE if at most one can come in a cycle
 * @archs: bit mask of X86PMUArch, where the code has this meaning
 * @source: where its count comes from
 * @index: which X86_COUNT_, TOPDOWN_, or formula that is; of SOURCE_FP, a bit
 *         mask
 */
typedef struct PMUEvent {
    const char *name;
    uint16_t code;
    uint16_t filter;
    uint8_t archs;
    uint8_t source;
    uint8_t index;
} PMUEvent;

/*
 * What the registers say of a counter. Not migrated: rebuilt from them. A
 * filter that is part of the event is not in @cmask, @edge, and @inv.
 */
typedef struct PMUConfig {
    uint32_t selector;      /* bits of EVTSEL that choose event and filters */
    uint16_t code;          /* unit mask and event select */
    const PMUEvent *event;
    uint8_t cmask;
    bool edge;
    bool inv;
    bool irq;
    uint8_t domains;        /* bit mask, 0: does not count */
} PMUConfig;

/**
 * X86PMUTopDown: what PERF_METRICS is computed from, in quarters of a slot
 * @active: the metrics count now (not migrated, set by
 *          x86_topdown_reconfigure())
 * @fresh: slots have been counted since software wrote PERF_METRICS
 * @part: slots of each category since the last restart of the metrics
 * @total: all slots since then
 * @seen: slots of each category since the CPU started, in the domains of the
 *        counter of slots, when @part was updated last (not migrated, set by
 *        x86_topdown_reconfigure())
 * @seen_total: all slots of these (not migrated, the same)
 * @split: with a pinned mix, slots of each category when the mix was set
 * @split_at: all slots when the mix was set
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
 * X86PMURun: a counter that counts; all of it is migrated
 * @event: total of its event at the last update of the register; with a
 *         filter, at the start of the counter
 * @cycles: total of cycles at that moment
 * @got: what has been added to the register since the counter started
 * @rest: the fraction of an event that is not in the register yet, in the
 *        event's parts; kept while the counter is off
 * @rest_of: code of the event that @rest belongs to
 * @written: software has written the register since the counter was last on
 */
typedef struct X86PMURun {
    uint64_t event;
    uint64_t cycles;
    uint64_t got;
    uint64_t rest;
    uint16_t rest_of;
    bool written;
} X86PMURun;

/**
 * PMUFraction: what a counter had counted beyond its value when software wrote
 * another one into it; all of it is migrated
 * @value: of the counter
 * @parts: the fraction, as X86PMURun.rest
 * @code: of the event
 *
 * Software that multiplexes counters, or switches between programs, saves the
 * value of a counter and restores it later. The fraction comes back then.
 */
typedef struct PMUFraction {
    uint64_t value;
    uint64_t parts;
    uint16_t code;
} PMUFraction;

/* How many values with a fraction are remembered; our decision */
#define PMU_FRACTIONS           64

/* How far the state of the CPU has been loaded from a migration stream */
typedef enum PMUIncoming {
    PMU_INCOMING_NONE,      /* no section of the PMU yet */
    PMU_INCOMING_SETUP,     /* the stream's PMU is like this one */
    PMU_INCOMING_STATE,     /* and its state is here */
} PMUIncoming;

/* Registers that only store, and that some events depend on */
#define MSR_OFFCORE_RSP_0       0x1a6
#define MSR_OFFCORE_RSP_1       0x1a7
#define MSR_PEBS_LD_LAT         0x3f6
#define MSR_PEBS_FRONTEND       0x3f7

enum {
    PMU_OFFCORE_RSP_0,
    PMU_OFFCORE_RSP_1,
    PMU_LD_LAT,
    PMU_FRONTEND,
    PMU_EXTRA_MSRS,
    PMU_NO_EXTRA_MSR = PMU_EXTRA_MSRS,
};

/**
 * X86PMU: state that is not in the registers
 * @config: what the counters count now, general before fixed (not migrated:
 *          the registers tell)
 * @run: see X86PMURun
 * @fraction: see PMUFraction
 * @next_fraction: index of the one to replace next
 * @version: of architectural performance monitoring (migrated in @setup)
 * @gp: number of general counters (migrated in @setup)
 * @fixed: number of fixed counters (migrated in @setup)
 * @counter_width: bits of all counters (migrated in @setup)
 * @mask: @counter_width as a mask (migrated in @setup)
 * @width: slots per cycle (migrated in @setup)
 * @arch: whose events it has (migrated in @setup)
 * @model: where the categories of slots come from (migrated in @setup)
 * @level: of PERF_METRICS, 1 or 2 (migrated in @setup)
 * @in_init: the current reset is an INIT (not migrated: false between resets)
 * @irq_domains: an interrupt is pending, and is to be delivered before the next
 *               instruction in one of these domains (a bit mask), or by an
 *               access to the PMU; 0: there is none
 * @int_domain: domain in which the last INT n was counted (not migrated: it is
 *              about an INT n that is being delivered)
 * @int_slots: slots in all domains when it was (not migrated, as above)
 * @topdown: see X86PMUTopDown
 * @saved: the totals of the accelerator, in the migration stream
 * @setup: what the PMU is like, as text, in the migration stream
 * @incoming: see PMUIncoming (not migrated: it is about loading)
 * @extra: MSRs, see PMU_OFFCORE_RSP_0 and the following
 * @missed: mispredicted branches of each domain, by kind
 */
typedef struct X86PMU {
    PMUConfig config[PMU_COUNTERS];
    X86PMURun run[PMU_COUNTERS];
    PMUFraction fraction[PMU_FRACTIONS];
    uint8_t next_fraction;
    uint8_t version;
    uint8_t gp;
    uint8_t fixed;
    uint8_t counter_width;
    uint64_t mask;
    uint32_t width;
    X86PMUArch arch;
    X86PMUModel model;
    uint8_t level;
    bool in_init;
    uint8_t irq_domains;
    uint8_t int_domain;
    uint64_t int_slots;
    X86PMUTopDown topdown;
    uint64_t saved[X86_COUNT_DOMAINS * X86_COUNT_TOTALS];
    uint8_t setup[PMU_SETUP_SIZE];
    PMUIncoming incoming;
    uint64_t extra[PMU_EXTRA_MSRS];
    uint64_t missed[X86_COUNT_DOMAINS][PMU_MISSED_KINDS];
} X86PMU;

/*
 * pmu-shape.c
 */

void x86_pmu_shape_class_init(ObjectClass *oc);
bool x86_pmu_shape_realize(X86CPU *cpu, Error **errp);

/* Will the CPU have the counter of slots? Before it is realized, too. */
bool x86_pmu_shape_has_slots(X86CPU *cpu);

/* Is there such a counter? Is there a register, if it is one of the PMU's? */
bool x86_pmu_counter_exists(X86CPU *cpu, unsigned counter);
bool x86_pmu_msr_exists(X86CPU *cpu, uint32_t msr);

/* The bits of the general counters; the legal bits of the registers */
uint64_t x86_pmu_gp_mask(X86CPU *cpu);
uint64_t x86_pmu_ctrl_mask(CPUX86State *env);
uint64_t x86_pmu_status_mask(CPUX86State *env);
uint64_t x86_pmu_evtsel_mask(X86CPU *cpu);
uint64_t x86_pmu_fixed_ctrl_mask(X86CPU *cpu);

/*
 * Freeze the counters, as an interrupt does with FREEZE_PERFMON_ON_PMI: set
 * CTR_FRZ, or before version 4 clear GLOBAL_CTRL.
 */
void x86_pmu_shape_freeze(X86CPU *cpu);
bool x86_pmu_shape_is_frozen(X86CPU *cpu);

/* The legal bits of one of the PMU_EXTRA_MSRS; 0: the CPU does not have it */
uint64_t x86_pmu_extra_mask(X86CPU *cpu, unsigned extra);

/*
 * pmu-counters.c
 */

/* The bit of a counter in GLOBAL_CTRL and the like; its register */
uint64_t x86_pmu_bit(unsigned counter);
uint64_t *x86_pmu_value(CPUX86State *env, unsigned counter);

/**
 * x86_pmu_fold: add what has been counted to the counters
 * @cpu: the CPU, on its own thread or not running
 * @ra: as GETPC() for a helper, whose instruction is not included; 0 between
 *      two blocks
 *
 * Sets the overflow bits. An interrupt is pending then, not yet delivered.
 */
void x86_pmu_fold(X86CPU *cpu, uintptr_t ra);

/*
 * The same between two blocks, when it is QEMU that looks and not the guest: a
 * count that can fall again (INV) stays as it is, unless an interrupt is due.
 */
void x86_pmu_fold_unseen(X86CPU *cpu);

/**
 * x86_pmu_peek: what software would read from a counter, without any change
 * @cpu: the CPU, on its own thread or not running, after insn_count_sync()
 * @counter: general before fixed
 * @value: where the value goes
 *
 * Returns true if the counter has overflowed since it was folded.
 */
bool x86_pmu_peek(X86CPU *cpu, unsigned counter, uint64_t *value);

/*
 * The registers have changed, and were up to date before that: choose what the
 * accelerator counts from the next instruction on, and the deadlines.
 */
void x86_pmu_reconfigure(X86CPU *cpu);

/*
 * The registers, the totals of the accelerator, and X86PMU.run have been
 * loaded: validate X86PMU.run, and let all counters go on from there.
 */
void x86_pmu_continue(X86CPU *cpu);

/*
 * topdown-mix has changed, after x86_pmu_fold(): let all counters go on from
 * where their events are now, which may be less than before.
 */
void x86_pmu_restart_events(X86CPU *cpu);

/* Software writes a counter, which loses its fraction unless it comes back. */
void x86_pmu_write_counter(X86CPU *cpu, unsigned counter, uint64_t value);

/*
 * If the counter interrupts when it overflows, make that pending, for the
 * domains that it counts.
 */
void x86_pmu_pend_interrupt(X86CPU *cpu, unsigned counter);

/*
 * Has an interrupt that is pending in the current domain frozen the counters?
 * Those must be up to date.
 */
bool x86_pmu_has_frozen(X86CPU *cpu);

/*
 * Deliver a pending interrupt now, in any domain, through the local APIC if
 * there is one. The mask bit that this sets is software's to clear.
 */
void x86_pmu_deliver(X86CPU *cpu);

/*
 * pmu-events.c
 */

extern const PMUEvent *const x86_pmu_cycles;

/*
 * Choose the event of a general counter by @c->code and the filters. An event
 * that includes filters takes them out of @c. A code that is not known on this
 * CPU gives an event that counts nothing.
 */
void x86_pmu_find_event(X86CPU *cpu, PMUConfig *c);

/* Is the event always 0 with this CPU's pmu-model? */
bool x86_pmu_event_is_zero(X86CPU *cpu, const PMUEvent *e);

/* Is @code an event that depends on OFFCORE_RSP_0 or 1? */
bool x86_pmu_is_offcore(X86CPU *cpu, uint16_t code);

/* The event of a fixed counter */
const PMUEvent *x86_pmu_fixed_event(unsigned index);

/* Which lanes an event needs besides slots (a bit mask), and lanes' words */
unsigned x86_pmu_event_lanes(X86CPU *cpu, const PMUEvent *e);
unsigned x86_pmu_words_of_lanes(unsigned lanes);

/*
 * What an event has counted since the start by the totals of a domain, or of
 * several domains, in parts: so many parts are one count. Never decreases,
 * but for x86_pmu_restart_events().
 */
uint64_t x86_pmu_event_of_totals(X86CPU *cpu, const PMUEvent *e,
                                 unsigned domain, const uint64_t *total);
uint64_t x86_pmu_event_sum(X86CPU *cpu, const PMUEvent *e, uint8_t domains);
unsigned x86_pmu_event_parts(X86CPU *cpu, const PMUEvent *e);

/*
 * Lower bounds of the accelerator's units: until an event has counted @n more,
 * if it has @rest parts of the first already; until @quarters of a slot
 */
int64_t x86_pmu_event_units(X86CPU *cpu, const PMUEvent *e, uint64_t n,
                            uint64_t rest);
int64_t x86_pmu_units_of(X86CPU *cpu, uint64_t quarters);

/*
 * pmu-info.c
 */

/* Trace an interrupt that is about to be delivered, and the next deadlines */
void x86_pmu_trace_interrupt(X86CPU *cpu);
void x86_pmu_trace_deadline(X86CPU *cpu);

/*
 * pmu-topdown.c
 */

/* Does the CPU have PERF_METRICS? */
bool x86_topdown_available(CPUX86State *env);

/* Which lanes the categories need besides slots (a bit mask) */
unsigned x86_topdown_lanes(X86CPU *cpu);

/* The categories that the @total of a domain consists of */
void x86_topdown_split(X86CPU *cpu, unsigned domain, const uint64_t *total,
                       uint64_t *part);

/* Correct the categories: level 1 adds up to the total, no part is larger. */
void x86_topdown_clip(X86PMUTopDown *t);

/*
 * Change topdown-mix, on the vCPU's thread: slots that have been counted keep
 * their categories.
 */
void x86_topdown_change_mix(X86CPU *cpu, const uint32_t *mix);

/*
 * All of these are called when the counts are up to date. Fold: add what has
 * been counted to the metrics. Reconfigure: the registers have changed. Clear:
 * as when software writes the counter of slots.
 */
void x86_topdown_fold(X86CPU *cpu);
void x86_topdown_reconfigure(X86CPU *cpu);
uint64_t x86_topdown_read(X86CPU *cpu);
void x86_topdown_write(X86CPU *cpu, uint64_t val);
void x86_topdown_clear(X86CPU *cpu);

/*
 * Quarters of a slot from the accelerator's totals until the overflow that
 * interrupts; 0: there is none
 */
uint64_t x86_topdown_left(X86CPU *cpu);

/*
 * pmu-properties.c
 */

/* Where to store a property of the PMU; NULL and an error if it is too late */
X86PMUOptions *x86_pmu_options_set(Object *obj, const char *name,
                                   Error **errp);

/* Do the properties of the CPU agree with each other, and with other CPUs? */
bool x86_pmu_check_properties(X86CPU *cpu, Error **errp);
bool x86_pmu_check_others(X86CPU *cpu, Error **errp);

/* Is this a mix, from the user or from a migration stream? */
bool x86_topdown_check_mix(const uint32_t *mix, Error **errp);

/*
 * pmu-precise.c
 */

void x86_pmu_precise_new(X86CPU *cpu);
void x86_pmu_precise_free(X86CPU *cpu);
void x86_pmu_precise_reset(X86CPU *cpu);
void x86_pmu_precise_drain(X86CPU *cpu);

/*
 * The accelerator's units after which to look at the PMU for a deadline in
 * @quarters of a slot. Can be late by a block, or by more if the code suddenly
 * misses far more than before.
 */
int64_t x86_pmu_precise_units(X86CPU *cpu, uint64_t quarters);
#endif
