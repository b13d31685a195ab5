# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: help everywhere, one line for each mistake, never a traceback."""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from argparse import ArgumentTypeError

import fixtures
from arguments import at_path, parser
from fixtures import ROOT, TreeTest, finish, one_line, write

STUB = '#!/bin/sh\necho "$0 $*" >> "$CALLS"\n'
GONE = 'pmu: error: none: No such file or directory; put that right and run it again'


class Arguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.project = fixtures.Project()
        cls.addClassCleanup(cls.project.close)
        cls.pmu = cls.project.pmu
        done = cls.pmu('help')
        cls.commands = re.findall(r'(?m)^ {4}(\w+) ', done.stdout)

    def test_commands(self):
        """the help names all the commands"""
        self.assertEqual(self.commands, [
            'demo', 'test', 'bench', 'fuzz', 'build', 'boot', 'module', 'records', 'topdown', 'set',
            'watch', 'count', 'pnor', 'prepare', 'export', 'rebase', 'verify', 'install', 'doctor',
            'clean'])
        for args in ((), ('--help',), ('-h',)):
            done = self.pmu(*args)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(re.findall(r'(?m)^ {4}(\w+) ', done.stdout), self.commands)

    def test_help(self):
        """each command explains itself and each of its options, without a build"""
        for name in self.commands:
            done = self.pmu(name, '--help')
            self.assertEqual((done.returncode, done.stderr), (0, ''), name)
            self.assertEqual(self.pmu('help', name).stdout, done.stdout)
            self.assertTrue(done.stdout.startswith(f'usage: pmu {name}'), done.stdout)
            lines = done.stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 79, name)
            for n, line in enumerate(lines):
                if re.match(r'  -', line):      # an option's text is beside or below it
                    self.assertRegex(' '.join(lines[n:n + 2]), r'  -.*  +[a-z\']', name)
        self.assertFalse(self.project.build.exists())

    def test_mistakes(self):
        """a wrong command, option or value is status 2, and one line that names the help"""
        for args in ('frobnicate', '--nope', 'build --nope', 'build extra', 'boot', 'boot mips',
                     'boot arm --timeout 0', 'boot arm --timeout -1', 'boot arm --timeout x',
                     'boot arm --timeout nan', 'boot arm --timeout inf', 'boot x86 --run',
                     'boot arm --timeout 1e10', 'watch --interval 1e10',
                     'export --patch 1 --new-patch x', 'install', 'bench nope',
                     'bench --rounds 0', 'test --suite nope', 'fuzz --time 0', 'watch --count 0',
                     'watch --interval 0', 'install --prefix=', 'count -- ',
                     'count --tolerance -1 -- x', 'count --tolerance inf -- x',
                     'count --tolerance nan -- x', 'boot power --snapshot --run x',
                     'boot arm --snapshot --repeatable', 'boot arm --snapshot --share guest',
                     'boot arm --snapshot --ssh', 'boot arm --snapshot --acpi',
                     'rebase --continue --discard', 'count --baseline= -- x',
                     'pnor', 'pnor -o x', 'pnor --catalog 0x4e0200=x', 'pnor --base x',
                     'pnor --list x --catalog 0x4e0200=x', 'pnor --list x --base x',
                     'pnor --list x -o x', 'set --events x faults=',
                     'boot arm --initrd-add x', 'boot arm --initrd-add x=relative',
                     'boot arm --initrd-add =/x', 'boot arm --initrd-add x=/', 'boot arm',
                     'boot arm --with', 'boot x86 --shell --junit x', 'topdown',
                     'test --device nope', 'boot arm --with a,,b', 'boot arm --with=-oX=y',
                     'module', 'module arm', 'module mips guest',
                     'boot arm --module x', 'boot arm --module .ko', 'boot arm --share =/x',
                     'boot arm --run=', 'boot arm --get x', 'boot arm --get /',
                     'boot arm --get /=x', 'boot arm --get /a/x --get /b/x',
                     'boot arm --get /x=a --get /x=b',
                     'boot arm --share guest --share scripts',
                     'boot arm --kernel x --release sid', 'boot arm --kernel x --kernel-flavour rt',
                     'boot arm --kernel-flavour a/b', 'module arm guest/drivers/hisi_pmcu --kernel '
                     'x --release sid', 'boot arm --modprobe a/b', 'boot power --repeatable',
                     'boot arm --shell', 'boot arm --snapshot --gdb',
                     'boot arm --symbols', 'boot arm --gdb --symbols --kernel x',
                     'boot arm --with A', 'boot arm --with vim-', 'boot arm --smp=2 --ker x'):
            if args.startswith('boot arm -'):       # or it would stop for want of a terminal
                args += ' --run missing.sh'
            done, name = self.pmu(*args.split()), args.split()[0]
            known = name in self.commands
            one_line(self, done, 2, f"see 'pmu {name} --help'" if known else "see 'pmu --help'")
        one_line(self, self.pmu('boot', 'x86', '-smp', '4'), 2, "QEMU's own options go behind --")
        self.assertFalse(self.project.build.exists())

    def test_outputs(self):
        """a file to be written that is a folder, or in none, is noticed before anything is built"""
        write(self.project.root, {'run.sh': '#!/bin/sh\n'})
        for args in ('boot arm --run run.sh --junit guest', 'count --json guest -- sh',
                     'topdown --svg guest -- sh', 'test --junit guest',
                     'pnor --catalog 0x4e0200=x -o guest'):
            one_line(self, self.pmu(*args.split()), 1, 'guest is a folder; give the name of a file')
            one_line(self, self.pmu(*args.replace(' guest', ' none/x').split()), 1,
                     'none/x: there is no folder none; make it first')
        self.project.top.chmod(0o755)
        user = 65534 if os.getuid() == 0 else None         # root may write anywhere
        (self.project.root / 'locked').mkdir(mode=0o555)
        for args in 'test --junit locked/x', 'boot arm --run run.sh --get /x=locked/x':
            one_line(self, self.pmu(*args.split(), user=user), 1,
                     'locked/x may not be written; give another')
        self.assertFalse(self.project.build.exists())

    def test_words(self):
        """words that may be left out are checked if they are there"""
        for command in 'bench', 'fuzz':
            self.assertEqual(list(parser().parse_args([command]).names or []), [])
        self.assertEqual(parser().parse_args(['bench', 'x86', 'arm']).names, ['x86', 'arm'])

    def test_no_dashes(self):
        """a command to be measured that is not behind "--" is shown as it must be"""
        one_line(self, self.pmu('topdown', '--user', 'echo', 'a b'), 2,
                 'COMMAND goes behind "--"; pmu topdown -- echo \'a b\'')
        one_line(self, self.pmu('count', './sort', '1'), 2,
                 'PROGRAM goes behind "--"; pmu count -- ./sort 1')
        one_line(self, self.pmu('topdown', 'ls', '-l'), 2, '-l; COMMAND goes behind --')

    def test_empty(self):
        """a value of a variable that is not set is refused before anything is built"""
        for args, what in ((('module', 'x86', ''), 'DIR: expected a file or a folder'),
                           (('records', '', '--clusters', '1', '--counters', '1'), 'FILE: expected'),
                           (('boot', 'x86', '--smp', ''), '--smp: expected N'),
                           (('boot', 'x86', '--memory', ''), '--memory: expected SIZE'),
                           (('pnor', '--list', ''), '--list: expected a file'),
                           (('count', '--', ''), "the program behind -- is ''"),
                           (('topdown', '--', '', '-l'), "the program behind -- is ''")):
            one_line(self, self.pmu(*args), 2, what)
        self.assertFalse(self.project.build.exists())

    def test_wrong_files(self):
        """files that pnor is to read, and a --prefix, are looked at before anything is built"""
        write(self.project.root, {'file': ''})
        for args, what in ((('pnor', '--list', 'nope'), 'nope: no such file'),
                           (('pnor', '--list', 'guest'), 'guest: not a file'),
                           (('pnor', '--catalog', '0x4e0200=nope', '-o', 'x.img'), 'nope: no such'),
                           (('install', '--prefix', 'file/x'), 'file is not a folder')):
            one_line(self, self.pmu(*args), 1, what)
        self.assertFalse(self.project.build.exists())

    def test_missing_script(self):
        """a --run file that is missing, or no script, is noticed before anything is built"""
        write(self.project.root, {'text.sh': 'true\n', 'dos.sh': '#!/bin/sh\r\n',
                                  'bash.sh': '#!/bin/bash -e\n', 'py.sh': '#!/usr/bin/env python3\n'})
        for name, why in (('missing.sh', ': no such'), ('guest', ': not a file'),
                          ('text.sh', ' does not start with "#!"'), ('dos.sh', ' has the line ends'),
                          ('bash.sh', ' needs bash, which the guest lacks; add --with bash'),
                          ('py.sh', ' needs python3')):
            one_line(self, self.pmu('boot', 'arm', '--run', name), 1, f'--run {name}{why}')
        self.assertFalse(self.project.build.exists())

    def test_long_script(self):
        """a script that would be typed for long is refused with --snapshot, and taken without"""
        for size, snapshot, long in ((256 << 10, True, False), ((256 << 10) + 1, True, True),
                                     ((256 << 10) + 1, False, False)):
            write(self.project.root, {'run.sh': '#!/bin/sh\n'.ljust(size)})
            done = self.pmu('boot', 'arm', '--run', 'run.sh', *['--snapshot'] * snapshot)
            one_line(self, done, 1, '--run run.sh: --snapshot types a script of at most 256 KB; '
                     'give the rest with --initrd-add' if long else 'QEMU cannot be built in')

    def test_into_folder(self):
        """a file for a guest path with a slash at its end keeps its name, as with cp"""
        add = at_path('--initrd-add')
        self.assertEqual(add(f'{ROOT}/pmu=/root/')[1], '/root/pmu')
        self.assertEqual(add(f'{ROOT}/pmu=/root/x')[1], '/root/x')
        self.assertEqual(add(f'{ROOT}/scripts=/root/')[1], '/root/')

    def test_equals(self):
        """a file's name may have an equals sign; "=/" begins the place in the guest"""
        with tempfile.TemporaryDirectory() as top:
            write(top, {'a=b/c=d': ''})
            for option, default, text, target, source in (
                    ('--share', '/share', 'a=b', '/share', 'a=b'),
                    ('--share', '/share', 'a=b=/x', '/x', 'a=b'),
                    ('--initrd-add', '', 'a=b/c=d=/x=y', '/x=y', 'a=b/c=d')):
                self.assertEqual(at_path(option, default)(f'{top}/{text}')[1:],
                                 (target, f'{top}/{source}'))
        with self.assertRaisesRegex(ArgumentTypeError, 'expected DIR=/PATH/IN/GUEST'):
            at_path('--share', '/share')('=/x')

    def test_collected(self):
        """an option that is given twice has both values; a path of the host becomes absolute"""
        tool, folder = os.path.relpath(ROOT / 'pmu'), os.path.relpath(ROOT / 'scripts')
        for _ in range(2):          # nothing stays from one command line to the next
            opt = parser().parse_args([
                'boot', 'arm', '--initrd-add', f'{tool}=/a', '--initrd-add', f'{tool}=/b',
                '--share', f'{folder}=/c', '--share', f'{folder}=/d',
                '--with', 'aa,bb', '--with', 'cc'])
            self.assertEqual(opt.files, {'/a': f'{ROOT}/pmu', '/b': f'{ROOT}/pmu'})
            self.assertEqual(opt.shares, {'/c': f'{ROOT}/scripts', '/d': f'{ROOT}/scripts'})
            self.assertEqual(list(opt.packages), ['aa', 'bb', 'cc'])

    def test_missing_inputs(self):
        """whatever else is missing is noticed before anything is built, too"""
        write(self.project.root, {'run.sh': '#!/bin/sh\n'})
        os.mkfifo(self.project.root / 'fifo')
        for option, value, why in (
                ('--initrd-add', 'fifo=/x', '--initrd-add fifo: not a file or folder'),
                ('--initrd-add', 'missing=/x', '--initrd-add missing: no such file or folder'),
                ('--module', 'missing.ko:a=1', '--module missing.ko: no such file'),
                ('--share', 'run.sh', '--share run.sh: not a folder'),
                ('--share', 'guest=x', '--share guest=x: no such folder'),
                ('--get', '/x=missing/y', 'there is no folder missing'),
                ('--get', '/proc/stat', 'let SCRIPT copy it'),
                ('--get', '/sys/kernel/x', 'let SCRIPT copy it'),
                ('--kernel', 'missing', '--kernel missing: no such file'),
                ('--kernel', 'scripts', '--kernel scripts: no arch/arm64/boot/Image'),
                ('--kernel', 'run.sh', 'is not a kernel for arm64')):
            one_line(self, self.pmu('boot', 'arm', '--run', 'run.sh', option, value), 1, why)
        one_line(self, self.pmu('boot', 'arm', '--run', 'run.sh', '--release', '-x'), 2, '--release')
        self.assertFalse(self.project.build.exists())

    def test_bad_path(self):
        """a checkout whose path has a space is refused in one line, before anything is built"""
        write(self.project.root, {'run.sh': '#!/bin/sh\n'})
        env = {k: v for k, v in self.project.env.items() if k != 'QEMU_PMU_BUILD'}
        one_line(self, self.pmu('boot', 'x86', '--run', 'run.sh', env=env), 1, 'QEMU cannot be '
                 f"built in '{self.project.root}/build': no spaces", 'set QEMU_PMU_BUILD')
        self.assertFalse((self.project.root / 'build').exists())

    def test_no_module(self):
        """a folder that is not a kernel module's is noticed before anything is built"""
        write(self.project.root, {'file': ''})
        for name, why in (('missing', ': no such folder'), ('file', ': not a folder'),
                          ('guest', ' has no Kbuild file')):
            one_line(self, self.pmu('module', 'arm', name), 1, f'{name}{why}')
        self.assertFalse(self.project.build.exists())

    def test_module_kernel(self):
        """a module is built in a kernel's tree: --kernel with an image is refused"""
        write(self.project.root, {'new/Kbuild': 'obj-m := new.o\n',
                                  'Image': bytes(56) + b'ARM\x64' + bytes(1024)})
        one_line(self, self.pmu('module', 'arm', 'new', '--kernel', 'Image'), 1,
                 '--kernel Image: not a folder; give the one in which that kernel was built')
        self.assertFalse(self.project.build.exists())

    def test_early_interrupt(self):
        """Ctrl-C is at most one line, however early it comes"""
        for n in range(30):
            with subprocess.Popen([fixtures.ROOT / 'pmu', 'help'], env=self.project.env, text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                time.sleep(n / 100)
                child.send_signal(signal.SIGINT)
                err = child.communicate()[1]
            self.assertNotIn('Traceback', err)
            self.assertLessEqual(len(err.strip().splitlines()), 1, err)
            self.assertIn(child.returncode, (0, 130, -signal.SIGINT))

    def test_wrapper(self):
        """./pmu explains itself from any folder without installing anything"""
        project = self.project
        calls = project.top / 'calls'
        for name in ('dpkg-query', 'apt-get', 'sudo'):
            write(project.top, {f'bin/{name}': STUB})
            (project.top / 'bin' / name).chmod(0o755)
        write(project.root, {'pmu': (fixtures.ROOT / 'pmu').read_bytes()})
        env = dict(project.env, CALLS=str(calls), PATH=f'{project.top}/bin:{os.environ["PATH"]}')
        for args in ([], ['help'], ['build', '--help'], ['boot', 'arm', '-h'], ['nope', '--help'],
                     ['nope'], ['help', 'boot'], ['help', 'nope'], ['[', 'nope']):
            done = subprocess.run(['sh', project.root / 'pmu', *args], env=env, text=True,
                                  capture_output=True, cwd='/')
            self.assertNotRegex(done.stderr, 'Traceback|grep:')
            self.assertEqual(done.returncode, 2 if 'nope' in args else 0, done.stderr)
        link = project.top / 'bin/pmu'
        link.symlink_to(project.root / 'pmu')
        subprocess.run(['sh', link, 'help'], env=env, check=True, capture_output=True)
        self.assertFalse(calls.exists())


# Stand in for programs of the host. All packages are installed but $LACKING, until apt-get has run.
HOST = {
    'dpkg-query': '''
        echo "$*" >> "$TOP/asked"
        shift 3
        for name; do
            [ "$name" = "$LACKING" ] && [ ! -e "$TOP/done" ] || printf '[%s installed]' "$name"
        done''',
    'apt-get': '''
        echo "apt-get $*" >> "$TOP/calls"
        case $* in
            *update) [ -z "$OFFLINE" ] || { echo 'E: no network'; echo 'more'; exit 100; } ;;
            *) touch "$TOP/done" ;;
        esac''',
    'id': 'echo "$USER_ID"',
    'sudo': 'echo sudo >> "$TOP/calls"; exec "$@"',
}


class Packages(unittest.TestCase):
    """./pmu installs what a command needs."""

    def setUp(self):
        self.project = fixtures.Project()
        self.addCleanup(self.project.close)
        self.top = self.project.top
        write(self.project.root, {'pmu': (ROOT / 'pmu').read_bytes()})
        for name, text in HOST.items():
            write(self.top, {f'bin/{name}': f'#!/bin/sh\n{text}\n'})
            (self.top / 'bin' / name).chmod(0o755)
        for name in ('sh', 'dirname', 'env', 'flock', 'grep', 'readlink', 'rm', 'sleep', 'tail',
                     'touch'):
            (self.top / 'bin' / name).symlink_to(shutil.which(name))

    def pmu(self, *args, lacking='', user=0, offline=''):
        """The outcome of ./pmu, and what it has called."""
        for name in 'calls', 'asked', 'done':
            (self.top / name).unlink(missing_ok=True)
        top = str(self.top)
        env = {**self.project.env, 'PATH': f'{top}/bin', 'TOP': top, 'TMPDIR': top,
               'LACKING': lacking, 'USER_ID': str(user), 'OFFLINE': offline}
        done = subprocess.run(['sh', self.project.root / 'pmu', *args], env=env, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)
        calls = self.top / 'calls'
        return done, calls.read_text().splitlines() if calls.exists() else []

    def asked(self, *args):
        """The packages that a command line needs."""
        self.pmu(*args)
        asked = self.top / 'asked'
        return set(asked.read_text().split()) if asked.exists() else set()

    def test_installed(self):
        """where all is there, nothing is installed, and the command runs"""
        done, calls = self.pmu('set', '--events', 'x', '--nope')
        self.assertEqual((done.returncode, calls), (2, []), done.stderr)
        # It reads a file, for which Python is enough.
        done, calls = self.pmu('records', 'none', '--clusters', '1', '--counters', '1',
                               lacking='bison')
        self.assertEqual((done.returncode, calls), (1, []), done.stderr)
        self.assertEqual(done.stderr, f'{GONE}\n')

    def test_lacking(self):
        """what is missing is installed, by sudo if need be, and then the command runs"""
        for user, sudo in (0, []), (1000, ['sudo']):
            done, calls = self.pmu('set', '--events', 'x', lacking='bison', user=user)
            self.assertEqual(calls, [*sudo, 'apt-get -q update', *sudo,
                                     'apt-get -q -y --no-install-recommends install bison'])
            first, *_, last = done.stderr.splitlines()
            self.assertEqual(first, 'pmu: installing Debian packages: bison')
            self.assertIn('no guest is running', last)
            self.assertEqual([*self.top.glob('*.log')], [])

    def test_failures(self):
        """an apt-get that fails, or may not be called, is one line, and the command does not run"""
        done, calls = self.pmu('build', lacking='bison', offline='1')
        self.assertEqual((done.returncode, calls), (1, ['apt-get -q update']))
        self.assertRegex(done.stderr.splitlines()[-1], '^pmu: error: installing packages failed: '
                         r'E: no network \(log: .*\.log\); check that apt can reach')
        (self.top / 'bin/sudo').unlink()
        done, calls = self.pmu('build', lacking='bison', user=1000)
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertEqual(done.stderr, 'pmu: error: Debian packages are missing and there is no '
                         'sudo; as root: apt-get install bison\n')
        (self.top / 'bin/dpkg-query').unlink()
        one_line(self, self.pmu('build')[0], 1, 'this is not a Debian system; supported hosts are')

    def test_more(self):
        """what few commands need is installed for these alone; nothing for a mistake or for help"""
        usual = self.asked('set', '--nope')
        self.assertLessEqual({'ninja-build', 'gcc'}, usual)
        for args, more in ((('topdown', '--html', 'x', '--nope'), {'python3-matplotlib'}),
                           (('topdown', '--svg=x', '--nope'), {'python3-matplotlib'}),
                           (('topdown', '--nope', '--', '--html'), set()),
                           (('demo', '--report=x', '--nope'), {'python3-matplotlib'}),
                           (('test', '--nope'), {'python3-matplotlib'}),
                           (('test', '--nope', '--coverage'), {'python3-matplotlib', 'gcovr'}),
                           (('test', '--nope', 'browser'), {'python3-matplotlib', 'chromium'}),
                           (('test', '--nope', 'report_browser'),
                            {'python3-matplotlib', 'chromium'}),
                           (('test', '--nope', 'lava'), {'python3-matplotlib', 'lava-dispatcher'}),
                           (('boot', 'browser', 'lava'), set()),
                           (('boot', 'x86', '--append', '--coverage', '--nope'), set()),
                           (('test', '--nope', '-k', 'lava', '--junit', 'browser'),
                            {'python3-matplotlib'}),
                           (('fuzz', '--nope'), {'clang', 'libclang-rt-dev', 'llvm', 'g++'})):
            self.assertEqual(self.asked(*args) - usual, more, args)
        for args in ('help',), ('clean', '--nope'), ('build', '--help'), ('biuld',):
            self.assertEqual(self.asked(*args), set(), args)


class Trouble(TreeTest):
    """A disk that is full, folders that cannot be written, a bug of ours."""

    def export(self, **kw):
        return self.project.pmu('export', **kw)

    def test_disk_full(self):
        """a full disk is one line that says so; nothing is lost, and the next run goes on"""
        self.prepare()
        write(self.src, {'hw/arm/virt.c': 'edited\n'})
        full = """
import pathlib, runpy, sys
real, sys.path[0] = pathlib.Path.write_bytes, 'scripts'
pathlib.Path.write_bytes = lambda path, data: real(
    pathlib.Path('/dev/full') if path.name == 'series' else path, data)
runpy.run_path('scripts/pmu.py', run_name='__main__')"""
        args = 'export', '--new-patch', 'hw/arm: edit it'
        one_line(self, self.project.run('-c', full, *args), 1,
                 'No space left on device; free some space')
        self.assertEqual((self.src / 'hw/arm/virt.c').read_text(), 'edited\n')
        self.assertEqual(self.project.pmu(*args).returncode, 0)
        self.assertEqual((self.project.root / 'patches/series').read_text().splitlines()[2:],
                         ['0002-hw-arm-edit-it.patch'])

    def test_output_full(self):
        """a full disk behind standard output is one line too"""
        with open('/dev/full', 'w') as full:
            for args in ['help'], ['test', 'ui', '-k', 'one line']:
                done = self.project.run(ROOT / 'scripts/pmu.py', *args, stdout=full)
                one_line(self, done, 1, 'No space left on device')

    def test_messages_full(self):
        """messages that cannot be written change no exit status"""
        for args, status in (('nosuch', 2), ('boot mips', 2), ('export', 1), ('help', 0)):
            with open('/dev/full', 'w') as full:
                done = self.project.pmu(*args.split(), stderr=full)
            self.assertEqual(done.returncode, status, args)

    def test_read_only(self):
        """a build folder that cannot be written is one line with its path"""
        user = 65534 if os.getuid() == 0 else None         # root may write anywhere
        locked = self.project.top / 'locked'
        locked.mkdir(mode=0o555)
        self.project.top.chmod(0o755)
        env = dict(self.project.env, QEMU_PMU_BUILD=str(locked / 'build'))
        done = self.prepare(ok=False, env=env, user=user)
        one_line(self, done, 1, f'{locked}/build: Permission denied; check the permissions')

    def test_bases(self):
        """a mistake in bases.toml is one line, with its place"""
        write(self.project.root, {'bases.toml': '["10.0"]\nversion = oops\n'})
        one_line(self, self.project.pmu('prepare'), 1,
                 'bases.toml: Invalid value (at line 2, column 11); correct it')

    def test_bug(self):
        """a bug of ours is one line, and its traceback is in the log that the line names"""
        with open(self.project.root / 'scripts/export.py', 'a') as script:
            script.write('\n\ndef cmd_export(_):\n    return {}["no such key"]\n')
        one_line(self, self.export(), 1, 'internal error', 'no such key', 'logs/crash.log')
        self.assertIn('Traceback', (self.project.build / 'logs/crash.log').read_text())

    def test_at_once(self):
        """commands that begin at the same time configure the build folder once, and all work"""
        (self.project.root / 'selftest').symlink_to(ROOT / 'selftest')
        with tempfile.TemporaryDirectory() as folder:           # its name has no space
            env = dict(self.project.env, QEMU_PMU_BUILD=f'{folder}/build', XDG_CACHE_HOME=folder)
            for _ in ('a new build folder', 'a new meson.build'):
                (self.project.root / 'meson.build').touch()
                running = [self.project.popen('scripts/pmu.py', 'prepare', '--qemu-src', self.qemu,
                                              env=env) for _ in range(4)]
                for child in running:
                    done = finish(child)
                    self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(f'{folder}/build/qemu/src/hw/misc/new.c'))

    def test_two_checkouts(self):
        """two checkouts that share a build folder: each command uses the code of its own"""
        root, other = self.project.root, self.project.top / 'other'
        (root / 'selftest').symlink_to(ROOT / 'selftest')
        shutil.copytree(root, other, symlinks=True)
        write(other, {'hw/misc/new.c': 'int other;\n'})
        with tempfile.TemporaryDirectory() as folder:           # its name has no space
            env = dict(self.project.env, QEMU_PMU_BUILD=f'{folder}/build', XDG_CACHE_HOME=folder)
            new = pathlib.Path(folder, 'build/qemu/src/hw/misc/new.c')
            for cwd, text in (root, 'int new;\n'), (other, 'int other;\n'), (root, 'int new;\n'):
                done = self.project.pmu('prepare', '--qemu-src', self.qemu, env=env, cwd=cwd)
                self.assertEqual((done.returncode, new.read_text()), (0, text), done.stderr)

    def test_clean(self):
        """clean keeps edits that were not exported, unless it is told so, and what others use"""
        self.prepare()
        write(self.src, {'VERSION': 'my edit\n'})
        one_line(self, self.project.pmu('clean'), 1, 'VERSION first', '--force')
        self.assertEqual((self.src / 'VERSION').read_text(), 'my edit\n')
        write(self.project.cache, {'qemu-pmu/kept': ''})
        for lock in 'build/lock', 'build/guests/mine.lock', 'cache/qemu-pmu/lock':
            write(self.project.top, {lock: ''})
            with open(self.project.top / lock, 'a', encoding='ascii') as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                one_line(self, self.project.pmu('clean', '--force', '--downloads'), 1,
                         f'{lock.rpartition("/")[0]}', 'is busy', 'stop it')
        self.assertTrue(self.src.exists())
        self.assertEqual(self.project.pmu('clean', '--force').returncode, 0)
        self.assertFalse(self.project.build.exists())
        self.assertTrue((self.project.cache / 'qemu-pmu/kept').exists())
        self.assertEqual(self.project.pmu('clean', '--downloads').returncode, 0)
        self.assertFalse((self.project.cache / 'qemu-pmu').exists())

    def test_clean_order(self):
        """clean holds locks while it removes files, and removes the mark of the folder last"""
        write(self.project.build, {'.qemu-pmu': '', 'lock': '', 'logs/a.log': '', 'b': '', 'c': ''})
        done = self.project.run('-c', '''
import argparse, os, sys
sys.path.append('scripts')
import tree, ui
unlink = os.unlink
def see(path, **kw):
    lock = ui.HOME / 'lock'
    print(os.path.basename(path), lock.exists() and ui.try_lock(lock) is not None)
    unlink(path, **kw)
os.unlink = see
tree.cmd_clean(argparse.Namespace(force=True, downloads=False))
''')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('True', done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], '.qemu-pmu False')
        self.assertFalse(self.project.build.exists())

    def test_clean_again(self):
        """a clean that was killed when only the folder was left can be repeated"""
        self.project.build.mkdir()
        done = self.project.pmu('clean')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertFalse(self.project.build.exists())

    def test_closed(self):
        """closed standard streams, or no home folder, are no failure"""
        env = dict(self.project.env, PATH=os.environ['PATH'])
        for end in '>&-', '2>&-', '<&-', '>&- 2>&- <&-':
            done = subprocess.run(['sh', '-c', f'exec "$0" --help {end}', ROOT / 'pmu'], env=env,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertEqual('usage: pmu' in done.stdout, '>&-' not in end.split())
        del env['HOME'], env['XDG_CACHE_HOME']
        done = self.project.run('-c', 'import pwd, sys\ndel pwd.getpwuid\nsys.path.append("scripts")\n'
                                'pwd.getpwuid = {}.__getitem__\nimport ui\nprint(ui.CACHE)', env=env)
        self.assertEqual(done.stdout, f'{self.project.root}/build/.cache/qemu-pmu\n', done.stderr)

    def test_clean_others(self):
        """nothing uses or cleans a folder of the user's, even if it has names of ours"""
        write(self.project.build, {'set-1/mine': '', 'qemu/src/mine': ''})
        one_line(self, self.project.pmu('set'), 1, 'has files that are not of pmu',
                 'set QEMU_PMU_BUILD')
        one_line(self, self.project.pmu('clean', '--force'), 1, 'had files before', 'by hand')
        self.assertEqual(len(list(self.project.build.rglob('mine'))), 2)

    def test_foreign_ninja(self):
        """a build folder of another project's is not ours because it has a build.ninja"""
        write(self.project.build, {'build.ninja': 'rule x\n', 'set-1/mine': '',
                                   'meson-info/meson-info.json': '{"source": "/elsewhere"}'})
        one_line(self, self.project.pmu('set'), 1, 'has files that are not of pmu',
                 'set QEMU_PMU_BUILD')
        self.assertTrue((self.project.build / 'set-1/mine').exists())

    def test_own_ninja(self):
        """a build folder that the user has set up with meson is one of ours"""
        (self.project.root / 'selftest').symlink_to(ROOT / 'selftest')
        subprocess.run(['/usr/bin/meson', 'setup', self.project.build, self.project.root],
                       check=True, env=self.project.env, capture_output=True)
        one_line(self, self.project.pmu('set'), 1, 'no guest')

    def test_clean_link(self):
        """clean follows a link"""
        self.prepare()
        place, link = self.project.top / 'place', self.project.top / 'link'
        place.mkdir()
        link.symlink_to(place)
        env = dict(self.project.env, QEMU_PMU_BUILD=str(link))
        self.prepare(env=env)
        done = self.project.run(self.project.root / 'scripts/pmu.py', 'clean', env=env, cwd=link)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertFalse(place.exists())
        self.prepare(env=env)
