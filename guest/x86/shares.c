/*
 * shares: a load of which the shares are known
 *
 * One process a CPU; in each, the function three_quarters runs three times as
 * many instructions as the function one_quarter, and both in loops that take
 * turns. What a profiler reports of them is to be 75 % and 25 %.
 *
 * usage: shares [ROUNDS]
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURN 10000          /* iterations of 3 instructions */

static inline __attribute__((always_inline)) void spin(uint64_t n)
{
    asm volatile("1: add $1, %%rax; dec %0; jnz 1b" : "+r"(n) : : "rax", "cc");
}

static __attribute__((noinline)) void three_quarters(void)
{
    spin(3 * TURN);
}

static __attribute__((noinline)) void one_quarter(void)
{
    spin(TURN);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int status, failed = 0;

    for (long cpu = 0; cpu < cpus; cpu++) {
        pid_t child = fork();

        if (child < 0) {
            perror("shares: fork");
            return 1;
        }
        if (!child) {
            cpu_set_t set;

            CPU_ZERO(&set);
            CPU_SET(cpu, &set);
            if (sched_setaffinity(0, sizeof(set), &set)) {
                perror("shares: CPU");
                _exit(1);
            }
            for (long i = 0; i < rounds; i++) {
                three_quarters();
                one_quarter();
            }
            _exit(0);
        }
    }
    while (wait(&status) > 0) {
        failed |= status;
    }
    return failed ? 1 : 0;
}
