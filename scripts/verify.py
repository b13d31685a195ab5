# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu verify`: prove that the overlay and the patches are what the project promises."""

import collections
import hashlib
import pathlib
import re
import subprocess
import sys

import base
import tree
import ui
from export import format_series
from base import ENV, git
from tree import STAGE

LIMIT = 599     # changed lines of QEMU's own files in the whole series: ours is plug-in code
CHECKPATCH = 'perl scripts/checkpatch.pl --no-tree --terse --no-summary --no-signoff'.split()


def changed_lines(patches, known):
    """(number of changed lines, what is wrong with files that the patches change)"""
    outside, lines = [], 0
    for path in patches:
        done = git('apply', '--numstat', '-z', path, check=False)
        if done.returncode:
            outside.append(f'{path.name}: {ui.blame(done.stderr.decode().splitlines())}')
        for added, removed, name in re.findall(r'([\d-]+)\t([\d-]+)\t([^\0]+)',
                                              done.stdout.decode()):
            lines += sum(int(n) for n in (added, removed) if n != '-')
            if name not in known:
                outside.append(f'{path.name}: {name}')
    return lines, outside


def apply(patches, own):
    """Apply all patches to STAGE; returns (whether all went in, what is wrong)"""
    bad, failed = [], False
    for path in patches:
        done = git('apply', '--check', '-v', path, cwd=STAGE, check=False)
        out = (done.stdout + done.stderr).decode(errors='replace').splitlines()
        moved = [l for l in out if re.search(r'\(offset -?\d+ lines?\)|Context reduced', l)]
        good = tree.am(path)[0]
        failed |= not good
        if not good or path in own and (done.returncode or moved):
            bad.append(f'{path.name}: {moved[0] if moved else ui.blame(out)}')
            tree.stage(git('rev-parse', 'HEAD', cwd=STAGE))
    return not failed, bad


def unused(files):
    """The files that no other file in STAGE names"""
    words = {}
    for name in files:
        path = pathlib.Path(name)
        words[name] = path.name if path.suffix == '.h' or '.' not in path.name else path.stem
    # One search for all finds nearly all: it prints the longer one of two words at a place.
    found = subprocess.run(['grep', '-rIowF', '--exclude=.git', '-f-', '.'], cwd=STAGE, env=ENV,
                           input='\n'.join(words.values()), capture_output=True, text=True)
    seen = collections.defaultdict(set)
    for line in found.stdout.splitlines():
        path, _, word = line.rpartition(':')
        seen[word].add(path[2:])
    return [name for name, word in words.items() if not seen[word] - {name} and
            git('grep', '-qwF', word, '--', f':!{name}', cwd=STAGE, check=False).returncode]


def style(patches, code):
    """What checkpatch says of patches, and of files in STAGE"""
    bad, clean = [], ui.BUILD / 'checkpatch.clean'
    rules = (STAGE / CHECKPATCH[1]).read_bytes()
    digests = {name: hashlib.sha256(b'\0'.join((rules, str(name).encode(),
                                                (STAGE / name).read_bytes()))).hexdigest()
               for name in (*patches, *code)}
    # It takes most of the time: it need not look again at what was found clean.
    done = clean.read_text().split() if clean.exists() else ()
    for option, names in ((), patches), (('-f',), code):
        if names := [name for name in names if digests[name] not in done]:
            found = subprocess.run([*CHECKPATCH, *option, *names], cwd=STAGE, capture_output=True,
                                   text=True, env=ENV)
            said = [l for l in (found.stdout + found.stderr).splitlines() if l.strip()]
            bad += said or ['checkpatch was ended'] * (found.returncode != 0)
    if not bad:
        ui.write(clean, '\n'.join(digests.values()))
    return bad


def checks(stock):
    """Yield (rule, problems) for everything that must hold of the project.

    It ends early where the rest cannot be checked before that is corrected. A later base
    merges the patches of older bases; the rules for patches are those of its own ones, and the
    style of the overlay is that of the first base.
    """
    known = tree.names(stock)
    files, patches, top = tree.overlay_files(), tree.series(), tree.folders(base.branch())[0]
    own = [p for p in patches if p.parent == top]
    clash = sorted(known.intersection(files))
    yield 'no overlay file exists in QEMU', clash

    listed = {p.name for p in tree.series(next(iter(tree.bases())))}
    yield 'every patch is in patches/series', sorted(
        p.name for p in top.glob('*.patch') if p.name not in listed)

    lines, outside = changed_lines(own, known)
    yield 'patches change only files that QEMU has', outside
    if ui.BASE:
        yield f'{len(own)} patches of QEMU {ui.BASE} change {lines} lines', []
    else:
        yield f'the series changes at most {LIMIT} lines of QEMU', \
            [f'{lines} lines'] * (lines > LIMIT)

    if clash:
        return
    tree.know_older_bases()
    first = tree.overlay_commit(stock)
    tree.stage(first)
    whole, bad = apply(patches, own)
    yield 'every patch applies without offset or fuzz', bad
    if not whole:
        return

    fresh = format_series(first, git('rev-parse', 'HEAD', cwd=STAGE))
    if ui.BASE:                     # its numbers have gaps where it needs no patch
        fresh = {p.name: data for p, data in zip(patches, fresh.values()) if p in own}
    kept = {p.name: p.read_bytes() for p in own}
    yield 'applying and exporting gives the same bytes', [
        name for name in sorted({*fresh, *kept}) if fresh.get(name) != kept.get(name)]

    yield 'every overlay file is used by some other file', unused(files)
    code = [n for n in files if n.endswith(('.c', '.h', '.py', '.S', '.inc')) and not ui.BASE]
    yield "QEMU's checkpatch finds nothing", style(own, code)


def verify():
    """Check the project's overlay and patches; raises Fail if a rule is broken."""
    broken, pinned = 0, base.base()['version']
    with ui.lock(ui.HOME / 'lock', 'the source'), ui.Step(f'verify {ui.BASE}'.strip()):
        stock, version = tree.import_base(tree.state().get('source'))
        if version != pinned:
            raise ui.Fail(f'patches are kept for QEMU {pinned}, but this is {version}',
                          f'{ui.command("clean")} and use that version')
        for number, (rule, problems) in enumerate(checks(stock), 1):
            print(f'{"not ok" if problems else "ok"} {number} - {rule}', flush=True)
            for problem in problems:
                print(f'#   {problem}', flush=True)
            if problems and not sys.stdout.isatty():
                # Meson shows what a failed test writes here, and hides the comments of TAP. In one
                # piece: the progress of this step comes here, too, from a thread.
                sys.stderr.write('\n'.join((f'{rule}:', *problems, '', '')))
            broken += bool(problems)
        print(f'1..{number}')
    if broken:
        raise ui.Fail(f'{broken} of {number} rules are broken')


def cmd_verify(opt):
    try:
        verify()
    except ui.Fail as fail:
        if not opt.or_skip or fail.status != base.GONE:
            raise
        print(f'1..0 # SKIP {fail}')
