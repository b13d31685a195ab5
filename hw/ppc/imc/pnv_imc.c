/*
 * PowerNV in-memory collection (IMC) counters of a chip: the device
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "pnv_imc_internal.h"
#include "hw/ppc/pnv_xscom.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/datadir.h"
#include "qemu/pmu-compat.h"
#include "qobject/qlist.h"
#include "trace.h"

#define FRAME_ERROR "event '%s' is where the frame of a group of counters "  \
                    "is, and cannot count"

/* A value of "nest-synthetic" instead of a list */
#define PNV_IMC_DEMO            "demo"

/* Below 10 us, a host timer cannot keep up; above 1 s, a period is useless. */
#define PERIOD_MIN_NS           10000
#define PERIOD_MAX_NS           1000000000

/* Look up an event of @unit; of any unit if @unit is NULL. */
static bool pnv_imc_find_event(GArray *events, const char *unit,
                               const char *name, uint32_t *offset)
{
    unsigned i;

    for (i = 0; i < events->len; i++) {
        const PnvImcEvent *e = pnv_imc_event(events, i);

        if ((!unit || !strcmp(e->unit, unit)) && !strcmp(e->name, name)) {
            *offset = e->offset;
            return true;
        }
    }
    return false;
}

/* "UNIT/EVENT", or as perf calls it, "nest_UNIT_imc/EVENT" */
static bool pnv_imc_nest_by_name(void *events, const char *text,
                                 uint32_t *offset)
{
    const char *unit = g_str_has_prefix(text, "nest_") ? text + 5 : text;
    g_auto(GStrv) parts = g_strsplit(unit, "/", 2);

    if (!parts[0] || !parts[1]) {
        return false;
    }
    if (unit != text) {
        if (!g_str_has_suffix(parts[0], "_imc")) {
            return false;
        }
        parts[0][strlen(parts[0]) - 4] = 0;
    }
    return pnv_imc_find_event(events, parts[0], parts[1], offset);
}

/* "EVENT", or as perf calls it, "core_imc/EVENT" and "thread_imc/EVENT" */
static bool pnv_imc_core_by_name(void *events, const char *text,
                                 uint32_t *offset)
{
    if (g_str_has_prefix(text, "core_imc/")) {
        text += strlen("core_imc/");
    }
    return pnv_imc_find_event(events, NULL, text, offset);
}

static bool pnv_imc_thread_by_name(void *events, const char *text,
                                   uint32_t *offset)
{
    if (g_str_has_prefix(text, "thread_imc/")) {
        text += strlen("thread_imc/");
    }
    return pnv_imc_find_event(events, NULL, text, offset);
}

static const struct {
    const char *name;
    uint32_t max;
    bool (*by_name)(void *events, const char *text, uint32_t *offset);
} pnv_imc_areas[PNV_IMC_AREAS] = {
    [PNV_IMC_NEST] = { "nest", PNV_IMC_CB_OFFSET - 8, pnv_imc_nest_by_name },
    [PNV_IMC_CORE] = { "core", PNV_IMC_PAGE_SIZE - 8, pnv_imc_core_by_name },
    [PNV_IMC_THREAD] = { "thread", PNV_IMC_PAGE_SIZE - 8,
                         pnv_imc_thread_by_name },
};

static PmuSyntheticEvents pnv_imc_events(PnvImc *imc, PnvImcArea area)
{
    return (PmuSyntheticEvents) {
        .max = pnv_imc_areas[area].max,
        .step = 8,
        .by_name = pnv_imc_areas[area].by_name,
        .opaque = imc->events[area],
    };
}

/* Index of the event at this offset; the number of events if there is none */
static unsigned pnv_imc_event_at(GArray *events, uint32_t offset)
{
    unsigned i = 0;

    while (i < events->len && pnv_imc_event(events, i)->offset != offset) {
        i++;
    }
    return i;
}

/*
 * Entries that pmu_synthetic_parse() accepts, but which have no effect here: of
 * cores and threads, offsets without an event; of the nest, words that are not
 * counters, and values that change from post to post.
 */
static bool pnv_imc_check_synthetic(PnvImc *imc, PnvImcArea area,
                                    const char *value, Error **errp)
{
    PmuSyntheticEvents events = pnv_imc_events(imc, area);
    g_auto(GStrv) entries = g_strsplit(value, ",", 0);
    unsigned i, j;

    for (i = 0; entries[i]; i++) {
        g_auto(GStrv) sides = g_strsplit(entries[i], "=", 2);
        g_auto(GStrv) where = g_strsplit(sides[0], "@", 2);
        uint32_t first, last;

        if (area == PNV_IMC_NEST &&
            (g_str_has_prefix(sides[1], "noise:") ||
             g_str_has_prefix(sides[1], "ramp:"))) {
            error_setg(errp, "synthetic event '%s': nest counters have no "
                       "noise and no ramp, give rate:N, const:N or hash",
                       entries[i]);
            return false;
        }
        if (!pmu_synthetic_range(where[0], &events, &first, &last)) {
            g_assert_not_reached();
        }
        if (area == PNV_IMC_NEST) {
            while (first <= last && pnv_imc_nest_reserved(imc, first)) {
                first += 8;
            }
            if (first > last) {
                error_setg(errp, "synthetic " FRAME_ERROR, entries[i]);
                return false;
            }
            continue;
        }
        for (j = 0; j < imc->events[area]->len; j++) {
            uint32_t offset = pnv_imc_event(imc->events[area], j)->offset;

            if (offset >= first && offset <= last) {
                break;
            }
        }
        if (j == imc->events[area]->len) {
            error_setg(errp, "synthetic event '%s': no event is there",
                       entries[i]);
            return false;
        }
    }
    return true;
}

static bool pnv_imc_apply_synthetic(PnvImc *imc, PnvImcArea area,
                                    const char *value, Error **errp)
{
    PnvImcMadeUp *made_up = &imc->synthetic[area];
    bool demo = area == PNV_IMC_NEST && !strcmp(value, PNV_IMC_DEMO);
    PmuSyntheticEvents events = pnv_imc_events(imc, area);
    PmuSynthetic *list = NULL;

    if (*value && !demo) {
        list = pmu_synthetic_parse(value, &events, errp);
        if (!list) {
            return false;
        }
        if (!pnv_imc_check_synthetic(imc, area, value, errp)) {
            pmu_synthetic_unref(list);
            return false;
        }
    }
    if (area != PNV_IMC_NEST && DEVICE(imc)->realized) {
        /* The time until now belongs to the old list. */
        pnv_imc_core_post(imc);
    }
    pmu_synthetic_unref(made_up->list);
    made_up->list = list;
    made_up->demo = demo;
    return true;
}

static void pnv_imc_get_synthetic(Object *obj, Visitor *v, const char *name,
                                  void *opaque, Error **errp)
{
    PnvImcMadeUp *made_up = &PNV_IMC(obj)->synthetic[(uintptr_t)opaque];
    g_autofree char *value =
        g_strdup(made_up->pending ?: made_up->demo ? PNV_IMC_DEMO :
                 pmu_synthetic_list(made_up->list));

    visit_type_str(v, name, &value, errp);
}

static void pnv_imc_set_synthetic(Object *obj, Visitor *v, const char *name,
                                  void *opaque, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    PnvImcArea area = (uintptr_t)opaque;
    g_autofree char *value = NULL;

    if (!visit_type_str(v, name, &value, errp)) {
        return;
    }
    if (!DEVICE(obj)->realized) {
        /* Parse it in realize(), which reads the names from the catalog. */
        g_free(imc->synthetic[area].pending);
        imc->synthetic[area].pending = g_steal_pointer(&value);
    } else if (pnv_imc_apply_synthetic(imc, area, value, errp) &&
               area == PNV_IMC_NEST) {
        pnv_imc_nest_set_synthetic(imc);
    }
}

typedef struct PnvImcAdd {
    uint32_t offset;
    unsigned event;         /* index of the event; not of the nest */
    int64_t unit;           /* -1 for all */
    uint64_t count;
} PnvImcAdd;

static bool pnv_imc_parse_add(PnvImc *imc, PnvImcArea area, const char *text,
                              PnvImcAdd *add, Error **errp)
{
    PmuSyntheticEvents events = pnv_imc_events(imc, area);
    g_auto(GStrv) sides = g_strsplit(text, "=", 2);
    g_auto(GStrv) where = g_strsplit(sides[0] ?: "", "@", 2);
    uint64_t unit = -1;

    if (!where[0] || !sides[1] ||
        (where[1] && (area == PNV_IMC_NEST ||
                      !pmu_synthetic_number(where[1], UINT16_MAX, &unit))) ||
        !pmu_synthetic_event(where[0], &events, &add->offset) ||
        !pmu_synthetic_number(sides[1], UINT64_MAX, &add->count)) {
        error_setg(errp, "'%s' is not of the form EVENT%s=COUNT with a name "
                   "or a multiple of 8 up to 0x%x", text,
                   area == PNV_IMC_NEST ? "" : area == PNV_IMC_CORE ?
                   "[@CORE]" : "[@PIR]", events.max);
        return false;
    }
    add->unit = unit;
    if (area == PNV_IMC_NEST && pnv_imc_nest_reserved(imc, add->offset)) {
        error_setg(errp, FRAME_ERROR, where[0]);
        return false;
    }
    return true;
}

/* "EVENT=N,..." adds N to each counter, once: to all of them, or to none. */
static void pnv_imc_set_add(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    PnvImcArea area = (uintptr_t)opaque;
    GArray *events = imc->events[area];
    g_autofree char *value = NULL;
    g_autofree PnvImcAdd *add = NULL;
    g_auto(GStrv) texts = NULL;
    unsigned n, i;

    if (!visit_type_str(v, name, &value, errp)) {
        return;
    }
    if (!DEVICE(obj)->realized) {
        error_setg(errp, "%s can only be set while the machine exists", name);
        return;
    }
    texts = pmu_synthetic_split(value, errp);
    if (!texts) {
        return;
    }
    n = g_strv_length(texts);
    add = g_new(PnvImcAdd, n);
    for (i = 0; i < n; i++) {
        if (!pnv_imc_parse_add(imc, area, texts[i], &add[i], errp)) {
            return;
        }
        if (area == PNV_IMC_NEST) {
            continue;
        }
        add[i].event = pnv_imc_event_at(events, add[i].offset);
        if (add[i].event == events->len) {
            error_setg(errp, "'%s': no event is there", texts[i]);
            return;
        }
        if (!pnv_imc_core_add(imc, area, add[i].event, add[i].unit, 0)) {
            error_setg(errp, "'%s': no %s counts that now", texts[i],
                       pnv_imc_areas[area].name);
            return;
        }
    }
    for (i = 0; i < n; i++) {
        if (area == PNV_IMC_NEST) {
            pnv_imc_nest_add(imc, add[i].offset, add[i].count);
        } else {
            pnv_imc_core_add(imc, area, add[i].event, add[i].unit,
                             add[i].count);
        }
        trace_pnv_imc_add(imc->chip->chip_id, pnv_imc_areas[area].name,
                          add[i].offset, add[i].count);
    }
}

static char *pnv_imc_get_fault(Object *obj, Error **errp)
{
    return g_strdup(PNV_IMC(obj)->nest_fault ?: "");
}

/* "GROUP[-GROUP]=torn|late,..."; all other groups have no fault. */
static void pnv_imc_set_fault(Object *obj, const char *value, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    g_auto(GStrv) texts = pmu_synthetic_split(value, errp);
    g_autofree PnvImcFault *fault = g_new0(PnvImcFault, imc->nest.groups + 1);
    unsigned i;

    if (!texts) {
        return;
    }
    if (!DEVICE(obj)->realized) {
        error_setg(errp,
                   "nest-fault can only be set while the machine exists");
        return;
    }
    for (i = 0; texts[i]; i++) {
        g_auto(GStrv) sides = g_strsplit(texts[i], "=", 2);
        g_auto(GStrv) range = g_strsplit(sides[0] ?: "", "-", 2);
        PnvImcFault kind = !sides[0] ? PNV_IMC_FAULT_NONE :
                           !g_strcmp0(sides[1], "torn") ? PNV_IMC_FAULT_TORN :
                           !g_strcmp0(sides[1], "late") ? PNV_IMC_FAULT_LATE :
                           PNV_IMC_FAULT_NONE;
        uint64_t first, last, max = imc->nest.groups - 1;

        if (kind == PNV_IMC_FAULT_NONE || !imc->nest.groups || !range[0] ||
            !pmu_synthetic_number(range[0], max, &first) ||
            !pmu_synthetic_number(range[1] ?: range[0], max, &last) ||
            first > last) {
            error_setg(errp, "'%s' is not of the form GROUP=torn or GROUP=late "
                       "with a group of 0 to %d, or a range of them", texts[i],
                       (int)imc->nest.groups - 1);
            return;
        }
        while (first <= last) {
            fault[first++] = kind;
        }
    }
    pnv_imc_nest_set_faults(imc, fault);
    g_free(imc->nest_fault);
    imc->nest_fault = g_strdup(value);
}

static void pnv_imc_get_engines(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    g_autoptr(QList) list = DEVICE(obj)->realized ? pnv_imc_core_query(imc)
                                                  : qlist_new();
    QObject *value = QOBJECT(list);

    visit_type_any(v, name, &value, errp);
}

static void pnv_imc_get_uav(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    visit_type_uint64(v, name, &PNV_IMC(obj)->uav, errp);
}

static void pnv_imc_set_uav(Object *obj, Visitor *v, const char *name,
                            void *opaque, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    uint64_t value;

    if (!visit_type_uint64(v, name, &value, errp)) {
        return;
    }
    if (!value) {
        error_setg(errp, "uav must not be 0: a chip has some units");
        return;
    }
    imc->uav = value;
    if (DEVICE(obj)->realized) {
        pnv_imc_nest_set_uav(imc, value);
    }
}

static void pnv_imc_get_status(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    uint64_t value = pnv_imc_nest_status(PNV_IMC(obj));

    visit_type_uint64(v, name, &value, errp);
}

static void pnv_imc_get_speed(Object *obj, Visitor *v, const char *name,
                              void *opaque, Error **errp)
{
    visit_type_uint64(v, name, &PNV_IMC(obj)->nest.speed, errp);
}

static void pnv_imc_get_period(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    visit_type_uint64(v, name, (void *)obj + (uintptr_t)opaque, errp);
}

static void pnv_imc_set_period(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    uint64_t *period = (void *)obj + (uintptr_t)opaque, value;

    if (!visit_type_uint64(v, name, &value, errp)) {
        return;
    }
    if (value < PERIOD_MIN_NS || value > PERIOD_MAX_NS) {
        error_setg(errp, "%s must be from %u to %u", name, PERIOD_MIN_NS,
                   PERIOD_MAX_NS);
        return;
    }
    *period = value;
}

static void pnv_imc_reset_hold(Object *obj, ResetType type)
{
    pnv_imc_nest_reset(PNV_IMC(obj));
    pnv_imc_core_reset(PNV_IMC(obj));
}

static void pnv_imc_realize(DeviceState *dev, Error **errp)
{
    PnvImc *imc = PNV_IMC(dev);
    PnvImcClass *ic = PNV_IMC_GET_CLASS(imc);
    g_autofree char *file = NULL;
    unsigned i;

    if (imc->catalog) {
        file = g_strdup(imc->catalog);
    } else {
        file = qemu_find_file(QEMU_FILE_TYPE_BIOS, ic->catalog);
        if (!file) {
            error_setg(errp, "could not find '%s', the catalog of IMC "
                       "counters; see -L", ic->catalog);
            return;
        }
    }
    if (!pnv_imc_catalog_load(imc->events, file, errp)) {
        return;
    }
    pnv_imc_nest_create(imc);
    pnv_imc_count_resolve(imc->events[PNV_IMC_CORE]);
    pnv_imc_count_resolve(imc->events[PNV_IMC_THREAD]);
    for (i = 0; i < PNV_IMC_AREAS; i++) {
        PnvImcMadeUp *made_up = &imc->synthetic[i];

        if (made_up->pending &&
            !pnv_imc_apply_synthetic(imc, i, made_up->pending, errp)) {
            return;
        }
        g_clear_pointer(&made_up->pending, g_free);
    }
    pnv_imc_nest_set_synthetic(imc);

    memory_region_init_io(&imc->nest_mr, OBJECT(dev), &pnv_imc_nest_ops, imc,
                          "pnv-imc-nest", PNV_IMC_NEST_SIZE);
    pnv_imc_nest_reset(imc);
    pnv_imc_core_create(imc);
}

static void pnv_imc_init(Object *obj)
{
    PnvImc *imc = PNV_IMC(obj);

    imc->uav = PNV_IMC_GET_CLASS(obj)->nest->uav;
    imc->post_period_ns = SCALE_MS;
    imc->trace_min_period_ns = 100 * SCALE_US;
}

static void pnv_imc_finalize(Object *obj)
{
    PnvImc *imc = PNV_IMC(obj);
    unsigned i;

    pnv_imc_core_destroy(imc);
    pnv_imc_nest_destroy(imc);
    for (i = 0; i < PNV_IMC_AREAS; i++) {
        pmu_synthetic_unref(imc->synthetic[i].list);
        g_free(imc->synthetic[i].pending);
        g_clear_pointer(&imc->events[i], g_array_unref);
    }
    g_free(imc->nest_fault);
}

static const Property pnv_imc_properties[] = {
    DEFINE_PROP_LINK("chip", PnvImc, chip, TYPE_PNV_CHIP, PnvChip *),
    DEFINE_PROP_STRING("catalog", PnvImc, catalog),
};

/*
 * Devices of powernv have no state in a stream: they would silently start anew.
 * So nothing is saved with imc=on, and nothing loaded.
 */
static const VMStateDescription vmstate_pnv_imc = {
    .name = "pnv-imc (imc=on)",
    .unmigratable = 1,
};

static void pnv_imc_class_init(ObjectClass *klass, ClassInitData *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);
    unsigned i;

    dc->realize = pnv_imc_realize;
    dc->desc = "PowerNV in-memory collection counters";
    dc->vmsd = &vmstate_pnv_imc;
    device_class_set_props(dc, pnv_imc_properties);
    rc->phases.hold = pnv_imc_reset_hold;

    object_class_property_add(klass, "uav", "uint64", pnv_imc_get_uav,
                              pnv_imc_set_uav, NULL, NULL);
    object_class_property_set_description(klass, "uav",
        "Unit availability vector: which units of the nest exist");
    for (i = 0; i < PNV_IMC_AREAS; i++) {
        const char *area = pnv_imc_areas[i].name;
        g_autofree char *synthetic = g_strconcat(area, "-synthetic", NULL);
        g_autofree char *add = g_strconcat(area, "-add", NULL);
        g_autofree char *made_up =
            g_strdup_printf("Made-up values of %s events that are not counted, "
                            "as EVENT=KIND, where KIND is rate:N, const:N, "
                            "hash and others%s", area,
                            i == PNV_IMC_NEST ? "; or demo" : "");
        g_autofree char *adds =
            g_strdup_printf("Adds to %s counters, once: EVENT=COUNT,...", area);

        object_class_property_add(klass, synthetic, "string",
                                  pnv_imc_get_synthetic, pnv_imc_set_synthetic,
                                  NULL, (void *)(uintptr_t)i);
        object_class_property_set_description(klass, synthetic, made_up);
        object_class_property_add(klass, add, "string", NULL, pnv_imc_set_add,
                                  NULL, (void *)(uintptr_t)i);
        object_class_property_set_description(klass, add, adds);
    }
    object_class_property_add_str(klass, "nest-fault", pnv_imc_get_fault,
                                  pnv_imc_set_fault);
    object_class_property_set_description(klass, "nest-fault",
        "Nest groups that readers are to find in trouble: GROUP=torn or "
        "GROUP=late,...");
    object_class_property_add(klass, "engines", "any", pnv_imc_get_engines,
                              NULL, NULL, NULL);
    object_class_property_set_description(klass, "engines",
        "What the engine of each core and its threads do");
    object_class_property_add(klass, "status", "uint64", pnv_imc_get_status,
                              NULL, NULL, NULL);
    object_class_property_set_description(klass, "status",
        "Microcode: 1 runs, 2 paused, 3 bad speed, 4 bad mode");
    object_class_property_add(klass, "speed", "uint64", pnv_imc_get_speed,
                              NULL, NULL, NULL);
    object_class_property_set_description(klass, "speed",
        "Nest counters are posted every 2^speed ms");
    object_class_property_add(klass, "post-period-ns", "uint64",
                              pnv_imc_get_period, pnv_imc_set_period, NULL,
                              (void *)offsetof(PnvImc, post_period_ns));
    object_class_property_set_description(klass, "post-period-ns",
        "Virtual time between posts of the counters of cores and threads");
    object_class_property_add(klass, "trace-min-period-ns", "uint64",
                              pnv_imc_get_period, pnv_imc_set_period, NULL,
                              (void *)offsetof(PnvImc, trace_min_period_ns));
    object_class_property_set_description(klass, "trace-min-period-ns",
        "Average virtual time between samples, if the guest wants more");
}

static const PnvImcCoreModel pnv_imc_core_p9 = {
    .event_mask = PNV9_IMC_EVENT_MASK,
    .htm_mode = PNV9_IMC_HTM_MODE,
};

static const PnvImcCoreModel pnv_imc_core_p10 = {
    .event_mask = PNV10_IMC_EVENT_MASK,
    .htm_mode = PNV10_IMC_HTM_MODE,
    .msr = true,
};

static hwaddr pnv_imc_core_base_p9(unsigned core)
{
    return PNV9_XSCOM_EC_BASE(core);
}

static hwaddr pnv_imc_quad_base_p9(unsigned core)
{
    return PNV9_XSCOM_EQ_BASE(core);
}

static hwaddr pnv_imc_core_base_p10(unsigned core)
{
    return PNV10_XSCOM_EC_BASE(core);
}

static hwaddr pnv_imc_quad_base_p10(unsigned core)
{
    return PNV10_XSCOM_EQ_BASE(core);
}

static void pnv_imc_p9_class_init(ObjectClass *klass, ClassInitData *data)
{
    PnvImcClass *ic = PNV_IMC_CLASS(klass);

    ic->catalog = "pnv-imc-4e0200.dtb";
    ic->nest = &pnv_imc_nest_p9;
    ic->core = &pnv_imc_core_p9;
    ic->core_base = pnv_imc_core_base_p9;
    ic->quad_base = pnv_imc_quad_base_p9;
}

static void pnv_imc_p10_class_init(ObjectClass *klass, ClassInitData *data)
{
    PnvImcClass *ic = PNV_IMC_CLASS(klass);

    ic->catalog = "pnv-imc-800200.dtb";
    ic->nest = &pnv_imc_nest_p10;
    ic->core = &pnv_imc_core_p10;
    ic->core_base = pnv_imc_core_base_p10;
    ic->quad_base = pnv_imc_quad_base_p10;
}

static const TypeInfo pnv_imc_types[] = {
    {
        .name = TYPE_PNV_IMC,
        .parent = TYPE_SYS_BUS_DEVICE,
        .instance_size = sizeof(PnvImc),
        .instance_init = pnv_imc_init,
        .instance_finalize = pnv_imc_finalize,
        .class_size = sizeof(PnvImcClass),
        .class_init = pnv_imc_class_init,
        .abstract = true,
    }, {
        .name = TYPE_PNV9_IMC,
        .parent = TYPE_PNV_IMC,
        .class_init = pnv_imc_p9_class_init,
    }, {
        .name = TYPE_PNV10_IMC,
        .parent = TYPE_PNV_IMC,
        .class_init = pnv_imc_p10_class_init,
    },
};

DEFINE_TYPES(pnv_imc_types)
