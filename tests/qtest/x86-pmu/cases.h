/*
 * The test cases of the x86 PMU qtests and of the program that they boot
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
#define CASE_PRECISE        8       /* needs pmu-model=precise */

/* In modes.c, and in one array with PMU_CASES */
#define MODES_CASES(X)                                                      \
    X(modes_sse, "modes/accesses-of-sse", 0)                                \
    X(modes_avx, "modes/accesses-of-avx", 0)                                \
    X(modes_exchange, "modes/accesses-of-64-bit-code", 0)                   \
    X(modes_no_access, "modes/no-access", 0)                                \
    X(modes_vmmcall, "modes/vmmcall", 0)                                    \
    X(modes_io, "modes/io-breakpoint", 0)                                   \
    X(modes_into, "modes/into", 0)                                          \
    X(modes_compat_32, "modes/32-bit-code", 0)                              \
    X(modes_compat_16, "modes/16-bit-code", 0)                              \
    X(modes_legacy_32, "modes/protected-mode", 0)                           \
    X(modes_real, "modes/real-mode", 0)                                     \
    X(modes_v86, "modes/virtual-8086", 0)

#define PMU_CASES(X)                                                        \
    X(reset_values, "registers/after-reset", CASE_MANUAL)                   \
    X(dirty, "registers/dirty", CASE_MANUAL)                                \
    X(smp_reset, "smp/reset", CASE_MANUAL)                                  \
    X(no_pmu, "no-pmu/guest", CASE_MANUAL)                                  \
    X(svm_int, "svm/int", CASE_MANUAL)                                      \
    X(svm_pmu, "svm/pmu", CASE_MANUAL)                                      \
    X(no_apic, "no-apic", CASE_MANUAL)                                      \
    X(init, "init/fill", CASE_MANUAL)                                       \
    X(init_kept, "init/kept", CASE_MANUAL)                                  \
    X(no_pmu_intel, "no-pmu/intel", CASE_MANUAL)                            \
    X(no_full_width, "registers/no-full-width", CASE_MANUAL)                \
    X(values, "values", CASE_MANUAL)                                        \
    X(migrate, "migrate", CASE_MANUAL)                                      \
    X(migrate_zero, "migrate/zero", CASE_MANUAL)                            \
    X(migrate_refused, "migrate/refused", CASE_MANUAL)                      \
    X(migrate_pending, "migrate/pending", CASE_MANUAL)                      \
    X(migrate_ones, "migrate/ones", CASE_MANUAL)                            \
    X(migrate_state_ones, "migrate/state-ones", CASE_MANUAL)                \
    X(endless, "stop/endless", CASE_MANUAL)                                 \
    X(info, "info/halted", CASE_MANUAL)                                     \
    X(monkey, "bad-input/random", CASE_MANUAL)                              \
    X(random_programs, "random/programs", CASE_MANUAL)                      \
    X(cpuid, "cpuid", 0)                                                    \
    X(msr_write, "registers/write", 0)                                      \
    X(msr_absent, "registers/absent", 0)                                    \
    X(msr_read_only, "registers/read-only", 0)                              \
    X(counter_width, "registers/counter-width", 0)                          \
    X(shape, "registers/shape", 0)                                          \
    X(global_status, "registers/global-status", 0)                          \
    X(global_reset, "registers/global-reset", 0)                            \
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
    X(count_late_fault, "count/late-fault", 0)                              \
    X(count_faults, "count/faults", 0)                                      \
    X(count_syscall, "count/syscall", 0)                                    \
    X(count_int, "count/int", 0)                                            \
    X(count_mmio, "count/mmio", 0)                                          \
    X(count_smc, "count/self-modifying", 0)                                 \
    X(count_single_step, "count/single-step", 0)                            \
    X(count_watchpoint, "count/watchpoint", 0)                              \
    X(debug_reasons, "debug/reasons", 0)                                    \
    X(count_halt, "count/halt", 0)                                          \
    X(count_interrupt, "count/interrupt", 0)                                \
    X(count_both_rings, "count/both-rings", 0)                              \
    X(count_fraction, "count/fraction", 0)                                  \
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
    X(pmi_apic_off, "pmi/apic-disabled", 0)                                 \
    X(pmi_no_status, "pmi/status-set-by-software", 0)                       \
    X(pmi_skid_branch, "pmi/skid-branches", 0)                              \
    X(pmi_skid_insn, "pmi/skid-instructions", 0)                            \
    X(pmi_inhibited, "pmi/inhibited", 0)                                    \
    X(pmi_skid_far, "pmi/skid-far-branches", 0)                             \
    X(pmi_skid_store, "pmi/skid-stores", 0)                                 \
    X(pmi_elsewhere, "pmi/at-another-privilege", 0)                         \
    X(pmi_both, "pmi/of-both-privileges", 0)                                \
    X(pmi_sti, "pmi/at-another-privilege-behind-sti", 0)                    \
    X(pmi_undefined, "pmi/undefined-instruction", 0)                        \
    X(pmi_full_block, "pmi/full-block", 0)                                  \
    X(pmi_away, "pmi/away", CASE_MANUAL)                                    \
    X(pmi_pending, "pmi/pending", CASE_MANUAL)                              \
    X(pmi_slices, "pmi/slices", CASE_MANUAL)                                \
    X(pmi_fault, "pmi/fault", 0)                                            \
    X(pmi_interrupt, "pmi/interrupt", 0)                                    \
    X(pmi_split_lock, "pmi/split-lock", CASE_SMP)                           \
    X(pmi_halt, "pmi/halt", 0)                                              \
    X(pmi_sampling, "pmi/sampling", 0)                                      \
    X(pmi_freeze, "pmi/freeze", 0)                                          \
    X(pmi_no_reason, "pmi/no-reason", 0)                                    \
    X(pmi_storm, "pmi/storm", 0)                                            \
    X(smm_count, "smm/count", 0)                                            \
    X(smm_pmi, "smm/pmi", 0)                                                \
    X(irq_self, "irq/to-itself", 0)                                         \
    X(irq_timer, "irq/timer", 0)                                            \
    X(irq_cpu, "irq/from-other-cpu", CASE_SMP)                              \
    X(smp_independent, "smp/independent", CASE_SMP)                         \
    X(smp_lock, "smp/lock", CASE_SMP)                                       \
    X(smp_map, "smp/map-of-memory", CASE_SMP)                               \
    X(smp_code, "smp/code-written-by-other-cpu", CASE_MANUAL)               \
    X(smp_init, "smp/init", CASE_SMP)                                       \
    X(smp_init_due, "smp/init-with-overflow-due", CASE_SMP)                 \
    X(pmi_x2apic, "pmi/x2apic", CASE_LAST)

#define TOPDOWN_CASES(X)                                                    \
    X(td_reset_values, "registers/after-reset", CASE_MANUAL)                \
    X(td_no_metrics, "registers/no-metrics", CASE_MANUAL)                   \
    X(td_difference, "events/difference", CASE_MANUAL)                      \
    X(td_zero, "events/zero", CASE_MANUAL)                                  \
    X(td_fill, "registers/fill", CASE_MANUAL)                               \
    X(td_filled, "registers/filled", CASE_MANUAL)                           \
    X(td_default_limit, "overflow/default-limit", CASE_MANUAL)              \
    X(td_pinned, "pinned/mix", CASE_MANUAL)                                 \
    X(td_pinned_ap, "pinned/mix-of-cpu-1", CASE_MANUAL)                     \
    X(td_pinned_change, "pinned/change", CASE_MANUAL)                       \
    X(td_pinned_bandwidth, "pinned/bandwidth", CASE_MANUAL)                 \
    X(td_migrate, "migrate/counting", CASE_MANUAL)                          \
    X(td_migrate_overflow, "migrate/overflow", CASE_MANUAL)                 \
    X(td_migrate_models, "migrate/models", CASE_MANUAL)                     \
    X(td_freeze_stop, "migrate/freeze", CASE_MANUAL)                        \
    X(td_migrate_filter, "migrate/filter", CASE_MANUAL)                     \
    X(td_unplug, "hotplug/unplug", CASE_MANUAL)                             \
    X(td_extra_fill, "registers/offcore-fill", CASE_MANUAL)                 \
    X(td_extra_check, "registers/offcore-check", CASE_MANUAL)               \
    X(td_values, "values", CASE_MANUAL)                                     \
    X(td_random, "bad-input/random", CASE_MANUAL)                           \
    X(td_metrics, "registers/metrics", 0)                                   \
    X(td_verbatim, "registers/verbatim-until-slots-arrive", 0)              \
    X(td_global_ctrl, "registers/global-ctrl-48", 0)                        \
    X(td_global_status, "registers/global-status-48", 0)                    \
    X(td_init, "registers/init", CASE_SMP)                                  \
    X(td_enable, "rule-1/only-while-counter-3-counts", 0)                   \
    X(td_filter, "rule-1/os-usr-filter", 0)                                 \
    X(td_order, "rule-2/order-of-writes", 0)                                \
    X(td_restore, "rule-3/restore", 0)                                      \
    X(td_restore_odd, "rule-3/restore-of-what-does-not-add-up", 0)          \
    X(td_restore_shared, "rule-3/two-programs-share-the-cpu", 0)            \
    X(td_rdpmc, "rule-4/rdpmc-is-rdmsr", 0)                                 \
    X(td_overflow_exact, "rule-5/overflow-at-the-limit", 0)                 \
    X(td_overflow_once, "rule-5/once-until-both-are-reset", 0)              \
    X(td_overflow_smaller, "rule-5/again-by-a-smaller-counter", 0)          \
    X(td_overflow_pmi, "rule-5/pmi-right-behind", 0)                        \
    X(td_overflow_handler, "rule-5/handler-resets-both", 0)                 \
    X(td_freeze, "rule-5/freeze", 0)                                        \
    X(td_read_running, "rule-6/read-while-counting", 0)                     \
    X(td_sampling, "rule-7/slots-as-sampling-event", 0)                     \
    X(td_counter_alone, "rule-7/counter-alone-restarts", 0)                 \
    X(td_prices, "static/price-of-each-kind", 0)                            \
    X(td_prices_user, "static/price-at-cpl3", 0)                            \
    X(td_lines, "static/lines-of-memory", 0)                                \
    X(td_retiring, "invariants/retiring-is-instructions", 0)                \
    X(td_fractions, "invariants/no-fraction-is-lost", 0)                    \
    X(td_events, "events/consistent", 0)                                    \
    X(td_event_overflow, "events/overflow", 0)                              \
    X(td_models, "events/by-model", 0)                                      \
    X(td_cycles, "events/cycles-of-categories", 0)                          \
    X(td_identities, "events/identities", 0)                                \
    X(td_divides, "events/divisions-and-pauses", 0)                         \
    X(td_fp, "events/floating-point", 0)                                    \
    X(td_model_overflow, "events/overflow-of-models", 0)                    \
    X(td_filtered_overflow, "events/overflow-of-filtered", 0)               \
    X(td_inverted, "events/inverted-falls-until-read", 0)                   \
    X(td_extra, "registers/offcore-and-pebs", 0)                            \
    X(td_offcore, "events/offcore", 0)                                      \
    X(td_skid, "events/pmi-right-behind", 0)                                \
    X(td_bounds, "events/pmi-of-each", 0)                                   \
    X(td_loose, "events/pmi-of-cycles", 0)                                  \
    X(td_loose_fault, "events/pmi-of-cycles-and-fault", 0)                  \
    X(td_smp, "smp/independent", CASE_SMP)                                  \
    X(tdp_prices, "precise/price-of-what-hits", CASE_PRECISE)               \
    X(tdp_programs, "precise/each-program-its-category", CASE_PRECISE)      \
    X(tdp_data, "precise/data-caches", CASE_PRECISE)                        \
    X(tdp_lines, "precise/lines-of-memory", CASE_PRECISE)                   \
    X(tdp_stack, "precise/stack", CASE_PRECISE)                             \
    X(tdp_privilege, "precise/privilege-of-loads", CASE_PRECISE)            \
    X(tdp_pages, "precise/pages", CASE_PRECISE)                             \
    X(tdp_code, "precise/code-cache", CASE_PRECISE)                         \
    X(tdp_branches, "precise/conditional-branches", CASE_PRECISE)           \
    X(tdp_returns, "precise/returns", CASE_PRECISE)                         \
    X(tdp_faults, "precise/calls-that-fault", CASE_PRECISE)                 \
    X(tdp_indirect, "precise/indirect-jumps", CASE_PRECISE)                 \
    X(tdp_skid, "precise/one-pmi", CASE_PRECISE)                            \
    X(tdp_sum, "precise/leaves-add-up", CASE_PRECISE)                       \
    X(tdp_kinds, "precise/kinds-of-mispredicts", CASE_PRECISE)              \
    X(tdp_missed, "precise/privilege-of-mispredicts", CASE_PRECISE)

/*
 * Number of each: the offset in a structure of bytes; 0 is none of them. "all"
 * are those before it that are not manual, and "all_topdown" those between the
 * two.
 */
typedef struct GuestCaseIndex {
    char none;
#define X(sym, path, flags) char sym;
    MODES_CASES(X)
    PMU_CASES(X)
    char all;
    TOPDOWN_CASES(X)
    char all_topdown;
#undef X
} GuestCaseIndex;

#define GUEST_CASE(sym)     offsetof(GuestCaseIndex, sym)

#endif
