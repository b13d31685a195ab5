/*
 * Random programs: what they count is known when they are made
 *
 * Each program is a sequence of fragments, of which the tables below say how
 * many instructions, branches, loads and stores they retire. It runs at CPL 3
 * while a counter interrupts at a random period. Whatever divides it into
 * translation blocks, stops them early, or executes them one by one, the counts
 * are those of the table, and the interrupts are as many as fit in.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"

#define PROGRAMS            200
#define MAX_FRAGMENTS       250
#define PAGE                4096
#define GAP                 (GUEST_SMALL_PAGES + 8 * PAGE)

typedef struct Counts {
    uint32_t insns, branches, loads, stores;
} Counts;

typedef struct Fragment {
    uint8_t length;
    uint8_t code[15];
    Counts counts;
    uint8_t random_at;      /* code[] to replace by 1 to 63; 0: none */
} Fragment;

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
    /* int 0x81: IRET is at CPL 0 */
    { 2, { 0xcd, VEC_RETURN }, { 1, 1, 0, 1 } },
    /* mov rax, (r9): the handler of the page fault skips it */
    { 3, { 0x49, 0x8b, 0x01 }, { 0, 0, 0, 0 } },
};

static uint8_t code[2 * PAGE] __attribute__((aligned(PAGE)));
static uint8_t data[PAGE] __attribute__((aligned(PAGE)));
static uint64_t period;

/* A program of so many fragments at a random place in the page */
static void (*make(unsigned n, Counts *c))(void)
{
    uint64_t address = GAP;
    uint8_t *start = code + random() % PAGE, *p = start;
    unsigned i, j;

    *p++ = 0x49;            /* mov r9, GAP */
    *p++ = 0xb9;
    for (i = 0; i < 8; i++) {
        *p++ = address >> 8 * i;
    }
    *c = (Counts) { 1, 0, 0, 0 };
    for (i = 0; i < n; i++) {
        const Fragment *f = &fragments[random() % ARRAY_SIZE(fragments)];

        for (j = 0; j < f->length; j++) {
            p[j] = f->code[j];
        }
        if (f->random_at) {
            p[f->random_at] = 1 + random() % 63;
        }
        p += f->length;
        c->insns += f->counts.insns;
        c->branches += f->counts.branches;
        c->loads += f->counts.loads;
        c->stores += f->counts.stores;
    }
    *p = 0xc3;              /* ret */
    return (void (*)(void))start;
}

static bool hook_sample(Frame *f)
{
    if (f->vector == VEC_NMI) {
        wrmsr(MSR_A_PMC(4), negative(period));
        pmi_acknowledge();
        return true;
    }
    return skip_page_fault(f);
}

static void run(void (*body)(void), bool sample)
{
    static const uint16_t events[] = {
        EV_INSNS, EV_BRANCHES, EV_LOADS, EV_STORES,
    };
    int i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    for (i = 0; i < ARRAY_SIZE(events); i++) {
        program(i, events[i] | EVTSEL_USR);
    }
    program_fixed(0, FIXED_USR);
    program_fixed(1, FIXED_USR);
    if (sample) {
        program(4, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
        wrmsr(MSR_A_PMC(4), negative(period));
    }
    this_cpu()->pmis = 0;
    this_cpu()->hook = hook_sample;
    user(body, (uintptr_t)data);
    this_cpu()->hook = NULL;
}

/* MAILBOX_ARG: the seed */
void case_random_programs(void)
{
    Cpu *cpu = this_cpu();
    Counts base, c;
    int i;

    start_ap();             /* so that LOCK across lines stops the other CPU */
    set_random_seed(MAILBOX_64(MAILBOX_ARG));
    set_present(GAP, false);
    context("random programs");

    /* What CALL, the program's MOV and RET, and INT count */
    run(make(0, &c), false);
    base = (Counts) { rdmsr(MSR_PMC(0)) - 1, rdmsr(MSR_PMC(1)),
                      rdmsr(MSR_PMC(2)), rdmsr(MSR_PMC(3)) };
    for (i = 0; i < PROGRAMS; i++) {
        void (*body)(void) = make(random() % MAX_FRAGMENTS, &c);
        uint64_t insns = base.insns + c.insns, cycles = 0;
        int sample;

        period = 1 + random() % (i % 4 ? 300 : 12);
        for (sample = 0; sample < 2; sample++) {
            run(body, sample);
            check("instructions", i, rdmsr(MSR_PMC(0)), insns);
            check("fixed counter 0", i, rdmsr(MSR_FIXED_CTR(0)), insns);
            check("branches", i, rdmsr(MSR_PMC(1)), base.branches + c.branches);
            check("loads", i, rdmsr(MSR_PMC(2)), base.loads + c.loads);
            check("stores", i, rdmsr(MSR_PMC(3)), base.stores + c.stores);
            check("interrupts", i, cpu->pmis, sample ? insns / period : 0);
            if (sample) {
                check("cycles", i, rdmsr(MSR_FIXED_CTR(1)), cycles);
            } else {
                cycles = rdmsr(MSR_FIXED_CTR(1));
            }
        }
    }
    context("");
    set_present(GAP, true);
    pmu_reset();
}
