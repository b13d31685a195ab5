/*
 * pmcu: sample CPUs through a HiSilicon PMCU, from user space
 *
 * Finds the PMCU of a die in the device tree, maps its registers through
 * /dev/mem, gives it event list and record buffer in one huge page (physically
 * contiguous, address from /proc/self/pagemap), loads one CPU, runs the engine
 * and checks the records against the rules of docs/specs/hisi-pmcu.rst.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Registers: byte offset / 4. */
enum {
    FSM_STATUS   = 0x000 / 4,
    FSM_CFG      = 0x004 / 4,
    EVENT_BASE_H = 0x008 / 4,
    EVENT_BASE_L = 0x00c / 4,
    KILL_BASE_H  = 0x010 / 4,
    KILL_BASE_L  = 0x014 / 4,
    STORE_BASE_H = 0x018 / 4,
    STORE_BASE_L = 0x01c / 4,
    WAIT_CNT     = 0x020 / 4,
    FSM_CTRL     = 0x038 / 4,
    FSM_BRK      = 0x03c / 4,
    COMP         = 0x044 / 4,
    INT_EN       = 0x100 / 4,
    INT_MSK      = 0x104 / 4,
    INT_STAT     = 0x108 / 4,
    INT_CLR      = 0x10c / 4,
    PMCR         = 0x200 / 4,
    PMCCFILTR    = 0x204 / 4,
};

#define INT_DONE          1u
#define INT_BRK           2u
#define TICKS_PER_MS      50000u        /* WAIT_CNT counts 20 ns ticks */
#define PMCR_LP_LC_E      0xc1u
#define FILTER_NSH        (1u << 27)    /* count at EL2 too */
#define CPU_CYCLES        0x11u

#define MAX_CLUSTERS      32
#define SLOTS_PER_CLUSTER 8
#define MAX_SLOTS         (MAX_CLUSTERS * SLOTS_PER_CLUSTER)
#define HUGE_PAGE         (2u << 20)
#define EVENT_AREA        4096u         /* event list at the start of the page */
#define CANARY            0xa5

/* What each sample counts; the cycle counter counts at every exception level. */
static const struct {
    uint32_t word;
    const char *name;
} events[] = {
    { CPU_CYCLES,              "user" },    /* EL0 and EL1: the kernel is at EL2 */
    { CPU_CYCLES | 3u << 30 | FILTER_NSH, "kernel" }, /* P, U: EL2 alone */
};

#define N_EVENTS (sizeof(events) / sizeof(events[0]))

typedef struct {
    unsigned slot;
    int cpu;
} Cpu;

typedef struct {
    volatile uint32_t *regs;
    uint64_t base;
    unsigned die, clusters, slots;
    Cpu cpus[MAX_SLOTS];                /* online CPUs of this die, by slot */
    unsigned n_cpus;
    uint8_t *page;
    uint64_t page_phys;
} Pmcu;

static struct {
    unsigned samples, period_ms, die;
    int load_cpu;
    bool tap, syscalls;
} opt = { .samples = 4, .period_ms = 10, .load_cpu = 1 };

static pid_t loader;
static unsigned checks, broken;

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
    va_list args;

    fputs("pmcu: error: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

/* One rule: TAP line with --tap, else a line only if it is broken. */
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

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || write(fd, text, strlen(text)) < 0) {
        die("%s: %s", path, strerror(errno));
    }
    close(fd);
}

/* A property of a device-tree node as 32-bit cells; returns their number. */
static unsigned dt_cells(const char *node, const char *name, uint32_t *cells,
                         unsigned max)
{
    char path[512];
    FILE *file;
    unsigned n;

    snprintf(path, sizeof(path), "%s/%s", node, name);
    file = fopen(path, "r");
    if (!file) {
        die("%s: %s", path, strerror(errno));
    }
    n = fread(cells, 4, max, file);
    fclose(file);
    for (unsigned i = 0; i < n; i++) {
        cells[i] = __builtin_bswap32(cells[i]);
    }
    return n;
}

/* Find the PMCU of die opt.die and map its registers. */
static void find_pmcu(Pmcu *p)
{
    glob_t found;
    uint32_t cells[4];
    int fd;

    if (glob("/sys/firmware/devicetree/base/pmcu@*", 0, NULL, &found)) {
        die("the device tree has no PMCU: boot with -M virt,pmcu=on");
    }
    for (size_t i = 0; i < found.gl_pathc && !p->slots; i++) {
        const char *node = found.gl_pathv[i];

        dt_cells(node, "hisilicon,scl-id", cells, 1);
        if (cells[0] != opt.die) {
            continue;
        }
        p->die = cells[0];
        dt_cells(node, "hisilicon,nr-cluster", cells, 1);
        p->clusters = cells[0];
        if (dt_cells(node, "reg", cells, 4) != 4 || p->clusters > MAX_CLUSTERS) {
            die("%s: cannot use this node", node);
        }
        p->base = (uint64_t)cells[0] << 32 | cells[1];
        p->slots = p->clusters * SLOTS_PER_CLUSTER;
    }
    globfree(&found);
    if (!p->slots) {
        die("the device tree has no PMCU of die %u", opt.die);
    }
    fd = open("/dev/mem", O_RDWR | O_SYNC);
    if (fd < 0) {
        die("/dev/mem: %s", strerror(errno));
    }
    p->regs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, p->base);
    if (p->regs == MAP_FAILED) {
        die("/dev/mem at 0x%llx: %s", (unsigned long long)p->base,
            strerror(errno));
    }
    close(fd);
}

/* MPIDR: Aff2 is the die, Aff1 the cluster in it, Aff0 the core in that. */
static void find_cpus(Pmcu *p)
{
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        char path[128], state[2] = "1";
        uint32_t reg[2];
        unsigned n, mpidr, pos;
        FILE *file;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
        file = fopen(path, "r");        /* the boot CPU may have none */
        if (file) {
            if (fread(state, 1, 1, file) != 1) {
                die("%s: cannot be read", path);
            }
            fclose(file);
        }
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/of_node", cpu);
        n = dt_cells(path, "reg", reg, 2);
        mpidr = reg[n - 1];
        if (state[0] != '1' || (mpidr >> 16 & 0xff) != p->die) {
            continue;
        }
        pos = p->n_cpus++;
        p->cpus[pos].cpu = cpu;
        p->cpus[pos].slot = (mpidr & 0xff) * p->clusters + (mpidr >> 8 & 0xff);
        if (p->cpus[pos].slot >= p->slots) {
            die("cpu%d (MPIDR 0x%x) has no slot in %u clusters", cpu, mpidr,
                p->clusters);
        }
    }
}

/* One huge page is contiguous memory whose address does not change. */
static void get_memory(Pmcu *p)
{
    uint64_t entry;
    int fd;

    write_file("/proc/sys/vm/nr_hugepages", "1");
    p->page = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE |
                   21u << MAP_HUGE_SHIFT, -1, 0);
    if (p->page == MAP_FAILED) {
        die("no 2 MiB huge page: %s", strerror(errno));
    }
    memset(p->page, CANARY, HUGE_PAGE);
    fd = open("/proc/self/pagemap", O_RDONLY);
    if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)p->page / getpagesize() * 8) != 8) {
        die("/proc/self/pagemap: %s", strerror(errno));
    }
    close(fd);
    p->page_phys = (entry & ((1ull << 55) - 1)) * getpagesize();
    if (!(entry >> 63) || !p->page_phys) {
        die("/proc/self/pagemap does not show the physical address");
    }
}

static void busy_loop(void)
{
    volatile uint64_t n = 0;

    for (;;) {
        n = n + 1;
    }
}

/* dd bs=1: a system call every microsecond or so, in and out of the kernel. */
static void system_calls(void)
{
    int in = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
    char byte;

    while (read(in, &byte, 1) == 1 && write(out, &byte, 1) == 1) {
        continue;
    }
}

/* Start a child that loads one CPU; it ends with us. */
static void start_loader(int cpu)
{
    cpu_set_t set;
    struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };

    loader = fork();
    if (loader < 0) {
        die("fork: %s", strerror(errno));
    }
    if (!loader) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set)) {
            die("cpu%d: %s", cpu, strerror(errno));
        }
        if (opt.syscalls) {
            system_calls();
        } else {
            busy_loop();
        }
        _exit(1);
    }
    nanosleep(&pause, NULL);            /* it is on its CPU by then */
}

static void set_address(Pmcu *p, unsigned high, uint64_t address)
{
    p->regs[high] = address >> 32;
    p->regs[high + 1] = address;
}

/* Size of one record: two CID blocks, the events, the cycle counter. */
static size_t record_size(const Pmcu *p)
{
    return (N_EVENTS + 2) * 8 * p->slots;
}

/* Run the engine once over `count` samples and wait for DONE. */
static void sample(Pmcu *p, unsigned count)
{
    uint32_t *list = (uint32_t *)p->page;
    uint64_t store = p->page_phys + EVENT_AREA;
    struct timespec pause = { .tv_nsec = 1000 * 1000 };
    unsigned waited = 0, limit = 10000 + 20 * count * opt.period_ms;
    uint32_t status;

    for (unsigned i = 0; i < N_EVENTS; i++) {
        list[i] = events[i].word;
    }
    p->regs[INT_EN] = 0;                /* polled: nobody serves the interrupt */
    p->regs[FSM_BRK] = 1;               /* end whatever an earlier user left */
    p->regs[INT_CLR] = INT_DONE | INT_BRK;
    p->regs[COMP] = 0;
    p->regs[PMCR] = PMCR_LP_LC_E;
    p->regs[PMCCFILTR] = FILTER_NSH;
    p->regs[FSM_CFG] = N_EVENTS | count << 8 | N_EVENTS << 16;
    p->regs[WAIT_CNT] = opt.period_ms * TICKS_PER_MS;
    set_address(p, EVENT_BASE_H, p->page_phys);
    set_address(p, STORE_BASE_H, store);
    set_address(p, KILL_BASE_H, store + count * record_size(p));
    __sync_synchronize();
    p->regs[FSM_CTRL] = 1;
    while (!(p->regs[INT_STAT] & (INT_DONE | INT_BRK))) {
        if (waited++ > limit) {
            die("no answer from the PMCU: FSM_STATUS 0x%08x", p->regs[FSM_STATUS]);
        }
        nanosleep(&pause, NULL);
    }
    __sync_synchronize();
    status = p->regs[INT_STAT];
    p->regs[INT_CLR] = status;
    if (status & INT_BRK) {
        die("the PMCU broke off: FSM_STATUS 0x%08x", p->regs[FSM_STATUS]);
    }
}

static uint32_t cid(const uint8_t *record, const Pmcu *p, unsigned level,
                    unsigned slot)
{
    return ((const uint32_t *)record)[(level - 1) * p->slots + slot];
}

/* field 0..N_EVENTS-1 is an event, N_EVENTS the cycle counter */
static uint64_t value(const uint8_t *record, const Pmcu *p, unsigned field,
                      unsigned slot)
{
    return ((const uint64_t *)record)[(field + 1) * p->slots + slot];
}

static const Cpu *cpu_at(const Pmcu *p, unsigned slot)
{
    for (unsigned i = 0; i < p->n_cpus; i++) {
        if (p->cpus[i].slot == slot) {
            return &p->cpus[i];
        }
    }
    return NULL;
}

static void print_table(const Pmcu *p, const uint8_t *records, unsigned count)
{
    printf("PMCU of die %u at 0x%llx: %u cluster%s, %u samples of %u ms\n\n",
           p->die, (unsigned long long)p->base, p->clusters,
           p->clusters == 1 ? "" : "s", count, opt.period_ms);
    printf("%6s %4s %5s %14s", "sample", "CPU", "slot", "cycles");
    for (unsigned e = 0; e < N_EVENTS; e++) {
        printf(" %14s", events[e].name);
    }
    printf(" %7s\n", "PID");
    for (unsigned n = 0; n < count; n++, records += record_size(p)) {
        for (unsigned i = 0; i < p->n_cpus; i++) {
            unsigned slot = p->cpus[i].slot;

            printf("%6u %4d %5u %14llu", n, p->cpus[i].cpu, slot,
                   (unsigned long long)value(records, p, N_EVENTS, slot));
            for (unsigned e = 0; e < N_EVENTS; e++) {
                printf(" %14llu",
                       (unsigned long long)value(records, p, e, slot));
            }
            printf(" %7u%s\n", cid(records, p, 2, slot),
                   p->cpus[i].cpu == opt.load_cpu ? "  <- busy" : "");
        }
        putchar('\n');
    }
}

/* What the records of all runs showed. */
static struct {
    unsigned records, values, empty;    /* records x online CPUs, x other slots */
    unsigned short_windows, not_zero, wrong_sum, stray_cid1, wrong_load;
    unsigned loader_seen, overrun;
    uint64_t least;
} seen = { .least = UINT64_MAX };

static void look_at(const Pmcu *p, const uint8_t *record)
{
    const uint64_t window = opt.period_ms * 1000000ull;     /* cycles at 1 GHz */
    uint64_t busy = 0, idle_max = 0;

    for (unsigned slot = 0; slot < p->slots; slot++) {
        const Cpu *cpu = cpu_at(p, slot);
        uint64_t cycles = value(record, p, N_EVENTS, slot), work = 0;

        for (unsigned e = 0; e < N_EVENTS; e++) {
            work += value(record, p, e, slot);
        }
        if (!cpu) {
            seen.empty++;
            seen.not_zero += cycles || work || cid(record, p, 1, slot) ||
                             cid(record, p, 2, slot);
            continue;
        }
        seen.values++;
        seen.least = cycles < seen.least ? cycles : seen.least;
        seen.short_windows += cycles < window;
        seen.wrong_sum += work < cycles - cycles / 10 || work > cycles + cycles / 10;
        seen.stray_cid1 += cid(record, p, 1, slot) != 0;
        if (cpu->cpu == opt.load_cpu) {
            busy = value(record, p, 0, slot);
            seen.loader_seen += cid(record, p, 2, slot) == (uint32_t)loader;
        } else if (value(record, p, 0, slot) > idle_max) {
            idle_max = value(record, p, 0, slot);
        }
    }
    seen.wrong_load += busy <= idle_max;
    seen.records++;
}

/* After each run of the engine. */
static void collect(const Pmcu *p, const uint8_t *records, unsigned count)
{
    const size_t size = record_size(p);

    for (unsigned n = 0; n < count; n++) {
        look_at(p, records + n * size);
    }
    for (size_t i = count * size; i < HUGE_PAGE - EVENT_AREA; i++) {
        seen.overrun += records[i] != CANARY;
    }
}

/* The rules that hold whatever the host's speed. */
static void judge(void)
{
    rule(!seen.short_windows, "every CPU counts at least the %llu cycles of the "
         "window: %u of %u values, the least is %llu", opt.period_ms * 1000000ull,
         seen.values - seen.short_windows, seen.values,
         (unsigned long long)seen.least);
    rule(!seen.not_zero, "slots without a CPU are zero: %u of %u",
         seen.empty - seen.not_zero, seen.empty);
    rule(!seen.stray_cid1, "CID1 is 0 under a kernel at EL2: %u of %u",
         seen.values - seen.stray_cid1, seen.values);
    rule(!seen.overrun, "nothing is written beyond the last record: %u bytes",
         seen.overrun);
    /*
     * The counters of a CPU stop one after the other, and virtual time runs
     * between them; and a record may fall into a moment when the host has the
     * busy CPU stopped. So a few records may differ, but not many.
     */
    rule(seen.wrong_sum * 4 <= seen.values, "user and kernel cycles add up to the "
         "cycle counter within 10 %%: %u of %u", seen.values - seen.wrong_sum,
         seen.values);
    rule(seen.loader_seen * 2 > seen.records, "CID2 in the busy CPU's slot is the PID "
         "of its program: %u of %u records", seen.loader_seen, seen.records);
    if (!opt.syscalls) {                /* that load is at EL2 most of the time */
        rule(seen.wrong_load * 4 <= seen.records, "the busy CPU's slot has the most "
             "user cycles: %u of %u records", seen.records - seen.wrong_load,
             seen.records);
    }
}

static unsigned number(const char *text, const char *name, unsigned min, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 0);

    if (*end || end == text || value < min || value > max) {
        die("--%s %s: expected %u to %u", name, text, min, max);
    }
    return value;
}

static const char usage[] =
    "usage: pmcu [--samples N] [--period MS] [--die N] [--load CPU] [--syscalls] [--tap]\n"
    "  --samples N   how many samples (default 4)\n"
    "  --period MS   length of a sample in ms (default 10)\n"
    "  --die N       which PMCU (default 0)\n"
    "  --load CPU    which CPU to load (default 1)\n"
    "  --syscalls    load it with system calls instead of a loop\n"
    "  --tap         print the rules as TAP instead of a table\n"
    "Exit status: 0 the numbers obey the rules, 1 they do not, 2 no PMCU or usage.\n";

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "samples", required_argument, NULL, 's' },
        { "period", required_argument, NULL, 'p' },
        { "die", required_argument, NULL, 'd' },
        { "load", required_argument, NULL, 'l' },
        { "syscalls", no_argument, NULL, 'y' },
        { "tap", no_argument, NULL, 't' },
        { "help", no_argument, NULL, 'h' },
        { }
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 's':
            opt.samples = number(optarg, "samples", 1, 100000);
            break;
        case 'p':
            opt.period_ms = number(optarg, "period", 1, 10000);
            break;
        case 'd':
            opt.die = number(optarg, "die", 0, 15);
            break;
        case 'l':
            opt.load_cpu = number(optarg, "load", 0, 1023);
            break;
        case 'y':
            opt.syscalls = true;
            break;
        case 't':
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

int main(int argc, char **argv)
{
    Pmcu p = { 0 };
    bool known = false;
    unsigned left, most;

    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv);
    find_pmcu(&p);
    find_cpus(&p);
    get_memory(&p);
    for (unsigned i = 0; i < p.n_cpus; i++) {
        known |= p.cpus[i].cpu == opt.load_cpu;
    }
    if (!known) {
        die("--load %d: no such CPU online on die %u", opt.load_cpu, p.die);
    }
    most = (HUGE_PAGE - EVENT_AREA) / record_size(&p);
    most = most > 255 ? 255 : most;     /* NR_LOOP has 8 bits */
    start_loader(opt.load_cpu);
    for (left = opt.samples; left; left -= left < most ? left : most) {
        unsigned count = left < most ? left : most;

        memset(p.page, CANARY, HUGE_PAGE);
        sample(&p, count);
        if (!opt.tap && left == opt.samples) {
            print_table(&p, p.page + EVENT_AREA, count > 4 ? 4 : count);
        }
        collect(&p, p.page + EVENT_AREA, count);
    }
    judge();
    kill(loader, SIGKILL);
    waitpid(loader, NULL, 0);
    if (opt.tap) {
        printf("1..%u\n", checks);
    } else {
        printf("\n%u of %u rules hold.\n", checks - broken, checks);
    }
    return broken != 0;
}
