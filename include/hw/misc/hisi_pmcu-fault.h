/*
 * HiSilicon PMCU: faults on demand
 *
 * Drivers must cope with hardware that fails. The property "faults" lets the
 * PMCU fail, for tests of drivers:
 *
 *   list  := fault { ',' fault }
 *   fault := 'refuse:' E     refuse each trigger with this error, 1 to 3
 *          | 'dma-read:' N   fail to read the events of record N of each run,
 *                            the first one is 0
 *          | 'dma-write:' N  fail to write record N of each run
 *          | 'lose-done'     end each run without DONE
 *          | 'delay-done:' N end each run N ns late
 *          | 'repeat-done'   set DONE once more when it has been cleared
 *          | 'stay-busy'     never end a run
 *
 * None of them changes what is in a record.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_HISI_PMCU_FAULT_H
#define HW_MISC_HISI_PMCU_FAULT_H

/* Longest delay of DONE, in ns. Our decision: a day */
#define HISI_PMCU_MAX_DELAY (86400 * 1000000000LL)

/**
 * HisiPmcuFaults: how a PMCU is to fail; all 0 if it is not. Not migrated: the
 *                 user gives the property to both sides
 * @refuse: the error of FSM_STATUS that a trigger gets, 0 for none
 * @dma_read: one more than the record whose events cannot be read, or 0
 * @dma_write: one more than the record that cannot be written, or 0
 * @delay_done: ns by which the end of a run is late
 * @lose_done, @repeat_done, @stay_busy: what happens at the end of a run
 */
typedef struct HisiPmcuFaults {
    uint32_t refuse;
    uint32_t dma_read;
    uint32_t dma_write;
    uint64_t delay_done;
    bool lose_done;
    bool repeat_done;
    bool stay_busy;
} HisiPmcuFaults;

/**
 * hisi_pmcu_faults_parse: parse a list
 * @list: the list, "" for no fault
 * @faults: where to store it; not changed if there is an error
 * @errp: error object
 *
 * Returns: false with @errp set if it is not such a list, or if two of the
 * faults concern the same step and exclude each other
 */
bool hisi_pmcu_faults_parse(const char *list, HisiPmcuFaults *faults,
                            Error **errp);

/* The list again, in the order above; to be freed */
char *hisi_pmcu_faults_string(const HisiPmcuFaults *faults);

#endif
