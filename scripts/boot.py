# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a guest under QEMU and follow its console."""

import argparse
import collections
import contextlib
import os
import re
import select
import signal
import shlex
import subprocess
import sys
import termios
import threading
import time

import exchange
import guest
import junit
import kernels
import monitor
import qemu
import snapshot
import ui
from arguments import parser
from graph import graph

MACHINES = {        # name on our command line: emulator, machine, CPU, console
    # Signing and checking of return addresses takes a tenth of an emulated CPU's time.
    'arm': ('aarch64', 'virt', 'max,pauth=off', 'ttyAMA0'),
    'power': ('ppc64', 'powernv9', None, 'hvc0'),
    'x86': ('x86_64', 'pc', 'Icelake-Server-v6,pmu=on', 'ttyS0'),
}
# skiboot can miss the BMC's answer when Linux asks for the time of day: ipmi_opal_rtc_read()
# says "waiting" after it has sent the question, and QEMU's BMC answers before that when
# another CPU takes its interrupt. Linux would then wait for ever, in about one boot of fifty.
# The heartbeats of POWER's watchdog begin late in the boot: on a slow host, 10 s are too few.
# Linux gives the timer of a PC 65 ms for five ticks, and panics if the host stands still then.
PARAMETERS = {'power': 'initcall_blacklist=opal_rtc_init watchdog_thresh=60 ',
              'x86': 'no_timer_check '}
PHASES = ((rb'SeaBIOS|OPAL v|BdsDxe|UEFI firmware', 'firmware'),
          (rb'Linux version|Booting Linux|Decompressing|zImage starting|INIT: Starting kernel',
           'kernel'),
          (rb'Run /init|Freeing unused', 'user space'))
PANIC = rb'Kernel panic - not syncing[^\r\n]*'
# As the kernel prints it; the second line comes last, and only if the kernel stops for good.
PANICKED = re.compile(rb'(\[ *\d+\.\d+\] )?(?P<last>---\[ end )?' + PANIC)
SILENT = 5         # seconds after that line in which a guest that lives on says something
# CPU features that TCG lacks, a flash image that Debian does not have, and our own
# signal: the user can do nothing about them and the guest is none the worse.
NOISE = re.compile(r"TCG doesn't support requested feature|Could not find PNOR 'pnv-pnor.bin'|"
                   r'terminating on signal 15')
# SeaBIOS, for one, clears the terminal, and lets it cut long lines off from then on.
CONTROLS = re.compile(r'\x1b(\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])|[^\t -~\xa0-\U0010ffff]')
WRAP = '\033[?7h'
ACCELERATOR = re.compile(r'--?(accel|enable-kvm)$|([^ ]*,)?accel=')     # is in what the user says
PREFIX = re.compile(r'^\S*qemu-system-\w+: ')        # of QEMU's messages


class Options(argparse.Namespace):
    """What to boot: the options of `pmu boot`; `guest` is its name, known when it runs."""

    def __init__(self, arch, **given):
        known = vars(parser().parse_args(['boot', arch]))
        assert given.keys() <= known.keys(), given
        super().__init__(**{'guest': arch, **known, **given})


def machine_option(opt, default):
    """The -M argument: our devices on, unless the user asks otherwise."""
    text, wanted = opt.machine or default, {}
    if opt.arch == 'arm' and text.startswith('virt'):
        wanted = {'virtualization': 'on', 'gic-version': '3'}
        wanted |= {} if opt.stock else {'pmcu': 'on'}
    elif re.match('powernv(9|10[^,]*|)(,|$)', text) and not opt.stock:
        wanted = {'imc': 'on'}
    return text + ''.join(f',{k}={v}' for k, v in wanted.items() if f',{k}=' not in text)


def uefi(scratch):
    """Options that boot through UEFI, and so with ACPI; the flash is gone afterwards."""
    code, variables = scratch / 'code.fd', scratch / 'variables.fd'
    code.write_bytes((qemu.fetch_firmware() / 'QEMU_EFI.fd').read_bytes())
    variables.touch()
    for path in (code, variables):
        os.truncate(path, 64 << 20)         # the size of the board's flash devices
    return ['-drive', f'if=pflash,format=raw,unit=0,readonly=on,file={code}',
            '-drive', f'if=pflash,format=raw,unit=1,file={variables}']


def command(opt, scratch):
    """(QEMU's command line for these options, what it exchanges with the guest)"""
    target, machine, cpu, console = MACHINES[opt.arch]
    _, initrd = guest.build(opt.arch)
    kernel = kernels.wanted(opt)
    given = exchange.Exchange(opt, kernel, scratch)
    files = {**opt.files, **given.files}
    if opt.run and not opt.snapshot:
        files[guest.RUN] = opt.run
    archives = [initrd]
    if packages := [*opt.packages, *['dropbear-bin'] * opt.ssh]:
        archives.append(guest.packages(opt.arch, packages))
    if files:
        archives.append(scratch / 'files')
        archives[-1].write_bytes(guest.extra_archive(files))
    initrd = scratch / 'initrd'
    guest.ram_disk(opt.arch, archives, initrd)
    # The kernel's tests of its ciphers take CPUs away for seconds after a boot. Those of a key
    # derivation and of a source of randomness, which nothing here uses, have no parameter and take
    # a twentieth of the boot. Its defence against flaws that an emulated CPU does not have is to
    # switch page tables and to empty caches at each system call; without, a perf that starts needs
    # half of the time.
    mode = 'wait' if opt.snapshot else 'run' if opt.run else 'shell'
    append = (f'console={console} panic=-1 quiet cryptomgr.notests=1 mitigations=off pmu={mode} '
              'initcall_blacklist=jent_mod_init,crypto_kdf108_init '
              f'{"nokaslr " * bool(opt.symbols)}{"nokaslr norandmaps " * opt.repeatable}'
              f'{PARAMETERS.get(opt.arch, "")}{opt.append}')
    cmd = [qemu.binary(f'qemu-system-{target}', 'stock' if opt.stock else 'qemu'),
           '-M', machine_option(opt, machine) + given.machine, '-m', opt.memory,
           '-smp', opt.smp, '-nographic', '-no-reboot', '-kernel', kernel.image, '-initrd', initrd,
           '-append', append, *given.args, *(['-cpu', opt.cpu or cpu] if opt.cpu or cpu else [])]
    if opt.acpi:
        cmd += uefi(scratch)
    if not any(a in ('-nic', '-netdev', '-net') for a in [*given.args, *opt.args]):
        cmd += ['-nic', 'none']
    if not any(ACCELERATOR.match(word) for word in [opt.machine, *opt.args]):
        cmd += ['-accel', 'tcg']
    return [str(c) for c in cmd] + opt.args, given


class Messages(threading.Thread):
    """Log QEMU's messages; show those that a user can do something about.

    They wait for release(): if QEMU ends before, the last one belongs to the line that says so.
    """

    def __init__(self, pipe, log):
        super().__init__()
        self.pipe, self.log = pipe, log
        self.held, self.released, self.lock = [], False, threading.Lock()
        self.start()

    def run(self):
        for line in self.pipe:
            text = line.decode(errors='replace').rstrip()
            with contextlib.suppress(OSError):      # a full disk: QEMU must not wait for us
                self.log.write(f'qemu: {text}\n')
            if text and not NOISE.search(text):
                with self.lock:
                    self.held.append(text)
                if self.released:
                    self.release()

    def release(self):
        """Show messages, and from now on at once."""
        with self.lock:
            self.released = True
            for text in self.held:
                ui.say(PREFIX.sub('', text), 'qemu: ')
            self.held.clear()

    def reason(self):
        """The last message of a QEMU that has closed its console; hints follow some messages."""
        self.join(60)
        with self.lock:
            found = [text for text in self.held if PREFIX.match(text)] or self.held
            if found:
                self.held = self.held[:self.held.index(found[-1])]
        return PREFIX.sub('', found[-1]) if found else ''


def shown(line):
    """A line of the console as text that is safe to show."""
    return CONTROLS.sub('', line.decode(errors='replace'))


def restore(modes):
    """Set the modes of a terminal, which may be gone."""
    with contextlib.suppress(termios.error):
        termios.tcsetattr(0, termios.TCSANOW, modes)


class Console:
    """The lines of QEMU's standard output; TimeoutError at the deadline.

    In each second of silence, idle() is called.
    """

    def __init__(self, child, log, drop=b'', idle=lambda: None):
        self.child, self.log, self.drop, self.idle, self.deadline = child, log, drop, idle, None
        self.buffer, self.tail = b'', collections.deque(maxlen=10)

    def __iter__(self):
        """The lines that have not been read yet."""
        while True:
            while b'\n' not in self.buffer:
                wait = self.deadline - time.monotonic() if self.deadline else 1
                if wait <= 0:
                    raise TimeoutError
                if not select.select([self.child.stdout], [], [], min(wait, 1))[0]:
                    self.idle()
                    continue
                data = os.read(self.child.stdout.fileno(), 65536)
                self.log.write(data.decode(errors='replace').replace('\r', ''))
                self.buffer += data or b'\n' * bool(self.buffer)    # the last line may be unended
                if self.drop:
                    self.buffer = re.sub(self.drop, b'', self.buffer)
                if not self.buffer and not data:
                    return
            line, _, self.buffer = self.buffer.partition(b'\n')
            self.tail.append(line.replace(b'\r', b''))
            yield self.tail[-1]

    def failure(self, what, hint):
        """A Fail, after the last lines of the console."""
        rest = self.buffer.removesuffix(b'\n').split(b'\n') if self.buffer else []
        for line in [*self.tail, *rest]:
            ui.say(shown(line), 'console: ')
        return ui.Fail(what, hint, self.log.name)


@contextlib.contextmanager
def started(opt, interactive=False, **kw):
    """QEMU as a child that never outlives us; yields (child, messages, log file, Exchange)."""
    ui.LOGS.mkdir(parents=True, exist_ok=True)
    with ui.scratch('boot-') as scratch, monitor.guest(opt.arch) as (name, listener), \
            open(ui.LOGS / f'boot-{name}.log', 'w', buffering=1,
                 errors='backslashreplace') as log, \
            contextlib.ExitStack() as stack:
        opt.guest, (cmd, given) = name, command(opt, scratch)
        if opt.snapshot:
            given.kept = snapshot.Snapshot(opt, cmd, scratch)
            cmd += given.kept.args()
        stack.enter_context(given.running())
        cmd += ['-chardev', f'socket,id=pmu-monitor,server=on,wait=off,fd={listener.fileno()}',
                '-mon', 'chardev=pmu-monitor,mode=control']
        if interactive:                 # Ctrl-C belongs to the guest
            cmd += ['-serial', 'mon:stdio']  # -nographic has no Ctrl-A if there is another monitor
            stack.callback(signal.signal, signal.SIGINT,
                           signal.signal(signal.SIGINT, signal.SIG_IGN))
            if sys.stdin.isatty():      # whose modes a QEMU that crashes does not restore
                stack.callback(restore, termios.tcgetattr(0))
                stack.callback(os.set_blocking, 0, True)
        log.write(f'$ {shlex.join(cmd)}\n')
        with ui.held():
            # The kernel ends it if we are killed.
            child = stack.enter_context(subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL', *cmd], stderr=subprocess.PIPE,
                pass_fds=[listener.fileno(), *given.fds], env={**qemu.HEAP, **os.environ}, **kw))
            messages = Messages(child.stderr, log)
            stack.callback(end, child, messages)
        yield child, messages, log, given


def end(child, messages):
    """End QEMU, and show what it said."""
    with ui.held():         # timeout(1) sends its signal twice
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(60)
        child.kill()
        with contextlib.suppress(BrokenPipeError):      # of what was typed in too late
            if child.stdin:
                child.stdin.close()
        messages.join()
    messages.release()


def show(line):
    print(line, flush=True)


class Seen(list):
    """The lines that a guest prints, which are shown, too."""

    def __call__(self, line):
        show(line)
        self.append(line)


def run(opt, echo=show, typed=False, limit=0, drop=b''):
    """Boot, run opt.run, whose lines echo() gets, and power off; returns the script's status.

    If `typed`, echo() may write to opt.console what the script reads from /dev/console. If the
    script needs more than `limit` seconds, and this is not 0: TimeoutError. What matches `drop` is
    no part of the console.
    """
    stdin = subprocess.PIPE if opt.snapshot or typed else subprocess.DEVNULL
    with started(opt, stdin=stdin, stdout=subprocess.PIPE,
                 start_new_session=True) as (child, messages, log, given):
        console = Console(child, log, drop, lambda: given.check(child))
        opt.console = child.stdin
        if given.kept and given.kept.saved:
            given.kept.resume(opt.guest)
            given.kept.send(child.stdin, opt.run)
        words = {boot(console, opt, messages, given.kept)}
        messages.release()
        console.deadline = time.monotonic() + limit if limit else None
        panic = False
        try:
            for line in console:
                words.add(begin(line))      # of a kernel that kexec has started, or of some log
                match = re.search(rb'@@pmu-exit (\S+) (\d{1,3})\s*$', line)
                if match and match[1] in words:
                    if match.start():           # output that did not end its line
                        echo(line[:match.start()].decode(errors='replace'))
                    complete = given.collect()      # whatever the script's status
                    return min(int(match[2]), 255) or int(not complete)
                # A script may print that, too. After a panic, QEMU ends, but with panic=0 it waits.
                panic = PANICKED.match(line) or panic
                if panic and panic['last']:
                    console.deadline = time.monotonic() + SILENT
                echo(line.decode(errors='replace'))
        except TimeoutError:
            if not panic:
                raise
        if panic:
            raise console.failure('the kernel panicked', 'see the console lines above')
        how = ''
        with contextlib.suppress(subprocess.TimeoutExpired):
            how = f' (QEMU\'s status: {child.wait(2)})'      # negative: the signal that ended it
        raise console.failure(f"the guest stopped before its script's end{how}",
                              'see the console lines above')


def begin(line):
    """The random word of the boot, if a kernel's user space begins with this line."""
    match = re.search(rb'@@pmu-up (\S+) \S+ \d+ CPUs', line)
    return match and match[1]


def boot(console, opt, messages, kept):
    """Follow the console up to user space; returns its random word."""
    with ui.Step(f'boot the {opt.arch} guest', '(starting QEMU)') as step:
        console.deadline = time.monotonic() + opt.timeout
        try:
            for line in console:
                if kept and not kept.saved and b'@@pmu-wait' in line:
                    step.detail = '(saving it)'
                    kept.save(opt.guest)
                    kept.send(console.child.stdin, opt.run)
                    console.deadline = time.monotonic() + opt.timeout
                # It may be after escape sequences of the firmware.
                if word := begin(line):
                    console.deadline = None
                    return word
                if match := re.search(PANIC, line):
                    raise console.failure(f'the kernel panicked: {shown(match[0])}',
                                          'give it more --memory' if b'on memory' in match[0] else
                                          'is it a kernel for this machine?')
                for pattern, phase in PHASES:
                    if re.search(pattern, line):
                        step.detail = f'({phase})'
        except TimeoutError:
            raise console.failure(f'no user space after {opt.timeout:.0f} s',
                                  'look at the console lines above, or give a longer --timeout')
        why = messages.reason()
        raise console.failure(f'QEMU ended before the guest was up{why and ": "}{why}',
                              'check the options, and see the console lines above')


def shell(opt):
    """Boot to an interactive console on this terminal."""
    ui.say(f'booting the {opt.arch} guest; Ctrl-A X ends QEMU, Ctrl-A C is its monitor')
    with started(opt, interactive=True) as (child, messages, log, given):
        messages.release()
        while (status := child.poll()) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
            given.check(child)
        if sys.stdout.isatty():
            print(WRAP, end='', flush=True)
        complete = given.collect()              # whatever QEMU's status
        return ui.exit_status('QEMU', status, log.name) or int(not complete)


def cmd_boot(opt):
    if opt.junit and not opt.run:
        opt.error('--junit needs --run')
    if opt.shell and opt.run:
        opt.error('--shell goes without --run, whose script is all that is run')
    if opt.repeatable and opt.arch == 'power':
        opt.error("--repeatable is for arm and x86: powernv's BMC tells the host's time")
    if opt.acpi and opt.arch != 'arm':
        opt.error(f'--acpi is for arm; the {opt.arch} guest boots with its own firmware')
    if opt.snapshot and (opt.arch == 'power' or opt.shares or opt.ssh or opt.gdb or opt.acpi
                         or opt.repeatable or not opt.run):
        opt.error('--snapshot needs --run, is for arm and x86, and goes without --share, --ssh, '
                  '--gdb, --acpi and --repeatable')
    if opt.symbols and (opt.kernel or not opt.gdb):
        opt.error("--symbols needs --gdb, and is for Debian's kernels: it goes without --kernel")
    kernels.check_options(opt)
    ui.check_output(opt.junit)
    if not opt.run and not opt.shell and not sys.stdin.isatty():
        opt.error('no terminal for a shell; use --run SCRIPT')
    if opt.run:
        guest.check_script(opt.run, kernels.ARCHES[opt.arch],
                           bare=not (opt.packages or opt.files or opt.shares))
    if opt.snapshot and os.path.getsize(opt.run) > 256 << 10:      # it would be typed for minutes
        raise ui.Fail(f'--run {opt.run}: --snapshot types a script of at most 256 KB',
                      'give the rest with --initrd-add')
    graph('stock' if opt.stock else 'qemu', f'guest-{opt.arch}')
    if not opt.run:
        return shell(opt)
    return as_junit(opt) if opt.junit else run(opt)


def as_junit(opt):
    """Run a guest's script, and write the results of tests that it prints as JUnit."""
    lines, name = Seen(), os.path.basename(opt.run)
    end = junit.Case('exit status', 'failed', 'the guest did not come to its end')
    try:
        status = run(opt, lines)
        end = junit.Case(end.name, 'failed' if status else 'passed', str(status))
    finally:
        junit.write(opt.junit, {name: [*junit.read(lines), end]})
    return status
