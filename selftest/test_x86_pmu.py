# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's amd64 kernel, perf and rr on the x86 PMU: each guest runs a script, tests read it."""

import re
import statistics

import functional
import guest
import ui
from x86 import PARTS, SAMPLE, Case, counts, run, samples

PACKAGES = ['gdb', 'rr']
functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'),
                guest.packages_file('x86', PACKAGES))

PAGE = ui.ROOT / 'docs/system/i386/tcg-pmu-events.rst'
FIXED = 4               # fixed-purpose counters
BESIDE = r'''
echo 0 > /proc/sys/kernel/randomize_va_space    # the stack's place decides what string functions do
events=instructions:u,branches:u,cycles:u,context-switches
part alone;  perf stat -x, -e $events busybox md5sum /usr/bin/perf /usr/bin/perf /usr/bin/perf
part beside; shares 8000 &
perf stat -x, -e $events busybox md5sum /usr/bin/perf /usr/bin/perf /usr/bin/perf
wait
'''
FULL = r'''
part stat;     perf stat -x, -e '{instructions:u,instructions:k,instructions}' \
                   -e cycles,branches,branch-misses busybox md5sum /init
part group;    perf stat -x, -e '{instructions,branches}' -e '{cycles,branch-misses}' true
part all;      perf stat -a -x, -e instructions,cycles -- shares 100
part many
# A stall of the host is time of the events whose turn it is: the median of three runs, or of more
# until it is near
for run in $(seq 15); do
    perf stat -x, -e branches,branch-misses,cache-references,cache-misses \
        -e r11c4,r20c4,r02c4,r08c4,r00c5,r81d0,r82d0,r013c shares 2000 2>&1 | tee -a /tmp/many
    sed -n 's/,.*,r11c4,.*//p' /tmp/many | sort -n | awk -v cpus=$(nproc) -v run=$run '
        { n[NR] = $1 / cpus / 2000 / 40000 }
        END { m = (n[int((NR + 1) / 2)] + n[int(NR / 2) + 1]) / 2
              exit !(run >= 3 && m > 0.81 && m < 1.19) }' && break
done
# Events take turns of 4 ms: long enough for many turns of each on a fast host, too
part detailed; perf stat -x, -d -d -d topdown chase 500
part frequency
record -a -e cycles -F 1000 -o /tmp/frequency -- shares 4000
cpus /tmp/frequency
part shares
record -e instructions:u -c 74167 -o /tmp/shares -- shares 500
perf report -q -i /tmp/shares --stdio -F overhead,symbol | cat
part samples
perf script -i /tmp/shares -F comm | wc -l
perf stat -x, -e instructions:u shares 500
'''
RR = r'''
part rr
export _RR_TRACE_DIR=/tmp/rr
for program in 'ls -l /' chaos '/usr/bin/tar -cvf /dev/null /etc'; do
    rr record $program > /tmp/recorded; echo record $?
    rr replay -a > /tmp/replayed; echo replay $?
    cmp /tmp/recorded /tmp/replayed; echo same $?
    wc -l < /tmp/recorded
    rm -r /tmp/rr
done
part watch
rr record history
rr replay -d /usr/bin/gdb << EOF
set confirm off
break finished
continue
watch -l value
reverse-continue
reverse-continue
reverse-continue
continue
continue
kill
EOF
echo                            # behind gdb's last prompt
'''


class Guest:
    """What holds on each model, and on two CPUs as on one."""
    packages, script, cpus = (), PARTS + SAMPLE, 1

    @classmethod
    def setUpClass(cls):
        cls.where = f'{cls.model}, {cls.cpus} CPU{"s" * (cls.cpus > 1)}'
        cls.parts = run(cls.script, f'{cls.model},pmu=on', smp=str(cls.cpus),
                        packages=cls.packages)

    def test_driver(self):
        """the kernel's driver finds a version 5 PMU with full-width counters"""
        text = '\n'.join(self.parts['dmesg'])
        self.assertRegex(text, rf'Performance Events: .*{self.events} events, .*'
                               'full-width counters, Intel PMU driver')
        for name, value in (('version', '5'), ('bit width', '48'), ('generic registers', '8'),
                            ('max period', '00007fffffffffff'),
                            ('fixed-purpose events', str(FIXED))):
            self.assertRegex(text, rf'\.\.\. {name}: +{value}\b')

    def test_watchdog(self):
        """the NMI watchdog is on, and uses a counter"""
        self.assertIn('NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.',
                      '\n'.join(self.parts['dmesg']))

    def test_no_trouble(self):
        """the kernel log has no unknown NMI, stuck loop, lockup, warning or refused register"""
        self.assertNoTrouble(self.parts['dmesg'])

    def test_exact(self):
        """user-space RDPMC and read() count loops to the instruction and branch"""
        rows = [l for l in self.parts['exact'] if re.search(r' (ok|FAILED)$', l)]
        self.assertEqual(len(rows), 24, self.parts['exact'])
        self.assertEqual([l for l in rows if not l.endswith(' ok')], [])
        self.assertEqual(self.parts['exact'][-1], 'status 0')

    def test_again(self):
        """a second run counts the same"""
        self.assertEqual(self.parts['exact'], self.parts['again'])

    def test_period(self):
        """perf record -a by period samples every CPU; the NMIs are counted on each"""
        lines = self.parts['period']
        found = samples(lines)
        self.assertEqual(sorted(found), list(range(self.cpus)), lines)
        for cpu, number in found.items():
            self.assertGreater(number, 50, cpu)
        before, after = ([int(n) for n in re.findall(r'\b\d+\b', l)] for l in lines if 'NMI:' in l)
        self.assertEqual(len(before), self.cpus)
        for cpu in range(self.cpus):
            self.assertGreaterEqual(after[cpu] - before[cpu], found[cpu] * 0.9, f'CPU {cpu}')


class Thorough(Guest):
    """What needs to be shown once on each model."""
    script = PARTS + SAMPLE + FULL

    def test_stat(self):
        """perf stat: user and kernel add up to all; no event is zero"""
        found = counts(self.parts['stat'])
        self.assertEqual(len(found), 6, self.parts['stat'])
        self.assertTrue(all(count for _, count, _ in found), found)
        user, kernel, both, cycles, branches, misses = (count for _, count, _ in found)
        self.assertEqual(user + kernel, both)
        self.assertLess(misses, branches)
        self.assertLess(branches, both)

    def test_group(self):
        """groups are counted whole, all the time"""
        found = counts(self.parts['group'])
        self.assertEqual(len(found), 4, self.parts['group'])
        self.assertTrue(all(count and share == 100 for _, count, share in found), found)

    def test_all_cpus(self):
        """perf stat -a counts what runs on every CPU"""
        found = {event: count for event, count, _ in counts(self.parts['all'])}
        least = 100 * self.cpus * 120000       # instructions of the loops of shares
        self.assertGreater(found['instructions'], least, found)
        self.assertGreater(found['cycles'], 0)

    def test_many(self):
        """12 events on 8 counters take turns: each has a count, and its share of the time"""
        found = counts(self.parts['many'])
        self.assertGreaterEqual(len(found), 3 * 12, self.parts['many'])
        self.assertEqual(len(found) % 12, 0, self.parts['many'])
        for event, count, share in found:
            self.assertIsNotNone(count, event)
            self.assertTrue(0 < share < 100,
                            '\n'.join([f'{event}: {share} %', *self.parts['many']]))
        exact = self.cpus * 2000 * 40000      # conditional branches of shares
        taken = statistics.median(count for event, count, _ in found if event == 'r11c4')
        self.assertAlmostEqual(taken / exact, 1, delta=0.2)

    def test_detailed(self):
        """perf stat -d -d -d: what is 0 is on the page, as what the default model does not have"""
        note = re.search(r'With the default model.*?are 0', PAGE.read_text(), re.S)[0]
        found = {name: count for name, count, _ in counts(self.parts['detailed'])}
        named = {name for name in re.findall('``(.+?)``', note) if found[name] is not None}
        self.assertGreater(len(named), 1)
        self.assertEqual({name for name, count in found.items()
                          if count == 0 and not name.endswith(('migrations', 'switches'))}, named)

    def test_frequency(self):
        """perf record -a by frequency samples every CPU"""
        found = samples(self.parts['frequency'])
        self.assertEqual(sorted(found), list(range(self.cpus)), self.parts['frequency'])
        self.assertGreater(min(found.values()), 50)

    def test_shares(self):
        """perf report gives two functions their 75 % and 25 % of the instructions within 5 %"""
        found = {m[2]: float(m[1]) for l in self.parts['shares']
                 if (m := re.match(r'\s*([\d.]+)%\s+\[.\] (\w+)', l))}
        self.assertAlmostEqual(found.get('three_quarters', 0), 75, delta=5, msg=found)
        self.assertAlmostEqual(found.get('one_quarter', 0), 25, delta=5, msg=found)

    def test_samples(self):
        """there is one sample for each period of instructions, within 1 %"""
        number = int(self.parts['samples'][0])
        [(_, count, _)] = counts(self.parts['samples'])
        self.assertAlmostEqual(number * 74167 / count, 1, delta=0.01)


class IcelakeOne(Guest, Case):
    model, events = 'Icelake-Server-v6', 'Icelake'
    script = Guest.script + BESIDE

    def test_beside(self):
        """a program that shares its CPU has the counts that it has alone, also of cycles"""
        alone, beside = ([count for _, count, _ in counts(self.parts[part])]
                         for part in ('alone', 'beside'))
        self.assertEqual(len(alone), 4, self.parts['alone'])
        self.assertEqual(beside[:3], alone[:3])
        self.assertGreater(beside[3], alone[3], 'it did not share its CPU')


class IcelakeTwo(Thorough, Case):
    model, events, cpus = 'Icelake-Server-v6', 'Icelake', 2
    packages, script = PACKAGES, Thorough.script + RR

    def test_rr(self):
        """rr records and replays ls, signals with forks and faults, and a dynamic program"""
        lines = self.parts['rr']
        for what in ('record', 'replay', 'same'):
            self.assertEqual([l for l in lines if l.startswith(what)], [f'{what} 0'] * 3, lines)
        sizes = [int(l) for l in lines if l.isdigit()]
        self.assertEqual(len(sizes), 3, lines)
        self.assertGreater(min(sizes), 3, lines)

    def test_watch(self):
        """a debugger goes back and forth in time to where a watched variable changes"""
        lines = self.parts['watch']
        changes = [tuple(map(int, re.findall(r'(?:Old|New) value = (\d+)', ' '.join(pair))))
                   for pair in zip(lines, lines[1:]) if pair[0].startswith('Old value')]
        self.assertEqual(changes, [(121, 40), (40, 13), (13, 4), (4, 13), (13, 40)], lines)


class SapphireOne(Thorough, Case):
    model, events = 'SapphireRapids', 'Sapphire Rapids'


class Off(Case):
    where = 'pmu=off'

    def test_off(self):
        """there is no PMU, and the kernel says what it says on unpatched QEMU"""
        parts = run(PARTS, 'Icelake-Server-v6,pmu=off')
        self.assertIn('Performance Events: unsupported p6 CPU model 106 no PMU driver, '
                      'software events only.', '\n'.join(parts['dmesg']))
        self.assertIn('rdpmc: no counter for instructions:u', parts['exact'][-2])
        self.assertNoTrouble(parts['dmesg'])
