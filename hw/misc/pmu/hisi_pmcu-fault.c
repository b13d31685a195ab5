/*
 * HiSilicon PMCU: faults on demand
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/misc/hisi_pmcu-fault.h"
#include "hw/misc/hisi_pmcu_regs.h"
#include "hw/misc/pmu-synthetic.h"
#include "qapi/error.h"

/* The number of the last record of the longest run */
#define MAX_RECORD  (HISI_PMCU_MAX_LOOPS * HISI_PMCU_MAX_EV_LEN - 1)

static bool fault_number(const char *fault, uint64_t min, uint64_t max,
                         uint64_t *value, Error **errp)
{
    const char *colon = strchr(fault, ':');

    if (colon && pmu_synthetic_number(colon + 1, max, value) && *value >= min) {
        return true;
    }
    error_setg(errp, "fault '%s': give a number from %" PRIu64 " to %" PRIu64
               " after a colon", fault, min, max);
    return false;
}

static bool fault_parse(const char *fault, HisiPmcuFaults *f, Error **errp)
{
    g_autofree char *name = g_strndup(fault, strcspn(fault, ":"));
    uint64_t n;

    if (!strcmp(name, "refuse")) {
        if (!fault_number(fault, HISI_PMCU_ERR_BUSY, HISI_PMCU_ERR_ADDR, &n,
                          errp)) {
            return false;
        }
        f->refuse = n;
    } else if (!strcmp(name, "dma-read") || !strcmp(name, "dma-write")) {
        if (!fault_number(fault, 0, MAX_RECORD, &n, errp)) {
            return false;
        }
        *(!strcmp(name, "dma-read") ? &f->dma_read : &f->dma_write) = n + 1;
    } else if (!strcmp(name, "delay-done")) {
        if (!fault_number(fault, 1, HISI_PMCU_MAX_DELAY, &n, errp)) {
            return false;
        }
        f->delay_done = n;
    } else if (!strcmp(fault, "lose-done")) {
        f->lose_done = true;
    } else if (!strcmp(fault, "repeat-done")) {
        f->repeat_done = true;
    } else if (!strcmp(fault, "stay-busy")) {
        f->stay_busy = true;
    } else {
        error_setg(errp, "unknown fault '%s': give refuse:E, dma-read:N, "
                   "dma-write:N, lose-done, delay-done:NS, repeat-done or "
                   "stay-busy", fault);
        return false;
    }
    return true;
}

bool hisi_pmcu_faults_parse(const char *list, HisiPmcuFaults *faults,
                            Error **errp)
{
    g_auto(GStrv) texts = g_strsplit(list, ",", 0);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal,
                                                       g_free, NULL);
    HisiPmcuFaults f = { };
    unsigned i;

    for (i = 0; texts[i]; i++) {
        char *name = g_strndup(texts[i], strcspn(texts[i], ":"));

        if (!g_hash_table_add(seen, name)) {
            error_setg(errp, "fault '%s' can be given only once", name);
            return false;
        }
        if (!fault_parse(texts[i], &f, errp)) {
            return false;
        }
    }
    if (f.stay_busy && (f.lose_done || f.delay_done || f.repeat_done)) {
        error_setg(errp, "fault 'stay-busy' excludes all others of the end of "
                   "a run");
        return false;
    }
    if (f.lose_done && f.repeat_done) {
        error_setg(errp, "faults 'lose-done' and 'repeat-done' exclude each "
                   "other");
        return false;
    }
    *faults = f;
    return true;
}

char *hisi_pmcu_faults_string(const HisiPmcuFaults *f)
{
    GString *s = g_string_new("");

    if (f->refuse) {
        g_string_append_printf(s, ",refuse:%u", f->refuse);
    }
    if (f->dma_read) {
        g_string_append_printf(s, ",dma-read:%u", f->dma_read - 1);
    }
    if (f->dma_write) {
        g_string_append_printf(s, ",dma-write:%u", f->dma_write - 1);
    }
    if (f->lose_done) {
        g_string_append(s, ",lose-done");
    }
    if (f->delay_done) {
        g_string_append_printf(s, ",delay-done:%" PRIu64, f->delay_done);
    }
    if (f->repeat_done) {
        g_string_append(s, ",repeat-done");
    }
    if (f->stay_busy) {
        g_string_append(s, ",stay-busy");
    }
    g_string_erase(s, 0, MIN(s->len, 1));
    return g_string_free(s, false);
}
