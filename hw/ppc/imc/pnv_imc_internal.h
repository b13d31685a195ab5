/*
 * PowerNV in-memory collection (IMC) counters of a chip
 *
 *   pnv_imc.c            the device: properties, reset
 *     |  pnv_imc_catalog.c     reads the events and their places from a file
 *     |
 *     +-> pnv_imc_nest.c       counters in HOMER, computed when they are read
 *     +-> pnv_imc_core.c       SCOMs and engines of cores, LDBAR of threads
 *           +-> pnv_imc_count.c    values of events, from totals of threads
 *           +-> pnv_imc_page.c     adds to counters in the guest's memory
 *           +-> pnv_imc_trace.c    samples; uses the two above
 *   pnv_imc_machine.c    the machine option, and the place of HOMER
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_PNV_IMC_INTERNAL_H
#define PPC_PNV_IMC_INTERNAL_H

#include "hw/misc/pmu-synthetic.h"
#include "hw/ppc/pnv_chip.h"
#include "hw/sysbus.h"
#include "qemu/host-utils.h"
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
 * PnvImcEvent: an event of the catalog
 * @unit: name of the unit
 * @name: name of the event, with its prefix
 * @offset: of the counter in its area, a multiple of 8
 * @scale: number of events that one count in memory stands for
 *
 * Nest only, see pnv_imc_nest.c:
 * @hz: frequency of a clock; 0 for other events
 * @exists: rule by which the availability vector tells that the unit exists;
 *          NULL if the unit always exists
 * @bit: first bit of the unit's field in the vector
 *
 * Cores and threads only, see pnv_imc_count.c:
 * @value: index of the value that the event counts; PNV_IMC_VALUES if an
 *         emulator cannot count it
 * @bank: state of MSR[PR] in which it counts
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

/* Each area has an array of PnvImcEvent, in order of offsets. */
typedef enum PnvImcArea {
    PNV_IMC_NEST,
    PNV_IMC_CORE,
    PNV_IMC_THREAD,
    PNV_IMC_AREAS
} PnvImcArea;

/**
 * pnv_imc_catalog_load: read the events
 * @events: an array for each area, to be created
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

/* Place of the nest counters in HOMER, from skiboot's imc.h */
#define PNV_IMC_NEST_OFFSET         0x180000
#define PNV_IMC_NEST_SIZE           0x40000
#define PNV_IMC_CB_OFFSET           0x3fc00

/* A posting group begins with a header word, and ends with a trailer word. */
#define PNV_IMC_GROUP_SIZE          0x110
#define PNV_IMC_GROUP_TRAILER       0x108

typedef struct PnvImcClock PnvImcClock;

/**
 * PnvImcWord: a 64-bit word of the nest area
 * @base: value after @mark posts
 * @mark: number of posts when @base was computed
 * @before: value after @mark - 1 posts, if that is not 0
 * @amount: events that each post adds
 * @rest: events at @mark that were too few for a count
 * @scale: number of events that one count stands for
 * @fixed: made-up events of each post, and
 * @per_ms: those of each post for each ms since the last post
 */
typedef struct PnvImcWord {
    uint64_t base;
    uint64_t mark;
    uint64_t before;
    uint64_t amount;
    uint32_t rest;
    uint32_t scale;
    uint64_t fixed;
    uint64_t per_ms;
} PnvImcWord;

/* Trouble with a group that the user asks for */
typedef enum PnvImcFault {
    PNV_IMC_FAULT_NONE,
    PNV_IMC_FAULT_TORN,     /* the last post is missing in the second half */
    PNV_IMC_FAULT_LATE,     /* no posts arrive */
} PnvImcFault;

/**
 * PnvImcGroup: a posting group
 * @fault: trouble that the user asks for
 * @late: the words as they were when PNV_IMC_FAULT_LATE began
 */
typedef struct PnvImcGroup {
    PnvImcFault fault;
    uint64_t late[PNV_IMC_GROUP_SIZE / 8];
} PnvImcGroup;

/**
 * PnvImcNest: the microcode that posts the counters of the nest
 * @run: false after the command to pause
 * @speed: posts are 2^@speed ms apart
 * @uav: unit availability vector
 * @mode: run mode that the guest asks for
 * @mode_state: the last valid @mode
 * @start_ns: while posting, the start of the current period of running, ns of
 *            virtual time
 * @ran_ns: running time before @start_ns, since the counters were cleared
 * @posts: number of posts due at the last access
 * @tod_ns: time of the last of these posts, ns of virtual time
 * @tod_before_ns: time of the post before that
 * @groups: number of posting groups
 * @group: the posting groups
 * @words: all words of the posting groups
 * @others: words after the posting groups that have been stored to or that have
 *          made-up values, by offset
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
    int64_t tod_before_ns;
    unsigned groups;
    PnvImcGroup *group;
    PnvImcWord *words;
    GHashTable *others;
} PnvImcNest;

/**
 * PnvImcNestModel: what differs between generations
 * @uav: default availability vector
 * @modes: number of run modes
 * @tod: whether a word shows the time base of the last post
 * @units: fields of the availability vector
 * @clocks: events that count time
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

/* Find the clocks and the fields of the events, and allocate words. */
void pnv_imc_nest_create(PnvImc *imc);
void pnv_imc_nest_destroy(PnvImc *imc);

/* Take over a new list of synthetic events. */
void pnv_imc_nest_set_synthetic(PnvImc *imc);

/* Put the microcode into the state after its start. */
void pnv_imc_nest_reset(PnvImc *imc);

/* Status word of the control block: 1 runs, 2 paused, 3 and 4 errors */
uint64_t pnv_imc_nest_status(PnvImc *imc);

void pnv_imc_nest_set_uav(PnvImc *imc, uint64_t uav);

/* Add to a word as a post does, modulo 2^64. */
void pnv_imc_nest_add(PnvImc *imc, uint32_t offset, uint64_t value);

/* Whether this word is no counter: part of a frame, or of the control block */
bool pnv_imc_nest_reserved(PnvImc *imc, uint32_t offset);

/* Set the fault of each group. */
void pnv_imc_nest_set_faults(PnvImc *imc, const PnvImcFault *fault);

/*
 * Values of events, from totals of threads
 */

/* A big core, which firmware sees as two cores, has this many threads. */
#define PNV_IMC_THREADS             8

/* States of a thread, MSR[HV] << 1 | MSR[PR] */
#define PNV_IMC_DOMAINS             4

/* Totals of a thread, which never decrease */
typedef enum PnvImcTotal {
    PNV_IMC_INSNS,                              /* by domain */
    PNV_IMC_RUN_INSNS = PNV_IMC_INSNS + PNV_IMC_DOMAINS,
                                                /* with CTRL[RUN], by domain */
    PNV_IMC_LARX = PNV_IMC_RUN_INSNS + PNV_IMC_DOMAINS,
    PNV_IMC_STCX,
    PNV_IMC_STCX_FAIL,
    PNV_IMC_TLBIE,
    PNV_IMC_INT_OS,
    PNV_IMC_INT_HYP,
    PNV_IMC_INT_EBB,
    PNV_IMC_INT_DOORBELL,
    PNV_IMC_BUSY_NS,    /* time not halted */
    PNV_IMC_RUN_NS,     /* time not halted, with CTRL[RUN] */
    PNV_IMC_TOTALS
} PnvImcTotal;

/* Values that events can count, and banks of each, see pnv_imc_count.c */
#define PNV_IMC_VALUES              41
#define PNV_IMC_BANKS               3

typedef uint64_t PnvImcValues[PNV_IMC_VALUES][PNV_IMC_BANKS];

/**
 * PnvImcMeter: totals of some threads of a core at the last reading
 * @cpu: the threads that the meter covers
 * @threads: number of these threads
 * @core_threads: number of all threads of the core
 * @since_ns: time of the last reading, ns of virtual time
 * @seen: totals of each thread at the last reading
 * @by: instructions of each thread by state, between the last two readings
 *      between which it had any
 */
typedef struct PnvImcMeter {
    PowerPCCPU *cpu[PNV_IMC_THREADS];
    unsigned threads;
    unsigned core_threads;
    int64_t since_ns;
    uint64_t seen[PNV_IMC_THREADS][PNV_IMC_TOTALS];
    uint64_t by[PNV_IMC_THREADS][PNV_IMC_DOMAINS];
} PnvImcMeter;

/* Find the values that the events of an array count, by their names. */
void pnv_imc_count_resolve(GArray *events);

/* Make a first reading, which later ones are compared with. */
void pnv_imc_count_start(PnvImcMeter *meter);

/* Make a reading; add the differences from the last one to @value. */
void pnv_imc_count_read(PnvImcMeter *meter, PnvImcValues value);

static inline bool pnv_imc_is_known(const PnvImcEvent *e)
{
    return e->value < PNV_IMC_VALUES;
}

static inline uint64_t pnv_imc_value(const PnvImcEvent *e,
                                     const PnvImcValues value)
{
    return value[e->value][e->bank];
}

/* Frequency of an event that counts time whatever threads do; 0 for others */
uint32_t pnv_imc_count_hz(const PnvImcEvent *e);

/*
 * Counters in the guest's memory
 */

/* The area of a core or of a thread has lines with four counters each. */
#define PNV_IMC_PAGE_SIZE           0x2000
#define PNV_IMC_PAGE_LINE           64
#define PNV_IMC_PAGE_CPMC1          0x18

/**
 * PnvImcPage: the area of a core or of a thread
 * @addr: its address; 0 for none
 * @bad: no memory is there, and a message was logged
 * @rest: events that are not yet in memory, by event
 */
typedef struct PnvImcPage {
    hwaddr addr;
    bool bad;
    uint64_t *rest;
} PnvImcPage;

/**
 * pnv_imc_map: map a range of guest memory
 * @cache: the mapping; destroy it only if the function returns true
 * @addr: start of the range
 * @size: size of the range
 *
 * Returns: whether the whole range is RAM
 */
bool pnv_imc_map(MemoryRegionCache *cache, hwaddr addr, hwaddr size);

/* Add to @page->rest. Cap the sum: a wrapped one would look like few events. */
static inline void pnv_imc_page_collect(PnvImcPage *page, unsigned event,
                                        uint64_t value)
{
    if (uadd64_overflow(page->rest[event], value, &page->rest[event])) {
        page->rest[event] = UINT64_MAX;
    }
}

/**
 * pnv_imc_page_add: move events from @page->rest to the counters in memory
 * @page: the area
 * @events: the events that @page->rest is indexed by
 * @tb: time base to store in each line with a counter that changes
 *
 * Events that are too few for a count stay in @page->rest.
 *
 * Returns: whether the area is in RAM; if not, whole counts are lost
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
 * PnvImcPost: posting for a core or for a thread
 * @active: whether counters are posted
 * @area: PNV_IMC_CORE or PNV_IMC_THREAD
 * @unit: number of the core in its chip, or PIR of the thread
 * @posts: number of posts since @active became true
 * @meter: the threads that are counted
 * @page: the counters
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
 * @record: index of the next record
 * @checking: the thread checks now and then whether a sample is due, or work is
 *            queued that starts the checks
 * @next_ns: time of the next sample, ns of virtual time; 0 before any check
 * @check_ns: time of the last check, ns of virtual time
 * @check_insns: instructions of the thread at the last check
 * @bad: no memory is there for records, and a message was logged
 * @meter: the thread, for CPMC1 to 4
 * @count: CPMC1 to 4 since the trace began
 * @sampled: the counter that decides about samples, at the last sample
 */
typedef struct PnvImcSampler {
    uint32_t record;
    bool checking;
    int64_t next_ns;
    int64_t check_ns;
    uint64_t check_insns;
    bool bad;
    PnvImcMeter meter;
    uint64_t count[PNV_IMC_TRACE_COUNTERS];
    uint64_t sampled;
} PnvImcSampler;

/**
 * PnvImcThread: a thread of a core
 * @engine: engine of its core
 * @cpu: the thread
 * @post: its own counters
 * @sampler: its trace
 * @want: whether its instructions are to be counted
 * @counts: whether they are, since the thread last reached the end of a block
 * @queued: whether the thread has work queued that makes @counts @want
 */
typedef struct PnvImcThread {
    PnvImcEngine *engine;
    PowerPCCPU *cpu;
    PnvImcPost post;
    PnvImcSampler sampler;
    bool want;
    bool counts;
    bool queued;
} PnvImcThread;

/**
 * PnvImcEngine: the engine of a core, or of both cores of a big core
 * @imc: the device of the chip
 * @core: number of the core in its chip; of a big core, the first one's
 * @run: bit 4 of HTM_MODE
 * @pdbar: address in PDBAR
 * @trace: TRACE_IMC
 * @selected: events of CPMC1 to 4 in the trace; NULL if not countable
 * @thread: the threads
 * @threads: number of threads
 * @post: counters of the core
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
 * @engine: its engine; the cores of a big core share one
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
 * @event_mask: SCOM address of EVENT_MASK in the chiplet of the core
 * @htm_mode: SCOM addresses of HTM_MODE in the chiplet of the quad, by core
 * @msr: whether records of the trace have MSR[HV] and MSR[PR]
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

/* Post everything that was counted until now. */
void pnv_imc_core_post(PnvImc *imc);

/**
 * pnv_imc_core_add: add to counters with the next post
 * @imc: the device of the chip
 * @area: PNV_IMC_CORE or PNV_IMC_THREAD
 * @event: index of the event in the array
 * @unit: number of the core or PIR of the thread, -1 for all
 * @count: number of events to add
 *
 * Returns: number of cores or threads that are counting, and get @count
 */
unsigned pnv_imc_core_add(PnvImc *imc, PnvImcArea area, unsigned event,
                          int64_t unit, uint64_t count);

/* State of each engine, as a list for QMP */
QList *pnv_imc_core_query(PnvImc *imc);

/* LDBAR without an address counts and samples nothing. */
static inline bool pnv_imc_is_traced(const PnvImcThread *t)
{
    uint64_t ldbar = t->cpu->env.spr[SPR_LDBAR];

    return t->engine->run && (ldbar & PNV_IMC_LDBAR_TRACE) &&
           (ldbar & PNV_IMC_LDBAR_ADDR);
}

/*
 * The trace
 */

/* Look up the events that TRACE_IMC selects, and restart all traces. */
void pnv_imc_trace_select(PnvImcEngine *engine);

/* Restart the trace of a thread with the first record. */
void pnv_imc_trace_restart(PnvImcThread *thread);

/* Let traced threads check for due samples; the others stop by themselves. */
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
 * PnvImcMadeUp: synthetic events of an area
 * @list: the parsed list; NULL for none
 * @demo: every event that is no clock has a rate of its own (nest only)
 * @pending: the property before realize(), when no names are known yet
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
 * @uav: availability vector that the user has set; a change acts at once, and a
 *       reset restores it in the control block
 * @events: array of events, by area
 * @synthetic: synthetic events, by area
 * @nest_mr: region with the nest counters, mapped over HOMER
 * @nest: state of the nest counters
 * @nest_fault: the property "nest-fault"
 * @post_period_ns: virtual time between posts of cores and threads
 * @trace_min_period_ns: least virtual time between samples, on average
 * @poster: timer of posts; armed only while an engine counts
 * @cores: registers of the cores
 * @engines: array of PnvImcEngine
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
};

#endif
