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
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/cutils.h"
#include "qemu/error-report.h"
#include "qemu/host-utils.h"
#include "system/replay.h"
#include "pmu-internal.h"

#define MIX_WHOLE           1000000
#define MIX_TOLERANCE       100         /* 0.01 % */
#define METRICS_WHOLE       255
#define METRICS_OVF         BIT_ULL(PMU_WIDTH)
#define METRICS_OVF_LEAST   1024
#define WIDTH_MOST          8

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

/* Cut @whole at millionths; each cut is that of the whole, so that none adds */
static uint64_t topdown_cut(uint64_t whole, uint32_t millionths)
{
    return muldiv64(whole, millionths, MIX_WHOLE);
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

/* The slots of all time until now, in the domains of their counter */
static uint64_t topdown_slots(X86CPU *cpu)
{
    uint8_t domains = cpu->pmu->config[PMU_SLOTS].domains;
    uint64_t slots = 0;
    unsigned d;

    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        if (domains & (1 << d)) {
            slots += cpu->insn_count.total[d][X86_COUNT_SLOTS];
        }
    }
    return slots;
}

/* And the categories that they belong to */
static void topdown_parts(X86CPU *cpu, uint64_t *part)
{
    uint8_t domains = cpu->pmu->config[PMU_SLOTS].domains;
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

/* Keep level 2 within level 1, and that adding up to the total. */
static void topdown_clip(X86PMUTopDown *t)
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

void x86_topdown_update(X86CPU *cpu)
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
        /* A cut can be a quarter of a slot lower than before */
        if (part[i] > t->seen[i]) {
            t->part[i] += part[i] - t->seen[i];
            t->seen[i] = part[i];
        }
    }
    topdown_clip(t);
    if (before < topdown_limit(cpu) && t->total >= topdown_limit(cpu)) {
        env->msr_global_status |= PMU_METRICS_BIT;
        cpu->pmu->irq_pending |= cpu->pmu->config[PMU_SLOTS].irq;
    }
}

void x86_topdown_start(X86CPU *cpu)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;

    t->active = cpu->pmu->config[PMU_SLOTS].domains &&
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

    if (!t->active || !cpu->pmu->config[PMU_SLOTS].irq || t->total >= limit) {
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

    if (!t->fresh) {
        return cpu->env.msr_perf_metrics;
    }
    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        byte[i] = METRICS_WHOLE * t->part[i] / t->total;
        remainder[i] = METRICS_WHOLE * t->part[i] % t->total;
        missing -= byte[i];
    }
    while (missing) {
        for (i = 1, most = 0; i < TOPDOWN_LEVEL_1; i++) {
            if (remainder[i] > remainder[most]) {
                most = i;
            }
        }
        remainder[most] = 0;
        byte[most]++;
        missing--;
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
    topdown_clip(t);
    t->fresh = false;
}

void x86_topdown_restart(X86CPU *cpu)
{
    X86PMUTopDown *t = &cpu->pmu->topdown;

    cpu->env.msr_perf_metrics = 0;
    t->total = 0;
    memset(t->part, 0, sizeof(t->part));
    t->fresh = false;
}

static int topdown_post_load(void *opaque, int version_id)
{
    X86PMUTopDown *t = opaque;

    /* The most that a counter of 64 bits can show without overflowing above */
    t->total = MIN(t->total, MAKE_64BIT_MASK(0, 54));
    t->fresh = t->fresh && t->total;
    topdown_clip(t);
    return 0;
}

const VMStateDescription vmstate_x86_topdown = {
    .name = "cpu/tcg_pmu/topdown",
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = topdown_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(fresh, X86PMUTopDown),
        VMSTATE_UINT64_ARRAY(part, X86PMUTopDown, TOPDOWN_CATEGORIES),
        VMSTATE_UINT64(total, X86PMUTopDown),
        VMSTATE_END_OF_LIST()
    }
};

static const char *const topdown_names[TOPDOWN_CATEGORIES] = {
    "retiring", "bad speculation", "frontend bound", "backend bound",
    "heavy operations", "branch mispredicts", "fetch latency", "memory bound",
};

/* The rules of a mix, from the user or from a stream */
static bool topdown_mix_check(const uint32_t *mix, Error **errp)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        sum += mix[i];
    }
    if (sum != MIX_WHOLE) {
        error_setg(errp, "topdown-mix: the first four must add up to 100 %%, "
                   "not to %g", sum * 100.0 / MIX_WHOLE);
        return false;
    }
    for (; i < TOPDOWN_CATEGORIES; i++) {
        if (mix[i] > mix[i - TOPDOWN_LEVEL_1]) {
            error_setg(errp, "topdown-mix: %s is a part of %s, and cannot be "
                       "more", topdown_names[i],
                       topdown_names[i - TOPDOWN_LEVEL_1]);
            return false;
        }
    }
    return true;
}

static bool topdown_mix_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->pmu && cpu->pmu->model == X86_PMU_PINNED;
}

static int topdown_mix_post_load(void *opaque, int version_id)
{
    X86CPU *cpu = opaque;

    if (!topdown_mix_needed(cpu)) {
        error_report("the CPU of the stream has pmu-model=pinned");
        return -EINVAL;
    }
    if (!topdown_mix_check(cpu->pmu_options.mix, NULL)) {
        error_report("the topdown-mix of the stream does not add up");
        return -EINVAL;
    }
    return 0;
}

/* It can have been changed after the start */
const VMStateDescription vmstate_x86_pmu_mix = {
    .name = "cpu/tcg_pmu/mix",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = topdown_mix_needed,
    .post_load = topdown_mix_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT32_ARRAY(pmu_options.mix, X86CPU, TOPDOWN_CATEGORIES),
        VMSTATE_END_OF_LIST()
    }
};

/*
 * Properties
 */

static const QEnumLookup pmu_models = {
    .array = (const char *const[]) {
        [X86_PMU_STATIC] = "static",
        [X86_PMU_PRECISE] = "precise",
        [X86_PMU_PINNED] = "pinned",
    },
    .size = X86_PMU_MODELS,
};

bool x86_topdown_realize(X86CPU *cpu, Error **errp)
{
    const X86PMUOptions *o = &cpu->pmu_options;
    CPUState *other;

    if (o->has_mix && o->model != X86_PMU_PINNED) {
        error_setg(errp, "topdown-mix: needs pmu-model=pinned");
        return false;
    }
    if (o->model == X86_PMU_PINNED && !o->has_mix) {
        error_setg(errp, "pmu-model=pinned: needs topdown-mix");
        return false;
    }
    CPU_FOREACH(other) {
        const X86PMU *pmu = X86_CPU(other)->pmu;

        /* They may execute the same translated code */
        if (!pmu || X86_CPU(other) == cpu) {
            continue;
        }
        if (pmu->width != cpu->pmu->width) {
            error_setg(errp, "pmu-width: must be the same on all CPUs");
            return false;
        }
        if ((pmu->model == X86_PMU_PRECISE) !=
            (o->model == X86_PMU_PRECISE)) {
            error_setg(errp, "pmu-model: must be precise on all CPUs or none");
            return false;
        }
    }
    cpu->pmu->model = o->model;
    if (o->model == X86_PMU_PRECISE) {
        x86_pmu_precise_new(cpu);
    }
    return true;
}

/* Only before the CPU is realized; all these properties are for a PMU */
X86PMUOptions *x86_pmu_options_set(Object *obj, const char *name,
                                   Error **errp)
{
    X86CPU *cpu = X86_CPU(obj);

    if (DEVICE(obj)->realized) {
        error_setg(errp, "%s: cannot be changed at run time", name);
        return NULL;
    }
    cpu->pmu_options.given = true;
    return &cpu->pmu_options;
}

static int pmu_model_get(Object *obj, Error **errp)
{
    return X86_CPU(obj)->pmu_options.model;
}

static void pmu_model_set(Object *obj, int value, Error **errp)
{
    X86PMUOptions *o = x86_pmu_options_set(obj, "pmu-model", errp);

    if (o) {
        o->model = value;
    }
}

static void pmu_width_get(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    X86CPU *cpu = X86_CPU(obj);
    uint8_t width = cpu->pmu ? cpu->pmu->width : cpu->pmu_options.width;

    visit_type_uint8(v, name, &width, errp);
}

static void pmu_width_set(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    X86PMUOptions *o;
    int64_t width;

    if (!visit_type_int(v, name, &width, errp)) {
        return;
    }
    if (width < 1 || width > WIDTH_MOST) {
        error_setg(errp, "pmu-width: must be 1 to %d slots per cycle",
                   WIDTH_MOST);
        return;
    }
    o = x86_pmu_options_set(obj, name, errp);
    if (o) {
        o->width = width;
    }
}

static void pmu_metrics_ovf_get(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    uint64_t limit = X86_CPU(obj)->pmu_options.metrics_ovf ?: METRICS_OVF;

    visit_type_uint64(v, name, &limit, errp);
}

static void pmu_metrics_ovf_set(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    X86PMUOptions *o;
    uint64_t limit;

    if (!visit_type_uint64(v, name, &limit, errp)) {
        return;
    }
    if (limit < METRICS_OVF_LEAST || limit > METRICS_OVF) {
        error_setg(errp, "pmu-metrics-ovf: must be %d to %" PRIu64 " slots",
                   METRICS_OVF_LEAST, (uint64_t)METRICS_OVF);
        return;
    }
    o = x86_pmu_options_set(obj, name, errp);
    if (o) {
        o->metrics_ovf = limit;
    }
}

/*
 * Percentages, with or without "%", separated by "/", or by commas where the
 * command line leaves them alone (-cpu does not)
 */
static bool topdown_parse(const char *text, uint32_t *mix, Error **errp)
{
    g_auto(GStrv) fields = g_strsplit_set(text, "/,", 0);
    unsigned n = g_strv_length(fields), i, most = 0;
    uint32_t sum = 0;

    if (n != TOPDOWN_LEVEL_1 && n != TOPDOWN_CATEGORIES) {
        error_setg(errp, "topdown-mix: needs 4 or 8 percentages, not %u", n);
        return false;
    }
    memset(mix, 0, TOPDOWN_CATEGORIES * sizeof(*mix));
    for (i = 0; i < n; i++) {
        const char *end;
        double value;

        if (qemu_strtod_finite(fields[i], &end, &value) < 0 ||
            (*end && strcmp(end, "%") != 0)) {
            error_setg(errp, "topdown-mix: '%s' is not a percentage",
                       fields[i]);
            return false;
        }
        if (value < 0 || value > 100) {
            error_setg(errp, "topdown-mix: %s must be 0 to 100 %%, not %g",
                       topdown_names[i], value);
            return false;
        }
        mix[i] = value * (MIX_WHOLE / 100) + 0.5;
    }
    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        sum += mix[i];
        most = mix[i] > mix[most] ? i : most;
    }
    if (sum >= MIX_WHOLE - MIX_TOLERANCE && sum <= MIX_WHOLE + MIX_TOLERANCE) {
        /* What rounding has left over */
        mix[most] += MIX_WHOLE - sum;
    }
    return topdown_mix_check(mix, errp);
}

static char *topdown_mix_get(Object *obj, Error **errp)
{
    const X86PMUOptions *o = &X86_CPU(obj)->pmu_options;
    GString *text = g_string_new(NULL);
    unsigned i, n = TOPDOWN_LEVEL_1;

    for (i = n; i < TOPDOWN_CATEGORIES; i++) {
        n = o->mix[i] ? TOPDOWN_CATEGORIES : n;
    }
    for (i = 0; o->has_mix && i < n; i++) {
        g_string_append_printf(text, "%s%g", i ? "/" : "",
                               o->mix[i] * 100.0 / MIX_WHOLE);
    }
    return g_string_free(text, false);
}

/* On the vCPU's thread: what is counted already keeps its categories. */
static void topdown_mix_change(CPUState *cs, run_on_cpu_data data)
{
    X86CPU *cpu = X86_CPU(cs);
    X86PMUTopDown *t = &cpu->pmu->topdown;
    unsigned d;

    x86_pmu_fold(cpu, 0);
    for (d = 0; d < X86_COUNT_DOMAINS; d++) {
        const uint64_t *total = cpu->insn_count.total[d];
        uint64_t part[TOPDOWN_CATEGORIES];

        x86_topdown_split(cpu, d, total, part);
        memcpy(t->split[d], part, sizeof(part));
        t->split_at[d] = total[X86_COUNT_SLOTS];
    }
    memcpy(cpu->pmu_options.mix, data.host_ptr,
           sizeof(cpu->pmu_options.mix));
    x86_pmu_reconfigure(cpu);
}

static void topdown_mix_set(Object *obj, const char *text, Error **errp)
{
    X86CPU *cpu = X86_CPU(obj);
    uint32_t mix[TOPDOWN_CATEGORIES];

    if (!topdown_parse(text, mix, errp)) {
        return;
    }
    if (!DEVICE(obj)->realized) {
        X86PMUOptions *o = x86_pmu_options_set(obj, "topdown-mix", errp);

        o->has_mix = true;
        memcpy(o->mix, mix, sizeof(mix));
    } else if (!cpu->pmu || cpu->pmu->model != X86_PMU_PINNED) {
        error_setg(errp, "topdown-mix: needs pmu-model=pinned");
    } else if (replay_mode != REPLAY_MODE_NONE) {
        error_setg(errp, "topdown-mix: cannot be changed while QEMU records "
                   "or replays");
    } else {
        run_on_cpu(CPU(cpu), topdown_mix_change, RUN_ON_CPU_HOST_PTR(mix));
    }
}

void x86_pmu_class_init(ObjectClass *oc)
{
    x86_pmu_shape_class_init(oc);
    object_class_property_add_enum(oc, "pmu-model", "X86PMUModel", &pmu_models,
                                   pmu_model_get, pmu_model_set);
    object_class_property_set_description(oc, "pmu-model",
        "Where the PMU of TCG takes the categories of TopDown from: fixed "
        "prices of instructions (static), branch predictors and caches "
        "(precise), or topdown-mix (pinned)");
    object_class_property_add_str(oc, "topdown-mix", topdown_mix_get,
                                  topdown_mix_set);
    object_class_property_set_description(oc, "topdown-mix",
        "Percentages, separated by \"/\": retiring, bad speculation, frontend "
        "bound, backend bound; and of these: heavy operations, branch "
        "mispredicts, fetch latency, memory bound");
    object_class_property_add(oc, "pmu-width", "int", pmu_width_get,
                              pmu_width_set, NULL, NULL);
    object_class_property_set_description(oc, "pmu-width",
        "Issue slots per cycle that the PMU of TCG counts");
    object_class_property_add(oc, "pmu-metrics-ovf", "int",
                              pmu_metrics_ovf_get, pmu_metrics_ovf_set,
                              NULL, NULL);
    object_class_property_set_description(oc, "pmu-metrics-ovf",
        "Slots after which IA32_PERF_METRICS overflows, for tests");
}
