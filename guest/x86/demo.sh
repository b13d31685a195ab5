#!/bin/sh
# What `pmu demo` runs in the x86 guest.
#
# SPDX-License-Identifier: GPL-2.0-or-later

echo 'A program, counted:'
echo
perf stat -o /tmp/stat -e instructions:u,instructions:k,cycles,branches,branch-misses \
    md5sum /usr/bin/perf > /dev/null || exit
sed -n '/instr\|cycles\|branch/s/ *\(#.*\)*$//p' /tmp/stat
if grep '<not' /tmp/stat > /dev/null; then
    exit 1
fi

echo
echo 'Where a program with a function that works three times as much as another spends its time,'
echo 'sampled on both CPUs:'
echo
perf record -q -a -F 1000 -o /tmp/data -- shares 3000 2> /dev/null || exit
perf report -q -i /tmp/data --stdio --percent-limit 1 -F overhead,sample,symbol 2> /dev/null |
    grep % | head -n 6

echo
echo 'Loops whose instructions are known, counted in user space with RDPMC:'
echo
rdpmc > /tmp/rdpmc
status=$?
grep -E 'counted|rdpmc' /tmp/rdpmc
exit $status
