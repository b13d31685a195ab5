/*
 * Arm PMUv3 under TCG: query-pmu and "info pmu"
 *
 * The vCPU's own thread answers, between two blocks of translated code, so that
 * the values are exact. The guest does not notice: what a look changes is put
 * back, and no interrupt becomes pending.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "accel/tcg/insn-count.h"
#include "monitor/hmp-target.h"
#include "monitor/hmp.h"
#include "monitor/monitor.h"
#include "pmu-ext.h"
#include "pmu-internal.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-pmu.h"
#include "system/tcg.h"

/* The bit of PMCCNTR in PMCNTEN and so on */
#define PMU_INFO_CYCLES 31

static const char *pmu_info_event(uint16_t number)
{
    switch (number) {
    case 0x00:
        return "SW_INCR";
#define PMU_INSN_EVENT(number, name, plus, minus)   \
    case number:                                    \
        return #name;
#define PMU_SLOT_EVENT(number, name)                \
    case number:                                    \
        return #name;
#define PMU_EXC_EVENT(number, name, exception)      \
    case number:                                    \
        return #name;
#include "pmu-events.h.inc"
    default:
        return NULL;
    }
}

static PmuCounterState pmu_info_state(CPUARMState *env, unsigned counter,
                                      uint16_t event)
{
    if (!(env->cp15.c9_pmcnten & BIT_ULL(counter))) {
        return PMU_COUNTER_STATE_DISABLED;
    }
    if (!(pmu_globally_enabled(env) & BIT_ULL(counter))) {
        return PMU_COUNTER_STATE_GLOBAL_DISABLED;
    }
    if (counter != PMU_INFO_CYCLES && !event_supported(event)) {
        return PMU_COUNTER_STATE_NO_EVENT;
    }
    return pmu_counter_enabled(env, counter) ? PMU_COUNTER_STATE_COUNTING
                                             : PMU_COUNTER_STATE_FILTERED;
}

/* After pmu_op_start() */
static ArmPmuCounter *pmu_info_counter(CPUARMState *env, unsigned counter)
{
    ArmPmuCounter *info = g_new0(ArmPmuCounter, 1);
    const char *name;

    if (counter == PMU_INFO_CYCLES) {
        info->name = g_strdup("PMCCNTR");
        info->value = env->cp15.c15_ccnt;
        info->evtyper = env->cp15.pmccfiltr_el0 | PMU_CPU_CYCLES;
    } else {
        info->name = g_strdup_printf("PMEVCNTR%u", counter);
        info->value = extract64(env->cp15.c14_pmevcntr[counter], 0,
                                arm_pmu_ext_counter_bits(env_archcpu(env)));
        info->evtyper = env->cp15.c14_pmevtyper[counter];
    }
    info->event_number = info->evtyper & PMXEVTYPER_EVTCOUNT;
    name = pmu_info_event(info->event_number);
    info->event = name ? g_strdup(name)
                       : g_strdup_printf("r%x", info->event_number);
    info->state = pmu_info_state(env, counter, info->event_number);
    info->overflow = env->cp15.c9_pmovsr & BIT_ULL(counter);
    return info;
}

/* On the CPU's own thread, with the BQL */
static void pmu_info_fill(CPUState *cs, run_on_cpu_data data)
{
    CPUARMState *env = cpu_env(cs);
    ArmPmuEmulated *info = data.host_ptr;
    ArmPmuCounterList **tail = &info->counters;
    uint64_t inten = env->cp15.c9_pminten;
    g_autofree void *before = g_memdup2(&env->cp15, sizeof(env->cp15));
    unsigned i;

    /* An overflow that is seen here first must not raise the interrupt. */
    if (!pmu_enabled_overflow(env)) {
        env->cp15.c9_pminten = 0;
    }
    pmu_op_start(env);
    info->el = arm_current_el(env);
    info->pmcr = env->cp15.c9_pmcr;
    for (i = 0; i <= pmu_num_counters(env); i++) {
        unsigned counter = i ? i - 1 : PMU_INFO_CYCLES;
        ArmPmuCounter *c = pmu_info_counter(env, counter);

        c->interrupt = inten & BIT_ULL(counter);
        QAPI_LIST_APPEND(tail, c);
    }
    memcpy(&env->cp15, before, sizeof(env->cp15));
}

PmuInfoList *qmp_query_pmu(Error **errp)
{
    PmuInfoList *list = NULL, **tail = &list;
    CPUState *cs;

    CPU_FOREACH(cs) {
        PmuInfo *info = g_new0(PmuInfo, 1);

        info->cpu_index = cs->cpu_index;
        info->qom_path = object_get_canonical_path(OBJECT(cs));
        if (!arm_feature(cpu_env(cs), ARM_FEATURE_PMU)) {
            info->kind = PMU_KIND_OFF;
        } else if (!tcg_enabled()) {
            info->kind = PMU_KIND_ACCELERATOR;
        } else {
            info->kind = PMU_KIND_EMULATED_ARM;
            insn_count_run_on_cpu(cs, pmu_info_fill,
                                  RUN_ON_CPU_HOST_PTR(&info->u.emulated_arm));
        }
        QAPI_LIST_APPEND(tail, info);
    }
    return list;
}

static void pmu_info_print(Monitor *mon, const ArmPmuEmulated *pmu)
{
    static const char *const now[] = {
        [PMU_COUNTER_STATE_COUNTING] = "yes",
        [PMU_COUNTER_STATE_DISABLED] = "no: PMCNTEN",
        [PMU_COUNTER_STATE_GLOBAL_DISABLED] = "no: PMCR.E or MDCR_EL2.HPME",
        [PMU_COUNTER_STATE_NO_EVENT] = "no: TCG does not count this event",
        [PMU_COUNTER_STATE_FILTERED] = "no: not here",
    };
    const ArmPmuCounterList *l;

    monitor_printf(mon, "EL%u, PMCR 0x%08x\n  %-10s %-18s  %-10s %-20s  %s\n",
                   pmu->el, pmu->pmcr, "", "value", "PMEVTYPER", "event",
                   "counts now");
    for (l = pmu->counters; l; l = l->next) {
        const ArmPmuCounter *c = l->value;

        monitor_printf(mon, "  %-10s 0x%016" PRIx64 "%s 0x%08x %-20s %s  %s\n",
                       c->name, c->value, c->overflow ? "!" : " ", c->evtyper,
                       c->event, c->interrupt ? "int" : "   ", now[c->state]);
    }
}

void hmp_info_pmu(Monitor *mon, const QDict *qdict)
{
    g_autoptr(PmuInfoList) list = qmp_query_pmu(NULL);
    const PmuInfoList *i;

    for (i = list; i; i = i->next) {
        const PmuInfo *info = i->value;

        monitor_printf(mon, "CPU %" PRId64 ": ", info->cpu_index);
        if (info->kind == PMU_KIND_EMULATED_ARM) {
            pmu_info_print(mon, &info->u.emulated_arm);
        } else {
            monitor_printf(mon, info->kind == PMU_KIND_OFF ? "no PMU\n" :
                           "the PMU is the accelerator's, only those of TCG "
                           "can be shown\n");
        }
    }
}
