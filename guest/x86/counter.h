/*
 * Counters that are read with RDPMC, around loops of which every instruction is known
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef COUNTER_H
#define COUNTER_H

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * uint64_t loop(uint32_t counter, uint64_t iterations, void *memory)
 *
 * From one RDPMC to the other (the first is counted, the second is not yet)
 * there are FIXED instructions and those of the loop. It has the iterations in
 * RSI, the memory in R9, and leaves R8 and R10 alone.
 */
#define FIXED 5
#define BEGIN(name)             \
    ".globl " name "\n"         \
    ".type " name ", @function\n" \
    name ":\n"                  \
    "mov %edi, %r10d\n"         \
    "mov %rdx, %r9\n"           \
    "mov %edi, %ecx\n"          \
    "rdpmc\n"                   \
    "shl $32, %rdx\n"           \
    "or %rdx, %rax\n"           \
    "mov %rax, %r8\n"
#define END                     \
    "mov %r10d, %ecx\n"         \
    "rdpmc\n"                   \
    "shl $32, %rdx\n"           \
    "or %rdx, %rax\n"           \
    "sub %r8, %rax\n"           \
    "ret\n"

typedef uint64_t Loop(uint32_t counter, uint64_t iterations, void *memory);
typedef volatile struct perf_event_mmap_page Page;

static __attribute__((noreturn)) void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(2);
}

/* On one CPU, until the program ends or sleeps: a slow host's ticks are short for us */
static void stay_on(int cpu)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
        fail("CPU", strerror(errno));
    }
    /* Threads of the kernel get their turn afterwards. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
}

/* The page that tells which counter an event of this process has now */
static Page *map_counter(int fd)
{
    Page *page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED || !page->cap_user_rdpmc) {
        fail("RDPMC", "the kernel does not allow it in user space");
    }
    return page;
}

static int open_event(const struct perf_event_attr *attr, int group)
{
    return syscall(SYS_perf_event_open, attr, 0, -1, group, 0);
}

#endif
