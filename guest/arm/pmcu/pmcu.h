/*
 * What the parts of the program pmcu share
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PMCU_H
#define PMCU_H

#include "device.h"

#define CPU_CYCLES 0x11u
#define CID_WRITE  0x0bu              /* a write of CONTEXTIDR has retired */

typedef struct {
    unsigned samples, period_ms;
    int die;                            /* -1: all */
    bool user_kernel;                   /* the events are the default ones: cycles in user
                                           space and in the kernel, with `exact` CID_WRITE */
    bool syscalls, heatmap, exact, tap;
} Options;

extern Options opt;

/* The process that loads a CPU, or 0. */
int loader_of(int cpu);

/* show.c */
void print_table(const Pmcu *p, const Run *run);
void add_to_map(const Pmcu *p, const Run *run);
void print_map(const Pmcu *dies, unsigned n, const Run *run);

/* check.c */
void look_at_run(const Pmcu *p, const Run *run);
bool enough(void);                      /* do the rules on numbers of records hold so far? */
bool judge(void);                       /* print the rules; true if all hold */

#endif
