# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu export` folds edits back into overlay and patches; `pmu verify` proves the result."""

import json
import os
import re
import subprocess
import unittest
from unittest import mock

import testing
from fixtures import FILES, MERGED, MESON, PYTHON, QEMU, TreeTest, blob, one_line, read, write
from verify import LIMIT

HOOK = "system_ss.add(files('new.c'))\n"
VIRT = QEMU['hw/arm/virt.c']


class Prepared(TreeTest):
    def setUp(self):
        super().setUp()
        self.root = self.project.root
        self.prepare()

    def export(self, *args, ok=True):
        done = self.project.pmu('export', *args)
        if ok:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def kept(self):
        """The files that an export may write."""
        return {n: c for n, c in read(self.root).items()
                if n.split('/')[0] in ('patches', 'hw', 'tests', 'docs', 'include')}

    def patches(self):
        names = (self.root / 'patches/series').read_text().splitlines()
        names = [n for n in names if not n.startswith('#')]
        self.assertEqual(sorted(names), sorted(p.name for p in (self.root / 'patches').iterdir()
                                               if p.suffix == '.patch'))
        return [(self.root / 'patches' / n).read_text() for n in names]

    def same_after_prepare(self):
        """What was exported gives the edited tree again, byte for byte, in a new build."""
        wanted = read(self.src)
        subprocess.run(['rm', '-rf', self.project.build], check=True)
        self.prepare()
        self.assertEqual(read(self.src), wanted)
        before = self.kept()
        self.export()
        self.assertEqual(self.kept(), before)


class Export(Prepared):
    def test_not_utf8(self):
        """the name of a new file need not be UTF-8"""
        name = os.fsdecode(b'hw/misc/new\xff.c')
        (self.src / name).write_text('int new;\n')
        (self.src / 'hw/arm/virt.c').write_text(VIRT + '/* new */\n')
        self.export('--new-patch', 'new patch')
        self.assertEqual((self.root / name).read_text(), 'int new;\n')
        self.same_after_prepare()

    def test_round_trip(self):
        """exporting without an edit changes no byte, comments and authors included"""
        before = self.kept()
        self.assertIn('From: A Developer <dev@example.org>', self.patches()[0])
        self.assertTrue((self.root / 'patches/series').read_text().startswith('# first\n'))
        self.export()
        self.assertEqual(self.kept(), before)

    def test_fold(self):
        """an edit of a QEMU file lands in the patch that changes that file"""
        write(self.src, {'hw/misc/meson.build': MERGED.replace(HOOK, HOOK + '# more\n')})
        self.export()
        [patch] = self.patches()
        self.assertIn('\n+# more\n', patch)
        self.assertIn('Subject: [PATCH] hw/misc: build the new device\n\nIt plugs the device in.\n',
                      patch)
        self.same_after_prepare()

    def test_subfolder(self):
        """export in a folder of the prepared source has the edits of all others, too"""
        write(self.src, {'hw/misc/meson.build': MERGED.replace(HOOK, HOOK + '# more\n'),
                         'hw/arm/notes.txt': ''})
        (self.src / 'hw/arm/notes.txt').unlink()
        done = subprocess.run([*PYTHON, self.root / 'scripts/pmu.py', 'export'], text=True,
                              cwd=self.src / 'hw/arm', env=self.project.env, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('\n+# more\n', self.patches()[0])
        self.same_after_prepare()

    def test_series_comments(self):
        """comments of the series stay, behind the last patch and above one with another subject"""
        series = self.root / 'patches/series'
        text = series.read_text() + '# end\n'
        write(self.root, {'patches/series': text})
        self.prepare()
        self.git('commit', '-q', '--amend', '-m', 'hw/misc: build it\n\nBetter words.\n')
        self.export()
        first, name, end = series.read_text().splitlines()
        self.assertEqual((first, end), ('# first', '# end'))
        self.assertIn('hw-misc-build-it.patch', name)

    def test_new_patch(self):
        """--new-patch makes a patch with that subject of the edits, after the others"""
        write(self.src, {'hw/arm/virt.c': VIRT + '/* end */\n'})
        self.export('--new-patch', 'hw/arm: wire the device')
        first, second = self.patches()
        self.assertIn('Subject: [PATCH] hw/arm: wire the device\n', second)
        self.assertNotIn('virt.c', first)

    def test_choose_patch(self):
        """--patch folds the edits into the patch of that number"""
        self.test_new_patch()
        write(self.src, {'hw/arm/virt.c': '/* top */\n' + VIRT + '/* end */\n'})
        self.export('--patch', '1')
        first, second = self.patches()
        self.assertIn('\n+/* top */\n', first)
        self.assertNotIn('\n+/* top */\n', second)
        self.same_after_prepare()

    def test_no_such_patch(self):
        """--patch with a number that is not in the series is refused"""
        for number in ('0', '2', 'x'):
            one_line(self, self.export('--patch', number, ok=False), 1, f'--patch {number}')

    def test_ambiguous(self):
        """an edit of a file that no patch changes is refused, and nothing is written"""
        write(self.src, {'hw/arm/virt.c': VIRT + '/* end */\n',
                         'hw/misc/meson.build': MERGED + '# more\n'})
        before = self.kept()
        one_line(self, self.export(ok=False), 1, 'hw/arm/virt.c', '--patch', '--new-patch')
        self.assertEqual(self.kept(), before)
        for option in '--patch', '--new-patch':         # a variable that is not set
            self.assertIn(f'{option}: expected', self.export(option, '', ok=False).stderr)
        self.assertEqual(self.kept(), before)

    def test_conflict(self):
        """an edit that does not fold into the chosen patch is refused, then export still works"""
        write(self.src, {'hw/misc/meson.build': MERGED.replace('new.c', 'newer.c')})
        self.export('--new-patch', 'hw/misc: rename it')
        write(self.src, {'hw/misc/meson.build': MERGED.replace('new.c', 'newest.c')})
        before = self.kept()
        one_line(self, self.export('--patch', '1', ok=False), 1, 'conflict', 'export.log')
        self.assertEqual(self.kept(), before)
        self.export()
        self.assertIn('newest.c', self.patches()[1], 'the last patch that changes the file')

    def test_undone(self):
        """a patch whose every edit is undone leaves the series"""
        write(self.src, {'hw/misc/meson.build': MESON})
        self.export()
        self.assertEqual(self.patches(), [])

    def test_overlay(self):
        """new, changed and removed files of the prepared tree come to the project"""
        write(self.src, {'hw/misc/new.c': 'int edited;\n', 'tests/qtest/new-test.c': None,
                         'docs/specs/new.rst': 'New\n', 'hw/misc/tool.sh': '#!/bin/sh\n'})
        os.chmod(self.src / 'hw/misc/tool.sh', 0o755)
        self.export()
        found = {n: c for n, c in self.kept().items() if not n.startswith('patches/')}
        self.assertEqual(found, {'hw/misc/new.c': (b'int edited;\n', False),
                                 'docs/specs/new.rst': (b'New\n', False),
                                 'hw/misc/tool.sh': (b'#!/bin/sh\n', True)})
        self.same_after_prepare()

    def test_outside(self):
        """a new file that the overlay cannot hold is refused by name, and nothing is written"""
        for name in ('mine.txt', 'hw/misc/new.c~', 'docs/mine.md', 'hw/.new.c.swp'):
            with self.subTest(f'{name} is refused'):
                write(self.src, {name: 'x'})
                before = self.kept()
                one_line(self, self.export(ok=False), 1, name)
                self.assertEqual(self.kept(), before)
                write(self.src, {name: None})

    def test_commit(self):
        """a commit that the user made in the prepared tree becomes a patch of its own"""
        write(self.src, {'hw/arm/virt.c': VIRT.replace('line 30', 'line thirty'),
                         'hw/misc/more.c': 'int more;\n'})
        self.git('add', '-A')
        self.git('commit', '-qm', 'hw/arm: spell a number\n\nBecause.\n')
        self.export()
        patch = self.patches()[1]
        self.assertIn('From: User <User@localhost>', patch)
        self.assertIn('Subject: [PATCH] hw/arm: spell a number\n\nBecause.\n', patch)
        self.assertNotIn('more.c', patch)
        self.assertEqual((self.root / 'hw/misc/more.c').read_text(), 'int more;\n')
        self.same_after_prepare()

    def test_author(self):
        """a commit made in the prepared tree is the project's, whoever the user is elsewhere"""
        write(self.src, {'hw/arm/virt.c': VIRT.replace('line 30', 'line thirty')})
        subprocess.run(['git', '-C', self.src, 'commit', '-qam', 'hw/arm: spell it'], check=True,
                       env=self.project.env, capture_output=True)
        self.export()
        self.assertIn('From: qemu-pmu developers <qemu-pmu@localhost>\n', self.patches()[1])

    def test_reword(self):
        """a reworded commit message is an edit: exported, and not overwritten before that"""
        self.git('commit', '-q', '--amend', '-m', 'hw/misc: build it\n\nBetter words.\n')
        write(self.root, {'hw/misc/new.c': 'int newer;\n'})
        one_line(self, self.prepare(ok=False), 1, 'commit message')
        write(self.root, FILES)
        self.export()
        self.assertIn('Subject: [PATCH] hw/misc: build it\n\nBetter words.\n', self.patches()[0])

    @unittest.skipIf(os.getuid(), 'needs root')
    def test_root(self):
        """export by root counts the files that differ in a checkout of another user's, too"""
        git = ['git', '-c', 'user.name=U', '-c', 'user.email=u@localhost', '-C', self.root]
        for args in ('init', '-q'), ('add', '-A'), ('commit', '-qm', 'begin'):
            subprocess.run([*git, *args], check=True, env=self.project.env)
        for path in self.root, self.root / '.git':
            os.chown(path, 65534, 65534)
        write(self.src, {'hw/misc/new.c': 'int edited;\n'})
        done = self.export()
        self.assertEqual(done.stdout, ' M hw/misc/new.c\n')
        self.assertIn('; 1 files differ from the last commit', done.stderr)

    def test_project_changed(self):
        """export refuses when the project changed since the tree was prepared"""
        write(self.src, {'hw/misc/new.c': 'int edited;\n'})
        write(self.root, {'hw/misc/new.c': 'int other;\n'})
        one_line(self, self.export(ok=False), 1, 'changed since the source was prepared; git '
                 'stash -u')
        self.assertEqual((self.root / 'hw/misc/new.c').read_text(), 'int other;\n')

    def test_unprepared(self):
        """export without a prepared tree says what to run"""
        subprocess.run(['rm', '-rf', self.project.build], check=True)
        one_line(self, self.export(ok=False), 1, './pmu prepare')

    def test_interrupted_rebase(self):
        """an export that was killed in the middle can be repeated"""
        write(self.src, {'hw/misc/meson.build': MERGED + '# more\n'})
        gitdir = self.project.build / 'qemu.git/worktrees/stage'
        write(gitdir, {'rebase-merge/head-name': 'detached HEAD\n', 'index.lock': ''})
        self.export()
        self.assertIn('\n+# more\n', self.patches()[0])

    def test_other_version(self):
        """export and verify refuse another QEMU than the one that patches are kept for"""
        newer, before = self.project.top / 'newer', self.kept()
        write(newer, {**QEMU, 'VERSION': '10.0.14\n'})
        self.prepare(newer)
        write(self.src, {'hw/arm/virt.c': 'edited\n'})
        one_line(self, self.export(ok=False), 1, 'is QEMU 10.0.14',
                 'patches are kept for 10.0.13')
        one_line(self, self.project.pmu('verify'), 1, 'kept for QEMU 10.0.13, but this is 10.0.14')
        self.assertEqual(self.kept(), before)


class Verify(Prepared):
    """Each rule, broken once."""

    def setUp(self):
        super().setUp()
        write(self.root, {'hw/misc/new.c': '/* see new-test.c */\n#include "hw/new.h"\n',
                          'include/hw/new.h': '/* new-test */\n'})
        [self.name] = [p.name for p in (self.root / 'patches').glob('*.patch')]
        self.text = (self.root / 'patches' / self.name).read_text()

    def verify(self, *broken):
        """Run verify; assert that exactly these rules are broken, and `pmu test` says why."""
        done = self.project.pmu('verify')
        self.assertNotIn('Traceback', done.stderr)
        found = re.findall(r'(?m)^not ok \d+ - (.*)', done.stdout)
        self.assertEqual(found, list(broken), done.stdout + done.stderr)
        log = self.project.top / 'testlog.json'         # as meson writes it
        log.write_text(json.dumps({'name': 'series', 'result': 'OK', 'stdout': done.stdout,
                                   'stderr': done.stderr}))
        with mock.patch('testing.LOG', log):
            [cases] = testing.results().values()
        parts = re.split(r'(?m)^(?:not )?ok \d+ - ', done.stdout)[1:]
        told = {rule: '\n'.join(note[4:] for note in notes if note[:2] == '# ')
                for rule, *notes in map(str.splitlines, parts)}
        self.assertTrue(all(told[rule] for rule in broken), told)
        self.assertEqual([rule for rule in told if f'{rule}:\n' in done.stderr], list(broken))
        self.assertEqual({case.name: case.text for case in cases}, told)
        self.assertEqual(done.returncode, 1 if broken else 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r'(?m)^(?:not )?ok ', done.stdout)),
                         int(re.search(r'(?m)^1\.\.(\d+)$', done.stdout)[1]), 'the TAP plan')
        return done.stdout

    def change(self, old, new):
        self.assertIn(old, self.text)
        write(self.root, {f'patches/{self.name}': self.text.replace(old, new)})

    def test_good(self):
        """a project in order passes, edits in the prepared tree or not; a killed run's files go"""
        left = self.project.build / 'series-old/.lock'
        write(left.parent, {left.name: ''})
        self.verify()
        self.assertFalse(left.parent.exists())
        write(self.src, {'VERSION': 'my edit\n'})
        self.verify()
        self.assertEqual((self.src / 'VERSION').read_text(), 'my edit\n')

    def test_clash(self):
        """verify reports a new file that QEMU has already"""
        write(self.root, {'hw/arm/virt.c': 'mine\n'})
        self.assertIn('#   hw/arm/virt.c', self.verify('no overlay file exists in QEMU'))

    def test_unlisted(self):
        """verify reports a patch that patches/series does not name"""
        write(self.root, {'patches/0009-lost.patch': 'x'})
        self.assertIn('#   0009-lost.patch', self.verify('every patch is in patches/series'))

    def test_offset(self):
        """verify reports a patch that applies at another line only"""
        self.change('@@ -9,6 +9,7 @@', '@@ -7,6 +7,7 @@')
        out = self.verify('every patch applies without offset or fuzz',
                          'applying and exporting gives the same bytes')
        self.assertIn('(offset 2 lines)', out)

    def test_merged(self):
        """verify reports a patch that only a three-way merge takes"""
        old = MESON.replace("'dev13.c'", "'old13.c'")       # which QEMU has changed since then
        write(self.src, {'old.build': old})
        name = self.git('hash-object', '-w', 'old.build').strip()
        self.change("'dev13.c'", "'old13.c'")
        self.text = (self.root / 'patches' / self.name).read_text()
        self.change(blob(MESON), name)
        out = self.verify('every patch applies without offset or fuzz',
                          'applying and exporting gives the same bytes')
        self.assertIn(f'#   {self.name}: ', out)
        self.assertIn('patch does not apply', out)

    def test_does_not_apply(self):
        """verify reports a patch whose context is not there"""
        self.change("files('dev11.c')", "files('other11.c')")
        self.assertIn(self.name, self.verify('every patch applies without offset or fuzz'))

    def test_garbled(self):
        """verify reports a file of the series that is no patch"""
        write(self.root, {f'patches/{self.name}': 'no patch\n'})
        out = self.verify('patches change only files that QEMU has',
                          'every patch applies without offset or fuzz')
        self.assertIn(self.name, out)

    def test_new_file(self):
        """verify reports a patch that makes a new file instead of the overlay"""
        self.change('diff --git', 'diff --git a/hw/x.c b/hw/x.c\nnew file mode 100644\n'
                    '--- /dev/null\n+++ b/hw/x.c\n@@ -0,0 +1 @@\n+int x;\ndiff --git')
        self.assertIn('hw/x.c', self.verify('patches change only files that QEMU has',
                                            'applying and exporting gives the same bytes'))

    def test_limit(self):
        """verify reports a series that changes too many lines of QEMU"""
        write(self.src, {'hw/arm/virt.c': VIRT + '/* more */\n' * (LIMIT - 1)})
        write(self.root, {n: c for n, (c, _) in read(self.src).items() if n in FILES})
        write(self.root, {'include/hw/new.h': None})
        self.export('--new-patch', 'hw/arm: with 1 of the other patch, at the limit')
        limit = f'the series changes at most {LIMIT} lines of QEMU'
        unused = 'every overlay file is used by some other file'
        self.verify(unused)
        shorter = VIRT.partition('\n')[2]                  # a removed line counts, too
        write(self.src, {'hw/arm/virt.c': shorter + '/* more */\n' * (LIMIT - 1)})
        self.export()
        self.assertIn(f'#   {LIMIT + 1} lines', self.verify(limit, unused))

    def test_bytes(self):
        """verify reports a patch that would be written in other bytes"""
        for old, new in (('It plugs the device in.\n', 'It plugs it in.\n---\nA lost note.\n'),
                         ('index ', 'index 0'), ('Subject: [PATCH] ', 'Subject: [PATCH v2] ')):
            self.change(old, new)
            self.verify('applying and exporting gives the same bytes')

    def test_unused(self):
        """verify reports a new file that nothing uses"""
        write(self.root, {'hw/misc/lost.c': 'int lost;\n'})
        self.assertIn('#   hw/misc/lost.c',
                      self.verify('every overlay file is used by some other file'))

    def test_style(self):
        """verify reports what QEMU's checkpatch finds, in new files and in patches"""
        rule = "QEMU's checkpatch finds nothing"
        self.verify()               # which notes what is clean
        self.change('It plugs the device in.', 'It plugs the BADWORD in.')
        for _ in range(2):
            self.assertIn(f'{self.name}: bad word', self.verify(rule))
        with mock.patch.dict(self.project.env, KILLED='1'):
            self.assertIn('checkpatch was ended', self.verify(rule))
        write(self.root, {'hw/misc/new.c': 'BADWORD new-test hw/new.h\n',
                          f'patches/{self.name}': self.text})
        self.assertIn('#   hw/misc/new.c: bad word', self.verify(rule))
        write(self.root, {'hw/misc/new.c': 'new-test hw/new.h\n'})
        self.verify()

    def test_missing(self):
        """verify names a patch of patches/series that is not there, in one line"""
        write(self.root, {f'patches/{self.name}': None})
        one_line(self, self.project.pmu('verify'), 1, 'patches/series', self.name)
