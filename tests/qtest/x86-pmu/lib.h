/*
 * What the test cases of the x86 PMU test program are made of
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_LIB_H
#define X86_PMU_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cases.h"
#include "guest.h"

#define ARRAY_SIZE(x)       ((int)(sizeof(x) / sizeof((x)[0])))
#define BIT(n)              (1ull << (n))

/* Memory that another CPU, an interrupt or the host reads or writes, too */
typedef volatile uint8_t Shared8;       /* text */
typedef volatile uint16_t Shared16;     /* what the CPU reads */
typedef volatile uint32_t Shared32;     /* registers, flags */
typedef volatile uint64_t Shared64;     /* numbers */

#define MSR_TSC             0x10
#define MSR_APICBASE        0x1b
#define MSR_PMC(n)          (0xc1 + (n))
#define MSR_EVTSEL(n)       (0x186 + (n))
#define MSR_MISC_ENABLE     0x1a0
#define MSR_DEBUGCTL        0x1d9
#define MSR_FIXED_CTR(n)    (0x309 + (n))
#define MSR_PERF_METRICS    0x329
#define MSR_PERF_CAP        0x345
#define MSR_FIXED_CTR_CTRL  0x38d
#define MSR_GLOBAL_STATUS   0x38e
#define MSR_GLOBAL_CTRL     0x38f
#define MSR_STATUS_RESET    0x390
#define MSR_STATUS_SET      0x391
#define MSR_GLOBAL_INUSE    0x392
#define MSR_A_PMC(n)        (0x4c1 + (n))
#define MSR_X2APIC          0x800
#define MSR_EFER            0xc0000080
#define MSR_STAR            0xc0000081
#define MSR_LSTAR           0xc0000082
#define MSR_FMASK           0xc0000084

#define EVTSEL_USR          BIT(16)
#define EVTSEL_OS           BIT(17)
#define EVTSEL_EDGE         BIT(18)
#define EVTSEL_INT          BIT(20)
#define EVTSEL_ANY          BIT(21)
#define EVTSEL_EN           BIT(22)
#define EVTSEL_INV          BIT(23)
#define EVTSEL_CMASK(n)     ((uint64_t)(n) << 24)
#define FIXED_OS            1
#define FIXED_USR           2
#define FIXED_ANY           4
#define FIXED_PMI           8

/* Of a rule that has no index */
#define NO_STEP             (-1)

/* What the CPU has, see CONFIG_SHAPE(); with PERF_METRICS, GLOBAL_CTRL[48] */
#define CONFIG_FIELD(shift, mask) (MAILBOX(MAILBOX_CONFIG) >> (shift) & (mask))
#define VERSION             (CONFIG_FIELD(12, 7) ?: MOST_VERSION)
#define HAS_ANY_THREAD      (VERSION == 3 || VERSION == 4)
#define GP_COUNTERS         (int)(CONFIG_FIELD(16, 0xf) ?: MOST_GP_COUNTERS)
#define FIXED_COUNTERS      (int)(CONFIG_FIELD(20, 7) ?: MOST_FIXED_COUNTERS)
#define COUNTER_WIDTH       (CONFIG_FIELD(24, 0xff) ?: MOST_COUNTER_WIDTH)
#define HAVE_METRICS        (FIXED_COUNTERS > 3)
#define IS_PRECISE          (MAILBOX(MAILBOX_CONFIG) & CONFIG_PRECISE)

#define WIDTH_MASK          (BIT(COUNTER_WIDTH) - 1)
#define GP_MASK             (BIT(GP_COUNTERS) - 1)
#define FIXED_MASK          ((BIT(FIXED_COUNTERS) - 1) << 32)
#define FIXED_BIT(n)        BIT(32 + (n))
#define COUNTERS_MASK       (GP_MASK | FIXED_MASK)
#define STATUS_METRICS      BIT(48)
#define STATUS_LBR_FROZEN   BIT(58)
#define STATUS_FROZEN       BIT(59)
#define STATUS_UNCORE       BIT(61)
#define STATUS_DS           BIT(62)
#define STATUS_CHANGED      BIT(63)
/* In GLOBAL_STATUS and GLOBAL_CTRL */
#define METRICS_MASK        (HAVE_METRICS ? STATUS_METRICS : 0)
#define STATUS_MASK         (COUNTERS_MASK | METRICS_MASK |                 \
                             (VERSION < 4 ? 0 :                             \
                              STATUS_LBR_FROZEN | STATUS_FROZEN) |          \
                             STATUS_DS | STATUS_CHANGED)
#define DEBUGCTL_FREEZE_LBR BIT(11)
#define DEBUGCTL_FREEZE     BIT(12)
#define DEBUGCTL_FREEZE_SMM BIT(14)

/* Event codes: umask and event */
#define EV_INSNS            0x00c0
#define EV_CYCLES           0x003c
#define EV_REF_CYCLES       0x013c
#define EV_LLC_REFS         0x4f2e
#define EV_L1_HITS          0x01d1
#define EV_LLC_MISSES       0x412e
#define EV_BRANCHES         0x00c4
#define EV_BRANCH_MISSES    0x00c5
#define EV_COND             0x11c4
#define EV_CALL             0x02c4
#define EV_RET              0x08c4
#define EV_TAKEN            0x20c4
#define EV_FAR              0x40c4
#define EV_LOADS            0x81d0
#define EV_STORES           0x82d0
/* TopDown, in slots */
#define EV_SLOTS            0x01a4
#define EV_BACKEND          0x02a4
#define EV_BAD              0x04a4
#define EV_MISPREDICTS      0x08a4
#define EV_MEMORY           0x10a4
#define EV_RETIRING         0x02c2
#define EV_FRONTEND         0x019c
#define EV_ISSUED           0x010e
#define EV_ISSUED_SPR       0x01ae
#define EV_DROPPED          0x100d
#define EV_DROPPED_SPR      0x10ad
#define EV_CLEARS           0x010d
#define EV_CLEARS_SPR       0x01ad
#define EV_MACHINE_CLEARS   0x01c3

#define RDPMC_FIXED         0x40000000u
#define RDPMC_METRICS       0x20000000u

#define CR4_PCE             BIT(8)
#define CR4_OSFXSR          BIT(9)
#define CR4_OSXSAVE         BIT(18)
#define RFLAGS_TF           BIT(8)
#define RFLAGS_IF           BIT(9)

#define VEC_DE              0
#define VEC_DB              1
#define VEC_NMI             2
#define VEC_BP              3
#define VEC_UD              6
#define VEC_GP              13
#define VEC_PF              14
#define VEC_PMI             0x40
#define VEC_TIMER           0x41
#define VEC_EXIT            0x80    /* from CPL 3, see run_user() */
#define VEC_RETURN          0x81    /* nothing but IRET */
#define VEC_SPURIOUS        0xff

#define PIC_MASK_PORT       0x21

/* Registers of the local APIC */
#define APIC_BASE           0xfee00000
#define APIC_ID             0x20
#define APIC_EOI            0xb0
#define APIC_SPIV           0xf0
#define APIC_ENABLE         0x100
#define APIC_IRR            0x200
#define APIC_ICR            0x300
#define APIC_LVTT           0x320
#define APIC_LVTPC          0x340
#define APIC_LINT1          0x360
#define APIC_TMICT          0x380
#define APIC_TDCR           0x3e0
#define LVT_NMI             0x400
#define LVT_MASKED          0x10000
#define LVT_PERIODIC        0x20000

typedef struct Frame {
    uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13,
             r14, r15, vector, error, rip, cs, rflags, rsp, ss;
} Frame;

typedef struct __attribute__((packed)) Tss {
    uint32_t reserved;
    uint64_t rsp0;
    uint32_t rest[22];
    uint16_t reserved2, io_bitmap;
} Tss;

/* Each CPU has one at the bottom of its stack. */
typedef struct Cpu {
    unsigned index;
    uint64_t resume;                /* after an expected exception */
    int caught;                     /* its vector */
    bool (*hook)(Frame *f);         /* first to see exceptions, interrupts */
    unsigned pmis;
    uint64_t pmi_rip;
    uint64_t pmi_status;
    uint64_t pmi_lvtpc;
    uint64_t events;                /* for hooks */
    Tss tss __attribute__((aligned(16)));
} Cpu;

static inline Cpu *this_cpu(void)
{
    uint64_t rsp;

    asm volatile("mov %%rsp, %0" : "=r" (rsp));
    return (Cpu *)(rsp & -(uint64_t)GUEST_STACK_SIZE);
}

/* Offsets of words in the trampoline */
#define REAL_MODE_RDPMC     (*(Shared32 *)(GUEST_TRAMPOLINE + 8))
#define REAL_MODE_INDEX     (*(Shared32 *)(GUEST_TRAMPOLINE + 12))
#define REAL_MODE_RESULT    (*(Shared64 *)(GUEST_TRAMPOLINE + 16))

#define MAILBOX(reg)        (*(Shared32 *)(MAILBOX_ADDR + (reg)))
#define MAILBOX_64(reg)     (*(Shared64 *)(MAILBOX_ADDR + (reg)))
#define MAILBOX_CHAR(i)     (*(Shared8 *)((uintptr_t)MAILBOX_ADDR +         \
                                          MAILBOX_TEXT + (i)))

static inline uint64_t rdmsr(uint32_t msr)
{
    uint32_t lo, hi;

    asm volatile("rdmsr" : "=a" (lo), "=d" (hi) : "c" (msr));
    return (uint64_t)hi << 32 | lo;
}

static inline void wrmsr(uint32_t msr, uint64_t value)
{
    asm volatile("wrmsr" : : "c" (msr), "a" ((uint32_t)value),
                 "d" ((uint32_t)(value >> 32)) : "memory");
}

static inline uint64_t rdtsc(void)
{
    uint32_t low, high;

    asm volatile("rdtsc" : "=a" (low), "=d" (high));
    return low | (uint64_t)high << 32;
}

static inline uint64_t rdpmc(uint32_t index)
{
    uint32_t lo, hi;

    asm volatile("rdpmc" : "=a" (lo), "=d" (hi) : "c" (index));
    return (uint64_t)hi << 32 | lo;
}

static inline void get_cpuid(uint32_t leaf, uint32_t r[4])
{
    asm volatile("cpuid" : "=a" (r[0]), "=b" (r[1]), "=c" (r[2]), "=d" (r[3])
                 : "a" (leaf), "c" (0));
}

static inline uint64_t read_cr4(void)
{
    uint64_t value;

    asm volatile("mov %%cr4, %0" : "=r" (value));
    return value;
}

static inline void write_cr4(uint64_t value)
{
    asm volatile("mov %0, %%cr4" : : "r" (value) : "memory");
}

static inline void outb(uint16_t port, uint8_t value)
{
    asm volatile("outb %0, %1" : : "a" (value), "Nd" (port));
}

static inline void outl(uint16_t port, uint32_t value)
{
    asm volatile("outl %0, %1" : : "a" (value), "Nd" (port));
}

static inline void cli(void)
{
    asm volatile("cli" : : : "memory");
}

/* Let pending interrupts in. */
static inline void interrupts(void)
{
    asm volatile("sti; nop; nop; cli" : : : "memory");
}

static inline void *memset(void *p, int c, size_t n)
{
    void *d = p;

    asm volatile("rep stosb" : "+D" (d), "+c" (n) : "a" (c) : "memory");
    return p;
}

static inline void *memcpy(void *to, const void *from, size_t n)
{
    void *end = to;

    asm volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(n) : : "memory");
    return to;
}

/* Return the vector of the exception that happens, or 0. */
int rdmsr_safe(uint32_t msr, uint64_t *value);
int wrmsr_safe(uint32_t msr, uint64_t value);
int rdpmc_safe(uint32_t index, uint64_t *value);

/* Rules: the name, and the index if it is not negative, say which. */
void check(const char *name, int index, uint64_t got, uint64_t want);
void check_range(const char *name, int index, uint64_t got, uint64_t min,
                 uint64_t max);
/* What is in front of the name of the rules that follow */
void context(const char *name);
/* Phase 1 until the qtest sets phase 2 */
void wait_for_host(void);
/* Each bit of a register alone: 0 or #GP, and whether it reads back */
void check_bits(const char *name, uint32_t msr, uint64_t legal,
                bool reads_as_0);
/* A number that is no rule, but the same in each run. */
void value(const char *name, int index, uint64_t got);
void text(const char *s);
void hex(uint64_t number);

uint32_t apic_read(unsigned reg);
void apic_write(unsigned reg, uint32_t value);
bool apic_irr(unsigned vector);
bool apic_is_x2apic(void);
void apic_enable_x2apic(void);
void apic_timer(uint32_t count, bool periodic);
void start_ap(void);
void call_ap(void (*fn)(void));
void call_ap_wait(void);

void set_gate(unsigned vector, void (*fn)(void), unsigned dpl);
void set_trap_gate(unsigned vector);
void set_present(uint64_t address, bool present);
bool is_present(uint64_t address);
/* The usual handler of PMIs: acknowledges all bits, and unmasks the LVT. */
void pmi_acknowledge(void);

/* Nothing counts, all counters and bits are clear, LVTPC has vector 0x40. */
void pmu_reset(void);
/* A counter starts at 0, and counts when it is enabled in GLOBAL_CTRL. */
void program(unsigned n, uint64_t evtsel);
void program_fixed(unsigned n, uint64_t control);

/*
 * Hooks: skip RDPMC, or an instruction of 3 bytes with a page fault, and note
 * in events that they did.
 */
bool skip_rdpmc(Frame *f);
bool skip_page_fault(Frame *f);

/* Wait until the other CPU is here, too. It starts as 0. */
extern Shared32 barrier;
void meet(void);

void set_random_seed(uint64_t seed);
uint64_t random(void);

/* boot.S */
extern uint64_t pmu_enable;
extern uint64_t run_user_flags;
extern uint32_t config_command, config_cpu;
extern char stacks[], trap_stubs[];
void run_kernel(void (*body)(void), uint64_t arg);
void run_user(void (*body)(void), uint64_t arg, Tss *tss);
void user_exit(void);

/* From there, n events make a counter 0. */
static inline uint64_t negative(uint64_t n)
{
    return -n & WIDTH_MASK;
}

static inline void user(void (*body)(void), uint64_t arg)
{
    run_user(body, arg, &this_cpu()->tss);
}

static inline void kernel(void (*body)(void), uint64_t arg)
{
    run_kernel(body, arg);
}

/* lib.c, called by boot.S */
void guest_main(void);
void guest_main_ap(void);
void trap(Frame *f);

typedef struct GuestCase {
    void (*fn)(void);
    unsigned flags;
    const char *path;
} GuestCase;

/* modes.c */
#define X(sym, path, flags) void case_##sym(void);
MODES_CASES(X)
#undef X
/* shapes.c */
void case_shape(void);
/* svm.c */
void body_vmrun(void);
void svm_vmmcall(void);
void svm_int(void);
void svm_rdpmc(void);
void svm_rdmsr(void);
void svm_wrmsr(void);
void case_svm_int(void);
void case_svm_pmu(void);
/* random.c */
void case_random_programs(void);
/* debug.c */
void body_debug_step(void);
void body_debug_watch(void);
extern const uint8_t debug_step_1[], debug_step_2[], debug_step_3[];
extern const uint8_t debug_step_4[], debug_watch_1[];
void case_debug_reasons(void);

/* cases.c and topdown.c */
extern const GuestCase pmu_cases[GUEST_CASE(all)];
extern const GuestCase topdown_cases[GUEST_CASE(all_topdown)];

#endif
