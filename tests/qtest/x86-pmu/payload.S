/*
 * Hand-counted code for the x86 PMU tests
 *
 * The numbers that the test cases expect of each body are next to it in
 * cases.c. run_kernel() and run_user() add their own instructions.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "guest.h"
#include "macros.S.inc"

#define APIC_BASE           0xfee00000
#define MSR_PMC0            0xc1
#define MSR_EVTSEL0         0x186
#define MSR_DEBUGCTL        0x1d9
#define MSR_FIXED_CTR0      0x309
#define MSR_FIXED_CTR_CTRL  0x38d
/* Instructions at CPL 0, enabled */
#define EVTSEL_INSNS_OS     0x4200c0
#define REP_SOURCE          0x420000
#define REP_TARGET          0x460000

    .text
    .code64

BODY straight
    .rept   20
    nop
    .endr
    mov     $1, %eax
    add     %eax, %eax
    xor     %eax, %eax
    ret

/* More than fits in a translation block, over several pages */
BODY long_block
    .rept   3000
    .byte   0x0f, 0x1f, 0x00    /* nopl (%rax) */
    .endr
    ret

BODY loop_jnz
    mov     $1000, %ecx
1:  nop
    dec     %ecx
    jnz     1b
    ret

BODY calls
    mov     $100, %r8d
1:  call    2f
    dec     %r8d
    jnz     1b
    ret
2:  nop
    ret

BODY memory
    lea     data(%rip), %rcx    /* loads  stores */
    mov     (%rcx), %rax        /*   1           */
    mov     8(%rcx), %rdx       /*   2           */
    mov     %rax, (%rcx)        /*          1    */
    mov     %edx, 16(%rcx)      /*          2    */
    movb    $1, 24(%rcx)        /*          3    */
    addq    $1, 32(%rcx)        /*   3      4    */
    incl    40(%rcx)            /*   4      5    */
    cmpq    $0, 48(%rcx)        /*   5           */
    testb   $1, 56(%rcx)        /*   6           */
    push    %rcx                /*          6    */
    pop     %rdx                /*   7           */
    movzbl  3(%rcx), %eax       /*   8           */
    ret

BODY loop_insn
    mov     $500, %ecx
1:  nop
    loop    1b
    xor     %ecx, %ecx
    jrcxz   2f
    nop
2:  inc     %ecx
    jrcxz   3f
3:  ret

BODY jumps
    xor     %eax, %eax
    je      1f
    nop
1:  jne     2f
    nop
2:  cmp     $1, %eax
    jb      3f
    nop
3:  jae     4f
    nop
4:  jl      5f
    nop
5:  jg      6f
    nop
6:  js      7f
    nop
7:  jmp     8f
    nop
8:  ret

BODY indirect
    lea     1f(%rip), %rax
    jmp     *%rax
    nop
1:  lea     2f(%rip), %rax
    call    *%rax
    jmp     3f
2:  ret
3:  nop
    ret

BODY page_crossing
    jmp     1f
    .balign 4096, 0xcc
    .skip   4091, 0xcc
1:  movabs  $0x123456789abcdef, %rax
    nop
    ret

/* Instructions that QEMU translates to calls, each of them one */
BODY various
    xor     %eax, %eax
    cpuid
    mfence
    rdtsc
    pause
    lea     data(%rip), %r8
    mov     $1, %eax
    lock xadd %eax, (%r8)
    xchg    %eax, (%r8)
    mov     $100, %eax
    xor     %edx, %edx
    mov     $7, %ecx
    div     %ecx
    out     %al, $0x80
    in      $0x80, %al
    bsf     %ecx, %eax
    ret

/* Instructions after which QEMU starts a new block */
BODY ends_block
    mov     %cr3, %rax
    mov     %rax, %cr3
    invlpg  (%rsp)
    mov     %ss, %eax
    mov     %eax, %ss
    nop
    pushf
    popf
    cli
    nop
    ret

BODY other_msr
    mov     $0xc0000102, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    wrmsr
    rdmsr
    nop
    ret

BODY software_int
    .rept   3
    int     $0x81
    nop
    .endr
    ret

/* The handler resets the status of counter 0 without a look at it. */
BODY int_to_reset
    nop
    int     $0x82
    nop
    ret

    .globl gate_reset_status
gate_reset_status:
    push    %rax
    push    %rcx
    push    %rdx
    mov     $0x390, %ecx
    mov     $1, %eax
    xor     %edx, %edx
    wrmsr
    pop     %rdx
    pop     %rcx
    pop     %rax
    iretq

/*
 * Of 207 instructions a turn, four are at CPL 0, each in a block of its own:
 * these use less of the deadline than those at CPL 3. The argument is a stack
 * for interrupts at CPL 0: SYSCALL keeps that of the user.
 */
BODY call_jumps
    mov     %rsp, %r9
    mov     %rdi, %rsp
    mov     $10, %r8d
    .globl  payload_call_jumps
payload_call_jumps:
    syscall
    .rept   200
    nop
    .endr
    dec     %r8d
    jnz     payload_call_jumps
    mov     %r9, %rsp
    ret

    .globl  syscall_jumps
syscall_jumps:
    .rept   3
    jmp     1f
1:
    .endr
    sysretq

/* One block with many instructions on each side of STI and IRET */
BODY int_nops
    int     $0x82
    .globl  payload_int_nops
payload_int_nops:
    .rept   100
    nop
    .endr
    ret

    .globl  gate_sti
gate_sti:
    .rept   300
    nop
    .endr
    sti
    iretq

BODY sti_reset
    mov     $0x390, %ecx
    mov     $1, %eax
    xor     %edx, %edx
    sti
    wrmsr
    .globl  payload_sti_reset
payload_sti_reset:
    cli
    ret

    .macro STRING_BODY insn:vararg
    mov     %rdi, %rcx
    mov     $REP_SOURCE, %esi
    mov     $REP_TARGET, %edi
    xor     %eax, %eax
    \insn
    ret
    .endm

BODY rep_movsb
    STRING_BODY rep movsb
BODY rep_movsq
    STRING_BODY rep movsq
BODY rep_stosb
    STRING_BODY rep stosb
BODY rep_lodsw
    STRING_BODY rep lodsw
BODY rep_scasb                  /* finds nothing but zeros */
    STRING_BODY repe scasb
BODY rep_cmpsb
    STRING_BODY repe cmpsb

BODY rep_movsb_back
    mov     %rdi, %rcx
    lea     REP_SOURCE - 1(%rcx), %rsi
    lea     REP_TARGET - 1(%rcx), %rdi
    std
    rep movsb
    cld
    ret

/*
 * At CPL 3; the handler continues at R9. The lines of each turn are LEA, NOP,
 * DEC and JNZ, and the one that faults.
 */
    .macro FAULT name, insn:vararg
BODY fault_\name
    mov     $10, %r8d
1:  lea     2f(%rip), %r9
    nop
    \insn
2:  dec     %r8d
    jnz     1b
    ret
    .endm

FAULT ud2       ud2
FAULT ud1       .byte 0x0f, 0xb9, 0xc0
FAULT ud0       .byte 0x0f, 0xff, 0xc0
FAULT push_es   .byte 0x06
FAULT lock_nop  .byte 0xf0, 0x90
FAULT sse       movaps %xmm0, %xmm1
FAULT avx       vaddps %ymm0, %ymm1, %ymm2
FAULT mov_cs    .byte 0x8e, 0xc8
FAULT rsm       rsm
FAULT monitor   monitor
FAULT div       divl zero(%rip)
FAULT hlt       hlt
FAULT cli       cli
FAULT sti       sti
FAULT in        in $0x80, %al
FAULT out       out %al, $0x80
FAULT outs      outsb
FAULT rep_ins   rep insb
FAULT cr0       mov %cr0, %rax
FAULT to_cr0    mov %rax, %cr0
FAULT dr7       mov %dr7, %rax
FAULT rdmsr     rdmsr
FAULT wrmsr     wrmsr
FAULT rdpmc     rdpmc
FAULT lgdt      lgdt (%rsp)
FAULT lidt      lidt (%rsp)
FAULT lldt      lldt %ax
FAULT ltr       ltr %ax
FAULT lmsw      lmsw %ax
FAULT clts      clts
FAULT invlpg    invlpg (%rsp)
FAULT swapgs    swapgs
FAULT xsetbv    xsetbv
FAULT sysret    sysretq
FAULT mov_ss    mov %r8d, %ss
FAULT mov_ds    mov kernel_code(%rip), %ds
FAULT int       int $0x42
FAULT cx16      lock cmpxchg16b zero + 1(%rip)
FAULT load      mov GUEST_SMALL_PAGES, %eax
FAULT store     movl $0, GUEST_SMALL_PAGES
FAULT rmw       incl GUEST_SMALL_PAGES
FAULT push      push GUEST_SMALL_PAGES
FAULT jump      jmp *GUEST_SMALL_PAGES
FAULT call      call *GUEST_SMALL_PAGES

BODY breakpoint
    nop
    int3
    nop
    ret

BODY load_fault
    nop
    mov     (%rdi), %rax
    nop
    mov     (%rdi), %rax
    nop
    ret

BODY store_fault
    nop
    mov     (%rdi), %rax
    mov     %rax, 8(%rdi)
    addq    $1, 4096(%rdi)
    nop
    ret

BODY syscalls
    mov     $50, %r8d
1:  syscall
    dec     %r8d
    jnz     1b
    ret

BODY user_int
    mov     $50, %r8d
    .globl  payload_user_int
payload_user_int:
1:  int     $0x81
    dec     %r8d
    jnz     1b
    ret

/* One store, and then blocks without any */
BODY last_store
    mov     $50000, %ecx
    mov     %rax, (%rdi)
    .globl  payload_last_store
payload_last_store:
    jmp     1f
1:  dec     %ecx
    jnz     1b
    ret

/* The last store is that of INT3 */
BODY store_int3
    mov     %rax, (%rdi)
    int3
    .globl  payload_stored
payload_stored:
    mov     $50000, %ecx
1:  dec     %ecx
    jnz     1b
    ret

BODY mmio_load
    mov     $APIC_BASE, %edi
    nop
    mov     0x20(%rdi), %eax
    nop
    nop
    mov     0x30(%rdi), %eax
    nop
    add     0x20(%rdi), %eax
    nop
    ret

BODY mmio_store
    mov     $APIC_BASE, %edi
    nop
    movl    $0, 0x80(%rdi)
    nop
    movl    $0, 0x80(%rdi)
    nop
    ret

/* Changes the instruction after the next one */
BODY smc_once
    mov     %edi, 1f + 1(%rip)
    nop
1:  mov     $0, %ebx
    mov     %rbx, payload_result(%rip)
    ret

BODY smc_loop
    mov     $100, %ecx
    xor     %edx, %edx
1:  mov     %ecx, 2f + 1(%rip)
2:  mov     $0, %ebx
    add     %rbx, %rdx
    dec     %ecx
    jnz     1b
    mov     %rdx, payload_result(%rip)
    ret

/* Changes code of another block, which is in the same page */
BODY smc_other
    mov     $100, %ecx
    xor     %edx, %edx
1:  mov     %ecx, payload_smc + 1(%rip)
    nop
    call    payload_smc
    add     %rax, %rdx
    dec     %ecx
    jnz     1b
    mov     %rdx, payload_result(%rip)
    ret
    .globl  payload_smc
payload_smc:
    mov     $0, %eax
    ret

/* #DB after each of the ten NOPs, and after each of the last three */
BODY single_step
    pushf
    orl     $0x100, (%rsp)
    popf
    .rept   10
    nop
    .endr
    pushf
    andl    $~0x100, (%rsp)
    popf
    ret

/* #DB after the two stores */
BODY watchpoint
    nop
    mov     %eax, payload_watched(%rip)
    nop
    nop
    mov     %eax, payload_watched(%rip)
    nop
    ret

/* The timer of the APIC, whose vector is ready, ends it. */
BODY halt
    mov     $APIC_BASE, %ecx
    movl    $50000, 0x380(%rcx)
    sti
    hlt
    cli
    ret

/* 3 instructions per turn, which it counts in the result */
BODY until_irqs
    xor     %r8d, %r8d
1:  inc     %r8
    cmp     %edi, payload_irqs(%rip)
    jb      1b
    mov     %r8, payload_result(%rip)
    ret

/* 3 instructions per turn, until result[1] is not 0 */
BODY until_event
    xor     %r8d, %r8d
1:  inc     %r8
    cmpl    $0, payload_result + 8(%rip)
    je      1b
    mov     %r8, payload_result(%rip)
    ret

/*
 * Send an interrupt to this CPU, by what %rdi has for the APIC. The JMPs are
 * blocks of their own.
 */
BODY send_irq
    mov     $APIC_BASE + 0x300, %eax
    sti
    nop
    mov     %edi, (%rax)
    .globl  payload_irq_sent
payload_irq_sent:
    jmp     1f
    .globl  payload_irq_next
payload_irq_next:
1:  .rept   40
    jmp     1f
1:
    .endr
    cli
    ret

/* Turns of a loop, and a division by the 0 that they end with */
BODY loop_div
    mov     %edi, %ecx
1:  .fill   30, 1, 0x90
    dec     %ecx
    jnz     1b
    div     %ecx
    .globl  payload_loop_div_end
payload_loop_div_end:
    ret

/* Long blocks, until an interrupt comes */
BODY long_until_irq
    sti
1:  .fill   300, 1, 0x90
    cmpl    $0, payload_irqs(%rip)
    je      1b
    cli
    ret

/* SMI to this CPU itself, which takes it in front of one of the branches */
BODY send_smi
    mov     $APIC_BASE + 0x300, %eax
    movl    $0x40200, (%rax)
    .globl  payload_smi_sent
payload_smi_sent:
    .rept   40
    jmp     1f
1:
    .endr
    ret

/* Until an interrupt goes on behind it */
BODY spin
    .globl  payload_spin
payload_spin:
    jmp     payload_spin
    .globl  payload_spin_end
payload_spin_end:
    ret

/* From page to page without end, for which each block is looked up */
BODY far_loop
1:  jmp     payload_far
    .balign 4096, 0xcc
    .globl  payload_far
payload_far:
    jmp     1b

/* So many turns that it does not end, unless an interrupt changes %rcx */
BODY long_rep
    mov     $1 << 48, %rcx
    lea     payload_lock(%rip), %rsi
    rep lodsb
    ret

/*
 * The CPUs write the same words. The last one crosses a page, for which QEMU
 * has to stop all others.
 */
BODY locked
    mov     %rdi, %r8
    lea     payload_lock(%rip), %r9
1:  lock incq (%r9)
    xor     %eax, %eax
    lock cmpxchg16b 16(%r9)
    mov     $1, %eax
    lock xadd %rax, 8(%r9)
    lock incl lock_page + 4094(%rip)
    dec     %r8
    jnz     1b
    ret

/* For some of these QEMU stops all other CPUs; where each of them ends */
    .macro  STEP insn:vararg
    \insn
7:  .pushsection .rodata.split_steps, "a"
    .quad   7b
    .popsection
    .endm

    .pushsection .rodata.split_steps, "a"
    .globl  payload_split_steps
payload_split_steps:
    .popsection

BODY split_locks
    STEP nop
    STEP lock incl lock_page + 4094(%rip)
    STEP lock incl lock_page + 4094(%rip)
    STEP nop
    STEP lock addl $3, lock_page + 4094(%rip)
    STEP xchg %eax, lock_page + 4094(%rip)
    STEP nop
    STEP jmp 1f
1:  STEP lock decl lock_page + 4094(%rip)
    STEP lock incl lock_page + 4094(%rip)
    ret

/* Counts since the body began, at two points */
BODY read_rdpmc
    .rept   5
    nop
    .endr
    mov     $RDPMC_FIXED_0, %ecx
    rdpmc
    mov     %eax, %r8d
    xor     %ecx, %ecx
    rdpmc
    mov     %r8, payload_result(%rip)
    mov     %rax, payload_result + 8(%rip)
    ret

BODY read_rdmsr
    .rept   5
    nop
    .endr
    mov     $MSR_FIXED_CTR0, %ecx
    rdmsr
    mov     %eax, %r8d
    mov     $MSR_PMC0, %ecx
    rdmsr
    mov     %r8, payload_result(%rip)
    mov     %rax, payload_result + 8(%rip)
    ret

/* 7 + 3 instructions between the one WRMSR and the other */
BODY switch_gp
    nop
    nop
    mov     $MSR_EVTSEL0, %ecx
    mov     $EVTSEL_INSNS_OS, %eax
    xor     %edx, %edx
    wrmsr
    .rept   7
    nop
    .endr
    mov     $MSR_EVTSEL0, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    wrmsr
    .rept   3
    nop
    .endr
    ret

BODY switch_fixed
    nop
    nop
    mov     $MSR_FIXED_CTR_CTRL, %ecx
    mov     $1, %eax
    xor     %edx, %edx
    wrmsr
    .rept   7
    nop
    .endr
    mov     $MSR_FIXED_CTR_CTRL, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    wrmsr
    .rept   3
    nop
    .endr
    ret

/* The counter is written when 100000 instructions remain to be counted. */
BODY switch_write
    mov     $MSR_FIXED_CTR0, %ecx
    mov     %edi, %eax
    xor     %edx, %edx
    wrmsr
    mov     $33333, %ecx
1:  nop
    dec     %ecx
    jnz     1b
    ret

/* 64 blocks of 8 bytes each, of which the JMP is the third instruction */
BODY branch_chain
    jmp     1f
    .balign 64
    .globl  payload_branch_chain
payload_branch_chain:
1:
    .rept   64
    nop
    nop
    jmp     1f
    .balign 8, 0xcc
1:
    .endr
    nop
    ret

/* The same with branches of two bytes that are not taken */
BODY not_taken_chain
    xor     %eax, %eax
    jmp     1f
    .balign 64
    .globl  payload_not_taken_chain
payload_not_taken_chain:
1:
    .rept   64
    nop
    nop
    jnz     2f
    .byte   0x0f, 0x1f, 0x40, 0x00  /* nopl 0(%rax) */
2:
    .endr
    nop
    ret

/* 64 blocks of 64 bytes: 62 NOPs and a JMP */
BODY nop_chain
    jmp     1f
    .balign 64
    .globl  payload_nop_chain
payload_nop_chain:
1:
    .rept   64
    .fill   62, 1, 0x90
    .byte   0xeb, 0
    .endr
    nop
    ret

/* A block of 512 instructions, the most that one has; the last one stores */
BODY full_block
    jmp     1f
    .balign 1024
    .globl  payload_full_block
payload_full_block:
1:  .fill   511, 1, 0x90
    mov     %rax, -64(%rsp)
    .globl  payload_full_block_end
payload_full_block_end:
    nop
    ret

/* A division by 0, and blocks of a NOP and a JMP */
BODY fault_skipped
    xor     %ecx, %ecx
    jmp     1f
1:  div     %ecx
    .globl  payload_fault_skipped
payload_fault_skipped:
    .rept   16
    nop
    .byte   0xeb, 0
    .endr
    ret

BODY storm_loop
    mov     $1000, %ecx
    .globl  payload_storm_loop
payload_storm_loop:
1:  nop
    nop
    dec     %ecx
    jnz     1b
    .globl  payload_storm_end
payload_storm_end:
    ret

/* Only a PMI ends it. */
/* No interrupt is taken between the last two of these instructions. */
BODY load_ss
    mov     %ss, %eax
    mov     %eax, %ss
    nop
    .globl  payload_ss_loaded
payload_ss_loaded:
    nop
    ret

BODY ss_wrmsr
    mov     %ss, %esi
    mov     $MSR_DEBUGCTL, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    mov     %esi, %ss
    wrmsr
    .globl  payload_ss_written
payload_ss_written:
    nop
    nop
    ret

BODY undefined
    nop
    ud2
    nop
    ret

/* An interrupt that waits until STI must not be taken before HLT. */
BODY wait
    nop
    sti
    .globl  payload_wait
payload_wait:
    hlt
    .globl  payload_waited
payload_waited:
    cli
    ret

BODY halt_for_pmi
    nop
    hlt
    .globl  payload_halted
payload_halted:
    nop
    ret

/* Expensive instructions, a wait for an NMI, cheap instructions */
BODY halt_for_nmi
    pause
    pause
    nop
    hlt
    .rept   400
    nop
    .endr
    ret

BODY rdpmc_fixed_0
    mov     $RDPMC_FIXED_0, %ecx
    rdpmc
    mov     %rax, payload_result(%rip)
    ret

BODY rdpmc_gp_0
    xor     %ecx, %ecx
    rdpmc
    mov     %rax, payload_result(%rip)
    ret

/* ------------------------------------------- Handlers, hand-counted, too */

    .globl  interrupt_return
interrupt_return:
    iretq

    .globl  syscall_return
syscall_return:
    sysretq

    .globl  debug_return
debug_return:
    incl    payload_debugs(%rip)
    iretq

/* Uses more units than a budget has, and then no memory */
    .globl  spin_return
spin_return:
    mov     (%rsp), %rcx
    mov     16(%rsp), %r11
    mov     24(%rsp), %rsp
    mov     $50000, %edx
1:  dec     %edx
    jnz     1b
    sysretq

    .globl  calls_return
calls_return:
    incl    payload_irqs(%rip)
    .globl  payload_irq_calls
payload_irq_calls:
    .rept   20
    call    1f
1:
    .endr
    add     $20 * 8, %rsp
    movabs  %eax, APIC_BASE + 0xb0
    iretq

    .globl  timer_return
timer_return:
    incl    payload_irqs(%rip)
    movabs  %eax, APIC_BASE + 0xb0
    iretq

/* Maps the page at result[2] by its page table entry result[3] */
    .globl  fault_return
fault_return:
    push    %rcx
    mov     payload_result + 24(%rip), %rcx
    orl     $1, (%rcx)
    mov     payload_result + 16(%rip), %rcx
    invlpg  (%rcx)
    pop     %rcx
    add     $8, %rsp
    iretq

kernel_code:
    .word   8

    .section .bss
    .balign 4096
lock_page:
    .skip   8192
    .globl  payload_lock
payload_lock:
    .skip   256
data:
    .skip   64
zero:
    .skip   32
    .globl  payload_result
payload_result:
    .skip   32
    .globl  payload_irqs
payload_irqs:
    .skip   4
    .globl  payload_debugs
payload_debugs:
    .skip   4
    .globl  payload_watched
payload_watched:
    .skip   4

/*
 * Copied to where code is written. RDI: number, and the last one that was seen;
 * ESI: the number that ends it; RDX: a function that is written all the time,
 * so that AL is the number or the next one; RCX: RET. Returns how often AL was
 * wrong.
 */
    .text
    .code64
    .globl  payload_caller, payload_caller_end
payload_caller:
    mov     %rdx, %r8
    xor     %r10d, %r10d
1:  mov     (%rdi), %edx
    cmp     %esi, %edx
    je      3f
    call    *%r8
    call    *%rcx
    sub     %edx, %eax
    cmp     $1, %al
    jbe     2f
    inc     %r10d
2:  mov     %edx, 4(%rdi)
    jmp     1b
3:  mov     %r10d, %eax
    ret
payload_caller_end:
