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
    -e nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/ sleep 1 2>&1 | sed -n '/^S/p;/elapsed/p'
