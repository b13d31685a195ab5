/*
 * Shared by the programs tinyvm of the architectures: a virtual machine of KVM
 * with one CPU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

typedef struct VM {
    int kvm, fd, cpu;       /* what ioctls of each kind want */
    struct kvm_run *run;
} VM;

static void vm_fail(const char *what)
{
    perror(what);
    exit(2);
}

static int vm_call(int fd, unsigned long request, const char *name, void *argument)
{
    int result = ioctl(fd, request, argument);

    if (result < 0) {
        vm_fail(name);
    }
    return result;
}
#define VM_CALL(fd, request, argument) \
    vm_call(fd, request, #request, (void *)(argument))

static void *vm_map(size_t size, int flags, int fd)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);

    if (memory == MAP_FAILED) {
        vm_fail("mmap");
    }
    return memory;
}

/*
 * A machine of KVM's type @type with @size bytes of RAM at @at, which has @code
 * at @start
 */
static VM vm_create(uintptr_t type, uint64_t at, size_t size, uint64_t start,
                    const char *code, const char *code_end)
{
    char *memory = vm_map(size, MAP_ANONYMOUS, -1);
    struct kvm_userspace_memory_region ram = {
        .guest_phys_addr = at, .memory_size = size,
        .userspace_addr = (uintptr_t)memory,
    };
    VM vm = { .kvm = open("/dev/kvm", O_RDWR) };

    if (vm.kvm < 0) {
        vm_fail("/dev/kvm");
    }
    memcpy(memory + (start - at), code, code_end - code);
    vm.fd = VM_CALL(vm.kvm, KVM_CREATE_VM, type);
    VM_CALL(vm.fd, KVM_SET_USER_MEMORY_REGION, &ram);
    vm.cpu = VM_CALL(vm.fd, KVM_CREATE_VCPU, 0);
    vm.run = vm_map(VM_CALL(vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0), 0, vm.cpu);
    return vm;
}

/* Run it until it exits for @reason, of which there must be no other. */
static void vm_run(VM *vm, uint32_t reason)
{
    /* KVM_RUN is interrupted by signals, and when a virtual interrupt changes */
    while (ioctl(vm->cpu, KVM_RUN, 0) < 0) {
        if (errno != EINTR) {
            vm_fail("KVM_RUN");
        }
    }
    if (vm->run->exit_reason != reason) {
        fprintf(stderr, "unexpected exit %u\n", vm->run->exit_reason);
        exit(2);
    }
}
