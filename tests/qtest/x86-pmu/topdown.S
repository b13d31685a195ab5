/*
 * Code with known issue slots for the TopDown tests
 *
 * How many instructions of each kind there are is in topdown.c. In code that
 * is compared exactly the numbers of loads and of conditional branches can be
 * divided by four: one of them costs a number of quarters of a slot.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "guest.h"
#include "macros.S.inc"

#define MSR_KERNEL_GS_BASE  0xc0000102
#define TD_READS            64
#define TD_LINES            100         /* as in topdown.c */
#define TD_FP_TIMES         2000        /* as in topdown.c */
#define TD_FP_INSNS         64          /* as in topdown.c */
#define TD_MISSED           100         /* even; as in topdown.c */
/* Of the loops that show one category */
#define TURNS               5000

/* What is before ENABLE does not count: one more instruction, if any. */
    .macro BLOCK name, setup:vararg
    .balign 64
    .globl  block_\name
block_\name:
    SAVE
    \setup
    ENABLE
    .endm

/* After the block: one instruction, RDPMC, and then DISABLE and two more */
    .macro END_BLOCK
    mov     $RDPMC_METRICS, %ecx
    rdpmc
    mov     %eax, %r8d
    mov     %edx, %r9d
    DISABLE
    mov     %r8d, block_metrics(%rip)
    mov     %r9d, block_metrics + 4(%rip)
    RESTORE
    ret
    .endm

/* As many blocks work on block_arg: R10, R11, R12, and RBX. */
    .macro ARGS
    mov     block_arg(%rip), %r10
    mov     block_arg + 8(%rip), %r11
    mov     block_arg + 16(%rip), %r12
    mov     block_arg + 24(%rip), %rbx
    .endm

/* Through memory that has the address of the next instruction */
    .macro JUMP_MEMORY
    jmp     *.Lpointer\@(%rip)
.Ltarget\@:
    .pushsection .rodata
    .balign 8
.Lpointer\@:
    .quad   .Ltarget\@
    .popsection
    .endm

/* A call from each of as many nested calls, two at a time: clang nests 20 */
    .macro NEST depth
    call    .Lodd\@
    jmp     .Lend\@
.Lodd\@:
    call    .Leven\@
    jmp     .Lback\@
.Leven\@:
    .if \depth > 2
    NEST    (\depth - 2)
    .endif
    ret
.Lback\@:
    ret
.Lend\@:
    .endm

    .text
    .code64

/* ----------------------------------------------- Each kind that has a price */

BLOCK nops
    .rept   40
    nop
    .endr
    END_BLOCK

BLOCK plain
    mov     $1, %eax
    lea     5(%rax,%rax,4), %edx
    add     %edx, %eax
    imul    %edx, %eax
    xchg    %eax, %edx
    shl     $3, %eax
    bswap   %eax
    setc    %al
    movzbl  %al, %eax
    cmova   %eax, %edx
    popcnt  %eax, %eax
    not     %eax
    END_BLOCK

BLOCK loads
    .rept   2
    mov     td_data(%rip), %eax
    mov     td_data + 8(%rip), %rdx
    movzbl  td_data(%rip), %eax
    movslq  td_data(%rip), %rdx
    .endr
    END_BLOCK

BLOCK stores
    .rept   4
    mov     %eax, td_data(%rip)
    movb    $1, td_data + 8(%rip)
    .endr
    END_BLOCK

BLOCK load_ops
    .rept   2
    add     td_data(%rip), %eax
    cmp     %eax, td_data(%rip)
    testb   $1, td_data(%rip)
    imul    td_data(%rip), %eax
    .endr
    END_BLOCK

BLOCK updates
    .rept   4
    addl    $1, td_data(%rip)
    notl    td_data(%rip)
    .endr
    END_BLOCK

BLOCK push_pop
    .rept   4
    push    %rax
    .endr
    .rept   4
    pop     %rdx
    .endr
    END_BLOCK

BLOCK taken
    xor     %eax, %eax
    .rept   8
    jz      1f
    nop
1:
    .endr
    END_BLOCK

BLOCK not_taken
    xor     %eax, %eax
    .rept   8
    jnz     1f
1:
    .endr
    END_BLOCK

BLOCK jumps
    .rept   4
    jmp     1f
    nop
1:  jmp     1f
    .skip   200, 0xcc
1:
    .endr
    END_BLOCK

BLOCK jumps_indirect
    .rept   4
    lea     1f(%rip), %rax
    jmp     *%rax
    nop
1:
    .endr
    END_BLOCK

BLOCK jumps_memory
    .rept   4
    JUMP_MEMORY
    .endr
    END_BLOCK

BLOCK calls
    .rept   4
    call    td_return
    .endr
    END_BLOCK

BLOCK calls_indirect
    lea     td_return(%rip), %rax
    .rept   4
    call    *%rax
    .endr
    END_BLOCK

BLOCK calls_memory
    .rept   4
    call    *td_return_pointer(%rip)
    .endr
    END_BLOCK

BLOCK loops
    mov     $5, %ecx
1:  loop    1b
    jrcxz   1f
    nop
1:  inc     %ecx
    jrcxz   1f
1:  xor     %eax, %eax
    inc     %ecx
1:  loope   1b
    END_BLOCK

BLOCK locks
    .rept   2
    lock incl td_data(%rip)
    lock xadd %eax, td_data(%rip)
    .endr
    END_BLOCK

BLOCK divides
    mov     $100, %eax
    mov     $7, %ecx
    xor     %edx, %edx
    div     %ecx
    xor     %edx, %edx
    div     %rcx
    cltd
    idiv    %ecx
    cqto
    idiv    %rcx
    END_BLOCK

BLOCK sse
    divps   %xmm1, %xmm0
    divsd   %xmm1, %xmm0
    sqrtpd  %xmm1, %xmm0
    sqrtss  %xmm1, %xmm0
    END_BLOCK

/* More slots than the emulator lets a translation block have */
BLOCK expensive
    xor     %eax, %eax
    mov     $8, %r11d
1:  .rept   300
    cpuid
    .endr
    dec     %r11d
    jnz     1b
    END_BLOCK

BLOCK avx
    vdivps  %ymm2, %ymm1, %ymm0
    vdivsd  %xmm2, %xmm1, %xmm0
    vsqrtpd %ymm1, %ymm0
    vsqrtss %xmm2, %xmm1, %xmm0
    END_BLOCK

/*
 * Floating-point arithmetic, for FP_ARITH_INST_RETIRED. Dot products and fused
 * multiply-adds count twice; moves, logic, comparisons, conversions, rounding
 * and integers do not count.
 */
BLOCK fp
    addsd   %xmm1, %xmm0
    maxsd   %xmm1, %xmm0
    sqrtsd  %xmm1, %xmm0
    subss   %xmm1, %xmm0
    rcpss   %xmm1, %xmm0
    mulpd   %xmm1, %xmm0
    haddpd  %xmm1, %xmm0
    addsubpd %xmm1, %xmm0
    dppd    $0x31, %xmm1, %xmm0
    minps   %xmm1, %xmm0
    rsqrtps %xmm1, %xmm0
    hsubps  %xmm1, %xmm0
    addsubps %xmm1, %xmm0
    dpps    $0xf1, %xmm1, %xmm0
    divps   %xmm1, %xmm0
    movaps  %xmm1, %xmm0
    andps   %xmm1, %xmm0
    cmpltsd %xmm1, %xmm0
    ucomisd %xmm1, %xmm0
    cvtsi2sd %eax, %xmm0
    unpcklps %xmm1, %xmm0
    roundps $0, %xmm1, %xmm0
    paddd   %xmm1, %xmm0
    END_BLOCK

BLOCK fp_avx
    vsubsd  %xmm2, %xmm1, %xmm0
    vfnmsub231sd %xmm2, %xmm1, %xmm0
    vminss  %xmm2, %xmm1, %xmm0
    vfmadd213ss %xmm2, %xmm1, %xmm0
    vsqrtpd %xmm1, %xmm0
    vfmaddsub132ps %xmm2, %xmm1, %xmm0
    vaddpd  %ymm2, %ymm1, %ymm0
    vaddsubpd %ymm2, %ymm1, %ymm0
    vfmadd132pd %ymm2, %ymm1, %ymm0
    vfmsubadd231pd %ymm2, %ymm1, %ymm0
    vmulps  %ymm2, %ymm1, %ymm0
    vhaddps %ymm2, %ymm1, %ymm0
    vdpps   $0xf1, %ymm2, %ymm1, %ymm0
    vrcpps  %ymm1, %ymm0
    vfmadd132ps %ymm2, %ymm1, %ymm0
    vmovaps %ymm1, %ymm0
    vandpd  %ymm2, %ymm1, %ymm0
    vpermilps $1, %ymm1, %ymm0
    vcmpltpd %ymm2, %ymm1, %ymm0
    END_BLOCK

/* As many operations of a kind as there can be in so many instructions */
.macro MANY name, insn, regs:vararg
BLOCK \name
    mov     $TD_FP_TIMES, %ecx
1:
    .rept   TD_FP_INSNS
    \insn \regs
    .endr
    dec     %ecx
    jnz     1b
    END_BLOCK
.endm

MANY fp_many_sd, vfmadd132sd, %xmm2, %xmm1, %xmm0
MANY fp_many_ss, vfmadd132ss, %xmm2, %xmm1, %xmm0
MANY fp_many_128_pd, vfmadd132pd, %xmm2, %xmm1, %xmm0
MANY fp_many_128_ps, vfmadd132ps, %xmm2, %xmm1, %xmm0
MANY fp_many_256_pd, vfmadd132pd, %ymm2, %ymm1, %ymm0
MANY fp_many_256_ps, vfmadd132ps, %ymm2, %ymm1, %ymm0

BLOCK cpuid
    .rept   4
    xor     %eax, %eax
    cpuid
    .endr
    END_BLOCK

BLOCK wrmsr
    mov     $MSR_KERNEL_GS_BASE, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    .rept   4
    wrmsr
    .endr
    END_BLOCK

BLOCK mov_cr mov %cr3, %r10
    .rept   4
    mov     %r10, %cr3
    .endr
    END_BLOCK

/* Their handler is nothing but IRET. */
BLOCK ints
    .rept   4
    int     $0x81
    .endr
    END_BLOCK

BLOCK far_returns
    .rept   4
    push    $8
    lea     1f(%rip), %rax
    push    %rax
    lretq
1:
    .endr
    END_BLOCK

BLOCK pauses
    .rept   4
    pause
    .endr
    END_BLOCK

BLOCK strings
    lea     td_data(%rip), %esi
    mov     %esi, %edi
    .rept   4
    mov     $8, %ecx
    rep movsb
    .endr
    END_BLOCK

/* Two loads each */
BLOCK compares
    lea     td_data(%rip), %esi
    mov     %esi, %edi
    .rept   4
    cmpsb
    .endr
    END_BLOCK

/*
 * With a width of 4: of 21 slots, 4 each are frontend and backend bound, which
 * is 48.57 of 255 each
 */
BLOCK tie
    .rept   4
    nop
    jmp     1f
1:  mov     td_data(%rip), %eax
    .endr
    END_BLOCK

/* Quarters of slots are left. */
BLOCK fractions
    jz      1f
1:  mov     td_data(%rip), %eax
    END_BLOCK

/* 256 conditional branches, and two that serialise */
BLOCK mispredicted
    mov     $256, %r10d
1:  dec     %r10d
    jnz     1b
    cpuid
    cpuid
    END_BLOCK

/*
 * JNZ and the last JZ differ in nothing but their addresses: in front of both,
 * as many branches were taken as a history has. Only one of them is taken.
 */
BLOCK same_history
    mov     $20, %r10d
1:  xor     %eax, %eax
    .rept   13
    jz      2f
2:
    .endr
    jnz     2f
2:  dec     %r10d
    jnz     1b
    END_BLOCK

/* ----------------------------------------- A program for each category */

/* The branch depends on a bit of a generator with a period of 2^31. */
BLOCK random_branches
    mov     $TURNS, %r10d
    mov     $1, %r11d
1:  imul    $1103515245, %r11d, %r11d
    add     $12345, %r11d
    bt      $30, %r11d
    jc      2f
    nop
2:  dec     %r10d
    jnz     1b
    END_BLOCK

BLOCK pointer_chase ARGS
    mov     $TURNS, %r11d
1:  mov     (%r10), %r10
    dec     %r11d
    jnz     1b
    END_BLOCK

BLOCK divide_chain
    mov     $TURNS, %r10d
    mov     $100, %eax
    mov     $7, %ecx
1:  xor     %edx, %edx
    div     %ecx
    add     $100, %eax
    dec     %r10d
    jnz     1b
    END_BLOCK

BLOCK straight_code ARGS
    mov     $10, %r11d
1:  call    *%r10
    dec     %r11d
    jnz     1b
    END_BLOCK

BLOCK simple_loop
    mov     $TURNS, %r10d
1:  .rept   5
    add     $3, %eax
    xor     %eax, %edx
    lea     1(%rdx), %ecx
    sub     %ecx, %eax
    .endr
    dec     %r10d
    jnz     1b
    END_BLOCK

/* -------------------------------------------------- The precise models */

/* Loads: where, how many, how far from one to the next, and how often all */
BLOCK lines ARGS
2:  mov     %r10, %rsi
    mov     %r11, %rcx
1:  mov     (%rsi), %rax
    add     %r12, %rsi
    dec     %rcx
    jnz     1b
    dec     %rbx
    jnz     2b
    END_BLOCK

/* The same with the stack there: the load, and how to get to the next one */
    .macro STACK_LOADS load, next
    mov     %rsp, %r9
2:  mov     %r10, %rsp
    xor     %esi, %esi
    mov     %r11, %rcx
1:  \load
    \next
    dec     %rcx
    jnz     1b
    dec     %rbx
    jnz     2b
    mov     %r9, %rsp
    .endm

BLOCK stack ARGS
    STACK_LOADS "pop %rax", "lea -8(%rsp, %r12), %rsp"
    END_BLOCK

/* By operands at a fixed distance from RSP */
BLOCK stack_operands ARGS
    STACK_LOADS "mov 24(%rsp), %rax", "add %r12, %rsp"
    END_BLOCK

/* Of an array */
BLOCK stack_array ARGS
    STACK_LOADS "mov 24(%rsp, %rsi), %rax", "add %r12, %rsi"
    END_BLOCK

/* As deep as there are return addresses, and eight deeper */
BLOCK returns
    NEST    16
    END_BLOCK

BLOCK deep_returns
    NEST    24
    END_BLOCK

/* A jump of TURNS turns, to one target, and to two in turn */
BLOCK same_target
    mov     $TURNS, %r11d
    lea     2f(%rip), %r10
1:  jmp     *%r10
2:  dec     %r11d
    jnz     1b
    END_BLOCK

BLOCK other_target
    mov     $TURNS, %r11d
    lea     2f(%rip), %r10
    lea     3f(%rip), %r12
1:  xchg    %r10, %r12
    jmp     *%r10
2:  nop
3:  dec     %r11d
    jnz     1b
    END_BLOCK

/* ----------------------------------------------------------- For CPL 3 */

BODY td_mixed
    .rept   3
    mov     td_data(%rip), %eax
    .endr
    xor     %eax, %eax
    .rept   4
    jz      1f
1:  jmp     2f
2:
    .endr
    ret

/* As many branches as there can be, none of them taken, and loads */
BODY td_dense
    xor     %eax, %eax
    .rept   64
    jnz     1f
1:
    .endr
    .rept   16
    mov     td_data(%rip), %eax
    .endr
    ret

BODY td_syscalls
    .rept   3
    mov     td_data(%rip), %eax
    .endr
    .rept   4
    syscall
    .endr
    ret

/* Three nested calls, the last one indirect, with their stack below RDI */
BODY td_calls
    mov     %rsp, %r10
    lea     3f(%rip), %r11
    mov     %rdi, %rsp
    call    1f
    mov     %r10, %rsp
    ret
1:  call    2f
    ret
2:  call    *%r11
3:  ret

/* RDI turns, a breakpoint, and as many turns again */
BODY td_halves
    mov     %rdi, %rcx
1:  nop
    dec     %rcx
    jnz     1b
    int3
    .globl  td_halves_second
td_halves_second:
    mov     %rdi, %rcx
1:  nop
    dec     %rcx
    jnz     1b
    ret

BODY td_filtered
1:  dec     %rdi
    jnz     1b
    int3
    .fill   1000, 1, 0x90
    ret

/*
 * RDI turns in which divisions take cycles, a breakpoint, and a quarter as many
 * in which instructions come densely
 */
BODY td_slow_then_dense
    mov     %rdi, %rcx
    mov     $1, %r8d
1:  xor     %edx, %edx
    mov     %r8d, %eax
    div     %r8d
    dec     %rcx
    jnz     1b
    int3
    mov     %rdi, %rcx
    shr     $2, %rcx
1:  .fill   20, 1, 0x90
    dec     %rcx
    jnz     1b
    ret

/* Until the qtest writes 2 to the mailbox; the result is the turns */
BODY td_until_host
    xor     %r8d, %r8d
1:  inc     %r8
    cmpl    $2, MAILBOX_ADDR + MAILBOX_PHASE
    jne     1b
    mov     %r8, payload_result(%rip)
    ret

BODY td_rdpmc_metrics
    mov     $RDPMC_METRICS, %ecx
    rdpmc
    mov     %eax, payload_result(%rip)
    mov     %edx, payload_result + 4(%rip)
    ret

/* An instruction, noted in td_steps with where it ends and what it is */
#define STEP_NOP            0
#define STEP_DIVIDE         1
#define STEP_PAUSE          2
#define STEP_LOCK           3
    .macro  STEP kind, insn:vararg
    \insn
.Lend\@:
    .pushsection .rodata.steps, "a"
    .quad   .Lend\@, \kind
    .popsection
    .endm

    .section .rodata.steps, "a"
    .balign 8
    .globl  td_steps
td_steps:
    .text

/*
 * Instructions that cost more than the next one, at every distance. In one
 * page, because blocks end with their page.
 */
    .balign 128
BODY td_expensive
    STEP    STEP_NOP, mov $7, %ecx
    STEP    STEP_NOP, xor %edx, %edx
    STEP    STEP_DIVIDE, div %ecx
    .rept   4
    STEP    STEP_NOP, nop
    STEP    STEP_LOCK, lock addl $1, td_data(%rip)
    STEP    STEP_DIVIDE, div %ecx
    .endr
    STEP    STEP_PAUSE, pause
    STEP    STEP_PAUSE, pause
    STEP    STEP_NOP, nop
    STEP    STEP_NOP, nop
    STEP    STEP_DIVIDE, div %ecx
    STEP    STEP_DIVIDE, div %ecx
    STEP    STEP_NOP, nop
    .globl  td_expensive_end
td_expensive_end:
    ret

/* To be called at any of the NOPs */
BODY td_loose_halt
    .rept   LOOSE_NOPS
    nop
    .endr
    .globl  td_loose_hlt
td_loose_hlt:
    hlt
    nop
    ret

/* In one page, because blocks end with their page */
    .balign 128
BODY td_loose_fault
    .rept   LOOSE_NOPS
    nop
    .endr
    lock incl (%rdi)            /* of 3 bytes, and not cheap */
    nop
    .globl  td_loose_fault_ret
td_loose_fault_ret:
    ret

/* Blocks end with their page, and so behind OUT, which stops QEMU. */
    .balign 4096
    .skip   4096 - LOOSE_NOPS - 2 - 5 - 1
    .globl  body_td_loose_stop
body_td_loose_stop:
    mov     %edi, %edx
    mov     $1, %eax
    .rept   LOOSE_NOPS
    nop
    .endr
    out     %al, %dx
    nop
    nop
    .globl  td_loose_stop_ret
td_loose_stop_ret:
    ret

    .section .rodata.steps, "a"
    .globl  td_steps_end
td_steps_end:
    .text

/* Loads from so many lines, from RDI on */
BODY td_lines
    mov     $TD_LINES, %ecx
1:  mov     (%rdi), %eax
    add     $64, %rdi
    dec     %ecx
    jnz     1b
    ret

/*
 * So many times: a jump to another place than the last time, a return to where
 * no call came from, and a branch that nobody can foresee
 */
BODY td_missed
    mov     $TD_MISSED, %ecx
    xor     %r8d, %r8d
    lea     2f(%rip), %r9
    lea     3f(%rip), %r10
1:  xchg    %r9, %r10
    jmp     *%r9
2:  nop
3:  lea     4f(%rip), %rax
    push    %rax
    ret
4:  imul    $1103515245, %r8d, %r8d
    add     $12345, %r8d
    bt      $13, %r8d
    jc      5f
5:  dec     %ecx
    jnz     1b
    ret

/* Of PERF_METRICS, between all kinds of instructions */
BODY td_reads
    xor     %r8d, %r8d
    lea     td_reads_metrics(%rip), %rdi
1:  imul    $1103515245, %r8d, %r9d
    add     $12345, %r9d
    bt      $13, %r9d
    jc      2f
    mov     td_data(%rip), %eax
    jmp     3f
2:  mov     $100, %eax
    xor     %edx, %edx
    mov     $7, %ecx
    div     %ecx
3:  call    td_return
    mov     $RDPMC_METRICS, %ecx
    rdpmc
    mov     %eax, (%rdi,%r8,8)
    mov     %edx, 4(%rdi,%r8,8)
    inc     %r8d
    cmp     $TD_READS, %r8d
    jne     1b
    ret

td_return:
    ret

    .section .rodata
    .balign 8
td_return_pointer:
    .quad   td_return

    .section .bss
    .balign 64
td_data:
    .skip   64
    .globl  td_reads_metrics
td_reads_metrics:
    .skip   8 * TD_READS
    .globl  td_reads_end
td_reads_end:
    .globl  block_metrics
block_metrics:
    .skip   8
    .globl  block_arg
block_arg:
    .skip   32
