/*
 * Helpers for qtests of counted instructions
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TESTS_QTEST_INSN_COUNT_UTIL_H
#define TESTS_QTEST_INSN_COUNT_UTIL_H

/**
 * insn_count_blocks: blocks that were executed, in a log of -d exec
 * @name: the log's file
 * @counting: set to how many of them count
 *
 * Returns: how many there are. The last line does not count: it may be cut.
 */
unsigned insn_count_blocks(const char *name, unsigned *counting);

#endif
