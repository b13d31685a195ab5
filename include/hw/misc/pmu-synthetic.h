/*
 * Synthetic events: made-up counts for PMU events that QEMU cannot count
 *
 * An emulator knows nothing of caches or branch predictors. To develop a tool
 * that needs such events, the user can ask for made-up values. Front ends, that
 * is devices with a PMU, use them only for events that they cannot count, so
 * that real and made-up counts never mix. All front ends have one grammar:
 *
 *   list  := entry { ',' entry }
 *   entry := event [ '-' event ] [ '@' unit [ '-' unit ] ] '=' kind
 *   kind  := 'rate:' N | 'noise:' N ':' P | 'ramp:' N ':' N ':' R
 *          | 'const:' N | 'hash'
 *
 * with all numbers in decimal or 0x hexadecimal, for example
 * "0x10=rate:250,0x13@2=const:7,0x40-0xff=hash". An event is a number, or a
 * name if the front end knows names. A unit is the number of a counting part of
 * the machine, for example of a CPU; an entry without a unit is for all units.
 * No two entries may have an event of a unit in common. A list has at most
 * PMU_SYNTHETIC_MAX entries.
 *
 * A value depends on the arguments of pmu_synthetic_value() and nothing else:
 *
 *   const:N  N
 *   rate:N   N per microsecond of the window, plus the number of the unit, so
 *            that the values of two units differ
 *   noise:N:P
 *            N per microsecond of the window, and up to P percent more or less
 *   ramp:A:B:R
 *            A per microsecond in sample 0, B from sample R on, and linear
 *            between them
 *   hash     32 bits that look random
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_PMU_SYNTHETIC_H
#define HW_MISC_PMU_SYNTHETIC_H

/* Most entries of a list. Our decision: more than any user needs */
#define PMU_SYNTHETIC_MAX 4096

typedef struct PmuSynthetic PmuSynthetic;

/**
 * PmuSyntheticSample: the sample that a value is for
 * @event: number of the event
 * @unit: number of the unit
 * @index: number of the sample, from 0
 * @window_ns: length of the counting window, in ns
 * @seed: number that the user has chosen for noise and hash
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
 * pmu_synthetic_split: the entries of a list, by its commas
 * @list: the list
 * @errp: set if it has more than PMU_SYNTHETIC_MAX
 *
 * Returns: the entries, or NULL. It takes no memory for more than are allowed.
 */
char **pmu_synthetic_split(const char *list, Error **errp);

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

/**
 * pmu_synthetic_range: parse one event, or two with a dash between
 * @text: the events
 * @events: the events that are allowed
 * @first: where to store the number of the first one
 * @last: where to store the number of the last one, which is not lower
 */
bool pmu_synthetic_range(const char *text, const PmuSyntheticEvents *events,
                         uint32_t *first, uint32_t *last);

/* Parse a number as it is in the list, from 0 to @max. */
bool pmu_synthetic_number(const char *text, uint64_t max, uint64_t *value);

/* Take a reference. Lists never change; to change a list, parse a new one. */
PmuSynthetic *pmu_synthetic_ref(PmuSynthetic *ps);

/* @ps may be NULL here and below. */
void pmu_synthetic_unref(PmuSynthetic *ps);

/* The string that was parsed, "" for NULL */
const char *pmu_synthetic_list(const PmuSynthetic *ps);

/**
 * pmu_synthetic_value: value of an event
 * @ps: the list
 * @sample: the sample that the value is for
 * @value: where to store the value
 *
 * Returns: false, with nothing stored, if the event is not in the list
 */
bool pmu_synthetic_value(const PmuSynthetic *ps,
                         const PmuSyntheticSample *sample, uint64_t *value);

#endif
