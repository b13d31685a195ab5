# SPDX-License-Identifier: GPL-2.0-or-later
"""Downloads are verified, resumed, never repeated; apt's trouble is one line."""

import hashlib
import os
import pathlib
import signal
import socket
import tempfile
import time
import unittest
from unittest import mock

import archive
import debian
import fixtures
import ui
from fixtures import finish, one_line, wait_for, write

SIZE = 200_000
# What the host's own apt configuration contributes, in these tests.
HOST = '''Dir::Etc::parts "/dev/null";
Acquire::http::Proxy::127.0.0.1 "DIRECT";
Acquire::Retries::Delay "false";
Acquire::http::Timeout "20";
'''
FETCH = '''
import sys
sys.path.insert(0, 'scripts')
import debian, ui
url, what, *names = sys.argv[1:]
def main(_):
    apt = debian.Apt('tiny', 'amd64', archive=url, trusted=True)
    if what == 'closure':
        apt.update()
    found = [apt.source(*names)] if what == 'source' else getattr(apt, what)(*names)
    print(*found, sep='\\n')
ui.main(main)
'''

CHOOSE = '''
import sys
sys.path.insert(0, 'scripts')
import debian, ui
apt = debian.Apt('tiny', 'amd64', archive=sys.argv[1], trusted=True)
ui.main(lambda _: print(*apt.fetch(lambda: [max(apt.names('kernel-'))], what='a kernel')))
'''

SOURCE = '''
import functools, sys
sys.path.insert(0, 'scripts')
import base, debian, ui
url, branch = sys.argv[1:]
debian.Apt = functools.partial(debian.Apt, archive=url, trusted=True)
ui.main(lambda _: base.source_package(branch))
'''


class Download(unittest.TestCase):
    def setUp(self):
        self.project = fixtures.Project()
        self.addCleanup(self.project.close)
        self.archive = archive.Archive(self.project.top / 'archive')
        self.deb = self.archive.add('tool', '1:2.0', SIZE)
        self.tool = self.archive.packages['tool']
        self.server = archive.Server(self.archive.root)
        self.addCleanup(self.server.close)
        write(self.project.top, {'host.conf': HOST})
        self.project.env['APT_CONFIG'] = str(self.project.top / 'host.conf')
        self.kept = self.project.cache / 'qemu-pmu/packages/tool_1%3a2.0_amd64.deb'

    def fetch(self, *names, what='fetch', url=None, start=False):
        start = self.project.popen if start else self.project.run
        return start('-c', FETCH, url or self.server.url, what, *(names or ['tool']))

    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f'{self.kept}\n')
        self.assertEqual(self.kept.read_bytes(), self.deb.read_bytes())

    def starts(self):
        """The first byte of each request for the package."""
        return [start for path, start in self.server.log if path.endswith(self.deb.name)]

    def test_once(self):
        """a package and its index are fetched once; after that no connection is made at all"""
        self.good(self.fetch())
        self.assertEqual(self.starts(), [0])
        requests = len(self.server.log)
        self.good(self.fetch())
        self.assertEqual(len(self.server.log), requests)

    def test_old_index(self):
        """an index of more than 30 days is fetched again"""
        self.good(self.fetch())
        for days in 29, 31:
            then = time.time() - days * 86400
            os.utime(self.project.cache / 'qemu-pmu/apt/tiny-amd64/updated', (then, then))
            self.server.log.clear()
            self.good(self.fetch())
            self.assertEqual(bool(self.server.log), days > 30, days)

    def test_cut(self):
        """a download that breaks off is resumed where it stopped"""
        self.server.faults[self.deb.name] = [('cut', 100_000)]
        self.good(self.fetch())
        self.assertEqual(len(self.starts()), 2)
        self.assertTrue(0 < self.starts()[1] <= 100_000, self.starts())

    def test_cut_for_good(self):
        """a download that breaks off every time is one line; the next run resumes it"""
        self.server.faults[self.deb.name] = [('cut', 1000)] * 40
        one_line(self, self.fetch(), 1, 'downloading tool failed', 'download.log')
        self.server.faults.clear()
        self.server.log.clear()
        self.good(self.fetch())
        self.assertGreater(self.starts()[0], 0)

    def interrupt(self, number, status):
        """Interrupt in mid download; the next run must resume and leave nothing running."""
        self.server.faults[self.deb.name] = [('stall', 100_000)]
        child = self.fetch(start=True)
        with child:
            wait_for(lambda: self.kept.exists() and self.kept.stat().st_size, 'partial file')
            child.send_signal(number)
            err = finish(child).stderr
        self.assertEqual(child.returncode, status, err)
        self.assertNotIn('Traceback', err)
        wait_for(lambda: not running(self.project.cache), 'end of apt')
        self.server.go.set()
        self.good(self.fetch())
        self.assertTrue(0 < self.starts()[-1] <= 100_000, self.starts())

    def test_interrupted(self):
        """Ctrl-C in mid download ends apt too, and the next run resumes"""
        self.interrupt(signal.SIGINT, 130)

    def test_killed(self):
        """a kill in mid download ends apt too, and the next run resumes"""
        self.interrupt(signal.SIGTERM, 143)

    def test_part_of_version(self):
        """a part of a package is not the version that the archive has no more; all of it is"""
        data = self.deb.read_bytes()
        code = FETCH.replace('getattr(apt, what)(*names)',
                             "apt.fetch_version('1:2.0', *names, what='tool')[:1]")
        self.assertNotEqual(code, FETCH)
        self.good(self.fetch())
        (self.project.cache / 'qemu-pmu/apt/tiny-amd64/updated').unlink()
        for url, size, status in (('http://127.0.0.1:1', SIZE // 2, 1),
                                  ('http://127.0.0.1:1', len(data), 0)):
            self.kept.write_bytes(data[:size])
            done = self.project.run('-c', code, url, 'fetch', 'tool')
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(self.kept.read_bytes(), data[:size], 'where the download goes on')

    def test_corrupt_mirror(self):
        """a file that is corrupt on the mirror is refused in one line and not kept"""
        self.server.faults[self.deb.name] = [('corrupt', 5000)] * 40
        one_line(self, self.fetch(), 1, 'downloading tool failed')
        self.assertFalse(self.kept.exists())
        self.server.faults.clear()
        self.good(self.fetch())

    def test_corrupt_cache(self):
        """a kept file that was damaged later is fetched anew, from its first byte"""
        self.good(self.fetch())
        data = bytearray(self.kept.read_bytes())
        data[100] ^= 1
        self.kept.write_bytes(data)
        self.good(self.fetch())
        self.assertEqual(self.starts(), [0, 0])

    def test_short_cache(self):
        """a kept file of another length than the archive's is fetched anew"""
        self.good(self.fetch())
        for size in (1000, 10 * SIZE):
            os.truncate(self.kept, size)
            self.good(self.fetch())

    def test_offline(self):
        """no network is one line that says what to check"""
        with socket.socket() as closed:         # bound, but nobody listens
            closed.bind(('127.0.0.1', 0))
            one_line(self, self.fetch(url=f'http://127.0.0.1:{closed.getsockname()[1]}'), 1,
                     'apt-get update failed: ', 'apt.log', 'check that apt can reach')

    def test_no_suite(self):
        """a suite that the archive does not have is named, and not the network blamed"""
        (self.server.root / 'dists/tiny').rename(self.server.root / 'dists/other')
        signed = FETCH.replace(', trusted=True', '')
        one_line(self, self.project.run('-c', signed, self.server.url, 'fetch', 'tool'), 1,
                 "Debian's archive has no suite tiny", 'for example')

    def test_offline_later(self):
        """without network, what was fetched before is still there"""
        self.good(self.fetch())
        url = self.server.url
        self.server.close()
        self.good(self.fetch(url=url))

    def test_other_archive(self):
        """a change of the archive costs a new index, however new the old one is"""
        self.good(self.fetch())
        other = archive.Server(self.archive.root)
        self.addCleanup(other.close)
        self.good(self.fetch(url=other.url))
        self.assertEqual(other.count('Packages'), 1)

    def test_no_room(self):
        """if the disk has no room for the index or a package, one line says so before it starts"""
        # The archive says that the package has 300,000,000 bytes more.
        self.archive.packages['tool'] = self.tool.replace('Size: ', 'Size: 300')
        self.archive.index()
        for free, takes, fetched in (199, 200, False), (250, 310, True):
            disk = f'shutil.disk_usage = lambda _: types.SimpleNamespace(free={free}e6)\n'
            code = FETCH.replace('import debian, ui\n', f'import debian, shutil, types, ui\n{disk}')
            one_line(self, self.project.run('-c', code, self.server.url, 'fetch', 'tool'), 1,
                     f'has {free} MB free, and this takes {takes} MB')
            self.assertEqual((self.server.count('Packages') > 0, self.starts()), (fetched, []))

    def test_stale_index(self):
        """a package that left the archive costs one new index, and the newer one is taken"""
        self.good(self.fetch('tool'))
        self.archive.add('other')
        one_line(self, self.fetch('missing'), 1, 'missing')
        self.server.log.clear()
        old = self.archive.root / 'pool/other_1.0.deb'
        self.archive.add('other', '1.1')
        old.unlink()
        done = self.fetch('other')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith('/other_1.1_amd64.deb\n'), done.stdout)
        self.assertEqual(self.server.count('Packages'), 1)

    def test_listed_only(self):
        """a package that the index lists, but the archive lacks: the last release's is taken"""
        self.archive.index(name='small', suite='small')
        self.archive.add('tool', '1:2.1', SIZE)         # into the index of tiny
        newer = self.archive.root / 'pool/tool_1:2.1.deb'
        newer.rename(newer.with_suffix('.later'))
        one_line(self, self.fetch(), 1, 'Debian tiny (amd64) lists tool, but does not have it: '
                 'the archive is probably being updated', 'run it again in some hours')
        self.archive.index(suite='small')
        good = self.archive.packages['tool']
        self.archive.packages['tool'] = good.replace('2.1', '2.0.9')
        self.archive.index(name='small', suite='small')
        done = self.fetch()                                             # lacks it, too
        self.assertEqual(done.returncode, 1)
        self.assertIn('error: the archive lists tool, but does not have it', done.stderr)
        self.archive.packages['tool'] = self.tool
        self.archive.index(name='small', suite='small')
        self.good(done := self.fetch())
        self.assertIn('Debian tiny (amd64) is as the signed index of small has it', done.stderr)
        asked = len(self.server.log)
        self.good(self.fetch())                                         # and is asked for once
        self.assertEqual(len(self.server.log), asked)

    def test_names_again(self):
        """a name that is chosen from the index is chosen again from another index"""
        self.archive.add('kernel-1')
        self.archive.index(name='small', suite='small')
        newer = self.archive.add('kernel-2')
        self.archive.index(suite='small')
        newer.unlink()
        done = self.project.run('-c', CHOOSE, self.server.url)
        self.assertEqual((done.returncode, done.stderr.count('kernel-2')), (0, 0), done.stderr)
        self.assertTrue(done.stdout.endswith('/kernel-1_1.0_amd64.deb\n'), done.stdout)

    def test_half_updated_archive(self):
        """an index that is not the signed one is refused, with the probable reason"""
        index = self.archive.root / 'dists/tiny/main/binary-amd64/Packages'
        good = index.read_text()
        for change in (good + '\n', good.replace('1:2.0', '1:2.1')):
            index.write_text(change)
            one_line(self, self.fetch(), 1, 'is not the signed one',
                     'run it again in some hours')
        index.write_text(good)
        self.good(self.fetch())

    def test_other_name(self):
        """a release whose index is not the signed one is taken under its other name, if whole"""
        index = self.archive.root / 'dists/tiny/main/binary-amd64/Packages'
        self.archive.index(suite='small')
        good = index.read_text()
        index.write_text(good.replace('1:2.0', '1:2.1'))
        refused = 'the index of Debian tiny (amd64) is not the signed one'
        one_line(self, self.fetch(), 1, refused)                        # nothing has that name
        self.archive.index(name='small', codename='next', suite='small')
        one_line(self, self.fetch(), 1, refused)                        # another release has it
        self.archive.index(name='small', suite='small')
        other = self.archive.root / 'dists/small/main/binary-amd64/Packages'
        other.write_text(good + '\n')
        one_line(self, self.fetch(), 1, refused)                        # not whole either
        other.write_text(good)
        self.good(done := self.fetch())
        self.assertIn('Debian tiny (amd64) is as the signed index of small has it', done.stderr)
        asked = len(self.server.log)
        self.good(self.fetch())                                         # and is asked for once
        self.assertEqual(len(self.server.log), asked)

    def test_closure(self):
        """what a package depends on comes with it, and what it recommends does not"""
        for name in 'needed', 'liked':
            self.archive.add(name)
        self.archive.packages['tool'] = f'{self.tool}Depends: needed\nRecommends: liked\n'
        self.archive.index()
        done = self.fetch('tool', what='closure')
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ['needed', 'tool']))

    def test_unknown(self):
        """a package that the archive does not have is named, also if its name is a pattern"""
        self.archive.add('toolbox')
        done = self.fetch('tool', 'toolbox', what='closure')
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ['tool', 'toolbox']))
        for name in ('missing', 'to.l', 'tool-'):
            one_line(self, self.fetch('toolbox', name, what='closure'), 1,
                     f'there is no package {name} in Debian tiny (amd64, main); check its name')

    def test_source(self):
        """a source package is fetched once, whatever the current folder holds"""
        self.archive.source('code')
        for _ in range(2):
            done = self.fetch('code', what='source')
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.endswith('/source/code_1.0.dsc\n'), done.stdout)
        self.assertEqual(self.server.count('code_1.0.tar.xz'), 1)
        write(self.project.root, {'code_1.0.dsc': (self.archive.root / 'pool/code_1.0.dsc')
                                  .read_bytes()})
        self.assertEqual(self.fetch('code', what='source').stdout, done.stdout)

    def test_pinned_source(self):
        """a QEMU source that is not the pinned one is refused in one line and removed"""
        folder = self.project.cache / 'qemu-pmu/source'
        write(folder, {'qemu_10.0.13.dsc': 'good', 'qemu.tar.xz': 'bad'})
        sums = ''.join(f'"{n}" = "{hashlib.sha256(b"good").hexdigest()}"\n'
                       for n in ('qemu_10.0.13.dsc', 'qemu.tar.xz'))
        write(self.project.root, {'bases.toml': '["10.0"]\nversion = "10.0.13"\n'
                                  'suite = "tiny"\npackage = "qemu"\ndsc = "qemu_10.0.13.dsc"\n'
                                  f'["10.0".sha256]\n{sums}'})
        done = self.project.run('scripts/step.py', 'prepare', self.project.top / 'stamp')
        one_line(self, done, 1, 'bad checksum', 'qemu.tar.xz', 'run it again')
        self.assertEqual([p.name for p in folder.iterdir()], ['qemu_10.0.13.dsc'])

    def test_source_gone(self):
        """a QEMU source that the archive does not have: the line says how to give another"""
        self.archive.source('qemu', '9.0')
        write(self.project.root, {'bases.toml': ''.join(
            f'["{branch}"]\nversion = "{branch}.2"\nsuite = "tiny"\npackage = "qemu=1:{branch}.2"\n'
            f'dsc = "qemu.dsc"\n["{branch}".sha256]\n"qemu.dsc" = "0"\n'
            for branch in ('10.0', '10.2'))})
        for branch, option in (('10.0', ''), ('10.2', '--base 10.2 ')):
            with self.subTest(branch):
                done = self.project.run('-c', SOURCE, self.server.url, branch)
                one_line(self, done, 77, f"Debian's tiny has no source of QEMU {branch}.2",
                         f'./pmu prepare {option}--qemu-src qemu-{branch}.2.tar.xz')


def running(text):
    """Process ids of live programs with this text in their environment."""
    found = []
    for proc in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            if str(text).encode() in (proc / 'environ').read_bytes():
                found.append(proc.name)
        except OSError:
            continue
    return found


class Once(unittest.TestCase):
    """debian.once(): packages of a folder of its own."""

    def test_folder(self):
        """a folder is made once, whole or not at all, and another release takes its place"""
        with tempfile.TemporaryDirectory() as name:
            top = pathlib.Path(name)
            packages = archive.Archive(top / 'archive')
            debs = [packages.add('one'), packages.add('two')]

            def paths():
                return sorted(str(path.relative_to(top)) for path in top.glob('tree-*/**/*'))

            for release in 'tree-1', 'tree-2', 'tree-2':
                fetch, changes = mock.Mock(return_value=debs), []

                def broken(folder):
                    self.assertEqual(changes, [])
                    changes.append(folder)
                    raise ui.Fail('no room')

                made = (top / release).exists()
                if not made:
                    with self.assertRaises(ui.Fail):
                        debian.once(top / release, 'a tree', fetch, broken)
                    self.assertFalse((top / release).exists())
                debian.once(top / release, 'a tree', fetch, changes.append)
                self.assertEqual(len(changes), 0 if made else 2)
                self.assertEqual(fetch.called, not made)
                self.assertEqual(paths(), [f'{release}/usr', f'{release}/usr/one',
                                           f'{release}/usr/two'])

    def test_unpacked(self):
        """a broken package is removed, to be fetched again; on a full disk, it stays"""
        with tempfile.TemporaryDirectory() as name:
            for why, stays in ('No space left on device', True), ('no Debian package', False):
                deb = pathlib.Path(name, 'one.deb')
                deb.touch()
                with mock.patch('ui.run', side_effect=ui.Fail(why)), \
                        self.assertRaisesRegex(ui.Fail, why):
                    debian.unpacked([deb], pathlib.Path(name, 'tree'))
                self.assertEqual(deb.exists(), stays)


class Version(unittest.TestCase):
    def test_kept(self):
        """a version that the archive no longer has comes from the cache, also one with an epoch"""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(ui, 'CACHE', pathlib.Path(folder)), \
                mock.patch.object(debian.Apt, 'fetch', side_effect=ui.Fail('was not found')):
            apt = debian.Apt('tiny', 'amd64')
            deb = archive.Archive(pathlib.Path(folder) / 'archive').add('x', '2-1', 100)
            for version, name in ('2-1', 'x_2-1_amd64.deb'), ('1:2-1', 'x_1%3a2-1_amd64.deb'):
                with self.assertRaises(debian.Lacks):
                    apt.fetch_version(version, 'x', what='x')
                write(apt.debs, {name: deb.read_bytes()})
                self.assertEqual(apt.fetch_version(version, 'x', what='x'), [apt.debs / name])


class HostSources(unittest.TestCase):
    """How the host's apt sources are read."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.etc = pathlib.Path(temp.name)

    def test_formats(self):
        """both formats are read; disabled sources, comments and sources of source code are not"""
        write(self.etc, {
            'sources.list': '# deb http://no-debian.test bookworm main\n'
                            'deb-src http://no-debian.test trixie main\n',
            'sources.list.d/x.list.disabled': 'deb http://no-debian.test trixie main\n',
            'sources.list.d/debian.sources':
                'Types: deb-src\nURIs: http://no-debian.test\nSuites: x\nComponents: main\n\n'
                'Enabled: No\nTypes: deb\nURIs: http://no-debian.test\nSuites: x\n'
                'Components: main\n\n# a comment\n'
                'types: deb deb-src\nuris: http://a.test/debian\nsuites: x-updates\n trixie\n'
                'components: main\n contrib\n'})
        self.assertEqual(debian.host_archive(self.etc), 'http://a.test/debian')
        write(self.etc, {'sources.list.d/debian.sources': None, 'sources.list.d/x.list':
                         ' deb\t[arch=amd64 signed-by=/k.gpg] http://b.test  trixie main # why\n'})
        self.assertEqual(debian.host_archive(self.etc), 'http://b.test')

    def test_choice(self):
        """the archive is Debian's own: no security archive, no other vendor's, no update suite"""
        write(self.etc, {
            'sources.list': 'deb http://a.test/debian-security bookworm-security main\n'
                            'deb http://security.test/debian bookworm main\n'
                            'deb http://b.test/debian bookworm-updates main\n'
                            'deb http://c.test/debian bookworm contrib\n'
                            'deb http://vendor.test/apt stable main\n'
                            'deb http://d.test/debian bookworm main\n'})
        self.assertEqual(debian.host_archive(self.etc), 'http://d.test/debian')

    def test_none(self):
        """a host without any Debian archive gets one line that says so"""
        with self.assertRaisesRegex(ui.Fail, '^found no Debian archive.*; supported hosts'):
            debian.host_archive(self.etc)
