#!/bin/sh
# What `pmu demo` runs in the arm64 guest, on 2 dies of 2 clusters of 2 CPUs.
#
# SPDX-License-Identifier: GPL-2.0-or-later

echo 'CPU 1 is busy. One die, cycles in user space and in the kernel:'
echo
pmcu --die 0 --samples 3 --load 1 || exit

echo
echo 'CPUs 1 and 6 are busy. Both dies at once, 24 events. 0x11 counts cycles in user space, 0x8'
echo 'instructions, 0x6 loads, 0x21 branches; 0x40 to 0x42 are synthetic, made up on request:'
echo
pmcu --heatmap --samples 100 --period 2 --load 1,6 \
    --events 0x6-0xa,0xc-0xe,0x11,0x21,0x72-0x75,0x78,0x7a,0x7c-0x7e,0x82,0x86,0x40-0x42
