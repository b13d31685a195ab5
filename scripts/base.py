# SPDX-License-Identifier: GPL-2.0-or-later
"""The scratch repository HOME/qemu.git, and the stock sources of bases.toml as commits in it."""

import hashlib
import os
import pathlib
import re
import subprocess
import tomllib

import debian
import ui

REPO = ui.HOME / 'qemu.git'
AUTHOR = {'NAME': 'qemu-pmu developers', 'EMAIL': 'qemu-pmu@localhost',
          'DATE': '2026-01-01T00:00:00Z'}

# Nothing of the user's git configuration may change what we write.
ENV = {k: v for k, v in os.environ.items() if not k.startswith('GIT_')}
ENV.update(GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1', GIT_ATTR_NOSYSTEM='1',
           LC_ALL='C', GIT_EDITOR=':', GIT_SEQUENCE_EDITOR=':',
           **{f'GIT_{who}_{k}': v for who in ('AUTHOR', 'COMMITTER') for k, v in AUTHOR.items()})
CONFIG = [word for setting in (
    'core.abbrev=12', 'diff.algorithm=myers', 'gc.auto=0', 'core.autocrlf=false',
    'core.quotepath=false', 'core.fileMode=true', 'core.hooksPath=/dev/null',
    'core.attributesFile=/dev/null', 'core.excludesFile=/dev/null',
    'commit.gpgsign=false', 'advice.detachedHead=false',
    'safe.directory=*') for word in ('-c', setting)]        # root may build in a user's folder
NOT_IMPORTED = ('roms', 'debian', '.pc', '.git', 'build')   # large, nothing builds from them


def git(*args, cwd=None, data=None, check=True, index=None, work=None, env=()):
    """Run git in the scratch repository, or in one of its worktrees (cwd)."""
    where = ['-C', str(cwd)] if cwd else [f'--git-dir={REPO}']
    if work:
        where.append(f'--work-tree={work}')
    env = dict(ENV, **dict(env), **({'GIT_INDEX_FILE': str(index)} if index else {}))
    if index:       # HOME/lock is held: only a git that was killed has left its lock
        index.with_name(f'{index.name}.lock').unlink(missing_ok=True)
    cmd = ['git', *CONFIG, *where, *map(str, args)]
    done = subprocess.run(cmd, input=data, capture_output=True, env=env)
    if check and done.returncode:
        text = (done.stderr or done.stdout).decode(errors='replace').strip().splitlines()
        ui.write(ui.LOGS / 'git.log', '\n'.join([' '.join(cmd), *text, '']))
        raise ui.Fail(f'git {args[0]} failed: {ui.blame(text)}', log=ui.LOGS / 'git.log')
    return done.stdout.decode(errors='surrogateescape').strip() if check else done


def paths(*args, **kw):
    """The file names that a git command with -z prints."""
    return [n for n in git(*args, **kw).split('\0') if n]


def bases():
    """{branch: its table of bases.toml}, oldest first: the series is written for that one."""
    with open(ui.ROOT / 'bases.toml', 'rb') as handle:
        try:
            found = tomllib.load(handle)
        except ValueError as error:
            raise ui.Fail(f'bases.toml: {error}', 'correct it')
    for name, table in found.items():
        if not isinstance(table, dict) or 'version' not in table:
            raise ui.Fail(f'bases.toml: [{name}] has no version', 'add it')
    return found


def branch():
    """The branch that this command works on."""
    return ui.BASE or next(iter(bases()))


def base():
    return bases()[branch()]


GONE = 77           # exit status if Debian does not have a release: to meson, a test is skipped


def source_package(name):
    """Fetch the pinned source package of a branch (or a newer point release of it)."""
    known, folder = bases()[name], ui.CACHE / 'source'
    if 'dsc' not in known:
        raise ui.Fail(f'bases.toml names no source package of QEMU {name}',
                      f'give it once: ./pmu prepare (or rebase) --base {name} '
                      '--qemu-src DIR|TARBALL', status=GONE)
    if all((folder / name).is_file() for name in known['sha256']):
        dsc = folder / known['dsc']
    else:
        try:
            dsc = debian.Apt(known['suite'], 'amd64').source(known['package'])
        except ui.Fail as fail:
            if 'Unable to find a source package' not in str(fail):
                raise
            raise ui.Fail(f"Debian's {known['suite']} has no source of QEMU {known['version']}",
                          'give it once: ./pmu prepare '
                          f'{f"--base {name} " if name != next(iter(bases())) else ""}'
                          f'--qemu-src qemu-{known["version"]}.tar.xz', status=GONE)
    if dsc.name == known['dsc']:
        with ui.Step('checksums of the QEMU source'):
            for name, checksum in known['sha256'].items():
                debian.verify(folder / name, checksum)
    return dsc


def import_base(qemu_src=None, name=None):
    """Make the stock source of a branch a commit; returns (commit, version)."""
    name = name or branch()
    if not (REPO / 'HEAD').exists():
        git('init', '-q', '--bare', '--template=')
        # Commits made by hand in the prepared source become patches: these are the project's.
        git('config', 'user.name', AUTHOR['NAME'])
        git('config', 'user.email', AUTHOR['EMAIL'])
    if qemu_src:
        path = pathlib.Path(qemu_src).absolute()
        if not path.is_file() and not path.is_dir():
            raise ui.Fail(f'--qemu-src {qemu_src}: no such file or folder')
        ident = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        ident += '' if path.is_dir() else '-' + debian.digest(path)[:12]
    else:
        path = source_package(name)
        ident = path.name.removesuffix('.dsc').replace('~', '-')
    ref = f'refs/tags/base/{ident}'
    commit = git('rev-parse', '-q', '--verify', ref, check=False).stdout.decode().strip()
    if not commit or path.is_dir():
        ui.need_room(ui.HOME, 800)
        with ui.scratch('unpack-') as scratch, ui.Step(f'unpack and import {path.name}'):
            top = path
            if not path.is_dir():
                top = scratch / 's'
                cmd = ['tar', '-xf', path, f'--one-top-level={top}', '--strip-components=1']
                if path.suffix == '.dsc':
                    cmd = ['dpkg-source', '--no-check', '-x', path, top]
                ui.run(cmd, 'unpack.log', f'unpacking {path.name}', 'is it a QEMU source tarball?')
            if not (top / 'VERSION').is_file() or not (top / 'configure').is_file():
                raise ui.Fail(f'{path} is not a QEMU source tree (no VERSION and configure)',
                              'give --qemu-src a tarball of QEMU, or a folder with these files')
            if path.is_dir() and any(top.glob('subprojects/*/.git')):
                # What meson has downloaded would be taken for repositories, without their files.
                top = scratch / 's'
                ui.run(['rsync', '-a', '--exclude=.git', *(f'--exclude=/{n}' for n in NOT_IMPORTED),
                        f'{path}/', top], 'unpack.log')
            index = REPO / f'index-{ident}'
            git('add', '-Af', '--', ':/', *(f':!/{n}' for n in NOT_IMPORTED), index=index, work=top)
            tree = git('write-tree', index=index)
        commit = git('commit-tree', tree, '-m', f'QEMU source {ident}')
        git('update-ref', ref, commit)
    version = git('show', f'{commit}:VERSION')
    if not re.fullmatch(re.escape(name) + r'\.\d+', version):
        raise ui.Fail(f'{path} is QEMU {version}, but this base is {name}.x',
                      'give --qemu-src a release of that branch, or --base another one')
    return commit, version
