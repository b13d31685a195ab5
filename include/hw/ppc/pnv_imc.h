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

/**
 * PnvImcEvent: an event of the nest, as the catalog has it
 * @unit: name of the unit
 * @name: name of the event, with its prefix
 * @offset: of the counter in the nest area, a multiple of 8
 * @scale: what one count in memory stands for
 */
typedef struct PnvImcEvent {
    char *unit;
    char *name;
    uint32_t offset;
    uint32_t scale;
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

struct PnvImcClass {
    SysBusDeviceClass parent_class;

    const char *catalog;
    const PnvImcNestModel *nest;
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
