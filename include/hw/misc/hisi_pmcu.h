/*
 * HiSilicon PMCU (Performance Monitor Control Unit)
 *
 * QEMU interface:
 * + QOM property "sccl-id": number of the die; the CPUs of the die are those
 *   with this MPIDR_EL1.Aff2
 * + QOM property "nr-cluster": number of CPU clusters of the die
 * + QOM property "dma-memory": MemoryRegion that the device reads event lists
 *   from and writes records to (default: system memory)
 * + sysbus MMIO region 0: the registers
 * + sysbus IRQ 0: level interrupt, active high
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_HISI_PMCU_H
#define HW_MISC_HISI_PMCU_H

#include "hw/sysbus.h"
#include "hw/misc/hisi_pmcu_regs.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "target/arm/pmu-ext.h"

#define TYPE_HISI_PMCU "hisi-pmcu"
OBJECT_DECLARE_SIMPLE_TYPE(HisiPmcuState, HISI_PMCU)

/* What a run was triggered with, and how far it has come */
typedef struct HisiPmcuRun {
    uint32_t fsm_cfg;
    uint32_t wait_cnt;
    uint32_t comp;
    uint32_t pmcr;
    uint32_t pmccfiltr;
    uint64_t event_base;
    uint64_t kill_base;
    uint64_t store;         /* address of the next record */
    uint32_t pos;           /* index of the first event of this sub-sample */
    uint32_t loop;
    uint32_t events[HISI_PMCU_MAX_COUNTERS];
} HisiPmcuRun;

struct HisiPmcuState {
    SysBusDevice parent_obj;

    MemoryRegion iomem;
    qemu_irq irq;
    AddressSpace dma_as;

    /* Properties */
    uint32_t sccl_id;
    uint32_t nr_cluster;
    MemoryRegion *dma_mr;

    /* Fixed once the machine is complete */
    int32_t nr_slots;
    ARMCPU **cpu;           /* [slot], NULL if there is none */
    bool cpus_found;

    uint32_t regs[HISI_PMCU_NR_REGS];
    uint32_t state;
    uint32_t error;
    uint32_t stored;        /* records of the current or last run */
    HisiPmcuRun run;
    unsigned long *started; /* [slot], CPUs that count in this window */
    QEMUTimer timer;        /* pending in state COUNT only: end of the window */

    /* Derived from run, or only used within one call */
    ArmPmuExtConfig pmu;
    uint8_t *record;
};

#endif
