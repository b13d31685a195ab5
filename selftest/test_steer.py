# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu set` and `pmu watch`: names, tables and counters, with a made-up monitor."""

import argparse
import contextlib
import io
import pathlib
import struct
import tempfile
import threading
import unittest
from unittest import mock

import monitor
import steer
import ui

# A machine with two chips, whose properties are in the wrong order, as in QEMU's hash table
CHILDREN = ('chip[1]', 'chip[0]', 'rtc')
AREAS = {0: 0x3fd80000, 1: 0x7fd80000}
CORE = 0x100000
TREE = ''.join(f'  {base:016x}-{base + 0x3ffff:016x} (prio 1, i/o): pnv-imc-nest '
               f'owner:{{dev path=/machine/chip[{chip}]/imc}}\n' for chip, base in AREAS.items())


class Machine:
    """Stands in for QEMU: `memory` is {address: 64-bit words by offset}."""

    def __init__(self, memory=()):
        self.memory, self.set = dict(memory), []

    def cmd(self, command, **given):
        return getattr(self, command.replace('-', '_'))(**given)

    def qom_get(self, path, property):
        if property == 'engines':
            # It counts, but has no page for its counters yet: its address is 0.
            thread = {'counts': True, 'address': 0, 'posts': 0, 'pir': 4}
            return [{'core': 3, 'counts': path == '/machine/chip[1]/imc', 'address': CORE,
                     'threads': [thread]}]
        return {'type': 'powernv9-machine'}.get(property, '')

    def qom_list(self, path):
        names = CHILDREN if path == '/machine' else ('imc',) if path.endswith(']') else \
            ('nest-synthetic', 'core-add', 'uav')
        return [{'name': name, 'type': ''} for name in names]

    def query_commands(self):
        return [{'name': 'qom-set'}]

    def qom_set(self, **given):
        self.set.append(tuple(given.values()))

    def human_monitor_command(self, **given):
        return TREE

    def pmemsave(self, val, size, filename):
        data = bytearray(size)
        for offset, value in self.memory.get(val, {}).items():
            struct.pack_into('>Q', data, offset, value)
        pathlib.Path(filename).write_bytes(data)


class Steer(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        # In the public catalog, the word of mcs01 at 0xd0 counts by 256, a core's at 0xa0 by 512
        self.machine = Machine({
            AREAS[0]: {0xd0: 3}, AREAS[1]: {0xd0: 5}, CORE: {0xa0: 2},
            0: dict.fromkeys(range(0, steer.PAGE, 8), 9)})      # no counters
        self.guest = steer.Guest(self.machine, temp.name)

    def test_places(self):
        """counters are read where the catalog has them, on the right chip, times their scale

        A thread that has no page has no counters.
        """
        name = 'mcs01/PM_MCS01_128B_RD_DISP_PORT01'
        self.assertEqual([(row.where, row.name, row.value) for row in steer.rows(self.guest)],
                         [('chip 0', name, 3 * 256), ('chip 1', name, 5 * 256),
                          ('chip 1 core 3', 'CPM_32MHZ_CYC', 2 * 512)])

    def test_set(self):
        """a property is set on all chips, or on the one behind @; numbers are numbers"""
        with contextlib.redirect_stdout(io.StringIO()):
            steer.assign(self.guest, ['nest-synthetic@1=demo', 'uav=0X10'])
        self.assertEqual(self.machine.set, [
            ('/machine/chip[1]/imc', 'nest-synthetic', 'demo'),
            ('/machine/chip[0]/imc', 'uav', 16), ('/machine/chip[1]/imc', 'uav', 16)])

    def test_complete(self):
        """a part of an event's name is enough if it is the only one; @N and offsets stay"""
        full = 'mcs01/PM_MCS01_128B_RD_DISP_PORT01'
        for given, found in (('MCS01_128B_RD*port01=rate:40', f'{full}=rate:40'),
                             ('mcs01_128b_rd*port01@1=const:2', f'{full}@1=const:2'),
                             (f'{full}=hash,0xd8=rate:1', f'{full}=hash,0xd8=rate:1'),
                             ('nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01=hash',
                              'nest_mcs01_imc/PM_MCS01_128B_RD_DISP_PORT01=hash'),
                             # of a catalog of the user's
                             ('nest_accel_imc/PM_ACCEL_DATA=hash',
                              'nest_accel_imc/PM_ACCEL_DATA=hash'), ('demo', 'demo'), ('', ''),
                             # What only QEMU knows, which also says what is wrong with it
                             ('accel/X=hash', 'accel/X=hash'), ('XYZ=hash', 'XYZ=hash'),
                             (f'{full}-mcs01/PM_X@1=hash', f'{full}-mcs01/PM_X@1=hash')):
            self.assertEqual(self.guest.complete('nest-synthetic', given), found)
        for name in 'core_imc/CPM_TM_PASSED', 'CPM_MINE@0x4':
            self.assertEqual(self.guest.complete('core-synthetic', f'{name}=const:4'),
                             f'{name}=const:4')
        self.assertEqual(self.guest.complete('core-add', '32MHZ_CYC_USER=5'),
                         'CPM_CS_32MHZ_CYC_USER=5')
        self.assertEqual(self.guest.complete('faults', 'MCS01=x'), 'MCS01=x')

    def test_mistakes(self):
        """a setting that means nothing is refused with what there is, before any other is made"""
        for setting, why in (('nope=1', 'with one of these names: topdown-mix'),
                             ('uav=016', 'uav=016: expected a number'),
                             (f'uav=0x1{"0" * 5000}', 'expected a number'),
                             ('uav', 'expected NAME=VALUE'), ('uav=\udcff', 'only ASCII'), ('uav@2=1', 'nothing of that number with this'),
                             ('faults=x', 'nothing with this'),
                             ('nest-synthetic=RD_DISP=hash', 'events have this: mcs01/')):
            with self.assertRaisesRegex(ui.Fail, why) as caught:
                steer.assign(self.guest, ['uav=1', setting])
            self.assertEqual(caught.exception.status, 1 if why.startswith('nothing') else 2)
        self.assertEqual(self.machine.set, [])

    def run_set(self, *settings, events=None):
        """What `pmu set` prints for this guest."""
        self.given = []

        @contextlib.contextmanager
        def of_guest(name):
            self.given.append(name)
            yield self.machine

        opt = argparse.Namespace(guest='power-2', events=events, settings=settings)
        with tempfile.TemporaryDirectory() as folder, mock.patch('monitor.of_guest', of_guest), \
                mock.patch.multiple(ui, BUILD=pathlib.Path(folder)), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            steer.cmd_set(opt)
        self.assertEqual(self.given, ['power-2'])
        return out.getvalue().splitlines()

    def test_command(self):
        """settings are made and printed; --events lists names, whatever their case"""
        self.assertEqual(self.run_set('uav@0=3', 'core-add=32MHZ_CYC_USER=5'), [
            '/machine/chip[0]/imc uav=3',
            *(f'/machine/chip[{n}]/imc core-add=CPM_CS_32MHZ_CYC_USER=5' for n in (0, 1))])
        self.assertEqual(len(self.machine.set), 3)
        self.assertEqual(self.run_set(events='mcs01_128b_rd*'), [])
        self.assertEqual(self.run_set(events='mcs01/pm_MCS01_128b_rd'),
                         [f'mcs01/PM_MCS01_128B_RD_DISP_PORT{ports}' for ports in ('01', '23')])
        self.assertGreater(len(self.run_set(events='')), 300)
        self.assertEqual(len(self.machine.set), 3)
        with mock.patch.object(steer, 'CATALOGS', {}), \
                self.assertRaisesRegex(ui.Fail, 'no events of in-memory collection'):
            self.run_set(events='')

    def test_show(self):
        """without settings, what can be set is shown, with its value, if that can be read"""
        class Unreadable(Exception):
            pass

        def qom_get(path, property):
            if property == 'core-add':
                raise Unreadable
            return {'type': 'powernv9-machine', 'uav': 7}.get(property, '')

        self.machine.qom_get = qom_get
        self.machine.qom_list_properties = lambda typename: [
            {'name': 'uav', 'description': 'units that are there'}, {'name': 'core-add'}]
        with mock.patch('monitor.library', lambda: mock.Mock(QMPError=Unreadable)):
            self.assertEqual(self.run_set(), [line for n in (0, 1) for line in (
                f'/machine/chip[{n}]/imc nest-synthetic=', f'/machine/chip[{n}]/imc core-add=',
                f'/machine/chip[{n}]/imc uav=7', '    units that are there')])

    def test_arm(self):
        """counters of Arm's CPUs with their events; none of those is to be steered"""
        counter = {'name': 'PMEVCNTR0', 'event': 'LD_RETIRED', 'value': 7, 'state': 'filtered'}
        self.machine.query_commands = lambda: [{'name': 'query-pmu'}]
        self.machine.query_pmu = lambda: [
            {'cpu-index': 0, 'kind': 'emulated-arm', 'qom-path': '/cpu', 'counters': [
                counter, {**counter, 'name': 'PMEVCNTR1', 'value': 0}]}]
        guest = steer.Guest(self.machine, '/nonexistent')
        guest.imcs = {}
        self.assertEqual(list(steer.rows(guest)), [
            steer.Row('CPU 0', 'PMEVCNTR0 LD_RETIRED', 7, 'filtered')])
        with self.assertRaisesRegex(ui.Fail, 'no PMU that can be steered'):
            guest.objects()

    def test_x86(self):
        """counters with their events, at 0 only while they count, and metrics as a tree"""
        counter = {'name': 'fixed3', 'event': 'TOPDOWN.SLOTS', 'value': 1000, 'state': 'counting'}
        cpus = [{'cpu-index': 0, 'kind': 'off'},
                {'cpu-index': 1, 'kind': 'emulated', 'counters': [
                    counter, {**counter, 'name': 'gp0', 'value': 0, 'state': 'disabled'},
                    {'name': 'gp1', 'event': 'LLC_MISSES', 'value': 0, 'state': 'counting'}],
                 'perf-metrics': {'value': 1, 'memory-bound': 20.0, 'retiring': 70.0}}]
        self.assertEqual(list(steer.cpu_rows(cpus)), [
            steer.Row('CPU 0', 'PMU', 'off'),
            steer.Row('CPU 1', 'fixed3 TOPDOWN.SLOTS', 1000, 'counting'),
            steer.Row('CPU 1', 'gp1 LLC_MISSES', 0, 'counting'),
            steer.Row('CPU 1', 'retiring', '70.0 %'), steer.Row('CPU 1', 'memory-bound', '20.0 %')])

    def test_dies(self):
        """each die of Arm has rows for its records and its run; @N sets a property of one die"""
        values = {'records': 7, 'state': 'counting', 'run': 2, 'error': 'bus',
                  'type': 'virt-machine'}
        self.machine.qom_get = lambda path, property: values[property]
        self.machine.qom_list = lambda path: [{'name': name} for name in (
            ('pmcu[1]', 'pmcu[0]') if path == '/machine' else ('faults', 'synthetic-seed'))]
        guest = steer.Guest(self.machine, '/nonexistent')
        self.assertEqual(list(steer.rows(guest)), [
            row for die in ('die 0', 'die 1') for row in (
                steer.Row(die, 'records', 7, 'counting'), steer.Row(die, 'run', 2, 'bus'))])
        with contextlib.redirect_stdout(io.StringIO()):
            steer.assign(guest, ['faults@1=x', 'synthetic-seed@0=0x10'])
        self.assertEqual(self.machine.set, [('/machine/pmcu[1]', 'faults', 'x'),
                                            ('/machine/pmcu[0]', 'synthetic-seed', 16)])

    def test_catalogs(self):
        """each machine has the events of its own processor; nest-fault takes no events"""
        names = {'powernv9': 'PM_ALINK0_OUT_EVEN_AVLBL_CYC',
                 'powernv10': 'PM_ALINK0_OUT_EVEN_AVLBL_CYCLES'}
        for machine, own in ('powernv9', 'powernv9'), ('powernv10', 'powernv10'), \
                ('powernv10-rainier', 'powernv10'):
            self.guest.machine = machine
            known = {event for _, event, _, _ in self.guest.catalog()}
            self.assertEqual(known & {*names.values()}, {names[own]}, machine)
        self.assertEqual(self.guest.complete('nest-fault', '0=late'), '0=late')

    def test_table(self):
        """a rate is the growth for each second, also 0; a new or restarted counter has none

        Nor has a value that is no number.
        """
        before = [steer.Row('a', 'x', 100), steer.Row('a', 'y', 100), steer.Row('a', 'z', '1 %'),
                  steer.Row('a', 'w', 3)]
        now = [steer.Row('a', 'x', 5100), steer.Row('a', 'y', 7), steer.Row('a', 'z', '2 %'),
               steer.Row('b', 'x', 9), steer.Row('a', 'w', 3)]
        lines = [line.split() for line in steer.table(now, before, 2)][1:]
        self.assertEqual(lines, [['a', 'x', '5,100', '2,500'], ['a', 'y', '7'], ['a', 'z', '2', '%'],
                                 ['b', 'x', '9'], ['a', 'w', '3', '0']])


class Watch(unittest.TestCase):
    def watch(self, *guests, only='', count=None, interval=0):
        """What watch prints of these (Machine or error), one for each table."""
        guests = iter(guests)

        @contextlib.contextmanager
        def of_guest(_):
            found = next(guests)
            if isinstance(found, Exception):
                raise found
            yield found

        opt = argparse.Namespace(guest='power', only=only, interval=interval, count=count)
        with mock.patch.multiple(monitor, of_guest=of_guest, running=lambda: ['power']), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            steer.cmd_watch(opt)
        return out.getvalue()

    def test_end(self):
        """watch ends well when the guest ends, also in the middle of a table, and fails without"""
        text = self.watch(Machine(), Machine(), monitor.Gone('the guest has ended'))
        first, second = text.split('\n\n')
        self.assertRegex(first, '^where .*value')
        self.assertEqual(len(first.splitlines()), len(second.splitlines()))
        for errors in ([monitor.Gone('no guest is running')], [Machine(), ui.Fail('does not answer')]):
            with self.assertRaises(ui.Fail) as caught:
                self.watch(*errors)
            self.assertEqual(caught.exception, errors[-1])

    def test_rates(self):
        """as many tables as wanted, of counters that have a text; rates are for each second"""
        clock = mock.Mock(**{'monotonic.side_effect': (1000, 1004)})
        with mock.patch.object(steer, 'time', clock):
            text = self.watch(*(Machine({AREAS[0]: {0xd0: n}, AREAS[1]: {0xd0: n}})
                                for n in (100, 300)), only='CHIP 0', count=2, interval=3)
        clock.sleep.assert_called_once_with(3)
        rows = [line.split() for line in text.splitlines() if line.startswith('chip')]
        name = 'mcs01/PM_MCS01_128B_RD_DISP_PORT01'
        self.assertEqual(rows, [['chip', '0', name, '25,600'],
                                ['chip', '0', name, '76,800', '12,800']])

    def test_same(self):
        """without a name, the only guest is watched, also after other guests have started"""
        for given, names, asked in (('', [['arm'], ['arm', 'x86']], ['arm', 'arm']),
                                    ('x86', [['arm'], ['arm']], ['x86', 'x86'])):
            seen, running = [], iter(names)

            @contextlib.contextmanager
            def of_guest(name, seen=seen):
                seen.append(name)
                yield Machine()

            opt = argparse.Namespace(guest=given, only='', interval=0, count=2)
            with mock.patch.multiple(monitor, of_guest=of_guest, running=running.__next__), \
                    contextlib.redirect_stdout(io.StringIO()):
                steer.cmd_watch(opt)
            self.assertEqual(seen, asked)


class Names(unittest.TestCase):
    def test_which(self):
        """without a name, it must be the only guest; else the line has the names"""
        for running, name, kind, why in (
                ([], '', monitor.Gone, 'no guest is running; start one'),
                ([], 'arm', monitor.Gone, 'no guest is running; start one .*--base'),
                (['arm', 'x86'], '', ui.Fail, 'several guests are running; say which: arm, x86 '),
                (['x86', 'x86-2'], 'arm', monitor.Gone,
                 'arm: no such guest is running; say which: x86, x86-2 ')):
            with mock.patch('monitor.running', lambda running=running: running), \
                    self.assertRaisesRegex(ui.Fail, f'^{why}') as caught:
                with monitor.of_guest(name):
                    self.fail('there is none')
            self.assertIs(type(caught.exception), kind)

    def test_silent(self):
        """a guest whose monitor does not answer, or is not there: its name"""
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                monitor, FOLDER=pathlib.Path(folder), PATIENCE=0.1), monitor.guest('arm'):
            for name in '', 'arm':
                with self.assertRaisesRegex(ui.Fail, '^the monitor of arm does not answer; '), \
                        monitor.of_guest(name):
                    self.fail('nobody answers')
            pathlib.Path(folder, 'arm').unlink()
            with self.assertRaisesRegex(monitor.Gone, '^the monitor of arm: No such file'), \
                    monitor.of_guest():
                self.fail('nobody is there')

    def test_stopped(self):
        """a QEMU that stops after its greeting, or after a command: one line, in time"""
        try:
            monitor.library()
        except ImportError:
            self.skipTest("QEMU's source is not prepared")
        greeting = b'{"QMP": {"version": {"qemu": {}, "package": ""}, "capabilities": []}}\n'
        for text in greeting, greeting + b'{"return": {}, "id": null}\n':
            with self.subTest(text), tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                    monitor, FOLDER=pathlib.Path(folder), PATIENCE=0.1), \
                    monitor.guest('arm') as (_, listener):
                def serve():
                    with listener.accept()[0] as connection:
                        connection.sendall(text)
                        over.wait()

                over = threading.Event()
                server = threading.Thread(target=serve)
                server.start()
                try:
                    with self.assertRaisesRegex(ui.Fail, '^the monitor of arm does not answer; '), \
                            monitor.of_guest() as qmp:
                        qmp.cmd('query-status')
                finally:
                    over.set()
                    server.join()

    def test_looked_at(self):
        """a guest gets the first free name, also while another pmu looks which guests run"""
        real, looked, tried = ui.try_lock, threading.Event(), threading.Event()

        def try_lock(path):
            found = real(path)
            if threading.current_thread() is other:
                if path.name == 'arm.lock':         # keep it until the new guest has come so far
                    looked.set()
                    tried.wait(60)
            elif not found or path.name == 'arm.lock':
                tried.set()
            return found

        other = threading.Thread(target=monitor.running)
        with tempfile.TemporaryDirectory() as folder, mock.patch('ui.try_lock', try_lock), \
                mock.patch.multiple(monitor, FOLDER=pathlib.Path(folder)):
            pathlib.Path(folder, 'arm.lock').touch()
            other.start()
            self.assertTrue(looked.wait(60))
            with monitor.guest('arm') as (name, _):
                self.assertEqual((name, monitor.running()), ('arm', ['arm']))
            self.assertEqual(monitor.running(), [])
            other.join()
