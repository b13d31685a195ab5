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

typedef enum PmuSyntheticKind {
    PMU_SYNTHETIC_RATE,
    PMU_SYNTHETIC_CONST,
    PMU_SYNTHETIC_HASH,
} PmuSyntheticKind;

typedef struct PmuSyntheticEntry {
    uint32_t first;
    uint32_t last;
    PmuSyntheticKind kind;
    uint64_t n;
} PmuSyntheticEntry;

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

static bool pmu_synthetic_entry(const char *text,
                                const PmuSyntheticEvents *events,
                                PmuSyntheticEntry *entry, Error **errp)
{
    g_auto(GStrv) sides = g_strsplit(text, "=", 2);
    g_auto(GStrv) range = g_strsplit(sides[0] ?: "", "-", 2);
    const char *kind = sides[0] ? sides[1] : NULL;

    if (!kind) {
        error_setg(errp, "synthetic event '%s' is not of the form EVENT=KIND",
                   text);
        return false;
    }

    if (!range[0] || !pmu_synthetic_event(range[0], events, &entry->first) ||
        !pmu_synthetic_event(range[1] ?: range[0], events, &entry->last) ||
        entry->first > entry->last) {
        g_autofree char *number = events->step > 1
            ? g_strdup_printf("a multiple of %u", events->step)
            : g_strdup("a number");

        error_setg(errp, "synthetic event '%s': bad event, give %s%s up to "
                   "0x%x, or a range of them", text,
                   events->by_name ? "a name, " : "", number, events->max);
        return false;
    }

    if (!strcmp(kind, "hash")) {
        entry->kind = PMU_SYNTHETIC_HASH;
        return true;
    }
    if (g_str_has_prefix(kind, "rate:")) {
        entry->kind = PMU_SYNTHETIC_RATE;
        /* Cannot overflow for windows of up to an hour */
        if (pmu_synthetic_number(kind + 5, UINT32_MAX, &entry->n)) {
            return true;
        }
    } else if (g_str_has_prefix(kind, "const:")) {
        entry->kind = PMU_SYNTHETIC_CONST;
        if (pmu_synthetic_number(kind + 6, UINT64_MAX, &entry->n)) {
            return true;
        }
    }
    error_setg(errp, "synthetic event '%s': bad kind, give rate:N, const:N or "
               "hash", text);
    return false;
}

static int pmu_synthetic_compare(const void *a, const void *b)
{
    const PmuSyntheticEntry *ea = a, *eb = b;

    return ea->first < eb->first ? -1 : ea->first > eb->first;
}

PmuSynthetic *pmu_synthetic_parse(const char *list,
                                  const PmuSyntheticEvents *events,
                                  Error **errp)
{
    g_auto(GStrv) texts = g_strsplit(list, ",", 0);
    PmuSynthetic *ps = g_new0(PmuSynthetic, 1);
    unsigned i;

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
        PmuSyntheticEntry *e = &g_array_index(ps->entries, PmuSyntheticEntry,
                                              i);

        if (e->first <= e[-1].last) {
            error_setg(errp, "synthetic event 0x%x is given twice", e->first);
            goto fail;
        }
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

bool pmu_synthetic_value(const PmuSynthetic *ps,
                         const PmuSyntheticSample *sample, uint64_t *value)
{
    unsigned i;

    if (!ps) {
        return false;
    }
    for (i = 0; i < ps->entries->len; i++) {
        const PmuSyntheticEntry *e = &g_array_index(ps->entries,
                                                    PmuSyntheticEntry, i);

        if (sample->event < e->first || sample->event > e->last) {
            continue;
        }
        switch (e->kind) {
        case PMU_SYNTHETIC_RATE:
            *value = sample->window_ns / 1000 * e->n + sample->unit;
            break;
        case PMU_SYNTHETIC_CONST:
            *value = e->n;
            break;
        case PMU_SYNTHETIC_HASH:
            *value = pmu_synthetic_hash(sample);
            break;
        }
        return true;
    }
    return false;
}
