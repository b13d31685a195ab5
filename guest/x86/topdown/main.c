/*
 * topdown: programs that each waste a CPU's slots in a way of their own
 *
 * Five workloads. With pmu-model=precise, more than half of the slots of each are in
 * one category of TopDown. "check" counts slots and metrics around loops whose slots
 * are known (pmu-model=static), reads them with RDPMC in user space, and tries what
 * the kernel's rules for groups allow. Two runs print the same.
 *
 * Exit status: 0, of "check" 1 if a count is not right; 2 without counters, or for a
 * wrong command line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "topdown.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROUNDS 50
#define MOST_ROUNDS 100000
#define MOST_CPU 1023

static void help(void)
{
    puts("usage: topdown WORKLOAD [ROUNDS]\n"
         "       topdown check [CPU]\n\n"
         "WORKLOAD, with pmu-model=precise, is mostly:");
    for (const Workload *w = workloads; w->name; w++) {
        printf("  %-9s %s\n", w->name, w->what);
    }
    printf("\nA round is about 10 million slots (default: %d rounds).\n"
           "check counts loops whose slots are known (pmu-model=static).\n", DEFAULT_ROUNDS);
}

/* A number from `least` to `most`, whatever else the text is */
static unsigned number(const char *name, const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || value < least || value > most) {
        fprintf(stderr, "topdown: %s is a number from %u to %u, not '%s'; see topdown --help\n",
                name, least, most, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        help();
        return 0;
    }
    if (argc > 3) {
        fprintf(stderr, "topdown: '%s' is one too many; see topdown --help\n", argv[3]);
        return 2;
    }
    if (!strcmp(name, "check")) {
        return check_counters(argc > 2 ? number("CPU", argv[2], 0, MOST_CPU) : 0);
    }
    for (const Workload *w = workloads; w->name; w++) {
        if (!strcmp(name, w->name)) {
            w->run(argc > 2 ? number("ROUNDS", argv[2], 1, MOST_ROUNDS) : DEFAULT_ROUNDS);
            return 0;
        }
    }
    fprintf(stderr, "topdown: '%s' is no workload; see topdown --help\n", name);
    return 2;
}
