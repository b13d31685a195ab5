/*
 * Random programs: what they count is known when they are made
 *
 * Each program is a sequence of fragments, of which the tables below say how
 * many instructions, branches, loads and stores they retire. It runs at CPL 3,
 * in code of 64, 32, and 16 bits. Whatever divides it into translation blocks,
 * stops them early, or executes them one by one, the counts are those of the
 * table.
 *
 * Programs run in two ways. In the first, all counters stay as they are, and
 * one of them interrupts at a random period: the interrupts are as many as fit
 * in. In the second, UD2 lets the kernel write a random register of the PMU
 * again and again, while a model of these registers follows.
 *
 * With pmu-model=precise, cycles depend on what has run before, all else is the
 * same.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"

#define VEC_OF              4
#define CODE_32             0x23
#define CODE_16             0x5b
#define MAX_FRAGMENTS       250
#define PAGE                4096
#define GAP                 (GUEST_SMALL_PAGES + 8 * PAGE)

enum { INSNS, BRANCHES, LOADS, STORES, EVENTS };

static const uint16_t event_codes[EVENTS] = {
    EV_INSNS, EV_BRANCHES, EV_LOADS, EV_STORES,
};

typedef struct Fragment {
    uint8_t length;
    uint8_t code[36];
    uint8_t counts[EVENTS];
    uint8_t random_at;      /* code[] to replace by 1 to 63; 0: none */
    uint8_t end_at;         /* code[] to replace by the fragment's end */
    uint8_t selector;       /* of the code, after far_return[]; 0: none */
} Fragment;

/* push a selector; lea rax, behind the retfq; push rax; retfq */
static const uint8_t far_return[] = {
    0x6a, 0, 0x48, 0x8d, 0x05, 3, 0, 0, 0, 0x50, 0x48, 0xcb,
};

/* RDI: data. R9: a page that is not there. All other registers are free. */
static const Fragment fragments[] = {
    { 1, { 0x90 }, { 1, 0, 0, 0 } },                            /* nop */
    { 4, { 0x48, 0x8d, 0x04, 0x18 }, { 1, 0, 0, 0 } },          /* lea */
    { 4, { 0x48, 0x8b, 0x47, 0 }, { 1, 0, 1, 0 }, 3 },          /* mov, load */
    { 4, { 0x48, 0x89, 0x47, 0 }, { 1, 0, 0, 1 }, 3 },          /* and store */
    { 4, { 0x48, 0x01, 0x47, 0 }, { 1, 0, 1, 1 }, 3 },          /* add to it */
    /* lock add, within a line of the cache, and across two */
    { 4, { 0xf0, 0x01, 0x47, 0x08 }, { 1, 0, 1, 1 } },
    { 4, { 0xf0, 0x01, 0x47, 0x3e }, { 1, 0, 1, 1 } },
    { 4, { 0x48, 0x87, 0x47, 0x18 }, { 1, 0, 1, 1 } },          /* xchg */
    /* xor edx, edx; jz or jnz to the next instruction */
    { 4, { 0x31, 0xd2, 0x74, 0 }, { 2, 1, 0, 0 } },
    { 4, { 0x31, 0xd2, 0x75, 0 }, { 2, 1, 0, 0 } },
    { 4, { 0xeb, 0x02, 0x0f, 0x0b }, { 1, 1, 0, 0 } },          /* jmp + 2 */
    /* call the next instruction; add rsp, 8 */
    { 9, { 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8 }, { 2, 1, 0, 1 } },
    /* jmp 1f; 2: ret; 1: call 2b */
    { 8, { 0xeb, 1, 0xc3, 0xe8, 0xfa, 0xff, 0xff, 0xff }, { 3, 3, 1, 1 } },
    { 2, { 0x50, 0x58 }, { 2, 0, 1, 1 } },                      /* push, pop */
    { 2, { 0x9c, 0x9d }, { 2, 0, 1, 1 } },                      /* of flags */
    /* push rdi; mov ecx, n; rep stosb; pop rdi */
    { 9, { 0x57, 0xb9, 0, 0, 0, 0, 0xf3, 0xaa, 0x5f }, { 4, 0, 1, 2 }, 2 },
    /* mov ecx, n; 1: loop 1b would be counted n times; here: dec, jnz 1b */
    { 9, { 0xb9, 3, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc }, { 7, 3, 0, 0 } },
    /* mov ecx, n; xor edx, edx; div ecx */
    { 9, { 0xb9, 0, 0, 0, 0, 0x31, 0xd2, 0xf7, 0xf1 }, { 3, 0, 0, 0 }, 1 },
    { 2, { 0x0f, 0xa2 }, { 1, 0, 0, 0 } },                      /* cpuid */
    /* movb $0x90, 1f; 1: nop: code that writes itself */
    { 8, { 0xc6, 0x05, 0, 0, 0, 0, 0x90, 0x90 }, { 2, 0, 0, 1 } },
    /* lock add, across two pages */
    { 7, { 0xf0, 0x01, 0x87, 0xfe, 0x0f, 0, 0 }, { 1, 0, 1, 1 } },
    /* push rdi, rsi; mov rsi, rdi; mov ecx, n; rep movsb; pop both */
    { 14, { 0x57, 0x56, 0x48, 0x89, 0xfe, 0xb9, 0, 0, 0, 0, 0xf3, 0xa4, 0x5e,
            0x5f }, { 7, 0, 3, 3 }, 6 },
    /* push rdi; mov rdi, r9; mov ecx, n; rep stosb that is skipped; pop rdi */
    { 13, { 0x57, 0x4c, 0x89, 0xcf, 0xb9, 0, 0, 0, 0, 0x3e, 0xf3, 0xaa, 0x5f },
      { 4, 0, 1, 1 }, 5 },
    /*
     * 32-bit code: push, pop ds; inc eax; a store, a load, a locked add across
     * lines; xor eax, eax; into that does not trap; pusha, popa; mov al, 0x7f;
     * inc al; into that does; int 0x81; ljmp back
     */
    { 33, { 0x6a, 0x2b, 0x1f, 0x40, 0x89, 0x47, 0x10, 0x8b, 0x47, 0x14,
            0xf0, 0x01, 0x47, 0x3e, 0x31, 0xc0, 0xce, 0x60, 0x61,
            0xb0, 0x7f, 0xfe, 0xc0, 0xce, 0xcd, VEC_RETURN,
            0xea, 0, 0, 0, 0, 0x33, 0 },
      { 4 + 15, 1 + 3, 1 + 4, 2 + 6 }, 0, 27, CODE_32 },
    /* 16-bit code: as far as the load, and pusha, popa; ljmpl back */
    { 22, { 0x6a, 0x2b, 0x1f, 0x40, 0x67, 0x89, 0x47, 0x10,
            0x67, 0x8b, 0x47, 0x14, 0x60, 0x61,
            0x66, 0xea, 0, 0, 0, 0, 0x33, 0 },
      { 4 + 8, 1 + 1, 1 + 3, 2 + 3 }, 0, 16, CODE_16 },
    /* int 0x81: IRET is at CPL 0 */
    { 2, { 0xcd, VEC_RETURN }, { 1, 1, 0, 1 } },
    /* mov rax, (r9): the handler of the page fault skips it */
    { 3, { 0x49, 0x8b, 0x01 }, { 0, 0, 0, 0 } },
};

static const uint8_t ud2[] = { 0x0f, 0x0b };

/* A write of a register of the PMU */
typedef struct Op {
    uint32_t msr;
    uint64_t value;
} Op;

/* The model of the registers: counters of events at CPL 3 */
static struct {
    uint64_t count[MOST_GP_COUNTERS], enabled;
    int event[MOST_GP_COUNTERS];        /* EVENTS: none */
    uint32_t total[EVENTS];
} model;

static uint8_t code[4 * PAGE] __attribute__((aligned(PAGE)));
static uint8_t data[2 * PAGE] __attribute__((aligned(PAGE)));
static uint64_t period;
static int sampler;             /* the counter that interrupts */
static Op ops[MAX_FRAGMENTS];
static int next_op, op_count;

static void model_counts(const uint8_t counts[EVENTS])
{
    int i;

    for (i = 0; i < EVENTS; i++) {
        model.total[i] += counts[i];
    }
    for (i = 0; i < MOST_GP_COUNTERS; i++) {
        if (model.event[i] < EVENTS && model.enabled & BIT(i)) {
            model.count[i] += counts[model.event[i]];
            model.count[i] &= WIDTH_MASK;
        }
    }
}

/* Registers are written by the kernel, so the writes count nothing. */
static Op random_op(void)
{
    int n = random() % MOST_GP_COUNTERS, event = random() % EVENTS;
    uint64_t value = random();
    bool on;

    switch (random() % 4) {
    case 0:
        model.count[n] = value & 1 ? negative(value >> 56) : value >> 40;
        return (Op) { MSR_A_PMC(n), model.count[n] };
    case 1:
        model.enabled = value & GP_MASK;
        return (Op) { MSR_GLOBAL_CTRL, model.enabled | FIXED_MASK };
    default:
        on = value & 6;
        model.event[n] = on ? event : EVENTS;
        return (Op) { MSR_EVTSEL(n), event_codes[event] | EVTSEL_USR |
                                     (on ? EVTSEL_EN : 0) };
    }
}

static void put_32(uint8_t *p, uint32_t value)
{
    int i;

    for (i = 0; i < 4; i++) {
        p[i] = value >> 8 * i;
    }
}

/* A program of so many fragments at a random place in the page */
static void (*make(unsigned n, bool writes))(void)
{
    static const uint8_t enter[EVENTS] = { 1 + 1, 1, 0, 1 };    /* call, mov */
    static const uint8_t leave[EVENTS] = { 2, 2, 1, 1 };        /* ret, int */
    uint64_t address = GAP;
    uint8_t *start = code + random() % PAGE, *p = start;
    unsigned i, j;

    *p++ = 0x49;            /* mov r9, GAP */
    *p++ = 0xb9;
    for (i = 0; i < 8; i++) {
        *p++ = address >> 8 * i;
    }
    next_op = op_count = 0;
    model_counts(enter);
    for (i = 0; i < n; i++) {
        const Fragment *f = &fragments[random() % ARRAY_SIZE(fragments)];

        if (writes && random() % 3 == 0) {
            *p++ = ud2[0];
            *p++ = ud2[1];
            ops[op_count++] = random_op();
        }
        if (f->selector) {
            for (j = 0; j < sizeof(far_return); j++) {
                p[j] = far_return[j];
            }
            p[1] = f->selector;
            if (f->selector == CODE_16) {
                put_32(p + 5, 3 - (uintptr_t)code);
            }
            p += sizeof(far_return);
        }
        for (j = 0; j < f->length; j++) {
            p[j] = f->code[j];
        }
        if (f->random_at) {
            p[f->random_at] = 1 + random() % 63;
        }
        if (f->end_at) {
            put_32(p + f->end_at, (uintptr_t)p + f->length);
        }
        p += f->length;
        model_counts(f->counts);
    }
    *p = 0xc3;              /* ret */
    model_counts(leave);
    return (void (*)(void))start;
}

static unsigned not_due;

static bool hook(Frame *f)
{
    if (f->vector == VEC_NMI) {
        /* It comes with the instruction that overflows the counter */
        not_due += rdmsr(MSR_A_PMC(sampler)) != 0;
        wrmsr(MSR_A_PMC(sampler), negative(period));
        pmi_acknowledge();
        return true;
    }
    if (f->vector == VEC_UD && next_op < op_count) {
        wrmsr(ops[next_op].msr, ops[next_op].value);
        next_op++;
        f->rip += sizeof(ud2);
        return true;
    }
    return skip_page_fault(f);
}

/* Program the counters in a random order, with random events and values. */
static void set_up(void)
{
    unsigned first = random(), step = 1 | random();
    int i;

    for (i = 0; i < MOST_GP_COUNTERS; i++) {
        int n = (first + i * step) % MOST_GP_COUNTERS;
        int event = random() % EVENTS;
        uint64_t value = random() & 1 ? 0 : negative(random() % 1000);

        model.event[n] = event;
        model.count[n] = value;
        wrmsr(MSR_EVTSEL(n), event_codes[event] | EVTSEL_USR | EVTSEL_EN);
        wrmsr(MSR_A_PMC(n), value);
    }
    program_fixed(0, FIXED_USR);
    program_fixed(1, FIXED_USR);
    pmu_enable = COUNTERS_MASK;
    model.enabled = GP_MASK;
    for (i = 0; i < EVENTS; i++) {
        model.total[i] = 0;
    }
}

static void run(void (*body)(void))
{
    apic_write(APIC_LVTPC, LVT_NMI);
    this_cpu()->pmis = 0;
    not_due = 0;
    this_cpu()->hook = hook;
    user(body, (uintptr_t)data);
    this_cpu()->hook = NULL;
}

static void check_counters(int step, int except)
{
    int i;

    check("fixed counter 0", step, rdmsr(MSR_FIXED_CTR(0)),
          model.total[INSNS]);
    for (i = 0; i < MOST_GP_COUNTERS; i++) {
        if (i != except) {
            check(model.event[i] == INSNS ? "instructions" :
                  model.event[i] == BRANCHES ? "branches" :
                  model.event[i] == LOADS ? "loads" :
                  model.event[i] == STORES ? "stores" : "nothing", step,
                  rdmsr(MSR_PMC(i)), model.count[i]);
        }
    }
}

/* A segment that IP can address. It is 0 at first. */
static void set_up_16_bit_code(void)
{
    struct __attribute__((packed)) {
        uint16_t limit;
        uint64_t base;
    } gdtr;
    uint64_t base = (uintptr_t)code;

    asm volatile("sgdt %0" : "=m" (gdtr));
    *(Shared64 *)(gdtr.base + (CODE_16 & ~7)) =
        0x0000fa000000ffff | (base & 0xffffff) << 16 | (base >> 24) << 56;
}

/* MAILBOX_ARG: the seed; MAILBOX_ARG2: the number of programs */
void case_random_programs(void)
{
    Cpu *cpu = this_cpu();
    int i, programs = MAILBOX_64(MAILBOX_ARG2);

    start_ap();             /* so that LOCK across lines stops the other CPU */
    set_random_seed(MAILBOX_64(MAILBOX_ARG));
    set_present(GAP, false);
    set_up_16_bit_code();
    set_gate(VEC_OF, interrupt_return, 3);
    context("random programs");

    for (i = 0; i < programs; i++) {
        unsigned n = random() % MAX_FRAGMENTS;
        uint64_t seed = random(), cycles = 0;
        int sample;

        for (sample = 0; sample < 2; sample++) {
            void (*body)(void);

            set_random_seed(seed);      /* the same program twice */
            period = 1 + random() % (i % 4 ? 300 : 12);
            sampler = random() % MOST_GP_COUNTERS;
            pmu_reset();
            set_up();
            body = make(n, false);
            if (sample) {
                wrmsr(MSR_EVTSEL(sampler), EV_INSNS | EVTSEL_USR | EVTSEL_INT |
                                           EVTSEL_EN);
                wrmsr(MSR_A_PMC(sampler), negative(period));
            }
            run(body);
            check_counters(i, sample ? sampler : NO_STEP);
            check("interrupts", i, cpu->pmis,
                  sample ? model.total[INSNS] / period : 0);
            check("interrupts that were not due", i, not_due, 0);
            if (sample) {
                check("rest of the period", i, rdmsr(MSR_A_PMC(sampler)),
                      negative(period - model.total[INSNS] % period));
            }
            if (sample && !IS_PRECISE) {
                check("cycles", i, rdmsr(MSR_FIXED_CTR(1)), cycles);
            } else {
                cycles = rdmsr(MSR_FIXED_CTR(1));
            }
        }
        pmu_reset();
        set_up();
        run(make(n, true));
        check("writes", i, next_op, op_count);
        check_counters(i, NO_STEP);
    }
    context("");
    set_trap_gate(VEC_OF);
    set_present(GAP, true);
    pmu_reset();
}
