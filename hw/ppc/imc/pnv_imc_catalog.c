/*
 * PowerNV in-memory collection counters: events and their places
 *
 * The guest gets a catalog of events from the flash. The device reads the same
 * device tree from a file; see pc-bios/pnv-pnor/pnv-imc-4e0200.dts for its
 * layout.
 *
 * Two events of a core or of a thread must not share a counter: one of them
 * could be counted and the other one made up. Units of the nest do share words
 * in POWER9's public catalog; see pnv_imc_nest.c.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include <libfdt.h>

/* The size of skiboot's buffer */
#define CATALOG_MAX_SIZE        (256 * 1024)

/*
 * Events of all units together; our decision, because units share groups, so
 * that 256 KiB could stand for millions.  Public catalogs have up to 1000.
 */
#define CATALOG_MAX_EVENTS      16384

/* By the property "type" of a unit */
static const struct {
    uint32_t type;
    uint32_t size;
} areas[PNV_IMC_AREAS] = {
    [PNV_IMC_NEST] = { 0x10, PNV_IMC_CB_OFFSET },
    [PNV_IMC_CORE] = { 0x4, PNV_IMC_PAGE_SIZE },
    [PNV_IMC_THREAD] = { 0x1, PNV_IMC_PAGE_SIZE },
};

static void pnv_imc_event_clear(void *data)
{
    PnvImcEvent *event = data;

    g_free(event->unit);
    g_free(event->name);
}

static int pnv_imc_event_compare(const void *a, const void *b)
{
    const PnvImcEvent *ea = a, *eb = b;

    return ea->offset < eb->offset ? -1 : ea->offset > eb->offset;
}

static bool catalog_u32(const void *fdt, int node, const char *name,
                        uint32_t *value)
{
    int len;
    const fdt32_t *prop = fdt_getprop(fdt, node, name, &len);

    if (!prop || len < sizeof(*prop)) {
        return false;
    }
    *value = fdt32_to_cpu(*prop);
    return true;
}

/* NULL if the property does not exist, or is not a string */
static const char *catalog_string(const void *fdt, int node, const char *name)
{
    int len;
    const char *prop = fdt_getprop(fdt, node, name, &len);

    return prop && len && !prop[len - 1] ? prop : NULL;
}

/* Lines of cores and threads have four dwords that count, from CPMC1 on. */
static bool is_counter(PnvImcArea area, uint64_t offset)
{
    uint64_t in_line = offset % PNV_IMC_PAGE_LINE;

    return area == PNV_IMC_NEST || (in_line >= PNV_IMC_PAGE_CPMC1 &&
                                    in_line < PNV_IMC_PAGE_CPMC1 + 4 * 8);
}

static bool catalog_event(GArray *events, const void *fdt, int pmu, int node,
                          PnvImcArea area, uint32_t base, Error **errp)
{
    const char *unit = fdt_get_name(fdt, pmu, NULL);
    const char *prefix = catalog_string(fdt, pmu, "events-prefix");
    const char *name = catalog_string(fdt, node, "event-name");
    const char *scale = catalog_string(fdt, node, "scale") ?:
                        catalog_string(fdt, pmu, "scale");
    PnvImcEvent event = { .scale = 1, .value = PNV_IMC_VALUES };
    uint32_t reg;
    uint64_t offset;

    if (!name || !*name || !catalog_u32(fdt, node, "reg", &reg)) {
        error_setg(errp, "event %s of unit %s has no reg or event-name",
                   fdt_get_name(fdt, node, NULL), unit);
        return false;
    }
    offset = (uint64_t)base + reg;
    if (offset % 8 || offset >= areas[area].size) {
        error_setg(errp, "event %s of unit %s is at 0x%" PRIx64 ", but must be "
                   "at a multiple of 8 below 0x%x", name, unit, offset,
                   areas[area].size);
        return false;
    }
    if (!is_counter(area, offset)) {
        error_setg(errp, "event %s of unit %s is at 0x%" PRIx64 ", but in a "
                   "line of 64 bytes only dwords 3 to 6 count", name, unit,
                   offset);
        return false;
    }
    /* Neither a sign nor white space, which qemu_strtoui() accepts */
    if (scale && (!g_ascii_isdigit(*scale) ||
                  qemu_strtoui(scale, NULL, 10, &event.scale) ||
                  !event.scale)) {
        error_setg(errp, "scale '%s' of event %s of unit %s is not a positive "
                   "integer", scale, name, unit);
        return false;
    }
    event.unit = g_strndup(unit, strcspn(unit, "@"));
    event.name = g_strconcat(prefix ?: "", name, NULL);
    event.offset = offset;
    g_array_append_val(events, event);
    return true;
}

static bool catalog_unit(GArray *events[PNV_IMC_AREAS], const void *fdt,
                         int pmu, Error **errp)
{
    static const struct {
        const char *name;
        uint32_t at;
    } place[] = {
        { "offset", PNV_IMC_NEST_OFFSET }, { "cb_offset", PNV_IMC_CB_OFFSET },
    };
    const char *unit = fdt_get_name(fdt, pmu, NULL);
    uint32_t type, base, phandle, at;
    PnvImcArea area = 0;
    int group, node, i;

    if (!catalog_u32(fdt, pmu, "type", &type)) {
        return true;
    }
    while (area < PNV_IMC_AREAS && areas[area].type != type) {
        area++;
    }
    if (area == PNV_IMC_AREAS) {
        return true;
    }
    if (!catalog_u32(fdt, pmu, "reg", &base) ||
        !catalog_u32(fdt, pmu, "events", &phandle)) {
        error_setg(errp, "unit %s has no reg or events", unit);
        return false;
    }
    for (i = 0; area == PNV_IMC_NEST && i < ARRAY_SIZE(place); i++) {
        if (catalog_u32(fdt, pmu, place[i].name, &at) && at != place[i].at) {
            error_setg(errp, "unit %s has %s 0x%x, this machine's is 0x%x",
                       unit, place[i].name, at, place[i].at);
            return false;
        }
    }
    group = fdt_node_offset_by_phandle(fdt, phandle);
    if (group < 0) {
        error_setg(errp, "unit %s has events which do not exist", unit);
        return false;
    }
    fdt_for_each_subnode(node, fdt, group) {
        if (!catalog_event(events[area], fdt, pmu, node, area, base, errp)) {
            return false;
        }
    }
    return true;
}

/*
 * Add the events of cores that threads have, too, but without a name: the
 * catalogs name only a part of the counters in the area of a thread, but the
 * engine posts all of them.
 */
static void catalog_complete_threads(GArray *events[PNV_IMC_AREAS])
{
    GArray *core = events[PNV_IMC_CORE], *thread = events[PNV_IMC_THREAD];
    g_autoptr(GHashTable) places = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    unsigned i;

    for (i = 0; i < thread->len; i++) {
        const PnvImcEvent *event = pnv_imc_event(thread, i);

        g_hash_table_add(places, GUINT_TO_POINTER(event->offset));
        g_hash_table_add(names, event->name);
    }
    for (i = 0; i < core->len; i++) {
        PnvImcEvent event = *pnv_imc_event(core, i);

        /* A catalog can have the event of threads in another place. */
        if (!g_hash_table_contains(places, GUINT_TO_POINTER(event.offset)) &&
            !g_hash_table_contains(names, event.name)) {
            event.unit = g_strdup("thread");
            event.name = g_strdup(event.name);
            g_array_append_val(thread, event);
        }
    }
}

static bool catalog_check_places(GArray *events, Error **errp)
{
    unsigned i;

    for (i = 1; i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);
        const PnvImcEvent *before = pnv_imc_event(events, i - 1);

        if (e->offset == before->offset) {
            error_setg(errp, "events %s and %s of unit %s are both at 0x%x",
                       before->name, e->name, e->unit, e->offset);
            return false;
        }
    }
    return true;
}

/*
 * Read a file into @data: at most one byte more than a catalog may have, which
 * is enough to refuse it. The file may be huge, or a device without an end.
 */
static bool catalog_read(const char *file, uint8_t *data, size_t *size,
                         Error **errp)
{
    FILE *f = fopen(file, "rb");
    bool ok;

    if (!f) {
        error_setg_errno(errp, errno, "could not open '%s'", file);
        return false;
    }
    *size = fread(data, 1, CATALOG_MAX_SIZE + 1, f);
    ok = !ferror(f);
    if (!ok) {
        error_setg_errno(errp, errno, "could not read '%s'", file);
    }
    fclose(f);
    return ok;
}

bool pnv_imc_catalog_load(GArray *events[PNV_IMC_AREAS], const char *file,
                          Error **errp)
{
    g_autofree uint8_t *fdt = g_malloc(CATALOG_MAX_SIZE + 1);
    size_t size;
    unsigned count, i;
    int pmu;

    if (!catalog_read(file, fdt, &size, errp)) {
        return false;
    }
    /* Shrink the buffer, so that sanitizers detect accesses after the file. */
    fdt = g_realloc(fdt, size);
    /* libfdt 1.6 dereferences NULL for a root of before version 16. */
    if (size > CATALOG_MAX_SIZE || size < sizeof(struct fdt_header) ||
        fdt_version(fdt) < 16 || fdt_check_full(fdt, size)) {
        error_setg(errp, "'%s' is not a compiled device tree of up to %u KiB",
                   file, CATALOG_MAX_SIZE / 1024);
        return false;
    }

    for (i = 0; i < PNV_IMC_AREAS; i++) {
        events[i] = g_array_new(false, true, sizeof(PnvImcEvent));
        g_array_set_clear_func(events[i], pnv_imc_event_clear);
    }
    for (pmu = fdt_node_offset_by_compatible(fdt, -1, "ibm,imc-counters");
         pmu >= 0;
         pmu = fdt_node_offset_by_compatible(fdt, pmu, "ibm,imc-counters")) {
        if (!catalog_unit(events, fdt, pmu, errp)) {
            error_prepend(errp, "catalog '%s': ", file);
            return false;
        }
        count = 0;
        for (i = 0; i < PNV_IMC_AREAS; i++) {
            count += events[i]->len;
        }
        if (count > CATALOG_MAX_EVENTS) {
            error_setg(errp, "catalog '%s' has more than %u events", file,
                       CATALOG_MAX_EVENTS);
            return false;
        }
    }
    catalog_complete_threads(events);
    for (i = 0; i < PNV_IMC_AREAS; i++) {
        g_array_sort(events[i], pnv_imc_event_compare);
        if (i != PNV_IMC_NEST && !catalog_check_places(events[i], errp)) {
            error_prepend(errp, "catalog '%s': ", file);
            return false;
        }
    }
    return true;
}
