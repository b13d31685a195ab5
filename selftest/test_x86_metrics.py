# SPDX-License-Identifier: GPL-2.0-or-later
"""perf's metrics on the x86 PMU: which ones have no number, and what level 2 says on Icelake."""

import json
import math
import re
import statistics

import functional
import topdown
from x86 import TopDown, counts

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))

# perf divides by a count of 0: docs/system/i386/tcg-pmu-events.rst, "perf's metrics"
NAN = re.compile(r'tma_info_inst_mix_ip(arith.*|flop|swpf|pause)$|tma_info_pipeline_ipassist$|'
                 r'tma_info_frontend_(dsb_switch_cost|ipdsb_miss_ret|unknown_branch_cost)$|'
                 r'tma_info_frontend_ipunknown_branch$|tma_info_bad_spec_ipmisp_(indirect|ret)$|'
                 r'tma_(contested_accesses|data_sharing)$|tma_info_bottleneck_')
# Metrics by what they are made of; those of uncore, power, and floating point are not asked for.
# As JSON: with -x, a number below 0 looks like none, and a metric of more events than counters
# is the difference of counts that were not taken at the same time. These take turns, so that each
# part of the program must be long enough for all of them, on a fast host, too: the part that
# mispredicts, and the part that reads a file, and so misses the caches.
SCRIPT = r'''
printf '#!/bin/sh\ntopdown branches 10; busybox sha1sum /bin/busybox; topdown branches 10\n' > /tmp/mix
chmod +x /tmp/mix
for metric in $(perf list --raw-dump metric 2> /dev/null | tr ' ' '\n' | grep -E "$WANTED"); do
    part "metric $metric"
    perf stat -j -o /tmp/stat -M $metric /tmp/mix > /dev/null
    grep -E "[ \"]$metric\"" /tmp/stat
done
'''
WANTED = (r'^tma_(core_bound|memory_bound|heavy_operations|light_operations|dram_bound|'
          r'l[123]_bound|branch_resteers|icache_misses|mite|dsb|divider|ports_utiliz.*|mem_latency|'
          r'fb_full|info_core_ilp|info_memory_load_miss_real_latency|info_memory_mlp|'
          r'info_memory_latency_.*|info_pipeline_(execute|fetch_dsb|fetch_mite)|'
          r'info_bad_spec_.*|info_inst_mix_ippause|contested_accesses)$')
# Of these, perf has another formula for Icelake: the others are the same on Sapphire Rapids.
ON_ICELAKE = (r'^tma_(memory_bound|heavy_operations|dram_bound|l[123]_bound|divider|'
              r'ports_utilization|ports_utilized_0|info_memory_load_miss_real_latency|'
              r'info_memory_latency_(data_l2_mlp|load_l3_miss_latency)|info_inst_mix_ippause|'
              r'contested_accesses)$')
# Level 2 of Icelake has more events than counters, too. While the host stands still, time goes by
# for the group whose turn it is, and its counts are scaled wrongly: more runs until the median is
# right. With turns of 1 ms instead of 4 ms, each part of a program of 100 ms has all groups.
WORKLOADS = r'''
echo 1 > /sys/bus/event_source/devices/cpu/perf_event_mux_interval_ms
level2() {
    for run in 1 2 3 4 5 6 7; do
        perf stat -M TopdownL2 topdown $1 100 2>&1 | tee -a /tmp/level2-$1
        awk -v metric=$2 '{ gsub(/\033\[[0-9;]*m/, "") }
            { for (i = 3; i <= NF; i++) if ($i == metric && $(i - 1) == "%") print $(i - 2) }' \
            /tmp/level2-$1 | sort -n | awk '{ n[NR] = $1 }
            END { exit !((n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2 > 50) }' && break
    done
}
for pair in $MOSTLY; do
    name=${pair%=*}
    part "level2 $name"; level2 $name ${pair#*=}
    part "stalls $name"
    perf stat -x, -e cycle_activity.stalls_total:u,cycle_activity.cycles_mem_any:u \
        -e cycles:u topdown $name 5
done
for pair in $PAIRS; do
    part "pair $pair"; perf stat -x, -e "{${pair%=*}:u,${pair#*=}:u}" topdown chase 2
done
# The program must be long enough for all groups of events.
part level3; perf stat -j -M TopdownL1,TopdownL2,TopdownL3 ${MORE:+-e $MORE} topdown loop 60
part detailed; perf stat -x, -d -d -d sh -c 'sleep 0.01; topdown chase 200'
part extra; perf stat -x, -e LLC-loads,frontend_retired.any_dsb_miss topdown chase 2
part named; perf stat -x, -e branch-loads:u,branch-load-misses:u,branches:u,branch-misses:u \
    topdown branches 2
'''

# perf's names and the events that they are, the last one on Golden Cove only
PAIRS = {'L1-dcache-loads': 'mem_inst_retired.all_loads',
         'dTLB-loads': 'mem_inst_retired.all_loads',
         'L1-dcache-stores': 'mem_inst_retired.all_stores',
         'dTLB-stores': 'mem_inst_retired.all_stores',
         'L1-dcache-load-misses': 'l1d.replacement',
         'LLC-load-misses': 'node-loads',
         'dTLB-load-misses': 'dtlb_load_misses.walk_completed',
         'iTLB-load-misses': 'itlb_misses.walk_completed',
         'cache-references': 'longest_lat_cache.reference',
         'cache-misses': 'longest_lat_cache.miss',
         'branch-loads': 'br_inst_retired.all_branches',
         'branch-load-misses': 'br_misp_retired.all_branches'}


def metric_values(parts):
    """{metric: its number, or NaN} of perf stat -j -M"""
    return {part.removeprefix('metric '): float(json.loads(lines[0])['metric-value'])
            for part, lines in parts.items() if part.startswith('metric ') and lines}


class Metrics:
    """Precise, because its branch predictors and caches miss of each kind."""
    options = {'append': 'nmi_watchdog=0'}
    pairs, fewest = PAIRS, 20           # metrics, of those that are asked for
    script = WORKLOADS + SCRIPT
    mostly = {'divide': 'tma_core_bound', 'chase': 'tma_memory_bound',
              'branches': 'tma_branch_mispredicts'}

    def test_numbers(self):
        """each metric has a number, but for those that divide by what a guest cannot do"""
        found = metric_values(self.parts)
        self.assertGreater(len(found), self.fewest, found)
        self.assertEqual([part for part, lines in self.parts.items()
                          if part.startswith('metric ') and not lines], [])
        self.assertEqual([name for name, value in found.items()
                          if math.isnan(value) and not NAN.match(name)], [])

    def test_level_2(self):
        """perf stat -M TopdownL2: each program has most slots in the category that it wastes"""
        for name, category in self.mostly.items():
            found = {}
            for line in self.parts[f'level2 {name}']:
                if m := re.search(r'(-?[\d.]+|nan)(?:\x1b\[m)? +% +(tma_\w+)', line):
                    found.setdefault(m[2], []).append(float(m[1]))
            share = {metric: statistics.median(values) for metric, values in found.items()}
            with self.subTest(program=name):
                self.assertEqual(len(share), 8, share)
                self.assertGreater(share[category], topdown.MOSTLY, share)

    def test_level_3(self):
        """each event of perf stat -M TopdownL1,TopdownL2,TopdownL3 opens, and has its turn

        toplev of pmu-tools measures its levels 1 to 3 with the same events.
        """
        found = [json.loads(line) for line in self.parts['level3'] if '"counter-value"' in line]
        self.assertGreater(len(found), 60, self.parts['level3'])
        self.assertEqual([e['event'] for e in found if e['counter-value'].startswith('<')], [])

    def test_stalls(self):
        """stalls of memory are not more than all stalls, nor these more than cycles"""
        for name in self.mostly:
            total, memory, cycles = (count for _, count, _ in counts(self.parts[f'stalls {name}']))
            with self.subTest(program=name):
                self.assertLessEqual(memory, total + 1)
                self.assertLessEqual(total, cycles)

    def test_generic(self):
        """branch-loads and branch-load-misses are branches and branch-misses"""
        loads, misses, branches, missed = (c for _, c, _ in counts(self.parts['named']))
        self.assertEqual((loads, misses), (branches, missed))
        self.assertGreater(missed, 1000)

    def test_pairs(self):
        """perf's generic events are the events that the page on events names"""
        for name, event in self.pairs.items():
            with self.subTest(name=name):
                (_, generic, _), (_, named, _) = counts(self.parts[f'pair {name}={event}'])
                self.assertEqual(generic, named)
                self.assertGreater(named, 0)

    def test_detailed(self):
        """perf stat -d -d -d: what is shown is counted, and no line is 0 by mistake"""
        found = {name: count for name, count, _ in counts(self.parts['detailed'])}
        self.assertGreater(len(found), 15)
        # There is one CPU
        self.assertEqual([name for name, count in found.items() if count == 0], ['cpu-migrations'])

    def test_registers(self):
        """Linux offers the events that need OFFCORE_RSP and PEBS_FRONTEND"""
        found = [count for _, count, _ in counts(self.parts['extra'])]
        self.assertEqual(len(found), 2, self.parts['extra'])
        self.assertGreater(found[0], 1000)
        self.assertEqual(found[1], 0)


def script(pairs, wanted, more=''):
    known = ' '.join(f'{name}={event}' for name, event in pairs.items())
    mostly = ' '.join(f'{name}={metric}' for name, metric in Metrics.mostly.items())
    return (f"WANTED='{wanted}' PAIRS='{known}' MOSTLY='{mostly}' MORE={more}\n"
            f'{Metrics.script}')


class Icelake(Metrics, TopDown):
    cpu = 'Icelake-Server-v6,pmu=on,pmu-model=precise'
    pairs, fewest = {**PAIRS, 'L1-icache-load-misses': 'icache_64b.iftag_miss'}, 10
    script = script(pairs, ON_ICELAKE)


class Sapphire(Metrics, TopDown):
    cpu = 'SapphireRapids,pmu=on,pmu-model=precise'
    pairs = {**PAIRS, 'L1-icache-load-misses': 'l2_rqsts.all_code_rd'}
    # toplev's, but not perf's
    script = script(pairs, WANTED,
                    'exe_activity.2_3_ports_util,idq.ms_cycles_any,rs.empty_resource')
