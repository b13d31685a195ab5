/*
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TOPDOWN_H
#define TOPDOWN_H

typedef struct {
    const char *name;
    void (*run)(unsigned rounds);
    const char *what;
} Workload;

extern const Workload workloads[];      /* the last one has no name */

/* On this CPU; returns the exit status */
int check_counters(int cpu);

#endif
