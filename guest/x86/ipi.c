/*
 * ipi: how long a round trip of an interrupt between two busy CPUs takes
 *
 * One CPU asks the kernel for a memory barrier on all CPUs that run this program
 * (membarrier, private expedited): it interrupts the other CPU, and waits until
 * that has answered. The other one computes all the time, in user space, so that
 * it has to be interrupted indeed. What is printed is the median of batches of
 * round trips, by the guest's clock.
 *
 * usage: ipi SECONDS
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TRIPS 100           /* of a batch */
#define MAX_BATCHES 10000

static atomic_bool ready, done;
static volatile uint32_t result;

static void check(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "ipi: %s: %s\n", what, strerror(errno));
        exit(2);
    }
}

static void stay_on(int cpu)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    check(sched_setaffinity(0, sizeof(cpus), &cpus), "two CPUs");
}

static void *compute(void *unused)
{
    uint32_t x = 1;

    stay_on(1);
    atomic_store(&ready, true);
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        for (int i = 0; i < 100; i++) {
            x = x * 1664525 + (x & 1 ? 1013904223 : 12345);
        }
        result = x;
    }
    return unused;
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
    static uint64_t times[MAX_BATCHES];
    uint64_t seconds = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, end;
    int batches = 0;
    pthread_t other;

    if (seconds < 1 || seconds > 100) {
        fprintf(stderr, "usage: ipi SECONDS\n");
        return 2;
    }
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0), "membarrier");
    errno = pthread_create(&other, NULL, compute, NULL);
    check(-errno, "thread");
    stay_on(0);
    while (!atomic_load(&ready)) {
    }
    end = now() + seconds * 1000000000;
    do {
        uint64_t start = now();

        for (int i = 0; i < TRIPS; i++) {
            check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), "membarrier");
        }
        times[batches++] = (now() - start) / TRIPS;
    } while (now() < end && batches < MAX_BATCHES);
    atomic_store(&done, true);
    pthread_join(other, NULL);
    qsort(times, batches, sizeof(*times), ascending);
    printf("ipi: %llu ns\n", (unsigned long long)times[batches / 2]);
    return 0;
}
