# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu rebase`: let git apply the series in the prepared source, and stop at conflicts.

BUILD/rebase.json keeps the stock source and the series. At the end the source counts as prepared,
and `pmu export` writes the patches that the base needs of its own.
"""

import json
import os
import pathlib

import base
import tree
import ui
from base import git, paths
from tree import SRC

STATE = ui.BUILD / 'rebase.json'


def stopped_at():
    """The index of the patch at which git am has stopped; None if it has not."""
    number = pathlib.Path(git('rev-parse', '--absolute-git-dir', cwd=SRC)) / 'rebase-apply/next'
    return int(number.read_text()) - 1 if number.exists() else None


def start(qemu_src, discard):
    """Lay out stock source and overlay, and begin with the series."""
    if (STATE.exists() or tree.edits()) and not discard:
        raise ui.Fail(f'{ui.show(SRC)} has a rebase that is not finished, or edits',
                      f"{ui.command('rebase --continue')} goes on, '--discard' drops them")
    source = os.path.abspath(qemu_src) if qemu_src else tree.state().get('source')
    commit, version = base.import_base(source)
    tree.know_older_bases()
    if (SRC / '.git').exists():
        git('am', '--abort', cwd=SRC, check=False)
        git('clean', '-qfd', cwd=SRC)
    tree.checkout(SRC, tree.overlay_commit(commit))
    patches = tree.series()
    now = {'base': commit, 'version': version, 'source': source,
           'patches': [str(path.relative_to(ui.ROOT)) for path in patches]}
    ui.write(STATE, json.dumps(now))
    return now, *tree.am(*patches, cwd=SRC)


def markers():
    """Where git finds conflict markers: FILE:LINE."""
    done = git('diff', '--check', cwd=SRC, check=False).stdout.decode(errors='replace')
    return [line.split(': ')[0] for line in done.splitlines() if 'conflict marker' in line]


def resume():
    """Commit a conflict that was resolved, or skip its patch if nothing is left; go on."""
    if not STATE.exists():
        raise ui.Fail('there is no rebase to continue', f'start one: {ui.command("rebase")}')
    now = json.loads(STATE.read_text())
    if stopped_at() is None:
        if git('rev-list', '--count', f'{now["base"]}..HEAD', cwd=SRC) == '1' and \
                len(tree.series()) > 1:         # the overlay alone: "am --abort" by hand
            raise ui.Fail('no patch has been applied',
                          f"{ui.command('rebase --discard')} starts over")
        return now, True, ''                    # finished by hand
    if left := markers():
        raise ui.Fail(f'{ui.show(SRC / left[0])} has a conflict marker',
                      f'resolve the conflict, then {ui.command("rebase --continue")}')
    git('add', '-A', cwd=SRC)
    needed = git('diff', '--cached', '--name-only', cwd=SRC)
    return now, *tree.am('--continue' if needed else '--skip', cwd=SRC)


def cmd_rebase(opt):
    if not ui.BASE:
        opt.error('the series is written for the first base; name a later one: --base')
    with ui.lock(ui.HOME / 'lock', 'the source'):
        now, good, out = resume() if opt.go_on else start(opt.qemu_src, opt.discard)
        if not good:
            files = paths('diff', '-z', '--name-only', '--diff-filter=U', cwd=SRC)
            for where in sorted({*markers()}) or files:
                print(ui.show(SRC / where), flush=True)
            ui.write(ui.LOGS / 'am.log', out)
            raise ui.Fail(f'{now["patches"][stopped_at() or 0]} does not merge',
                          f'resolve it in {ui.show(SRC)}, then '
                          f'{ui.command("rebase --continue")}', ui.LOGS / 'am.log')
        # git am makes no commit of what QEMU has already. Names of files have the first 52
        # characters of a subject.
        made = {subject[:52] for subject in
                git('log', '--format=%f', f'{now["base"]}..HEAD', cwd=SRC).split()}
        for path in map(pathlib.Path, now['patches']):
            if path.name[5:-6] not in made:
                ui.write(tree.folders(ui.BASE)[0] / path.name, '')
        tree.write_state(now['base'], git('rev-parse', 'HEAD', cwd=SRC), now['version'],
                         now['source'], rebased=True)
        STATE.unlink(missing_ok=True)
    ui.say(f"the series is on QEMU {now['version']}: './pmu build --base {ui.BASE}' builds it, "
           f"'./pmu export --base {ui.BASE}' keeps it")
