/*
 * QTest of the HiSilicon PMCU on the Arm virt machine
 *
 * No CPU executes under qtest, so the counters are a matter of arithmetic:
 * CPU_CYCLES and the cycle counter of a CPU that is on count 1 per nanosecond
 * of virtual time, everything else is 0. CPU 0 is on after reset, the others
 * are not unless the test says so.
 *
 * The rules are those of docs/specs/hisi-pmcu.rst.
 *
 * Copyright (c) qemu-pmu developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hisi_pmcu/common.h"

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    add_registers_tests();
    add_runs_tests();
    add_synthetic_tests();
    add_interrupts_tests();
    add_errors_tests();
    add_state_tests();
    add_machine_tests();
    add_faults_tests();
    add_random_tests();

    return g_test_run();
}
