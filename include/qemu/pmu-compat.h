/*
 * What differs between the QEMU releases that the PMUs are built in
 *
 * Code uses the names of the newer release.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef QEMU_PMU_COMPAT_H
#define QEMU_PMU_COMPAT_H

#if QEMU_VERSION_MAJOR == 10 && QEMU_VERSION_MINOR == 0

#include "system/cpu-timers.h"

/* What a TypeInfo has for its class_init */
typedef void ClassInitData;

/* Words of the target that each instruction of a block is stored with */
#define INSN_START_WORDS    TARGET_INSN_START_WORDS

/* What a block is found by; not migrated: a copy of the CPU's state */
typedef struct TCGTBCPUState {
    vaddr pc;
    uint32_t flags;
    uint64_t cs_base;
} TCGTBCPUState;

#define GET_TB_CPU_STATE(cpu)                                           \
    ({                                                                  \
        TCGTBCPUState s_;                                               \
                                                                        \
        cpu_get_tb_cpu_state(cpu_env(cpu), &s_.pc, &s_.cs_base,         \
                             &s_.flags);                                \
        s_;                                                             \
    })

/* Does a TCG op load from the guest's memory? */
#define TCG_OP_IS_QEMU_LD(opc) \
    ((opc) == INDEX_op_qemu_ld_i32 || (opc) == INDEX_op_qemu_ld_i64 || \
     (opc) == INDEX_op_qemu_ld_i128)

#else

#include "exec/icount.h"

typedef const void ClassInitData;

#define GET_TB_CPU_STATE(cpu) ((cpu)->cc->tcg_ops->get_tb_cpu_state(cpu))

#define TCG_OP_IS_QEMU_LD(opc) \
    ((opc) == INDEX_op_qemu_ld || (opc) == INDEX_op_qemu_ld2)

#endif

#endif
