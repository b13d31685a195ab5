/*
 * HiSilicon PMCU (Performance Monitor Control Unit): registers and layout of
 * records in memory, for the model and its tests
 *
 * See docs/specs/hisi-pmcu.rst.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_HISI_PMCU_REGS_H
#define HW_MISC_HISI_PMCU_REGS_H

#include "hw/registerfields.h"

REG32(FSM_STATUS,       0x000)
    FIELD(FSM_STATUS, STATE, 0, 4)
    FIELD(FSM_STATUS, ERROR, 8, 8)
    FIELD(FSM_STATUS, STORED, 16, 16)
REG32(FSM_CFG,          0x004)
    FIELD(FSM_CFG, EV_LEN, 0, 8)
    FIELD(FSM_CFG, NR_LOOP, 8, 8)
    FIELD(FSM_CFG, NR_PMU, 16, 4)
REG32(EVENT_BASE_H,     0x008)
REG32(EVENT_BASE_L,     0x00c)
REG32(KILL_BASE_H,      0x010)
REG32(KILL_BASE_L,      0x014)
REG32(STORE_BASE_H,     0x018)
REG32(STORE_BASE_L,     0x01c)
REG32(WAIT_CNT,         0x020)
REG32(FSM_CTRL,         0x038)
    FIELD(FSM_CTRL, TRIGGER, 0, 1)
REG32(FSM_BRK,          0x03c)
    FIELD(FSM_BRK, BRK, 0, 1)
REG32(COMP,             0x044)
    FIELD(COMP, ENABLE, 0, 1)
REG32(INT_EN,           0x100)
    FIELD(INT_EN, DONE, 0, 1)
    FIELD(INT_EN, BRK, 1, 1)
REG32(INT_MSK,          0x104)
    FIELD(INT_MSK, DONE, 0, 1)
    FIELD(INT_MSK, BRK, 1, 1)
REG32(INT_STAT,         0x108)
    FIELD(INT_STAT, DONE, 0, 1)
    FIELD(INT_STAT, BRK, 1, 1)
REG32(INT_CLR,          0x10c)
    FIELD(INT_CLR, DONE, 0, 1)
    FIELD(INT_CLR, BRK, 1, 1)
REG32(PMCR,             0x200)
    FIELD(PMCR, E, 0, 1)
    FIELD(PMCR, P, 1, 1)
    FIELD(PMCR, C, 2, 1)
    FIELD(PMCR, D, 3, 1)
    FIELD(PMCR, X, 4, 1)
    FIELD(PMCR, DP, 5, 1)
    FIELD(PMCR, LC, 6, 1)
    FIELD(PMCR, LP, 7, 1)
REG32(PMCCFILTR,        0x204)
    FIELD(PMCCFILTR, FILTER, 24, 8)

#define HISI_PMCU_NR_REGS           (R_PMCCFILTR + 1)

/* Implemented bits of the registers that have reserved ones */
#define HISI_PMCU_FSM_CFG_MASK      (R_FSM_CFG_EV_LEN_MASK | \
                                     R_FSM_CFG_NR_LOOP_MASK | \
                                     R_FSM_CFG_NR_PMU_MASK)
#define HISI_PMCU_INT_MASK          (R_INT_STAT_DONE_MASK | R_INT_STAT_BRK_MASK)
#define HISI_PMCU_PMCR_MASK         (R_PMCR_E_MASK | R_PMCR_P_MASK | \
                                     R_PMCR_C_MASK | R_PMCR_D_MASK | \
                                     R_PMCR_X_MASK | R_PMCR_DP_MASK | \
                                     R_PMCR_LC_MASK | R_PMCR_LP_MASK)

/* FSM_STATUS.STATE */
enum {
    HISI_PMCU_IDLE = 0,
    HISI_PMCU_FETCH = 1,
    HISI_PMCU_PROGRAM = 2,
    HISI_PMCU_COUNT = 3,
    HISI_PMCU_READ = 4,
    HISI_PMCU_STORE = 5,
    HISI_PMCU_DONE_HOLD = 6,
};

/* FSM_STATUS.ERROR */
enum {
    HISI_PMCU_ERR_NONE = 0,
    HISI_PMCU_ERR_BUSY = 1,
    HISI_PMCU_ERR_CFG = 2,
    HISI_PMCU_ERR_ADDR = 3,
    HISI_PMCU_ERR_KILL = 4,
    HISI_PMCU_ERR_DMA_READ = 5,
    HISI_PMCU_ERR_DMA_WRITE = 6,
};

/* Size of the register window: one 64 KiB page of the guest */
#define HISI_PMCU_MMIO_SIZE         0x10000

#define HISI_PMCU_TICK_NS           20
#define HISI_PMCU_MAX_EV_LEN        240
#define HISI_PMCU_MAX_LOOPS         255
#define HISI_PMCU_MAX_COUNTERS      8
#define HISI_PMCU_COMP_FIRST        3   /* counter, in compatibility mode */
#define HISI_PMCU_COMP_MAX_COUNTERS 5
#define HISI_PMCU_MAX_EVENT         0xffff
#define HISI_PMCU_NULL_EVENT        0xc000  /* fills up lists, counts nothing */

/* A cluster has this many slots, whether or not they have a CPU. */
#define HISI_PMCU_CPUS_PER_CLUSTER  8
#define HISI_PMCU_MAX_CLUSTERS      255

/*
 * Layout of a record of a die with S slots, all little endian:
 *
 *   CONTEXTIDR_EL1   S x 32 bit
 *   CONTEXTIDR_EL2   S x 32 bit
 *   event 0          S x 64 bit
 *   ...
 *   event NR_PMU-1   S x 64 bit
 *   cycle counter    S x 64 bit, absent in compatibility mode
 *
 * The slot number has the core in the cluster as its major part and the
 * cluster as its minor part.
 */
static inline unsigned hisi_pmcu_nr_slots(unsigned nr_cluster)
{
    return HISI_PMCU_CPUS_PER_CLUSTER * nr_cluster;
}

static inline unsigned hisi_pmcu_slot(unsigned nr_cluster, unsigned cluster,
                                      unsigned core)
{
    return core * nr_cluster + cluster;
}

static inline uint32_t hisi_pmcu_record_size(unsigned nr_slots,
                                             unsigned nr_pmu, bool comp)
{
    return (nr_pmu + (comp ? 1 : 2)) * 8 * nr_slots;
}

static inline uint32_t hisi_pmcu_cid1_offset(unsigned slot)
{
    return 4 * slot;
}

static inline uint32_t hisi_pmcu_cid2_offset(unsigned nr_slots, unsigned slot)
{
    return 4 * (nr_slots + slot);
}

/* The cycle counter follows the last event */
static inline uint32_t hisi_pmcu_event_offset(unsigned nr_slots, unsigned event,
                                              unsigned slot)
{
    return 8 * (nr_slots * (1 + event) + slot);
}

#endif
