/*
 * QTest of the counts of retired instructions, through Arm's INST_RETIRED
 *
 * The CPUs run TCG and call functions for the test; see guest_call(). Between
 * two reads of a counter there must be exactly the instructions that stand
 * between them in the code, and the second read. The rules:
 *
 *  R1 An instruction counts once if it is executed, loops each time around.
 *  R2 SVC has been executed when its exception is taken.
 *  R3 An instruction with an exception that returns to it does not count, nor
 *     does anything that was translated after it.
 *  R4 It does when it is executed after that.
 *  R5 The counter's state when an instruction starts decides about it.
 *  R6 AArch32: an instruction whose condition fails is executed.
 *  R7 A CPU that has seen a flag which another one has set behind a new
 *     instruction executes that, and not what was there before.
 *  R8 After a snapshot has been loaded, a CPU executes the code in it.
 *  R9 An instruction counts as often as it is executed, also where its
 *     translation had to go since QEMU has no room for more.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "arm-sysregs.h"
#include "hisi_pmcu-util.h"
#include "insn-count-util.h"

#define EL0_CODE(cpu)   (GUEST_MAILBOX(cpu) + 0x2000)

/* More instructions than a CPU goes on to count when it need not any more */
#define LINGER          270000

#define SPSR_SS         0x200000

#define INSN_MRS_X2     0xd5200002
#define INSN_MRS_X3     0xd5200003
#define INSN_SUB_X0     0xcb020060      /* sub x0, x3, x2 */

static const uint32_t vector_return[] = {
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_skip[] = {
    0xd5384025,     /*     mrs x5, elr_el1 */
    0x910010a5,     /*     add x5, x5, #4 */
    0xd5184025,     /*     msr elr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_align[] = {
    0xd5384025,     /*     mrs x5, elr_el1 */
    0xd10008a5,     /*     sub x5, x5, #2 */
    0xd5184025,     /*     msr elr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_fix_address[] = {
    0xaa1303e6,     /*     mov x6, x19 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_to_el1[] = {
    0xd5184029,     /*     msr elr_el1, x9 */
    0xd28078a5,     /*     mov x5, #0x3c5 */
    0xd5184005,     /*     msr spsr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t vector_step[] = {
    0xf10004e7,     /*     subs x7, x7, #1 */
    0x540000a0,     /*     b.eq 1f */
    0xd5384005,     /*     mrs x5, spsr_el1 */
    0xb26b00a5,     /*     orr x5, x5, #0x200000 */
    0xd5184005,     /*     msr spsr_el1, x5 */
    0xd69f03e0,     /*     eret */
    0xd5184029,     /* 1:  msr elr_el1, x9 */
    0xd28078a5,     /*     mov x5, #0x3c5 */
    0xd5184005,     /*     msr spsr_el1, x5 */
    0xd69f03e0,     /*     eret */
};

static const uint32_t straight[] = {
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
};

static const uint32_t loop[] = {
    0xd2807d04,     /*     mov x4, #1000 */
    0xf1000484,     /* 1:  subs x4, x4, #1 */
    0x54ffffe1,     /*     b.ne 1b */
};

static const uint32_t svc[] = {
    0xd503201f,     /*     nop */
    0xd4000001,     /*     svc #0 */
    0xd503201f,     /*     nop */
};

static const uint32_t undef[] = {
    0xd503201f,     /*     nop */
    0x00000000,     /*     udf #0 */
    0xd503201f,     /*     nop */
};

static const uint32_t brk_insn[] = {
    0xd503201f,     /*     nop */
    0xd4200000,     /*     brk #0 */
    0xd503201f,     /*     nop */
};

static const uint32_t alignment[] = {
    0x1000008a,     /*     adr x10, 1f */
    0x9100094b,     /*     add x11, x10, #2 */
    0xaa0b03e5,     /*     mov x5, x11 */
    0xd61f0160,     /*     br x11 */
    0xd503201f,     /* 1:  nop */
};

static const uint32_t abort_skip[] = {
    0xd2c20006,     /*     mov x6, #0x100000000000 */
    0xd503201f,     /*     nop */
    0xf94000c4,     /*     ldr x4, [x6] */
    0xd503201f,     /*     nop */
};

static const uint32_t mmio[] = {
    0xd2a12006,     /*     mov x6, #0x9000000 */
    0xd503201f,     /*     nop */
    0xb94018c4,     /*     ldr w4, [x6, #24] */
    0xd503201f,     /*     nop */
    0xb94018c4,     /*     ldr w4, [x6, #24] */
    0xb9002264,     /*     str w4, [x19, #32] */
};

static const uint32_t wfit[] = {
    0xd53be044,     /*     mrs x4, cntvct_el0 */
    0x91404084,     /*     add x4, x4, #16, lsl #12 */
    0xd503201f,     /*     nop */
    0xd5031024,     /*     wfit x4 */
    0xd503201f,     /*     nop */
};

static const uint32_t self_modifying[] = {
    0x10000086,     /*     adr x6, 1f */
    0xb85fc0c4,     /*     ldr w4, [x6, #-4] */
    0x14000004,     /*     b 2f */
    0xd503201f,     /*     nop */
    0x00000000,     /* 1:  udf #0 */
    0x14000006,     /*     b 3f */
    0xb90000c4,     /* 2:  str w4, [x6] */
    0xd50b7526,     /*     ic ivau, x6 */
    0xd5033b9f,     /*     dsb ish */
    0xd5033fdf,     /*     isb */
    0x17fffffa,     /*     b 1b */
    0xd503201f,     /* 3:  nop */
};

static const uint32_t code_el0[] = {
    0x100000a9,     /*     adr x9, 1f */
    0x91400a64,     /*     add x4, x19, #2, lsl #12 */
    0xd5184024,     /*     msr elr_el1, x4 */
    0xd5184000,     /*     msr spsr_el1, x0 */
    0xd69f03e0,     /*     eret */
    0xd503201f,     /* 1:  nop */
};

static const uint32_t el0_svc[] = {
    0xd503201f,     /*     nop */
    0xd4000001,     /*     svc #0 */
};

static const uint32_t el0_trap[] = {
    0xd503201f,     /*     nop */
    0xd53be044,     /*     mrs x4, cntvct_el0 */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
};

static const uint32_t el0_step[] = {
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
};

static const uint32_t el0_a32[] = {
    0xe1500000,     /*     cmp r0, r0 */
    0x12811001,     /*     addne r1, r1, #1 */
    0x17f000f0,     /*     .word 0x17f000f0 */
    0x02811001,     /*     addeq r1, r1, #1 */
    0xef000000,     /*     svc #0 */
};

static const uint32_t el0_a32_undef[] = {
    0xe1500000,     /*     cmp r0, r0 */
    0x07f000f0,     /*     .word 0x07f000f0 */
    0xe320f000,     /*     nop */
};

static const uint32_t el0_gcs[] = {
    0xd503201f,     /*     nop */
    0xd52b7725,     /*     gcspopm x5 */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd4000001,     /*     svc #0 */
};

static const uint32_t off_and_on[] = {
    0xd2800024,     /*     mov x4, #1 */
    0xd503201f,     /*     nop */
    0xd51b9c44,     /*     msr pmcntenclr_el0, x4 */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd51b9c24,     /*     msr pmcntenset_el0, x4 */
    0xd503201f,     /*     nop */
};

static const uint32_t overflow[] = {
    0xd2bfffe4,     /*     mov x4, #0xffff0000 */
    0xb2781c84,     /*     orr x4, x4, #0xff00 */
    0xd51be804,     /*     msr pmevcntr0_el0, x4 */
    0xd503201f,     /* 1:  nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd503201f,     /*     nop */
    0xd53b9e64,     /*     mrs x4, pmovsset_el0 */
    0xb4ffff24,     /*     cbz x4, 1b */
    0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t overflow_chained[] = {
    0xd2bfffe4,     /*     mov x4, #0xffff0000 */
    0xb2781c84,     /*     orr x4, x4, #0xff00 */
    0xd51be804,     /*     msr pmevcntr0_el0, x4 */
    0xd2807d04,     /*     mov x4, #1000 */
    0xd1000484,     /* 1:  sub x4, x4, #1 */
    0xb5ffffe4,     /*     cbnz x4, 1b */
    0xd53b9e60,     /*     mrs x0, pmovsset_el0 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t count_to[] = {
    0xd53be802,     /*     mrs x2, pmevcntr0_el0 */
    0xd1000400,     /* 1:  sub x0, x0, #1 */
    0xb5ffffe0,     /*     cbnz x0, 1b */
    0xd53be803,     /*     mrs x3, pmevcntr0_el0 */
    0xcb020060,     /*     sub x0, x3, x2 */
    0xd65f03c0,     /*     ret */
};

/*
 * Words beside the firmware's. The first three are not 0 when the CPU is about
 * to sleep, when it is awake again, and when it is about to sleep again: each
 * store is in one block with the WFIT. The last one is how long a sleep is, in
 * ns of virtual time.
 */
#define SLEEP_BEGINS    (GUEST_MAILBOX(0) + 32)
#define SLEEP_ENDS      (GUEST_MAILBOX(0) + 40)
#define SLEEP_AGAIN     (GUEST_MAILBOX(0) + 48)
#define SLEEP_NS        (GUEST_MAILBOX(0) + 56)

/* At first; doubled whenever the host was too slow for it */
#define FIRST_SLEEP_NS  (256 * MS)
#define LAST_SLEEP_NS   (20000 * MS)

/* x0: how long the first sleep is; the second one is twice as long */
static const uint32_t sleep_count_sleep[] = {
    0xd53be044,     /*     mrs x4, cntvct_el0 */
    0x8b000086,     /*     add x6, x4, x0 */
    0x8b0004c7,     /*     add x7, x6, x0, lsl #1 */
    0xd2986a08,     /*     mov x8, #50000 */
    0xf9001268,     /*     str x8, [x19, #32] */
    0xd5031026,     /*     wfit x6 */
    0xf9001668,     /*     str x8, [x19, #40] */
    0xd1000508,     /* 1:  sub x8, x8, #1 */
    0xb5ffffe8,     /*     cbnz x8, 1b */
    0xf9001a67,     /*     str x7, [x19, #48] */
    0xd5031027,     /*     wfit x7 */
    0xd65f03c0,     /*     ret */
};

static const uint32_t trigger_count_sleep[] = {
    0xd53be044,     /*     mrs x4, cntvct_el0 */
    0xf9401e65,     /*     ldr x5, [x19, #56] */
    0x8b050087,     /*     add x7, x4, x5 */
    0xd2986a08,     /*     mov x8, #50000 */
    0x52800026,     /*     mov w6, #1 */
    0xb9000006,     /*     str w6, [x0] */
    0xd1000508,     /* 1:  sub x8, x8, #1 */
    0xb5ffffe8,     /*     cbnz x8, 1b */
    0xf9001a67,     /*     str x7, [x19, #48] */
    0xd5031027,     /*     wfit x7 */
    0xd65f03c0,     /*     ret */
};

static const struct {
    const char *name;
    const uint32_t *code;
    size_t n;
    const uint32_t *vector;         /* at all synchronous exceptions */
    size_t vector_n;
    const uint32_t *el0;            /* what code_el0 calls */
    size_t el0_n;
    uint64_t arg;                   /* x0: SPSR of EL0 */
    unsigned expect;                /* without the read at the end */
    uint32_t filter;
} exact[] = {
#define CODE(x)     .code = (x), .n = ARRAY_SIZE(x)
#define VECTOR(x)   .vector = (x), .vector_n = ARRAY_SIZE(x)
#define EL0(x)      CODE(code_el0), .el0 = (x), .el0_n = ARRAY_SIZE(x)
    /* R1 */
    { "straight", CODE(straight), .expect = 3 },
    { "loop", CODE(loop), .expect = 1 + 1000 * 2 },
    /* R2: 2 NOPs, SVC, and the ERET of the handler */
    { "svc", CODE(svc), VECTOR(vector_return), .expect = 2 + 1 + 1 },
    /* R3: 2 NOPs and the handler */
    { "undef", CODE(undef), VECTOR(vector_skip), .expect = 2 + 4 },
    { "brk", CODE(brk_insn), VECTOR(vector_skip), .expect = 2 + 4 },
    /* R3: MOV, 2 NOPs, handler; the NOP behind the load only once */
    { "abort", CODE(abort_skip), VECTOR(vector_skip), .expect = 3 + 4 },
    /* R4: as above and the load, handler of two instructions */
    { "abort-retried", CODE(abort_skip), VECTOR(vector_fix_address),
      .expect = 4 + 2 },
    /* R3: 4, handler, NOP; no instruction at the misaligned PC */
    { "pc-alignment", CODE(alignment), VECTOR(vector_align),
      .expect = 4 + 4 + 1 },
    /* R1: each of them once, though I/O restarts it as a block of its own */
    { "mmio", CODE(mmio), .expect = 6 },
    /* R1: the CPU sleeps for a while */
    { "wfit", CODE(wfit), .expect = 5 },
    /* R1: the UDF is a NOP when the second branch comes to it */
    { "self-modifying", CODE(self_modifying), .expect = 3 + 5 + 3 },
    /* R5: NOP, the CLR, the last NOP, and MOV; not two NOPs and the SET */
    { "off-and-on", CODE(off_and_on), .expect = 1 + 1 + 1 + 1 },
    /* R2: 5 and NOP at EL1, NOP and SVC at EL0, handler */
    { "el0-svc", EL0(el0_svc), VECTOR(vector_to_el1), .arg = SPSR_EL0_64,
      .expect = 6 + 2 + 4 },
    /* R5: only NOP and SVC at EL0; and the read at the end is not counted */
    { "el0-only", EL0(el0_svc), VECTOR(vector_to_el1), .arg = SPSR_EL0_64,
      .expect = 2 - 1, .filter = FILTER_P },
    { "el1-only", EL0(el0_svc), VECTOR(vector_to_el1), .arg = SPSR_EL0_64,
      .expect = 6 + 4, .filter = FILTER_U },
    /* R3: as el0-svc, with one NOP and a trap in the middle of a block */
    { "el0-trap", EL0(el0_trap), VECTOR(vector_to_el1), .arg = SPSR_EL0_64,
      .expect = 6 + 1 + 4 },
    /* R1: 3 steps; handler twice with 6, and once with 2 + 4 */
    { "single-step", EL0(el0_step), VECTOR(vector_step),
      .arg = SPSR_EL0_64 | SPSR_SS, .expect = 6 + 3 + 2 * 6 + 6 },
    /* R3: the step exception comes before the first instruction */
    { "step-pending", EL0(el0_step), VECTOR(vector_to_el1),
      .arg = SPSR_EL0_64, .expect = 6 + 0 + 4 },
    /* R6: 5 at EL0 */
    { "a32-condition", EL0(el0_a32), VECTOR(vector_to_el1),
      .arg = SPSR_EL0_32, .expect = 6 + 5 + 4 },
    /* R3: CMP only */
    { "a32-undef", EL0(el0_a32_undef), VECTOR(vector_to_el1),
      .arg = SPSR_EL0_32, .expect = 6 + 1 + 4 },
    /* R3: an exception that QEMU raises at the end of the block; NOP only */
    { "gcs", EL0(el0_gcs), VECTOR(vector_to_el1),
      .arg = SPSR_EL0_64, .expect = 6 + 1 + 4 },
};

static Pmcu count_init(const char *args)
{
    g_autofree char *all = g_strdup_printf("-cpu max %s", args);

    return guest_init(all);
}

/* Let EL0 have a control stack whose top is no valid record; false if no GCS */
static bool gcs_setup(const Pmcu *p)
{
    const uint32_t record[] = { 1, 0 };

    if (!extract64(guest_read(p, 0, ID_AA64PFR1_EL1), 44, 4)) {
        return false;
    }
    guest_put(p, EL0_CODE(0) + 0x100, record, ARRAY_SIZE(record));
    guest_write(p, 0, GCSPR_EL0, EL0_CODE(0) + 0x100);
    guest_write(p, 0, GCSCRE0_EL1, 1);
    return true;
}

/* Let a counter count instructions */
static void count_setup(const Pmcu *p, unsigned cpu, unsigned counter,
                        uint32_t filter)
{
    guest_write(p, cpu, PMEVTYPER_EL0(counter), EV_INST_RETIRED | filter);
    guest_write(p, cpu, PMEVCNTR_EL0(counter), 0);
    guest_write(p, cpu, PMCNTENSET_EL0, 1 << counter);
    guest_write(p, cpu, PMCR_EL0, PMCR_E | PMCR_LC | PMCR_LP);
}

static void test_exact(const void *args)
{
    Pmcu p = count_init(args);
    uint32_t code[60];

    count_setup(&p, 0, 0, 0);
    g_assert_cmphex(guest_read(&p, 0, PMCEID0_EL0) & 0x100, ==, 0x100);
    guest_write(&p, 0, OSLAR_EL1, 0);

    for (int i = 0; i < ARRAY_SIZE(exact); i++) {
        size_t n = 0;
        bool step = g_str_has_suffix(exact[i].name, "step") ||
                    g_str_has_prefix(exact[i].name, "step");

        if (g_str_equal(exact[i].name, "gcs") && !gcs_setup(&p)) {
            g_test_message("this QEMU has no FEAT_GCS");
            continue;
        }
        for (int v = VECTOR_EL1; v <= VECTOR_EL0_32; v += 0x200) {
            guest_put(&p, GUEST_VECTORS(0) + v, exact[i].vector,
                      exact[i].vector_n);
        }
        guest_put(&p, EL0_CODE(0), exact[i].el0, exact[i].el0_n);
        guest_write(&p, 0, MDSCR_EL1, step);
        guest_write(&p, 0, PMEVTYPER_EL0(0),
                    EV_INST_RETIRED | exact[i].filter);

        code[n++] = 0xd2800067;     /* mov x7, #3 */
        code[n++] = INSN_MRS_X2 | PMEVCNTR_EL0(0);
        memcpy(&code[n], exact[i].code, 4 * exact[i].n);
        n += exact[i].n;
        code[n++] = INSN_MRS_X3 | PMEVCNTR_EL0(0);
        code[n++] = INSN_SUB_X0;
        code[n++] = INSN_RET;

        /* The second time, everything has been translated */
        for (int again = 0; again < 2; again++) {
            uint64_t count = guest_call(&p, 0, exact[i].arg, code, n);

            if (count != exact[i].expect + 1) {
                g_test_message("%s: %" PRIu64 " and not %u", exact[i].name,
                               count, exact[i].expect + 1);
                g_test_fail();
            }
        }
    }
    qtest_quit(p.qts);
}

/* What a CPU counts is its own, however the CPUs take turns. */
static void test_two_cpus(const void *args)
{
    g_autofree char *smp = g_strdup_printf("-smp 2 %s", (const char *)args);
    Pmcu p = count_init(smp);
    uint64_t n[2] = { 3000000, 1000000 };

    guest_cpu_on(&p, 0, 1, false);
    for (int cpu = 0; cpu < 2; cpu++) {
        count_setup(&p, cpu, 0, 0);
    }
    for (int cpu = 0; cpu < 2; cpu++) {
        guest_start(&p, cpu, n[cpu], count_to, ARRAY_SIZE(count_to));
    }
    for (int cpu = 0; cpu < 2; cpu++) {
        /* R1 */
        g_assert_cmpint(guest_wait(&p, cpu), ==, 2 * n[cpu] + 1);
    }
    /* A CPU that has it off stands still */
    guest_write(&p, 1, PMCNTENCLR_EL0, 1);
    n[1] = guest_read(&p, 1, PMEVCNTR_EL0(0));
    guest_call(&p, 0, 1000, count_to, ARRAY_SIZE(count_to));
    g_assert_cmpint(guest_read(&p, 1, PMEVCNTR_EL0(0)), ==, n[1]);
    qtest_quit(p.qts);
}

/*
 * CPU 1 rewrites a function, whose result is then the next number, writes the
 * number behind it, and waits until CPU 0 has seen that. CPU 0 calls the
 * function all the time, so that it is translated again at once.
 */
static void test_code_of_another(const void *args)
{
    enum {
        FUNCTION = 0x41030000, NUMBERS = 0x41040000, TIMES = 10000, PART = 500
    };
    static const uint32_t function[] = {
        0x52800004,     /*     mov w4, #0 */
        INSN_RET,
    };
    static const uint32_t caller[] = {
        0xaa1e03ea,     /*     mov x10, x30 */
        0xd2a82061,     /*     mov x1, #FUNCTION */
        0xd2a82082,     /*     mov x2, #NUMBERS */
        0xd2800005,     /*     mov x5, #0 */
        0xb9400043,     /* 1:  ldr w3, [x2] */
        0xd5033bbf,     /*     dmb ish */
        0xd5033fdf,     /*     isb */
        0xd63f0020,     /*     blr x1 */
        0x4b030086,     /*     sub w6, w4, w3 */
        0x710004df,     /*     cmp w6, #1: this number or the next? */
        0x54000049,     /*     b.ls 2f */
        0x910004a5,     /*     add x5, x5, #1 */
        0xb9000843,     /* 2:  str w3, [x2, #8] */
        0x6b00007f,     /*     cmp w3, w0 */
        0x54fffec1,     /*     b.ne 1b */
        0xaa0503e0,     /*     mov x0, x5 */
        0xd65f0140,     /*     ret x10 */
    };
    static const uint32_t writer[] = {
        0xd2a82061,     /*     mov x1, #FUNCTION */
        0xd2a82082,     /*     mov x2, #NUMBERS */
        0x52800003,     /*     mov w3, #0 */
        0x52aa5005,     /*     mov w5, #0x52800000 */
        0x110010a5,     /*     add w5, w5, #4 */
        0x11000463,     /* 1:  add w3, w3, #1 */
        0x2a0314a6,     /*     orr w6, w5, w3, lsl #5 */
        0xb9000026,     /*     str w6, [x1]: mov w4, #w3 */
        0xd50b7b21,     /*     dc cvau, x1 */
        0xd5033b9f,     /*     dsb ish */
        0xd50b7521,     /*     ic ivau, x1 */
        0xd5033b9f,     /*     dsb ish */
        0xb9000043,     /*     str w3, [x2] */
        0xb9400847,     /* 2:  ldr w7, [x2, #8] */
        0x6b0300ff,     /*     cmp w7, w3 */
        0x54ffffc1,     /*     b.ne 2b */
        0x6b00007f,     /*     cmp w3, w0 */
        0x54fffe81,     /*     b.ne 1b */
        INSN_RET,
    };
    static const uint32_t go_to_caller[] = {
        0xd2a82069,     /*     mov x9, #FUNCTION */
        0x91040129,     /*     add x9, x9, #0x100 */
        0xd61f0120,     /*     br x9 */
    };
    g_autofree char *smp = g_strdup_printf("-smp 2 %s", (const char *)args);
    Pmcu p = count_init(smp);
    int64_t end = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;

    guest_cpu_on(&p, 0, 1, false);
    /* In the same page, which so has code all the time */
    guest_put(&p, FUNCTION + 0x100, caller, ARRAY_SIZE(caller));
    /* Two CPUs that wait for each other are slow where they share one */
    for (int n = 0; !n || (n < TIMES && g_get_monotonic_time() < end);
         n += PART) {
        qtest_writel(p.qts, NUMBERS, 0);
        qtest_writel(p.qts, NUMBERS + 8, 0);
        guest_put(&p, FUNCTION, function, ARRAY_SIZE(function));
        guest_start(&p, 0, PART, go_to_caller, ARRAY_SIZE(go_to_caller));
        guest_start(&p, 1, PART, writer, ARRAY_SIZE(writer));
        guest_wait(&p, 1);
        g_assert_cmpint(guest_wait(&p, 0), ==, 0);      /* R7 */
    }
    qtest_quit(p.qts);
}

/*
 * A 32-bit counter sets its flag, and the interrupt if that is enabled, with
 * the instruction that overflows it.
 */
static void test_overflow(const void *args)
{
    Pmcu p = count_init(args);
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

    qtest_irq_intercept_out_named(p.qts, cpu, "pmu-interrupt");
    count_setup(&p, 0, 0, 0);
    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC);
    for (int irq = 0; irq < 2; irq++) {
        uint64_t count;

        guest_write(&p, 0, PMINTENSET_EL1, irq);
        guest_write(&p, 0, PMOVSCLR_EL0, UINT32_MAX);
        g_assert_false(qtest_get_irq(p.qts, 0));

        /*
         * It takes 256 instructions to 0: MSR, 31 turns of 8, and 7 more, the
         * last of which reads the flag before that. Then CBZ and one turn.
         */
        count = guest_call(&p, 0, 0, overflow, ARRAY_SIZE(overflow));
        g_assert_cmpint(count & UINT32_MAX, ==, 1 + 8);
        g_assert_cmpint(qtest_get_irq(p.qts, 0), ==, irq);
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 1);
        guest_write(&p, 0, PMOVSCLR_EL0, 1);
        g_assert_false(qtest_get_irq(p.qts, 0));

        /* Blocks that are chained do not miss it */
        count = guest_call(&p, 0, 0, overflow_chained,
                           ARRAY_SIZE(overflow_chained));
        g_assert_cmphex(count, ==, 1);
        guest_write(&p, 0, PMOVSCLR_EL0, 1);
        /* There is no second one */
        guest_write(&p, 0, PMEVCNTR_EL0(0), 0);
        guest_call(&p, 0, 100000, count_to, ARRAY_SIZE(count_to));
        g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0);
    }
    qtest_quit(p.qts);
}

static uint64_t pmcu_value(const Pmcu *p, unsigned record)
{
    return qtest_readq(p->qts, STORE_BASE + 0xc0 * record + 0x40);
}

/*
 * The PMCU reads a CPU that runs. Counter 1 goes on all the time, so that the
 * CPU knows, too.
 */
static void test_pmcu_running(const void *args)
{
    const unsigned windows = 100;
    Pmcu p = count_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT, .ev_len = windows };
    uint64_t before, after, first, last, sum;
    unsigned tries = 0;
    bool late;

    pmcu_events(&p, EVENT_BASE, windows, EV_INST_RETIRED);
    count_setup(&p, 0, 1, 0);
    /* Again if the host has left the CPU no time in any window */
    do {
        g_assert_cmpint(tries++, <, 100);
        sum = 0;
        before = guest_read(&p, 0, PMEVCNTR_EL0(1));
        pmcu_start(&p, &run);
        pmcu_wait_stored(&p, windows);
        after = guest_read(&p, 0, PMEVCNTR_EL0(1));
        for (int i = 0; i < windows; i++) {
            /* Not negative, which would be more than 2^63 */
            g_assert_cmpuint(pmcu_value(&p, i), <=, after - before);
            sum += pmcu_value(&p, i);
        }
        /* Windows do not overlap. What is shown late may be a block. */
        g_assert_cmpint(sum, <=, after - before + 512);
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
    } while (!sum);

    /* In one window that is long enough, nothing gets lost */
    run.ev_len = 1;
    run.wait_cnt = 250 * MS_TICKS;
    do {
        run.wait_cnt *= 2;
        g_assert_cmpint(run.wait_cnt, <=, 16000 * MS_TICKS);
        before = guest_read(&p, 0, PMEVCNTR_EL0(1));
        pmcu_start(&p, &run);
        first = guest_read(&p, 0, PMEVCNTR_EL0(1));
        g_usleep(100000);
        last = guest_read(&p, 0, PMEVCNTR_EL0(1));
        late = pmcu_stored(&p);
        pmcu_wait_stored(&p, 1);
        after = guest_read(&p, 0, PMEVCNTR_EL0(1));
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
    } while (late);
    g_assert_cmpint(pmcu_value(&p, 0), >=, last - first - 512);
    g_assert_cmpint(pmcu_value(&p, 0), <=, after - before + 512);

    /* A CPU that does not count yet begins soon after it runs */
    guest_write(&p, 0, PMCNTENCLR_EL0, UINT32_MAX);
    run.wait_cnt = 250 * MS_TICKS;
    do {
        run.wait_cnt *= 2;
        g_assert_cmpint(run.wait_cnt, <=, 32000 * MS_TICKS);
        pmcu_start(&p, &run);
        pmcu_wait_stored(&p, 1);
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
        g_assert_cmpint(pmcu_value(&p, 0), <, 100000000000);
    } while (pmcu_value(&p, 0) <= 10000);
    qtest_quit(p.qts);
}

/* Wait until the CPU has written a word */
static void wait_word(const Pmcu *p, uint64_t addr)
{
    for (int i = 0; !qtest_readq(p->qts, addr); i++) {
        g_assert_cmpint(i, <, PATIENCE_MS);
        g_usleep(1000);
    }
}

/*
 * Wait for the only record of a run. True if the CPU was asleep for the second
 * time when the window ended: before the end it was about to sleep, and after
 * the end it had not returned.
 */
static bool ends_asleep(const Pmcu *p)
{
    bool asleep;

    wait_word(p, SLEEP_AGAIN);
    asleep = !pmcu_stored(p);
    pmcu_wait_stored(p, 1);
    asleep = asleep && qtest_readq(p->qts, GUEST_MAILBOX(0) + GUEST_FN);
    pmcu_write(p, A_INT_CLR, R_INT_STAT_DONE_MASK);
    guest_wait(p, 0);
    return asleep;
}

static void clear_sleep_words(const Pmcu *p)
{
    qtest_writeq(p->qts, SLEEP_BEGINS, 0);
    qtest_writeq(p->qts, SLEEP_ENDS, 0);
    qtest_writeq(p->qts, SLEEP_AGAIN, 0);
}

/*
 * Start a window of 1.875 sleeps in the CPU's first sleep. False if the host
 * was too slow for the window to begin and to end while the CPU sleeps.
 */
static bool window_of_sleeper(const Pmcu *p, uint64_t sleep_ns)
{
    PmcuRun run = {
        PMCU_RUN_DEFAULT, .wait_cnt = sleep_ns * 15 / 8 / HISI_PMCU_TICK_NS,
    };
    bool in_time;

    clear_sleep_words(p);
    guest_start(p, 0, sleep_ns, sleep_count_sleep,
                ARRAY_SIZE(sleep_count_sleep));
    wait_word(p, SLEEP_BEGINS);
    /* The CPU stops between two blocks, and so not before the WFIT. */
    qtest_qmp_assert_success(p->qts, "{'execute': 'stop'}");
    in_time = !qtest_readq(p->qts, SLEEP_ENDS);
    if (in_time) {
        pmcu_start(p, &run);
    }
    qtest_qmp_assert_success(p->qts, "{'execute': 'cont'}");
    if (!in_time) {
        guest_wait(p, 0);
        return false;
    }
    return ends_asleep(p);
}

/* The window begins and ends while the CPU sleeps: then it is exact. */
static void test_pmcu_sleeping(void)
{
    Pmcu p = count_init("-accel tcg");

    pmcu_events(&p, EVENT_BASE, 1, EV_INST_RETIRED);
    for (int on = 0; on < 2; on++) {
        uint64_t sleep_ns = FIRST_SLEEP_NS;

        if (on) {
            count_setup(&p, 0, 1, 0);
        }
        for (; !window_of_sleeper(&p, sleep_ns); sleep_ns *= 2) {
            g_assert_cmpint(sleep_ns, <, LAST_SLEEP_NS);
        }
        /* R1: the loop, two stores, and WFIT */
        g_assert_cmpint(pmcu_value(&p, 0), ==, 2 * 50000 + 3);
    }
    qtest_quit(p.qts);
}

/*
 * The CPU opens the window itself, by an I/O access, and sleeps at its end.
 * R5: The store is not counted, and what is behind it is, even if a jump from
 * there to a block that does not count has been made before.
 */
static void test_pmcu_self(const void *args)
{
    static const uint32_t events[] = { EV_CPU_CYCLES, EV_INST_RETIRED };
    /* There, time does not depend on the host, and may go faster than ours. */
    const bool icount = g_strrstr(args, "icount");
    Pmcu p = count_init(args);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    uint64_t sleep_ns = FIRST_SLEEP_NS;
    bool in_time;

    for (int i = 0; i < ARRAY_SIZE(events); i += in_time) {
        g_assert_cmpint(sleep_ns, <, LAST_SLEEP_NS);
        clear_sleep_words(&p);
        qtest_writeq(p.qts, SLEEP_NS, sleep_ns);
        run.wait_cnt = sleep_ns / 2 / HISI_PMCU_TICK_NS;
        pmcu_events(&p, EVENT_BASE, 1, events[i]);
        pmcu_program(&p, &run);
        if (i == 0) {
            guest_start(&p, 0, p.base + A_FSM_CTRL, trigger_count_sleep,
                        ARRAY_SIZE(trigger_count_sleep));
        } else {
            /* Do not write the code again: that would undo the jumps */
            qtest_writeq(p.qts, GUEST_MAILBOX(0) + GUEST_FN,
                         GUEST_MAILBOX(0) + GUEST_CODE);
        }
        in_time = ends_asleep(&p) || icount;
        sleep_ns *= in_time ? 1 : 2;
    }
    /* R1: the loop, a store, and WFIT */
    g_assert_cmpint(pmcu_value(&p, 0), ==, 2 * 50000 + 2);
    qtest_quit(p.qts);
}

/* Unless a counter wants it, not one block counts. */
static void test_off(void)
{
    g_autofree char *name = NULL;
    g_autofree char *args = NULL;
    int fd = g_file_open_tmp("insn-count-XXXXXX", &name, NULL);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    unsigned counting[4], tries;
    Pmcu p;

    g_assert(fd >= 0);
    close(fd);
    args = g_strdup_printf("-accel tcg -d exec -D %s", name);
    p = count_init(args);
    /* PMU on, event chosen, but not enabled here: counter, EL, or all */
    guest_write(&p, 0, PMEVTYPER_EL0(0), EV_INST_RETIRED);
    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC);
    guest_write(&p, 0, PMEVTYPER_EL0(1), EV_INST_RETIRED | FILTER_P);
    guest_write(&p, 0, PMEVTYPER_EL0(2), EV_CPU_CYCLES);
    guest_write(&p, 0, PMCNTENSET_EL0, 6);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    g_assert_cmpint(insn_count_blocks(name, &counting[0]), >, 0);
    g_assert_cmpint(counting[0], ==, 0);

    guest_write(&p, 0, PMCNTENSET_EL0, 1);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    guest_write(&p, 0, PMCNTENCLR_EL0, 1);
    guest_call(&p, 0, LINGER, count_to, ARRAY_SIZE(count_to));
    insn_count_blocks(name, &counting[1]);
    g_assert_cmpint(counting[1], >, 0);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    insn_count_blocks(name, &counting[2]);
    g_assert_cmpint(counting[2], ==, counting[1]);

    /* And when the PMCU has finished; on a busy host, the CPU may miss a run */
    pmcu_events(&p, EVENT_BASE, 1, EV_INST_RETIRED);
    for (tries = 0; counting[2] == counting[1] && tries < 100; tries++) {
        pmcu_start(&p, &run);
        pmcu_wait_stored(&p, 1);
        pmcu_write(&p, A_INT_CLR, R_INT_STAT_DONE_MASK);
        guest_call(&p, 0, LINGER, count_to, ARRAY_SIZE(count_to));
        insn_count_blocks(name, &counting[2]);
    }
    g_assert_cmpint(counting[2], >, counting[1]);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    insn_count_blocks(name, &counting[3]);
    g_assert_cmpint(counting[3], ==, counting[2]);

    /* And after a reset, which happens while the CPU is stopped */
    count_setup(&p, 0, 0, 0);
    qtest_system_reset(p.qts);
    guest_call(&p, 0, LINGER, count_to, ARRAY_SIZE(count_to));
    insn_count_blocks(name, &counting[2]);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    insn_count_blocks(name, &counting[3]);
    g_assert_cmpint(counting[3], ==, counting[2]);
    qtest_quit(p.qts);
    unlink(name);
}

/*
 * A counter goes on where it was, and the stream is that of a PMU without. One
 * that is far below its overflow, of 32 or 64 bits, does not overflow.
 */
static void test_migrate(void)
{
    const uint64_t below = 0xfffffff0f0000000;
    const char *args = "-accel tcg -m 64M";
    Pmcu p = count_init(args);
    g_autofree char *file = NULL;
    g_autofree char *incoming = g_strdup_printf("%s -incoming defer", args);
    /* Counter 0 without counter 1: the same whenever it is read */
    static const uint32_t difference[] = {
        INSN_MRS_X0 | PMEVCNTR_EL0(0) | 2, INSN_MRS_X0 | PMEVCNTR_EL0(1) | 3,
        0xcb030040,     /* sub x0, x2, x3 */
        INSN_RET,
    };
    uint64_t before, apart;

    count_setup(&p, 0, 0, 0);
    guest_write(&p, 0, PMEVTYPER_EL0(1), EV_INST_RETIRED);
    guest_write(&p, 0, PMCNTENSET_EL0, 2);
    guest_write(&p, 0, PMEVCNTR_EL0(1), below);
    guest_write(&p, 0, PMEVCNTR_EL0(0), 1ULL << 40);
    apart = guest_call(&p, 0, 0, difference, ARRAY_SIZE(difference));
    before = guest_read(&p, 0, PMEVCNTR_EL0(0));
    file = pmcu_save(p.qts);
    qtest_quit(p.qts);

    p = count_init(incoming);
    g_assert_true(pmcu_load(p.qts, file));
    unlink(file);
    g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, 0);
    g_assert_cmphex(guest_read(&p, 0, PMEVCNTR_EL0(1)), >, below);
    g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(0)), >, before);
    g_assert_cmphex(guest_call(&p, 0, 0, difference, ARRAY_SIZE(difference)),
                    ==, apart);
    g_assert_cmpint(guest_call(&p, 0, 1000, count_to, ARRAY_SIZE(count_to)),
                    ==, 2001);
    qtest_quit(p.qts);
}

/* What blocks that count remember of others ends with those, at a flush. */
static void test_snapshot_code(void)
{
    enum { FUNCTION = 0x41030000 };
    static const uint32_t function[][2] = {
        { 0x528000c0, INSN_RET },   /*     mov w0, #6 */
        { 0x528000e0, INSN_RET },   /*     mov w0, #7 */
    };
    static const uint32_t caller[] = {
        0xaa1e03ea,     /*     mov x10, x30 */
        0xd2a82061,     /*     mov x1, #FUNCTION */
        0xd63f0020,     /*     blr x1 */
        0xd508871f,     /*     tlbi vmalle1 */
        0xd5033fdf,     /*     isb */
        0xd63f0020,     /*     blr x1: which is looked for once more */
        0xd65f0140,     /*     ret x10 */
    };
    g_autofree char *disk = pmcu_disk();
    g_autofree char *args = g_strdup_printf(
        "-accel tcg -m 64M -drive if=none,format=qcow2,file=%s", disk);
    Pmcu p = count_init(args);

    count_setup(&p, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        g_autofree char *out = NULL;

        guest_put(&p, FUNCTION, function[i], ARRAY_SIZE(function[i]));
        if (!i) {
            out = qtest_hmp(p.qts, "savevm s");
            g_assert_cmpstr(out, ==, "");
        }
        g_assert_cmpint(guest_call(&p, 0, 0, caller, ARRAY_SIZE(caller)), ==,
                        6 + i);
    }
    for (int i = 0; i < 2; i++) {
        g_autofree char *out = qtest_hmp(p.qts, "loadvm s");

        g_assert_cmpstr(out, ==, "");
        g_assert_cmpint(guest_call(&p, 0, 0, caller, ARRAY_SIZE(caller)), ==,
                        6);         /* R8 */
        guest_put(&p, FUNCTION, function[1], ARRAY_SIZE(function[1]));
        g_assert_cmpint(guest_call(&p, 0, 0, caller, ARRAY_SIZE(caller)), ==,
                        7);
    }
    qtest_quit(p.qts);
    unlink(disk);
}

/*
 * Forks with two ways. The second way is translated long after its fork, with
 * which it is to be linked: but there is only 1 MiB for blocks, so sometimes
 * all are discarded at that moment, the fork, too. The last function discards
 * the code of both, and blocks that are linked to it are told.
 */
static void test_no_room(const void *args)
{
    enum { FORKS = 1024, CODE = 0x41030000, ROUNDS = 24 };
    static const uint32_t fork[] = {
        0x37000040,     /*     tbnz w0, #0, 1f */
        0x14000002,     /*     b 2f */
        0x14000001,     /* 1:  b 2f */
    };                  /* 2: */
    static const uint32_t walk[] = {
        0xaa1e03ea,     /*     mov x10, x30 */
        0xd2a82061,     /*     mov x1, #CODE */
        INSN_MRS_X2 | PMEVCNTR_EL0(0),
        0xd63f0020,     /*     blr x1 */
        INSN_MRS_X3 | PMEVCNTR_EL0(0),
        INSN_SUB_X0,
        0xd65f0140,     /*     ret x10 */
    };
    static const uint32_t rewrite[] = {
        0xd2a82061,     /*     mov x1, #CODE */
        0xb9400022,     /* 1:  ldr w2, [x1] */
        0xb8004422,     /*     str w2, [x1], #4 */
        0xd1000400,     /*     sub x0, x0, #1 */
        0xb5ffffa0,     /*     cbnz x0, 1b */
        INSN_RET,
    };
    static const uint32_t ret[] = { INSN_RET };
    Pmcu p = count_init(args);
    g_autofree char *jit = NULL;
    const char *flushes;

    for (int i = 0; i < FORKS; i++) {
        guest_put(&p, CODE + i * sizeof(fork), fork, ARRAY_SIZE(fork));
    }
    guest_put(&p, CODE + FORKS * sizeof(fork), ret, 1);
    count_setup(&p, 0, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        for (int way = 0; way < 2; way++) {
            /* R9: BLR, two instructions at each fork, RET, and the read */
            g_assert_cmpint(guest_call(&p, 0, way, walk, ARRAY_SIZE(walk)), ==,
                            1 + 2 * FORKS + 1 + 1);
        }
        guest_call(&p, 0, FORKS * ARRAY_SIZE(fork), rewrite,
                   ARRAY_SIZE(rewrite));
    }
    jit = qtest_hmp(p.qts, "info jit");
    flushes = strstr(jit, "TB flush count");
    g_assert_nonnull(flushes);
    g_assert_cmpint(atoi(flushes + strlen("TB flush count")), >, ROUNDS / 2);
    qtest_quit(p.qts);
}

/* A CPU without a PMU, whose TCGCPUOps have nothing to count: Cortex-M0 */
static void test_none(void)
{
    enum { RESULT = 0x20000000 };
    static const uint8_t image[] = {
        0x00, 0x10, 0x00, 0x20,     /*     stack pointer */
        0x09, 0x00, 0x00, 0x00,     /*     reset vector, Thumb */
        0x64, 0x20,                 /*     movs r0, #100 */
        0x03, 0x31,                 /* 1:  adds r1, #3 */
        0x01, 0x38,                 /*     subs r0, #1 */
        0xfc, 0xd1,                 /*     bne 1b */
        0x01, 0x22,                 /*     movs r2, #1 */
        0x52, 0x07,                 /*     lsls r2, r2, #29 */
        0x11, 0x60,                 /*     str r1, [r2] */
        0xfe, 0xe7,                 /*     b . */
    };
    g_autofree char *name = NULL;
    gint64 end = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
    int fd = g_file_open_tmp("insn-count-XXXXXX", &name, NULL);
    QTestState *qts;

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, image, sizeof(image)), ==, sizeof(image));
    close(fd);
    qts = qtest_initf("-accel tcg -M microbit -kernel %s", name);
    while (!qtest_readl(qts, RESULT)) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        g_usleep(1000);
    }
    g_assert_cmpint(qtest_readl(qts, RESULT), ==, 300);
    qtest_quit(qts);
    unlink(name);
}

/* After a reset nothing counts */
static void test_reset(void)
{
    Pmcu p = count_init("-accel tcg");

    count_setup(&p, 0, 0, 0);
    qtest_system_reset(p.qts);
    qtest_writeq(p.qts, GUEST_MAILBOX(0), 0);
    guest_call(&p, 0, 100, count_to, ARRAY_SIZE(count_to));
    g_assert_cmpint(guest_read(&p, 0, PMEVCNTR_EL0(0)), ==, 0);
    count_setup(&p, 0, 0, 0);
    g_assert_cmpint(guest_call(&p, 0, 1000, count_to, ARRAY_SIZE(count_to)),
                    ==, 2001);
    qtest_quit(p.qts);
}

/*
 * As in stock QEMU, "pmu" can be switched off while a counter counts: the guest
 * goes on, also where the counter's top bit would have changed, and not one
 * instruction at a time, which would take minutes.
 */
static void test_pmu_off(void)
{
    Pmcu p = count_init("-accel tcg");
    g_autofree char *cpu = pmcu_find_device(p.qts, "max-arm-cpu", 0);

    count_setup(&p, 0, 0, 0);
    guest_write(&p, 0, PMEVCNTR_EL0(0), (1ULL << 63) - 5000);
    qtest_qmp_assert_success(p.qts,
        "{'execute': 'qom-set', 'arguments': {'path': %s, "
        "'property': 'pmu', 'value': false}}", cpu);
    guest_call(&p, 0, 50000000, count_to, ARRAY_SIZE(count_to));
    qtest_quit(p.qts);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        const char *args;
    } modes[] = {
        { "mttcg", "-accel tcg,thread=multi" },
        { "single", "-accel tcg,thread=single" },
        { "one-insn-per-tb", "-accel tcg,one-insn-per-tb=on" },
        { "icount", "-accel tcg -icount shift=0,sleep=off" },
        { "icount-10", "-accel tcg -icount shift=10,sleep=on" },
    };

    g_test_init(&argc, &argv, NULL);

    if (!qtest_has_accel("tcg")) {
        g_test_skip("No TCG accelerator available");
        return 0;
    }

    for (int i = 0; i < ARRAY_SIZE(modes); i++) {
        g_autofree char *name = g_strdup_printf("insn-count/exact/%s",
                                                modes[i].name);
        g_autofree char *two = g_strdup_printf("insn-count/two-cpus/%s",
                                               modes[i].name);
        g_autofree char *overflow = g_strdup_printf("insn-count/overflow/%s",
                                                    modes[i].name);

        qtest_add_data_func(name, modes[i].args, test_exact);
        qtest_add_data_func(two, modes[i].args, test_two_cpus);
        qtest_add_data_func(overflow, modes[i].args, test_overflow);
    }
    qtest_add_data_func("insn-count/pmcu-running/mttcg", modes[0].args,
                        test_pmcu_running);
    qtest_add_data_func("insn-count/pmcu-running/single", modes[1].args,
                        test_pmcu_running);
    qtest_add_data_func("insn-count/code-of-another/mttcg", modes[0].args,
                        test_code_of_another);
    qtest_add_func("insn-count/pmcu-sleeping", test_pmcu_sleeping);
    qtest_add_data_func("insn-count/pmcu-self/mttcg", modes[0].args,
                        test_pmcu_self);
    qtest_add_data_func("insn-count/pmcu-self/icount", modes[3].args,
                        test_pmcu_self);
    qtest_add_func("insn-count/off", test_off);
    qtest_add_func("insn-count/none", test_none);
    qtest_add_func("insn-count/migrate", test_migrate);
    qtest_add_func("insn-count/snapshot-code", test_snapshot_code);
    qtest_add_data_func("insn-count/no-room/mttcg",
                        "-accel tcg,thread=multi,tb-size=1 -smp 2",
                        test_no_room);
    qtest_add_data_func("insn-count/no-room/one-cpu",
                        "-accel tcg,thread=multi,tb-size=1 -smp 1",
                        test_no_room);
    qtest_add_data_func("insn-count/no-room/icount",
                        "-accel tcg,tb-size=1 -icount shift=0,sleep=off",
                        test_no_room);
    qtest_add_func("insn-count/reset", test_reset);
    qtest_add_func("insn-count/pmu-off", test_pmu_off);

    return g_test_run();
}
