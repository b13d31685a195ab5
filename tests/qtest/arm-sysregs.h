/*
 * Arm system registers and vectors, for tests whose CPUs execute code
 *
 * The registers are as in bits 20:5 of MRS and MSR, for guest_read() and
 * guest_write().
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_QTEST_ARM_SYSREGS_H
#define TESTS_QTEST_ARM_SYSREGS_H

/* Offsets of the vectors */
#define VECTOR_EL1      0x200   /* synchronous exceptions */
#define VECTOR_EL0_64   0x400
#define VECTOR_EL0_32   0x600

/* EL0 with all interrupts masked */
#define SPSR_EL0_64     0x3c0
#define SPSR_EL0_32     0x1d0
#define SPSR_EL0_T32    0x1f0
/* And EL1, with its own stack pointer */
#define SPSR_EL1_64     0x3c5

#define DBGBVR0_EL1     0x100080
#define DBGBCR0_EL1     0x1000a0
#define DBGWVR0_EL1     0x1000c0
#define DBGWCR0_EL1     0x1000e0
#define MDSCR_EL1       0x100240
#define OSLAR_EL1       0x101080
#define ID_AA64PFR1_EL1 0x180420
#define GCSCRE0_EL1     0x182540
#define CPACR_EL1       0x181040
#define TTBR0_EL1       0x182000
#define TCR_EL1         0x182040
#define ESR_EL1         0x185200
#define PMINTENSET_EL1  0x189e20
#define PMINTENCLR_EL1  0x189e40
#define PMMIR_EL1       0x189ec0
#define MAIR_EL1        0x18a200
#define VBAR_EL1        0x18c000
#define CONTEXTIDR_EL1  0x18d020
#define GCSPR_EL0       0x1b2520
#define PMCR_EL0        0x1b9c00
#define PMCNTENSET_EL0  0x1b9c20
#define PMCNTENCLR_EL0  0x1b9c40
#define PMOVSCLR_EL0    0x1b9c60
#define PMSWINC_EL0     0x1b9c80
#define PMSELR_EL0      0x1b9ca0
#define PMCEID0_EL0     0x1b9cc0
#define PMCEID1_EL0     0x1b9ce0
#define PMCCNTR_EL0     0x1b9d00
#define PMXEVTYPER_EL0  0x1b9d20
#define PMXEVCNTR_EL0   0x1b9d40
#define PMUSERENR_EL0   0x1b9e00
#define PMOVSSET_EL0    0x1b9e60
#define PMEVCNTR_EL0(n) (0x1be800 + ((n) << 5))
#define PMEVTYPER_EL0(n) (0x1bec00 + ((n) << 5))
#define PMCCFILTR_EL0   0x1befe0
#define CNTFRQ_EL0      0x1be000
#define CNTVCT_EL0      0x1be040
#define HCR_EL2         0x1c1100
#define MDCR_EL2        0x1c1120
#define HSTR_EL2        0x1c1160
#define VTTBR_EL2       0x1c2100
#define VTCR_EL2        0x1c2140
#define CONTEXTIDR_EL2  0x1cd020
#define CNTHP_CTL_EL2   0x1ce220
#define CNTHV_CTL_EL2   0x1ce320
#define CNTHVS_CTL_EL2  0x1ce420
#define CNTHPS_CTL_EL2  0x1ce520
#define SCR_EL3         0x1e1100
#define MDCR_EL3        0x1e1320
#define VBAR_EL3        0x1ec000
#define CNTPS_CTL_EL1   0x1fe220

#define PMCR_E          0x01
#define PMCR_P          0x02
#define PMCR_D          0x08
#define PMCR_LC         0x40
#define PMCR_LP         0x80

#endif
