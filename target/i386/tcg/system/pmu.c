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
 *  - mispredicted branches and references to and misses of the last level
 *    cache are fixed shares (1/64 of the conditional branches, 1/64 of the
 *    loads for misses and 1/16 more for references);
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
#include "system/tcg.h"
#include "target/i386/trace.h"
#include "tcg/helper-tcg.h"
#include "tcg/pmu.h"

#define PMU_GP                  8
#define PMU_FIXED               4
#define PMU_COUNTERS            (PMU_GP + PMU_FIXED)
#define PMU_WIDTH               48
#define PMU_MASK                MAKE_64BIT_MASK(0, PMU_WIDTH)

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

#define PMU_CAP_FULL_WRITE      BIT_ULL(13)

/* RDPMC: the type of counter is in the upper half of ECX */
#define PMU_RDPMC_GP            0x0000
#define PMU_RDPMC_FIXED         0x4000

/* Upper byte: unit mask, lower byte: event select */
typedef enum X86PMUEvent {
    EVENT_CYCLES            = 0x003c,
    EVENT_INSNS             = 0x00c0,
    EVENT_REF               = 0x013c,
    EVENT_REF_FIXED         = 0x0300,   /* pseudo code, fixed counter 2 */
    EVENT_SLOTS             = 0x01a4,
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

/* What the registers say of a counter */
typedef struct PMUConfig {
    uint16_t event;
    uint8_t cmask;
    bool edge;
    bool inv;
    bool irq;
    uint8_t domains;        /* bit mask, 0: does not count */
} PMUConfig;

/**
 * X86PMU: state that is not in the registers
 * @config: what the counters count now, general before fixed
 * @run: counters that count: what the event and the cycles had counted when
 *       they started, and what the register in CPUX86State has got since then
 * @width: slots per cycle
 * @irq_pending: an interrupt to be delivered by the vCPU's thread
 * @saved: the totals of the accelerator, in the migration stream
 */
typedef struct X86PMU {
    PMUConfig config[PMU_COUNTERS];
    struct {
        uint64_t event;
        uint64_t cycles;
        uint64_t got;
    } run[PMU_COUNTERS];
    uint32_t width;
    bool irq_pending;
    uint64_t saved[X86_COUNT_DOMAINS * X86_COUNT_LANES];
} X86PMU;

static void x86_pmu_deadline(CPUState *cs);
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes);

/*
 * A unit is at most 16 quarters of a slot, a branch at least two units, and
 * everything else at most one per unit: that is what bounds the lanes.
 */
const InsnCountOps x86_insn_count_ops = {
    .offset = offsetof(X86CPU, insn_count),
    .domains = X86_COUNT_DOMAINS,
    .lanes = X86_COUNT_LANES,
    .lane = {
        [X86_COUNT_SLOTS] = { 0, 15, 19 },
        [X86_COUNT_BRANCHES] = { 0, 34, 14 },
        [X86_COUNT_COND] = { 1, 0, 16 },
        [X86_COUNT_LOADS] = { 1, 16, 16 },
        [X86_COUNT_STORES] = { 1, 32, 16 },
        [X86_COUNT_CALLS] = { 1, 48, 16 },
        [X86_COUNT_RETS] = { 2, 0, 16 },
        [X86_COUNT_COND_TAKEN] = { 2, 16, 16 },
        [X86_COUNT_FAR] = { 2, 32, 16 },
        [X86_COUNT_INDIRECT] = { 2, 48, 16 },
    },
    .deadline = x86_pmu_deadline,
    .reaches = x86_pmu_reaches,
};

/*
 * Properties
 */

static bool x86_pmu_possible(X86CPU *cpu)
{
    return tcg_enabled() && cpu->enable_pmu && insn_count_available() &&
           IS_INTEL_CPU(&cpu->env);
}

uint64_t x86_pmu_supported_features(X86CPU *cpu, FeatureWord w)
{
    if (x86_pmu_possible(cpu)) {
        switch (w) {
        case FEAT_1_ECX:
            return CPUID_EXT_PDCM;
        case FEAT_PERF_CAPABILITIES:
            return PMU_CAP_FULL_WRITE;
        default:
            break;
        }
    }
    return 0;
}

bool x86_pmu_expand_features(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    FeatureWord w;

    if (!x86_pmu_possible(cpu)) {
        return false;
    }
    for (w = 0; w < FEATURE_WORDS; w++) {
        env->features[w] |= x86_pmu_supported_features(cpu, w) &
                            ~env->user_features[w];
    }
    return true;
}

/*
 * Allocation width of the microarchitecture (Intel's TopDown metrics are
 * defined by it): 6 from Golden Cove on, 5 for Sunny Cove and its relatives,
 * 4 for older ones.
 */
static unsigned x86_pmu_model_width(CPUX86State *env)
{
    unsigned family = extract32(env->cpuid_version, 8, 4);
    unsigned model = extract32(env->cpuid_version, 4, 4) |
                     extract32(env->cpuid_version, 16, 4) << 4;

    if (family == 6) {
        switch (model) {
        case 0x6a: case 0x6c:               /* Ice Lake servers */
        case 0x7d: case 0x7e:               /* Ice Lake */
        case 0x8c: case 0x8d:               /* Tiger Lake */
        case 0xa7:                          /* Rocket Lake */
            return 5;
        case 0x8f: case 0xcf:               /* Sapphire, Emerald Rapids */
        case 0xad: case 0xae:               /* Granite Rapids */
            return 6;
        }
    }
    return PMU_LEAST_WIDTH;
}

bool x86_pmu_realize(X86CPU *cpu, Error **errp)
{
    if (!cpu->enable_pmu) {
        return true;
    }
    if (!x86_pmu_possible(cpu)) {
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
    cpu->pmu = g_new0(X86PMU, 1);
    cpu->pmu->width = x86_pmu_model_width(&cpu->env);
    return true;
}

void x86_pmu_unrealize(X86CPU *cpu)
{
    g_clear_pointer(&cpu->pmu, g_free);
}

unsigned x86_pmu_width(CPUX86State *env)
{
    X86PMU *pmu = env_archcpu(env)->pmu;

    return pmu ? pmu->width : 0;
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

static PMUConfig x86_pmu_config(CPUX86State *env, unsigned counter)
{
    static const uint16_t fixed_events[PMU_FIXED] = {
        EVENT_INSNS, EVENT_CYCLES, EVENT_REF_FIXED, EVENT_SLOTS_FIXED,
    };
    PMUConfig config = { };
    bool os, usr;

    if (counter < PMU_GP) {
        uint64_t sel = env->msr_gp_evtsel[counter];
        bool on = FIELD_EX64(sel, EVTSEL, EN);

        config.event = FIELD_EX64(sel, EVTSEL, EVENT);
        config.cmask = FIELD_EX64(sel, EVTSEL, CMASK);
        config.edge = FIELD_EX64(sel, EVTSEL, EDGE);
        config.inv = FIELD_EX64(sel, EVTSEL, INV);
        config.irq = FIELD_EX64(sel, EVTSEL, INT);
        os = on && FIELD_EX64(sel, EVTSEL, OS);
        usr = on && FIELD_EX64(sel, EVTSEL, USR);
    } else {
        uint64_t ctrl = env->msr_fixed_ctr_ctrl >> 4 * (counter - PMU_GP);

        config.event = fixed_events[counter - PMU_GP];
        config.irq = FIELD_EX64(ctrl, FIXED, INT);
        os = FIELD_EX64(ctrl, FIXED, OS);
        usr = FIELD_EX64(ctrl, FIXED, USR);
    }
    if ((env->msr_global_ctrl & x86_pmu_bit(counter)) &&
        !(env->msr_global_status & PMU_STATUS_CTR_FRZ)) {
        config.domains = os << X86_COUNT_KERNEL | usr << X86_COUNT_USER;
    }
    return config;
}

/* Which words of lanes an event needs, besides the first */
static unsigned x86_pmu_words(uint16_t event)
{
    switch (event) {
    case EVENT_COND:
    case EVENT_CALLS:
    case EVENT_LOADS:
    case EVENT_STORES:
    case EVENT_LLC_REF:
    case EVENT_LLC_MISS:
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return 1 << 1;
    case EVENT_RETS:
    case EVENT_FAR:
    case EVENT_INDIRECT:
    case EVENT_COND_TAKEN:
        return 1 << 2;
    case EVENT_COND_NOT_TAKEN:
    case EVENT_TAKEN:
        return 1 << 1 | 1 << 2;
    default:
        return 0;
    }
}

/* What an event has ever counted in the domain of @total; never goes back */
static uint64_t x86_pmu_event(X86CPU *cpu, uint16_t event,
                              const uint64_t *total)
{
    switch (event) {
    case EVENT_INSNS:
        return total[X86_COUNT_INSNS];
    case EVENT_CYCLES:
    case EVENT_REF:
    case EVENT_REF_FIXED:
        return total[X86_COUNT_SLOTS] / (4 * cpu->pmu->width);
    case EVENT_SLOTS:
    case EVENT_SLOTS_FIXED:
        return total[X86_COUNT_SLOTS] / 4;
    case EVENT_LLC_REF:
        return total[X86_COUNT_LOADS] / 16 + total[X86_COUNT_LOADS] / 64;
    case EVENT_LLC_MISS:
        return total[X86_COUNT_LOADS] / 64;
    case EVENT_BRANCHES:
        return total[X86_COUNT_BRANCHES];
    case EVENT_COND_TAKEN:
        return total[X86_COUNT_COND_TAKEN];
    case EVENT_CALLS:
        return total[X86_COUNT_CALLS];
    case EVENT_RETS:
        return total[X86_COUNT_RETS];
    case EVENT_COND_NOT_TAKEN:
        return total[X86_COUNT_COND] - total[X86_COUNT_COND_TAKEN];
    case EVENT_COND:
        return total[X86_COUNT_COND];
    case EVENT_TAKEN:
        return total[X86_COUNT_BRANCHES] - total[X86_COUNT_FAR] -
               total[X86_COUNT_COND] + total[X86_COUNT_COND_TAKEN];
    case EVENT_FAR:
        return total[X86_COUNT_FAR];
    case EVENT_INDIRECT:
        return total[X86_COUNT_INDIRECT];
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return total[X86_COUNT_COND] / 64;
    case EVENT_LOADS:
        return total[X86_COUNT_LOADS];
    case EVENT_STORES:
        return total[X86_COUNT_STORES];
    default:
        return 0;
    }
}

/* The same in all domains of a counter */
static uint64_t x86_pmu_sum(X86CPU *cpu, uint16_t event, uint8_t domains)
{
    uint64_t sum = 0;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            sum += x86_pmu_event(cpu, event, cpu->insn_count.total[d]);
        }
    }
    return sum;
}

/*
 * What a counter has counted since it started. The filters are approximations
 * (our decision, because there are no single cycles): with CMASK the events
 * come packed, CMASK in a cycle; INV counts the other cycles; EDGE takes every
 * second of these cycles to be the start of a run.
 */
static uint64_t x86_pmu_count(X86CPU *cpu, unsigned counter)
{
    const PMUConfig *c = &cpu->pmu->config[counter];
    uint64_t n, cycles;

    n = x86_pmu_sum(cpu, c->event, c->domains) - cpu->pmu->run[counter].event;
    if (!c->cmask && !c->edge) {
        return n;
    }
    cycles = x86_pmu_sum(cpu, EVENT_CYCLES, c->domains) -
             cpu->pmu->run[counter].cycles;
    if (c->cmask) {
        n = MIN(n / c->cmask, cycles);
        if (c->inv) {
            n = cycles - n;
        }
    }
    if (c->edge) {
        n = DIV_ROUND_UP(MIN(n, cycles), 2);
    }
    return n;
}

/*
 * A lower bound of the units that it takes to count @n of an event. CMASK and
 * EDGE only make it take longer.
 */
static int64_t x86_pmu_units(const PMUConfig *config, uint64_t n)
{
    if (config->cmask && config->inv) {
        /* Cycles, which are four slots or more: as many as one unit at most */
        QEMU_BUILD_BUG_ON(X86_COUNT_UNIT_SLOTS > 4 * PMU_LEAST_WIDTH);
        return n;
    }
    switch (config->event) {
    case EVENT_BRANCHES:
    case EVENT_COND:
    case EVENT_COND_TAKEN:
    case EVENT_COND_NOT_TAKEN:
    case EVENT_TAKEN:
    case EVENT_CALLS:
    case EVENT_RETS:
    case EVENT_FAR:
    case EVENT_INDIRECT:
        return n * X86_COUNT_BRANCH_UNITS;
    case EVENT_MISPREDICTED:
    case EVENT_MISPREDICTED_COND:
        return (64 * (n - 1) + 1) * X86_COUNT_BRANCH_UNITS;
    case EVENT_SLOTS:
    case EVENT_SLOTS_FIXED:
        return DIV_ROUND_UP(n, X86_COUNT_UNIT_SLOTS / 4);
    case EVENT_LLC_REF:
        /* At most two with the first load */
        return n > 2 ? 12 * (n - 2) : 1;
    case EVENT_LLC_MISS:
        return 64 * (n - 1) + 1;
    case EVENT_INSNS:
    case EVENT_LOADS:
    case EVENT_STORES:
    case EVENT_CYCLES:
    case EVENT_REF:
    case EVENT_REF_FIXED:
        return n;
    default:
        return INSN_COUNT_NEVER;
    }
}

/*
 * Deliver an interrupt through the local APIC, if it has one. The mask bit
 * that this sets is software's to clear.
 */
static void x86_pmu_deliver(X86CPU *cpu)
{
    if (cpu->pmu->irq_pending) {
        cpu->pmu->irq_pending = false;
        if (cpu->apic_state) {
            BQL_LOCK_GUARD();
            apic_deliver_pmi(cpu->apic_state);
        }
    }
}

static void x86_pmu_start(X86CPU *cpu);

/*
 * Bring all registers up to date, except for the current instruction of the
 * helper whose GETPC() is @ra. An overflow is the carry out of the counter.
 */
static void x86_pmu_update(X86CPU *cpu, uintptr_t ra)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    unsigned i;

    insn_count_sync(CPU(cpu), ra);
    for (i = 0; i < PMU_COUNTERS; i++) {
        uint64_t *value = x86_pmu_value(env, i);
        uint64_t count, sum;

        if (!pmu->config[i].domains) {
            continue;
        }
        count = x86_pmu_count(cpu, i);
        if (count <= pmu->run[i].got) {
            /* Nothing, or an inverted count that waits to catch up */
            continue;
        }
        sum = *value + (count - pmu->run[i].got);
        pmu->run[i].got = count;
        *value = sum & PMU_MASK;
        if (sum != *value) {
            trace_x86_pmu_overflow(CPU(cpu)->cpu_index, i, *value,
                                   pmu->config[i].irq);
            env->msr_global_status |= x86_pmu_bit(i);
            pmu->irq_pending |= pmu->config[i].irq;
        }
    }
    if (pmu->irq_pending && FIELD_EX64(env->msr_debugctl, DEBUGCTL,
                                       FREEZE_PERFMON_ON_PMI)) {
        env->msr_global_status |= PMU_STATUS_CTR_FRZ;
        x86_pmu_start(cpu);
    }
}

/* Set all deadlines, from values that are up to date */
static void x86_pmu_set_due(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    X86PMU *pmu = cpu->pmu;
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(due); i++) {
        due[i] = pmu->irq_pending ? 0 : INSN_COUNT_NEVER;
    }
    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];

        if (c->domains && c->irq) {
            uint64_t left = PMU_MASK + 1 - *x86_pmu_value(env, i);

            due[c->domains] = MIN(due[c->domains], x86_pmu_units(c, left));
        }
    }
    insn_count_set_due(CPU(cpu), env->hflags & HF_CPL_MASK ? X86_COUNT_USER
                                                           : X86_COUNT_KERNEL,
                       due);
}

/*
 * The registers have changed, and were up to date before that. Counting in
 * the accelerator takes effect behind the current instruction.
 */
static void x86_pmu_start(X86CPU *cpu)
{
    X86PMU *pmu = cpu->pmu;
    unsigned words = 0;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        PMUConfig old = pmu->config[i];
        PMUConfig c = x86_pmu_config(&cpu->env, i);

        pmu->config[i] = c;
        if (!c.domains) {
            continue;
        }
        words |= 1 | x86_pmu_words(c.event);
        if (c.domains != old.domains || c.event != old.event ||
            c.cmask != old.cmask || c.inv != old.inv || c.edge != old.edge) {
            pmu->run[i].event = x86_pmu_sum(cpu, c.event, c.domains);
            pmu->run[i].cycles = x86_pmu_sum(cpu, EVENT_CYCLES, c.domains);
            pmu->run[i].got = 0;
        }
    }
    insn_count_start(CPU(cpu), words);
    if (words) {
        x86_pmu_set_due(cpu);
    }
}

static void x86_pmu_deadline(CPUState *cs)
{
    X86CPU *cpu = X86_CPU(cs);

    x86_pmu_update(cpu, 0);
    x86_pmu_set_due(cpu);
    x86_pmu_deliver(cpu);
}

/*
 * Would a counter overflow in a block? Conditional branches are in its lanes,
 * but not whether they are taken.
 */
static bool x86_pmu_reaches(CPUState *cs, unsigned domain,
                            const uint64_t *lanes)
{
    X86CPU *cpu = X86_CPU(cs);
    X86PMU *pmu = cpu->pmu;
    const uint64_t *now = cpu->insn_count.total[domain];
    uint64_t not_taken[X86_COUNT_LANES], taken[X86_COUNT_LANES];
    unsigned i;

    for (i = 0; i < X86_COUNT_LANES; i++) {
        taken[i] = not_taken[i] = now[i] + lanes[i];
    }
    taken[X86_COUNT_COND_TAKEN] += lanes[X86_COUNT_COND];

    for (i = 0; i < PMU_COUNTERS; i++) {
        const PMUConfig *c = &pmu->config[i];
        uint64_t most, value;

        if (!c->irq || !(c->domains & (1 << domain))) {
            continue;
        }
        if (c->cmask || c->edge) {
            /* Too difficult to tell, and rare */
            return true;
        }
        most = MAX(x86_pmu_event(cpu, c->event, taken),
                   x86_pmu_event(cpu, c->event, not_taken)) -
               x86_pmu_event(cpu, c->event, now);
        value = *x86_pmu_value(&cpu->env, i) + x86_pmu_count(cpu, i) -
                pmu->run[i].got;
        if (value + most > PMU_MASK) {
            return true;
        }
    }
    return false;
}

/*
 * INT n is delivered when its block has ended and has counted it. If it fails
 * then, which is before anything else could happen, it has not retired.
 */
void x86_pmu_int_failed(CPUX86State *env)
{
    CPUInsnCount *c = &env_archcpu(env)->insn_count;
    unsigned domain = env->hflags & HF_CPL_MASK ? X86_COUNT_USER
                                                : X86_COUNT_KERNEL;

    if (c->words) {
        c->total[domain][X86_COUNT_INSNS]--;
        c->total[domain][X86_COUNT_BRANCHES]--;
    }
    if (c->words & (1 << x86_insn_count_ops.lane[X86_COUNT_FAR].word)) {
        c->total[domain][X86_COUNT_FAR]--;
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

/* The bits that software may write as 1; false if there are none at all */
static bool x86_pmu_writable(CPUX86State *env, uint32_t msr, uint64_t *legal)
{
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
    case MSR_IA32_MISC_ENABLE:
        *legal = UINT64_MAX;
        return true;
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
        *legal = PMU_GP_MASK | PMU_FIXED_MASK;
        return true;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        *legal = PMU_STATUS_MASK;
        return true;
    case MSR_IA32_DEBUGCTL:
        *legal = PMU_DEBUGCTL_MASK;
        return true;
    default:
        return false;
    }
}

static void x86_pmu_write(CPUX86State *env, uint32_t msr, uint64_t val)
{
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        /* The upper half is ignored, and the sign of the lower extended */
        env->msr_gp_counters[msr - MSR_P6_PERFCTR0] = (int32_t)val & PMU_MASK;
        break;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        env->msr_gp_counters[msr - MSR_IA32_A_PMC0] = val;
        break;
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0] = val;
        break;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *x86_pmu_value(env, PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0) = val;
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
    case 0x329: /* IA32_PERF_METRICS */
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
    x86_pmu_deliver(cpu);
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
    x86_pmu_write(env, msr, val);
    x86_pmu_start(cpu);
    x86_pmu_deliver(cpu);
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
    } else {
        return false;
    }
    x86_pmu_update(cpu, ra);
    x86_pmu_deliver(cpu);
    *val = *x86_pmu_value(env, index);
    return true;
}

/*
 * Life cycle
 */

void x86_pmu_reset(X86CPU *cpu)
{
    if (cpu->pmu) {
        /* All other registers are 0 */
        cpu->env.msr_global_ctrl = PMU_GP_MASK;
        cpu->pmu->irq_pending = false;
        x86_pmu_restart(cpu);
    }
}

void x86_pmu_sync(X86CPU *cpu)
{
    if (cpu->pmu) {
        x86_pmu_update(cpu, 0);
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
        memcpy(&cpu->pmu->saved[d * X86_COUNT_LANES],
               cpu->insn_count.total[d],
               X86_COUNT_LANES * sizeof(uint64_t));
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
    env->msr_global_ctrl &= PMU_GP_MASK | PMU_FIXED_MASK;
    env->msr_global_status &= PMU_STATUS_MASK;
    env->msr_debugctl &= PMU_DEBUGCTL_MASK;

    insn_count_sync(CPU(cpu), 0);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        memcpy(cpu->insn_count.total[d],
               &cpu->pmu->saved[d * X86_COUNT_LANES],
               X86_COUNT_LANES * sizeof(uint64_t));
    }
    return 0;
}

static const VMStateDescription vmstate_x86_pmu_state = {
    .name = "cpu/tcg_pmu/state",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(irq_pending, X86PMU),
        VMSTATE_UINT64_ARRAY(saved, X86PMU,
                             X86_COUNT_DOMAINS * X86_COUNT_LANES),
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
        VMSTATE_UINT64(env.msr_fixed_ctr3, X86CPU),
        VMSTATE_UINT64(env.msr_debugctl, X86CPU),
        VMSTATE_STRUCT_POINTER(pmu, X86CPU, vmstate_x86_pmu_state, X86PMU),
        VMSTATE_END_OF_LIST()
    }
};
