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
    unsigned values, empty;             /* empty: records x slots without a CPU */
    unsigned short_windows, long_windows, unequal, not_zero, wrong_sum;
    unsigned cid1, cid2, wrong_pid, overrun, null_events;
    unsigned busy;                      /* values of busy CPUs that have left the kernel, */
    unsigned loader_seen;               /* and of these, with the PID of their program */
    unsigned compared;                  /* records in which each CPU has had time, */
    unsigned wrong_load;                /* and of these, those with an idle CPU that is ahead */
    unsigned intruder;                  /* a PID that is not of a kernel thread */
    unsigned changed;                   /* a PID that is not the last one, for no reason */
    uint64_t least;
} seen = { .least = UINT64_MAX };

/*
 * Of the CPU in a slot: cycles in user space, as the sum of their shares in 1/1000 of each
 * record, and the PID of the record before, or 0
 */
static struct {
    bool online, busy;
    uint64_t user;
    uint32_t pid;
} cpus[MAX_DIES][MAX_SLOTS];

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

/* By the flag PF_KTHREAD of Linux, in the 9th field of /proc/PID/stat */
static bool is_kernel_thread(uint32_t pid)
{
    char path[32];
    unsigned flags = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    f = fopen(path, "r");
    if (!f) {
        return false;
    }
    if (fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) != 1) {
        flags = 0;
    }
    fclose(f);
    return flags & 0x00200000;
}

static void look_at(const Pmcu *p, const Run *run, const uint8_t *record, unsigned first)
{
    const uint64_t window = run->wait * 20ull;      /* a cycle is 1 ns */
    uint64_t busy_min = UINT64_MAX, idle_max = 0, first_cycles = 0;
    bool still = false;                 /* a CPU may not have run at all */

    for (unsigned slot = 0; slot < p->slots; slot++) {
        uint64_t cycles = record_cycles(p, run, record, slot), sum = 0, all = 0;
        uint64_t user = record_event(p, record, 0, slot);
        uint32_t pid = record_pid(p, record, slot);
        int loader = loader_of(p->cpu[slot]);

        for (unsigned e = 0; e < run->nr_pmu; e++) {
            all |= record_event(p, record, e, slot);
            sum += e < 2 ? record_event(p, record, e, slot) : 0;
            seen.null_events += run->events[first + e] == NULL_EVENT &&
                                record_event(p, record, e, slot);
        }
        if (p->cpu[slot] < 0) {
            seen.empty++;
            seen.not_zero += cycles || all || record_cid(p, record, 1, slot) ||
                             record_cid(p, record, 2, slot);
            continue;
        }
        seen.values++;
        seen.least = cycles < seen.least ? cycles : seen.least;
        seen.short_windows += cycles < window;
        seen.long_windows += cycles > window;
        first_cycles = first_cycles ?: cycles;
        seen.unequal += cycles != first_cycles;
        seen.cid1 += record_cid(p, record, 1, slot) != 0;
        seen.cid2 += record_cid(p, record, 2, slot) != 0;
        /* Before PMUv3p5, only the cycle counter has 64 bits */
        seen.wrong_sum += cycles >> 32 ? (uint32_t)sum != (uint32_t)cycles
                                       : sum != cycles;
        cpus[p->die][slot].online = true;
        cpus[p->die][slot].busy = loader;
        if (opt.user_kernel) {
            cpus[p->die][slot].user += cycles ? user * 1000 / cycles : 0;
            /* All of a record in the kernel, or of an idle CPU's in user space */
            still |= !opt.exact && (loader ? !user : user == cycles);
            seen.changed += opt.exact && cpus[p->die][slot].pid &&
                            cpus[p->die][slot].pid != pid &&
                            !record_event(p, record, 2, slot);
            cpus[p->die][slot].pid = pid;
        }
        if (loader) {
            bool its_pid = pid == (uint32_t)loader;

            if (user || opt.exact || !opt.user_kernel) {
                seen.busy++;
                seen.loader_seen += its_pid;
            }
            seen.wrong_pid += !its_pid && user == cycles;
            seen.intruder += !its_pid && !is_kernel_thread(pid);
            busy_min = user < busy_min ? user : busy_min;
        } else if (user > idle_max) {
            idle_max = user;
        }
    }
    if (!still) {
        seen.compared++;
        seen.wrong_load += busy_min <= idle_max;
    }
}

void look_at_run(const Pmcu *p, const Run *run)
{
    unsigned n = run_records(run);

    for (unsigned slot = 0; slot < p->slots; slot++) {
        cpus[p->die][slot].pid = 0;     /* between two runs, nothing is counted */
    }
    for (unsigned i = 0; i < n; i++) {
        look_at(p, run, record_at(p, run, i), i * run->nr_pmu % run->n_events);
    }
    for (const uint8_t *at = record_at(p, run, n); at < p->page + HUGE_PAGE; at++) {
        seen.overrun += *at != CANARY;
    }
}

static bool any_busy(void)
{
    for (unsigned i = 0; i < MAX_DIES * MAX_SLOTS; i++) {
        if (cpus[i / MAX_SLOTS][i % MAX_SLOTS].busy) {
            return true;
        }
    }
    return false;
}

/* Has each busy CPU spent more time in user space than any idle one? */
static bool busy_most(void)
{
    uint64_t busy_min = UINT64_MAX, idle_max = 0;

    for (unsigned i = 0; i < MAX_DIES * MAX_SLOTS; i++) {
        uint64_t user = cpus[i / MAX_SLOTS][i % MAX_SLOTS].user;

        if (!cpus[i / MAX_SLOTS][i % MAX_SLOTS].online) {
            continue;
        }
        if (cpus[i / MAX_SLOTS][i % MAX_SLOTS].busy) {
            busy_min = user < busy_min ? user : busy_min;
        } else {
            idle_max = user > idle_max ? user : idle_max;
        }
    }
    return busy_min > idle_max;
}

/*
 * On a busy CPU, a thread of the kernel runs now and then, and on an idle CPU a daemon may. Of
 * 1000 records of 1 ms with -icount, at most 3 had the PID of a kernel thread, and in 2 an idle
 * CPU had more user time. On a host with a load of 5 on two CPUs, these were 3 of 300 or 1 of 20,
 * and 10 of 300 or 3 of 20. They come at random, so that more samples bring their share closer
 * to this; records of a CPU that the host has stopped are not among these numbers. Rules without
 * such a number have no exception.
 */
static unsigned other_pids(void)
{
    return 1 + seen.busy / (opt.exact ? 200 : 10);
}

static unsigned other_loads(void)
{
    return opt.exact ? seen.compared / 200 : 1 + seen.compared / 5;
}

static bool pids_hold(void)
{
    return seen.busy >= (opt.samples + 1) / 2 &&
           seen.busy - seen.loader_seen <= other_pids();
}

static bool loads_hold(void)
{
    return seen.compared >= (opt.samples + 1) / 2 && seen.wrong_load <= other_loads();
}

/* Loads by system calls are in the kernel mostly. */
static bool loads_count(void)
{
    return any_busy() && opt.user_kernel && !opt.syscalls;
}

bool enough(void)
{
    return !any_busy() || (pids_hold() && (!loads_count() || (loads_hold() && busy_most())));
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
    rule(!seen.unequal, "all CPUs of a die count for the same time: %u of %u values are "
         "those of the first CPU", seen.values - seen.unequal, seen.values);
    rule(!seen.not_zero, "slots without a CPU are zero: %u of %u",
         seen.empty - seen.not_zero, seen.empty);
    rule(!seen.cid1 || !seen.cid2, "one of the context IDs is 0, as the kernel uses only "
         "that of its exception level: %u values in CID1, %u in CID2", seen.cid1, seen.cid2);
    rule(!seen.null_events, "the null event 0xc000 counts nothing");
    rule(!seen.overrun, "nothing is written beyond the last record: %u bytes",
         seen.overrun);
    if (opt.user_kernel) {
        rule(!seen.wrong_sum, "user and kernel cycles add up to the cycle counter: %u of %u",
             seen.values - seen.wrong_sum, seen.values);
    }
    if (opt.exact && opt.user_kernel) {
        rule(!seen.changed, "the PID changes only with a write of CONTEXTIDR: %u do so without",
             seen.changed);
    }
    if (any_busy() && opt.user_kernel) {
        rule(!seen.wrong_pid, "where all cycles are in user space, the PID is that of the "
             "busy program: %u records are not so", seen.wrong_pid);
    }
    if (any_busy()) {
        rule(pids_hold(), "the PID in a busy CPU's slot is that of its program, but for %u: "
             "%u of %u", other_pids(), seen.loader_seen, seen.busy);
        if (opt.exact) {
            rule(!seen.intruder, "and any other PID is that of a kernel thread: %u are not",
                 seen.intruder);
        }
    }
    if (loads_count()) {
        rule(loads_hold(), "busy CPUs have more user cycles than idle ones, but for %u: %u of "
             "%u records", other_loads(), seen.compared - seen.wrong_load, seen.compared);
        rule(busy_most(), "in all records together, each busy CPU has more user cycles than "
             "any idle one");
    }
    if (opt.tap) {
        printf("1..%u\n", checks);
    } else {
        printf("\n%u of %u rules hold.\n", checks - broken, checks);
    }
    return !broken;
}
