/*
 * PMU of Intel CPUs under TCG: registers
 *
 * Each access first adds what has been counted to the counters, then reads or
 * writes; a write ends with choosing anew what is counted. Reserved bits,
 * read-only registers, and counters that do not exist give #GP.
 *
 * Reference: Intel SDM volume 3, "Performance Monitoring", and volume 4.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "hw/registerfields.h"
#include "trace.h"
#include "tcg/helper-tcg.h"
#include "pmu-internal.h"

/* RDPMC: the type of counter is in the upper half of ECX */
#define PMU_RDPMC_GP            0x0000
#define PMU_RDPMC_METRICS       0x2000
#define PMU_RDPMC_FIXED         0x4000

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

/* The index of an MSR in X86PMU.extra, or PMU_NO_EXTRA_MSR */
static unsigned x86_pmu_extra_index(uint32_t msr)
{
    switch (msr) {
    case MSR_OFFCORE_RSP_0:
        return PMU_OFFCORE_RSP_0;
    case MSR_OFFCORE_RSP_1:
        return PMU_OFFCORE_RSP_1;
    case MSR_PEBS_LD_LAT:
        return PMU_LD_LAT;
    case MSR_PEBS_FRONTEND:
        return PMU_FRONTEND;
    default:
        return PMU_NO_EXTRA_MSR;
    }
}

uint64_t x86_pmu_extra_mask(X86CPU *cpu, unsigned extra)
{
    if (cpu->pmu->arch == X86_PMU_OTHER) {
        return 0;
    }
    switch (extra) {
    case PMU_LD_LAT:
        return 0xffff;
    case PMU_FRONTEND:
        /* Event, latency, and width of bubbles */
        return 0x7fff1f;
    default:
        return MAKE_64BIT_MASK(0, 38);
    }
}

/* Is there such a register, and what is in it? */
static bool x86_pmu_read(X86CPU *cpu, uint32_t msr, uint64_t *val)
{
    CPUX86State *env = &cpu->env;

    if (!x86_pmu_msr_exists(cpu, msr)) {
        return false;
    }
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        *val = env->msr_gp_counters[msr - MSR_P6_PERFCTR0];
        return true;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        *val = env->msr_gp_counters[msr - MSR_IA32_A_PMC0];
        return x86_pmu_full_write(env);
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        *val = env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0];
        return true;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *val = *x86_pmu_value(env, PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0);
        return true;
    case MSR_PERF_METRICS:
        *val = x86_topdown_read(cpu);
        return x86_topdown_available(env);
    case MSR_CORE_PERF_FIXED_CTR_CTRL:
        *val = env->msr_fixed_ctr_ctrl;
        return true;
    case MSR_CORE_PERF_GLOBAL_CTRL:
        *val = env->msr_global_ctrl;
        return true;
    case MSR_CORE_PERF_GLOBAL_STATUS:
        *val = env->msr_global_status;
        return true;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        *val = 0;
        return true;
    case MSR_CORE_PERF_GLOBAL_INUSE:
        *val = x86_pmu_inuse(env);
        return true;
    case MSR_IA32_PERF_CAPABILITIES:
        *val = env->features[FEAT_PERF_CAPABILITIES];
        return env->features[FEAT_1_ECX] & CPUID_EXT_PDCM;
    case MSR_IA32_DEBUGCTL:
        *val = env->msr_debugctl;
        return true;
    case MSR_IA32_MISC_ENABLE:
        *val = env->msr_ia32_misc_enable | PMU_MISC_ENABLE;
        return true;
    case MSR_OFFCORE_RSP_0:
    case MSR_OFFCORE_RSP_1:
    case MSR_PEBS_LD_LAT:
    case MSR_PEBS_FRONTEND:
        *val = cpu->pmu->extra[x86_pmu_extra_index(msr)];
        return true;
    default:
        return false;
    }
}

/* The bits that software may write as 1; false if there are none at all */
static bool x86_pmu_writable(X86CPU *cpu, uint32_t msr, uint64_t *legal)
{
    CPUX86State *env = &cpu->env;

    if (!x86_pmu_msr_exists(cpu, msr)) {
        return false;
    }
    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
    case MSR_IA32_MISC_ENABLE:
        *legal = UINT64_MAX;
        return true;
    case MSR_PERF_METRICS:
        *legal = UINT64_MAX;
        return x86_topdown_available(env);
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        *legal = cpu->pmu->mask;
        return x86_pmu_full_write(env);
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        *legal = x86_pmu_evtsel_mask(cpu);
        return true;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        *legal = cpu->pmu->mask;
        return true;
    case MSR_CORE_PERF_FIXED_CTR_CTRL:
        *legal = x86_pmu_fixed_ctrl_mask(cpu);
        return true;
    case MSR_CORE_PERF_GLOBAL_CTRL:
        *legal = x86_pmu_ctrl_mask(env);
        return true;
    case MSR_CORE_PERF_GLOBAL_OVF_CTRL:
        *legal = x86_pmu_status_mask(env);
        return true;
    case MSR_CORE_PERF_GLOBAL_STATUS_SET:
        *legal = x86_pmu_status_mask(env) & ~PMU_STATUS_COND_CHGD;
        return true;
    case MSR_IA32_DEBUGCTL:
        *legal = PMU_DEBUGCTL_MASK;
        return true;
    case MSR_OFFCORE_RSP_0:
    case MSR_OFFCORE_RSP_1:
    case MSR_PEBS_LD_LAT:
    case MSR_PEBS_FRONTEND:
        *legal = x86_pmu_extra_mask(cpu, x86_pmu_extra_index(msr));
        return true;
    default:
        return false;
    }
}

/* Choose anew the events that depend on the register. */
static void x86_pmu_write_extra(X86CPU *cpu, unsigned extra, uint64_t val)
{
    unsigned i;

    cpu->pmu->extra[extra] = val;
    for (i = 0; i < PMU_GP; i++) {
        PMUConfig *c = &cpu->pmu->config[i];

        if (x86_pmu_is_offcore(cpu, c->code)) {
            c->event = NULL;
        }
    }
}

static void x86_pmu_write(X86CPU *cpu, uint32_t msr, uint64_t val)
{
    CPUX86State *env = &cpu->env;

    switch (msr) {
    case MSR_P6_PERFCTR0 ... MSR_P6_PERFCTR0 + PMU_GP - 1:
        /* The upper half is ignored, and the sign of the lower extended */
        x86_pmu_write_counter(cpu, msr - MSR_P6_PERFCTR0,
                              (int32_t)val & cpu->pmu->mask);
        break;
    case MSR_IA32_A_PMC0 ... MSR_IA32_A_PMC0 + PMU_GP - 1:
        x86_pmu_write_counter(cpu, msr - MSR_IA32_A_PMC0, val);
        break;
    case MSR_P6_EVNTSEL0 ... MSR_P6_EVNTSEL0 + PMU_GP - 1:
        env->msr_gp_evtsel[msr - MSR_P6_EVNTSEL0] = val;
        break;
    case MSR_CORE_PERF_FIXED_CTR0 ... MSR_CORE_PERF_FIXED_CTR0 + PMU_FIXED - 1:
        x86_pmu_write_counter(cpu, PMU_GP + msr - MSR_CORE_PERF_FIXED_CTR0,
                              val);
        if (msr == MSR_CORE_PERF_FIXED_CTR3) {
            x86_topdown_clear(cpu);
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
        /*
         * No interrupt comes without a bit that says why, except one that has
         * frozen the counters: they would stay so.
         */
        if (!(env->msr_global_status & x86_pmu_ctrl_mask(env)) &&
            !x86_pmu_has_frozen(cpu)) {
            cpu->pmu->irq_domains = 0;
        }
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
    case MSR_OFFCORE_RSP_0:
    case MSR_OFFCORE_RSP_1:
    case MSR_PEBS_LD_LAT:
    case MSR_PEBS_FRONTEND:
        x86_pmu_write_extra(cpu, x86_pmu_extra_index(msr), val);
        break;
    default:
        g_assert_not_reached();
    }
}

/*
 * Does the PMU handle this MSR? Also if it has no such register, because it has
 * fewer counters or features than others: an access must give #GP then, while
 * QEMU ignores accesses of MSRs that nobody handles.
 */
static bool x86_pmu_handles_msr(X86CPU *cpu, uint32_t msr)
{
    unsigned extra = x86_pmu_extra_index(msr);

    if (extra != PMU_NO_EXTRA_MSR) {
        return x86_pmu_extra_mask(cpu, extra);
    }
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

static void x86_pmu_set_edx_eax(CPUX86State *env, uint64_t val)
{
    env->regs[R_EAX] = (uint32_t)val;
    env->regs[R_EDX] = (uint32_t)(val >> 32);
}

bool x86_pmu_rdmsr(CPUX86State *env, uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    uint32_t msr = env->regs[R_ECX];
    uint64_t val;
    bool ok;

    if (!cpu->pmu || !x86_pmu_handles_msr(cpu, msr)) {
        return false;
    }
    x86_pmu_fold(cpu, ra);
    x86_pmu_deliver(cpu);
    ok = x86_pmu_read(cpu, msr, &val);
    trace_x86_pmu_rdmsr(CPU(cpu)->cpu_index, msr, ok ? val : 0, ok);
    if (!ok) {
        raise_exception_err_ra(env, EXCP0D_GPF, 0, ra);
    }
    x86_pmu_set_edx_eax(env, val);
    return true;
}

bool x86_pmu_wrmsr(CPUX86State *env, uint64_t val, uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    uint32_t msr = env->regs[R_ECX];
    uint64_t legal;
    bool ok;

    if (!cpu->pmu || !x86_pmu_handles_msr(cpu, msr)) {
        return false;
    }
    ok = x86_pmu_writable(cpu, msr, &legal) && !(val & ~legal);
    trace_x86_pmu_wrmsr(CPU(cpu)->cpu_index, msr, val, ok);
    if (!ok) {
        raise_exception_err_ra(env, EXCP0D_GPF, 0, ra);
    }
    if (msr == MSR_CORE_PERF_GLOBAL_OVF_CTRL) {
        /* Resets what was there before, not an overflow by WRMSR itself */
        x86_pmu_fold(cpu, ra);
        val &= env->msr_global_status;
    }
    /*
     * An instruction counts if counting is on when it starts: WRMSR itself,
     * which is the last of its block and cannot fail any more, is still
     * counted by what the registers were before.
     */
    x86_pmu_fold(cpu, 0);
    x86_pmu_write(cpu, msr, val);
    x86_pmu_reconfigure(cpu);
    x86_pmu_deliver(cpu);
    return true;
}

bool x86_pmu_rdpmc(CPUX86State *env, uintptr_t ra)
{
    X86CPU *cpu = env_archcpu(env);
    uint32_t type = extract32(env->regs[R_ECX], 16, 16);
    uint32_t index = extract32(env->regs[R_ECX], 0, 16);
    bool metrics = type == PMU_RDPMC_METRICS;

    if (!cpu->pmu) {
        return false;
    }
    if (!(type == PMU_RDPMC_GP && index < cpu->pmu->gp) &&
        !(type == PMU_RDPMC_FIXED && index < cpu->pmu->fixed) &&
        !(metrics && index == 0 && x86_topdown_available(env))) {
        raise_exception_err_ra(env, EXCP0D_GPF, 0, ra);
    }
    if (type == PMU_RDPMC_FIXED) {
        index += PMU_GP;
    }
    x86_pmu_fold(cpu, ra);
    x86_pmu_deliver(cpu);
    x86_pmu_set_edx_eax(env, metrics ? x86_topdown_read(cpu)
                                     : *x86_pmu_value(env, index));
    return true;
}
