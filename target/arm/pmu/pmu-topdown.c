/*
 * Arm PMUv3: issue slots, used and lost
 *
 * TCG has no pipeline. With the CPU property "pmu-topdown", an instruction
 * uses one issue slot and loses more slots at fixed prices: slots that the
 * frontend does not fill, and slots that the backend holds up. The prices
 * depend only on the kind of the instruction and are in count-kinds.c.inc.
 * So the numbers depend only on the code that the guest executes.
 *
 * Taken branches cost more. Each taken branch loses one slot in the frontend,
 * and one in 64 counts as mispredicted: the CPU has executed 16 operations for
 * nothing, and recovers for four cycles.
 *
 * A cycle is as many slots as PMMIR_EL1.SLOTS says, so the cycle counter and
 * CPU_CYCLES follow from that, and stand still while the CPU waits for an
 * interrupt. All slots of a CPU's cycles either have an operation or are
 * stalled: OP_SPEC + STALL_SLOT = SLOTS * CPU_CYCLES, plus the remainder of the
 * division that gives CPU_CYCLES.
 *
 * Source: Arm ARM (DDI 0487), "Common microarchitectural events". The numbers
 * are our decision.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "pmu-internal.h"
#include "cpu-features.h"
#include "migration/vmstate.h"

#define TAKEN_PER_MISPREDICT    64
#define OPS_PER_MISPREDICT      16

/* The most slots of one instruction: its own, its prices, and a taken branch */
#define MOST_SLOTS  (1 + 1 + 2 * PMU_MAX_PRICE + 1 + 1 + 1)

/*
 * Slots of a cycle, and the cycles that the frontend and the backend need to
 * recover from a mispredicted branch. The metrics of Linux's perf assign these
 * cycles to bad speculation, with fixed numbers for each processor. Source:
 * tools/perf/pmu-events/arch/arm64/arm/neoverse-{v1,n2-v2}/metrics.json.
 */
#define MIDR_PROCESSOR  (R_MIDR_EL1_IMPLEMENTER_MASK | R_MIDR_EL1_PARTNUM_MASK)

static const struct {
    uint32_t midr;
    ARMPmuSlots slots;
} pmu_processors[] = {
    { 0x4100d400, { 8, 4, 0 } },    /* Neoverse-V1 */
    { 0x4100d490, { 5, 1, 3 } },    /* Neoverse-N2 */
};

void pmu_topdown_init(ARMCPU *cpu)
{
    unsigned i;

    /* Our decision for all other processors */
    cpu->pmu_count.slots = (ARMPmuSlots) { 4, 4, 0 };
    for (i = 0; i < ARRAY_SIZE(pmu_processors); i++) {
        if (pmu_processors[i].midr == (cpu->midr & MIDR_PROCESSOR)) {
            cpu->pmu_count.slots = pmu_processors[i].slots;
        }
    }
}

bool pmu_topdown_supported(CPUARMState *env)
{
    return env_archcpu(env)->pmu_count.topdown;
}

uint64_t pmu_pmmir(ARMCPU *cpu)
{
    return cpu->pmu_count.slots.per_cycle;
}

static uint64_t pmu_recovery(uint64_t taken, unsigned per_cycle,
                             unsigned cycles)
{
    return taken * per_cycle * cycles / TAKEN_PER_MISPREDICT;
}

/*
 * Counting goes on for a while after the last counter is off, and stops when
 * the host has time for it. What it adds is left out, so that remainders depend
 * on nothing but what counters have seen.
 */
static ARMPmuSlotTotals pmu_slot_totals(const ARMPmuCount *c,
                                        const uint64_t *total)
{
    const ARMPmuSlotTotals *base = &c->slots_base;

    return (ARMPmuSlotTotals) {
        total[PMU_LANE_INST] - base->insns,
        total[PMU_LANE_PC_WRITE] - base->taken,
        total[PMU_LANE_FRONTEND] - base->frontend,
        total[PMU_LANE_BACKEND] - base->backend,
    };
}

void pmu_topdown_switch(ARMPmuCount *c, bool on, const uint64_t *total)
{
    /* Its own inverse */
    if (on != c->slots_on) {
        c->slots_base = pmu_slot_totals(c, total);
        c->slots_on = on;
    }
}

uint64_t pmu_topdown_value(const ARMPmuCount *c, ARMPmuInsnEvent event,
                           const uint64_t *total)
{
    const ARMPmuSlots *s = &c->slots;
    ARMPmuSlotTotals t = c->slots_on ? pmu_slot_totals(c, total)
                                     : c->slots_base;
    /* Negative: lower bounds, soon after the counter was enabled */
    uint64_t taken = MAX((int64_t)t.taken, 0);
    uint64_t ops = MAX((int64_t)t.insns, 0);
    uint64_t frontend = MAX((int64_t)t.frontend, 0) + taken +
                        pmu_recovery(taken, s->per_cycle, s->frontend);
    uint64_t backend = MAX((int64_t)t.backend, 0) +
                       pmu_recovery(taken, s->per_cycle, s->backend);
    uint64_t wrong = taken * OPS_PER_MISPREDICT / TAKEN_PER_MISPREDICT;

    switch (event) {
    case PMU_INSN(OP_RETIRED):
        return ops;
    case PMU_INSN(OP_SPEC):
        return ops + wrong;
    case PMU_INSN(BR_MIS_PRED):
    case PMU_INSN(BR_MIS_PRED_RETIRED):
        return taken / TAKEN_PER_MISPREDICT;
    case PMU_INSN(STALL_SLOT_FRONTEND):
        return frontend;
    case PMU_INSN(STALL_SLOT_BACKEND):
        return backend;
    case PMU_INSN(STALL_SLOT):
        return frontend + backend;
    case PMU_INSN(STALL_FRONTEND):
        return frontend / s->per_cycle;
    case PMU_INSN(STALL_BACKEND):
        return backend / s->per_cycle;
    case PMU_INSN(STALL):
        return (frontend + backend) / s->per_cycle;
    case PMU_INSN(CPU_CYCLES):
        return (ops + wrong + frontend + backend) / s->per_cycle;
    default:
        g_assert_not_reached();
    }
}

uint64_t pmu_topdown_fewest(const ARMPmuSlots *s, ARMPmuInsnEvent event,
                            uint64_t count)
{
    switch (event) {
    case PMU_INSN(OP_RETIRED):
        return count;
    case PMU_INSN(OP_SPEC):
        /* Its own, and that for which it may be the last of the taken ones */
        return DIV_ROUND_UP(count, 2);
    case PMU_INSN(BR_MIS_PRED):
    case PMU_INSN(BR_MIS_PRED_RETIRED):
        return (MIN(count, INT64_MAX / TAKEN_PER_MISPREDICT) - 1) *
               TAKEN_PER_MISPREDICT + 1;
    case PMU_INSN(CPU_CYCLES):
    case PMU_INSN(STALL):
    case PMU_INSN(STALL_BACKEND):
    case PMU_INSN(STALL_FRONTEND):
        return DIV_ROUND_UP(count, MOST_SLOTS / s->per_cycle + 1);
    default:
        return DIV_ROUND_UP(count, MOST_SLOTS);
    }
}

#ifdef CONFIG_TCG

/* What the stream has of a CPU: what its counters have seen */
typedef struct ARMPmuTopdownTmp {
    ARMCPU *parent;         /* not migrated */
    ARMPmuSlotTotals seen;
} ARMPmuTopdownTmp;

/* The totals of a CPU that is stopped, or was loaded */
static void topdown_read(ARMCPU *cpu, uint64_t *total)
{
    insn_count_read(CPU(cpu), PMU_LANE(INST) | PMU_LANE(PC_WRITE) |
                    PMU_LANE(FRONTEND) | PMU_LANE(BACKEND), total);
}

static int topdown_pre_save(void *opaque)
{
    ARMPmuTopdownTmp *t = opaque;
    ARMPmuCount *c = &t->parent->pmu_count;
    uint64_t total[INSN_COUNT_LANES];

    topdown_read(t->parent, total);
    t->seen = c->slots_on ? pmu_slot_totals(c, total) : c->slots_base;
    return 0;
}

/* The registers are loaded next, and take the counts of their events then. */
static int topdown_post_load(void *opaque, int version_id)
{
    ARMPmuTopdownTmp *t = opaque;
    CPUARMState *env = &t->parent->env;
    ARMPmuCount *c = &t->parent->pmu_count;
    uint64_t total[INSN_COUNT_LANES];

    if (!c->topdown) {
        /* arm_cpu_pmu_same_properties() is about to refuse the stream. */
        return 0;
    }
    c->slots_base = t->seen;
    if (c->slots_on) {
        topdown_read(t->parent, total);
        c->slots_base = pmu_slot_totals(c, total);
    }
    memset(c->shown, 0, sizeof(c->shown));
    /* As pmccntr_op_start() leaves it for pmccntr_op_finish() */
    env->cp15.c15_ccnt_delta = pmu_get_CPU_CYCLES(env);
    return 0;
}

static const VMStateDescription vmstate_slot_totals = {
    .name = "cpu/pmu-ext/topdown/totals",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(insns, ARMPmuSlotTotals),
        VMSTATE_UINT64(taken, ARMPmuSlotTotals),
        VMSTATE_UINT64(frontend, ARMPmuSlotTotals),
        VMSTATE_UINT64(backend, ARMPmuSlotTotals),
        VMSTATE_END_OF_LIST()
    }
};

static const VMStateDescription vmstate_topdown_tmp = {
    .name = "cpu/pmu-ext/topdown/tmp",
    .pre_save = topdown_pre_save,
    .post_load = topdown_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_STRUCT(seen, ARMPmuTopdownTmp, 0, vmstate_slot_totals,
                       ARMPmuSlotTotals),
        VMSTATE_END_OF_LIST()
    }
};

static bool topdown_needed(void *opaque)
{
    ARMCPU *cpu = opaque;

    return cpu->pmu_count.topdown;
}

const VMStateDescription vmstate_arm_pmu_topdown = {
    .name = "cpu/pmu-ext/topdown",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = topdown_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_WITH_TMP(ARMCPU, ARMPmuTopdownTmp, vmstate_topdown_tmp),
        VMSTATE_END_OF_LIST()
    }
};

#endif
