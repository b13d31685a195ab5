# SPDX-License-Identifier: GPL-2.0-or-later
"""Find a kernel image by release and flavour, or in a tree of the user's, and its modules."""

import functools
import pathlib
import re
import subprocess
from dataclasses import dataclass

import debian
import ui

# Where a built or an installed tree can have its image, in the order of preference
IMAGES = {'arm64': ('arch/arm64/boot/Image', 'arch/arm64/boot/Image.gz', 'Image', 'Image.gz'),
          'amd64': ('arch/x86/boot/bzImage', 'bzImage'),
          'ppc64el': ('vmlinux',)}
SUITE = 'trixie'    # the guests' Debian release
VMLINUX = 1000      # MB of a vmlinux with symbols, at most
# XEN_ELFNOTE_PHYS32_ENTRY, by which QEMU finds where to start an ELF kernel for x86 (CONFIG_PVH)
PVH = re.compile(rb'\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0')
ORIGIN = 'kernel.from'      # beside a kernel of Debian: suite, release, version, package of modules


@dataclass(frozen=True)
class Arch:
    name: str           # on our command line
    debian: str         # Debian's name
    kbuild: str         # the kernel's name
    kernel: str         # meta package of the kernel
    triplet: str        # cross compiler prefix
    magic: tuple        # (pattern, name): how to recognise a kernel image
    machines: tuple = ()    # of ELF programs that it executes: e_machine
    most: int = 0       # bytes of a RAM disk that QEMU loads; 0: any number


ARCHES = {a.name: a for a in (
    Arch('arm', 'arm64', 'arm64', 'linux-image-cloud-arm64', 'aarch64-linux-gnu',
         ((rb'.{56}ARM\x64', 'arm64 Image'), (rb'MZ..zimg', 'EFI zboot image')), (183, 40)),
    Arch('power', 'ppc64el', 'powerpc', 'linux-image-powerpc64le', 'powerpc64le-linux-gnu',
         ((rb'\x7fELF\x02\x01.{12}\x15\0', 'little-endian ppc64 ELF'),), (21,), most=128 << 20),
    Arch('x86', 'amd64', 'x86', 'linux-image-cloud-amd64', 'x86_64-linux-gnu',
         ((rb'.{514}HdrS', 'bzImage'), (rb'\x7fELF\x02\x01.{12}\x3e\0', 'x86-64 ELF')), (62, 3)),
)}


@dataclass(frozen=True)
class Kernel:
    image: pathlib.Path
    folder: pathlib.Path    # of Debian's kernel, and of what is made for it; or the user's tree

    def origin(self):
        """(suite, release, version, package that has the modules); None if it is not Debian's."""
        path = self.folder / ORIGIN
        return path.read_text().split() if path.is_file() else None

    def apt(self, arch):
        """The archive that this kernel of Debian is of, for its other packages."""
        return debian.Apt(self.origin()[0], arch.debian, lacking='if the archive has a newer '
                          f'kernel by now, remove {ui.show(self.folder)}, which fetches that')


def folder(name, release='', flavour=''):
    """Where a guest's kernel and what belongs to it are."""
    part = '-'.join(p for p in (release or SUITE, flavour) if p)
    return ui.BUILD / 'guest' / name / ('' if part == SUITE else part)


def unpacked(path):
    """A file's bytes, without the compression that it may have; none if it is damaged."""
    done = subprocess.run(['zstd', '-dcqf', path.absolute()], capture_output=True)
    return b'' if done.returncode else done.stdout


def check(path, arch):
    """Refuse a file that cannot be a kernel of this architecture."""
    if not path.is_file():
        raise ui.Fail(f'--kernel {path}: {"not a" if path.exists() else "no such"} file')
    with open(path, 'rb') as handle:
        head = handle.read(0x400)
    if arch.name == 'arm' and head[:2] == b'\x1f\x8b':      # QEMU unpacks it
        head = unpacked(path)[:0x400]
    if not any(re.match(pattern, head, re.DOTALL) for pattern, _ in arch.magic):
        kinds = ' or '.join(name for _, name in arch.magic)
        raise ui.Fail(f'--kernel {path} is not a kernel for {arch.debian} (no {kinds} header)',
                      f'give the vmlinuz or vmlinux file of a kernel for {arch.debian}')
    return path


def own(path, arch):
    """The kernel of a file, or of a tree: one that was built, or has /boot and /lib/modules."""
    path = pathlib.Path(path)
    if not path.is_dir():
        return Kernel(check(path, arch), path.parent / f'{path.name}.modules')
    found = [p for name in IMAGES[arch.debian] if (p := path / name).is_file()]
    found += sorted(path.glob('boot/vmlinu[xz]*'))
    if not found:
        raise ui.Fail(f'--kernel {path}: no {" or ".join(IMAGES[arch.debian])} in this folder, '
                      'and no boot/vmlinuz-*', 'build the kernel, or give its file')
    return Kernel(check(found[0], arch), path)


def meta(apt, arch, flavour):
    """Debian's meta package of a flavour: "cloud", "rt", "64k"; "generic" is the one without."""
    base = arch.kernel.removeprefix('linux-image-').removeprefix('cloud-')
    flavours = {match[1] or match[2] or 'generic': name for name in apt.names('linux-image-')
                if (match := re.fullmatch(f'linux-image-(?:([a-z]+)-)?{base}(?:-(\\d+k))?', name))}
    found = flavours.get(flavour) if flavour else arch.kernel
    if found not in flavours.values():
        have = ', '.join(sorted(flavours))
        raise ui.Fail(f'Debian {apt.suite} ({apt.arch}) has no kernel'
                      + (f' of the flavour {flavour}' if flavour else ''),
                      f'it has {have}' if have else 'give the name of another release')
    return found


def extract(deb, pattern, target):
    """Take the kernel out of a package: the first file whose path matches the pattern."""
    with ui.scratch('kernel-') as scratch:
        ui.run(['sh', '-c', 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards '
                '--occurrence "$3"', 'sh', deb, scratch, pattern], what=f'unpacking {deb.name}')
        [image] = (p for p in scratch.rglob('vmlinu*') if p.is_file())
        image.replace(target)


def unwrapped(kernel):
    """The ELF kernel that a bzImage of Debian's has inside; the bzImage, if QEMU cannot start that.

    The kernel's own decompressor, which is emulated, is a quarter of the time that a boot takes.
    """
    elf = kernel.folder / f'kernel-{kernel.origin()[2]}.elf'
    if elf.is_file():
        return elf
    data = kernel.image.read_bytes()
    # Linux, arch/x86/boot.rst: setup_sects, payload_offset, payload_length. The payload ends with
    # four bytes that are not of the compressed stream.
    setup, offset, length = (int.from_bytes(data[at:at + size], 'little')
                             for at, size in ((0x1f1, 1), (0x248, 4), (0x24c, 4)))
    start = (setup + 1) * 512 + offset
    done = subprocess.run(['zstd', '-dcq'], input=data[start:start + length - 4],
                          capture_output=True)
    if done.returncode or not PVH.search(done.stdout):
        return kernel.image
    for old in kernel.folder.glob('kernel-*.elf'):
        old.unlink()
    ui.write(elf, done.stdout)
    return elf


def fetch(arch, kernel, suite, flavour):
    """Newer packages leave image and modules to two others, on which they depend."""
    apt = debian.Apt(suite, arch.debian)

    def package():
        name = apt.dependencies(meta(apt, arch, flavour), r'linux-image-\d.*')[0]
        binary = name.replace('linux-image', 'linux-binary')
        return [binary if binary in apt.names(binary) else name]

    [deb] = apt.fetch(package, what=f'kernel of {arch.debian} in Debian {suite}')
    name, version, _ = deb.name.split('_')
    release = re.sub(r'^linux-(image|binary)-', '', name)
    with ui.Step(f'unpack the kernel of Debian {suite}'):
        kernel.folder.mkdir(parents=True, exist_ok=True)
        # boot/vmlinu*-RELEASE or usr/lib/modules/RELEASE/vmlinuz
        extract(deb, '*/vmlinu[xz]*', kernel.image)
    modules = name.replace('linux-binary', 'linux-modules')
    ui.write(kernel.folder / ORIGIN, ' '.join((suite, release, version, modules)) + '\n')


def debian_kernel(name, release='', flavour=''):
    """The kernel of a suite of the archive and a flavour, for a guest."""
    where = folder(name, release, flavour)
    kernel = Kernel(where / 'kernel', where)
    with ui.lock(ui.BUILD / 'guest' / name / 'kernel.lock', f'the {name} kernel'):
        if not kernel.image.is_file() or not kernel.origin():
            fetch(ARCHES[name], kernel, release or SUITE, flavour)
        return Kernel(unwrapped(kernel), where) if name == 'x86' else kernel


def check_options(opt):
    """Refuse what cannot name a kernel, before anything is built."""
    if opt.kernel and (opt.release or opt.kernel_flavour):
        opt.error('--kernel goes without --release and --kernel-flavour, which name a kernel of '
                  "Debian's")
    if opt.kernel:
        own(opt.kernel, ARCHES[opt.arch])


def wanted(opt):
    """The kernel that these options ask for; Debian's is fetched."""
    if opt.kernel:
        return own(opt.kernel, ARCHES[opt.arch])
    return debian_kernel(opt.arch, opt.release, opt.kernel_flavour)


def symbols(kernel, arch):
    """The vmlinux with debug symbols of the very kernel of Debian that boots, for gdb."""
    _, release, version, _ = kernel.origin()
    path = kernel.folder / f'vmlinux-{version}'
    with ui.lock(kernel.folder / 'symbols.lock', f'symbols of the {arch.name} kernel'):
        if not path.is_file():
            ui.need_room(kernel.folder, VMLINUX)
            [deb] = kernel.apt(arch).fetch_version(
                version, f'linux-image-{release}-dbg', what=f'symbols of kernel {release}')
            with ui.Step(f'unpack the symbols of kernel {release}'):
                extract(deb, '*/boot/vmlinux-*', path)
    return path


# -- modules ----------------------------------------------------------------

def tree(kernel, arch):
    """The folder below which a kernel's modules are; fetches the package of Debian's."""
    if not kernel.origin():
        return kernel.folder
    _, release, version, package = kernel.origin()
    what = f'modules of kernel {release}'
    return debian.once(kernel.folder / f'tree-{release}', what, lambda: kernel.apt(
        arch).fetch_version(version, package, what=what))


def module_name(path):
    return pathlib.Path(path).name.partition('.ko')[0].replace('-', '_')


def module_info(data, key):
    """What a module says about itself: "depends", "vermagic"."""
    found = re.search(rb'(?<!\w)' + key.encode() + rb'=([^\0]*)\0', data)
    return found[1].decode(errors='replace') if found else ''


class Modules:
    """Modules in the order in which they must be loaded."""

    def __init__(self, kernel, arch):
        self.kernel, self.arch = kernel, arch
        self.order = {}         # name: (bytes, arguments, whether it must be loaded)

    @functools.cached_property
    def known(self):
        top = tree(self.kernel, self.arch)
        with ui.Step(f'look for modules below {ui.show(top)}'):
            return {module_name(p): p for p in top.rglob('*.ko*')
                    if re.search(r'\.ko(\.\w+)?$', p.name)}

    @functools.cached_property
    def builtin(self):
        return {module_name(line)
                for path in tree(self.kernel, self.arch).rglob('modules.builtin')
                for line in path.read_text(errors='replace').splitlines()}

    def add(self, name, required=True):
        """A module of the kernel's own, by name."""
        name = name.replace('-', '_')
        if name in self.order:
            data, arguments, already = self.order[name]
            self.order[name] = data, arguments, already or required
        elif name in self.known:      # guests need no decompressor
            self._load(name, unpacked(self.known[name]), '', required)
        elif required and name not in self.builtin:
            raise ui.Fail(f'this kernel has no module {name}', f'its modules are below '
                          f'{ui.show(tree(self.kernel, self.arch))}')

    def add_file(self, path, arguments=''):
        """A module of the user's."""
        data = pathlib.Path(path).read_bytes()
        if not module_info(data, 'vermagic'):
            raise ui.Fail(f'--module {path} is no kernel module (it has no vermagic)')
        magic, origin = module_info(data, 'vermagic').split(' ')[0], self.kernel.origin()
        if origin and magic != origin[1]:
            raise ui.Fail(f'{path} is for the kernel {magic}, and this guest boots {origin[1]}',
                          f'build it with ./pmu module {self.arch.name}, and the same --release '
                          'and --kernel-flavour')
        self._load(module_name(path), data, arguments)

    def _load(self, name, data, arguments, required=True):
        new = name not in self.order
        self.order[name] = data, arguments, required        # already: modules may want each other
        for other in filter(None, module_info(data, 'depends').split(',')):
            self.add(other)
        # A cipher, for one, is found by the kernel only if it is there: "pre: crc32c" is for
        # crc32c_generic and crc32c_vpmsum, of which a CPU may not have the latter.
        soft = re.search(r'pre: ([^:]*)( post:|$)', module_info(data, 'softdep'))
        for other in soft[1].split() if soft else ():
            for found in sorted(self.known):
                if (found + '_').startswith(other.replace('-', '_') + '_'):
                    self.add(found, required=False)
        if new:
            self.order[name] = self.order.pop(name)         # after what it needs
