# SPDX-License-Identifier: GPL-2.0-or-later
"""Following a guest, with a shell script in the place of QEMU."""

import argparse
import base64
import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import termios
import textwrap
import unittest
from unittest import mock

import arguments
import boot
import exchange
import fixtures
import functional
import guest
import kernels
import snapshot
import ui
from fixtures import finish, one_line, wait_for, write

# boot.run() of a fake QEMU; standard output is what the guest's script prints.
DRIVER = '''
import pathlib, sys
sys.path.insert(0, 'scripts')
import boot, exchange, guest, kernels, qemu, snapshot, ui
top, mode, *words = sys.argv[1:]
top = pathlib.Path(top)
guest.build = lambda name: (top / 'kernel', top / 'ram')
kernels.debian_kernel = lambda *_: kernels.Kernel(top / 'kernel', top)
kernels.symbols = lambda kernel, arch: top / 'vmlinux'
guest.packages = lambda name, packages: top / ''.join(packages)
qemu.binary = lambda name, kind='qemu': top / 'bin' / name
exchange.virtiofsd = lambda: top / 'server'
boot.SILENT = 1
def main(_):
    options = boot.Options('arm', **dict(w.split('=', 1) for w in words))
    options.timeout = float(options.timeout)
    options.args = options.args.split() if options.args else []
    options.repeatable = bool(options.repeatable)
    if options.snapshot:
        snapshot.Snapshot.args = snapshot.Snapshot.resume = lambda *_: []
        (top / 'initrd').touch()
        snapshot.Snapshot.saved = property(lambda _: True, lambda *_: None)
    options.gets = {options.gets: top / 'got'} if options.gets else {}
    options.shares = {'/at': options.shares} if options.shares else {}
    ui.claim()
    if mode == 'command':
        print(*boot.command(options, top)[0], sep='\\n')
        return 0
    return getattr(boot, mode)(options)
ui.main(main)
'''
UP = 'echo "@@pmu-up 1234 6.12 2 CPUs"\n'


class Boot(unittest.TestCase):
    def setUp(self):
        self.project = fixtures.Project()
        self.addCleanup(self.project.close)
        self.top = self.project.top
        write(self.top, {'kernel': 'k', 'ram': 'init', 'run.sh': '#!/bin/sh\n'})

    def start(self, script, *words, mode='run', **kw):
        binary = self.top / 'bin/qemu-system-aarch64'
        write(self.top, {'bin/qemu-system-aarch64':
                         f'#!/bin/sh\necho $$ > "{self.top}/pid"\n' + textwrap.dedent(script)})
        binary.chmod(0o755)
        return self.project.popen('-c', DRIVER, self.top, mode,
                                  f'run={self.top}/run.sh', 'timeout=30', *words, **kw)

    def boot(self, script, *words, mode='run'):
        with self.start(script, *words, mode=mode) as child:
            done = finish(child)
        self.assertNotIn('Traceback', done.stderr)
        self.gone()
        return done

    def alive(self):
        """Whether the fake QEMU runs."""
        pid = self.top / 'pid'
        return pid.exists() and pathlib.Path('/proc', pid.read_text().strip()).exists()

    def gone(self):
        """Assert that the fake QEMU has ended."""
        self.assertFalse(self.alive())

    def test_status(self):
        """the script's output goes to standard output, and its exit status is ours"""
        for status in (0, 1, 42, 255):
            done = self.boot(f'{UP}echo one; echo two\necho "@@pmu-exit 1234 {status}"\nexec sleep 1000')
            self.assertEqual((done.returncode, done.stdout), (status, 'one\ntwo\n'), done.stderr)

    def test_kexec(self):
        """a kernel that the script has started by kexec has another random word"""
        done = self.boot(f'{UP}echo one\n{UP.replace("1234", "5678")}'
                         'echo two\necho "@@pmu-exit 5678 4"\n')
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn('two\n', done.stdout)

    def test_missing_file(self):
        """if a file of --get is missing, the status is 1, unless the script has failed"""
        empty = 'for arg; do case $arg in *path=*/get.tar) : > "${arg##*path=}"; esac; done\n'
        for mode, end, status in (('run', f'{UP}echo @@pmu-exit 1234 0\nexec sleep 1000', 1),
                                  ('run', f'{UP}echo @@pmu-exit 1234 7\nexec sleep 1000', 7),
                                  ('shell', 'exit 0', 1), ('shell', 'exit 7', 7)):
            done = self.boot(f'{empty}{end}', 'gets=/x', mode=mode)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn('--get /x: the guest has no such file', done.stderr)

    def test_shell_signal(self):
        """a signal that ends the QEMU of a shell is one line with the log; the status has it"""
        done = self.boot('kill -SEGV $$', mode='shell')
        done.stderr = re.sub('^pmu: booting .*\n', '', done.stderr)
        one_line(self, done, 139, 'QEMU was ended by signal 11 (Segmentation fault) (log: ',
                 'boot-arm.log')

    def test_get_full(self):
        """while a guest sends files to a disk that is full, which QEMU tries for ever: one line"""
        full = ('for arg; do case $arg in *path=*/get.tar) get=${arg##*path=}; : > "$get"\n'
                'ln -s /dev/full "${get%/*}/room"; esac; done\n')
        for mode, rest in ('run', UP), ('shell', ''):
            done = self.boot(f'{full}{rest}exec sleep 1000', 'gets=/x', mode=mode)
            done.stderr = re.sub('^pmu: booting .*\n', '', done.stderr)
            one_line(self, done, 1, 'No space left on device; free some space')

    def test_share_lost(self):
        """a guest whose shared folder has lost its server would wait for ever: one line"""
        write(self.top, {'server': '#!/bin/sh\n: > "$2"\n'
                                   f'until [ -e "{self.top}/go" ]; do sleep 0.05; done\nexit 3\n'})
        (self.top / 'server').chmod(0o755)
        for mode, rest in ('run', UP), ('shell', ''):
            done = self.boot(f'{rest}: > "{self.top}/go"\nexec sleep 1000', 'shares=/of the host',
                             mode=mode)
            done.stderr = re.sub('^pmu: booting .*\n', '', done.stderr)
            one_line(self, done, 1, 'the server of the shared folder /of the host has ended '
                     '(status 3) (log: ', 'virtiofsd-arm-0.log)')
            (self.top / 'go').unlink()
        # With QEMU, it ends as it should.
        done = self.boot(f': > "{self.top}/go"\nsleep 1; exit 5', 'shares=/of the host',
                         mode='shell')
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_one_chunk(self):
        """no line is lost when the console comes in one piece, or in many"""
        text = r'firmware\r\n@@pmu-up 1234 6.12 2 CPUs\r\none\r\ntwo@@pmu-exit 1234 3\r\n'
        pieces = ''.join(f"printf '{c}'; " for c in
                         text.replace(r'\r', '\r').replace(r'\n', '\n').replace('\r\n', '\n'))
        for script in (f"printf '{text}'", pieces):
            done = self.boot(f'{script}\nexec sleep 1000')
            self.assertEqual((done.returncode, done.stdout), (3, 'one\ntwo\n'), done.stderr)

    def test_panic(self):
        """a panic is one line with its text and the log, after the last console lines"""
        done = self.boot('echo last words\n'
                         'echo "[ 1.0] Kernel panic - not syncing: VFS: no root"\nexec sleep 1000')
        one_line(self, done, 1, 'Kernel panic - not syncing: VFS: no root', 'boot-arm.log')
        self.assertIn('console: last words\n', done.stderr)

    def test_panic_not_utf8(self):
        """the text of a panic is the guest's: bytes that are no UTF-8 are replaced"""
        done = self.boot(r"""printf 'Kernel panic - not syncing: \377 failed\n'; exec sleep 1000""")
        one_line(self, done, 1, 'Kernel panic - not syncing: \ufffd failed', 'boot-arm.log')

    def test_controls(self):
        """lines of a console that are shown after a failure do nothing to the terminal"""
        done = self.boot(r"""printf '\033c\033[?7l\033[2JSeaBIOS\b\r\n\033[1;31mred\t\302\233x\n"""
                         r"""Kernel panic - not syncing: no\nmore\r\n\033[0m\nlast'
                         exec sleep 1000""")
        self.assertEqual([l for l in done.stderr.split('\n') if l.startswith('console:')], [
            f'console: {text}' for text in ('SeaBIOS', 'red\tx', 'Kernel panic - not syncing: no',
                                            'more', '', 'last')])

    def test_wrap(self):
        """a terminal wraps its lines again after a guest whose firmware has switched that off"""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        with open(theirs, 'wb') as terminal:
            finish(self.start('exit 0', mode='shell', stdout=terminal))
        self.assertIn(b'\033[?7h', os.read(ours, 1000))
        self.assertNotIn('\033', self.boot('exit 0', mode='shell').stdout)
        # And before the guest's own shell
        self.assertIn(r"printf '\033[?7h'", (guest.SOURCES / 'init').read_text())

    def test_terminal(self):
        """a QEMU that crashes leaves the terminal as it was"""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        before = termios.tcgetattr(theirs)
        with open(theirs, 'rb', buffering=0) as terminal:
            done = finish(self.start('stty raw -echo; perl -e "use Fcntl; fcntl(STDIN, F_SETFL, '
                                     'O_NONBLOCK)"; kill -KILL $$', mode='shell', stdin=terminal))
            self.assertEqual((done.returncode, termios.tcgetattr(terminal)), (137, before))
            self.assertTrue(os.get_blocking(theirs))

    def test_hang(self):
        """no user space in time: one line, after the last 10 console lines and an unended one"""
        done = self.boot('for n in $(seq 30); do echo "<line $n>"; done; printf "login: "\n'
                         'exec sleep 1000', 'timeout=15')
        one_line(self, done, 1, 'no user space after', '--timeout')
        shown = [l for l in done.stderr.splitlines() if l.startswith('console:')]
        self.assertEqual(shown, [f'console: <line {n}>' for n in range(21, 31)]
                         + ['console: login: '])

    def test_bad_option(self):
        """when QEMU ends at once, its own complaint is in the line, without hints behind it"""
        for _ in range(5):
            done = self.boot('exec >&-\nsleep 0.05\n(echo "/x/qemu-system-aarch64: warning: new"\n'
                             'echo "/x/qemu-system-aarch64: -M nix: unsupported"\n'
                             'echo "and exabytes, respectively.") >&2; exit 1')
            warning, _, done.stderr = done.stderr.partition('\n')
            self.assertEqual(warning, 'qemu: warning: new')
            one_line(self, done, 1, 'QEMU ended before the guest was up: -M nix: unsupported (log')

    def test_ends_while_typed(self):
        """a QEMU that ends while a script is typed in: one line with its reason, not status 141"""
        write(self.top, {'run.sh': b'#!/bin/sh\n' + b'x' * 300000})
        done = self.boot('echo "/x/qemu-system-aarch64: killed" >&2; exit 1', 'snapshot=1')
        one_line(self, done, 1, 'QEMU ended before the guest was up: killed (log')

    def test_ends_early(self):
        """a script that never says its exit status fails: why, and how QEMU ended"""
        stopped = "the guest stopped before its script's end (QEMU's status: "
        panic = 'Kernel panic - not syncing: oops'
        for last, why in (('exit 0', f'{stopped}0)'), ('kill -ABRT $$', f'{stopped}-6)'),
                          (f'echo "{panic}"; exit 0', 'the kernel panicked'),
                          (f'echo "log: {panic}"; exit 0', f'{stopped}0)'),
                          (f'echo "[    1.25] ---[ end {panic} ]---"; exec sleep 1000',
                           'the kernel panicked')):
            done = self.boot(f'{UP}echo half\n{last}')
            one_line(self, done, 1, why)
            self.assertEqual(done.stdout.splitlines()[0], 'half')

    def test_speaks_of_panic(self):
        """a script that prints the text of a panic goes on"""
        text = 'Kernel panic - not syncing: of last week\n'
        done = self.boot(f'{UP}echo "{text}@@pmu-exit 1234 3"\nexec sleep 1000')
        self.assertEqual((done.returncode, done.stdout), (3, text), done.stderr)

    def test_no_memory(self):
        """a kernel that runs out of memory when it boots needs more"""
        done = self.boot('echo "Kernel panic - not syncing: System is deadlocked on memory"')
        one_line(self, done, 1, 'System is deadlocked on memory (log', 'more --memory')

    def test_quotes_ups(self):
        """a script that prints the beginning of another guest's log comes to its own end"""
        text = '@@pmu-up 4321 6.1 2 CPUs\n'
        done = self.boot(f'{UP}echo "{text}@@pmu-exit 1234 3"\nexec sleep 1000')
        self.assertEqual((done.returncode, done.stdout), (3, text), done.stderr)

    def test_quotes_panics(self):
        """a script that prints the log of a panic, and is silent for long then, goes on"""
        for text in ('[    1.25] Kernel panic - not syncing: of last week',
                     'log: [    1.25] ---[ end Kernel panic - not syncing: of last week ]---'):
            done = self.boot(f'{UP}echo "{text}"; sleep 3\necho "@@pmu-exit 1234 0"\nexec sleep 1000')
            self.assertEqual((done.returncode, done.stdout), (0, f'{text}\n'), done.stderr)

    def test_speaks_of_end(self):
        """a line that has the marker in it, or that of another boot, is no end; a status is at
        most 255
        """
        text = ('log: @@pmu-exit 1234 0 ok\n@@pmu-exit 1234 0000\n@@pmu-exit 0\n'
                '@@pmu-exit 4321 0\n@@pmu-up 4321\n@@pmu-exit 4321 0\n')
        done = self.boot(f'{UP}echo "{text}@@pmu-exit 1234 256"\nexec sleep 1000')
        self.assertEqual((done.returncode, done.stdout), (255, text), done.stderr)

    def test_noise(self):
        """warnings about CPU features that TCG lacks are not shown, other warnings are"""
        done = self.boot(f'''
            echo "qemu-system-aarch64: warning: TCG doesn't support requested feature: x" >&2
            echo "qemu-system-aarch64: warning: a real one" >&2
            {UP}echo "@@pmu-exit 1234 0"''')
        self.assertEqual(done.returncode, 0)
        # And its progress, if the host is slow
        self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith('pmu: ')],
                         ['qemu: warning: a real one'])
        log = (self.project.build / 'logs/boot-arm.log').read_text()
        self.assertIn("TCG doesn't support requested feature: x", log)

    def test_interrupt(self):
        """Ctrl-C and kill end a script that never finishes, and leave no QEMU and no files"""
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.start(f'{UP}echo up\nexec sleep 1000') as child:
                self.assertEqual(child.stdout.readline(), 'up\n')
                child.send_signal(number)
                err = finish(child).stderr
            self.assertEqual(child.returncode, status, err)
            self.assertNotIn('Traceback', err)
            self.gone()
            self.assertEqual([p.name for p in self.project.build.glob('boot-*')], [])

    def test_killed(self):
        """a pmu that is killed leaves no QEMU, and the next one removes its files"""
        with self.start(f'{UP}echo up\nexec sleep 1000') as child:
            self.assertEqual(child.stdout.readline(), 'up\n')
            child.kill()
            finish(child)
        wait_for(lambda: not self.alive(), 'end of QEMU')
        [left] = self.project.build.glob('boot-*')
        self.assertEqual(self.boot(f'{UP}echo "@@pmu-exit 1234 0"').returncode, 0)
        self.assertFalse(left.exists())

    def test_two(self):
        """two guests at the same time have logs of their own, which stay with their names"""
        logs, go = self.project.build / 'logs', self.top / 'go'
        with self.start(f'{UP}echo first\nuntil [ -e "{go}" ]; do sleep 0.05; done\n'
                        'echo "@@pmu-exit 1234 0"') as first:
            self.assertEqual(first.stdout.readline(), 'first\n')
            self.assertEqual(self.boot(f'{UP}echo second\necho "@@pmu-exit 1234 0"').returncode, 0)
            go.touch()
            self.assertEqual(finish(first).returncode, 0)
        self.assertIn('first\n', (logs / 'boot-arm.log').read_text())
        self.assertIn('second\n', (logs / 'boot-arm-2.log').read_text())

    def test_heap(self):
        """QEMU's heap is of huge pages, unless the user tunes it"""
        ours = 'glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864'
        for given, pages in ({}, ours), ({'GLIBC_TUNABLES': 'x'}, 'x'):
            self.project.env.pop('GLIBC_TUNABLES', None)
            self.project.env.update(given)
            done = self.boot(f'{UP}echo "heap $GLIBC_TUNABLES"\necho "@@pmu-exit 1234 0"')
            self.assertIn(f'heap {pages}\n', done.stdout)

    def test_shell(self):
        """the interactive console passes QEMU's status on; Ctrl-C is for the guest"""
        go = self.top / 'go'
        with self.start(f'echo "$*"; echo prompt\nuntil [ -e "{go}" ]; do sleep 0.05; done\nexit 5',
                        mode='shell') as child:
            # Else a second monitor takes Ctrl-A X and Ctrl-A C away
            self.assertIn(' -serial mon:stdio', child.stdout.readline())
            self.assertEqual(child.stdout.readline(), 'prompt\n')
            child.send_signal(signal.SIGINT)
            go.touch()
            err = finish(child).stderr
        self.assertEqual(child.returncode, 5, err)
        self.gone()

    def command(self, *words):
        done = self.boot('', *words, mode='command')
        self.assertEqual(done.returncode, 0, done.stderr)
        words = done.stdout.splitlines()
        return {words[n]: words[n + 1] for n in range(1, len(words) - 1)}

    def test_machine(self):
        """the device is on by default, off with --stock, and as the user says otherwise"""
        def options(*words):
            return set(self.command(*words)['-M'].split(','))
        self.assertIn('pmcu=on', options())
        self.assertNotIn('pmcu', ''.join(options('stock=1')))
        self.assertEqual({o for o in options('machine=virt,pmcu=off') if o[:4] == 'pmcu'},
                         {'pmcu=off'})

    def test_defaults(self):
        """what the user says of CPUs, memory, network and accelerator is taken in place of ours"""
        found = self.command()
        self.assertEqual({name: found[name] for name in ('-cpu', '-smp', '-m', '-nic', '-accel')},
                         {'-cpu': 'max,pauth=off', '-smp': '2', '-m': '2G', '-nic': 'none',
                          '-accel': 'tcg'})
        self.assertNotIn('-icount', found)
        self.assertNotIn('-accel', self.command('machine=virt,accel=kvm'))
        for args in '-M virt,accel=kvm', '-machine accel=kvm', '--accel kvm', '--enable-kvm':
            done = self.boot('', f'args={args}', mode='command')
            self.assertNotIn('tcg', done.stdout.splitlines(), args)
        self.assertEqual(self.command('append=x accel=1')['-accel'], 'tcg')
        done = self.boot('', 'cpu=a57', 'smp=3', 'memory=1G', 'args=-nic user -accel x -foo',
                         mode='command')
        words = done.stdout.splitlines()
        self.assertEqual(words[-5:], ['-nic', 'user', '-accel', 'x', '-foo'], done.stderr)
        self.assertEqual([words.count(name) for name in ('-nic', '-accel', '-cpu')], [1, 1, 1])
        self.assertEqual([words[words.index(name) + 1] for name in ('-cpu', '-smp', '-m')],
                         ['a57', '3', '1G'])

    def test_repeatable(self):
        """--repeatable fixes the clock, and where kernel and programs are"""
        for words, there in ((), False), (('repeatable=1',), True):
            found = self.command(*words)
            self.assertEqual('sleep=off' in found.get('-icount', ''), there)
            self.assertEqual('clock=vm' in found.get('-rtc', ''), there)
            self.assertEqual({'nokaslr', 'norandmaps'} <= {*found['-append'].split()}, there)

    def test_initrd(self):
        """the script is added behind the RAM disk, at a multiple of 4 bytes"""
        self.assertEqual(self.command()['-initrd'], str(self.top / 'initrd'))
        data = (self.top / 'initrd').read_bytes()
        self.assertEqual(data[:10], b'init070701')

    def test_packages(self):
        """packages are between the RAM disk and the user's files, which come last and stay"""
        write(self.top, {'ram': 'init', 'rr': 'rr..'})
        self.command('packages=rr')
        self.assertEqual((self.top / 'initrd').read_bytes()[:14], b'initrr..070701')

    def test_parameters(self):
        """the user's kernel parameters come last, where they can take ours back"""
        write(self.top, {'ram': ''})
        self.assertRegex(self.command('append=mitigations=auto')['-append'],
                         r' mitigations=off .* mitigations=auto$')

    def test_symbols(self):
        """with symbols for gdb, its command is shown, and the kernel is where they say"""
        for words, text in (('gdb=1',), 'gdb: target remote {}'), (
                ('gdb=1', 'symbols=1'),
                f"gdb-multiarch '{self.top}/vmlinux' -ex 'target remote {{}}'"):
            done = self.boot('', *words, mode='command')
            self.assertEqual(done.returncode, 0, done.stderr)
            found = done.stdout.splitlines()
            port = found[found.index('-gdb') + 1].removeprefix('tcp:')
            self.assertEqual(done.stderr, f'pmu: {text.format(port)}\n')
            self.assertEqual('nokaslr' in found[found.index('-append') + 1].split(),
                             'symbols=1' in words)


class Messages(unittest.TestCase):
    def test_drop(self):
        """what firmware says in the middle of a line, or alone, is no part of the console"""
        parts = (r'one\r\n', r'[ 1.25,4] SBE: late\r\n', 'tw[ 2.5,4] SBE: la',
                 r'te again\r\no\r\nthree', r'[   66.40,4] Spent 1783 msecs in OPAL call 1!\n')
        script = '; sleep 0.1; '.join(f"printf '{part}'" for part in parts)
        with open(os.devnull, 'w') as log, subprocess.Popen(
                ['sh', '-c', script], stdout=subprocess.PIPE) as child:
            found = list(boot.Console(child, log, functional.LATE))
        self.assertEqual(found, [b'one', b'two', b'three'])

    def test_full_disk(self):
        """messages of QEMU are read to their end, and shown, when the log's disk is full"""
        with open('/dev/full', 'w', buffering=1) as log, subprocess.Popen(
                ['sh', '-c', 'seq 30000'], stdout=subprocess.PIPE) as child:
            messages = boot.Messages(child.stdout, log)
            self.assertEqual(child.wait(600), 0)
            self.assertEqual(messages.reason(), '30000')
            with self.assertRaises(OSError):
                log.close()

    def test_closed(self):
        """messages of QEMU are read to their end when nobody reads ours"""
        with open(os.devnull, 'w') as log, subprocess.Popen(
                ['sh', '-c', 'seq 30000'], stdout=subprocess.PIPE) as child, \
                mock.patch('builtins.print', side_effect=BrokenPipeError):
            messages = boot.Messages(child.stdout, log)
            messages.release()
            self.assertEqual(child.wait(600), 0)
            messages.join()


class Inside(unittest.TestCase):
    """Parts of a boot that need no QEMU."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)
        write(self.top, {'qemu': 'q', 'kernel': 'k', 'ram': 'i', 'a (1).ko': 'vermagic=6\0',
                         'b.ko': 'vermagic=6\0'})
        patch = mock.patch.multiple(ui, BUILD=self.top, LOGS=self.top)
        patch.start()
        self.addCleanup(patch.stop)

    def test_module(self):
        """a module's file name and arguments are words to the guest's shell, whatever is in them"""
        opt = boot.Options('arm', modules=[(self.top / 'a (1).ko', 'a=$(b) c="d;  e"'),
                                           (self.top / 'b.ko', '')])
        kernel = kernels.Kernel(self.top / 'kernel', self.top / 'none')
        given = exchange.Exchange(opt, kernel, self.top)
        self.assertIn('/pmu/modules/a (1).ko', given.files)
        done = subprocess.run(['sh', '-c', 'insmod() { printf "<%s>" "$@"; echo; }; . "$0"',
                               given.files['/pmu/setup']], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), (
            '</pmu/modules/a (1).ko><a=$(b) c="d;  e">\n</pmu/modules/b.ko>\n', ''))

    def test_signal_at_start(self):
        """a signal that comes while QEMU is being started ends that QEMU, too"""
        children, popen = [], subprocess.Popen

        def start(*args, **kw):
            children.append(popen(*args, **kw))
            signal.raise_signal(signal.SIGTERM)
            return children[-1]

        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        given = mock.Mock(fds=[], running=contextlib.nullcontext)
        with mock.patch('boot.command', return_value=(['sh', '-c', 'exec sleep 100'], given)), \
                mock.patch('monitor.FOLDER', self.top), mock.patch('subprocess.Popen', start), \
                self.assertRaises(KeyboardInterrupt), boot.started(boot.Options('arm')):
            self.fail('it goes on')
        self.assertIsNotNone(children[0].poll())

    def test_signal_at_end(self):
        """a signal that comes while a QEMU that hangs is being ended waits until that is done"""
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        child, messages = mock.Mock(), mock.Mock()
        child.wait = lambda seconds: signal.raise_signal(signal.SIGTERM)
        with self.assertRaises(KeyboardInterrupt):
            boot.end(child, messages)
        child.kill.assert_called_once()
        messages.join.assert_called_once()

    def snapshot(self, name, qmp, *options):
        """A Snapshot of a run whose guest has this monitor, and QEMU these further options."""
        (self.top / name).mkdir()
        cmd = [f'{self.top}/qemu', '-kernel', f'{self.top}/kernel', '-initrd', f'{self.top}/ram',
               '-drive', f'{self.top / name}/disk',         # another one in each run
               '\udcff', *options]
        patch = mock.patch('monitor.of_guest', lambda _: contextlib.nullcontext(qmp))
        patch.start()
        self.addCleanup(patch.stop)
        given = argparse.Namespace(arch='arm', args=options)
        return snapshot.Snapshot(given, cmd, self.top / name)

    def test_snapshot_steps(self):
        """a guest is stopped, saved, and goes on; a later one goes on once it has all"""
        def cmd(command, uri=''):
            asked.append(command)
            if uri:
                pathlib.Path(uri.removeprefix('file:')).write_text('saved')
            return {'status': states.pop(0) if command.startswith('query-') else ''}

        asked, states = [], ['setup', 'active', 'device', 'completed', 'finish-migrate', 'paused']
        qmp = mock.Mock(cmd=cmd)
        first = self.snapshot('a', qmp)
        self.assertEqual((first.saved, first.args()), (False, []))
        first.save('arm')
        self.assertEqual(asked, ['stop', 'migrate', *['query-migrate'] * 4, *['query-status'] * 2,
                                 'cont'])
        asked[:], states[:] = [], ['inmigrate', 'inmigrate', 'paused']
        second = self.snapshot('b', qmp)
        self.assertEqual((second.saved, second.args()), (True, ['-incoming', f'file:{first.path}']))
        second.resume('arm')
        self.assertEqual(asked, [*['query-status'] * 3, 'cont'])

    def test_unsaved(self):
        """a guest that cannot be saved: QEMU's reason, and no file that a later run would take"""
        qmp = mock.Mock(**{'cmd.return_value': {'status': 'failed', 'error-desc': 'no room'}})
        with self.assertRaisesRegex(ui.Fail, '^this guest cannot be saved: no room; boot it'):
            self.snapshot('a', qmp).save('arm')
        self.assertFalse(self.snapshot('b', qmp).saved)

    def test_other_kernel(self):
        """a kernel or a QEMU that has been replaced makes another snapshot"""
        path = self.snapshot('a', None).path
        self.assertEqual(self.snapshot('b', None).path, path)
        paths = [path]
        for name in 'kernel', 'qemu':
            os.utime(self.top / name, (1, 1))
            paths.append(self.snapshot(f'other {name}', None).path)
        self.assertEqual(len({*paths}), 3, paths)

    def test_typed(self):
        """the time is typed in, and any script in lines that a console takes, up to a Ctrl-D"""
        data = bytes(range(256)) * 20
        write(self.top, {'script': data})
        typed = io.BytesIO()
        with mock.patch('time.time', lambda: 1234567890.9):
            snapshot.Snapshot.send(typed, self.top / 'script')
        now, *lines, last = typed.getvalue().split(b'\n')
        self.assertEqual(now, b'1234567890')
        self.assertEqual((base64.b64decode(b''.join(lines)), last), (data, b'\4'))
        self.assertLess(max(map(len, lines)), 100)

    def exchange(self, arch='x86', **options):
        return exchange.Exchange(boot.Options(arch, **options),
                                 kernels.Kernel(self.top / 'kernel', self.top / 'none'), self.top)

    def test_collect(self):
        """files, folders and links come to where they are wanted; what the guest lacks is said

        A file takes the place of an old one, even if size and time are the same.
        """
        write(self.top, {'guest/out/sub/file': 'text', 'guest/out/:odd': 'odd', 'guest/one': 'one',
                         'guest/more': 'more'})
        (self.top / 'guest/out/sub/file').chmod(0o750)
        os.symlink('sub', self.top / 'guest/out/link')
        os.symlink('nowhere', self.top / 'guest/lost')
        write(self.top, {'a:b': 'old', 'got/mine': 'mine'})
        (self.top / 'got').chmod(0o2770)        # a folder of the user's stays as it is
        for name in 'a:b', 'guest/one':
            os.utime(self.top / name, (1, 1))
        gets = {'/out': self.top / 'got', '/one': self.top / 'a:b', '/none': self.top / 'none',
                '/out/link': self.top / 'link', '/lost': self.top / 'lost'}
        given = self.exchange(gets=gets)
        subprocess.run(['tar', '-cf', self.top / 'get.tar', '-C', self.top / 'guest', 'out', 'one',
                        'lost'], check=True)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertFalse(given.collect())
        self.assertEqual(said.getvalue(), 'pmu: --get /none: the guest has no such file\n')
        self.assertEqual({name: content for name, (content, _) in
                          fixtures.read(self.top / 'got').items()},
                         {'sub/file': b'text', ':odd': b'odd', 'mine': b'mine'})
        self.assertEqual((self.top / 'got').stat().st_mode & 0o7777, 0o2770)
        self.assertEqual((self.top / 'got/sub/file').stat().st_mode & 0o777, 0o750)
        for name, target in ('got/link', 'sub'), ('link', 'sub'), ('lost', 'nowhere'):
            self.assertEqual(os.readlink(self.top / name), target)
        self.assertEqual((self.top / 'a:b').read_text(), 'one')

    def test_collect_foreign(self):
        """a folder of somebody else's gets the content, if it may be written, and stays as it is"""
        write(self.top, {'guest/out/sub/file': 'text', 'local/mine': 'mine'})
        subprocess.run(['tar', '-cf', self.top / 'get.tar', '-C', self.top / 'guest', 'out'],
                       check=True)
        self.top.chmod(0o755)
        (self.top / 'local').chmod(0o1777)
        run, other = ui.run, ['setpriv', '--reuid=65534'] if os.getuid() == 0 else []

        def as_other(cmd, *args):
            return run([*(other if cmd[0] == 'rsync' else []), *cmd], *args)

        with mock.patch('ui.run', as_other), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertTrue(self.exchange(gets={'/out': self.top / 'local'}).collect(),
                            said.getvalue())
        self.assertEqual((self.top / 'local/sub/file').read_text(), 'text')
        self.assertEqual((self.top / 'local').stat().st_mode & 0o7777, 0o1777)

    def test_collect_links(self):
        """no link leads out of what the guest sent, or to another place than the wanted one"""
        write(self.top, {'host/secret': 'secret', 'guest/one': 'new', 'guest/deep/su': 'su'})
        os.symlink(self.top / 'host', self.top / 'guest/etc')
        os.symlink(self.top / 'host', self.top / 'local')
        (self.top / 'guest/deep/su').chmod(0o6755)
        given = self.exchange(gets={'/etc/secret': self.top / 'found', '/one': self.top / 'local',
                                    '/deep': self.top / 'deep'})
        subprocess.run(['tar', '-cf', self.top / 'get.tar', '-C', self.top / 'guest', 'etc', 'one',
                        'deep'], check=True)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertFalse(given.collect())
        self.assertEqual(said.getvalue().splitlines(), [
            'pmu: --get /etc/secret: the guest has no such file',
            f'pmu: --get /one: {self.top}/local is a link, perhaps from a guest, and not followed; '
            'give what it leads to'])
        self.assertFalse(os.path.lexists(self.top / 'found'))
        self.assertEqual(os.listdir(self.top / 'host'), ['secret'])
        self.assertEqual((self.top / 'deep/su').stat().st_mode & 0o7777, 0o755)

    def test_collect_all(self):
        """it is a success if all is there; of a guest that sent nothing, all is missing"""
        for name, content, good in ('none', b'', False), ('all', None, True):
            with self.subTest(name), contextlib.redirect_stderr(io.StringIO()):
                scratch = self.top / name
                write(scratch, {'in/x': 'x', 'get.tar': b''})
                given = self.exchange(gets={'/x': self.top / f'x-{name}'})
                given.scratch = scratch
                if content is None:
                    subprocess.run(['tar', '-cf', scratch / 'get.tar', '-C', scratch / 'in', 'x'],
                                   check=True)
                self.assertEqual(given.collect(), good)
                self.assertEqual((self.top / f'x-{name}').exists(), good)

    def test_collect_other_kinds(self):
        """a FIFO or a device, and what cannot be written, is a line with its path; the rest comes"""
        write(self.top, {'in/one': 'one', 'in/dir/x': 'x', 'in/two': 'two', 'local': 'a file'})
        os.mkfifo(self.top / 'in/fifo')
        os.mkfifo(self.top / 'in/dir/fifo')
        subprocess.run(['tar', '-cf', self.top / 'get.tar', '-C', self.top / 'in', '.'], check=True)
        given = self.exchange(gets={'/fifo': self.top / 'got-fifo', '/dir': self.top / 'local',
                                    '/one': self.top / 'got'})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertFalse(given.collect())
        first, second = said.getvalue().splitlines()
        self.assertEqual(first, 'pmu: --get /fifo: it is no file, folder or link')
        self.assertRegex(second, '^pmu: --get /dir: .*rsync.*log: ')
        self.assertEqual((self.top / 'got').read_text(), 'one')
        self.assertFalse(os.path.lexists(self.top / 'got-fifo'))

    def test_collect_damaged(self):
        """an archive that tar does not take whole is a line, and no exception"""
        write(self.top, {'in/one': 'one', 'in/two': b'2' * 20480})
        given = self.exchange(gets={'/one': self.top / 'got', '/two': self.top / 'got-two'})
        tar = subprocess.run(['tar', '-cf', '-', '-C', self.top / 'in', 'one', 'two'], check=True,
                             capture_output=True).stdout
        (self.top / 'get.tar').write_bytes(tar[:5000])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertFalse(given.collect())
        self.assertRegex(said.getvalue(), '^pmu: --get: tar.*failed: .*tar: ')
        self.assertEqual((self.top / 'got').read_text(), 'one')

    def test_get_paths(self):
        """--get takes no file of /proc and /sys, however it is spelled, and no folder to lose"""
        for path in '/proc', '/proc/stat', '//proc/stat', '/./sys/kernel/x', '/a/./../proc/x':
            with self.assertRaises((ui.Fail, argparse.ArgumentTypeError)):
                arguments.from_guest(f'{path}=got')
        self.assertEqual(arguments.from_guest(f'//a/./b/={self.top}/x')[1:],
                         ('/a/b', f'{self.top}/x'))
        with mock.patch('os.access', return_value=False), \
                self.assertRaisesRegex(ui.Fail, 'may not be written'):
            arguments.from_guest(f'/a={self.top}')

    def test_key(self):
        """a key whose making was interrupted is made anew; a whole one stays"""
        key = ui.BUILD / 'guest/ssh-key'
        write(key.parent, {'ssh-key': 'half'})
        made = exchange.ssh_key().read_text()
        self.assertIn('PRIVATE KEY', made)
        self.assertEqual(exchange.ssh_key().read_text(), made)
        key.with_suffix('.pub').write_text('')
        self.assertNotEqual(exchange.ssh_key().read_text(), made)

    def test_shares(self):
        """shared memory has the size that -m takes; each folder has a device, and is mounted"""
        for memory, size in ('2G', '2G'), ('1500', '1500M'), ('size=3G,slots=2', '3G'):
            given = self.exchange(memory=memory, shares={'/a b': '/host/1', '/c': '/host/2'})
            self.addCleanup(os.close, given.fds[0])
            self.assertEqual(given.machine, ',memory-backend=pmu-ram')
            self.assertIn(f'memory-backend-memfd,id=pmu-ram,share=on,size={size}', given.args)
            self.assertEqual([arg for arg in given.args if arg.startswith('vhost-user-fs-pci')], [
                f'vhost-user-fs-pci,chardev=share{n},tag=share{n}' for n in (0, 1)])
            self.assertEqual(pathlib.Path(given.files['/pmu/setup']).read_text(), ''.join(
                f'mkdir -p {at} && mount -t virtiofs share{n} {at} || exit 1\n'
                for n, at in enumerate(("'/a b'", '/c'))))
        given = self.exchange('power', shares={'/c': '/a,b'}, net=True)
        self.assertEqual((given.fds, given.machine), ([], ''))
        self.assertIn('local,id=share0,security_model=none,path=/a,,b', given.args)
        self.assertIn('virtio-9p-pci,fsdev=share0,mount_tag=share0,bus=pcie.0', given.args)
        self.assertIn('virtio-net-pci,netdev=net,romfile=,bus=pcie.1', given.args)

    def test_sockets(self):
        """sockets of shared folders have short, plain names; each guest has logs of its own"""
        write(self.top, {'server': '#!/bin/sh\necho "$4" >&2; : > "$2"; exec sleep 1000\n'})
        (self.top / 'server').chmod(0o755)
        (odd := self.top / ('a,' * 60)).mkdir()
        kernel = kernels.Kernel(self.top / 'kernel', self.top / 'none')
        with mock.patch('exchange.virtiofsd', lambda: self.top / 'server'):
            for name in 'x86', 'x86-2':
                opt = boot.Options('x86', shares={'/a': f'/of {name}'})
                given = exchange.Exchange(opt, kernel, odd)
                given.opt.guest = name
                [socket] = [arg for arg in given.args if arg.startswith('socket,')]
                path = socket.removeprefix('socket,id=share0,path=')
                self.assertLess(len(path), 50)
                self.assertNotIn(',', path)
                with given.running():
                    self.assertTrue(os.path.samefile(path, odd / 'share0'))
                self.assertEqual((self.top / f'virtiofsd-{name}-0.log').read_text(),
                                 f'/of {name}\n')
                (odd / 'share0').unlink()

    def test_no_driver(self):
        """a guest without a network driver says so, and where modules are looked for"""
        (self.top / 'bin').mkdir()
        write(self.top, {'bin/ip': '#!/bin/sh\necho "ip: no device"; exit 1\n'})
        (self.top / 'bin/ip').chmod(0o755)
        done = subprocess.run(['sh', guest.SOURCES / 'net.sh', '/k.modules', ''],
                              capture_output=True, text=True,
                              env={'PATH': f'{self.top}/bin:/usr/bin:/bin'})
        self.assertEqual((done.returncode, done.stdout + done.stderr), (
            1, '--net: this kernel has no network driver (virtio_net); its modules are looked for '
               'below /k.modules\n'))

    def test_net(self):
        """the guest's network has its driver and an address, and --ssh a port of this host"""
        write(self.top, {'none/virtio_net.ko': 'vermagic=6\0', 'key': '', 'key.pub': ''})
        with mock.patch('exchange.ssh_key', lambda: self.top / 'ssh-key'), \
                mock.patch('exchange.free_port', lambda: 2200), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            for ssh, netdev in (False, 'user,id=net'), (
                    True, 'user,id=net,hostfwd=tcp:127.0.0.1:2200-:22'):
                given = self.exchange(net=not ssh, ssh=ssh)
                self.assertEqual(given.args, ['-netdev', netdev, '-device',
                                              'virtio-net-pci,netdev=net,romfile='])
                setup = pathlib.Path(given.files['/pmu/setup']).read_text()
                self.assertIn('insmod /pmu/modules/virtio_net.ko', setup)
                self.assertIn(f'sh /pmu/net {self.top}/none {"ssh" * ssh} || exit 1\n', setup)
                self.assertEqual(given.files['/pmu/net'], guest.SOURCES / 'net.sh')
                self.assertEqual('/root/.ssh/authorized_keys' in given.files, ssh)
        self.assertRegex(said.getvalue(), r'^pmu: ssh -p 2200 -i \S*ssh-key .*@127\.0\.0\.1\n$')

    def test_free_port(self):
        """gdb does not get the port that ssh will have, though nobody has it yet"""
        with mock.patch('exchange.socket.socket') as socket:
            probe = socket.return_value.__enter__.return_value
            probe.getsockname.side_effect = [('127.0.0.1', port) for port in (2200, 2200, 2201)]
            self.assertEqual(exchange.free_port(2200), 2201)

    def test_two_snapshots(self):
        """of two guests that are saved at the same time, both are whole, and one stays"""
        def cmd(command, uri=''):
            if uri:
                path = pathlib.Path(uri.removeprefix('file:'))
                path.write_text('half')
                if others:
                    others.pop().save('arm-2')
                path.write_text(path.read_text() + ' whole')
            return {'status': 'completed'}

        qmp = mock.Mock(cmd=cmd)
        first, second = self.snapshot('a', qmp), self.snapshot('b', qmp)
        others = [second]
        first.save('arm')
        self.assertEqual(first.path, second.path)
        self.assertEqual(first.path.read_text(), 'half whole')
        self.assertEqual(list(first.path.parent.iterdir()), [first.path])

    def test_snapshot_of_others(self):
        """a run with other options, files of these, or RAM disk begins anew, and saves its own"""
        def cmd(command, uri=''):
            if uri:
                pathlib.Path(uri.removeprefix('file:')).write_text('saved')
            return {'status': 'completed'}

        qmp = mock.Mock(cmd=cmd)
        write(self.top, {'snapshots/x86-0': 'of another architecture'})
        first = self.snapshot('a', qmp)
        first.save('arm')
        self.assertTrue(first.saved)
        self.assertTrue(self.snapshot('b', qmp).saved)
        other = self.snapshot('c', qmp, '-append', 'pmu.other')
        self.assertFalse(other.saved)
        other.save('arm')
        self.assertEqual({path.name for path in other.path.parent.iterdir()},
                         {other.path.name, 'x86-0'})
        write(self.top, {'ram': 'j'})
        self.assertFalse(self.snapshot('d', qmp, '-append', 'pmu.other').saved)
        for name, text in ('e', 'one'), ('f', 'other'):
            write(self.top, {'x.dtb': text})
            given = self.snapshot(name, qmp, '-drive', f'id=x,file={self.top}/x.dtb')
            self.assertFalse(given.saved)
            given.save('arm')

    def test_damaged_snapshot(self):
        """a snapshot that cannot be resumed is removed, and one line says so"""
        saved = self.snapshot('a', mock.Mock(**{'cmd.side_effect': ui.Fail('the guest has ended')}))
        write(self.top, {saved.path: 'damaged'})
        with self.assertRaisesRegex(ui.Fail, 'the guest has ended; the snapshot was removed'):
            saved.resume('arm')
        self.assertFalse(saved.path.exists())
