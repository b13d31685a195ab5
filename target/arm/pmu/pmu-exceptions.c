/*
 * Arm PMUv3: events that count exceptions
 *
 * An exception counts at the exception level that it is taken from, as the
 * instruction before it does. A return from an exception counts at the level
 * that executes it, whether it is legal or not. (Our decision: the Arm ARM
 * leaves the levels open.) A call of the firmware counts, also if QEMU is the
 * firmware (PSCI). A semihosting call does not.
 *
 * Most events count only exceptions that are taken *locally*: to EL1, to the
 * level that the exception comes from, or, from EL0 of a host at EL2, to EL2.
 * All other exceptions are *traps*, which have events of their own.
 *
 * EXC_PABORT and EXC_DABORT follow the exception's name in the state to which
 * it is taken. AArch32 takes BKPT, breakpoints, and watchpoints as aborts. In
 * AArch64 they have exception classes of their own, and so belong to EXC_UNDEF,
 * "other synchronous".
 *
 * Source: Arm ARM (DDI 0487), "Common event numbers", EXC_*; "Prefetch Abort
 * exceptions, taken to a PL1 mode", and the same for Data Abort exceptions.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "pmu-internal.h"
#include "syndrome.h"
#include "qemu/main-loop.h"
#include "system/tcg.h"

#define PMU_EXC_EVENT(number, name, exception)                  \
    uint64_t pmu_get_##name(CPUARMState *env)                   \
    {                                                           \
        const ARMPmuCount *c = &env_archcpu(env)->pmu_count;    \
                                                                \
        return c->exceptions[PMU_EXC_##exception];              \
    }
#include "pmu-events.h.inc"

static bool pmu_exception_is_local(CPUARMState *env)
{
    unsigned from = arm_current_el(env), to = env->exception.target_el;

    if (from == 0 && to == 3 && arm_is_secure(env) &&
        !arm_el_is_aa64(env, 3)) {
        /*
         * PL1 of the Secure state is EL3 there. That includes interrupts which
         * SCR routes to Monitor mode, and which are not taken locally.
         */
        return true;
    }
    return to == MAX(from, 1) ||
           (from == 0 && to == 2 && (arm_hcr_el2_eff(env) & HCR_TGE));
}

/*
 * Is EXCP_*_ABORT or EXCP_BKPT an abort, rather than an exception of AArch64
 * for breakpoints, watchpoints, BRK, or BKPT?
 */
static bool pmu_exception_is_abort(CPUARMState *env)
{
    if (!arm_el_is_aa64(env, env->exception.target_el)) {
        return true;
    }
    switch (syn_get_ec(env->exception.syndrome)) {
    case EC_INSNABORT:
    case EC_INSNABORT_SAME_EL:
    case EC_DATAABORT:
    case EC_DATAABORT_SAME_EL:
        return true;
    default:
        return false;
    }
}

static ARMPmuException pmu_exception_kind(CPUARMState *env, int index)
{
    bool local = pmu_exception_is_local(env);

    switch (index) {
    case EXCP_SWI:
        return local ? PMU_EXC_SVC : PMU_EXC_TRAP_OTHER;
    case EXCP_HVC:
        return PMU_EXC_HVC;
    case EXCP_SMC:
        return PMU_EXC_SMC;
    case EXCP_IRQ:
    case EXCP_VIRQ:
    case EXCP_NMI:
    case EXCP_VINMI:
        return local ? PMU_EXC_IRQ : PMU_EXC_TRAP_IRQ;
    case EXCP_FIQ:
    case EXCP_VFIQ:
    case EXCP_VFNMI:
        return local ? PMU_EXC_FIQ : PMU_EXC_TRAP_FIQ;
    case EXCP_VSERR:
        return local ? PMU_EXC_DABORT : PMU_EXC_TRAP_DABORT;
    case EXCP_BKPT:
    case EXCP_PREFETCH_ABORT:
        if (pmu_exception_is_abort(env)) {
            return local ? PMU_EXC_PABORT : PMU_EXC_TRAP_PABORT;
        }
        break;
    case EXCP_DATA_ABORT:
        if (pmu_exception_is_abort(env)) {
            return local ? PMU_EXC_DABORT : PMU_EXC_TRAP_DABORT;
        }
        break;
    }
    return local ? PMU_EXC_UNDEF : PMU_EXC_TRAP_OTHER;
}

void pmu_count_exception(ARMCPU *cpu)
{
    CPUARMState *env = &cpu->env;
    int index = CPU(cpu)->exception_index;

    g_assert(bql_locked());
    if (index == EXCP_SEMIHOST) {
        return;
    }
    cpu->pmu_count.exceptions[PMU_EXC_TAKEN]++;
    cpu->pmu_count.exceptions[pmu_exception_kind(env, index)]++;
    if (tcg_enabled() && arm_is_psci_call(cpu, index)) {
        /*
         * QEMU handles the call without a change of exception level, whose
         * hooks detect overflows otherwise. Detect them before the call: it may
         * wait for the interrupt (CPU_SUSPEND).
         */
        pmu_detect_overflows(env);
    }
}

void pmu_count_exception_return(ARMCPU *cpu)
{
    /*
     * HELPER(exception_return) does not hold the BQL for an illegal return.
     * The CPU's next step is then an Illegal Execution state exception, or an
     * interrupt; entry to that detects an overflow.
     */
    BQL_LOCK_GUARD();
    cpu->pmu_count.exceptions[PMU_EXC_RETURN]++;
}
