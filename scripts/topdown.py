# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu topdown`: run a program in the x86 guest under perf, and show its TopDown tree."""

import contextlib
import json
import math
import os
import pathlib
import re
import secrets
import shlex
import signal
from dataclasses import dataclass, field

import boot
import guest
import ui
from graph import graph

# Level 1, and the two parts of each at level 2
TREE = {
    'Retiring': ('Light operations', 'Heavy operations'),
    'Bad speculation': ('Branch mispredicts', 'Machine clears'),
    'Frontend bound': ('Fetch latency', 'Fetch bandwidth'),
    'Backend bound': ('Memory bound', 'Core bound'),
}
PARTS = sum(TREE.values(), ())
METRICS = {'tma_' + name.lower().replace(' ', '_'): name        # as perf calls them
           for top, parts in TREE.items() for name in (top, *parts)}
# Workloads of guest/x86/topdown, and what takes more than half of the slots of each
PROGRAMS = {'branches': 'Branch mispredicts', 'chase': 'Memory bound', 'divide': 'Core bound',
            'code': 'Frontend bound', 'loop': 'Retiring'}
MOSTLY = 50.0
CPU = 'SapphireRapids'
WIDTH = 40              # of a bar
# What reading a line as perf's JSON raises if it is none, or has "<not counted>" or "none"
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
MARK = '@@topdown'      # of measure.sh: begins the lines of a guest that are for us
FAILED = 'Workload failed: '      # perf's words
FUNCTIONS = (guest.SOURCES / 'x86/measure.sh').read_text()


@dataclass
class Breakdown:
    """What perf says: all slots, and the share in percent of each category."""
    slots: int
    share: dict = field(default_factory=dict)

    @property
    def level(self):
        return 2 if TREE['Retiring'][0] in self.share else 1

    def rows(self):
        """Yield (level, category, percent), each category before its parts."""
        for name, parts in TREE.items():
            yield 1, name, self.share[name]
            for part in parts if self.level == 2 else ():
                yield 2, part, self.share[part]

    def parts(self):
        """[(percent, category)] of the last level."""
        return [(percent, name) for level, name, percent in self.rows() if level == self.level]


def parse(lines, log=None):
    """The Breakdown in the output of perf stat -j --topdown."""
    slots, share = 0.0, {}
    for line in lines:
        with contextlib.suppress(*MALFORMED):
            found = json.loads(line)
            if found.get('event') in ('slots', 'TOPDOWN.SLOTS'):
                slots = float(found['counter-value'])
            name = found.get('metric-unit', '').rpartition(' ')[2]
            if name in METRICS:
                share[METRICS[name]] = float(found['metric-value'])
    for top, parts in TREE.items():
        if all(part in share for part in parts):
            share[top] = sum(share[part] for part in parts)
    wanted = [*TREE, *(PARTS if any(part in share for part in PARTS) else ())]
    values = {'slots': slots or math.nan, **{name: share.get(name, math.nan) for name in wanted}}
    if missing := [name for name, value in values.items() if not math.isfinite(value)]:
        raise ui.Fail(f'perf has no breakdown of the program: no {", ".join(missing)}',
                      'did it run long enough?', log)
    return Breakdown(int(slots), share)


def timeline(lines):
    """[(seconds, Breakdown)] in the output of perf stat -I; what it could not count is left out."""
    found = {}
    for line in lines:
        if match := re.match(r'{"interval" : (\d+\.\d+), ', line):
            found.setdefault(float(match[1]), []).append(line)
    rows = []
    for seconds, part in sorted(found.items()):
        with contextlib.suppress(ui.Fail):
            rows.append((seconds, parse(part)))
    return rows


def total(rows, log=None):
    """The Breakdown of all intervals together."""
    slots = sum(found.slots for _, found in rows)
    if not slots:
        return parse([], log)
    return Breakdown(slots, {name: sum(found.share[name] * found.slots for _, found in rows) / slots
                             for name in rows[0][1].share
                             if all(name in found.share for _, found in rows)})


def tree(found):
    """Lines of text: the tree with bars."""
    largest = max(found.parts())[1]
    for level, name, percent in found.rows():
        label = '  ' * (level - 1) + name
        note = '  <- most' if name == largest else ''
        yield f'{label:22}{percent:5.1f} %  {"#" * round(percent * WIDTH / 100)}{note}'.rstrip()


def stacked(found, width=WIDTH):
    """One bar of the first letters of all parts, which always has its full width."""
    text, total = '', 0.0
    for name in 'Retiring', 'Bad speculation', 'Frontend bound', 'Core bound', 'Memory bound':
        total += found.share[name]
        text += name[0] * (round(total * width / 100) - len(text))
    return text


def as_json(opt, found):
    """The numbers for other programs, under perf's names."""
    return json.dumps({
        'command': opt.command, 'cpu': opt.features, 'slots': found.slots,
        'percent': {metric: round(found.share[name], 3) for metric, name in METRICS.items()
                    if name in found.share},
    }, indent=1) + '\n'


# -- in the guest -----------------------------------------------------------

@dataclass
class Options:
    """What to run.  Fields are the options of `pmu topdown`."""
    command: list
    cpu: str = CPU
    level: str = ''         # '': as many as the CPU has
    model: str = ''         # '': precise, or pinned if there is a mix
    mix: str = ''
    user: bool = False      # only user space
    interval: int = 0       # ms of guest time between two lines of perf; 0: only all together

    @property
    def features(self):
        """The CPU, as in -cpu: with its PMU and the model, unless the user says otherwise."""
        given = {word.partition('=')[0] for word in self.cpu.split(',')[1:]}
        wanted = {'pmu': 'on', 'pmu-model': self.model or ('pinned' if self.mix else 'precise'),
                  'topdown-mix': self.mix.replace(',', '/')}      # -cpu splits at commas
        return self.cpu + ''.join(f',{k}={v}' for k, v in wanted.items() if v and k not in given)

    @property
    def title(self):
        return 'TopDown of ' + shlex.join(self.command)

    def note(self, found):
        return f'{found.slots:,} slots{" in user space" * self.user} on {self.features}'


def program(command):
    """({guest path: host file}, command in the guest): what has a slash is a host's file."""
    if '/' not in command[0]:
        return {}, command
    name, path = command[0], pathlib.Path(command[0])
    if not path.is_file():
        raise ui.Fail(f'{name}: {"not a" if path.exists() else "no such"} file',
                      'a program of the guest is given without its path')
    with open(path, 'rb') as handle:
        head = handle.read(20)
    if head[:2] != b'#!':
        if head[:4] != b'\x7fELF' or head[18:] not in (b'\x3e\0', b'\x03\0'):
            raise ui.Fail(f'{name} is not an x86 program', 'compile it for x86-64')
        if guest.elf_needs(path)[0]:
            raise ui.Fail(f'{name} needs shared libraries, which the guest lacks',
                          'link it with -static')
    if not os.access(path, os.X_OK):
        raise ui.Fail(f'{name} is not executable', f'chmod +x {name}')
    target = f'/root/{path.name}'
    return {target: path}, [target, *command[1:]]


REFUSED = {
    'counters': ('{cpu} has no TopDown counters in the guest',
                 'use SapphireRapids, or Icelake-Server-v6 for level 1'),
    'level': ('{cpu} has no level {level}', 'use --level 1, or --cpu SapphireRapids'),
    'program': ('the guest has no program {command[0]}', 'give the path of a file of yours'),
}


def killed(command, line):
    """The exit status of a program that a signal ended; perf has only a message of it."""
    # As boot.run() decodes the line, which is the last one
    name = os.fsencode(command[0]).decode(errors='replace').rpartition('\n')[2]
    for number in signal.valid_signals():
        if line.endswith(f'{name}: {signal.strsignal(number)}'):
            return 128 + number
    return 0


class Output:
    """A guest's console: shows what is the program's, keeps what is perf's."""

    def __init__(self, mark=MARK):
        self.mark, self.parts, self.inside, self.refused, self.last = mark, [], False, '', ''
        self.log = None         # the guest's log file

    def __call__(self, line):
        text, mark, rest = line.partition(self.mark)
        if self.inside:
            self.parts[-1].append(text)
        elif text or not mark:          # also output that did not end its line
            self.last = text
            boot.show(text)
        if mark:
            word, _, why = rest.strip().partition(' ')
            self.inside = word == 'begin'
            if self.inside:
                self.parts.append([])
            elif word == 'refused' and why in REFUSED:
                self.refused = why

    def check(self, command, cpu='', level=''):
        """Fail if the guest has refused to measure."""
        if self.refused:
            what, hint = REFUSED[self.refused]
            raise ui.Fail(what.format(command=command, cpu=cpu, level=level), hint)


def run_in_guest(script, **options):
    """Boot, run a script that may measure; returns (exit status, Output)."""
    output = Output(f'@@{secrets.token_hex(8)}')        # no program prints that
    with ui.scratch('topdown-') as scratch:
        path = scratch / 'run.sh'
        path.write_bytes(os.fsencode(FUNCTIONS.replace(MARK, output.mark) + script))
        opt = boot.Options('x86', smp='1', run=path, **options)
        status = boot.run(opt, output)
    output.log = ui.LOGS / f'boot-{opt.guest}.log'
    return status, output


def run(opt):
    """Run the command; returns (its exit status, Breakdown, timeline())."""
    files, command = program(opt.command)
    status, output = run_in_guest(
        f'users={"--all-user" if opt.user else ""}\n'
        f'interval="{f"-I {opt.interval}" if opt.interval else ""}"\n'
        f'measure "{opt.level}" {shlex.join(command)}\nexit $status\n',
        cpu=opt.features, files=files)
    output.check(opt.command, opt.cpu, opt.level)
    if output.last.startswith(FAILED):
        raise ui.Fail(f'{opt.command[0]} does not start in the guest: '
                      f'{output.last.removeprefix(FAILED)}', 'is all there that it needs?')
    lines = sum(output.parts, [])
    rows = timeline(lines)
    found = total(rows, output.log) if opt.interval else parse(lines, output.log)
    return status or killed(command, output.last), found, rows


def cmd_topdown(opt):
    if opt.mix and opt.model not in ('', 'pinned'):
        opt.error(f'--mix needs --model pinned, not {opt.model}')
    if opt.model and ',pmu-model=' in opt.cpu:
        opt.error('--model and the pmu-model of --cpu: give one')
    if opt.model == 'pinned' and not opt.mix:
        opt.error('--model pinned needs a --mix')
    options = Options(opt.args, opt.cpu, opt.level, opt.model, opt.mix, opt.user,
                      100 if opt.html else 0)
    program(opt.args)                       # what cannot run is refused before anything is built
    ui.check_output(opt.svg, opt.json, opt.html)
    graph('qemu', 'guest-x86')
    status, found, timeline = run(options)
    print(options.title, f'{options.note(found)}\n', *tree(found), sep='\n', flush=True)
    if opt.json:
        ui.save(opt.json, as_json(options, found))
    if opt.svg or opt.html:
        import report                       # with matplotlib
        if opt.svg:
            report.write(opt.svg, report.shares(found, options.title))
        if opt.html:
            report.write(opt.html, report.topdown_page(options.title, options.note(found), found,
                                                       timeline))
    return status
