/*
 * Requests to exit to the main loop, in blocks that count instructions
 *
 * See insn-count.h. This is for code that is not built for a target.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef ACCEL_TCG_INSN_COUNT_EXIT_H
#define ACCEL_TCG_INSN_COUNT_EXIT_H

/*
 * Whoever sets the sign of CPUNegativeOffsetState.icount_decr calls this: if
 * it is the vCPU's own thread, the next block exits, as all blocks do. It has
 * no effect on other threads, and without TCG.
 */
void insn_count_exit_request(CPUState *cpu);

#endif
