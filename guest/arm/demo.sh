#!/bin/sh
# What `pmu demo` runs in the arm64 guest.
#
# SPDX-License-Identifier: GPL-2.0-or-later
exec pmcu --samples 4 --period 10 --load 1
