/*
 * QTest of issue slots in Arm's PMU: the CPU property "pmu-topdown"
 *
 * The CPU runs TCG and calls functions for the test; see guest_call(). What
 * instructions cost is in docs/system/arm/pmu-events.rst; each value here is
 * worked out from that.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "arm-sysregs.h"
#include "hisi_pmcu-util.h"

#define CPACR_FP_SVE    0x330000
#define COUNT_CYCLES    (1U << 31)

/* A misprediction for so many branches that are taken, and its operations */
#define TAKEN           64
#define WRONG_OPS       16

enum {
    INST_RETIRED = 0x08,
    BR_MIS_PRED = 0x10,
    CPU_CYCLES = 0x11,
    BR_MIS_PRED_RETIRED = 0x22,
    STALL_FRONTEND = 0x23,
    STALL_BACKEND = 0x24,
    OP_RETIRED = 0x3a,
    OP_SPEC = 0x3b,
    STALL = 0x3c,
    STALL_SLOT_BACKEND = 0x3d,
    STALL_SLOT_FRONTEND = 0x3e,
    STALL_SLOT = 0x3f,
};

/* One in each counter; count_all below has the mask */
static const uint16_t events[] = {
    INST_RETIRED, BR_MIS_PRED, CPU_CYCLES, BR_MIS_PRED_RETIRED, STALL_FRONTEND,
    STALL_BACKEND, OP_RETIRED, OP_SPEC, STALL, STALL_SLOT_BACKEND,
    STALL_SLOT_FRONTEND, STALL_SLOT,
};

/* What a CPU model has */
typedef struct Model {
    const char *name;
    unsigned slots;
    unsigned frontend;      /* recovers in so many cycles */
    unsigned backend;
} Model;

static const Model models[] = {
    { "neoverse-v1", 8, 4, 0 },
    { "neoverse-n2", 5, 1, 3 },
    { "max", 4, 4, 0 },
};

/* What a piece of code costs, besides an instruction's own slot */
typedef struct Cost {
    unsigned insns;
    unsigned taken;
    unsigned frontend;
    unsigned backend;
} Cost;

typedef struct Code {
    const char *name;
    uint32_t insns[12];
    Cost turn;
} Code;

/* What is in the loop, before its end: subs x0, x0, #1; b.ne */
static const Code codes[] = {
    { "data", { 0x8b0400a5 /* add x5, x5, x4 */, 0xd503201f /* nop */ },
      { 2, 0, 0, 0 } },
    { "load", { 0xf9400264 /* ldr x4, [x19] */, 0xa9401664 /* ldp x4, x5 */ },
      { 2, 0, 0, 2 * 2 } },
    { "store", { 0xf9000e64 /* str x4, [x19, #24] */ }, { 1, 0, 0, 1 } },
    { "atomic", { 0xf8250064 /* ldadd x5, x4, [x3] */ }, { 1, 0, 0, 16 } },
    { "exclusive", { 0xc85f7c64 /* ldxr x4, [x3] */,
                     0xc8057c64 /* stxr w5, x4, [x3] */ },
      { 2, 0, 0, 8 + 8 } },
    { "divide", { 0x9ac60c85 /* sdiv x5, x4, x6 */,
                  0x1ac60885 /* udiv w5, w4, w6 */ }, { 2, 0, 0, 2 * 32 } },
    { "float", { 0x1e622820 /* fadd d0, d1, d2 */,
                 0x4ea28420 /* add v0.4s, v1.4s, v2.4s */,
                 0x4e284820 /* aese v0.16b, v1.16b */,
                 0x04200000 /* add z0.b, z0.b, z0.b */ },
      { 4, 0, 0, 1 + 1 + 2 + 2 } },
    { "barrier", { 0xd5033fdf /* isb */, 0xd5033f9f /* dsb sy */,
                   0xd5033bbf /* dmb ish */ }, { 3, 0, 32, 32 + 8 } },
    { "register", { 0xd53b9d04 /* mrs x4, pmccntr_el0 */,
                    0xd53be805 /* mrs x5, pmevcntr0_el0 */,
                    0xd53be044 /* mrs x4, cntvct_el0 */ },
      { 3, 0, 0, 2 * 32 } },
    { "call", { 0x94000002 /* bl 1f */, 0x14000002 /* b 2f */,
                0xd65f03c0 /* 1: ret */, 0x10000043 /* 2: adr x3, 3f */,
                0xd61f0060 /* br x3 */, 0xb5000060 /* 3: cbnz x0, 4f */,
                0xd503201f /* nop */, 0xd503201f /* nop */ },
      { 6, 5, 1 + 4, 0 } },
};

static const uint32_t count_all[] = {
    0xaa1e03e9,     /*     mov x9, x30 */
    0x91400e63,     /*     add x3, x19, #3, lsl #12 */
    0x5281fff4,     /*     mov w20, #0x0fff */
    0x72b00014,     /*     movk w20, #0x8000, lsl #16 */
    0xd51b9c34,     /*     msr pmcntenset_el0, x20 */
};

static const uint32_t end_all[] = {
    0xd51b9c54,     /*     msr pmcntenclr_el0, x20 */
    0xaa0903fe,     /*     mov x30, x9 */
    INSN_RET,
};

static Pmcu topdown_init(const char *args, const Model *m)
{
    g_autofree char *all = g_strdup_printf("-cpu %s,pmu-topdown=on,"
                                           "pmu-counters=%zu %s", m->name,
                                           ARRAY_SIZE(events), args);
    Pmcu p = guest_init(all);

    guest_write(&p, 0, CPACR_EL1, CPACR_FP_SVE);
    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_LC);
    for (int e = 0; e < ARRAY_SIZE(events); e++) {
        guest_write(&p, 0, PMEVTYPER_EL0(e), events[e]);
    }
    return p;
}

static unsigned length(const Code *code)
{
    unsigned n = 0;

    while (n < ARRAY_SIZE(code->insns) && code->insns[n]) {
        n++;
    }
    return n;
}

/* Count all events in @turns of a loop. */
static void run_loop(const Pmcu *p, const Code *code, unsigned turns)
{
    unsigned body = length(code), n = 0;
    uint32_t insns[32];

    for (int e = 0; e < ARRAY_SIZE(events); e++) {
        guest_write(p, 0, PMEVCNTR_EL0(e), 0);
    }
    guest_write(p, 0, PMCCNTR_EL0, 0);
    memcpy(&insns[n], count_all, sizeof(count_all));
    n += ARRAY_SIZE(count_all);
    memcpy(&insns[n], code->insns, 4 * body);
    n += body;
    insns[n++] = 0xf1000400;    /* subs x0, x0, #1 */
    /* b.ne to the first instruction of the loop */
    insns[n++] = 0x54000001 | (-(body + 1) & 0x7ffff) << 5;
    memcpy(&insns[n], end_all, sizeof(end_all));
    n += ARRAY_SIZE(end_all);
    guest_call(p, 0, turns, insns, n);
}

/* What it costs, with the instruction that stops counting */
static Cost cost_of_loop(const Code *code, unsigned turns)
{
    return (Cost) {
        .insns = turns * (code->turn.insns + 2) + 1,
        .taken = turns * (code->turn.taken + 1) - 1,
        .frontend = turns * code->turn.frontend,
        .backend = turns * code->turn.backend + 32,
    };
}

/* In slots: what the frontend, the backend, and wrong operations take */
static Cost slots_of(const Model *m, const Cost *c)
{
    return (Cost) {
        .insns = c->insns + c->taken * WRONG_OPS / TAKEN,
        .frontend = c->frontend + c->taken +
                    c->taken * m->frontend * m->slots / TAKEN,
        .backend = c->backend + c->taken * m->backend * m->slots / TAKEN,
    };
}

static uint64_t expected(const Model *m, const Cost *c, uint16_t event)
{
    Cost s = slots_of(m, c);

    switch (event) {
    case INST_RETIRED:
    case OP_RETIRED:
        return c->insns;
    case OP_SPEC:
        return s.insns;
    case BR_MIS_PRED:
    case BR_MIS_PRED_RETIRED:
        return c->taken / TAKEN;
    case STALL_SLOT_FRONTEND:
        return s.frontend;
    case STALL_SLOT_BACKEND:
        return s.backend;
    case STALL_SLOT:
        return s.frontend + s.backend;
    case STALL_FRONTEND:
        return s.frontend / m->slots;
    case STALL_BACKEND:
        return s.backend / m->slots;
    case STALL:
        return (s.frontend + s.backend) / m->slots;
    case CPU_CYCLES:
        return (s.insns + s.frontend + s.backend) / m->slots;
    default:
        g_assert_not_reached();
    }
}

/*
 * All events of a loop follow from its instructions. What is divided has a rest
 * from before, so the quotient can be one more or less; a sum of quotients,
 * two.
 */
static void check_loops(const Pmcu *p, const Model *m, unsigned turns)
{
    for (int i = 0; i < ARRAY_SIZE(codes); i++) {
        Cost cost = cost_of_loop(&codes[i], turns);
        uint64_t counts[64];
        int64_t rest;

        run_loop(p, &codes[i], turns);
        for (int e = 0; e < ARRAY_SIZE(events); e++) {
            uint64_t count = guest_read(p, 0, PMEVCNTR_EL0(e));
            int64_t more = count - expected(m, &cost, events[e]);

            counts[events[e]] = count;
            if (llabs(more) > (cost.insns == expected(m, &cost, events[e]) ?
                               0 : 2)) {
                g_test_message("%s, %s: event 0x%x is %" PRIu64 " and not %"
                               PRIu64, m->name, codes[i].name, events[e],
                               count, expected(m, &cost, events[e]));
                g_test_fail();
            }
        }
        /* PMCCNTR has started and stopped with the same instructions */
        g_assert_cmpint(guest_read(p, 0, PMCCNTR_EL0), ==, counts[CPU_CYCLES]);
        /* Each slot has an operation, or is stalled */
        rest = counts[OP_SPEC] + counts[STALL_SLOT] -
               m->slots * counts[CPU_CYCLES];
        g_assert_cmpint(llabs(rest), <, m->slots + 3);
    }
}

static void test_model(const void *model)
{
    const Model *m = model;
    Pmcu p = topdown_init("-accel tcg", m);

    g_assert_cmphex(guest_read(&p, 0, PMMIR_EL1), ==, m->slots);
    g_assert_cmphex(guest_read(&p, 0, PMCEID0_EL0) & 0x30000, ==, 0x30000);
    g_assert_cmphex(guest_read(&p, 0, PMCEID1_EL0) & 0xfc00001c, ==,
                    0xfc00001c);
    check_loops(&p, m, 1000);
    /* More than the words of the accelerator can hold */
    check_loops(&p, m, 50000);
    qtest_quit(p.qts);
}

static void test_mode(const void *args)
{
    Pmcu p = topdown_init(args, &models[0]);

    check_loops(&p, &models[0], 1000);
    qtest_quit(p.qts);
}

/* Without the property, the PMU is as always */
static void test_off(void)
{
    Pmcu p = guest_init("-accel tcg -cpu neoverse-v1");

    g_assert_cmphex(guest_read(&p, 0, PMMIR_EL1), ==, 0);
    g_assert_cmphex(guest_read(&p, 0, PMCEID0_EL0) & 0x30000, ==, 0x20000);
    g_assert_cmphex(guest_read(&p, 0, PMCEID1_EL0) & 0xfc00001c, ==,
                    0x10000018);
    qtest_quit(p.qts);
}

/* The PMU's interrupt is pending at the GIC, which forwards none. */
#define GICR_ISPENDR0   0x80b0200
#define PMU_PENDING     (1U << 23)

static bool irq_pending(const Pmcu *p)
{
    return qtest_readl(p->qts, GICR_ISPENDR0) & PMU_PENDING;
}

/* PMCR_EL0.D: PMCCNTR counts every 64th cycle, and the events all of them */
static void test_divider(void)
{
    Pmcu p = topdown_init("-accel tcg", &models[0]);
    uint64_t cycles, all;

    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_D);
    run_loop(&p, &codes[0], 5000);
    cycles = guest_read(&p, 0, PMCCNTR_EL0);
    all = guest_read(&p, 0, PMEVCNTR_EL0(2));
    g_assert_cmpint(all, >, 1000);
    g_assert_cmpint(llabs((int64_t)(cycles * 64 - all)), <=, 64);
    qtest_quit(p.qts);
}

/*
 * The instruction that overflows a counter of 32 bits sets its flag and the
 * interrupt, which the next one sees. A turn is a load, which costs 2 slots of
 * the backend, and a branch: less than a cycle. The access to a register of the
 * PMU behind it costs 32. The last ones are PMCCNTR, which counts all cycles,
 * or with PMCR.D every 64th of them.
 */
static void test_overflow(const void *args)
{
    uint32_t until[] = {
        0xaa0003f4,     /*     mov x20, x0 */
        0xd2804003,     /*     mov x3, #0x200: GICR_ISPENDR0 */
        0xf2a10163,     /*     movk x3, #0x80b, lsl #16 */
        0xd51b9c34,     /*     msr pmcntenset_el0, x20 */
        0xb9400064,     /* 1:  ldr w4, [x3] */
        0x36bfffe4,     /*     tbz w4, #23, 1b */
        0xd53be800,     /*     mrs x0, pmevcntr0_el0 */
        0xd51b9c54,     /*     msr pmcntenclr_el0, x20 */
        INSN_RET,
    };
    static const struct {
        uint16_t event;
        unsigned least, most;       /* when it is read */
    } rules[] = {
        /* The load that sees it, and the read; 1 more if n is odd */
        { STALL_SLOT_BACKEND, 2 + 32, 2 + 32 + 1 },
        /* Load, branch, and read: 3 + 1 + 33 slots */
        { CPU_CYCLES, 4, 5 },
        { STALL, 4, 5 },
        /* The same three; a branch before; some of a wrong one's operations */
        { OP_SPEC, 3, 6 },
    };
    Pmcu p = topdown_init(args, &models[0]);

    for (int i = 0; i <= ARRAY_SIZE(rules) + 1; i++) {
        bool cycles = i >= ARRAY_SIZE(rules), divided = i > ARRAY_SIZE(rules);
        uint32_t mask = cycles ? COUNT_CYCLES : 1;
        unsigned row = cycles ? 1 : i;
        unsigned most = divided ? 3000 : 3000000;

        guest_write(&p, 0, PMCR_EL0, PMCR_E | (divided ? PMCR_D : 0));
        guest_write(&p, 0, PMINTENSET_EL1, mask);
        for (unsigned n = 1; n < most; n = 10 * n + 3 * (n > 9)) {
            uint64_t left;

            if (cycles) {
                until[6] = 0xd53b9d00;      /* mrs x0, pmccntr_el0 */
                guest_write(&p, 0, PMCCNTR_EL0, (uint32_t)-n);
            } else {
                guest_write(&p, 0, PMEVTYPER_EL0(0), rules[i].event);
                guest_write(&p, 0, PMEVCNTR_EL0(0), (uint32_t)-n);
            }
            g_assert_false(irq_pending(&p));
            left = guest_call(&p, 0, mask, until, ARRAY_SIZE(until));
            left &= UINT32_MAX;
            g_test_message("event 0x%x, divided %d, %u: %" PRIu64,
                           cycles ? 0 : rules[i].event, divided, n, left);
            g_assert_true(irq_pending(&p));
            g_assert_cmphex(guest_read(&p, 0, PMOVSSET_EL0), ==, mask);
            guest_write(&p, 0, PMOVSCLR_EL0, mask);
            g_assert_false(irq_pending(&p));
            g_assert_cmpint(left, >=, divided ? 0 : rules[row].least);
            g_assert_cmpint(left, <=, divided ? 1 : rules[row].most);
            if (rules[row].event == STALL_SLOT_BACKEND) {
                g_assert_cmpint(left - rules[row].least, ==, n & 1);
            }
        }
        guest_write(&p, 0, PMINTENCLR_EL1, mask);
    }
    qtest_quit(p.qts);
}

/*
 * Writes of PMCCFILTR and PMCCNTR take effect with the next instruction: cycles
 * count from there, and overflow when they should.
 */
static void test_written(void)
{
    static const uint32_t count[] = {
        0xd51befff,     /*     msr pmccfiltr_el0, xzr */
        0x5281f407,     /*     mov w7, #4000 */
        0x710004e7,     /* 1:  subs w7, w7, #1 */
        0x54ffffe1,     /*     b.ne 1b */
        0xd53b9d00,     /*     mrs x0, pmccntr_el0 */
        INSN_RET,
    };
    static const Cost cost = { 1 + 2 * 4000 + 1, 4000 - 1, 0, 32 };
    /* An instruction is a nanosecond, and an ISB four cycles: no timer helps */
    static const uint32_t until[] = {
        0xd2804003,     /*     mov x3, #0x200: GICR_ISPENDR0 */
        0xf2a10163,     /*     movk x3, #0x80b, lsl #16 */
        0xd51b9d00,     /*     msr pmccntr_el0, x0 */
        0xd5033fdf,     /* 1:  isb */
        0xd5033fdf,     /*     isb */
        0xb9400064,     /*     ldr w4, [x3] */
        0x36bfffa4,     /*     tbz w4, #23, 1b */
        0xd53b9d00,     /*     mrs x0, pmccntr_el0 */
        INSN_RET,
    };
    const Model *m = &models[0];
    Pmcu p = topdown_init("-accel tcg -icount shift=0,sleep=off", m);
    int64_t more;

    /* Nothing has been counted before */
    guest_write(&p, 0, PMCCFILTR_EL0, FILTER_P);
    guest_write(&p, 0, PMCNTENSET_EL0, COUNT_CYCLES);
    more = guest_call(&p, 0, 0, count, ARRAY_SIZE(count)) -
           expected(m, &cost, CPU_CYCLES);
    g_assert_cmpint(llabs(more), <=, 1);

    guest_write(&p, 0, PMCR_EL0, PMCR_E);
    guest_write(&p, 0, PMOVSCLR_EL0, COUNT_CYCLES);
    guest_write(&p, 0, PMINTENSET_EL1, COUNT_CYCLES);
    for (unsigned n = 100; n < 1000000; n *= 10) {
        uint64_t left = guest_call(&p, 0, (uint32_t)-n, until,
                                   ARRAY_SIZE(until));

        /* Less than a turn, and the 4 of the read */
        g_assert_cmpint((uint32_t)left, <, 14);
        g_assert_cmpint((uint32_t)left, >=, 4);
        guest_write(&p, 0, PMOVSCLR_EL0, COUNT_CYCLES);
    }
    qtest_quit(p.qts);
}

/* The same for PMCCFILTR of AArch32, at EL1, called from EL2 */
static void test_written_a32(void)
{
    static const uint32_t leave[] = { INSN_RET };
    static const uint32_t count[] = {
        0xe3a01000,     /*     mov r1, #0 */
        0xee0e1fff,     /*     mcr p15, 0, r1, c14, c15, 7: PMCCFILTR */
        0xe3a07efa,     /*     mov r7, #4000 */
        0xe2577001,     /* 1:  subs r7, r7, #1 */
        0x1afffffd,     /*     bne 1b */
        0xee190f1d,     /*     mrc p15, 0, r0, c9, c13, 0: PMCCNTR */
        0xe1400070,     /*     hvc #0 */
    };
    static const Cost cost = { 1 + 2 * 4000 + 1, 4000 - 1, 0, 32 };
    const uint64_t el1_code = GUEST_VECTORS(0) + 0x800;
    const Model *m = &models[2];
    Pmcu p = topdown_init("-accel tcg -icount shift=0,sleep=off "
                          "-M virtualization=on", m);
    int64_t more;

    guest_put(&p, GUEST_VECTORS(0) + VECTOR_EL0_32, leave, 1);
    guest_put(&p, el1_code, count, ARRAY_SIZE(count));
    guest_write(&p, 0, HCR_EL2, 0);
    /* Nothing has been counted before */
    guest_write(&p, 0, PMCCFILTR_EL0, FILTER_P);
    guest_write(&p, 0, PMCNTENSET_EL0, COUNT_CYCLES);
    more = guest_call(&p, 0, el1_code, guest_enter_a32,
                      ARRAY_SIZE(guest_enter_a32)) -
           expected(m, &cost, CPU_CYCLES);
    g_assert_cmpint(llabs(more), <=, 1);
    qtest_quit(p.qts);
}

/*
 * Cycles stand still while a CPU sleeps. If it waited for their overflow, time
 * would hardly advance.
 */
static void test_asleep(void)
{
    static const uint32_t sleep[] = {
        0xd51b9d00,     /* msr pmccntr_el0, x0 */
        0xd53be044,     /* mrs x4, cntvct_el0 */
        0xd2aee6a5,     /* mov x5, #1999962112 */
        0x8b050084,     /* add x4, x4, x5 */
        0xd5031024,     /* wfit x4 */
        0xd53b9d00,     /* mrs x0, pmccntr_el0 */
        INSN_RET,
    };
    Pmcu p = topdown_init("-accel tcg -icount shift=0,sleep=off", &models[2]);
    int32_t left;

    guest_write(&p, 0, PMCR_EL0, PMCR_E);
    guest_write(&p, 0, PMCNTENSET_EL0, COUNT_CYCLES);
    left = guest_call(&p, 0, (uint32_t)-20, sleep, ARRAY_SIZE(sleep));
    g_assert_cmpint(left, >=, -20);
    g_assert_cmpint(left, <, 0);
    qtest_quit(p.qts);
}

/*
 * The PMCU sees the same cycles, in its own field and as an event. All events
 * are of the same moment, but for a block that the CPU is in.
 */
static void test_pmcu(const void *args)
{
    static const uint16_t wanted[] = { CPU_CYCLES, STALL_SLOT_BACKEND,
                                       INST_RETIRED, BR_MIS_PRED };
    const unsigned records = 20, size = 8 * 8 * (2 + ARRAY_SIZE(wanted));
    const Model *m = &models[0];
    const Cost *turn = &codes[5].turn;
    const bool icount = g_strrstr(args, "icount");
    /*
     * Turns of the loop that a total lacks or has more than another: a block,
     * and what the CPU executes while its words are read (INSN_COUNT_MOMENT)
     */
    const unsigned slack = icount ? 1 : 4 + 2048 / 4;
    Pmcu p = topdown_init(args, m);
    PmcuRun run = { PMCU_RUN_DEFAULT };
    uint64_t sum[ARRAY_SIZE(wanted)] = { };
    int64_t rest;
    uint32_t loop[] = {
        codes[5].insns[0], codes[5].insns[1],
        0xf1000400,     /* subs x0, x0, #1 */
        0x54ffffa1,     /* b.ne to the first one */
        INSN_RET,
    };

    g_assert_cmpstr(codes[5].name, ==, "divide");
    for (int e = 0; e < ARRAY_SIZE(wanted); e++) {
        qtest_writel(p.qts, EVENT_BASE + 4 * e, wanted[e]);
    }
    run.ev_len = run.nr_pmu = ARRAY_SIZE(wanted);
    run.nr_loop = records;
    guest_start(&p, 0, 1ULL << 40, loop, ARRAY_SIZE(loop));
    qtest_qmp_assert_success(p.qts, "{'execute': 'stop'}");
    pmcu_start(&p, &run);
    qtest_qmp_assert_success(p.qts, "{'execute': 'cont'}");
    pmcu_wait_stored(&p, records);
    for (int r = 0; r < records; r++) {
        uint64_t record = STORE_BASE + size * r, cycles, event;

        cycles = qtest_readq(p.qts, record + size - 64);
        event = qtest_readq(p.qts, record + 64);
        g_assert_cmpint(cycles, ==, event);
        for (int e = 0; e < ARRAY_SIZE(wanted); e++) {
            sum[e] += qtest_readq(p.qts, record + 64 * (e + 1));
        }
    }
    if (icount) {
        /* 1 ms is a million instructions */
        rest = sum[2] - records * 1000000;
        g_assert_cmpint(llabs(rest), <, 10 * records);
    }
    /* A turn has 4 instructions, and 64 slots are lost */
    rest = 4 * sum[1] - sum[2] * turn->backend;
    g_assert_cmpint(llabs(rest), <, slack * 4 * turn->backend);
    /* 4 + 64 + 1 + 4 * 8 / 64 + 16 / 64 in 4 instructions */
    rest = sum[0] * 4 * m->slots * 4 - sum[2] * 279;
    g_assert_cmpint(llabs(rest), <, slack * 279 * 4);
    /*
     * One taken branch of 64 is mispredicted. There are some between two
     * windows, unless the clock stands still there.
     */
    rest = sum[3] * 64 * 4 - sum[2];
    g_assert_cmpint(llabs(rest), <,
                    4 * (64 * (icount ? 1 : records) + slack));
    qtest_quit(p.qts);
}

/* Each refusal is one line that says why */
static void test_refused(void)
{
    static const struct {
        const char *args, *error;
    } cases[] = {
        { "-cpu cortex-a57,pmu-topdown=on",
          "'pmu-topdown' needs a CPU model with FEAT_PMUv3p4" },
        { "-cpu max,pmu=off,pmu-topdown=on",
          "'pmu-topdown' cannot be used with pmu=off" },
        { "-cpu neoverse-v1,pmu-topdown=on", "'pmu-topdown' needs TCG" },
        { "-cpu max,pmu-topdown=maybe", "'on' or 'off'" },
    };

    for (int i = 0; i < ARRAY_SIZE(cases); i++) {
        g_autofree char *args = g_strdup_printf("-M virt %s", cases[i].args);
        g_autofree char *err = NULL;

        if (strstr(args, "neoverse-v1") && !pmcu_has_cpu("neoverse-v1")) {
            g_test_message("this QEMU has no neoverse-v1 without TCG");
            continue;
        }
        g_assert_cmpint(pmcu_run_qemu(args, &err), ==, 1);
        g_assert_nonnull(strstr(err, cases[i].error));
        g_assert_cmpstr(strchr(err, '\n'), ==, "\n");
    }
}

static void test_changed_late(void)
{
    Pmcu p = topdown_init("-accel tcg", &models[0]);
    g_autofree char *cpu = pmcu_find_device(p.qts, "neoverse-v1-arm-cpu", 0);
    QDict *error = qtest_qmp_assert_failure_ref(p.qts,
        "{'execute': 'qom-set', 'arguments': {'path': %s, "
        "'property': 'pmu-topdown', 'value': false}}", cpu);

    g_assert_nonnull(strstr(qdict_get_str(error, "desc"),
                           "'pmu-topdown' can no longer be changed"));
    qobject_unref(error);
    g_assert_true(qtest_qom_get_bool(p.qts, cpu, "pmu-topdown"));
    qtest_quit(p.qts);
}

#define WITH    "-accel tcg -cpu neoverse-v1,pmu-counters=12,pmu-topdown=on"
#define WITHOUT "-accel tcg -cpu neoverse-v1,pmu-counters=12"

/* All events, and PMCCNTR */
enum { COUNTS = ARRAY_SIZE(events) + 1 };

/* All counts of all codes, one after the other, are the same each time. */
static void check_next(const Pmcu *p, bool first, uint64_t (*next)[COUNTS])
{
    for (int k = 0; k < ARRAY_SIZE(codes); k++) {
        run_loop(p, &codes[k], 37);
        for (int e = 0; e < COUNTS; e++) {
            uint64_t n = guest_read(p, 0, e < ARRAY_SIZE(events)
                                    ? PMEVCNTR_EL0(e) : PMCCNTR_EL0);

            if (first) {
                next[k][e] = n;
            }
            g_assert_cmpint(n, ==, next[k][e]);
        }
    }
}

/*
 * Counters travel, but not from or to a machine without the property; and so
 * does what is left of a cycle or misprediction, of which the next ones show.
 */
static void test_migrate(void)
{
    uint64_t next[ARRAY_SIZE(codes)][COUNTS];
    Pmcu p = guest_init(WITHOUT), to;
    g_autofree char *plain = pmcu_save(p.qts), *file = NULL;
    uint64_t cycles, slots;

    qtest_quit(p.qts);
    pmcu_refused(WITH, plain, "the CPU of the stream has pmu-topdown=off, this "
                 "one has on: give both the same");
    unlink(plain);

    p = topdown_init("-accel tcg", &models[0]);

    run_loop(&p, &codes[5], 1000);
    cycles = guest_read(&p, 0, PMCCNTR_EL0);
    slots = guest_read(&p, 0, PMEVCNTR_EL0(9));
    g_assert_cmpint(slots, >=, 64 * 1000);
    file = pmcu_save(p.qts);
    pmcu_refused(WITHOUT, file, "the CPU of the stream has pmu-topdown=on, "
                 "this one has off: give both the same");
    to = guest_init(WITH " -incoming defer");
    g_assert_true(pmcu_load(to.qts, file));
    unlink(file);
    /* The one that was saved goes on, and the other does the same. */
    for (int i = 0; i < 2; i++) {
        const Pmcu *q = i ? &to : &p;

        qtest_qmp_assert_success(q->qts, "{'execute': 'cont'}");
        g_assert_cmpint(guest_read(q, 0, PMCCNTR_EL0), ==, cycles);
        g_assert_cmpint(guest_read(q, 0, PMEVCNTR_EL0(9)), ==, slots);
        check_next(q, !i, next);
        qtest_quit(q->qts);
    }
}

/*
 * A counter of every 64th cycle is loaded while its CPU sleeps: it overflows in
 * time when the CPU has woken up.
 */
static void test_migrate_divided(void)
{
    static const uint32_t until[] = {
        0xd51b9d00,     /*     msr pmccntr_el0, x0 */
        0xd53be044,     /*     mrs x4, cntvct_el0 */
        0xd2a23c25,     /*     mov x5, #299958272 */
        0x8b050084,     /*     add x4, x4, x5 */
        0xd5031024,     /*     wfit x4 */
        0xd53b9e64,     /* 1:  mrs x4, pmovsset_el0 */
        0xb4ffffe4,     /*     cbz x4, 1b */
        0xd53b9d00,     /*     mrs x0, pmccntr_el0 */
        INSN_RET,
    };
    Pmcu p = topdown_init("-accel tcg", &models[2]), to;
    g_autofree char *file = NULL;

    guest_write(&p, 0, PMCR_EL0, PMCR_E | PMCR_D);
    guest_write(&p, 0, PMCNTENSET_EL0, COUNT_CYCLES);
    guest_start(&p, 0, (uint32_t)-100, until, ARRAY_SIZE(until));
    file = pmcu_save(p.qts);
    qtest_quit(p.qts);
    to = guest_init("-accel tcg -cpu max,pmu-counters=12,pmu-topdown=on "
                    "-incoming defer");
    g_assert_true(pmcu_load(to.qts, file));
    unlink(file);
    qtest_qmp_assert_success(to.qts, "{'execute': 'cont'}");
    g_assert_cmpint((uint32_t)guest_wait(&to, 0), <=, 1);
    qtest_quit(to.qts);
}

static const uint32_t start[] = {
    0x5281fff4,     /*     mov w20, #0x0fff */
    0x72b00014,     /*     movk w20, #0x8000, lsl #16 */
    0xd51b9c34,     /*     msr pmcntenset_el0, x20 */
    INSN_RET,
};

/* A snapshot is loaded by the machine that made it, which counts just then. */
static void test_snapshot(void)
{
    g_autofree char *disk = pmcu_disk();
    g_autofree char *args = g_strdup_printf(
        "-accel tcg -m 64M -drive if=none,format=qcow2,file=%s", disk);
    Pmcu p = topdown_init(args, &models[0]);
    uint64_t next[ARRAY_SIZE(codes)][COUNTS];
    g_autofree char *saved = NULL;

    run_loop(&p, &codes[5], 1000);
    saved = qtest_hmp(p.qts, "savevm s");
    g_assert_cmpstr(saved, ==, "");
    for (int i = 0; i < 3; i++) {
        g_autofree char *loaded = NULL;

        check_next(&p, !i, next);
        guest_call(&p, 0, 0, start, ARRAY_SIZE(start));
        loaded = qtest_hmp(p.qts, "loadvm s");
        g_assert_cmpstr(loaded, ==, "");
    }
    qtest_quit(p.qts);
    unlink(disk);
}

/* Counters that are loaded while they count go on together. */
static void test_migrate_counting(void)
{
    static const uint32_t stop[] = {
        0x5281fff4,     /*     mov w20, #0x0fff */
        0x72b00014,     /*     movk w20, #0x8000, lsl #16 */
        0xd51b9c54,     /*     msr pmcntenclr_el0, x20 */
        INSN_RET,
    };
    Pmcu p = topdown_init("-accel tcg", &models[0]), to;
    g_autofree char *file = NULL;
    uint64_t before;

    guest_write(&p, 0, PMCCNTR_EL0, 0);
    guest_call(&p, 0, 0, start, ARRAY_SIZE(start));
    file = pmcu_save(p.qts);
    qtest_quit(p.qts);
    to = guest_init(WITH " -incoming defer");
    g_assert_true(pmcu_load(to.qts, file));
    unlink(file);
    qtest_qmp_assert_success(to.qts, "{'execute': 'cont'}");
    before = guest_read(&to, 0, PMEVCNTR_EL0(0));
    g_assert_cmpint(before, >, 0);
    guest_call(&to, 0, 0, stop, ARRAY_SIZE(stop));
    g_assert_cmpint(guest_read(&to, 0, PMEVCNTR_EL0(0)), >, before);
    /* INST_RETIRED, OP_RETIRED */
    g_assert_cmpint(guest_read(&to, 0, PMEVCNTR_EL0(0)), ==,
                    guest_read(&to, 0, PMEVCNTR_EL0(6)));
    /* CPU_CYCLES */
    g_assert_cmpint(guest_read(&to, 0, PMCCNTR_EL0), ==,
                    guest_read(&to, 0, PMEVCNTR_EL0(2)));
    qtest_quit(to.qts);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *args;
    } modes[] = {
        { "one-insn-per-tb", "-accel tcg,one-insn-per-tb=on" },
        { "icount", "-accel tcg -icount shift=0,sleep=off" },
    };

    g_test_init(&argc, &argv, NULL);
    for (int i = 0; i < ARRAY_SIZE(models); i++) {
        g_autofree char *name = g_strdup_printf("arm-pmu-topdown/prices/%s",
                                                models[i].name);

        qtest_add_data_func(name, &models[i], test_model);
    }
    for (int i = 0; i < ARRAY_SIZE(modes); i++) {
        g_autofree char *name = g_strdup_printf("arm-pmu-topdown/prices/%s",
                                                modes[i].name);

        qtest_add_data_func(name, modes[i].args, test_mode);
    }
    qtest_add_func("arm-pmu-topdown/off", test_off);
    qtest_add_func("arm-pmu-topdown/divider", test_divider);
    qtest_add_data_func("arm-pmu-topdown/overflow/mttcg", "-accel tcg",
                        test_overflow);
    qtest_add_data_func("arm-pmu-topdown/overflow/icount", modes[1].args,
                        test_overflow);
    qtest_add_func("arm-pmu-topdown/written", test_written);
    qtest_add_func("arm-pmu-topdown/written-a32", test_written_a32);
    qtest_add_func("arm-pmu-topdown/asleep", test_asleep);
    qtest_add_data_func("arm-pmu-topdown/pmcu/icount",
                        "-accel tcg -icount shift=0,sleep=off", test_pmcu);
    qtest_add_data_func("arm-pmu-topdown/pmcu/mttcg", "-accel tcg", test_pmcu);
    qtest_add_func("arm-pmu-topdown/refused", test_refused);
    qtest_add_func("arm-pmu-topdown/changed-late", test_changed_late);
    qtest_add_func("arm-pmu-topdown/migrate", test_migrate);
    qtest_add_func("arm-pmu-topdown/migrate-counting", test_migrate_counting);
    qtest_add_func("arm-pmu-topdown/migrate-divided", test_migrate_divided);
    qtest_add_func("arm-pmu-topdown/snapshot", test_snapshot);
    return g_test_run();
}
