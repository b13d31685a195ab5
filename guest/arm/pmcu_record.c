/*
 * pmcu_record: record samples of a HiSilicon PMCU through perf
 *
 * Needs the driver of guest/drivers/hisi_pmcu. Prints the records as they are
 * in the AUX buffer, in words of 64 bits:
 *
 *   record 0 0 0 c00000000 ...
 *
 * and what perf says about them:
 *
 *   recorded 100 samples, count 100, 38400 bytes, flags 0x0
 *
 * "flags" are all the PERF_AUX_FLAG_* that came with them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_PER_CLUSTER 8
#define RING_PAGES        8             /* of perf's records */

static struct {
    unsigned die, samples, period_us, loops, pages, for_ms, frequency;
    unsigned long filter;
    bool keep;
    const char *events;
} opt = { .samples = 10, .period_us = 1000, .pages = 256 };

/* The event, its two buffers, and what was read from them */
static int fd;
static volatile struct perf_event_mmap_page *page;
static uint8_t *ring, *aux;
static size_t ring_size, aux_size;
static uint8_t *data;
static size_t size;
static uint64_t flags;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
    va_list args;

    fputs("pmcu_record: error: ", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static FILE *sysfs(const char *name, const char *mode)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/bus/event_source/devices/hisi_pmcu_sccl%u/%s",
             opt.die, name);
    file = fopen(path, mode);
    if (!file) {
        die("%s: %s; is the driver loaded?", path, strerror(errno));
    }
    return file;
}

static unsigned sysfs_number(const char *name)
{
    FILE *file = sysfs(name, "r");
    unsigned value;

    if (fscanf(file, "%u", &value) != 1) {
        die("%s is not a number", name);
    }
    fclose(file);
    return value;
}

/* Bytes of a sample: a record for each group of as many events as counters */
static size_t sample_size(size_t *record_size)
{
    FILE *file = sysfs("event_list", "r");
    unsigned nr = 1, nr_pmu = sysfs_number("caps/nr_counter");

    for (int c; (c = fgetc(file)) != EOF;) {
        nr += c == ',';
    }
    fclose(file);
    nr_pmu = nr < nr_pmu ? nr : nr_pmu;
    /* In compatibility mode there is no cycle counter. */
    *record_size = (nr_pmu + (sysfs_number("caps/comp") ? 1 : 2)) * 8 * SLOTS_PER_CLUSTER * sysfs_number("caps/nr_cluster");
    return (nr + nr_pmu - 1) / nr_pmu * *record_size;
}

static void open_event(void)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = sysfs_number("type"),
        .config = (uint64_t)opt.period_us << 32 | opt.samples,
        .config1 = opt.filter | opt.loops << 8,
        .freq = opt.frequency != 0,
        .sample_freq = opt.frequency,
        .disabled = 1,
        .aux_watermark = 4096,          /* be told soon */
    };

    fd = syscall(SYS_perf_event_open, &attr, -1, sysfs_number("cpumask"), -1, 0);
    if (fd < 0) {
        die("perf_event_open: %s", strerror(errno));
    }
    ring_size = RING_PAGES * getpagesize();
    page = mmap(NULL, getpagesize() + ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        die("mapping the ring buffer: %s", strerror(errno));
    }
    ring = (uint8_t *)page + getpagesize();
    aux_size = opt.pages * getpagesize();
    page->aux_offset = getpagesize() + ring_size;
    page->aux_size = aux_size;
    aux = mmap(NULL, aux_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page->aux_offset);
    if (aux == MAP_FAILED) {
        die("mapping the AUX buffer: %s", strerror(errno));
    }
}

static void copy_from(void *to, const uint8_t *buffer, size_t buffer_size, uint64_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)to)[i] = buffer[(at + i) % buffer_size];
    }
}

/* Take what has arrived; returns false if the kernel lost perf's records. */
static bool take(void)
{
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    struct {
        struct perf_event_header header;
        uint64_t offset, size, flags;   /* of PERF_RECORD_AUX */
    } record;
    bool sound = true;

    while (page->data_tail != head) {
        copy_from(&record, ring, ring_size, page->data_tail, sizeof(record.header));
        if (record.header.type == PERF_RECORD_AUX) {
            copy_from(&record, ring, ring_size, page->data_tail, sizeof(record));
            /* A run that perf stops before its first sample stores none; realloc(data, 0) is NULL. */
            if (record.size) {
                if (record.offset != size) {
                    die("AUX record at %" PRIu64 ", expected at %zu", (uint64_t)record.offset,
                        size);
                }
                data = realloc(data, size + record.size);
                if (!data) {
                    die("no memory for %" PRIu64 " bytes more", (uint64_t)record.size);
                }
                /* With --keep the buffer fills up, and is read at the end. */
                copy_from(data + size, aux, aux_size, record.offset, record.size);
                size += record.size;
            }
            flags |= record.flags;
            if (!opt.keep) {
                __atomic_store_n(&page->aux_tail, size, __ATOMIC_RELEASE);
            }
        }
        sound = sound && record.header.type != PERF_RECORD_LOST;
        __atomic_store_n(&page->data_tail, page->data_tail + record.header.size,
                         __ATOMIC_RELEASE);
    }
    return sound;
}

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        { "die", required_argument, NULL, 'd' },
        { "samples", required_argument, NULL, 's' },
        { "period-us", required_argument, NULL, 'p' },
        { "filter", required_argument, NULL, 'f' },
        { "loops", required_argument, NULL, 'l' },
        { "events", required_argument, NULL, 'e' },
        { "pages", required_argument, NULL, 'a' },
        { "for-ms", required_argument, NULL, 't' },
        { "frequency", required_argument, NULL, 'F' },
        { "keep", no_argument, NULL, 'k' },
        { "help", no_argument, NULL, 'h' },
        { }
    };

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        unsigned long n = optarg && c != 'e' ? strtoul(optarg, NULL, 0) : 0;

        switch (c) {
        case 'd': opt.die = n; break;
        case 's': opt.samples = n; break;
        case 'p': opt.period_us = n; break;
        case 'f': opt.filter = n; break;
        case 'l': opt.loops = n; break;
        case 'e': opt.events = optarg; break;
        case 'a': opt.pages = n; break;
        case 't': opt.for_ms = n; break;
        case 'F': opt.frequency = n; break;
        case 'k': opt.keep = true; break;
        default:
            puts("usage: pmcu_record [OPTION]...\n"
                 "  --die N         PMCU of this die (0)\n"
                 "  --events LIST   what to count, for example 0x11,0x8000011 (as it is)\n"
                 "  --samples N     how many samples (10)\n"
                 "  --period-us N   length of a sample (1000)\n"
                 "  --filter N      PMCCFILTR_EL0 bits 31:24 (0)\n"
                 "  --loops N       samples between two interrupts (as many as possible)\n"
                 "  --pages N       of the AUX buffer, a power of 2 (256)\n"
                 "  --keep          let the AUX buffer fill up\n"
                 "  --for-ms N      go on reading for this time, also when all samples are there\n"
                 "  --frequency N   ask perf for N samples a second, which the driver refuses\n"
                 "SIGTERM disables the event, too.\n"
                 "exit status: 0 all samples, 1 fewer, 2 error");
            exit(c == 'h' ? 0 : 2);
        }
    }
}

int main(int argc, char **argv)
{
    struct pollfd ready = { .events = POLLIN };
    size_t pass, record_size;
    uint64_t count;
    double end;

    parse(argc, argv);
    signal(SIGTERM, on_signal);
    if (opt.events) {
        FILE *file = sysfs("event_list", "w");

        fputs(opt.events, file);
        if (fclose(file)) {
            die("event_list %s: %s", opt.events, strerror(errno));
        }
    }
    pass = sample_size(&record_size);
    open_event();
    if (ioctl(fd, PERF_EVENT_IOC_ENABLE)) {
        die("enable: %s", strerror(errno));
    }
    /* A busy host can make guest time pass without the guest: be patient. */
    end = now() + (opt.for_ms ? opt.for_ms / 1e3 : 60 + 20e-6 * opt.samples * opt.period_us);
    for (ready.fd = fd; take() && (opt.for_ms || size < opt.samples * pass) &&
                        !stop && now() < end;) {
        if (flags & PERF_AUX_FLAG_TRUNCATED) {
            break;
        }
        poll(&ready, 1, 10);
    }
    ioctl(fd, PERF_EVENT_IOC_DISABLE);
    if (!take()) {
        die("the ring buffer is too small");
    }
    if (read(fd, &count, sizeof(count)) != sizeof(count)) {
        die("read: %s", strerror(errno));
    }
    for (size_t at = 0; at < size; at += record_size) {
        printf("record");
        for (size_t i = 0; i < record_size; i += 8) {
            printf(" %" PRIx64, *(uint64_t *)(data + at + i));
        }
        putchar('\n');
    }
    printf("recorded %zu samples, count %" PRIu64 ", %zu bytes, flags 0x%" PRIx64 "\n",
           size / pass, count, size, flags);
    return size != opt.samples * pass;
}
