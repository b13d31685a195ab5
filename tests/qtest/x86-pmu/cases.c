/*
 * The test cases of the x86 PMU test program
 *
 * What they expect is in Intel's SDM, volume 3, "Performance Monitoring"
 * (architectural version 5), and in what kvm-unit-tests wants of it; the
 * number of instructions, branches, loads and stores is counted by hand.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "lib.h"
#include "payload.h"

#define ANY             (~0ull)
/* USR and PMI of each counter */
#define FIXED_CTRL_ALL_USR  (0xaaaa & (BIT(4 * FIXED_COUNTERS) - 1))
#define PAGE(n)         (GUEST_SMALL_PAGES + 0x1000ull * (n))
/* Inside PAGE(), see REP_SOURCE and REP_TARGET in payload.S */
#define REP_SOURCE      0x420000
#define REP_TARGET      0x460000

/* What run_kernel() and run_user() add, without the body; see boot.S */
#define KERNEL_INSNS    (5 + DISABLING_WRMSR)
#define KERNEL_OVERHEAD { KERNEL_INSNS, 2, 0, 1, 1, 2, 1, 1 }
#define USER_OVERHEAD   { 3, 3, 0, 1, 1, 2, 0, 0 }
#define USER_OS_INSNS   (4 + DISABLING_WRMSR)

enum { INSNS, BRANCHES, COND, CALL, RET, TAKEN, LOADS, STORES, EVENTS };

static const uint16_t event_code[EVENTS] = {
    EV_INSNS, EV_BRANCHES, EV_COND, EV_CALL, EV_RET, EV_TAKEN, EV_LOADS,
    EV_STORES,
};

static const char *const event_name[EVENTS] = {
    "instructions", "branches", "conditional branches", "calls", "returns",
    "taken branches", "loads", "stores",
};

typedef struct Expected {
    const char *name;
    void (*body)(void);
    uint64_t arg;
    uint64_t want[EVENTS];
} Expected;

static void check_counts(const Expected *e, int step,
                         const uint64_t overhead[EVENTS])
{
    int i;

    for (i = 0; i < EVENTS; i++) {
        if (e->want[i] != ANY) {
            check(event_name[i], step, rdmsr(MSR_PMC(i)),
                  e->want[i] + overhead[i]);
        }
    }
}

/* Every event at CPL 0, on the 8 counters and on the fixed one */
static void measure_kernel(const Expected *e, int step)
{
    static const uint64_t overhead[EVENTS] = KERNEL_OVERHEAD;
    int i;

    context(e->name);
    for (i = 0; i < EVENTS; i++) {
        program(i, event_code[i] | EVTSEL_OS);
    }
    program_fixed(0, FIXED_OS);
    kernel(e->body, e->arg);
    check_counts(e, step, overhead);
    if (e->want[INSNS] != ANY) {
        check("fixed counter 0", step, rdmsr(MSR_FIXED_CTR(0)),
              e->want[INSNS] + KERNEL_INSNS);
    }
    context("");
}

/* At CPL 3: six events there; the instructions at CPL 0, and at both */
static void measure_user(const Expected *e, int step, uint64_t os_insns)
{
    static const uint64_t overhead[EVENTS] = USER_OVERHEAD;
    Expected six = *e;
    int i;

    context(e->name);
    for (i = 0; i < LOADS; i++) {
        program(i, event_code[i] | EVTSEL_USR);
    }
    program(6, EV_INSNS | EVTSEL_OS);
    program(7, EV_INSNS | EVTSEL_OS | EVTSEL_USR);
    program_fixed(0, FIXED_USR);
    user(e->body, e->arg);
    six.want[LOADS] = six.want[STORES] = ANY;
    check_counts(&six, step, overhead);
    if (e->want[INSNS] != ANY) {
        check("fixed counter 0", step, rdmsr(MSR_FIXED_CTR(0)),
              e->want[INSNS] + 3);
    }
    if (os_insns != ANY) {
        check("instructions at CPL 0", step, rdmsr(MSR_PMC(6)),
              os_insns + USER_OS_INSNS);
    }
    check("instructions at both", step, rdmsr(MSR_PMC(7)),
          rdmsr(MSR_PMC(0)) + rdmsr(MSR_PMC(6)));
    context("");
}

/* ---------------------------------------------------------- Registers */

static void case_cpuid(void)
{
    uint32_t r[4];

    /*
     * Without a counter of slots, that is no architectural event. Fixed
     * counters have a bitmap, and AnyThread is deprecated, from version 5 on.
     */
    get_cpuid(0xa, r);
    check("0AH.EAX", NO_STEP, r[0], VERSION | GP_COUNTERS << 8 |
          COUNTER_WIDTH << 16 | (FIXED_COUNTERS > 3 ? 8 : 7) << 24);
    check("0AH.EBX", NO_STEP, r[1], 0);
    check("0AH.ECX", NO_STEP, r[2],
          VERSION < 5 ? 0 : BIT(FIXED_COUNTERS) - 1);
    check("0AH.EDX", NO_STEP, r[3], (VERSION < 5 ? 0 : 0x8000) |
          COUNTER_WIDTH << 5 | FIXED_COUNTERS);
    get_cpuid(1, r);
    check("PDCM", NO_STEP, r[2] >> 15 & 1, 1);
    check("DTES64", NO_STEP, r[2] >> 2 & 1, 0);
    check("DS", NO_STEP, r[3] >> 21 & 1, 0);
    check("PERF_CAPABILITIES", NO_STEP, rdmsr(MSR_PERF_CAP),
          BIT(13) | (HAVE_METRICS ? BIT(15) : 0));
    get_cpuid(0, r);
    if (r[0] >= 0x23) {
        get_cpuid(0x23, r);
        check("23H", NO_STEP, r[0] | r[1] | r[2] | r[3], 0);
    }
}

static void case_no_pmu(void)
{
    uint32_t r[4];

    get_cpuid(0xa, r);
    check("0AH", NO_STEP, r[0] | r[1] | r[2] | r[3], 0);
    get_cpuid(1, r);
    check("PDCM", NO_STEP, r[2] >> 15 & 1, 0);
}

static void case_no_pmu_intel(void)
{
    uint64_t v;

    case_no_pmu();
    check("RDPMC 0", NO_STEP, rdpmc_safe(0, &v), VEC_UD);
    check("RDPMC 64", NO_STEP, rdpmc_safe(64, &v), VEC_UD);
    check("RDPMC fixed 0", NO_STEP, rdpmc_safe(RDPMC_FIXED, &v), VEC_UD);
}

static void case_no_full_width(void)
{
    uint64_t v;
    int i;

    if (!rdmsr_safe(MSR_PERF_CAP, &v)) {
        check("PERF_CAPABILITIES", NO_STEP, v & BIT(13), 0);
    }
    for (i = 0; i < GP_COUNTERS; i++) {
        check("read of A_PMC", i, rdmsr_safe(MSR_A_PMC(i), &v), VEC_GP);
        check("write of A_PMC", i, wrmsr_safe(MSR_A_PMC(i), 0), VEC_GP);
        check("write of PMC", i, wrmsr_safe(MSR_PMC(i), 1 + i), 0);
        check("PMC", i, rdmsr(MSR_PMC(i)), 1 + i);
    }
}

/* RESET leaves only the GP counters enabled in GLOBAL_CTRL. */
static void case_reset_values(void)
{
    int i;

    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL), GP_MASK);
    check("FIXED_CTR_CTRL", NO_STEP, rdmsr(MSR_FIXED_CTR_CTRL), 0);
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("GLOBAL_INUSE", NO_STEP, rdmsr(MSR_GLOBAL_INUSE), 0);
    check("DEBUGCTL", NO_STEP, rdmsr(MSR_DEBUGCTL), 0);
    for (i = 0; i < GP_COUNTERS; i++) {
        check("EVTSEL", i, rdmsr(MSR_EVTSEL(i)), 0);
        check("PMC", i, rdmsr(MSR_PMC(i)), 0);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        check("FIXED_CTR", i, rdmsr(MSR_FIXED_CTR(i)), 0);
    }
    check("LVTPC", NO_STEP, apic_read(APIC_LVTPC), LVT_MASKED);
}

/* Everything that RESET has to change; nothing counts at CPL 0. */
static void case_dirty(void)
{
    int i;

    pmu_reset();
    for (i = 0; i < GP_COUNTERS; i++) {
        wrmsr(MSR_A_PMC(i), 0x123456780000 + i);
        wrmsr(MSR_EVTSEL(i), EV_INSNS | EVTSEL_USR | EVTSEL_EN | EVTSEL_INT);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        wrmsr(MSR_FIXED_CTR(i), 0x876543210000 + i);
    }
    wrmsr(MSR_FIXED_CTR_CTRL, FIXED_CTRL_ALL_USR);
    wrmsr(MSR_STATUS_SET, COUNTERS_MASK);
    wrmsr(MSR_GLOBAL_CTRL, FIXED_MASK | 0x55);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE_SMM);
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), COUNTERS_MASK);
    check("PMC", 7, rdmsr(MSR_PMC(7)), 0x123456780007);
    check("FIXED_CTR", 2, rdmsr(MSR_FIXED_CTR(2)), 0x876543210002);
}

/* Each bit alone: 0 or #GP, and it reads back if it may be written. */
void check_bits(const char *name, uint32_t msr, uint64_t legal,
                bool reads_as_0)
{
    uint64_t old = rdmsr(msr);
    int bit, got;

    context(name);
    for (bit = 0; bit < 64; bit++) {
        bool ok = legal >> bit & 1;

        got = wrmsr_safe(msr, BIT(bit));
        check("bit", bit, got, ok ? 0 : VEC_GP);
        check("value after bit", bit, rdmsr(msr),
              reads_as_0 || !ok ? old : BIT(bit));
        if (!reads_as_0) {
            wrmsr(msr, old);
        }
    }
    check("all bits", NO_STEP, wrmsr_safe(msr, legal), 0);
    check("value after all", NO_STEP, rdmsr(msr), reads_as_0 ? 0 : legal);
    wrmsr(msr, 0);
    context("");
}

static void case_msr_write(void)
{
    uint64_t fixed_ctrl = 0;
    int i;

    pmu_reset();
    for (i = 0; i < GP_COUNTERS; i++) {
        /* There is no TSX nor adaptive PEBS */
        check_bits("EVTSEL", MSR_EVTSEL(i),
                   HAS_ANY_THREAD ? 0xffffffff : 0xffdfffff, false);
        check_bits("A_PMC", MSR_A_PMC(i), WIDTH_MASK, false);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        check_bits("FIXED_CTR", MSR_FIXED_CTR(i), WIDTH_MASK, false);
        fixed_ctrl |= (FIXED_OS | FIXED_USR | FIXED_PMI |
                       (HAS_ANY_THREAD ? FIXED_ANY : 0)) << 4 * i;
    }
    check_bits("FIXED_CTR_CTRL", MSR_FIXED_CTR_CTRL, fixed_ctrl, false);
    check_bits("GLOBAL_CTRL", MSR_GLOBAL_CTRL, COUNTERS_MASK | METRICS_MASK,
               false);
    check_bits("STATUS_SET", MSR_STATUS_SET, STATUS_MASK & ~STATUS_CHANGED,
               true);
    check_bits("STATUS_RESET", MSR_STATUS_RESET, STATUS_MASK, true);
    check("GLOBAL_STATUS at the end", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);

    /* LBR, BTF, and the two freezes with FREEZE_WHILE_SMM */
    check_bits("DEBUGCTL", MSR_DEBUGCTL,
               BIT(0) | BIT(1) | BIT(11) | BIT(12) | BIT(14), false);
}

static void case_msr_absent(void)
{
    const uint32_t absent[] = {
        MSR_PMC(GP_COUNTERS), MSR_EVTSEL(GP_COUNTERS), MSR_A_PMC(GP_COUNTERS),
        MSR_FIXED_CTR(FIXED_COUNTERS), MSR_FIXED_CTR(FIXED_COUNTERS + 1),
        /* Another absent one if there are metrics */
        HAVE_METRICS ? MSR_PMC(GP_COUNTERS) : MSR_PERF_METRICS,
    };
    uint64_t v;
    int i;

    for (i = 0; i < ARRAY_SIZE(absent); i++) {
        check("read of MSR", absent[i], rdmsr_safe(absent[i], &v), VEC_GP);
        check("write of MSR", absent[i], wrmsr_safe(absent[i], 0), VEC_GP);
    }
}

static void case_msr_read_only(void)
{
    static const uint32_t read_only[] = {
        MSR_GLOBAL_STATUS, MSR_GLOBAL_INUSE, MSR_PERF_CAP,
    };
    int i;

    pmu_reset();
    for (i = 0; i < ARRAY_SIZE(read_only); i++) {
        uint64_t v = rdmsr(read_only[i]);

        check("write to MSR", read_only[i], wrmsr_safe(read_only[i], 1),
              VEC_GP);
        check("write of its value to MSR", read_only[i],
              wrmsr_safe(read_only[i], v), VEC_GP);
        check("value of MSR", read_only[i], rdmsr(read_only[i]), v);
    }
}

/* Writes to PMC have 32 bits, with sign; the others have 48. */
static void case_counter_width(void)
{
    static const uint64_t values[][2] = {
        { 0, 0 },
        { 1, 1 },
        { 0x7fffffff, 0x7fffffff },
        { 0x80000000, 0xffff80000000 },
        { 0xffffffff, 0xffffffffffff },
        { 0xffffffff12345678, 0x12345678 },
        { 0x00000001ffff0000, 0xffffffff0000 },
        { 0xffffffffffffffff, 0xffffffffffff },
        { 0x0123456789abcdef, 0xffff89abcdef },
    };
    uint64_t v;
    int i, n;

    pmu_reset();
    for (n = 0; n < GP_COUNTERS; n++) {
        for (i = 0; i < ARRAY_SIZE(values); i++) {
            check("write of PMC", n, wrmsr_safe(MSR_PMC(n), values[i][0]), 0);
            check("PMC", n, rdmsr(MSR_PMC(n)), values[i][1] & WIDTH_MASK);
            check("A_PMC", n, rdmsr(MSR_A_PMC(n)), values[i][1] & WIDTH_MASK);
            check("RDPMC", n, rdpmc(n), values[i][1] & WIDTH_MASK);
        }
        check("write of A_PMC", n,
              wrmsr_safe(MSR_A_PMC(n), 0xffffff0123456789), VEC_GP);
        check("A_PMC after #GP", n, rdmsr(MSR_A_PMC(n)),
              values[i - 1][1] & WIDTH_MASK);
        v = 0x89abcdef0123 & WIDTH_MASK;
        check("write of A_PMC", n, wrmsr_safe(MSR_A_PMC(n), v), 0);
        check("PMC after A_PMC", n, rdmsr(MSR_PMC(n)), v);
        check("RDPMC after A_PMC", n, rdpmc(n), v);
    }
    for (n = 0; n < FIXED_COUNTERS; n++) {
        v = (0xfedcba987654 + n) & WIDTH_MASK;
        check("write of FIXED_CTR", n, wrmsr_safe(MSR_FIXED_CTR(n), v), 0);
        check("FIXED_CTR", n, rdmsr(MSR_FIXED_CTR(n)), v);
        check("RDPMC of FIXED_CTR", n, rdpmc(RDPMC_FIXED + n), v);
        check("write of FIXED_CTR", n, wrmsr_safe(MSR_FIXED_CTR(n),
              WIDTH_MASK + 1), VEC_GP);
        check("FIXED_CTR after #GP", n, rdmsr(MSR_FIXED_CTR(n)), v);
    }
}

static void case_global_status(void)
{
    int i;

    pmu_reset();
    for (i = 0; i < 64; i++) {
        if (STATUS_MASK & ~STATUS_CHANGED & BIT(i)) {
            wrmsr(MSR_STATUS_SET, BIT(i));
            check("set", i, rdmsr(MSR_GLOBAL_STATUS), BIT(i));
            check("SET reads", i, rdmsr(MSR_STATUS_SET), 0);
            check("RESET reads", i, rdmsr(MSR_STATUS_RESET), 0);
            wrmsr(MSR_STATUS_RESET, STATUS_MASK & ~BIT(i));
            check("not reset", i, rdmsr(MSR_GLOBAL_STATUS), BIT(i));
            wrmsr(MSR_STATUS_RESET, BIT(i));
            check("reset", i, rdmsr(MSR_GLOBAL_STATUS), 0);
        }
    }
    wrmsr(MSR_STATUS_SET, COUNTERS_MASK);
    wrmsr(MSR_STATUS_SET, 1);
    check("SET does not clear", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          COUNTERS_MASK);
    check("illegal bit in RESET", NO_STEP,
          wrmsr_safe(MSR_STATUS_RESET, COUNTERS_MASK | BIT(20)), VEC_GP);
    check("nothing reset", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), COUNTERS_MASK);
    wrmsr(MSR_STATUS_RESET, COUNTERS_MASK);
    check("all reset", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check("no PMI", NO_STEP, apic_irr(VEC_PMI), false);
}

/*
 * A WRMSR that resets overflows resets those before it, not its own: it counts
 * when it retires. Counting ends with the second WRMSR, which counts, too.
 */
static void case_global_reset(void)
{
    unsigned k, kept = 0;

    for (k = 1; k <= 100; k++) {
        uint32_t eax = 1, ecx = MSR_STATUS_RESET;

        pmu_reset();
        wrmsr(MSR_EVTSEL(0), EV_INSNS | EVTSEL_OS | EVTSEL_EN);
        wrmsr(MSR_A_PMC(0), negative(k));
        wrmsr(MSR_GLOBAL_CTRL, 1);
        asm volatile("wrmsr; nop; nop; xor %%eax, %%eax; mov %2, %%ecx; wrmsr"
                     : "+a" (eax), "+c" (ecx)
                     : "i" (MSR_GLOBAL_CTRL), "d" (0) : "memory");
        kept += rdmsr(MSR_GLOBAL_STATUS);
    }
    check("kept", NO_STEP, kept, 6);
}

static void case_global_inuse(void)
{
    int i;

    pmu_reset();
    check("nothing", NO_STEP, rdmsr(MSR_GLOBAL_INUSE), 0);
    for (i = 0; i < GP_COUNTERS; i++) {
        wrmsr(MSR_EVTSEL(i), EV_INSNS);
        check("EVTSEL", i, rdmsr(MSR_GLOBAL_INUSE), BIT(i));
        wrmsr(MSR_EVTSEL(i), EV_INSNS | EVTSEL_INT);
        check("EVTSEL with INT", i, rdmsr(MSR_GLOBAL_INUSE),
              BIT(i) | BIT(63));
        wrmsr(MSR_EVTSEL(i), EVTSEL_EN);
        check("EVTSEL without event", i, rdmsr(MSR_GLOBAL_INUSE), 0);
        wrmsr(MSR_EVTSEL(i), 0);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        wrmsr(MSR_FIXED_CTR_CTRL, FIXED_OS << 4 * i);
        check("OS", i, rdmsr(MSR_GLOBAL_INUSE), FIXED_BIT(i));
        wrmsr(MSR_FIXED_CTR_CTRL, FIXED_USR << 4 * i);
        check("USR", i, rdmsr(MSR_GLOBAL_INUSE), FIXED_BIT(i));
        wrmsr(MSR_FIXED_CTR_CTRL, (FIXED_USR | FIXED_PMI) << 4 * i);
        check("USR with PMI", i, rdmsr(MSR_GLOBAL_INUSE),
              FIXED_BIT(i) | BIT(63));
    }
}

/* Perfmon is available, BTS and PEBS are not: read-only; bit 0 is not. */
static void case_misc_enable(void)
{
    uint64_t ro = BIT(7) | BIT(11) | BIT(12);
    uint64_t v = rdmsr(MSR_MISC_ENABLE);

    check("MISC_ENABLE", NO_STEP, v & ro, ro);
    check("write", NO_STEP, wrmsr_safe(MSR_MISC_ENABLE, (v & ~ro) ^ BIT(0)), 0);
    check("MISC_ENABLE afterwards", NO_STEP, rdmsr(MSR_MISC_ENABLE),
          v ^ BIT(0));
    check("write back", NO_STEP, wrmsr_safe(MSR_MISC_ENABLE, v), 0);
    check("MISC_ENABLE at last", NO_STEP, rdmsr(MSR_MISC_ENABLE), v);
}

/* --------------------------------------------------------------- RDPMC */

static void case_rdpmc_index(void)
{
    const uint32_t bad[] = {
        GP_COUNTERS, GP_COUNTERS + 1, 64, 0x100, 0xffff,
        0x10000, 0x10000000, 0x30000000, 0x50000000,
        RDPMC_FIXED + FIXED_COUNTERS, RDPMC_FIXED + 0xffff,
        RDPMC_FIXED + 0x10000,
        HAVE_METRICS ? RDPMC_METRICS + 1 : RDPMC_METRICS,
        RDPMC_METRICS + 1,
        /* The fast form of old CPUs */
        0x80000000, 0x80000001, 0xc0000000, 0xa0000000, 0xffffffff,
    };
    uint64_t v;
    int i;

    pmu_reset();
    for (i = 0; i < GP_COUNTERS; i++) {
        wrmsr(MSR_A_PMC(i), 0xa0000000 + i);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        wrmsr(MSR_FIXED_CTR(i), 0xb0000000 + i);
    }
    for (i = 0; i < GP_COUNTERS; i++) {
        check("RDPMC", i, rdpmc_safe(i, &v), 0);
        check("counter", i, v, 0xa0000000 + i);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        check("RDPMC of fixed", i, rdpmc_safe(RDPMC_FIXED + i, &v), 0);
        check("fixed counter", i, v, 0xb0000000 + i);
    }
    for (i = 0; i < ARRAY_SIZE(bad); i++) {
        context("bad index");
        check("RDPMC", bad[i] & 0x7fffffff, rdpmc_safe(bad[i], &v), VEC_GP);
    }
}

static void case_rdpmc_privilege(void)
{
    Cpu *cpu = this_cpu();
    uint64_t cr4 = read_cr4();

    pmu_reset();
    wrmsr(MSR_FIXED_CTR(0), 0x56789abc);
    wrmsr(MSR_A_PMC(0), 0x87654321);
    pmu_enable = 0;
    cpu->hook = skip_rdpmc;

    write_cr4(cr4 & ~CR4_PCE);
    user(body_rdpmc_fixed_0, 0);
    check("#GP of fixed without PCE", NO_STEP, cpu->events, 1);
    user(body_rdpmc_gp_0, 0);
    check("#GP without PCE", NO_STEP, cpu->events, 2);
    kernel(body_rdpmc_fixed_0, 0);
    check("fixed at CPL 0 without PCE", NO_STEP, payload_result[0] & ~0u,
          0x56789abc);
    kernel(body_rdpmc_gp_0, 0);
    check("CPL 0 without PCE", NO_STEP, payload_result[0] & ~0u, 0x87654321);

    write_cr4(cr4 | CR4_PCE);
    payload_result[0] = 0;
    user(body_rdpmc_fixed_0, 0);
    check("fixed with PCE", NO_STEP, payload_result[0] & ~0u, 0x56789abc);
    payload_result[0] = 0;
    user(body_rdpmc_gp_0, 0);
    check("with PCE", NO_STEP, payload_result[0] & ~0u, 0x87654321);
    check("no further #GP", NO_STEP, cpu->events, 2);
    write_cr4(cr4);
    cpu->hook = NULL;
}

static void ap_write_fixed_0(void)
{
    pmu_reset();
    wrmsr(MSR_FIXED_CTR(0), 0x56789abc);
}

static void case_rdpmc_real_mode(void)
{
    start_ap();
    call_ap(ap_write_fixed_0);
    call_ap_wait();

    /* INIT keeps the counter. */
    REAL_MODE_INDEX = RDPMC_FIXED;
    REAL_MODE_RDPMC = 1;
    start_ap();
    check("no #GP", NO_STEP, REAL_MODE_RDPMC, 2);
    check("counter", NO_STEP, REAL_MODE_RESULT, 0x56789abc);
    REAL_MODE_INDEX = RDPMC_FIXED + FIXED_COUNTERS;
    REAL_MODE_RDPMC = 1;
    start_ap();
    check("#GP", NO_STEP, REAL_MODE_RDPMC, 3);
    REAL_MODE_RDPMC = 0;
}

/* It sees every older instruction, and not itself; so does RDMSR. */
static void case_rdpmc_order(void)
{
    int i;

    for (i = 0; i < 2; i++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(0, EV_INSNS | EVTSEL_OS);
        program_fixed(0, FIXED_OS);
        kernel(i ? body_read_rdmsr : body_read_rdpmc, 0);
        /* The CALL of run_kernel(), 5 NOPs, and a MOV are older. */
        check("first", i, payload_result[0], 7);
        check("second", i, payload_result[1], 10);
        check("fixed counter 0", i, rdmsr(MSR_FIXED_CTR(0)),
              13 + KERNEL_INSNS - 1);
    }
}

/* -------------------------------------------------------------- Counts */

/* What both privilege levels may do */
static const Expected plain_code[] = {
    { "straight", body_straight, 0, { 23, 0, 0, 0, 0, 0, 0, 0 } },
    { "long block", body_long_block, 0, { 3000, 0, 0, 0, 0, 0, 0, 0 } },
    { "loop", body_loop_jnz, 0,
      { 3001, 1000, 1000, 0, 0, 999, 0, 0 } },
    { "calls", body_calls, 0, { 501, 300, 100, 100, 100, 299, 100, 100 } },
    { "memory", body_memory, 0, { 13, 0, 0, 0, 0, 0, 8, 6 } },
    { "LOOP and JRCXZ", body_loop_insn, 0,
      { 1005, 502, ANY, 0, 0, 500, 0, 0 } },
    { "jumps", body_jumps, 0, { 13, 8, 7, 0, 0, 5, 0, 0 } },
    { "indirect", body_indirect, 0, { 7, 4, 0, 1, 1, 4, 1, 1 } },
    { "page crossing", body_page_crossing, 0, { 3, 1, 0, 0, 0, 1, 0, 0 } },
};

static const Expected kernel_code[] = {
    { "various", body_various, 0, { 16, 0, 0, 0, 0, 0, ANY, ANY } },
    { "ends of blocks", body_ends_block, 0,
      { 10, 0, 0, 0, 0, 0, ANY, ANY } },
    { "other MSR", body_other_msr, 0, { 6, 0, 0, 0, 0, 0, 0, 0 } },
};

static void case_count_kernel(void)
{
    int i, step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    /* Once more, now that it is translated */
    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(plain_code); i++) {
            measure_kernel(&plain_code[i], step);
        }
        for (i = 0; i < ARRAY_SIZE(kernel_code); i++) {
            measure_kernel(&kernel_code[i], step);
        }
    }
}

static void case_count_user(void)
{
    int i, step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(plain_code); i++) {
            measure_user(&plain_code[i], step, 0);
        }
    }
}

/*
 * After many instructions that are not counted, so that QEMU may have gone
 * back to translating without counts; and again right after that
 */
static void case_count_idle(void)
{
    static const Expected e[] = {
        { "first", body_calls, 0,
          { 501, 300, 100, 100, 100, 299, 100, 100 } },
        { "second", body_loop_jnz, 0, { 3001, 1000, 1000, 0, 0, 999, 0, 0 } },
    };
    int i, step;

    pmu_reset();
    for (step = 0; step < 10; step++) {
        pmu_enable = 0;
        for (i = 0; i < (step & 1 ? 1000 : 5); i++) {
            kernel(body_loop_jnz, 0);
            kernel(body_calls, 0);
        }
        pmu_enable = COUNTERS_MASK;
        measure_kernel(&e[step & 1], step);
        measure_user(&e[step & 1], step, 0);
        measure_kernel(&e[~step & 1], step);
    }
}

/* Each condition for counting, as in the description of PERFEVTSEL */
static void case_count_filter(void)
{
    const uint64_t n = 3001;
    static const struct {
        const char *name;
        uint64_t evtsel, fixed;
        bool global, kernel, user;
    } t[] = {
        { "OS", EVTSEL_OS | EVTSEL_EN, FIXED_OS, true, true, false },
        { "USR", EVTSEL_USR | EVTSEL_EN, FIXED_USR, true, false, true },
        { "both", EVTSEL_OS | EVTSEL_USR | EVTSEL_EN, FIXED_OS | FIXED_USR,
          true, true, true },
        { "none", EVTSEL_EN, 0, true, false, false },
        { "no EN", EVTSEL_OS | EVTSEL_USR, 0, true, false, false },
        { "not in GLOBAL_CTRL", EVTSEL_OS | EVTSEL_USR | EVTSEL_EN,
          FIXED_OS | FIXED_USR, false, false, false },
    };
    int i, j;

    for (i = 0; i < ARRAY_SIZE(t); i++) {
        uint64_t os, usr;

        pmu_reset();
        context(t[i].name);
        for (j = 0; j < GP_COUNTERS; j++) {
            wrmsr(MSR_EVTSEL(j), EV_INSNS | t[i].evtsel);
        }
        wrmsr(MSR_FIXED_CTR_CTRL, t[i].fixed);
        pmu_enable = t[i].global ? COUNTERS_MASK : 0;

        kernel(body_loop_jnz, 0);
        os = t[i].kernel ? n + KERNEL_INSNS : 0;
        for (j = 0; j < GP_COUNTERS; j++) {
            check("CPL 0, counter", j, rdmsr(MSR_PMC(j)), os);
        }
        check("CPL 0, fixed counter", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), os);

        user(body_loop_jnz, 0);
        os += t[i].kernel ? USER_OS_INSNS : 0;
        usr = t[i].user ? n + 3 : 0;
        for (j = 0; j < GP_COUNTERS; j++) {
            check("CPL 3, counter", j, rdmsr(MSR_PMC(j)), os + usr);
        }
        check("CPL 3, fixed counter", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
              os + usr);
    }

    /* Only the counters whose bit in GLOBAL_CTRL is set */
    context("one in GLOBAL_CTRL");
    for (i = 0; i < GP_COUNTERS; i++) {
        pmu_reset();
        for (j = 0; j < GP_COUNTERS; j++) {
            program(j, EV_INSNS | EVTSEL_OS);
        }
        program_fixed(0, FIXED_OS);
        pmu_enable = BIT(i);
        kernel(body_loop_jnz, 0);
        for (j = 0; j < GP_COUNTERS; j++) {
            check("counter", j, rdmsr(MSR_PMC(j)),
                  i == j ? n + KERNEL_INSNS : 0);
        }
        check("fixed counter", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), 0);
    }
}

/* A string instruction retires once. */
static void case_count_rep(void)
{
    static const struct {
        const char *name;
        void (*body)(void);
        uint64_t insns, limit;
    } t[] = {
        { "REP MOVSB", body_rep_movsb, 5, 200000 },
        { "REP MOVSQ", body_rep_movsq, 5, 4096 },
        { "REP STOSB", body_rep_stosb, 5, 200000 },
        { "REP LODSW", body_rep_lodsw, 5, 70000 },
        { "REPE SCASB", body_rep_scasb, 5, 70000 },
        { "REPE CMPSB", body_rep_cmpsb, 5, 70000 },
        { "REP MOVSB down", body_rep_movsb_back, 6, 70000 },
    };
    static const uint64_t counts[] = { 0, 1, 2, 4096, 70000, 200000 };
    int i, j;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        for (j = 0; j < ARRAY_SIZE(counts); j++) {
            Expected e = { t[i].name, t[i].body, counts[j],
                           { t[i].insns, 0, 0, 0, 0, 0, ANY, ANY } };

            if (counts[j] <= t[i].limit) {
                measure_kernel(&e, counts[j]);
                measure_user(&e, counts[j], 0);
            }
        }
    }
}

/* Maps what is not present */
static bool hook_map(Frame *f)
{
    uint64_t cr2;

    if (f->vector != VEC_PF) {
        return false;
    }
    asm volatile("mov %%cr2, %0" : "=r" (cr2));
    if (is_present(cr2)) {
        return false;
    }
    this_cpu()->events++;
    set_present(cr2, true);
    return true;
}

static void case_count_rep_fault(void)
{
    static const uint64_t pages[] = {
        REP_SOURCE, REP_SOURCE + 0x1000, REP_TARGET + 0x1000,
        REP_TARGET + 0x3000, REP_TARGET + 0x4000,
    };
    static const Expected e = {
        "REP MOVSB", body_rep_movsb, 0x5000,
        { 5, 0, 0, 0, 0, 0, ANY, ANY }
    };
    Cpu *cpu = this_cpu();
    int i, step;

    for (step = 0; step < 3; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        for (i = 0; i < ARRAY_SIZE(pages); i++) {
            set_present(pages[i], false);
        }
        cpu->hook = hook_map;
        measure_user(&e, step, ANY);
        check("page faults", step, cpu->events, ARRAY_SIZE(pages));
    }
    cpu->hook = NULL;
}

static bool hook_division(Frame *f)
{
    if (f->vector != VEC_DE) {
        return false;
    }
    f->rip = (uintptr_t)payload_loop_div_end;
    return true;
}

/*
 * A fault at any distance from where the accelerator looks at the deadlines, at
 * the latest after 2^17 units: a turn has some 130, and the division 200. It
 * may use more than are left. No counter interrupts.
 */
static void case_count_late_fault(void)
{
    unsigned turns;

    for (turns = 920; turns < 1020; turns++) {
        uint64_t insns = 1 + 32ull * turns + 1;

        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(0, EV_INSNS | EVTSEL_USR);
        program_fixed(1, FIXED_USR);
        this_cpu()->hook = hook_division;
        user(body_loop_div, turns);
        this_cpu()->hook = NULL;
        check_range("instructions", turns, rdmsr(MSR_PMC(0)), insns, insns + 3);
        check_range("cycles", turns, rdmsr(MSR_FIXED_CTR(1)), insns / 8,
                    insns);
    }
}

static void case_count_page_fault(void)
{
    static const Expected
        retry = { "load", body_load_fault, PAGE(1),
                  { 5, 0, 0, 0, 0, 0, 2, 0 } },
        skip = { "skipped load", body_load_fault, PAGE(1),
                 { 3, 0, 0, 0, 0, 0, 0, 0 } },
        store = { "store", body_store_fault, PAGE(1),
                  { 5, 0, 0, 0, 0, 0, 2, 2 } },
        /* The eight instructions of fault_return() come on top */
        at_cpl_0 = { "load at CPL 0", body_load_fault, PAGE(1),
                     { 5 + 8, 1, 0, 0, 0, 0, ANY, ANY } };
    Cpu *cpu = this_cpu();
    int step;

    for (step = 0; step < 3; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        set_present(PAGE(1), false);
        cpu->hook = hook_map;
        measure_user(&retry, step, ANY);
        check("page faults of the load", step, cpu->events, 1);

        set_present(PAGE(1), false);
        cpu->events = 0;
        cpu->hook = skip_page_fault;
        measure_user(&skip, step, ANY);
        check("skipped page faults", step, cpu->events, 2);

        set_present(PAGE(2), false);
        cpu->events = 0;
        cpu->hook = hook_map;
        measure_user(&store, step, ANY);
        check("page faults of the stores", step, cpu->events, 2);

        set_present(PAGE(1), false);
        cpu->hook = NULL;
        payload_result[2] = PAGE(1);
        payload_result[3] = GUEST_PAGE_TABLES + 0x6000 + 8;
        set_gate(VEC_PF, fault_return, 0);
        measure_kernel(&at_cpl_0, step);
        set_trap_gate(VEC_PF);
        check("mapped", step, is_present(PAGE(1)), true);
    }
}

static bool hook_skip_fault(Frame *f)
{
    switch (f->vector) {
    case VEC_BP:
        break;
    case VEC_DE:
    case VEC_UD:
    case VEC_GP:
    case VEC_PF:
        f->rip = f->r9;
        break;
    default:
        return false;
    }
    this_cpu()->events++;
    return true;
}

/* What faults does not retire; INT3 does. */
static void case_count_faults(void)
{
    static const struct {
        const char *name;
        void (*body)(void);
    } faults[] = {
#define X(name) { #name, body_fault_##name },
        FAULT_PAYLOADS(X)
#undef X
    };
    static const Expected breakpoint = {
        "INT3", body_breakpoint, 0, { 3, ANY, 0, 0, 0, 0, ANY, ANY }
    };
    Cpu *cpu = this_cpu();
    int i, step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    cpu->hook = hook_skip_fault;
    set_present(GUEST_SMALL_PAGES, false);
    for (step = 0; step < 2; step++) {
        for (i = 0; i < ARRAY_SIZE(faults); i++) {
            Expected e = { faults[i].name, faults[i].body, 0,
                           { 41, 10, 10, 0, 0, 9, ANY, ANY } };

            cpu->events = 0;
            measure_user(&e, step, ANY);
            context(faults[i].name);
            check("exceptions", step, cpu->events, 10);
        }
        cpu->events = 0;
        measure_user(&breakpoint, step, ANY);
        check("breakpoints", step, cpu->events, 1);
    }
    set_present(GUEST_SMALL_PAGES, true);
    cpu->hook = NULL;
}

/* SYSCALL retires at CPL 3, SYSRET at CPL 0. Both are far branches. */
static void case_count_syscall(void)
{
    static const Expected e = {
        "SYSCALL", body_syscalls, 0, { 151, 100, 50, 0, 0, 49, ANY, ANY }
    };

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    measure_user(&e, NO_STEP, 50);
}

/*
 * An interrupt is due after instructions of both privilege levels. As far from
 * it as here, the level at which it was programmed has all units until then.
 */
static void case_count_both_rings(void)
{
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(0, EV_INSNS | EVTSEL_OS | EVTSEL_USR | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(1000));
    user(body_syscalls, 0);
    check("counter", NO_STEP, rdmsr(MSR_A_PMC(0)),
          negative(1000 - (151 + 3) - (50 + USER_OS_INSNS)));
}

/* INT n is an instruction; so is IRET. Neither is a near branch. */
static void case_count_int(void)
{
    static const Expected
        kernel = { "INT at CPL 0", body_software_int, 0,
                   { 9, 6, 0, 0, 0, 0, ANY, ANY } },
        user = { "INT at CPL 3", body_user_int, 0,
                 { 151, 100, 50, 0, 0, 49, ANY, ANY } };

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    measure_kernel(&kernel, NO_STEP);
    measure_user(&user, NO_STEP, 50);
}

/* Device accesses in the middle of a block */
static void case_count_mmio(void)
{
    static const Expected t[] = {
        { "MMIO load", body_mmio_load, 0, { 9, 0, 0, 0, 0, 0, 3, 0 } },
        { "MMIO store", body_mmio_store, 0, { 6, 0, 0, 0, 0, 0, 0, 2 } },
    };
    int i, step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (step = 0; step < 3; step++) {
        for (i = 0; i < ARRAY_SIZE(t); i++) {
            measure_kernel(&t[i], step);
            measure_user(&t[i], step, 0);
        }
    }
}

static void case_count_smc(void)
{
    Expected
        once = { "next instruction", body_smc_once, 0,
                 { 4, 0, 0, 0, 0, 0, 0, 2 } },
        loop = { "loop", body_smc_loop, 0,
                 { 503, 100, 100, 0, 0, 99, 0, 101 } },
        other = { "other block", body_smc_other, 0,
                  { 803, 300, 100, 100, 100, 299, 100, 201 } };
    int step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (step = 0; step < 4; step++) {
        once.arg = 0x12345678 + step;
        measure_kernel(&once, step);
        check("changed instruction", step, payload_result[0], once.arg);
        measure_user(&once, step, 0);
        measure_kernel(&loop, step);
        check("sum of the loop", step, payload_result[0], 5050);
        measure_kernel(&other, step);
        check("sum of the other block", step, payload_result[0], 5050);
    }
}

static bool hook_debug(Frame *f)
{
    if (f->vector != VEC_DB) {
        return false;
    }
    this_cpu()->events++;
    return true;
}

/* The handler at CPL 0 has two instructions, of which one is a branch. */
static void case_count_single_step(void)
{
    static const Expected
        kernel = { "TF at CPL 0", body_single_step, 0,
                   { 16 + 2 * 13, 13, 0, 0, 0, 0, ANY, ANY } },
        user = { "TF at CPL 3", body_single_step, 0,
                 { 16, 0, 0, 0, 0, 0, ANY, ANY } };
    Cpu *cpu = this_cpu();
    int step;

    for (step = 0; step < 2; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        payload_debugs = 0;
        set_gate(VEC_DB, debug_return, 0);
        measure_kernel(&kernel, step);
        set_trap_gate(VEC_DB);
        check("traps at CPL 0", step, payload_debugs, 13);
        cpu->hook = hook_debug;
        measure_user(&user, step, ANY);
        check("traps at CPL 3", step, cpu->events, 13);
        cpu->hook = NULL;
    }
}

static void case_count_watchpoint(void)
{
    static const Expected e = {
        "watchpoint", body_watchpoint, 0,
        { 6 + 2 * 2, 2, 0, 0, 0, 0, ANY, ANY }
    };
    int step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    set_gate(VEC_DB, debug_return, 0);
    asm volatile("mov %0, %%dr0" : : "r" ((uint64_t)&payload_watched));
    /* Writes of 4 bytes */
    asm volatile("mov %0, %%dr7" : : "r" (0xd0001ull));
    for (step = 0; step < 3; step++) {
        payload_debugs = 0;
        measure_kernel(&e, step);
        check("traps", step, payload_debugs, 2);
    }
    asm volatile("mov %0, %%dr7" : : "r" (0ull));
    set_trap_gate(VEC_DB);
}

/* HLT retires once. The handler has three instructions. */
static void case_count_halt(void)
{
    static const Expected e = {
        "HLT", body_halt, 0, { 5 + 3, 1, 0, 0, 0, 0, ANY, ANY }
    };
    int step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    set_gate(VEC_TIMER, timer_return, 0);
    apic_timer(0, false);
    apic_write(APIC_LVTT, VEC_TIMER);
    for (step = 0; step < 5; step++) {
        payload_irqs = 0;
        measure_kernel(&e, step);
        check("interrupts", step, payload_irqs, 1);
    }
    apic_timer(0, false);
    set_trap_gate(VEC_TIMER);
}

/* An interrupt is not an instruction; its handler counts at CPL 0 only. */
static void case_count_interrupt(void)
{
    Expected e = {
        "timer", body_until_irqs, 5, { ANY, ANY, ANY, 0, 0, ANY, ANY, ANY }
    };
    uint64_t turns;
    unsigned irqs;
    int i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    set_gate(VEC_TIMER, timer_return, 0);
    run_user_flags = 2 | RFLAGS_IF;
    payload_irqs = 0;
    apic_timer(200000, true);
    measure_user(&e, NO_STEP, ANY);
    irqs = payload_irqs;
    apic_timer(0, false);
    interrupts();
    run_user_flags = 2;
    set_trap_gate(VEC_TIMER);

    turns = payload_result[0];
    check_range("interrupts", NO_STEP, irqs, 5, 1000000);
    check("instructions", NO_STEP, rdmsr(MSR_PMC(INSNS)), 2 + 3 * turns + 3);
    check("branches", NO_STEP, rdmsr(MSR_PMC(BRANCHES)), turns + 3);
    check("taken", NO_STEP, rdmsr(MSR_PMC(TAKEN)), turns - 1 + 2);
    for (i = 6; i <= 7; i++) {
        check("instructions at CPL 0", i, rdmsr(MSR_PMC(i)),
              3 * irqs + USER_OS_INSNS +
              (i == 7 ? rdmsr(MSR_PMC(INSNS)) : 0));
    }
}

/* EVTSEL and FIXED_CTR_CTRL while the others go on counting */
#define FRACTION_TURNS      50

/* Goes on with a counter from a saved value; returns the new one. */
static uint64_t count_piece(unsigned counter, uint64_t saved,
                            void (*body)(void))
{
    program(counter, EV_CYCLES | EVTSEL_OS);
    wrmsr(MSR_A_PMC(counter), saved);
    kernel(body, 0);
    wrmsr(MSR_EVTSEL(counter), 0);
    return rdmsr(MSR_A_PMC(counter));
}

/*
 * Two programs take turns on a counter of cycles, which the kernel saves and
 * restores, also into another counter. Each counts what it counts alone, and
 * together they count what a counter does that nobody touches.
 */
static void case_count_fraction(void)
{
    uint64_t one = 0x1000, two = 0x200000, both, alone;
    unsigned i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(4, EV_CYCLES | EVTSEL_OS);
    for (i = 0; i < FRACTION_TURNS; i++) {
        one = count_piece(i % 3, one, body_straight);
        two = count_piece(i % 2, two, body_calls);
    }
    /* Their fractions can add up to one more. */
    both = rdmsr(MSR_A_PMC(4));
    check_range("both programs", NO_STEP, one - 0x1000 + two - 0x200000,
                both - 1, both);
    if (IS_PRECISE) {
        /* Another run costs something else. */
        return;
    }
    program(3, EV_CYCLES | EVTSEL_OS);
    wrmsr(MSR_A_PMC(3), 0);
    for (i = 0; i < FRACTION_TURNS; i++) {
        kernel(body_straight, 0);
    }
    alone = rdmsr(MSR_A_PMC(3));
    check("first program", NO_STEP, one - 0x1000, alone);
    wrmsr(MSR_A_PMC(3), 0);
    for (i = 0; i < FRACTION_TURNS; i++) {
        kernel(body_calls, 0);
    }
    alone = rdmsr(MSR_A_PMC(3));
    check("second program", NO_STEP, two - 0x200000, alone);

    /* A value that was not saved has no fraction. */
    check("anew", NO_STEP, count_piece(0, 0x5000, body_straight) - 0x5000,
          count_piece(0, 0x7000, body_straight) - 0x7000);
}

static void case_count_switch(void)
{
    const uint64_t all = 20 + KERNEL_INSNS, part = 10 + DISABLING_WRMSR;
    uint64_t got;
    int step;

    for (step = 0; step < 3; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(1, EV_INSNS | EVTSEL_OS);
        program_fixed(0, FIXED_OS);
        kernel(body_switch_gp, 0);
        check("counter 0", step, rdmsr(MSR_PMC(0)), part);
        check("counter 1", step, rdmsr(MSR_PMC(1)), all);
        check("fixed counter 0", step, rdmsr(MSR_FIXED_CTR(0)), all);

        wrmsr(MSR_FIXED_CTR_CTRL, 0);
        wrmsr(MSR_FIXED_CTR(0), 0);
        program(1, EV_INSNS | EVTSEL_OS);
        kernel(body_switch_fixed, 0);
        check("fixed counter 0 alone", step, rdmsr(MSR_FIXED_CTR(0)), part);
        check("counter 1 beside it", step, rdmsr(MSR_PMC(1)), all);
        check("counter 0 is off", step, rdmsr(MSR_PMC(0)), part);

        /* Whether the WRMSR that writes a counter counts is not defined. */
        program(1, EV_INSNS | EVTSEL_OS);
        program_fixed(0, FIXED_OS);
        kernel(body_switch_write, 0x10000);
        got = 0x10000 + 1 + 3 * 33333 + KERNEL_INSNS - 1;
        check_range("written counter", step, rdmsr(MSR_FIXED_CTR(0)), got,
                    got + 1);
        check("counter 1 as before", step, rdmsr(MSR_PMC(1)),
              4 + 1 + 3 * 33333 + KERNEL_INSNS);
    }
}

/* Software tries events that the CPU may not have. */
static void case_count_unknown(void)
{
    static const uint16_t codes[] = {
        0x0000, 0x00ff, 0xffff, 0x77aa, 0x02c0, 0xff3c, 0x01d7, 0x00aa,
    };
    int i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (i = 0; i < GP_COUNTERS; i++) {
        program(i, codes[i] | EVTSEL_OS | EVTSEL_USR);
    }
    kernel(body_loop_jnz, 0);
    user(body_calls, 0);
    for (i = 0; i < GP_COUNTERS; i++) {
        check("event", codes[i], rdmsr(MSR_PMC(i)), 0);
    }
}

static void case_count_cycles(void)
{
    const uint64_t n = 99999 + KERNEL_INSNS;
    uint64_t cycles;
    int i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(0, EV_CYCLES | EVTSEL_OS);
    program(1, EV_REF_CYCLES | EVTSEL_OS);
    program(2, EV_LLC_REFS | EVTSEL_OS);
    program(3, EV_LLC_MISSES | EVTSEL_OS);
    program(4, EV_BRANCH_MISSES | EVTSEL_OS);
    program(5, EV_CYCLES | EVTSEL_USR);
    for (i = 0; i < 3; i++) {
        program_fixed(i, FIXED_OS);
    }
    for (i = 0; i < 33; i++) {
        kernel(body_loop_jnz, 0);
    }
    cycles = rdmsr(MSR_FIXED_CTR(1));
    /* At most 8 instructions in a cycle, and at least one in 50 */
    check_range("cycles", NO_STEP, cycles, n / 8, 50 * n);
    check("event 003C and fixed counter 1", NO_STEP, rdmsr(MSR_PMC(0)),
          cycles);
    check("cycles at CPL 3", NO_STEP, rdmsr(MSR_PMC(5)), 0);
    check_range("reference cycles", NO_STEP, rdmsr(MSR_PMC(1)), n / 100,
                100 * n);
    check_range("fixed counter 2", NO_STEP, rdmsr(MSR_FIXED_CTR(2)), n / 100,
                100 * n);
    check_range("LLC misses", NO_STEP, rdmsr(MSR_PMC(3)), 0,
                rdmsr(MSR_PMC(2)));
    /* Of 33 loops with 1000 turns, each has at least the end for itself. */
    check_range("branch misses", NO_STEP, rdmsr(MSR_PMC(4)), 33, 33000);
}

/*
 * There are no single cycles: two instructions come in a cycle as long as there
 * are any, then none; and runs of such cycles are one cycle long, with one
 * between them. "Filters" of our docs.
 */
static void case_count_cmask(void)
{
    uint64_t n = 3001 + KERNEL_INSNS, cycles, packed;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(0, EV_INSNS | EVTSEL_OS);
    program(1, EV_INSNS | EVTSEL_OS | EVTSEL_CMASK(2));
    program(2, EV_INSNS | EVTSEL_OS | EVTSEL_CMASK(2) | EVTSEL_INV);
    program(3, EV_INSNS | EVTSEL_OS | EVTSEL_CMASK(1) | EVTSEL_EDGE);
    program_fixed(1, FIXED_OS);
    kernel(body_loop_jnz, 0);
    cycles = rdmsr(MSR_FIXED_CTR(1));
    check("instructions", NO_STEP, rdmsr(MSR_PMC(0)), n);
    packed = n / 2 < cycles ? n / 2 : cycles;
    check("CMASK 2", NO_STEP, rdmsr(MSR_PMC(1)), packed);
    check("INV", NO_STEP, rdmsr(MSR_PMC(2)), cycles - packed);
    check("edges", NO_STEP, rdmsr(MSR_PMC(3)),
          ((n < cycles ? n : cycles) + 1) / 2);
}

/* ------------------------------------------------------------ Overflow */

/* A counter of any kind, numbered as in GLOBAL_STATUS without the gap */
#define ALL_COUNTERS    (GP_COUNTERS + FIXED_COUNTERS)

static uint32_t counter_msr(int n)
{
    return n < GP_COUNTERS ? MSR_A_PMC(n) : MSR_FIXED_CTR(n - GP_COUNTERS);
}

static uint64_t counter_bit(int n)
{
    return n < GP_COUNTERS ? BIT(n) : FIXED_BIT(n - GP_COUNTERS);
}

/* Start at a value, with or without interrupt */
static void arm(int n, uint64_t event, uint64_t start, bool pmi)
{
    if (n < GP_COUNTERS) {
        program(n, event | EVTSEL_OS | (pmi ? EVTSEL_INT : 0));
    } else {
        program_fixed(n - GP_COUNTERS, FIXED_OS | (pmi ? FIXED_PMI : 0));
    }
    wrmsr(counter_msr(n), start);
}

/* As kvm-unit-tests has it: from 1 - N, N events later it is 1. */
static void case_overflow_exact(void)
{
    static const uint16_t codes[] = { EV_INSNS, EV_BRANCHES, EV_CALL };
    uint64_t n;
    int i, j, pmi;

    for (i = 0; i <= GP_COUNTERS; i++) {
        for (j = 0; j < (i < GP_COUNTERS ? ARRAY_SIZE(codes) : 1); j++) {
            for (pmi = 0; pmi < 2; pmi++) {
                pmu_reset();
                pmu_enable = COUNTERS_MASK;
                arm(i, codes[j], 0, pmi);
                kernel(body_calls, 0);
                n = rdmsr(counter_msr(i));
                check("status without overflow", i,
                      rdmsr(MSR_GLOBAL_STATUS), 0);

                arm(i, codes[j], negative(n - 1), pmi);
                kernel(body_calls, 0);
                check("counter", i, rdmsr(counter_msr(i)), 1);
                check("status", i, rdmsr(MSR_GLOBAL_STATUS), counter_bit(i));
                check("PMI", i, apic_irr(VEC_PMI), pmi);

                /* Not yet, and just */
                pmu_reset();
                arm(i, codes[j], negative(n + 1), pmi);
                kernel(body_calls, 0);
                check("counter before", i, rdmsr(counter_msr(i)), WIDTH_MASK);
                check("status before", i, rdmsr(MSR_GLOBAL_STATUS), 0);
                check("PMI before", i, apic_irr(VEC_PMI), false);
                arm(i, codes[j], negative(n), pmi);
                kernel(body_calls, 0);
                check("counter at 0", i, rdmsr(counter_msr(i)), 0);
                check("status at 0", i, rdmsr(MSR_GLOBAL_STATUS),
                      counter_bit(i));
                check("PMI at 0", i, apic_irr(VEC_PMI), pmi);
            }
        }
    }

    /* Through the 32-bit write of the legacy address */
    pmu_reset();
    arm(0, EV_INSNS, 0, false);
    kernel(body_calls, 0);
    n = rdmsr(MSR_PMC(0));
    wrmsr(MSR_PMC(0), 1 - n);
    kernel(body_calls, 0);
    check("legacy counter", NO_STEP, rdmsr(MSR_PMC(0)), 1);
    check("legacy status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
}

/* Each counter alone: instructions, or what the fixed ones count */
static void case_overflow_all(void)
{
    int i, pmi;

    pmu_enable = COUNTERS_MASK;
    for (i = 0; i < ALL_COUNTERS; i++) {
        for (pmi = 0; pmi < 2; pmi++) {
            context(pmi ? "with INT" : "without INT");
            pmu_reset();
            arm(i, i & 1 ? EV_INSNS : EV_CYCLES, WIDTH_MASK, pmi);
            kernel(body_loop_jnz, 0);
            check("status", i, rdmsr(MSR_GLOBAL_STATUS), counter_bit(i));
            check("PMI", i, apic_irr(VEC_PMI), pmi);
            check("LVTPC", i, apic_read(APIC_LVTPC),
                  VEC_PMI | (pmi ? LVT_MASKED : 0));
            check_range("counter", i, rdmsr(counter_msr(i)), 0, 1000000);
            interrupts();
            check("interrupts", i, this_cpu()->pmis, pmi);
            wrmsr(MSR_STATUS_RESET, counter_bit(i));
            check("status after reset", i, rdmsr(MSR_GLOBAL_STATUS), 0);
        }
    }

    /* An overflow of what counts at CPL 3 is seen, too. */
    context("at CPL 3");
    pmu_reset();
    program(3, EV_INSNS | EVTSEL_USR);
    wrmsr(MSR_A_PMC(3), negative(100));
    user(body_loop_jnz, 0);
    check("status", 3, rdmsr(MSR_GLOBAL_STATUS), BIT(3));
    check("counter", 3, rdmsr(MSR_PMC(3)), 3001 + 3 - 100);
}

/* All of them in one run, at different times */
static void case_overflow_wraps(void)
{
    const uint64_t n = 3001 + KERNEL_INSNS;
    int i;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    for (i = 0; i < GP_COUNTERS; i++) {
        arm(i, EV_INSNS, negative(100 + 50 * i), i & 1);
    }
    arm(GP_COUNTERS, 0, negative(2000), true);
    kernel(body_loop_jnz, 0);
    for (i = 0; i < GP_COUNTERS; i++) {
        check("counter", i, rdmsr(MSR_PMC(i)), n - 100 - 50 * i);
    }
    check("fixed counter 0", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), n - 2000);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          GP_MASK | FIXED_BIT(0));
    interrupts();
    /* The first one masked the LVT entry */
    check("interrupts", NO_STEP, this_cpu()->pmis, 1);
}

/* Only STATUS_RESET clears it, and only the bits that are written. */
static void case_overflow_sticky(void)
{
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    arm(0, EV_INSNS, WIDTH_MASK, false);
    arm(5, EV_INSNS, WIDTH_MASK, false);
    arm(GP_COUNTERS, 0, WIDTH_MASK, false);
    kernel(body_loop_jnz, 0);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          0x21 | FIXED_BIT(0));
    check("status again", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          0x21 | FIXED_BIT(0));
    wrmsr(MSR_EVTSEL(0), 0);
    wrmsr(MSR_PMC(0), 0);
    wrmsr(MSR_FIXED_CTR_CTRL, 0);
    wrmsr(MSR_FIXED_CTR(0), 0);
    check("status after stop", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          0x21 | FIXED_BIT(0));
    wrmsr(MSR_STATUS_RESET, 1);
    check("status after reset of one", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          0x20 | FIXED_BIT(0));
    wrmsr(MSR_STATUS_RESET, 0x20 | FIXED_BIT(0));
    check("status after reset", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    /* The old overflow does not come back. */
    kernel(body_loop_jnz, 0);
    check("status after another run", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    arm(5, EV_INSNS, WIDTH_MASK, false);
    kernel(body_loop_jnz, 0);
    check("status after another overflow", NO_STEP, rdmsr(MSR_GLOBAL_STATUS),
          0x20);
}

/* ----------------------------------------------------------------- PMI */

static void overflow_once(void)
{
    arm(0, EV_INSNS, WIDTH_MASK, true);
    kernel(body_loop_jnz, 0);
}

/* Delivery masks the LVT entry; while it is masked, PMIs are lost. */
static void check_masking(void)
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    overflow_once();
    check("LVTPC after delivery", NO_STEP, apic_read(APIC_LVTPC),
          VEC_PMI | LVT_MASKED);
    check("PMI", NO_STEP, apic_irr(VEC_PMI), true);
    interrupts();
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("LVTPC in the handler", NO_STEP, cpu->pmi_lvtpc,
          VEC_PMI | LVT_MASKED);
    check("status in the handler", NO_STEP, cpu->pmi_status, 1);

    pmu_reset();
    apic_write(APIC_LVTPC, VEC_PMI | LVT_MASKED);
    overflow_once();
    check("masked status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
    check("masked PMI", NO_STEP, apic_irr(VEC_PMI), false);
    apic_write(APIC_LVTPC, VEC_PMI);
    check("unmasked PMI", NO_STEP, apic_irr(VEC_PMI), false);
    interrupts();
    check("interrupts of a masked PMI", NO_STEP, cpu->pmis, 0);
    check("status of a masked PMI", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
    wrmsr(MSR_STATUS_RESET, 1);
    overflow_once();
    check("next PMI", NO_STEP, apic_irr(VEC_PMI), true);
    interrupts();
    check("interrupts of the next PMI", NO_STEP, cpu->pmis, 1);
}

static void check_nmi(void)
{
    Cpu *cpu = this_cpu();
    int step;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    for (step = 1; step <= 3; step++) {
        overflow_once();
        check("NMIs", step, cpu->pmis, step);
        check("LVTPC in the handler", step, cpu->pmi_lvtpc,
              LVT_NMI | LVT_MASKED);
        check("status in the handler", step, cpu->pmi_status, 1);
        check("status afterwards", step, rdmsr(MSR_GLOBAL_STATUS), 0);
    }
    apic_write(APIC_LVTPC, LVT_NMI | LVT_MASKED);
    overflow_once();
    check("masked NMIs", NO_STEP, cpu->pmis, 3);
    check("masked status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
}

static void case_pmi_masked(void)
{
    check_masking();
}

static void case_pmi_nmi(void)
{
    check_nmi();
}

/*
 * A local APIC that software has disabled delivers no interrupt of its vector
 * table, nor makes up for it later: SDM volume 3, "Local APIC State After It
 * Has Been Software Disabled". This masks the entries, so unmask LVTPC again.
 */
static void case_pmi_apic_off(void)
{
    static const uint32_t lvt[] = { VEC_PMI, LVT_NMI };
    Cpu *cpu = this_cpu();
    int i;

    for (i = 0; i < ARRAY_SIZE(lvt); i++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, lvt[i]);
        apic_write(APIC_SPIV, VEC_SPURIOUS);
        overflow_once();
        check("status", i, rdmsr(MSR_GLOBAL_STATUS), 1);
        check("counter", i, rdmsr(MSR_PMC(0)), 3001 + KERNEL_INSNS - 1);
        check("PMI", i, apic_irr(VEC_PMI), false);
        apic_write(APIC_SPIV, APIC_ENABLE | VEC_SPURIOUS);
        interrupts();
        check("interrupts", i, cpu->pmis, 0);
        check("status afterwards", i, rdmsr(MSR_GLOBAL_STATUS), 1);

        wrmsr(MSR_STATUS_RESET, 1);
        apic_write(APIC_LVTPC, lvt[i]);
        overflow_once();
        interrupts();
        check("interrupts when enabled", i, cpu->pmis, 1);
    }
}

/* Without a local APIC, an overflow is recorded, and interrupts nobody. */
static void case_no_apic(void)
{
    uint32_t r[4];
    int step;

    get_cpuid(1, r);
    check("APIC in CPUID", NO_STEP, r[3] >> 9 & 1, 0);
    /* The timer of the PC would interrupt by way of the PIC. */
    outb(PIC_MASK_PORT, 0xff);
    for (step = 0; step < 2; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        overflow_once();
        check("status", step, rdmsr(MSR_GLOBAL_STATUS), 1);
        check("counter", step, rdmsr(MSR_PMC(0)), 3001 + KERNEL_INSNS - 1);
        interrupts();
        check("interrupts", step, this_cpu()->pmis, 0);
    }
}

static void case_pmi_x2apic(void)
{
    uint32_t r[4];

    get_cpuid(1, r);
    check("x2APIC in CPUID", NO_STEP, r[2] >> 21 & 1, 1);
    if (r[2] >> 21 & 1) {
        apic_enable_x2apic();
        check_masking();
        check_nmi();
    }
}

/* -------------------------------------------------- Other interrupts */

static uint64_t irq_rip;
static Shared32 irq_done;

static bool hook_irq(Frame *f)
{
    if (f->vector == VEC_TIMER) {
        this_cpu()->events++;
        irq_rip = f->rip;
    }
    return false;
}

/*
 * A CPU takes an interrupt that it sends to itself at the next block, whether
 * it counts or not.
 */
static void case_irq_self(void)
{
    Cpu *cpu = this_cpu();
    uint64_t idle_rip = 0;
    unsigned step;

    for (step = 0; step < 20; step++) {
        bool counts = step % 2;
        unsigned i;

        pmu_reset();
        program(0, EV_INSNS | EVTSEL_OS);
        program_fixed(0, FIXED_OS);
        pmu_enable = 0;
        for (i = 0; !counts && i < 100000; i++) {
            /* What was counted before may be counted for a while. */
            asm volatile("" : : : "memory");
        }
        pmu_enable = counts ? COUNTERS_MASK : 0;
        cpu->hook = hook_irq;
        /* To a CPU that is not there, so that the blocks are chained */
        apic_write(APIC_ICR + 0x10, 0x7fu << 24);
        for (i = 0; i < 10; i++) {
            kernel(body_send_irq, VEC_TIMER);
        }
        /* By the shorthand for this CPU */
        kernel(body_send_irq, 0x40000 | VEC_TIMER);
        cpu->hook = NULL;
        check("interrupts", step, cpu->events, 1);
        check_range("RIP", step, irq_rip, (uintptr_t)payload_irq_sent,
                    (uintptr_t)payload_irq_next);
        if (counts) {
            check("RIP while counting", step, irq_rip, idle_rip);
        }
        idle_rip = irq_rip;
    }
}

/* So many interrupts end what does not end by itself. */
static unsigned irq_wanted;

static bool hook_end(Frame *f)
{
    Cpu *cpu = this_cpu();

    if (f->vector == VEC_TIMER && ++cpu->events >= irq_wanted) {
        if (f->rip == (uintptr_t)payload_spin) {
            f->rip = (uintptr_t)payload_spin_end;
        } else if (f->rcx > 1) {
            f->rcx = 1;
        }
    }
    return false;
}

static void case_irq_timer(void)
{
    Cpu *cpu = this_cpu();
    unsigned step;

    irq_wanted = 3;
    for (step = 0; step < 6; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(0, EV_INSNS | EVTSEL_USR);
        program_fixed(1, FIXED_USR);
        run_user_flags = 2 | RFLAGS_IF;
        cpu->hook = hook_end;
        apic_timer(300000, true);
        user(step % 2 ? body_long_rep : body_spin, 0);
        apic_timer(0, false);
        interrupts();
        cpu->hook = NULL;
        run_user_flags = 2;
        check_range("interrupts", step, cpu->events, 3, 1000000);
        if (step % 2) {
            check("instructions", step, rdmsr(MSR_PMC(0)), 4 + 2);
        }
    }
}

static void ap_send_irqs(void)
{
    unsigned i;

    while (!irq_done) {
        apic_write(APIC_ICR + 0x10, 0);
        apic_write(APIC_ICR, VEC_TIMER);
        /* PAUSE would be the other CPU's turn, if there is but one thread */
        for (i = 0; i < 1000; i++) {
            asm volatile("" : : : "memory");
        }
    }
}

static void case_irq_cpu(void)
{
    Cpu *cpu = this_cpu();
    unsigned step;

    start_ap();
    irq_done = 0;
    irq_wanted = 1;
    call_ap(ap_send_irqs);
    for (step = 0; step < 10; step++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        program(0, EV_INSNS | EVTSEL_USR);
        program_fixed(1, FIXED_USR);
        run_user_flags = 2 | RFLAGS_IF;
        cpu->hook = hook_end;
        user(step % 2 ? body_long_rep : body_spin, 0);
        check_range("interrupts", step, cpu->events, 1, 1000000);
    }
    irq_done = 1;
    call_ap_wait();
    interrupts();
    cpu->hook = NULL;
    run_user_flags = 2;
}

/* Goes on until the qtest resets the CPU. */
static void case_endless(void)
{
    void (*const bodies[])(void) = { body_spin, body_long_rep, body_far_loop };

    MAILBOX_64(MAILBOX_ARG2) = (uintptr_t)payload_far;
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    program(0, EV_INSNS | EVTSEL_USR);
    program_fixed(1, FIXED_USR);
    MAILBOX(MAILBOX_PHASE) = 1;
    user(bodies[MAILBOX_64(MAILBOX_ARG)], 0);
    check("end", NO_STEP, true, false);
}

/*
 * The CPU halts with counters in all kinds of states. The qtest looks at them,
 * and wakes it by an NMI.
 */
static void case_info(void)
{
    int i;

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI);
    apic_write(APIC_LINT1, LVT_NMI);
    /* Nobody knows it, so it is in no cycle */
    program(0, 0x01c2 | EVTSEL_OS | EVTSEL_CMASK(1) | EVTSEL_INV);
    program(1, EV_BRANCHES | EVTSEL_OS | EVTSEL_USR | EVTSEL_INT |
               EVTSEL_CMASK(2) | EVTSEL_INV | EVTSEL_EDGE);
    program(2, 0x0e85 | EVTSEL_OS);         /* of the precise model only */
    program(3, 0x01c2);
    program(4, EV_INSNS | EVTSEL_OS);
    program(5, EV_INSNS | EVTSEL_USR);
    program(6, EV_INSNS | EVTSEL_OS);
    wrmsr(MSR_A_PMC(6), WIDTH_MASK);
    /* Later, instructions make up for cycles: a look would keep the maximum */
    program(7, EV_INSNS | EVTSEL_OS | EVTSEL_CMASK(1) | EVTSEL_INV);
    program_fixed(0, FIXED_OS | FIXED_PMI);
    wrmsr(MSR_FIXED_CTR(0), negative(1000));
    program_fixed(3, FIXED_OS);
    pmu_enable = (COUNTERS_MASK & ~BIT(4)) | METRICS_MASK;
    MAILBOX(MAILBOX_PHASE) = 1;
    kernel(body_halt_for_nmi, 0);
    apic_write(APIC_LINT1, LVT_MASKED);

    for (i = 0; i < GP_COUNTERS; i++) {
        value("counter", i, rdmsr(MSR_PMC(i)));
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        value("fixed counter", i, rdmsr(MSR_FIXED_CTR(i)));
    }
    value("metrics", NO_STEP, rdmsr(MSR_PERF_METRICS));
    check("status", NO_STEP, this_cpu()->pmi_status, BIT(6));
    check("interrupts", NO_STEP, this_cpu()->pmis, 1);
}

static void case_pmi_no_status(void)
{
    pmu_reset();
    arm(0, EV_INSNS, 0, true);
    wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK);
    wrmsr(MSR_STATUS_SET, COUNTERS_MASK);
    wrmsr(MSR_GLOBAL_CTRL, 0);
    check("PMI", NO_STEP, apic_irr(VEC_PMI), false);
    check("LVTPC", NO_STEP, apic_read(APIC_LVTPC), VEC_PMI);
}

/* The interrupt comes right after the branch that overflows. */
static void case_pmi_skid_branch(void)
{
    Cpu *cpu = this_cpu();
    unsigned k;
    int nmi;

    for (nmi = 0; nmi < 2; nmi++) {
        for (k = 0; k < 63; k++) {
            uint64_t chain = (uintptr_t)payload_branch_chain;

            pmu_reset();
            pmu_enable = COUNTERS_MASK;
            run_user_flags = 2 | RFLAGS_IF;
            apic_write(APIC_LVTPC, nmi ? LVT_NMI : VEC_PMI);
            program(0, EV_BRANCHES | EVTSEL_USR | EVTSEL_INT);

            /* The CALL, a JMP, and those of blocks 0 to k */
            context(nmi ? "NMI, taken" : "taken");
            wrmsr(MSR_A_PMC(0), negative(3 + k));
            user(body_branch_chain, 0);
            check("interrupts", k, cpu->pmis, 1);
            check("RIP", k, cpu->pmi_rip, chain + 8 * (k + 1));

            context(nmi ? "NMI, not taken" : "not taken");
            cpu->pmis = 0;
            chain = (uintptr_t)payload_not_taken_chain;
            wrmsr(MSR_A_PMC(0), negative(3 + k));
            user(body_not_taken_chain, 0);
            check("interrupts", k, cpu->pmis, 1);
            check("RIP", k, cpu->pmi_rip, chain + 8 * k + 4);
        }
    }

    context("NMI at CPL 0");
    for (k = 0; k < 63; k++) {
        pmu_reset();
        apic_write(APIC_LVTPC, LVT_NMI);
        arm(0, EV_BRANCHES, negative(3 + k), true);
        kernel(body_branch_chain, 0);
        check("interrupts", k, cpu->pmis, 1);
        check("RIP", k, cpu->pmi_rip,
              (uintptr_t)payload_branch_chain + 8 * (k + 1));
    }
    run_user_flags = 2;
}

/* It comes right after any other instruction, too. */
static void case_pmi_skid_insn(void)
{
    const uint64_t chain = (uintptr_t)payload_nop_chain;
    Cpu *cpu = this_cpu();
    unsigned block, i;

    for (block = 0; block < 60; block += 7) {
        /* The last instruction of the 63 is the JMP. */
        for (i = 0; i < 63; i += i < 60 ? 6 : 1) {
            uint64_t end = chain + 64 * (block + 1);

            pmu_reset();
            pmu_enable = COUNTERS_MASK;
            apic_write(APIC_LVTPC, LVT_NMI);
            arm(0, EV_INSNS, negative(3 + 63 * block + i), true);
            kernel(body_nop_chain, 0);
            check("interrupts", i, cpu->pmis, 1);
            check("RIP", i, cpu->pmi_rip, i < 62 ? end - 64 + i + 1 : end);
        }
    }
}

/*
 * With -icount, QEMU stops at each tick of a timer, here every 50 to 200
 * instructions, although IF is clear. The PMU's interrupt still comes right
 * after the instruction that overflows the counter: "Interrupts" of our docs.
 */
static void case_pmi_slices(void)
{
    const uint64_t chain = (uintptr_t)payload_nop_chain;
    Cpu *cpu = this_cpu();
    unsigned ns, i;

    for (ns = 100; ns < 400; ns += 7) {
        for (i = 0; i < 1000; i += 91) {
            uint64_t end = chain + 64 * (i / 63 + 1);

            pmu_reset();
            pmu_enable = COUNTERS_MASK;
            apic_write(APIC_LVTPC, LVT_NMI);
            /* CALL, JMP, and i + 1 of the chain */
            arm(0, EV_INSNS, negative(3 + i), true);
            apic_timer(ns, true);
            kernel(body_nop_chain, 0);
            apic_timer(0, false);
            check("interrupts", ns, cpu->pmis, 1);
            check("RIP", ns, cpu->pmi_rip,
                  i % 63 < 62 ? end - 64 + i % 63 + 1 : end);
        }
    }
}

/* Also after the last instruction of a block that is as long as can be */
static void case_pmi_full_block(void)
{
    Cpu *cpu = this_cpu();
    unsigned i;

    for (i = 508; i < 512; i++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        /* CALL, JMP, and i + 1 of the block */
        arm(0, EV_INSNS, negative(3 + i), true);
        kernel(body_full_block, 0);
        check("interrupts", i, cpu->pmis, 1);
        check("RIP", i, cpu->pmi_rip, i < 511 ?
              (uintptr_t)payload_full_block + i + 1 :
              (uintptr_t)payload_full_block_end);
    }
}

static bool hook_wait(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    wait_for_host();
    return true;
}

/*
 * Also when QEMU looks at the deadlines, as for query-pmu, while it is away.
 * MAILBOX_ARG goes to DEBUGCTL.
 */
static void case_pmi_away(void)
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    wrmsr(MSR_DEBUGCTL, MAILBOX_64(MAILBOX_ARG));
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
    /* CALL, NOP, INT3 */
    wrmsr(MSR_A_PMC(0), negative(3));
    cpu->hook = hook_wait;
    user(body_breakpoint, 0);
    cpu->hook = NULL;
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)body_breakpoint + 2);
}

static bool hook_skip_division(Frame *f)
{
    if (f->vector != VEC_DE) {
        return false;
    }
    f->rip = (uintptr_t)payload_fault_skipped;
    return true;
}

/*
 * An instruction that faults leaves what its block would have used. Those that
 * the kernel goes on with must not use it if the interrupt is due before.
 */
static void case_pmi_fault(void)
{
    Cpu *cpu = this_cpu();
    unsigned i;

    for (i = 0; i < 30; i++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
        /* CALL, XOR, JMP, and i + 1 after the division */
        wrmsr(MSR_A_PMC(0), negative(4 + i));
        cpu->hook = hook_skip_division;
        user(body_fault_skipped, 0);
        cpu->hook = NULL;
        check("interrupts", i, cpu->pmis, 1);
        check("RIP", i, cpu->pmi_rip,
              (uintptr_t)payload_fault_skipped + 3 * ((i + 1) / 2) +
              (i + 1) % 2);
    }
}

/*
 * The block that an interrupt comes in front of leaves what it would have used,
 * too.
 */
static void case_pmi_interrupt(void)
{
    Cpu *cpu = this_cpu();
    unsigned i;

    set_gate(VEC_TIMER, calls_return, 0);
    for (i = 0; i < 100; i++) {
        unsigned k = i % 20;

        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        /* Of the body, and k + 1 of the handler */
        arm(0, EV_CALL, negative(2 + k), true);
        payload_irqs = 0;
        apic_timer(20000, false);
        kernel(body_long_until_irq, 0);
        check("interrupts", i, cpu->pmis, 1);
        check("RIP", i, cpu->pmi_rip,
              (uintptr_t)payload_irq_calls + 5 * (k + 1));
    }
    apic_timer(0, false);
    set_trap_gate(VEC_TIMER);
}

/* Execute @body; an NMI comes after @n of an event, the CALL included. */
static void run_until_nmi(uint64_t event, uint64_t n, void (*body)(void))
{
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    arm(0, event, negative(n), true);
    kernel(body, 0);
}

#define SPLIT_STEPS         10

/*
 * It comes right after an atomic instruction that crosses a cache line, which
 * QEMU executes while no other CPU does, and the CPU goes on.
 */
static void case_pmi_split_lock(void)
{
    static const uint32_t events[] = { EV_LLC_REFS, EV_L1_HITS, EV_LOADS };
    Cpu *cpu = this_cpu();
    unsigned i, k, turn, slots;

    start_ap();
    context("instructions");
    for (turn = 0; turn < 10; turn++) {
        for (k = 0; k < SPLIT_STEPS; k++) {
            run_until_nmi(EV_INSNS, 2 + k, body_split_locks);
            check("interrupts", k, cpu->pmis, 1);
            check("RIP", k, cpu->pmi_rip, payload_split_steps[k]);
        }
    }

    if (IS_PRECISE) {
        /* Interrupts of slots are loose. */
        return;
    }
    /* More than one instruction can reach the same number of slots. */
    context("slots");
    for (slots = 5, k = 0; k < SPLIT_STEPS - 1; slots++) {
        run_until_nmi(EV_SLOTS, slots, body_split_locks);
        check("interrupts", slots, cpu->pmis, 1);
        while (k < SPLIT_STEPS - 1 && cpu->pmi_rip > payload_split_steps[k]) {
            k++;
        }
        check("RIP", slots, cpu->pmi_rip, payload_split_steps[k]);
    }

    /* Of these, a load is a part: less than a load may be left */
    context("cache");
    for (i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        for (k = 1; k <= 12; k++) {
            run_until_nmi(events[i], k, body_split_locks);
            for (turn = 1; turn < 100 && !cpu->pmis; turn++) {
                kernel(body_split_locks, 0);
            }
            check("interrupts", i * 100 + k, cpu->pmis, 1);
        }
    }
    context("");
}

/*
 * It comes right after branches that are rare, too. At CPL 3 the branch is the
 * last instruction before another privilege: it comes when the CPU is back.
 */
static void case_pmi_skid_far(void)
{
    const uint64_t loop = (uintptr_t)payload_user_int;
    Cpu *cpu = this_cpu();
    unsigned k;

    for (k = 1; k <= 50; k++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        program(0, EV_FAR | EVTSEL_USR | EVTSEL_INT);
        wrmsr(MSR_A_PMC(0), negative(k));
        user(body_user_int, 0);
        check("interrupts", k, cpu->pmis, 1);
        check("RIP", k, cpu->pmi_rip, loop + 2);

        /* At CPL 0 every INT and every IRET is one. */
        context("CPL 0");
        pmu_reset();
        apic_write(APIC_LVTPC, LVT_NMI);
        arm(0, EV_FAR, negative(k), true);
        kernel(body_user_int, 0);
        check("interrupts", k, cpu->pmis, 1);
        check("RIP", k, cpu->pmi_rip,
              k % 2 ? (uintptr_t)interrupt_return : loop + 2);
    }
}

/* It comes right after a store, if later blocks count none of its kind. */
static void case_pmi_skid_store(void)
{
    static uint64_t stored;
    Cpu *cpu = this_cpu();

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_STORES | EVTSEL_USR | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(2));           /* CALL is the first one */
    user(body_last_store, (uintptr_t)&stored);
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)payload_last_store);

    /* The store of INT3 is the third one. */
    context("new budgets at CPL 0");
    cpu->pmis = 0;
    wrmsr(MSR_A_PMC(0), negative(3));
    set_gate(VEC_BP, spin_return, 3);
    user(body_store_int3, (uintptr_t)&stored);
    set_trap_gate(VEC_BP);
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)payload_stored);
}

/*
 * An interrupt is due after instructions of both privileges: it comes right
 * behind the last one, although each may have got all units before.
 */
static void case_pmi_both(void)
{
    enum { NOPS = 200, TURN = 5 + NOPS + 2 };
    const uintptr_t loop = (uintptr_t)payload_call_jumps;
    const uintptr_t gate = (uintptr_t)syscall_jumps;
    /* Where SYSCALL, three times JMP, SYSRET, a NOP, DEC, and JNZ go */
    const struct {
        unsigned insns;
        uintptr_t rip;
    } t[] = {
        { 1, gate }, { 2, gate + 2 }, { 3, gate + 4 }, { 4, gate + 6 },
        { 5, loop + 2 }, { 6, loop + 3 }, { TURN - 1, loop + 2 + NOPS + 3 },
        { TURN, loop },
    };
    Cpu *cpu = this_cpu();
    unsigned turn, n;
    int i;

    wrmsr(MSR_LSTAR, gate);
    for (i = 0, turn = 0; turn < 9; i = (i + 1) % ARRAY_SIZE(t), turn += !i) {
        n = turn * TURN + t[i].insns;
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        program(0, EV_INSNS | EVTSEL_OS | EVTSEL_USR | EVTSEL_INT);
        /* IRET, CALL, three times MOV */
        wrmsr(MSR_A_PMC(0), negative(5 + n));
        cpu->pmis = 0;
        user(body_call_jumps, (uintptr_t)cpu + GUEST_STACK_SIZE / 2);
        check("interrupts", n, cpu->pmis, 1);
        check("RIP", n, cpu->pmi_rip, t[i].rip);
    }
    wrmsr(MSR_LSTAR, (uintptr_t)syscall_return);
    pmu_reset();
}

/*
 * That of a user's counter waits for the user. At CPL 0, QEMU looks at another
 * deadline, which is too early, directly after STI: this delays what would come
 * there, and not what comes later.
 */
static void case_pmi_sti(void)
{
    Cpu *cpu = this_cpu();

    set_gate(0x82, gate_sti, 3);
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    /* CALL, INT */
    program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
    wrmsr(MSR_A_PMC(0), negative(2));
    /* Never due: IRET to the program, of the gate, and of the interrupt */
    program(1, EV_FAR | EVTSEL_OS | EVTSEL_INT);
    wrmsr(MSR_A_PMC(1), negative(3 + 1));
    cpu->pmis = 0;
    user(body_int_nops, 0);
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)payload_int_nops);
    pmu_reset();
}

/* QEMU looks at the deadline of a counter of stores, which is far too early. */
static bool hook_store(Frame *f)
{
    static Shared64 stored;
    unsigned i;

    if (f->vector != VEC_BP) {
        return false;
    }
    for (i = 0; i < 400; i++) {
        stored = i;
    }
    this_cpu()->events = 1 + this_cpu()->pmis;
    return true;
}

static bool hook_look(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    check("status at CPL 0", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
    this_cpu()->events = 1 + this_cpu()->pmis;
    return true;
}

static bool hook_rdpmc(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    check("counter at CPL 0", NO_STEP, rdpmc(0), 0);
    this_cpu()->events = 1 + this_cpu()->pmis;
    return true;
}

static bool hook_wrmsr(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    wrmsr(MSR_A_PMC(2), 0);
    this_cpu()->events = 1 + this_cpu()->pmis;
    return true;
}

/*
 * A counter that counts only at CPL 3 overflows with the last instruction
 * there: its interrupt does not come at CPL 0 because QEMU has looked at
 * another counter, but if software does. "Interrupts" of our docs.
 */
static void case_pmi_elsewhere(void)
{
    Cpu *cpu = this_cpu();
    bool (*hooks[])(Frame *f) = { hook_store, hook_look, hook_rdpmc,
                                   hook_wrmsr };
    int i;

    for (i = 0; i < ARRAY_SIZE(hooks); i++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
        /* CALL, NOP, INT3 */
        wrmsr(MSR_A_PMC(0), negative(3));
        arm(1, EV_STORES, negative(1000), true);
        wrmsr(MSR_DEBUGCTL, i == 0 ? DEBUGCTL_FREEZE : 0);
        cpu->hook = hooks[i];
        user(body_breakpoint, 0);
        cpu->hook = NULL;
        if (i == 0) {
            /* Nothing was frozen before its interrupt */
            check_range("stores at CPL 0", i,
                        rdmsr(MSR_PMC(1)) - negative(1000), 400, 999);
        }
        check("interrupts at CPL 0", i, cpu->events, 1 + (i > 0));
        check("interrupts", i, cpu->pmis, 1);
        check("returned", i, cpu->pmi_rip == (uintptr_t)body_breakpoint + 2,
              i == 0);
    }
}

static bool hook_skip_undefined(Frame *f)
{
    if (f->vector != VEC_UD) {
        return false;
    }
    f->rip += 2;
    return true;
}

/*
 * An instruction that is undefined raises its exception before the interrupt
 * for the one before: "Interrupts" of our docs.
 */
static void case_pmi_undefined(void)
{
    const uint64_t stub = (uintptr_t)trap_stubs + 16 * VEC_UD;
    Cpu *cpu = this_cpu();
    unsigned n;

    /* CALL, NOP, PUSH of the handler */
    for (n = 1; n <= 3; n++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        arm(0, EV_INSNS, negative(n), true);
        cpu->hook = hook_skip_undefined;
        kernel(body_undefined, 0);
        cpu->hook = NULL;
        check("interrupts", n, cpu->pmis, 1);
        check("RIP", n, cpu->pmi_rip,
              n == 1 ? (uintptr_t)body_undefined : stub + 2 * (n - 2));
    }
}

/* It wakes the CPU if the counter overflows with HLT. */
static void case_pmi_halt(void)
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    /* CALL, NOP, HLT */
    arm(0, EV_INSNS, negative(3), true);
    kernel(body_halt_for_pmi, 0);
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check("RIP", NO_STEP, cpu->pmi_rip, (uintptr_t)payload_halted);
}

/* If HLT comes after the interrupt that was to wake it, only this one does. */
static bool hook_wake(Frame *f)
{
    if (f->vector == VEC_TIMER) {
        irq_rip = f->rip;
        if (++this_cpu()->events == 1 && f->rip == (uintptr_t)payload_wait) {
            apic_timer(100000, false);
        }
        return true;
    }
    return false;
}

/* An NMI comes after @n instructions, the CALL of @body being the first. */
static void check_nmi_after(unsigned n, void (*body)(void), uintptr_t rip)
{
    Cpu *cpu = this_cpu();

    run_until_nmi(EV_INSNS, n, body);
    check("interrupts", n, cpu->pmis, 1);
    check("RIP", n, cpu->pmi_rip, rip);
}

/*
 * Directly after MOV SS and STI, it waits for one instruction, as an NMI, too:
 * SDM volume 3, "Masking Exceptions and Interrupts When Switching Stacks", and
 * our decision for STI, because a CPU that sleeps would miss its interrupt.
 */
static void case_pmi_inhibited(void)
{
    Cpu *cpu = this_cpu();
    unsigned n;

    /* CALL, MOV from SS, MOV to SS, NOP, NOP */
    context("MOV SS");
    for (n = 2; n <= 5; n++) {
        check_nmi_after(n, body_load_ss, (uintptr_t)payload_ss_loaded +
                        (n == 2 ? -3 : n == 5 ? 1 : 0));
    }

    /* CALL, two times MOV and XOR, MOV to SS, WRMSR, NOP */
    context("WRMSR");
    for (n = 5; n <= 8; n++) {
        check_nmi_after(n, body_ss_wrmsr, (uintptr_t)payload_ss_written +
                        (n == 5 ? -4 : n == 8 ? 1 : 0));
    }

    /* CALL, NOP, STI, HLT */
    context("STI");
    for (n = 2; n <= 4; n++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        arm(0, EV_INSNS, negative(n), true);
        cpu->hook = hook_wake;
        apic_write(APIC_ICR, 0x40000 | VEC_TIMER);
        kernel(body_wait, 0);
        cpu->hook = NULL;
        check("interrupts", n, cpu->pmis, 1);
        check("RIP", n, cpu->pmi_rip,
              n == 2 ? (uintptr_t)payload_wait - 1
                     : (uintptr_t)payload_waited);
        check("other interrupts", n, cpu->events, 1);
        check("their RIP", n, irq_rip, (uintptr_t)payload_waited);
    }
}

/* What a profiler does: each time another 100 branches */
static bool hook_sample(Frame *f)
{
    Cpu *cpu = this_cpu();

    if (f->vector != VEC_NMI) {
        return false;
    }
    if (f->rip == (uintptr_t)payload_storm_loop) {
        cpu->events++;
    }
    wrmsr(MSR_A_PMC(0), negative(100));
    pmi_acknowledge();
    return true;
}

static void case_pmi_sampling(void)
{
    Cpu *cpu = this_cpu();

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_BRANCHES | EVTSEL_USR | EVTSEL_INT);
    program(1, EV_BRANCHES | EVTSEL_USR);
    wrmsr(MSR_A_PMC(0), negative(100));
    cpu->hook = hook_sample;
    user(body_storm_loop, 0);
    cpu->hook = NULL;
    /* CALL, 1000 turns, RET, INT */
    check("branches", NO_STEP, rdmsr(MSR_PMC(1)), 1003);
    check("samples", NO_STEP, cpu->pmis, 10);
    check("samples in the loop", NO_STEP, cpu->events, 10);
    check("rest", NO_STEP, rdmsr(MSR_PMC(0)), negative(100 - 3));
}

/* DEBUGCTL[12]: all counters stop at the PMI, until bit 59 is reset. */
static void case_pmi_freeze(void)
{
    const uint64_t all = 1 + 64 * 63 + 1 + KERNEL_INSNS;
    uint64_t n = 3 + 63 * 20 + 10, frozen;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    arm(0, EV_INSNS, negative(n), true);
    arm(1, EV_INSNS, 0, false);
    program_fixed(0, FIXED_OS);
    kernel(body_nop_chain, 0);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1 | STATUS_FROZEN);
    frozen = rdmsr(MSR_FIXED_CTR(0));
    check("fixed counter 0", NO_STEP, frozen, n);
    check("counter 0", NO_STEP, rdmsr(MSR_PMC(0)), 0);
    check("counter 1", NO_STEP, rdmsr(MSR_PMC(1)), frozen);

    /* Frozen, although enabled; also with the overflow bit reset */
    kernel(body_nop_chain, 0);
    check("frozen counter", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), frozen);
    wrmsr(MSR_STATUS_RESET, 1);
    kernel(body_nop_chain, 0);
    check("counter before bit 59 is reset", NO_STEP,
          rdmsr(MSR_FIXED_CTR(0)), frozen);
    check("status before bit 59 is reset", NO_STEP,
          rdmsr(MSR_GLOBAL_STATUS), STATUS_FROZEN);

    wrmsr(MSR_STATUS_RESET, STATUS_FROZEN);
    kernel(body_nop_chain, 0);
    check("counter afterwards", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
          frozen + all);
    check("status afterwards", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    interrupts();

    /* An overflow without PMI does not freeze, nor a PMI without the bit. */
    pmu_reset();
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE);
    arm(0, EV_INSNS, negative(n), false);
    kernel(body_nop_chain, 0);
    check("status without INT", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
    check("counter without INT", NO_STEP, rdmsr(MSR_PMC(0)), all - n);
    pmu_reset();
    arm(0, EV_INSNS, negative(n), true);
    kernel(body_nop_chain, 0);
    check("status without DEBUGCTL", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 1);
    check("counter without DEBUGCTL", NO_STEP, rdmsr(MSR_PMC(0)), all - n);
    pmu_reset();
}

/*
 * An interrupt of a user's counter waits for the user, if the last instruction
 * there was the one that is due. Once the status is reset, none comes.
 */
static void case_pmi_no_reason(void)
{
    Cpu *cpu = this_cpu();
    unsigned n;

    set_gate(0x82, gate_reset_status, 3);
    /* CALL, NOP, INT: due by the NOP, and by the INT */
    for (n = 2; n <= 3; n++) {
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        apic_write(APIC_LVTPC, LVT_NMI);
        program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
        wrmsr(MSR_A_PMC(0), negative(n));
        cpu->pmis = cpu->pmi_status = 0;
        user(body_int_to_reset, 0);
        check("interrupts", n, cpu->pmis, n == 2);
        check("status", n, cpu->pmi_status, n == 2);
    }
    pmu_reset();
}

static bool hook_storm(Frame *f)
{
    if (f->vector != VEC_NMI && f->vector != VEC_PMI) {
        return false;
    }
    this_cpu()->events += rdmsr(MSR_A_PMC(0)) != 0;
    wrmsr(MSR_A_PMC(0), WIDTH_MASK);
    pmi_acknowledge();
    return true;
}

/* One PMI for each instruction: the program ends anyway. */
static void case_pmi_storm(void)
{
    const uint64_t all = 1 + 4 * 1000 + 3;
    Cpu *cpu = this_cpu();
    int nmi;

    for (nmi = 0; nmi < 2; nmi++) {
        context(nmi ? "NMI" : "Fixed");
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        run_user_flags = 2 | RFLAGS_IF;
        apic_write(APIC_LVTPC, nmi ? LVT_NMI : VEC_PMI);
        program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
        wrmsr(MSR_A_PMC(0), WIDTH_MASK);
        program_fixed(0, FIXED_USR);
        cpu->hook = hook_storm;
        cpu->events = 0;
        user(body_storm_loop, 0);
        /* The last one is an NMI, or waits for interrupts() */
        check("interrupts", NO_STEP, cpu->pmis, nmi ? all : all - 1);
        check("interrupts that were not due", NO_STEP, cpu->events, 0);
        check("instructions", NO_STEP, rdmsr(MSR_FIXED_CTR(0)), all);
        interrupts();
    }
    run_user_flags = 2;
}

/*
 * The qtest looks at the PMU while its interrupt waits: until IF is set, or, if
 * MAILBOX_ARG is set, until the handler of the previous NMI returns.
 */
static bool hook_wait_in_nmi(Frame *f)
{
    Cpu *cpu = this_cpu();

    if (f->vector != VEC_NMI || cpu->pmis > 1) {
        return false;
    }
    pmi_acknowledge();
    overflow_once();
    wait_for_host();
    return true;
}

static void case_pmi_pending(void)
{
    bool nmi = MAILBOX_64(MAILBOX_ARG);
    Cpu *cpu = this_cpu();

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    if (nmi) {
        apic_write(APIC_LVTPC, LVT_NMI);
        cpu->hook = hook_wait_in_nmi;
        overflow_once();
        cpu->hook = NULL;
        check("interrupts", NO_STEP, cpu->pmis, 2);
    } else {
        overflow_once();
        wait_for_host();
        interrupts();
        check("interrupts", NO_STEP, cpu->pmis, 1);
    }
}

/* ----------------------------------------------------------------- SMM */

#define SMI_NOPS            20
#define SMI_INSNS           (SMI_NOPS + 1)
/* Of body_send_smi: two, and 40 branches */
#define SEND_SMI_INSNS      42

static void set_smi_handler(void)
{
    Shared8 *p = (Shared8 *)(uintptr_t)GUEST_SMI_HANDLER;
    int i;

    for (i = 0; i < SMI_NOPS; i++) {
        *p++ = 0x90;
    }
    *p++ = 0x0f;                /* RSM */
    *p = 0xaa;
}

static void send_smi(bool at_user)
{
    if (at_user) {
        user(body_send_smi, 0);
    } else {
        kernel(body_send_smi, 0);
    }
}

/*
 * SMM is CPL 0, and counters go on there unless FREEZE_WHILE_SMM is set: SDM
 * volume 3, "IA32_DEBUGCTL MSR". In our docs, that bit (FREEZE_IN_SMM) has no
 * effect.
 */
static void case_smm_count(void)
{
    int step;

    set_smi_handler();
    for (step = 0; step < 4; step++) {
        bool at_user = step & 1;
        uint64_t debugctl = step & 2 ? DEBUGCTL_FREEZE_SMM : 0;
        uint64_t os = SMI_INSNS + (at_user ? USER_OS_INSNS :
                                   SEND_SMI_INSNS + KERNEL_INSNS);
        uint64_t usr = at_user ? SEND_SMI_INSNS + 3 : 0;

        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        wrmsr(MSR_DEBUGCTL, debugctl);
        program(0, EV_INSNS | EVTSEL_OS);
        program(1, EV_INSNS | EVTSEL_USR);
        program(2, EV_INSNS | EVTSEL_OS | EVTSEL_USR);
        program_fixed(0, FIXED_OS);
        send_smi(at_user);
        check("instructions at CPL 0", step, rdmsr(MSR_PMC(0)), os);
        check("instructions at CPL 3", step, rdmsr(MSR_PMC(1)), usr);
        check("instructions at both", step, rdmsr(MSR_PMC(2)), os + usr);
        check("fixed counter 0", step, rdmsr(MSR_FIXED_CTR(0)), os);
        check("DEBUGCTL", step, rdmsr(MSR_DEBUGCTL), debugctl);
    }
    pmu_reset();
}

/*
 * An NMI in SMM waits for RSM: SDM volume 3, "NMI Handling While in SMM". Let
 * the counter overflow by each instruction of the handler of the SMI, and by
 * the one in front of the handler.
 */
static void case_smm_pmi(void)
{
    Shared64 *smi_rip = (Shared64 *)(uintptr_t)GUEST_SMI_RIP;
    uint64_t sent = (uintptr_t)payload_smi_sent, rip, before;
    Cpu *cpu = this_cpu();
    unsigned at_user, k;

    set_smi_handler();
    pmu_enable = COUNTERS_MASK;
    for (at_user = 0; at_user < 2; at_user++) {
        context(at_user ? "from CPL 3" : "from CPL 0");
        pmu_reset();
        send_smi(at_user);
        rip = *smi_rip;
        check_range("RIP of the first SMI", NO_STEP, rip, sent, sent + 80);
        /* The IRET; or CALL, two instructions, and some of the branches */
        before = at_user ? 1 : 3 + (rip - sent) / 2;
        for (k = 0; k <= SMI_INSNS; k++) {
            pmu_reset();
            apic_write(APIC_LVTPC, LVT_NMI);
            arm(0, EV_INSNS, negative(before + k), true);
            send_smi(at_user);
            check("RIP of the SMI", k, *smi_rip, rip);
            check("interrupts", k, cpu->pmis, 1);
            /* RSM to CPL 3 overflows it: the interrupt waits for CPL 0. */
            check("RIP", k, cpu->pmi_rip, at_user && k == SMI_INSNS ?
                  (uintptr_t)user_exit : rip);
            check("status in the handler", k, cpu->pmi_status, 1);
        }
    }
    context("");
}

/* ----------------------------------------------------------------- SMP */

static Shared64 ap_insns, ap_branches, ap_before, ap_after, ap_msr[16];

static void count_insns_and_branches(void)
{
    pmu_reset();
    program(0, EV_BRANCHES | EVTSEL_OS);
    program_fixed(0, FIXED_OS);
}

static void ap_loop(void)
{
    int i;

    count_insns_and_branches();
    meet();
    for (i = 0; i < 300; i++) {
        kernel(body_loop_jnz, 0);
    }
    ap_insns = rdmsr(MSR_FIXED_CTR(0));
    ap_branches = rdmsr(MSR_PMC(0));
}

static void ap_idle(void)
{
    ap_insns = rdmsr(MSR_FIXED_CTR(0));
    ap_branches = rdmsr(MSR_PMC(0));
}

static void case_smp_independent(void)
{
    int i;

    pmu_enable = COUNTERS_MASK;
    start_ap();
    barrier = 0;
    call_ap(ap_loop);
    count_insns_and_branches();
    meet();
    for (i = 0; i < 1000; i++) {
        kernel(body_calls, 0);
    }
    call_ap_wait();
    check("instructions of CPU 0", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
          1000 * (501 + KERNEL_INSNS));
    check("branches of CPU 0", NO_STEP, rdmsr(MSR_PMC(0)), 1000 * 302);
    check("instructions of CPU 1", NO_STEP, ap_insns,
          300 * (3001 + KERNEL_INSNS));
    check("branches of CPU 1", NO_STEP, ap_branches, 300 * 1002);

    /* What CPU 0 enables is not enabled on CPU 1. */
    wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK);
    call_ap(ap_idle);
    call_ap_wait();
    wrmsr(MSR_GLOBAL_CTRL, 0);
    check("instructions of CPU 1 afterwards", NO_STEP, ap_insns,
          300 * (3001 + KERNEL_INSNS));
    check("branches of CPU 1 afterwards", NO_STEP, ap_branches, 300 * 1002);
}

#define LOCK_TURNS  1000

static void lock_turns(void)
{
    count_insns_and_branches();
    meet();
    kernel(body_locked, LOCK_TURNS);
}

static void ap_lock(void)
{
    lock_turns();
    ap_insns = rdmsr(MSR_FIXED_CTR(0));
    ap_branches = rdmsr(MSR_PMC(0));
}

/* Atomic instructions, for some of which QEMU stops the other CPU */
static void case_smp_lock(void)
{
    pmu_enable = COUNTERS_MASK;
    memset(payload_lock, 0, sizeof(payload_lock));
    start_ap();
    barrier = 0;
    call_ap(ap_lock);
    lock_turns();
    call_ap_wait();
    check("sum", NO_STEP, payload_lock[0], 2 * LOCK_TURNS);
    check("instructions of CPU 0", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
          2 + 8 * LOCK_TURNS + KERNEL_INSNS);
    check("branches of CPU 0", NO_STEP, rdmsr(MSR_PMC(0)), LOCK_TURNS + 2);
    check("instructions of CPU 1", NO_STEP, ap_insns,
          2 + 8 * LOCK_TURNS + KERNEL_INSNS);
    check("branches of CPU 1", NO_STEP, ap_branches, LOCK_TURNS + 2);
}

#define IOAPIC_INDEX        (*(Shared32 *)0xfec00000)
#define IOAPIC_DATA         (*(Shared32 *)0xfec00010)
#define IOAPIC_VERSION      1
#define PCI_ADDRESS         0xcf8
#define PCI_DATA            0xcfc
#define PCI_ENABLE          0x80000000u
#define Q35_PCIEXBAR        0x60    /* of 0:00.0: where ECAM is */
#define PCIEXBAR_ON         0xb0000001u
#define MAP_TURNS           1000

static Shared64 map_wrong, map_reads;
static Shared32 map_done;

/*
 * A wrong value needs a read that caches the translation, and one that begins
 * when the new map is there, but not yet the request to flush: times that
 * match now and then, as a change of the map takes QEMU some 10 us.
 */
static void pause_some(void)
{
    Shared64 turns = random() % 200000;

    while (turns) {
        turns--;
    }
}

static void ap_read_device(void)
{
    uint32_t version;

    IOAPIC_INDEX = IOAPIC_VERSION;
    version = IOAPIC_DATA;
    map_wrong = version == 0;
    map_reads = 0;
    meet();
    do {
        pause_some();
        map_wrong += IOAPIC_DATA != version;
        map_reads++;
    } while (!map_done);
}

/*
 * One CPU changes the map of memory while another one reads a register of a
 * device, to whose place in the old map it has a cached translation.
 */
static void case_smp_map(void)
{
    int i, turns;

    set_random_seed(1);
    start_ap();
    barrier = 0;
    map_done = 0;
    call_ap(ap_read_device);
    meet();
    /* CPUs that take turns never meet, and each change takes one turn */
    turns = MAILBOX(MAILBOX_CONFIG) & CONFIG_TURNS ? 10 : MAP_TURNS;
    for (i = 0; i < turns; i++) {
        outl(PCI_ADDRESS, PCI_ENABLE | Q35_PCIEXBAR);
        outl(PCI_DATA, i & 1 ? 0 : PCIEXBAR_ON);
        pause_some();
    }
    map_done = 1;
    call_ap_wait();
    check("reads of something else", NO_STEP, map_wrong, 0);
}

/*
 * CPU 1 calls a function that CPU 0 writes, which returns the next number each
 * time. If CPU 1 translates it while it is being written, it must not go on
 * with what was there before.
 */
#define CODE_PAGE           (GUEST_CODE_AREA + 0x1000)  /* the second one */
#define CODE_CALLER         (GUEST_CODE_AREA + 0x100)
#define CODE_RET            (CODE_PAGE + 0x100)
#define CODE_END            UINT32_MAX
#define CODE_TICKS          1000000000ull   /* of the TSC: less than 1 s */

static struct {
    Shared32 number, seen;
    uint32_t wrong;
    int offset;             /* of the function, to the second page */
} code;

/* Both pages have other code all the time: QEMU looks at each store to them. */
static void ap_call_code(void)
{
    uint32_t (*caller)(Shared32 *, uint32_t, uintptr_t, uintptr_t) =
        (void *)CODE_CALLER;

    code.wrong = caller(&code.number, CODE_END, CODE_PAGE + code.offset,
                        CODE_RET);
}

/* One store of 1 to 16 bytes */
static void store_code(int offset, const uint8_t *from, unsigned size)
{
    void *to = (void *)(uintptr_t)(CODE_PAGE + offset);

    switch (size) {
    case 1:
        asm volatile("movb %1, %0" : "=m"(*(uint8_t *)to) : "q"(*from));
        break;
    case 2:
        asm volatile("movw %1, %0" : "=m"(*(uint16_t *)to) :
                     "r"(*(const uint16_t *)from));
        break;
    case 4:
        asm volatile("movl %1, %0" : "=m"(*(uint32_t *)to) :
                     "r"(*(const uint32_t *)from));
        break;
    case 8:
        asm volatile("movq %1, %0" : "=m"(*(uint64_t *)to) :
                     "r"(*(const uint64_t *)from));
        break;
    default:
        asm volatile("movdqu (%1), %%xmm0; movdqu %%xmm0, (%0)" : :
                     "r"(to), "r"(from) : "memory");
    }
}

static void case_smp_code(void)
{
    static const struct {
        int function, store;
        unsigned size;
    } t[] = {
        /* In one page */
        { -64, -63, 1 }, { -64, -64, 2 }, { -64, -64, 4 }, { -64, -64, 8 },
        { -64, -64, 16 },
        /* In two, and what changes is in the first one */
        { -2, -1, 2 }, { -2, -2, 4 }, { -2, -4, 8 }, { -2, -8, 16 },
        { -2, -4, 16 }, { -2, -12, 16 },
        /* Or in the second one, and so is all of the function, or not */
        { 0, -2, 4 }, { 0, -4, 8 }, { 0, -8, 16 }, { 0, -4, 16 },
        { 0, -12, 16 }, { -1, -1, 2 },
    };
    /* MOV $number, %EAX; RET */
    static const uint8_t function[] = { 0xb8, 0, 0, 0, 0, 0xc3 };
    uint8_t bytes[128], *middle = bytes + 64;
    uint64_t begin;
    uint32_t n, rounds;
    int i;

    memcpy((void *)CODE_CALLER, payload_caller,
           payload_caller_end - payload_caller);
    *(uint8_t *)CODE_RET = 0xc3;
    write_cr4(read_cr4() | CR4_OSFXSR);
    start_ap();
    for (i = 0; i < ARRAY_SIZE(t); i++) {
        memset(bytes, 0x90, sizeof(bytes));
        memcpy(middle + t[i].function, function, sizeof(function));
        memcpy((void *)(CODE_PAGE - 64), bytes, sizeof(bytes));
        code.number = 0;
        code.seen = CODE_END;
        code.offset = t[i].function;
        call_ap(ap_call_code);
        /* In one page, the race is rarer. */
        rounds = t[i].function == -64 ? 30000 : 5000;
        begin = rdtsc();
        for (n = 1; n <= rounds; n++) {
            /* CPUs that share one of the host's are slow. */
            if (!(n & 255) && rdtsc() - begin > CODE_TICKS) {
                break;
            }
            middle[t[i].function + 1] = n;
            store_code(t[i].store, middle + t[i].store, t[i].size);
            code.number = n;
            while (code.seen != n) {
                asm volatile("" : : : "memory");
            }
        }
        code.number = CODE_END;
        call_ap_wait();
        check("old code", i, code.wrong, 0);
    }
    write_cr4(read_cr4() & ~CR4_OSFXSR);
}

#define INIT_TURNS  100000

static void ap_fill(void)
{
    int i;

    case_dirty();
    wrmsr(MSR_EVTSEL(0), EV_INSNS | EVTSEL_OS | EVTSEL_EN);
    wrmsr(MSR_GLOBAL_CTRL, FIXED_MASK | 0x55);
    ap_before = rdmsr(MSR_PMC(0));
    /* These must not be lost, although nobody looks before INIT */
    for (i = 0; i < INIT_TURNS; i++) {
        asm volatile("nop");
    }
}

static void ap_read(void)
{
    int i;

    ap_after = rdmsr(MSR_PMC(0));
    for (i = 0; i < 3; i++) {
        ap_msr[i] = rdmsr(MSR_FIXED_CTR(i));
    }
    ap_msr[3] = rdmsr(MSR_PMC(7));
    ap_msr[4] = rdmsr(MSR_EVTSEL(0));
    ap_msr[5] = rdmsr(MSR_EVTSEL(7));
    ap_msr[6] = rdmsr(MSR_FIXED_CTR_CTRL);
    ap_msr[7] = rdmsr(MSR_GLOBAL_CTRL);
    ap_msr[8] = rdmsr(MSR_GLOBAL_STATUS);
    ap_msr[9] = rdmsr(MSR_DEBUGCTL);
}

/* INIT keeps the registers of ap_fill(), but clears DEBUGCTL. */
static void check_init(void)
{
    check("FIXED_CTR", 0, ap_msr[0], 0x876543210000);
    check("FIXED_CTR", 1, ap_msr[1], 0x876543210001);
    check("FIXED_CTR", 2, ap_msr[2], 0x876543210002);
    check("PMC", 7, ap_msr[3], 0x123456780007);
    check("EVTSEL", 0, ap_msr[4], EV_INSNS | EVTSEL_OS | EVTSEL_EN);
    check("EVTSEL", 7, ap_msr[5],
          EV_INSNS | EVTSEL_USR | EVTSEL_EN | EVTSEL_INT);
    check("FIXED_CTR_CTRL", NO_STEP, ap_msr[6], FIXED_CTRL_ALL_USR);
    check("GLOBAL_CTRL", NO_STEP, ap_msr[7], FIXED_MASK | 0x55);
    check("GLOBAL_STATUS", NO_STEP, ap_msr[8], COUNTERS_MASK);
    check("DEBUGCTL", NO_STEP, ap_msr[9], 0);
}

/* The counters also go on counting. */
static void case_smp_init(void)
{
    start_ap();
    call_ap(ap_fill);
    call_ap_wait();
    start_ap();
    call_ap(ap_read);
    call_ap_wait();
    check_range("running counter", NO_STEP, ap_after,
                ap_before + 2 * INIT_TURNS, WIDTH_MASK);
    check_init();
    call_ap(pmu_reset);
    call_ap_wait();
}

/* The same for the first CPU, which goes on at the reset vector */
static void case_init(void)
{
    ap_fill();
    apic_write(APIC_ICR + 0x10, 0);
    apic_write(APIC_ICR, 0x4500);
    for (;;) {
        asm volatile("pause" : : : "memory");
    }
}

static void case_init_kept(void)
{
    ap_read();
    check_init();
    pmu_reset();
}

static Shared32 ap_parked;

static bool hook_park(Frame *f)
{
    if (f->vector != VEC_BP) {
        return false;
    }
    ap_parked = true;
    for (;;) {
        asm volatile("pause" : : : "memory");
    }
}

/* The interrupt is due at CPL 3, to which the CPU does not come back. */
static void ap_park(void)
{
    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
    /* CALL, NOP, INT3 */
    wrmsr(MSR_A_PMC(0), negative(3));
    this_cpu()->hook = hook_park;
    user(body_breakpoint, 0);
}

static void ap_unpark(void)
{
    ap_msr[1] = apic_read(APIC_LVTPC);
    apic_write(APIC_LVTPC, LVT_NMI);
    ap_msr[0] = rdmsr(MSR_GLOBAL_STATUS);
    ap_msr[2] = rdmsr(MSR_A_PMC(0));
    user(body_straight, 0);
    ap_msr[3] = rdmsr(MSR_A_PMC(0));
    ap_msr[4] = this_cpu()->pmis;
    pmu_reset();
}

/*
 * INIT keeps an overflow, but not its interrupt: SDM volume 3, "Processor State
 * After Reset" for the PMU, and "Local APIC State After an INIT Reset" for the
 * vector table.
 */
static void case_smp_init_due(void)
{
    pmu_enable = COUNTERS_MASK;
    start_ap();
    ap_parked = false;
    call_ap(ap_park);
    while (!ap_parked) {
        asm volatile("pause" : : : "memory");
    }
    start_ap();
    call_ap(ap_unpark);
    call_ap_wait();
    check("status", NO_STEP, ap_msr[0], 1);
    check("LVTPC", NO_STEP, ap_msr[1], LVT_MASKED);
    check("counter", NO_STEP, ap_msr[2], 0);
    check("counter afterwards", NO_STEP, ap_msr[3], 23 + 3);
    check("interrupts", NO_STEP, ap_msr[4], 0);
}

/* By qtest, before and after a RESET: it clears what two INITs have kept. */
static void case_smp_reset(void)
{
    start_ap();
    call_ap(case_reset_values);
    call_ap_wait();
    start_ap();
    call_ap(case_dirty);
    call_ap_wait();
}

/* -------------------------------------------------- With the qtest's help */

/*
 * Numbers that must be the same in each run. If time depends on nothing but
 * instructions, timer interrupts have their place among them.
 */
static void case_values(void)
{
    static const uint16_t codes[MOST_GP_COUNTERS] = {
        EV_INSNS, EV_BRANCHES, EV_CYCLES, EV_REF_CYCLES, EV_LLC_REFS,
        EV_LLC_MISSES, EV_BRANCH_MISSES, EV_TAKEN,
    };
    bool timer = MAILBOX(MAILBOX_CONFIG) & CONFIG_TIMER;
    int i, j, turn;

    for (turn = 0; turn < 2; turn++) {
        for (j = 0; j < ARRAY_SIZE(plain_code) + timer; j++) {
            pmu_reset();
            context(j < ARRAY_SIZE(plain_code) ? plain_code[j].name
                                               : "timer");
            pmu_enable = COUNTERS_MASK;
            for (i = 0; i < GP_COUNTERS; i++) {
                program(i, codes[i] | EVTSEL_OS | EVTSEL_USR |
                           (turn && i > 5 ? EVTSEL_CMASK(1) | EVTSEL_INV : 0));
            }
            for (i = 0; i < FIXED_COUNTERS; i++) {
                program_fixed(i, FIXED_OS | FIXED_USR);
            }
            if (j < ARRAY_SIZE(plain_code)) {
                kernel(plain_code[j].body, 0);
                user(plain_code[j].body, 0);
            } else {
                set_gate(VEC_TIMER, timer_return, 0);
                run_user_flags = 2 | RFLAGS_IF;
                payload_irqs = 0;
                apic_timer(100000, true);
                user(body_until_irqs, 5);
                apic_timer(0, false);
                interrupts();
                run_user_flags = 2;
                set_trap_gate(VEC_TIMER);
                value("turns", NO_STEP, payload_result[0]);
            }
            for (i = 0; i < GP_COUNTERS; i++) {
                value("counter", i, rdmsr(MSR_PMC(i)));
            }
            for (i = 0; i < FIXED_COUNTERS; i++) {
                value("fixed counter", i, rdmsr(MSR_FIXED_CTR(i)));
            }
        }
        context("");
        /* PMIs by slots, whose place is exact */
        pmu_reset();
        pmu_enable = COUNTERS_MASK;
        for (i = 0; i < 10; i++) {
            apic_write(APIC_LVTPC, LVT_NMI);
            program(0, EV_SLOTS | EVTSEL_USR | EVTSEL_INT);
            wrmsr(MSR_A_PMC(0), negative(85 + 205 * i));
            user(body_loop_jnz, 0);
            value("PMI at", i, this_cpu()->pmi_rip);
            value("PMIs", i, this_cpu()->pmis);
        }
    }
}

#define MIGRATE_INSNS   150000000

static bool hook_migrate(Frame *f)
{
    if (f->vector != VEC_NMI) {
        return false;
    }
    payload_result[1] = 1;
    wrmsr(MSR_GLOBAL_CTRL, rdmsr(MSR_GLOBAL_CTRL));
    pmi_acknowledge();
    return true;
}

/* A program that ends when its PMI comes; the qtest migrates before that. */
static void case_migrate(void)
{
    Cpu *cpu = this_cpu();
    uint64_t turns;

    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    apic_write(APIC_LVTPC, LVT_NMI);
    program(0, EV_BRANCHES | EVTSEL_USR);
    program(1, EV_INSNS | EVTSEL_USR | EVTSEL_INT);
    wrmsr(MSR_A_PMC(1), negative(MIGRATE_INSNS));
    program_fixed(0, FIXED_USR);
    wrmsr(MSR_FIXED_CTR(2), 0xabcdef012345);
    wrmsr(MSR_DEBUGCTL, DEBUGCTL_FREEZE_SMM);
    wrmsr(MSR_STATUS_SET, FIXED_BIT(2) | STATUS_DS);
    payload_result[1] = 0;
    cpu->hook = hook_migrate;
    MAILBOX(MAILBOX_PHASE) = 1;
    user(body_until_event, 0);
    MAILBOX(MAILBOX_PHASE) = 2;
    cpu->hook = NULL;

    turns = payload_result[0];
    check("PMIs", NO_STEP, cpu->pmis, 1);
    check("status in the handler", NO_STEP, cpu->pmi_status,
          2 | FIXED_BIT(2) | STATUS_DS);
    check("instructions", NO_STEP, rdmsr(MSR_FIXED_CTR(0)),
          2 + 3 * turns + 3);
    check("branches", NO_STEP, rdmsr(MSR_PMC(0)), turns + 3);
    /* The PMI ends the loop after one or two more turns. */
    check_range("instructions after the PMI", NO_STEP, rdmsr(MSR_PMC(1)), 1,
                12);
    check("FIXED_CTR2", NO_STEP, rdmsr(MSR_FIXED_CTR(2)), 0xabcdef012345);
    check("DEBUGCTL", NO_STEP, rdmsr(MSR_DEBUGCTL), DEBUGCTL_FREEZE_SMM);
    check("EVTSEL1", NO_STEP, rdmsr(MSR_EVTSEL(1)),
          EV_INSNS | EVTSEL_USR | EVTSEL_INT | EVTSEL_EN);
}

/*
 * RESET leaves bits in GLOBAL_CTRL, and so does the start of QEMU. The others
 * have sections of their own, which only streams with 0 in them do without.
 */
static void case_migrate_zero(void)
{
    pmu_reset();
    wrmsr(MSR_FIXED_CTR(3), 1);
    wrmsr(MSR_PERF_METRICS, 1);
    wait_for_host();
    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL), 0);
    check("FIXED_CTR3", NO_STEP, rdmsr(MSR_FIXED_CTR(3)), 1);
    check("PERF_METRICS", NO_STEP, rdmsr(MSR_PERF_METRICS), 1);
}

/* For ever: counters are written, functions called, memory is read */
static void case_migrate_refused(void)
{
    static uint32_t word;

    pmu_reset();
    wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK);
    /* Not wait_for_host(), whose return would change what is predicted */
    MAILBOX(MAILBOX_PHASE) = 1;
    while (MAILBOX(MAILBOX_PHASE) != 2) {
        asm volatile("pause" : : : "memory");
    }
    while (true) {
        wrmsr(MSR_EVTSEL(0), EV_INSNS | EVTSEL_OS | EVTSEL_EN);
        /* With an even return address, which may be that of a uint64_t */
        asm volatile(".balign 8; nop; nop; nop; call 1f; jmp 2f; 1: ret; "
                     "2: mov %0, %%eax" : : "m"(word) : "eax", "memory");
    }
}

/* Counters are frozen; without a look at the PMU, its interrupt comes. */
static void case_migrate_pending(void)
{
    Cpu *cpu = this_cpu();
    int i;

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI);
    wrmsr(MSR_EVTSEL(0), EV_INSNS | EVTSEL_OS | EVTSEL_EN);
    wrmsr(MSR_STATUS_SET, STATUS_FROZEN);
    wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK);
    wait_for_host();
    for (i = 0; i < 1000; i++) {
        asm volatile("pause" : : : "memory");
    }
    check("interrupts", NO_STEP, cpu->pmis, 1);
    check_range("counter", NO_STEP, rdmsr(MSR_PMC(0)), 1000, WIDTH_MASK);
    pmu_reset();
}

/* The qtest sets all bits of the registers in the stream. */
static void case_migrate_ones(void)
{
    uint64_t fixed = 0;
    int i;

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI | LVT_MASKED);
    wrmsr(MSR_EVTSEL(0), EV_INSNS);
    /* Only what is not 0 is in the stream. */
    wrmsr(MSR_FIXED_CTR(3), 1);
    wrmsr(MSR_PERF_METRICS, 1);
    wait_for_host();
    for (i = 0; i < GP_COUNTERS; i++) {
        check("EVTSEL", i, rdmsr(MSR_EVTSEL(i)), 0xffdfffff);
        check("PMC", i, rdmsr(MSR_PMC(i)), WIDTH_MASK);
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        fixed |= (FIXED_OS | FIXED_USR | FIXED_PMI) << 4 * i;
    }
    for (i = 0; i < FIXED_COUNTERS; i++) {
        check("FIXED_CTR", i, rdmsr(MSR_FIXED_CTR(i)), WIDTH_MASK);
    }
    /* Level 1 only */
    check("PERF_METRICS", NO_STEP, rdmsr(MSR_PERF_METRICS), 0xffffffff);
    check("FIXED_CTR_CTRL", NO_STEP, rdmsr(MSR_FIXED_CTR_CTRL), fixed);
    check("GLOBAL_CTRL", NO_STEP, rdmsr(MSR_GLOBAL_CTRL),
          COUNTERS_MASK | METRICS_MASK);
    /* Frozen by it */
    check("GLOBAL_STATUS", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), STATUS_MASK);
    check("DEBUGCTL", NO_STEP, rdmsr(MSR_DEBUGCTL),
          BIT(0) | BIT(1) | BIT(11) | BIT(12) | BIT(14));
    pmu_reset();
}

#define MANY_NOPS       500

/* What a counter that is on counts of them */
static uint64_t count_nops(unsigned counter)
{
    uint64_t before = rdmsr(MSR_PMC(counter));

    asm volatile(".fill %c0, 1, 0x90" : : "i"(MANY_NOPS));
    return rdmsr(MSR_PMC(counter)) - before;
}

/*
 * The qtest sets all bits of what the stream has besides the registers.
 * Counters that are on go on as before, from what software writes.
 */
static void case_migrate_state_ones(void)
{
    static const uint64_t selects[] = {
        EV_INSNS, EV_CYCLES, EV_INSNS | EVTSEL_CMASK(5),
    };
    static const uint32_t stores[] = { 0x1a6, 0x1a7, 0x3f6, 0x3f7 };
    uint64_t before[ARRAY_SIZE(selects)], metrics, sum = 0;
    int i;

    pmu_reset();
    apic_write(APIC_LVTPC, LVT_NMI | LVT_MASKED);
    for (i = 0; i < ARRAY_SIZE(selects); i++) {
        wrmsr(MSR_EVTSEL(i), selects[i] | EVTSEL_OS | EVTSEL_EN);
    }
    wrmsr(MSR_FIXED_CTR_CTRL, FIXED_OS << 12);
    wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK | METRICS_MASK);
    for (i = 0; i < ARRAY_SIZE(selects); i++) {
        before[i] = count_nops(i);
    }
    check_range("NOPs", NO_STEP, before[0], MANY_NOPS, MANY_NOPS + 20);
    wait_for_host();
    metrics = rdmsr(MSR_PERF_METRICS);
    for (i = 0; i < 4; i++) {
        sum += metrics >> 8 * i & 0xff;
    }
    check("PERF_METRICS", NO_STEP, sum, 255);
    for (i = 0; i < ARRAY_SIZE(selects); i++) {
        wrmsr(MSR_A_PMC(i), 0);
        /* A fraction of a cycle */
        check_range("count", i, count_nops(i) + 1, before[i], before[i] + 2);
    }
    for (i = 0; i < ARRAY_SIZE(stores); i++) {
        check("may be written", i,
              wrmsr_safe(stores[i], rdmsr(stores[i])), 0);
    }
    pmu_reset();
}

static uint64_t random_value(void)
{
    uint64_t r = random();

    switch (r & 7) {
    case 0:
        return BIT(r >> 8 & 63);
    case 1:
        return negative(r >> 8 & 0xffff);
    case 2:
        return COUNTERS_MASK & (r >> 8 | r << 24);
    case 3:
        return r >> 8 & 0xff;
    case 4:
        return EVTSEL_OS | EVTSEL_EN | (r >> 8 & 0x1000ff) |
               (r & BIT(40) ? EV_INSNS : EV_CYCLES);
    case 5:
        return random() & 0xbbb;
    case 6:
        return random() & STATUS_MASK;
    default:
        return random();
    }
}

/*
 * MAILBOX_ARG: the seed. No rule about each operation, but QEMU survives, the
 * PMIs end, the status can be cleared, and the counters are exact afterwards.
 */
static void case_monkey(void)
{
    static const uint32_t msrs[] = {
        MSR_PMC(0), MSR_EVTSEL(0), MSR_FIXED_CTR(0), MSR_FIXED_CTR(3),
        MSR_PERF_METRICS, MSR_PERF_CAP, MSR_FIXED_CTR_CTRL,
        MSR_GLOBAL_STATUS, MSR_GLOBAL_CTRL, MSR_GLOBAL_CTRL,
        MSR_STATUS_RESET, MSR_STATUS_SET, MSR_GLOBAL_INUSE, MSR_A_PMC(0),
        MSR_DEBUGCTL, MSR_MISC_ENABLE,
    };
    static const Expected e = {
        "afterwards", body_calls, 0,
        { 501, 300, 100, 100, 100, 299, 100, 100 }
    };
    static const uint32_t lvt[] = { VEC_PMI, LVT_NMI, LVT_MASKED, LVT_NMI };
    Cpu *cpu = this_cpu();
    uint64_t misc = rdmsr(MSR_MISC_ENABLE), v;
    int i;

    pmu_reset();
    set_random_seed(MAILBOX_64(MAILBOX_ARG));
    for (i = 0; i < 20000; i++) {
        uint64_t r = random();
        uint32_t msr = msrs[r % ARRAY_SIZE(msrs)];

        if (msr == MSR_PMC(0) || msr == MSR_EVTSEL(0) ||
            msr == MSR_A_PMC(0)) {
            msr += r >> 32 & 15;
        } else if (msr == MSR_FIXED_CTR(0)) {
            msr += (r >> 32 & 15) % 6;
        }
        switch (r >> 40 & 7) {
        case 0:
            rdmsr_safe(msr, &v);
            break;
        case 1:
            rdpmc_safe(random(), &v);
            break;
        case 2:
            rdpmc_safe((r >> 48 & 0x4000000f), &v);
            break;
        case 3:
            apic_write(APIC_LVTPC, lvt[r >> 48 & 3]);
            interrupts();
            break;
        default:
            wrmsr_safe(msr, random_value());
            break;
        }
        if ((i & 63) == 0) {
            kernel(body_straight, 0);
            user(body_memory, 0);
        }
        if ((i & 255) == 0) {
            arm(r >> 52 & 7, EV_INSNS, negative(r >> 56), true);
            wrmsr(MSR_GLOBAL_CTRL, COUNTERS_MASK);
        }
        /* So that it does not stop for good */
        if ((i & 15) == 0) {
            wrmsr(MSR_STATUS_RESET, rdmsr(MSR_GLOBAL_STATUS));
        }
    }
    wrmsr(MSR_MISC_ENABLE, misc);
    wrmsr(MSR_GLOBAL_CTRL, 0);
    wrmsr(MSR_STATUS_RESET, STATUS_MASK);
    check("status", NO_STEP, rdmsr(MSR_GLOBAL_STATUS), 0);
    check_range("PMIs", NO_STEP, cpu->pmis, 1, 100000);
    pmu_reset();
    pmu_enable = COUNTERS_MASK;
    measure_kernel(&e, NO_STEP);
}

/* ----------------------------------------------------------- The table */

const GuestCase pmu_cases[GUEST_CASE(all)] = {
#define X(sym, path, flags) [GUEST_CASE(sym)] = { case_##sym, flags, path },
    MODES_CASES(X)
    PMU_CASES(X)
#undef X
};
