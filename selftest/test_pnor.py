# SPDX-License-Identifier: GPL-2.0-or-later
"""Catalogs of IMC counters, from a device-tree source to perf; formats are tested in C."""

import pathlib
import signal
import subprocess
import tempfile
import unittest

import functional
import imc
import qemu
import ui

IMAGE = qemu.binary(qemu.PNOR + 'pnv-pnor-imc.bin')
CATALOGS = ui.ROOT / qemu.PNOR

functional.need(functional.emulator('ppc64'), IMAGE, *functional.guest_files('power'))


class Boot(unittest.TestCase):
    def check(self, generation):
        machine = f'powernv{generation}'
        # .scale and .unit are attributes of events; some names have a dot, too
        status, lines = functional.in_guest(
            'cd /sys/bus/event_source/devices\n'
            'for pmu in core thread trace; do\n'
            '    echo $pmu $(ls ${pmu}_imc/events | grep -vcE "[.](scale|unit)$")\n'
            'done\n'
            'grep -m1 ^cpu /proc/cpuinfo; grep -m1 ^machine /proc/cpuinfo\n'
            'grep IMC: /sys/firmware/opal/msglog; exit 7', 'power', smp='1',
            machine=f'{machine},imc=off',
            args=['-drive', f'file={IMAGE},format=raw,if=mtd,readonly=on'])
        self.assertEqual(status, 7, "the script's exit status is the command's")
        found = {line.split()[0]: int(line.split()[1]) for line in lines[:3]}
        listed = imc.listed(machine)
        self.assertEqual(found, {pmu: listed[pmu] for pmu in ('core', 'thread', 'trace')})
        self.assertRegex(lines[3], rf'cpu\s*: POWER{generation}\b')
        self.assertIn('PowerNV', lines[4])
        # The catalog was found and expanded; only the nest's microcode is missing.
        self.assertEqual([line.split('IMC: ', 1)[1] for line in lines[5:]],
                         ['IMC: Pausing ucode failed, disabling nest imc'])

    def test_power9(self):
        """skiboot and Linux take all events of the POWER9 catalog"""
        self.check(9)

    def test_power10(self):
        """skiboot and Linux take all events of the POWER10 catalog"""
        self.check(10)


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, *args, status=1):
        done = functional.pmu('pnor', *args)
        self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
        return done.stderr.splitlines()[-1]

    def rows(self, image):
        """What is in an image: {id: numbers of PMUs by kind, and of events}."""
        done = functional.pmu('pnor', '--list', image)
        self.assertEqual(done.returncode, 0)
        return {line.split()[0]: line.split()[3:] for line in done.stdout.splitlines()
                if line.startswith('0x')}

    def made(self, image, *args):
        """Make an image; returns its rows."""
        done = functional.pmu('pnor', *args, '-o', image)
        self.assertEqual((done.returncode, done.stdout), (0, ''), done.stderr)
        # On a busy machine, the progress of the build, ours or another test's; dtc says nothing
        rest = [line for line in done.stderr.splitlines()
                if not line.startswith(('pmu: build', 'pmu: waiting for another pmu'))]
        self.assertEqual(rest, [])
        return self.rows(image)

    def test_built(self):
        """the built image has catalogs for POWER9, 10 and 11; those of 10 and 11 are the same"""
        rows = self.rows(IMAGE)
        self.assertEqual(list(rows), ['0x4e0200', '0x800200', '0x820200'])
        self.assertEqual(rows['0x820200'], rows['0x800200'])
        for machine, catalog in imc.CATALOGS.items():
            self.assertEqual(int(rows[f'0x{catalog}'][4]), sum(imc.listed(machine).values()))

    def test_add(self):
        """a user's catalog joins the base image, and replaces the one of its processor"""
        tiny = self.folder / 'tiny.dts'
        tiny.write_text('''/dts-v1/;
/ {
    compatible = "ibm,opal-in-memory-counters";
    #address-cells = <1>;
    #size-cells = <1>;
    events: core-events {
        #address-cells = <1>;
        #size-cells = <1>;
        event@0 { event-name = "ONE"; reg = <0 8>; };
    };
    core {
        compatible = "ibm,imc-counters";
        type = <4>;
        size = <0x2000>;
        reg = <0x18 8>;
        events = <&events>;
        events-prefix = "CPM_";
    };
};
''')
        one, both = self.folder / 'one', self.folder / 'both'
        built, rows = self.rows(IMAGE), self.made(one, '--catalog', f'0x4e0200={tiny}')
        self.assertEqual(rows['0x4e0200'], ['0', '1', '0', '0', '1'])
        self.assertEqual(rows['0x800200'], built['0x800200'])
        rows = self.made(both, '--base', one, '--catalog', f'0x800200={tiny}')
        power11 = rows.pop('0x820200')
        self.assertEqual(rows, dict.fromkeys(('0x4e0200', '0x800200'), ['0', '1', '0', '0', '1']))
        self.assertEqual(power11, built['0x820200'])

    def test_same_bytes(self):
        """an image is a function of its catalogs"""
        image = self.folder / 'image'
        done = functional.pmu('pnor', '--catalog', f'0x800200={CATALOGS}/pnv-imc-800200.dts',
                              '-o', image)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(image.read_bytes(), IMAGE.read_bytes())

    def test_refused(self):
        """bad ids and files: one line, status 1, and the output as it was"""
        image = self.folder / 'image'
        image.write_bytes(b'mine')
        for catalog, message in (
                (f'0x4e1202={image}', 'skiboot never looks for id 0x4e1202: use 0x4e0200'),
                ('0x4e0200=/nonexistent', '/nonexistent: no such file'),
                ('0x4e0200', "'0x4e0200' is not ID=FILE"),
                (f'0x4e0200={image}', f'dtc cannot compile {image}')):
            with self.subTest(catalog):
                self.assertIn(message, self.refused('--catalog', catalog, '-o', image))
                self.assertEqual(image.read_bytes(), b'mine')
        self.assertEqual([f.name for f in self.folder.iterdir()], ['image'])

    def test_child_ignored(self):
        """dtc's status is seen also below a parent that ignores SIGCHLD, as some daemons do"""
        bad, image = self.folder / 'bad.dts', self.folder / 'image'
        bad.write_text('no dts')
        for source, status in ((CATALOGS / 'pnv-imc-800200.dts', 0), (bad, 1)):
            done = subprocess.run([IMAGE.parent / 'pnv-pnor', '--catalog', f'0x800200={source}',
                                   '-o', image], capture_output=True, preexec_fn=lambda:
                                  signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(done.returncode, status, done.stderr)

    def test_nothing_to_do(self):
        """without a task, the usage"""
        self.assertIn('pmu pnor --help', self.refused(status=2))

    def test_list_alone(self):
        """--list with what it would ignore: one line, status 2, and the output as it was"""
        image = self.folder / 'image'
        image.write_bytes(b'mine')
        catalog = f'0x800200={CATALOGS}/pnv-imc-800200.dts'
        for args in (('--catalog', catalog), ('--base', IMAGE), ('-o', image),
                     ('--catalog', catalog, '--base', IMAGE, '-o', image)):
            with self.subTest(args):
                message = self.refused('--list', IMAGE, *args, status=2)
                self.assertIn('--list goes without --catalog, --base and -o', message)
                self.assertIn('pmu pnor --help', message)
                self.assertEqual(image.read_bytes(), b'mine')
