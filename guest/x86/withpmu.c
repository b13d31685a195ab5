/*
 * withpmu: run a command while the counters of all CPUs are busy
 *
 * For measuring what counting and sampling cost the emulator: perf itself would
 * add its own start and its writing of files, which take longer than that.
 *
 * usage: withpmu count COMMAND...        instructions, cycles and branches
 *        withpmu topdown COMMAND...      these, and slots with the metrics of level 1
 *        withpmu sample N COMMAND...     a sample every N cycles
 *        withpmu frequency HZ COMMAND... cycles, so many samples a second: for that, Linux
 *                                        changes the period by the speed that it sees
 *        withpmu clock N COMMAND...      every N nanoseconds, with a timer and without a PMU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CPUS 64
#define PAGES 128           /* of a ring, as perf record has */

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} counted[] = {
    { "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS },
    { "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES },
    { "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
    /* one group, with slots as its leader */
    { "slots", PERF_TYPE_RAW, 0x0400 },
    { "topdown-retiring", PERF_TYPE_RAW, 0x8000 },
    { "topdown-bad-spec", PERF_TYPE_RAW, 0x8100 },
    { "topdown-fe-bound", PERF_TYPE_RAW, 0x8200 },
    { "topdown-be-bound", PERF_TYPE_RAW, 0x8300 },
};

#define N_COUNTED (sizeof(counted) / sizeof(*counted))
#define LEADER 3            /* without TopDown, what comes before it is counted */

static long cpus;

static void fail(const char *what)
{
    fprintf(stderr, "withpmu: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int open_event(uint32_t type, uint64_t config, int cpu, int group, uint64_t period,
                      bool frequency)
{
    struct perf_event_attr attr = { .size = sizeof(attr), .type = type, .config = config };
    int fd;

    if (period) {
        attr.sample_period = period;    /* or frequency, the same field */
        attr.freq = frequency;
        attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                           PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD;
        attr.watermark = 1;
        attr.wakeup_watermark = PAGES * getpagesize() / 2;
    }
    fd = syscall(SYS_perf_event_open, &attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        fail("no counter (does the CPU have pmu=on?)");
    }
    return fd;
}

static pid_t start(char **command)
{
    pid_t child = fork();

    if (!child) {
        execvp(command[0], command);
        fail(command[0]);
    }
    if (child < 0) {
        fail("fork");
    }
    return child;
}

static int finish(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Count the first n of `counted` */
static int count(unsigned n, char **command)
{
    int fds[N_COUNTED][MAX_CPUS], status;
    pid_t child;

    for (unsigned i = 0; i < n; i++) {
        for (long cpu = 0; cpu < cpus; cpu++) {
            fds[i][cpu] = open_event(counted[i].type, counted[i].config, cpu,
                                     i > LEADER ? fds[LEADER][cpu] : -1, 0, false);
        }
    }
    child = start(command);
    if (waitpid(child, &status, 0) < 0) {
        fail("waitpid");
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t sum = 0, value;

        for (long cpu = 0; cpu < cpus; cpu++) {
            if (read(fds[i][cpu], &value, sizeof(value)) != sizeof(value)) {
                fail("reading a counter");
            }
            sum += value;
        }
        printf("withpmu: %llu %s\n", (unsigned long long)sum, counted[i].name);
    }
    return finish(status);
}

/* Take what is in a ring; returns how many samples that were */
static unsigned long drain(struct perf_event_mmap_page *page)
{
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), at = page->data_tail;
    unsigned long samples = 0;

    while (at < head) {
        struct perf_event_header *record =
            (void *)((char *)page + getpagesize() + at % (PAGES * getpagesize()));

        samples += record->type == PERF_RECORD_SAMPLE;
        at += record->size;
    }
    __atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
    return samples;
}

static int sample(uint32_t type, uint64_t config, uint64_t period, bool frequency,
                  char **command)
{
    struct perf_event_mmap_page *rings[MAX_CPUS];
    struct pollfd fds[MAX_CPUS];
    unsigned long samples = 0;
    bool running = true;
    pid_t child;
    int status = 1 << 8;        /* of a child that nobody could wait for */

    for (long cpu = 0; cpu < cpus; cpu++) {
        fds[cpu].fd = open_event(type, config, cpu, -1, period, frequency);
        fds[cpu].events = POLLIN;
        rings[cpu] = mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
                          fds[cpu].fd, 0);
        if (rings[cpu] == MAP_FAILED) {
            fail("no ring buffer");
        }
    }
    child = start(command);
    while (running) {
        running = waitpid(child, &status, WNOHANG) == 0;
        if (running) {
            poll(fds, cpus, 100);
        }
        for (long cpu = 0; cpu < cpus; cpu++) {
            samples += drain(rings[cpu]);
        }
    }
    printf("withpmu: %lu samples\n", samples);
    return finish(status);
}

int main(int argc, char **argv)
{
    cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (cpus <= MAX_CPUS && argc > 2 && !strcmp(argv[1], "count")) {
        return count(LEADER, argv + 2);
    }
    if (cpus <= MAX_CPUS && argc > 2 && !strcmp(argv[1], "topdown")) {
        return count(N_COUNTED, argv + 2);
    }
    if (cpus <= MAX_CPUS && argc > 3 && strtoull(argv[2], NULL, 10) > 0) {
        uint64_t n = strtoull(argv[2], NULL, 10);

        if (!strcmp(argv[1], "sample") || !strcmp(argv[1], "frequency")) {
            return sample(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, n,
                          *argv[1] == 'f', argv + 3);
        }
        if (!strcmp(argv[1], "clock")) {
            return sample(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, n, false, argv + 3);
        }
    }
    fputs("usage: withpmu count COMMAND... | withpmu topdown COMMAND... | "
          "withpmu sample N COMMAND... | withpmu frequency HZ COMMAND... | "
          "withpmu clock N COMMAND...\n", stderr);
    return 2;
}
