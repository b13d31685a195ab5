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

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

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

static int call(int fd, unsigned long request, const char *name, void *argument)
{
    int result = ioctl(fd, request, argument);

    if (result < 0) {
        perror(name);
        exit(2);
    }
    return result;
}
#define CALL(fd, request, argument) call(fd, request, #request, (void *)(argument))

int main(int argc, char **argv)
{
    struct kvm_userspace_memory_region ram = { .memory_size = RAM_SIZE };
    struct kvm_enable_cap papr = { .cap = KVM_CAP_PPC_PAPR };
    uint64_t turns;
    struct kvm_regs regs;
    struct kvm_run *run;
    int kvm, vm, vcpu, size;
    void *memory;

    if (argc != 2 || !(turns = strtoull(argv[1], NULL, 0))) {
        fputs("usage: tinyvm TURNS\n", stderr);
        return 2;
    }
    kvm = open("/dev/kvm", O_RDWR);
    if (kvm < 0) {
        perror("/dev/kvm");
        return 2;
    }
    memory = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    memcpy((char *)memory + START, code, code_end - code);
    ram.userspace_addr = (uintptr_t)memory;
    vm = CALL(kvm, KVM_CREATE_VM, (uintptr_t)KVM_VM_PPC_HV);
    CALL(vm, KVM_SET_USER_MEMORY_REGION, &ram);
    vcpu = CALL(vm, KVM_CREATE_VCPU, 0);
    CALL(vcpu, KVM_ENABLE_CAP, &papr);      /* KVM-HV runs nothing else */
    CALL(vcpu, KVM_GET_REGS, &regs);
    regs.pc = START;
    regs.msr = MSR_SF | MSR_ME | MSR_LE;
    regs.gpr[3] = turns;
    regs.gpr[4] = 0;
    CALL(vcpu, KVM_SET_REGS, &regs);
    size = CALL(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
    if (run == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    /* A signal interrupts KVM_RUN, and it goes on where it was */
    while (ioctl(vcpu, KVM_RUN, 0) < 0) {
        if (errno != EINTR) {
            perror("KVM_RUN");
            return 2;
        }
    }
    if (run->exit_reason != KVM_EXIT_PAPR_HCALL || run->papr_hcall.nr != HCALL) {
        fprintf(stderr, "unexpected exit %u\n", run->exit_reason);
        return 2;
    }
    CALL(vcpu, KVM_GET_REGS, &regs);
    if (regs.gpr[4] != turns) {
        fprintf(stderr, "%" PRIu64 " turns instead of %" PRIu64 "\n", (uint64_t)regs.gpr[4], turns);
        return 2;
    }
    printf("vm %" PRIu64 "\n", 2 * turns + 4);
    return 0;
}
