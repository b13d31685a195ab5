# SPDX-License-Identifier: GPL-2.0-or-later
"""A second base: its own build folder and patches, and how the series gets there."""

import shutil
import subprocess

from fixtures import FILES, MERGED, MESON, PATCH_NAME, QEMU, TreeTest, one_line, read, write

# It merges, it conflicts, and it has what the patch adds.
NEAR = '# new line\n' * 3 + MESON
FAR = MESON.replace('dev10', 'other10').replace('dev11', 'other11')
RESOLVED = FAR.replace("('other10.c'))\n", "('other10.c'))\nsystem_ss.add(files('new.c'))\n")


class Bases(TreeTest):
    def setUp(self):
        super().setUp()
        self.root = self.project.root
        self.own = self.root / 'patches/10.2' / PATCH_NAME
        self.later, self.first_src = self.project.top / 'later', self.src
        self.src = self.project.build / '10.2/qemu/src'
        self.prepare()

    def stock(self, meson):
        write(self.later, {**QEMU, 'VERSION': '10.2.2\n', 'hw/misc/meson.build': meson})

    def second(self, ok=True):
        return self.prepare(self.later, ok,
                            env=dict(self.project.env, QEMU_PMU_BASE='10.2'))

    def pmu(self, command, *args, ok=True):
        done = self.project.pmu(command, '--base', '10.2', *args)
        if ok:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def rebase(self, meson):
        """Start a rebase that stops at the only patch."""
        self.stock(meson)
        return self.pmu('rebase', '--qemu-src', self.later, ok=False)

    def resolve(self, text=RESOLVED):
        write(self.src, {'hw/misc/meson.build': text})
        return self.pmu('rebase', '--continue')

    def test_merge(self):
        """patches of the first base merge into the second, which is laid out beside it"""
        before = read(self.first_src)
        self.stock(NEAR)
        done = self.second()
        self.assertIn('QEMU 10.2.2 with 1 patches (0 of patches/10.2) and 2 new files', done.stderr)
        wanted = {**QEMU, **FILES, 'VERSION': '10.2.2\n',
                  'hw/misc/meson.build': '# new line\n' * 3 + MERGED}
        self.assertEqual({n: c for n, (c, _) in read(self.src).items()},
                         {n: t.encode() for n, t in wanted.items()})
        self.assertEqual(read(self.first_src), before)

    def test_merge_twice(self):
        """a patch of a file that an earlier patch changes merges too, in a new build"""
        write(self.first_src, {'hw/misc/meson.build': MERGED.replace(
            "files('new.c')", "files('new.c', 'more.c')")})
        done = self.project.pmu('export', '--new-patch', 'hw/misc: more')
        self.assertEqual(done.returncode, 0, done.stderr)
        # All but the note where the first base's source is
        for name in ('qemu.git', 'stage', 'qemu/src'):
            shutil.rmtree(self.project.build / name)
        self.stock(NEAR)
        self.second()
        self.assertIn("files('new.c', 'more.c')", (self.src / 'hw/misc/meson.build').read_text())

    def test_long_subject(self):
        """a patch whose name has only the beginning of its subject is not taken for applied"""
        write(self.first_src, {'hw/arm/virt.c': 'edited\n'})
        subject = 'hw/arm: edit it, with a subject that is longer than the name of a file may be'
        done = self.project.pmu('export', '--new-patch', subject)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.stock(NEAR)
        self.pmu('rebase', '--qemu-src', self.later)
        self.assertEqual([*(self.root / 'patches').glob('10.2/*')], [])
        self.assertEqual((self.src / 'hw/arm/virt.c').read_text(), 'edited\n')

    def test_discard(self):
        """a rebase that has stopped can start over, with another source"""
        self.rebase(FAR)
        self.stock(NEAR)
        write(self.src, {'hw/arm/untracked.c': ''})
        self.pmu('rebase', '--discard', '--qemu-src', self.later)
        self.assertFalse((self.src / 'hw/arm/untracked.c').exists())
        self.assertEqual((self.src / 'hw/misc/meson.build').read_text(),
                         '# new line\n' * 3 + MERGED)
        self.assertEqual([*(self.root / 'patches').glob('10.2/*')], [])

    def test_conflict(self):
        """a patch that does not merge is named, with the command that helps"""
        self.stock(FAR)
        one_line(self, self.second(ok=False), 1, PATCH_NAME, 'QEMU 10.2.2', './pmu rebase')

    def test_rebase(self):
        """a rebase stops with markers, goes on when they are resolved, and gives an own patch"""
        done = self.rebase(FAR)
        one_line(self, done, 1, f'patches/{PATCH_NAME} does not merge', '--continue --base 10.2')
        self.assertIn('<<<<<<<', (self.src / 'hw/misc/meson.build').read_text())
        self.assertRegex(done.stdout, r'hw/misc/meson\.build:\d+\n')
        one_line(self, self.pmu('rebase', '--continue', ok=False), 1, 'meson.build:',
                 'conflict marker')
        one_line(self, self.pmu('rebase', ok=False), 1, 'not finished', '--continue', '--discard')
        self.resolve()
        one_line(self, self.pmu('rebase', '--continue', ok=False), 1, 'no rebase')
        kept = (self.root / 'patches' / PATCH_NAME).read_bytes()
        self.pmu('export')
        self.assertIn("\n other10", self.own.read_text().replace("\n system_ss.add(files('", '\n '))
        self.assertIn("\n+system_ss.add(files('new.c'))\n", self.own.read_text())
        self.assertEqual((self.root / 'patches' / PATCH_NAME).read_bytes(), kept)
        wanted = read(self.src)
        write(self.root, {'hw/misc/new.c': 'int newer;\n'})
        self.second()
        self.assertEqual({**read(self.src), 'hw/misc/new.c': 0}, {**wanted, 'hw/misc/new.c': 0})
        self.prepare()
        self.assertEqual((self.first_src / 'hw/misc/meson.build').read_text(), MERGED)

    def test_two_conflicts(self):
        """a rebase that goes on stops at the next conflict, and knows which patch is not needed"""
        write(self.first_src, {'hw/arm/virt.c': 'edited\n'})
        done = self.project.pmu('export', '--new-patch', 'hw/arm: edit it')
        self.assertEqual(done.returncode, 0, done.stderr)
        second = '0002-hw-arm-edit-it.patch'
        self.stock(FAR)
        write(self.later, {'hw/arm/virt.c': 'other\n'})
        one_line(self, self.pmu('rebase', '--qemu-src', self.later, ok=False), 1,
                 f'patches/{PATCH_NAME} does not merge')
        write(self.src, {'hw/misc/meson.build': RESOLVED})
        one_line(self, self.pmu('rebase', '--continue', ok=False), 1,
                 f'patches/{second} does not merge')
        write(self.src, {'hw/arm/virt.c': 'other\n'})
        self.pmu('rebase', '--continue')
        self.assertEqual((self.root / 'patches/10.2' / second).read_bytes(), b'')
        self.pmu('export')
        self.assertIn("\n+system_ss.add(files('new.c'))\n", self.own.read_text())
        self.assertEqual((self.root / 'patches/10.2' / second).read_bytes(), b'')

    def test_own_patch(self):
        """a later base takes the patch of its folder, and export removes one that is the same"""
        self.rebase(FAR)
        self.resolve()
        self.pmu('export')
        self.stock(NEAR)
        self.own.write_text((self.root / 'patches' / PATCH_NAME).read_text().replace(
            'It plugs', 'Here it plugs'))
        self.assertIn('1 of patches/10.2', self.second().stderr)
        self.pmu('export')
        self.assertFalse(self.own.exists())

    def test_renumbered(self):
        """a later base's own patch gets the new number of the patch that it stands for"""
        self.rebase(FAR)
        self.resolve()
        self.pmu('export')
        text = self.own.read_bytes()
        self.src = self.first_src
        patch = self.git('rev-parse', 'HEAD').strip()
        self.git('reset', '-q', '--hard', 'HEAD^')
        write(self.src, {'hw/arm/virt.c': 'edited\n'})
        self.git('commit', '-qam', 'hw/arm: edit it')
        self.git('cherry-pick', patch)
        done = self.project.pmu('export')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in self.own.parent.iterdir()},
                         {PATCH_NAME.replace('0001', '0002'): text})
        self.assertIn('with 2 patches (1 of patches/10.2)', self.second().stderr)

    def test_not_needed(self):
        """a patch of which nothing is left is empty from then on, and is not applied"""
        self.rebase(FAR)
        self.resolve(FAR)
        self.assertEqual(self.own.read_bytes(), b'')
        self.pmu('export')
        self.assertEqual(self.own.read_bytes(), b'')
        write(self.root, {'hw/misc/new.c': 'int newer;\n'})
        self.assertIn('with 0 patches', self.second().stderr)

    def test_has_it(self):
        """so is a patch that the second base has already, whole and at its place"""
        self.stock(MERGED)
        self.pmu('rebase', '--qemu-src', self.later)
        self.assertEqual(self.own.read_bytes(), b'')
        self.pmu('export')
        self.assertEqual(self.own.read_bytes(), b'')
        self.assertIn("('new.c')", (self.src / 'hw/misc/meson.build').read_text())

    def test_skipped(self):
        """so is one that was skipped by hand when it did not merge"""
        self.rebase(FAR)
        subprocess.run(['git', 'am', '--skip'], cwd=self.src, check=True, capture_output=True)
        self.pmu('rebase', '--continue')
        self.assertEqual(self.own.read_bytes(), b'')
        self.pmu('export')

    def test_verify(self):
        """verify checks the second base's own patches: strict, listed, the same when exported"""
        write(self.root, {'hw/misc/new.c': '/* see new-test.c */\n'})
        write(self.root, {'tests/qtest/new-test.c': '/* new.c */\n'})
        self.rebase(FAR)
        self.resolve()
        self.pmu('export')
        self.assertIn('ok 4 - 1 patches of QEMU 10.2 change 1 lines', self.pmu('verify').stdout)
        text = self.own.read_text()
        for rule, name, new in (
                ('every patch is in patches/series', 'patches/10.2/0002-x.patch', text),
                ('every patch applies without offset', f'patches/10.2/{PATCH_NAME}',
                 text.replace('@@ -9,6 +9,7 @@', '@@ -8,6 +8,7 @@')),
                ('applying and exporting gives the same', f'patches/10.2/{PATCH_NAME}',
                 text.replace('Date: Thu, 1', 'Date: Thu,  1'))):
            with self.subTest(rule):
                write(self.root, {name: new})
                done = self.pmu('verify', ok=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(f'- {rule}', '\n'.join(
                    l for l in done.stdout.splitlines() if l.startswith('not ok')))
                write(self.root, {name: None if '0002' in name else text})

    def test_no_package(self):
        """verify --or-skip skips a base for which bases.toml names no source package, too"""
        write(self.root, {'bases.toml': '["10.0"]\nversion = "10.0.13"\n\n'
                                        '["10.2"]\nversion = "10.2.2"\n'})
        one_line(self, self.pmu('verify', ok=False), 77, 'no source package of QEMU 10.2',
                 './pmu prepare (or rebase) --base 10.2 --qemu-src')
        self.assertRegex(self.pmu('verify', '--or-skip').stdout,
                         r'^1\.\.0 # SKIP bases\.toml names no source package of QEMU 10\.2')

    def test_mistakes(self):
        """an unknown base, a source of another one, and a new patch on a later one are refused"""
        one_line(self, self.project.pmu('build', '--base', '9.9'), 2, '--base')
        write(self.project.build, {'x/kept': ''})
        for args in ('build',), ('clean', '--force'), ('doctor',):
            one_line(self, self.project.pmu(*args, env={**self.project.env,
                                                        'QEMU_PMU_BASE': 'x'}), 2,
                     "QEMU_PMU_BASE: invalid choice: 'x' (choose from '10.0', '10.2')")
        self.assertTrue((self.project.build / 'x/kept').exists())
        one_line(self, self.project.pmu('rebase'), 2, '--base')
        one_line(self, self.pmu('rebase', '--continue', ok=False), 1, 'no rebase')
        one_line(self, self.pmu('rebase', '--qemu-src', self.qemu, ok=False), 1, 'is QEMU 10.0.13')
        self.stock(NEAR)
        self.second()
        one_line(self, self.pmu('export', '--new-patch', 'x: y', ok=False), 1, 'first base')

    def test_edits(self):
        """a rebase refuses a source with edits, and leaves them; --discard drops them"""
        self.stock(NEAR)
        self.second()
        write(self.src, {'hw/arm/virt.c': 'my edit\n'})
        one_line(self, self.pmu('rebase', '--qemu-src', self.later, ok=False), 1, 'or edits',
                 '--discard')
        self.assertEqual((self.src / 'hw/arm/virt.c').read_text(), 'my edit\n')
        self.pmu('rebase', '--discard', '--qemu-src', self.later)
        self.assertEqual((self.src / 'hw/arm/virt.c').read_text(), QEMU['hw/arm/virt.c'])

    def test_edited_patch(self):
        """export keeps an edit of a later base in an own patch, even if the first base's merges"""
        self.stock(NEAR)
        self.second()
        path = self.src / 'hw/misc/meson.build'
        path.write_text(path.read_text().replace("('new.c'))\n", "('new.c'))\n# edit\n"))
        self.pmu('export')
        self.assertIn("\n+system_ss.add(files('new.c'))\n+# edit\n", self.own.read_text())
        write(self.root, {'hw/misc/new.c': 'int newer;\n'})         # prepares the source again
        self.assertIn('1 of patches/10.2', self.second().stderr)
        self.assertIn("('new.c'))\n# edit\n", path.read_text())

    def test_extra_commit(self):
        """export of a later base refuses a commit for which the first base has no patch"""
        self.stock(NEAR)
        self.second()
        write(self.src, {'hw/arm/virt.c': 'edited\n'})
        self.git('commit', '-qam', 'hw/arm: edit it')
        one_line(self, self.pmu('export', ok=False), 1, 'QEMU 10.2 has 2 patches instead of 1')
        self.assertEqual([*(self.root / 'patches').glob('10.2/*')], [])

    def test_clean(self):
        """clean removes one base, or all, and neither if it has edits

        Nor what a rebase has made, which is nowhere else until it is exported: a second rebase
        does not drop it either.
        """
        self.stock(NEAR)
        self.second()
        write(self.src, {'VERSION': 'my edit\n'})
        for base in ((), ('--base', '10.2')):
            one_line(self, self.project.pmu('clean', *base), 1, '10.2/qemu/src', 'export')
        write(self.src, {'VERSION': '10.2.2\n'})
        self.rebase(FAR)
        for what in 'rebase --continue', 'export':
            for base in ((), ('--base', '10.2')):
                one_line(self, self.project.pmu('clean', *base), 1, 'those of "rebase"', what)
            one_line(self, self.pmu('rebase', ok=False), 1, 'not finished, or edits')
            if what != 'export':
                self.resolve()
        write(self.root, {'hw/misc/new.c': 'int newer;\n'})
        one_line(self, self.second(ok=False), 1, 'those of "rebase"', 'git stash')
        write(self.root, {'hw/misc/new.c': 'int new;\n'})
        self.pmu('export')
        self.pmu('clean')
        self.assertFalse((self.project.build / '10.2').exists())
        self.assertTrue(self.first_src.exists())
