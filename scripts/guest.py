# SPDX-License-Identifier: GPL-2.0-or-later
"""Build BUILD/guest/ARCH/{kernel,initrd} from Debian packages and guest/.

The kernel is the package's file, byte for byte.  The RAM disk holds busybox,
perf with its libraries, guest/init, and the C programs of guest/ARCH.  Further
packages and files of the user are archives of their own behind it: the kernel
unpacks them in turn, and what comes last stays.
"""

import gzip
import hashlib
import os
import pathlib
import re
import shlex
import stat
from dataclasses import dataclass

import debian
import kernels
import ui
from cpio import Cpio

SOURCES = ui.ROOT / 'guest'
SUITE = 'trixie'        # the guests' Debian release
RUN = '/pmu/run'        # what guest/init runs


@dataclass(frozen=True)
class Arch:
    name: str           # on our command line
    debian: str         # Debian's name
    kernel: str         # meta package of the kernel
    triplet: str        # cross compiler prefix
    magic: tuple        # (pattern, name): how to recognise a kernel image
    most: int = 0       # bytes of a RAM disk that QEMU loads; 0: any number


ARCHES = {a.name: a for a in (
    Arch('arm', 'arm64', 'linux-image-cloud-arm64', 'aarch64-linux-gnu',
         ((rb'.{56}ARM\x64', 'arm64 Image'), (rb'MZ..zimg', 'EFI zboot image'))),
    Arch('power', 'ppc64el', 'linux-image-powerpc64le', 'powerpc64le-linux-gnu',
         ((rb'\x7fELF\x02\x01.{12}\x15\0', 'little-endian ppc64 ELF'),),
         most=128 << 20),
    Arch('x86', 'amd64', 'linux-image-cloud-amd64', 'x86_64-linux-gnu',
         ((rb'.{514}HdrS', 'bzImage'),)),
)}


def elf_needs(path):
    """(interpreter, needed libraries) of an ELF file of any architecture."""
    out = ui.output(['readelf', '-dlW', path], env=dict(os.environ, LC_ALL='C'))
    interpreter = re.search(r'program interpreter: (\S+)\]', out)
    return (interpreter[1] if interpreter else None,
            re.findall(r'\(NEEDED\).*\[(.+)\]', out))


def add_program(archive, root, name):
    """Add one program of an unpacked tree, and every library that it needs."""
    libraries = {path.name: path.resolve() for path in root.rglob('*.so*') if path.is_file()}
    archive.add(f'/usr/bin/{name}', (root / 'usr/bin' / name).read_bytes(), 0o755)
    interpreter, todo = elf_needs(root / 'usr/bin' / name)
    done = set()
    if interpreter:
        todo.append(os.path.basename(interpreter))
        if os.path.dirname(interpreter) != '/lib':      # which is where it is
            archive.link(interpreter, f'/usr/lib/{os.path.basename(interpreter)}')
    while todo:
        soname = todo.pop()
        if soname in done:
            continue
        done.add(soname)
        if soname not in libraries:
            raise ui.Fail(f'{name} needs {soname}, which no fetched package has')
        archive.add(f'/usr/lib/{soname}', libraries[soname].read_bytes(), 0o755)
        todo += elf_needs(libraries[soname])[1]


def sources(arch):
    """{program: [its .c files]}: guest/ARCH/NAME.c, or all of guest/ARCH/NAME/."""
    top = SOURCES / arch.name
    found = {f.stem: [f] for f in top.glob('*.c')}
    found.update({d.name: sorted(d.glob('*.c')) for d in top.glob('*/') if any(d.glob('*.c'))})
    return dict(sorted(found.items()))


def programs(arch):
    """Compile guest/ARCH into static programs; yields (name, file)."""
    where = ui.BUILD / 'guest' / arch.name / 'bin'
    where.mkdir(parents=True, exist_ok=True)
    for name, files in sources(arch).items():
        ui.run([f'{arch.triplet}-gcc', '-std=gnu11', '-O2', '-g', '-static', '-Wall', '-Wextra',
                '-Werror', '-o', where / name, *files], f'{name}.log',
               f'compiling {ui.show(files[0].parent)}', 'mend it and run it again')
        yield name, where / name


def stamp(arch):
    digest = hashlib.sha256(arch.kernel.encode())
    for path in [SOURCES / 'init', *sorted(SOURCES.glob('*.h')),
                 *sorted((SOURCES / arch.name).glob('**/*.[ch]')), pathlib.Path(__file__)]:
        digest.update(f'\0{path.name}\0'.encode() + path.read_bytes())
    return digest.hexdigest()


def fetch(arch, folder):
    """Fetch the kernel and user space; the unpacked tree stays in folder/root."""
    kernels.fetch(arch, folder, SUITE)
    if (folder / 'root').is_dir():
        return
    apt = debian.Apt(SUITE, arch.debian)
    keep = [p for p in apt.closure('linux-perf', 'libc6')
            if re.match(r'lib|zlib', p) and not re.search(r'-(stdlib|minimal|common)$', p)]
    debs = apt.fetch('busybox-static', 'linux-perf', *keep, what=f'user space of {arch.debian}')
    with ui.Step(f'unpack the {arch.name} guest'):
        debian.unpacked(debs, folder / 'root.part').rename(folder / 'root')


def build(name):
    """Bring the guest of an architecture up to date; returns (kernel, initrd)."""
    arch, folder = ARCHES[name], ui.BUILD / 'guest' / name
    folder.mkdir(parents=True, exist_ok=True)
    with ui.lock(folder / 'lock', f'the {name} guest'):
        mark, now = folder / 'stamp', stamp(arch)
        if not (mark.exists() and mark.read_text() == now
                and (folder / 'kernel').is_file() and (folder / 'initrd').is_file()):
            fetch(arch, folder)
            with ui.Step(f'build the {name} guest'):
                archive, root = Cpio(), folder / 'root'
                archive.merge()
                for sub in ('proc', 'sys', 'dev', 'tmp', 'root', 'etc'):
                    archive.folder(sub)
                archive.device('dev/console', 5, 1)
                archive.device('dev/null', 1, 3)
                archive.add('bin/busybox', (root / 'usr/bin/busybox').read_bytes(), 0o755)
                archive.add('init', (SOURCES / 'init').read_bytes(), 0o755)
                add_program(archive, root, 'perf')
                for program, path in programs(arch):
                    archive.add(f'usr/bin/{program}', path.read_bytes(), 0o755)
                ui.write(folder / 'initrd', aligned(archive.bytes()))
            ui.write(mark, now)
    return folder / 'kernel', folder / 'initrd'


def aligned(data):
    """The kernel takes a second archive only at a multiple of 4."""
    return data + bytes(-len(data) % 4)


def ram_disk(name, archives):
    """The archives as one RAM disk. A guest needs seconds to unpack the first one, so that it is
    compressed only if QEMU would not load all of them otherwise.
    """
    most = ARCHES[name].most
    if most and sum(map(len, archives)) > most:
        archives = [aligned(gzip.compress(archives[0], 1, mtime=0)), *archives[1:]]
    return b''.join(archives)


def packages_file(name, wanted):
    """Where packages() puts its archive."""
    digest = hashlib.sha256('\0'.join(sorted(set(wanted))).encode())
    digest.update(pathlib.Path(__file__).read_bytes())
    return ui.BUILD / 'guest' / name / f'with-{digest.hexdigest()[:16]}'


def packages(name, wanted):
    """An archive of Debian packages, and of what they depend on, for `--with`; its file.

    It is not compressed: loading it takes less time than unpacking it in a guest would.
    """
    path, apt = packages_file(name, wanted), debian.Apt(SUITE, ARCHES[name].debian)
    path.parent.mkdir(parents=True, exist_ok=True)
    with ui.lock(path.with_name('lock'), f'the {name} guest'):
        if not path.exists():
            debs = apt.fetch(*apt.closure(*wanted), what=f'{", ".join(wanted)} ({apt.arch})')
            with ui.Step(f'unpack {", ".join(wanted)}'), ui.scratch('with-') as scratch:
                archive = Cpio()
                archive.tree(debian.unpacked(debs, scratch / 'root'))
                ui.write(path, archive.bytes())
    return path


def check_script(path):
    """Refuse a --run file that the guest's kernel could not execute."""
    if not os.path.isfile(path):
        raise ui.Fail(f'--run {path}: no such file')
    with open(path, 'rb') as handle:
        first = handle.readline(4096)
    if first[:2] not in (b'#!', b'\x7fE'):
        raise ui.Fail(f'--run {path} does not start with "#!"', 'begin it with #!/bin/sh')
    if first[:2] == b'#!' and first.endswith(b'\r\n'):
        raise ui.Fail(f'--run {path} has the line ends of Windows',
                      f"remove them: sed -i 's/\\r$//' {shlex.quote(str(path))}")


def extra_archive(files):
    """A further archive for `--initrd-add` and `--run`: {guest path: host file or folder}."""
    archive = Cpio()
    for target, source in files.items():
        source = pathlib.Path(source)
        if source.is_dir():
            archive.tree(source, target.strip('/'))
            continue
        mode = 0o755 if target == RUN else stat.S_IMODE(source.stat().st_mode) | 0o444
        archive.add(target, source.read_bytes(), mode)
    return archive.bytes()
