/*
 * PowerNV in-memory collection counters: events of the nest by name
 *
 * The model needs to know which words of the nest area count what. The guest
 * has that from the catalog in the flash; this reads the same device tree from
 * a file. See pc-bios/pnv-pnor/pnv-imc-4e0200.dts for its layout.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "qapi/error.h"
#include "qemu/cutils.h"
#include <libfdt.h>

/* skiboot does not take larger ones */
#define CATALOG_MAX_SIZE        (256 * 1024)
#define CATALOG_TYPE_NEST       0x10

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

/* NULL if there is none, or if it is not a string */
static const char *catalog_string(const void *fdt, int node, const char *name)
{
    int len;
    const char *prop = fdt_getprop(fdt, node, name, &len);

    return prop && len && !prop[len - 1] ? prop : NULL;
}

static bool catalog_event(GArray *events, const void *fdt, int pmu, int node,
                          uint32_t base, Error **errp)
{
    const char *unit = fdt_get_name(fdt, pmu, NULL);
    const char *prefix = catalog_string(fdt, pmu, "events-prefix");
    const char *name = catalog_string(fdt, node, "event-name");
    const char *scale = catalog_string(fdt, node, "scale") ?:
                        catalog_string(fdt, pmu, "scale");
    PnvImcEvent event = { .scale = 1 };
    uint32_t reg;
    uint64_t offset;

    if (!name || !catalog_u32(fdt, node, "reg", &reg)) {
        error_setg(errp, "event %s of unit %s has no reg or event-name",
                   fdt_get_name(fdt, node, NULL), unit);
        return false;
    }
    offset = (uint64_t)base + reg;
    if (offset % 8 || offset >= PNV_IMC_CB_OFFSET) {
        error_setg(errp, "event %s of unit %s is at 0x%" PRIx64 ", but must be "
                   "at a multiple of 8 below 0x%x", name, unit, offset,
                   PNV_IMC_CB_OFFSET);
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

static bool catalog_unit(GArray *events, const void *fdt, int pmu, Error **errp)
{
    const char *unit = fdt_get_name(fdt, pmu, NULL);
    uint32_t type, base, phandle;
    int group, node;

    if (!catalog_u32(fdt, pmu, "type", &type) || type != CATALOG_TYPE_NEST) {
        return true;
    }
    if (!catalog_u32(fdt, pmu, "reg", &base) ||
        !catalog_u32(fdt, pmu, "events", &phandle)) {
        error_setg(errp, "unit %s has no reg or events", unit);
        return false;
    }
    group = fdt_node_offset_by_phandle(fdt, phandle);
    if (group < 0) {
        error_setg(errp, "unit %s has events which do not exist", unit);
        return false;
    }
    fdt_for_each_subnode(node, fdt, group) {
        if (!catalog_event(events, fdt, pmu, node, base, errp)) {
            return false;
        }
    }
    return true;
}

GArray *pnv_imc_catalog_load(const char *file, Error **errp)
{
    g_autoptr(GError) err = NULL;
    g_autofree char *fdt = NULL;
    GArray *events;
    size_t size;
    int pmu;

    if (!g_file_get_contents(file, &fdt, &size, &err)) {
        error_setg(errp, "%s", err->message);
        return NULL;
    }
    if (size > CATALOG_MAX_SIZE || fdt_check_full(fdt, size)) {
        error_setg(errp, "'%s' is not a compiled device tree of up to %u KiB",
                   file, CATALOG_MAX_SIZE / 1024);
        return NULL;
    }

    events = g_array_new(false, true, sizeof(PnvImcEvent));
    g_array_set_clear_func(events, pnv_imc_event_clear);
    for (pmu = fdt_node_offset_by_compatible(fdt, -1, "ibm,imc-counters");
         pmu >= 0;
         pmu = fdt_node_offset_by_compatible(fdt, pmu, "ibm,imc-counters")) {
        if (!catalog_unit(events, fdt, pmu, errp)) {
            error_prepend(errp, "catalog '%s': ", file);
            g_array_unref(events);
            return NULL;
        }
    }
    g_array_sort(events, pnv_imc_event_compare);
    return events;
}
