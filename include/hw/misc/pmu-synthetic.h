/*
 * Synthetic events: made-up counts for PMU events that QEMU cannot count
 *
 * An emulator knows nothing of caches or branch predictors. To develop a tool
 * that needs such events, the user can ask for made-up values. They are never
 * mixed with real counts: front ends use them only for events that they cannot
 * count, and only when the user asks for it. The grammar is the same for all
 * front ends:
 *
 *   list  := entry { ',' entry }
 *   entry := event [ '-' event ] [ '@' unit [ '-' unit ] ] '=' kind
 *   kind  := 'rate:' N | 'noise:' N ':' P | 'ramp:' N ':' N ':' R
 *          | 'const:' N | 'hash'
 *
 * with all numbers in decimal or 0x hexadecimal, for example
 * "0x10=rate:250,0x13@2=const:7,0x40-0xff=hash". Where the front end knows
 * names, an event may be one. A unit is what counts, for example a CPU; without
 * one, an entry is for all of them. No event of a unit may be given twice. A
 * list has at most PMU_SYNTHETIC_MAX entries.
 *
 * The values are a function of what is passed to pmu_synthetic_value() and of
 * nothing else:
 *
 *   const:N  N
 *   rate:N   N per microsecond of the window, plus the number of the unit so
 *            that units can be told apart
 *   noise:N:P
 *            N per microsecond of the window, and up to P percent more or less
 *   ramp:A:B:R
 *            A per microsecond for the first sample, B from sample R on, and in
 *            a line between them
 *   hash     32 bits that look random
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_PMU_SYNTHETIC_H
#define HW_MISC_PMU_SYNTHETIC_H

/* Entries of a list: our decision, more than anybody writes */
#define PMU_SYNTHETIC_MAX 4096

typedef struct PmuSynthetic PmuSynthetic;

/**
 * PmuSyntheticSample: what a value depends on
 * @event: number of the event
 * @unit: what counts, for example the number of a CPU
 * @index: number of the sample
 * @window_ns: how long it was counted
 * @seed: of the user's choice
 */
typedef struct PmuSyntheticSample {
    uint32_t event;
    uint32_t unit;
    uint32_t index;
    uint64_t window_ns;
    uint32_t seed;
} PmuSyntheticSample;

/**
 * PmuSyntheticEvents: which events there are
 * @max: the highest number
 * @step: all numbers are multiples of this; 0 means 1
 * @by_name: look up an event that is not given as a number; NULL if there are
 *           no names
 * @opaque: for @by_name
 */
typedef struct PmuSyntheticEvents {
    uint32_t max;
    uint32_t step;
    bool (*by_name)(void *opaque, const char *name, uint32_t *event);
    void *opaque;
} PmuSyntheticEvents;

/**
 * pmu_synthetic_parse: parse a list of synthetic events
 * @list: the list; an empty one is fine
 * @events: the events that are allowed
 * @errp: error object
 *
 * Returns: the list with one reference, or NULL with @errp set
 */
PmuSynthetic *pmu_synthetic_parse(const char *list,
                                  const PmuSyntheticEvents *events,
                                  Error **errp);

/**
 * pmu_synthetic_event: parse one event, a number or a name
 * @text: the event
 * @events: the events that are allowed
 * @event: where to store the number
 */
bool pmu_synthetic_event(const char *text, const PmuSyntheticEvents *events,
                         uint32_t *event);

/* Parse a number as it is in the list, from 0 to @max. */
bool pmu_synthetic_number(const char *text, uint64_t max, uint64_t *value);

/* The list is never changed: a user that needs it for longer takes a ref. */
PmuSynthetic *pmu_synthetic_ref(PmuSynthetic *ps);

/* @ps may be NULL here and below. */
void pmu_synthetic_unref(PmuSynthetic *ps);

/* The string that was parsed, "" for NULL */
const char *pmu_synthetic_list(const PmuSynthetic *ps);

/**
 * pmu_synthetic_value: value of an event
 * @ps: the list
 * @sample: what is asked for
 * @value: where to store the value
 *
 * Returns: false, with nothing stored, if the event is not in the list
 */
bool pmu_synthetic_value(const PmuSynthetic *ps,
                         const PmuSyntheticSample *sample, uint64_t *value);

#endif
