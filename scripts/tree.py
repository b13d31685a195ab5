# SPDX-License-Identifier: GPL-2.0-or-later
"""Lay out the source tree in a scratch git repository.

    bases.toml --> source package --> base commit        (refs/tags/base/ID)
    accel/ hw/ include/ ...       --> overlay commit
    patches/series                --> one commit a patch --> BUILD/qemu/src

The repository is HOME/qemu.git; BUILD/qemu/src is where people edit and
HOME/stage where patches are applied, so that files that a new preparation
does not change keep their time stamps and need no recompilation. HOME is BUILD
of the first base; each later one has a BUILD below it.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil

import base
import ui
from base import REPO, bases, git, import_base, paths
from graph import graph

SRC = ui.BUILD / 'qemu' / 'src'
STOCK = ui.BUILD / 'stock' / 'src'
STAGE = ui.HOME / 'stage'
PATCHES = ui.ROOT / 'patches'
OVERLAY_ROOTS = ('accel', 'hw', 'include', 'target', 'pc-bios', 'qapi', 'stubs', 'tests', 'docs')
OVERLAY = 'overlay: add the new files of qemu-pmu'


def in_overlay(name):
    """Whether a file of this name is one of QEMU's new files, not an editor's litter.

    docs/*.md are the project's own pages; QEMU's documentation is .rst.
    """
    parts = name.split('/')
    return (parts[0] in OVERLAY_ROOTS and len(parts) > 1 and '__pycache__' not in parts
            and not any(p.startswith(('.', '#')) for p in parts)
            and not name.endswith(('~', '.orig', '.rej', '.pyc', '.part'))
            and not re.fullmatch(r'docs/[^/]*\.md', name))


def overlay_files():
    """The project's files that become new files of QEMU, relative to its root."""
    found = (path for top in OVERLAY_ROOTS for path in (ui.ROOT / top).rglob('*'))
    return sorted(name for path in found if path.is_file()
                  and in_overlay(name := str(path.relative_to(ui.ROOT))))


def folders(branch):
    """Where the patches of a branch are looked for: its own folder, then older ones."""
    known = list(bases())
    return [PATCHES / name for name in reversed(known[1:known.index(branch) + 1])] + [PATCHES]


def series(branch=None, where=0):
    """The patch files that a branch needs, in order; an empty one says that it needs none.

    where=1 leaves out the first folder: what the branch would take without patches of its own.
    """
    lines = (PATCHES / 'series').read_text().splitlines()
    names = [l.strip() for l in lines if l.strip() and not l.startswith('#')]
    for name in names:
        if not (PATCHES / name).is_file():
            raise ui.Fail(f'patches/series names {name}, which does not exist',
                          'bring it back, or take its line out')
    tops = folders(branch or base.branch())[where:]
    found = [next(top / name for top in tops if (top / name).is_file()) for name in names]
    return [path for path in found if path.stat().st_size]


def stamp(commit, files=None, patches=None):
    """A hash of all that determines the prepared tree."""
    digest = hashlib.sha256(commit.encode())
    files = overlay_files() if files is None else files
    for path in [ui.ROOT / f for f in files] + (patches or series()):
        data, mode = path.read_bytes(), os.access(path, os.X_OK)
        digest.update(os.fsencode(f'\0{path.relative_to(ui.ROOT)}\0{mode}\0{len(data)}\0') + data)
    return digest.hexdigest()


def state(build=ui.BUILD):
    try:
        return json.loads((build / 'qemu/prepared.json').read_text())
    except (FileNotFoundError, ValueError):
        return {}


def write_state(commit, tip, version, source, **more):
    new = {'stamp': stamp(commit), 'base': commit, 'tip': tip, 'version': version,
           'pinned': version == base.base()['version'], 'source': source, **more}
    ui.write(ui.BUILD / 'qemu/prepared.json', json.dumps(new, indent=1) + '\n')
    return new


# -- worktrees --------------------------------------------------------------

def checkout(folder, commit):
    """Make a worktree show a commit, rewriting only the files that differ."""
    if not (folder / '.git').exists():
        shutil.rmtree(folder, ignore_errors=True)
        git('worktree', 'prune')
        with ui.Step(f'check out {ui.show(folder)}'):
            git('worktree', 'add', '-q', '--detach', folder, commit)
    else:
        with ui.uninterrupted():        # git would leave its lock
            git('checkout', '-q', '--force', '--detach', commit, cwd=folder)


def edits(build=ui.BUILD):
    """What the user changed in the source since it was prepared: names of files."""
    now, src = state(build), build / 'qemu/src'
    if (build / 'rebase.json').exists() or now.get('rebased'):
        return ['those of "rebase"']    # which are there only, until export
    if not now or not (src / '.git').exists():
        return []
    files = paths('diff', '-z', '--name-only', '--no-renames', now['tip'], cwd=src) + \
        paths('ls-files', '-z', '--others', '--exclude-standard', cwd=src)
    reworded = not files and git('rev-parse', 'HEAD', cwd=src) != now['tip']
    return ['a commit message'] if reworded else sorted(files)


def way_out(now, build=ui.BUILD):
    """The commands that bring edits of the source into the project."""
    if (build / 'rebase.json').exists():
        return ui.command('rebase --continue')
    export = ui.command('export')
    return export if stamp(now['base']) == now['stamp'] else (      # export refuses the others
        f'git stash -u (or check out an older commit), {export}, git commit, and git stash pop '
        '(or merge)')


def refuse_edits(build, drop):
    """Fail if the source has edits; `drop` is what drops them."""
    if changed := edits(build):
        raise ui.Fail(f'{ui.show(build / "qemu/src")} has edits that were not exported '
                      f'({len(changed)} files, {changed[0]} first)',
                      f'to keep them: {way_out(state(build), build)}; {drop} drops them')


def names(commit):
    """The files of a commit."""
    return set(paths('ls-tree', '-rz', '--name-only', commit))


def overlay_commit(base_commit):
    """A commit of base + the overlay's files."""
    files = overlay_files()
    if clash := sorted(names(base_commit).intersection(files)):
        raise ui.Fail(f'{clash[0]} is in the overlay, but QEMU has that file already',
                      'changes to QEMU files belong into patches/')
    index = REPO / 'index-overlay'
    git('read-tree', base_commit, index=index)
    git('add', '-f', '--pathspec-from-file=-', '--pathspec-file-nul', index=index, work=ui.ROOT,
        data=os.fsencode('\0'.join(f':(literal,top){f}' for f in files)))
    return git('commit-tree', git('write-tree', index=index), '-p', base_commit, '-m', OVERLAY)


def stage(commit):
    """Make STAGE show a commit, whatever a killed run has left there."""
    own = REPO / 'worktrees/stage'
    (own / 'index.lock').unlink(missing_ok=True)
    for left in 'rebase-apply', 'rebase-merge':
        shutil.rmtree(own / left, ignore_errors=True)
    checkout(STAGE, commit)


def am(*what, cwd=STAGE):
    """Apply patches as commits, with a merge where one is needed; returns (success, output)."""
    with ui.uninterrupted():        # "--skip" would drop the patch that it was about to apply
        done = git('am', '-3', '--keep-non-patch', '--keep-cr', '--committer-date-is-author-date',
                   *what, cwd=cwd, check=False)
    return not done.returncode, (done.stdout + done.stderr).decode(errors='replace')


def apply_series(commit, version, branch=None):
    """Apply the series on top of a commit in STAGE; returns the new tip."""
    stage(commit)
    made_for, patches = bases()[branch or base.branch()]['version'], series(branch)
    good, out = am(*patches)
    if not good:
        ui.write(ui.LOGS / 'am.log', out)
        done = int(git('rev-list', '--count', f'{commit}..HEAD', cwd=STAGE))
        raise ui.Fail(f'{patches[done].name} does not apply to QEMU {version}',
                      f'use QEMU {made_for} (--qemu-src DIR|TARBALL), or ' + (
                          f'adapt the patch: {ui.command("rebase")}' if ui.BASE else
                          'make that release a base (docs/bases.md)'), ui.LOGS / 'am.log')
    if version != made_for:
        ui.say(f'notice: the series was made for QEMU {made_for}; on {version} '
               f'{out.count("3-way")} patches needed a 3-way merge')
    return git('rev-parse', 'HEAD', cwd=STAGE)


def again(now, branch=None):
    """(commit, version) of the source that a preparation used, which may be gone since then."""
    if now.get('source') and not os.path.exists(now['source']):
        return now['base'], now['version']
    return import_base(now.get('source'), branch)


def know_older_bases():
    """Apply the series to the bases before this one: merges need the files that it makes there."""
    for branch in list(bases())[:list(bases()).index(base.branch())]:
        build = ui.HOME / (branch if branch != next(iter(bases())) else '')
        commit, version = again(state(build), branch)
        ref = f'refs/tags/series/{stamp(commit, [], series(branch))}'
        if git('rev-parse', '-q', '--verify', ref, check=False).returncode:
            with ui.Step(f'apply the series to QEMU {version}'):
                git('update-ref', ref, apply_series(commit, version, branch))


def prepare(qemu_src=None, discard=False):
    """Bring BUILD/qemu/src up to date; a no-op if nothing changed."""
    with ui.lock(ui.HOME / 'lock', 'preparing the source'):
        old = state()
        source = os.path.abspath(qemu_src) if qemu_src else old.get('source')
        commit, version = import_base(source) if qemu_src else again(old)
        new_stamp = stamp(commit)
        if old.get('stamp') == new_stamp and (SRC / '.git').exists() and not discard:
            return old
        if not discard:
            refuse_edits(ui.BUILD, ui.command('prepare --discard'))
        know_older_bases()
        tip = apply_series(overlay_commit(commit), version)
        # Half a checkout would look like edits.
        with ui.uninterrupted():
            if discard and (SRC / '.git').exists():
                git('am', '--abort', cwd=SRC, check=False)
                git('clean', '-qfd', cwd=SRC)
                (ui.BUILD / 'rebase.json').unlink(missing_ok=True)
            checkout(SRC, tip)
            new = write_state(commit, tip, version, source)
        own = sum(path.parent != PATCHES for path in series())
        ui.say(f'QEMU {version} with {len(series())} patches'
               f'{f" ({own} of patches/{ui.BASE})" if ui.BASE else ""} and '
               f'{len(overlay_files())} new files is in {ui.show(SRC)}')
        return new


def cmd_prepare(opt):
    if opt.discard:
        prepare(opt.qemu_src, discard=True)
    graph('prepare', qemu_src=opt.qemu_src)


def cmd_clean(opt):
    if ui.BUILD.exists() and not ui.MARK.exists() and ui.HOME != ui.ROOT / 'build' and \
            any(ui.HOME.iterdir()):             # else a clean was interrupted at its very end
        raise ui.Fail(f'{ui.show(ui.HOME)} had files before pmu used it (it has no '
                      f'{ui.MARK.name})', 'remove the files of pmu by hand')
    if not opt.force and REPO.exists():
        others = [] if ui.BASE else list(bases())[1:]
        for name in [*others, ui.BASE]:
            ui.use_base(name)           # for the commands that the message names
            refuse_edits(ui.BUILD, '--force')
    folders = [ui.BUILD] + [ui.CACHE] * opt.downloads
    locks = {ui.HOME / 'lock', *(path for folder in folders for path in folder.rglob('*lock'))}
    with contextlib.ExitStack() as stack:
        for path in filter(pathlib.Path.is_file, locks):
            if not (lock := ui.try_lock(path)):
                raise ui.Fail(f'another pmu is busy in {ui.show(path.parent)}',
                              'wait for it, or stop it')
            stack.enter_context(lock)
        for folder in filter(pathlib.Path.exists, folders):
            print(f'removing {ui.show(folder)}', flush=True)
            # Last the locks, which keep others out, and behind them the mark: without it, a clean
            # that was interrupted could not be repeated.
            for path in sorted(folder.iterdir(), key=lambda p: (p == ui.MARK, p in locks)):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            try:
                folder.rmdir()
            except OSError:     # another pmu has begun in that moment; or the cache is a mount
                if ui.HOME.exists():
                    ui.MARK.touch()
