/*
 * QTest of what Arm's PMU counts besides INST_RETIRED
 *
 * The CPU runs TCG and calls functions for the test; see guest_call(). While
 * each piece of code runs, all events are counted, as many at a time as there
 * are counters, and each of them must have the value that follows from the
 * code: those that are not listed must be 0. What counts where is in
 * docs/system/arm/pmu-events.rst.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "arm-sysregs.h"
#include "hisi_pmcu-util.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "qobject/qnum.h"

#define COUNTERS        31

#define EL0_CODE        (GUEST_MAILBOX(0) + 0x2000)
#define EL3_ARGS        "-accel tcg -cpu max,pmu-counters=8 -m 64M -M secure=on"

#define CPACR_FP_SVE    0x330000

#define INSN_COUNTERS_MASK  0x12b00014      /* mov w20, #0x7fffffff */
#define INSN_COUNT_ON       0xd51b9c34      /* msr pmcntenset_el0, x20 */
#define INSN_COUNT_OFF      0xd51b9c54      /* msr pmcntenclr_el0, x20 */

/* All events that have a value, and three that nothing can count */
enum {
    LD_RETIRED = 0x06,
    ST_RETIRED = 0x07,
    INST_RETIRED = 0x08,
    EXC_TAKEN = 0x09,
    EXC_RETURN = 0x0a,
    CID_WRITE_RETIRED = 0x0b,
    PC_WRITE_RETIRED = 0x0c,
    BR_IMMED_RETIRED = 0x0d,
    BR_RETURN_RETIRED = 0x0e,
    UNALIGNED_LDST_RETIRED = 0x0f,
    L2D_CACHE = 0x16,
    INST_SPEC = 0x1b,
    TTBR_WRITE_RETIRED = 0x1c,
    BR_RETIRED = 0x21,
    BR_MIS_PRED_RETIRED = 0x22,
    LDREX_SPEC = 0x6c,
    STREX_PASS_SPEC,
    STREX_FAIL_SPEC,
    STREX_SPEC,
    LD_SPEC,
    ST_SPEC,
    LDST_SPEC,
    DP_SPEC,
    ASE_SPEC,
    VFP_SPEC,
    PC_WRITE_SPEC,
    CRYPTO_SPEC,
    BR_IMMED_SPEC,
    BR_RETURN_SPEC,
    BR_INDIRECT_SPEC,
    ISB_SPEC = 0x7c,
    DSB_SPEC,
    DMB_SPEC,
    EXC_UNDEF = 0x81,
    EXC_SVC,
    EXC_PABORT,
    EXC_DABORT,
    EXC_IRQ = 0x86,
    EXC_FIQ,
    EXC_SMC,
    EXC_HVC = 0x8a,
    EXC_TRAP_PABORT,
    EXC_TRAP_DABORT,
    EXC_TRAP_OTHER,
    EXC_TRAP_IRQ,
    EXC_TRAP_FIQ,
    SVE_INST_RETIRED = 0x8002,
    SVE_INST_SPEC = 0x8006,
};

static const uint16_t events[] = {
    LD_RETIRED, ST_RETIRED, INST_RETIRED, EXC_TAKEN, EXC_RETURN,
    CID_WRITE_RETIRED, PC_WRITE_RETIRED, BR_IMMED_RETIRED, BR_RETURN_RETIRED,
    UNALIGNED_LDST_RETIRED, L2D_CACHE, INST_SPEC, TTBR_WRITE_RETIRED,
    BR_RETIRED, BR_MIS_PRED_RETIRED, LDREX_SPEC, STREX_PASS_SPEC,
    STREX_FAIL_SPEC, STREX_SPEC, LD_SPEC, ST_SPEC, LDST_SPEC, DP_SPEC, ASE_SPEC,
    VFP_SPEC, PC_WRITE_SPEC, CRYPTO_SPEC, BR_IMMED_SPEC, BR_RETURN_SPEC,
    BR_INDIRECT_SPEC, ISB_SPEC, DSB_SPEC, DMB_SPEC, EXC_UNDEF, EXC_SVC,
    EXC_PABORT, EXC_DABORT, EXC_IRQ, EXC_FIQ, EXC_SMC, EXC_HVC,
    EXC_TRAP_PABORT, EXC_TRAP_DABORT, EXC_TRAP_OTHER, EXC_TRAP_IRQ,
    EXC_TRAP_FIQ, SVE_INST_RETIRED, SVE_INST_SPEC,
};

/* What "speculatively executed" means for TCG, which speculates nothing */
static const uint16_t same[][2] = {
    { INST_SPEC, INST_RETIRED },
    { LD_SPEC, LD_RETIRED },
    { ST_SPEC, ST_RETIRED },
    { PC_WRITE_SPEC, PC_WRITE_RETIRED },
    { BR_IMMED_SPEC, BR_IMMED_RETIRED },
    { BR_RETURN_SPEC, BR_RETURN_RETIRED },
    { SVE_INST_SPEC, SVE_INST_RETIRED },
};

static const uint32_t vector_skip[] = {
    0xd5384025,     /*     mrs x5, elr_el1 */
    0x910010a5,     /*     add x5, x5, #4 */
    0xd5184025,     /*     msr elr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_to_x9[] = {
    0xd5184029,     /*     msr elr_el1, x9 */
    0xd28078a5,     /*     mov x5, #0x3c5 */
    0xd5184005,     /*     msr spsr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t udf[] = {
    0x00000000,     /*     udf #0 */
};

static const uint32_t smc[] = {
    0xd4000003,     /*     smc #0 */
};

static const uint32_t code_el0[] = {
    0x100000a9,     /*     adr x9, 1f */
    0x91400a64,     /*     add x4, x19, #2, lsl #12 */
    0xd5184024,     /*     msr elr_el1, x4 */
    0xd5184000,     /*     msr spsr_el1, x0 */
    0xd69f03e0,     /*     eret */
    0xd503201f,     /* 1:  nop */
};

static const uint32_t branches[] = {
    0xd2800062,     /*     mov x2, #3 */
    0xf1000442,     /* 1:  subs x2, x2, #1 */
    0x54ffffe1,     /*     b.ne 1b */
    0xb4000042,     /*     cbz x2, 2f */
    0xd503201f,     /*     nop */
    0x37000062,     /* 2:  tbnz x2, #0, 3f */
    0x35000042,     /*     cbnz w2, 3f */
    0x5400002e,     /*     b.al 3f */
    0xaa1e03e4,     /* 3:  mov x4, x30 */
    0x14000002,     /*     b 5f */
    0xd65f03c0,     /* 4:  ret */
    0x97ffffff,     /* 5:  bl 4b */
    0x10ffffc3,     /*     adr x3, 4b */
    0xd63f0060,     /*     blr x3 */
    0x10000043,     /*     adr x3, 6f */
    0xd61f0060,     /*     br x3 */
    0xaa0403fe,     /* 6:  mov x30, x4 */
};

static const uint32_t loads_stores[] = {
    0x91400e63,     /*     add x3, x19, #3, lsl #12 */
    0xf9400064,     /*     ldr x4, [x3] */
    0x39400464,     /*     ldrb w4, [x3, #1] */
    0xb8810464,     /*     ldrsw x4, [x3], #16 */
    0xa9401464,     /*     ldp x4, x5, [x3] */
    0x3dc00060,     /*     ldr q0, [x3] */
    0xf8408064,     /*     ldur x4, [x3, #8] */
    0x18000104,     /*     ldr w4, 1f */
    0xc8dffc64,     /*     ldar x4, [x3] */
    0xf8bfc064,     /*     ldapr x4, [x3] */
    0x4c40a860,     /*     ld1 {v0.4s, v1.4s}, [x3] */
    0x4d40c860,     /*     ld1r {v0.4s}, [x3] */
    0xf9000064,     /*     str x4, [x3] */
    0x38002c64,     /*     strb w4, [x3, #2]! */
    0x7800e464,     /*     strh w4, [x3], #14 */
    0xa9001464,     /* 1:  stp x4, x5, [x3] */
    0x3d800060,     /*     str q0, [x3] */
    0xa8001464,     /*     stnp x4, x5, [x3] */
    0xc89ffc64,     /*     stlr x4, [x3] */
    0xb8004064,     /*     stur w4, [x3, #4] */
    0x0d009060,     /*     st1 {v0.s}[1], [x3] */
    0xf9800060,     /*     prfm pldl1keep, [x3] */
    0xf8a46860,     /*     prfm pldl1keep, [x3, x4] */
    0xf8240065,     /*     ldadd x4, x5, [x3] */
    0xb8e48065,     /*     swpal w4, w5, [x3] */
    0xc8a47c65,     /*     cas x4, x5, [x3] */
    0x48247c66,     /*     casp x4, x5, x6, x7, [x3] */
};

static const uint32_t exclusive[] = {
    0x91400e63,     /*     add x3, x19, #3, lsl #12 */
    0xc85f7c64,     /*     ldxr x4, [x3] */
    0xc8057c64,     /*     stxr w5, x4, [x3] */
    0xc8057c64,     /*     stxr w5, x4, [x3] */
    0x085ffc64,     /*     ldaxrb w4, [x3] */
    0xd5033f5f,     /*     clrex */
    0x0805fc64,     /*     stlxrb w5, w4, [x3] */
    0xc87f1864,     /*     ldxp x4, x6, [x3] */
    0xc8251864,     /*     stxp w5, x4, x6, [x3] */
    0xc85f7c64,     /*     ldxr x4, [x3] */
    0xc81f7c64,     /*     stxr wzr, x4, [x3] */
    0xc81f7c64,     /*     stxr wzr, x4, [x3] */
};

static const uint32_t classes[] = {
    0x8b040062,     /*     add x2, x3, x4 */
    0xd2800025,     /*     movz x5, #1 */
    0x10000006,     /*     adr x6, . */
    0x9ac50ca5,     /*     sdiv x5, x5, x5 */
    0x9b0514a5,     /*     madd x5, x5, x5, x5 */
    0x9a8610a5,     /*     csel x5, x5, x6, ne */
    0xdac000a5,     /*     rbit x5, x5 */
    0x9ac54ca5,     /*     crc32x w5, w5, x5 */
    0x1e622820,     /*     fadd d0, d1, d2 */
    0x9e660005,     /*     fmov x5, d0 */
    0x9e6200a0,     /*     scvtf d0, x5 */
    0x1e212000,     /*     fcmp s0, s1 */
    0x1f020c20,     /*     fmadd s0, s1, s2, s3 */
    0x4ea28420,     /*     add v0.4s, v1.4s, v2.4s */
    0x4e62d420,     /*     fadd v0.2d, v1.2d, v2.2d */
    0x5ee28420,     /*     add d0, d1, d2 */
    0x4e040ca0,     /*     dup v0.4s, w5 */
    0x0e22e020,     /*     pmull v0.8h, v1.8b, v2.8b */
    0x4e284820,     /*     aese v0.16b, v1.16b */
    0x5e024020,     /*     sha256h q0, q1, v2.4s */
    0xd5033fdf,     /*     isb */
    0xd5033f9f,     /*     dsb sy */
    0xd5033a9f,     /*     dsb ishst */
    0xd5033bbf,     /*     dmb ish */
    0xd5033fbf,     /*     dmb sy */
    0xd5033ebf,     /*     dmb st */
    0xd503201f,     /*     nop */
    0xd503203f,     /*     yield */
    0xd53b4205,     /*     mrs x5, nzcv */
    0xd51b4205,     /*     msr nzcv, x5 */
};

static const uint32_t sve[] = {
    0x91400e63,     /*     add x3, x19, #3, lsl #12 */
    0x2518e3e0,     /*     ptrue p0.b */
    0xa400a060,     /*     ld1b { z0.b }, p0/z, [x3] */
    0x04200000,     /*     add z0.b, z0.b, z0.b */
    0xe400e060,     /*     st1b { z0.b }, p0, [x3] */
    0x85804061,     /*     ldr z1, [x3] */
    0x0420e3e4,     /*     cntb x4 */
    0x85c00060,     /*     prfb pldl1keep, p0, [x3] */
};

static const uint32_t context[] = {
    0xd538d024,     /*     mrs x4, contextidr_el1 */
    0xd518d024,     /*     msr contextidr_el1, x4 */
    0xd5382004,     /*     mrs x4, ttbr0_el1 */
    0xd5182004,     /*     msr ttbr0_el1, x4 */
    0xd5382024,     /*     mrs x4, ttbr1_el1 */
    0xd5182024,     /*     msr ttbr1_el1, x4 */
    0xd518201f,     /*     msr ttbr0_el1, xzr */
    0xd518d084,     /*     msr tpidr_el1, x4 */
};

static const uint32_t abort_load[] = {
    0xd2c20006,     /*     mov x6, #0x100000000000 */
    0xf9400264,     /*     ldr x4, [x19] */
    0xf94000c4,     /*     ldr x4, [x6] */
    0xf9400264,     /*     ldr x4, [x19] */
};

static const uint32_t abort_jump[] = {
    0xd2c20006,     /*     mov x6, #0x100000000000 */
    0x10000049,     /*     adr x9, 1f */
    0xd61f00c0,     /*     br x6 */
    0xd503201f,     /* 1:  nop */
};

static const uint32_t illegal_return[] = {
    0x100000e9,     /*     adr x9, 2f */
    0x100000a4,     /*     adr x4, 1f */
    0xd5184024,     /*     msr elr_el1, x4 */
    0xd2807924,     /*     mov x4, #0x3c9 */
    0xd5184004,     /*     msr spsr_el1, x4 */
    0xd69f03e0,     /*     eret */
    0xd503201f,     /* 1:  nop */
    0xd503201f,     /* 2:  nop */
};

static const uint32_t psci_version[] = {
    0x52b08000,     /*     mov w0, #0x84000000 */
    0xd4000002,     /*     hvc #0 */
};

static const uint32_t el0_events[] = {
    0xf9400264,     /*     ldr x4, [x19] */
    0x14000001,     /*     b 1f */
    0xd4000001,     /* 1:  svc #0 */
};

static const uint32_t el0_trap_write[] = {
    0xf9400264,     /*     ldr x4, [x19] */
    0xd518d024,     /*     msr contextidr_el1, x4 */
    0xf9400264,     /*     ldr x4, [x19] */
};

static const uint32_t a32_bkpt[] = {
    0xe1200070,     /*     bkpt #0 */
};

static const uint32_t a32_events[] = {
    0xe28f1c02,     /*     add r1, pc, #0x200 */
    0xe1500000,     /*     cmp r0, r0 */
    0x15912000,     /*     ldrne r2, [r1] */
    0x05912000,     /*     ldreq r2, [r1] */
    0x15812000,     /*     strne r2, [r1] */
    0x05812004,     /*     streq r2, [r1, #4] */
    0xe891000c,     /*     ldm r1, {r2, r3} */
    0x1881000c,     /*     stmne r1, {r2, r3} */
    0xe1c120f0,     /*     strd r2, r3, [r1] */
    0xe1c120d0,     /*     ldrd r2, r3, [r1] */
    0x1a000001,     /*     bne 1f */
    0x0a000000,     /*     beq 1f */
    0xe320f000,     /*     nop */
    0xeb000000,     /* 1:  bl 2f */
    0xea000001,     /*     b 4f */
    0x112fff1e,     /* 2:  bxne lr */
    0x012fff1e,     /*     bxeq lr */
    0xe28f400c,     /* 4:  add r4, pc, #12 */
    0xe5814000,     /*     str r4, [r1] */
    0x1591f000,     /*     ldrne pc, [r1] */
    0xe591f000,     /*     ldr pc, [r1] */
    0xe320f000,     /*     nop */
    0xe1912f9f,     /* 5:  ldrex r2, [r1] */
    0x11813f92,     /*     strexne r3, r2, [r1] */
    0xe1813f92,     /*     strex r3, r2, [r1] */
    0xe1813f92,     /*     strex r3, r2, [r1] */
    0xee300a81,     /*     vadd.f32 s0, s1, s2 */
    0x1e300a81,     /*     vaddne.f32 s0, s1, s2 */
    0xf2220844,     /*     vadd.i32 q0, q1, q2 */
    0xed910b00,     /*     vldr d0, [r1] */
    0xf421078f,     /*     vld1.32 {d0}, [r1] */
    0xf3b00302,     /*     aese.8 q0, q1 */
    0x10020493,     /*     mulne r2, r3, r4 */
    0xe1a0500f,     /*     mov r5, pc */
    0x0285f000,     /*     addeq pc, r5, #0 */
    0xf57ff05f,     /*     dmb sy */
    0xf57ff06f,     /*     isb sy */
    0xef000000,     /*     svc #0 */
};

static const uint16_t thumb_events[] = {
    0xf20f, 0x2100,  /*     add r1, pc, #512 */
    0x468d,          /*     mov sp, r1 */
    0x2300,          /*     movs r3, #0 */
    0x4280,          /*     cmp r0, r0 */
    0xbf05,          /*     ittet eq */
    0x4602,          /*     moveq r2, r0 */
    0x680a,          /*     ldreq r2, [r1] */
    0x680a,          /*     ldrne r2, [r1] */
    0x604a,          /*     streq r2, [r1, #4] */
    0xbf1c,          /*     itt ne */
    0xf8c1, 0x2000,  /*     strne.w r2, [r1] */
    0x4770,          /*     bxne lr */
    0xb103,          /*     cbz r3, 1f */
    0xbf00,          /*     nop */
    0xb913,          /* 1:  cbnz r3, 1f */
    0xd101,          /*     bne 1f */
    0xd000,          /*     beq 1f */
    0xbf00,          /*     nop */
    0xf000, 0xf801,  /* 1:  bl 2f */
    0xe001,          /*     b 3f */
    0xb500,          /* 2:  push {lr} */
    0xbd00,          /*     pop {pc} */
    0x467c,          /* 3:  mov r4, pc */
    0xe8df, 0xf003,  /*     tbb [pc, r3] */
    0x0001,          /*     .short 0x0001 */
    0xe9d1, 0x6700,  /*     ldrd r6, r7, [r1] */
    0xe851, 0x6f00,  /*     ldrex r6, [r1] */
    0xe841, 0x6700,  /*     strex r7, r6, [r1] */
    0xf891, 0xf000,  /*     pld [r1] */
    0xef22, 0x0844,  /*     vadd.i32 q0, q1, q2 */
    0xee31, 0x0b02,  /*     vadd.f64 d0, d1, d2 */
    0xf901, 0x078f,  /*     vst1.32 {d0}, [r1] */
    0xf000, 0x8001,  /*     beq.w 4f */
    0xbf00,          /*     nop */
    0xf3bf, 0x8f4f,  /* 4:  dsb sy */
    0xdf00,          /*     svc #0 */
};

static const uint32_t until_load[] = {
    0xf9400265,     /* 1:  ldr x5, [x19] */
    0xd53b9e64,     /*     mrs x4, pmovsset_el0 */
    0xb4ffffc4,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t until_branch[] = {
    0xd53b9e64,     /* 1:  mrs x4, pmovsset_el0 */
    0xb4ffffe4,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t until_strex[] = {
    0xd5033f5f,     /* 1:  clrex */
    0xc8057e64,     /*     stxr w5, x4, [x19] */
    0x910004c6,     /*     add x6, x6, #1 */
    0xd53b9e64,     /*     mrs x4, pmovsset_el0 */
    0xb4ffff84,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t until_svc[] = {
    0x52800c87,     /*     mov w7, #100 */
    0x710004e7,     /* 1:  subs w7, w7, #1 */
    0x54ffffe1,     /*     b.ne 1b */
    0x52800c87,     /*     mov w7, #100 */
    0xd4000001,     /*     svc #0 */
    0xd53b9e64,     /*     mrs x4, pmovsset_el0 */
    0xb4ffff64,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t until_barrier[] = {
    0x52807d07,     /*     mov w7, #1000 */
    0x710004e7,     /* 1:  subs w7, w7, #1 */
    0x54ffffe1,     /*     b.ne 1b */
    0x52807d07,     /*     mov w7, #1000 */
    0xd5033f9f,     /*     dsb sy */
    0xd53b9e64,     /*     mrs x4, pmovsset_el0 */
    0xb4ffff64,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t vector_return[] = {
    0xd69f03e0,     /*     eret */
};

static const uint32_t work[] = {
    0x91400e63,     /*     add x3, x19, #3, lsl #12 */
    0xf9400064,     /* 1:  ldr x4, [x3] */
    0xf9400065,     /*     ldr x5, [x3] */
    0xf9000065,     /*     str x5, [x3] */
    0x8b0600c6,     /*     add x6, x6, x6 */
    0x1e602800,     /*     fadd d0, d0, d0 */
    0xf1000400,     /*     subs x0, x0, #1 */
    0x54ffff41,     /*     b.ne 1b */
    0xd65f03c0,     /*     ret */
};

typedef struct Count {
    uint16_t event;
    uint16_t count;
} Count;

static const struct {
    const char *name;
    const uint32_t *code;
    size_t n;
    const uint32_t *vector;         /* at all synchronous exceptions */
    const void *el0;                /* what code_el0 calls */
    size_t el0_size;
    uint64_t spsr;                  /* of EL0 */
    /* Without what is the same, and without the instruction that stops it */
    Count expect[24];
} codes[] = {
#define CODE(x)     .code = (x), .n = ARRAY_SIZE(x)
#define EL0(x)      CODE(code_el0), .vector = vector_to_x9, \
                    .el0 = (x), .el0_size = sizeof(x)
/* code_el0 and vector_to_x9 */
#define EL1_INSTS   10
#define EL1_DATA    3
#define EL1_ERETS   2
    {
        "branches", CODE(branches), .expect = {
            { INST_RETIRED, 21 },
            /* b.ne 3 times, cbz, tbnz, cbnz, b.al, b, bl; ret, blr, ret, br */
            { BR_RETIRED, 9 + 4 },
            { BR_IMMED_RETIRED, 9 },
            { BR_INDIRECT_SPEC, 4 },
            { BR_RETURN_RETIRED, 2 },
            /* not the last b.ne, tbnz, cbnz */
            { PC_WRITE_RETIRED, 13 - 3 },
            /* mov, subs 3 times, mov, adr, adr, mov */
            { DP_SPEC, 8 },
        }
    }, {
        "loads-stores", CODE(loads_stores), .expect = {
            /* 11 loads, 9 stores, 4 of both, 2 prefetches, and the add */
            { INST_RETIRED, 11 + 9 + 4 + 2 + 1 },
            { LD_RETIRED, 11 + 4 },
            { ST_RETIRED, 9 + 4 },
            { LDST_SPEC, 11 + 9 + 4 },
            { DP_SPEC, 1 },
        }
    }, {
        "exclusive", CODE(exclusive), .expect = {
            { INST_RETIRED, 12 },
            { LD_RETIRED, 4 },
            { ST_RETIRED, 6 },
            { LDST_SPEC, 10 },
            { LDREX_SPEC, 4 },
            { STREX_SPEC, 6 },
            /*
             * The second stxr of each pair and, after the clrex, stlxrb fail,
             * also if the program does not look at the result
             */
            { STREX_PASS_SPEC, 3 },
            { STREX_FAIL_SPEC, 3 },
            { DP_SPEC, 1 },
        }
    }, {
        "classes", CODE(classes), .expect = {
            { INST_RETIRED, 8 + 5 + 5 + 2 + 6 + 4 },
            { DP_SPEC, 8 },
            { VFP_SPEC, 5 },
            { ASE_SPEC, 5 },
            { CRYPTO_SPEC, 2 },
            { ISB_SPEC, 1 },
            { DSB_SPEC, 2 },
            { DMB_SPEC, 3 },
        }
    }, {
        "sve", CODE(sve), .expect = {
            { INST_RETIRED, 8 },
            { SVE_INST_RETIRED, 7 },
            { LD_RETIRED, 2 },
            { ST_RETIRED, 1 },
            { LDST_SPEC, 3 },
            { DP_SPEC, 1 },
        }
    }, {
        "context", CODE(context), .expect = {
            { INST_RETIRED, 8 },
            { CID_WRITE_RETIRED, 1 },
            { TTBR_WRITE_RETIRED, 3 },
        }
    }, {
        /* What aborts is no load */
        "abort-load", CODE(abort_load), .vector = vector_skip, .expect = {
            { INST_RETIRED, 3 + 4 },
            { LD_RETIRED, 2 },
            { LDST_SPEC, 2 },
            { DP_SPEC, 1 + 1 },
            { PC_WRITE_RETIRED, 1 },
            { EXC_TAKEN, 1 },
            { EXC_DABORT, 1 },
            { EXC_RETURN, 1 },
        }
    }, {
        /* The branch has retired */
        "abort-jump", CODE(abort_jump), .vector = vector_to_x9, .expect = {
            { INST_RETIRED, 4 + 4 },
            { BR_RETIRED, 1 },
            { BR_INDIRECT_SPEC, 1 },
            { PC_WRITE_RETIRED, 1 + 1 },
            { DP_SPEC, 2 + 1 },
            { EXC_TAKEN, 1 },
            { EXC_PABORT, 1 },
            { EXC_RETURN, 1 },
        }
    }, {
        "undef", CODE(udf), .vector = vector_skip, .expect = {
            { INST_RETIRED, 4 },
            { DP_SPEC, 1 },
            { PC_WRITE_RETIRED, 1 },
            { EXC_TAKEN, 1 },
            { EXC_UNDEF, 1 },
            { EXC_RETURN, 1 },
        }
    }, {
        /* There is no EL3, and QEMU's firmware is called by HVC. */
        "smc-undef", CODE(smc), .vector = vector_skip, .expect = {
            { INST_RETIRED, 4 },
            { DP_SPEC, 1 },
            { PC_WRITE_RETIRED, 1 },
            { EXC_TAKEN, 1 },
            { EXC_UNDEF, 1 },
            { EXC_RETURN, 1 },
        }
    }, {
        /* To EL2, from EL1: stays at EL1, where the next instruction faults */
        "illegal-return", CODE(illegal_return), .vector = vector_to_x9,
        .expect = {
            { INST_RETIRED, 7 + 4 },
            { DP_SPEC, 3 + 1 },
            { PC_WRITE_RETIRED, 1 + 1 },
            { EXC_TAKEN, 1 },
            { EXC_UNDEF, 1 },
            { EXC_RETURN, 1 + 1 },
        }
    }, {
        /* QEMU is the firmware, and does not return by ERET */
        "psci", CODE(psci_version), .expect = {
            { INST_RETIRED, 2 },
            { DP_SPEC, 1 },
            { EXC_TAKEN, 1 },
            { EXC_HVC, 1 },
        }
    }, {
        "el0", EL0(el0_events), .spsr = SPSR_EL0_64, .expect = {
            { INST_RETIRED, 3 + EL1_INSTS },
            { LD_RETIRED, 1 },
            { LDST_SPEC, 1 },
            { BR_RETIRED, 1 },
            { BR_IMMED_RETIRED, 1 },
            { PC_WRITE_RETIRED, 1 + EL1_ERETS },
            { DP_SPEC, EL1_DATA },
            { EXC_TAKEN, 1 },
            { EXC_SVC, 1 },
            { EXC_RETURN, EL1_ERETS },
        }
    }, {
        /* EL0 may not write CONTEXTIDR_EL1 */
        "el0-undef", EL0(el0_trap_write), .spsr = SPSR_EL0_64, .expect = {
            { INST_RETIRED, 1 + EL1_INSTS },
            { LD_RETIRED, 1 },
            { LDST_SPEC, 1 },
            { PC_WRITE_RETIRED, EL1_ERETS },
            { DP_SPEC, EL1_DATA },
            { EXC_TAKEN, 1 },
            { EXC_UNDEF, 1 },
            { EXC_RETURN, EL1_ERETS },
        }
    }, {
        /* AArch64 takes BKPT as an exception that is no abort */
        "a32-bkpt", EL0(a32_bkpt), .spsr = SPSR_EL0_32, .expect = {
            { INST_RETIRED, EL1_INSTS },
            { PC_WRITE_RETIRED, EL1_ERETS },
            { DP_SPEC, EL1_DATA },
            { EXC_TAKEN, 1 },
            { EXC_UNDEF, 1 },
            { EXC_RETURN, EL1_ERETS },
        }
    }, {
        /* Instructions whose condition fails count only as branches */
        "a32", EL0(a32_events), .spsr = SPSR_EL0_32, .expect = {
            { INST_RETIRED, 36 + EL1_INSTS },
            /* ldreq, ldm, ldrd, ldr pc, ldrex, vldr, vld1 */
            { LD_RETIRED, 7 },
            /* streq, strd, str, strex, strex */
            { ST_RETIRED, 5 },
            { LDST_SPEC, 12 },
            /* bne, beq, bl, b; bxne, bxeq, ldrne pc, ldr pc, addeq pc */
            { BR_RETIRED, 4 + 5 },
            { BR_IMMED_RETIRED, 4 },
            { BR_INDIRECT_SPEC, 5 },
            { BR_RETURN_RETIRED, 1 },
            { PC_WRITE_RETIRED, 3 + 3 + EL1_ERETS },
            /* add, cmp, add, mov */
            { DP_SPEC, 4 + EL1_DATA },
            { VFP_SPEC, 1 },
            { ASE_SPEC, 1 },
            { CRYPTO_SPEC, 1 },
            { LDREX_SPEC, 1 },
            { STREX_SPEC, 2 },
            { STREX_PASS_SPEC, 1 },
            { STREX_FAIL_SPEC, 1 },
            { DMB_SPEC, 1 },
            { ISB_SPEC, 1 },
            { EXC_TAKEN, 1 },
            { EXC_SVC, 1 },
            { EXC_RETURN, EL1_ERETS },
        }
    }, {
        "t32", EL0(thumb_events), .spsr = SPSR_EL0_T32, .expect = {
            { INST_RETIRED, 32 + EL1_INSTS },
            /* ldreq, pop, tbb, ldrd, ldrex */
            { LD_RETIRED, 5 },
            /* streq, push, strex, vst1 */
            { ST_RETIRED, 4 },
            { LDST_SPEC, 9 },
            /* cbz, cbnz, bne, beq, bl, b, beq.w; bxne, pop, tbb */
            { BR_RETIRED, 7 + 3 },
            { BR_IMMED_RETIRED, 7 },
            { BR_INDIRECT_SPEC, 3 },
            { BR_RETURN_RETIRED, 1 },
            { PC_WRITE_RETIRED, 5 + 2 + EL1_ERETS },
            /* add, mov, movs, cmp, moveq, mov */
            { DP_SPEC, 6 + EL1_DATA },
            { VFP_SPEC, 1 },
            { ASE_SPEC, 1 },
            { LDREX_SPEC, 1 },
            { STREX_SPEC, 1 },
            { STREX_PASS_SPEC, 1 },
            { DSB_SPEC, 1 },
            { EXC_TAKEN, 1 },
            { EXC_SVC, 1 },
            { EXC_RETURN, EL1_ERETS },
        }
    },
};

/* The one of two events that are the same which others are compared with */
static uint16_t canonical(uint16_t event)
{
    for (int i = 0; i < ARRAY_SIZE(same); i++) {
        event = event == same[i][0] ? same[i][1] : event;
    }
    return event;
}

static uint64_t expected(unsigned code, uint16_t event)
{
    event = canonical(event);
    for (int i = 0; i < ARRAY_SIZE(codes[code].expect); i++) {
        const Count *c = &codes[code].expect[i];

        if (c->count && c->event == event) {
            /* The instruction that stops counting counts */
            return c->count + (event == INST_RETIRED);
        }
    }
    return 0;
}

/* The counters whose event may be another one than EV_NULL, a mask */
static uint32_t counters_in_use;

static Pmcu events_init(const char *args)
{
    g_autofree char *all = g_strdup_printf("-cpu max,pmu-counters=%d %s",
                                           COUNTERS, args);
    Pmcu p = guest_init(all);

    guest_write(&p, 0, CPACR_EL1, CPACR_FP_SVE);
    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC | PMCR_LP);
    counters_in_use = UINT32_MAX;
    return p;
}

static void run_code(const Pmcu *p, unsigned code)
{
    uint32_t insns[80];
    size_t n = 0;

    insns[n++] = INSN_COUNTERS_MASK;
    insns[n++] = INSN_COUNT_ON;
    memcpy(&insns[n], codes[code].code, 4 * codes[code].n);
    n += codes[code].n;
    insns[n++] = INSN_COUNT_OFF;
    insns[n++] = INSN_RET;
    guest_call(p, 0, codes[code].spsr, insns, n);
}

/* Count events[from] and so on, one in each counter of @counters (a mask) */
static void count_events(const Pmcu *p, unsigned code, unsigned from,
                         uint32_t counters)
{
    unsigned e = from;

    for (int c = 0; c < COUNTERS; c++) {
        if (counters & (1u << c)) {
            guest_write(p, 0, PMEVTYPER_EL0(c), events[e % ARRAY_SIZE(events)]);
            guest_write(p, 0, PMEVCNTR_EL0(c), 0);
            e++;
        } else if (counters_in_use & (1u << c)) {
            guest_write(p, 0, PMEVTYPER_EL0(c), EV_NULL);
        }
    }
    counters_in_use = counters;
    run_code(p, code);
    e = from;
    for (int c = 0; c < COUNTERS; c++) {
        if (counters & (1u << c)) {
            uint16_t event = events[e % ARRAY_SIZE(events)];
            uint64_t count = guest_read(p, 0, PMEVCNTR_EL0(c));

            if (count != expected(code, event)) {
                g_test_message("%s: event 0x%x is %" PRIu64 " and not %"
                               PRIu64, codes[code].name, event, count,
                               expected(code, event));
                g_test_fail();
            }
            e++;
        }
    }
}

static void put_code(const Pmcu *p, unsigned code)
{
    for (int v = VECTOR_EL1; v <= VECTOR_EL0_32; v += 0x200) {
        if (codes[code].vector) {
            guest_put(p, GUEST_VECTORS(0) + v, codes[code].vector, 4);
        }
    }
    if (codes[code].el0) {
        qtest_memwrite(p->qts, EL0_CODE, codes[code].el0,
                       codes[code].el0_size);
    }
}

static void test_exact(const void *args)
{
    Pmcu p = events_init(args);

    for (int i = 0; i < ARRAY_SIZE(codes); i++) {
        put_code(&p, i);
        /* The last two have everything that the first two have counted. */
        count_events(&p, i, 0, 0x7fffffff);
        count_events(&p, i, ARRAY_SIZE(events) - COUNTERS, 0x7fffffff);
        count_events(&p, i, 0, 0x7fffffff);
    }
    qtest_quit(p.qts);
}

/* Each event alone, and some together: what else counts changes nothing. */
static void test_alone(void)
{
    Pmcu p = events_init("-accel tcg");

    for (int i = 0; i < ARRAY_SIZE(codes); i++) {
        put_code(&p, i);
        for (int e = 0; e < ARRAY_SIZE(events); e++) {
            count_events(&p, i, e, 1);
        }
        count_events(&p, i, i, 0x41);
        count_events(&p, i, 3 * i, 0x40015);
    }
    qtest_quit(p.qts);
}

/* Call a function, with counter 0 counting @event from its first instruction */
static uint64_t guest_until(const Pmcu *p, uint16_t event,
                            const uint32_t *code, size_t n)
{
    uint32_t insns[20];

    g_assert_cmpint(n + 1, <=, ARRAY_SIZE(insns));
    insns[0] = 0xd51bec00;      /* msr pmevtyper0_el0, x0 */
    memcpy(&insns[1], code, 4 * n);
    return guest_call(p, 0, event, insns, n + 1);
}

/*
 * The instruction that overflows a counter of 32 or of 64 bits sets its flag,
 * which the next one reads; and the interrupt. So it does while another counter
 * waits for the first of an event that does not come.
 */
static void test_overflow(const void *args)
{
    static const struct {
        uint16_t event;
        uint16_t after;     /* is counted after the overflow */
        const uint32_t *code;
        size_t n;
    } until[] = {
        { LD_RETIRED, 0, until_load, ARRAY_SIZE(until_load) },
        { LDST_SPEC, 0, until_load, ARRAY_SIZE(until_load) },
        /* CBZ, also when it is not taken */
        { BR_RETIRED, 1, until_branch, ARRAY_SIZE(until_branch) },
        { BR_IMMED_SPEC, 1, until_branch, ARRAY_SIZE(until_branch) },
        { PC_WRITE_RETIRED, 0, until_branch, ARRAY_SIZE(until_branch) },
        { STREX_FAIL_SPEC, 0, until_strex, ARRAY_SIZE(until_strex) },
        { STREX_SPEC, 0, until_strex, ARRAY_SIZE(until_strex) },
        { EXC_SVC, 0, until_svc, ARRAY_SIZE(until_svc) },
        { EXC_RETURN, 0, until_svc, ARRAY_SIZE(until_svc) },
        { DSB_SPEC, 0, until_barrier, ARRAY_SIZE(until_barrier) },
    };
    Pmcu p = events_init(args);
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);
    const uint64_t both = 1U << 31 | 2;

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, vector_return,
              ARRAY_SIZE(vector_return));
    guest_write(&p, 0, PMINTENSET_EL1, 1);
    guest_write(&p, 0, PMCNTENSET_EL0, 1);
    for (int i = 0; i < ARRAY_SIZE(until); i++) {
        /* With PMCR.LP, that is at 2^64. The last two are for it. */
        for (int n = 1; n < 600; n += 149) {
            bool wide = n > 300, waits = n % 2 == 0;
            uint64_t count, mask = wide ? UINT64_MAX : UINT32_MAX;

            guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC |
                        (wide ? PMCR_LP : 0));
            guest_write(&p, 0, PMEVTYPER_EL0(0), EV_NULL);
            guest_write(&p, 0, PMOVSCLR_EL0, 1);
            guest_write(&p, 0, PMEVCNTR_EL0(0), -n & mask);
            guest_write(&p, 0, PMEVTYPER_EL0(1), CRYPTO_SPEC);
            guest_write(&p, 0, PMEVCNTR_EL0(1), mask);
            guest_write(&p, 0, waits ? PMCNTENSET_EL0 : PMCNTENCLR_EL0, 2);
            g_assert_false(qtest_get_irq(p.qts, 0));
            count = guest_until(&p, until[i].event, until[i].code, until[i].n);
            g_test_message("event 0x%x, %d", until[i].event, n);
            g_assert_cmphex(count & mask, ==, until[i].after);
            g_assert_true(qtest_get_irq(p.qts, 0));
            g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 1);
        }
    }

    guest_write(&p, 0, PMCNTENCLR_EL0, 2);

    /* Cycles, which follow the clock: nobody looks when they overflow */
    guest_write(&p, 0, PMEVTYPER_EL0(0), EV_NULL);
    guest_write(&p, 0, PMEVTYPER_EL0(1), EV_CPU_CYCLES);
    guest_write(&p, 0, PMOVSCLR_EL0, UINT32_MAX);
    guest_write(&p, 0, PMEVCNTR_EL0(1), -1000000ULL);
    guest_write(&p, 0, PMINTENSET_EL1, 2);
    g_assert_false(qtest_get_irq(p.qts, 0));
    guest_write(&p, 0, PMCNTENSET_EL0, 2);
    for (int i = 0; !qtest_get_irq(p.qts, 0); i++) {
        g_assert_cmpint(i, <, PATIENCE_MS);
        g_usleep(1000);
    }
    guest_write(&p, 0, PMCNTENCLR_EL0, 2);

    /* In PMCCNTR and in an event counter */
    guest_write(&p, 0, PMOVSCLR_EL0, UINT32_MAX);
    guest_write(&p, 0, PMEVCNTR_EL0(1), -1000000ULL);
    guest_write(&p, 0, PMCCNTR_EL0, -1000000ULL);
    guest_write(&p, 0, PMINTENSET_EL1, both);
    g_assert_false(qtest_get_irq(p.qts, 0));
    guest_write(&p, 0, PMCNTENSET_EL0, both);
    for (int i = 0; guest_read(&p, 0, PMOVSSET_EL0) != both; i++) {
        g_assert_cmpint(i, <, PATIENCE_MS);
        g_usleep(1000);
    }
    g_assert_true(qtest_get_irq(p.qts, 0));
    g_assert_cmpuint(guest_read(&p, 0, PMEVCNTR_EL0(1)), <, 1ULL << 62);
    g_assert_cmpuint(guest_read(&p, 0, PMCCNTR_EL0), <, 1ULL << 62);
    qtest_quit(p.qts);
}

/*
 * However late the host's main loop is: when a counter of cycles has
 * overflowed, software sees the flag, and does not see it again after having
 * cleared it, whether it has looked before or not.
 */
static void test_overflow_flag(const void *args)
{
    static const uint32_t look[] = {
        0xaa0003e9,     /* mov     x9, x0 */
        0x92807cea,     /* mov     x10, #-1000 */
        0xd2b0000b,     /* mov     x11, #1 << 31 */
        0xd53be00e,     /* mrs     x14, cntfrq_el0 */
        0xd284e20f,     /* mov     x15, #10000 */
        0x9acf09ce,     /* udiv    x14, x14, x15: 0.1 ms */
        0xd2800000,     /* mov     x0, #0 */
        0xd51b9c6b,     /* 1: msr  pmovsclr_el0, x11 */
        0xd51b9d0a,     /* msr     pmccntr_el0, x10 */
        0xd53be04c,     /* mrs     x12, cntvct_el0 */
        0xd53be04d,     /* 2: mrs  x13, cntvct_el0 */
        0xcb0c01ad,     /* sub     x13, x13, x12 */
        0xeb0e01bf,     /* cmp     x13, x14 */
        0x54ffffa3,     /* b.lo    2b */
        0x36000089,     /* tbz     w9, #0, 3f */
        0xd53b9e6d,     /* mrs     x13, pmovsset_el0 */
        0xea0b01bf,     /* tst     x13, x11 */
        0x9a801400,     /* cinc    x0, x0, eq: there is no flag */
        0xd51b9c6b,     /* 3: msr  pmovsclr_el0, x11 */
        0xd53be04d,     /* 4: mrs  x13, cntvct_el0 */
        0xcb0c01ad,     /* sub     x13, x13, x12 */
        0xeb0e11bf,     /* cmp     x13, x14, lsl #4 */
        0x54ffffa3,     /* b.lo    4b */
        0xd53b9e6d,     /* mrs     x13, pmovsset_el0 */
        0xea0b01bf,     /* tst     x13, x11 */
        0x54000040,     /* b.eq    5f */
        0x91400400,     /* add     x0, x0, #1 << 12: it is back */
        0xf1000529,     /* 5: subs x9, x9, #1 */
        0x54fffd61,     /* b.ne    1b */
        INSN_RET,
    };
    Pmcu p = events_init(args);
    /* 1.6 ms each; with -icount, all are alike, and slow */
    unsigned turns = strstr(args, "-icount") ? 20 : 600;

    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC);
    guest_write(&p, 0, PMCNTENSET_EL0, 1U << 31);
    g_assert_cmphex(guest_call(&p, 0, turns, look, ARRAY_SIZE(look)), ==, 0);
    qtest_quit(p.qts);
}

/*
 * Counters of cycles overflow in time, wherever they start, while a loop runs
 * that nothing interrupts: with 32 bits, and not with 64 (PMCR.LC and LP). All
 * have one timer: each must also set it alone, by its own width.
 */
static void test_overflow_cycles(void)
{
    static const uint64_t starts[] = {
        0, 1, 0x7fff0000, 0x7fffffff, 0x80000000, 0x80000001, 0xffff0000
    };
    static const struct {
        uint32_t mov;       /* mov w20, what is enabled */
        uint32_t enabled;
        uint64_t wide;
    } set[] = {
        { 0x12800014 /* -1 */, 1U << 31 | 2, 0 },
        { 0x12800014 /* -1 */, 1U << 31 | 2, PMCR_LC | PMCR_LP },
        { 0x52800054 /* 2 */, 2, PMCR_LC },
        { 0x52800054 /* 2 */, 2, PMCR_LP },
        { 0x52b00014 /* 1 << 31 */, 1U << 31, PMCR_LC },
        { 0x52b00014 /* 1 << 31 */, 1U << 31, PMCR_LP },
    };
    uint32_t loop[] = {
        0,
        INSN_COUNT_ON,
        0xf1000400,     /* 1: subs x0, x0, #1 */
        0x54ffffe1,     /* b.ne    1b */
        0xd53b9c60,     /* mrs     x0, pmovsclr_el0 */
        INSN_COUNT_OFF,
        INSN_RET,
    };
    enum { TURN = 2 << 10, ENOUGH = 1 << 20 };  /* ns, which are cycles */
    const uint64_t both = 1U << 31 | 2;
    Pmcu p = events_init("-accel tcg -icount shift=10,sleep=off");
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_write(&p, 0, PMINTENSET_EL1, both);
    guest_write(&p, 0, PMEVTYPER_EL0(1), EV_CPU_CYCLES);
    for (int c = 0; c < ARRAY_SIZE(set); c++) {
        uint64_t narrow = (set[c].wide & PMCR_LC ? 0 : 1U << 31) |
                          (set[c].wide & PMCR_LP ? 0 : 2);

        loop[0] = set[c].mov;
        guest_write(&p, 0, PMCR_EL0, PMCR_E | set[c].wide);
        for (int i = 0; i < 2 * ARRAY_SIZE(starts); i++) {
            bool over = i & 1;
            uint64_t flags = over ? set[c].enabled & narrow : 0;
            uint64_t start = starts[i / 2], left = (1ULL << 32) - start;
            /* The loop ends half way to the overflow, or after it. */
            uint64_t time = over ? left + ENOUGH : left / 2;

            guest_write(&p, 0, PMEVCNTR_EL0(1), start);
            guest_write(&p, 0, PMCCNTR_EL0, start);
            guest_write(&p, 0, PMOVSCLR_EL0, both);
            g_assert_false(qtest_get_irq(p.qts, 0));
            g_test_message("0x%" PRIx64 ", set %d, over %d", start, c, over);
            g_assert_cmphex(guest_call(&p, 0, time / TURN + 1, loop,
                                       ARRAY_SIZE(loop)), ==, flags);
            g_assert_cmpint(qtest_get_irq(p.qts, 0), ==, flags != 0);
        }
    }
    qtest_quit(p.qts);
}

/*
 * A call of the firmware that QEMU is: the instruction after it reads the flag
 * of an overflow, and the interrupt is there.
 */
static void test_overflow_psci(void)
{
    static const struct {
        const char *args;
        uint32_t call;
        uint16_t event;
    } cases[] = {
        { "-accel tcg", 0xd4000002 /* hvc #0 */, EXC_HVC },
        { "-accel tcg -M virtualization=on", 0xd4000003 /* smc #0 */, EXC_SMC },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        const uint32_t code[] = {
            0x52b08000,     /* mov w0, #0x84000000: PSCI_VERSION */
            cases[i].call,
            0xd53b9e60,     /* mrs x0, pmovsset_el0 */
            INSN_RET,
        };
        Pmcu p = events_init(cases[i].args);
        g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

        qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
        guest_write(&p, 0, PMINTENSET_EL1, 3);
        guest_write(&p, 0, PMCNTENSET_EL0, 3);
        guest_write(&p, 0, PMEVTYPER_EL0(0), EXC_TAKEN | FILTER_NSH);
        guest_write(&p, 0, PMEVTYPER_EL0(1), cases[i].event | FILTER_NSH);
        guest_write(&p, 0, PMEVCNTR_EL0(0), UINT64_MAX);
        guest_write(&p, 0, PMEVCNTR_EL0(1), UINT64_MAX);
        g_assert_false(qtest_get_irq(p.qts, 0));
        g_assert_cmphex(guest_call(&p, 0, 0, code, ARRAY_SIZE(code)), ==, 3);
        g_assert_true(qtest_get_irq(p.qts, 0));
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, 0);
        g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(1)), ==, 0);
        qtest_quit(p.qts);
    }
}

/* PMEVTYPER<n>.P and .U: the code at EL0, and what is at EL1 */
static void test_filter(void)
{
    Pmcu p = events_init("-accel tcg");
    unsigned i = ARRAY_SIZE(codes) - 1;
    static const Count user[] = {
        /* all of the test; exceptions count where they come from */
        { LD_RETIRED, 5 }, { BR_RETIRED, 10 }, { PC_WRITE_RETIRED, 7 },
        { DP_SPEC, 6 }, { EXC_SVC, 1 }, { EXC_TAKEN, 1 }, { EXC_RETURN, 0 },
    };
    static const Count kernel[] = {
        { LD_RETIRED, 0 }, { BR_RETIRED, 0 }, { PC_WRITE_RETIRED, EL1_ERETS },
        { DP_SPEC, EL1_DATA }, { EXC_SVC, 0 }, { EXC_TAKEN, 0 },
        { EXC_RETURN, EL1_ERETS },
    };

    g_assert_cmpstr(codes[i].name, ==, "t32");
    put_code(&p, i);
    for (int e = 0; e < ARRAY_SIZE(user); e++) {
        g_assert_cmpint(user[e].event, ==, kernel[e].event);
        guest_write(&p, 0, PMEVTYPER_EL0(2 * e), user[e].event | FILTER_P);
        guest_write(&p, 0, PMEVTYPER_EL0(2 * e + 1), user[e].event | FILTER_U);
        guest_write(&p, 0, PMEVCNTR_EL0(2 * e), 0);
        guest_write(&p, 0, PMEVCNTR_EL0(2 * e + 1), 0);
    }
    run_code(&p, i);
    for (int e = 0; e < ARRAY_SIZE(user); e++) {
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(2 * e)), ==,
                        user[e].count);
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(2 * e + 1)), ==,
                        kernel[e].count);
    }
    qtest_quit(p.qts);
}

/*
 * MDCR_EL2.HPMD and HCCD and PMCR_EL0.DP stop counters at EL2 and nowhere else.
 * HPMD is for counters below HPMN, and with DP for PMCCNTR; HCCD is for PMCCNTR
 * and not for CPU_CYCLES. (Arm ARM, MDCR_EL2 and PMCR_EL0)
 */
static void test_el2_prohibited(void)
{
    enum { HPMN = 4, HPME = 1 << 7, HPMD = 1 << 17, HCCD = 1 << 23, DP = 0x20 };
    static const struct {
        uint64_t pmcr, mdcr;
        bool low, high, cycles; /* which of the counters count at EL2 */
    } cases[] = {
        { 0, 0, true, true, true },
        { DP, 0, true, true, true },
        { 0, HPMD, false, true, true },
        { DP, HPMD, false, true, false },
        { 0, HCCD, true, true, false },
        { 0, HPMD | HCCD, false, true, false },
    };
    static const uint32_t enter[] = {
        0x91400661,     /* add     x1, x19, #0x1000 */
        0xd51cc001,     /* msr     vbar_el2, x1 */
        0xd51c4020,     /* msr     elr_el2, x0 */
        0xd28078a2,     /* mov     x2, #0x3c5 */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        0x12800014,     /* mov     w20, #-1 */
        INSN_COUNT_ON,
        0xd503201f,     /* nop */
        0xd69f03e0,     /* eret */
    };
    static const uint32_t el1[] = {
        0xd503201f,     /* nop */
        0xd503201f,     /* nop */
        0xd503201f,     /* nop */
        0xd4000002,     /* hvc     #0 */
    };
    static const uint32_t leave[] = { INSN_COUNT_OFF, INSN_RET };
    /* The NOP, the ERET, and the MSR that ends it */
    const unsigned at_el1 = ARRAY_SIZE(el1), at_el2 = 3;
    const uint64_t el1_code = GUEST_VECTORS(0) + 0x800;
    /* A cycle is a nanosecond, and so is an instruction. */
    Pmcu p = events_init("-accel tcg -icount shift=0,sleep=off "
                         "-M virtualization=on");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_64, leave, ARRAY_SIZE(leave));
    guest_put(&p, el1_code, el1, ARRAY_SIZE(el1));
    guest_write(&p, 0, HCR_EL2, 1ULL << 31);    /* RW */
    guest_write(&p, 0, PMCCFILTR_EL0, FILTER_NSH);
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        bool low = cases[i].low, high = cases[i].high;
        const struct {
            unsigned counter;
            uint32_t type;
            uint64_t count;
        } rows[] = {
            { 0, INST_RETIRED, at_el1 },
            { 1, INST_RETIRED | FILTER_NSH | FILTER_P, low * at_el2 },
            { 2, EV_CPU_CYCLES | FILTER_NSH | FILTER_P, low * at_el2 },
            { HPMN, INST_RETIRED, at_el1 },
            { HPMN + 1, INST_RETIRED | FILTER_NSH | FILTER_P, high * at_el2 },
        };

        guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC | cases[i].pmcr);
        guest_write(&p, 0, MDCR_EL2, HPMN | HPME | cases[i].mdcr);
        guest_write(&p, 0, PMCCNTR_EL0, 0);
        for (int r = 0; r < ARRAY_SIZE(rows); r++) {
            guest_write(&p, 0, PMEVTYPER_EL0(rows[r].counter), rows[r].type);
            guest_write(&p, 0, PMEVCNTR_EL0(rows[r].counter), 0);
        }
        guest_call(&p, 0, el1_code, enter, ARRAY_SIZE(enter));
        for (int r = 0; r < ARRAY_SIZE(rows); r++) {
            g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(rows[r].counter)),
                            ==, rows[r].count);
        }
        g_assert_cmpint(guest_read(&p, 0, PMCCNTR_EL0), ==,
                        at_el1 + cases[i].cycles * at_el2);
    }
    qtest_quit(p.qts);
}

/*
 * The same at EL3, which is Secure: MDCR_EL3.SPME lets event counters count
 * there, and PMCCNTR with DP; SCCD stops PMCCNTR. With EL2, too: PMCR.E is for
 * the counters below MDCR_EL2.HPMN, and HPME for the others, also in a state
 * where EL2 is disabled. A counter counts at EL3 if M is what P is, whatever
 * the width of EL1 is. (Arm ARM, MDCR_EL3, MDCR_EL2 and PMEVTYPER<n>_EL0)
 */
static void test_el3_prohibited(const void *machine)
{
    enum { SPME = 1 << 17, SCCD = 1 << 23, DP = 0x20, INSTS = 3, HPMN = 4,
           HPME = 1 << 7 };
    /* SCR_EL3: the levels below are not Secure, and they are AArch64 */
    enum { NS = 1 << 0, RW = 1 << 10 };
    static const uint64_t states[] = { 0, NS, RW, NS | RW };
    static const struct {
        uint64_t pmcr, mdcr;
        bool insts, cycles;
    } cases[] = {
        { 0, 0, false, true },
        { DP, 0, false, false },
        { 0, SPME, true, true },
        { DP, SPME, true, true },
        { 0, SPME | SCCD, true, false },
    };
    static const struct {
        uint32_t filter;
        bool counts;
    } filters[] = {
        { 0, true }, { FILTER_P, false }, { FILTER_M, false },
        { FILTER_P | FILTER_M, true },
    };
    static const uint32_t code[] = {
        0x12800014,     /* mov     w20, #-1 */
        INSN_COUNT_ON,
        0xd503201f,     /* nop */
        0xd503201f,     /* nop */
        INSN_COUNT_OFF,
        INSN_RET,
    };
    g_autofree char *args = g_strdup_printf(
        "-accel tcg -icount shift=0,sleep=off -M %s", (const char *)machine);
    const bool el2 = strstr(machine, "virtualization=on");
    Pmcu p = events_init(args);
    const uint64_t scr = guest_read(&p, 0, SCR_EL3);

    for (int s = 0; s < ARRAY_SIZE(states); s++) {
        guest_write(&p, 0, SCR_EL3, (scr & ~(uint64_t)(NS | RW)) | states[s]);
        for (int i = 0; i < ARRAY_SIZE(cases) * ARRAY_SIZE(filters); i++) {
            int c = i % ARRAY_SIZE(cases), f = i / ARRAY_SIZE(cases);
            uint64_t insts = cases[c].insts * filters[f].counts * INSTS;

            guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC | cases[c].pmcr);
            guest_write(&p, 0, MDCR_EL3, cases[c].mdcr);
            if (el2) {
                guest_write(&p, 0, MDCR_EL2, HPMN | (i & 1 ? HPME : 0));
            }
            guest_write(&p, 0, PMEVTYPER_EL0(0),
                        INST_RETIRED | filters[f].filter);
            guest_write(&p, 0, PMEVTYPER_EL0(HPMN),
                        INST_RETIRED | filters[f].filter);
            guest_write(&p, 0, PMEVCNTR_EL0(0), 0);
            guest_write(&p, 0, PMEVCNTR_EL0(HPMN), 0);
            guest_write(&p, 0, PMCCNTR_EL0, 0);
            guest_call(&p, 0, 0, code, ARRAY_SIZE(code));
            g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, insts);
            g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(HPMN)), ==,
                            el2 && !(i & 1) ? 0 : insts);
            g_assert_cmpint(guest_read(&p, 0, PMCCNTR_EL0), ==,
                            cases[c].cycles * INSTS);
        }
    }
    qtest_quit(p.qts);
}

/*
 * Where counters overflow: MDCR_EL2.HLP tells it for those from HPMN on, and
 * PMCR_EL0.LP for those below. All of them have 64 bits that count.
 */
static void test_el2_long(void)
{
    enum { HPMN = 4, HPME = 1 << 7, HLP = 1 << 26, INSTS = 8 };
    static const uint32_t code[] = {
        INSN_COUNTERS_MASK, INSN_COUNT_ON,
        0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f,     /* nop */
        0xd503201f, 0xd503201f, 0xd503201f,
        INSN_COUNT_OFF, INSN_RET,
    };
    Pmcu p = events_init("-accel tcg -M virtualization=on");

    for (int i = 0; i < 4; i++) {
        const bool lp = i & 1, hlp = i & 2;

        guest_write(&p, 0, PMCR_EL0, PMCR_E | (lp ? PMCR_LP : 0));
        guest_write(&p, 0, MDCR_EL2, HPMN | HPME | (hlp ? HLP : 0));
        for (int wide = 0; wide < 2; wide++) {
            const uint64_t start = (wide ? UINT64_MAX : UINT32_MAX) - 3;

            guest_write(&p, 0, PMOVSCLR_EL0, UINT32_MAX);
            for (int c = HPMN - 1; c <= HPMN; c++) {
                guest_write(&p, 0, PMEVTYPER_EL0(c), INST_RETIRED | FILTER_NSH);
                guest_write(&p, 0, PMEVCNTR_EL0(c), start);
            }
            guest_call(&p, 0, 0, code, ARRAY_SIZE(code));
            for (int c = HPMN - 1; c <= HPMN; c++) {
                g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(c)), ==,
                                start + INSTS);
            }
            g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==,
                            (wide || !lp) << (HPMN - 1) |
                            (wide || !hlp) << HPMN);
        }
    }
    qtest_quit(p.qts);
}

/* Does a counter with this filter count there? Arm ARM, PMEVTYPER<n>_EL0 */
static bool filter_counts(uint32_t filter, unsigned el, bool secure)
{
    bool p = filter & FILTER_P, u = filter & FILTER_U;

    switch (el) {
    case 0:
        return secure ? !u : u == !!(filter & FILTER_NSU);
    case 1:
        return secure ? !p : p == !!(filter & FILTER_NSK);
    case 2:
        return filter & FILTER_NSH;
    default:
        return p == !!(filter & FILTER_M);
    }
}

/* All filters, while a CPU with EL3 visits each level in both states */
static void test_filter_el3(void)
{
    enum { SCR_NS = 1, SCR_RES1 = 0x30, SCR_RW = 1 << 10, SCR_EEL2 = 1 << 18 };
    static const uint32_t bits[] = {
        FILTER_P, FILTER_U, FILTER_NSK, FILTER_NSU, FILTER_NSH, FILTER_M,
    };
    static const struct {
        unsigned el;
        bool secure;
        uint64_t spsr;
        unsigned insts;         /* NOPs and the call of the higher level */
    } visits[] = {
        { 0, false, SPSR_EL0_64, 2 },
        { 1, false, 0x3c5, 4 },
        { 2, false, 0x3c9, 8 },
        { 0, true, SPSR_EL0_64, 16 },
        { 1, true, 0x3c5, 32 },
    };
    static const uint32_t start[] = {
        0xaa0003f6,     /* mov     x22, x0 */
        0x91400661,     /* add     x1, x19, #0x1000 */
        0x91200021,     /* add     x1, x1, #0x800 */
        0xd51ec001,     /* msr     vbar_el3, x1 */
        0x91100021,     /* add     x1, x1, #0x400 */
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd61f0020,     /* br      x1 */
    };
    /* At EL3: go to where the next SCR, SPSR, and ELR say. */
    static const uint32_t next[] = {
        0xa8c10ec2,     /*     ldp     x2, x3, [x22], #16 */
        0xf84086c4,     /*     ldr     x4, [x22], #8 */
        0xb40000a4,     /*     cbz     x4, 1f */
        0xd51e1102,     /*     msr     scr_el3, x2 */
        0xd51e4003,     /*     msr     spsr_el3, x3 */
        0xd51e4024,     /*     msr     elr_el3, x4 */
        0xd69f03e0,     /*     eret */
        INSN_COUNT_OFF, /* 1: */
        INSN_RET,
    };
    static const uint32_t call_el3[] = { 0xd4000003 /* smc #0 */ };
    const uint64_t vectors_el3 = GUEST_VECTORS(0) + 0x800;
    const uint64_t code = GUEST_MAILBOX(0) + 0x3000, table = code + 0x1000;
    uint64_t at = table;
    /* The BR, NEXT for each visit, and its end */
    const unsigned el3_insts = 1 + 7 * ARRAY_SIZE(visits) + 4;
    Pmcu p = events_init("-accel tcg -m 64M -M secure=on,virtualization=on");

    guest_put(&p, vectors_el3 + VECTOR_EL0_64, next, ARRAY_SIZE(next));
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_64, call_el3, 1);
    for (int i = 0; i < ARRAY_SIZE(visits); i++) {
        uint64_t entry = code + 0x100 * i;
        const uint64_t regs[] = {
            SCR_RES1 | SCR_RW | SCR_EEL2 | (visits[i].secure ? 0 : SCR_NS),
            visits[i].spsr, entry,
        };

        for (int n = 0; n < ARRAY_SIZE(regs); n++, at += 8) {
            qtest_writeq(p.qts, at, regs[n]);
        }
        for (int n = 1; n < visits[i].insts; n++, entry += 4) {
            qtest_writel(p.qts, entry, 0xd503201f);     /* nop */
        }
        qtest_writel(p.qts, entry, visits[i].el ? call_el3[0]
                                                : 0xd4000001 /* svc #0 */);
    }
    qtest_memset(p.qts, at, 0, 24);
    /* With EEL2, counters below HPMN are not those of EL2 in either state. */
    guest_write(&p, 0, SCR_EL3, SCR_RES1 | SCR_RW | SCR_EEL2);
    guest_write(&p, 0, HCR_EL2, 1ULL << 31);    /* RW */
    guest_write(&p, 0, MDCR_EL3, 1 << 17);      /* SPME */

    for (unsigned first = 0; first < 1 << ARRAY_SIZE(bits); first += COUNTERS) {
        uint32_t filter[COUNTERS] = { };

        for (int c = 0; c < COUNTERS; c++) {
            for (int b = 0; b < ARRAY_SIZE(bits); b++) {
                filter[c] |= (first + c) >> b & 1 ? bits[b] : 0;
            }
            guest_write(&p, 0, PMEVTYPER_EL0(c), filter[c] | INST_RETIRED);
            guest_write(&p, 0, PMEVCNTR_EL0(c), 0);
        }
        guest_call(&p, 0, table, start, ARRAY_SIZE(start));
        for (int c = 0; c < COUNTERS; c++) {
            uint64_t count = filter_counts(filter[c], 3, true) * el3_insts, is;

            for (int i = 0; i < ARRAY_SIZE(visits); i++) {
                bool secure = visits[i].secure;

                count += filter_counts(filter[c], visits[i].el, secure) *
                         visits[i].insts;
                if (visits[i].el == 0) {
                    count += filter_counts(filter[c], 1, secure);   /* SMC */
                }
            }
            is = guest_read(&p, 0, PMEVCNTR_EL0(c));
            if (is != count) {
                g_test_message("filter 0x%x: %" PRIu64 " and not %" PRIu64,
                               filter[c], is, count);
                g_test_fail();
            }
        }
    }
    qtest_quit(p.qts);
}

/* What AArch32 writes and reads, at 0x208 from its first instruction */
typedef struct A32Registers {
    uint32_t pmselr, pmxevtyper, pmxevcntr, pmccntr, mcrr_pmccntr[2];
    struct {
        uint32_t pmselr, pmxevtyper, pmxevcntr, pmccntr, mrrc_pmccntr[2];
        uint32_t pmevtyper5, pmevcntr5, pmevcntr6, pmccfiltr, pmceid[2];
    } read;
} A32Registers;

static const uint32_t a32_registers[] = {
    0xe28f1c02,     /* add r1, pc, #0x200 */
    0xe8b100fc,     /* ldm r1!, {r2-r7} */
    0xee092fbc,     /* mcr p15, 0, r2, c9, c12, 5: PMSELR */
    0xee093f3d,     /* mcr p15, 0, r3, c9, c13, 1: PMXEVTYPER */
    0xee094f5d,     /* mcr p15, 0, r4, c9, c13, 2: PMXEVCNTR */
    0xec476f09,     /* mcrr p15, 0, r6, r7, c9: PMCCNTR */
    0xee095f1d,     /* mcr p15, 0, r5, c9, c13, 0: PMCCNTR */
    0xee192fbc,     /* mrc p15, 0, r2, c9, c12, 5: PMSELR */
    0xee193f3d,     /* mrc p15, 0, r3, c9, c13, 1: PMXEVTYPER */
    0xee194f5d,     /* mrc p15, 0, r4, c9, c13, 2: PMXEVCNTR */
    0xee195f1d,     /* mrc p15, 0, r5, c9, c13, 0: PMCCNTR */
    0xec576f09,     /* mrrc p15, 0, r6, r7, c9: PMCCNTR */
    0xe8a100fc,     /* stm r1!, {r2-r7} */
    0xee1e2fbc,     /* mrc p15, 0, r2, c14, c12, 5: PMEVTYPER5 */
    0xee1e3fb8,     /* mrc p15, 0, r3, c14, c8, 5: PMEVCNTR5 */
    0xee1e4fd8,     /* mrc p15, 0, r4, c14, c8, 6: PMEVCNTR6 */
    0xee1e5fff,     /* mrc p15, 0, r5, c14, c15, 7: PMCCFILTR */
    0xee196fdc,     /* mrc p15, 0, r6, c9, c12, 6: PMCEID0 */
    0xee197ffc,     /* mrc p15, 0, r7, c9, c12, 7: PMCEID1 */
    0xe8a100fc,     /* stm r1!, {r2-r7} */
};

/*
 * AArch32 has 32 bits of each register, or by MCRR and MRRC 64 of PMCCNTR, and
 * writes leave the other bits of PMCCNTR alone. PMCCFILTR has no M. (Arm ARM,
 * "Performance Monitors registers" of AArch32)
 */
static void check_a32_registers(const Pmcu *p, uint64_t code, uint32_t call,
                                uint64_t arg, const uint32_t *enter, size_t n)
{
    const uint64_t wide = 0x1122334455667788, data = code + 0x208;
    const A32Registers in = {
        5, FILTER_P | LD_RETIRED, 0x89abcdef, 0x76543210,
        { 0x9abcdef0, 0x12345678 },
    };
    const uint64_t pmccntr = (uint64_t)in.mcrr_pmccntr[1] << 32 | in.pmccntr;
    A32Registers out;

    guest_put(p, code, a32_registers, ARRAY_SIZE(a32_registers));
    guest_put(p, code + sizeof(a32_registers), &call, 1);
    guest_put(p, data, (const uint32_t *)&in, sizeof(in) / 4);
    guest_write(p, 0, PMSELR_EL0, 0);
    guest_write(p, 0, PMEVTYPER_EL0(5), 0);
    guest_write(p, 0, PMEVCNTR_EL0(5), 0);
    guest_write(p, 0, PMEVCNTR_EL0(6), wide);
    guest_write(p, 0, PMCCNTR_EL0, 0);
    guest_write(p, 0, PMCCFILTR_EL0, FILTER_P | FILTER_NSH | FILTER_M);
    guest_call(p, 0, arg, enter, n);
    for (int i = 0; i < sizeof(out) / 4; i++) {
        ((uint32_t *)&out)[i] = qtest_readl(p->qts, data + 4 * i);
    }

    g_assert_cmphex(out.read.pmselr, ==, in.pmselr);
    g_assert_cmphex(out.read.pmxevtyper, ==, in.pmxevtyper);
    g_assert_cmphex(out.read.pmevtyper5, ==, in.pmxevtyper);
    g_assert_cmphex(out.read.pmxevcntr, ==, in.pmxevcntr);
    g_assert_cmphex(out.read.pmevcntr5, ==, in.pmxevcntr);
    g_assert_cmphex(out.read.pmevcntr6, ==, (uint32_t)wide);
    g_assert_cmphex(out.read.pmccntr, ==, in.pmccntr);
    g_assert_cmphex(out.read.mrrc_pmccntr[0], ==, in.pmccntr);
    g_assert_cmphex(out.read.mrrc_pmccntr[1], ==, in.mcrr_pmccntr[1]);
    g_assert_cmphex(out.read.pmccfiltr, ==, FILTER_P | FILTER_NSH);
    g_assert_cmphex(out.read.pmceid[0], ==,
                    (uint32_t)guest_read(p, 0, PMCEID0_EL0));
    g_assert_cmphex(out.read.pmceid[1], ==,
                    (uint32_t)guest_read(p, 0, PMCEID1_EL0));

    g_assert_cmphex(guest_read(p, 0, PMSELR_EL0), ==, in.pmselr);
    g_assert_cmphex(guest_read(p, 0, PMEVTYPER_EL0(5)), ==, in.pmxevtyper);
    g_assert_cmphex(guest_read(p, 0, PMEVCNTR_EL0(5)), ==, in.pmxevcntr);
    g_assert_cmphex(guest_read(p, 0, PMEVCNTR_EL0(6)), ==, wide);
    g_assert_cmphex(guest_read(p, 0, PMCCNTR_EL0), ==, pmccntr);
}

static void test_a32_registers(void)
{
    static const uint32_t leave[] = { INSN_RET };
    const uint64_t el1_code = EL0_CODE;
    uint32_t enter_el0[ARRAY_SIZE(code_el0) + 1];
    Pmcu p;

    /* EL1, called from EL2 */
    p = events_init("-accel tcg -M virtualization=on");
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_32, leave, 1);
    guest_write(&p, 0, HCR_EL2, 0);
    check_a32_registers(&p, el1_code, 0xe1400070 /* hvc #0 */, el1_code,
                        guest_enter_a32, ARRAY_SIZE(guest_enter_a32));
    qtest_quit(p.qts);

    /* EL0, called from EL1 */
    p = events_init("-accel tcg");
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_32, vector_to_x9,
              ARRAY_SIZE(vector_to_x9));
    guest_write(&p, 0, PMUSERENR_EL0, 1);
    memcpy(enter_el0, code_el0, sizeof(code_el0));
    enter_el0[ARRAY_SIZE(code_el0)] = INSN_RET;
    check_a32_registers(&p, EL0_CODE, 0xef000000 /* svc #0 */, SPSR_EL0_32,
                        enter_el0, ARRAY_SIZE(enter_el0));
    qtest_quit(p.qts);
}

/*
 * What goes to EL2 is a trap, and no exception that is taken locally. Neither a
 * breakpoint nor a watchpoint is an abort. EXC_RETURN counts at EL2, where the
 * return to EL1 is executed.
 */
static void test_traps(void)
{
    enum {
        HCR_VM = 1, HCR_TWI = 1 << 13, HCR_TSC = 1 << 19, HCR_HCD = 1 << 29,
        MDSCR_DEBUG = 1 << 15 | 1 << 13,
    };
    /* At EL1: at the first instruction; an access of 8 bytes */
    enum { BREAK = 0xf << 5 | 3, WATCH = 0xff << 5 | 3 << 3 | 3 };
    const uint64_t hcr_rw = 1ULL << 31, mdcr_tpm = 1 << 6;
    /* A block of 1 GiB for the RAM: valid, all memory attributes, AF, S2AP */
    const uint64_t table = RAM_BASE + 0x400000, block = RAM_BASE | 0x4fd;
    /* 39 bits of addresses, from level 1 */
    const uint64_t vtcr = 1U << 31 | 2 << 16 | 1 << 6 | 25;
    const struct {
        uint32_t insn;
        uint16_t event;
        unsigned el1_insts;     /* retired at EL1, with leave_el1 */
        uint64_t hcr, mdcr, vttbr;
        uint32_t bcr, wcr;
    } traps[] = {
        { 0xd503201f /* nop, and HVC */, EXC_HVC, 2 },
        { 0xd53b9c01 /* mrs x1, pmcr_el0 */, EXC_TRAP_OTHER, 0, 0, mdcr_tpm },
        { 0xd4000003 /* smc #0 */, EXC_TRAP_OTHER, 0 },
        { 0xd503207f /* wfi */, EXC_TRAP_OTHER, 0, HCR_TWI },
        { 0xd5031022 /* wfit x2 */, EXC_TRAP_OTHER, 0, HCR_TWI },
        { 0xd4000002 /* hvc #0 */, EXC_UNDEF, 1, HCR_HCD },
        /* Stage 2 has an empty table; it has the code, but not the data */
        { 0xd503201f /* nop */, EXC_TRAP_PABORT, 0, HCR_VM, 0,
          table + 0x1000 },
        { 0xf9400041 /* ldr x1, [x2] */, EXC_TRAP_DABORT, 0, HCR_VM, 0,
          table },
        { 0xf9400041 /* ldr x1, [x2] */, EXC_DABORT, 1 },
        { 0xd503201f /* nop */, EXC_UNDEF, 1, .bcr = BREAK },
        { 0xf9400041 /* ldr x1, [x2] */, EXC_UNDEF, 1, .wcr = WATCH },
    };
    static const uint32_t enter[] = {
        0x91400661,     /* add     x1, x19, #0x1000 */
        0xd51cc001,     /* msr     vbar_el2, x1 */
        0xd518c001,     /* msr     vbar_el1, x1 */
        0xd51c4020,     /* msr     elr_el2, x0 */
        0xd28038a2,     /* mov     x2, #0x1c5: not D */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        0xd2c20002,     /* mov     x2, #0x100000000000 */
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd69f03e0,     /* eret */
    };
    static const uint32_t leave_el2[] = { INSN_COUNT_OFF, INSN_RET };
    /*
     * The counters are off at the SMC. HCR_EL2.TSC traps it to EL2; HVC would
     * be undefined with HCR_EL2.HCD.
     */
    static const uint32_t leave_el1[] = { INSN_COUNT_OFF, 0xd4000003 };
    const uint64_t el1_code = GUEST_VECTORS(0) + 0x800;
    Pmcu p = events_init("-accel tcg -M virtualization=on");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_64, leave_el2,
              ARRAY_SIZE(leave_el2));
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, leave_el1,
              ARRAY_SIZE(leave_el1));
    qtest_writeq(p.qts, table + 8, block);
    guest_write(&p, 0, VTCR_EL2, vtcr);
    guest_write(&p, 0, OSLAR_EL1, 0);
    guest_write(&p, 0, MDSCR_EL1, MDSCR_DEBUG);
    guest_write(&p, 0, DBGBVR0_EL1, el1_code);
    guest_write(&p, 0, DBGWVR0_EL1, 0x100000000000);
    for (int i = 0; i < ARRAY_SIZE(traps); i++) {
        const uint32_t code[] = { traps[i].insn, 0xd4000002 /* hvc #0 */ };

        guest_put(&p, el1_code, code, ARRAY_SIZE(code));
        guest_write(&p, 0, VTTBR_EL2, traps[i].vttbr);
        guest_write(&p, 0, HCR_EL2, hcr_rw | HCR_TSC | traps[i].hcr);
        guest_write(&p, 0, MDCR_EL2, COUNTERS | traps[i].mdcr);
        guest_write(&p, 0, DBGBCR0_EL1, traps[i].bcr);
        guest_write(&p, 0, DBGWCR0_EL1, traps[i].wcr);
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            guest_write(&p, 0, PMEVTYPER_EL0(e - EXC_UNDEF), e);
            guest_write(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF), 0);
        }
        for (int c = 20; c < 23; c++) {
            guest_write(&p, 0, PMEVTYPER_EL0(c),
                        c == 20 ? EXC_RETURN :
                        c == 21 ? EXC_RETURN | FILTER_NSH : INST_RETIRED);
            guest_write(&p, 0, PMEVCNTR_EL0(c), 0);
        }
        guest_call(&p, 0, el1_code, enter, ARRAY_SIZE(enter));
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            uint64_t count = guest_read(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF));

            if (count != (e == traps[i].event)) {
                g_test_message("trap %d: event 0x%x is %" PRIu64, i, e, count);
                g_test_fail();
            }
        }
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(20)), ==, 0);
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(21)), ==, 1);
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(22)), ==,
                        traps[i].el1_insts);
    }
    qtest_quit(p.qts);
}

/*
 * Exceptions of AArch32 at EL1: each counts once, and its instruction does not
 * retire, nor what follows it. AArch32 takes BKPT as a prefetch abort. If the
 * exception goes to EL2, which is in AArch64, it is no abort. While HSTR_EL2
 * traps some registers, accesses to others retire.
 */
static void test_a32_exceptions(void)
{
    enum { MDCR_TDE = 1 << 8, HCR_TID0 = 1 << 15, HCR_TID3 = 1 << 18 };
    /* All interrupts masked */
    enum { SUPERVISOR = 0x1d3, SYSTEM = 0x1df };
    enum { BKPT = 0xe1200070, NOP = 0xe320f000 };
    static const struct {
        uint32_t insn[4];
        uint32_t mode;
        uint16_t event;
        unsigned el1_insts;     /* retired at EL1, with a handler there */
        uint64_t mdcr, hcr, hstr;
    } cases[] = {
        { { BKPT }, SUPERVISOR, EXC_PABORT, 2 },
        { { BKPT }, SUPERVISOR, EXC_TRAP_OTHER, 0, MDCR_TDE },
        /* UNPREDICTABLE; QEMU makes these undefined */
        { { 0xf96d0513 /* srsdb sp!, #19 */ }, SYSTEM, EXC_UNDEF, 3 },
        { { 0xe123f301 /* msr sp_svc, r1 */ }, SUPERVISOR, EXC_UNDEF, 3 },
        { { 0xe1031300 /* mrs r1, sp_svc */ }, SUPERVISOR, EXC_UNDEF, 3 },
        { { 0xeef01a10 /* vmrs r1, fpsid */ }, SUPERVISOR, EXC_TRAP_OTHER, 0,
          0, HCR_TID0 },
        { { 0xeef71a10 /* vmrs r1, mvfr0 */ }, SUPERVISOR, EXC_TRAP_OTHER, 0,
          0, HCR_TID3 },
        { { NOP, 0xee101f10 /* mrc p15, 0, r1, c0, c0, 0 */, NOP, BKPT },
          SUPERVISOR, EXC_TRAP_OTHER, 1, 0, 0, 1 << 0 },
        { { NOP, 0xee101f10 /* mrc p15, 0, r1, c0, c0, 0 */, NOP, BKPT },
          SUPERVISOR, EXC_PABORT, 3 + 2, 0, 0, 1 << 1 },
        /* The condition fails */
        { { 0xe1510001 /* cmp r1, r1 */, 0x1e101f10 /* mrcne ... */, NOP,
            BKPT }, SUPERVISOR, EXC_PABORT, 3 + 2, 0, 0, 1 << 0 },
        /* There is no such register */
        { { NOP, 0xee1f1f1f /* mrc p15, 0, r1, c15, c15, 0 */, NOP, BKPT },
          SUPERVISOR, EXC_UNDEF, 1 + 3, 0, 0, 1 << 0 },
        /* The trap comes first. */
        { { NOP, 0xee1f1f1f /* mrc p15, 0, r1, c15, c15, 0 */, NOP, BKPT },
          SUPERVISOR, EXC_TRAP_OTHER, 1, 0, 0, 1 << 15 },
    };
    uint32_t enter[] = {
        0x91400661,     /* add     x1, x19, #0x1000 */
        0xd51cc001,     /* msr     vbar_el2, x1 */
        0xd518c001,     /* msr     vbar_el1, x1 */
        0xd51c4020,     /* msr     elr_el2, x0 */
        0,              /* mov     x2, the mode */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd69f03e0,     /* eret */
    };
    /* LR_abt of AArch32 is x20 */
    static const uint32_t leave_el2[] = {
        INSN_COUNTERS_MASK, INSN_COUNT_OFF, INSN_RET
    };
    /* The counters are off at the HVC */
    static const uint32_t leave_el1[] = {
        0xe3e01102,     /* mvn     r1, #0x80000000 */
        0xee091f5c,     /* mcr     p15, 0, r1, c9, c12, 2: PMCNTENCLR */
        0xe1400070,     /* hvc     #0 */
    };
    static const uint32_t undefined[] = {
        0xea000000,     /* b       to leave_el1 */
    };
    const uint64_t el1_code = GUEST_VECTORS(0) + 0x800;
    const uint64_t undefined_vector = 4, prefetch_abort = 0xc;
    const unsigned taken = EXC_TRAP_FIQ + 1 - EXC_UNDEF, retired = taken + 1,
                   loads = retired + 1;
    Pmcu p = events_init("-accel tcg -M virtualization=on");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_32, leave_el2,
              ARRAY_SIZE(leave_el2));
    guest_put(&p, GUEST_VECTORS(0) + prefetch_abort, leave_el1,
              ARRAY_SIZE(leave_el1));
    guest_put(&p, GUEST_VECTORS(0) + undefined_vector, undefined, 1);
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        enter[4] = 0xd2800002 | cases[i].mode << 5;
        guest_put(&p, el1_code, cases[i].insn, ARRAY_SIZE(cases[i].insn));
        guest_write(&p, 0, HSTR_EL2, cases[i].hstr);
        /* Without RW: EL1 is in AArch32. */
        guest_write(&p, 0, HCR_EL2, cases[i].hcr);
        guest_write(&p, 0, MDCR_EL2, COUNTERS | cases[i].mdcr);
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            guest_write(&p, 0, PMEVTYPER_EL0(e - EXC_UNDEF), e);
            guest_write(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF), 0);
        }
        guest_write(&p, 0, PMEVTYPER_EL0(taken), EXC_TAKEN);
        guest_write(&p, 0, PMEVCNTR_EL0(taken), 0);
        guest_write(&p, 0, PMEVTYPER_EL0(retired), INST_RETIRED);
        guest_write(&p, 0, PMEVCNTR_EL0(retired), 0);
        guest_write(&p, 0, PMEVTYPER_EL0(loads), LD_SPEC);
        guest_write(&p, 0, PMEVCNTR_EL0(loads), 0);
        guest_call(&p, 0, el1_code, enter, ARRAY_SIZE(enter));
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            uint64_t count = guest_read(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF));

            if (count != (e == cases[i].event)) {
                g_test_message("case %d: event 0x%x is %" PRIu64, i, e, count);
                g_test_fail();
            }
        }
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(taken)), ==, 1);
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(retired)), ==,
                        cases[i].el1_insts);
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(loads)), ==, 0);
    }
    qtest_quit(p.qts);
}

/* Call a function that enables and disables counters; compare the counts. */
static void count_in_function(const Pmcu *p, const Count *expect,
                              unsigned counts, const uint32_t *code, size_t n)
{
    for (int i = 0; i < counts; i++) {
        guest_write(p, 0, PMEVTYPER_EL0(i), expect[i].event);
        guest_write(p, 0, PMEVCNTR_EL0(i), 0);
    }
    guest_call(p, 0, 0, code, n);
    for (int i = 0; i < counts; i++) {
        g_assert_cmpint(guest_read(p, 0, PMEVCNTR_EL0(i)), ==,
                        expect[i].count);
    }
}

/* SCR_EL3.SMD makes SMC undefined, also at EL3. */
static void test_smc_disabled(void)
{
    static const uint32_t code[] = {
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd4000003,     /* smc     #0 */
        INSN_COUNT_OFF,
        INSN_RET,
    };
    static const uint32_t skip[] = {
        0xd53e4025,     /* mrs     x5, elr_el3 */
        0x910010a5,     /* add     x5, x5, #4 */
        0xd51e4025,     /* msr     elr_el3, x5 */
        0xd69f03e0,     /* eret */
    };
    /* SKIP, and the MSR after it */
    static const Count expect[] = {
        { INST_RETIRED, 4 + 1 }, { EXC_TAKEN, 1 }, { EXC_UNDEF, 1 },
        { EXC_SMC, 0 },
    };
    Pmcu p = events_init("-accel tcg -M secure=on");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, skip, ARRAY_SIZE(skip));
    guest_write(&p, 0, VBAR_EL3, GUEST_VECTORS(0));
    guest_write(&p, 0, MDCR_EL3, 1 << 17);      /* SPME */
    guest_write(&p, 0, SCR_EL3, guest_read(&p, 0, SCR_EL3) | 1 << 7);
    count_in_function(&p, expect, ARRAY_SIZE(expect), code, ARRAY_SIZE(code));
    qtest_quit(p.qts);
}

/*
 * FEAT_BTI: a branch into a guarded page that does not land on BTI. The branch
 * retires, and its target does not.
 */
static void test_guarded_page(void)
{
    /* SCTLR_EL1.M turns the MMU on. */
    static const uint32_t code[] = {
        0xd5381003,     /*     mrs     x3, sctlr_el1 */
        0xb2400064,     /*     orr     x4, x3, #1 */
        0xd5181004,     /*     msr     sctlr_el1, x4 */
        0xd5033fdf,     /*     isb */
        0x100000c9,     /*     adr     x9, 2f */
        0x10000086,     /*     adr     x6, 1f */
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd61f00c0,     /*     br      x6 */
        0xd503201f,     /* 1:  nop */
        INSN_COUNT_OFF, /* 2: */
        0xd5181003,     /*     msr     sctlr_el1, x3 */
        0xd5033fdf,     /*     isb */
        INSN_RET,
    };
    /* br, vector_to_x9, msr */
    static const Count expect[] = {
        { INST_RETIRED, 1 + 4 + 1 }, { BR_RETIRED, 1 }, { EXC_TAKEN, 1 },
        { EXC_UNDEF, 1 }, { EXC_RETURN, 1 },
    };
    /* A block of 1 GiB for the RAM: valid, AF, inner shareable, GP */
    const uint64_t table = RAM_BASE + 0x400000;
    const uint64_t block = RAM_BASE | 0x701 | 1ULL << 50;
    /* 39 bits of addresses, from level 1; not TTBR1 */
    const uint64_t tcr = 1 << 23 | 25;
    Pmcu p = events_init("-accel tcg");

    qtest_writeq(p.qts, table + 8, block);
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, vector_to_x9,
              ARRAY_SIZE(vector_to_x9));
    guest_write(&p, 0, MAIR_EL1, 0xff);
    guest_write(&p, 0, TCR_EL1, tcr);
    guest_write(&p, 0, TTBR0_EL1, table);
    count_in_function(&p, expect, ARRAY_SIZE(expect), code, ARRAY_SIZE(code));
    qtest_quit(p.qts);
}

/* A semihosting call is no exception. */
static void test_semihosting(void)
{
    static const uint16_t none[] = { EXC_TAKEN, EXC_RETURN, EXC_UNDEF };
    static const uint32_t code[] = {
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0x52800260,     /* mov     w0, #0x13: SYS_ERRNO */
        0xd45e0000,     /* hlt     #0xf000 */
        INSN_COUNT_OFF,
        INSN_RET,
    };
    Pmcu p = events_init("-accel tcg -semihosting-config "
                         "enable=on,target=native");

    for (int i = 0; i < ARRAY_SIZE(none); i++) {
        guest_write(&p, 0, PMEVTYPER_EL0(i), none[i]);
        guest_write(&p, 0, PMEVCNTR_EL0(i), 0);
    }
    /* No error yet: QEMU has handled the call. */
    g_assert_cmpint(guest_call(&p, 0, 0, code, ARRAY_SIZE(code)), ==, 0);
    for (int i = 0; i < ARRAY_SIZE(none); i++) {
        g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(i)), ==, 0);
    }
    qtest_quit(p.qts);
}

/* PMCEID has a bit for each common event that has a value, and no other */
static void test_pmceid(const void *cpu)
{
    g_autofree char *args = g_strdup_printf("-accel tcg -cpu %s",
                                            (const char *)cpu);
    /* SW_INCR and CPU_CYCLES; STALL_*, which are 0, are as of PMUv3p1, p4 */
    uint64_t id[2] = { 0x20001, g_str_equal(cpu, "cortex-a57") ? 0 :
                                g_str_equal(cpu, "a64fx") ? 0x18 :
                                0x10000018 };
    Pmcu p = guest_init(args);

    for (int e = 0; e < ARRAY_SIZE(events); e++) {
        if (events[e] < 0x40 && events[e] != UNALIGNED_LDST_RETIRED &&
            events[e] != L2D_CACHE && events[e] != BR_MIS_PRED_RETIRED) {
            id[events[e] >> 5] |= BIT_ULL(events[e] & 31);
        }
    }
    g_assert_cmphex(guest_read(&p, 0, PMCEID0_EL0), ==, id[0]);
    g_assert_cmphex(guest_read(&p, 0, PMCEID1_EL0), ==, id[1]);
    qtest_quit(p.qts);
}

/*
 * The PMCU samples a CPU that runs a loop. In all records together, the events
 * have the same ratios as in the loop.
 */
static void test_pmcu(const void *args)
{
    /* In each turn of the loop, for 8 counters */
    static const Count turn[] = {
        { INST_RETIRED, 7 }, { LD_RETIRED, 2 }, { ST_RETIRED, 1 },
        { LDST_SPEC, 3 }, { DP_SPEC, 2 }, { VFP_SPEC, 1 }, { BR_RETIRED, 1 },
        { BR_INDIRECT_SPEC, 0 },
    };
    const unsigned records = 50, size = 8 * 8 * (2 + ARRAY_SIZE(turn));
    const bool icount = g_strrstr(args, "icount");
    /* With -icount all is exact, but a turn is cut; else by a block */
    const unsigned slack = icount ? 1 : 512;
    Pmcu p = events_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    uint64_t insns = 0;
    unsigned tries = 0;

    for (int e = 0; e < ARRAY_SIZE(turn); e++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * e, turn[e].event);
    }
    run.ev_len = run.nr_pmu = ARRAY_SIZE(turn);
    run.nr_loop = records;
    /* A host with other work lets the CPU run now and then */
    run.wait_cnt = (icount ? 1 : 10) * MS_TICKS;
    guest_start(&p, 0, 1ULL << 40, work, ARRAY_SIZE(work));
    /* Runs until the CPU has had enough time in them; each obeys the rules. */
    do {
        uint64_t sum[ARRAY_SIZE(turn)] = { };

        g_assert_cmpint(tries++, <, 200);
        /* The CPU is between two instructions when it starts to count */
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        pmcu_start(&p, &run);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        pmcu_wait_stored(&p, records);
        for (int r = 0; r < records; r++) {
            for (int e = 0; e < ARRAY_SIZE(turn); e++) {
                sum[e] += qtest_readq(p.qts,
                                      STORE_BASE + size * r + 64 * (e + 1));
            }
        }
        for (int e = 0; e < ARRAY_SIZE(turn); e++) {
            int64_t more = sum[e] * 7 - sum[0] * turn[e].count;

            g_test_message("event 0x%x: %" PRIu64, turn[e].event, sum[e]);
            g_assert_cmpint(llabs(more), <=, 7 * 7 * slack);
        }
        if (icount) {
            /* An instruction is a nanosecond; a window ends between two */
            g_assert_cmpint(llabs((int64_t)(sum[0] - records * MS)), <,
                            10 * records);
        }
        insns += sum[0];
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
    } while (insns <= 1000000);
    qtest_quit(p.qts);
}

/*
 * Events that are rare are of the same moment as the others, in each record,
 * and a monitor's look at them changes nothing.
 */
static void test_pmcu_rare(void)
{
    enum { TURN = 20003, RECORDS = 30 };
    static const uint32_t loop[] = {
        0xd5033bbf,     /* 1: dmb ish */
        0xd284e202,     /*    mov x2, #10000 */
        0xf1000442,     /* 2: subs x2, x2, #1 */
        0x54ffffe1,     /*    b.ne 2b */
        0x17fffffc,     /*    b 1b */
    };
    const unsigned size = 8 * 8 * (2 + 2);
    Pmcu p = events_init("-accel tcg");
    PmcuRun run = { PMCU_RUN_DEFAULT };
    uint64_t sum = 0;
    unsigned tries = 0;

    qtest_writel(p.qts, EVENT_BASE, INST_RETIRED);
    qtest_writel(p.qts, EVENT_BASE + 4, DMB_SPEC);
    run.ev_len = run.nr_pmu = 2;
    run.nr_loop = RECORDS;
    run.wait_cnt = 10 * MS_TICKS;
    guest_start(&p, 0, 0, loop, ARRAY_SIZE(loop));
    /* A host with other work lets the CPU run now and then */
    while (sum < 1000) {
        g_assert_cmpint(tries++, <, 200);
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        pmcu_start(&p, &run);
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
        qtest_qmp_assert_success(p.qts, "{'execute': 'query-pmu'}");
        pmcu_wait_stored(&p, RECORDS);
        for (int r = 0; r < RECORDS; r++) {
            uint64_t record = STORE_BASE + size * r;
            uint64_t insns = qtest_readq(p.qts, record + 64);
            uint64_t dmbs = qtest_readq(p.qts, record + 128);

            /* A turn is cut at both ends, and the CPU may be in the block */
            g_test_message("%" PRIu64 " insns, %" PRIu64 " DMB", insns, dmbs);
            g_assert_cmpint(llabs((int64_t)(dmbs * TURN - insns)), <, 3 * TURN);
            sum += dmbs;
        }
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
    }
    qtest_quit(p.qts);
}

/* A row of query-pmu, by its place: PMCCNTR comes first */
static const QDict *query_row(const QDict *rsp, unsigned cpu, unsigned row)
{
    const QListEntry *e = qlist_first(qdict_get_qlist(rsp, "return"));

    for (; cpu; cpu--) {
        e = qlist_next(e);
    }
    e = qlist_first(qdict_get_qlist(qobject_to(QDict, qlist_entry_obj(e)),
                                    "counters"));
    for (; row; row--) {
        e = qlist_next(e);
    }
    return qobject_to(QDict, qlist_entry_obj(e));
}

static QDict *query_pmu(const Pmcu *p)
{
    return qtest_qmp(p->qts, "{ 'execute': 'query-pmu' }");
}

static uint64_t query_value(const QDict *row)
{
    return qnum_get_uint(qobject_to(QNum, qdict_get(row, "value")));
}

static void check_state(const QDict *row, const char *name, const char *state,
                        const char *event)
{
    g_assert_cmpstr(qdict_get_str(row, "name"), ==, name);
    g_assert_cmpstr(qdict_get_str(row, "state"), ==, state);
    g_assert_cmpstr(qdict_get_str(row, "event"), ==, event);
}

/* The monitor has what the guest reads. */
static void check_query(const Pmcu *p)
{
    QDict *rsp = query_pmu(p);
    g_autofree char *text = qtest_hmp(p->qts, "info pmu");

    for (int i = 0; i <= COUNTERS; i++) {
        const QDict *row = query_row(rsp, 0, i);
        uint64_t bit = i ? 1U << (i - 1) : 1U << 31;
        uint64_t value = guest_read(p, 0, i ? PMEVCNTR_EL0(i - 1)
                                            : PMCCNTR_EL0);
        uint64_t type = guest_read(p, 0, i ? PMEVTYPER_EL0(i - 1)
                                           : PMCCFILTR_EL0);
        bool over = guest_read(p, 0, PMOVSSET_EL0) & bit;
        bool irq = guest_read(p, 0, PMINTENSET_EL1) & bit;
        g_autofree char *line = g_strdup_printf(
            "%-10s 0x%016" PRIx64 "%s 0x%08x %-20s %s  no: PMCNTEN\r\n",
            qdict_get_str(row, "name"), value, over ? "!" : " ",
            (int)qdict_get_int(row, "evtyper"), qdict_get_str(row, "event"),
            irq ? "int" : "   ");

        g_assert_cmphex(query_value(row), ==, value);
        g_assert_cmphex(qdict_get_int(row, "evtyper"), ==,
                        i ? type : type | EV_CPU_CYCLES);
        g_assert_cmpint(qdict_get_bool(row, "overflow"), ==, over);
        g_assert_cmpint(qdict_get_bool(row, "interrupt"), ==, irq);
        g_assert_nonnull(strstr(text, line));
    }
    check_state(query_row(rsp, 1, 1), "PMEVCNTR0", "disabled", "SW_INCR");
    qobject_unref(rsp);
}

/* A CPU that counts: the monitor shows it, and the CPU does not notice */
static void test_query(const void *args)
{
    static const struct {
        uint32_t type;
        const char *state, *event;
    } rows[] = {
        { INST_RETIRED | FILTER_NSH, "counting", "INST_RETIRED" },
        { LD_RETIRED | FILTER_NSH, "counting", "LD_RETIRED" },
        { L2D_CACHE | FILTER_NSH, "no-event", "r16" },
        { INST_RETIRED, "filtered", "INST_RETIRED" },
        /* From MDCR_EL2.HPMN on */
        { INST_RETIRED | FILTER_NSH, "global-disabled", "INST_RETIRED" },
    };
    const uint64_t wrap = 1ULL << 32;
    g_autofree char *more = g_strdup_printf("%s -M virtualization=on -smp 2",
                                            (const char *)args);
    Pmcu p = events_init(more);
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);
    uint32_t insns[ARRAY_SIZE(work) + 3] = {
        INSN_COUNTERS_MASK, INSN_COUNT_ON
    };
    const uint64_t left = GUEST_MAILBOX(0) + 0x3000;
    uint64_t turns = 2000000;
    unsigned counting = 0;
    QDict *rsp;

    memcpy(&insns[2], work, sizeof(work));
    insns[2 + 3] = 0xf9000060;  /* str x0, [x3], the turns that are left */
    insns[ARRAY_SIZE(insns) - 2] = INSN_COUNT_OFF;
    insns[ARRAY_SIZE(insns) - 1] = INSN_RET;
    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC);
    guest_write(&p, 0, MDCR_EL2, 4);
    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        guest_write(&p, 0, PMEVTYPER_EL0(i), rows[i].type);
    }
    guest_write(&p, 0, PMINTENSET_EL1, 2);

    /* More turns if the host was too slow to see the CPU count */
    for (;; turns *= 8) {
        g_assert_cmpint(turns, <, wrap / 8);
        guest_write(&p, 0, PMEVCNTR_EL0(0), 0);
        guest_write(&p, 0, PMEVCNTR_EL0(1), wrap - turns);
        guest_write(&p, 0, PMOVSCLR_EL0, UINT32_MAX);
        qtest_writeq(p.qts, left, turns);
        guest_start(&p, 0, turns, insns, ARRAY_SIZE(insns));
        while (qtest_readq(p.qts, GUEST_MAILBOX(0) + GUEST_FN)) {
            uint64_t from = turns - qtest_readq(p.qts, left), to, count;
            const QDict *loads;

            rsp = query_pmu(&p);
            to = turns - qtest_readq(p.qts, left);
            count = query_value(query_row(rsp, 0, 1));
            g_assert_cmpint(count, >=, 7 * from);
            g_assert_cmpint(count, <=, 7 * (to + 2));
            loads = query_row(rsp, 0, 2);
            g_assert_cmpint(qdict_get_bool(loads, "overflow"), ==,
                            query_value(loads) >= wrap);
            counting += g_str_equal(qdict_get_str(loads, "state"), "counting");
            qobject_unref(rsp);
        }
        if (counting) {
            break;
        }
    }
    g_assert_true(qtest_get_irq(p.qts, 0));
    /* ADD, and the instruction that ends it */
    g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, 7 * turns + 2);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(1)), ==, wrap + turns);
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 2);
    check_query(&p);

    guest_start(&p, 0, 1ULL << 40, insns, ARRAY_SIZE(insns));
    while (qtest_readq(p.qts, left) <= turns) {
        g_usleep(1000);
    }
    rsp = query_pmu(&p);
    check_state(query_row(rsp, 0, 0), "PMCCNTR", "disabled", "CPU_CYCLES");
    for (int i = 0; i < ARRAY_SIZE(rows); i++) {
        g_autofree char *name = g_strdup_printf("PMEVCNTR%d", i);

        check_state(query_row(rsp, 0, i + 1), name, rows[i].state,
                    rows[i].event);
    }
    qobject_unref(rsp);
    qtest_quit(p.qts);
}

/* PMCR.E is for counters below MDCR_EL2.HPMN, and HPME for those from it on. */
static void test_query_enable(void)
{
    enum { HPMN = 4, MDCR_HPME = 1 << 7 };
    static const unsigned counters[] = { HPMN - 1, HPMN };
    Pmcu p = events_init("-accel tcg -M virtualization=on");

    for (int i = 0; i < ARRAY_SIZE(counters); i++) {
        guest_write(&p, 0, PMEVTYPER_EL0(counters[i]),
                    INST_RETIRED | FILTER_NSH);
        guest_write(&p, 0, PMCNTENSET_EL0, 1 << counters[i]);
    }
    for (int i = 0; i < 4; i++) {
        const bool on[] = { i & 1, i & 2 };
        QDict *rsp;

        guest_write(&p, 0, PMCR_EL0, on[0] ? PMCR_E : 0);
        guest_write(&p, 0, MDCR_EL2, HPMN | (on[1] ? MDCR_HPME : 0));
        rsp = query_pmu(&p);
        for (int k = 0; k < ARRAY_SIZE(counters); k++) {
            const QDict *row = query_row(rsp, 0, 1 + counters[k]);

            g_assert_cmpstr(qdict_get_str(row, "state"), ==,
                            on[k] ? "counting" : "global-disabled");
        }
        qobject_unref(rsp);
    }
    qtest_quit(p.qts);
}

/*
 * The interrupt of a counter that has overflowed follows PMCR.E, or from
 * MDCR_EL2.HPMN on HPME, at once. (Arm ARM, MDCR_EL2.HPME)
 */
static void test_interrupt_enable(void)
{
    enum { HPMN = 4, MDCR_HPME = 1 << 7 };
    static const unsigned counters[] = { HPMN - 1, HPMN, 31 };
    Pmcu p = events_init("-accel tcg -M virtualization=on");
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    for (int i = 0; i < ARRAY_SIZE(counters); i++) {
        const uint32_t bit = 1U << counters[i];
        const bool el2 = counters[i] == HPMN;

        guest_write(&p, 0, PMCR_EL0, 0);
        guest_write(&p, 0, MDCR_EL2, HPMN);
        guest_write(&p, 0, PMOVSSET_EL0, bit);
        guest_write(&p, 0, PMINTENSET_EL1, bit);
        g_assert_false(qtest_get_irq(p.qts, 0));
        guest_write(&p, 0, PMCR_EL0, PMCR_E);
        g_assert_cmpint(qtest_get_irq(p.qts, 0), ==, !el2);
        guest_write(&p, 0, MDCR_EL2, HPMN | MDCR_HPME);
        g_assert_true(qtest_get_irq(p.qts, 0));
        guest_write(&p, 0, PMCR_EL0, 0);
        g_assert_cmpint(qtest_get_irq(p.qts, 0), ==, el2);
        /* Now HPMN - 1 is a counter of EL2. */
        guest_write(&p, 0, MDCR_EL2, (HPMN - 1) | MDCR_HPME);
        g_assert_cmpint(qtest_get_irq(p.qts, 0), ==, counters[i] != 31);
        guest_write(&p, 0, PMINTENCLR_EL1, bit);
        g_assert_false(qtest_get_irq(p.qts, 0));
        guest_write(&p, 0, PMOVSCLR_EL0, bit);
    }
    qtest_quit(p.qts);
}

/* With record/replay, the vCPU needs a lock that monitor commands hold. */
static void test_query_record(void)
{
    static const uint32_t forever[] = { 0x14000000 };       /* b . */
    g_autofree char *log = NULL, *args = NULL;
    int fd = g_file_open_tmp("arm-pmu-XXXXXX", &log, NULL);
    Pmcu p;

    g_assert(fd >= 0);
    close(fd);
    /* A CPU keeps that lock for up to 2 s of guest time, of 1 us each here. */
    args = g_strdup_printf("-accel tcg -icount shift=10,rr=record,rrfile=%s",
                           log);
    p = events_init(args);
    guest_start(&p, 0, 0, forever, ARRAY_SIZE(forever));
    for (int i = 0; i < 20; i++) {
        QDict *rsp = query_pmu(&p);

        check_state(query_row(rsp, 0, 0), "PMCCNTR", "disabled", "CPU_CYCLES");
        qobject_unref(rsp);
    }
    qtest_quit(p.qts);
    unlink(log);
}

static void test_query_none(void)
{
    Pmcu p = guest_init("-accel tcg -cpu max,pmu=off -M pmcu=off");
    QDict *rsp = query_pmu(&p);
    const QList *list = qdict_get_qlist(rsp, "return");
    g_autofree char *text = qtest_hmp(p.qts, "info pmu");

    g_assert_cmpint(qlist_size(list), ==, 1);
    g_assert_cmpstr(qdict_get_str(qobject_to(QDict, qlist_peek((QList *)list)),
                                  "kind"), ==, "off");
    g_assert_cmpstr(text, ==, "CPU 0: no PMU\r\n");
    qobject_unref(rsp);
    qtest_quit(p.qts);
}

#include "arm-pmu-random.c.inc"

static bool pmu_ppi_pending(const Pmcu *p)
{
    return qtest_readl(p->qts, GICR_ISPENDR0(0)) & (1u << PMU_PPI);
}

/*
 * The monitor may see an overflow before the CPU does: after an illegal return,
 * which the Illegal Execution state exception follows. The interrupt does not
 * come earlier for that. The block of the ERET takes most of the time, so that
 * the CPU often stops just after it.
 */
static void test_query_interrupt(void)
{
    uint32_t loop[300] = {
        0x91400e63,     /*     add x3, x19, #3, lsl #12 */
        0x92800001,     /*     mov x1, #-1 */
        0x10000009,     /* 1:  adr x9, 1b */
        0xd51b9c60,     /*     msr pmovsclr_el0, x0 */
        0xd51be801,     /*     msr pmevcntr0_el0, x1 */
        0xd5184029,     /*     msr elr_el1, x9 */
        0xd2807924,     /*     mov x4, #0x3c9: EL2 */
        0xd5184004,     /*     msr spsr_el1, x4 */
    };
    unsigned early = 0;
    Pmcu p = events_init("-accel tcg");

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL1, vector_to_x9,
              ARRAY_SIZE(vector_to_x9));
    guest_write(&p, 0, PMEVTYPER_EL0(0), EXC_RETURN);
    guest_write(&p, 0, PMINTENSET_EL1, 1);
    guest_write(&p, 0, PMCNTENSET_EL0, 1);
    for (int i = 8; i < ARRAY_SIZE(loop) - 1; i++) {
        loop[i] = 0xd50b7423;   /* dc zva, x3 */
    }
    loop[ARRAY_SIZE(loop) - 1] = 0xd69f03e0;    /* eret */
    guest_start(&p, 0, 1, loop, ARRAY_SIZE(loop));
    for (int i = 0; early < 10; i++) {
        bool irq, overflow;
        QDict *rsp;

        g_assert_cmpint(i, <, PATIENCE_MS);
        qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
        irq = pmu_ppi_pending(&p);
        rsp = query_pmu(&p);
        overflow = qdict_get_bool(query_row(rsp, 0, 1), "overflow");
        qobject_unref(rsp);
        g_assert_cmpint(pmu_ppi_pending(&p), ==, irq);
        g_assert_true(overflow || !irq);
        early += overflow && !irq;
        qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    }
    qtest_quit(p.qts);
}

/*
 * HCR_EL2.IMO and FMO send interrupts to EL2, which are traps there; without
 * them, EL1 takes them locally.
 */
static void test_trap_interrupts(void)
{
    enum { SOURCE = 1 << 23 /* a counter */, HCR_FMO = 1 << 3,
           HCR_IMO = 1 << 4 };
    static const struct {
        uint32_t groups;        /* GICR_IGROUPR0: those of 0 are FIQs */
        uint64_t hcr;
        uint16_t event;
    } cases[] = {
        { UINT32_MAX, 0, EXC_IRQ },
        { UINT32_MAX, HCR_IMO, EXC_TRAP_IRQ },
        { 0, 0, EXC_FIQ },
        { 0, HCR_FMO, EXC_TRAP_FIQ },
    };
    static const uint32_t enter[] = {
        0x91400661,     /* add     x1, x19, #0x1000 */
        0xd51cc001,     /* msr     vbar_el2, x1 */
        0xd518c001,     /* msr     vbar_el1, x1 */
        0xd51c4020,     /* msr     elr_el2, x0 */
        0xd28060a2,     /* mov     x2, #0x305: not I, not F */
        0xd51c4002,     /* msr     spsr_el2, x2 */
        INSN_COUNTERS_MASK,
        INSN_COUNT_ON,
        0xd69f03e0,     /* eret */
    };
    static const uint32_t forever[] = { 0x14000000 /* b . */ };
    static const uint32_t leave_el2[] = { INSN_COUNT_OFF, INSN_RET };
    /* The counters are off at the HVC. */
    static const uint32_t leave_el1[] = { INSN_COUNT_OFF, 0xd4000002 };
    const uint64_t el1_code = GUEST_VECTORS(0) + 0x800;
    Pmcu p = events_init("-accel tcg -M virtualization=on");

    guest_put(&p, el1_code, forever, 1);
    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_64, leave_el2,
              ARRAY_SIZE(leave_el2));
    for (int fiq = 0; fiq < 2; fiq++) {
        guest_put(&p, GUEST_VECTORS(0) + VECTOR_IRQ_EL0 + 0x80 * fiq,
                  leave_el2, ARRAY_SIZE(leave_el2));
        guest_put(&p, GUEST_VECTORS(0) + VECTOR_IRQ_EL1 + 0x80 * fiq,
                  leave_el1, ARRAY_SIZE(leave_el1));
    }
    qtest_writel(p.qts, GICD_CTLR, 0x13);       /* ARE, both groups */
    qtest_writel(p.qts, GICR_WAKER(0), 0);
    qtest_writel(p.qts, GICR_ISENABLER0(0), 1u << PMU_PPI);
    guest_write(&p, 0, ICC_PMR_EL1, 0xff);
    guest_write(&p, 0, ICC_IGRPEN0_EL1, 1);
    guest_write(&p, 0, ICC_IGRPEN1_EL1, 1);
    guest_write(&p, 0, PMINTENSET_EL1, SOURCE);
    for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
        guest_write(&p, 0, PMEVTYPER_EL0(e - EXC_UNDEF), e);
    }
    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        qtest_writel(p.qts, GICR_IGROUPR0(0), cases[i].groups);
        guest_write(&p, 0, HCR_EL2, 1ULL << 31 /* RW */ | cases[i].hcr);
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            guest_write(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF), 0);
        }
        guest_write(&p, 0, PMOVSSET_EL0, SOURCE);
        guest_call(&p, 0, el1_code, enter, ARRAY_SIZE(enter));
        guest_write(&p, 0, PMOVSCLR_EL0, SOURCE);
        for (int e = EXC_UNDEF; e <= EXC_TRAP_FIQ; e++) {
            uint64_t count = guest_read(&p, 0, PMEVCNTR_EL0(e - EXC_UNDEF));

            if (count != (e == cases[i].event)) {
                g_test_message("case %d: event 0x%x is %" PRIu64, i, e, count);
                g_test_fail();
            }
        }
    }
    qtest_quit(p.qts);
}

/* EL3 lets counters count that do not without it: the stream has both. */
static void test_migrate_el3(void)
{
    const uint64_t spme = 1 << 17, start = 0xf0ULL << 56, last = start + 1e12;
    Pmcu p[2];
    g_autofree char *file = NULL;

    p[0] = guest_init(EL3_ARGS);
    guest_write(&p[0], 0, MDCR_EL3, spme);
    guest_write(&p[0], 0, PMEVTYPER_EL0(0), INST_RETIRED);
    guest_write(&p[0], 0, PMEVCNTR_EL0(0), start);
    guest_write(&p[0], 0, PMCCNTR_EL0, start);
    guest_write(&p[0], 0, PMCNTENSET_EL0, 1 << 31 | 1);
    guest_write(&p[0], 0, PMCR_EL0, PMCR_E | PMCR_LC | PMCR_LP);
    file = pmcu_save(p[0].qts);
    p[1] = guest_init(EL3_ARGS " -incoming defer");
    g_assert_true(pmcu_load(p[1].qts, file));
    unlink(file);
    for (int i = 0; i < 2; i++) {
        qtest_qmp_assert_success(p[i].qts, "{'execute': 'cont'}");
        g_assert_cmphex(guest_read(&p[i], 0, MDCR_EL3), ==, spme);
        g_assert_cmphex(guest_read(&p[i], 0, PMEVCNTR_EL0(0)), >, start);
        g_assert_cmphex(guest_read(&p[i], 0, PMEVCNTR_EL0(0)), <, last);
        g_assert_cmphex(guest_read(&p[i], 0, PMCCNTR_EL0), >, start);
        g_assert_cmphex(guest_read(&p[i], 0, PMCCNTR_EL0), <, last);
        g_assert_cmphex(guest_read(&p[i], 0, PMOVSSET_EL0), ==, 0);
        qtest_quit(p[i].qts);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *args;
    } modes[] = {
        { "mttcg", "-accel tcg,thread=multi" },
        { "one-insn-per-tb", "-accel tcg,one-insn-per-tb=on" },
        { "icount", "-accel tcg -icount shift=0,sleep=off" },
    };

    g_test_init(&argc, &argv, NULL);
    for (int i = 0; i < ARRAY_SIZE(modes); i++) {
        g_autofree char *exact = g_strdup_printf("arm-pmu-events/exact/%s",
                                                 modes[i].name);
        g_autofree char *overflow =
            g_strdup_printf("arm-pmu-events/overflow/%s", modes[i].name);
        g_autofree char *flag =
            g_strdup_printf("arm-pmu-events/overflow-flag/%s", modes[i].name);
        g_autofree char *one = g_strdup_printf("arm-pmu-events/random/%s",
                                               modes[i].name);

        qtest_add_data_func(exact, modes[i].args, test_exact);
        qtest_add_data_func(overflow, modes[i].args, test_overflow);
        qtest_add_data_func(flag, modes[i].args, test_overflow_flag);
        qtest_add_data_func(one, modes[i].args, test_random);
    }
    qtest_add_data_func("arm-pmu-events/random-smp/mttcg",
                        "-accel tcg,thread=multi -smp 4", test_random);
    qtest_add_data_func("arm-pmu-events/random-smp/icount",
                        "-accel tcg -icount shift=0,sleep=off -smp 4",
                        test_random);
    qtest_add_func("arm-pmu-events/migrate-often", test_migrate_often);
    qtest_add_func("arm-pmu-events/migrate-el3", test_migrate_el3);
    qtest_add_func("arm-pmu-events/back-often", test_back_often);
    qtest_add_func("arm-pmu-events/alone", test_alone);
    qtest_add_func("arm-pmu-events/filter", test_filter);
    qtest_add_func("arm-pmu-events/filter-el3", test_filter_el3);
    qtest_add_func("arm-pmu-events/el2-prohibited", test_el2_prohibited);
    qtest_add_data_func("arm-pmu-events/el3-prohibited/el1", "secure=on",
                        test_el3_prohibited);
    qtest_add_data_func("arm-pmu-events/el3-prohibited/el2",
                        "secure=on,virtualization=on", test_el3_prohibited);
    qtest_add_func("arm-pmu-events/el2-long", test_el2_long);
    qtest_add_func("arm-pmu-events/a32-registers", test_a32_registers);
    qtest_add_func("arm-pmu-events/traps", test_traps);
    qtest_add_func("arm-pmu-events/trap-interrupts", test_trap_interrupts);
    qtest_add_func("arm-pmu-events/a32-exceptions", test_a32_exceptions);
    qtest_add_func("arm-pmu-events/smc-disabled", test_smc_disabled);
    qtest_add_func("arm-pmu-events/guarded-page", test_guarded_page);
    qtest_add_func("arm-pmu-events/semihosting", test_semihosting);
    qtest_add_func("arm-pmu-events/overflow-psci", test_overflow_psci);
    qtest_add_func("arm-pmu-events/overflow-cycles", test_overflow_cycles);
    qtest_add_func("arm-pmu-events/interrupt-enable", test_interrupt_enable);
    qtest_add_data_func("arm-pmu-events/pmceid/max", "max", test_pmceid);
    qtest_add_data_func("arm-pmu-events/pmceid/a64fx", "a64fx", test_pmceid);
    qtest_add_data_func("arm-pmu-events/pmceid/cortex-a57", "cortex-a57",
                        test_pmceid);
    qtest_add_data_func("arm-pmu-events/pmcu/mttcg", modes[0].args, test_pmcu);
    qtest_add_data_func("arm-pmu-events/pmcu/icount", modes[2].args,
                        test_pmcu);
    qtest_add_func("arm-pmu-events/pmcu/rare", test_pmcu_rare);
    qtest_add_data_func("arm-pmu-events/query/mttcg", modes[0].args,
                        test_query);
    qtest_add_data_func("arm-pmu-events/query/icount", modes[2].args,
                        test_query);
    qtest_add_func("arm-pmu-events/query/enable", test_query_enable);
    qtest_add_func("arm-pmu-events/query/interrupt", test_query_interrupt);
    qtest_add_func("arm-pmu-events/query/record", test_query_record);
    qtest_add_func("arm-pmu-events/query/none", test_query_none);
    return g_test_run();
}
