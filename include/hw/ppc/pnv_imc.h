/*
 * PowerNV in-memory collection (IMC) counters of a chip
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_PNV_IMC_H
#define PPC_PNV_IMC_H

#include "exec/memory.h"
#include "hw/misc/pmu-synthetic.h"
#include "hw/ppc/pnv.h"
#include "hw/ppc/pnv_chip.h"
#include "hw/sysbus.h"
#include "qemu/timer.h"
#include "target/ppc/cpu.h"

#define TYPE_PNV_IMC "pnv-imc"
OBJECT_DECLARE_TYPE(PnvImc, PnvImcClass, PNV_IMC)
#define TYPE_PNV9_IMC TYPE_PNV_IMC "-POWER9"
#define TYPE_PNV10_IMC TYPE_PNV_IMC "-POWER10"

/* The flash image with the catalogs that firmware hands to the kernel */
#define PNV_IMC_PNOR_FILE_NAME      "pnv-pnor-imc.bin"

/* Where the counters of the nest are in HOMER, from skiboot's imc.h */
#define PNV_IMC_NEST_OFFSET         0x180000
#define PNV_IMC_NEST_SIZE           0x40000
#define PNV_IMC_NEST_WORDS          (PNV_IMC_NEST_SIZE / 8)
#define PNV_IMC_CB_OFFSET           0x3fc00

/* What runs between two words of a posting group: a header and a trailer */
#define PNV_IMC_GROUP_SIZE          0x110
#define PNV_IMC_GROUP_TRAILER       0x108

/*
 * Registers of a core, by SCOM: in the chiplet of the core, and in that of its
 * quad, where each of the four cores has its own.
 */
#define PNV9_IMC_EVENT_MASK         0x10aa8
#define PNV10_IMC_EVENT_MASK        0x400
#define PNV_IMC_TRACE               1           /* above EVENT_MASK */
#define   PNV_IMC_TRACE_LOAD        PPC_BITMASK(2, 33)
#define   PNV_IMC_TRACE_SIZE        PPC_BITMASK(48, 50)
#define PNV9_IMC_HTM_MODE           { 0x12200, 0x12300, 0x12600, 0x12700 }
#define PNV10_IMC_HTM_MODE          { 0x18680, 0x14680, 0x12680, 0x11680 }
#define   PNV_IMC_HTM_RUN           PPC_BIT(4)
#define PNV_IMC_PDBAR               0xb         /* above HTM_MODE */

/* LDBAR, the SPR of a thread */
#define PNV_IMC_LDBAR_ENABLE        PPC_BIT(0)
#define PNV_IMC_LDBAR_TRACE         PPC_BIT(1)

/* The address in PDBAR and LDBAR */
#define PNV_IMC_ADDR                PPC_BITMASK(14, 50)

/* The counters of a core or of a thread, in lines */
#define PNV_IMC_PAGE_SIZE           0x2000
#define PNV_IMC_PAGE_LINE           64
#define PNV_IMC_PAGE_BASE           0x18        /* of offsets in the catalog */

/* A record of the trace */
#define PNV_IMC_TRACE_RECORD        64
#define   PNV_IMC_TRACE_TB2         MAKE_64BIT_MASK(0, 42)

/* What perf calls a big core has two cores for firmware */
#define PNV_IMC_THREADS             8
#define PNV_IMC_PAGE_EVENTS         64

/**
 * PnvImcEvent: an event of the nest, as the catalog has it
 * @unit: name of the unit
 * @name: name of the event, with its prefix
 * @offset: of the counter in the nest area, a multiple of 8
 * @scale: what one count in memory stands for
 * @hz: frequency if it is a clock, or 0
 * @exists: how the availability vector tells that the unit exists; NULL if it
 *          always does
 * @bit: first bit of its field there
 */
typedef struct PnvImcEvent {
    char *unit;
    char *name;
    uint32_t offset;
    uint32_t scale;
    uint64_t hz;
    const struct PnvImcUnit *exists;
    uint8_t bit;
} PnvImcEvent;

/**
 * PnvImcWord: a 64-bit word of the nest area
 * @base: its value when @mark posts had been made
 * @mark: see there
 * @amount: what each post adds, in events
 * @rest: events that did not make a whole count at @mark
 * @scale: what one count stands for
 */
typedef struct PnvImcWord {
    uint64_t base;
    uint64_t mark;
    uint64_t amount;
    uint32_t rest;
    uint32_t scale;
} PnvImcWord;

/**
 * PnvImcNest: the microcode that posts the counters of the nest
 * @run: the last command was not to pause
 * @speed: posts are 2^@speed ms apart
 * @uav: unit availability vector
 * @mode: run mode that is asked for
 * @mode_state: the last one that was applied
 * @start_ns: since when it runs, if it does
 * @ran_ns: for how long it has run before, since the counters were cleared
 * @posts: posts that were made until somebody looked
 * @tod_ns: when the last of them was made
 * @frames: groups with a header and a trailer
 * @words: the whole area
 */
typedef struct PnvImcNest {
    bool run;
    uint64_t speed;
    uint64_t uav;
    uint64_t mode;
    uint64_t mode_state;
    int64_t start_ns;
    uint64_t ran_ns;
    uint64_t posts;
    int64_t tod_ns;
    unsigned frames;
    PnvImcWord *words;
} PnvImcNest;

typedef struct PnvImcUnit PnvImcUnit;
typedef struct PnvImcClock PnvImcClock;

/**
 * PnvImcNestModel: what differs between generations
 * @uav: the units that a chip has by default
 * @modes: run modes that exist
 * @tod: one word is a copy of the time base
 * @units: how @uav tells that a unit exists
 * @clocks: the events that are not 0 by themselves
 */
typedef struct PnvImcNestModel {
    uint64_t uav;
    unsigned modes;
    bool tod;
    const PnvImcUnit *units;
    const PnvImcClock *clocks;
} PnvImcNestModel;

/* What is known of a thread: totals that only grow */
typedef enum PnvImcTotal {
    PNV_IMC_INSNS,      /* by MSR[HV] << 1 | MSR[PR] */
    PNV_IMC_LARX = PNV_IMC_INSNS + 4,
    PNV_IMC_STCX,
    PNV_IMC_STCX_FAIL,
    PNV_IMC_TLBIE,
    PNV_IMC_INT_OS,
    PNV_IMC_INT_HYP,
    PNV_IMC_INT_EBB,
    PNV_IMC_INT_DOORBELL,
    PNV_IMC_BUSY_NS,    /* not halted */
    PNV_IMC_RUN_NS,     /* and with CTRL[RUN] */
    PNV_IMC_TOTALS
} PnvImcTotal;

typedef struct PnvImcEngine PnvImcEngine;
typedef struct PnvImcThread PnvImcThread;

/**
 * PnvImcCoreEvent: an event of cores and threads
 * @offset: in the catalog; tables end with one that is not in the page
 * @value: what it counts,
 * @bank: and in which states
 */
typedef struct PnvImcCoreEvent {
    uint16_t offset;
    uint8_t value;
    uint8_t bank;
} PnvImcCoreEvent;

/**
 * PnvImcPage: counters in memory, of a core or of a thread
 * @active: an engine adds to them
 * @bad: there is no memory, and that was said
 * @addr: where they are
 * @since_ns: what has been until then is in them
 * @thread: what is counted
 * @threads: the number of these
 * @seen: the totals of each, as far as they are in @addr
 * @rest: what is not yet enough for another count of @scale, by event
 */
typedef struct PnvImcPage {
    bool active;
    bool bad;
    hwaddr addr;
    int64_t since_ns;
    PnvImcThread **thread;
    unsigned threads;
    uint64_t seen[PNV_IMC_THREADS][PNV_IMC_TOTALS];
    uint32_t rest[PNV_IMC_PAGE_EVENTS];
} PnvImcPage;

/**
 * PnvImcThread: a thread of a core
 * @engine: of its core
 * @cpu: the thread
 * @ldbar: its LDBAR
 * @page: its own counters
 * @want: its instructions should be counted, and
 * @counts: they are
 * @record: where the next record of the trace goes
 * @sampling: a sample was asked for, but not yet taken
 * @bad: there is no memory for the trace, and that was said
 */
struct PnvImcThread {
    PnvImcEngine *engine;
    PowerPCCPU *cpu;
    uint64_t ldbar;
    PnvImcPage page;
    bool want;
    bool counts;
    uint32_t record;
    bool sampling;
    bool bad;
};

/**
 * PnvImcEngine: what counts for a core
 * @imc: of the chip
 * @core: the number of the core; the first one of a big core
 * @run: HTM_MODE says so
 * @pdbar: PDBAR, as far as it is an address
 * @trace: TRACE_IMC
 * @thread: the threads
 * @threads: how many
 * @page: the counters of the core
 * @sampler: runs while a thread is traced
 */
struct PnvImcEngine {
    PnvImc *imc;
    unsigned core;
    bool run;
    uint64_t pdbar;
    uint64_t trace;
    PnvImcThread *thread[PNV_IMC_THREADS];
    unsigned threads;
    PnvImcPage page;
    QEMUTimer sampler;
};

/**
 * PnvImcCore: the registers of a core
 * @engine: which the cores of a big core share
 */
typedef struct PnvImcCore {
    PnvImcEngine *engine;
    unsigned core;
    MemoryRegion core_mr;
    MemoryRegion htm_mr;
    MemoryRegion pdbar_mr;
    uint64_t event_mask;
    uint64_t trace;
    uint64_t htm_mode;
    uint64_t pdbar;
} PnvImcCore;

/**
 * PnvImcCoreModel: what differs between generations
 * @event_mask: where that is in the chiplet of the core
 * @htm_mode: where that is in the chiplet of the quad, for each of its cores
 * @scale: what one count in memory stands for
 * @msr: records of the trace have MSR[HV] and MSR[PR]
 * @events: what is counted
 */
typedef struct PnvImcCoreModel {
    uint32_t event_mask;
    uint32_t htm_mode[4];
    uint32_t scale;
    bool msr;
    const PnvImcCoreEvent *events;
} PnvImcCoreModel;

struct PnvImcClass {
    SysBusDeviceClass parent_class;

    const char *catalog;
    const PnvImcNestModel *nest;
    const PnvImcCoreModel *core;
    hwaddr (*core_base)(unsigned core);
    hwaddr (*quad_base)(unsigned core);
};

struct PnvImc {
    SysBusDevice parent_obj;

    PnvChip *chip;
    char *catalog;
    uint64_t uav;

    GArray *events;         /* of PnvImcEvent, in order of offsets */
    MemoryRegion nest_mr;
    PnvImcNest nest;
    char *pending;          /* "nest-synthetic" until names are known */
    bool demo;
    PmuSynthetic *synthetic;

    uint64_t post_period_ns;
    uint64_t trace_min_period_ns;
    QEMUTimer poster;       /* runs while a page is active */
    PnvImcCore *cores;
    GPtrArray *engines;
};

/* In pnv_imc_catalog.c */

/**
 * pnv_imc_catalog_load: read the events of the nest
 * @file: name of a compiled device tree
 * @errp: error object
 *
 * Returns: an array of PnvImcEvent, in order of offsets, or NULL
 */
GArray *pnv_imc_catalog_load(const char *file, Error **errp);

/* In pnv_imc_nest.c */

extern const PnvImcNestModel pnv_imc_nest_p9, pnv_imc_nest_p10;
extern const MemoryRegionOps pnv_imc_nest_ops;

/* Fill in what the model knows of the events in the catalog. */
void pnv_imc_nest_resolve(PnvImc *imc);

/* The events and the time since when they are counted have changed. */
void pnv_imc_nest_update(PnvImc *imc);

/* The state in which the microcode is when it has started */
void pnv_imc_nest_reset(PnvImc *imc);

/* What the control block shows as status: 1 runs, 2 paused, 3 and 4 errors */
uint64_t pnv_imc_nest_status(PnvImc *imc);

void pnv_imc_nest_set_uav(PnvImc *imc, uint64_t uav);

/* Add to a word as a post does; carries are lost at 2^64. */
void pnv_imc_nest_add(PnvImc *imc, uint32_t offset, uint64_t value);

/* Is this word a header or a trailer, or not for counters at all? */
bool pnv_imc_nest_reserved(PnvImc *imc, uint32_t offset);

/* In pnv_imc_core.c */

/* Give the cores of the chip registers. */
void pnv_imc_core_create(PnvImc *imc);
void pnv_imc_core_destroy(PnvImc *imc);

/* Stop all engines, without a last post, and forget all addresses. */
void pnv_imc_core_reset(PnvImc *imc);

/* The thread has written LDBAR, on its own thread; needs the BQL. */
void pnv_imc_ldbar_write(PnvImcThread *thread, uint64_t value);

/**
 * pnv_imc_map: find memory of the guest
 * @cache: to be destroyed if there is some
 * @addr: where
 * @size: how much
 *
 * Returns: whether all of it is RAM, and nothing else
 */
bool pnv_imc_map(MemoryRegionCache *cache, hwaddr addr, hwaddr size);

/* In pnv_imc_count.c */

extern const PnvImcCoreEvent pnv_imc_events_p9[], pnv_imc_events_p10[];

/* Forget what has been counted until now. */
void pnv_imc_count_start(PnvImcPage *page);

/* Add what has been counted until now. */
void pnv_imc_count_post(PnvImcPage *page);

/* Let the CPU of a thread count instructions, or not. */
void pnv_imc_count_enable(PnvImcThread *thread, bool enable);

/* In pnv_imc_trace.c */

/* What decides whether and how often there are samples has changed. */
void pnv_imc_trace_update(PnvImcEngine *engine);

/* The callback of the sampler */
void pnv_imc_trace_timer(void *opaque);

/* In pnv_imc_ldbar.c */

/* Have writes of LDBAR go to pnv_imc_ldbar_write(). */
void pnv_imc_ldbar_hook(PnvImcThread *thread);

/* In pnv_imc.c, for the machine */

/* The machine property "imc" */
void pnv_imc_machine_class_init(ObjectClass *oc);

/*
 * Before a chip is realized: put HOMER where kernels map it, into the RAM of
 * the chip.
 */
void pnv_imc_place_homer(PnvMachineState *pnv, PnvChip *chip);

/* After a chip is realized: give it IMC counters. */
void pnv_imc_create(PnvMachineState *pnv, PnvChip *chip);

/* Tell the guest not to use the RAM that is HOMER. */
void pnv_imc_dt(PnvMachineState *pnv, void *fdt);

#endif
