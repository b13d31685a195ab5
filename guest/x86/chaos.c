/*
 * chaos: a program that never runs the same way twice
 *
 * Signals that interrupt a loop anywhere, page faults that a handler mends,
 * children, time and process numbers. It prints what it saw: only a replay to
 * the exact instruction, as rr's, prints it again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICKS 10
#define PAGES 50

static volatile uint64_t position;
static volatile uint64_t seen[TICKS];
static volatile int ticks, faults;

static void on_tick(int signal)
{
    (void)signal;
    if (ticks < TICKS) {
        seen[ticks++] = position;
    }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)info->si_addr & -4096ul;

    (void)signal;
    (void)context;
    if (mprotect((void *)page, 4096, PROT_READ | PROT_WRITE)) {
        _exit(3);
    }
    faults++;
}

static void run(const char *who)
{
    struct itimerval every = { { 0, 10000 }, { 0, 10000 } }, never = { 0 };
    struct timespec now;

    setitimer(ITIMER_REAL, &every, NULL);
    while (ticks < TICKS) {
        position = position + 1;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%s: pid %d, time %ld.%09ld, faults %d, signals at", who, getpid(), now.tv_sec,
           now.tv_nsec, faults);
    for (int i = 0; i < TICKS; i++) {
        printf(" %llu", (unsigned long long)seen[i]);
    }
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    struct sigaction tick = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
    char *memory = mmap(NULL, PAGES * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;

    if (memory == MAP_FAILED) {
        perror("chaos: memory");
        return 1;
    }
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGALRM, &tick, NULL);
    for (int i = 0; i < PAGES; i++) {
        memory[i * 4096] = 1;
    }
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();

        if (child < 0) {
            perror("chaos: fork");
            return 1;
        }
        if (!child) {
            run("child");
            _exit(i);
        }
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != i) {
            fputs("chaos: a child failed\n", stderr);
            return 1;
        }
    }
    run("parent");
    return 0;
}
