# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu prepare`: stock + overlay + series, in one tree that edits survive in."""

import os
import shutil
import subprocess

import fixtures
from fixtures import (
    FILES, MERGED, MESON, PATCH_NAME, QEMU, messages, one_line, read, write)

class Prepare(fixtures.TreeTest):
    def test_layout(self):
        """the prepared tree is the stock source, the new files and the patches, and no more"""
        self.prepare()
        wanted = {n: (t.encode(), n == 'hw/arm/run.sh') for n, t in
                  {**QEMU, **FILES, 'hw/misc/meson.build': MERGED}.items()}
        self.assertEqual(read(self.src), wanted)
        log = subprocess.run(['git', '-C', self.src, 'log', '--format=%s'], text=True,
                             capture_output=True, env=self.project.env).stdout.splitlines()
        self.assertEqual(len(log), 3, 'base, overlay, one patch')
        self.assertEqual(log[0], 'hw/misc: build the new device')

    def test_not_imported(self):
        """of a folder, large parts that nothing is built from stay behind, at its top only"""
        write(self.qemu, {**dict.fromkeys(('roms/x', 'debian/x', '.pc/x', 'build/x'), ''),
                          'hw/build/x': '', 'hw/roms': ''})
        self.prepare()
        self.assertEqual(read(self.src).keys() - QEMU.keys() - FILES.keys(),
                         {'hw/build/x', 'hw/roms'})

    def test_noop(self):
        """preparing again with nothing changed touches no file and says nothing"""
        self.prepare()
        before = {p: p.stat().st_mtime_ns for p in (self.project.build / 'qemu').rglob('*')}
        self.assertEqual(messages(self.prepare().stderr), [])
        self.assertEqual({p: p.stat().st_mtime_ns for p in before}, before)

    def test_mtime(self):
        """files that a new preparation does not change keep their time stamps"""
        self.prepare()
        old = {n: (self.src / n).stat().st_mtime_ns for n in read(self.src)}
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        self.prepare()
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newer;\n')
        changed = [n for n in old if (self.src / n).stat().st_mtime_ns != old[n]]
        self.assertEqual(changed, ['hw/misc/new.c'])

    def test_left_out(self):
        """a new file or patch that leaves the project leaves the prepared tree"""
        self.prepare()
        write(self.project.root, {'tests/qtest/new-test.c': None, 'patches/series': ''})
        self.prepare()
        self.assertFalse((self.src / 'tests/qtest/new-test.c').exists())
        self.assertEqual((self.src / 'hw/misc/meson.build').read_text(), MESON)

    def test_subprojects(self):
        """of a clone of QEMU, what meson has downloaded is laid out, too: its own repositories"""
        write(self.qemu, {'subprojects/keys/keys.c': 'int keys;\n', '.git/HEAD': 'ref: x\n'})
        git = ['git', '-c', 'user.name=U', '-c', 'user.email=U']
        for args in ('init', '-q'), ('add', '.'), ('commit', '-qm', 'first'):
            subprocess.run([*git, *args], check=True, env=self.project.env,
                           cwd=self.qemu / 'subprojects/keys')
        self.prepare()
        self.assertEqual((self.src / 'subprojects/keys/keys.c').read_text(), 'int keys;\n')

    def test_litter(self):
        """editors' and interrupted writers' leftovers are no new files, nor are docs/*.md"""
        litter = ('hw/misc/new.c~', 'hw/misc/new.c.part', 'hw/misc/.new.c.swp', 'hw/x.orig',
                  'tests/__pycache__/x.py', 'docs/page.md', 'hw/misc/#new.c#')
        write(self.project.root, dict.fromkeys(litter, 'x'))
        self.prepare()
        self.assertEqual(read(self.src).keys() - QEMU.keys(), FILES.keys())

    def edit_both(self, name):
        self.prepare()
        write(self.src, {name: 'my edit\n'})
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})

    def test_dirty_refused(self):
        """edits survive: a changed project does not overwrite them, and the file is named"""
        for name in ('VERSION', 'hw/misc/new.c', 'hw/misc/mine.c'):
            with self.subTest(f'an edit of {name} survives'):
                self.setUp()
                self.edit_both(name)
                one_line(self, self.prepare(ok=False), 1, f'(1 files, {name} first)',
                         'export', '--discard')
                self.assertEqual((self.src / name).read_text(), 'my edit\n')

    def test_dirty_both(self):
        """where source and project have edits, the commands that the error names keep both"""
        git = ['git', '-c', 'user.name=U', '-c', 'user.email=u@localhost', '-C', self.project.root]

        def run(*args):
            subprocess.run([*git, *args], check=True, env=self.project.env, capture_output=True)

        for args in ('init', '-q'), ('add', '-A'), ('commit', '-qm', 'begin'):
            run(*args)
        self.edit_both('hw/misc/mine.c')
        one_line(self, self.prepare(ok=False), 1, 'hw/misc/mine.c first); to keep them: git '
                 "stash -u (or check out an older commit), './pmu export', git commit, and git "
                 "stash pop (or merge); './pmu prepare --discard' drops them")
        run('stash', '-u')
        self.assertEqual(self.project.pmu('export').returncode, 0)
        for args in ('add', '-A'), ('commit', '-qm', 'edit'), ('stash', 'pop'):
            run(*args)
        self.prepare()
        self.assertEqual([(self.src / f'hw/misc/{name}.c').read_text() for name in ('mine', 'new')],
                         ['my edit\n', 'int newer;\n'])

    def test_other_source(self):
        """edits of a source that another release is to replace are kept by an export"""
        self.prepare()
        write(self.src, {'hw/misc/mine.c': 'my edit\n'})
        newer = self.project.top / 'newer'
        write(newer, {**QEMU, 'VERSION': '10.0.14\n'})
        one_line(self, self.prepare(newer, ok=False), 1, "(1 files, hw/misc/mine.c first); to keep "
                 "them: './pmu export'; './pmu prepare --discard' drops them")
        self.assertEqual(self.project.pmu('export').returncode, 0)
        self.prepare(newer)
        self.assertEqual((self.src / 'hw/misc/mine.c').read_text(), 'my edit\n')

    def test_dirty_commit_refused(self):
        """edits that the user committed survive too"""
        self.edit_both('VERSION')
        subprocess.run(['git', '-c', 'user.name=U', '-c', 'user.email=u@localhost', '-C', self.src,
                        'commit', '-qam', 'mine'], check=True, env=self.project.env)
        one_line(self, self.prepare(ok=False), 1, 'VERSION first')
        self.assertEqual((self.src / 'VERSION').read_text(), 'my edit\n')

    def test_dirty_unchanged(self):
        """edits are no obstacle while the project did not change"""
        self.prepare()
        write(self.src, {'VERSION': 'my edit\n'})
        self.prepare()
        self.assertEqual((self.src / 'VERSION').read_text(), 'my edit\n')

    def test_discard(self):
        """--discard drops edits and new files of the prepared tree, nothing else does"""
        self.edit_both('hw/misc/mine.c')
        write(self.src, {'VERSION': 'my edit\n'})
        done = self.project.run('-c', 'import sys; sys.path.insert(0, "scripts"); import tree;'
                                'tree.prepare(sys.argv[1], discard=True)', self.qemu)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = {**QEMU, **FILES, 'hw/misc/new.c': 'int newer;\n', 'hw/misc/meson.build': MERGED}
        self.assertEqual({n: c for n, (c, _) in read(self.src).items()},
                         {n: t.encode() for n, t in wanted.items()})

    def test_clash(self):
        """a new file that QEMU has already is refused by name"""
        write(self.project.root, {'hw/arm/virt.c': 'mine\n'})
        one_line(self, self.prepare(ok=False), 1, 'hw/arm/virt.c', 'patches/')

    def test_branch(self):
        """a QEMU of another branch is refused"""
        for version in ('10.1.0', '9.2.3', '10.0', '110.0.1', '10.0.13-rc1'):
            with self.subTest(f'QEMU {version} is refused'):
                write(self.qemu, {'VERSION': version + '\n'})
                one_line(self, self.prepare(ok=False), 1, f'is QEMU {version}', '10.0.x')

    def test_point_release(self):
        """a newer point release is taken, with a notice, if a 3-way merge of the series works"""
        self.prepare()
        newer = self.project.top / 'newer'
        moved = "# new line\n" * 3 + MESON.replace("'dev13.c'", "'dev13-renamed.c'")
        write(newer, {**QEMU, 'VERSION': '10.0.14\n', 'hw/misc/meson.build': moved})
        done = self.prepare(newer)
        self.assertIn('notice: the series was made for QEMU 10.0.13; on 10.0.14 1 patches needed '
                      'a 3-way merge', done.stderr)
        self.assertEqual((self.src / 'hw/misc/meson.build').read_text(), moved.replace(
            "('dev10.c'))\n", "('dev10.c'))\nsystem_ss.add(files('new.c'))\n"))

    def test_point_release_conflict(self):
        """a newer point release that a patch conflicts with is refused, and the old tree stays"""
        self.prepare()
        newer = self.project.top / 'newer'
        write(newer, {**QEMU, 'VERSION': '10.0.14\n', 'hw/misc/meson.build':
                      MESON.replace('dev10', 'other10').replace('dev11', 'other11')})
        one_line(self, self.prepare(newer, ok=False), 1,
                 f'{PATCH_NAME} does not apply to QEMU 10.0.14', 'use QEMU 10.0.13')
        self.assertEqual((self.src / 'VERSION').read_text(), '10.0.13\n')
        self.assertEqual((self.src / 'hw/misc/meson.build').read_text(), MERGED)
        self.assertEqual(self.prepare().returncode, 0, 'and it can be prepared again')

    def test_series_file_missing(self):
        """a patch that patches/series names but that is not there is named"""
        write(self.project.root, {f'patches/{PATCH_NAME}': None})
        one_line(self, self.prepare(ok=False), 1, 'patches/series', PATCH_NAME)

    def test_not_qemu(self):
        """a --qemu-src that is no QEMU source is refused, whatever it is"""
        write(self.project.top, {'empty/x': '', 'text.tar.gz': 'no tarball'})
        for name in ('empty', 'text.tar.gz', 'missing'):
            with self.subTest(f'--qemu-src {name} is refused'):
                one_line(self, self.prepare(self.project.top / name, ok=False), 1, name)

    def test_tarball(self):
        """a tarball gives the same tree as its folder"""
        tarball = self.project.top / 'qemu-10.0.13.tar.xz'
        subprocess.run(['tar', '-cJf', tarball, '-C', self.project.top, 'qemu-10.0'], check=True)
        self.prepare()
        wanted = read(self.src)
        self.prepare(tarball)
        self.assertEqual(read(self.src), wanted)

    def test_user_configuration(self):
        """the user's git configuration, attributes, hooks and environment have no influence"""
        self.prepare()
        wanted, home = read(self.src), self.project.home
        self.setUp()
        home = self.project.home
        write(home, {'.gitconfig': 'whoever reads this gets an error\n',
                     '.config/git/attributes': '* text eol=crlf\n',
                     '.config/git/ignore': '*\n',
                     **{f'hooks/{h}': '#!/bin/sh\nexit 1\n' for h in
                        ('pre-applypatch', 'applypatch-msg', 'post-checkout', 'pre-commit')}})
        for hook in (home / 'hooks').iterdir():
            hook.chmod(0o755)
        self.prepare(env=dict(self.project.env, GIT_DIR='/nowhere', GIT_WORK_TREE='/nowhere',
                              GIT_CONFIG_COUNT='1', GIT_CONFIG_KEY_0='core.hooksPath',
                              GIT_CONFIG_VALUE_0=str(home / 'hooks'),
                              GIT_OBJECT_DIRECTORY='/nowhere', GIT_NAMESPACE='other'))
        self.assertEqual(read(self.src), wanted)

    def test_interrupted(self):
        """Ctrl-C while files are written ends in a whole tree, which is not taken for edited"""
        self.prepare()
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        write(self.project.top, {'bin/git': '#!/bin/sh\ncase "$*" in *"/qemu/src checkout "*)\n'
                                 '/usr/bin/git "$@"; kill -INT $PPID; exit;; esac\n'
                                 'exec /usr/bin/git "$@"\n'})
        (self.project.top / 'bin/git').chmod(0o755)
        path = f'{self.project.top}/bin:{os.environ["PATH"]}'
        done = self.prepare(ok=False, env=dict(self.project.env, PATH=path))
        self.assertEqual(done.returncode, 130, done.stderr)
        self.assertIn('interrupted; run the same command again', done.stderr)
        write(self.project.root, {'hw/misc/new.c': 'int newest;\n'})
        self.prepare()
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newest;\n')

    def test_remembered(self):
        """--qemu-src is remembered: later commands need not repeat it, nor fetch another"""
        self.prepare()
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        self.project.run('scripts/step.py', 'prepare', self.project.top / 'stamp')
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newer;\n')

    def test_source_is_gone(self):
        """--qemu-src was imported: no later command needs it, unless it names it again"""
        self.prepare()
        self.qemu.rename(self.project.top / 'elsewhere')
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        self.project.run('scripts/step.py', 'prepare', self.project.top / 'stamp')
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newer;\n')
        one_line(self, self.prepare(ok=False), 1, 'no such file or folder')

    def test_outdated(self):
        """a changed mode or source, a damaged note and a lost tree are noticed and mended"""
        self.prepare()
        os.chmod(self.project.root / 'hw/misc/new.c', 0o755)
        self.prepare()
        self.assertTrue(read(self.src)['hw/misc/new.c'][1])
        write(self.qemu, {'hw/arm/virt.c': 'newer\n'})
        self.prepare()
        wanted = read(self.src)
        self.assertEqual(wanted['hw/arm/virt.c'][0], b'newer\n')
        write(self.project.build, {'qemu/prepared.json': ''})
        self.prepare()
        self.assertEqual(read(self.src), wanted)
        shutil.rmtree(self.src)
        self.prepare()
        self.assertEqual(read(self.src), wanted)

    def test_ignored(self):
        """a file in the prepared source that QEMU's .gitignore names is no edit"""
        self.prepare()
        write(self.src, {'build/x.o': ''})
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        self.prepare()
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newer;\n')

    def test_names(self):
        """a name of a new file is no pattern, and the project's .gitignore excludes none"""
        write(self.project.root, {'.gitignore': '*.c\n', 'hw/misc/?x.c': '', 'hw/misc/.x.c': ''})
        self.prepare()
        self.assertEqual(read(self.src).keys() - QEMU.keys(), {*FILES, 'hw/misc/?x.c'})

    def test_patch_bytes(self):
        """a bracket at the start of a subject and a carriage return in a patch are kept"""
        line = "system_ss.add(files('new.c'))"
        write(self.project.root, {f'patches/{PATCH_NAME}': fixtures.PATCH.replace(
            '[PATCH] hw', '[PATCH] [x] hw').replace(f'+{line}', f'+{line}\r')})
        self.prepare()
        self.assertEqual(self.git('log', '-1', '--format=%s').strip(),
                         '[x] hw/misc: build the new device')
        self.assertIn(f'{line}\r\n'.encode(), (self.src / 'hw/misc/meson.build').read_bytes())

    def test_killed(self):
        """after a kill in the middle, the same command goes on"""
        self.prepare()
        write(self.project.root, {'hw/misc/new.c': 'int newer;\n'})
        gitdir = self.project.build / 'qemu.git/worktrees/stage'
        write(gitdir, {'index.lock': '', 'rebase-apply/next': '1\n', 'rebase-apply/last': '1\n',
                       'rebase-apply/applying': '',
                       '../../index-overlay.lock': ''})
        self.prepare()
        self.assertEqual((self.src / 'hw/misc/new.c').read_text(), 'int newer;\n')
