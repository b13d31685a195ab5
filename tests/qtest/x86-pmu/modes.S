/*
 * Hand-counted code in all modes of the CPU, and of all kinds of accesses
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "guest.h"
#include "macros.S.inc"
#include "modes.h"

#define MSR_EFER            0xc0000080

    .text
    .code64

/* ------------------------------------- Accesses of 64-bit code, at CPL 0 */

                                /* loads  stores */
BODY sse
    lea     modes_area(%rip), %rcx
    movaps  (%rcx), %xmm0       /*   1           */
    movaps  %xmm0, (%rcx)       /*          1    */
    movdqu  1(%rcx), %xmm1      /*   2           */
    movdqu  %xmm1, 1(%rcx)      /*          2    */
    movups  (%rcx), %xmm2       /*   3           */
    movntdq %xmm2, (%rcx)       /*          3    */
    movntdqa (%rcx), %xmm2      /*   4           */
    paddd   (%rcx), %xmm0       /*   5           */
    addps   (%rcx), %xmm0       /*   6           */
    movss   (%rcx), %xmm3       /*   7           */
    movsd   %xmm3, (%rcx)       /*          4    */
    movhps  (%rcx), %xmm3       /*   8           */
    movhps  %xmm3, (%rcx)       /*          5    */
    pextrd  $1, %xmm3, (%rcx)   /*          6    */
    pinsrd  $1, (%rcx), %xmm3   /*   9           */
    movq    (%rcx), %mm0        /*  10           */
    movq    %mm0, (%rcx)        /*          7    */
    emms
    stmxcsr 64(%rcx)            /*          8    */
    ldmxcsr 64(%rcx)            /*  11           */
    mov     %rcx, %rdi
    maskmovdqu %xmm0, %xmm1     /*          9    */
    fxsave  128(%rcx)           /*         10    */
    fxrstor 128(%rcx)           /*  12           */
    ret

BODY avx
    lea     modes_area(%rip), %rcx
    vmovdqu (%rcx), %ymm0       /*   1           */
    vmovdqu %ymm0, (%rcx)       /*          1    */
    vmovaps (%rcx), %xmm1       /*   2           */
    vaddps  (%rcx), %ymm0, %ymm1 /*  3           */
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vmaskmovps (%rcx), %ymm2, %ymm3     /* 4     */
    vmaskmovps %ymm3, %ymm2, (%rcx)     /*  2    */
    vmaskmovpd (%rcx), %xmm2, %xmm3     /* 5     */
    vmaskmovpd %xmm3, %xmm2, (%rcx)     /*  3    */
    vpmaskmovd (%rcx), %ymm2, %ymm3     /* 6     */
    vpmaskmovd %ymm3, %ymm2, (%rcx)     /*  4    */
    vpmaskmovq (%rcx), %ymm2, %ymm3     /* 7     */
    vpmaskmovq %ymm3, %ymm2, (%rcx)     /*  5    */
    vpxor   %ymm4, %ymm4, %ymm4
    vpgatherdd %ymm2, (%rcx, %ymm4, 4), %ymm3 /* 8 */
    vpcmpeqd %ymm2, %ymm2, %ymm2
    vgatherqpd %ymm2, (%rcx, %ymm4, 8), %ymm3 /* 9 */
    vbroadcastss (%rcx), %ymm0  /*  10           */
    vbroadcastf128 (%rcx), %ymm0 /* 11           */
    vinsertf128 $1, (%rcx), %ymm0, %ymm0 /* 12   */
    vextractf128 $1, %ymm0, (%rcx)      /*  6    */
    vzeroupper
    mov     $7, %eax
    xor     %edx, %edx
    xsave   1024(%rcx)          /*  13      7    */
    xrstor  1024(%rcx)          /*  14           */
    xsaveopt 1024(%rcx)         /*  15      8    */
    ret

/* All but CMPXCHG16B would be the same without LOCK. */
BODY exchange
    lea     modes_area(%rip), %r8
    xor     %eax, %eax
    xor     %edx, %edx
    xor     %ebx, %ebx
    xor     %ecx, %ecx
    cmpxchg16b (%r8)            /*   1      1    */
    lock cmpxchg16b (%r8)       /*   2      2    */
    cmpxchg8b (%r8)             /*   3      3    */
    cmpxchg %rcx, (%r8)         /*   4      4    */
    xadd    %rax, (%r8)         /*   5      5    */
    xchg    %rax, (%r8)         /*   6      6    */
    btsl    $1, (%r8)           /*   7      7    */
    btl     $1, (%r8)           /*   8           */
    shll    $1, (%r8)           /*   9      8    */
    setz    (%r8)               /*          9    */
    cmovz   (%r8), %rax         /*  10           */
    movbe   (%r8), %rax         /*  11           */
    movbe   %rax, (%r8)         /*         10    */
    movnti  %rax, (%r8)         /*         11    */
    push    (%r8)               /*  12     12    */
    pop     (%r8)               /*  13     13    */
    imul    $3, (%r8), %rax     /*  14           */
    mov     %ds, (%r8)          /*         14    */
    mov     (%r8), %fs          /*  15           */
    xor     %eax, %eax
    mov     %eax, %fs
    sgdt    32(%r8)             /*         15    */
    lgdt    32(%r8)             /*  16           */
    sldt    (%r8)               /*         16    */
    verr    (%r8)               /*  17           */
    smsw    (%r8)               /*         17    */
    mov     %rsp, %rbp
    enter   $16, $0             /*         18    */
    leave                       /*  18           */
    enter   $16, $3             /*  19     19    */
    leave                       /*  20           */
    ret

/* Memory operands that are not accessed; a prefetch is a load. */
BODY no_access
    lea     modes_area(%rip), %rcx
    lea     8(%rcx, %rcx), %rax
    nopw    (%rcx)
    .byte   0x0f, 0x19, 0x01    /* a reserved NOP */
    endbr64
    clflush (%rcx)
    clflushopt (%rcx)
    clwb    (%rcx)
    invlpg  (%rcx)
    .byte   0x0f, 0x1a, 0x01    /* MPX, which is not enabled */
    nop
    prefetchnta (%rcx)          /*   1           */
    prefetcht0 (%rcx)           /*   2           */
    prefetchw (%rcx)            /*   3           */
    ret

/* #UD, which goes on behind it */
BODY vmmcall
    nop
    push    %rax
    pop     %rax
    vmmcall
    nop
    push    %rax
    pop     %rax
    push    %rax
    pop     %rax
    vmmcall
    nop
    ret

/* The virtual machine of the VMCB at RDI, until it exits */
BODY vmrun
    mov     %rdi, %rax
    vmrun
    stgi
    ret

    .globl svm_vmmcall
svm_vmmcall:
    nop
    nop
    nop
    vmmcall

    .globl svm_int
svm_int:
    nop
    nop
    nop
    int     $0x90

    .macro  SVM_ACCESS name, index
    .globl  svm_\name
svm_\name:
    mov     $\index, %ecx
    mov     $0x5678, %eax
    xor     %edx, %edx
    \name
    vmmcall
    .endm

    /* Of general counter 3 */
    SVM_ACCESS rdpmc, 3
    SVM_ACCESS rdmsr, 0xc4
    SVM_ACCESS wrmsr, 0xc4

/* #DB after each OUT to the port of an I/O breakpoint */
BODY io_breakpoint
    nop
    out     %al, $0x80
    push    %rax
    pop     %rax
    out     %al, $0x80
    nop
    ret

/* --------------------------------------------------- Code of other modes */

/*
 * Copied to MODES_BASE, so that real mode can execute it. The code enables the
 * counters after the CPU has entered the mode.
 */
#define M(sym)              (MODES_BASE + sym - modes_start)

    .macro COUNT
    mov     $MSR_GLOBAL_CTRL, %ecx
    mov     M(modes_enable), %eax
    mov     M(modes_enable) + 4, %edx
    wrmsr
    .endm

    /* Counts 4 instructions */
    .macro END_COUNT
    mov     $MSR_GLOBAL_CTRL, %ecx
    xor     %eax, %eax
    xor     %edx, %edx
    wrmsr
    .endm

    /* The same in 16-bit and 32-bit code; \cs is its segment. */
    .macro MODE_BODY cs                 /* insns  loads  stores */
    mov     $MODES_DATA, %ebx           /*   1                   */
    mov     (%ebx), %eax                /*   2       1           */
    mov     %ax, 4(%ebx)                /*   3              1    */
    addl    $1, (%ebx)                  /*   4       2      2    */
    push    %eax                        /*   5              3    */
    pop     %ecx                        /*   6       3           */
    pusha                               /*   7              4    */
    popa                                /*   8       4           */
    pushf                               /*   9              5    */
    popf                                /*  10       5           */
    les     16(%ebx), %ecx              /*  11       6           */
    push    %ds                         /*  12              6    */
    pop     %es                         /*  13       7           */
    mov     %esp, %ebp                  /*  14                   */
    enter   $8, $0                      /*  15              7    */
    leave                               /*  16       8           */
    enter   $8, $2                      /*  17       9      8    */
    leave                               /*  18      10           */
    mov     $MODES_DATA, %esi           /*  19                   */
    mov     $MODES_DATA + 32, %edi      /*  20                   */
    movsb                               /*  21      11      9    */
    stosb                               /*  22             10    */
    lodsb                               /*  23      12           */
    scasb                               /*  24      13           */
    cmpsb                               /*  25      14           */
    mov     $3, %ecx                    /*  26                   */
    rep movsb                           /*  27      15     11    */
    xlat                                /*  28      16           */
    lea     8(%ebx), %eax               /*  29                   */
    nopl    (%ebx)                      /*  30                   */
    prefetcht0 (%ebx)                   /*  31      17           */
    call    1f                          /*  32             12    */
    jmp     2f                          /*  33                   */
1:  ret                                 /*  34      18           */
2:  lcall   $\cs, $M(3f)                /*  35             13    */
    jmp     4f                          /*  36                   */
3:  lret                                /*  37      19           */
4:  mov     $2, %ecx                    /*  38                   */
5:  loop    5b                          /*  39, 40               */
    jecxz   6f                          /*  41                   */
    nop
6:  xor     %eax, %eax                  /*  42                   */
    jnz     6b                          /*  43                   */
    into                                /*  44                   */
    bound   %eax, 24(%ebx)              /*  45      20           */
    smsw    8(%ebx)                     /*  46             14    */
    sgdt    48(%ebx)                    /*  47             15    */
    fnstcw  56(%ebx)                    /*  48             16    */
    fldcw   56(%ebx)                    /*  49      21           */
    fldl    16(%ebx)                    /*  50      22           */
    fstpl   64(%ebx)                    /*  51             17    */
    fldt    80(%ebx)                    /*  52      23           */
    fstpt   80(%ebx)                    /*  53             18    */
    fxsave  128(%ebx)                   /*  54             19    */
    fxrstor 128(%ebx)                   /*  55      24           */
    cmpxchg8b 8(%ebx)                   /*  56      25     20    */
    lock incl 12(%ebx)                  /*  57      26     21    */
    xchg    %eax, 12(%ebx)              /*  58      27     22    */
    .endm

    /* Traps three times, to a handler that returns at once */
    .macro INTO_BODY
    mov     $3, %ecx
1:  mov     $0x7f, %al
    add     $1, %al
    into
    nop
    push    %eax
    pop     %eax
    loop    1b
    .endm

    .balign 16
    .globl  modes_start
modes_start:
    .balign 8
    .globl  modes_enable
modes_enable:
    .quad   0
modes_rsp:
    .quad   0
modes_gdtr:
    .quad   0, 0
modes_idtr:
    .quad   0, 0
modes_gdt_pointer:
    .word   modes_gdt_end - modes_gdt - 1
    .long   M(modes_gdt), 0
    .balign 8
real_idt_pointer:
    .word   0x3ff
    .long   0
    .balign 8
v86_idt_pointer:
    .word   8 * MODES_EXIT + 7
    .long   MODES_IDT
    .balign 8
modes_gdt:
    .quad   0
    .quad   0x00af9a000000ffff          /* 08: code of 64 bits */
    .quad   0x00cf92000000ffff          /* 10: data */
    .quad   0x00cf9a000000ffff          /* 18: code of 32 bits */
    .quad   0x00009a000000ffff          /* 20: code of 16 bits */
    .quad   0x0000890000000067 + (MODES_TSS << 16)  /* 28: TSS of 32 bits */
modes_gdt_end:

    .code32
    .balign 16
    .globl  modes_compat_32
modes_compat_32:
    COUNT
    MODE_BODY 0x18
    END_COUNT
    jmp     modes_leave

    .balign 16
    .globl  modes_into_32
modes_into_32:
    COUNT
    INTO_BODY
    END_COUNT
    jmp     modes_leave

    .balign 16
    .globl  modes_compat_16
modes_compat_16:
    ljmp    $0x20, $M(1f)
    .code16
1:  COUNT
    MODE_BODY 0x20
    END_COUNT
    ljmpl   $0x18, $M(modes_leave)

    .code32
    .balign 16
    .globl  modes_into_16
modes_into_16:
    ljmp    $0x20, $M(1f)
    .code16
1:  COUNT
    INTO_BODY
    END_COUNT
    ljmpl   $0x18, $M(modes_leave)

    .code32
    /* Protected mode without paging, and not long mode */
leave_long_mode:
    mov     %cr0, %eax
    and     $0x7fffffff, %eax
    mov     %eax, %cr0
    mov     $MSR_EFER, %ecx
    rdmsr
    and     $~0x100, %eax
    wrmsr
    ret

    .balign 16
    .globl  modes_legacy_32
modes_legacy_32:
    call    leave_long_mode
    COUNT
    MODE_BODY 0x18
    END_COUNT
    jmp     enter_long_mode

    .balign 16
    .globl  modes_real
modes_real:
    call    leave_long_mode
    lidt    M(real_idt_pointer)
    ljmp    $0x20, $M(1f)
    .code16
1:  mov     %cr0, %eax
    and     $~1, %eax
    mov     %eax, %cr0
    ljmp    $0, $M(2f)
2:  xor     %ax, %ax
    mov     %ax, %ds
    mov     %ax, %es
    mov     %ax, %ss
    movw    $M(real_iret), 4 * 4
    movw    $0, 4 * 4 + 2
    COUNT
    MODE_BODY 0
    INTO_BODY
    int     $4
    END_COUNT
    mov     %cr0, %eax
    or      $1, %eax
    mov     %eax, %cr0
    ljmpl   $0x18, $M(enter_long_mode)
real_iret:
    iret

    .code32
    .balign 16
    .globl  modes_v86
modes_v86:
    call    leave_long_mode
    lidt    M(v86_idt_pointer)
    mov     $0x28, %eax
    ltr     %ax
    xor     %eax, %eax
    push    %eax                        /* GS, FS, DS, ES, SS, ESP */
    push    %eax
    push    %eax
    push    %eax
    push    %eax
    push    $MODES_STACK - 0x800
    push    $0x23002                    /* VM, IOPL 3 */
    push    %eax
    push    $M(1f)
    COUNT
    iret
    .code16
1:  MODE_BODY 0
    int     $MODES_EXIT
    .code32
    .globl  modes_v86_exit
modes_v86_exit:
    END_COUNT
    mov     $0x10, %eax
    mov     %eax, %ds
    mov     %eax, %es

enter_long_mode:
    mov     $0x10, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %ss
    mov     $MSR_EFER, %ecx
    rdmsr
    or      $0x100, %eax
    wrmsr
    mov     %cr0, %eax
    or      $0x80000000, %eax
    mov     %eax, %cr0
modes_leave:
    ljmp    $0x08, $M(1f)
    .code64
1:  mov     $modes_return, %rax
    jmp     *%rax
    .globl  modes_end
modes_end:

/* void run_mode(uint32_t entry): go to 32-bit code in the copy */
    .globl  run_mode
run_mode:
    SAVE
    pushf
    cli
    mov     %rsp, M(modes_rsp)
    sgdt    M(modes_gdtr)
    sidt    M(modes_idtr)
    lgdt    M(modes_gdt_pointer)
    mov     $0x10, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %ss
    mov     $MODES_STACK, %esp
    pushq   $0x18
    push    %rdi
    lretq
modes_return:
    lgdt    M(modes_gdtr)
    lidt    M(modes_idtr)
    mov     M(modes_rsp), %rsp
    xor     %eax, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %fs
    mov     %eax, %gs
    popf
    RESTORE
    ret

    .section .bss
    .balign 64
    .globl  modes_area
modes_area:
    .skip   4096
