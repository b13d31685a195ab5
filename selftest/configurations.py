# Build the series as others configure QEMU: configurations.py [--objects] NAME...
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the custom QEMU in other configurations (BUILD/NAME/build), for developers.

QEMU_PMU_KIND=NAME lets selftest/qtest.py, and so `./pmu test --no-rebuild`, use one of them.
Cross builds take libraries of the host's Debian release for the other architecture, and unpack
them in BUILD/sysroot.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import debian           # noqa: E402
import qemu             # noqa: E402
import tree             # noqa: E402
import ui               # noqa: E402
from qemu import OPTIONS, Kind      # noqa: E402

LIBRARIES = ('libglib2.0-dev', 'libfdt-dev', 'libpixman-1-dev', 'libslirp-dev', 'libattr1-dev',
             'zlib1g-dev')


def cross(arch, name, *options, **more):
    """The Kind of a build for a host of another architecture: Debian's name, and GCC's."""
    root = ui.BUILD / 'sysroot' / arch
    folders = [f'{root}{top}/lib/{name.replace("i686", "i386")}' for top in ('/usr', '')]
    pkg_config = {'PKG_CONFIG': 'pkg-config', 'PKG_CONFIG_SYSROOT_DIR': str(root),
                  'PKG_CONFIG_LIBDIR': f'{folders[0]}/pkgconfig:{root}/usr/share/pkgconfig'}
    return Kind((*OPTIONS, f'--cross-prefix={name}-',
                 f'--extra-cflags=-idirafter {root}/usr/include',
                 '--extra-ldflags=' + ' '.join(f'-L{f} -Wl,-rpath-link,{f}' for f in folders),
                 *options), compiler=f'{name}-gcc', env=pkg_config, **more)


# All treat warnings as errors, as each build of a git tree does.
CONFIGURATIONS = {
    'default': Kind((OPTIONS[0], '--disable-download', '--disable-install-blobs',
                     '--enable-docs'), ()),
    'no-tcg': Kind((*OPTIONS, '--disable-tcg'), ('x86_64', 'i386')),
    'debug-tcg': Kind((*OPTIONS, '--enable-debug-tcg')),
    'with-plugins': Kind((*OPTIONS, '--enable-plugins'), ('x86_64',)),
    'clang-asan': Kind((*OPTIONS, '--cxx=clang++', '--enable-asan', '--enable-ubsan'),
                       compiler='clang'),
    'clang-tsan': Kind((*OPTIONS, '--cxx=clang++', '--enable-tsan',
                        '--extra-cflags=-O1'), compiler='clang'),
    # QEMU does not emulate 64-bit guests there
    '32-bit': cross('i386', 'i686-linux-gnu', '--cpu=i386', '--disable-kvm',
                    targets=('arm', 'ppc', 'i386')),
    'arm64': cross('arm64', 'aarch64-linux-gnu'),
    'arm64-no-tcg': cross('arm64', 'aarch64-linux-gnu', '--disable-tcg', targets=('aarch64',)),
    's390x': cross('s390x', 's390x-linux-gnu'),         # big-endian
}
CROSS = {'32-bit': 'i386', 'arm64': 'arm64', 'arm64-no-tcg': 'arm64', 's390x': 's390x'}
PACKAGES = {'default': 'python3-sphinx python3-sphinx-rtd-theme', 'clang-asan': 'clang g++',
            'clang-tsan': 'clang g++', '32-bit': 'gcc-i686-linux-gnu libc6-dev-i386-cross',
            's390x': 'gcc-s390x-linux-gnu libc6-dev-s390x-cross'}


def fetch_libraries(arch):
    where = ui.BUILD / 'sysroot' / arch
    if (where / '.complete').exists():
        return
    release = re.search('VERSION_CODENAME=(.*)', pathlib.Path('/etc/os-release').read_text())[1]
    apt = debian.Apt(release, arch)
    debs = apt.fetch(*apt.closure(*LIBRARIES), what=f'libraries for {arch}')
    # The cross compiler has a libc6-dev of its own.
    debian.unpacked([deb for deb in debs if not deb.name.startswith('libc6-dev')], where)
    (where / '.complete').touch()


def our_objects(name):
    """Those that the build needs: meson lists files of TCG also for a build without it."""
    return [o for o in qemu.our_objects(name)
            if 'accel_tcg' not in o or '--disable-tcg' not in CONFIGURATIONS[name].options]


def need(name, packages):
    missing = [p for p in packages.split()
               if not (pathlib.Path('/var/lib/dpkg/info') / f'{p}.list').exists()]
    if missing:
        raise ui.Fail(f'{name}: Debian packages are missing: {" ".join(missing)}',
                      f'as root: apt-get install {" ".join(missing)}')


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--objects', action='store_true',
                        help='compile only our own files and those that the series changes')
    parser.add_argument('names', nargs='+', metavar='NAME', choices=CONFIGURATIONS,
                        help=', '.join(CONFIGURATIONS))
    opt = parser.parse_args(argv)
    qemu.KINDS.update(CONFIGURATIONS)
    goals = qemu.goals
    for name in opt.names:
        qemu.goals = our_objects if opt.objects else goals if CONFIGURATIONS[name].targets \
            else lambda _: ['all']
        if name in CROSS and not opt.objects:       # what makes flash images would not run here
            qemu.goals = lambda kind: [g for g in goals(kind) if not g.startswith(qemu.PNOR)] + [
                f'{qemu.PNOR}pnv-imc-{model}.dtb' for model in ('4e0200', '800200')]
        need(name, PACKAGES.get(name, ''))
        if name in CROSS:
            fetch_libraries(CROSS[name])
        if opt.objects:
            tree.prepare()
            qemu.fetch_tools()
            qemu.configure(name)
        qemu.build(name)
        print(f'{name}: built in {ui.show(qemu.folder(name))}')


if __name__ == '__main__':
    ui.main(main)
