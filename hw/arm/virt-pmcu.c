/*
 * Arm virt machine: HiSilicon PMCUs, one per CPU die
 *
 * With -M virt,pmcu=on every socket is a die with a PMCU (hisi_pmcu.c). The
 * Linux driver finds the CPUs of a die by MPIDR_EL1.Aff2 and the position of a
 * CPU in the die by Aff1 (cluster) and Aff0 (core), as on HiSilicon parts
 * without SMT; so pmcu=on gives the CPUs such MPIDRs. There are 8 positions
 * per cluster. Dies, clusters, and cores come from -smp. A topology that does
 * not fit is refused with a message that suggests one that does.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/arm/virt-pmcu.h"
#include "hw/arm/fdt.h"
#include "hw/arm/virt.h"
#include "hw/misc/hisi_pmcu.h"
#include "hw/qdev-properties.h"
#include "hw/sysbus.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "system/device_tree.h"
#include "system/qtest.h"
#include "system/tcg.h"
#include "target/arm/cpu-features.h"
#include "target/arm/cpu.h"

/* The memory map and the interrupt map of the board have room for these. */
#define VIRT_PMCU_MAX_DIES 16

static hwaddr virt_pmcu_base(const VirtMachineState *vms, unsigned die)
{
    return vms->memmap[VIRT_PMCU].base + die * HISI_PMCU_MMIO_SIZE;
}

static unsigned virt_pmcu_spi(const VirtMachineState *vms, unsigned die)
{
    return vms->irqmap[VIRT_PMCU] + die;
}

/* The largest divisor of @n that is at most @limit */
static unsigned virt_pmcu_divisor(unsigned n, unsigned limit)
{
    unsigned d = MIN(n, limit);

    while (n % d) {
        d--;
    }
    return d;
}

void virt_pmcu_check(VirtMachineState *vms)
{
    const CpuTopology *smp = &MACHINE(vms)->smp;
    unsigned sockets = smp->sockets;
    unsigned clusters = smp->clusters;
    unsigned cores = smp->cores;
    const char *reason = NULL;

    if (!vms->pmcu) {
        return;
    }
    if (!tcg_enabled() && !qtest_enabled()) {
        error_report("mach-virt: pmcu=on needs -accel tcg, with %s the PMUs "
                     "of the CPUs are out of reach", current_accel_name());
        exit(1);
    }

    if (smp->threads > 1) {
        reason = "does not support threads";
        cores *= smp->threads;
    }
    if (cores > HISI_PMCU_CPUS_PER_CLUSTER) {
        unsigned c = virt_pmcu_divisor(cores, HISI_PMCU_CPUS_PER_CLUSTER);

        reason = reason ?: "supports at most 8 cores per cluster";
        clusters *= cores / c;
        cores = c;
    }
    if (sockets > VIRT_PMCU_MAX_DIES) {
        unsigned d = virt_pmcu_divisor(sockets * clusters, VIRT_PMCU_MAX_DIES);

        reason = reason ?: "supports at most 16 sockets";
        clusters = sockets * clusters / d;
        sockets = d;
    }
    if (clusters > HISI_PMCU_MAX_CLUSTERS) {
        unsigned n = sockets * clusters;

        reason = reason ?: "supports at most 255 clusters per socket";
        for (sockets = 1; sockets <= VIRT_PMCU_MAX_DIES; sockets++) {
            if (n % sockets == 0 && n / sockets <= HISI_PMCU_MAX_CLUSTERS) {
                break;
            }
        }
        clusters = n / sockets;
    }
    if (!reason) {
        if (sockets > 1 && clusters * cores == 1 &&
            MACHINE_GET_CLASS(vms)->smp_props.prefer_sockets) {
            warn_report("mach-virt: -smp %u makes %u dies with one CPU each, "
                        "because machine types before virt-6.2 prefer sockets; "
                        "for one die, use -smp %u,sockets=1", smp->cpus,
                        sockets, smp->cpus);
        }
        return;
    }

    if (sockets > VIRT_PMCU_MAX_DIES) {
        error_report("mach-virt: pmcu=on %s", reason);
    } else {
        g_autofree char *max = smp->max_cpus == smp->cpus ? g_strdup("") :
            g_strdup_printf(",maxcpus=%u", smp->max_cpus);

        error_report("mach-virt: pmcu=on %s, try -smp %u%s,sockets=%u,"
                     "clusters=%u,cores=%u,threads=1", reason, smp->cpus, max,
                     sockets, clusters, cores);
    }
    exit(1);
}

uint64_t virt_pmcu_mp_affinity(VirtMachineState *vms, int idx)
{
    const CpuTopology *smp = &MACHINE(vms)->smp;
    uint64_t core = idx % smp->cores;
    uint64_t cluster = idx / smp->cores % smp->clusters;
    uint64_t die = idx / (smp->cores * smp->clusters);

    return (die << ARM_AFF2_SHIFT) | (cluster << ARM_AFF1_SHIFT) |
           (core << ARM_AFF0_SHIFT);
}

static void virt_pmcu_check_cpu(VirtMachineState *vms)
{
    CPUARMState *env = &ARM_CPU(first_cpu)->env;

    if (!arm_feature(env, ARM_FEATURE_AARCH64)) {
        error_report("mach-virt: pmcu=on needs AArch64 CPUs, for example "
                     "-cpu max");
        exit(1);
    }
    if (!arm_feature(env, ARM_FEATURE_PMU)) {
        error_report("mach-virt: pmcu=on needs CPUs with a PMU: neither -cpu "
                     "...,pmu=off nor a machine type before virt-2.7, which "
                     "has none");
        exit(1);
    }
    if (qtest_enabled()) {
        return;
    }
    /* The driver reads MDCR_EL2; other software may do without. */
    if (!vms->virt) {
        warn_report("mach-virt: pmcu=on without virtualization=on: the posted "
                    "Linux driver needs EL2");
    } else if (!cpu_isar_feature(aa64_vh, ARM_CPU(first_cpu))) {
        warn_report("mach-virt: pmcu=on with a CPU without VHE: the posted "
                    "Linux driver needs to run at EL2");
    }
}

/*
 * There is no upstream DT binding, and the Linux driver only knows ACPI. This
 * local one has the properties that the driver expects of the ACPI device.
 */
static void virt_pmcu_fdt_add(VirtMachineState *vms, unsigned die)
{
    MachineState *ms = MACHINE(vms);
    hwaddr base = virt_pmcu_base(vms, die);
    g_autofree char *node = g_strdup_printf("/pmcu@%" PRIx64, base);

    qemu_fdt_add_subnode(ms->fdt, node);
    qemu_fdt_setprop_string(ms->fdt, node, "compatible", "hisilicon,pmcu");
    qemu_fdt_setprop_sized_cells(ms->fdt, node, "reg",
                                 2, base, 2, (uint64_t)HISI_PMCU_MMIO_SIZE);
    qemu_fdt_setprop_cells(ms->fdt, node, "interrupts", GIC_FDT_IRQ_TYPE_SPI,
                           virt_pmcu_spi(vms, die),
                           GIC_FDT_IRQ_FLAGS_LEVEL_HI);
    qemu_fdt_setprop_cell(ms->fdt, node, "hisilicon,scl-id", die);
    qemu_fdt_setprop_cell(ms->fdt, node, "hisilicon,nr-cluster",
                          ms->smp.clusters);
    qemu_fdt_setprop(ms->fdt, node, "dma-coherent", NULL, 0);
}

void virt_pmcu_create(VirtMachineState *vms, MemoryRegion *mem)
{
    MachineState *ms = MACHINE(vms);
    int die;

    if (!vms->pmcu) {
        return;
    }
    virt_pmcu_check_cpu(vms);

    /* Nodes end up in the DT in reverse order of creation */
    for (die = ms->smp.sockets - 1; die >= 0; die--) {
        virt_pmcu_fdt_add(vms, die);
    }
    for (die = 0; die < ms->smp.sockets; die++) {
        DeviceState *dev = qdev_new(TYPE_HISI_PMCU);
        SysBusDevice *sbd = SYS_BUS_DEVICE(dev);

        qdev_prop_set_uint32(dev, "die", die);
        qdev_prop_set_uint32(dev, "nr-cluster", ms->smp.clusters);
        object_property_add_child(OBJECT(vms), "pmcu[*]", OBJECT(dev));
        object_property_set_link(OBJECT(dev), "dma-memory", OBJECT(mem),
                                 &error_abort);
        sysbus_realize_and_unref(sbd, &error_fatal);
        sysbus_mmio_map(sbd, 0, virt_pmcu_base(vms, die));
        sysbus_connect_irq(sbd, 0, qdev_get_gpio_in(vms->gic,
                                                    virt_pmcu_spi(vms, die)));
    }
}

void virt_pmcu_dsdt_add(Aml *scope, VirtMachineState *vms)
{
    MachineState *ms = MACHINE(vms);
    unsigned die;

    if (!vms->pmcu) {
        return;
    }
    for (die = 0; die < ms->smp.sockets; die++) {
        uint32_t irq = virt_pmcu_spi(vms, die) + GIC_INTERNAL;
        Aml *dev = aml_device("PMC%X", die);
        Aml *crs = aml_resource_template();
        Aml *dsd = aml_package(2);
        Aml *props = aml_package(2);
        Aml *prop;

        aml_append(dev, aml_name_decl("_HID", aml_string("HISI0451")));
        aml_append(dev, aml_name_decl("_UID", aml_int(die)));
        aml_append(dev, aml_name_decl("_CCA", aml_int(1)));

        aml_append(crs, aml_memory32_fixed(virt_pmcu_base(vms, die),
                                           HISI_PMCU_MMIO_SIZE,
                                           AML_READ_WRITE));
        aml_append(crs, aml_interrupt(AML_CONSUMER, AML_LEVEL, AML_ACTIVE_HIGH,
                                      AML_EXCLUSIVE, &irq, 1));
        aml_append(dev, aml_name_decl("_CRS", crs));

        prop = aml_package(2);
        aml_append(prop, aml_string("hisilicon,scl-id"));
        aml_append(prop, aml_int(die));
        aml_append(props, prop);
        prop = aml_package(2);
        aml_append(prop, aml_string("hisilicon,nr-cluster"));
        aml_append(prop, aml_int(ms->smp.clusters));
        aml_append(props, prop);

        /* The UUID says that this is a list of properties: "_DSD Guide" */
        aml_append(dsd, aml_touuid("DAFFD814-6EBA-4D8C-8A91-BC9BBF4AA301"));
        aml_append(dsd, props);
        aml_append(dev, aml_name_decl("_DSD", dsd));

        aml_append(scope, dev);
    }
}

static bool virt_get_pmcu(Object *obj, Error **errp)
{
    return VIRT_MACHINE(obj)->pmcu;
}

static void virt_set_pmcu(Object *obj, bool value, Error **errp)
{
    if (phase_check(PHASE_MACHINE_INITIALIZED)) {
        error_setg(errp, "pmcu cannot be set after the machine was created");
        return;
    }
    if (MACHINE(obj)->possible_cpus) {
        /* Their MPIDRs are chosen: set-numa-node has asked for them */
        error_setg(errp, "pmcu cannot be set after the list of CPUs was made");
        return;
    }
    VIRT_MACHINE(obj)->pmcu = value;
}

void virt_pmcu_class_init(ObjectClass *oc)
{
    object_class_property_add_bool(oc, "pmcu", virt_get_pmcu, virt_set_pmcu);
    object_class_property_set_description(oc, "pmcu",
                                          "Set on/off to enable/disable a "
                                          "HiSilicon PMCU per socket");
}
