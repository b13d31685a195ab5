/*
 * pmu_count: how often an event of the CPU's PMU counts in a piece of work
 *
 *   pmu_count WORK LEVEL EVENT...
 *
 * does the work for each event, by number, at 1000 turns and at 2000, and
 * prints how much more it has counted in the latter:
 *
 *   0x21 3000
 *
 * So what happens once, such as the system calls that start and stop the
 * counter, cancels out. LEVEL is u, k, or uk, as perf has it. If an a follows,
 * the event is counted for all processes on this CPU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURNS 1000

static int ping[2], pong[2];

static void __attribute__((noreturn)) fail(const char *what)
{
    perror(what);
    exit(2);
}

/*
 * In a turn: 11 instructions; 2 loads, 1 store, 1 that is both; 1 of floating
 * point, 1 barrier, 3 direct branches and a return, of which one direct branch
 * is never taken; and a subtraction.
 */
static void loop(uint64_t turns)
{
    static uint64_t data[2];

    asm volatile(".arch armv8-a+lse\n"
                 "   b       3f\n"
                 "2: ldr     x5, [%[p]]\n"
                 "   ret\n"
                 "3: bl      2b\n"
                 "   ldr     x5, [%[p]]\n"
                 "   str     x5, [%[p]]\n"
                 "   ldadd   x5, x6, [%[p]]\n"
                 "   fmov    d0, x5\n"
                 "   dmb     ish\n"
                 "   cbz     %[p], 3b\n"
                 "   sub     %[n], %[n], #1\n"
                 "   cbnz    %[n], 3b\n"
                 : [n] "+r"(turns) : [p] "r"(data)
                 : "x5", "x6", "x30", "v0", "memory");
}

static void system_calls(uint64_t turns)
{
    while (turns--) {
        syscall(SYS_getppid);
    }
}

/* Another process answers; with taskset, on the same CPU: two switches in a turn */
static void switches(uint64_t turns)
{
    char c = 0;

    while (turns--) {
        if (write(ping[1], &c, 1) != 1 || read(pong[0], &c, 1) != 1) {
            fail("pipe");
        }
    }
}

static void answer_switches(void)
{
    char c;

    if (pipe(ping) || pipe(pong)) {
        fail("pipe");
    }
    switch (fork()) {
    case -1:
        fail("fork");
    case 0:
        close(ping[1]);
        while (read(ping[0], &c, 1) == 1 && write(pong[1], &c, 1) == 1) {
        }
        _exit(0);
    }
}

static uint64_t measure(struct perf_event_attr *attr, int cpu, void (*work)(uint64_t),
                        uint64_t turns)
{
    int fd = syscall(SYS_perf_event_open, attr, cpu < 0 ? 0 : -1, cpu, -1, 0);
    uint64_t count[3];

    if (fd < 0) {
        fail("perf_event_open");
    }
    if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
        fail("PERF_EVENT_IOC_ENABLE");
    }
    work(turns);
    if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0)) {
        fail("PERF_EVENT_IOC_DISABLE");
    }
    if (read(fd, count, sizeof(count)) != sizeof(count)) {
        fail("read");
    }
    if (count[1] != count[2]) {
        fprintf(stderr, "pmu_count: error: the event was not counted all the time\n");
        exit(2);
    }
    close(fd);
    return count[0];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*work)(uint64_t);
    } works[] = {
        { "loop", loop }, { "syscalls", system_calls }, { "switches", switches },
    };
    void (*work)(uint64_t) = NULL;
    int cpu;

    for (unsigned i = 0; argc > 3 && i < 3; i++) {
        work = strcmp(argv[1], works[i].name) ? work : works[i].work;
    }
    if (!work || !argv[2][0] || argv[2][strspn(argv[2], "uka")]) {
        fprintf(stderr, "usage: pmu_count loop|syscalls|switches u|k|uk[a] EVENT...\n");
        return 2;
    }
    cpu = strchr(argv[2], 'a') ? sched_getcpu() : -1;
    if (work == switches) {
        answer_switches();
    }
    work(TURNS);
    for (int i = 3; i < argc; i++) {
        struct perf_event_attr attr = {
            .type = PERF_TYPE_RAW,
            .size = sizeof(attr),
            .config = strtoul(argv[i], NULL, 0),
            .disabled = 1,
            .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
            .exclude_user = !strchr(argv[2], 'u'),
            .exclude_kernel = !strchr(argv[2], 'k'),
        };
        uint64_t once = measure(&attr, cpu, work, TURNS);

        printf("0x%" PRIx64 " %" PRId64 "\n", (uint64_t)attr.config,
               measure(&attr, cpu, work, 2 * TURNS) - once);
    }
    return 0;
}
