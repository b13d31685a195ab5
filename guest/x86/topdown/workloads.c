/*
 * Workloads: a round is about 10 million slots with pmu-model=precise
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include "topdown.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Nothing to wait for: ten instructions, and a branch that is always taken */
static void loop(unsigned rounds)
{
    asm volatile("1: add $1, %%rax\n"
                 "add $1, %%rcx\n"
                 "add $1, %%rdx\n"
                 "add $1, %%rsi\n"
                 "add $1, %%rdi\n"
                 "add $1, %%r8\n"
                 "add $1, %%r9\n"
                 "add $1, %%r10\n"
                 "dec %0\n"
                 "jnz 1b"
                 : "+&r"((uint64_t){ rounds * 1000000ull })
                 : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "cc");
}

/* Each bit of a random number decides a branch */
static void branches(unsigned rounds)
{
    asm volatile("mov $88172645463325252, %%rax\n"
                 "1: mov %%rax, %%rdx\n"
                 "shl $13, %%rdx\n"
                 "xor %%rdx, %%rax\n"
                 "mov %%rax, %%rdx\n"
                 "shr $7, %%rdx\n"
                 "xor %%rdx, %%rax\n"
                 "mov %%rax, %%rdx\n"
                 "shl $17, %%rdx\n"
                 "xor %%rdx, %%rax\n"
                 "mov %%rax, %%rdx\n"
                 ".rept 32\n"
                 "add %%rdx, %%rdx\n"
                 "jnc 2f\n"
                 "inc %%rcx\n"
                 "2:\n"
                 ".endr\n"
                 "dec %0\n"
                 "jnz 1b"
                 : "+&r"((uint64_t){ rounds * 8000ull })
                 : : "rax", "rcx", "rdx", "cc");
}

/* Each divisor is the quotient before */
static void divide(unsigned rounds)
{
    asm volatile("mov $3, %%ecx\n"
                 "1: mov $1000000007, %%eax\n"
                 "xor %%edx, %%edx\n"
                 "div %%ecx\n"
                 "mov %%eax, %%ecx\n"
                 "or $1, %%ecx\n"
                 "dec %0\n"
                 "jnz 1b"
                 : "+&r"((uint64_t){ rounds * 150000ull })
                 : : "rax", "rcx", "rdx", "cc");
}

/* 256 KiB of code without a branch: 32768 instructions of 8 bytes */
asm(".globl long_code\n"
    ".type long_code, @function\n"
    "long_code:\n"
    ".rept 32768\n"
    "lea 0x12345678(%rax,%rax), %rax\n"
    ".endr\n"
    "ret\n");

void long_code(void);

static void code(unsigned rounds)
{
    for (uint64_t i = 0; i < rounds * 44ull; i++) {
        long_code();
    }
}

#define LINE 64
#define LINES (32u * 1024 * 1024 / LINE)

/* One pointer in each line of 32 MiB, all of them one cycle in a random order */
static void chase(unsigned rounds)
{
    char *memory = mmap(NULL, (size_t)LINES * LINE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    void **place = (void **)memory;

    if (memory == MAP_FAILED) {
        perror("topdown: memory");
        exit(2);
    }
    for (uint32_t i = 0; i < LINES; i++) {          /* a generator of full period */
        *(void **)(memory + (size_t)i * LINE) =
            memory + (size_t)((i * 1664525u + 1013904223u) % LINES) * LINE;
    }
    for (uint64_t i = 0; i < rounds * 10000ull; i++) {
        asm volatile(".rept 4\n"
                     "mov (%0), %0\n"
                     ".endr"
                     : "+r"(place) : : "memory");
    }
    munmap(memory, (size_t)LINES * LINE);
}

const Workload workloads[] = {
    { "branches", branches, "random branches: bad speculation" },
    { "chase", chase, "a chain of pointers through 32 MiB: memory bound" },
    { "divide", divide, "a chain of divisions: core bound" },
    { "code", code, "256 KiB of code without a branch: frontend bound" },
    { "loop", loop, "a simple loop: retiring" },
    { NULL, NULL, NULL },
};
