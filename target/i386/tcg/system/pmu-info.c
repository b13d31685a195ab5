/*
 * PMU of Intel CPUs under TCG: query-pmu, "info pmu", and trace events
 *
 * For the monitor, the vCPU's own thread answers, between two blocks of
 * translated code, so that the values are exact. The guest does not notice:
 * nothing is folded into the counters, no overflow bit is set, and no
 * interrupt becomes pending.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "accel/tcg/insn-count.h"
#include "hw/i386/apic_internal.h"
#include "monitor/hmp-target.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-pmu.h"
#include "system/tcg.h"
#include "trace.h"
#include "pmu-internal.h"

#define METRICS_WHOLE           255.0

/**
 * PMUShadow: copies of what a look at the counters changes, to be put back
 * @total: the totals
 * @topdown: X86PMU.topdown
 * @precise: an X86PMUPrecise, whose alignment a copy need not have; NULL if the
 *           CPU has none
 * @load: X86PMULookup.load
 * @missed: X86PMU.missed
 * @new_missed: X86PMULookup.missed
 * @ctrl: GLOBAL_CTRL
 * @status: GLOBAL_STATUS
 * @irq_domains: X86PMU.irq_domains
 */
typedef struct PMUShadow {
    uint64_t total[INSN_COUNT_DOMAINS][INSN_COUNT_LANES];
    X86PMUTopDown topdown;
    void *precise;
    uintptr_t load;
    uint64_t missed[X86_COUNT_DOMAINS][PMU_MISSED_KINDS];
    uint64_t new_missed[X86_COUNT_DOMAINS][PMU_MISSED_KINDS];
    uint64_t ctrl;
    uint64_t status;
    uint8_t irq_domains;
} PMUShadow;

static void pmu_info_begin(X86CPU *cpu, PMUShadow *s)
{
    insn_count_sync(CPU(cpu), 0);
    memcpy(s->total, cpu->insn_count.total, sizeof(s->total));
    s->topdown = cpu->pmu->topdown;
    s->ctrl = cpu->env.msr_global_ctrl;
    s->status = cpu->env.msr_global_status;
    s->irq_domains = cpu->pmu->irq_domains;
    s->precise = NULL;
    if (cpu->pmu_precise) {
        s->precise = g_memdup2(cpu->pmu_precise, sizeof(X86PMUPrecise));
        s->load = cpu->pmu_lookup.load;
        memcpy(s->missed, cpu->pmu->missed, sizeof(s->missed));
        memcpy(s->new_missed, cpu->pmu_lookup.missed, sizeof(s->new_missed));
        x86_pmu_precise_drain(cpu);
    }
}

static void pmu_info_end(X86CPU *cpu, PMUShadow *s)
{
    memcpy(cpu->insn_count.total, s->total, sizeof(s->total));
    cpu->pmu->topdown = s->topdown;
    cpu->env.msr_global_ctrl = s->ctrl;
    cpu->env.msr_global_status = s->status;
    cpu->pmu->irq_domains = s->irq_domains;
    if (s->precise) {
        memcpy(cpu->pmu_precise, s->precise, sizeof(X86PMUPrecise));
        cpu->pmu_lookup.load = s->load;
        memcpy(cpu->pmu->missed, s->missed, sizeof(s->missed));
        memcpy(cpu->pmu_lookup.missed, s->new_missed, sizeof(s->new_missed));
        g_free(s->precise);
    }
}

/* As x86_pmu_fold(): the overflows since the last one, and what they freeze */
static void pmu_info_overflows(X86CPU *cpu)
{
    CPUX86State *env = &cpu->env;
    uint64_t value;
    unsigned i;

    for (i = 0; i < PMU_COUNTERS; i++) {
        if (x86_pmu_counter_exists(cpu, i) && x86_pmu_peek(cpu, i, &value)) {
            env->msr_global_status |= x86_pmu_bit(i);
            x86_pmu_pend_interrupt(cpu, i);
        }
    }
    x86_topdown_fold(cpu);
    if (cpu->pmu->irq_domains &&
        FIELD_EX64(env->msr_debugctl, DEBUGCTL, FREEZE_PERFMON_ON_PMI)) {
        x86_pmu_shape_freeze(cpu);
    }
}

static PmuCounterState pmu_info_state(X86CPU *cpu, unsigned counter,
                                      const X86PmuCounter *info, bool on)
{
    CPUX86State *env = &cpu->env;
    const PMUConfig *c = &cpu->pmu->config[counter];
    bool user = env->hflags & HF_CPL_MASK;

    if (!on || (!info->os && !info->usr)) {
        return PMU_COUNTER_STATE_DISABLED;
    }
    if (!(env->msr_global_ctrl & x86_pmu_bit(counter))) {
        return PMU_COUNTER_STATE_GLOBAL_DISABLED;
    }
    if (env->msr_global_status & PMU_STATUS_CTR_FRZ) {
        return PMU_COUNTER_STATE_FROZEN;
    }
    /* With CMASK and INV, an event that never comes counts all cycles */
    if (x86_pmu_event_is_zero(cpu, c->event) && !(c->cmask && c->inv)) {
        return PMU_COUNTER_STATE_NO_EVENT;
    }
    return (user ? info->usr : info->os) ? PMU_COUNTER_STATE_COUNTING
                                         : PMU_COUNTER_STATE_FILTERED;
}

static X86PmuCounter *pmu_info_counter(X86CPU *cpu, unsigned counter)
{
    CPUX86State *env = &cpu->env;
    X86PmuCounter *info = g_new0(X86PmuCounter, 1);
    const PMUEvent *event = cpu->pmu->config[counter].event;
    uint16_t code;
    bool on = true;

    if (counter < PMU_GP) {
        uint64_t sel = env->msr_gp_evtsel[counter];

        info->name = g_strdup_printf("gp%u", counter);
        code = FIELD_EX64(sel, EVTSEL, EVENT);
        on = FIELD_EX64(sel, EVTSEL, EN);
        info->os = FIELD_EX64(sel, EVTSEL, OS);
        info->usr = FIELD_EX64(sel, EVTSEL, USR);
        info->interrupt = FIELD_EX64(sel, EVTSEL, INT);
        info->edge = FIELD_EX64(sel, EVTSEL, EDGE);
        info->inv = FIELD_EX64(sel, EVTSEL, INV);
        info->cmask = FIELD_EX64(sel, EVTSEL, CMASK);
    } else {
        unsigned index = counter - PMU_GP;
        uint64_t ctrl = env->msr_fixed_ctr_ctrl >> 4 * index;

        info->name = g_strdup_printf("fixed%u", index);
        code = event->code;
        info->os = FIELD_EX64(ctrl, FIXED, OS);
        info->usr = FIELD_EX64(ctrl, FIXED, USR);
        info->interrupt = FIELD_EX64(ctrl, FIXED, INT);
    }
    info->event_select = code;
    info->umask = code >> 8;
    info->event = event->name ? g_strdup(event->name)
                              : g_strdup_printf("r%02x%02x", info->umask,
                                                info->event_select);
    info->state = pmu_info_state(cpu, counter, info, on);
    x86_pmu_peek(cpu, counter, &info->value);
    info->overflow = env->msr_global_status & x86_pmu_bit(counter);
    return info;
}

static X86PmuMetrics *pmu_info_metrics(X86CPU *cpu)
{
    X86PmuMetrics *info = g_new0(X86PmuMetrics, 1);
    double percent[TOPDOWN_CATEGORIES];
    unsigned i;

    info->value = x86_topdown_read(cpu);
    for (i = 0; i < TOPDOWN_CATEGORIES; i++) {
        percent[i] = extract64(info->value, 8 * i, 8) * 100 / METRICS_WHOLE;
    }
    info->retiring = percent[TOPDOWN_RETIRING];
    info->bad_speculation = percent[TOPDOWN_BAD];
    info->frontend_bound = percent[TOPDOWN_FRONTEND];
    info->backend_bound = percent[TOPDOWN_BACKEND];
    if (cpu->pmu->level > 1) {
        info->has_heavy_operations = true;
        info->heavy_operations = percent[TOPDOWN_HEAVY];
        info->has_branch_mispredicts = true;
        info->branch_mispredicts = percent[TOPDOWN_MISPREDICT];
        info->has_fetch_latency = true;
        info->fetch_latency = percent[TOPDOWN_FETCH_LAT];
        info->has_memory_bound = true;
        info->memory_bound = percent[TOPDOWN_MEMORY];
    }
    return info;
}

/* Does the APIC hold an interrupt that the CPU has not accepted yet? */
static bool pmu_info_apic_pending(X86CPU *cpu, uint32_t lvt)
{
    APICCommonState *apic = APIC_COMMON(cpu->apic_state);
    uint8_t vector = lvt;

    switch (extract32(lvt, 8, 3)) {
    case APIC_DM_NMI:
        return CPU(cpu)->interrupt_request & CPU_INTERRUPT_NMI;
    case APIC_DM_FIXED:
        return apic->irr[vector / 32] & (1u << vector % 32);
    default:
        return false;
    }
}

/* On the CPU's own thread */
static void pmu_info_fill(CPUState *cs, run_on_cpu_data data)
{
    X86CPU *cpu = X86_CPU(cs);
    CPUX86State *env = &cpu->env;
    X86PmuEmulated *info = data.host_ptr;
    X86PmuCounterList **tail = &info->counters;
    PMUShadow shadow;
    unsigned i;

    pmu_info_begin(cpu, &shadow);
    pmu_info_overflows(cpu);
    info->version = cpu->pmu->version;
    info->counter_width = cpu->pmu->counter_width;
    info->cpl = env->hflags & HF_CPL_MASK;
    info->halted = cs->halted;
    info->global_ctrl = env->msr_global_ctrl;
    info->fixed_ctr_ctrl = env->msr_fixed_ctr_ctrl;
    info->debugctl = env->msr_debugctl;
    for (i = 0; i < PMU_COUNTERS; i++) {
        if (x86_pmu_counter_exists(cpu, i)) {
            QAPI_LIST_APPEND(tail, pmu_info_counter(cpu, i));
        }
    }
    if (x86_topdown_available(env)) {
        info->perf_metrics = pmu_info_metrics(cpu);
    }
    info->global_status = env->msr_global_status;
    info->interrupt_pending = cpu->pmu->irq_domains;
    if (cpu->apic_state) {
        info->has_lvt = true;
        info->lvt = APIC_COMMON(cpu->apic_state)->lvt[APIC_LVT_PERFORM];
        info->interrupt_pending |= pmu_info_apic_pending(cpu, info->lvt);
    }
    pmu_info_end(cpu, &shadow);
}

static PmuKind pmu_info_kind(X86CPU *cpu)
{
    if (!cpu->enable_pmu) {
        return PMU_KIND_OFF;
    } else if (!tcg_enabled()) {
        return PMU_KIND_ACCELERATOR;
    }
    return cpu->pmu ? PMU_KIND_EMULATED : PMU_KIND_UNSUPPORTED;
}

PmuInfoList *qmp_query_pmu(Error **errp)
{
    g_autoptr(GPtrArray) cpus = g_ptr_array_new_with_free_func(object_unref);
    PmuInfoList *list = NULL, **tail = &list;
    CPUState *cs;
    unsigned i;

    /* The work of a CPU releases the BQL: one may be unplugged meanwhile */
    CPU_FOREACH(cs) {
        g_ptr_array_add(cpus, object_ref(OBJECT(cs)));
    }
    for (i = 0; i < cpus->len; i++) {
        PmuInfo *info;

        cs = CPU(cpus->pdata[i]);
        if (!DEVICE(cs)->realized) {
            /* Its thread ends */
            continue;
        }
        info = g_new0(PmuInfo, 1);
        info->cpu_index = cs->cpu_index;
        info->qom_path = object_get_canonical_path(OBJECT(cs));
        info->kind = pmu_info_kind(X86_CPU(cs));
        if (info->kind == PMU_KIND_EMULATED) {
            insn_count_run_on_cpu(cs, pmu_info_fill,
                                  RUN_ON_CPU_HOST_PTR(&info->u.emulated));
        }
        QAPI_LIST_APPEND(tail, info);
    }
    return list;
}

/*
 * Trace events
 */

static uint64_t pmu_info_rip(X86CPU *cpu)
{
    return cpu->env.segs[R_CS].base + cpu->env.eip;
}

void x86_pmu_trace_interrupt(X86CPU *cpu)
{
    uint32_t lvt = APIC_COMMON(cpu->apic_state)->lvt[APIC_LVT_PERFORM];

    trace_x86_pmu_interrupt(CPU(cpu)->cpu_index, pmu_info_rip(cpu),
                            cpu->env.msr_global_status, lvt,
                            lvt & APIC_LVT_MASKED);
}

void x86_pmu_trace_deadline(X86CPU *cpu)
{
    const int64_t *due = cpu->insn_count.due;

    trace_x86_pmu_deadline(CPU(cpu)->cpu_index, pmu_info_rip(cpu),
                           due[1 << X86_COUNT_KERNEL],
                           due[1 << X86_COUNT_USER],
                           due[1 << X86_COUNT_KERNEL | 1 << X86_COUNT_USER]);
}

/*
 * The monitor's "info pmu"
 */

static const char *pmu_info_why(const X86PmuEmulated *pmu,
                                const X86PmuCounter *c)
{
    switch (c->state) {
    case PMU_COUNTER_STATE_COUNTING:
        return pmu->halted ? "no: halted" : "yes";
    case PMU_COUNTER_STATE_DISABLED:
        return c->os || c->usr ? "no: EN is clear"
                               : "no: neither OS nor USR";
    case PMU_COUNTER_STATE_GLOBAL_DISABLED:
        return "no: GLOBAL_CTRL";
    case PMU_COUNTER_STATE_FROZEN:
        return "no: frozen";
    case PMU_COUNTER_STATE_NO_EVENT:
        return "no: TCG does not count this event";
    case PMU_COUNTER_STATE_FILTERED:
        return c->os ? "no: not at CPL 3" : "no: not at CPL 0";
    default:
        g_assert_not_reached();
    }
}

static void pmu_info_print_counter(Monitor *mon, const X86PmuEmulated *pmu,
                                   const X86PmuCounter *c)
{
    g_autoptr(GString) filter = g_string_new(NULL);

    g_string_append(filter, c->os ? " os" : "");
    g_string_append(filter, c->usr ? " usr" : "");
    g_string_append(filter, c->interrupt ? " int" : "");
    if (c->cmask) {
        g_string_append_printf(filter, " cmask=%u", c->cmask);
    }
    g_string_append(filter, c->inv ? " inv" : "");
    g_string_append(filter, c->edge ? " edge" : "");
    monitor_printf(mon, "  %-6s 0x%012" PRIx64 "%s %02x/%02x %-29s%-12s  %s\n",
                   c->name, c->value, c->overflow ? "!" : " ",
                   c->event_select, c->umask, c->event, filter->str,
                   pmu_info_why(pmu, c));
}

static void pmu_info_print_metrics(Monitor *mon, const X86PmuMetrics *m)
{
    monitor_printf(mon, "  PERF_METRICS 0x%016" PRIx64 ": retiring %.1f%%, "
                   "bad speculation %.1f%%, frontend %.1f%%, "
                   "backend %.1f%%\n", m->value, m->retiring,
                   m->bad_speculation, m->frontend_bound, m->backend_bound);
    if (m->has_heavy_operations) {
        monitor_printf(mon, "  of all: heavy operations %.1f%%, "
                       "branch mispredicts %.1f%%, fetch latency %.1f%%, "
                       "memory bound %.1f%%\n", m->heavy_operations,
                       m->branch_mispredicts, m->fetch_latency,
                       m->memory_bound);
    }
}

static void pmu_info_print(Monitor *mon, const X86PmuEmulated *pmu)
{
    const X86PmuCounterList *c;

    monitor_printf(mon, "version %u, counters of %u bits; CPL %u%s\n",
                   pmu->version, pmu->counter_width, pmu->cpl,
                   pmu->halted ? ", halted" : "");
    monitor_printf(mon, "  GLOBAL_CTRL 0x%016" PRIx64
                   "  GLOBAL_STATUS 0x%016" PRIx64 "\n"
                   "  FIXED_CTR_CTRL 0x%" PRIx64 "  DEBUGCTL 0x%" PRIx64 "\n",
                   pmu->global_ctrl, pmu->global_status, pmu->fixed_ctr_ctrl,
                   pmu->debugctl);
    if (pmu->has_lvt) {
        monitor_printf(mon, "  LVT 0x%05x (%s)", pmu->lvt,
                       pmu->lvt & APIC_LVT_MASKED ? "masked" : "not masked");
    } else {
        monitor_printf(mon, "  no local APIC");
    }
    monitor_printf(mon, ", %s interrupt pending\n",
                   pmu->interrupt_pending ? "an" : "no");
    if (pmu->perf_metrics) {
        pmu_info_print_metrics(mon, pmu->perf_metrics);
    }
    monitor_printf(mon, "  %-6s %-14s  %-5s %-29s %-11s  %s\n", "", "value",
                   "code", "event", "when", "counts now");
    for (c = pmu->counters; c; c = c->next) {
        pmu_info_print_counter(mon, pmu, c->value);
    }
}

void hmp_info_pmu(Monitor *mon, const QDict *qdict)
{
    g_autoptr(PmuInfoList) list = qmp_query_pmu(NULL);
    const PmuInfoList *i;

    for (i = list; i; i = i->next) {
        const PmuInfo *info = i->value;

        monitor_printf(mon, "CPU %" PRId64 ": ", info->cpu_index);
        switch (info->kind) {
        case PMU_KIND_OFF:
            monitor_printf(mon, "no PMU (pmu=on is not set)\n");
            break;
        case PMU_KIND_UNSUPPORTED:
            monitor_printf(mon, "no PMU (TCG has none for this CPU model or "
                           "on this host)\n");
            break;
        case PMU_KIND_ACCELERATOR:
            monitor_printf(mon, "the PMU is the accelerator's, only those "
                           "of TCG can be shown\n");
            break;
        case PMU_KIND_EMULATED:
            pmu_info_print(mon, &info->u.emulated);
            break;
        default:
            g_assert_not_reached();
        }
    }
}
