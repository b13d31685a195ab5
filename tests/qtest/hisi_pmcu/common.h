/*
 * QTest of the HiSilicon PMCU: what the parts share
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_QTEST_HISI_PMCU_COMMON_H
#define TESTS_QTEST_HISI_PMCU_COMMON_H

#include "hisi_pmcu-util.h"

#define PMCU_PATH       "/machine/pmcu[0]"

#define FLASH_BASE      0x0ULL
#define FW_CFG_BASE     0x09020000ULL
#define UART_BASE       0x09000000ULL
#define UNMAPPED        0x0f800000ULL

#define DONE            R_INT_STAT_DONE_MASK
#define BRK             R_INT_STAT_BRK_MASK

/* Registers that keep what is written, and the bits that do */
typedef struct PmcuTestReg {
    unsigned offset;
    uint32_t mask;
} PmcuTestReg;

#define PMCU_RW_REGS    13
extern const PmcuTestReg rw_regs[PMCU_RW_REGS];

/* Registers that cannot be written, and those whose bits do something */
extern const unsigned ro_regs[2], action_regs[3];

Pmcu pmcu_init(const char *args);

/* Trigger a run, let it come to its end, and clear the interrupt */
void pmcu_run(const Pmcu *p, const PmcuRun *run);

/* For tests that need the interrupt enabled and one event to count */
Pmcu pmcu_init_irq(const char *args);

void pmcu_quit(Pmcu *p);

/* A machine that writes what @args ask for to a new file, *@log */
Pmcu pmcu_init_log(const char *args, char **log);

/* End such a machine; returns the contents of the file, which is removed. */
char *pmcu_quit_log(Pmcu *p, const char *log);

void pmcu_step(const Pmcu *p, int64_t ns);

void assert_canary(const Pmcu *p, uint64_t addr, size_t len);

/* A run has been stopped early or has not come to its end */
void assert_int(const Pmcu *p, uint32_t stat);

void assert_regs_reset(const Pmcu *p);

void raise_int(const Pmcu *p, uint32_t stat);

bool set_property(const Pmcu *p, const char *path, const char *name,
                  const char *value);

bool set_synthetic(const Pmcu *p, const char *path, const char *list);

/* A machine at time @ns with the state of @file; does it accept that? */
bool migrate_from_file(Pmcu *p, const char *args, const char *file,
                       uint64_t ns);

/* Each file adds its tests. */
void add_registers_tests(void);
void add_runs_tests(void);
void add_synthetic_tests(void);
void add_interrupts_tests(void);
void add_errors_tests(void);
void add_state_tests(void);
void add_machine_tests(void);
void add_faults_tests(void);
void add_random_tests(void);

#endif
