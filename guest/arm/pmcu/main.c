/*
 * pmcu: sample CPUs through HiSilicon PMCUs, from user space
 *
 * Loads some CPUs, runs the engines of one die or all, shows what they wrote
 * and checks it against the rules of docs/specs/hisi-pmcu.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include "pmcu.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_LOADS 64
#define MOST_RUNS 100                   /* after the samples that the user wants */

Options opt = { .samples = 4, .period_ms = 10 };

static struct {
    int cpu;
    pid_t pid;
} loads[MAX_LOADS];
static unsigned n_loads;

static Pmcu dies[MAX_DIES];

int loader_of(int cpu)
{
    for (unsigned i = 0; i < n_loads; i++) {
        if (loads[i].cpu == cpu) {
            return loads[i].pid;
        }
    }
    return 0;
}

static void busy_loop(void)
{
    volatile uint64_t n = 0;

    for (;;) {
        n = n + 1;
    }
}

/* What dd bs=1 does: in and out of the kernel all the time */
static void system_calls(void)
{
    int in = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
    char byte;

    while (read(in, &byte, 1) == 1 && write(out, &byte, 1) == 1) {
        continue;
    }
}

/*
 * Wait for the engine on a CPU without a load, if there is one: what wakes each millisecond
 * would run at the very moments at which the engine looks.
 */
static void leave_loaded_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set)) {
        return;
    }
    for (unsigned i = 0; i < n_loads; i++) {
        CPU_CLR(loads[i].cpu, &set);
    }
    if (CPU_COUNT(&set)) {
        sched_setaffinity(0, sizeof(set), &set);
    }
}

/* Start a child for each CPU to be loaded, and wait until it is there; they end with us. */
static void start_loads(void)
{
    struct timespec pause = { .tv_nsec = 1000 * 1000 };
    char ready;
    int fds[2];

    if (pipe(fds)) {
        die("pipe: %s", strerror(errno));
    }
    for (unsigned i = 0; i < n_loads; i++) {
        loads[i].pid = fork();
        if (loads[i].pid < 0) {
            die("fork: %s", strerror(errno));
        }
        if (!loads[i].pid) {
            cpu_set_t set;

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CPU_ZERO(&set);
            CPU_SET(loads[i].cpu, &set);
            if (sched_setaffinity(0, sizeof(set), &set)) {
                die("cpu%d: %s", loads[i].cpu, strerror(errno));
            }
            if (write(fds[1], "", 1) != 1) {
                _exit(1);
            }
            close(fds[1]);
            if (opt.syscalls) {
                system_calls();
            } else {
                busy_loop();
            }
            _exit(1);
        }
    }
    close(fds[1]);
    for (unsigned i = 0; i < n_loads; i++) {
        if (read(fds[0], &ready, 1) != 1) {
            exit(2);                    /* the child said why */
        }
    }
    close(fds[0]);
    leave_loaded_cpus();
    nanosleep(&pause, NULL);            /* from the write to the loop */
}

/* -- Options -------------------------------------------------------------- */

static const char usage[] =
    "usage: pmcu [OPTIONS]\n"
    "  --samples N     how many samples (default 4)\n"
    "  --period MS     length of a record's window in ms (default 10)\n"
    "  --events LIST   events to count, up to 240: 0x11,0x40-0x47 (default: cycles in\n"
    "                  user space, cycles in the kernel)\n"
    "  --counters N    events per record, 1 to 8 (default: the most that divide the list)\n"
    "  --die N         one die only (default: all, at the same time)\n"
    "  --load CPU,...  which CPUs to load (default: none)\n"
    "  --syscalls      load them with system calls instead of a loop\n"
    "  --heatmap       show CPUs x events as a map instead of a table\n"
    "  --exact         no record may be longer than the window (needs -icount); the\n"
    "                  default events have the switches of processes, too\n"
    "  --tap           print the rules as TAP and nothing else\n"
    "Exit status: 0 the numbers obey the rules, 1 they do not, 2 no PMCU or usage.\n";

static unsigned number(const char *text, char **end, const char *name, unsigned min,
                       unsigned max)
{
    unsigned long value = strtoul(text, end, 0);

    if (*end == text || value < min || value > max) {
        die("--%s %s: expected %u to %u", name, text, min, max);
    }
    return value;
}

static unsigned whole_number(const char *text, const char *name, unsigned min, unsigned max)
{
    char *end;
    unsigned value = number(text, &end, name, min, max);

    if (*end) {
        die("--%s %s: expected %u to %u", name, text, min, max);
    }
    return value;
}

static void parse_events(Run *run, const char *text)
{
    for (char *end;; text = end + 1) {
        unsigned first = number(text, &end, "events", 0, 0xffff), last = first;

        if (*end == '-') {
            last = number(end + 1, &end, "events", first, 0xffff);
        }
        for (unsigned event = first; event <= last; event++) {
            if (run->n_events == MAX_EVENTS) {
                die("--events: more than %u", MAX_EVENTS);
            }
            run->events[run->n_events++] = event;
        }
        if (*end != ',') {
            if (*end) {
                die("--events: cannot read '%s'", end);
            }
            return;
        }
    }
}

static void parse_loads(const char *text)
{
    for (char *end;; text = end + 1) {
        if (n_loads == MAX_LOADS) {
            die("--load: more than %u CPUs", MAX_LOADS);
        }
        loads[n_loads++].cpu = number(text, &end, "load", 0, 4095);
        if (*end != ',') {
            if (*end) {
                die("--load: cannot read '%s'", end);
            }
            return;
        }
    }
}

static void parse(int argc, char **argv, Run *run)
{
    enum { SAMPLES = 256, PERIOD, EVENTS, COUNTERS, DIE, LOAD, SYSCALLS, HEATMAP, EXACT, TAP };
    static const struct option options[] = {
        { "samples", required_argument, NULL, SAMPLES },
        { "period", required_argument, NULL, PERIOD },
        { "events", required_argument, NULL, EVENTS },
        { "counters", required_argument, NULL, COUNTERS },
        { "die", required_argument, NULL, DIE },
        { "load", required_argument, NULL, LOAD },
        { "syscalls", no_argument, NULL, SYSCALLS },
        { "heatmap", no_argument, NULL, HEATMAP },
        { "exact", no_argument, NULL, EXACT },
        { "tap", no_argument, NULL, TAP },
        { "help", no_argument, NULL, 'h' },
        { }
    };
    int c;

    opt.die = -1;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case SAMPLES:
            opt.samples = whole_number(optarg, "samples", 1, 100000);
            break;
        case PERIOD:
            opt.period_ms = whole_number(optarg, "period", 1, 10000);
            break;
        case EVENTS:
            parse_events(run, optarg);
            break;
        case COUNTERS:
            run->nr_pmu = whole_number(optarg, "counters", 1, MAX_COUNTERS);
            break;
        case DIE:
            opt.die = whole_number(optarg, "die", 0, MAX_DIES - 1);
            break;
        case LOAD:
            parse_loads(optarg);
            break;
        case SYSCALLS:
            opt.syscalls = true;
            break;
        case HEATMAP:
            opt.heatmap = true;
            break;
        case EXACT:
            opt.exact = true;
            break;
        case TAP:
            opt.tap = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        fputs(usage, stderr);
        exit(2);
    }
}

/* What a sample is: the events, and how many of them go into a record */
static void complete(Run *run)
{
    if (!run->n_events) {
        opt.user_kernel = true;
        run->events[run->n_events++] = CPU_CYCLES | FILTER_USER;
        run->events[run->n_events++] = CPU_CYCLES | FILTER_KERNEL;
        if (opt.exact) {
            run->events[run->n_events++] = CID_WRITE | FILTER_NSH;
        }
    }
    if (!run->nr_pmu) {
        run->nr_pmu = MAX_COUNTERS;
        while (run->n_events % run->nr_pmu) {
            run->nr_pmu--;
        }
    }
    if (run->n_events % run->nr_pmu) {
        die("--counters %u: %u events are not a multiple of it", run->nr_pmu, run->n_events);
    }
    opt.user_kernel = opt.user_kernel && run->nr_pmu == run->n_events;
    run->wait = opt.period_ms * TICKS_PER_MS;
    run->pmccfiltr = FILTER_NSH;
}

/* Drop the dies that are not wanted; returns how many are left. */
static unsigned select_dies(unsigned n)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < n; i++) {
        if (opt.die < 0 || dies[i].die == (unsigned)opt.die) {
            dies[kept++] = dies[i];
        }
    }
    if (!kept) {
        die("there is no PMCU of die %d", opt.die);
    }
    for (unsigned i = 0; i < n_loads; i++) {
        bool known = false;

        for (unsigned d = 0; d < kept; d++) {
            for (unsigned slot = 0; slot < dies[d].slots; slot++) {
                known |= dies[d].cpu[slot] == loads[i].cpu;
            }
        }
        if (!known) {
            die("--load %d: no such CPU online on these dies", loads[i].cpu);
        }
    }
    return kept;
}

/* Let all dies sample at the same time, and look at their records. */
static void sample(unsigned n, Run *run, bool show, bool map)
{
    for (Pmcu *p = dies; p < dies + n; p++) {
        start_run(p, run);
    }
    for (Pmcu *p = dies; p < dies + n; p++) {
        wait_run(p, run);
    }
    for (Pmcu *p = dies; p < dies + n; p++) {
        if (map) {
            add_to_map(p, run);
        }
        if (show) {
            print_table(p, run);
        }
        look_at_run(p, run);
    }
}

int main(int argc, char **argv)
{
    Run run = { 0 };
    unsigned n, most = MAX_LOOPS;

    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv, &run);
    complete(&run);
    n = select_dies(find_pmcus(dies));
    for (Pmcu *p = dies; p < dies + n; p++) {
        size_t sample = run.n_events / run.nr_pmu * record_size(p, &run);

        get_memory(p);
        most = RECORD_AREA / sample < most ? RECORD_AREA / sample : most;
    }
    if (!most) {
        die("a sample of so many events does not fit into 2 MiB");
    }
    start_loads();
    for (unsigned left = opt.samples; left; left -= run.loops) {
        run.loops = left < most ? left : most;
        sample(n, &run, !opt.heatmap && !opt.tap && left == opt.samples, opt.heatmap);
    }
    /* While a host stops a CPU, all records show the same moment: go on until it is over. */
    for (unsigned more = 0; more < MOST_RUNS && !enough(); more++) {
        sample(n, &run, false, false);
    }
    if (opt.heatmap && !opt.tap) {
        print_map(dies, n, &run);
    }
    for (unsigned i = 0; i < n_loads; i++) {
        kill(loads[i].pid, SIGKILL);
        waitpid(loads[i].pid, NULL, 0);
    }
    return judge() ? 0 : 1;
}
