/*
 * tinyvm: a virtual machine that executes a known number of instructions
 *
 *   tinyvm TURNS
 *
 * runs TURNS turns of a loop in a virtual machine of KVM-HV, in the guest's
 * privileged state (MSR[HV] and MSR[PR] are 0), and prints how many
 * instructions that were:
 *
 *   vm 2004
 *
 * for 1000 turns: two in a turn, one before the loop, and the hypercall with
 * the two that load its number. The hypercall has a number that KVM does not
 * know, and so ends KVM_RUN.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include "../vm.h"

#define RAM_SIZE    0x100000            /* from guest physical address 0 on */
#define START       0x10000
#define HCALL       0x7fff0004

#define MSR_SF      (1ULL << 63)        /* 64 bits */
#define MSR_ME      (1ULL << 12)        /* machine checks */
#define MSR_LE      1ULL                /* little-endian */

/* r3: turns; r4: turns done. Without address translation */
extern const char code[], code_end[];
asm("   .pushsection .rodata\n"
    "   .balign 4\n"
    "code:\n"
    "   mtctr   3\n"
    "1: addi    4, 4, 1\n"
    "   bdnz    1b\n"
    "   li      3, 4\n"
    "   oris    3, 3, 0x7fff\n"
    "   sc      1\n"
    "code_end:\n"
    "   .popsection\n");

int main(int argc, char **argv)
{
    struct kvm_enable_cap papr = { .cap = KVM_CAP_PPC_PAPR };
    uint64_t turns;
    struct kvm_regs regs;
    VM vm;

    if (argc != 2 || !(turns = strtoull(argv[1], NULL, 0))) {
        fputs("usage: tinyvm TURNS\n", stderr);
        return 2;
    }
    vm = vm_create(KVM_VM_PPC_HV, 0, RAM_SIZE, START, code, code_end);
    VM_CALL(vm.cpu, KVM_ENABLE_CAP, &papr);     /* KVM-HV runs nothing else */
    VM_CALL(vm.cpu, KVM_GET_REGS, &regs);
    regs.pc = START;
    regs.msr = MSR_SF | MSR_ME | MSR_LE;
    regs.gpr[3] = turns;
    regs.gpr[4] = 0;
    VM_CALL(vm.cpu, KVM_SET_REGS, &regs);
    vm_run(&vm, KVM_EXIT_PAPR_HCALL);
    VM_CALL(vm.cpu, KVM_GET_REGS, &regs);
    if (vm.run->papr_hcall.nr != HCALL || regs.gpr[4] != turns) {
        fprintf(stderr, "hypercall %" PRIx64 " after %" PRIu64 " turns\n",
                (uint64_t)vm.run->papr_hcall.nr, (uint64_t)regs.gpr[4]);
        return 2;
    }
    printf("vm %" PRIu64 "\n", 2 * turns + 4);
    return 0;
}
