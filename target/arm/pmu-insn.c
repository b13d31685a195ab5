/*
 * Arm PMUv3: the event INST_RETIRED
 *
 * The count is that of the TCG accelerator, see accel/tcg/insn-count.h. It
 * runs only while a counter of this CPU that is enabled at the current
 * exception level uses the event.
 *
 * An instruction counts if counting is on when it starts, so one that changes
 * a counter is counted by what the counter was before, and a read of a
 * counter includes itself. What has an exception that returns to it (UNDEF,
 * BRK, traps, aborts) has not retired; SVC, HVC and SMC have, and so has an
 * AArch32 instruction whose condition fails.
 *
 * Counters are programmed by instructions that are the last of their block,
 * at a change of exception level, and by other threads with the BQL held: the
 * PMU timer, and devices through pmu-ext.c. All of that has the BQL.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "internals.h"
#include "pmu-internal.h"
#include "accel/tcg/insn-count.h"
#include "qemu/main-loop.h"
#include "system/cpu-timers.h"
#include "system/tcg.h"

#if defined(CONFIG_TCG) && !defined(CONFIG_USER_ONLY)

bool pmu_insn_supported(CPUARMState *env)
{
    return insn_count_available();
}

uint64_t pmu_insn_get_count(CPUARMState *env)
{
    return insn_count_read(env_cpu(env));
}

int64_t pmu_insn_ns_per(uint64_t count)
{
    /* pmu_insn_update() sets a deadline */
    return -1;
}

/*
 * Is anything to be counted? If so, @left is how many instructions may pass
 * before an overflow must be looked for. pmevcntr_op_start() sees an overflow
 * when the top bit falls, but only if it has seen it set before.
 */
static bool pmu_insn_in_use(CPUARMState *env, uint64_t count, int64_t *left)
{
    unsigned i, n = pmu_num_counters(env);
    bool in_use = false;

    *left = INSN_COUNT_NEVER;
    for (i = 0; i < n; i++) {
        uint16_t event = env->cp15.c14_pmevtyper[i] & PMXEVTYPER_EVTCOUNT;

        if (event == PMU_INST_RETIRED && pmu_counter_enabled(env, i)) {
            uint64_t top = pmevcntr_is_64_bit(env, i) ? 1ULL << 63 : 1ULL << 31;
            uint64_t value = count - env->cp15.c14_pmevcntr_delta[i];

            in_use = true;
            *left = MIN(*left, MIN(top - (value & (top - 1)), INT64_MAX));
        }
    }
    return in_use;
}

static void pmu_insn_set(CPUState *cs, uint64_t count, bool in_use,
                         int64_t left)
{
    int64_t due[1 << INSN_COUNT_DOMAINS];
    unsigned i;

    insn_count_enable(cs, in_use ? INSN_COUNT_UNITS : 0, true);
    if (in_use) {
        for (i = 0; i < ARRAY_SIZE(due); i++) {
            due[i] = left;
        }
        insn_count_sync(cs, 0);
        insn_count_set_deadlines(cs, 0, due);
        ARM_CPU(cs)->pmu_insn_due = count + left;
    }
}

/* Another thread has asked for pmu_insn_update() */
static void pmu_insn_work(CPUState *cs, run_on_cpu_data asked_at)
{
    ARMCPU *cpu = ARM_CPU(cs);

    if (cpu->pmu_insn_late && !cpu->insn_count.counted) {
        /*
         * With -icount only this CPU has been executing since then, and how
         * much is known. It belongs to the time that the asker has seen.
         */
        cpu->insn_count.total[0][0] += icount_get_raw() - asked_at.target_ptr;
    }
    cpu->pmu_insn_pending = false;
    cpu->pmu_insn_late = false;
    pmu_insn_update(&cpu->env);
}

void pmu_insn_update(CPUARMState *env)
{
    ARMCPU *cpu = env_archcpu(env);
    CPUState *cs = CPU(cpu);
    uint64_t count;
    int64_t left;
    bool in_use;

    if (!insn_count_available() || !arm_feature(env, ARM_FEATURE_PMU)) {
        return;
    }
    count = insn_count_read(cs);
    in_use = pmu_insn_in_use(env, count, &left);
    if (!cs->created || qemu_cpu_is_self(cs)) {
        if (in_use || cpu->insn_count.wanted) {
            pmu_insn_set(cs, count, in_use, left);
        }
    } else if (!cpu->pmu_insn_pending &&
               (in_use != (qatomic_read(&cpu->insn_count.wanted) != 0) ||
                (in_use && (int64_t)(count + left - cpu->pmu_insn_due) < 0))) {
        run_on_cpu_data now = RUN_ON_CPU_NULL;

        cpu->pmu_insn_pending = true;
        if (icount_enabled() && qatomic_read(&cs->running)) {
            cpu->pmu_insn_late = in_use;
            /* This type has 64 bits on all hosts, unlike unsigned long */
            now = RUN_ON_CPU_TARGET_PTR(icount_get_raw());
        }
        async_run_on_cpu(cs, pmu_insn_work, now);
    }
}

static void pmu_insn_deadline(CPUState *cs)
{
    CPUARMState *env = cpu_env(cs);

    BQL_LOCK_GUARD();
    pmu_op_start(env);
    pmu_op_finish(env);
}

const InsnCountOps arm_insn_count_ops = {
    .offset = offsetof(ARMCPU, insn_count),
    /* Where the TLBs of stage 2 and of physical addresses are described */
    .word = INSN_COUNT_WORD_AT(ARMCPU, insn_count, 0x3a0),
    .units = 0,
    .domains = 1,
    .lanes = 1,
    .deadline = pmu_insn_deadline,
};

#elif !defined(CONFIG_USER_ONLY)

bool pmu_insn_supported(CPUARMState *env)
{
    return false;
}

uint64_t pmu_insn_get_count(CPUARMState *env)
{
    g_assert_not_reached();
}

int64_t pmu_insn_ns_per(uint64_t count)
{
    g_assert_not_reached();
}

void pmu_insn_update(CPUARMState *env)
{
}

#endif

uint64_t pmu_pmceid0_read(CPUARMState *env, const ARMCPRegInfo *ri)
{
    uint64_t value = env_archcpu(env)->pmceid0;

    return ri->state == ARM_CP_STATE_AA32 ? (uint32_t)value : value;
}

uint64_t pmu_pmceid0_rawread(CPUARMState *env, const ARMCPRegInfo *ri)
{
    uint64_t value = pmu_pmceid0_read(env, ri);

    if (tcg_enabled() && icount_enabled() != ICOUNT_PRECISE) {
        value &= ~BIT_ULL(PMU_INST_RETIRED);
    }
    return value;
}
