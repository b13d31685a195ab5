/*
 * rdpmc: are counters exact?
 *
 * Reads counters in user space with RDPMC, before and after loops of which every
 * instruction is known, and compares with what the loops' text says. The same
 * loops through read(), where the difference of 2N and N iterations cancels what
 * the system call itself counts. Two runs print the same.
 *
 * usage: rdpmc [CPU]
 * Exit status: 0 if all counts are right, 1 if one is not, 2 without counters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
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
 * there are FIXED instructions and those of the loop.
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

asm(
    /* branches of all kinds; one conditional is never taken */
    BEGIN("loop_branches")
    "1: call 2f\n"
    "xor %eax, %eax\n"
    "jnz 3f\n"
    "jmp 4f\n"
    "4: dec %rsi\n"
    "jnz 1b\n"
    END
    "2: ret\n"
    "3: ud2\n"

    /* each store faults, and runs again when its page is there */
    BEGIN("loop_faults")
    "1: movb $1, (%r9)\n"
    "add $4096, %r9\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    /* a repeated instruction is one, however often it is repeated */
    BEGIN("loop_strings")
    "1: mov %r9, %rdi\n"
    "mov $3000, %ecx\n"
    "rep stosb\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END
);

typedef uint64_t Loop(uint32_t counter, uint64_t iterations, void *memory);
Loop loop_branches, loop_faults, loop_strings;

enum { INSTRUCTIONS, BRANCHES, CONDITIONAL, N_EVENTS };

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} events[N_EVENTS] = {
    { "instructions:u", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
    { "branches:u", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
    { "r11c4:u", PERF_TYPE_RAW, 0x11c4 },       /* conditional branches */
};

static const struct {
    const char *name;
    Loop *loop;
    uint64_t iterations;
    unsigned each[N_EVENTS];                    /* counts of one iteration */
} loops[] = {
    { "branches", loop_branches, 1, { 7, 5, 2 } },
    { "branches", loop_branches, 100000, { 7, 5, 2 } },
    { "faults", loop_faults, 100, { 4, 1, 1 } },
    { "strings", loop_strings, 100, { 5, 1, 1 } },
};

#define MEMORY (200ull * 4096)

static int failures;

static void check(const char *event, const char *loop, uint64_t iterations, const char *how,
                  uint64_t counted, uint64_t expected)
{
    bool good = counted == expected;

    printf("%-14s %-8s %6llu %-5s %10llu %10llu %s\n", event, loop,
           (unsigned long long)iterations, how, (unsigned long long)counted,
           (unsigned long long)expected, good ? "ok" : "FAILED");
    failures += !good;
}

static void *fresh_pages(void)
{
    void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || madvise(memory, MEMORY, MADV_NOHUGEPAGE)) {
        perror("rdpmc: memory");
        exit(2);
    }
    return memory;
}

static uint64_t value(int fd)
{
    uint64_t count = 0;

    if (read(fd, &count, sizeof(count)) != sizeof(count)) {
        fputs("rdpmc: the kernel took the counter away\n", stderr);
        exit(2);
    }
    return count;
}

/* Between two RDPMC; false if the kernel moved the counter meanwhile */
static bool measure(volatile struct perf_event_mmap_page *page, Loop *loop, uint64_t iterations,
                    uint64_t *counted)
{
    void *memory = fresh_pages();
    uint32_t lock = page->lock, index = page->index;
    uint64_t mask = page->pmc_width < 64 ? (1ull << page->pmc_width) - 1 : ~0ull;
    bool good;

    if (index) {
        *counted = loop(index - 1, iterations, memory) & mask;
    }
    good = index && page->lock == lock && page->index == index;
    munmap(memory, MEMORY);
    return good;
}

static void test_event(unsigned e)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr), .type = events[e].type, .config = events[e].config,
        .exclude_kernel = 1, .exclude_hv = 1, .pinned = 1,
    };
    volatile struct perf_event_mmap_page *page;
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

    if (fd < 0) {
        fprintf(stderr, "rdpmc: no counter for %s: %s; does the CPU have pmu=on?\n",
                events[e].name, strerror(errno));
        exit(2);
    }
    page = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED || !page->cap_user_rdpmc) {
        fputs("rdpmc: the kernel does not allow RDPMC in user space\n", stderr);
        exit(2);
    }
    for (unsigned i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        uint64_t n = loops[i].iterations, each = loops[i].each[e], counted = 0, around[2];
        int tries = 100;

        while (!measure(page, loops[i].loop, n, &counted) && --tries) {
            sched_yield();
        }
        if (!tries) {
            fputs("rdpmc: the counter was never left alone\n", stderr);
            exit(2);
        }
        check(events[e].name, loops[i].name, n, "rdpmc", counted,
              each * n + (e == INSTRUCTIONS ? FIXED : 0));

        for (unsigned k = 0; k < 2; k++) {      /* the same instructions for both */
            void *memory = fresh_pages();
            uint64_t before = value(fd);

            loops[i].loop(page->index - 1, n << k, memory);
            around[k] = value(fd) - before;
            munmap(memory, MEMORY);
        }
        check(events[e].name, loops[i].name, n, "read", around[1] - around[0], each * n);
    }
    munmap((void *)page, getpagesize());
    close(fd);
}

int main(int argc, char **argv)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(argc > 1 ? atoi(argv[1]) : 0, &cpus);
    if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
        perror("rdpmc: CPU");
        return 2;
    }
    /* Threads of the kernel get their turn afterwards; a slow host's ticks are short for us. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
    printf("%-14s %-8s %6s %-5s %10s %10s\n", "event", "loop", "N", "how", "counted", "expected");
    for (unsigned e = 0; e < N_EVENTS; e++) {
        test_event(e);
    }
    return failures ? 1 : 0;
}
