/*
 * Code with known issue slots for the TopDown tests; see topdown.S
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_TOPDOWN_H
#define X86_PMU_TOPDOWN_H

/* They count themselves at CPL 0, with pmu_enable in GLOBAL_CTRL. */
#define BLOCKS(X)                                                           \
    X(nops) X(plain) X(loads) X(stores) X(load_ops) X(updates) X(push_pop)  \
    X(taken) X(not_taken) X(jumps) X(jumps_indirect) X(jumps_memory)        \
    X(calls) X(calls_indirect) X(calls_memory) X(loops) X(locks) X(divides) \
    X(sse) X(expensive) X(avx) X(cpuid) X(wrmsr) X(mov_cr) X(ints)          \
    X(far_returns) X(pauses) X(strings) X(compares) X(tie) X(fractions)     \
    X(mispredicted) X(same_history) X(random_branches) X(pointer_chase)     \
    X(divide_chain) X(straight_code) X(simple_loop) X(lines) X(stack)       \
    X(stack_operands) X(stack_array) X(returns) X(deep_returns)             \
    X(same_target) X(other_target) X(fp) X(fp_avx) X(fp_many_sd)            \
    X(fp_many_ss) X(fp_many_128_pd) X(fp_many_128_ps) X(fp_many_256_pd)     \
    X(fp_many_256_ps)

/* For run_user() */
#define TOPDOWN_BODIES(X)                                                   \
    X(td_mixed) X(td_dense) X(td_syscalls) X(td_calls) X(td_halves)         \
    X(td_until_host) X(td_rdpmc_metrics) X(td_reads) X(td_lines)            \
    X(td_expensive) X(td_loose_halt) X(td_loose_fault) X(td_loose_stop)     \
    X(td_filtered) X(td_missed) X(td_slow_then_dense)

#define X(name) void block_##name(void);
BLOCKS(X)
#undef X
#define X(name) void body_##name(void);
TOPDOWN_BODIES(X)
#undef X

/* RDPMC of PERF_METRICS inside the block */
extern uint64_t block_metrics;
/* What it works on */
extern uint64_t block_arg[4];

/* PERF_METRICS at each turn of td_reads */
extern uint64_t td_reads_metrics[], td_reads_end[];

/* Instructions of td_expensive */
typedef struct TdStep {
    uint64_t end;
    enum { STEP_NOP, STEP_DIVIDE, STEP_PAUSE, STEP_LOCK } kind;
    uint32_t unused;
} TdStep;

extern const TdStep td_steps[], td_steps_end[];

extern const uint8_t td_halves_second[], td_expensive_end[];

/* HLT of td_loose_halt, and RET of the other two */
extern const uint8_t td_loose_hlt[], td_loose_fault_ret[], td_loose_stop_ret[];

#endif
