/*
 * Migration of the PMU registers that QEMU did not have before
 *
 * These two are for all accelerators. The names are those that were proposed
 * for KVM, so that streams can converge.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "cpu.h"
#include "migration/vmstate.h"
#include "tcg/pmu.h"

static bool msr_fixed_ctr3_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->env.msr_fixed_ctr3 != 0;
}

const VMStateDescription vmstate_x86_msr_fixed_ctr3 = {
    .name = "cpu/msr_architectural_pmu/msr_fixed_ctr3",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = msr_fixed_ctr3_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(env.msr_fixed_ctr3, X86CPU),
        VMSTATE_END_OF_LIST()
    }
};

static bool msr_perf_metrics_needed(void *opaque)
{
    X86CPU *cpu = opaque;

    return cpu->env.msr_perf_metrics != 0;
}

const VMStateDescription vmstate_x86_msr_perf_metrics = {
    .name = "cpu/msr_architectural_pmu/msr_perf_metrics",
    .version_id = 1,
    .minimum_version_id = 1,
    .needed = msr_perf_metrics_needed,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(env.msr_perf_metrics, X86CPU),
        VMSTATE_END_OF_LIST()
    }
};
