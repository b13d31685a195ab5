# SPDX-License-Identifier: GPL-2.0-or-later
"""The sample driver of the nest, guest/drivers/nest_imc, and the page that shows how to use it."""

import re
import tempfile
import unittest

import functional
import ui
from pages import Page

MODULE = ui.BUILD / 'guest/power/modules/nest_imc/nest_imc.ko'
functional.need(functional.emulator('ppc64'), *functional.guest_files('power'), MODULE)

AREA = 0x180000                         # in HOMER: the counters, docs/system/ppc/pnv-imc.rst
CHIPS = (0, 1)
GIB = 1 << 30                           # RAM of each chip
READS = 'nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01/'
# Events whose words are far from each other; the clocks count at a fixed frequency in Hz.
EVENTS = {'nest_powerbus0_imc/PM_PB_EVENT_VG_PUMP/': None, 'nest_powerbus0_imc/PM_PB_CYC/': 2e9,
          READS: None, 'nest_mcs23_imc/PM_MCS23_128B_WR_DISP_PORT23/': None,
          'nest_phb0_imc/PM_PHB0_CYC/': 1e9, 'nest_phb5_imc/PM_PHB5_LD_RESP_FROM_PCIE/': None,
          'nest_nx_imc/PM_NX_DMA_STALLED/': None}


def places():
    """{perf's name of an event: (offset, scale)} of the public catalog of POWER9."""
    text = (ui.ROOT / 'tests/unit/pnv-imc-4e0200.txt').read_text()
    rows = [line.split() for line in text.splitlines() if not re.match('#|trace ', line)]
    return {f'nest_{unit}_imc/{event}/': (int(offset, 0), int(scale))
            for unit, event, offset, scale in rows}


PLACES = places()


def insert(event=READS, interval_ms=100):
    return f'insmod /root/nest_imc.ko event={event} interval_ms={interval_ms} || exit 90\n'


REMOVE = 'rmmod nest_imc || exit 91\n'
# Wait until something is true: a busy host needs its time for what it is asked to do.
WAIT = 'until_true() { for i in $(seq 600); do eval "$1" && return; sleep 0.1; done; exit 92; }\n'
LOG = """until_true '[ $(dmesg | grep -c "nest_imc: chip 1: .* posts") -ge 2 ]'
dmesg | grep -o 'nest_imc: chip.*'
"""
# A word of the area of a chip, in hexadecimal
WORD = '''word() {
    dd if=/sys/firmware/opal/exports/imc_nest_chip_$1 bs=8 skip=$(($2 / 8)) count=1 2> /dev/null |
        hexdump -v -e '1/1 "%02x"'
}
status() { echo "status $(word 0 0x3fc00 | tail -c 1) $(word 1 0x3fc00 | tail -c 1)"; }
'''


def hear(line):
    """Set what the guest asks for, which waits for it."""
    if match := re.fullmatch('wrap ([0-9a-f]{16})', line):
        line = f'set nest-add@0=MCS01*128B_RD*PORT01={(1 << 64) - 100 - int(match[1], 16)}'
    if line.startswith('set '):
        done = functional.pmu('set', '--guest', functional.in_guest.options.guest, line[4:])
        assert done.returncode == 0, f'{line}: {done.stderr}'


class Driver(functional.OneGuest):
    """Two chips, and a made-up rate for each word that is no clock"""
    boot = {'name': 'power', 'smp': '2,sockets=2,cores=1,threads=1', 'memory': '2G', 'hear': hear,
            'args': ['-global', 'pnv-imc.nest-synthetic=demo'],
            'files': {'/root/nest_imc.ko': MODULE}}

    def check_counts(self, lines, event=READS):
        """Each count is that of so many posts; returns {chip: [posts of each line]}."""
        (offset, scale), hz = PLACES[event], EVENTS[event]
        found = {chip: [] for chip in CHIPS}
        # Up to a read of both chips
        last = max((n for n, line in enumerate(lines) if 'nest_imc: chip 1:' in line), default=0)
        for line in lines[:last + 1]:
            if match := re.fullmatch(
                    r'nest_imc: chip (\d): (\d+) posts, count (\d+) x (\d+) events', line):
                chip, posts, count, factor = map(int, match.groups())
                # A post is due each millisecond. What is less than a count stays for the next one.
                amount = hz / 1000 / scale if hz else offset / 8 + 512 * chip
                self.assertLess(abs(count - posts * amount), 1, line)
                self.assertEqual(factor, scale)
                found[chip].append(posts)
        return found

    @functional.part(lambda cls: WAIT + WORD + ''.join(
        f'dmesg -c > /dev/null; echo "event {event} 0x$(word 0 0)"\n'
        f'{insert(event)} {LOG} {REMOVE} echo "end 0x$(word 0 0)"\n' for event in EVENTS))
    def test_counts(self, lines):
        """clocks and made-up rates, on each chip: each count is the rate times the posts"""
        for event in EVENTS:
            [(start, before)] = [(n, int(line.split()[2], 0)) for n, line in enumerate(lines)
                                 if line.startswith(f'event {event}')]
            [end, after] = next((n, int(line.split()[1], 0)) for n, line in enumerate(lines)
                                if line.startswith('end ') and n > start)
            found = self.check_counts(lines[start:end], event)
            for chip in CHIPS:
                homer = (chip + 1) * GIB - (4 << 20)
                self.assertIn(f'nest_imc: chip {chip}: {event} is at {homer + AREA:#x} + '
                              f'{PLACES[event][0]:#x}', lines[start:end])
                self.assertGreaterEqual(len(found[chip]), 2, lines[start:end])
                self.assertLessEqual(sum(found[chip]), after - before)

    @functional.part(lambda cls: WAIT + WORD + f'''
        status; {insert()} status; {REMOVE} status
        perf stat -a -e {READS} sleep 1000 2> /dev/null & pid=$!
        until_true '[ "$(status)" = "status 1 1" ]'; {insert()} status; {REMOVE} status
        {insert()} kill $pid; wait; until_true '[ "$(status)" = "status 1 1" ]'
        {REMOVE} status''')
    def test_engines(self, lines):
        """loading resumes paused counters and unloading pauses them, but not those of perf"""
        self.assertEqual([line for line in lines if line.startswith('status')],
                         [f'status {n} {n}' for n in (2, 1, 2, 1, 1, 2)])

    @functional.part(lambda cls: WAIT + WORD + f'''
        old=$(word 0 0xd0); echo "wrap $old"; until_true '[ $(word 0 0xd0) != $old ]'
        word 0 0xd0; echo; {insert()} {LOG} {REMOVE} word 0 0xd0; echo''')
    def test_wrap(self, lines):
        """a count is right when its counter wraps at 2^64"""
        words = [int(line, 16) for line in lines if re.fullmatch('[0-9a-f]{16}', line)]
        self.assertEqual(words[0], (1 << 64) - 100)
        self.assertLess(words[1], 1 << 63)
        # 100 posts add 26 each: the first line has the wrap.
        self.assertTrue(self.check_counts(lines)[0])

    @functional.part(lambda cls: WAIT + f'''
        {insert()}
        echo 'set nest-fault@0=0=torn'; until_true '[ $(dmesg | grep -c "does not end") -ge 3 ]'
        dmesg -c | grep -o 'nest_imc: chip.*'
        echo 'set nest-fault@0='; until_true "dmesg | grep -q 'chip 0: .*posts'"
        {LOG} {REMOVE}''')
    def test_torn(self, lines):
        """a half post is reported and not counted; its chip's next count has all of the time"""
        torn = [n for n, line in enumerate(lines) if 'chip 0: a post does not end' in line]
        self.assertGreaterEqual(len(torn), 3)
        self.assertFalse([line for line in lines if 'chip 1: a post' in line])
        found = self.check_counts(lines)
        # Both chips are read at the same times, and the gap of chip 0 is closed.
        gap = sum(self.check_counts(lines[torn[0]:torn[-1] + 2])[1])
        self.assertLess(abs(sum(found[0]) - sum(found[1])), gap / 2)

    @functional.part(lambda cls: WAIT + f'''
        {insert()}
        echo 'set nest-fault@0=0=late'; until_true '[ $(dmesg | grep -c " 0 posts, count 0 ") -ge 3 ]'
        echo 'set nest-fault@0='
        until_true 'dmesg | grep "chip 0" | tail -n 1 | grep -q " [1-9][0-9]* posts"'
        {LOG} {REMOVE}''')
    def test_late(self, lines):
        """posts that are late are in the next count"""
        first, second = self.check_counts(lines).values()
        late = sum(posts for nothing, posts in zip(first, second) if not nothing)
        self.assertGreater(late, 0)
        self.assertLess(abs(sum(first) - sum(second)), late / 2)

    @functional.part(lambda cls: '''
        insmod /root/nest_imc.ko event=nest_mcs01_imc/NONE/ 2>&1 && exit 10
        insmod /root/nest_imc.ko 2>&1 && exit 11
        dmesg | grep -o 'nest_imc: no.*' ''')
    def test_wrong_event(self, lines):
        """without an event that exists, the driver says where their names are"""
        where = 'see /sys/bus/event_source/devices/nest_*/events'
        # busybox tries twice.
        found = dict.fromkeys(line for line in lines if line.startswith('nest_imc'))
        self.assertEqual([*found], [f"nest_imc: no event 'nest_mcs01_imc/NONE/': {where}",
                                    f"nest_imc: no event '': {where}"])


class Commands(unittest.TestCase):
    def test_without_nest(self):
        """on a machine without imc=on, loading fails, and `pmu boot` shows why"""
        with tempfile.NamedTemporaryFile('w', suffix='.sh') as script:
            script.write('#!/bin/sh\necho it runs\n')
            script.flush()
            done = functional.pmu('boot', 'power', '--machine', 'powernv9,imc=off', '--smp', '1',
                                  '--run', script.name, '--module', f'{MODULE}:event={READS}')
        self.assertEqual(done.returncode, 1)
        self.assertIn('nest_imc: no nest units in the device tree: is this powernv with imc=on?',
                      done.stdout)
        self.assertNotIn('it runs', done.stdout)

    def test_page(self):
        """the commands of docs/pnor.md: own events count as asked, for perf and for the driver"""
        page = Page('pnor.md')
        lines = page.run(type(self))
        self.assertEqual(page.missing(lines), set())
        [(seconds, *_)] = [line.split() for line in lines if 'seconds time elapsed' in line]
        # Rates are per microsecond, the clock has 2 GHz, and a post comes each millisecond. perf reads
        # the counters one after another, so that a host that stands still lets any number of posts
        # be between them, but a count is always one of whole posts.
        for event, per_post in (('ACCEL_REQUESTS', 10e3), ('ACCEL_DATA', 640e3),
                                ('PAU_STALL_CYC', 2e6)):
            [row] = [line.split() for line in lines if re.match(r'S0 .*PM_' + event, line)]
            posts = int(row[2]) / per_post
            self.assertAlmostEqual(posts, round(posts), delta=0.01, msg=event)
            # perf starts before the program and stops after it.
            self.assertTrue(950 * float(seconds) < posts < 2000 * float(seconds), (event, posts))
        # 640 bytes each microsecond are 10,000 counts of 64 bytes a millisecond. The other guest
        # reads word 26 of 512, whose made-up rate is its number.
        found = [re.search(r'chip (\d): (\d+) posts, count (\d+) x (.*)', line) for line in lines]
        # On a busy host, a time may have no post.
        self.assertEqual([m[0] for m in found if m and not int(m[2]) and int(m[3])], [])
        rows = {(int(m[1]), m[4], int(m[3]) / int(m[2])) for m in found if m and int(m[2])}
        self.assertEqual(rows, {(0, '64 B', 10000), (0, '256 events', 26),
                                (1, '256 events', 512 + 26)})
