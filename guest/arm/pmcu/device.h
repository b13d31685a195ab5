/*
 * A HiSilicon PMCU as a user-space driver sees it: registers through /dev/mem,
 * event list and records in a huge page.
 *
 * Registers and records: docs/specs/hisi-pmcu.rst
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PMCU_DEVICE_H
#define PMCU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TICKS_PER_MS      50000u        /* WAIT_CNT counts 20 ns ticks */
#define PMCR_LP_LC_E      0xc1u         /* what the Linux driver writes */
#define FILTER_NSH        (1u << 27)    /* count at EL2 too */
#define FILTER_USER       (1u << 31)    /* not at EL1, and so at EL0 only */
#define FILTER_KERNEL     (1u << 30 | FILTER_NSH)  /* not at EL0, but at EL1 and EL2 */
#define NULL_EVENT        0xc000u       /* the driver's filler: never counts */

#define MAX_DIES          16
#define MAX_CLUSTERS      32
#define SLOTS_PER_CLUSTER 8
#define MAX_SLOTS         (MAX_CLUSTERS * SLOTS_PER_CLUSTER)
#define MAX_EVENTS        240           /* of one run: EV_LEN */
#define MAX_COUNTERS      8
#define MAX_LOOPS         255           /* NR_LOOP has 8 bits */

#define HUGE_PAGE         (2u << 20)
#define EVENT_AREA        4096u         /* event list at the start of the page */
#define RECORD_AREA       (HUGE_PAGE - EVENT_AREA)
#define CANARY            0xa5          /* what the record area is filled with */

typedef struct {
    volatile uint32_t *regs;
    uint64_t base;                      /* physical address of the registers */
    unsigned die, clusters, slots;
    int cpu[MAX_SLOTS];                 /* online CPU in each slot, or -1 */
    unsigned n_cpus;
    uint8_t *page;
    uint64_t page_phys;
} Pmcu;

/* What the engine is to do: loops times through the list, nr_pmu events a record */
typedef struct {
    uint32_t events[MAX_EVENTS];
    unsigned n_events, nr_pmu, loops;
    uint32_t wait;                      /* in ticks */
    uint32_t pmccfiltr;
} Run;

/*
 * Find the PMCUs of all dies, through the device tree or ACPI, with their online
 * CPUs, and map them. Sorted by die. Returns their number; ends the program with a
 * message if there is none.
 */
unsigned find_pmcus(Pmcu *dies);

/* Get the huge page of a die. */
void get_memory(Pmcu *p);

/* Records of a run, and their size in bytes */
unsigned run_records(const Run *run);
size_t record_size(const Pmcu *p, const Run *run);

/* Start a run. Fills the record area with CANARY. */
void start_run(Pmcu *p, const Run *run);

/* Wait until the run of a die is done; ends the program if it breaks off. */
void wait_run(Pmcu *p, const Run *run);

/* Record number n in the record area, and its fields. */
const uint8_t *record_at(const Pmcu *p, const Run *run, unsigned n);
uint32_t record_cid(const Pmcu *p, const uint8_t *record, unsigned el, unsigned slot);

/* The PID: the kernel has it in the context ID of its exception level, the other is 0 */
uint32_t record_pid(const Pmcu *p, const uint8_t *record, unsigned slot);
uint64_t record_event(const Pmcu *p, const uint8_t *record, unsigned event, unsigned slot);
uint64_t record_cycles(const Pmcu *p, const Run *run, const uint8_t *record, unsigned slot);

/* End the program: "pmcu: error: ...", exit status 2. */
void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...);

#endif
