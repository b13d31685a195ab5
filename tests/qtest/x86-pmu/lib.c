/*
 * Exceptions, local APIC, second CPU and reports of the x86 PMU test program
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"

typedef struct Gate {
    uint16_t offset_lo, selector;
    uint8_t ist, type;
    uint16_t offset_mid;
    uint32_t offset_hi, reserved;
} Gate;

typedef struct __attribute__((packed)) TablePointer {
    uint16_t limit;
    uint64_t base;
} TablePointer;

static Gate idt[256] __attribute__((aligned(16)));
static const char *context_name = "";
static bool x2apic;
static Shared64 ap_job;             /* a function */
static Shared32 ap_running;
static uint64_t random_state;
Shared32 barrier;

/* ------------------------------------------------------------- Reports */

void text(const char *s)
{
    uint32_t length = MAILBOX(MAILBOX_LENGTH);

    while (*s && length < MAILBOX_TEXT_SIZE) {
        MAILBOX_CHAR(length++) = *s++;
    }
    MAILBOX(MAILBOX_LENGTH) = length;
}

void hex(uint64_t number)
{
    char s[19] = "0x";
    int digits = 1, i;

    while (digits < 16 && number >> (4 * digits)) {
        digits++;
    }
    for (i = 0; i < digits; i++) {
        s[2 + i] = "0123456789abcdef"[number >> (4 * (digits - 1 - i)) & 15];
    }
    s[2 + digits] = 0;
    text(s);
}

static void rule(const char *kind, const char *name, int index)
{
    text(kind);
    if (*context_name) {
        text(context_name);
        text(": ");
    }
    text(name);
    if (index >= 0) {
        text("[");
        hex(index);
        text("]");
    }
    text(" ");
}

void check_range(const char *name, int index, uint64_t got, uint64_t min,
                 uint64_t max)
{
    MAILBOX(MAILBOX_CHECKS)++;
    if (got < min || got > max) {
        MAILBOX(MAILBOX_FAILURES)++;
        rule("FAIL ", name, index);
        text("is ");
        hex(got);
        text(", not ");
        hex(min);
        if (min != max) {
            text(" to ");
            hex(max);
        }
        text("\n");
    }
}

void check(const char *name, int index, uint64_t got, uint64_t want)
{
    check_range(name, index, got, want, want);
}

void context(const char *name)
{
    context_name = name;
}

void value(const char *name, int index, uint64_t got)
{
    rule("", name, index);
    hex(got);
    text("\n");
}

/* ---------------------------------------------------------- Local APIC */

bool apic_is_x2apic(void)
{
    return x2apic;
}

uint32_t apic_read(unsigned reg)
{
    if (x2apic) {
        return rdmsr(MSR_X2APIC + (reg >> 4));
    }
    return *(Shared32 *)(uintptr_t)(APIC_BASE + reg);
}

void apic_write(unsigned reg, uint32_t value)
{
    if (x2apic) {
        wrmsr(MSR_X2APIC + (reg >> 4), value);
    } else {
        *(Shared32 *)(uintptr_t)(APIC_BASE + reg) = value;
    }
}

bool apic_irr(unsigned vector)
{
    return apic_read(APIC_IRR + (vector >> 5 << 4)) >> (vector & 31) & 1;
}

void apic_enable_x2apic(void)
{
    wrmsr(MSR_APICBASE, rdmsr(MSR_APICBASE) | BIT(10));
    x2apic = true;
}

/* In nanoseconds: QEMU's APIC has a clock of 1 GHz. 0 stops it. */
void apic_timer(uint32_t count, bool periodic)
{
    apic_write(APIC_TDCR, 0xb);
    apic_write(APIC_LVTT, VEC_TIMER | (periodic ? LVT_PERIODIC : 0) |
                          (count ? 0 : LVT_MASKED));
    apic_write(APIC_TMICT, count);
}

static void send_to_ap(uint32_t icr)
{
    apic_write(APIC_ICR + 0x10, 1u << 24);
    apic_write(APIC_ICR, icr);
}

/* Reset the second CPU by INIT, and start it. */
void start_ap(void)
{
    ap_job = 0;
    ap_running = false;
    send_to_ap(0x4500);
    send_to_ap(0x4600 | GUEST_TRAMPOLINE >> 12);
    while (!ap_running) {
        asm volatile("pause" : : : "memory");
    }
}

void call_ap(void (*fn)(void))
{
    ap_job = (uintptr_t)fn;
}

void call_ap_wait(void)
{
    while (ap_job) {
        asm volatile("pause" : : : "memory");
    }
}

/* ---------------------------------------------------------- Exceptions */

void set_gate(unsigned vector, void (*fn)(void), unsigned dpl)
{
    uint64_t offset = (uintptr_t)fn;

    idt[vector] = (Gate) {
        .offset_lo = offset, .offset_mid = offset >> 16,
        .offset_hi = offset >> 32, .selector = 8, .type = 0x8e | dpl << 5,
    };
}

void set_trap_gate(unsigned vector)
{
    set_gate(vector, (void (*)(void))(trap_stubs + 16 * vector),
             vector == VEC_BP ? 3 : 0);
}

static uint64_t *pte(uint64_t address)
{
    return (uint64_t *)(GUEST_PAGE_TABLES + 0x6000) +
           ((address - GUEST_SMALL_PAGES) >> 12);
}

bool is_present(uint64_t address)
{
    return *pte(address) & 1;
}

void set_present(uint64_t address, bool present)
{
    *pte(address) = (*pte(address) & ~1ull) | present;
    asm volatile("invlpg (%0)" : : "r" (address) : "memory");
}

void pmi_acknowledge(void)
{
    wrmsr(MSR_STATUS_RESET, rdmsr(MSR_GLOBAL_STATUS));
    apic_write(APIC_LVTPC, apic_read(APIC_LVTPC) & ~LVT_MASKED);
}

void trap(Frame *f)
{
    Cpu *cpu = this_cpu();

    if (f->vector == VEC_PMI || f->vector == VEC_NMI) {
        cpu->pmis++;
        cpu->pmi_rip = f->rip;
        cpu->pmi_status = rdmsr(MSR_GLOBAL_STATUS);
        cpu->pmi_lvtpc = apic_read(APIC_LVTPC);
    }
    if (cpu->hook && cpu->hook(f)) {
        /* Done */
    } else if (f->vector == VEC_PMI || f->vector == VEC_NMI) {
        pmi_acknowledge();
    } else if (f->vector < 32 && cpu->resume) {
        cpu->caught = f->vector;
        f->rip = cpu->resume;
        cpu->resume = 0;
    } else if (f->vector < 32) {
        check("exception at", f->vector, f->rip, 0);
        MAILBOX(MAILBOX_PHASE) = MAILBOX_DEAD;
        MAILBOX(MAILBOX_COMMAND) = 0;
        for (;;) {
            asm volatile("cli; hlt");
        }
    }
    if (f->vector >= 32 && f->vector != VEC_SPURIOUS) {
        apic_write(APIC_EOI, 0);
    }
}

int rdmsr_safe(uint32_t msr, uint64_t *value)
{
    Cpu *cpu = this_cpu();
    uint32_t lo = 0, hi = 0;

    cpu->caught = 0;
    asm volatile("movq $1f, %[resume]; rdmsr; 1: movq $0, %[resume]"
                 : "+a" (lo), "+d" (hi), [resume] "=m" (cpu->resume)
                 : "c" (msr) : "memory");
    *value = (uint64_t)hi << 32 | lo;
    return cpu->caught;
}

int wrmsr_safe(uint32_t msr, uint64_t value)
{
    Cpu *cpu = this_cpu();

    cpu->caught = 0;
    asm volatile("movq $1f, %[resume]; wrmsr; 1: movq $0, %[resume]"
                 : [resume] "=m" (cpu->resume)
                 : "c" (msr), "a" ((uint32_t)value),
                   "d" ((uint32_t)(value >> 32)) : "memory");
    return cpu->caught;
}

int rdpmc_safe(uint32_t index, uint64_t *value)
{
    Cpu *cpu = this_cpu();
    uint32_t lo = 0, hi = 0;

    cpu->caught = 0;
    asm volatile("movq $1f, %[resume]; rdpmc; 1: movq $0, %[resume]"
                 : "+a" (lo), "+d" (hi), [resume] "=m" (cpu->resume)
                 : "c" (index) : "memory");
    *value = (uint64_t)hi << 32 | lo;
    return cpu->caught;
}

bool skip_page_fault(Frame *f)
{
    if (f->vector == VEC_PF) {
        this_cpu()->events++;
        f->rip += 3;
        return true;
    }
    return false;
}

bool skip_rdpmc(Frame *f)
{
    if (f->vector == VEC_GP) {
        this_cpu()->events++;
        f->rip += 2;
        return true;
    }
    return false;
}

/* ----------------------------------------------------------------- PMU */

void pmu_reset(void)
{
    Cpu *cpu = this_cpu();
    int i;

    cpu->hook = NULL;
    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_FIXED_CTR_CTRL, 0);
    for (i = 0; i < GP_COUNTERS; i++) {
        wrmsr(MSR_EVTSEL(i), 0);
        wrmsr(MSR_PMC(i), 0);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        wrmsr(MSR_FIXED_CTR(i), 0);
    }
    wrmsr(MSR_STATUS_RESET, rdmsr(MSR_GLOBAL_STATUS));
    wrmsr(MSR_DEBUGCTL, 0);
    apic_write(APIC_LVTPC, VEC_PMI);
    interrupts();
    cpu->pmis = 0;
    cpu->events = 0;
}

void program(unsigned n, uint64_t evtsel)
{
    wrmsr(MSR_EVTSEL(n), 0);
    wrmsr(MSR_PMC(n), 0);
    wrmsr(MSR_EVTSEL(n), evtsel | EVTSEL_EN);
}

void program_fixed(unsigned n, uint64_t control)
{
    uint64_t other = rdmsr(MSR_FIXED_CTR_CTRL) & ~(0xfull << 4 * n);

    wrmsr(MSR_FIXED_CTR_CTRL, other);
    wrmsr(MSR_FIXED_CTR(n), 0);
    wrmsr(MSR_FIXED_CTR_CTRL, other | control << 4 * n);
}

/* --------------------------------------------------------------- Cases */

void meet(void)
{
    uint32_t before = __atomic_fetch_add(&barrier, 1, __ATOMIC_SEQ_CST);

    while (barrier < (before & ~1u) + 2) {
        asm volatile("pause" : : : "memory");
    }
}

void set_random_seed(uint64_t seed)
{
    random_state = seed | 1;
}

/* xorshift64* */
uint64_t random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

/*
 * One of "all": does this CPU have what it needs, and is it for this CPU? Cases
 * of TopDown are for one kind of model, all others are for each model.
 */
static bool is_possible(unsigned flags, bool topdown)
{
    uint32_t config = MAILBOX(MAILBOX_CONFIG);

    return !(flags & CASE_MANUAL) &&
           (!(flags & CASE_SMP) || config & CONFIG_SMP) &&
           (!topdown || !(flags & CASE_PRECISE) == !IS_PRECISE);
}

static void run_case(unsigned command)
{
    const GuestCase *cases = pmu_cases;
    unsigned i = GUEST_CASE(none) + 1, end = GUEST_CASE(all);

    if (command > GUEST_CASE(all)) {
        cases = topdown_cases;
        i = GUEST_CASE(all) + 1;
        end = GUEST_CASE(all_topdown);
    }
    run_user_flags = 2;
    context("");
    if (command != end) {
        cases[command].fn();
        return;
    }
    for (; i < end; i++) {
        uint32_t failures = MAILBOX(MAILBOX_FAILURES);

        if (!is_possible(cases[i].flags, cases == topdown_cases)) {
            continue;
        }
        cases[i].fn();
        context("");
        if (MAILBOX(MAILBOX_FAILURES) != failures) {
            text("in ");
            text(cases[i].path);
            text("\n");
        }
    }
}

void wait_for_host(void)
{
    MAILBOX(MAILBOX_PHASE) = 1;
    while (MAILBOX(MAILBOX_PHASE) != 2) {
        asm volatile("pause" : : : "memory");
    }
}

/* -------------------------------------------------------------- Set-up */

static void setup_cpu(unsigned index)
{
    Cpu *cpu = this_cpu();
    TablePointer idtr = { sizeof(idt) - 1, (uintptr_t)idt }, gdtr;
    uint16_t tr = 0x38 + 16 * index;
    uint64_t tss = (uintptr_t)&cpu->tss, *descriptor;

    memset(cpu, 0, sizeof(*cpu));
    cpu->index = index;
    cpu->tss.io_bitmap = sizeof(Tss);   /* no port is allowed at CPL 3 */
    asm volatile("lidt %0; sgdt %1" : "+m" (idtr), "=m" (gdtr));
    descriptor = (uint64_t *)(gdtr.base + tr);
    descriptor[0] = (sizeof(Tss) - 1) | (tss & 0xffffff) << 16 |
                    0x89ull << 40 | (tss >> 24 & 0xff) << 56;
    descriptor[1] = tss >> 32;
    asm volatile("ltr %0" : : "r" (tr));
    wrmsr(MSR_STAR, 0x0020000800000000);
    wrmsr(MSR_LSTAR, (uintptr_t)syscall_return);
    wrmsr(MSR_FMASK, 0);
    apic_write(APIC_SPIV, APIC_ENABLE | VEC_SPURIOUS);
}

void guest_main_ap(void)
{
    setup_cpu(1);
    ap_running = true;
    for (;;) {
        while (!ap_job) {
            asm volatile("pause" : : : "memory");
        }
        ((void (*)(void))ap_job)();
        asm volatile("" : : : "memory");
        ap_job = 0;
    }
}

void guest_main(void)
{
    unsigned i;

    for (i = 0; i < 256; i++) {
        set_trap_gate(i);
    }
    set_gate(VEC_EXIT, user_exit, 3);
    set_gate(VEC_RETURN, interrupt_return, 3);
    setup_cpu(0);

    if (config_command) {
        MAILBOX(MAILBOX_LENGTH) = 0;
        MAILBOX(MAILBOX_CONFIG) = config_cpu;
        run_case(config_command);
        text("END\n");
        for (i = 0; i < MAILBOX(MAILBOX_LENGTH); i++) {
            outb(DEBUG_PORT, MAILBOX_CHAR(i));
        }
        outb(EXIT_PORT, MAILBOX(MAILBOX_FAILURES) ? 1 : 0);
    }

    MAILBOX(MAILBOX_COMMAND) = 0;
    MAILBOX(MAILBOX_BOOTS)++;
    for (;;) {
        while (!MAILBOX(MAILBOX_COMMAND)) {
            asm volatile("pause" : : : "memory");
        }
        run_case(MAILBOX(MAILBOX_COMMAND));
        MAILBOX(MAILBOX_COMMAND) = 0;
    }
}
