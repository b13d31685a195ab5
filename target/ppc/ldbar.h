/*
 * LDBAR: where a thread's counters or trace are in memory
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef PPC_LDBAR_H
#define PPC_LDBAR_H

#include "cpu-qom.h"

/**
 * ppc_store_ldbar: write LDBAR of this thread alone
 * @cpu: the thread, on its own thread or not running; needs the BQL
 * @value: the new value
 *
 * Calls the hook @insn_count.ldbar_written, if a device has set one.
 */
void ppc_store_ldbar(PowerPCCPU *cpu, uint64_t value);

#endif
