# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu set` and `pmu watch`: properties and counters of the PMUs, over QMP."""

import collections
import pathlib
import re
import struct
import sys
import time

import monitor
import ui

# What can be set while a guest runs; "@N" behind a name is for one CPU, die or chip.
SETTABLE = (
    'topdown-mix', 'synthetic-events', 'synthetic-seed', 'faults', 'nest-synthetic', 'nest-add',
    'nest-fault', 'core-synthetic', 'core-add', 'thread-synthetic', 'thread-add', 'uav',
    'post-period-ns', 'trace-min-period-ns')
CATALOGS = {'powernv9': '4e0200', 'powernv10': '800200'}
NEST_AREA = 0x40000     # bytes of a chip's counters
METRICS = ('retiring', 'heavy-operations', 'bad-speculation', 'branch-mispredicts',
           'frontend-bound', 'fetch-latency', 'backend-bound', 'memory-bound')
PAGE = 0x2000           # of a core's or thread's counters


class Guest:
    """The PMUs of a guest, by its monitor."""

    def __init__(self, qmp, scratch):
        self.cmd, self.scratch = qmp.cmd, pathlib.Path(scratch)
        self.machine = self.get('/machine', 'type').removesuffix('-machine')
        children = [child['name'] for child in self.cmd('qom-list', path='/machine')]
        # {number: path}
        self.pmcus = {n: f'/machine/{name}' for n, name in numbered('pmcu', children)}
        self.imcs = {n: f'/machine/{name}/imc' for n, name in numbered('chip', children)
                     if 'imc' in self.properties(f'/machine/{name}')}
        names = self.cmd('query-commands')
        self.cpus = any(command['name'] == 'query-pmu' for command in names)

    def get(self, path, name):
        return self.cmd('qom-get', path=path, property=name)

    def properties(self, path):
        return {p['name'] for p in self.cmd('qom-list', path=path)}

    def objects(self):
        """{path: number} of all PMUs, and of CPUs that have properties to set."""
        found = {path: n for n, path in [*self.pmcus.items(), *self.imcs.items()]}
        if self.cpus:
            found.update({cpu['qom-path']: cpu['cpu-index'] for cpu in self.cmd('query-pmu')
                          if cpu['kind'] == 'emulated'})
        if not found:
            raise ui.Fail('this guest has no PMU that can be steered',
                          'was it started with --stock?')
        return found

    def memory(self, address, size):
        """Physical memory, as a device would see it."""
        path = self.scratch / 'memory'
        self.cmd('pmemsave', val=address, size=size, filename=str(path))
        return path.read_bytes()

    # -- events of the catalogs ------------------------------------------------

    def catalog(self):
        """[(unit, event, offset, scale)] of the machine's public catalog."""
        number = CATALOGS.get(self.machine.partition('-')[0])
        text = (ui.ROOT / f'tests/unit/pnv-imc-{number}.txt').read_text() if number else ''
        rows = [line.split() for line in text.splitlines() if re.match(r'(?!#|trace )', line)]
        return [(unit, event, int(offset, 0), int(scale)) for unit, event, offset, scale in rows]

    def complete(self, name, text):
        """A list of EVENT[@N]=VALUE for the property `name`, with parts of events completed."""
        kind = name.partition('-')[0]
        if kind not in ('nest', 'core', 'thread') or name == 'nest-fault':
            return text
        events = [event if kind in ('core', 'thread') else f'{unit}/{event}'
                  for unit, event, _, _ in self.catalog()
                  if (unit if unit in ('core', 'thread') else 'nest') == kind]
        return ','.join(one_event(item, events) for item in text.split(',')) if events else text


def numbered(name, children):
    """(N, child) for each name[N], in order."""
    return sorted((int(match[1]), child) for child in children
                  if (match := re.fullmatch(rf'{name}\[(\d+)\]', child)))


def one_event(item, events):
    """EVENT=VALUE with the one event of the public catalog that has these words in its name."""
    event, rest = re.match(r'([^=@]*)(.*)', item).groups()
    if not rest or re.match(r'0x|$', event) or event in events:
        return item
    words = event.lower().split('*')
    found = [name for name in events if all(word in name.lower() for word in words)]
    if len(found) > 1:
        some = ', '.join(found[:8]) + ', ...' * (len(found) > 8)
        raise ui.Fail(f'{event}: {len(found)} events have this: {some}',
                      './pmu set --events TEXT lists them', status=2)
    # QEMU knows more than these: ranges, and a catalog of the user's.
    return found[0] + rest if found else item


def assign(guest, settings):
    """Set NAME[@N]=VALUE; prints what was set."""
    objects = guest.objects()
    todo = []
    for setting in settings:
        match = re.fullmatch(r'([\w-]+)(?:@(\d+))?=(.*)', setting)
        if not match or match[1] not in SETTABLE or not setting.isascii():
            raise ui.Fail(f'{setting}: expected NAME=VALUE or NAME@N=VALUE, only ASCII, with one '
                          f'of these names: {", ".join(SETTABLE)}', status=2)
        name, number, value = match.groups()
        paths = [path for path, n in objects.items() if name in guest.properties(path)
                 and number in (None, str(n))]
        if not paths:
            where = ' of that number' if number else ''
            raise ui.Fail(f'{setting}: this guest has nothing{where} with this property',
                          "'./pmu set' without arguments shows what there is")
        value = guest.complete(name, value)
        if name in ('uav', 'synthetic-seed', 'post-period-ns', 'trace-min-period-ns'):
            try:
                value = int(value, 0)
                if value.bit_length() > 64:
                    raise ValueError
            except ValueError:
                raise ui.Fail(f'{setting}: expected a number, such as 16 or 0x10',
                              status=2) from None
        todo += [(path, name, value) for path in paths]
    for path, name, value in todo:
        guest.cmd('qom-set', path=path, property=name, value=value)
        print(f'{path} {name}={value}')


def show(guest):
    """What can be set, and what it is now."""
    for path in guest.objects():
        known = guest.properties(path)
        about = {p['name']: p.get('description', '') for p in guest.cmd(
            'qom-list-properties', typename=guest.get(path, 'type'))}
        for name in SETTABLE:
            if name in known:
                try:
                    value = guest.get(path, name)
                except monitor.library().QMPError:      # some can only be written
                    value = ''
                print(f'{path} {name}={value}')
                if about.get(name):
                    print(f'    {about[name]}')


def cmd_set(opt):
    if opt.events is not None and opt.settings:
        opt.error('--events goes without settings')
    with ui.scratch('set-') as scratch, monitor.of_guest(opt.guest) as qmp:
        target = Guest(qmp, scratch)
        if opt.events is not None:
            known = [f'{unit}/{event}' for unit, event, _, _ in target.catalog()]
            if not known:
                raise ui.Fail('this guest has no events of in-memory collection',
                              'they are those of powernv9 and powernv10')
            for name in known:
                if opt.events.lower() in name.lower():
                    print(name)
        elif opt.settings:
            assign(target, opt.settings)
        else:
            show(target)


# -- watch --------------------------------------------------------------------

# A counter, or a word about a PMU's state
Row = collections.namedtuple('Row', 'where name value state', defaults=[''])


def rows(guest):
    """All emulated counters of a guest."""
    if guest.cpus:
        yield from cpu_rows(guest.cmd('query-pmu'))
    for n, path in guest.pmcus.items():
        yield Row(f'die {n}', 'records', guest.get(path, 'records'), guest.get(path, 'state'))
        yield Row(f'die {n}', 'run', guest.get(path, 'run'), guest.get(path, 'error'))
    catalog = guest.catalog()
    for n, path in guest.imcs.items():
        yield from imc_rows(guest, n, path, catalog)


def cpu_rows(cpus):
    for cpu in cpus:
        where = f'CPU {cpu["cpu-index"]}'
        if 'counters' not in cpu:
            yield Row(where, 'PMU', cpu['kind'])
        for counter in cpu.get('counters', ()):
            if counter['value'] or counter['state'] == 'counting':
                yield Row(where, f'{counter["name"]} {counter["event"]}', counter['value'],
                          counter['state'])
        metrics = cpu.get('perf-metrics', {})
        for name in METRICS:
            if name in metrics:
                yield Row(where, name, f'{metrics[name]:.1f} %')


def imc_rows(guest, chip, path, catalog):
    tree = guest.cmd('human-monitor-command', **{'command-line': 'info mtree -f -o'})
    area = re.search(rf'(?m)^ *([0-9a-f]{{16}})-.*: pnv-imc-nest .*{re.escape(path)}\b', tree)
    if area:
        yield from words(f'chip {chip}', guest.memory(int(area[1], 16), NEST_AREA),
                         [row for row in catalog if row[0] not in ('core', 'thread')])
    for engine in guest.get(path, 'engines'):
        pages = [('core', f'core {engine["core"]}', engine)] + [
            ('thread', f'thread {thread["pir"]}', thread) for thread in engine['threads']]
        for unit, where, page in pages:
            if page['counts'] and page['address']:
                yield from words(f'chip {chip} {where}', guest.memory(page['address'], PAGE),
                                 [row for row in catalog if row[0] == unit])


def words(where, data, catalog):
    for unit, event, offset, scale in catalog:
        [value] = struct.unpack_from('>Q', data, offset)
        if value:
            yield Row(where, event if unit in ('core', 'thread') else f'{unit}/{event}',
                      value * scale)


def table(now, before, seconds):
    """Lines: each counter with its growth for each second since the table before."""
    last = {(row.where, row.name): row.value for row in before}
    yield f'{"where":18} {"counter":44} {"value":>20} {"a second":>16}  state'
    for row in now:
        old = last.get((row.where, row.name))
        number = isinstance(row.value, int)
        # A counter that has less than before was started anew.
        grown = number and isinstance(old, int) and row.value >= old
        rate = f'{(row.value - old) / seconds:,.0f}' if grown else ''
        value = f'{row.value:,}' if number else row.value
        yield f'{row.where:18} {row.name:44} {value:>20} {rate:>16}  {row.state}'.rstrip()


def cmd_watch(opt):
    """Print tables until the guest ends, or as many as wanted; on a terminal, in one place."""
    before, start, number, name = [], 0, 0, opt.guest
    with ui.scratch('watch-') as scratch:
        while True:
            try:
                if not name and len(names := monitor.running()) == 1:
                    [name] = names
                with monitor.of_guest(name) as qmp:
                    guest = Guest(qmp, scratch)
                    now, then = list(rows(guest)), time.monotonic()
            except monitor.Gone:
                if number:
                    return
                raise
            now = [row for row in now if opt.only.lower() in f'{row.where} {row.name}'.lower()]
            if not now and opt.only and not number:
                raise ui.Fail(f'--only {opt.only}: no counter has this in its name or place',
                              './pmu watch shows all')
            if sys.stdout.isatty():
                print('\033[H\033[2J', end='')
            elif number:
                print()
            print(*table(now, before, then - start), sep='\n', flush=True)
            before, start, number = now, then, number + 1
            if number == opt.count:
                return
            time.sleep(opt.interval)
