/*
 * Check slots and metrics: loops whose slots are known, and the kernel's rules for groups
 *
 * The slots of a loop are those of pmu-model=static.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include "../counter.h"
#include "topdown.h"
#include <math.h>
#include <stdbool.h>
#include <sys/ioctl.h>

asm(
    BEGIN("loop_nops")
    "1: .rept 10\n"
    "nop\n"
    ".endr\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    BEGIN("loop_straight")
    "1: .rept 10000\n"
    "nop\n"
    ".endr\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    BEGIN("loop_loads")
    "1: .rept 4\n"
    "mov (%r9), %rax\n"
    ".endr\n"
    "add (%r9), %rax\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    BEGIN("loop_divides")
    "1: mov $7, %ecx\n"
    "mov $1000, %eax\n"
    "xor %edx, %edx\n"
    "div %ecx\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    BEGIN("loop_serial")
    "1: mov %rbx, %r11\n"
    "xor %eax, %eax\n"
    "cpuid\n"
    "mov %r11, %rbx\n"
    "dec %rsi\n"
    "jnz 1b\n"
    END

    BEGIN("loop_jumps")
    "1: lea 2f(%rip), %rax\n"
    "jmp *%rax\n"
    "2: jmp 3f\n"
    "3: dec %rsi\n"
    "jnz 1b\n"
    END
);

Loop loop_nops, loop_straight, loop_loads, loop_divides, loop_serial, loop_jumps;

enum { RETIRING, BAD_SPEC, FRONTEND, BACKEND, HEAVY, MISPREDICT, LATENCY, MEMORY, METRICS };

static const char *const metric_names[METRICS] = {
    "retiring", "bad-spec", "fe-bound", "be-bound", "heavy-ops", "br-mispredict", "fetch-lat",
    "mem-bound",
};

static const struct {
    const char *name;
    Loop *loop;
    uint64_t iterations;
    unsigned light, heavy, mispredict, latency, bandwidth;  /* quarters of an iteration */
    unsigned clear, memory, core;                           /* that many times the width */
} loops[] = {
    { "nops", loop_nops, 400000, 48, 0, 3, 0, 2, 0, 0, 0 },
    { "straight", loop_straight, 400, 40008, 0, 3, 0, 2, 0, 0, 0 },
    { "loads", loop_loads, 400000, 28, 0, 3, 0, 2, 0, 5, 0 },
    { "divides", loop_divides, 100000, 20, 16, 3, 0, 2, 0, 0, 40 },
    { "serial", loop_serial, 100000, 20, 16, 3, 0, 2, 80, 0, 0 },
    { "jumps", loop_jumps, 400000, 20, 0, 3, 4, 10, 0, 0, 0 },
};

#define N_LOOPS (sizeof(loops) / sizeof(*loops))
#define TIMES 3
#define SLOTS_COUNTER 0x40000003
#define METRICS_COUNTER 0x20000000

static unsigned n_metrics, width;
static int failures;

static void check(const char *loop, const char *what, double counted, double expected,
                  double tolerance)
{
    bool good = fabs(counted - expected) <= tolerance;

    printf("%-10s %-14s %10.0f %12.1f %s\n", loop, what, counted, expected,
           good ? "ok" : "FAILED");
    failures += !good;
}

/* An event of the raw code, of user space; a negative errno if the kernel refuses it */
static int open_raw(unsigned code, int group, uint64_t period)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr), .type = PERF_TYPE_RAW, .config = code, .exclude_kernel = 1,
        .exclude_hv = 1, .disabled = group < 0, .sample_period = period,
    };
    int fd = open_event(&attr, group);

    return fd < 0 ? -errno : fd;
}

static int open_slots(uint64_t period)
{
    return open_raw(0x0400, -1, period);
}

static int open_metric(unsigned metric, int group)
{
    return open_raw(0x8000 + (metric << 8), group, 0);
}

static uint64_t rdpmc(uint32_t counter)
{
    uint32_t low, high;

    asm volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
    return (uint64_t)high << 32 | low;
}

/* One run of a loop on fresh counters; false if the kernel touched them meanwhile */
static bool measure(unsigned l, uint64_t *slots, uint64_t *metrics)
{
    static uint64_t memory;
    int fds[1 + METRICS] = { open_slots(0) };
    Page *pages[2];
    uint32_t locks[2];
    bool good = true;

    if (fds[0] < 0) {
        fail("slots", strerror(-fds[0]));
    }
    for (unsigned m = 0; m < n_metrics; m++) {
        fds[1 + m] = open_metric(m, fds[0]);
        if (fds[1 + m] < 0) {
            fail(metric_names[m], strerror(-fds[1 + m]));
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        pages[i] = map_counter(fds[i]);
    }
    ioctl(fds[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
    for (unsigned i = 0; i < 2; i++) {
        locks[i] = pages[i]->lock;
    }
    if (pages[0]->index != SLOTS_COUNTER + 1 || pages[1]->index != METRICS_COUNTER + 1) {
        fail("counter", "slots and metrics are not where RDPMC finds them");
    }
    *slots = loops[l].loop(SLOTS_COUNTER, loops[l].iterations, &memory) & ((1ull << 48) - 1);
    *metrics = rdpmc(METRICS_COUNTER);
    for (unsigned i = 0; i < 2; i++) {
        good &= pages[i]->lock == locks[i];
        munmap((void *)pages[i], getpagesize());
    }
    for (unsigned i = 0; i <= n_metrics; i++) {
        close(fds[i]);
    }
    return good;
}

static void check_loop(unsigned l)
{
    unsigned clear = loops[l].clear * width, memory = loops[l].memory * width;
    unsigned leaves[METRICS] = {
        loops[l].light + loops[l].heavy, loops[l].mispredict + clear,
        loops[l].latency + loops[l].bandwidth, memory + loops[l].core * width,
        loops[l].heavy, loops[l].mispredict, loops[l].latency, memory,
    };
    unsigned each = leaves[RETIRING] + leaves[BAD_SPEC] + leaves[FRONTEND] + leaves[BACKEND];
    uint64_t slots[TIMES], metrics[TIMES], sum = 0;

    for (unsigned i = 0; i < TIMES; i++) {
        int tries = 100;

        while (!measure(l, &slots[i], &metrics[i]) && --tries) {
            sched_yield();
        }
        if (!tries) {
            fail("counter", "it was never left alone");
        }
    }
    check(loops[l].name, "slots", slots[0], each * loops[l].iterations / 4.0 + FIXED, 0);
    for (unsigned m = 0; m < METRICS; m++) {
        uint8_t byte = metrics[0] >> 8 * m;

        sum += m <= BACKEND ? byte : 0;
        /* Rounded to whole units, one way or the other; a few slots are not the loop's. */
        check(loops[l].name, metric_names[m], byte,
              m < n_metrics ? 255.0 * leaves[m] / each : 0, m < n_metrics ? 1.05 : 0);
    }
    check(loops[l].name, "sum of level 1", sum, 255, 0);
    for (unsigned i = 1; i < TIMES; i++) {
        check(loops[l].name, "slots again", slots[i], slots[0], 0);
        check(loops[l].name, "metrics again", metrics[i] == metrics[0], 1, 0);
    }
}

static void check_rule(const char *what, int fd, int expected)
{
    bool good = expected ? fd == -expected : fd >= 0;

    printf("%-36s %-20s %s\n", what, fd < 0 ? strerror(-fd) : "accepted", good ? "ok" : "FAILED");
    failures += !good;
    if (fd >= 0) {
        close(fd);
    }
}

static void check_rules(void)
{
    int slots = open_slots(0), sampled = open_slots(1000000);
    int other = open_raw(0x00c0, -1, 0);

    check_rule("metric behind slots", open_metric(RETIRING, slots), 0);
    check_rule("metric without a group", open_metric(RETIRING, -1), EINVAL);
    check_rule("metric behind instructions", open_metric(RETIRING, other), EINVAL);
    check_rule("metric behind slots that are sampled", open_metric(RETIRING, sampled), EINVAL);
    check_rule("metric that is sampled", open_raw(0x8000, slots, 1000000), EINVAL);
    check_rule("slots that are sampled", sampled, 0);
    close(slots);
    close(other);
}

int check_counters(int cpu)
{
    if (access("/sys/bus/event_source/devices/cpu/events/slots", F_OK)) {
        fail("no TopDown events", "does the CPU have pmu=on and perf-metrics?");
    }
    n_metrics = access("/sys/bus/event_source/devices/cpu/events/topdown-heavy-ops", F_OK)
                ? 4 : METRICS;
    width = n_metrics == METRICS ? 6 : 5;
    stay_on(cpu);
    check_rules();
    printf("%-10s %-14s %10s %12s\n", "loop", "count", "counted", "expected");
    for (unsigned l = 0; l < N_LOOPS; l++) {
        check_loop(l);
    }
    return failures ? 1 : 0;
}
