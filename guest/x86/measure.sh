#!/bin/sh
# What `pmu topdown` and `pmu count` put before the script of a guest.
# The host keeps what is between "@@topdown begin" and "end"; it writes a random word for @@topdown.
#
# SPDX-License-Identifier: GPL-2.0-or-later

events=/sys/bus/event_source/devices/cpu/events
most=0                          # levels of TopDown
[ ! -e $events/slots ] || most=1
[ ! -e $events/topdown-heavy-ops ] || most=2

# refuse WHY
refuse() { echo "@@topdown refused $1"; exit 1; }

# perf_stat OPTIONS -- COMMAND
perf_stat() {
    perf stat -j -o /tmp/topdown "$@"
    # shellcheck disable=SC2034       # the script ends with it
    status=$?
    echo "@@topdown begin"
    cat /tmp/topdown
    echo "@@topdown end"
}

# measure LEVEL COMMAND: $interval and $users are more options of perf
measure() {
    [ $most != 0 ] || refuse counters
    level=${1:-$most}
    [ "$level" -le $most ] || refuse level
    command -v -- "$2" > /dev/null || refuse program
    shift
    # shellcheck disable=SC2086
    perf_stat ${interval-} --topdown --td-level "$level" --no-metric-only ${users-} -- "$@"
}
