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
    with ui.lock(ui.BUILD / 'graph.lock', 'configuring the build folder'):
        if ui.BASE and not (ui.BUILD / 'guest').is_symlink():
            (ui.HOME / 'guest').mkdir(exist_ok=True)        # the same for all bases
            (ui.BUILD / 'guest').symlink_to('../guest')
        if not ui.configured(ui.BUILD):         # perhaps for another checkout
            known = (ui.BUILD / 'meson-private/coredata.dat').exists()
            ui.run(['/usr/bin/meson', 'setup', *['--reconfigure'] * known, f'-Dbase={ui.BASE}',
                    ui.BUILD, ui.ROOT], 'meson.log', 'meson setup')
        ninja('build.ninja')        # once, and not by several commands when meson.build is new
    if targets:
        # tree.prepare() remembers it, if it is good.
        source = {'QEMU_PMU_SRC': os.path.abspath(qemu_src)} if qemu_src else {}
        ninja(*(f'{target}.stamp' for target in targets), **source)


def ninja(*goals, **env):
    with tempfile.TemporaryFile('w+') as log:
        # The jobs show their progress and errors themselves, on standard error.
        status = ui.call(['ninja', '-C', ui.BUILD, '--quiet', *goals], stdout=log,
                         env=dict(os.environ, QEMU_PMU_CWD=ui.HERE, **env))
        log.seek(0)
        text = log.read()
    if status:
        ui.write(ui.LOGS / 'ninja.log', text)
        if 'FAILED:' not in text or 'FAILED: build.ninja' in text:     # no job of ours
            why = ui.blame([*text.splitlines(), f'status {status}'])
            raise ui.Fail(f'ninja failed: {why}', log=ui.LOGS / 'ninja.log')
        sys.exit(status)
