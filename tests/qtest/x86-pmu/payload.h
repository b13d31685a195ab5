/*
 * Hand-counted code for the x86 PMU tests; see payload.S
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef X86_PMU_PAYLOAD_H
#define X86_PMU_PAYLOAD_H

#define PAYLOADS(X)                                                         \
    X(straight) X(long_block) X(loop_jnz) X(calls) X(memory) X(loop_insn)   \
    X(jumps) X(indirect) X(page_crossing) X(various) X(ends_block)          \
    X(other_msr) X(software_int) X(int_to_reset)                            \
    X(rep_movsb) X(rep_movsq) X(rep_stosb)                                  \
    X(rep_lodsw) X(rep_scasb) X(rep_cmpsb) X(rep_movsb_back)                \
    X(breakpoint) X(load_fault) X(store_fault) X(syscalls) X(user_int)      \
    X(mmio_load) X(mmio_store) X(smc_once) X(smc_loop) X(smc_other)         \
    X(single_step) X(watchpoint) X(halt) X(until_irqs) X(until_event)       \
    X(locked) X(split_locks) X(read_rdpmc) X(read_rdmsr)                    \
    X(switch_gp) X(switch_fixed) X(last_store) X(store_int3)                \
    X(switch_write) X(branch_chain) X(not_taken_chain) X(nop_chain)         \
    X(full_block) X(fault_skipped) X(storm_loop) X(halt_for_pmi)            \
    X(load_ss) X(ss_wrmsr) X(undefined) X(wait)                             \
    X(halt_for_nmi) X(rdpmc_fixed_0) X(rdpmc_gp_0) X(send_irq) X(send_smi)  \
    X(spin) X(far_loop) X(long_rep) X(long_until_irq) X(loop_div)           \
    X(call_jumps) X(int_nops) X(sti_reset)

/* Instructions that fault at CPL 3 */
#define FAULT_PAYLOADS(X)                                                   \
    X(ud2) X(ud1) X(ud0) X(push_es) X(lock_nop) X(sse) X(avx) X(mov_cs)     \
    X(rsm) X(monitor) X(div) X(hlt) X(cli) X(sti) X(in) X(out) X(outs)      \
    X(rep_ins) X(cr0) X(to_cr0) X(dr7) X(rdmsr) X(wrmsr) X(rdpmc) X(lgdt)   \
    X(lidt) X(lldt) X(ltr) X(lmsw) X(clts) X(invlpg) X(swapgs) X(xsetbv)    \
    X(sysret) X(mov_ss) X(mov_ds) X(int) X(cx16) X(load) X(store) X(rmw)    \
    X(push) X(jump) X(call)

#define X(name) void body_##name(void);
PAYLOADS(X)
#undef X
#define X(name) void body_fault_##name(void);
FAULT_PAYLOADS(X)
#undef X

/* Gates and handlers */
void interrupt_return(void);
void syscall_return(void);
void debug_return(void);
void timer_return(void);
void calls_return(void);
void spin_return(void);
void fault_return(void);

extern Shared64 payload_result[4];
extern Shared32 payload_irqs;
extern Shared32 payload_debugs;
extern uint64_t payload_lock[32];
extern uint8_t payload_smc[];
extern const uint8_t payload_caller[], payload_caller_end[];
extern uint32_t payload_watched;
void gate_reset_status(void);
void syscall_jumps(void);
void gate_sti(void);
extern const uint8_t payload_branch_chain[], payload_not_taken_chain[];
extern const uint8_t payload_nop_chain[], payload_storm_loop[];
extern const uint8_t payload_full_block[], payload_full_block_end[];
extern const uint8_t payload_fault_skipped[];
extern const uint8_t payload_irq_calls[], payload_loop_div_end[];
extern const uint8_t payload_storm_end[], payload_user_int[];
extern const uint8_t payload_call_jumps[], payload_int_nops[];
extern const uint8_t payload_sti_reset[];
extern const uint8_t payload_last_store[], payload_stored[];
extern const uint64_t payload_split_steps[];
extern const uint8_t payload_halted[];
extern const uint8_t payload_ss_loaded[], payload_ss_written[];
extern const uint8_t payload_wait[];
extern const uint8_t payload_waited[];
extern const uint8_t payload_irq_sent[], payload_irq_next[];
extern const uint8_t payload_smi_sent[];
extern const uint8_t payload_spin[], payload_spin_end[], payload_far[];

/* modes.S */
void body_sse(void);
void body_avx(void);
void body_exchange(void);
void body_no_access(void);
void body_vmmcall(void);
void body_io_breakpoint(void);
void run_mode(uint64_t entry);
extern char modes_start[], modes_end[], modes_enable[];
extern char modes_compat_32[], modes_compat_16[], modes_into_32[];
extern char modes_into_16[], modes_legacy_32[], modes_real[], modes_v86[];
extern char modes_v86_exit[];
extern uint64_t modes_area[];

#endif
