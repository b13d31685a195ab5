#!/bin/sh
# What `pmu demo` runs in the POWER guest, on two chips. It reads the lines of perf.
#
# SPDX-License-Identifier: GPL-2.0-or-later

echo "Firmware found a catalog in the flash and microcode in memory, so that Linux has" \
    "$(ls /sys/bus/event_source/devices | grep -c ^nest_) units"
echo "of the nest on each of $(ls /sys/firmware/opal/exports | grep -c imc_nest) chips." \
    'PHB0_CYC is a clock of 1 GHz. The reads are synthetic, made up on request'
echo 'because no emulator can count them, with a rate of its own for every event and chip:'
echo
perf stat -a --per-socket -e nest_phb0_imc/PM_PHB0_CYC/ \
    -e nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/ sleep 3 2>&1 | sed -n '/^S/p;/elapsed/p'

echo
echo 'A program of 100 million instructions, counted by the core that it runs on and for itself,'
echo 'and where one spends its time that has a function which takes three times as long as another:'
echo
perf stat -C 0 -e core_imc/CPM_CS_INST_USER/ -e core_imc/CPM_CS_INST_KERNEL/ \
    -e core_imc/CPM_32MHZ_CYC/ sh -c 'taskset -c 0 spin count 100; sleep 0.1' 2>&1 | sed -n '/_imc/p'
perf stat -e thread_imc/CPM_CS_INST_USER/ spin count 100 2>&1 | sed -n '/_imc/p'
echo
perf record -q -c 1 -o /tmp/data -e trace_imc/trace_cycles/ taskset -c 0 spin two 2 2> /dev/null
perf report -i /tmp/data --stdio -n -s comm,symbol --percent-limit 1 2> /dev/null |
    grep '%' | head -n 4 | sed 's/[- ]*$//'
