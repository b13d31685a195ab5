/*
 * The rules that records obey, whatever the host's speed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "pmcu.h"
#include <stdarg.h>
#include <stdio.h>

/* What the records of all runs showed; a value is a record x an online CPU */
static struct {
    unsigned records, values, empty;    /* empty: records x slots without a CPU */
    unsigned short_windows, long_windows, not_zero, wrong_sum, stray_cid1;
    unsigned busy, wrong_load, loader_seen, overrun, null_events;
    uint64_t least;
} seen = { .least = UINT64_MAX };

static unsigned checks, broken;

static void __attribute__((format(printf, 2, 3)))
rule(bool holds, const char *fmt, ...)
{
    va_list args;

    checks++;
    broken += !holds;
    if (opt.tap) {
        printf("%s %u - ", holds ? "ok" : "not ok", checks);
    } else {
        printf("  %-7s", holds ? "holds" : "BROKEN");
    }
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void look_at(const Pmcu *p, const Run *run, const uint8_t *record, unsigned first)
{
    const uint64_t window = run->wait * 20ull;      /* a cycle is 1 ns */
    uint64_t busy_min = UINT64_MAX, idle_max = 0;

    seen.records++;
    for (unsigned slot = 0; slot < p->slots; slot++) {
        uint64_t cycles = record_cycles(p, run, record, slot), sum = 0;
        int loader = loader_of(p->cpu[slot]);

        for (unsigned e = 0; e < run->nr_pmu; e++) {
            sum += record_event(p, record, e, slot);
            seen.null_events += run->events[first + e] == NULL_EVENT &&
                                record_event(p, record, e, slot);
        }
        if (p->cpu[slot] < 0) {
            seen.empty++;
            seen.not_zero += cycles || sum || record_cid(p, record, 1, slot) ||
                             record_cid(p, record, 2, slot);
            continue;
        }
        seen.values++;
        seen.least = cycles < seen.least ? cycles : seen.least;
        seen.short_windows += cycles < window;
        seen.long_windows += cycles > window;
        seen.stray_cid1 += record_cid(p, record, 1, slot) != 0;
        seen.wrong_sum += sum < cycles - cycles / 10 || sum > cycles + cycles / 10;
        if (loader) {
            uint64_t user = record_event(p, record, 0, slot);

            seen.busy++;
            seen.loader_seen += record_cid(p, record, 2, slot) == (uint32_t)loader;
            busy_min = user < busy_min ? user : busy_min;
        } else if (record_event(p, record, 0, slot) > idle_max) {
            idle_max = record_event(p, record, 0, slot);
        }
    }
    seen.wrong_load += busy_min <= idle_max;
}

void look_at_run(const Pmcu *p, const Run *run)
{
    unsigned n = run_records(run);

    for (unsigned i = 0; i < n; i++) {
        look_at(p, run, record_at(p, run, i), i * run->nr_pmu % run->n_events);
    }
    for (const uint8_t *at = record_at(p, run, n); at < p->page + HUGE_PAGE; at++) {
        seen.overrun += *at != CANARY;
    }
}

bool judge(void)
{
    rule(!seen.short_windows, "every CPU counts at least the %llu cycles of the "
         "window: %u of %u values, the least is %llu", opt.period_ms * 1000000ull,
         seen.values - seen.short_windows, seen.values,
         (unsigned long long)seen.least);
    if (opt.exact) {
        rule(!seen.long_windows, "and no more than that: %u of %u values",
             seen.values - seen.long_windows, seen.values);
    }
    rule(!seen.not_zero, "slots without a CPU are zero: %u of %u",
         seen.empty - seen.not_zero, seen.empty);
    rule(!seen.stray_cid1, "CID1 is 0 under a kernel at EL2: %u of %u",
         seen.values - seen.stray_cid1, seen.values);
    rule(!seen.null_events, "the null event 0xc000 counts nothing");
    rule(!seen.overrun, "nothing is written beyond the last record: %u bytes",
         seen.overrun);
    /*
     * The counters of a CPU stop one after the other, and virtual time runs
     * between them; and a record may fall into a moment when the host has the
     * busy CPU stopped. So a few records may differ, but not many.
     */
    if (opt.user_kernel) {
        rule(seen.wrong_sum * 4 <= seen.values, "user and kernel cycles add up to the "
             "cycle counter within 10 %%: %u of %u", seen.values - seen.wrong_sum,
             seen.values);
    }
    if (seen.busy) {
        rule(seen.loader_seen * 2 > seen.busy, "CID2 in a busy CPU's slot is the PID of "
             "its program: %u of %u", seen.loader_seen, seen.busy);
    }
    if (seen.busy && opt.user_kernel && !opt.syscalls) {    /* these are at EL2 mostly */
        rule(seen.wrong_load * 4 <= seen.records, "busy CPUs have more user cycles than "
             "idle ones: %u of %u records", seen.records - seen.wrong_load, seen.records);
    }
    if (opt.tap) {
        printf("1..%u\n", checks);
    } else {
        printf("\n%u of %u rules hold.\n", checks - broken, checks);
    }
    return !broken;
}
