# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu test --coverage`: a QEMU with gcov, the qtests, and a table of lines and branches."""

import json
import shutil

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


def gcovr(scratch):
    """[{file, lines}] of all objects together, as gcovr says."""
    for path in objects():          # of all objects, it takes minutes
        copy = scratch / path.relative_to(qemu.folder(KIND))
        copy.parent.mkdir(parents=True, exist_ok=True)
        for suffix in '.gcda', '.gcno':
            shutil.copy(path.with_suffix(suffix), copy.with_suffix(suffix))
    data = scratch / 'coverage.json'
    # QEMU's threads count in the same words, so that gcov finds less than 0 now and then. With
    # several jobs, gcovr 5.2 does not end after an error.
    ui.run(['gcovr', '-r', tree.SRC, '--object-directory', qemu.folder(KIND),
            '--gcov-ignore-parse-errors', '--json', data, scratch], 'gcovr.log')
    files = json.loads(data.read_text())['files']
    for entry in files:             # older ones have lines without code, too
        entry['lines'] = [line for line in entry['lines'] if not line.get('gcovr/noncode')]
    return files


def share(flags):
    return f'{100 * sum(flags) / len(flags):5.1f} %' if flags else '      -'


def table(files):
    """Lines of the report: a file each, least executed first, all together last."""
    rows = [([line['count'] > 0 for line in entry['lines']],
             [branch['count'] > 0 for line in entry['lines'] for branch in line['branches']],
             entry['file']) for entry in files]
    rows.sort(key=lambda row: sum(row[0]) / max(len(row[0]), 1))
    rows.append((sum((row[0] for row in rows), []), sum((row[1] for row in rows), []), 'all'))
    yield f'{"lines":>7} {"branches":>9}  file'
    for lines, branches, name in rows:
        yield f'{share(lines)}   {share(branches)}  {name}'


def missed(files):
    """Lines of the report: what was not executed."""
    for entry in files:
        for line in entry['lines']:
            branches = [branch['count'] for branch in line['branches']]
            if not line['count'] or 0 in branches:
                what = 'line' if not line['count'] else \
                    f'{branches.count(0)} of {len(branches)} branches'
                yield f'{entry["file"]}:{line["line_number"]}: {what}'


def report():
    """Print the table; the list of what was missed goes to a file."""
    names = {name for name in tree.overlay_files() if name.endswith(('.c', '.h', '.inc'))
             and name.startswith(('accel/', 'hw/', 'target/', 'include/', 'pc-bios/'))}
    with ui.Step('gcovr'), ui.scratch('coverage-') as scratch:
        found = [entry for entry in gcovr(scratch) if entry['file'] in names]
    if not found:
        raise ui.Fail('gcov found nothing of ours', 'did the tests run?')
    lines = [*table(found)]
    ui.write(REPORT, '\n'.join([*lines, '', *missed(found)]) + '\n')
    print(*lines, sep='\n')
    ui.say(f'what was not executed is in {ui.show(REPORT)}')
