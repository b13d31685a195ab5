/*
 * Synthetic events: made-up counts for PMU events that QEMU cannot count
 *
 * See pmu-synthetic.h for the grammar and the values.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/misc/pmu-synthetic.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include "qemu/host-utils.h"

#define MAX_UNIT    UINT16_MAX

/* Bytes of two names: each dash is tried as the one between them */
#define MAX_RANGE   1024

typedef enum PmuSyntheticKind {
    PMU_SYNTHETIC_RATE,
    PMU_SYNTHETIC_NOISE,
    PMU_SYNTHETIC_RAMP,
    PMU_SYNTHETIC_CONST,
    PMU_SYNTHETIC_HASH,
} PmuSyntheticKind;

typedef struct PmuSyntheticEntry {
    uint32_t first;
    uint32_t last;
    uint32_t first_unit;
    uint32_t last_unit;
    PmuSyntheticKind kind;
    uint64_t n[3];          /* the numbers that follow the kind */
    uint32_t reach;         /* the largest @last of this entry and all before */
} PmuSyntheticEntry;

/* Not migrated: devices migrate @list. */
struct PmuSynthetic {
    unsigned refcount;
    char *list;
    GArray *entries;        /* of PmuSyntheticEntry, in order of events */
};

bool pmu_synthetic_number(const char *text, uint64_t max, uint64_t *value)
{
    /* Neither a sign nor white space, which qemu_strtou64() accepts */
    return g_ascii_isdigit(*text) &&
           !qemu_strtou64(text, NULL, strncmp(text, "0x", 2) ? 10 : 16,
                          value) &&
           *value <= max;
}

bool pmu_synthetic_event(const char *text, const PmuSyntheticEvents *events,
                         uint32_t *event)
{
    uint64_t number;

    if (pmu_synthetic_number(text, events->max, &number)) {
        *event = number;
        return number % MAX(events->step, 1) == 0;
    }
    return events->by_name && events->by_name(events->opaque, text, event);
}

/* The kinds: a name, and how many numbers follow it, each after a colon */
static const struct {
    const char *name;
    PmuSyntheticKind kind;
    unsigned numbers;
    uint64_t max[3];
} kinds[] = {
    { "rate", PMU_SYNTHETIC_RATE, 1, { UINT32_MAX } },
    { "noise", PMU_SYNTHETIC_NOISE, 2, { UINT32_MAX, 100 } },
    { "ramp", PMU_SYNTHETIC_RAMP, 3, { UINT32_MAX, UINT32_MAX, UINT16_MAX } },
    { "const", PMU_SYNTHETIC_CONST, 1, { UINT64_MAX } },
    { "hash", PMU_SYNTHETIC_HASH, 0 },
};

static bool pmu_synthetic_kind(const char *text, PmuSyntheticEntry *entry)
{
    g_auto(GStrv) words = g_strsplit(text, ":", 0);
    unsigned i, n;

    for (i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (g_strv_length(words) != 1 + kinds[i].numbers ||
            strcmp(words[0], kinds[i].name)) {
            continue;
        }
        for (n = 0; n < kinds[i].numbers; n++) {
            if (!pmu_synthetic_number(words[1 + n], kinds[i].max[n],
                                      &entry->n[n])) {
                return false;
            }
        }
        entry->kind = kinds[i].kind;
        return true;
    }
    return false;
}

static bool pmu_synthetic_units(const char *text, PmuSyntheticEntry *entry)
{
    g_auto(GStrv) range = g_strsplit(text, "-", 2);
    uint64_t first, last;

    if (!range[0] || !pmu_synthetic_number(range[0], MAX_UNIT, &first) ||
        !pmu_synthetic_number(range[1] ?: range[0], MAX_UNIT, &last) ||
        first > last) {
        return false;
    }
    entry->first_unit = first;
    entry->last_unit = last;
    return true;
}

bool pmu_synthetic_range(const char *text, const PmuSyntheticEvents *events,
                         uint32_t *first, uint32_t *last)
{
    const char *dash;

    if (pmu_synthetic_event(text, events, first)) {
        *last = *first;
        return true;
    }
    /* A name may have dashes of its own. */
    for (dash = strchr(text, '-'); dash; dash = strchr(dash + 1, '-')) {
        g_autofree char *from = g_strndup(text, dash - text);

        if (pmu_synthetic_event(from, events, first) &&
            pmu_synthetic_event(dash + 1, events, last)) {
            return *first <= *last;
        }
    }
    return false;
}

static bool pmu_synthetic_entry(const char *text,
                                const PmuSyntheticEvents *events,
                                PmuSyntheticEntry *entry, Error **errp)
{
    g_auto(GStrv) sides = g_strsplit(text, "=", 2);
    g_auto(GStrv) where = g_strsplit(sides[0] ?: "", "@", 2);
    const char *kind = sides[0] ? sides[1] : NULL;

    if (!kind) {
        error_setg(errp, "synthetic event '%s' is not of the form EVENT=KIND",
                   text);
        return false;
    }

    if (!where[0] || strlen(where[0]) > MAX_RANGE ||
        !pmu_synthetic_range(where[0], events, &entry->first, &entry->last)) {
        g_autofree char *number = events->step > 1
            ? g_strdup_printf("a multiple of %u", events->step)
            : g_strdup("a number");

        error_setg(errp, "synthetic event '%s': bad event, give %s%s up to "
                   "0x%x, or a range of them", text,
                   events->by_name ? "a name, " : "", number, events->max);
        return false;
    }

    entry->last_unit = UINT32_MAX;
    if (where[1] && !pmu_synthetic_units(where[1], entry)) {
        error_setg(errp, "synthetic event '%s': bad unit, give a number up to "
                   "%u, or a range of them", text, MAX_UNIT);
        return false;
    }

    if (!pmu_synthetic_kind(kind, entry)) {
        error_setg(errp, "synthetic event '%s': bad kind, give rate:N, "
                   "noise:N:PERCENT, ramp:FROM:TO:SAMPLES, const:N or hash",
                   text);
        return false;
    }
    return true;
}

static int pmu_synthetic_compare(const void *a, const void *b)
{
    const PmuSyntheticEntry *ea = a, *eb = b;

    return ea->first < eb->first ? -1 : ea->first > eb->first;
}

char **pmu_synthetic_split(const char *list, Error **errp)
{
    char **texts = g_strsplit(list, ",", PMU_SYNTHETIC_MAX + 1);

    if (g_strv_length(texts) > PMU_SYNTHETIC_MAX) {
        error_setg(errp, "a list of more than %u entries", PMU_SYNTHETIC_MAX);
        g_strfreev(texts);
        return NULL;
    }
    return texts;
}

PmuSynthetic *pmu_synthetic_parse(const char *list,
                                  const PmuSyntheticEvents *events,
                                  Error **errp)
{
    g_auto(GStrv) texts = pmu_synthetic_split(list, errp);
    PmuSynthetic *ps;
    unsigned i;

    if (!texts) {
        return NULL;
    }
    ps = g_new0(PmuSynthetic, 1);
    ps->refcount = 1;
    ps->list = g_strdup(list);
    ps->entries = g_array_new(false, true, sizeof(PmuSyntheticEntry));

    for (i = 0; texts[i]; i++) {
        PmuSyntheticEntry entry = { };

        if (!pmu_synthetic_entry(texts[i], events, &entry, errp)) {
            goto fail;
        }
        g_array_append_val(ps->entries, entry);
    }

    g_array_sort(ps->entries, pmu_synthetic_compare);
    for (i = 1; i < ps->entries->len; i++) {
        const PmuSyntheticEntry *e = &g_array_index(ps->entries,
                                                    PmuSyntheticEntry, i);
        unsigned j;

        for (j = 0; j < i; j++) {
            const PmuSyntheticEntry *f = e - i + j;

            if (e->first <= f->last && e->first_unit <= f->last_unit &&
                f->first_unit <= e->last_unit) {
                error_setg(errp, "synthetic event 0x%x is given twice",
                           e->first);
                goto fail;
            }
        }
    }
    for (i = 0; i < ps->entries->len; i++) {
        PmuSyntheticEntry *e = &g_array_index(ps->entries, PmuSyntheticEntry,
                                              i);

        e->reach = i ? MAX(e->last, e[-1].reach) : e->last;
    }
    return ps;

fail:
    pmu_synthetic_unref(ps);
    return NULL;
}

PmuSynthetic *pmu_synthetic_ref(PmuSynthetic *ps)
{
    if (ps) {
        ps->refcount++;
    }
    return ps;
}

void pmu_synthetic_unref(PmuSynthetic *ps)
{
    if (ps && --ps->refcount == 0) {
        g_array_free(ps->entries, true);
        g_free(ps->list);
        g_free(ps);
    }
}

const char *pmu_synthetic_list(const PmuSynthetic *ps)
{
    return ps ? ps->list : "";
}

/* The finalizer of MurmurHash3 (public domain) */
static uint32_t pmu_synthetic_mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6b;
    h ^= h >> 13;
    h *= 0xc2b2ae35;
    h ^= h >> 16;
    return h;
}

static uint32_t pmu_synthetic_hash(const PmuSyntheticSample *sample)
{
    uint32_t h = pmu_synthetic_mix(sample->seed + 1);

    h = pmu_synthetic_mix(h ^ sample->event);
    h = pmu_synthetic_mix(h ^ sample->unit);
    return pmu_synthetic_mix(h ^ sample->index);
}

/* @rate per microsecond of the window: at most 2^32 in each of 2^32 us */
static uint64_t pmu_synthetic_rate(const PmuSyntheticSample *sample,
                                   uint64_t rate)
{
    return muldiv64(sample->window_ns, rate, 1000);
}

static uint64_t pmu_synthetic_noise(const PmuSyntheticSample *sample,
                                    uint64_t rate, uint64_t percent)
{
    uint64_t middle = pmu_synthetic_rate(sample, rate);
    uint64_t most = muldiv64(middle, percent, 100);

    /* The hash is 0 to 2^32 - 1: from middle - most to middle + most */
    return middle - most +
           muldiv64(2 * most, pmu_synthetic_hash(sample), UINT32_MAX);
}

static uint64_t pmu_synthetic_ramp(const PmuSyntheticSample *sample,
                                   const uint64_t *n)
{
    uint64_t from = pmu_synthetic_rate(sample, n[0]);
    uint64_t to = pmu_synthetic_rate(sample, n[1]);

    if (sample->index >= n[2]) {
        return to;
    }
    return to >= from ? from + muldiv64(to - from, sample->index, n[2])
                      : from - muldiv64(from - to, sample->index, n[2]);
}

/* The number of entries that do not begin after @event */
static unsigned pmu_synthetic_begun(const PmuSynthetic *ps, uint32_t event)
{
    unsigned begun = 0, end = ps->entries->len;

    while (begun < end) {
        unsigned middle = (begun + end) / 2;

        if (g_array_index(ps->entries, PmuSyntheticEntry, middle).first <=
            event) {
            begun = middle + 1;
        } else {
            end = middle;
        }
    }
    return begun;
}

bool pmu_synthetic_value(const PmuSynthetic *ps,
                         const PmuSyntheticSample *sample, uint64_t *value)
{
    unsigned i;

    if (!ps) {
        return false;
    }
    /* Lists are long, and looked up for each event of each unit */
    for (i = pmu_synthetic_begun(ps, sample->event); i > 0; i--) {
        const PmuSyntheticEntry *e = &g_array_index(ps->entries,
                                                    PmuSyntheticEntry, i - 1);

        if (sample->event > e->reach) {
            return false;
        }
        if (sample->event > e->last || sample->unit < e->first_unit ||
            sample->unit > e->last_unit) {
            continue;
        }
        switch (e->kind) {
        case PMU_SYNTHETIC_RATE:
            *value = pmu_synthetic_rate(sample, e->n[0]) + sample->unit;
            break;
        case PMU_SYNTHETIC_NOISE:
            *value = pmu_synthetic_noise(sample, e->n[0], e->n[1]);
            break;
        case PMU_SYNTHETIC_RAMP:
            *value = pmu_synthetic_ramp(sample, e->n);
            break;
        case PMU_SYNTHETIC_CONST:
            *value = e->n[0];
            break;
        case PMU_SYNTHETIC_HASH:
            *value = pmu_synthetic_hash(sample);
            break;
        }
        return true;
    }
    return false;
}
