/*
 * PMU of Intel CPUs under TCG: properties
 *
 * All of them describe the PMU, and are refused where there is none. They are
 * for the start, except topdown-mix, which can be changed at run time.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/cutils.h"
#include "system/replay.h"
#include "system/tcg.h"
#include "pmu-internal.h"

#define MIX_TOLERANCE       100         /* 0.01 % */
#define METRICS_OVF_LEAST   1024
#define WIDTH_MOST          8

static const char *const topdown_names[TOPDOWN_CATEGORIES] = {
    "retiring", "bad speculation", "frontend bound", "backend bound",
    "heavy operations", "branch mispredicts", "fetch latency", "memory bound",
};

bool x86_topdown_check_mix(const uint32_t *mix, Error **errp)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        sum += mix[i];
    }
    if (sum != TOPDOWN_MIX_WHOLE) {
        error_setg(errp, "topdown-mix: the first four must add up to 100 %%, "
                   "not to %g", sum * 100.0 / TOPDOWN_MIX_WHOLE);
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

static const QEnumLookup pmu_models = {
    .array = (const char *const[]) {
        [X86_PMU_STATIC] = "static",
        [X86_PMU_PRECISE] = "precise",
        [X86_PMU_PINNED] = "pinned",
    },
    .size = X86_PMU_MODELS,
};

bool x86_pmu_check_properties(X86CPU *cpu, Error **errp)
{
    const X86PMUOptions *o = &cpu->pmu_options;

    if (o->has_mix && o->model != X86_PMU_PINNED) {
        error_setg(errp, "topdown-mix: needs pmu-model=pinned");
        return false;
    }
    if (o->model == X86_PMU_PINNED && !o->has_mix) {
        error_setg(errp, "pmu-model=pinned: needs topdown-mix");
        return false;
    }
    return true;
}

/* CPUs of one machine share translated code, which depends on these. */
bool x86_pmu_check_others(X86CPU *cpu, Error **errp)
{
    CPUState *other;

    CPU_FOREACH(other) {
        const X86PMU *mine = cpu->pmu, *pmu = X86_CPU(other)->pmu;

        if (X86_CPU(other) == cpu || (!pmu && !mine)) {
            continue;
        }
        if (!pmu || !mine) {
            error_setg(errp, "pmu: must be on for all CPUs or for none");
            return false;
        }
        if (pmu->width != mine->width) {
            error_setg(errp, "pmu-width: must be the same on all CPUs");
            return false;
        }
        if ((pmu->model == X86_PMU_PRECISE) !=
            (mine->model == X86_PMU_PRECISE)) {
            error_setg(errp, "pmu-model: must be precise on all CPUs or none");
            return false;
        }
    }
    return true;
}

X86PMUOptions *x86_pmu_options_set(Object *obj, const char *name,
                                   Error **errp)
{
    X86CPU *cpu = X86_CPU(obj);

    if (!tcg_enabled()) {
        error_setg(errp, "%s: needs -accel tcg", name);
        return NULL;
    }
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
    uint64_t limit = X86_CPU(obj)->pmu_options.metrics_ovf ?: PMU_METRICS_OVF;

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
    if (limit < METRICS_OVF_LEAST || limit > PMU_METRICS_OVF) {
        error_setg(errp, "pmu-metrics-ovf: must be %d to %" PRIu64 " slots",
                   METRICS_OVF_LEAST, (uint64_t)PMU_METRICS_OVF);
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
        mix[i] = value * (TOPDOWN_MIX_WHOLE / 100) + 0.5;
    }
    for (i = 0; i < TOPDOWN_LEVEL_1; i++) {
        sum += mix[i];
        most = mix[i] > mix[most] ? i : most;
    }
    if (sum >= TOPDOWN_MIX_WHOLE - MIX_TOLERANCE &&
        sum <= TOPDOWN_MIX_WHOLE + MIX_TOLERANCE) {
        uint32_t *part = &mix[TOPDOWN_LEVEL_1 + most];
        bool fits = *part <= mix[most];

        /* What rounding has left over; the part of level 2 must still fit */
        mix[most] += TOPDOWN_MIX_WHOLE - sum;
        if (fits) {
            *part = MIN(*part, mix[most]);
        }
    }
    return x86_topdown_check_mix(mix, errp);
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
                               o->mix[i] * 100.0 / TOPDOWN_MIX_WHOLE);
    }
    return g_string_free(text, false);
}

static void topdown_mix_change(CPUState *cs, run_on_cpu_data data)
{
    x86_topdown_change_mix(X86_CPU(cs), data.host_ptr);
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

        if (o) {
            o->has_mix = true;
            memcpy(o->mix, mix, sizeof(mix));
        }
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
