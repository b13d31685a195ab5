/*
 * Arm PMUv3: what differs from the registers of stock QEMU
 *
 * PMCEID0 and PMCEID1 have the events of these files. Registers with a bit for
 * each counter hide those of EL2, see pmu-hpmn.c. PMOVS has the overflows that
 * have happened by now.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "qemu/pmu-compat.h"
#include "qemu/timer.h"
#include "system/tcg.h"
#include "pmu-internal.h"

/* Offset of the 64-bit field; a register of AArch32 is its low half */
#define PMU_FIELD(ri) ((ri)->fieldoffset & ~7)

/* The events of QEMU without these files */
static uint64_t pmu_stock_events(bool pmceid1)
{
    if (pmceid1) {
        return BIT_ULL(0x23 - 0x20) | BIT_ULL(0x24 - 0x20) |
               BIT_ULL(0x3c - 0x20);
    }
    return BIT_ULL(0x00) | BIT_ULL(0x11) |
           (icount_enabled() == ICOUNT_PRECISE ? BIT_ULL(0x08) : 0);
}

static uint64_t pmu_pmceid_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    ARMCPU *cpu = env_archcpu(env);
    uint64_t value = ri->opc2 & 1 ? cpu->pmceid1 : cpu->pmceid0;

    return ri->state == ARM_CP_STATE_AA32 ? (uint32_t)value : value;
}

/*
 * The raw value, which migrates, lacks the events that stock QEMU lacks, so
 * that migration from and to stock QEMU works.
 */
static uint64_t pmu_pmceid_rawread(CPUARMState *env, const ARMCPRegInfo *ri)
{
    uint64_t value = pmu_pmceid_read(env, ri);

    return tcg_enabled() ? value & pmu_stock_events(ri->opc2 & 1) : value;
}

static uint64_t pmu_all_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    return *(uint64_t *)((void *)env + PMU_FIELD(ri));
}

static uint64_t pmu_visible_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    return pmu_all_read(env, ri) & pmu_counter_mask(env);
}

/*
 * The main loop may be late to call the timer for overflows of cycles. Software
 * must see a flag that is due, and must not see it again after clearing it. A
 * timer that is not pending seems to have expired, too, but nothing is due.
 */
static void pmu_detect_due_overflow(CPUARMState *env)
{
    QEMUTimer *timer = env_archcpu(env)->pmu_timer;     /* none in user mode */

    if (timer && timer_pending(timer) &&
        timer_expired(timer, qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL))) {
        pmu_detect_overflows(env);
    }
}

static uint64_t pmu_flags_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    pmu_detect_due_overflow(env);
    return pmu_visible_read(env, ri);
}

static void pmu_flags_set(CPUARMState *env, const ARMCPRegInfo *ri,
                          uint64_t value)
{
    pmu_detect_due_overflow(env);
    env->cp15.c9_pmovsr |= value & pmu_counter_mask(env);
    pmu_update_irq(env);
}

static void pmu_flags_clear(CPUARMState *env, const ARMCPRegInfo *ri,
                            uint64_t value)
{
    pmu_detect_due_overflow(env);
    env->cp15.c9_pmovsr &= ~(value & pmu_counter_mask(env));
    pmu_update_irq(env);
}

static void pmu_adapt_reg(gpointer key, gpointer value, gpointer opaque)
{
    ARMCPRegInfo *ri = value;

    switch (PMU_FIELD(ri)) {
    case offsetof(CPUARMState, cp15.c9_pmcnten):
    case offsetof(CPUARMState, cp15.c9_pminten):
        ri->readfn = pmu_visible_read;
        ri->raw_readfn = pmu_all_read;
        break;
    case offsetof(CPUARMState, cp15.c9_pmovsr):
        ri->readfn = pmu_flags_read;
        ri->raw_readfn = pmu_all_read;
        ri->writefn = g_str_has_prefix(ri->name, "PMOVSSET") ? pmu_flags_set
                                                             : pmu_flags_clear;
        break;
    default:
        if (g_str_has_prefix(ri->name, "PMCEID0") ||
            g_str_has_prefix(ri->name, "PMCEID1")) {
            ri->type &= ~ARM_CP_CONST;
            ri->readfn = pmu_pmceid_read;
            ri->raw_readfn = pmu_pmceid_rawread;
            ri->writefn = arm_cp_write_ignore;
        }
    }
}

void pmu_adapt_regs(ARMCPU *cpu)
{
    g_hash_table_foreach(cpu->cp_regs, pmu_adapt_reg, NULL);
}
