# What the tests of the devices execute of our own code.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test --coverage`: a QEMU with gcov, the qtests, and a table of lines and branches."""

import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess

import qemu
import tree
import ui

KIND = 'gcov'
REPORT = ui.BUILD / 'coverage.txt'
# Objects of QEMU's own files that contain our included files, besides those of our own files.
HOSTS = ('translate.c', 'translate-a64.c', 'helper.c', 'mem_helper.c')


def reset():
    """Forget what earlier runs have executed."""
    for path in qemu.folder(KIND).rglob('*.gcda'):
        path.unlink()


def objects():
    """The gcov files of objects that can have code of ours."""
    ours = {name.replace('/', '_') for name in tree.overlay_files() if name.endswith('.c')}
    for path in sorted(qemu.folder(KIND).rglob('*.gcda')):
        name = path.name.removesuffix('.gcda')
        if name.endswith(HOSTS) or any(name.endswith(our) or our.endswith('_' + name)
                                       for our in ours):
            yield path


def gcov(path):
    """[{file, lines}] of one object, as gcov says."""
    done = subprocess.run(['gcov', '--json-format', '--stdout', '--branch-probabilities', path],
                          cwd=qemu.folder(KIND), capture_output=True, text=True)
    return [entry for line in done.stdout.splitlines() if line.startswith('{')
            for entry in json.loads(line)['files']]


def merge(entries, names):
    """{name: {line: [times executed, [times of each branch]]}} of several objects' entries.

    A line of several objects, one for each target, counts as executed if one of them was;
    so does each of its branches.
    """
    found = collections.defaultdict(dict)
    for entry in entries:
        parts = pathlib.PurePath(entry['file']).parts
        name = next((n for i in range(len(parts)) if (n := '/'.join(parts[i:])) in names), None)
        for line in entry['lines'] if name else ():
            seen = found[name].setdefault(line['line_number'], [0, []])
            branches = [b['count'] for b in line['branches']]
            seen[0] += line['count']
            if len(branches) == len(seen[1]):
                branches = [a + b for a, b in zip(branches, seen[1])]
            if len(branches) >= len(seen[1]):
                seen[1] = branches
    return found


def share(done, of):
    return f'{100 * done / of:5.1f} %' if of else '      -'


def table(found):
    """Lines of the report: a file each, least executed first, all together last."""
    rows = []
    for name, lines in found.items():
        branches = [count > 0 for _, each in lines.values() for count in each]
        rows.append((sum(n > 0 for n, _ in lines.values()), len(lines), sum(branches),
                     len(branches), name))
    yield f'{"lines":>7} {"branches":>9}  file'
    for lines, of_lines, branches, of_branches, name in sorted(
            rows, key=lambda row: row[0] / max(row[1], 1)):
        yield f'{share(lines, of_lines)}   {share(branches, of_branches)}  {name}'
    sums = [sum(row[i] for row in rows) for i in range(4)]
    yield f'{share(*sums[:2])}   {share(*sums[2:])}  all'


def missed(found):
    """Lines of the report: what was not executed."""
    for name in sorted(found):
        for number, (count, branches) in sorted(found[name].items()):
            if not count or 0 in branches:
                yield f'{name}:{number}: ' + ('line' if not count else
                                              f'{branches.count(0)} of {len(branches)} branches')


def is_code(name):
    return name.startswith(('accel/', 'hw/', 'target/', 'include/', 'pc-bios/')) \
        and name.endswith(('.c', '.h', '.inc'))


def report():
    """Print the table; the list of what was missed goes to a file."""
    names = {name for name in tree.overlay_files() if is_code(name)}
    with ui.Step('gcov'), concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = [entry for part in pool.map(gcov, objects()) for entry in part]
    found = merge(entries, names)
    if not found:
        raise ui.Fail('gcov found nothing of ours', 'did the tests run?')
    lines = [*table(found)]
    ui.write(REPORT, '\n'.join([*lines, '', *missed(found)]) + '\n')
    print(*lines, sep='\n')
    ui.say(f'what was not executed is in {ui.show(REPORT)}')
