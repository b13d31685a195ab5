/*
 * PMU of Intel CPUs under TCG: the version, and the number and width of
 * counters
 *
 * The default is version 5 with eight general and four fixed counters of 48
 * bits. The properties choose what older CPUs have, so that drivers can be
 * tested with it:
 *
 *  pmu-version         2 to 5. GLOBAL_STATUS_SET and GLOBAL_INUSE, and bits 58
 *                      and 59 of GLOBAL_STATUS are from version 4 on. Before
 *                      that, freezing on interrupt clears GLOBAL_CTRL. In
 *                      versions 3 and 4, the AnyThread bits are not reserved;
 *                      they are stored without effect.
 *  pmu-gp-counters     2 to 8
 *  pmu-fixed-counters  3, or 4 in version 5, which is the counter of slots.
 *                      PERF_METRICS needs that.
 *  pmu-counter-width   32 to 48. Software writes 32 bits at least, so that
 *                      fewer make no sense.
 *
 * Reference: Intel SDM volume 3, "Architectural Performance Monitoring".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "pmu-internal.h"

#define FIXED_LEAST             3       /* fixed counters that all CPUs have */
#define ARCH_EVENTS             7       /* in EBX of leaf 0AH... */
#define ARCH_EVENTS_SLOTS       8       /* ...with slots */
#define ANY_THREAD_DEPRECATED   BIT(15) /* in EDX */

enum { SHAPE_VERSION, SHAPE_GP, SHAPE_FIXED, SHAPE_WIDTH };

static const struct {
    const char *name;
    uint8_t least, most;
    size_t offset;
    const char *description;
} shapes[] = {
    [SHAPE_VERSION] = {
        "pmu-version", 2, PMU_VERSION, offsetof(X86PMUOptions, version),
        "Version of architectural performance monitoring of the PMU of TCG"
    },
    [SHAPE_GP] = {
        "pmu-gp-counters", 2, PMU_GP, offsetof(X86PMUOptions, gp),
        "General counters of the PMU of TCG"
    },
    [SHAPE_FIXED] = {
        "pmu-fixed-counters", FIXED_LEAST, PMU_FIXED,
        offsetof(X86PMUOptions, fixed), "Fixed counters of the PMU of TCG"
    },
    [SHAPE_WIDTH] = {
        "pmu-counter-width", 32, PMU_COUNTER_WIDTH,
        offsetof(X86PMUOptions, counter_width),
        "Bits that counters of the PMU of TCG have"
    },
};

static unsigned pmu_shape_version(const X86PMUOptions *o)
{
    return o->version ?: PMU_VERSION;
}

static unsigned pmu_shape_fixed(const X86PMUOptions *o)
{
    return o->fixed ?: pmu_shape_version(o) < 5 ? FIXED_LEAST : PMU_FIXED;
}

bool x86_pmu_shape_has_slots(X86CPU *cpu)
{
    return pmu_shape_fixed(&cpu->pmu_options) > FIXED_LEAST;
}

bool x86_pmu_shape_realize(X86CPU *cpu, Error **errp)
{
    const X86PMUOptions *o = &cpu->pmu_options;
    X86PMU *pmu = cpu->pmu;

    pmu->version = pmu_shape_version(o);
    pmu->gp = o->gp ?: PMU_GP;
    pmu->fixed = pmu_shape_fixed(o);
    pmu->counter_width = o->counter_width ?: PMU_COUNTER_WIDTH;
    pmu->mask = MAKE_64BIT_MASK(0, pmu->counter_width);
    if (pmu->fixed > FIXED_LEAST && pmu->version < 5) {
        error_setg(errp, "pmu-fixed-counters=%u: needs pmu-version=5",
                   pmu->fixed);
        return false;
    }
    if (x86_topdown_available(&cpu->env) && pmu->fixed == FIXED_LEAST) {
        error_setg(errp, "perf-metrics=on: needs pmu-version=5 and "
                   "pmu-fixed-counters=4");
        return false;
    }
    return true;
}

/* No architectural event is unavailable, so that EBX is 0 */
void x86_pmu_cpuid(X86CPU *cpu, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx)
{
    const X86PMU *pmu = cpu->pmu;

    if (pmu) {
        unsigned events = pmu->fixed > FIXED_LEAST ? ARCH_EVENTS_SLOTS
                                                   : ARCH_EVENTS;

        *eax = pmu->version | pmu->gp << 8 | pmu->counter_width << 16 |
               events << 24;
        *ebx = 0;
        *ecx = pmu->version < 5 ? 0 : MAKE_64BIT_MASK(0, pmu->fixed);
        *edx = pmu->fixed | pmu->counter_width << 5 |
               (pmu->version < 5 ? 0 : ANY_THREAD_DEPRECATED);
    }
}

bool x86_pmu_counter_exists(X86CPU *cpu, unsigned counter)
{
    return counter < PMU_GP ? counter < cpu->pmu->gp
                            : counter - PMU_GP < cpu->pmu->fixed;
}

bool x86_pmu_msr_exists(X86CPU *cpu, uint32_t msr)
{
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        return msr - MSR_P6_PERFCTR0 < cpu->pmu->gp;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        return msr - MSR_IA32_A_PMC0 < cpu->pmu->gp;
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        return msr - MSR_P6_EVNTSEL0 < cpu->pmu->gp;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        return msr - MSR_CORE_PERF_FIXED_CTR0 < cpu->pmu->fixed;
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
    case MSR_CORE_PERF_GLOBAL_INUSE:
        return cpu->pmu->version >= 4;
    default:
        return true;
    }
}

uint64_t x86_pmu_gp_mask(X86CPU *cpu)
{
    return MAKE_64BIT_MASK(0, cpu->pmu->gp);
}

uint64_t x86_pmu_ctrl_mask(CPUX86State *env)
{
    X86CPU *cpu = env_archcpu(env);

    return x86_pmu_gp_mask(cpu) | MAKE_64BIT_MASK(32, cpu->pmu->fixed) |
           (x86_topdown_available(env) ? PMU_METRICS_BIT : 0);
}

uint64_t x86_pmu_status_mask(CPUX86State *env)
{
    unsigned version = env_archcpu(env)->pmu->version;

    return x86_pmu_ctrl_mask(env) | PMU_STATUS_OVF_BUF | PMU_STATUS_COND_CHGD |
           (version < 4 ? 0 : PMU_STATUS_LBR_FRZ | PMU_STATUS_CTR_FRZ);
}

/* AnyThread came with version 3, and went with version 5. */
static bool x86_pmu_has_any_thread(X86CPU *cpu)
{
    return cpu->pmu->version == 3 || cpu->pmu->version == 4;
}

uint64_t x86_pmu_evtsel_mask(X86CPU *cpu)
{
    return PMU_EVTSEL_MASK |
           (x86_pmu_has_any_thread(cpu) ? R_EVTSEL_ANY_MASK : 0);
}

uint64_t x86_pmu_fixed_ctrl_mask(X86CPU *cpu)
{
    uint64_t one = R_FIXED_OS_MASK | R_FIXED_USR_MASK | R_FIXED_INT_MASK |
                   (x86_pmu_has_any_thread(cpu) ? R_FIXED_ANY_MASK : 0);
    uint64_t mask = 0;
    unsigned i;

    for (i = 0; i < cpu->pmu->fixed; i++) {
        mask |= one << 4 * i;
    }
    return mask;
}

void x86_pmu_shape_freeze(X86CPU *cpu)
{
    if (cpu->pmu->version < 4) {
        cpu->env.msr_global_ctrl = 0;
    } else {
        cpu->env.msr_global_status |= PMU_STATUS_CTR_FRZ;
    }
}

bool x86_pmu_shape_is_frozen(X86CPU *cpu)
{
    return cpu->pmu->version < 4 ? !cpu->env.msr_global_ctrl :
           cpu->env.msr_global_status & PMU_STATUS_CTR_FRZ;
}

/*
 * Properties
 */

static uint8_t *pmu_shape_option(X86CPU *cpu, unsigned i)
{
    return (uint8_t *)&cpu->pmu_options + shapes[i].offset;
}

static void pmu_shape_get(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    X86CPU *cpu = X86_CPU(obj);
    unsigned i = GPOINTER_TO_UINT(opaque);
    uint8_t value = *pmu_shape_option(cpu, i);

    if (!value) {
        value = i == SHAPE_FIXED ? pmu_shape_fixed(&cpu->pmu_options)
                                 : shapes[i].most;
    }
    visit_type_uint8(v, name, &value, errp);
}

static void pmu_shape_set(Object *obj, Visitor *v, const char *name,
                          void *opaque, Error **errp)
{
    unsigned i = GPOINTER_TO_UINT(opaque);
    int64_t value;

    if (!visit_type_int(v, name, &value, errp)) {
        return;
    }
    if (value < shapes[i].least || value > shapes[i].most) {
        error_setg(errp, "%s: must be %u to %u", name, shapes[i].least,
                   shapes[i].most);
        return;
    }
    if (x86_pmu_options_set(obj, name, errp)) {
        *pmu_shape_option(X86_CPU(obj), i) = value;
    }
}

void x86_pmu_shape_class_init(ObjectClass *oc)
{
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(shapes); i++) {
        object_class_property_add(oc, shapes[i].name, "int", pmu_shape_get,
                                  pmu_shape_set, NULL, GUINT_TO_POINTER(i));
        object_class_property_set_description(oc, shapes[i].name,
                                              shapes[i].description);
    }
}
