# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules, shared folders, files out, network and debugger of one boot.

guest/init runs /pmu/setup before the user's script, and /pmu/finish after it.
"""

import contextlib
import os
import pathlib
import shlex
import socket
import subprocess
import time

import debian
import guest
import kernels
import ui

PORT = 'pmu-get'        # the virtio port through which files come out
REPEATABLE = ['-icount', 'shift=1,sleep=off', '-seed', '1', '-rtc', 'base=2026-01-01,clock=vm']


def free_port(other=None):
    """A port that nobody has, and not `other`, which QEMU does not have yet."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    return free_port(other) if port == other else port


def virtiofsd():
    """Debian 13's server of shared folders, with its libraries; the program."""
    apt, program = debian.Apt(guest.SUITE, 'amd64'), 'usr/libexec/virtiofsd'
    return debian.once(ui.BUILD / 'virtiofsd', 'virtiofsd', lambda: apt.fetch(*(
        p for p in apt.closure('virtiofsd') if p.startswith(('lib', 'virtiofsd'))),
        what='virtiofsd'), lambda folder: debian.own_libc(folder, program)) / program


def ssh_key():
    """A key of ours, for our guests only."""
    key = ui.BUILD / 'guest' / 'ssh-key'
    public = key.with_suffix('.pub')        # which ssh-keygen writes last
    with ui.lock(key.with_suffix('.lock'), 'making a key'):
        if not public.exists() or not public.stat().st_size:
            key.unlink(missing_ok=True)
            public.unlink(missing_ok=True)
            ui.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'qemu-pmu', '-f', key])
    return key


class Exchange:
    """For one boot: options of QEMU, files of the guest, and programs of the host."""

    def __init__(self, opt, kernel, scratch):
        self.opt, self.scratch = opt, pathlib.Path(scratch)
        self.args, self.files, self.machine = [], {}, ''
        self.setup, self.slots = [], 0
        self.fds = []           # files that QEMU inherits
        self.servers = []       # of shared folders: (folder of the host, process, log)
        self.kept = None        # the Snapshot, if there is to be one
        self.ssh_port = None
        self.modules = kernels.Modules(kernel, guest.ARCHES[opt.arch])
        for name in opt.modprobe:
            self.modules.add(name)
        for path, arguments in opt.modules:
            self.modules.add_file(path, arguments)
        if opt.gets:
            self._get()
        if opt.shares:
            self._share()
        if opt.net or opt.ssh:
            self._net(kernel)
        if opt.gdb:
            self._gdb(kernel)
        if opt.repeatable:
            self.args += REPEATABLE
        load = []
        for name, (data, arguments, required) in self.modules.order.items():
            self.put(f'/pmu/modules/{name}.ko', data)
            words = ['insmod', f'/pmu/modules/{name}.ko', arguments]    # the kernel splits those
            load.append(shlex.join(filter(None, words))
                        + (' || { dmesg | tail -n 1; exit 1; }\n' if required
                           else ' 2> /dev/null\n'))
        if load or self.setup:
            self.put('/pmu/setup', os.fsencode(''.join(load + self.setup)))

    def put(self, target, data):
        """A file of the guest."""
        path = self.scratch / f'file{len(self.files)}'
        path.write_bytes(data)
        self.files[target] = path

    def device(self, name, driver):
        """Add a PCI device, and the guest's driver; on powernv each has a bus of its own."""
        for module_name in driver, 'virtio_pci':
            self.modules.add(module_name, required=False)
        if self.opt.arch == 'power':
            name += f',bus=pcie.{self.slots}'
        self.slots += 1
        self.args += ['-device', name]

    def _get(self):
        self.device('virtio-serial-pci,id=pmu-serial', 'virtio_console')
        self.args += ['-chardev', f'file,id={PORT},path={self.scratch}/get.tar',
                      '-device', f'virtserialport,bus=pmu-serial.0,chardev={PORT},name={PORT}']
        self.files['/pmu/get'] = guest.SOURCES / 'get.sh'
        paths = [path.lstrip('/') for path in self.opt.gets]
        self.put('/pmu/finish', os.fsencode(shlex.join(['sh', '/pmu/get', PORT, *paths])))

    def _share(self):
        # virtiofs passes flags of open() on as numbers, and POWER's O_LARGEFILE is O_DIRECTORY
        # on other hosts. 9p has numbers of its own.
        if self.opt.arch == 'power':
            self.modules.add('9p', required=False)
            how = '9p -o trans=virtio,version=9p2000.L'
        else:
            self.fds.append(os.open(self.scratch, os.O_PATH))
            self.machine = ',memory-backend=pmu-ram'
            size = self.opt.memory.partition(',')[0].removeprefix('size=')
            size += 'M' * size.isdecimal()          # as -m takes it; here it would be bytes
            self.args += ['-object', f'memory-backend-memfd,id=pmu-ram,share=on,size={size}']
            how = 'virtiofs'
        for n, (target, source) in enumerate(self.opt.shares.items()):
            if self.fds:
                self.args += ['-chardev', f'socket,id=share{n},path={self.socket_path(n)}']
                self.device(f'vhost-user-fs-pci,chardev=share{n},tag=share{n}', 'virtiofs')
            else:
                self.args += ['-fsdev', f'local,id=share{n},security_model=none,path='
                              + source.replace(',', ',,')]
                self.device(f'virtio-9p-pci,fsdev=share{n},mount_tag=share{n}', '9pnet_virtio')
            at = shlex.quote(target)
            self.setup.append(f'mkdir -p {at} && mount -t {how} share{n} {at} || exit 1\n')

    def socket_path(self, n):
        """A virtiofsd's, for those who inherit the folder: paths of sockets must be short."""
        return f'/proc/self/fd/{self.fds[0]}/share{n}'

    def _net(self, kernel):
        forward, top = '', str(kernels.tree(kernel, self.modules.arch))
        self.files['/pmu/net'] = guest.SOURCES / 'net.sh'
        self.setup.append(f'sh /pmu/net {shlex.quote(top)} {"ssh" * self.opt.ssh} || exit 1\n')
        if self.opt.ssh:
            self.ssh_port = port = free_port()
            key, forward = ssh_key(), f',hostfwd=tcp:127.0.0.1:{port}-:22'
            self.files['/root/.ssh/authorized_keys'] = key.with_name('ssh-key.pub')
            ui.say(f'ssh -p {port} -i {shlex.quote(ui.show(key))} -o StrictHostKeyChecking=no '
                   '-o UserKnownHostsFile=/dev/null root@127.0.0.1')
        self.args += ['-netdev', f'user,id=net{forward}']
        self.device('virtio-net-pci,netdev=net,romfile=', 'virtio_net')

    def _gdb(self, kernel):
        vmlinux = kernels.symbols(kernel, self.modules.arch) if self.opt.symbols else None
        port = free_port(self.ssh_port)
        self.args += ['-gdb', f'tcp:127.0.0.1:{port}']
        if vmlinux:
            gdb = 'gdb' if self.opt.arch == 'x86' else 'gdb-multiarch'
            ui.say(f"{gdb} {shlex.quote(ui.show(vmlinux))} -ex 'target remote 127.0.0.1:{port}'")
        else:
            ui.say(f'gdb: target remote 127.0.0.1:{port}')

    @contextlib.contextmanager
    def running(self):
        """The servers of shared folders, for as long as QEMU runs."""
        with contextlib.ExitStack() as stack:
            for fd in self.fds:
                stack.callback(os.close, fd)
            for n, source in enumerate(self.opt.shares.values() if self.fds else ()):
                log = stack.enter_context(
                    open(ui.LOGS / f'virtiofsd-{self.opt.guest}-{n}.log', 'w'))
                child = ui.start(
                    stack, ['setpriv', '--pdeathsig', 'TERM', virtiofsd(), '--socket-path',
                            self.socket_path(n), '--shared-dir', source, '--sandbox', 'none'],
                    ui.stop, pass_fds=self.fds, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True)
                self.servers.append((source, child, log.name))
                deadline = time.monotonic() + 30
                while not os.path.exists(self.socket_path(n)):
                    if child.poll() is not None or time.monotonic() > deadline:
                        raise ui.Fail(f'sharing {source} failed', log=ui.LOGS / log.name)
                    time.sleep(0.02)
            yield

    def check(self, qemu):
        """Raise an error if QEMU can only wait for ever: for a server that has ended, or for room."""
        for source, server, log in self.servers:
            if server.poll() is not None:
                try:
                    qemu.wait(5)            # at whose end servers end, too
                except subprocess.TimeoutExpired:
                    raise ui.Fail(f'the server of the shared folder {source} has ended (status '
                                  f'{server.returncode})', log=log) from None
        if self.opt.gets:           # OSError on a full disk
            room = self.scratch / 'room'
            room.write_bytes(bytes(1 << 16))
            room.unlink()

    def collect(self):
        """Copy what came out to where the user wants it; True if all is there."""
        problem = None
        for problem in self._collect() if self.opt.gets else ():
            ui.say(f'--get{problem}')
        return problem is None

    def _collect(self):
        """Yield what goes wrong: none of it may hide the script's own status."""
        archive, out = self.scratch / 'get.tar', self.scratch / 'get'
        out.mkdir()
        if archive.stat().st_size:
            try:
                ui.run(['tar', '-x', '--no-same-owner', '-C', out, '-f', archive], 'get-tar.log')
            except ui.Fail as fail:
                yield f': {fail}'
        for path, local in self.opt.gets.items():
            source = out / path.lstrip('/')
            # A link on the way can lead to the host's files.
            ours = source.parent.resolve().is_relative_to(out.resolve())
            if not ours or not os.path.lexists(source):
                yield f' {path}: the guest has no such file'
            elif not (source.is_symlink() or source.is_file() or source.is_dir()):
                yield f' {path}: it is no file, folder or link'
            elif os.path.islink(local):
                yield (f' {path}: {local} is a link, perhaps from a guest, and not followed; '
                       'give what it leads to')
            else:
                inside = '/' * (source.is_dir() and not source.is_symlink())
                # Content is added to a folder of the user's, which stays as it is.
                how = '-rltIOE' if inside and os.path.isdir(local) else '-rlptI'
                # -I: files may be of the same time, with --repeatable. Paths are absolute: rsync
                # takes a name with a colon for one of another host.
                try:
                    ui.run(['rsync', how, '--chmod=u-s,g-s', f'{source}{inside}', local],
                           'get.log')
                except ui.Fail as fail:
                    yield f' {path}: {fail}'
