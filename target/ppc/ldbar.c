/*
 * LDBAR: where a thread's counters or trace are in memory
 *
 * The CPU only stores the register. The device that posts the counters is
 * outside of the CPU; a hook of the CPU tells it that LDBAR was written.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "qemu/main-loop.h"
#ifdef CONFIG_TCG
#include "exec/helper-proto.h"
#endif

void ppc_store_ldbar(PowerPCCPU *cpu, uint64_t value)
{
    cpu->env.spr[SPR_LDBAR] = value;
    if (cpu->insn_count.ldbar_written) {
        cpu->insn_count.ldbar_written(cpu);
    }
}

#ifdef CONFIG_TCG
void helper_store_ldbar(CPUPPCState *env, target_ulong value)
{
    BQL_LOCK_GUARD();
    ppc_store_ldbar(env_archcpu(env), value);
}
#endif
