# SPDX-License-Identifier: GPL-2.0-or-later
"""IMC counters over the life of a machine: what changes while it runs, a reset, and a new kernel."""

import re
import tempfile
import unittest

import boot
import functional
from imc import RECORD, link_vector

functional.need(functional.emulator('ppc64'), *functional.guest_files('power'))

CLOCK = {'powernv9': 'CPM_32MHZ_CYC', 'powernv10': 'CPM_NEST_REF_CLK'}
USER = {'powernv9': 'CPM_CS_INST_USER', 'powernv10': 'CPM_ADJUNCT_INST'}


class Life:
    """A machine that is reset while traces are taken; then its kernel starts another one."""

    append = ''         # for the other kernel
    uav = 0             # an availability vector to set while the first kernel runs

    @classmethod
    def script(cls):
        """All kernels run it, the first one until the reset."""
        look = 'echo seen $(ls /sys/bus/event_source/devices | grep ^nest_)'
        return f'''
            if ! [ -e /boot/kernel ]; then
                # The other kernel has a small RAM disk, without perf.
                ls /sys/bus/event_source/devices; exit
            fi
            {look}; echo ready; {functional.WAIT_FOR_ANSWER}; {look}
            echo up; {functional.WAIT_FOR_ANSWER}
            # perf runs the program once it has started the trace.
            {RECORD} -a -o /tmp/data -e trace_imc/trace_cycles/ -c 1 \\
                sh -c 'spin two 1000 & spin two 0.3; echo running; {functional.WAIT_FOR_ANSWER}; kill $!'
            # The counts are posted once in a millisecond of the host, when it has the time.
            perf stat -x, -C 1 -e core_imc/{USER[cls.machine]}/ \\
                sh -c 'taskset -c 1 spin count 100; sleep 0.1' 2>&1
            # perf starts its program once it counts.
            perf stat -a -e core_imc/{CLOCK[cls.machine]}/ \\
                sh -c 'touch /tmp/counting; exec sleep 1000' &
            until [ -e /tmp/counting ]; do sleep 0.1; done
            (cd /; printf '%s\\n' init etc etc/fstab bin usr usr/bin usr/bin/busybox pmu pmu/run dev \\
                dev/console proc sys root tmp | cpio -o -H newc) > /tmp/initrd
            kexec="console=hvc0 panic=-1 quiet pmu=run {boot.PARAMETERS["power"]} {cls.append}"
            # -i: no digest of what is loaded, which takes seconds before the start and again in it
            /usr/sbin/kexec -i -l /boot/kernel --initrd=/tmp/initrd --append="$kexec" || exit
            # stty returns when the line has left Linux.
            echo now; stty -echo < /dev/console
            /usr/sbin/kexec -e'''

    @classmethod
    def setUpClass(cls):
        # Units of the nest; samples that have been taken by "up" and the reset, and by "running"
        cls.seen, cls.samples, cls.times = [], [], []
        with tempfile.TemporaryDirectory() as top:
            cls.log = f'{top}/log'
            cls.status, cls.lines = functional.in_guest(
                cls.script(), 'power', cls.hear, machine=cls.machine,
                smp='2,sockets=1,cores=2,threads=1', packages=['kexec-tools'],
                files={'/boot/kernel': functional.guest_files('power')[0]},
                args=['-action', 'reboot=reset', '-trace', 'pnv_imc_sample', '-trace',
                      'pnv_imc_scom', '-D', cls.log])
            with open(cls.log) as file:
                cls.modes = re.findall(r'core (\d) HTM_MODE (0x\w+)', file.read())

    @classmethod
    def count(cls):
        """How many samples have been taken."""
        with open(cls.log) as file:
            return file.read().count('pnv_imc_sample')

    @classmethod
    def hear(cls, line):
        if line.startswith('seen '):
            cls.seen.append(line.split()[1:])
        elif line == 'ready':
            if cls.uav and len(cls.seen) == 1:
                functional.qmp('qom-set', path='/machine/chip[0]/imc', property='uav',
                               value=cls.uav)
            functional.answer()
        elif line == 'up':
            cls.samples.append(cls.count())
            functional.answer()
        elif line == 'running':
            cls.times.append(cls.count())
            if len(cls.times) == 1:
                functional.qmp('stop')
                functional.qmp('system_reset')
                cls.samples.append(cls.count())
                functional.qmp('cont')
            else:
                functional.answer()

    def shortDescription(self):
        return f'{self.machine}: {super().shortDescription()}'

    def test_reset(self):
        """a reset while traces are taken stops them, and all works again"""
        # None at first, some until the reset, and no more until perf starts again
        self.assertEqual((len(self.samples), len(self.times), self.samples[0]), (3, 2, 0),
                         self.lines)
        self.assertGreater(self.times[0], 1000)
        self.assertEqual(self.samples[2], self.samples[1])
        self.assertGreater(self.times[1], self.samples[1] + 1000)
        [found] = [int(line.split(',')[0]) for line in self.lines if 'core_imc/' in line]
        self.assertAlmostEqual(found, 100e6, delta=2e6)

    def other_kernel(self):
        """Lines of the other kernel, and what it wrote to HTM_MODE; both engines ran before."""
        self.assertEqual(self.status, 0, '\n'.join(self.lines))
        self.assertIn('now', self.lines)
        start = max(n for n, mode in enumerate(self.modes) if mode[1] == f'{0xe8 << 56:#x}')
        self.assertEqual({mode[0] for mode in self.modes[start - 1:start + 1]}, {'0', '1'})
        return self.lines[self.lines.index('now'):], self.modes[start + 1:]


class Power9(Life, unittest.TestCase):
    machine = 'powernv9'
    # The kernel of kdump knows what it is by this. There is no image of a crash at the address.
    append = 'elfcorehdr=0x10000000'

    def test_kdump(self):
        """the kernel of kdump stops the engines, and has no counters"""
        lines, modes = self.other_kernel()
        self.assertNotIn('_imc', '\n'.join(lines))
        self.assertEqual({*modes}, {(core, f'{0xe0 << 56:#x}') for core in '01'})


class Power10(Life, unittest.TestCase):
    machine = 'powernv10'
    uav = 1 << 63 | link_vector([5, 6, 7, 0, 5, 1, 6, 4])

    def test_kexec(self):
        """another kernel stops the engines that it finds running, and has counters"""
        lines, modes = self.other_kernel()
        for pmu in ('core_imc', 'thread_imc', 'trace_imc', 'nest_pau_imc'):
            self.assertIn(pmu, ' '.join(lines).split())
        self.assertEqual({*modes}, {(core, f'{0xe0 << 56:#x}') for core in '01'})

    def test_availability(self):
        """units that the vector leaves out do not appear; a link is one of three things"""
        self.assertEqual({*self.seen[2]}, {
            f'nest_{unit}_imc' for unit in ('pb', 'xlink0', 'alink1', 'xlink4', 'alink6',
                                            # skiboot has no bits for these
                                            'pau', 'mcs01', 'mcs23')})

    def test_availability_changed(self):
        """the kernel sees a changed availability vector when it starts again, and not before"""
        self.assertEqual(len(self.seen), 4, self.seen)
        self.assertIn('nest_phb0_0_imc', self.seen[0])
        self.assertEqual(self.seen[1], self.seen[0])
        self.assertNotEqual({*self.seen[2]}, {*self.seen[1]})
        self.assertEqual(self.seen[3], self.seen[2])
