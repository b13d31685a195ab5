/*
 * Intel's architectural performance monitoring under TCG
 *
 * See system/pmu.c. There is none in user-mode emulation, and none without
 * TCG; all functions below do nothing then.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef I386_TCG_PMU_H
#define I386_TCG_PMU_H

#include "cpu.h"
#include "accel/tcg/insn-count.h"

/*
 * What the translator counts, separately for CPL 0 and CPL > 0 (the domains).
 * Lane 0 is retired instructions. Slots are in quarters, which are the units
 * of the accelerator.
 */
enum {
    X86_COUNT_INSNS,
    X86_COUNT_SLOTS,
    X86_COUNT_BRANCHES,
    X86_COUNT_COND,         /* conditional branches, taken or not */
    X86_COUNT_LOADS,        /* instructions that load */
    X86_COUNT_STORES,       /* instructions that store */
    X86_COUNT_CALLS,        /* near calls */
    X86_COUNT_RETS,         /* near returns */
    X86_COUNT_COND_TAKEN,
    X86_COUNT_FAR,          /* far branches, INT n, SYSCALL, IRET, ... */
    X86_COUNT_INDIRECT,     /* indirect near jumps and calls */
    X86_COUNT_CLEARS,       /* far branches, serialising instructions */
    X86_COUNT_HEAVY,        /* instructions that are heavy operations */
    X86_COUNT_CORE,         /* whole slots that are core bound */
    X86_COUNT_DIVIDES,      /* divisions and square roots */
    X86_COUNT_PAUSES,
    /* Floating point, in the order of FP_ARITH_INST_RETIRED's unit mask */
    X86_COUNT_FP_SCALAR_DOUBLE,
    X86_COUNT_FP_SCALAR_SINGLE,
    X86_COUNT_FP_128_DOUBLE,
    X86_COUNT_FP_128_SINGLE,
    X86_COUNT_FP_256_DOUBLE,
    X86_COUNT_FP_256_SINGLE,
    X86_COUNT_LANES,

    /* Totals that have no lane: the precise model adds to them */
    X86_COUNT_LLC_REF = X86_COUNT_LANES,
    X86_COUNT_LLC_MISS,
    X86_COUNT_MISPREDICT,   /* slots */
    X86_COUNT_FETCH_LAT,    /* slots */
    X86_COUNT_DTLB_HIT,     /* loads that only the second level translates */
    X86_COUNT_DTLB_WALK,    /* loads that walk the page tables */
    X86_COUNT_ITLB_HIT,     /* the same for lines of code */
    X86_COUNT_ITLB_WALK,
    X86_COUNT_TOTALS,

    X86_COUNT_KERNEL = 0,
    X86_COUNT_USER,
    X86_COUNT_DOMAINS,
};

/* The least quarters of a slot that an instruction takes, and a branch */
#define X86_COUNT_INSN_SLOTS    4
#define X86_COUNT_BRANCH_SLOTS  6

/* What things cost, in cycles; see count.c.inc */
enum {
    X86_PRICE_MISPREDICT = 10,
    X86_PRICE_RESTEER = 4,
    X86_PRICE_L1_MISS = 8,
    X86_PRICE_LLC_MISS = 30,
    X86_PRICE_WALK = 6,         /* a part of the price of the L1 miss */
    X86_PRICE_CLEAR = 20,
    X86_PRICE_LOOP = 6,
    X86_PRICE_DIVIDE = 10,
    X86_PRICE_PAUSE = 30,
};

/*
 * In quarters of a slot: retiring (for a call, besides the instruction),
 * bandwidth, and latency of an indirect branch
 */
enum {
    X86_PRICE_INSN = 4,
    X86_PRICE_CALL = 4,
    X86_PRICE_HEAVY = 16,
    X86_PRICE_COND = 2,
    X86_PRICE_BRANCH = 4,
    X86_PRICE_INDIRECT = 4,
};

/*
 * The fixed price of a conditional branch in mispredicts, in quarters; the
 * precise model knows which ones are mispredicted instead.
 */
static inline unsigned x86_pmu_price_of_cond(unsigned width, bool precise)
{
    return precise ? 0 : 4 * width * X86_PRICE_MISPREDICT / 64;
}

extern const InsnCountOps x86_insn_count_ops;

/* In pmu-migration.c, for all accelerators */
extern const VMStateDescription vmstate_x86_msr_fixed_ctr3;
extern const VMStateDescription vmstate_x86_msr_perf_metrics;

#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)

bool x86_pmu_exists(X86CPU *cpu);

/* Issue slots per cycle; 0: no PMU */
unsigned x86_pmu_width(CPUX86State *env);

/* Does translated code look things up in the precise model? */
bool x86_pmu_is_precise(CPUX86State *env);

/*
 * Features that pmu=on can offer, and those that it turns on by itself.
 * x86_pmu_realize() creates the PMU if this CPU can have one; it returns false,
 * with an error, if properties contradict each other or those of other CPUs.
 */
uint64_t x86_pmu_supported_features(X86CPU *cpu, FeatureWord w);
void x86_pmu_expand_features(X86CPU *cpu);
void x86_pmu_class_init(ObjectClass *oc);
bool x86_pmu_realize(X86CPU *cpu, Error **errp);
void x86_pmu_unrealize(X86CPU *cpu);
void x86_pmu_cpuid(X86CPU *cpu, uint32_t *eax, uint32_t *ebx,
                   uint32_t *ecx, uint32_t *edx);

/*
 * Life cycle: INIT is a reset between x86_pmu_init_begin() and
 * x86_pmu_init_end(), which keeps the PMU.
 */
void x86_pmu_reset(X86CPU *cpu);
void x86_pmu_init_begin(X86CPU *cpu);
void x86_pmu_init_end(X86CPU *cpu);

/*
 * Migration: x86_pmu_pre_save() brings all registers up to date,
 * x86_pmu_post_load() starts to count from what has been loaded. It returns
 * -EINVAL, with a report, if the stream has no PMU and this CPU has one.
 */
void x86_pmu_pre_save(X86CPU *cpu);
int x86_pmu_post_load(X86CPU *cpu);
extern const VMStateDescription vmstate_x86_pmu_setup;
extern const VMStateDescription vmstate_x86_pmu;

/*
 * The registers of RDMSR and WRMSR, and RDPMC after the test of the privilege:
 * false if it is not the PMU's. Raise #GP if it is wrong. @ra is GETPC() of the
 * helper.
 */
bool x86_pmu_rdmsr(CPUX86State *env, uintptr_t ra);
bool x86_pmu_wrmsr(CPUX86State *env, uint64_t val, uintptr_t ra);
bool x86_pmu_rdpmc(CPUX86State *env, uintptr_t ra);

/*
 * An interrupt or exception is raised. @is_int: it is INT n, which has counted
 * already. If it is not, and an INT n is being delivered, that has failed: take
 * its counts back. So does x86_pmu_vmexit(), if the virtual machine exits
 * before INT n has been delivered.
 */
void x86_pmu_raise(CPUX86State *env, bool is_int);
void x86_pmu_vmexit(CPUX86State *env, uint64_t exit_code);

#else

static inline bool x86_pmu_exists(X86CPU *cpu)
{
    return false;
}

static inline uint64_t x86_pmu_supported_features(X86CPU *cpu, FeatureWord w)
{
    return 0;
}

static inline void x86_pmu_expand_features(X86CPU *cpu)
{
}

static inline void x86_pmu_class_init(ObjectClass *oc)
{
}

static inline void x86_pmu_unrealize(X86CPU *cpu)
{
}

static inline void x86_pmu_cpuid(X86CPU *cpu, uint32_t *eax, uint32_t *ebx,
                                 uint32_t *ecx, uint32_t *edx)
{
}

static inline void x86_pmu_reset(X86CPU *cpu)
{
}

static inline void x86_pmu_init_begin(X86CPU *cpu)
{
}

static inline void x86_pmu_init_end(X86CPU *cpu)
{
}

static inline void x86_pmu_pre_save(X86CPU *cpu)
{
}

static inline int x86_pmu_post_load(X86CPU *cpu)
{
    return 0;
}

static inline void x86_pmu_raise(CPUX86State *env, bool is_int)
{
}

static inline bool x86_pmu_rdpmc(CPUX86State *env, uintptr_t ra)
{
    return false;
}

#endif
#endif
