# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu doctor`: one line a check; exit status 1 if something is missing."""

import os
import platform
import shutil

import debian
import ui

ROOM = {ui.BUILD: 6, ui.CACHE: 2}       # GB that a complete build and its downloads take


def checks():
    """Yield (what, problem or None, what to do)."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {'PRETTY_NAME': 'unknown'}
    good = system.get('ID') == 'debian' and system.get('VERSION_ID') in ('12', '13') and \
        platform.machine() == 'x86_64'
    yield f'system: {system["PRETTY_NAME"]} ({platform.machine()})', \
        None if good else 'not Debian 12 or 13 on x86_64', \
        'use one of these'

    if good:
        lacking = os.environ['PMU_MISSING'].strip()
        yield 'packages', f'missing: {lacking}' if lacking else None, \
            f'./pmu build installs them (or: apt-get install {lacking})'
        try:
            archive, problem = debian.host_archive(), None
        except ui.Fail as fail:
            archive, problem = '', str(fail)
        yield f'Debian archive: {archive}', problem, 'correct /etc/apt'

    used = {folder: int((ui.output(['du', '-sk', folder]) or '0').split()[0]) / 1e6
            for folder in ROOM}
    disk = {folder: os.stat(ui.existing(folder)).st_dev for folder in ROOM}
    for folder, need in ROOM.items():
        have = shutil.disk_usage(ui.existing(folder)).free / 1e9
        more = sum(max(0, ROOM[f] - used[f]) for f in ROOM if disk[f] == disk[folder])
        yield f'{ui.show(folder)}: {used[folder]:.1f} GB used, {have:.1f} GB free', \
            None if have >= more else f'it takes {need} GB, and its disk lacks ' \
            f'{more - have:.1f} GB', f'free some space, or {ui.ELSEWHERE}'
        yield f'permissions of {ui.show(folder)}', \
            None if os.path.isdir(at := ui.existing(folder)) and os.access(at, os.W_OK) else \
            'cannot be written', ui.ELSEWHERE
    yield 'path of the build folder', ui.bad_path(), ui.ELSEWHERE

    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9
    yield f'memory: {memory:.0f} GB', None if memory > 3.5 else 'a guest and a build need 4 GB', \
        'use a larger machine'


def cmd_doctor(_):
    bad = 0
    for what, problem, remedy in checks():
        bad += bool(problem)
        print(f'{"MISSING" if problem else "ok":8} {what}' +
              (f': {problem}; {remedy}' if problem else ''))
    return 1 if bad else 0
