/*
 * Start-up, exceptions and mode switches of the x86 PMU test program
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "guest.h"
#include "macros.S.inc"

#define MSR_APICBASE        0x1b
#define MSR_EFER            0xc0000080
#define IVT_GP              (13 * 4)

    .section .config, "a"
    .globl config_command
config_command:
    .long   0
    .globl config_cpu
config_cpu:
    .long   0

/*
 * The last page of the ROM, which is also at 0xff000. CPUs leave it for the
 * trampoline in RAM, where the others start, too.
 */
    .section .reset, "ax"
    .code16
    .globl reset
reset:
    cli
    cld
    mov     $0xff00, %ax
    mov     %ax, %ds
    xor     %ax, %ax
    mov     %ax, %es
    mov     $(trampoline - reset), %si
    mov     $GUEST_TRAMPOLINE, %di
    mov     $(trampoline_end - trampoline), %cx
    rep movsb
    ljmp    $0, $GUEST_TRAMPOLINE

#define T(sym) (GUEST_TRAMPOLINE + sym - trampoline)

    .balign 16
trampoline:
    jmp     1f
    .balign 8
    /* What a CPU shall do in real mode; the offsets are known to lib.h */
real_mode_rdpmc:
    .long   0                   /* 1: RDPMC, then 2 or 3 when it faulted */
real_mode_index:
    .long   0
real_mode_result:
    .long   0, 0
1:
    cli
    xor     %ax, %ax
    mov     %ax, %ds
    mov     %ax, %ss
    mov     $GUEST_TRAMPOLINE, %sp
    cmpl    $1, T(real_mode_rdpmc)
    jne     protected_mode
    movw    $T(real_mode_gp), IVT_GP
    movw    $0, IVT_GP + 2
    mov     T(real_mode_index), %ecx
    rdpmc
    mov     %eax, T(real_mode_result)
    mov     %edx, T(real_mode_result) + 4
    movl    $2, T(real_mode_rdpmc)
    jmp     protected_mode
real_mode_gp:
    movl    $3, T(real_mode_rdpmc)
protected_mode:
    lgdtl   T(gdt_pointer)
    mov     %cr0, %eax
    or      $1, %eax
    mov     %eax, %cr0
    ljmpl   $0x18, $T(protected_mode_32)

    .code32
protected_mode_32:
    mov     $0x10, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %ss
    mov     $MSR_APICBASE, %ecx
    rdmsr
    xor     %ebp, %ebp
    test    $0x100, %eax
    jz      long_mode
    inc     %ebp
    cld
    mov     $-GUEST_ROM_SIZE, %esi
    mov     $GUEST_RAM_BASE, %edi
    mov     $(GUEST_ROM_SIZE / 4), %ecx
    rep movsl
    xor     %eax, %eax
    mov     $bss_start, %edi
    mov     $bss_end, %ecx
    sub     %edi, %ecx
    rep stosb

    /* Identity mapping of 4 GiB, for all privilege levels */
    mov     $GUEST_PAGE_TABLES, %edi
    mov     $0x1800, %ecx
    rep stosl
    movl    $(GUEST_PAGE_TABLES + 0x1007), GUEST_PAGE_TABLES
    mov     $(GUEST_PAGE_TABLES + 0x1000), %edi
    mov     $(GUEST_PAGE_TABLES + 0x2007), %eax
    mov     $4, %ecx
1:  mov     %eax, (%edi)
    add     $8, %edi
    add     $0x1000, %eax
    loop    1b
    mov     $(GUEST_PAGE_TABLES + 0x2000), %edi
    mov     $0x87, %eax
    mov     $2048, %ecx
1:  mov     %eax, (%edi)
    add     $8, %edi
    add     $0x200000, %eax
    loop    1b
    movl    $(GUEST_PAGE_TABLES + 0x6007), \
            GUEST_PAGE_TABLES + 0x2000 + (GUEST_SMALL_PAGES >> 21) * 8
    mov     $(GUEST_PAGE_TABLES + 0x6000), %edi
    mov     $(GUEST_SMALL_PAGES + 7), %eax
    mov     $512, %ecx
1:  mov     %eax, (%edi)
    movl    $0, 4(%edi)
    add     $8, %edi
    add     $0x1000, %eax
    loop    1b

long_mode:
    mov     $0x20, %eax         /* PAE */
    mov     %eax, %cr4
    mov     $GUEST_PAGE_TABLES, %eax
    mov     %eax, %cr3
    mov     $MSR_EFER, %ecx
    mov     $0x101, %eax        /* LME, SCE */
    xor     %edx, %edx
    wrmsr
    mov     $0x80010001, %eax   /* PG, WP, PE */
    mov     %eax, %cr0
    ljmpl   $0x08, $T(long_mode_64)

    .code64
long_mode_64:
    xor     %eax, %eax
    mov     %eax, %ds
    mov     %eax, %es
    mov     %eax, %fs
    mov     %eax, %gs
    mov     $stacks + GUEST_STACK_SIZE, %rsp
    mov     $guest_main, %rax
    test    %ebp, %ebp
    jnz     1f
    add     $GUEST_STACK_SIZE, %rsp
    mov     $guest_main_ap, %rax
1:  call    *%rax
2:  hlt
    jmp     2b

    .balign 8
gdt_pointer:
    .word   gdt_end - gdt - 1
    .long   T(gdt)
    .balign 8
gdt:
    .quad   0
    .quad   0x00af9a000000ffff  /* 08: code, and 10: data of the kernel */
    .quad   0x00cf92000000ffff
    .quad   0x00cf9a000000ffff  /* 18: code of 32 bits */
    .quad   0x00cffa000000ffff  /* 20: code of 32 bits, */
    .quad   0x00cff2000000ffff  /* 28: data and */
    .quad   0x00affa000000ffff  /* 30: code of programs */
    .quad   0, 0, 0, 0          /* 38, 48: TSS, see setup_cpu() */
    .quad   0                   /* 58: 16-bit code of programs, see random.c */
gdt_end:
trampoline_end:

    .section .reset_vector, "ax"
    .code16
    ljmp    $0xff00, $0

    .section .bss
    .balign GUEST_STACK_SIZE
    .globl stacks
stacks:
    .skip   GUEST_STACK_SIZE * 2

    .text
    .code64

/* One stub of 16 bytes for each vector, so that trap() knows the vector */
    .balign 16
    .globl trap_stubs
trap_stubs:
    .set    vector, 0
    .rept   256
    .balign 16
    .if     !(vector == 8 || vector >= 10 && vector <= 14 || vector == 17)
    push    $0
    .endif
    pushq   $vector
    jmp     trap_common
    .set    vector, vector + 1
    .endr

trap_common:
    push    %r15
    push    %r14
    push    %r13
    push    %r12
    push    %r11
    push    %r10
    push    %r9
    push    %r8
    push    %rbp
    push    %rdi
    push    %rsi
    push    %rdx
    push    %rcx
    push    %rbx
    push    %rax
    cld
    mov     %rsp, %rdi
    mov     %rsp, %rbx
    and     $-16, %rsp
    call    trap
    mov     %rbx, %rsp
    pop     %rax
    pop     %rbx
    pop     %rcx
    pop     %rdx
    pop     %rsi
    pop     %rdi
    pop     %rbp
    pop     %r8
    pop     %r9
    pop     %r10
    pop     %r11
    pop     %r12
    pop     %r13
    pop     %r14
    pop     %r15
    add     $16, %rsp
    iretq

/*
 * void run_kernel(body, arg, tss): count what the body does.
 * Counted are the CALL, the body with its RET, and DISABLE; see lib.h.
 */
    .globl run_kernel
run_kernel:
    SAVE
    mov     %rdi, %r12
    mov     %rsi, %rdi
    ENABLE
    call    *%r12
    DISABLE
    RESTORE
    ret

/*
 * void run_user(body, arg, tss): the same at CPL 3, with run_user_flags.
 * Counted are the IRET and DISABLE at CPL 0; the CALL, the body with its RET,
 * and the INT at CPL 3.
 */
    .globl run_user
run_user:
    SAVE
    mov     %rdi, %r12
    mov     %rsi, %rdi
    push    %rdx                /* aligns the stack, as INT does */
    mov     %rsp, 4(%rdx)
    pushq   $0x2b
    lea     user_stack_end(%rip), %rax
    push    %rax
    pushq   run_user_flags(%rip)
    pushq   $0x33
    lea     user_entry(%rip), %rax
    push    %rax
    ENABLE
    iretq
user_entry:
    call    *%r12
    int     $0x80

    .globl user_exit
user_exit:
    DISABLE
    add     $48, %rsp
    RESTORE
    ret

    .section .bss
    .balign 16
    .skip   4096
user_stack_end:
    .globl run_user_flags
run_user_flags:
    .skip   8
    .globl pmu_enable
pmu_enable:
    .skip   8
