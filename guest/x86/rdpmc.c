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
#include "counter.h"
#include <stdbool.h>

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
        fail("memory", strerror(errno));
    }
    return memory;
}

static uint64_t value(int fd)
{
    uint64_t count = 0;

    if (read(fd, &count, sizeof(count)) != sizeof(count)) {
        fail("counter", "the kernel took it away");
    }
    return count;
}

/* Between two RDPMC; false if the kernel moved the counter meanwhile */
static bool measure(Page *page, Loop *loop, uint64_t iterations, uint64_t *counted)
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
    int fd = open_event(&attr, -1);
    Page *page;

    if (fd < 0) {
        fprintf(stderr, "rdpmc: no counter for %s: %s; does the CPU have pmu=on?\n",
                events[e].name, strerror(errno));
        exit(2);
    }
    page = map_counter(fd);
    for (unsigned i = 0; i < sizeof(loops) / sizeof(*loops); i++) {
        uint64_t n = loops[i].iterations, each = loops[i].each[e], counted = 0, around[2];
        int tries = 100;

        while (!measure(page, loops[i].loop, n, &counted) && --tries) {
            sched_yield();
        }
        if (!tries) {
            fail("counter", "it was never left alone");
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
    stay_on(argc > 1 ? atoi(argv[1]) : 0);
    printf("%-14s %-8s %6s %-5s %10s %10s\n", "event", "loop", "N", "how", "counted", "expected");
    for (unsigned e = 0; e < N_EVENTS; e++) {
        test_event(e);
    }
    return failures ? 1 : 0;
}
