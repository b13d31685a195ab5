# SPDX-License-Identifier: GPL-2.0-or-later
"""TopDown models: programs that differ look different, and mixes are as asked."""

import functional
import topdown
from functional import qmp
from x86 import TopDown, json_counts

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))


class Precise(TopDown):
    cpu = 'SapphireRapids,pmu=on,pmu-model=precise'
    shared = 'branches', 'divide'
    script = ''.join(
        f'part {name}; measure 2 topdown {name}\n' for name in topdown.PROGRAMS) + r'''
# A switch saves the metrics of a program in bytes, which rounds what it has so far: as on the
# processor, its first turns weigh more than later ones. So they are long, and are steady work:
# perf comes when the program has had so much time of the CPU, which the host does not decide.
echo 20000000 > /sys/kernel/debug/sched/base_slice_ns
ticks() { cut -d ' ' -f 14 /proc/$1/stat; }         # of 10 ms, in user space
turns() { sed -n 's/^nonvoluntary_ctxt_switches:[[:space:]]*//p' /proc/$1/status; }
# steady TICKS TURNS NAME...: until each program has had so many more ticks and turns
steady() {
    ticks=$1 turns=$2; shift 2
    all=; measured=
    for name in "$@"; do
        topdown $name 100000 & all="$all $!"
        eval "$name=$!"
    done
    for pid in $all; do until [ $(ticks $pid) -ge 20 ]; do sleep 0.1; done; done
    for name in "$@"; do
        eval "pid=\$$name"
        perf stat -j --topdown --td-level 2 --no-metric-only -e context-switches \
            -o /tmp/$name -p $pid 2> /dev/null & measured="$measured $!"
    done
    for pid in $measured; do
        until ls -l /proc/$pid/fd 2> /dev/null | grep -q perf_event; do sleep 0.1; done
    done
    for pid in $all; do
        tick=$(ticks $pid) turn=$(turns $pid)
        until [ $(ticks $pid) -ge $((tick + ticks)) ] && [ $(turns $pid) -ge $((turn + turns)) ]; do
            sleep 0.5               # each look is a switch, too
        done
    done
    kill $all
    wait $measured
}
for name in branches divide; do steady 150 0 $name; part alone-$name; cat /tmp/$name; done
steady 150 40 branches divide
for name in branches divide; do part shared-$name; cat /tmp/$name; done
'''

    def test_programs(self):
        """each of the five programs has more than half of its slots in its own category"""
        for name, category in topdown.PROGRAMS.items():
            with self.subTest(program=name):
                found = topdown.parse(self.parts[name])
                self.assertTree(found.share)
                self.assertGreater(found.share[category], topdown.MOSTLY, found.share)

    def test_time_sharing(self):
        """two programs that share a CPU each keep the breakdown that they have alone, within 2 %"""
        for name in self.shared:
            alone, shared = (topdown.parse(self.parts[f'{how}-{name}'])
                             for how in ('alone', 'shared'))
            self.assertGreater(json_counts(self.parts[f'shared-{name}'])['context-switches'], 20)
            self.assertShares(shared, alone, 2)


PARTS = 'Heavy operations', 'Branch mispredicts', 'Fetch latency', 'Memory bound'


def breakdown(mix):
    """The Breakdown that a mix asks for."""
    share = dict(zip((*topdown.TREE, *PARTS), mix))
    for name, parts in topdown.TREE.items():
        [given], [rest] = (set(parts) & set(PARTS)), (set(parts) - set(PARTS))
        share[rest] = share[name] - share[given]
    return topdown.Breakdown(1, share)


class Pinned(TopDown):
    MIXES = (40, 10, 20, 30, 5, 8, 15, 20), (10, 30, 35, 25, 3, 20, 5, 15)
    cpu = ('SapphireRapids,pmu=on,pmu-model=pinned,topdown-mix='
           + '/'.join(str(n) for n in MIXES[0]))
    # The host hears "== set" and changes CPU 1 while the guest waits.
    script = r'''
on() { taskset -p $1 $$ > /dev/null; }
on 2
part before;   measure 2 topdown loop 50
part set;      WAIT
part cpu1;     measure 2 topdown chase 50
on 1
part cpu0;     measure 2 topdown loop 50
part both
perf stat -j --topdown --td-level 2 --no-metric-only -a -C 1 -- \
    sh -c 'taskset 2 topdown loop 100; echo == reset; WAIT; taskset 2 topdown loop 100'
'''.replace('WAIT', functional.WAIT_FOR_ANSWER)

    @classmethod
    def setUpClass(cls):
        cls.options = {'smp': '2', 'append': 'nmi_watchdog=0', 'hear': cls.hear}
        super().setUpClass()
        cls.where = 'pinned'

    @classmethod
    def hear(cls, line):
        new = {'== set': cls.MIXES[1], '== reset': cls.MIXES[0]}.get(line)
        if new:
            [path] = [c['qom-path'] for c in qmp('query-cpus-fast') if c['cpu-index'] == 1]
            qmp('qom-set', path=path, property='topdown-mix',
                value='/'.join(str(n) for n in new))
            functional.answer()

    def test_mix(self):
        """perf shows the mix that the CPU is given at start"""
        self.assertShares(topdown.parse(self.parts['before']), breakdown(self.MIXES[0]), 0.8)

    def test_two_cpus(self):
        """two CPUs with different mixes each show their own, whatever they execute"""
        for cpu, mix in enumerate(self.MIXES):
            self.assertShares(topdown.parse(self.parts[f'cpu{cpu}']), breakdown(mix), 0.8)

    def test_change(self):
        """a mix that changes at run time leaves earlier slots as they were"""
        middle = [(a + b) / 2 for a, b in zip(*self.MIXES)]
        found = topdown.parse(self.parts['reset'])
        self.assertShares(found, breakdown(middle), 1.5)
