/*
 * spin: programs whose instructions are known
 *
 * usage: spin count MILLIONS   execute so many million instructions
 *        spin two SECONDS      two functions, three quarters of the time in the first one
 *        spin idle SECONDS     sleep
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Four instructions each time */
static void loop(uint64_t times)
{
    uint64_t a;

    asm volatile("mtctr %1\n"
                 "1: addi %0,%0,1\n"
                 "   xori %0,%0,3\n"
                 "   addi %0,%0,2\n"
                 "   bdnz 1b\n"
                 : "=&b"(a) : "r"(times) : "ctr");
}

/* The same loop in two places */
__attribute__((noinline, noclone)) void heavy(uint64_t times)
{
    loop(times * 3);
    asm volatile("" : : : "memory");
}

__attribute__((noinline, noclone)) void light(uint64_t times)
{
    loop(times);
    asm volatile("nop" : : : "memory");
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
    double n = argc == 3 ? atof(argv[2]) : 0;
    uint64_t end = now() + n * 1e9;

    if (n <= 0) {
        fprintf(stderr, "usage: spin count MILLIONS | spin two SECONDS | spin idle SECONDS\n");
        return 2;
    }
    if (!strcmp(argv[1], "count")) {
        loop((uint64_t)(n * 1e6 / 4) ?: 1);     /* 0 turns would be 2^64 */
    } else if (!strcmp(argv[1], "two")) {
        /* A host with other work may have no time in these seconds. */
        for (unsigned turns = 0; now() < end || turns < 30 * n; turns++) {
            heavy(100000);
            light(100000);
        }
    } else {
        usleep(n * 1e6);
    }
    return 0;
}
