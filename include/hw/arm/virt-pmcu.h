/*
 * Arm virt machine: HiSilicon PMCUs, one per CPU die
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_ARM_VIRT_PMCU_H
#define HW_ARM_VIRT_PMCU_H

#include "hw/acpi/aml-build.h"
#include "hw/arm/virt.h"

/* Add the machine property "pmcu". */
void virt_pmcu_class_init(ObjectClass *oc);

/*
 * The functions below do nothing without pmcu=on. A configuration that the PMCU
 * cannot work with ends QEMU with an error message.
 */

/* Check the accelerator and the CPU topology; call it before there are CPUs. */
void virt_pmcu_check(VirtMachineState *vms);

/* For pmcu=on: a CPU's MPIDR affinity, Aff2.Aff1.Aff0 is die.cluster.core */
uint64_t virt_pmcu_mp_affinity(VirtMachineState *vms, int idx);

/* Create the devices and their DT nodes; needs the CPUs and the GIC. */
void virt_pmcu_create(VirtMachineState *vms, MemoryRegion *mem);

/* Add the devices to the ACPI namespace. */
void virt_pmcu_dsdt_add(Aml *scope, VirtMachineState *vms);

#endif
