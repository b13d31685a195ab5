/*
 * QTest of what POWER CPUs count: see target/ppc/insn-count.h
 *
 * The CPUs of powernv run small programs in TCG, with nothing below them, and
 * counting is switched on and off with their properties for tests. A program
 * begins with start[] and ends with finish[], where the CPU sleeps. The rules:
 *
 *  R1 An instruction counts once if it is executed, loops each time around.
 *  R2 sc and scv have been executed when their interrupt is taken, and so has
 *     an instruction that is traced.
 *  R3 An instruction with an interrupt that returns to it does not count, in
 *     no lane, nor does anything that was translated after it.
 *  R4 It does when it is executed after that.
 *  R5 Counts belong to the domain in which the instruction is executed.
 *  R6 Lanes: all forms of larx and stcx. count when they finish, the latter
 *     also when they do not store, which counts apart; tlbie, but not tlbiel.
 *  R7 Time counts while the CPU is not halted; and apart with CTRL[RUN]. So do
 *     instructions with CTRL[RUN], in each domain.
 *  R8 Nothing moves unless counting is on.
 *  R9 On machines without IMC, LDBAR is a register that only stores.
 *  R10 All counts of a thread that are seen together are of one moment.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "libqtest.h"
#include "insn-count-util.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"

#define CPUS            2
#define RANDOM_CPUS     4
#define CODE_START      0x10            /* where CPUs begin */
#define CODE            0x20000
#define DATA(cpu)       (0x200000 + ((cpu) << 14))
#define DATA_DONE       0
#define DATA_VALUE      8
#define SHARED          0x300000

/* Memory below 1 GiB is mapped 1:1, for all CPUs and their guest */
#define PARTITION_TABLE 0x100000
#define PROCESS_TABLE   0x101000
#define PAGE_DIR        0x102000
#define PAGE_ROOT       0x110000
#define RADIX_HR        (1ULL << 63)
#define RADIX_TREE      (0x40000000000000adULL | PAGE_ROOT)     /* 52 bits */
#define RADIX_DIR       (0x8000000000000009ULL | PAGE_DIR)
#define RADIX_1G        0xc000000000000187ULL                   /* R, C, RWX */

/* x-insn-counts */
enum { INSNS, LARX, STCX, FAIL, TLBIE, LANES };
enum { GUEST, GUEST_PR, HV, HV_PR, DOMAINS };
#define BUSY            (DOMAINS * LANES)
#define RUN             (BUSY + 1)
#define RUN_INSNS       (BUSY + 2)
#define TOTALS          (RUN_INSNS + DOMAINS)

/*
 * A return to problem state sets MSR[EE], whatever SRR1 has, so the decrementer
 * interrupts there. Its 32 bits end after 4 s, even if the host lets a program
 * wait for as long; with LPCR[LD], it is 18 minutes.
 */
static const uint32_t start[] = {
    0x7ffffaa6,     /*     mfspr r31, 1023 */
    0x7bff64e4,     /*     sldi r31, r31, 12 */
    0x3fff0020,     /*     addis r31, r31, 0x20 */
    0x7f8000a6,     /*     mfmsr r28 */
    0x3c600010,     /*     lis r3, 0x10 */
    0x7c7073a6,     /*     mtspr 464, r3 */
    0x3c600052,     /*     lis r3, 0x52 */
    0x60630400,     /*     ori r3, r3, 0x400 */
    0x7c7e4ba6,     /*     mtspr 318, r3 */
    0x3c607fff,     /*     lis r3, 0x7fff */
    0x786345e4,     /*     sldi r3, r3, 8 */
    0x7c7603a6,     /*     mtdec r3 */
    0x3c600002,     /*     lis r3, 2 */
    0x7c6903a6,     /*     mtctr r3 */
    0x4e800420,     /*     bctr */
};

static const uint32_t finish[] = {
    0x3c600010,     /*     lis r3, 0x10 */
    0x7c77d3a6,     /*     mtspr 855, r3 */
    0x38600001,     /*     li r3, 1 */
    0xf87f0000,     /*     std r3, 0(r31) */
    0x7c00003c,     /*     wait */
    0x48000000,     /*     b . */
};

static const uint32_t skip[] = {
    0x7e9a02a6,     /*     mfsrr0 r20 */
    0x3a940004,     /*     addi r20, r20, 4 */
    0x7e9a03a6,     /*     mtsrr0 r20 */
    0x4c000024,     /*     rfid */
};

static const uint32_t hskip[] = {
    0x7e9a4aa6,     /*     mfspr r20, 314 */
    0x3a940004,     /*     addi r20, r20, 4 */
    0x7e9a4ba6,     /*     mtspr 314, r20 */
    0x4c000224,     /*     hrfid */
};

static const uint32_t back[] = {
    0x4c000024,     /*     rfid */
};

static const uint32_t goto_r9[] = {
    0x7d3a03a6,     /*     mtsrr0 r9 */
    0x4c000024,     /*     rfid */
};

static const uint32_t branch_r9[] = {
    0x7d2903a6,     /*     mtctr r9 */
    0x4e800420,     /*     bctr */
};

static const uint32_t fix_r6[] = {
    0x38df0100,     /*     addi r6, r31, 0x100 */
    0x4c000024,     /*     rfid */
};

static const uint32_t vector_scv[] = {
    0x4c0000a4,     /*     rfscv */
};

static const uint32_t decrementer[] = {
    0x3ab50001,     /*     addi r21, r21, 1 */
    0x3ec00001,     /*     lis r22, 1 */
    0x7ed603a6,     /*     mtdec r22 */
    0x4c000024,     /*     rfid */
};

static const uint32_t decrementer_off[] = {
    0x3ec07fff,     /*     lis r22, 0x7fff */
    0x7ed603a6,     /*     mtdec r22 */
    0x4c000024,     /*     rfid */
};

static const uint32_t step[] = {
    0x42400008,     /*     bdz 1f */
    0x4c000024,     /*     rfid */
    0x7f9b03a6,     /* 1:  mtsrr1 r28 */
    0x4c000024,     /*     rfid */
};

static const uint32_t trace_off[] = {
    0x7f9b03a6,     /*     mtsrr1 r28 */
    0x4c000024,     /*     rfid */
};

static const uint32_t ciabr_off[] = {
    0x3ac00000,     /*     li r22, 0 */
    0x7edb2ba6,     /*     mtspr 187, r22 */
    0x4c000024,     /*     rfid */
};

static const uint32_t dawr_off[] = {
    0x3ac00000,     /*     li r22, 0 */
    0x7edc2ba6,     /*     mtspr 188, r22 */
    0x4c000024,     /*     rfid */
};

static const uint32_t straight[] = {
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
};

static const uint32_t loop[] = {
    0x388003e8,     /*     li r4, 1000 */
    0x7c8903a6,     /*     mtctr r4 */
    0x42000000,     /* 1:  bdnz 1b */
};

static const uint32_t long_loop[] = {
    0x3c800003,     /*     lis r4, 3 */
    0x7c8903a6,     /*     mtctr r4 */
    0x38a50001,     /* 1:  addi r5, r5, 1 */
    0x4200fffc,     /*     bdnz 1b */
};

static const uint32_t sc[] = {
    0x60000000,     /*     nop */
    0x44000002,     /*     sc */
    0x60000000,     /*     nop */
};

static const uint32_t scv_on[] = {
    0x38601000,     /*     li r3, 0x1000 */
    0x7c7923a6,     /*     mtspr 153, r3 */
    0x60000000,     /*     nop */
    0x44000001,     /*     scv 0 */
    0x60000000,     /*     nop */
};

static const uint32_t scv_off[] = {
    0x38600000,     /*     li r3, 0 */
    0x7c7923a6,     /*     mtspr 153, r3 */
    0x60000000,     /*     nop */
    0x44000001,     /*     scv 0 */
    0x60000000,     /*     nop */
};

static const uint32_t illegal[] = {
    0x60000000,     /*     nop */
    0x00000000,     /*     .long 0 */
    0x60000000,     /*     nop */
};

static const uint32_t trap_always[] = {
    0x60000000,     /*     nop */
    0x7fe00008,     /*     trap */
    0x60000000,     /*     nop */
};

static const uint32_t trap_if[] = {
    0x38800005,     /*     li r4, 5 */
    0x60000000,     /*     nop */
    0x08840005,     /*     tdeqi r4, 5 */
    0x60000000,     /*     nop */
    0x0d040005,     /*     twgti r4, 5 */
    0x0c240004,     /*     twlgti r4, 4 */
    0x60000000,     /*     nop */
};

static const uint32_t unavailable[] = {
    0x60000000,     /*     nop */
    0xfc22182a,     /*     fadd f1, f2, f3 */
    0x60000000,     /*     nop */
    0x10221800,     /*     vaddubm v1, v2, v3 */
    0x60000000,     /*     nop */
    0xf0221c90,     /*     xxlor vs1, vs2, vs3 */
    0x60000000,     /*     nop */
};

static const uint32_t machine_check[] = {
    0x63831000,     /*     ori r3, r28, 0x1000 */
    0x7c7b03a6,     /*     mtsrr1 r3 */
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d0802a6,     /* 1:  mflr r8 */
    0x38680010,     /*     addi r3, r8, 2f-1b */
    0x7c7a03a6,     /*     mtsrr0 r3 */
    0x4c000024,     /*     rfid */
    0x38c00001,     /* 2:  li r6, 1 */
    0x78c683c6,     /*     sldi r6, r6, 48 */
    0x60000000,     /*     nop */
    0xe8860000,     /*     ld r4, 0(r6) */
    0x60000000,     /*     nop */
};

static const uint32_t alignment[] = {
    0x38df0101,     /*     addi r6, r31, 0x101 */
    0x60000000,     /*     nop */
    0x7c803028,     /*     lwarx r4, 0, r6 */
    0x60000000,     /*     nop */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x60000000,     /*     nop */
};

static const uint32_t storage[] = {
    0x63830030,     /*     ori r3, r28, 0x30 */
    0x7c600164,     /*     mtmsrd r3 */
    0x3cc04000,     /*     lis r6, 0x4000 */
    0x60000000,     /*     nop */
    0xe8860000,     /*     ld r4, 0(r6) */
    0x60000000,     /*     nop */
};

static const uint32_t larx_storage[] = {
    0x63830030,     /*     ori r3, r28, 0x30 */
    0x7c600164,     /*     mtmsrd r3 */
    0x3cc04000,     /*     lis r6, 0x4000 */
    0x60000000,     /*     nop */
    0x7c803028,     /*     lwarx r4, 0, r6 */
    0x60000000,     /*     nop */
};

static const uint32_t fetch[] = {
    0x63830030,     /*     ori r3, r28, 0x30 */
    0x7c600164,     /*     mtmsrd r3 */
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d2802a6,     /* 1:  mflr r9 */
    0x39290018,     /*     addi r9, r9, 2f-1b */
    0x3cc04000,     /*     lis r6, 0x4000 */
    0x7cc903a6,     /*     mtctr r6 */
    0x60000000,     /*     nop */
    0x4e800420,     /*     bctr */
    0x60000000,     /* 2:  nop */
};

static const uint32_t strings[] = {
    0x63830030,     /*     ori r3, r28, 0x30 */
    0x7c600164,     /*     mtmsrd r3 */
    0x3cc04000,     /*     lis r6, 0x4000 */
    0x38c6fff8,     /*     addi r6, r6, -8 */
    0x60000000,     /*     nop */
    0x7d4664aa,     /*     lswi r10, r6, 12 */
    0x3cc04000,     /*     lis r6, 0x4000 */
    0x38c6fff8,     /*     addi r6, r6, -8 */
    0x60000000,     /*     nop */
    0x7d4665aa,     /*     stswi r10, r6, 12 */
    0x60000000,     /*     nop */
};

static const uint32_t fp_enabled[] = {
    0x63832900,     /*     ori r3, r28, 0x2900 */
    0x64630080,     /*     oris r3, r3, 0x80 */
    0x7c600164,     /*     mtmsrd r3 */
    0xfc431828,     /*     fsub f2, f3, f3 */
    0xfdfe158e,     /*     mtfsf 0xff, f2 */
    0xff00004c,     /*     mtfsb1 24 */
    0x388007ff,     /*     li r4, 0x7ff */
    0x7884a2c6,     /*     sldi r4, r4, 52 */
    0x60840001,     /*     ori r4, r4, 1 */
    0xf89f0100,     /*     std r4, 0x100(r31) */
    0xc83f0100,     /*     lfd f1, 0x100(r31) */
    0x60000000,     /*     nop */
    0xfc821024,     /*     fdiv f4, f2, f2 */
    0x60000000,     /*     nop */
    0xf0010918,     /*     xscmpudp cr0, vs1, vs1 */
    0x60000000,     /*     nop */
};

static const uint32_t larx_stcx[] = {
    0x38df0200,     /*     addi r6, r31, 0x200 */
    0x7c803068,     /*     lbarx r4, 0, r6 */
    0x7c80356d,     /*     stbcx. r4, 0, r6 */
    0x7c8030e8,     /*     lharx r4, 0, r6 */
    0x7c8035ad,     /*     sthcx. r4, 0, r6 */
    0x7c803028,     /*     lwarx r4, 0, r6 */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x7c8030a8,     /*     ldarx r4, 0, r6 */
    0x7c8031ad,     /*     stdcx. r4, 0, r6 */
    0x7d403228,     /*     lqarx r10, 0, r6 */
    0x7d40316d,     /*     stqcx. r10, 0, r6 */
};

static const uint32_t stcx_fail[] = {
    0x38df0200,     /*     addi r6, r31, 0x200 */
    0x38ff0240,     /*     addi r7, r31, 0x240 */
    0x38800001,     /*     li r4, 1 */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x7ca03028,     /*     lwarx r5, 0, r6 */
    0x7c80392d,     /*     stwcx. r4, 0, r7 */
    0x7ca03028,     /*     lwarx r5, 0, r6 */
    0x7c8031ad,     /*     stdcx. r4, 0, r6 */
    0x7ca03028,     /*     lwarx r5, 0, r6 */
    0x38850001,     /*     addi r4, r5, 1 */
    0x90860000,     /*     stw r4, 0(r6) */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x7ca03028,     /*     lwarx r5, 0, r6 */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x7d40316d,     /*     stqcx. r10, 0, r6 */
};

static const uint32_t larx_loop[] = {
    0x38df0200,     /*     addi r6, r31, 0x200 */
    0x3c800002,     /*     lis r4, 2 */
    0x7c8903a6,     /*     mtctr r4 */
    0x7ca03028,     /* 1:  lwarx r5, 0, r6 */
    0x7ca0312d,     /*     stwcx. r5, 0, r6 */
    0x4200fff8,     /*     bdnz 1b */
};

static const uint32_t larx_invalid[] = {
    0x60000000,     /*     nop */
    0x7ca03228,     /*     .long 0x7ca03228 */
    0x60000000,     /*     nop */
    0x7ca0316d,     /*     .long 0x7ca0316d */
    0x60000000,     /*     nop */
};

static const uint32_t tlbie[] = {
    0x38800c00,     /*     li r4, 0xc00 */
    0x38a00000,     /*     li r5, 0 */
    0x60000000,     /*     nop */
    0x7ca92264,     /*     tlbie r4, r5, 2, 0, 1 */
    0x60000000,     /*     nop */
    0x7ca92264,     /*     tlbie r4, r5, 2, 0, 1 */
    0x7ca92224,     /*     tlbiel r4, r5, 2, 0, 1 */
    0x60000000,     /*     nop */
};

static const uint32_t tlbie_invalid[] = {
    0x38800000,     /*     li r4, 0 */
    0x38a00000,     /*     li r5, 0 */
    0x60000000,     /*     nop */
    0x7ca92264,     /*     tlbie r4, r5, 2, 0, 1 */
    0x60000000,     /*     nop */
};

static const uint32_t block_ends[] = {
    0x7f800164,     /*     mtmsrd r28 */
    0x4c00012c,     /*     isync */
    0x38600001,     /*     li r3, 1 */
    0x7c7823a6,     /*     mtspr 152, r3 */
    0x7c4004ac,     /*     ptesync */
    0x7c00ffac,     /*     icbi 0, r31 */
    0x7c9602a6,     /*     mfdec r4 */
    0x7c9603a6,     /*     mtdec r4 */
    0x7c8c42a6,     /*     mftb r4 */
    0x38600000,     /*     li r3, 0 */
    0x7c7823a6,     /*     mtspr 152, r3 */
    0x7c7a23a6,     /*     mtspr 154, r3 */
    0x389f0200,     /*     addi r4, r31, 0x200 */
    0x7c0027ec,     /*     dcbz 0, r4 */
};

static const uint32_t sleeping[] = {
    0x38600000,     /*     li r3, 0 */
    0x7c77d3a6,     /*     mtspr 855, r3 */
    0x3c600001,     /*     lis r3, 1 */
    0x7c7603a6,     /*     mtdec r3 */
    0x60000000,     /*     nop */
    0x4c0002e4,     /*     stop */
    0x60000000,     /*     nop */
    0x3c607fff,     /*     lis r3, 0x7fff */
    0x7c7603a6,     /*     mtdec r3 */
};

static const uint32_t sleep_often[] = {
    0x38600000,     /*     li r3, 0 */
    0x7c77d3a6,     /*     mtspr 855, r3 */
    0x38807530,     /*     li r4, 30000 */
    0x7c8903a6,     /*     mtctr r4 */
    0x38600100,     /* 1:  li r3, 256 */
    0x7c7603a6,     /*     mtdec r3 */
    0x4c0002e4,     /*     stop */
    0x4200fff4,     /*     bdnz 1b */
    0x3c607fff,     /*     lis r3, 0x7fff */
    0x7c7603a6,     /*     mtdec r3 */
};

/*
 * On a busy host, the decrementer may interrupt before the wait already; then
 * the next one ends it, so the code counts them.
 */
static const uint32_t sleep_ee[] = {
    0x3aa00000,     /*     li r21, 0 */
    0x38600000,     /*     li r3, 0 */
    0x7c77d3a6,     /*     mtspr 855, r3 */
    0x63838000,     /*     ori r3, r28, 0x8000 */
    0x7c610164,     /*     mtmsrd r3, 1 */
    0x3c600001,     /*     lis r3, 1 */
    0x7c7603a6,     /*     mtdec r3 */
    0x60000000,     /*     nop */
    0x7c00003c,     /*     wait */
    0x60000000,     /*     nop */
    0x7f810164,     /*     mtmsrd r28, 1 */
    0x1eb50004,     /*     mulli r21, r21, 4 */
    0xfabf0008,     /*     std r21, 8(r31) */
};

static const uint32_t sleep_reset[] = {
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d2802a6,     /* 1:  mflr r9 */
    0x39290030,     /*     addi r9, r9, 2f-1b */
    0x3c600010,     /*     lis r3, 0x10 */
    0x7c77d3a6,     /*     mtspr 855, r3 */
    0x7d5e4aa6,     /*     mfspr r10, 318 */
    0x61432000,     /*     ori r3, r10, 0x2000 */
    0x7c7e4ba6,     /*     mtspr 318, r3 */
    0x3c600001,     /*     lis r3, 1 */
    0x7c7603a6,     /*     mtdec r3 */
    0x60000000,     /*     nop */
    0x4c0002e4,     /*     stop */
    0x60000000,     /*     nop */
    0x3c607fff,     /* 2:  lis r3, 0x7fff */
    0x7c7603a6,     /*     mtdec r3 */
    0x7d5e4ba6,     /*     mtspr 318, r10 */
};

static const uint32_t decrements[] = {
    0x3aa00000,     /*     li r21, 0 */
    0x3ae00000,     /*     li r23, 0 */
    0x3c600001,     /*     lis r3, 1 */
    0x7c7603a6,     /*     mtdec r3 */
    0x63838000,     /*     ori r3, r28, 0x8000 */
    0x7c610164,     /*     mtmsrd r3, 1 */
    0x3af70001,     /* 1:  addi r23, r23, 1 */
    0x2c35000a,     /*     cmpdi r21, 10 */
    0x4180fff8,     /*     blt 1b */
    0x7f810164,     /*     mtmsrd r28, 1 */
    0x1eb50004,     /*     mulli r21, r21, 4 */
    0x1ef70003,     /*     mulli r23, r23, 3 */
    0x7eb5ba14,     /*     add r21, r21, r23 */
    0xfabf0008,     /*     std r21, 8(r31) */
};

static const uint32_t single_step[] = {
    0x38600003,     /*     li r3, 3 */
    0x7c6903a6,     /*     mtctr r3 */
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d0802a6,     /* 1:  mflr r8 */
    0x38680018,     /*     addi r3, r8, 2f-1b */
    0x7c7a03a6,     /*     mtsrr0 r3 */
    0x63830400,     /*     ori r3, r28, 0x400 */
    0x7c7b03a6,     /*     mtsrr1 r3 */
    0x4c000024,     /*     rfid */
    0x60000000,     /* 2:  nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
};

static const uint32_t branch_step[] = {
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d0802a6,     /* 1:  mflr r8 */
    0x38680018,     /*     addi r3, r8, 2f-1b */
    0x7c7a03a6,     /*     mtsrr0 r3 */
    0x63830200,     /*     ori r3, r28, 0x200 */
    0x7c7b03a6,     /*     mtsrr1 r3 */
    0x4c000024,     /*     rfid */
    0x60000000,     /* 2:  nop */
    0x48000008,     /*     b 3f */
    0x60000000,     /*     nop */
    0x60000000,     /* 3:  nop */
};

static const uint32_t ciabr[] = {
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d0802a6,     /* 1:  mflr r8 */
    0x38680014,     /*     addi r3, r8, 2f-1b */
    0x60630003,     /*     ori r3, r3, 3 */
    0x7c7b2ba6,     /*     mtspr 187, r3 */
    0x60000000,     /*     nop */
    0x60000000,     /* 2:  nop */
    0x60000000,     /*     nop */
};

static const uint32_t dawr[] = {
    0x38df0300,     /*     addi r6, r31, 0x300 */
    0x7cd42ba6,     /*     mtspr 180, r6 */
    0x3860006f,     /*     li r3, 0x6f */
    0x7c7c2ba6,     /*     mtspr 188, r3 */
    0x60000000,     /*     nop */
    0xe8860000,     /*     ld r4, 0(r6) */
    0x60000000,     /*     nop */
};

static const uint32_t attn[] = {
    0x60000000,     /*     nop */
    0x00000200,     /*     .long 0x200 */
    0x60000000,     /*     nop */
};

static const uint32_t rfebb[] = {
    0x38600003,     /*     li r3, 3 */
    0x7863f064,     /*     sldi r3, r3, 30 */
    0x7c66cba6,     /*     mtspr 806, r3 */
    0x60000000,     /*     nop */
    0x4c000924,     /*     .long 0x4c000924 */
    0x60000000,     /*     nop */
    0x38600000,     /*     li r3, 0 */
    0x7c66cba6,     /*     mtspr 806, r3 */
};

static const uint32_t mmio[] = {
    0x3cc00006,     /*     lis r6, 0x6 */
    0x60c603fc,     /*     ori r6, r6, 0x03fc */
    0x78c607c6,     /*     sldi r6, r6, 32 */
    0x64c60078,     /*     oris r6, r6, 0x78 */
    0x60c60078,     /*     ori r6, r6, 0x78 */
    0x60000000,     /*     nop */
    0x7c8036ea,     /*     ldcix r4, 0, r6 */
    0x60000000,     /*     nop */
    0x7c8036ea,     /*     ldcix r4, 0, r6 */
    0x60000000,     /*     nop */
};

static const uint32_t prefixed[] = {
    0x60000000,     /*     nop */
    0x06000001,     /*     pli r4, 0x12345 */
    0x38802345,
    0x07000000,     /*     pnop */
    0x00000000,
    0x60000000,     /*     nop */
};

static const uint32_t prefix_crosses[] = {
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d2802a6,     /* 1:  mflr r9 */
    0x39290040,     /*     addi r9, r9, 2f-1b */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x06000000,     /*     .long 0x06000000,0x38801234 */
    0x38801234,
    0x60000000,     /* 2:  nop */
};

static const uint32_t hash[] = {
    0x38600001,     /*     li r3, 1 */
    0x7863d146,     /*     sldi r3, r3, 58 */
    0x7c7773a6,     /*     mtspr 471, r3 */
    0x38df0100,     /*     addi r6, r31, 0x100 */
    0x7fe625a5,     /*     hashst r4, -8(r6) */
    0x38840001,     /*     addi r4, r4, 1 */
    0x60000000,     /*     nop */
    0x7fe625e5,     /*     hashchk r4, -8(r6) */
    0x60000000,     /*     nop */
    0x38600000,     /*     li r3, 0 */
    0x7c7773a6,     /*     mtspr 471, r3 */
};

static const uint32_t domains[] = {
    0x38df0200,     /*     addi r6, r31, 0x200 */
    0x429f0005,     /*     bcl 20, 31, 1f */
    0x7d0802a6,     /* 1:  mflr r8 */
    0x39280030,     /*     addi r9, r8, 3f-1b */
    0x3868001c,     /*     addi r3, r8, 2f-1b */
    0x7c7a03a6,     /*     mtsrr0 r3 */
    0x63834030,     /*     ori r3, r28, 0x4030 */
    0x7c7b03a6,     /*     mtsrr1 r3 */
    0x4c000024,     /*     rfid */
    0x7c803028,     /* 2:  lwarx r4, 0, r6 */
    0x60000000,     /*     nop */
    0x7f800164,     /*     mtmsrd r28 */
    0x60000000,     /*     nop */
    0x44000002,     /*     sc */
    0x38600001,     /* 3:  li r3, 1 */
    0x7c7f4ba6,     /*     mtspr 319, r3 */
    0x39280098,     /*     addi r9, r8, 6f-1b */
    0x38680054,     /*     addi r3, r8, 4f-1b */
    0x7c7a4ba6,     /*     mtspr 314, r3 */
    0x7b831840,     /*     rldicl r3, r28, 3, 1 */
    0x7863e802,     /*     rldicl r3, r3, 61, 0 */
    0x7c7b4ba6,     /*     mtspr 315, r3 */
    0x4c000224,     /*     hrfid */
    0x7c803028,     /* 4:  lwarx r4, 0, r6 */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x7c803028,     /*     lwarx r4, 0, r6 */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x3868007c,     /*     addi r3, r8, 5f-1b */
    0x7c7a03a6,     /*     mtsrr0 r3 */
    0x7c6000a6,     /*     mfmsr r3 */
    0x60634030,     /*     ori r3, r3, 0x4030 */
    0x7c7b03a6,     /*     mtsrr1 r3 */
    0x4c000024,     /*     rfid */
    0x60000000,     /* 5:  nop */
    0x60000000,     /*     nop */
    0x7c80312d,     /*     stwcx. r4, 0, r6 */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x60000000,     /*     nop */
    0x44000022,     /*     sc 1 */
    0x38600000,     /* 6:  li r3, 0 */
    0x7c7f4ba6,     /*     mtspr 319, r3 */
};

static const uint32_t contend[] = {
    0x3cc00030,     /*     lis r6, 0x30 */
    0x38802710,     /*     li r4, 10000 */
    0x7c8903a6,     /*     mtctr r4 */
    0x7ca03028,     /* 1:  lwarx r5, 0, r6 */
    0x38a50001,     /*     addi r5, r5, 1 */
    0x7ca0312d,     /*     stwcx. r5, 0, r6 */
    0x40c2fff4,     /*     bne- 1b */
    0x4200fff0,     /*     bdnz 1b */
};

static const uint32_t run_latch[] = {
    0x3c800008,     /*     lis r4, 8 */
    0x7c8903a6,     /*     mtctr r4 */
    0x42000000,     /* 1:  bdnz 1b */
    0x38600001,     /*     li r3, 1 */
    0x7c7823a6,     /*     mtspr 152, r3 */
    0x7c8903a6,     /*     mtctr r4 */
    0x42000000,     /* 2:  bdnz 2b */
    0x38600000,     /*     li r3, 0 */
    0x7c7823a6,     /*     mtspr 152, r3 */
    0x7c8903a6,     /*     mtctr r4 */
    0x42000000,     /* 3:  bdnz 3b */
};

static const uint32_t ldbar[] = {
    0x3c801234,     /*     lis r4, 0x1234 */
    0x7c92d3a6,     /*     mtspr 850, r4 */
    0x7cb2d2a6,     /*     mfspr r5, 850 */
    0xf8bf0008,     /*     std r5, 8(r31) */
};

static const uint32_t endless[] = {
    0x38840001,     /* 1:  addi r4, r4, 1 */
    0x4bfffffc,     /*     b 1b */
};

typedef struct Code {
    const uint32_t *insn;
    size_t n;
} Code;

#define C(x)            { (x), ARRAY_SIZE(x) }

/* What the CPU does at interrupts, unless a case needs something else */
static const struct {
    unsigned at;
    Code code;
} vectors[] = {
    { 0x200, C(skip) },         /* machine check */
    { 0x300, C(skip) },         /* data storage */
    { 0x400, C(goto_r9) },      /* instruction storage */
    { 0x600, C(skip) },         /* alignment */
    { 0x700, C(skip) },         /* program */
    { 0x800, C(skip) },         /* floating-point unavailable */
    { 0x900, C(decrementer_off) },
    { 0xc00, C(branch_r9) },    /* system call */
    { 0xd00, C(trace_off) },
    { 0xe40, C(hskip) },        /* hypervisor emulation assistance */
    { 0xf20, C(skip) },         /* vector unavailable */
    { 0xf40, C(skip) },         /* VSX unavailable */
    { 0xf60, C(skip) },         /* facility unavailable */
    { 0x17000, C(vector_scv) },
};

/* What start[] and finish[] count */
#define FRAME           ((uint64_t)ARRAY_SIZE(start) + ARRAY_SIZE(finish) - 1)

static const struct {
    const char *name;
    Code code;
    unsigned at;                /* vector for this case */
    Code vector;
    /* Without start[] and finish[], and what the code puts into DATA_VALUE */
    uint64_t expect[DOMAINS][LANES];
    bool power10;
} exact[] = {
    /* R1 */
    { "straight", C(straight), .expect[HV] = { 3 } },
    { "loop", C(loop), .expect[HV] = { 2 + 1000 } },
    { "long-loop", C(long_loop), .expect[HV] = { 2 + 0x30000 * 2 } },
    { "block-ends", C(block_ends), .expect[HV] = { 14 } },
    { "mmio", C(mmio), .expect[HV] = { 10 } },
    { "prefixed", C(prefixed), .expect[HV] = { 4 }, .power10 = true },
    /* R2: 2, sc, and the handler */
    { "sc", C(sc), 0xc00, C(back), .expect[HV] = { 2 + 1 + 1 } },
    { "scv", C(scv_on), .expect[HV] = { 4 + 1 + 1 } },
    /* R2: handler twice with 2, once with 3 */
    { "single-step", C(single_step), 0xd00, C(step),
      .expect[HV] = { 9 + 4 + 2 * 2 + 3 } },
    { "branch-step", C(branch_step), .expect[HV] = { 7 + 3 + 2 } },
    /* R3: all but one instruction, and the handler */
    { "scv-unavailable", C(scv_off), .expect[HV] = { 4 + 4 } },
    { "illegal", C(illegal), .expect[HV] = { 2 + 4 } },
    { "attn", C(attn), .expect[HV] = { 2 + 4 } },
    { "trap", C(trap_always), .expect[HV] = { 2 + 4 } },
    { "rfebb-invalid", C(rfebb), .expect[HV] = { 7 + 4 } },
    { "machine-check", C(machine_check), .expect[HV] = { 11 + 4 } },
    { "storage", C(storage), .expect[HV] = { 5 + 4 } },
    { "prefix-crosses", C(prefix_crosses), 0x600, C(goto_r9),
      .expect[HV] = { 16 + 2 }, .power10 = true },
    { "tlbie-invalid", C(tlbie_invalid), .expect[HV] = { 4 + 4 } },
    /* R3: it is executed when its breakpoint is off */
    { "ciabr", C(ciabr), 0xd00, C(ciabr_off), .expect[HV] = { 8 + 3 } },
    { "trap-if", C(trap_if), .expect[HV] = { 5 + 2 * 4 } },
    { "unavailable", C(unavailable), .expect[HV] = { 4 + 3 * 4 } },
    { "floating-point", C(fp_enabled), .expect[HV] = { 14 + 2 * 4 } },
    { "hash", C(hash), .expect[HV] = { 10 + 4 }, .power10 = true },
    /* R3, R6: neither counts anywhere */
    { "alignment", C(alignment), .expect[HV] = { 5 + 4, 0, 1, 1 } },
    { "larx-invalid", C(larx_invalid), .expect[HV] = { 3 + 2 * 4 } },
    /* R4: all, and handlers of two instructions */
    { "storage-retried", C(storage), 0x300, C(fix_r6),
      .expect[HV] = { 6 + 2 } },
    { "larx-retried", C(larx_storage), 0x300, C(fix_r6),
      .expect[HV] = { 6 + 2, 1 } },
    { "fetch", C(fetch), .expect[HV] = { 10 + 2 } },
    { "strings-retried", C(strings), 0x300, C(fix_r6),
      .expect[HV] = { 11 + 2 * 2 } },
    { "dawr", C(dawr), 0x300, C(dawr_off), .expect[HV] = { 7 + 3 } },
    /* R1: the CPU sleeps for a while; interrupts with and without EE */
    { "sleep", C(sleeping), .expect[HV] = { 9 } },
    { "sleep-interrupt", C(sleep_ee), 0x900, C(decrementer),
      .expect[HV] = { 13 } },
    { "sleep-reset", C(sleep_reset), 0x100, C(branch_r9),
      .expect[HV] = { 15 + 2 } },
    /* R1: interrupts in a loop; both are counted by the code, too */
    { "decrementer", C(decrements), 0x900, C(decrementer),
      .expect[HV] = { 6 + 5 } },
    /* R6 */
    { "larx-stcx", C(larx_stcx), .expect[HV] = { 11, 5, 5, 0 } },
    { "stcx-fails", C(stcx_fail), .expect[HV] = { 15, 4, 6, 5 } },
    { "larx-loop", C(larx_loop),
      .expect[HV] = { 3 + 0x20000 * 3, 0x20000, 0x20000 } },
    { "tlbie", C(tlbie), .expect[HV] = { 8, [TLBIE] = 2 } },
    /* R5: handlers are skip[], branch_r9[] twice */
    { "domains", C(domains),
      .expect[HV] = { 9 + 9 + 2 + 4 + 2 * 2 }, .expect[HV_PR] = { 4, 1 },
      .expect[GUEST] = { 10, 2, 2 }, .expect[GUEST_PR] = { 7, 0, 1, 1 } },
};

typedef struct Pnv {
    QTestState *qts;
    unsigned cpus;
} Pnv;

static void put_code(QTestState *qts, uint64_t addr, const Code *code)
{
    for (int i = 0; i < code->n; i++) {
        qtest_writel(qts, addr + 4 * i, code->insn[i]);
    }
}

static char *cpu_path(unsigned cpu)
{
    return g_strdup_printf("/machine/chip[0]/core[%u]/thread[0]", cpu);
}

static void count_cpu(QTestState *qts, unsigned cpu, bool on)
{
    g_autofree char *path = cpu_path(cpu);

    qtest_qom_set_bool(qts, path, "x-insn-count", on);
    g_assert_true(qtest_qom_get_bool(qts, path, "x-insn-count") == on);
}

static void get_counts(QTestState *qts, unsigned cpu, uint64_t *counts)
{
    g_autofree char *path = cpu_path(cpu);
    QDict *rsp = qtest_qmp(qts, "{'execute': 'qom-get', 'arguments':"
                           " {'path': %s, 'property': 'x-insn-counts'}}", path);
    QList *list = qdict_get_qlist(rsp, "return");
    QListEntry *entry;
    unsigned n = 0;

    g_assert(list);
    QLIST_FOREACH_ENTRY(list, entry) {
        g_assert_cmpint(n, <, TOTALS);
        counts[n++] = qnum_get_uint(qobject_to(QNum, qlist_entry_obj(entry)));
    }
    g_assert_cmpint(n, ==, TOTALS);
    qobject_unref(rsp);
}

static Pnv count_init(unsigned cpus, const char *args)
{
    g_autofree char *file = NULL;
    int fd = g_file_open_tmp("ppc-count-XXXXXX", &file, NULL);
    const uint32_t firmware[4] = { };
    Pnv p = { .cpus = cpus };
    QTestState *qts;

    /* This is loaded at each reset: it must not overwrite start[] */
    QEMU_BUILD_BUG_ON(sizeof(firmware) > CODE_START);
    QEMU_BUILD_BUG_ON(CODE_START + sizeof(start) > 0x100);
    g_assert(fd >= 0);
    g_assert_cmpint(write(fd, firmware, sizeof(firmware)), ==,
                    sizeof(firmware));
    close(fd);
    /* To fill a flash of the usual size takes most of the time of the start. */
    qts = qtest_initf("-S -m 1G -smp %u -nodefaults -bios %s "
                      "-global pnv-pnor.size=0x100000 %s", cpus, file, args);
    p.qts = qts;
    unlink(file);

    qtest_writeq(qts, PARTITION_TABLE, RADIX_HR | RADIX_TREE);
    qtest_writeq(qts, PARTITION_TABLE + 8, PROCESS_TABLE);
    qtest_writeq(qts, PARTITION_TABLE + 16, RADIX_HR | RADIX_TREE);
    qtest_writeq(qts, PARTITION_TABLE + 24, PROCESS_TABLE);
    qtest_writeq(qts, PROCESS_TABLE, RADIX_TREE);
    qtest_writeq(qts, PAGE_ROOT, RADIX_DIR);
    qtest_writeq(qts, PAGE_DIR, RADIX_1G);
    return p;
}

static void count_code(const Pnv *p, const Code *code, unsigned at,
                       const Code *vector)
{
    const Code first = C(start), last = C(finish);

    put_code(p->qts, CODE_START, &first);
    for (int i = 0; i < ARRAY_SIZE(vectors); i++) {
        put_code(p->qts, vectors[i].at, &vectors[i].code);
    }
    if (at) {
        put_code(p->qts, at, vector);
    }
    put_code(p->qts, CODE, code);
    put_code(p->qts, CODE + 4 * code->n, &last);
}

/* Stop, and begin from the reset */
static void count_reset(const Pnv *p)
{
    qtest_qmp_assert_success(p->qts, "{'execute': 'stop'}");
    qtest_system_reset(p->qts);
    for (int i = 0; i < p->cpus; i++) {
        qtest_writeq(p->qts, DATA(i) + DATA_DONE, 0);
        qtest_writeq(p->qts, DATA(i) + DATA_VALUE, 0);
    }
    qtest_writeq(p->qts, SHARED, 0);
}

static void count_wait(const char *name, unsigned *waited)
{
    if (++*waited == 320000) {
        g_test_message("%s: does not come to its end", name);
        g_assert_not_reached();
    }
    /* At first without a pause: that keeps QEMU's main loop busy, too */
    if (*waited > 20000) {
        g_usleep(1000);
    }
}

/* Has a CPU executed the wait in finish[], and so stands at what follows? */
static bool count_finished(const Pnv *p, unsigned cpu)
{
    g_autofree char *text = qtest_hmp(p->qts, "info registers -a");
    const char *at = strstr(text, "NIP ");
    uint64_t nip;

    for (unsigned i = 0; i < cpu && at; i++) {
        at = strstr(at + 1, "NIP ");
    }
    g_assert_nonnull(at);
    g_assert_cmpint(sscanf(at, "NIP %" SCNx64, &nip), ==, 1);
    return qtest_readl(p->qts, nip - 4) == finish[ARRAY_SIZE(finish) - 2] &&
           qtest_readl(p->qts, nip) == finish[ARRAY_SIZE(finish) - 1];
}

/* Let all CPUs run the code; what have they counted? */
static void count_run(const Pnv *p, const char *name,
                      uint64_t result[][TOTALS])
{
    uint64_t before[RANDOM_CPUS][TOTALS], last[TOTALS];

    for (int i = 0; i < p->cpus; i++) {
        get_counts(p->qts, i, before[i]);
    }
    qtest_qmp_assert_success(p->qts, "{'execute': 'cont'}");
    for (int i = 0; i < p->cpus; i++) {
        unsigned same = 0, waited = 0;

        while (!qtest_readq(p->qts, DATA(i) + DATA_DONE)) {
            count_wait(name, &waited);
        }
        /* There is one instruction behind that, and then the time ends */
        while (!count_finished(p, i)) {
            count_wait(name, &waited);
        }
        memset(last, 0, sizeof(last));
        while (same < 3) {
            get_counts(p->qts, i, result[i]);
            same = memcmp(last, result[i], sizeof(last)) ? 0 : same + 1;
            memcpy(last, result[i], sizeof(last));
            count_wait(name, &waited);
        }
        for (int t = 0; t < TOTALS; t++) {
            g_assert_cmpuint(result[i][t], >=, before[i][t]);
            result[i][t] -= before[i][t];
        }
        g_assert_cmpuint(result[i][RUN], <=, result[i][BUSY]);
        /* All but the last instruction, which is behind an endless sleep */
        result[i][HV * LANES] -= FRAME;
    }
}

static void count_all(const Pnv *p, bool on)
{
    for (int i = 0; i < p->cpus; i++) {
        count_cpu(p->qts, i, on);
    }
}

static void test_exact(const void *args)
{
    bool power10 = strstr(args, "powernv10");
    Pnv p = count_init(CPUS, args);
    uint64_t result[CPUS][TOTALS];

    count_all(&p, true);
    for (int i = 0; i < ARRAY_SIZE(exact); i++) {
        if (exact[i].power10 && !power10) {
            continue;
        }
        count_reset(&p);
        count_code(&p, &exact[i].code, exact[i].at, &exact[i].vector);

        /* The second time, everything has been translated */
        for (int again = 0; again < 2; again++) {
            count_run(&p, exact[i].name, result);
            for (int c = 0; c < CPUS; c++) {
                result[c][HV * LANES] -= qtest_readq(p.qts, DATA(c) +
                                                     DATA_VALUE);
                for (int t = 0; t < DOMAINS * LANES; t++) {
                    uint64_t expect = exact[i].expect[t / LANES][t % LANES];

                    if (result[c][t] != expect) {
                        g_test_message("%s: CPU %d, domain %d, lane %d: %"
                                       PRId64 " and not %" PRId64,
                                       exact[i].name, c, t / LANES, t % LANES,
                                       result[c][t], expect);
                        g_test_fail();
                    }
                }
            }
            count_reset(&p);
        }
    }
    qtest_quit(p.qts);
}

/* R6: CPUs disturb each other, and what they have stored is what counts. */
static void test_contend(const void *args)
{
    Pnv p = count_init(CPUS, args);
    const Code code = C(contend);
    uint64_t result[CPUS][TOTALS];

    count_all(&p, true);
    count_code(&p, &code, 0, NULL);
    count_reset(&p);
    count_run(&p, "contend", result);
    g_assert_cmpuint(qtest_readq(p.qts, SHARED) >> 32, ==, CPUS * 10000);
    for (int c = 0; c < CPUS; c++) {
        const uint64_t *hv = &result[c][HV * LANES];

        g_assert_cmpuint(hv[LARX], ==, hv[STCX]);
        g_assert_cmpuint(hv[STCX] - hv[FAIL], ==, 10000);
        g_assert_cmpuint(hv[INSNS], ==, 3 + 4 * hv[LARX] + 10000);
    }
    qtest_quit(p.qts);
}

/*
 * R7: An instruction takes 1 ns with -icount shift=0, and only instructions
 * do: not the steps to the next timer that the clock takes while the CPU
 * sleeps, even if the main loop, which the test keeps busy, takes one while the
 * CPU is still about to fall asleep. CTRL is changed behind the instruction
 * that writes it.
 */
static void test_time(const void *args)
{
    Pnv p = count_init(1, args);
    const Code codes[] = { C(run_latch), C(sleeping), C(sleep_often) };
    uint64_t result[CPUS][TOTALS];

    count_all(&p, true);
    for (int i = 0; i < ARRAY_SIZE(codes); i++) {
        count_reset(&p);
        count_code(&p, &codes[i], 0, NULL);
        count_run(&p, "time", result);
        g_assert_cmpuint(result[0][BUSY], ==,
                         FRAME + result[0][HV * LANES + INSNS]);
        g_assert_cmpuint(result[0][RUN], ==, i == 0 ? 0x80000 + 3 : 0);
        for (int d = 0; d < DOMAINS; d++) {
            g_assert_cmpuint(result[0][RUN_INSNS + d], ==,
                             d == HV ? result[0][RUN] : 0);
        }
    }
    qtest_quit(p.qts);
}

/* R8, while CPUs run */
static void test_switch(const void *args)
{
    Pnv p = count_init(CPUS, args);
    const Code code = C(endless);
    uint64_t was[TOTALS], is[TOTALS];

    count_code(&p, &code, 0, NULL);
    count_reset(&p);
    qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    for (int i = 0; i < 10; i++) {
        unsigned cpu = i % CPUS;
        unsigned waited = 0;

        get_counts(p.qts, cpu, was);
        g_usleep(5000);
        get_counts(p.qts, cpu, is);
        g_assert_cmpmem(was, sizeof(was), is, sizeof(is));
        count_cpu(p.qts, cpu, true);
        /* It counts, whether or not it has stopped to in the meantime */
        do {
            count_wait("switch", &waited);
            get_counts(p.qts, cpu, is);
        } while (is[HV * LANES] == was[HV * LANES] || is[BUSY] == was[BUSY]);
        count_cpu(p.qts, cpu, false);
    }
    qtest_quit(p.qts);
}

/* R10: With CTRL[RUN] set, both counts of instructions grow together. */
static void test_moment(const void *args)
{
    static const uint32_t latched[] = {
        0x38600001,     /*     li r3, 1 */
        0x7c7823a6,     /*     mtspr 152, r3 */
        0x38840001,     /* 1:  addi r4, r4, 1 */
        0x4bfffffc,     /*     b 1b */
    };
    Pnv p = count_init(1, args);
    const Code code = C(latched);
    uint64_t first[TOTALS], now[TOTALS];
    unsigned waited = 0;

    count_all(&p, true);
    count_code(&p, &code, 0, NULL);
    count_reset(&p);
    get_counts(p.qts, 0, now);
    qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    do {
        count_wait("moment", &waited);
        get_counts(p.qts, 0, first);
    } while (first[RUN_INSNS + HV] < now[RUN_INSNS + HV] + 1000);
    for (int i = 0; i < 2000; i++) {
        get_counts(p.qts, 0, now);
        g_assert_cmpuint(now[HV * LANES + INSNS] - first[HV * LANES + INSNS],
                         ==, now[RUN_INSNS + HV] - first[RUN_INSNS + HV]);
    }
    g_assert_cmpuint(now[HV * LANES + INSNS], >, first[HV * LANES + INSNS]);
    qtest_quit(p.qts);
}

/* R8: Unless somebody wants it, not one block counts, and no time passes. */
static void test_off(const void *args)
{
    g_autofree char *name = NULL;
    g_autofree char *all = NULL;
    int fd = g_file_open_tmp("ppc-count-XXXXXX", &name, NULL);
    const Code code = C(long_loop);
    uint64_t result[CPUS][TOTALS];
    unsigned counting[2] = { };
    Pnv p;

    g_assert(fd >= 0);
    close(fd);
    all = g_strdup_printf("%s -d exec -D %s", (const char *)args, name);
    p = count_init(CPUS, all);
    count_code(&p, &code, 0, NULL);
    for (int i = 0; i < 6; i++) {
        bool on = i == 2 || i == 5;

        count_reset(&p);
        count_all(&p, on);
        count_run(&p, "off", result);
        for (int c = 0; c < CPUS; c++) {
            g_assert_cmpuint(result[c][HV * LANES], ==,
                             on ? 2 + 2 * 0x30000 : -FRAME);
            g_assert_true(on == (result[c][BUSY] != 0));
        }
        counting[1] = counting[0];
        g_assert_cmpint(insn_count_blocks(name, &counting[0]), >, 0);
        if (on) {
            g_assert_cmpint(counting[0], >, counting[1]);
        } else if (i < 2) {
            g_assert_cmpint(counting[0], ==, 0);
        } else if (i == 4) {
            /* For some time in the third, they go on without being heard */
            g_assert_cmpint(counting[0], ==, counting[1]);
        }
    }
    qtest_quit(p.qts);
    unlink(name);
}

/* R9, while nothing counts and while something does */
static void test_ldbar(const void *args)
{
    Pnv p = count_init(CPUS, args);
    const Code code = C(ldbar);
    uint64_t result[CPUS][TOTALS];

    count_code(&p, &code, 0, NULL);
    for (int on = 0; on < 2; on++) {
        count_reset(&p);
        count_all(&p, on);
        count_run(&p, "ldbar", result);
        for (int c = 0; c < CPUS; c++) {
            g_assert_cmphex(qtest_readq(p.qts, DATA(c) + DATA_VALUE), ==,
                            0x12340000);
            g_assert_cmpuint(result[c][HV * LANES], ==, on ? 4 : -FRAME);
        }
    }
    qtest_quit(p.qts);
}

/* Without TCG, there is nothing to switch on. */
static void test_no_tcg(void)
{
    QTestState *qts = qtest_init("-M powernv9 -m 1G -nodefaults");
    g_autofree char *path = cpu_path(0);
    QDict *error;

    error = qtest_qmp_assert_failure_ref(
        qts, "{'execute': 'qom-set', 'arguments': {'path': %s,"
        " 'property': 'x-insn-count', 'value': true}}", path);
    g_assert_cmpstr(qdict_get_str(error, "desc"), ==,
                    "This CPU does not count");
    qobject_unref(error);
    qtest_quit(qts);
}

#include "ppc-count-random.c.inc"

int main(int argc, char **argv)
{
    static const char *const machines[] = { "powernv9", "powernv10" };
    static const struct {
        const char *name;
        const char *args;
    } modes[] = {
        { "mttcg", "-accel tcg,thread=multi" },
        { "single", "-accel tcg,thread=single" },
        { "one-insn-per-tb", "-accel tcg,one-insn-per-tb=on" },
        { "icount", "-accel tcg -icount shift=0,sleep=off" },
        { "icount-10", "-accel tcg -icount shift=10,sleep=off" },
    };

    g_test_init(&argc, &argv, NULL);

    if (!qtest_has_accel("tcg")) {
        g_test_skip("No TCG accelerator available");
        return 0;
    }

    for (int m = 0; m < ARRAY_SIZE(machines); m++) {
        for (int i = 0; i < ARRAY_SIZE(modes); i++) {
            char *args = g_strdup_printf("-M %s %s", machines[m],
                                         modes[i].args);
            g_autofree char *name = g_strdup_printf("ppc-count/exact/%s/%s",
                                                    machines[m],
                                                    modes[i].name);

            qtest_add_data_func_full(name, args, test_exact, g_free);
            if (i % 2 == m) {
                g_autofree char *random =
                    g_strdup_printf("ppc-count/random/%s/%s", machines[m],
                                    modes[i].name);

                qtest_add_data_func_full(random, g_strdup(args), test_random,
                                         g_free);
            }
            if (m == 0) {
                g_autofree char *two = g_strdup_printf("ppc-count/contend/%s",
                                                       modes[i].name);
                g_autofree char *sw = g_strdup_printf("ppc-count/switch/%s",
                                                      modes[i].name);

                qtest_add_data_func_full(two, g_strdup(args), test_contend,
                                         g_free);
                qtest_add_data_func_full(sw, g_strdup(args), test_switch,
                                         g_free);
            }
        }
    }
    qtest_add_data_func("ppc-count/random/ldbar/mttcg",
                        "-M powernv10,imc=on -m 1280M -accel tcg,thread=multi",
                        test_random);
    qtest_add_data_func("ppc-count/random/ldbar/icount",
                        "-M powernv10,imc=on -m 1280M -accel tcg "
                        "-icount shift=0,sleep=off", test_random);
    qtest_add_data_func("ppc-count/time/powernv9",
                        "-M powernv9 -accel tcg -icount shift=0,sleep=off",
                        test_time);
    qtest_add_data_func("ppc-count/time/lpar-per-core",
                        "-M powernv9,lpar-per-core=on -accel tcg "
                        "-icount shift=0,sleep=off", test_time);
    qtest_add_data_func("ppc-count/time/powernv10",
                        "-M powernv10 -accel tcg -icount shift=0,sleep=off",
                        test_time);
    qtest_add_data_func("ppc-count/ldbar/powernv9",
                        "-M powernv9 -accel tcg", test_ldbar);
    qtest_add_data_func("ppc-count/ldbar/powernv10",
                        "-M powernv10 -accel tcg", test_ldbar);
    qtest_add_data_func("ppc-count/moment",
                        "-M powernv9 -accel tcg,thread=multi", test_moment);
    qtest_add_data_func("ppc-count/off", "-M powernv10 -accel tcg", test_off);
    qtest_add_func("ppc-count/no-tcg", test_no_tcg);

    return g_test_run();
}
