/*
 * What follows from the version of the PMU, and from the number and width of
 * its counters
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"

/* Registers and RDPMC of counters that could be there: these give #GP or not */
static void check_existence(void)
{
    uint64_t v;
    int i;

    for (i = 0; i < 10; i++) {
        int want = i < GP_COUNTERS ? 0 : VEC_GP;

        check("read of PMC", i, rdmsr_safe(MSR_PMC(i), &v), want);
        check("write of PMC", i, wrmsr_safe(MSR_PMC(i), 0), want);
        check("read of A_PMC", i, rdmsr_safe(MSR_A_PMC(i), &v), want);
        check("write of A_PMC", i, wrmsr_safe(MSR_A_PMC(i), 0), want);
        check("read of EVTSEL", i, rdmsr_safe(MSR_EVTSEL(i), &v), want);
        check("write of EVTSEL", i, wrmsr_safe(MSR_EVTSEL(i), 0), want);
        check("RDPMC", i, rdpmc_safe(i, &v), want);
    }
    for (i = 0; i < 6; i++) {
        int want = i < FIXED_COUNTERS ? 0 : VEC_GP;

        check("read of FIXED_CTR", i, rdmsr_safe(MSR_FIXED_CTR(i), &v), want);
        check("write of FIXED_CTR", i, wrmsr_safe(MSR_FIXED_CTR(i), 0), want);
        check("RDPMC of fixed", i, rdpmc_safe(RDPMC_FIXED + i, &v), want);
    }
    i = HAVE_METRICS ? 0 : VEC_GP;
    check("read of METRICS", NO_STEP, rdmsr_safe(MSR_PERF_METRICS, &v), i);
    check("write of METRICS", NO_STEP, wrmsr_safe(MSR_PERF_METRICS, 0), i);
    check("RDPMC of METRICS", NO_STEP, rdpmc_safe(RDPMC_METRICS, &v), i);
    i = VERSION < 4 ? VEC_GP : 0;
    check("read of STATUS_SET", NO_STEP, rdmsr_safe(MSR_STATUS_SET, &v), i);
    check("write of STATUS_SET", NO_STEP, wrmsr_safe(MSR_STATUS_SET, 0), i);
    check("read of INUSE", NO_STEP, rdmsr_safe(MSR_GLOBAL_INUSE, &v), i);
}

static void check_masks(void)
{
    uint64_t fixed = FIXED_OS | FIXED_USR | FIXED_PMI, ctrl = 0;
    int last = GP_COUNTERS - 1, i;

    for (i = 0; i < FIXED_COUNTERS; i++) {
        ctrl |= (fixed | (HAS_ANY_THREAD ? FIXED_ANY : 0)) << 4 * i;
    }
    check_bits("FIXED_CTR_CTRL", MSR_FIXED_CTR_CTRL, ctrl, false);
    check_bits("GLOBAL_CTRL", MSR_GLOBAL_CTRL, COUNTERS_MASK | METRICS_MASK,
               false);
    check_bits("STATUS_RESET", MSR_STATUS_RESET, STATUS_MASK, true);
    check_bits("EVTSEL", MSR_EVTSEL(last),
               0xffffffff & ~(HAS_ANY_THREAD ? 0 : EVTSEL_ANY), false);
    check_bits("A_PMC", MSR_A_PMC(last), WIDTH_MASK, false);
    check_bits("FIXED_CTR", MSR_FIXED_CTR(2), WIDTH_MASK, false);
    wrmsr(MSR_PMC(last), 0x80000000);
    check("sign of PMC", last, rdmsr(MSR_PMC(last)),
          0xffffffff80000000 & WIDTH_MASK);
}

/* The carry out of the highest bit is an overflow. AnyThread has no effect. */
static void check_overflow(void)
{
    uint64_t any = HAS_ANY_THREAD ? EVTSEL_ANY : 0, n;
    int last = GP_COUNTERS - 1;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(0, EV_INSNS | EVTSEL_OS);
    program(last, EV_INSNS | EVTSEL_OS | any);
    wrmsr(MSR_A_PMC(last), negative(5));
    program_fixed(0, FIXED_OS | (any ? FIXED_ANY : 0));
    wrmsr(MSR_FIXED_CTR(0), negative(7));
    kernel(body_straight, 0);
    n = rdmsr(MSR_PMC(0));
    check_range("instructions", NO_STEP, n, 20, 40);
    check("overflow of PMC", last, rdmsr(MSR_PMC(last)), n - 5);
    check("overflow of FIXED_CTR", 0, rdmsr(MSR_FIXED_CTR(0)), n - 7);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          BIT(last) | FIXED_BIT(0));
}

static bool hook_freeze(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    payload_result[0] = rdmsr(MSR_GLOBAL_CTRL);
    payload_result[1] = rdmsr(MSR_PMC(0));
    wrmsr(MSR_DEBUGCTL, 0);
    pmi_acknowledge();
    return true;
}

/* Counter 0 overflows after @n instructions, and its interrupt freezes. */
static void freeze_after(unsigned n, void (*body)(void))
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI);
    pmu_enable = COUNTERS_MASK;
    program(0, EV_INSNS | EVTSEL_OS | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(n));
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    cpu->hook = hook_freeze;
    kernel(body, 0);
    cpu->hook = NULL;
    check("interrupts", NO_STEP, cpu->pmis, 1);
}

/* An interrupt freezes by a bit of the status, or in old versions, control */
static void check_freeze(void)
{
    Cpu *cpu = this_cpu();

    freeze_after(6, body_straight);
    check("status", NO_STEP, cpu->pmi_status,
          1 | (VERSION < 4 ? 0 : STATUS_FROZEN));
    check("GLOBAL_CTRL", NO_STEP, payload_result[0],
          VERSION < 4 ? 0 : COUNTERS_MASK);
    check("frozen counter", NO_STEP, payload_result[1], 0);
    if (VERSION < 4) {
        check("counter later", NO_STEP, rdmsr(MSR_PMC(0)), 0);
    } else {
        check_range("counter later", NO_STEP, rdmsr(MSR_PMC(0)), 1, 1000);
    }
}

/* So does one that WRMSR of GLOBAL_CTRL itself brings, after its write. */
static void check_freeze_wrmsr(void)
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_INSNS | EVTSEL_OS | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(2));
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    cpu->hook = hook_freeze;
    asm volatile("wrmsr; mov $3, %%eax; wrmsr; nop" : :
                 "a" (1), "d" (0), "c" (MSR_GLOBAL_CTRL) : "memory");
    cpu->hook = NULL;
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("GLOBAL_CTRL", NO_STEP, payload_result[0], VERSION < 4 ? 0 : 3);
    check("frozen counter", NO_STEP, payload_result[1], 0);
}

/*
 * An interrupt waits behind STI, and has frozen the counters. The next
 * instruction resets what it is for: it comes, as nothing else thaws them.
 */
static void check_freeze_reset(void)
{
    Cpu *cpu = this_cpu();

    /* CALL, MOV, MOV, XOR, STI */
    freeze_after(5, body_sti_reset);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)payload_sti_reset);
    check("status", NO_STEP, cpu->pmi_status,
          VERSION < 4 ? 0 : STATUS_FROZEN);
}

void case_shape(void)
{
    pmu_reset();
    context("existence");
    check_existence();
    check_masks();
    context("overflow");
    check_overflow();
    context("freeze");
    check_freeze();
    context("freeze by WRMSR");
    check_freeze_wrmsr();
    context("freeze behind STI");
    check_freeze_reset();
    pmu_reset();
}
