# SPDX-License-Identifier: GPL-2.0-or-later
"""Let meson and ninja bring what a command needs up to date."""

import os
import sys
import tempfile

import ui


def graph(*targets, qemu_src=None):
    """Let meson's graph (meson.build) bring targets up to date."""
    if targets and (problem := ui.bad_path()):
        raise ui.Fail(problem, ui.ELSEWHERE)
    option = [f'-Dqemu_src={os.path.abspath(qemu_src)}'] if qemu_src else []
    with ui.lock(ui.BUILD / 'graph.lock', 'configuring the build folder'):
        ui.LOGS.mkdir(exist_ok=True)
        if ui.BASE and not (ui.BUILD / 'guest').exists():
            (ui.HOME / 'guest').mkdir(exist_ok=True)        # the same for all bases
            (ui.BUILD / 'guest').symlink_to('../guest')
        if not (ui.BUILD / 'build.ninja').exists():
            ui.run(['/usr/bin/meson', 'setup', f'-Dbase={ui.BASE}', *option, ui.BUILD, ui.ROOT],
                   'meson.log', 'meson setup')
        elif option:
            ui.run(['/usr/bin/meson', 'configure', *option, ui.BUILD], 'meson.log',
                   'meson configure')
        ninja('build.ninja')        # once, and not by several commands when meson.build is new
    if targets:
        ninja(*(f'{target}.stamp' for target in targets))


def ninja(*goals):
    with tempfile.TemporaryFile('w+') as log:
        # The jobs show their progress and errors themselves, on standard error.
        status = ui.call(['ninja', '-C', ui.BUILD, '--quiet', *goals], stdout=log,
                         env=dict(os.environ, QEMU_PMU_CWD=os.getcwd()))
        log.seek(0)
        text = log.read()
    if status:
        ui.write(ui.LOGS / 'ninja.log', text)
        if 'FAILED:' not in text:          # ninja's own trouble, if not on standard error
            why = text.strip().splitlines()[-1:] or [f'status {status}']
            raise ui.Fail(f'ninja failed: {why[0]}', log=ui.LOGS / 'ninja.log')
        sys.exit(status)
