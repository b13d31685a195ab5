/*
 * tinyvm: a virtual machine that counts what it executes
 *
 *   tinyvm TURNS
 *
 * runs TURNS turns of a loop at EL1 of a virtual machine of KVM's, which counts
 * them with event counters 0 to 2 of its own PMU, and prints the counters:
 *
 *   vm 3001 1000 1000
 *
 * instructions (three in a turn, and the ISB before the loop), branches, and
 * loads. KVM traps accesses to the counters, so that they do not retire.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <inttypes.h>
#include <stddef.h>
#include "../vm.h"

#define RAM         0x10000             /* guest physical address, and size */
#define RESULT      0x100000            /* not RAM: a store there ends the machine */

#define REG(name)   (KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
                     KVM_REG_ARM_CORE_REG(regs.name))

/* x0: turns; x1: RESULT; x2: RAM */
extern const char code[], code_end[];
asm("   .pushsection .rodata\n"
    "   .balign 4\n"
    "   .globl  code, code_end\n"
    "code:\n"
    /* The reset value of PMCNTENSET_EL0 is unknown. */
    "   mov     x3, #-1\n"
    "   msr     pmcntenclr_el0, x3\n"
    "   mov     x3, #0x08\n"            /* INST_RETIRED */
    "   msr     pmevtyper0_el0, x3\n"
    "   mov     x3, #0x21\n"            /* BR_RETIRED */
    "   msr     pmevtyper1_el0, x3\n"
    "   mov     x3, #0x06\n"            /* LD_RETIRED */
    "   msr     pmevtyper2_el0, x3\n"
    "   mov     x3, #0x43\n"            /* LC, P, E */
    "   msr     pmcr_el0, x3\n"
    "   mov     x3, #7\n"
    "   msr     pmcntenset_el0, x3\n"
    "   isb\n"
    "1: ldr     x4, [x2]\n"
    "   subs    x0, x0, #1\n"
    "   b.ne    1b\n"
    "   msr     pmcntenclr_el0, x3\n"
    "   mrs     x3, pmevcntr0_el0\n"
    "   str     x3, [x1]\n"
    "   mrs     x3, pmevcntr1_el0\n"
    "   str     x3, [x1]\n"
    "   mrs     x3, pmevcntr2_el0\n"
    "   str     x3, [x1]\n"
    "code_end:\n"
    "   .popsection\n");

static void set_reg(int vcpu, uint64_t id, uint64_t value)
{
    struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

    VM_CALL(vcpu, KVM_SET_ONE_REG, &reg);
}

int main(int argc, char **argv)
{
    struct kvm_device_attr pmu = {
        .group = KVM_ARM_VCPU_PMU_V3_CTRL, .attr = KVM_ARM_VCPU_PMU_V3_INIT,
    };
    struct kvm_vcpu_init init = { 0 };
    uint64_t turns;
    VM vm;

    if (argc != 2 || !(turns = strtoull(argv[1], NULL, 0))) {
        fputs("usage: tinyvm TURNS\n", stderr);
        return 2;
    }
    vm = vm_create(0, RAM, RAM, RAM, code, code_end);
    VM_CALL(vm.fd, KVM_ARM_PREFERRED_TARGET, &init);
    init.features[0] |= 1 << KVM_ARM_VCPU_PMU_V3;
    VM_CALL(vm.cpu, KVM_ARM_VCPU_INIT, &init);
    /* Without an interrupt controller, the PMU needs no interrupt */
    VM_CALL(vm.cpu, KVM_SET_DEVICE_ATTR, &pmu);
    set_reg(vm.cpu, REG(regs[0]), turns);
    set_reg(vm.cpu, REG(regs[1]), RESULT);
    set_reg(vm.cpu, REG(regs[2]), RAM);
    set_reg(vm.cpu, REG(pc), RAM);
    printf("vm");
    for (int i = 0; i < 3; i++) {
        uint64_t count;

        vm_run(&vm, KVM_EXIT_MMIO);
        if (vm.run->mmio.phys_addr != RESULT) {
            fprintf(stderr, "unexpected access of %" PRIx64 "\n",
                    (uint64_t)vm.run->mmio.phys_addr);
            return 2;
        }
        memcpy(&count, vm.run->mmio.data, sizeof(count));
        printf(" %" PRIu64, count);
    }
    putchar('\n');
    return 0;
}
