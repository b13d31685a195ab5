# Move the series to another QEMU release.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu rebase`: apply the series patch by patch in the prepared source, and stop at conflicts.

BUILD/rebase.json keeps what has been done: the stock source, and for each patch so far whether
the base needs it. At the end the source counts as prepared, and `pmu export` writes the patches
that the base needs of its own.
"""

import json
import os
import pathlib

import base
import tree
import ui
from scratch import git, paths
from tree import SRC

STATE = ui.BUILD / 'rebase.json'


def applying():
    return (pathlib.Path(git('rev-parse', '--absolute-git-dir', cwd=SRC)) / 'rebase-apply').exists()


def start(qemu_src, discard):
    """Lay out stock source and overlay, with no patch yet."""
    if (STATE.exists() or tree.edits()) and not discard:
        raise ui.Fail(f'{ui.show(SRC)} has a rebase that is not finished, or edits',
                      "'./pmu rebase --continue' goes on, '--discard' drops them")
    source = os.path.abspath(qemu_src) if qemu_src else tree.remembered_source()
    commit, version = base.import_base(source)
    tree.know_older_bases()
    if (SRC / '.git').exists():
        if applying():
            git('am', '--abort', cwd=SRC, check=False)
        git('clean', '-qfd', cwd=SRC)
    tree.checkout(SRC, tree.overlay_commit(commit))
    return {'base': commit, 'version': version, 'source': source, 'done': []}


def markers():
    """Where git finds conflict markers: FILE:LINE."""
    done = git('diff', '--check', cwd=SRC, check=False).stdout.decode(errors='replace')
    return [line.split(': ')[0] for line in done.splitlines() if 'conflict marker' in line]


def resolved():
    """Commit a conflict that was resolved; False if nothing is left of the patch."""
    if not applying():
        return True                             # committed by hand
    if left := markers():
        raise ui.Fail(f'{ui.show(SRC / left[0])} has a conflict marker')
    git('add', '-A', cwd=SRC)
    needed = bool(git('diff', '--cached', '--name-only', cwd=SRC))
    git('am', '--continue' if needed else '--skip', cwd=SRC)
    return needed


def conflict(patch, out):
    files = paths('diff', '-z', '--name-only', '--diff-filter=U', cwd=SRC)
    for where in sorted({*markers()}) or files:
        print(ui.show(SRC / where), flush=True)
    ui.write(ui.LOGS / 'am.log', out)
    raise ui.Fail(f'{patch.relative_to(ui.ROOT)} does not merge', f'resolve it in {ui.show(SRC)}, '
                  f"then './pmu rebase --base {ui.BASE} --continue'", ui.LOGS / 'am.log')


def rebase(qemu_src, go_on, discard):
    if not ui.BASE:
        raise ui.Fail('the series is written for the first base', 'name a later one: --base',
                      status=2)
    with ui.lock(ui.HOME / 'lock', 'the source'):
        names = [path.name for path in tree.series(next(iter(tree.bases())))]
        if go_on:
            if not STATE.exists():
                raise ui.Fail('there is no rebase to continue', "start one: './pmu rebase'")
            now = json.loads(STATE.read_text())
            now['done'].append(resolved())
        else:
            now = start(qemu_src, discard)
        patches = {path.name: path for path in tree.series()}
        for name in names[len(now['done']):]:
            ui.write(STATE, json.dumps(now))
            good, out = tree.am(patches[name], SRC) if name in patches else (True, '')
            if not good:
                conflict(patches[name], out)
            now['done'].append(name in patches)
        for name, needed in zip(names, now['done']):
            if not needed:
                ui.write(tree.folders(ui.BASE)[0] / name, '')
        tree.write_state(now['base'], git('rev-parse', 'HEAD', cwd=SRC), now['version'],
                         now['source'])
        STATE.unlink(missing_ok=True)
    ui.say(f"the series is on QEMU {now['version']}: './pmu build --base {ui.BASE}' builds it, "
           f"'./pmu export --base {ui.BASE}' keeps it")
