/*
 * HiSilicon PMCU (Performance Monitor Control Unit)
 *
 * QEMU interface:
 * + QOM property "die": number of the die; its CPUs are those with this
 *   MPIDR_EL1.Aff2
 * + QOM property "nr-cluster": number of CPU clusters of the die
 * + QOM property "dma-memory": MemoryRegion that the device reads event lists
 *   from and writes records to (default: system memory)
 * + QOM properties "synthetic-events", "synthetic-seed": made-up counts for
 *   events that the CPUs cannot count, see pmu-synthetic.h; a change takes
 *   effect with the next trigger
 * + QOM property "faults": how to fail, see hisi_pmcu-fault.h; a change takes
 *   effect with the next step of a run
 * + QOM properties "state", "error", "records" and "run", read-only: what the
 *   device does, for people
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
#include "hw/misc/hisi_pmcu-fault.h"
#include "hw/misc/hisi_pmcu_regs.h"
#include "hw/misc/pmu-synthetic.h"
#include "qemu/timer.h"
#include "qom/object.h"
#include "target/arm/pmu/pmu-ext.h"

#define TYPE_HISI_PMCU "hisi-pmcu"
OBJECT_DECLARE_SIMPLE_TYPE(HisiPmcuState, HISI_PMCU)

/* The configuration of a run, latched by its trigger, and its position */
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

    /* How the board connects the device; not migrated: both sides do it */
    MemoryRegion iomem;
    qemu_irq irq;
    AddressSpace dma_as;

    /* Properties; not migrated: @saved_die and so on are */
    uint32_t die;
    uint32_t nr_cluster;

    /* Properties; not migrated: the user gives them to both sides */
    MemoryRegion *dma_mr;
    PmuSynthetic *synthetic;
    uint32_t synthetic_seed;
    HisiPmcuFaults faults;

    /* Not migrated: fixed once the machine is complete */
    uint32_t nr_slots;
    ARMCPU **cpu;           /* [slot], NULL if there is none */
    bool cpus_found;
    uint32_t nr_cpus;       /* in the die */

    /* Of the machine that saved the stream; must equal those of this machine */
    uint32_t saved_die;
    uint32_t saved_nr_cluster;
    uint32_t saved_nr_cpus;

    /* What the device does */
    uint32_t regs[HISI_PMCU_NR_REGS];
    uint32_t state;
    uint32_t error;
    uint32_t stored;        /* records of the current or last run */
    HisiPmcuRun run;
    bool done_again;        /* set DONE once more after INT_CLR clears it */
    /*
     * Time at which the timer expires, ns of QEMU_CLOCK_VIRTUAL. The timer is
     * pending in state COUNT, and in STORE unless this is INT64_MAX.
     */
    int64_t window_end;
    QEMUTimer timer;        /* not migrated: armed from window_end */
    VMChangeStateEntry *vm_state;   /* not migrated: arms the timer */

    /* Properties as they were when the run was triggered */
    PmuSynthetic *run_synthetic;    /* migrated in run_list */
    uint32_t run_synthetic_seed;
    uint8_t *run_list;      /* as text, while it is saved or loaded */
    uint32_t run_list_size;

    /* Not migrated: derived from run, or only used within one call */
    ArmPmuExtConfig pmu;
    uint8_t *record;

    /* Not migrated: a stream has been loaded, and not yet found valid */
    bool unchecked;
};

#endif
