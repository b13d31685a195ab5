# SPDX-License-Identifier: GPL-2.0-or-later
"""IMC counters over the life of a machine: a new kernel, a reset, and the same life twice."""

import re
import tempfile
import unittest

import boot
import functional
from imc import RECORD

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))

SMP = '4,sockets=1,cores=2,threads=2'
CLOCK = {'powernv9': 'CPM_32MHZ_CYC', 'powernv10': 'CPM_NEST_REF_CLK'}
USER = {'powernv9': 'CPM_CS_INST_USER', 'powernv10': 'CPM_ADJUNCT_INST'}


def trace(log, *events):
    """Options of QEMU that trace events into a file."""
    return [a for e in events for a in ('-trace', e)] + ['-D', str(log)]


class Kexec(unittest.TestCase):
    def kexec(self, machine, append):
        """Lines of a second kernel, and what was written to HTM_MODE before it and by it."""
        with tempfile.TemporaryDirectory() as top:
            log = f'{top}/log'
            lines = functional.in_sound_guest(
                self, 'if ! [ -e /boot/kernel ]; then\n'
                # The second kernel has a small RAM disk, without perf.
                'ls /sys/bus/event_source/devices; exit\nfi\n'
                # perf starts its program once it counts.
                f'perf stat -a -e core_imc/{CLOCK[machine]}/ '
                "sh -c 'touch /tmp/counting; exec sleep 1000' &\n"
                'until [ -e /tmp/counting ]; do sleep 0.1; done\n'
                "(cd /; printf '%s\\n' init bin usr usr/bin usr/bin/busybox pmu pmu/run dev "
                'dev/console proc sys root tmp | cpio -o -H newc) > /tmp/initrd\n'
                f'kexec="console=hvc0 panic=-1 quiet pmu=run {boot.PARAMETERS["power"]} {append}"\n'
                '/usr/sbin/kexec -l /boot/kernel --initrd=/tmp/initrd --append="$kexec" || exit\n'
                # stty returns when the line has left Linux.
                'echo now; stty -echo < /dev/console\n/usr/sbin/kexec -e',
                'power', *trace(log, 'pnv_imc_scom'), machine=machine, smp=SMP, packages=['kexec-tools'],
                files={'/boot/kernel': functional.guest_files('power')[0]})
            with open(log) as file:
                modes = re.findall(r'core (\d) HTM_MODE (0x\w+)', file.read())
        self.assertIn('now', lines)
        start = max(n for n, mode in enumerate(modes) if mode[1] == f'{0xe8 << 56:#x}')
        self.assertEqual({mode[0] for mode in modes[start - 1:start + 1]}, {'0', '1'})
        return lines[lines.index('now'):], modes[start + 1:]

    def test_kdump(self):
        """the kernel of kdump stops the engines, and has no counters"""
        # It knows what it is by this parameter. There is no image of a crash at the address.
        lines, modes = self.kexec('powernv9', 'elfcorehdr=0x10000000')
        self.assertNotIn('_imc', '\n'.join(lines))
        self.assertEqual({*modes}, {(core, f'{0xe0 << 56:#x}') for core in '01'})

    def test_kexec(self):
        """another kernel stops the engines that it finds running, and has counters"""
        lines, modes = self.kexec('powernv10', '')
        for pmu in ('core_imc', 'thread_imc', 'trace_imc', 'nest_pau_imc'):
            self.assertIn(pmu, ' '.join(lines).split())
        self.assertEqual({*modes}, {(core, f'{0xe0 << 56:#x}') for core in '01'})


class Reset(unittest.TestCase):
    def check(self, machine):
        samples, times = [], []

        def hear(line):
            if line == 'up':
                samples.append(count())
                functional.answer()
            elif line == 'running':
                times.append(count())
                if len(times) == 1:
                    functional.qmp('stop')
                    functional.qmp('system_reset')
                    samples.append(count())
                    functional.qmp('cont')
                else:
                    functional.answer()

        def count():
            with open(log) as file:
                return file.read().count('pnv_imc_sample')

        with tempfile.TemporaryDirectory() as top:
            log = f'{top}/log'
            status, lines = functional.in_guest(
                f'echo up\n{functional.WAIT_FOR_ANSWER}\n'
                # perf runs the program once it has started the trace.
                f'{RECORD} -a -o /tmp/data -e trace_imc/trace_cycles/ -c 1 '
                "sh -c 'spin two 1000 & spin two 1; echo running; "
                f"{functional.WAIT_FOR_ANSWER}; kill $!'\n"
                # The counts are posted once in a millisecond of the host, when it has the time.
                f'perf stat -x, -C 2 -e core_imc/{USER[machine]}/ '
                "sh -c 'taskset -c 2 spin count 100; sleep 0.1' 2>&1",
                'power', hear, machine=machine, smp=SMP,
                args=['-action', 'reboot=reset',
                      *trace(log, 'pnv_imc_sample')])
        self.assertEqual(status, 0, '\n'.join(lines))
        # None at first, some until the reset, and no more until perf starts again
        self.assertEqual((len(samples), len(times), samples[0]), (3, 2, 0))
        self.assertGreater(times[0], 1000)
        self.assertEqual(samples[2], samples[1])
        self.assertGreater(times[1], samples[1] + 1000)
        [found] = [int(line.split(',')[0]) for line in lines if 'core_imc/' in line]
        self.assertAlmostEqual(found, 100e6, delta=2e6)

    def test_power9(self):
        """POWER9: a reset while traces are taken stops them, and all works again"""
        self.check('powernv9')

    def test_power10(self):
        """POWER10: a reset while traces are taken stops them, and all works again"""
        self.check('powernv10')

    def test_availability(self):
        """the kernel sees a changed availability vector when it starts again, and not before"""
        look = 'ls /sys/bus/event_source/devices | grep ^nest_'
        seen = []

        def hear(line):
            if line.startswith('seen '):
                seen.append(line.split()[1:])
            if line == 'ready' and len(seen) == 1:
                # Bit 0 is the bus; bits 11 to 13 say what link 0 is.
                functional.qmp('qom-set', path='/machine/chip[0]/imc', property='uav',
                        value=1 << 63 | 6 << 50)
            if line == 'changed' and len(seen) == 2:
                functional.qmp('system_reset')
            elif line in ('ready', 'changed'):
                functional.answer()

        status, lines = functional.in_guest(
            f'echo seen $({look})\necho ready\n{functional.WAIT_FOR_ANSWER}\n'
            f'echo seen $({look})\necho changed\n{functional.WAIT_FOR_ANSWER}\n', 'power', hear, machine='powernv10', smp=SMP,
            args=['-action', 'reboot=reset'])
        self.assertEqual(status, 0, '\n'.join(lines))
        self.assertEqual(len(seen), 4, seen)
        self.assertIn('nest_phb0_0_imc', seen[0])
        self.assertEqual(seen[1], seen[0])
        self.assertEqual({*seen[2]}, {'nest_pb_imc', 'nest_alink0_imc', 'nest_pau_imc',
                                      'nest_mcs01_imc', 'nest_mcs23_imc'})
        self.assertEqual(seen[3], seen[2])
