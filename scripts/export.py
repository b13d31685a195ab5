# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu export`: fold edits of the prepared source back into the project."""

import os

import base
import tree
import ui
from base import git, paths
from tree import SRC, STAGE

FORMAT = ('format-patch', '-q', '--zero-commit', '--no-signature', '--no-numbered',
          '--full-index', '--no-renames', '--stat=72', '--no-cover-letter')
AUTHOR_KEYS = ('GIT_AUTHOR_NAME', 'GIT_AUTHOR_EMAIL', 'GIT_AUTHOR_DATE')


def stock_changes(old, new, known):
    """{path: (mode, blob)} of stock files that differ between two commits or trees."""
    fields = paths('diff-tree', '-r', '-z', '--no-renames', old, new)
    return {path: (meta.split()[1], meta.split()[3])
            for meta, path in zip(fields[::2], fields[1::2]) if path in known}


def history(base, head, known):
    """The commits of the prepared tree that change stock files: [message, author, changes]."""
    for old in git('rev-list', '--reverse', f'{base}..{head}').splitlines():
        if changes := stock_changes(f'{old}^', old, known):
            *who, message = git('log', '-1', '--format=%an%n%ae%n%aI%n%B', old).split('\n', 3)
            yield message, dict(zip(AUTHOR_KEYS, who)), changes


def fold(commits, loose, patch, new_patch):
    """Give every loose change of a stock file to a commit; may append commits."""
    if new_patch:
        commits += [(new_patch, {}, loose)] * bool(loose)
        return
    owners = {path: n for n, (_, _, changes) in enumerate(commits) for path in changes}
    if patch and not (patch.isdecimal() and 0 < int(patch) <= len(commits)):
        raise ui.Fail(f'--patch {patch}: there is no such patch in patches/series',
                      f'give a number from 1 to {len(commits)}')
    fixups = {}
    for path, entry in loose.items():
        owner = int(patch) - 1 if patch else owners.get(path)
        if owner is None:
            raise ui.Fail(f'no patch changes {path} yet',
                          'say --patch NNNN or --new-patch "subsystem: what it does"')
        if owners.get(path, owner) <= owner:
            commits[owner][2][path] = entry
        else:               # a later patch changes this file too: that takes a merge
            fixups.setdefault(owner, {})[path] = entry
    commits += [(f'fixup! {commits[owner][0].splitlines()[0]}', {}, changes)
                for owner, changes in fixups.items()]


def rewrite(now, patch, new_patch):
    """The history of SRC as base, overlay, patches; returns (overlay, tip, new files)."""
    stock = now['base']
    known = tree.names(stock)
    head = git('rev-parse', 'HEAD', cwd=SRC)
    index = tree.REPO / 'index-export'
    git('read-tree', head, index=index)
    git('add', '-A', ':/', index=index, work=SRC)
    final = git('write-tree', index=index)
    files = sorted(tree.names(final) - known)
    if alien := [name for name in files if not tree.in_overlay(name)]:
        raise ui.Fail(f'{alien[0]} is no file of the overlay ({", ".join(tree.OVERLAY_ROOTS)})',
                      'remove it from the prepared source')
    commits = list(history(stock, head, known))
    fold(commits, stock_changes(head, final, known), patch, new_patch)

    git('read-tree', stock, index=index)

    def commit(parent, entries, message, env=()):
        git('update-index', '-z', '--index-info', index=index, data=os.fsencode('\0'.join(entries)))
        new = git('write-tree', index=index)
        if new == git('rev-parse', f'{parent}^{{tree}}') and parent != stock:
            return parent           # every edit of this patch was undone
        return git('commit-tree', new, '-p', parent, data=os.fsencode(message), env=env)

    first = tip = commit(stock, [entry for entry in paths('ls-tree', '-rz', final)
                                 if entry.split('\t', 1)[1] not in known], tree.OVERLAY)
    for message, author, changes in commits:
        tip = commit(tip, [f'{mode if int(mode) else 0} {blob}\t{path}'
                           for path, (mode, blob) in changes.items()], message, author)
    if any(message.startswith('fixup! ') for message, _, _ in commits):
        tree.stage(tip)
        done = git('rebase', '-q', '-i', '--autosquash', '--committer-date-is-author-date', first,
                   cwd=STAGE, check=False)
        if done.returncode:
            ui.write(ui.LOGS / 'export.log', done.stdout + done.stderr)
            raise ui.Fail('an edit does not fold into its patch without a conflict',
                          'say --patch NNNN, or rebase in the prepared source by hand',
                          ui.LOGS / 'export.log')
        tip = git('rev-parse', 'HEAD', cwd=STAGE)
    if git('rev-parse', f'{tip}^{{tree}}') != final:
        raise ui.Fail('the rewritten series does not give the edited tree (a bug); nothing changed')
    return first, tip, files


def format_series(first, tip):
    """{file name: content} of the patches between two commits, in order."""
    with ui.scratch('series-') as scratch:
        git(*FORMAT, '-o', scratch, f'{first}..{tip}')
        return {p.name: p.read_bytes() for p in sorted(scratch.glob('*.patch'))}


def series_text(names):
    """patches/series with these patches: its comments stay above what they stood above."""
    notes, above = {}, []
    for line in (tree.PATCHES / 'series').read_text().splitlines():
        if line.strip() and not line.startswith('#'):
            notes[line.strip()[5:]], above = above, []      # numbers may change
        else:
            above.append(line)
    known, lines = {name[5:] for name in names}, []
    for place, name in zip([*notes, *[''] * len(names)], names):
        if place not in known:          # this one has another subject now
            notes.setdefault(name[5:], notes.get(place, []))
        lines += [*notes.get(name[5:], []), name]
    return ''.join(f'{line}\n' for line in [*lines, *above])


def own_patches(first, tip, fresh):
    """Those of a later base's patches that merging an older base's patch does not give."""
    commits, old = git('rev-list', '--reverse', f'{first}..{tip}').split(), tree.series(where=1)
    names = [path.name for path in tree.series()]
    if len(names) != len(commits):
        raise ui.Fail(f'QEMU {ui.BASE} has {len(commits)} patches instead of {len(names)}',
                      'add patches to the first base, or remove them there')
    before, found = {path.name: path for path in old}, {}
    tree.know_older_bases()
    for parent, commit, name, data in zip([first, *commits], commits, names, fresh.values()):
        tree.stage(parent)
        if name not in before or not tree.am(before[name])[0] or \
                git('diff', '--name-only', commit, cwd=STAGE):
            found[name] = data
    return found


def write_patches(first, tip):
    """Write the patches between two commits; returns how many."""
    fresh, top = format_series(first, tip), tree.folders(base.branch())[0]
    ui.need_room(tree.PATCHES, 10)      # all of them, or none
    if ui.BASE:
        with ui.Step(f'find out which patches QEMU {ui.BASE} needs'):
            fresh = own_patches(first, tip, fresh)
    else:
        ui.write(tree.PATCHES / 'series', series_text(fresh))
        for own in tree.PATCHES.glob('*/[0-9]*.patch'):     # of later bases
            for name in fresh:
                if name[5:] == own.name[5:]:
                    own.rename(own.with_name(name))
    for name, data in fresh.items():
        ui.write(top / name, data)
    for old in set(top.glob('[0-9]*.patch')) - {top / name for name in fresh}:
        if old.stat().st_size:
            old.unlink()
    return len(fresh)


def cmd_export(opt):
    now = tree.state()          # looked at again when the source is ours
    if not now or not (SRC / '.git').exists():
        raise ui.Fail('there is no prepared source', f'run {ui.command("prepare")} first')
    if not now['pinned']:
        raise ui.Fail(f'the prepared source is QEMU {now["version"]}, but patches are kept for '
                      f'{base.base()["version"]}', f'{ui.command("clean")} and prepare that version')
    if opt.new_patch and ui.BASE:
        raise ui.Fail('--new-patch is for the first base', 'add the patch there')
    with ui.lock(ui.HOME / 'lock', 'the source'):
        if tree.stamp(now['base']) != now['stamp'] or tree.state() != now:
            raise ui.Fail('the overlay or patches/ changed since the source was prepared',
                          tree.way_out(now))
        first, tip, files = rewrite(now, opt.patch, opt.new_patch)
        with ui.uninterrupted():
            count = write_patches(first, tip)
            for old in set(tree.overlay_files()) - set(files):
                (ui.ROOT / old).unlink()
            for name in files:
                ui.write(ui.ROOT / name, (SRC / name).read_bytes())
                os.chmod(ui.ROOT / name, 0o755 if os.access(SRC / name, os.X_OK) else 0o644)
            git('reset', '-q', tip, cwd=SRC)
            tree.write_state(now['base'], tip, now['version'], now['source'])
    changed = os.fsdecode(git('status', '--short', '-uall', '--', *tree.OVERLAY_ROOTS, 'patches',
                              cwd=ui.ROOT, check=False).stdout)
    print(changed, end='')
    ui.say(f'{count} patches{ui.BASE and f" of QEMU {ui.BASE}"} and {len(files)} new files; '
           f'{len(changed.splitlines())} files differ from the last commit')
