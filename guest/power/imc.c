/*
 * imc: read the in-memory collection counters of the nest
 *
 * usage: imc read SECONDS      all events of all nest units on all chips, for so long
 *        imc hammer TIMES      start and stop the counters of all chips so often
 *        imc loads TIMES       read the whole area of chip 0 so often: the time of a load
 *
 * read prints a line for each event and chip, with tabs:
 *
 *     unit  event  chip  offset  scale  count  nanoseconds
 *
 * where count is what memory grew by while CLOCK_MONOTONIC went on by nanoseconds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"
#define MAX_CHIPS 16

struct event {
    char unit[256], name[256];
    unsigned type, chip;
    int cpu, fd;
    uint64_t config, scale, count[2], ns[2];
};

static struct event *events;
static unsigned nr_events;

static void fail(const char *what)
{
    fprintf(stderr, "imc: %s: %s\n", what, strerror(errno));
    exit(2);
}

static bool read_file(char *text, size_t size, const char *unit, const char *file,
                      const char *suffix)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), DEVICES "/%s/%s%s", unit, file, suffix);
    f = fopen(path, "r");
    if (!f) {
        return false;
    }
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    text[strcspn(text, "\n")] = 0;
    return true;
}

/* The first CPU of each chip, from a list such as "0,4" or "0-1" */
static unsigned cpu_list(const char *text, int *cpus)
{
    unsigned n = 0;
    char *end;

    while (n < MAX_CHIPS) {
        long first = strtol(text, &end, 10), last = first;

        if (end == text) {
            break;
        }
        if (*end == '-') {
            last = strtol(end + 1, &end, 10);
        }
        for (; first <= last && n < MAX_CHIPS; first++) {
            cpus[n++] = first;
        }
        text = *end ? end + 1 : end;
    }
    return n;
}

static int open_event(const struct event *e)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = e->type,
        .config = e->config,
    };

    return syscall(SYS_perf_event_open, &attr, -1, e->cpu, -1, 0);
}

static void add_events(const char *unit)
{
    char text[256], file[300], path[512];
    int cpus[MAX_CHIPS];
    unsigned type, chips, chip;
    struct dirent *entry;
    DIR *dir;

    if (!read_file(text, sizeof(text), unit, "type", "")) {
        fail(unit);
    }
    type = strtoul(text, NULL, 10);
    if (!read_file(text, sizeof(text), unit, "cpumask", "")) {
        fail(unit);
    }
    chips = cpu_list(text, cpus);
    snprintf(path, sizeof(path), DEVICES "/%s/events", unit);
    dir = opendir(path);
    if (!dir) {
        fail(path);
    }
    while ((entry = readdir(dir))) {
        const char *dot = strrchr(entry->d_name, '.');

        if (entry->d_name[0] == '.' ||
            (dot && (!strcmp(dot, ".scale") || !strcmp(dot, ".unit")))) {
            continue;
        }
        snprintf(file, sizeof(file), "events/%s", entry->d_name);
        for (chip = 0; chip < chips; chip++) {
            struct event e = { .type = type, .chip = chip, .cpu = cpus[chip], .scale = 1 };

            snprintf(e.unit, sizeof(e.unit), "%s", unit);
            snprintf(e.name, sizeof(e.name), "%s", entry->d_name);
            if (!read_file(text, sizeof(text), unit, file, "") ||
                sscanf(text, "event=%li", (long *)&e.config) != 1) {
                fail(file);
            }
            if (read_file(text, sizeof(text), unit, file, ".scale")) {
                e.scale = strtoull(text, NULL, 10);
            }
            events = realloc(events, (nr_events + 1) * sizeof(e));
            if (!events) {
                fail("memory");
            }
            events[nr_events++] = e;
        }
    }
    closedir(dir);
}

static void find_events(void)
{
    struct dirent *entry;
    DIR *dir = opendir(DEVICES);

    if (!dir) {
        fail(DEVICES);
    }
    while ((entry = readdir(dir))) {
        if (!strncmp(entry->d_name, "nest_", 5)) {
            add_events(entry->d_name);
        }
    }
    closedir(dir);
    if (!nr_events) {
        fprintf(stderr, "imc: there are no nest counters here\n");
        exit(1);
    }
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void read_events(int which)
{
    unsigned i, tries;

    for (i = 0; i < nr_events; i++) {
        struct event *e = &events[i];

        /* On a busy host, time may pass between the count and the clock. */
        for (tries = 0; tries < 100; tries++) {
            uint64_t before = now();

            if (read(e->fd, &e->count[which], 8) != 8) {
                fail(e->name);
            }
            e->ns[which] = now();
            if (e->ns[which] - before < 1000000) {
                break;
            }
        }
    }
}

static void measure(double seconds)
{
    struct rlimit files = { 4096, 4096 };
    unsigned i;

    setrlimit(RLIMIT_NOFILE, &files);
    for (i = 0; i < nr_events; i++) {
        events[i].fd = open_event(&events[i]);
        if (events[i].fd < 0) {
            fail(events[i].name);
        }
    }
    read_events(0);
    usleep(seconds * 1e6);
    read_events(1);
    for (i = 0; i < nr_events; i++) {
        const struct event *e = &events[i];

        printf("%s\t%s\t%u\t0x%llx\t%llu\t%llu\t%llu\n", e->unit, e->name, e->chip,
               (unsigned long long)e->config, (unsigned long long)e->scale,
               (unsigned long long)(e->count[1] - e->count[0]),
               (unsigned long long)(e->ns[1] - e->ns[0]));
    }
}

/* The kernel starts a chip with its first event, and stops it with the last. */
static void hammer(unsigned long times)
{
    unsigned long n;
    unsigned i;

    for (n = 0; n < times; n++) {
        for (i = 0; i < nr_events; i++) {
            if (strcmp(events[i].name, events[0].name)) {
                continue;
            }
            events[i].fd = open_event(&events[i]);
            if (events[i].fd < 0 || read(events[i].fd, &events[i].count[0], 8) != 8) {
                fail(events[i].name);
            }
            close(events[i].fd);
        }
    }
    printf("%lu times\n", n);
}

/* The kernel copies the file from the counters, 8 bytes at a time. */
static void loads(unsigned long times)
{
    static const char path[] = "/sys/firmware/opal/exports/imc_nest_chip_0";
    static char area[0x40000];
    uint64_t start = now(), all;
    unsigned long n;
    int fd = open(path, O_RDONLY);

    if (fd < 0) {
        fail(path);
    }
    for (n = 0; n < times; n++) {
        ssize_t got = 0, part;

        for (; got < (ssize_t)sizeof(area); got += part) {
            part = pread(fd, area + got, sizeof(area) - got, got);
            if (part <= 0) {
                fail(path);
            }
        }
    }
    all = now() - start;
    close(fd);
    printf("A load of a nest counter takes %llu ns (target: 1000 ns)\n",
           (unsigned long long)(all / times / (sizeof(area) / 8)));
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "read")) {
        find_events();
        measure(atof(argv[2]));
    } else if (argc == 3 && !strcmp(argv[1], "hammer")) {
        find_events();
        hammer(strtoul(argv[2], NULL, 10));
    } else if (argc == 3 && !strcmp(argv[1], "loads") && atoi(argv[2]) > 0) {
        loads(atoi(argv[2]));
    } else {
        fprintf(stderr, "usage: imc read SECONDS | imc hammer TIMES | imc loads TIMES\n");
        return 2;
    }
    return 0;
}
