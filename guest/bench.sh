#!/bin/sh
# The workload of `pmu bench`: a shell that loops and forks, programs that
# compute. It writes no files, and does the same every time.
#
# SPDX-License-Identifier: GPL-2.0-or-later

i=0
while [ $i -lt 60000 ]; do
    i=$((i + 1))
    case $i in *99) : ;; esac
done
i=0
while [ $i -lt 300 ]; do
    busybox true
    i=$((i + 1))
done
for n in 1 2 3; do
    dd if=/dev/zero bs=1M count=24 2> /dev/null | md5sum
    seq 100000 | sort -r | sha256sum
    seq 60000 | awk '{ s += $1 * $1 % 7 } END { print s }'
done
gzip -c /usr/bin/perf | md5sum
if command -v shares > /dev/null; then     # x86
    shares 500
fi
