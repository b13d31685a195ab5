# The scratch git repository in which the QEMU tree is laid out.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run git on HOME/qemu.git and its worktrees, and on nothing else."""

import os
import subprocess

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
    'commit.gpgsign=false', 'advice.detachedHead=false') for word in ('-c', setting)]


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
