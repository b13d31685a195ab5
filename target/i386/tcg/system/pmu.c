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
 *  - events of single microarchitectures follow from these, see pmu-events.c;
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
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "system/replay.h"
#include "system/tcg.h"
#include "target/i386/trace.h"
#include "tcg/helper-tcg.h"
#include "tcg/pmu-precise.h"
#include "pmu-internal.h"

/* Slots per cycle of models that are not known */
#define PMU_LEAST_WIDTH         4

/*
 * Properties
 */

static bool x86_pmu_possible(X86CPU *cpu)
{
    return tcg_enabled() && cpu->enable_pmu && insn_count_available() &&
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
    X86PMUArch arch;

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
    arch = x86_pmu_microarchitecture(&cpu->env, &width, &level);
    cpu->pmu = g_new0(X86PMU, 1);
    cpu->pmu->arch = arch;
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
 * Life cycle
 */

void x86_pmu_reset(X86CPU *cpu)
{
    if (cpu->pmu && !cpu->pmu->in_init) {
        /* All other registers are 0 */
        cpu->env.msr_global_ctrl = PMU_GP_MASK;
        cpu->pmu->irq_pending = false;
        memset(cpu->pmu->run, 0, sizeof(cpu->pmu->run));
        memset(cpu->pmu->extra, 0, sizeof(cpu->pmu->extra));
        memset(cpu->pmu->missed, 0, sizeof(cpu->pmu->missed));
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
        x86_pmu_fold(cpu, 0);
        cpu->env.msr_perf_metrics = x86_topdown_read(cpu);
    }
}

void x86_pmu_restart(X86CPU *cpu)
{
    if (cpu->pmu) {
        insn_count_sync(CPU(cpu), 0);
        memset(cpu->pmu->config, 0, sizeof(cpu->pmu->config));
        x86_pmu_reconfigure(cpu);
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
    for (i = 0; i < PMU_EXTRA_MSRS; i++) {
        cpu->pmu->extra[i] &= x86_pmu_extra_mask(cpu, i);
    }

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

/*
 * What events depend on besides registers: MSRs that choose, and the kinds of
 * mispredicted branches
 */
static bool x86_pmu_extra_needed(void *opaque)
{
    X86PMU *pmu = opaque;

    return !buffer_is_zero(pmu->extra, sizeof(pmu->extra)) ||
           !buffer_is_zero(pmu->missed, sizeof(pmu->missed));
}

static const VMStateDescription vmstate_x86_pmu_extra = {
    .name = "cpu/tcg_pmu/state/extra",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = x86_pmu_extra_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(extra, X86PMU, PMU_EXTRA_MSRS),
        VMSTATE_UINT64_2DARRAY(missed, X86PMU, X86_COUNT_DOMAINS,
                               PMU_MISSED_KINDS),
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
        &vmstate_x86_pmu_extra,
        NULL
    },
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
