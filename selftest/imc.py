# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of core, thread and trace IMC have in common."""

import collections
import re

import ui

# The same on both, by what perf calls it: user's instructions; time at a constant rate, in Hz
EVENTS = {
    'powernv9': {'user': 'CPM_CS_INST_USER', 'kernel': 'CPM_CS_INST_KERNEL', 'insns': 'CPM_CS_INST',
                 'clock': 'CPM_32MHZ_CYC', 'cycles': 'CPM_NON_IDLE_PCYC', 'larx': 'CPM_LARX_FIN',
                 'stcx': 'CPM_STCX_FIN', 'scale': 512, 'nest': 'nest_phb0_imc/PM_PHB0_CYC/'},
    'powernv10': {'user': 'CPM_ADJUNCT_INST', 'kernel': 'CPM_HV_INST', 'insns': 'CPM_NON_IDLE_INST',
                  'clock': 'CPM_NEST_REF_CLK', 'cycles': 'CPM_NON_IDLE_PCYC',
                  'larx': 'CPM_LARX_FIN', 'stcx': 'CPM_STCX_FIN', 'scale': 1,
                  'nest': 'nest_pau_imc/PM_PAU_CYC/'},
}

CATALOGS = {'powernv9': '4e0200', 'powernv10': '800200'}


def listed(machine):
    """How many events each unit has in the public catalog of a machine."""
    text = (ui.ROOT / f'tests/unit/pnv-imc-{CATALOGS[machine]}.txt').read_text()
    return collections.Counter(line.split()[0] for line in text.splitlines() if line[0] != '#')


def link_vector(kinds):
    """POWER10's vector with links of these kinds, and no other unit."""
    return sum(kind << (50 - 3 * n) for n, kind in enumerate(kinds))


def stat(events, what, options=''):
    """perf stat of some events, one line each: CPU (with -A), count, unit, event..."""
    return f'perf stat -x, {options} ' + ' '.join(f'-e {e}' for e in events) + f' {what} 2>&1'


def counts(lines, events):
    """What `stat` printed for these events, in order."""
    rows = [line.split(',') for line in lines if '_imc/' in line]
    return [[int(row[0]) for row in rows if row[2] == event] for event in events]


# Without build IDs and symbols of the kernel, which no test reads: else perf record reads all of the
# kernel's symbols four times, which takes an emulated CPU seconds.
RECORD = 'echo 2 > /proc/sys/kernel/kptr_restrict; perf record -q -B --no-bpf-event'


def record(options, what):
    """perf record of the trace."""
    return f'{RECORD} -c 1 -o /tmp/data -e trace_imc/trace_cycles/ {options} {what} 2>&1'


# Linux takes all samples of a CPU for samples of the process that it finds there at the
# end. The program is where non-PIE programs are.
SAMPLES = ("\nperf script -i /tmp/data -F cpu,ip 2> /dev/null > /tmp/samples\n"
           "echo of all CPUs: $(cut -d] -f1 /tmp/samples | sort | uniq -c)\n"
           "sed 's/ \\+10[0-9a-f]\\{6\\}$/ spin/' /tmp/samples | sort | uniq -c | grep spin")


def samples(lines):
    """{CPU: number of samples in the program} of SAMPLES."""
    found = [re.fullmatch(r' *(\d+) +\[(\d+)\] spin', line) for line in lines]
    return {int(match[2]): int(match[1]) for match in found if match}


def guest(machine, smp, args=(), **options):
    """Options of a guest."""
    return {'name': 'power', 'machine': machine, 'smp': smp, 'args': list(args), **options}


class Names:
    """Events of one machine, which classes set."""

    machine = ''

    @classmethod
    def event(cls, pmu, what):
        return f'{pmu}_imc/{EVENTS[cls.machine][what]}/'

    @classmethod
    def e(cls, what):
        return EVENTS[cls.machine][what]
