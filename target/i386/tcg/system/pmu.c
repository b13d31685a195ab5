/*
 * Intel's architectural performance monitoring, version 5, under TCG
 *
 * Eight general and four fixed counters per vCPU, on top of the accelerator's
 * counts of retired instructions (accel/tcg/insn-count.h): a counter is a
 * value and what its event had counted at that time, and nothing happens
 * until somebody looks. Counters that interrupt on overflow have a deadline.
 *
 * All counts are functions of the guest's instructions alone:
 *  - instructions, branches of all kinds, loads, and stores are exact;
 *  - cycles are the slots of count.c.inc, divided by the width of the model;
 *    reference cycles are the same. Halted time does not count;
 *  - the categories that slots belong to are those of pmu-topdown.c;
 *  - mispredicted branches and references to and misses of the last level
 *    cache are fixed shares (1/64 of the conditional branches, 1/64 of the
 *    loads for misses and 1/16 more for references), unless there are the
 *    models of pmu-precise.c;
 *  - all other events are accepted, and count 0.
 *
 * Left out: PEBS, BTS, LBR, Processor Trace, uncore, AnyThread, TSX, and
 * FREEZE_IN_SMM (stored without effect). CMASK, INV, and EDGE work on totals,
 * not on single cycles, which do not exist here: see x86_pmu_count().
 *
 * Reference: Intel 64 and IA-32 Architectures Software Developer's Manual,
 * volume 3, chapter "Performance Monitoring", and volume 4 for the MSRs.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "hw/i386/apic.h"
#include "hw/registerfields.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "system/replay.h"
#include "system/tcg.h"
#include "target/i386/trace.h"
#include "tcg/helper-tcg.h"
#include "tcg/pmu-precise.h"
#include "pmu-internal.h"

/* Bits of GLOBAL_CTRL, GLOBAL_STATUS, and the like */
#define PMU_GP_MASK             MAKE_64BIT_MASK(0, PMU_GP)
#define PMU_FIXED_MASK          MAKE_64BIT_MASK(32, PMU_FIXED)
#define PMU_STATUS_LBR_FRZ      BIT_ULL(58)
#define PMU_STATUS_CTR_FRZ      BIT_ULL(59)
#define PMU_STATUS_OVF_BUF      BIT_ULL(62)
#define PMU_STATUS_COND_CHGD    BIT_ULL(63)
#define PMU_STATUS_MASK         (PMU_GP_MASK | PMU_FIXED_MASK | \
                                 PMU_STATUS_LBR_FRZ | PMU_STATUS_CTR_FRZ | \
                                 PMU_STATUS_OVF_BUF | PMU_STATUS_COND_CHGD)
#define PMU_INUSE_PMI           BIT_ULL(63)

/* How many cycles late an interrupt of cycles may come, see x86_pmu_lags() */
#define PMU_LATE                64

/* AnyThread is deprecated, so that its bits are reserved */
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
FIELD(FIXED, INT, 3, 1)
#define PMU_FIXED_CTRL_MASK     0xbbbbULL

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

/* Slots per cycle of models that are not known */
#define PMU_LEAST_WIDTH         4

/* RDPMC: the type of counter is in the upper half of ECX */
#define PMU_RDPMC_GP            0x0000
#define PMU_RDPMC_METRICS       0x2000
#define PMU_RDPMC_FIXED         0x4000

/* Upper byte: unit mask, lower byte: event select */
typedef enum X86PMUEvent {
    EVENT_CYCLES            = 0x003c,
    EVENT_INSNS             = 0x00c0,
    EVENT_REF               = 0x013c,
    EVENT_REF_FIXED         = 0x0300,   /* pseudo code, fixed counter 2 */
    EVENT_SLOTS             = 0x01a4,
    EVENT_BACKEND           = 0x02a4,
    EVENT_BAD_SPECULATION   = 0x04a4,
    EVENT_MISPREDICT_SLOTS  = 0x08a4,
    EVENT_MEMORY_BOUND      = 0x10a4,
    EVENT_RETIRING          = 0x02c2,
    EVENT_NOT_DELIVERED     = 0x019c,   /* by the frontend */
    EVENT_ISSUED            = 0x010e,   /* Ice Lake */
    EVENT_ISSUED_SPR        = 0x01ae,
    EVENT_CLEARS            = 0x010d,   /* of any kind, Ice Lake */
    EVENT_CLEARS_SPR        = 0x01ad,
    EVENT_MACHINE_CLEARS    = 0x01c3,
    EVENT_SLOTS_FIXED       = 0x0400,   /* pseudo code, fixed counter 3 */
    EVENT_LLC_REF           = 0x4f2e,
    EVENT_LLC_MISS          = 0x412e,
    EVENT_BRANCHES          = 0x00c4,
    EVENT_COND_TAKEN        = 0x01c4,
    EVENT_CALLS             = 0x02c4,
    EVENT_RETS              = 0x08c4,
    EVENT_COND_NOT_TAKEN    = 0x10c4,
    EVENT_COND              = 0x11c4,
    EVENT_TAKEN             = 0x20c4,   /* near branches only */
    EVENT_FAR               = 0x40c4,
    EVENT_INDIRECT          = 0x80c4,
    EVENT_MISPREDICTED      = 0x00c5,
    EVENT_MISPREDICTED_COND = 0x11c5,
    EVENT_LOADS             = 0x81d0,
    EVENT_STORES            = 0x82d0,
} X86PMUEvent;

static void x86_pmu_deadline(CPUState *cs, bool ends);
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes, bool ends);

/*
 * Units, which are quarters of a slot, bound the lanes: every instruction has
 * some, see count.c.inc. Most blocks add to word 0 only; and what is in the
 * others has its lanes low where most add to them.
 */
const InsnCountOps x86_insn_count_ops = {
    .offset = offsetof(X86CPU, insn_count),
    /* From LDTR to IDTR; and XMM8, but only what the kernel counts */
    .word = INSN_COUNT_WORD_AT(X86CPU, insn_count, 0x150),
    .units = X86_COUNT_SLOTS,
    .domains = X86_COUNT_DOMAINS,
    .lanes = X86_COUNT_LANES,
    .lane = {
        [X86_COUNT_INSNS] = { 0, 0, 15 },
        [X86_COUNT_BRANCHES] = { 0, 15, 15 },
        [X86_COUNT_COND] = { 0, 30, 15 },
        [X86_COUNT_CALLS] = { 1, 0, 14 },
        [X86_COUNT_INDIRECT] = { 1, 14, 14 },
        [X86_COUNT_CORE] = { 1, 28, 15 },
        [X86_COUNT_HEAVY] = { 1, 43, 11 },
        [X86_COUNT_CLEARS] = { 1, 54, 10 },
        [X86_COUNT_LOADS] = { 2, 0, 16 },
        [X86_COUNT_STORES] = { 2, 16, 16 },
        [X86_COUNT_RETS] = { 3, 0, 16 },
        [X86_COUNT_COND_TAKEN] = { 3, 16, 16 },
        [X86_COUNT_FAR] = { 3, 32, 16 },
    },
    .deadline = x86_pmu_deadline,
    .reaches = x86_pmu_reaches,
};

QEMU_BUILD_BUG_ON(offsetof(CPUX86State, ldt) > 0x150 ||
                  offsetof(CPUX86State, cr) <
                  0x150 + X86_COUNT_DOMAINS * INSN_COUNT_DOMAIN_SIZE);

/*
 * Properties
 */

static bool x86_pmu_possible(X86CPU *cpu)
{
    return tcg_enabled() && cpu->enable_pmu && insn_count_available() &&
           IS_INTEL_CPU(&cpu->env);
}

/*
 * What TopDown is like on a microarchitecture: the allocation width, by which
 * the metrics are defined (6 from Golden Cove on, 5 for Sunny Cove and its
 * relatives, 4 for older ones), and the level of PERF_METRICS.
 */
static void x86_pmu_microarchitecture(CPUX86State *env, unsigned *width,
                                      unsigned *level)
{
    unsigned family = extract32(env->cpuid_version, 8, 4);
    unsigned model = extract32(env->cpuid_version, 4, 4) |
                     extract32(env->cpuid_version, 16, 4) << 4;

    *width = PMU_LEAST_WIDTH;
    *level = 0;
    if (family == 6) {
        switch (model) {
        case 0x6a: case 0x6c:               /* Ice Lake servers */
        case 0x7d: case 0x7e:               /* Ice Lake */
        case 0x8c: case 0x8d:               /* Tiger Lake */
        case 0xa7:                          /* Rocket Lake */
            *width = 5;
            *level = 1;
            break;
        case 0x8f: case 0xcf:               /* Sapphire, Emerald Rapids */
        case 0xad: case 0xae:               /* Granite Rapids */
            *width = 6;
            *level = 2;
            break;
        }
    }
}

uint64_t x86_pmu_supported_features(X86CPU *cpu, FeatureWord w)
{
    if (x86_pmu_possible(cpu)) {
        switch (w) {
        case FEAT_1_ECX:
            return CPUID_EXT_PDCM;
        case FEAT_PERF_CAPABILITIES:
            return PMU_CAP_FULL_WRITE | PMU_CAP_METRICS;
        default:
            break;
        }
    }
    return 0;
}

bool x86_pmu_expand_features(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    unsigned width, level;
    FeatureWord w;

    if (!x86_pmu_possible(cpu)) {
        return false;
    }
    x86_pmu_microarchitecture(env, &width, &level);
    for (w = 0; w < FEATURE_WORDS; w++) {
        uint64_t on = x86_pmu_supported_features(cpu, w);

        if (w == FEAT_PERF_CAPABILITIES && !level) {
            /* Not on this hardware, unless the user wants it */
            on &= ~PMU_CAP_METRICS;
        }
        env->features[w] |= on & ~env->user_features[w];
    }
    return true;
}

/*
 * In a narrow CPU, cycles are few slots, and more of the heavy operations,
 * among which LOOP takes the fewest, would fit in a budget than in their lane.
 */
static void x86_pmu_set_limit(X86CPU *cpu)
{
    unsigned bits = x86_insn_count_ops.lane[X86_COUNT_HEAVY].bits;
    int64_t loop = X86_PRICE_LOOP * 4 * cpu->pmu->width + X86_PRICE_COND;

    cpu->insn_count.limit = MIN(INSN_COUNT_MAX_UNITS,
                                loop * MAKE_64BIT_MASK(0, bits) -
                                INSN_COUNT_INSN_UNITS);
}

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    unsigned width, level;

    if (!cpu->enable_pmu && cpu->pmu_options.given) {
        error_setg(errp, "pmu-model, topdown-mix, pmu-width, and "
                   "pmu-metrics-ovf need pmu=on");
        return false;
    }
    if (!cpu->enable_pmu) {
        return true;
    }
    if (!x86_pmu_possible(cpu)) {
        if (cpu->pmu_options.given) {
            error_setg(errp, "pmu-model, topdown-mix, pmu-width, and "
                       "pmu-metrics-ovf need a CPU model of Intel");
            return false;
        }
        if (insn_count_available()) {
            warn_report_once("pmu=on has no effect: under TCG, only CPU "
                             "models of Intel have a PMU, such as "
                             "Icelake-Server-v6");
        } else {
            warn_report_once("pmu=on has no effect: TCG counts nothing on "
                             "32-bit hosts");
        }
        return true;
    }
    x86_pmu_microarchitecture(&cpu->env, &width, &level);
    cpu->pmu = g_new0(X86PMU, 1);
    cpu->pmu->width = cpu->pmu_options.width ?: width;
    cpu->pmu->level = MAX(level, 1);
    x86_pmu_set_limit(cpu);
    if (!x86_topdown_realize(cpu, errp)) {
        x86_pmu_unrealize(cpu);
        return false;
    }
    return true;
}

void x86_pmu_unrealize(X86CPU *cpu)
{
    x86_pmu_precise_free(cpu);
    g_clear_pointer(&cpu->pmu, g_free);
}

unsigned x86_pmu_width(CPUX86State *env)
{
    X86PMU *pmu = env_archcpu(env)->pmu;

    return pmu ? pmu->width : 0;
}

bool x86_pmu_is_precise(CPUX86State *env)
{
    return env_archcpu(env)->pmu_precise != NULL;
}

/* CPUID leaf 0AH; the events of EBX that are not available: none */
void x86_pmu_cpuid(X86CPU *cpu, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx)
{
    enum { VERSION = 5, ARCH_EVENTS = 8, ANY_THREAD_DEPRECATED = 1 << 15 };

    if (cpu->pmu) {
        *eax = VERSION | PMU_GP << 8 | PMU_WIDTH << 16 | ARCH_EVENTS << 24;
        *ebx = 0;
        *ecx = MAKE_64BIT_MASK(0, PMU_FIXED);
        *edx = PMU_FIXED | PMU_WIDTH << 5 | ANY_THREAD_DEPRECATED;
    }
}

/*
 * Counting
 */

/* The domain of the next instruction */
static unsigned x86_pmu_domain(X86CPU *cpu)
{
    return cpu->env.hflags & HF_CPL_MASK ? X86_COUNT_USER : X86_COUNT_KERNEL;
}

/* Where bit i of GLOBAL_CTRL and the like is for a counter */
static uint64_t x86_pmu_bit(unsigned counter)
{
    return BIT_ULL(counter < PMU_GP ? counter : counter - PMU_GP + 32);
}

static uint64_t *x86_pmu_value(CPUX86State *env, unsigned counter)
{
    QEMU_BUILD_BUG_ON(PMU_GP > MAX_GP_COUNTERS);
    QEMU_BUILD_BUG_ON(MAX_FIXED_COUNTERS != PMU_FIXED - 1);

    if (counter < PMU_GP) {
        return &env->msr_gp_counters[counter];
    }
    counter -= PMU_GP;
    return counter < MAX_FIXED_COUNTERS ? &env->msr_fixed_counters[counter]
                                        : &env->msr_fixed_ctr3;
}

/* Where the count of an event comes from */
typedef enum PMUSource {
    SOURCE_NONE,            /* nothing is counted */
    SOURCE_TOTAL,           /* one of X86_COUNT_ */
    SOURCE_BRANCH,          /* the same, a kind of branch */
    SOURCE_CYCLES,
    SOURCE_SLOTS,
    SOURCE_CATEGORY,        /* slots of one of TOPDOWN_ */
    SOURCE_OTHER,           /* see x86_pmu_event() */
} PMUSource;

typedef struct PMUEvent {
    uint16_t event;
    uint8_t source;
    uint8_t what;
} PMUEvent;

static const PMUEvent x86_pmu_cycles = { EVENT_CYCLES, SOURCE_CYCLES };

/* Event select 0 is for fixed counters, which are nobody else's events. */
static const PMUEvent *x86_pmu_find_event(uint16_t event, bool fixed)
{
    static const PMUEvent none = { };
    static const PMUEvent events[] = {
        { EVENT_INSNS, SOURCE_TOTAL, X86_COUNT_INSNS },
        { EVENT_LOADS, SOURCE_TOTAL, X86_COUNT_LOADS },
        { EVENT_STORES, SOURCE_TOTAL, X86_COUNT_STORES },
        { EVENT_BRANCHES, SOURCE_BRANCH, X86_COUNT_BRANCHES },
        { EVENT_COND, SOURCE_BRANCH, X86_COUNT_COND },
        { EVENT_COND_TAKEN, SOURCE_BRANCH, X86_COUNT_COND_TAKEN },
        { EVENT_CALLS, SOURCE_BRANCH, X86_COUNT_CALLS },
        { EVENT_RETS, SOURCE_BRANCH, X86_COUNT_RETS },
        { EVENT_FAR, SOURCE_BRANCH, X86_COUNT_FAR },
        { EVENT_INDIRECT, SOURCE_BRANCH, X86_COUNT_INDIRECT },
        { EVENT_CYCLES, SOURCE_CYCLES },
        { EVENT_REF, SOURCE_CYCLES },
        { EVENT_REF_FIXED, SOURCE_CYCLES },
        { EVENT_SLOTS, SOURCE_SLOTS },
        { EVENT_SLOTS_FIXED, SOURCE_SLOTS },
        { EVENT_RETIRING, SOURCE_CATEGORY, TOPDOWN_RETIRING },
        { EVENT_BAD_SPECULATION, SOURCE_CATEGORY, TOPDOWN_BAD },
        { EVENT_NOT_DELIVERED, SOURCE_CATEGORY, TOPDOWN_FRONTEND },
        { EVENT_BACKEND, SOURCE_CATEGORY, TOPDOWN_BACKEND },
        { EVENT_MISPREDICT_SLOTS, SOURCE_CATEGORY, TOPDOWN_MISPREDICT },
        { EVENT_MEMORY_BOUND, SOURCE_CATEGORY, TOPDOWN_MEMORY },
        { EVENT_ISSUED, SOURCE_OTHER },
        { EVENT_ISSUED_SPR, SOURCE_OTHER },
        { EVENT_COND_NOT_TAKEN, SOURCE_OTHER },
        { EVENT_TAKEN, SOURCE_OTHER },
        { EVENT_LLC_REF, SOURCE_OTHER },
        { EVENT_LLC_MISS, SOURCE_OTHER },
        { EVENT_MISPREDICTED, SOURCE_OTHER },
        { EVENT_MISPREDICTED_COND, SOURCE_OTHER },
        { EVENT_MACHINE_CLEARS, SOURCE_OTHER },
        { EVENT_CLEARS, SOURCE_OTHER },
        { EVENT_CLEARS_SPR, SOURCE_OTHER },
    };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(events); i++) {
        if (events[i].event == event && (fixed || (event & 0xff))) {
            return &events[i];
        }
    }
    return &none;
}

/* What the registers say; @old is the same of some time before */
static PMUConfig x86_pmu_config(CPUX86State *env, unsigned counter,
                                const PMUConfig *old)
{
    static const uint16_t fixed_events[PMU_FIXED] = {
        EVENT_INSNS, EVENT_CYCLES, EVENT_REF_FIXED, EVENT_SLOTS_FIXED,
    };
    PMUConfig config = { };
    bool os, usr;

    if (counter < PMU_GP) {
        uint64_t sel = env->msr_gp_evtsel[counter];
        bool on = FIELD_EX64(sel, EVTSEL, EN);

        config.code = FIELD_EX64(sel, EVTSEL, EVENT);
        config.cmask = FIELD_EX64(sel, EVTSEL, CMASK);
        config.edge = FIELD_EX64(sel, EVTSEL, EDGE);
        config.inv = FIELD_EX64(sel, EVTSEL, INV);
        config.irq = FIELD_EX64(sel, EVTSEL, INT);
        os = on && FIELD_EX64(sel, EVTSEL, OS);
        usr = on && FIELD_EX64(sel, EVTSEL, USR);
    } else {
        uint64_t ctrl = env->msr_fixed_ctr_ctrl >> 4 * (counter - PMU_GP);

        config.code = fixed_events[counter - PMU_GP];
        config.irq = FIELD_EX64(ctrl, FIXED, INT);
        os = FIELD_EX64(ctrl, FIXED, OS);
        usr = FIELD_EX64(ctrl, FIXED, USR);
    }
    if (old->event && old->code == config.code) {
        config.event = old->event;
    } else {
        config.event = x86_pmu_find_event(config.code, counter >= PMU_GP);
    }
    if ((env->msr_global_ctrl & x86_pmu_bit(counter)) &&
        !(env->msr_global_status & PMU_STATUS_CTR_FRZ)) {
        config.domains = os << X86_COUNT_KERNEL | usr << X86_COUNT_USER;
    }
    return config;
}

/* Which lanes an event needs, besides slots (a bit mask) */
static unsigned x86_pmu_lanes(X86CPU *cpu, const PMUEvent *e)
{
    switch (e->source) {
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return 1 << e->what;
    case SOURCE_CATEGORY:
        return x86_topdown_lanes(cpu);
    case SOURCE_OTHER:
        break;
    default:
        return 0;
    }
    switch (e->event) {
    case EVENT_COND_NOT_TAKEN:
        return 1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case EVENT_TAKEN:
        return 1 << X86_COUNT_BRANCHES | 1 << X86_COUNT_FAR |
               1 << X86_COUNT_COND | 1 << X86_COUNT_COND_TAKEN;
    case EVENT_LLC_REF:
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? 0 : 1 << X86_COUNT_LOADS;
    default:
        /* Slots that are issued, and what bad speculation consists of */
        return x86_topdown_lanes(cpu);
    }
}

/* What the accelerator has to count for some lanes */
static unsigned x86_pmu_what(unsigned lanes)
{
    unsigned what = INSN_COUNT_UNITS;
    unsigned i;

    for (i = 0; i < X86_COUNT_LANES; i++) {
        if (lanes & (1 << i)) {
            what |= INSN_COUNT_WORD(x86_insn_count_ops.lane[i].word);
        }
    }
    return what;
}

/*
 * Events are fractions of the totals: x86_pmu_event() is the numerator, and
 * this the denominator.
 */
static unsigned x86_pmu_parts(X86CPU *cpu, const PMUEvent *e)
{
    unsigned cycle = 4 * cpu->pmu->width;
    bool fixed_shares = cpu->pmu->model == X86_PMU_STATIC;

    switch (e->source) {
    case SOURCE_CYCLES:
        return cycle;
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
        return 4;
    case SOURCE_OTHER:
        break;
    default:
        return 1;
    }
    switch (e->event) {
    case EVENT_ISSUED:
    case EVENT_ISSUED_SPR:
        return 4;
    case EVENT_LLC_REF:
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? 1 : 64;
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return fixed_shares ? 64 : X86_PRICE_MISPREDICT * cycle;
    case EVENT_MACHINE_CLEARS:
        return X86_PRICE_CLEAR * cycle;
    case EVENT_CLEARS:
    case EVENT_CLEARS_SPR:
        return X86_PRICE_CLEAR * cycle * (fixed_shares ? 64 : 1);
    default:
        return 1;
    }
}

/* What an event has ever counted by the @total of a domain; never goes back */
static uint64_t x86_pmu_event(X86CPU *cpu, const PMUEvent *e, unsigned domain,
                              const uint64_t *total)
{
    bool fixed_shares = cpu->pmu->model == X86_PMU_STATIC;
    uint64_t part[TOPDOWN_CATEGORIES], clears;

    switch (e->source) {
    case SOURCE_NONE:
        return 0;
    case SOURCE_TOTAL:
    case SOURCE_BRANCH:
        return total[e->what];
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
        return total[X86_COUNT_SLOTS];
    default:
        break;
    }

    x86_topdown_split(cpu, domain, total, part);
    if (e->source == SOURCE_CATEGORY) {
        return part[e->what];
    }
    clears = part[TOPDOWN_BAD] - part[TOPDOWN_MISPREDICT];
    switch (e->event) {
    case EVENT_ISSUED:
    case EVENT_ISSUED_SPR:
        return part[TOPDOWN_RETIRING] + part[TOPDOWN_BAD];
    case EVENT_COND_NOT_TAKEN:
        return total[X86_COUNT_COND] - total[X86_COUNT_COND_TAKEN];
    case EVENT_TAKEN:
        return total[X86_COUNT_BRANCHES] - total[X86_COUNT_FAR] -
               total[X86_COUNT_COND] + total[X86_COUNT_COND_TAKEN];
    case EVENT_LLC_REF:
        return cpu->pmu_precise ? total[X86_COUNT_LLC_REF]
                                : 5 * total[X86_COUNT_LOADS];
    case EVENT_LLC_MISS:
        return cpu->pmu_precise ? total[X86_COUNT_LLC_MISS]
                                : total[X86_COUNT_LOADS];
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return fixed_shares ? total[X86_COUNT_COND] : part[TOPDOWN_MISPREDICT];
    case EVENT_MACHINE_CLEARS:
        /* Cycles: two for each, so that the number is that of the edges */
        return 2 * clears;
    case EVENT_CLEARS:
    case EVENT_CLEARS_SPR:
        if (fixed_shares) {
            return 2 * (64 * clears + total[X86_COUNT_COND] * X86_PRICE_CLEAR *
                                      4 * cpu->pmu->width);
        }
        return 2 * (clears + part[TOPDOWN_MISPREDICT] * X86_PRICE_CLEAR /
                             X86_PRICE_MISPREDICT);
    default:
        g_assert_not_reached();
    }
}

/* The same in all domains of a counter */
static uint64_t x86_pmu_sum(X86CPU *cpu, const PMUEvent *e, uint8_t domains)
{
    uint64_t sum = 0;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            sum += x86_pmu_event(cpu, e, d, cpu->insn_count.total[d]);
        }
    }
    return sum;
}

/*
 * What a counter has counted since it was brought up to date, if its event
 * has come to @now: all of it, and the fraction that is left in @rest.
 *
 * The filters are approximations (our decision, because there are no single
 * cycles): with CMASK the events come packed, CMASK in a cycle; INV counts the
 * other cycles; EDGE takes every second of these cycles to be the start of a
 * run. They look at all since the counter started.
 */
static uint64_t x86_pmu_count(X86CPU *cpu, unsigned counter, uint64_t now,
                              uint64_t *rest)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    const X86PMURun *run = &cpu->pmu->run[counter];
    unsigned parts = x86_pmu_parts(cpu, c->event);
    uint64_t n, cycles;

    if (!c->cmask && !c->edge) {
        /* Of a mix, a part can be a quarter of a slot lower than before */
        n = run->rest + (now > run->event ? now - run->event : 0);
        *rest = n % parts;
        return n / parts;
    }
    *rest = 0;
    n = (now - run->event) / parts;
    cycles = (x86_pmu_sum(cpu, &x86_pmu_cycles, c->domains) - run->cycles) /
             x86_pmu_parts(cpu, &x86_pmu_cycles);
    if (c->cmask) {
        n = MIN(n / c->cmask, cycles);
        if (c->inv) {
            n = cycles - n;
        }
    }
    if (c->edge) {
        n = DIV_ROUND_UP(MIN(n, cycles), 2);
    }
    /* An inverted count may have to catch up */
    return n > run->got ? n - run->got : 0;
}

int64_t x86_pmu_units_of(X86CPU *cpu, uint64_t quarters)
{
    uint64_t least = X86_COUNT_INSN_SLOTS, most = least;

    if (cpu->pmu_precise) {
        /*
         * And a load, two lines of code, and a branch that are missed; for
         * each load more there are the same slots again.
         */
        most += 4 * cpu->pmu->width *
                (X86_PRICE_L1_MISS + X86_PRICE_LLC_MISS +
                 2 * X86_PRICE_L1_MISS +
                 X86_PRICE_MISPREDICT + X86_PRICE_RESTEER);
    }
    return MAX(1, muldiv64_round_up(quarters, least, most));
}

/*
 * A lower bound of the units that it takes until a counter has counted @n
 * more. CMASK and EDGE only make it take longer.
 */
static int64_t x86_pmu_units(X86CPU *cpu, unsigned counter, uint64_t n)
{
    const PMUConfig *config = &cpu->pmu->config[counter];

    if (config->cmask && config->inv) {
        return x86_pmu_units_of(cpu, 4 * cpu->pmu->width * (n - 1));
    }
    switch (config->event->source) {
    case SOURCE_NONE:
        return INSN_COUNT_NEVER;
    case SOURCE_TOTAL:
        return n * X86_COUNT_INSN_SLOTS;
    case SOURCE_BRANCH:
        return n * X86_COUNT_BRANCH_SLOTS;
    case SOURCE_CYCLES:
    case SOURCE_SLOTS:
    case SOURCE_CATEGORY:
        return x86_pmu_units_of(cpu, x86_pmu_parts(cpu, config->event) * n -
                                     cpu->pmu->run[counter].rest);
    default:
        /*
         * For each quarter of a slot, of itself or that the precise model
         * adds, it is at most one, and another from a share that was nearly
         * full.
         */
        return x86_pmu_units_of(cpu, n - 1);
    }
}

/*
 * An interrupt comes right behind the instruction that overflows its counter.
 * In the middle of a block, that block must be translated again in two parts,
 * and profilers want many interrupts, of cycles as a rule. So those of cycles
 * (but not of slots) may come later: in front of the branch, or what else ends
 * the block, at most PMU_LATE cycles behind the overflow. That is in the same
 * basic block. Not with record and replay: where a replay stops for another
 * interrupt, it does not know yet whether the next instruction ends a block.
 */
static bool x86_pmu_lags(X86CPU *cpu, unsigned counter)
{
    const PMUConfig *c = &cpu->pmu->config[counter];

    return c->event->source == SOURCE_CYCLES && !c->cmask && !c->edge &&
           !cpu->pmu_precise && replay_mode == REPLAY_MODE_NONE;
}

/*
 * Parts of a cycle since a counter of cycles has overflowed, if their total
 * has come to @now; negative: until it does
 */
static int64_t x86_pmu_since(X86CPU *cpu, unsigned counter, uint64_t now)
{
    const X86PMU *pmu = cpu->pmu;
    const X86PMURun *run = &pmu->run[counter];
    unsigned parts = x86_pmu_parts(cpu, pmu->config[counter].event);
    int64_t value = *x86_pmu_value(&cpu->env, counter);

    if (!(pmu->late & x86_pmu_bit(counter))) {
        value -= PMU_MASK + 1;
    }
    return value * parts + run->rest + now - run->event;
}

/* Is that to interrupt now? @ends: the next instruction ends its block */
static bool x86_pmu_interrupts(X86CPU *cpu, unsigned counter, uint64_t now,
                               bool ends)
{
    unsigned parts = x86_pmu_parts(cpu, cpu->pmu->config[counter].event);

    return x86_pmu_since(cpu, counter, now) >= (ends ? 0 : PMU_LATE * parts);
}

static void x86_pmu_freeze(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;

    if (FIELD_EX64(env->msr_debugctl, DEBUGCTL, FREEZE_PERFMON_ON_PMI)) {
        env->msr_global_status |= PMU_STATUS_CTR_FRZ;
        x86_pmu_start(cpu);
    }
}

/* Interrupts that do not have to wait any more; the registers are up to date */
static void x86_pmu_catch_up(X86CPU *cpu, bool ends)
{
    X86PMU *pmu = cpu->pmu;
    unsigned domain = x86_pmu_domain(cpu);
    bool now = pmu->irq_pending;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS && pmu->late && !now; i++) {
        uint8_t domains = pmu->config[i].domains;

        if (pmu->late & x86_pmu_bit(i)) {
            now = !domains || !x86_pmu_lags(cpu, i) ||
                  ((domains & (1 << domain)) &&
                   x86_pmu_interrupts(cpu, i, pmu->run[i].event, ends));
        }
    }
    if (now) {
        /* One interrupt is for all that software can find */
        pmu->late = 0;
    }
    if (now && !pmu->irq_pending) {
        pmu->irq_pending = true;
        x86_pmu_freeze(cpu);
    }
}

/*
 * Deliver an interrupt through the local APIC, if it has one. The mask bit
 * that this sets is software's to clear. @ends: see x86_pmu_lags()
 */
static void x86_pmu_deliver(X86CPU *cpu, bool ends)
{
    x86_pmu_catch_up(cpu, ends);
    if (cpu->pmu->irq_pending) {
        cpu->pmu->irq_pending = false;
        if (cpu->apic_state) {
            BQL_LOCK_GUARD();
            apic_deliver_pmi(cpu->apic_state);
        }
    }
}

/* An overflow is the carry out of the counter. */
void x86_pmu_update(X86CPU *cpu, uintptr_t ra)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    unsigned i;

    insn_count_sync(CPU(cpu), ra);
    if (cpu->pmu_precise) {
        x86_pmu_precise_drain(cpu);
    }
    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];
        uint64_t *value = x86_pmu_value(env, i);
        X86PMURun *run = &pmu->run[i];
        uint64_t count, now, sum;

        if (!c->domains) {
            continue;
        }
        now = x86_pmu_sum(cpu, c->event, c->domains);
        count = x86_pmu_count(cpu, i, now, &run->rest);
        if (!c->cmask && !c->edge) {
            run->event = MAX(run->event, now);
        }
        run->got += count;
        sum = *value + count;
        *value = sum & PMU_MASK;
        if (sum != *value) {
            trace_x86_pmu_overflow(CPU(cpu)->cpu_index, i, *value,
                                   pmu->config[i].irq);
            env->msr_global_status |= x86_pmu_bit(i);
            if (x86_pmu_lags(cpu, i)) {
                pmu->late |= c->irq ? x86_pmu_bit(i) : 0;
            } else {
                pmu->irq_pending |= c->irq;
            }
        }
    }
    x86_topdown_update(cpu);
    if (pmu->irq_pending) {
        x86_pmu_freeze(cpu);
    }
}

/* Set all deadlines, from values that are up to date */
static void x86_pmu_set_due(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    uint64_t metrics = x86_topdown_left(cpu);
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = pmu->irq_pending ? 0 : INSN_COUNT_NEVER;
    }
    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];

        if (c->domains && c->irq) {
            uint64_t left = PMU_MASK + 1 - *x86_pmu_value(env, i);

            due[c->domains] = MIN(due[c->domains],
                                  x86_pmu_units(cpu, i, left));
        }
        if (pmu->late & x86_pmu_bit(i)) {
            due[c->domains] = 0;
        }
    }
    if (metrics) {
        int64_t *d = &due[pmu->config[PMU_SLOTS].domains];

        *d = MIN(*d, x86_pmu_units_of(cpu, metrics));
    }
    insn_count_set_due(CPU(cpu), x86_pmu_domain(cpu), due);
}

/*
 * The registers have changed, and were up to date before that. Counting in
 * the accelerator takes effect behind the current instruction.
 */
void x86_pmu_start(X86CPU *cpu)
{
    X86PMU *pmu = cpu->pmu;
    unsigned lanes = 0;
    bool on = false;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        PMUConfig old = pmu->config[i];
        PMUConfig c = x86_pmu_config(&cpu->env, i, &old);

        pmu->config[i] = c;
        if (!c.domains) {
            continue;
        }
        on = true;
        lanes |= x86_pmu_lanes(cpu, c.event);
        if (c.domains != old.domains || c.event != old.event ||
            c.cmask != old.cmask || c.inv != old.inv || c.edge != old.edge) {
            X86PMURun *run = &pmu->run[i];

            run->event = x86_pmu_sum(cpu, c.event, c.domains);
            run->cycles = x86_pmu_sum(cpu, &x86_pmu_cycles, c.domains);
            run->got = 0;
            if (run->rest_of != c.code) {
                run->rest_of = c.code;
                run->rest = 0;
            }
        }
    }
    x86_topdown_start(cpu);
    if (pmu->topdown.active) {
        lanes |= x86_topdown_lanes(cpu);
    }
    /* Branch predictors and caches rest while nothing counts */
    insn_count_start(CPU(cpu), on ? x86_pmu_what(lanes) : 0,
                     !cpu->pmu_precise);
    if (on) {
        x86_pmu_set_due(cpu);
    }
}

static void x86_pmu_deadline(CPUState *cs, bool ends)
{
    X86CPU *cpu = X86_CPU(cs);

    x86_pmu_update(cpu, 0);
    x86_pmu_deliver(cpu, ends);
    x86_pmu_set_due(cpu);
}

/*
 * Would a counter overflow in a block? Conditional branches are in its lanes,
 * but not whether they are taken.
 */
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes, bool ends)
{
    X86CPU *cpu = X86_CPU(cs);
    X86PMU *pmu = cpu->pmu;
    const uint64_t *now = cpu->insn_count.total[domain];
    uint64_t not_taken[X86_COUNT_TOTALS], taken[X86_COUNT_TOTALS];
    uint64_t metrics = x86_topdown_left(cpu);
    unsigned i;

    if (cpu->pmu_precise) {
        /* What is missed in the block is not known yet */
        return true;
    }
    memcpy(not_taken, now, sizeof(not_taken));
    for (i = 0; i < X86_COUNT_LANES; i++) {
        not_taken[i] += lanes[i];
    }
    memcpy(taken, not_taken, sizeof(taken));
    taken[X86_COUNT_COND_TAKEN] += lanes[X86_COUNT_COND];

    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];
        uint64_t most, sum, rest;

        if (!(c->domains & (1 << domain)) ||
            (!c->irq && !(pmu->late & x86_pmu_bit(i)))) {
            continue;
        }
        if (c->cmask || c->edge) {
            /* Too difficult to tell, and rare */
            return true;
        }
        most = MAX(x86_pmu_event(cpu, c->event, domain, taken),
                   x86_pmu_event(cpu, c->event, domain, not_taken)) -
               x86_pmu_event(cpu, c->event, domain, now);
        sum = x86_pmu_sum(cpu, c->event, c->domains) + most;
        if (x86_pmu_lags(cpu, i)) {
            if (x86_pmu_interrupts(cpu, i, sum, ends)) {
                return true;
            }
            continue;
        }
        if (*x86_pmu_value(&cpu->env, i) +
            x86_pmu_count(cpu, i, sum, &rest) > PMU_MASK) {
            return true;
        }
    }
    return metrics && (pmu->config[PMU_SLOTS].domains & (1 << domain)) &&
           lanes[X86_COUNT_SLOTS] >= metrics;
}

/*
 * INT n is delivered when its block has ended and has counted it. If it fails
 * then, which is before anything else could happen, it has not retired. The
 * clear is that of the exception.
 */
void x86_pmu_int_failed(CPUX86State *env)
{
    static const uint8_t lanes[] = {
        X86_COUNT_INSNS, X86_COUNT_BRANCHES, X86_COUNT_FAR, X86_COUNT_HEAVY,
    };
    CPUInsnCount *c = &env_archcpu(env)->insn_count;
    uint64_t *total = c->total[env->hflags & HF_CPL_MASK ? X86_COUNT_USER
                                                         : X86_COUNT_KERNEL];
    unsigned i;

    if (c->what) {
        total[X86_COUNT_SLOTS] -= X86_PRICE_HEAVY + X86_PRICE_BRANCH;
    }
    for (i = 0; i < ARRAY_SIZE(lanes); i++) {
        unsigned word = x86_insn_count_ops.lane[lanes[i]].word;

        if (c->what & INSN_COUNT_WORD(word)) {
            total[lanes[i]]--;
        }
    }
}

/*
 * Registers
 */

static bool x86_pmu_full_write(CPUX86State *env)
{
    return env->features[FEAT_PERF_CAPABILITIES] & PMU_CAP_FULL_WRITE;
}

static uint64_t x86_pmu_inuse(CPUX86State *env)
{
    uint64_t inuse = 0;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        bool used, irq;

        if (i < PMU_GP) {
            used = env->msr_gp_evtsel[i] & 0xff;
            irq = FIELD_EX64(env->msr_gp_evtsel[i], EVTSEL, INT);
        } else {
            uint64_t ctrl = env->msr_fixed_ctr_ctrl >> 4 * (i - PMU_GP);

            used = ctrl & (R_FIXED_OS_MASK | R_FIXED_USR_MASK);
            irq = FIELD_EX64(ctrl, FIXED, INT);
        }
        inuse |= (used ? x86_pmu_bit(i) : 0) | (irq ? PMU_INUSE_PMI : 0);
    }
    return inuse;
}

/* 1: there is such a register, -1: there is none */
static int x86_pmu_read(X86CPU *cpu, uint32_t msr, uint64_t *val)
{
    CPUX86State *env = &cpu->env;

    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        *val = env->msr_gp_counters[msr - MSR_P6_PERFCTR0];
        return 1;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        *val = env->msr_gp_counters[msr - MSR_IA32_A_PMC0];
        return x86_pmu_full_write(env) ? 1 : -1;
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        *val = env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0];
        return 1;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *val = *x86_pmu_value(env, PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0);
        return 1;
    case MSR_PERF_METRICS:
        *val = x86_topdown_read(cpu);
        return x86_topdown_available(env) ? 1 : -1;
    case MSR_CORE_PERF_FIXED_CTR_CTRL:
        *val = env->msr_fixed_ctr_ctrl;
        return 1;
    case MSR_CORE_PERF_GLOBAL_CTRL:
        *val = env->msr_global_ctrl;
        return 1;
    case MSR_CORE_PERF_GLOBAL_STATUS:
        *val = env->msr_global_status;
        return 1;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        *val = 0;
        return 1;
    case MSR_CORE_PERF_GLOBAL_INUSE:
        *val = x86_pmu_inuse(env);
        return 1;
    case MSR_IA32_PERF_CAPABILITIES:
        *val = env->features[FEAT_PERF_CAPABILITIES];
        return env->features[FEAT_1_ECX] & CPUID_EXT_PDCM ? 1 : -1;
    case MSR_IA32_DEBUGCTL:
        *val = env->msr_debugctl;
        return 1;
    case MSR_IA32_MISC_ENABLE:
        *val = env->msr_ia32_misc_enable | PMU_MISC_ENABLE;
        return 1;
    default:
        return -1;
    }
}

static uint64_t x86_pmu_ctrl_mask(CPUX86State *env)
{
    return PMU_GP_MASK | PMU_FIXED_MASK |
           (x86_topdown_available(env) ? PMU_METRICS_BIT : 0);
}

static uint64_t x86_pmu_status_mask(CPUX86State *env)
{
    return PMU_STATUS_MASK |
           (x86_topdown_available(env) ? PMU_METRICS_BIT : 0);
}

/* The bits that software may write as 1; false if there are none at all */
static bool x86_pmu_writable(CPUX86State *env, uint32_t msr, uint64_t *legal)
{
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
    case MSR_IA32_MISC_ENABLE:
        *legal = UINT64_MAX;
        return true;
    case MSR_PERF_METRICS:
        *legal = UINT64_MAX;
        return x86_topdown_available(env);
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        *legal = PMU_MASK;
        return x86_pmu_full_write(env);
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        *legal = PMU_EVTSEL_MASK;
        return true;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *legal = PMU_MASK;
        return true;
    case MSR_CORE_PERF_FIXED_CTR_CTRL:
        *legal = PMU_FIXED_CTRL_MASK;
        return true;
    case MSR_CORE_PERF_GLOBAL_CTRL:
        *legal = x86_pmu_ctrl_mask(env);
        return true;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        *legal = x86_pmu_status_mask(env);
        return true;
    case MSR_IA32_DEBUGCTL:
        *legal = PMU_DEBUGCTL_MASK;
        return true;
    default:
        return false;
    }
}

static void x86_pmu_write(X86CPU *cpu, uint32_t msr, uint64_t val)
{
    CPUX86State *env = &cpu->env;

    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        /* The upper half is ignored, and the sign of the lower extended */
        env->msr_gp_counters[msr - MSR_P6_PERFCTR0] = (int32_t)val & PMU_MASK;
        cpu->pmu->run[msr - MSR_P6_PERFCTR0].rest = 0;
        break;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        env->msr_gp_counters[msr - MSR_IA32_A_PMC0] = val;
        cpu->pmu->run[msr - MSR_IA32_A_PMC0].rest = 0;
        break;
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0] = val;
        break;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *x86_pmu_value(env, PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0) = val;
        cpu->pmu->run[PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0].rest = 0;
        if (msr == MSR_CORE_PERF_FIXED_CTR3) {
            x86_topdown_restart(cpu);
        }
        break;
    case MSR_PERF_METRICS:
        x86_topdown_write(cpu, val);
        break;
    case MSR_CORE_PERF_FIXED_CTR_CTRL:
        env->msr_fixed_ctr_ctrl = val;
        break;
    case MSR_CORE_PERF_GLOBAL_CTRL:
        env->msr_global_ctrl = val;
        break;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
        env->msr_global_status &= ~val;
        break;
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        env->msr_global_status |= val;
        break;
    case MSR_IA32_DEBUGCTL:
        env->msr_debugctl = val;
        break;
    case MSR_IA32_MISC_ENABLE:
        env->msr_ia32_misc_enable = val & ~PMU_MISC_ENABLE;
        break;
    default:
        g_assert_not_reached();
    }
}

/*
 * The PMU's registers, with those that would be there if it had more counters
 * or features: they must not be there
 */
static bool x86_pmu_has_msr(uint32_t msr)
{
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + 9:
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + 9:
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + 9:
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + 15:
    case MSR_PERF_METRICS:
    case MSR_IA32_PERF_CAPABILITIES:
    case MSR_CORE_PERF_FIXED_CTR_CTRL ... MSR_CORE_PERF_GLOBAL_INUSE:
    case MSR_IA32_DEBUGCTL:
    case MSR_IA32_MISC_ENABLE:
        return true;
    default:
        return false;
    }
}

int x86_pmu_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val, uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    int ret;

    if (!cpu->pmu || !x86_pmu_has_msr(msr)) {
        return 0;
    }
    x86_pmu_update(cpu, ra);
    x86_pmu_deliver(cpu, false);
    ret = x86_pmu_read(cpu, msr, val);
    trace_x86_pmu_rdmsr(CPU(cpu)->cpu_index, msr, ret > 0 ? *val : 0, ret > 0);
    return ret;
}

int x86_pmu_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val, uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    uint64_t legal;
    bool ok;

    if (!cpu->pmu || !x86_pmu_has_msr(msr)) {
        return 0;
    }
    ok = x86_pmu_writable(env, msr, &legal) && !(val & ~legal);
    trace_x86_pmu_wrmsr(CPU(cpu)->cpu_index, msr, val, ok);
    if (!ok) {
        return -1;
    }
    /*
     * An instruction counts if counting is on when it starts: WRMSR itself,
     * which is the last of its block and cannot fail any more, is still
     * counted by what the registers were before.
     */
    x86_pmu_update(cpu, 0);
    x86_pmu_write(cpu, msr, val);
    /* Nobody is to be interrupted for what is gone */
    cpu->pmu->late &= env->msr_global_status;
    x86_pmu_start(cpu);
    x86_pmu_deliver(cpu, false);
    return 1;
}

bool x86_pmu_rdpmc(CPUX86State *env, uint32_t index, uint64_t *val,
                   uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    uint32_t type = index >> 16;

    index &= 0xffff;
    if (!cpu->pmu) {
        return false;
    } else if (type == PMU_RDPMC_GP && index < PMU_GP) {
        /* as it is */
    } else if (type == PMU_RDPMC_FIXED && index < PMU_FIXED) {
        index += PMU_GP;
    } else if (type == PMU_RDPMC_METRICS && index == 0 &&
               x86_topdown_available(env)) {
        /* as it is */
    } else {
        return false;
    }
    x86_pmu_update(cpu, ra);
    x86_pmu_deliver(cpu, false);
    *val = type == PMU_RDPMC_METRICS ? x86_topdown_read(cpu)
                                     : *x86_pmu_value(env, index);
    return true;
}

/*
 * Life cycle
 */

void x86_pmu_reset(X86CPU *cpu)
{
    if (cpu->pmu && !cpu->pmu->in_init) {
        /* All other registers are 0 */
        cpu->env.msr_global_ctrl = PMU_GP_MASK;
        cpu->pmu->irq_pending = false;
        cpu->pmu->late = 0;
        memset(cpu->pmu->run, 0, sizeof(cpu->pmu->run));
        x86_topdown_restart(cpu);
        if (cpu->pmu_precise) {
            x86_pmu_precise_reset(cpu);
        }
        x86_pmu_restart(cpu);
    }
}

void x86_pmu_init_begin(X86CPU *cpu)
{
    if (cpu->pmu) {
        x86_pmu_sync(cpu);
        cpu->pmu->in_init = true;
    }
}

void x86_pmu_init_end(X86CPU *cpu)
{
    if (cpu->pmu) {
        cpu->pmu->in_init = false;
        x86_pmu_restart(cpu);
    }
}

void x86_pmu_sync(X86CPU *cpu)
{
    if (cpu->pmu) {
        x86_pmu_update(cpu, 0);
        cpu->env.msr_perf_metrics = x86_topdown_read(cpu);
    }
}

void x86_pmu_restart(X86CPU *cpu)
{
    if (cpu->pmu) {
        insn_count_sync(CPU(cpu), 0);
        memset(cpu->pmu->config, 0, sizeof(cpu->pmu->config));
        x86_pmu_start(cpu);
    }
}

/*
 * Migration: the registers are in sections that QEMU has had for KVM. The
 * totals come along because they hold the fractions of cycles.
 */

static bool x86_pmu_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->pmu != NULL;
}

static int x86_pmu_pre_save(void *opaque)
{
    X86CPU *cpu = opaque;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        memcpy(&cpu->pmu->saved[d * X86_COUNT_TOTALS],
               cpu->insn_count.total[d],
               X86_COUNT_TOTALS * sizeof(uint64_t));
    }
    return 0;
}

static int x86_pmu_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    CPUX86State *env = &cpu->env;
    unsigned d, i;

    /* A stream may come from anywhere: keep to what software can set */
    for (i = 0; i < PMU_COUNTERS; i++) {
        *x86_pmu_value(env, i) &= PMU_MASK;
    }
    for (i = 0; i < PMU_GP; i++) {
        env->msr_gp_evtsel[i] &= PMU_EVTSEL_MASK;
    }
    env->msr_fixed_ctr_ctrl &= PMU_FIXED_CTRL_MASK;
    env->msr_global_ctrl &= x86_pmu_ctrl_mask(env);
    env->msr_global_status &= x86_pmu_status_mask(env);
    env->msr_debugctl &= PMU_DEBUGCTL_MASK;
    cpu->pmu->late &= env->msr_global_status & (PMU_GP_MASK | PMU_FIXED_MASK);

    insn_count_sync(CPU(cpu), 0);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        memcpy(cpu->insn_count.total[d],
               &cpu->pmu->saved[d * X86_COUNT_TOTALS],
               X86_COUNT_TOTALS * sizeof(uint64_t));
    }
    return 0;
}

static const VMStateDescription vmstate_x86_pmu_run = {
    .name = "cpu/tcg_pmu/run",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(rest, X86PMURun),
        VMSTATE_UINT16(rest_of, X86PMURun),
        VMSTATE_END_OF_LIST()
    }
};

static bool x86_pmu_late_needed(void *opaque)
{
    X86PMU *pmu = opaque;

    return pmu->late;
}

static const VMStateDescription vmstate_x86_pmu_late = {
    .name = "cpu/tcg_pmu/state/late",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = x86_pmu_late_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(late, X86PMU),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_x86_pmu_state = {
    .name = "cpu/tcg_pmu/state",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(irq_pending, X86PMU),
        VMSTATE_STRUCT(topdown, X86PMU, 1, vmstate_x86_topdown,
                       X86PMUTopDown),
        VMSTATE_UINT64_ARRAY(saved, X86PMU,
                             X86_COUNT_DOMAINS * X86_COUNT_TOTALS),
        VMSTATE_STRUCT_ARRAY(run, X86PMU, PMU_COUNTERS, 1, vmstate_x86_pmu_run,
                             X86PMURun),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription *const[]) {
        &vmstate_x86_pmu_late,
        NULL
    }
};

static bool x86_pmu_precise_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->pmu_precise != NULL;
}

static const VMStateDescription vmstate_x86_pmu_with_precise = {
    .name = "cpu/tcg_pmu/precise",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = x86_pmu_precise_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_STRUCT_POINTER(pmu_precise, X86CPU, vmstate_x86_pmu_precise,
                               X86PMUPrecise),
        VMSTATE_END_OF_LIST()
    }
};

const VMStateDescription vmstate_x86_pmu = {
    .name = "cpu/tcg_pmu",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = x86_pmu_needed,
    .pre_save = x86_pmu_pre_save,
    .post_load = x86_pmu_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(env.msr_debugctl, X86CPU),
        VMSTATE_STRUCT_POINTER(pmu, X86CPU, vmstate_x86_pmu_state, X86PMU),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription *const[]) {
        &vmstate_x86_pmu_with_precise,
        &vmstate_x86_pmu_mix,
        NULL
    }
};
