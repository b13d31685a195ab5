/*
 * The test cases of the x86 PMU qtest and of the program that it boots
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_CASES_H
#define X86_PMU_CASES_H

/*
 * Test cases: symbol, path, flags. They leave the PMU behind in any state,
 * and find it in any state.
 */
#define CASE_SMP            1       /* needs a second CPU */
#define CASE_MANUAL         2       /* the qtest does something around it */
#define CASE_LAST           4       /* leaves the APIC in x2APIC mode */

#define GUEST_CASES(X)                                                      \
    X(reset_values, "registers/after-reset", CASE_MANUAL)                   \
    X(dirty, "registers/dirty", CASE_MANUAL)                                \
    X(no_pmu, "no-pmu/guest", CASE_MANUAL)                                  \
    X(no_pmu_intel, "no-pmu/intel", CASE_MANUAL)                            \
    X(no_full_width, "registers/no-full-width", CASE_MANUAL)                \
    X(values, "values", CASE_MANUAL)                                        \
    X(migrate, "migrate", CASE_MANUAL)                                      \
    X(monkey, "bad-input/random", CASE_MANUAL)                              \
    X(cpuid, "cpuid", 0)                                                    \
    X(msr_write, "registers/write", 0)                                      \
    X(msr_absent, "registers/absent", 0)                                    \
    X(msr_read_only, "registers/read-only", 0)                              \
    X(counter_width, "registers/counter-width", 0)                          \
    X(global_status, "registers/global-status", 0)                          \
    X(global_inuse, "registers/global-inuse", 0)                            \
    X(misc_enable, "registers/misc-enable", 0)                              \
    X(rdpmc_index, "rdpmc/index", 0)                                        \
    X(rdpmc_privilege, "rdpmc/privilege", 0)                                \
    X(rdpmc_real_mode, "rdpmc/real-mode", CASE_SMP)                         \
    X(rdpmc_order, "rdpmc/order", 0)                                        \
    X(count_kernel, "count/cpl0", 0)                                        \
    X(count_user, "count/cpl3", 0)                                          \
    X(count_idle, "count/after-idle", 0)                                    \
    X(count_filter, "count/filter", 0)                                      \
    X(count_rep, "count/rep", 0)                                            \
    X(count_rep_fault, "count/rep-page-fault", 0)                           \
    X(count_page_fault, "count/page-fault", 0)                              \
    X(count_faults, "count/faults", 0)                                      \
    X(count_syscall, "count/syscall", 0)                                    \
    X(count_int, "count/int", 0)                                            \
    X(count_mmio, "count/mmio", 0)                                          \
    X(count_smc, "count/self-modifying", 0)                                 \
    X(count_single_step, "count/single-step", 0)                            \
    X(count_watchpoint, "count/watchpoint", 0)                              \
    X(count_halt, "count/halt", 0)                                          \
    X(count_interrupt, "count/interrupt", 0)                                \
    X(count_switch, "count/switch", 0)                                      \
    X(count_unknown, "count/unknown-event", 0)                              \
    X(count_cycles, "count/cycles", 0)                                      \
    X(count_cmask, "count/cmask", 0)                                        \
    X(overflow_exact, "overflow/exact", 0)                                  \
    X(overflow_all, "overflow/each-counter", 0)                             \
    X(overflow_wraps, "overflow/several", 0)                                \
    X(overflow_sticky, "overflow/sticky", 0)                                \
    X(pmi_masked, "pmi/masking", 0)                                         \
    X(pmi_nmi, "pmi/nmi", 0)                                                \
    X(pmi_no_status, "pmi/status-set-by-software", 0)                       \
    X(pmi_skid_branch, "pmi/skid-branches", 0)                              \
    X(pmi_skid_insn, "pmi/skid-instructions", 0)                            \
    X(pmi_skid_far, "pmi/skid-far-branches", 0)                             \
    X(pmi_halt, "pmi/halt", 0)                                              \
    X(pmi_sampling, "pmi/sampling", 0)                                      \
    X(pmi_freeze, "pmi/freeze", 0)                                          \
    X(pmi_storm, "pmi/storm", 0)                                            \
    X(smp_independent, "smp/independent", CASE_SMP)                         \
    X(smp_lock, "smp/lock", CASE_SMP)                                       \
    X(smp_init, "smp/init", CASE_SMP)                                       \
    X(pmi_x2apic, "pmi/x2apic", CASE_LAST)

/* Number of each: the offset in a structure of bytes; 0 is none of them */
typedef struct GuestCaseIndex {
    char none;
#define X(sym, path, flags) char sym;
    GUEST_CASES(X)
#undef X
} GuestCaseIndex;

#define GUEST_CASE(sym)     offsetof(GuestCaseIndex, sym)
/* Every case that is not manual */
#define GUEST_CASE_ALL      sizeof(GuestCaseIndex)

#endif
