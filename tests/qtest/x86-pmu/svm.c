/*
 * Virtual machines (SVM): INT n that is intercepted, or is injected and fails,
 * has not retired; a hypervisor can intercept accesses to the PMU
 *
 * Offsets are those of AMD64 Architecture Programmer's Manual, volume 2,
 * appendix B, "Layout of VMCB".
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"

#define VMCB            (uintptr_t)GUEST_DATA_AREA
#define HOST_SAVE       (VMCB + 0x1000)
#define MSR_PERMISSIONS (VMCB + 0x2000)
#define IO_PERMISSIONS  (VMCB + 0x4000)
#define MSR_HOST_SAVE   0xc0010117
#define EFER_SVME       BIT(12)

#define INTERCEPT_GP    BIT(13)
#define INTERCEPT_RDPMC BIT(15)
#define INTERCEPT_INT   BIT(21)
#define INTERCEPT_MSR   BIT(28)
#define EXIT_GP         0x4d
#define EXIT_RDPMC      0x6f
#define EXIT_INT        0x75
#define EXIT_MSR        0x7c
#define EXIT_VMMCALL    0x81
#define BAD_GATE        0x91
/* Valid, software interrupt */
#define INJECT_INT      (BIT(31) | 4 << 8 | BAD_GATE)

typedef struct Descriptor {
    uint16_t limit;
    uint64_t base;
} __attribute__((packed)) Descriptor;

static void put16(unsigned at, uint16_t value)
{
    *(Shared16 *)(VMCB + at) = value;
}

static void put32(unsigned at, uint32_t value)
{
    *(Shared32 *)(VMCB + at) = value;
}

static void put64(unsigned at, uint64_t value)
{
    *(Shared64 *)(VMCB + at) = value;
}

static void put_segment(unsigned at, uint16_t selector, uint16_t attributes)
{
    put16(at, selector);
    put16(at + 2, attributes);
    put32(at + 4, UINT32_MAX);
    put64(at + 8, 0);
}

/* A virtual machine that runs this code on the pages and tables of its host */
static void make_machine(void (*code)(void), unsigned cpl)
{
    uint64_t cr0, cr3;
    Descriptor gdt, idt;

    asm volatile("mov %%cr0, %0; mov %%cr3, %1" : "=r" (cr0), "=r" (cr3));
    asm volatile("sgdt %0; sidt %1" : "=m" (gdt), "=m" (idt));
    memset((void *)VMCB, 0, 0x6000);
    put32(0x10, 3);                     /* VMRUN and VMMCALL */
    put64(0x40, IO_PERMISSIONS);
    put64(0x48, MSR_PERMISSIONS);
    put32(0x58, 1);                     /* ASID */
    put_segment(0x400, cpl ? 0x2b : 0x10, cpl ? 0xcf3 : 0xc93);     /* ES */
    put_segment(0x410, cpl ? 0x33 : 0x08, cpl ? 0xafb : 0xa9b);     /* CS */
    put_segment(0x420, cpl ? 0x2b : 0x10, cpl ? 0xcf3 : 0xc93);     /* SS */
    put_segment(0x430, cpl ? 0x2b : 0x10, cpl ? 0xcf3 : 0xc93);     /* DS */
    put32(0x464, gdt.limit);
    put64(0x468, gdt.base);
    put32(0x484, idt.limit);
    put64(0x488, idt.base);
    put32(0x4c8, cpl << 24);
    put64(0x4d0, rdmsr(MSR_EFER));
    put64(0x548, read_cr4());
    put64(0x550, cr3);
    put64(0x558, cr0);
    put64(0x560, 0x400);                /* DR7, */
    put64(0x568, 0xffff0ff0);           /* DR6, */
    put64(0x570, 2);                    /* and RFLAGS after a reset */
    put64(0x578, (uintptr_t)code);
    put64(0x5d8, VMCB + 0x7000);        /* RSP */
}

void case_svm_int(void)
{
    static const struct {
        const char *name;
        void (*code)(void);
        uint32_t intercept, inject, exit, insns;
    } t[] = {
        { "VMMCALL", svm_vmmcall, 0, 0, EXIT_VMMCALL, 3 },
        { "intercepted INT", svm_int, INTERCEPT_INT, 0, EXIT_INT, 3 },
        { "injected INT", svm_vmmcall, 0, INJECT_INT, EXIT_GP, 0 },
    };
    uint64_t efer = rdmsr(MSR_EFER), insns = 0, stores = 0;
    Descriptor idt;
    unsigned cpl, i;

    asm volatile("sidt %0" : "=m" (idt));
    memset((void *)(idt.base + 16 * BAD_GATE), 0, 16);

    wrmsr(MSR_EFER, efer | EFER_SVME);
    wrmsr(MSR_HOST_SAVE, HOST_SAVE);
    for (cpl = 0; cpl <= 3; cpl += 3) {
        for (i = 0; i < ARRAY_SIZE(t); i++) {
            uint64_t own = cpl ? 0 : t[i].insns;

            context(t[i].name);
            make_machine(t[i].code, cpl);
            put32(0x08, INTERCEPT_GP);
            put32(0x0c, t[i].intercept);
            put32(0xa8, t[i].inject);
            pmu_reset();
            pmu_enable = COUNTERS_MASK;
            program(0, EV_INSNS | EVTSEL_OS);
            program(1, EV_INSNS | EVTSEL_USR);
            program(2, EV_FAR | EVTSEL_OS | EVTSEL_USR);
            program(3, EV_STORES | EVTSEL_OS);
            kernel(body_vmrun, VMCB);
            check("exit", cpl, *(Shared32 *)(VMCB + 0x70), t[i].exit);
            /* What the host does is the same each time. */
            if (!cpl && !i) {
                insns = rdmsr(MSR_PMC(0)) - own;
                stores = rdmsr(MSR_PMC(3));
                check_range("host's instructions", cpl, insns, 5, 40);
            }
            check("instructions", cpl, rdmsr(MSR_PMC(0)), insns + own);
            check("user's instructions", cpl, rdmsr(MSR_PMC(1)),
                  cpl ? t[i].insns : 0);
            check("far branches", cpl, rdmsr(MSR_PMC(2)), 0);
            check("stores", cpl, rdmsr(MSR_PMC(3)), stores);
            check("status", cpl, rdmsr(MSR_GLOBAL_STATUS), 0);
        }
    }
    context("");
    pmu_reset();
    set_trap_gate(BAD_GATE);
    wrmsr(MSR_EFER, efer);
}

/* In svm_rdpmc and the like of modes.S: the counter, and what is written */
#define COUNTER         3
#define OLD             0x1234
#define NEW             0x5678

/*
 * "Instruction Intercepts" and "MSR Intercepts" of the same manual: what is
 * intercepted has no effect, and does not retire.
 */
void case_svm_pmu(void)
{
    enum { READ = 1, WRITE = 2 };
    static const struct {
        const char *name;
        void (*code)(void);
        uint32_t intercept, msr, exit, info;
        uint64_t rax, counter;
    } t[] = {
        { "RDPMC", svm_rdpmc, 0, 0, EXIT_VMMCALL, 0, OLD, OLD },
        { "RDMSR", svm_rdmsr, 0, READ, EXIT_VMMCALL, 0, OLD, OLD },
        { "WRMSR", svm_wrmsr, 0, WRITE, EXIT_VMMCALL, 0, NEW, NEW },
        { "RDMSR, of WRMSR", svm_rdmsr, INTERCEPT_MSR, WRITE, EXIT_VMMCALL, 0,
          OLD, OLD },
        { "WRMSR, of RDMSR", svm_wrmsr, INTERCEPT_MSR, READ, EXIT_VMMCALL, 0,
          NEW, NEW },
        { "intercepted RDPMC", svm_rdpmc, INTERCEPT_RDPMC, 0, EXIT_RDPMC, 0,
          NEW, OLD },
        { "intercepted RDMSR", svm_rdmsr, INTERCEPT_MSR, READ, EXIT_MSR, 0,
          NEW, OLD },
        { "intercepted WRMSR", svm_wrmsr, INTERCEPT_MSR, WRITE, EXIT_MSR, 1,
          NEW, OLD },
    };
    const uint64_t efer = rdmsr(MSR_EFER);
    uint64_t host = 0;
    int i;

    wrmsr(MSR_EFER, efer | EFER_SVME);
    wrmsr(MSR_HOST_SAVE, HOST_SAVE);
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        /* Three instructions, and one that has an effect if it retires */
        uint64_t own = t[i].exit == EXIT_VMMCALL ? 4 : 3;

        context(t[i].name);
        make_machine(t[i].code, 0);
        put32(0x0c, t[i].intercept);
        /* Two bits for each MSR */
        *(Shared8 *)(MSR_PERMISSIONS + MSR_PMC(COUNTER) / 4) =
            t[i].msr << MSR_PMC(COUNTER) % 4 * 2;
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(0, EV_INSNS | EVTSEL_OS);
        wrmsr(MSR_PMC(COUNTER), OLD);
        kernel(body_vmrun, VMCB);
        check("exit", NO_STEP, *(Shared32 *)(VMCB + 0x70), t[i].exit);
        check("EXITINFO1", NO_STEP, *(Shared64 *)(VMCB + 0x78), t[i].info);
        check("RAX", NO_STEP, *(Shared64 *)(VMCB + 0x5f8), t[i].rax);
        check("counter", NO_STEP, rdmsr(MSR_PMC(COUNTER)), t[i].counter);
        /* What the host does is the same each time. */
        if (!i) {
            host = rdmsr(MSR_PMC(0)) - own;
            check_range("host's instructions", NO_STEP, host, 5, 40);
        }
        check("instructions", NO_STEP, rdmsr(MSR_PMC(0)), host + own);
    }
    context("");
    pmu_reset();
    wrmsr(MSR_EFER, efer);
}
