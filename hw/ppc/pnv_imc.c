/*
 * PowerNV in-memory collection (IMC) counters of a chip
 *
 * The device, its properties, and how the machine uses it. The counters of the
 * nest are in pnv_imc_nest.c, those of cores and threads in pnv_imc_core.c.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "hw/ppc/fdt.h"
#include "hw/ppc/pnv_xscom.h"
#include "hw/qdev-properties.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/datadir.h"
#include "qemu/units.h"
#include "trace.h"
#include <libfdt.h>

/* What "nest-synthetic" says instead of a list */
#define PNV_IMC_DEMO            "demo"

/* Limits of periods: less is no emulator's, more is nobody's wish */
#define PERIOD_MIN_NS           10000
#define PERIOD_MAX_NS           1000000000

static bool pnv_imc_event_by_name(void *opaque, const char *text,
                                  uint32_t *offset)
{
    PnvImc *imc = opaque;
    const char *unit = g_str_has_prefix(text, "nest_") ? text + 5 : text;
    g_auto(GStrv) parts = g_strsplit(unit, "/", 2);
    unsigned i;

    if (!parts[0] || !parts[1]) {
        return false;
    }
    /* As perf calls it, too: nest_UNIT_imc/EVENT */
    if (unit != text) {
        if (!g_str_has_suffix(parts[0], "_imc")) {
            return false;
        }
        parts[0][strlen(parts[0]) - 4] = 0;
    }
    for (i = 0; i < imc->events->len; i++) {
        const PnvImcEvent *e = &g_array_index(imc->events, PnvImcEvent, i);

        if (!strcmp(e->unit, parts[0]) && !strcmp(e->name, parts[1])) {
            *offset = e->offset;
            return true;
        }
    }
    return false;
}

static PmuSyntheticEvents pnv_imc_events(PnvImc *imc)
{
    return (PmuSyntheticEvents) {
        .max = PNV_IMC_CB_OFFSET - 8,
        .step = 8,
        .by_name = pnv_imc_event_by_name,
        .opaque = imc,
    };
}

static char *pnv_imc_get_synthetic(Object *obj, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);

    return g_strdup(imc->pending ?: imc->demo ? PNV_IMC_DEMO :
                    pmu_synthetic_list(imc->synthetic));
}

static bool pnv_imc_apply_synthetic(PnvImc *imc, const char *value,
                                    Error **errp)
{
    bool demo = !strcmp(value, PNV_IMC_DEMO);
    PmuSyntheticEvents events = pnv_imc_events(imc);
    PmuSynthetic *synthetic = NULL;

    if (*value && !demo) {
        synthetic = pmu_synthetic_parse(value, &events, errp);
        if (!synthetic) {
            return false;
        }
    }
    pmu_synthetic_unref(imc->synthetic);
    imc->synthetic = synthetic;
    imc->demo = demo;
    return true;
}

static void pnv_imc_set_synthetic(Object *obj, const char *value,
                                  Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);

    if (!DEVICE(obj)->realized) {
        /* Names are known when the catalog has been read */
        g_free(imc->pending);
        imc->pending = g_strdup(value);
    } else if (pnv_imc_apply_synthetic(imc, value, errp)) {
        pnv_imc_nest_update(imc);
    }
}

/* "EVENT=N,..." adds N to each word, once. Either all of them or none. */
static void pnv_imc_set_add(Object *obj, const char *value, Error **errp)
{
    PnvImc *imc = PNV_IMC(obj);
    PmuSyntheticEvents events = pnv_imc_events(imc);
    g_auto(GStrv) texts = g_strsplit(value, ",", 0);
    unsigned n = g_strv_length(texts), i;
    g_autofree uint32_t *offset = g_new(uint32_t, n);
    g_autofree uint64_t *count = g_new(uint64_t, n);

    if (!DEVICE(obj)->realized) {
        error_setg(errp, "nest-add can only be set while the machine exists");
        return;
    }
    for (i = 0; i < n; i++) {
        g_auto(GStrv) sides = g_strsplit(texts[i], "=", 2);

        if (!sides[0] || !sides[1] ||
            !pmu_synthetic_event(sides[0], &events, &offset[i]) ||
            !pmu_synthetic_number(sides[1], UINT64_MAX, &count[i])) {
            error_setg(errp, "'%s' is not of the form EVENT=COUNT with a name "
                       "or a multiple of 8 up to 0x%x", texts[i], events.max);
            return;
        }
        if (pnv_imc_nest_reserved(imc, offset[i])) {
            error_setg(errp, "event '%s' is where the frame of a group of "
                       "counters is, and cannot count", sides[0]);
            return;
        }
    }
    for (i = 0; i < n; i++) {
        pnv_imc_nest_add(imc, offset[i], count[i]);
        trace_pnv_imc_nest_add(imc->chip->chip_id, offset[i], count[i]);
    }
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
    const PnvImcEvent *last;

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
    imc->events = pnv_imc_catalog_load(file, errp);
    if (!imc->events) {
        return;
    }
    pnv_imc_nest_resolve(imc);
    if (imc->events->len) {
        last = &g_array_index(imc->events, PnvImcEvent, imc->events->len - 1);
        imc->nest.frames = last->offset / PNV_IMC_GROUP_SIZE + 1;
    }

    if (imc->pending && !pnv_imc_apply_synthetic(imc, imc->pending, errp)) {
        return;
    }
    g_clear_pointer(&imc->pending, g_free);

    imc->nest.words = g_new0(PnvImcWord, PNV_IMC_NEST_WORDS);
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

    pnv_imc_core_destroy(imc);
    pmu_synthetic_unref(imc->synthetic);
    g_clear_pointer(&imc->events, g_array_unref);
    g_free(imc->nest.words);
    g_free(imc->pending);
}

static const Property pnv_imc_properties[] = {
    DEFINE_PROP_LINK("chip", PnvImc, chip, TYPE_PNV_CHIP, PnvChip *),
    DEFINE_PROP_STRING("catalog", PnvImc, catalog),
};

static void pnv_imc_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    dc->realize = pnv_imc_realize;
    dc->desc = "PowerNV in-memory collection counters";
    device_class_set_props(dc, pnv_imc_properties);
    rc->phases.hold = pnv_imc_reset_hold;

    object_class_property_add(klass, "uav", "uint64", pnv_imc_get_uav,
                              pnv_imc_set_uav, NULL, NULL);
    object_class_property_set_description(klass, "uav",
        "Unit availability vector: which units of the nest exist");
    object_class_property_add_str(klass, "nest-synthetic",
                                  pnv_imc_get_synthetic,
                                  pnv_imc_set_synthetic);
    object_class_property_set_description(klass, "nest-synthetic",
        "Made-up rates of nest events that are not clocks, as UNIT/EVENT=KIND "
        "or OFFSET=KIND, where KIND is rate:N, const:N or hash; or demo");
    object_class_property_add_str(klass, "nest-add", NULL, pnv_imc_set_add);
    object_class_property_set_description(klass, "nest-add",
        "Adds to nest counters, once: UNIT/EVENT=COUNT or OFFSET=COUNT");
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
        "Virtual time between samples of the trace, if the guest wants more");
}

static const PnvImcCoreModel pnv_imc_core_p9 = {
    .event_mask = PNV9_IMC_EVENT_MASK,
    .htm_mode = PNV9_IMC_HTM_MODE,
    .scale = 512,
    .events = pnv_imc_events_p9,
};

static const PnvImcCoreModel pnv_imc_core_p10 = {
    .event_mask = PNV10_IMC_EVENT_MASK,
    .htm_mode = PNV10_IMC_HTM_MODE,
    .scale = 1,
    .msr = true,
    .events = pnv_imc_events_p10,
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

static void pnv_imc_p9_class_init(ObjectClass *klass, void *data)
{
    PnvImcClass *ic = PNV_IMC_CLASS(klass);

    ic->catalog = "pnv-imc-4e0200.dtb";
    ic->nest = &pnv_imc_nest_p9;
    ic->core = &pnv_imc_core_p9;
    ic->core_base = pnv_imc_core_base_p9;
    ic->quad_base = pnv_imc_quad_base_p9;
}

static void pnv_imc_p10_class_init(ObjectClass *klass, void *data)
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

/*
 * The machine
 */

static bool pnv_imc_machine_get(Object *obj, Error **errp)
{
    return PNV_MACHINE(obj)->imc;
}

static void pnv_imc_machine_set(Object *obj, bool value, Error **errp)
{
    PNV_MACHINE(obj)->imc = value;
}

void pnv_imc_machine_class_init(ObjectClass *oc)
{
    object_class_property_add_bool(oc, "imc", pnv_imc_machine_get,
                                   pnv_imc_machine_set);
    object_class_property_set_description(oc, "imc",
                              "In-memory collection (IMC) counters");
}

static PnvHomer *pnv_imc_homer(PnvChip *chip)
{
    return PNV_HOMER(object_resolve_path_component(OBJECT(chip), "homer"));
}

/*
 * Stock HOMERs are outside of the memory that the device tree describes, so
 * that Linux does not map them. Here they are at the end of each chip's RAM,
 * as on real machines; below a multiple of 16 MiB, because Linux rounds the
 * end of memory down to that. A chip with less RAM than this leaves room for
 * has its HOMER in chip 0, which always has 1 GiB.
 */
void pnv_imc_place_homer(PnvMachineState *pnv, PnvChip *chip)
{
    uint64_t base, end;

    if (!pnv->imc) {
        return;
    }
    if (chip->ram_size >= 64 * MiB) {
        end = chip->ram_start + chip->ram_size;
        base = QEMU_ALIGN_DOWN(end, 16 * MiB) - PNV_HOMER_SIZE;
    } else {
        base = pnv_imc_homer(pnv->chips[0])->base -
               chip->chip_id * PNV_HOMER_SIZE;
    }
    object_property_set_uint(OBJECT(pnv_imc_homer(chip)), "base", base,
                             &error_abort);
}

void pnv_imc_create(PnvMachineState *pnv, PnvChip *chip)
{
    DeviceState *dev;

    if (!pnv->imc) {
        return;
    }
    dev = qdev_new(object_dynamic_cast(OBJECT(chip), TYPE_PNV10_CHIP) ?
                   TYPE_PNV10_IMC : TYPE_PNV9_IMC);
    object_property_add_child(OBJECT(chip), "imc", OBJECT(dev));
    object_property_set_link(OBJECT(dev), "chip", OBJECT(chip), &error_abort);
    sysbus_realize_and_unref(SYS_BUS_DEVICE(dev), &error_fatal);
    memory_region_add_subregion_overlap(&pnv_imc_homer(chip)->mem,
                                        PNV_IMC_NEST_OFFSET,
                                        &PNV_IMC(dev)->nest_mr, 1);
}

void pnv_imc_dt(PnvMachineState *pnv, void *fdt)
{
    int parent, node, i;

    if (!pnv->imc) {
        return;
    }
    parent = fdt_add_subnode(fdt, 0, "reserved-memory");
    _FDT(parent);
    _FDT(fdt_setprop_cell(fdt, parent, "#address-cells", 2));
    _FDT(fdt_setprop_cell(fdt, parent, "#size-cells", 2));
    _FDT(fdt_setprop(fdt, parent, "ranges", NULL, 0));

    for (i = 0; i < pnv->num_chips; i++) {
        hwaddr base = pnv_imc_homer(pnv->chips[i])->base;
        g_autofree char *name = g_strdup_printf("ibm,homer-image@%" PRIx64,
                                                base);
        fdt64_t reg[] = { cpu_to_fdt64(base), cpu_to_fdt64(PNV_HOMER_SIZE) };

        node = fdt_add_subnode(fdt, parent, name);
        _FDT(node);
        /* Without no-map: Linux reads the counters through its linear map */
        _FDT(fdt_setprop(fdt, node, "reg", reg, sizeof(reg)));
    }
}
