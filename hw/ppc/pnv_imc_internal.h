/*
 * PowerNV in-memory collection (IMC) counters of a chip
 *
 *   pnv_imc.c            the device: properties, reset
 *     |  pnv_imc_catalog.c     which word counts what, by name
 *     |
 *     +-> pnv_imc_nest.c       counters in HOMER, computed when they are read
 *     +-> pnv_imc_core.c       SCOMs and engines of cores, LDBAR of threads
 *           +-> pnv_imc_count.c    what threads have done, as values of events
 *           +-> pnv_imc_page.c     adds to counters in the guest's memory
 *           +-> pnv_imc_trace.c    samples; uses the two above
 *   pnv_imc_machine.c    the machine option, and where HOMER is
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_PNV_IMC_INTERNAL_H
#define PPC_PNV_IMC_INTERNAL_H

#include "exec/memory.h"
#include "hw/misc/pmu-synthetic.h"
#include "hw/ppc/pnv_chip.h"
#include "hw/sysbus.h"
#include "qemu/timer.h"
#include "target/ppc/cpu.h"

#define TYPE_PNV_IMC "pnv-imc"
OBJECT_DECLARE_TYPE(PnvImc, PnvImcClass, PNV_IMC)
#define TYPE_PNV9_IMC TYPE_PNV_IMC "-POWER9"
#define TYPE_PNV10_IMC TYPE_PNV_IMC "-POWER10"

/*
 * The catalog
 */

typedef struct PnvImcUnit PnvImcUnit;

/**
 * PnvImcEvent: an event, as the catalog has it
 * @unit: name of the unit
 * @name: name of the event, with its prefix
 * @offset: of the counter in its area, a multiple of 8
 * @scale: what one count in memory stands for
 *
 * Of the nest, see pnv_imc_nest.c:
 * @hz: frequency if it is a clock, or 0
 * @exists: how the availability vector tells that the unit exists; NULL if it
 *          always does
 * @bit: first bit of its field there
 *
 * Of cores and threads, see pnv_imc_count.c:
 * @value: what it counts, PNV_IMC_VALUES if an emulator cannot know that
 * @bank: and in which states
 */
typedef struct PnvImcEvent {
    char *unit;
    char *name;
    uint32_t offset;
    uint32_t scale;
    uint64_t hz;
    const PnvImcUnit *exists;
    uint8_t bit;
    uint8_t value;
    uint8_t bank;
} PnvImcEvent;

/* Each has an array of PnvImcEvent, in order of offsets. */
typedef enum PnvImcArea {
    PNV_IMC_NEST,
    PNV_IMC_CORE,
    PNV_IMC_THREAD,
    PNV_IMC_AREAS
} PnvImcArea;

/**
 * pnv_imc_catalog_load: read the events
 * @events: where to store an array for each area
 * @file: name of a compiled device tree
 * @errp: error object
 */
bool pnv_imc_catalog_load(GArray *events[PNV_IMC_AREAS], const char *file,
                          Error **errp);

static inline PnvImcEvent *pnv_imc_event(GArray *events, unsigned i)
{
    return &g_array_index(events, PnvImcEvent, i);
}

/*
 * The nest
 */

/* Where its counters are in HOMER, from skiboot's imc.h */
#define PNV_IMC_NEST_OFFSET         0x180000
#define PNV_IMC_NEST_SIZE           0x40000
#define PNV_IMC_CB_OFFSET           0x3fc00

/* What runs between two words of a posting group: a header and a trailer */
#define PNV_IMC_GROUP_SIZE          0x110
#define PNV_IMC_GROUP_TRAILER       0x108

typedef struct PnvImcClock PnvImcClock;

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

/* What the user wants readers of a group to see */
typedef enum PnvImcFault {
    PNV_IMC_FAULT_NONE,
    PNV_IMC_FAULT_TORN,     /* a post has not yet come to the second half */
    PNV_IMC_FAULT_LATE,     /* posts do not come */
} PnvImcFault;

/**
 * PnvImcGroup: a posting group
 * @fault: what is wrong with it
 * @late: what its words show if it is late
 */
typedef struct PnvImcGroup {
    PnvImcFault fault;
    uint64_t late[PNV_IMC_GROUP_SIZE / 8];
} PnvImcGroup;

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
 * @groups: how many posting groups there are
 * @group: these
 * @words: all words of the groups
 * @others: words behind these that somebody has asked for, by offset
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
    unsigned groups;
    PnvImcGroup *group;
    PnvImcWord *words;
    GHashTable *others;
} PnvImcNest;

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

extern const PnvImcNestModel pnv_imc_nest_p9, pnv_imc_nest_p10;
extern const MemoryRegionOps pnv_imc_nest_ops;

/* Fill in what the model knows of the events in the catalog, and make words. */
void pnv_imc_nest_create(PnvImc *imc);
void pnv_imc_nest_destroy(PnvImc *imc);

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

/* Set what is wrong with each group. */
void pnv_imc_nest_set_faults(PnvImc *imc, const PnvImcFault *fault);

/*
 * What threads have done
 */

/* What perf calls a big core has two cores for firmware */
#define PNV_IMC_THREADS             8

/* What is known of a thread: totals that only grow */
typedef enum PnvImcTotal {
    PNV_IMC_INSNS,      /* by MSR[HV] << 1 | MSR[PR] */
    PNV_IMC_RUN_INSNS = PNV_IMC_INSNS + 4,      /* with CTRL[RUN] */
    PNV_IMC_LARX,
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

/* What events can count, see pnv_imc_count.c */
#define PNV_IMC_VALUES              40
#define PNV_IMC_BANKS               3

typedef uint64_t PnvImcValues[PNV_IMC_VALUES][PNV_IMC_BANKS];

/**
 * PnvImcMeter: what some threads of a core do between two looks
 * @cpu: the threads
 * @threads: the number of these
 * @core_threads: how many threads the core has
 * @since_ns: when it was looked at last
 * @seen: the totals of each thread then
 */
typedef struct PnvImcMeter {
    PowerPCCPU *cpu[PNV_IMC_THREADS];
    unsigned threads;
    unsigned core_threads;
    int64_t since_ns;
    uint64_t seen[PNV_IMC_THREADS][PNV_IMC_TOTALS];
} PnvImcMeter;

/* Find what the events of an array count, by their names. */
void pnv_imc_count_resolve(GArray *events);

/* Forget what threads have done until now. */
void pnv_imc_count_start(PnvImcMeter *meter);

/* Add to @value what they have done since the last look. */
void pnv_imc_count_take(PnvImcMeter *meter, PnvImcValues value);

static inline bool pnv_imc_is_known(const PnvImcEvent *e)
{
    return e->value < PNV_IMC_VALUES;
}

static inline uint64_t pnv_imc_value(const PnvImcEvent *e,
                                     const PnvImcValues value)
{
    return value[e->value][e->bank];
}

/* The frequency of a clock that nothing stops, or 0 for other events */
uint32_t pnv_imc_count_hz(const PnvImcEvent *e);

/*
 * Counters in the guest's memory
 */

/* An area of a core or of a thread: lines, of which four dwords can count */
#define PNV_IMC_PAGE_SIZE           0x2000
#define PNV_IMC_PAGE_LINE           64
#define PNV_IMC_PAGE_CPMC1          0x18

/**
 * PnvImcPage: such an area
 * @addr: where it is
 * @bad: there is no memory, and that was said
 * @rest: events that are not yet in memory, by event
 */
typedef struct PnvImcPage {
    hwaddr addr;
    bool bad;
    uint64_t *rest;
} PnvImcPage;

/**
 * pnv_imc_map: find memory of the guest
 * @cache: to be destroyed if there is some
 * @addr: where
 * @size: how much
 *
 * Returns: whether all of it is RAM, and nothing else
 */
bool pnv_imc_map(MemoryRegionCache *cache, hwaddr addr, hwaddr size);

/**
 * pnv_imc_page_add: add to counters
 * @page: whose
 * @events: array of the events that @page->rest belongs to
 * @tb: time base, which each line that changes shows
 *
 * What is too little for a count stays in @page->rest.
 *
 * Returns: whether there is memory; if not, nothing is kept
 */
bool pnv_imc_page_add(PnvImcPage *page, GArray *events, uint64_t tb);

/*
 * Cores
 */

/*
 * Registers of a core, by SCOM: in the chiplet of the core, and in that of its
 * quad, where each of the four cores has its own.
 */
#define PNV9_IMC_EVENT_MASK         0x10aa8
#define PNV10_IMC_EVENT_MASK        0x400
#define PNV_IMC_TRACE               1           /* above EVENT_MASK */
#define   PNV_IMC_TRACE_SAMPSEL     PPC_BITMASK(0, 1)
#define   PNV_IMC_TRACE_LOAD        PPC_BITMASK(2, 33)
#define   PNV_IMC_TRACE_CPMC1SEL    PPC_BITMASK(34, 40)
#define   PNV_IMC_TRACE_CPMC2SEL    PPC_BITMASK(41, 47)
#define   PNV_IMC_TRACE_SIZE        PPC_BITMASK(48, 50)
#define PNV9_IMC_HTM_MODE           { 0x12200, 0x12300, 0x12600, 0x12700 }
#define PNV10_IMC_HTM_MODE          { 0x18680, 0x14680, 0x12680, 0x11680 }
#define   PNV_IMC_HTM_RUN           PPC_BIT(4)
#define PNV_IMC_PDBAR               0xb         /* above HTM_MODE */
#define   PNV_IMC_PDBAR_ADDR        PPC_BITMASK(14, 50)

/* LDBAR, the SPR of a thread */
#define PNV_IMC_LDBAR_ENABLE        PPC_BIT(0)
#define PNV_IMC_LDBAR_TRACE         PPC_BIT(1)
#define PNV_IMC_LDBAR_ADDR          PPC_BITMASK(8, 50)

/* A record of the trace has this many counters. */
#define PNV_IMC_TRACE_COUNTERS      4

typedef struct PnvImcEngine PnvImcEngine;

/**
 * PnvImcPost: counters of a core or of a thread
 * @active: an engine adds to them
 * @area: PNV_IMC_CORE or PNV_IMC_THREAD
 * @unit: number of the core in its chip, or PIR of the thread
 * @posts: how often that was done since they are active
 * @meter: what is counted
 * @page: where
 */
typedef struct PnvImcPost {
    bool active;
    PnvImcArea area;
    uint32_t unit;
    uint32_t posts;
    PnvImcMeter meter;
    PnvImcPage page;
} PnvImcPost;

/**
 * PnvImcSampler: the trace of a thread
 * @record: where the next record goes
 * @looks: the thread looks whether a sample is due, or will soon begin to
 * @next_ns: when the next one is; 0 if the first look has to tell
 * @look_ns: when it looked last, and
 * @look_insns: how much it had executed then
 * @bad: there is no memory for it, and that was said
 * @meter: what is counted
 * @count: CPMC1 to 4 since the first record
 * @sampled: the one that decides about samples, at the last sample
 */
typedef struct PnvImcSampler {
    uint32_t record;
    bool looks;
    int64_t next_ns;
    int64_t look_ns;
    uint64_t look_insns;
    bool bad;
    PnvImcMeter meter;
    uint64_t count[PNV_IMC_TRACE_COUNTERS];
    uint64_t sampled;
} PnvImcSampler;

/**
 * PnvImcThread: a thread of a core
 * @engine: of its core
 * @cpu: the thread
 * @post: its own counters
 * @sampler: its trace
 * @want: its instructions should be counted, and
 * @counts: they are
 */
typedef struct PnvImcThread {
    PnvImcEngine *engine;
    PowerPCCPU *cpu;
    PnvImcPost post;
    PnvImcSampler sampler;
    bool want;
    bool counts;
} PnvImcThread;

/**
 * PnvImcEngine: what counts for a core
 * @imc: of the chip
 * @core: the number of the core; the first one of a big core
 * @run: HTM_MODE says so
 * @pdbar: PDBAR, as far as it is an address
 * @trace: TRACE_IMC
 * @selected: the events of CPMC1 to 4 in the trace, or NULL
 * @thread: the threads
 * @threads: how many
 * @post: the counters of the core
 */
struct PnvImcEngine {
    PnvImc *imc;
    unsigned core;
    bool run;
    uint64_t pdbar;
    uint64_t trace;
    const PnvImcEvent *selected[PNV_IMC_TRACE_COUNTERS];
    PnvImcThread *thread[PNV_IMC_THREADS];
    unsigned threads;
    PnvImcPost post;
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
 * @msr: records of the trace have MSR[HV] and MSR[PR]
 */
typedef struct PnvImcCoreModel {
    uint32_t event_mask;
    uint32_t htm_mode[4];
    bool msr;
} PnvImcCoreModel;

/* Give the cores of the chip registers. */
void pnv_imc_core_create(PnvImc *imc);
void pnv_imc_core_destroy(PnvImc *imc);

/* Stop all engines, without a last post, and forget all addresses. */
void pnv_imc_core_reset(PnvImc *imc);

/**
 * pnv_imc_core_add: add to counters with the next post
 * @imc: the chip
 * @area: PNV_IMC_CORE or PNV_IMC_THREAD
 * @event: index of the event in the array
 * @unit: number of the core or PIR of the thread, -1 for all
 * @count: how much, in events
 *
 * Returns: how many cores or threads are counting, and so have got it
 */
unsigned pnv_imc_core_add(PnvImc *imc, PnvImcArea area, unsigned event,
                          int64_t unit, uint64_t count);

/* What each engine does, as a list for QMP */
QList *pnv_imc_core_query(PnvImc *imc);

static inline bool pnv_imc_is_traced(const PnvImcThread *t)
{
    return t->engine->run && (t->cpu->env.spr[SPR_LDBAR] & PNV_IMC_LDBAR_TRACE);
}

/*
 * The trace
 */

/* The time of a record, or which counters it has, has changed. */
void pnv_imc_trace_select(PnvImcEngine *engine);

/* Begin with the first record. */
void pnv_imc_trace_start(PnvImcThread *thread);

/* Whether there are samples has changed. */
void pnv_imc_trace_update(PnvImcEngine *engine);

/*
 * The device
 */

struct PnvImcClass {
    SysBusDeviceClass parent_class;

    const char *catalog;
    const PnvImcNestModel *nest;
    const PnvImcCoreModel *core;
    hwaddr (*core_base)(unsigned core);
    hwaddr (*quad_base)(unsigned core);
};

/**
 * PnvImcMadeUp: values that the user wants in an area
 * @list: the events
 * @demo: all words, each with a rate of its own (nest only)
 * @pending: what was asked for until names are known
 */
typedef struct PnvImcMadeUp {
    PmuSynthetic *list;
    bool demo;
    char *pending;
} PnvImcMadeUp;

/**
 * PnvImc: the counters of a chip
 * @chip: the chip
 * @catalog: file with the events, NULL for QEMU's
 * @uav: the units that there are from the next reset on
 * @events: by area
 * @synthetic: by area
 * @nest_mr: the counters in HOMER
 * @nest: what is behind them
 * @nest_fault: which of its groups are in trouble
 * @post_period_ns: virtual time between posts
 * @trace_min_period_ns: virtual time between samples, at least
 * @poster: runs while something is posted
 * @cores: registers of the cores
 * @engines: of PnvImcEngine
 * @blocker: why there is no migration
 */
struct PnvImc {
    SysBusDevice parent_obj;

    PnvChip *chip;
    char *catalog;
    uint64_t uav;
    GArray *events[PNV_IMC_AREAS];
    PnvImcMadeUp synthetic[PNV_IMC_AREAS];

    MemoryRegion nest_mr;
    PnvImcNest nest;
    char *nest_fault;

    uint64_t post_period_ns;
    uint64_t trace_min_period_ns;
    QEMUTimer poster;
    PnvImcCore *cores;
    GPtrArray *engines;
    Error *blocker;
};

#endif
