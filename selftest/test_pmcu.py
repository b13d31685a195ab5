# SPDX-License-Identifier: GPL-2.0-or-later
"""PMCUs sample the CPUs of an unmodified arm64 kernel (guest/arm/pmcu)."""

import base64
import re
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

import functional
import qemu

functional.need(functional.emulator('aarch64'), *functional.guest_files('arm'))


def sleepers(seconds, samples, period_ms):
    """A script of CPUs that sleep while a PMCU samples them: only their timers wake CPUs 1 to 3."""
    return f"""
        taskset -p 1 $$ > /dev/null
        for cpu in 1 2 3; do
            taskset -c $cpu sh -c 'for i in $(seq {10 * seconds}); do sleep 0.1; done' &
            pids="$pids $!"
        done
        pmcu --tap --samples {samples} --period {period_ms} > /tmp/pmcu & pid=$!
        sleep 0.5
        echo save
        sleep 1
        kill -0 $pid || exit 7          # it samples from "save" to here
        echo load
        wait $pids
        wait $pid; status=$?
        # in_guest() waits for this before it looks at lines.
        echo "@@pmu-up $(cat /proc/sys/kernel/random/boot_id) $(uname -r) 2 CPUs"
        cat /tmp/pmcu
        exit $status"""


def aml_package_length(length):
    """ACPI 6.5, 20.2.4: the length includes its own bytes."""
    return (bytes([length + 1]) if length < 63 else
            bytes([0x40 | (length + 2) & 15, (length + 2) >> 4]))


def aml_integer(n):
    return bytes([n]) if n < 2 else bytes([0x0a, n])            # ZeroOp, OneOp, BytePrefix


def aml_string(text):
    return b'\x0d' + text.encode() + b'\0'


def aml_name(name, value):
    return b'\x08' + name.encode() + value


def aml_buffer(data):
    body = aml_integer(len(data)) + data
    return b'\x11' + aml_package_length(len(body)) + body


def aml_package(*values):
    body = bytes([len(values)]) + b''.join(values)
    return b'\x12' + aml_package_length(len(body)) + body


def aml_pmcu(die, clusters):
    """The Device of a PMCU, as ACPI 6.5, chapters 6.4 and 20.2, encodes it."""
    base, interrupt = 0x9100000 + 0x10000 * die, 32 + 176 + die
    resources = (struct.pack('<BHBII', 0x86, 9, 1, base, 0x10000) +   # Memory32Fixed, writable
                 # Interrupt: a consumer, level triggered, active high, exclusive
                 struct.pack('<BHBBI', 0x89, 6, 1, 1, interrupt) + b'\x79\0')
    properties = uuid.UUID('daffd814-6eba-4d8c-8a91-bc9bbf4aa301').bytes_le
    body = f'PMC{die:X}'.encode() + b''.join((
        aml_name('_HID', aml_string('HISI0451')),
        aml_name('_UID', aml_integer(die)),
        aml_name('_CCA', aml_integer(1)),
        aml_name('_CRS', aml_buffer(resources)),
        aml_name('_DSD', aml_package(aml_buffer(properties), aml_package(
            aml_package(aml_string('hisilicon,scl-id'), aml_integer(die)),
            aml_package(aml_string('hisilicon,nr-cluster'), aml_integer(clusters)))))))
    return b'\x5b\x82' + aml_package_length(len(body)) + body


def rules(*runs):
    """A script that runs the guest program with each of these options, whatever it finds."""
    return 'status=0\n' + '\n'.join(f'pmcu --tap {run} || status=$?' for run in runs)


class Checks(unittest.TestCase):
    def check(self, status, lines, runs):
        """A sub-test for each rule that the guest program checked."""
        rules = list(functional.tap_lines(lines))
        self.assertGreaterEqual(len(rules), 5 * runs, lines)
        for holds, rule in rules:
            with self.subTest(rule):
                self.assertTrue(holds)
        self.assertEqual(status, 0, lines)

    def sample(self, *runs, **options):
        """Run the guest program with each of these options."""
        status, lines = functional.in_guest(f'{rules(*runs)}\nexit $status', **options)
        self.check(status, lines, len(runs))


class OneGuest(Checks, functional.OneGuest):
    def check_part(self, lines, runs):
        """The rules of a part that ends with STATUS."""
        *lines, status = lines
        self.check(int(status.removeprefix('status ')), lines, runs)


STATUS = '\necho "status $status"'


class OneCluster(OneGuest):
    """4 CPUs in one cluster"""
    boot = {'smp': '4'}

    @functional.part(lambda cls: rules('--samples 20 --load 1', '--load 2 --samples 300 --period 1')
                     + STATUS)
    def test_one_cluster(self, lines):
        """4 CPUs in one cluster, one of them loaded; more samples than one run can have"""
        self.check_part(lines, 2)

    @functional.part(lambda cls: f'''
        cpu=/sys/devices/system/cpu/cpu3/online
        echo 0 > $cpu || exit
        {rules('--samples 20 --load 1')}; first=$status
        echo 1 > $cpu || exit
        {rules('--samples 20 --load 3')}; status=$((status | first)){STATUS}''')
    def test_offline(self, lines):
        """a CPU that is offline reads zero, and counts again when it is back"""
        self.check_part(lines, 2)
        empty = [int(re.search(r'zero: (\d+) of', l)[1]) for l in lines if 'without a CPU' in l]
        online = [int(re.search(r' of (\d+) values, the least', l)[1]) for l in lines
                  if 'the least' in l]
        self.assertGreaterEqual(empty[1], 20 * 4)
        # Of 8 slots, 5 are beside 3 CPUs, and 4 beside 4.
        self.assertEqual((3 * empty[0], empty[1]), (5 * online[0], online[1]))


class TwoCpus(OneGuest):
    boot = {'smp': '2'}

    @functional.part(lambda cls: rules('--samples 4000 --period 1 --load 1 --syscalls') + STATUS)
    def test_system_calls(self, lines):
        """no sample is short under a load of system calls"""
        self.check_part(lines, 1)

    @functional.part(lambda cls: f'''
        perf stat -a -e cycles,stalled-cycles-frontend -I 50 -o /tmp/stat sleep 4 &
        for i in 1 2 3; do
            pmcu --samples 50 --load 1 > /dev/null
            [ $? -lt 2 ] || exit 20             # it answered, whatever the numbers
        done
        wait
        dmesg | grep -E 'Oops|BUG|WARNING|stall' && exit 21
        grep -q cycles /tmp/stat || exit 22
        {rules('--samples 20 --load 1')}{STATUS}''')
    def test_contention(self, lines):
        """perf stat on the same counters disturbs, but breaks neither PMCU nor kernel"""
        self.check_part(lines, 1)

    @functional.part(lambda cls: '''
        calls="taskset -c 1 dd if=/dev/zero of=/dev/null bs=1"
        $calls 2> /dev/null & endless=$!
        # The work brings samples however little time the host has in 4 s, and the kernel must not
        # throttle them because a host that is busy makes its interrupts take long.
        echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent
        echo 2 > /proc/sys/kernel/kptr_restrict         # else perf record reads the kernel's symbols
        perf record -q -B --no-bpf-event -C 1 -e cycles -c 1000000 -o /tmp/data -- sh -c "
            sleep 4; kill $endless; $calls count=100000 2> /dev/null"
        perf script -i /tmp/data -F time 2> /dev/null''')
    def test_perf_record(self, lines):
        """perf record by period takes no sample early under a load of system calls"""
        times = [float(l.strip().rstrip(':')) for l in lines if re.fullmatch(r'\s*[\d.]+:\s*', l)]
        self.assertGreater(len(times), 1000, lines[-5:])
        # A cycle is 1 ns, so that k samples span at least k - 1 ms, and one less if the
        # first was late. A busy host loses samples, which can hide extra ones, not make them.
        least = excess = 0
        for number, ms in enumerate(1000 * (t - times[0]) for t in times):
            least = min(least, number - ms)
            excess = max(excess, number - ms - least)
        self.assertLess(excess, 2, f'{len(times)} samples')


class Icount(OneGuest):
    """With -icount, a stall of the host does not prolong what the kernel does in a window"""
    boot = {'smp': '2', 'args': ['-icount', 'shift=3,sleep=off']}

    @functional.part(lambda cls: rules('--exact --samples 100 --period 1 --load 1') + STATUS)
    def test_icount(self, lines):
        """with -icount every window is exact to the cycle"""
        self.check_part(lines, 1)

    @functional.part(lambda cls: rules('--exact --events 0-0xef --period 1 --load 0',
                                       '--exact --events 0x11,0xc000,0x11,0xc000 --counters 2')
                     + STATUS)
    def test_many_events(self, lines):
        """240 events in records of 8 at 1 ms; the null event counts nothing"""
        self.check_part(lines, 2)


class Pmcu(Checks):
    def test_two_clusters(self):
        """2 clusters of 2: each loaded CPU shows up in its own slot"""
        self.sample(*(f'--samples 20 --load {cpu}' for cpu in range(4)),
                    smp='4,clusters=2,cores=2')

    def test_two_dies(self):
        """2 dies of 2 clusters sample at the same time, each its own CPUs"""
        self.sample('--samples 20 --load 1,6', '--samples 10 --load 4 --die 1',
                    smp='8,sockets=2,clusters=2,cores=2')

    def test_acpi(self):
        """through UEFI and ACPI: HISI0451 with _CRS and _DSD, one die"""
        self.sample('--samples 20 --load 1', smp='2', acpi=True)

    def test_acpi_two_dies(self):
        """through UEFI and ACPI: two dies of 2 clusters, each with a node in the DSDT"""
        status, lines = functional.in_guest('''
            pmcu --tap --samples 20 --load 1,6; status=$?
            echo "dsdt $(base64 -w 0 /sys/firmware/acpi/tables/DSDT)"
            exit $status''', smp='8,sockets=2,clusters=2,cores=2', acpi=True)
        self.check(status, [l for l in lines if not l.startswith('dsdt ')], 1)
        [dsdt] = [base64.b64decode(l.split()[1]) for l in lines if l.startswith('dsdt ')]
        self.assertEqual(dsdt[:4], b'DSDT')
        for die in range(2):
            self.assertEqual(dsdt.count(aml_pmcu(die, clusters=2)), 1, f'PMC{die}')
        self.assertEqual(dsdt.count(b'HISI0451'), 2)

    def test_el1(self):
        """a kernel at EL1, without EL2 and with a CPU without VHE"""
        for options in ({'machine': 'virt,gic-version=3'}, {'cpu': 'cortex-a57'}):
            with self.subTest(**options):
                self.sample('--load 1 --samples 20', smp='2', **options)

    def test_snapshot(self):
        """loadvm during a run below a kernel at EL2: all CPUs and all samples go on"""
        def hear(line):
            command = {'save': 'savevm s', 'load': 'loadvm s'}.get(line)
            # After loadvm the guest is at 'save' again, and comes to 'load' a second time.
            if command and command not in done:
                done.append(command)
                answer = functional.qmp('human-monitor-command', **{'command-line': command})
                self.assertEqual(answer, '')

        done = []
        with tempfile.TemporaryDirectory() as folder:
            disk = f'{folder}/disk'
            subprocess.run([qemu.binary('qemu-img'), 'create', '-q', '-f', 'qcow2', disk, '1M'],
                           check=True)
            status, lines = functional.in_guest(
                sleepers(seconds=8, samples=1400, period_ms=5), hear=hear, smp='4',
                args=['-drive', f'if=none,format=qcow2,file={disk}'])
        self.assertEqual(done, ['savevm s', 'loadvm s'])
        self.check(status, lines, 1)

    def test_migration(self):
        """migration during a run below a kernel at EL2: all CPUs and all samples go on"""
        class Migrated(Exception):
            pass

        def hear(line):
            if line == 'save':
                # In one pass, however long that takes
                functional.qmp('migrate-set-parameters',
                               **{'downtime-limit': 100000, 'max-bandwidth': 2 ** 40})
                functional.qmp('migrate', uri=f'file:{folder}/state')
                while (status := functional.qmp('query-migrate')['status']) != 'completed':
                    self.assertIn(status, ('setup', 'active', 'device'))
                    time.sleep(0.1)
                raise Migrated

        # A busy host needs seconds for the migration, and the run must not be over by then.
        script = sleepers(seconds=10, samples=200, period_ms=50)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(Migrated):
                functional.in_guest(script, hear=hear, smp='4')
            status, lines = functional.in_guest(
                script, smp='4', args=['-incoming', f'file:{folder}/state'])
        self.assertNotIn('save', lines)
        self.check(status, lines, 1)

    def test_off(self):
        """without pmcu=on there is no PMCU, and the program says so"""
        status, lines = functional.in_guest(
            'pmcu 2>&1; exit $?', machine='virt,virtualization=on,gic-version=3,pmcu=off')
        self.assertEqual(status, 2)
        self.assertIn('pmcu=on', lines[-1])
