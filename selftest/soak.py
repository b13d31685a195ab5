# Let guests work for an hour, and look at what must stay: soak.py [--minutes N] [GUEST...]
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""The guests at the same time, each with load on its CPUs, for developers.

Without names, there is one of each architecture. "patching" is a kernel that replaces its own code
all the time, as perf makes it do, and "patching-stock" is the same on the unpatched QEMU.

About each second, a program in the guest checks a rule, and the host looks at the memory that QEMU
takes besides the guest's RAM and the translated code: it must not grow after the first quarter.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import ui           # noqa: E402

LARGE = 128 << 10       # KiB: mappings of this size are RAM or translated code
GROWTH = 8 << 10        # KiB that the rest may grow by
# What belongs to translated code is freed when QEMU has no room for more, which so is often.
SMALL = ['-accel', 'tcg,tb-size=64']

PATCH = ('while :; do for i in 1 0; do echo $i > /proc/sys/kernel/sched_schedstats; done; done &\n'
         'while :; do perf stat -a -e instructions,cs -o /tmp/stat sleep 0.1; done &\n'
         'while :; do perf record -q -a -F 4000 -o /tmp/data -- sleep 1; done > /dev/null 2>&1 &\n'
         'while :; do md5sum /bin/busybox; done > /dev/null &\n',
         'dmesg > /tmp/seen && ! grep -E "Oops|BUG|stall|lockup" /tmp/seen')
# What a guest does: name: (architecture, options of boot, what runs, rule), the latter two in
# shell code. The status of the rule says whether it holds.
GUESTS = {
    # Loops counted to the instruction, while both CPUs are sampled and others count in turns
    'x86': ('x86', ['--smp', '2'],
            'while :; do shares 100000 > /dev/null; done &\n'
            'while :; do perf record -q -a -F 500 -o /tmp/data -- sleep 5; done > /dev/null 2>&1 &\n'
            'while :; do perf stat -a -d -d -o /tmp/stat sleep 3; done &\n',
            'rdpmc > /tmp/seen'),
    # The rules of `pmcu`, which needs the counters for itself, while programs come and go
    'arm': ('arm', ['--smp', '2'],
            'while :; do for i in $(seq 20); do md5sum /bin/busybox; done > /dev/null; done &\n',
            'pmcu --samples 20 --period 5 --events 0x8,0x11,0x6-0x7,0x21 > /tmp/seen'),
    # A program of known length on a thread, and a clock of the nest, which must not drift
    'power': ('power', ['--smp', '2'],
              'while :; do for i in $(seq 20); do md5sum /bin/busybox; done > /dev/null; done &\n'
              'imc read $SECONDS_LEFT > /tmp/whole &\n',
              'perf stat -x, -e thread_imc/CPM_CS_INST_USER/ -o /tmp/seen spin count 20 && awk -F, '
              '\'/thread_imc/ { n = $1 } END { exit !(n >= 19.9e6 && n < 21e6) }\' /tmp/seen'),
    'patching': ('x86', ['--smp', '4'], *PATCH),
    'patching-stock': ('x86', ['--smp', '4', '--stock'], *PATCH),
}
USUAL = ['x86', 'arm', 'power']
# At the end: an event of 1 GHz counts nanoseconds, within the time of two reads
POWER_END = ('wait_whole; awk \'$2 == "PM_PHB0_CYC" { d = $6 / $7 - 1; if (d < 0) d = -d; '
             'if (d > 1e-4) exit 1; n++ } END { exit !n }\' /tmp/whole || broken drift /tmp/whole\n')


def script(name, seconds):
    before, rule = GUESTS[name][2:]
    return (f'#!/bin/sh\nSECONDS_LEFT={seconds}\n'
            'now() { cut -d. -f1 /proc/uptime; }\n'
            'broken() { echo "BROKEN $1"; tail -n 20 "$2"; bad=1; }\n'
            'wait_whole() { until [ -s /tmp/whole ]; do sleep 1; done; sleep 1; }\n'
            f'end=$(($(now) + {seconds})); bad=0; n=0\n{before}'
            f'while [ $(now) -lt $end ]; do\n    {{ {rule}; }} || broken "rule, turn $n" /tmp/seen\n'
            '    n=$((n + 1)); sleep 0.5\ndone\n'
            f'{POWER_END if name == "power" else ""}'
            'echo "turns: $n"\nexit $bad\n')


def rest(smaps):
    """KiB in /proc/PID/smaps without the guest's RAM and translated code."""
    found = re.findall(r'(?sm)^[0-9a-f]+-\S+ (\S+).*?\nSize: +(\d+) kB.*?\nRss: +(\d+) kB', smaps)
    return sum(int(rss) for kind, size, rss in found if int(size) < LARGE and 'x' not in kind)


def rest_of_memory(boot):
    """What the QEMU below a process takes of it; None if there is none."""
    try:
        for child in pathlib.Path(f'/proc/{boot}/task/{boot}/children').read_text().split():
            if 'qemu-system-' in pathlib.Path(f'/proc/{child}/cmdline').read_text():
                return rest(pathlib.Path(f'/proc/{child}/smaps').read_text())
    except OSError:         # it has ended
        pass
    return None


def grown(samples):
    """KiB by which the last quarter of samples is more than the second one."""
    quarter = len(samples) // 4
    if not quarter:
        return 0
    return statistics.median(samples[-quarter:]) - statistics.median(samples[quarter:2 * quarter])


def watch(boots, memory):
    """Until all guests have ended, add to the samples of each one's memory."""
    start = shown = time.monotonic()
    while any(b.poll() is None for b in boots.values()):
        time.sleep(1)
        for arch, b in boots.items():
            memory[arch] += [kib] if (kib := rest_of_memory(b.pid)) else []
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            print(f'{(shown - start) / 60:.0f} min: ' + ', '.join(
                f'{arch} {m[-1] / 1024:.0f} MiB' for arch, m in memory.items() if m), flush=True)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('guests', nargs='*', metavar='GUEST',
                        help=f'{", ".join(GUESTS)} (default: {", ".join(USUAL)})')
    parser.add_argument('--minutes', type=float, default=60)
    opt = parser.parse_args(argv)
    if unknown := set(opt.guests) - set(GUESTS):
        parser.error(f'no such guest: {", ".join(unknown)}')
    with tempfile.TemporaryDirectory() as folder:
        boots, memory = {}, {}
        for name in opt.guests or USUAL:
            path, out = (pathlib.Path(folder) / f'{name}.{end}' for end in ('sh', 'txt'))
            path.write_text(script(name, int(opt.minutes * 60)))
            arch, options = GUESTS[name][:2]
            boots[name] = subprocess.Popen(
                [ui.ROOT / 'pmu', 'boot', arch, *options, '--run', path, '--', *SMALL],
                stdout=out.open('w'), stderr=subprocess.STDOUT)
            memory[name] = []
        try:
            watch(boots, memory)
        finally:
            for b in boots.values():
                b.terminate()
        bad = False
        for arch, b in boots.items():
            text = (pathlib.Path(folder) / f'{arch}.txt').read_text()
            turns = re.search(r'(?m)^turns: (\d+)', text)
            more = grown(memory[arch])
            good = not b.returncode and turns and more <= GROWTH
            bad = bad or not good
            print(f'{arch}: {turns[1] if turns else "?"} turns, status {b.returncode}, '
                  f'{len(memory[arch])} looks at the memory, grown by {more / 1024:.1f} MiB: '
                  f'{"good" if good else "BAD"}')
            if not good:
                print(text)
    return int(bad)


if __name__ == '__main__':
    ui.main(main)
