#!/bin/sh
# ci/guest.sh: what the guests run. Put your own tests here.
#
# SPDX-License-Identifier: GPL-2.0-or-later
event=instructions:u
[ ! -e /sys/bus/event_source/devices/thread_imc ] || event=thread_imc/CPM_CS_INST_USER/
work='i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done'

echo 1..1
count=$(perf stat -x, -e "$event" sh -c "$work" 2>&1 | sed -n '/INST\|instr/s/,.*//p')
verdict='not ok'
[ "$count" -gt 100000 ] 2> /dev/null && verdict=ok
echo "$verdict 1 - the instructions of a program are counted: $count"
[ "$verdict" = ok ]         # the job fails with the script
