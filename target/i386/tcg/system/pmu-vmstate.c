/*
 * PMU of Intel CPUs under TCG: migration
 *
 * Three sections of the CPU are about the PMU:
 *  - "cpu/msr_architectural_pmu", which QEMU has for KVM, has the registers;
 *  - "cpu/tcg_pmu_setup" says what the PMU is like. If this CPU's differs,
 *    loading ends here with a message, before any state is loaded;
 *  - "cpu/tcg_pmu" has the state that is not in registers.
 * A CPU without a PMU sends none of them, as in a QEMU without this code.
 *
 * Of CPUInsnCount (X86CPU.insn_count), only @total is migrated, as
 * X86PMU.saved: counters are differences of totals, and cycles have fractions.
 * Budgets, deadlines, and what is counted follow from the registers: see
 * x86_pmu_reconfigure(). The rest of CPUInsnCount is about the host's time.
 *
 * Nothing in a stream is trusted: registers and state are reduced to what the
 * guest could have set. Wrong totals make wrong counts, but do no other harm.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "pmu-internal.h"

/* Slots and whatever else is counted stay far below overflows of 64 bits */
#define TOTAL_MOST          MAKE_64BIT_MASK(0, 56)

static bool x86_pmu_needed(void *opaque)
{
    return x86_pmu_exists(opaque);
}

/*
 * What the PMU is like
 */

/* The properties that both CPUs must have the same */
static const char *const setup_properties[] = {
    "pmu-model",
    "pmu-version",
    "pmu-gp-counters",
    "pmu-fixed-counters",
    "pmu-counter-width",
    "pmu-width",
    "pmu-metrics-ovf",
    "perf-metrics",
    "full-width-write",
    "pdcm",
};

static char *setup_text(X86CPU *cpu)
{
    GString *text = g_string_new(NULL);
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(setup_properties); i++) {
        const char *name = setup_properties[i];
        g_autofree char *value = object_property_print(OBJECT(cpu), name,
                                                       false, &error_abort);

        g_string_append_printf(text, "%s=%s,", name, value);
    }
    /* These come from the CPU model */
    g_string_append_printf(text, "PERF_METRICS level=%u,microarchitecture=%u",
                           cpu->pmu->level, cpu->pmu->arch);
    g_assert(text->len < PMU_SETUP_SIZE);
    return g_string_free(text, false);
}

/* Report the first item that differs in two texts, if there is one. */
static bool setup_compare(const char *text, const char *mine)
{
    g_auto(GStrv) theirs = g_strsplit(text, ",", 0);
    g_auto(GStrv) ours = g_strsplit(mine, ",", 0);
    unsigned i = 0;
    const char *value;

    while (theirs[i] && g_strcmp0(theirs[i], ours[i]) == 0) {
        i++;
    }
    if (!theirs[i] && !ours[i]) {
        return true;
    }
    value = ours[i] ? strchr(ours[i], '=') + 1 : NULL;
    if (value && theirs[i] &&
        strncmp(theirs[i], ours[i], value - ours[i]) == 0) {
        g_autofree char *item = g_strescape(theirs[i], NULL);

        error_report("the CPU of the stream has %s, this one has %s: give "
                     "both the same CPU model and properties", item, value);
    } else {
        error_report("the PMU of the stream is one of another version of "
                     "QEMU: use the same version on both sides");
    }
    return false;
}

static int setup_pre_save(void *opaque)
{
    X86CPU *cpu = opaque;
    g_autofree char *text = setup_text(cpu);

    strpadcpy((char *)cpu->pmu->setup, PMU_SETUP_SIZE, text, 0);
    return 0;
}

static int setup_pre_load(void *opaque)
{
    if (!x86_pmu_exists(opaque)) {
        error_report("the CPU of the stream has a PMU, this one has none: "
                     "give both pmu=on or neither");
        return -EINVAL;
    }
    return 0;
}

static int setup_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    g_autofree char *text = g_strndup((char *)cpu->pmu->setup, PMU_SETUP_SIZE);
    g_autofree char *mine = setup_text(cpu);

    if (!setup_compare(text, mine)) {
        return -EINVAL;
    }
    cpu->pmu->incoming = PMU_INCOMING_SETUP;
    return 0;
}

static const VMStateDescription vmstate_setup_text = {
    .name = "cpu/tcg_pmu_setup/text",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_BUFFER(setup, X86PMU),
        VMSTATE_END_OF_LIST()
    }
};

const VMStateDescription vmstate_x86_pmu_setup = {
    .name = "cpu/tcg_pmu_setup",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = x86_pmu_needed,
    .pre_save = setup_pre_save,
    .pre_load = setup_pre_load,
    .post_load = setup_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_STRUCT_POINTER(pmu, X86CPU, vmstate_setup_text, X86PMU),
        VMSTATE_END_OF_LIST()
    }
};

/*
 * State
 */

static int topdown_post_load(void *opaque, int version_id)
{
    X86PMUTopDown *t = opaque;
    unsigned d, i;

    /* The most that a counter of 64 bits can show without overflowing above */
    t->total = MIN(t->total, MAKE_64BIT_MASK(0, 54));
    t->fresh = t->fresh && t->total;
    x86_topdown_clip(t);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        t->split_at[d] = MIN(t->split_at[d], TOTAL_MOST);
        for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
            t->split[d][i] = MIN(t->split[d][i], t->split_at[d]);
        }
    }
    return 0;
}

static const VMStateDescription vmstate_topdown = {
    .name = "cpu/tcg_pmu/topdown",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = topdown_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(fresh, X86PMUTopDown),
        VMSTATE_UINT64_ARRAY(part, X86PMUTopDown, TOPDOWN_CATEGORIES),
        VMSTATE_UINT64(total, X86PMUTopDown),
        VMSTATE_UINT64_2DARRAY(split, X86PMUTopDown, X86_COUNT_DOMAINS,
                               TOPDOWN_CATEGORIES),
        VMSTATE_UINT64_ARRAY(split_at, X86PMUTopDown, X86_COUNT_DOMAINS),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_run = {
    .name = "cpu/tcg_pmu/run",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(event, X86PMURun),
        VMSTATE_UINT64(cycles, X86PMURun),
        VMSTATE_UINT64(got, X86PMURun),
        VMSTATE_UINT64(rest, X86PMURun),
        VMSTATE_UINT16(rest_of, X86PMURun),
        VMSTATE_BOOL(written, X86PMURun),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_fraction = {
    .name = "cpu/tcg_pmu/fraction",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(value, PMUFraction),
        VMSTATE_UINT64(parts, PMUFraction),
        VMSTATE_UINT16(code, PMUFraction),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_state = {
    .name = "cpu/tcg_pmu/state",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT8(irq_domains, X86PMU),
        VMSTATE_STRUCT(topdown, X86PMU, 1, vmstate_topdown, X86PMUTopDown),
        VMSTATE_UINT64_ARRAY(saved, X86PMU,
                             X86_COUNT_DOMAINS * X86_COUNT_TOTALS),
        VMSTATE_STRUCT_ARRAY(run, X86PMU, PMU_COUNTERS, 1, vmstate_run,
                             X86PMURun),
        VMSTATE_STRUCT_ARRAY(fraction, X86PMU, PMU_FRACTIONS, 1,
                             vmstate_fraction, PMUFraction),
        VMSTATE_UINT8(next_fraction, X86PMU),
        VMSTATE_UINT64_ARRAY(extra, X86PMU, PMU_EXTRA_MSRS),
        VMSTATE_UINT64_2DARRAY(missed, X86PMU, X86_COUNT_DOMAINS,
                               PMU_MISSED_KINDS),
        VMSTATE_END_OF_LIST()
    },
};

static bool precise_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->pmu_precise != NULL;
}

static int precise_pre_load(void *opaque)
{
    if (!precise_needed(opaque)) {
        error_report("the stream has caches of pmu-model=precise, and another "
                     "pmu-model");
        return -EINVAL;
    }
    return 0;
}

static int precise_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    unsigned i;

    for (i = 0; i < X86_PMU_GSHARE; i++) {
        cpu->pmu_lookup.gshare[i] &= 7;
    }
    /* x86_pmu_pre_save() has drained loads and missed branches */
    memset(cpu->pmu_lookup.missed, 0, sizeof(cpu->pmu_lookup.missed));
    cpu->pmu_lookup.load = (uintptr_t)cpu->pmu_precise->loads;
    return 0;
}

static const VMStateDescription vmstate_tlb = {
    .name = "cpu/tcg_pmu/precise/state/tlb",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(first, X86PMUTLB, X86_PMU_TLB),
        VMSTATE_UINT64_ARRAY(second, X86PMUTLB, X86_PMU_STLB),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_lookup = {
    .name = "cpu/tcg_pmu/precise/lookup",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(l1i, X86PMULookup, X86_PMU_L1_LINES),
        VMSTATE_UINT8_ARRAY(gshare, X86PMULookup, X86_PMU_GSHARE),
        VMSTATE_UINT32(history, X86PMULookup),
        VMSTATE_UINT64_ARRAY(returns, X86PMULookup, X86_PMU_RETURNS),
        VMSTATE_UINT8(top, X86PMULookup),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_precise_state = {
    .name = "cpu/tcg_pmu/precise/state",
    .version_id = 2,
    .minimum_version_id = 2,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64_ARRAY(l1d, X86PMUPrecise, X86_PMU_L1_LINES),
        VMSTATE_UINT64_ARRAY(llc, X86PMUPrecise, X86_PMU_LLC_LINES),
        VMSTATE_STRUCT(code, X86PMUPrecise, 1, vmstate_tlb, X86PMUTLB),
        VMSTATE_STRUCT(data, X86PMUPrecise, 1, vmstate_tlb, X86PMUTLB),
        VMSTATE_UINT64_ARRAY(target, X86PMUPrecise, X86_PMU_TARGETS),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_precise = {
    .name = "cpu/tcg_pmu/precise",
    .version_id = 2,
    .minimum_version_id = 2,
    .needed = precise_needed,
    .pre_load = precise_pre_load,
    .post_load = precise_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_STRUCT_POINTER(pmu_precise, X86CPU, vmstate_precise_state,
                               X86PMUPrecise),
        VMSTATE_STRUCT(pmu_lookup, X86CPU, 1, vmstate_lookup, X86PMULookup),
        VMSTATE_END_OF_LIST()
    }
};

static bool mix_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->pmu && cpu->pmu->model == X86_PMU_PINNED;
}

static int mix_pre_save(void *opaque)
{
    X86PMUOptions *o = &X86_CPU(opaque)->pmu_options;

    memcpy(o->stream_mix, o->mix, sizeof(o->mix));
    return 0;
}

static int mix_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    X86PMUOptions *o = &cpu->pmu_options;

    if (!mix_needed(cpu)) {
        error_report("the stream has a topdown-mix, and another pmu-model than "
                     "pinned");
        return -EINVAL;
    }
    if (!x86_topdown_check_mix(o->stream_mix, NULL)) {
        error_report("the topdown-mix of the stream does not add up");
        return -EINVAL;
    }
    memcpy(o->mix, o->stream_mix, sizeof(o->mix));
    return 0;
}

/* The user may have changed the mix after the start. */
static const VMStateDescription vmstate_mix = {
    .name = "cpu/tcg_pmu/mix",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = mix_needed,
    .pre_save = mix_pre_save,
    .post_load = mix_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32_ARRAY(pmu_options.stream_mix, X86CPU,
                             TOPDOWN_CATEGORIES),
        VMSTATE_END_OF_LIST()
    }
};

static int state_pre_save(void *opaque)
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

static int state_pre_load(void *opaque)
{
    X86CPU *cpu = opaque;

    if (!cpu->pmu || cpu->pmu->incoming != PMU_INCOMING_SETUP) {
        error_report("the stream has the state of a PMU, but does not say "
                     "what that is like");
        return -EINVAL;
    }
    return 0;
}

static int state_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;
    X86PMUTopDown *t = &cpu->pmu->topdown;
    unsigned d, i;

    insn_count_sync(CPU(cpu), 0);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        uint64_t *total = cpu->insn_count.total[d];

        for (i = 0; i < X86_COUNT_TOTALS; i++) {
            total[i] = MIN(cpu->pmu->saved[d * X86_COUNT_TOTALS + i],
                           TOTAL_MOST);
        }
        t->split_at[d] = MIN(t->split_at[d], total[X86_COUNT_SLOTS]);
    }
    if (cpu->pmu->model != X86_PMU_PINNED) {
        memset(t->split, 0, sizeof(t->split));
    }
    cpu->pmu->incoming = PMU_INCOMING_STATE;
    return 0;
}

const VMStateDescription vmstate_x86_pmu = {
    .name = "cpu/tcg_pmu",
    /* The number of totals is part of the format. */
    .version_id = 2,
    .minimum_version_id = 2,
    .needed = x86_pmu_needed,
    .pre_save = state_pre_save,
    .pre_load = state_pre_load,
    .post_load = state_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(env.msr_debugctl, X86CPU),
        VMSTATE_STRUCT_POINTER(pmu, X86CPU, vmstate_state, X86PMU),
        VMSTATE_END_OF_LIST()
    },
    .subsections = (const VMStateDescription *const[]) {
        &vmstate_precise,
        &vmstate_mix,
        NULL
    }
};

/*
 * The CPU
 */

void x86_pmu_pre_save(X86CPU *cpu)
{
    if (cpu->pmu) {
        x86_pmu_fold_unseen(cpu);
        cpu->env.msr_perf_metrics = x86_topdown_read(cpu);
    }
}

int x86_pmu_post_load(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    PMUIncoming incoming;
    unsigned i;

    if (!cpu->pmu) {
        return 0;
    }
    incoming = cpu->pmu->incoming;
    cpu->pmu->incoming = PMU_INCOMING_NONE;
    if (incoming != PMU_INCOMING_STATE) {
        error_report("the CPU of the stream has no PMU, this one has one: "
                     "give both pmu=on or neither");
        return -EINVAL;
    }

    for (i = 0; i < PMU_COUNTERS; i++) {
        *x86_pmu_value(env, i) &= x86_pmu_counter_exists(cpu, i) ?
                                  cpu->pmu->mask : 0;
    }
    for (i = 0; i < PMU_GP; i++) {
        env->msr_gp_evtsel[i] &= x86_pmu_counter_exists(cpu, i) ?
                                 x86_pmu_evtsel_mask(cpu) : 0;
    }
    env->msr_fixed_ctr_ctrl &= x86_pmu_fixed_ctrl_mask(cpu);
    env->msr_global_ctrl &= x86_pmu_ctrl_mask(env);
    env->msr_global_status &= x86_pmu_status_mask(env);
    env->msr_debugctl &= PMU_DEBUGCTL_MASK;
    cpu->pmu->irq_domains &= MAKE_64BIT_MASK(0, X86_COUNT_DOMAINS);
    cpu->pmu->next_fraction %= PMU_FRACTIONS;
    for (i = 0; i < PMU_EXTRA_MSRS; i++) {
        cpu->pmu->extra[i] &= x86_pmu_extra_mask(cpu, i);
    }
    if (!x86_topdown_available(env)) {
        env->msr_perf_metrics = 0;
    } else if (cpu->pmu->level == 1) {
        env->msr_perf_metrics = (uint32_t)env->msr_perf_metrics;
    }
    x86_pmu_continue(cpu);
    return 0;
}
