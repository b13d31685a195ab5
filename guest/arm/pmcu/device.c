/*
 * A HiSilicon PMCU as a user-space driver sees it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include "device.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Registers: byte offset / 4. */
enum {
    FSM_STATUS   = 0x000 / 4,
    FSM_CFG      = 0x004 / 4,
    EVENT_BASE_H = 0x008 / 4,
    KILL_BASE_H  = 0x010 / 4,
    STORE_BASE_H = 0x018 / 4,           /* each _L follows its _H */
    WAIT_CNT     = 0x020 / 4,
    FSM_CTRL     = 0x038 / 4,
    FSM_BRK      = 0x03c / 4,
    COMP         = 0x044 / 4,
    INT_EN       = 0x100 / 4,
    INT_STAT     = 0x108 / 4,
    INT_CLR      = 0x10c / 4,
    PMCR         = 0x200 / 4,
    PMCCFILTR    = 0x204 / 4,
};

#define INT_DONE 1u
#define INT_BRK  2u

#define DT   "/sys/firmware/devicetree/base/"
#define ACPI "/sys/firmware/acpi/tables/"

void die(const char *fmt, ...)
{
    va_list args;

    fputs("pmcu: error: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

/* Read a whole file of sysfs or procfs, or end the program; returns its size. */
static size_t read_file(const char *path, void *data, size_t max)
{
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file) {
        die("%s: %s", path, strerror(errno));
    }
    n = fread(data, 1, max, file);
    fclose(file);
    return n;
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);

    if (fd < 0 || write(fd, text, strlen(text)) < 0) {
        die("%s: %s", path, strerror(errno));
    }
    close(fd);
}

static bool is_online(int cpu)
{
    char path[64], state;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
    /* A CPU that cannot go offline has no such file. */
    return access(path, F_OK) || (read_file(path, &state, 1) == 1 && state == '1');
}

/* -- Device tree ---------------------------------------------------------- */

static unsigned dt_cells(const char *node, const char *name, uint32_t *cells, unsigned max)
{
    char path[512];
    unsigned n;

    snprintf(path, sizeof(path), "%s/%s", node, name);
    n = read_file(path, cells, max * 4) / 4;
    for (unsigned i = 0; i < n; i++) {
        cells[i] = __builtin_bswap32(cells[i]);
    }
    return n;
}

static unsigned dt_pmcus(Pmcu *dies)
{
    unsigned n = 0;
    glob_t found;

    if (glob(DT "pmcu@*", 0, NULL, &found)) {
        return 0;
    }
    for (size_t i = 0; i < found.gl_pathc && n < MAX_DIES; i++, n++) {
        const char *node = found.gl_pathv[i];
        uint32_t cells[4];

        dt_cells(node, "hisilicon,scl-id", cells, 1);
        dies[n].die = cells[0];
        dt_cells(node, "hisilicon,nr-cluster", cells, 1);
        dies[n].clusters = cells[0];
        if (dt_cells(node, "reg", cells, 4) != 4) {
            die("%s/reg: expected 4 cells", node);
        }
        dies[n].base = (uint64_t)cells[0] << 32 | cells[1];
    }
    globfree(&found);
    return n;
}

static uint32_t dt_mpidr(int cpu)
{
    uint32_t reg[2];
    char path[64];
    unsigned n;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/of_node", cpu);
    n = dt_cells(path, "reg", reg, 2);
    return reg[n - 1];
}

/* -- ACPI ----------------------------------------------------------------- */

/* The integer of AML that follows a string; both are in a _DSD property. */
static const uint8_t *aml_property(const uint8_t *at, const uint8_t *end, const char *name,
                                   unsigned *value)
{
    size_t len = strlen(name) + 1;

    at = memmem(at, end - at, name, len);
    if (!at || end - at < (ptrdiff_t)len + 2) {
        die("the DSDT has no property %s", name);
    }
    at += len;
    *value = *at == 0x0a ? at[1] : *at;     /* BytePrefix, or ZeroOp and OneOp */
    return at;
}

/* The address that the kernel found in _CRS: "09100000-0910ffff : HISI0451:00" */
static uint64_t acpi_base(const char *device)
{
    static char text[65536];
    size_t n = read_file("/proc/iomem", text, sizeof(text) - 1);
    char *at, *line = text;

    text[n] = '\0';
    at = strstr(text, device);
    if (!at) {
        die("/proc/iomem does not show %s", device);
    }
    for (char *c = text; c < at; c++) {
        line = *c == '\n' ? c + 1 : line;
    }
    return strtoull(line, NULL, 16);
}

static unsigned acpi_pmcus(Pmcu *dies)
{
    static uint8_t dsdt[1 << 20];
    const uint8_t *at = dsdt, *end;
    unsigned n = 0;

    if (access(ACPI "DSDT", R_OK)) {
        return 0;
    }
    end = dsdt + read_file(ACPI "DSDT", dsdt, sizeof(dsdt));
    while (n < MAX_DIES && (at = memmem(at, end - at, "HISI0451", 8))) {
        char device[32];

        at = aml_property(at, end, "hisilicon,scl-id", &dies[n].die);
        at = aml_property(at, end, "hisilicon,nr-cluster", &dies[n].clusters);
        snprintf(device, sizeof(device), "HISI0451:%02x", n);
        dies[n++].base = acpi_base(device);
    }
    return n;
}

/* MADT: the CPUs are numbered in the order of its GICC entries. */
static uint32_t acpi_mpidr(int cpu)
{
    static uint8_t madt[65536];
    size_t n = read_file(ACPI "APIC", madt, sizeof(madt));

    for (size_t at = 44; at + 80 <= n && madt[at + 1]; at += madt[at + 1]) {
        if (madt[at] == 0x0b && cpu-- == 0) {
            return madt[at + 68] | madt[at + 69] << 8 | madt[at + 70] << 16;
        }
    }
    die("the MADT has no CPU of that number");
}

/* ------------------------------------------------------------------------- */

/* MPIDR: Aff2 is the die, Aff1 the cluster in it, Aff0 the core in that. */
static void find_cpus(Pmcu *p, uint32_t (*mpidr_of)(int cpu))
{
    memset(p->cpu, -1, sizeof(p->cpu));
    for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        uint32_t mpidr = mpidr_of(cpu);
        unsigned slot = (mpidr & 0xff) * p->clusters + (mpidr >> 8 & 0xff);

        if ((mpidr >> 16 & 0xff) != p->die || !is_online(cpu)) {
            continue;
        }
        if (slot >= p->slots) {
            die("cpu%d (MPIDR 0x%x) has no slot in %u clusters", cpu, mpidr, p->clusters);
        }
        p->cpu[slot] = cpu;
        p->n_cpus++;
    }
}

static int by_die(const void *a, const void *b)
{
    return (int)((const Pmcu *)a)->die - (int)((const Pmcu *)b)->die;
}

unsigned find_pmcus(Pmcu *dies)
{
    uint32_t (*mpidr_of)(int cpu) = dt_mpidr;
    unsigned n = dt_pmcus(dies);
    int fd;

    if (!n) {
        mpidr_of = acpi_mpidr;
        n = acpi_pmcus(dies);
    }
    if (!n) {
        die("neither device tree nor ACPI have a PMCU: boot with -M virt,pmcu=on");
    }
    fd = open("/dev/mem", O_RDWR | O_SYNC);
    if (fd < 0) {
        die("/dev/mem: %s", strerror(errno));
    }
    qsort(dies, n, sizeof(*dies), by_die);
    for (Pmcu *p = dies; p < dies + n; p++) {
        if (!p->clusters || p->clusters > MAX_CLUSTERS) {
            die("die %u: cannot use %u clusters", p->die, p->clusters);
        }
        p->slots = p->clusters * SLOTS_PER_CLUSTER;
        find_cpus(p, mpidr_of);
        p->regs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, p->base);
        if (p->regs == MAP_FAILED) {
            die("/dev/mem at 0x%llx: %s", (unsigned long long)p->base, strerror(errno));
        }
    }
    close(fd);
    return n;
}

void get_memory(Pmcu *p)
{
    uint64_t entry;
    char pages[16];
    int fd;

    snprintf(pages, sizeof(pages), "%u", p->die + 1);
    write_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", pages);
    /*
     * One huge page is contiguous memory whose address does not change: shared, or
     * a write after fork() would move it.
     */
    p->page = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE |
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

unsigned run_records(const Run *run)
{
    return run->loops * run->n_events / run->nr_pmu;
}

/* Two blocks of 32-bit CIDs, the events, the cycle counter */
size_t record_size(const Pmcu *p, const Run *run)
{
    return (run->nr_pmu + 2) * 8 * p->slots;
}

static void set_address(Pmcu *p, unsigned high, uint64_t address)
{
    p->regs[high] = address >> 32;
    p->regs[high + 1] = address;
}

void start_run(Pmcu *p, const Run *run)
{
    uint64_t store = p->page_phys + EVENT_AREA;

    memcpy(p->page, run->events, run->n_events * 4);
    memset(p->page + EVENT_AREA, CANARY, RECORD_AREA);
    p->regs[INT_EN] = 0;                /* polled: nobody serves the interrupt */
    p->regs[FSM_BRK] = 1;               /* end whatever an earlier user left */
    p->regs[INT_CLR] = INT_DONE | INT_BRK;
    p->regs[COMP] = 0;
    p->regs[PMCR] = PMCR_LP_LC_E;
    p->regs[PMCCFILTR] = run->pmccfiltr;
    p->regs[FSM_CFG] = run->n_events | run->loops << 8 | run->nr_pmu << 16;
    p->regs[WAIT_CNT] = run->wait;
    set_address(p, EVENT_BASE_H, p->page_phys);
    set_address(p, STORE_BASE_H, store);
    set_address(p, KILL_BASE_H, store + run_records(run) * record_size(p, run));
    __sync_synchronize();
    p->regs[FSM_CTRL] = 1;
}

void wait_run(Pmcu *p, const Run *run)
{
    struct timespec pause = { .tv_nsec = 1000 * 1000 };
    /* Milliseconds; a host may need many times the guest's time. */
    uint64_t left = 10000 + 20ull * run_records(run) * run->wait / TICKS_PER_MS;
    uint32_t status;

    while (!((status = p->regs[INT_STAT]) & (INT_DONE | INT_BRK))) {
        if (!left--) {
            die("no answer from the PMCU: FSM_STATUS 0x%08x", p->regs[FSM_STATUS]);
        }
        nanosleep(&pause, NULL);
    }
    __sync_synchronize();
    p->regs[INT_CLR] = status;
    if (status & INT_BRK) {
        die("the PMCU broke off: FSM_STATUS 0x%08x", p->regs[FSM_STATUS]);
    }
}

const uint8_t *record_at(const Pmcu *p, const Run *run, unsigned n)
{
    return p->page + EVENT_AREA + n * record_size(p, run);
}

uint32_t record_cid(const Pmcu *p, const uint8_t *record, unsigned el, unsigned slot)
{
    return ((const uint32_t *)record)[(el - 1) * p->slots + slot];
}

uint64_t record_event(const Pmcu *p, const uint8_t *record, unsigned event, unsigned slot)
{
    return ((const uint64_t *)record)[(event + 1) * p->slots + slot];
}

uint64_t record_cycles(const Pmcu *p, const Run *run, const uint8_t *record, unsigned slot)
{
    return record_event(p, record, run->nr_pmu, slot);
}

uint32_t record_pid(const Pmcu *p, const uint8_t *record, unsigned slot)
{
    return record_cid(p, record, 2, slot) ?: record_cid(p, record, 1, slot);
}
