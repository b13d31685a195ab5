/*
 * PMU of Intel CPUs under TCG: life cycle
 *
 * A CPU with pmu=on has Intel's architectural performance monitoring, version
 * 5 with eight general and four fixed counters, unless properties choose less
 * (pmu-shape.c). Realizing the CPU creates its PMU and turns on the CPU
 * features that belong to it. RESET and INIT treat the registers as the manual
 * says. pmu-internal.h lists the other parts of the PMU.
 *
 * All counts are functions of the guest's instructions alone:
 *  - instructions, branches of all kinds, loads, and stores are exact;
 *  - cycles are issue slots, which have fixed prices for each kind of
 *    instruction (count.c.inc), divided by the width of the CPU model.
 *    Reference cycles are the same as cycles. Halted time does not count;
 *  - the category of each slot comes from pmu-topdown.c;
 *  - mispredicted branches and references to and misses of the last level
 *    cache are fixed shares (1/64 of the conditional branches, 1/64 of the
 *    loads for misses and 1/16 more for references), unless pmu-precise.c
 *    models branch predictors and caches;
 *  - events of single microarchitectures follow from these, see pmu-events.c;
 *  - all other events are accepted, and count 0.
 *
 * Left out: PEBS, BTS, LBR, Processor Trace, uncore, AnyThread, TSX, and
 * FREEZE_IN_SMM (stored without effect). CMASK, INV, and EDGE work on totals,
 * because there are no single cycles to look at: see x86_pmu_count().
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
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "system/tcg.h"
#include "pmu-internal.h"

/* Slots per cycle of models that are not known */
#define PMU_DEFAULT_SLOT_WIDTH  4

#define PMU_PROPERTIES          "pmu-version, pmu-gp-counters, "            \
                                "pmu-fixed-counters, pmu-counter-width, "   \
                                "pmu-model, topdown-mix, pmu-width, and "   \
                                "pmu-metrics-ovf"

/*
 * Features and CPUID
 */

/* Not for the CPU model max, which has pmu=on by default */
static bool x86_pmu_wanted(X86CPU *cpu)
{
    return cpu->enable_pmu &&
           !object_dynamic_cast(OBJECT(cpu), X86_CPU_TYPE_NAME("max"));
}

static bool x86_pmu_possible(X86CPU *cpu)
{
    return tcg_enabled() && x86_pmu_wanted(cpu) && insn_count_available() &&
           IS_INTEL_CPU(&cpu->env);
}

/*
 * The microarchitecture, and what TopDown is like there: the allocation width,
 * by which the metrics are defined (6 from Golden Cove on, 5 for Sunny Cove and
 * its relatives, 4 for older ones), and the level of PERF_METRICS.
 */
static X86PMUArch x86_pmu_microarchitecture(CPUX86State *env, unsigned *width,
                                            unsigned *level)
{
    unsigned family = extract32(env->cpuid_version, 8, 4);
    unsigned model = extract32(env->cpuid_version, 4, 4) |
                     extract32(env->cpuid_version, 16, 4) << 4;

    *width = PMU_DEFAULT_SLOT_WIDTH;
    *level = 0;
    if (family == 6) {
        switch (model) {
        case 0x6a: case 0x6c:               /* Ice Lake servers */
        case 0x7d: case 0x7e:               /* Ice Lake */
        case 0x8c: case 0x8d:               /* Tiger Lake */
        case 0xa7:                          /* Rocket Lake */
            *width = 5;
            *level = 1;
            return X86_PMU_ICELAKE;
        case 0x8f: case 0xcf:               /* Sapphire, Emerald Rapids */
        case 0xad: case 0xae:               /* Granite Rapids */
            *width = 6;
            *level = 2;
            return X86_PMU_GOLDEN_COVE;
        case 0x4e: case 0x5e:               /* Skylake */
        case 0x55:                          /* Skylake to Cooper Lake servers */
        case 0x8e: case 0x9e:               /* Kaby Lake, Coffee Lake */
        case 0xa5: case 0xa6:               /* Comet Lake */
            return X86_PMU_SKYLAKE;
        }
    }
    return X86_PMU_OTHER;
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

void x86_pmu_expand_features(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    unsigned width, level;
    FeatureWord w;

    if (!x86_pmu_possible(cpu)) {
        return;
    }
    x86_pmu_microarchitecture(env, &width, &level);
    for (w = 0; w < FEATURE_WORDS; w++) {
        uint64_t on = x86_pmu_supported_features(cpu, w);

        if (w == FEAT_PERF_CAPABILITIES &&
            (!level || !x86_pmu_shape_has_slots(cpu))) {
            /* Not on this hardware, unless the user wants it */
            on &= ~PMU_CAP_METRICS;
        }
        env->features[w] |= on & ~env->user_features[w];
    }
    env->cpuid_min_level = MAX(env->cpuid_min_level, 0xa);
}

/*
 * If a cycle has few slots, heavy operations take few units, LOOP the fewest:
 * in a full budget, there could be more of them than their lane has room for.
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
    const X86PMUOptions *o = &cpu->pmu_options;
    unsigned width, level;
    X86PMUArch arch;

    if (o->given && !x86_pmu_possible(cpu)) {
        error_setg(errp, PMU_PROPERTIES " need %s",
                   cpu->enable_pmu ? "a CPU model of Intel" : "pmu=on");
        return false;
    }
    if (!x86_pmu_possible(cpu)) {
        if (!x86_pmu_wanted(cpu)) {
            /* Nobody expects a PMU */
        } else if (insn_count_available()) {
            warn_report_once("pmu=on has no effect: under TCG, only CPU "
                             "models of Intel have a PMU, such as "
                             "Icelake-Server-v6");
        } else {
            warn_report_once("pmu=on has no effect: TCG counts nothing on "
                             "32-bit hosts");
        }
        return x86_pmu_check_others(cpu, errp);
    }
    if (!x86_pmu_check_properties(cpu, errp)) {
        return false;
    }
    arch = x86_pmu_microarchitecture(&cpu->env, &width, &level);
    cpu->pmu = g_new0(X86PMU, 1);
    cpu->pmu->arch = arch;
    cpu->pmu->width = o->width ?: width;
    cpu->pmu->level = MAX(level, 1);
    cpu->pmu->model = o->model;
    if (!x86_pmu_shape_realize(cpu, errp) || !x86_pmu_check_others(cpu, errp)) {
        x86_pmu_unrealize(cpu);
        return false;
    }
    x86_pmu_set_limit(cpu);
    if (o->model == X86_PMU_PRECISE) {
        x86_pmu_precise_new(cpu);
    }
    return true;
}

void x86_pmu_unrealize(X86CPU *cpu)
{
    x86_pmu_precise_free(cpu);
    g_clear_pointer(&cpu->pmu, g_free);
}

bool x86_pmu_exists(X86CPU *cpu)
{
    return cpu->pmu != NULL;
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

/*
 * Reset and INIT
 */

void x86_pmu_reset(X86CPU *cpu)
{
    X86PMU *pmu = cpu->pmu;

    if (pmu && !pmu->in_init) {
        /* All other registers are 0 */
        cpu->env.msr_global_ctrl = x86_pmu_gp_mask(cpu);
        pmu->irq_domains = 0;
        pmu->incoming = PMU_INCOMING_NONE;
        memset(pmu->run, 0, sizeof(pmu->run));
        memset(pmu->fraction, 0, sizeof(pmu->fraction));
        pmu->next_fraction = 0;
        memset(pmu->extra, 0, sizeof(pmu->extra));
        memset(pmu->missed, 0, sizeof(pmu->missed));
        x86_topdown_clear(cpu);
        if (cpu->pmu_precise) {
            x86_pmu_precise_reset(cpu);
        }
        x86_pmu_reconfigure(cpu);
    }
}

/* INIT clears only DEBUGCTL: all counters keep their values, and go on. */
void x86_pmu_init_begin(X86CPU *cpu)
{
    if (cpu->pmu) {
        x86_pmu_fold(cpu, 0);
        cpu->pmu->in_init = true;
    }
}

void x86_pmu_init_end(X86CPU *cpu)
{
    if (cpu->pmu) {
        cpu->pmu->in_init = false;
        /* INIT of the local APIC drops its interrupts */
        cpu->pmu->irq_domains = 0;
        x86_pmu_reconfigure(cpu);
    }
}
