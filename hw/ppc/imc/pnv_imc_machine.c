/*
 * PowerNV in-memory collection (IMC) counters: the machine option
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/ppc/pnv_imc.h"
#include "pnv_imc_internal.h"
#include "hw/ppc/fdt.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/units.h"
#include "system/dma.h"
#include <libfdt.h>

/*
 * Linux allocates counters and traces of cores in the memory of their chip. If
 * that fails for one chip, it has no such counters at all. Firmware's tables
 * (about 50 MiB) and HOMER leave too little on a chip with less than this.
 */
#define CHIP_RAM_MIN            (256 * MiB)

static bool pnv_imc_machine_get(Object *obj, Error **errp)
{
    return PNV_MACHINE(obj)->imc;
}

static void pnv_imc_machine_set(Object *obj, bool value, Error **errp)
{
    if (phase_check(PHASE_MACHINE_INITIALIZED)) {
        error_setg(errp, "imc cannot be set after the machine was created");
        return;
    }
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
 * In stock QEMU, HOMER is outside of the memory that the device tree describes,
 * so that Linux does not map it. Here it is at the end of each chip's RAM, as
 * on real machines; below a multiple of 16 MiB, because Linux rounds the end of
 * memory down to one. The HOMER of a chip with less than 64 MiB is in the RAM
 * of chip 0, which always has 1 GiB.
 */
void pnv_imc_place_homer(PnvMachineState *pnv, PnvChip *chip)
{
    uint64_t base, end;

    if (!pnv->imc) {
        return;
    }
    if (chip->ram_size < CHIP_RAM_MIN) {
        warn_report("chip %u has %" PRIu64 " MiB of memory, but imc=on needs "
                    "%" PRIu64 " MiB for Linux's core_imc; give at least 1 GiB "
                    "and %" PRIu64 " MiB for each further chip", chip->chip_id,
                    chip->ram_size / MiB, CHIP_RAM_MIN / MiB,
                    CHIP_RAM_MIN / MiB);
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
    PnvHomer *homer;
    DeviceState *dev;

    if (!pnv->imc) {
        return;
    }
    homer = pnv_imc_homer(chip);
    /* The chip has mapped HOMER with the priority of the RAM below it. */
    memory_region_del_subregion(get_system_memory(), &homer->mem);
    memory_region_add_subregion_overlap(get_system_memory(), homer->base,
                                        &homer->mem, 1);

    dev = qdev_new(object_dynamic_cast(OBJECT(chip), TYPE_PNV10_CHIP) ?
                   TYPE_PNV10_IMC : TYPE_PNV9_IMC);
    object_property_add_child(OBJECT(chip), "imc", OBJECT(dev));
    object_property_set_link(OBJECT(dev), "chip", OBJECT(chip), &error_abort);
    sysbus_realize_and_unref(SYS_BUS_DEVICE(dev), &error_fatal);
    memory_region_add_subregion_overlap(&homer->mem, PNV_IMC_NEST_OFFSET,
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
