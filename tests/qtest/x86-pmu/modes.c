/*
 * What instructions count in all modes of the CPU, and for all accesses
 *
 * The numbers are counted by hand, next to the code in modes.S.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "modes.h"
#include "payload.h"

#define VEC_OF              4
#define CR4_OSXMMEXCPT      BIT(10)
#define CR4_DE              BIT(3)
#define EFER_SVME           BIT(12)

/* Where something of modes.S is in the copy */
#define COPY(sym)           ((sym) - modes_start + (uintptr_t)MODES_BASE)

enum { BRANCHES, FAR, COND, CALLS, RETS, TAKEN, LOADS, STORES, EVENTS };

typedef struct Counts {
    uint64_t insns;
    uint64_t event[EVENTS];
} Counts;

static void start(bool user)
{
    static const uint16_t codes[EVENTS] = {
        EV_BRANCHES, EV_FAR, EV_COND, EV_CALL, EV_RET, EV_TAKEN, EV_LOADS,
        EV_STORES,
    };
    int i;

    for (i = 0; i < EVENTS; i++) {
        program(i, codes[i] | (user ? EVTSEL_USR : EVTSEL_OS));
    }
    program_fixed(0, user ? FIXED_USR : FIXED_OS);
}

static void check_counts(int step, const Counts *want, const Counts *overhead)
{
    static const char *const names[EVENTS] = {
        "branches", "far branches", "conditional branches", "calls",
        "returns", "taken branches", "loads", "stores",
    };
    int i;

    check("instructions", step, rdmsr(MSR_FIXED_CTR(0)),
          want->insns + overhead->insns);
    for (i = 0; i < EVENTS; i++) {
        check(names[i], step, rdmsr(MSR_PMC(i)),
              want->event[i] + overhead->event[i]);
    }
}

/* ------------------------------------------------- Accesses of 64-bit code */

static const Counts kernel_overhead = {
    5 + DISABLING_WRMSR, { 2, 0, 0, 1, 1, 2, 1, 1 }
};
static const Counts user_overhead = { 3, { 3, 1, 0, 1, 1, 2, 1, 2 } };

static void measure(const char *name, void (*body)(void), const Counts *want)
{
    int step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    context(name);
    for (step = 0; step < 2; step++) {
        memset(modes_area, 0, 4096);
        start(false);
        kernel(body, 0);
        check_counts(step, want, &kernel_overhead);
    }
    context("");
}

void case_modes_sse(void)
{
    static const Counts want = { 25, { [LOADS] = 12, [STORES] = 10 } };
    uint64_t cr4 = read_cr4();

    write_cr4(cr4 | CR4_OSFXSR | CR4_OSXMMEXCPT);
    measure("SSE", body_sse, &want);
    write_cr4(cr4);
}

void case_modes_avx(void)
{
    static const Counts want = { 28, { [LOADS] = 15, [STORES] = 8 } };
    uint64_t cr4 = read_cr4();

    write_cr4(cr4 | CR4_OSFXSR | CR4_OSXMMEXCPT | CR4_OSXSAVE);
    asm volatile("xsetbv" : : "c" (0), "a" (7), "d" (0));
    measure("AVX", body_avx, &want);
    write_cr4(cr4);
}

void case_modes_exchange(void)
{
    static const Counts want = { 36, { [LOADS] = 20, [STORES] = 19 } };

    measure("exchange", body_exchange, &want);
}

void case_modes_no_access(void)
{
    static const Counts want = { 14, { [LOADS] = 3 } };

    measure("no access", body_no_access, &want);
}

static bool hook_skip_vmmcall(Frame *f)
{
    if (f->vector != VEC_UD) {
        return false;
    }
    f->rip += 3;
    this_cpu()->events++;
    return true;
}

/* VMMCALL is #UD and does not retire, with or without SVM. */
void case_modes_vmmcall(void)
{
    static const Counts want = { 9, { [LOADS] = 3, [STORES] = 3 } };
    uint64_t efer = rdmsr(MSR_EFER);
    uint32_t r[4];
    bool svm;
    int step;

    get_cpuid(0x80000001, r);
    svm = r[2] & 4;
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    if (svm) {
        wrmsr(MSR_EFER, efer | EFER_SVME);
    }
    this_cpu()->hook = hook_skip_vmmcall;
    for (step = 0; step < 2; step++) {
        this_cpu()->events = 0;
        start(true);
        user(body_vmmcall, 0);
        check_counts(step, &want, &user_overhead);
        check("#UD", step, this_cpu()->events, 2);
    }
    this_cpu()->hook = NULL;
    wrmsr(MSR_EFER, efer);
}

/* OUT retires once, and so does what follows its trap. */
static const Counts io_breakpoint = {
    /* With INC and IRET of the handler */
    6 + 2 * 2, { 2, 2, [LOADS] = 1 + 2 * 2, [STORES] = 1 + 2 }
};

void case_modes_io(void)
{
    uint64_t cr4 = read_cr4();

    set_gate(VEC_DB, debug_return, 0);
    write_cr4(cr4 | CR4_DE);
    asm volatile("mov %0, %%dr0" : : "r" (0x80ull));
    asm volatile("mov %0, %%dr7" : : "r" (0x20001ull));
    payload_debugs = 0;
    measure("I/O breakpoint", body_io_breakpoint, &io_breakpoint);
    check("traps", NO_STEP, payload_debugs, 4);
    asm volatile("mov %0, %%dr7" : : "r" (0ull));
    write_cr4(cr4);
    set_trap_gate(VEC_DB);
}

/* ------------------------------------------------------------ Other modes */

/* What MODE_BODY and INTO_BODY of modes.S count, and what ends the counting */
static const Counts mode_body = { 58, { 10, 2, 4, 1, 1, 6, 27, 22 } };
static const Counts end_kernel = { 3 + DISABLING_WRMSR, { } };
/* INTO and IRET are far branches. */
static const Counts into_body = { 1 + 3 * 7 + 3, { 9, 6, 3, 0, 0, 2, 6, 6 } };
/* The INT to the other mode */
static const Counts end_user = { 1, { 1, 1, [STORES] = 1 } };

static void set_up_modes(void)
{
    const char *from = modes_start;
    Shared8 *to = (Shared8 *)(uintptr_t)MODES_BASE;
    Shared32 *tss = (Shared32 *)(uintptr_t)MODES_TSS;
    Shared32 *gate = (Shared32 *)(uintptr_t)(MODES_IDT + 8 * MODES_EXIT);

    while (from < modes_end) {
        *to++ = *from++;
    }
    memset((void *)(uintptr_t)MODES_TSS, 0, 0x68);
    tss[1] = MODES_STACK - 0x400;       /* ESP0 and SS0 */
    tss[2] = 0x10;
    memset((void *)(uintptr_t)MODES_IDT, 0, 8 * MODES_EXIT);
    gate[0] = 0x18 << 16 | COPY(modes_v86_exit);
    gate[1] = 0xee00;
    *(Shared64 *)COPY(modes_enable) = COUNTERS_MASK;
}

/* V86 code has loaded another TSS. */
static void reload_tr(void)
{
    struct __attribute__((packed)) {
        uint16_t limit;
        uint64_t base;
    } gdtr;
    uint16_t tr = 0x38 + 16 * this_cpu()->index;

    asm volatile("sgdt %0" : "=m" (gdtr));
    *(Shared64 *)(gdtr.base + tr) &= ~BIT(41);  /* not busy */
    asm volatile("ltr %0" : : "r" (tr));
}

static void measure_mode(const char *name, char *entry, bool is_user,
                         const Counts *want, const Counts *overhead)
{
    int step;

    pmu_reset();
    context(name);
    for (step = 0; step < 2; step++) {
        set_up_modes();
        memset((void *)(uintptr_t)MODES_DATA, 0, MODES_DATA_SIZE);
        start(is_user);
        run_mode(COPY(entry));
        check_counts(step, want, overhead);
        if (is_user) {
            reload_tr();
        }
    }
    context("");
}

void case_modes_compat_32(void)
{
    measure_mode("32-bit code", modes_compat_32, false, &mode_body,
                 &end_kernel);
}

void case_modes_compat_16(void)
{
    measure_mode("16-bit code", modes_compat_16, false, &mode_body,
                 &end_kernel);
}

void case_modes_legacy_32(void)
{
    measure_mode("protected mode", modes_legacy_32, false, &mode_body,
                 &end_kernel);
}

/* Besides, INTO that traps, and INT n with IRET */
void case_modes_real(void)
{
    Counts want = { .insns = mode_body.insns + into_body.insns + 2 };
    int i;

    for (i = 0; i < EVENTS; i++) {
        want.event[i] = mode_body.event[i] + into_body.event[i];
    }
    want.event[BRANCHES] += 2;
    want.event[FAR] += 2;
    want.event[LOADS]++;
    want.event[STORES]++;
    measure_mode("real mode", modes_real, false, &want, &end_kernel);
}

void case_modes_v86(void)
{
    measure_mode("virtual 8086", modes_v86, true, &mode_body, &end_user);
}

/* It retires once if it traps; MODE_BODY has one that does not. */
void case_modes_into(void)
{
    set_gate(VEC_OF, interrupt_return, 3);
    measure_mode("32-bit INTO", modes_into_32, false, &into_body, &end_kernel);
    measure_mode("16-bit INTO", modes_into_16, false, &into_body, &end_kernel);
    set_trap_gate(VEC_OF);
}
