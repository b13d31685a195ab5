/*
 * A table of the first samples, or a map of all of them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "pmcu.h"
#include <stdio.h>

#define SHOWN 4                         /* samples in a table */

typedef unsigned long long ull;

static void print_head(const Pmcu *p, const Run *run)
{
    printf("PMCU of die %u at 0x%llx: %u cluster%s, %u CPU%s, %u samples of %u ms\n",
           p->die, (ull)p->base, p->clusters, p->clusters == 1 ? "" : "s", p->n_cpus,
           p->n_cpus == 1 ? "" : "s", opt.samples,
           run->n_events / run->nr_pmu * opt.period_ms);
}

void print_table(const Pmcu *p, const Run *run)
{
    unsigned n = run_records(run), most = SHOWN * run->n_events / run->nr_pmu;

    print_head(p, run);
    printf("\n%6s %4s %5s %14s", "record", "CPU", "slot", "cycles");
    for (unsigned e = 0; e < run->nr_pmu; e++) {
        if (opt.user_kernel) {
            printf(" %14s", e == 0 ? "user" : e == 1 ? "kernel" : "switches");
        } else if (run->nr_pmu == run->n_events) {
            printf("         0x%04x", run->events[e]);
        } else {
            printf("       event %u", e);
        }
    }
    printf(" %7s\n", "PID");
    for (unsigned i = 0; i < n && i < most; i++) {
        const uint8_t *record = record_at(p, run, i);

        for (unsigned slot = 0; slot < p->slots; slot++) {
            if (p->cpu[slot] < 0) {
                continue;
            }
            printf("%6u %4d %5u %14llu", i, p->cpu[slot], slot,
                   (ull)record_cycles(p, run, record, slot));
            for (unsigned e = 0; e < run->nr_pmu; e++) {
                printf(" %14llu", (ull)record_event(p, record, e, slot));
            }
            printf(" %7u%s\n", record_pid(p, record, slot),
                   loader_of(p->cpu[slot]) ? "  <- busy" : "");
        }
        putchar('\n');
    }
}

/* Sum of each event in each slot of each die */
static uint64_t map[MAX_DIES][MAX_SLOTS][MAX_EVENTS];

void add_to_map(const Pmcu *p, const Run *run)
{
    for (unsigned i = 0; i < run_records(run); i++) {
        unsigned first = i * run->nr_pmu % run->n_events;

        for (unsigned slot = 0; slot < p->slots; slot++) {
            for (unsigned e = 0; e < run->nr_pmu; e++) {
                map[p->die][slot][first + e] +=
                    record_event(p, record_at(p, run, i), e, slot);
            }
        }
    }
}

/* A space and a number of three characters: 999, 99k, .9M, 99M, .9G, 99G */
static void print_short(uint64_t n)
{
    if (n < 1000) {
        printf(" %3llu", (ull)n);
    } else if (n < 100000) {
        printf(" %2lluk", (ull)n / 1000);
    } else if (n < 1000000) {
        printf(" .%lluM", (ull)n / 100000);
    } else if (n < 100000000) {
        printf(" %2lluM", (ull)n / 1000000);
    } else if (n < 1000000000) {
        printf(" .%lluG", (ull)n / 100000000);
    } else {
        printf(" %2lluG", (ull)n / 1000000000);
    }
}

static void print_map_columns(const Pmcu *dies, unsigned n, const Run *run, unsigned from,
                              unsigned to)
{
    static const char shade[] = " .:-=+*#%@";
    uint64_t max[MAX_EVENTS] = { 0 };

    for (const Pmcu *p = dies; p < dies + n; p++) {
        for (unsigned slot = 0; slot < p->slots; slot++) {
            for (unsigned e = from; e < to; e++) {
                uint64_t value = map[p->die][slot][e];

                max[e] = value > max[e] ? value : max[e];
            }
        }
    }
    printf("%4s %4s %5s ", "die", "CPU", "slot");
    for (unsigned e = from; e < to; e++) {
        printf(" %3x", run->events[e] & 0xfff);
    }
    putchar('\n');
    for (const Pmcu *p = dies; p < dies + n; p++) {
        for (unsigned slot = 0; slot < p->slots; slot++) {
            if (p->cpu[slot] < 0) {
                continue;
            }
            printf("%4u %4d %5u ", p->die, p->cpu[slot], slot);
            for (unsigned e = from; e < to; e++) {
                /* 1 to 9 tenths of the largest value; no shade means 0 */
                uint64_t value = map[p->die][slot][e];
                char c = shade[value ? 1 + (value - 1) * 9 / max[e] : 0];

                printf(" %c%c%c", c, c, c);
            }
            puts(loader_of(p->cpu[slot]) ? "  <- busy" : "");
        }
    }
    printf("%15s ", "most per ms");
    for (unsigned e = from; e < to; e++) {
        print_short(max[e] / opt.samples / opt.period_ms);
    }
    puts("\n");
}

void print_map(const Pmcu *dies, unsigned n, const Run *run)
{
    for (const Pmcu *p = dies; p < dies + n; p++) {
        print_head(p, run);
    }
    printf("%u events, %u per record; the shade is the share of the largest value of the "
           "event\n\n", run->n_events, run->nr_pmu);
    for (unsigned from = 0; from < run->n_events; from += 24) {
        print_map_columns(dies, n, run, from,
                          from + 24 < run->n_events ? from + 24 : run->n_events);
    }
}
