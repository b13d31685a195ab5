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

uint64_t pmu_topdown_value(const ARMPmuSlots *s, ARMPmuInsnEvent event,
                           const uint64_t *total)
{
    uint64_t taken = total[PMU_LANE_PC_WRITE];
    uint64_t ops = total[PMU_LANE_INST];
    uint64_t frontend = total[PMU_LANE_FRONTEND] + taken +
                        pmu_recovery(taken, s->per_cycle, s->frontend);
    uint64_t backend = total[PMU_LANE_BACKEND] +
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
