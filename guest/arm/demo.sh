#!/bin/sh
# What `pmu demo` runs in the arm64 guest, on 2 dies of 2 clusters of 2 CPUs.
#
# SPDX-License-Identifier: GPL-2.0-or-later

echo 'CPU 1 is busy. One die, cycles in user space and in the kernel:'
echo
pmcu --die 0 --samples 3 --load 1 || exit

echo
echo 'CPUs 1 and 6 are busy. Both dies at once, 24 events. 0x11 counts cycles in user space;'
echo '0x40 to 0x4f are synthetic, made up on request because no emulator can count them:'
echo
pmcu --heatmap --samples 4 --period 2 --load 1,6 \
    --events 0x8,0x11,0x10,0x12-0x14,0x23-0x24,0x40-0x4f
