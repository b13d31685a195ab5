# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the custom QEMU (BUILD/qemu/build), the stock one (BUILD/stock/build), and other kinds.

Both trees have the same relative layout and the same options, so that ccache
serves one from the other.  BUILD/KIND/build is another kind, of the same source.
BUILD/reference/build is the stock one that tests compare with, see reference().
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import typing

import base
import debian
import tree
import ui
from graph import graph

TARGETS = ('aarch64', 'ppc64', 'x86_64')
FUZZED = ('aarch64', 'ppc64')
# They share our code, or headers and files where nothing counts: all of it must compile there, too.
OBJECTS = ('i386', 'ppc', 'aarch64-linux-user', 'ppc64-linux-user', 'x86_64-linux-user')
I386 = ['qemu-system-i386']     # which must start besides; a test wants it
OPTIONS = (
    '--python=/usr/bin/python3', '--disable-docs', '--disable-download',
    '--disable-install-blobs', '--without-default-features', '--enable-system', '--enable-tcg',
    '--enable-kvm', '--enable-fdt=system', '--enable-pixman', '--enable-slirp', '--enable-tools',
    # The rest only switches on devices that need no further library.
    '--enable-attr', '--enable-virtfs', '--enable-tpm', '--enable-hv-balloon',
    '--enable-multiprocess', '--enable-vhost-kernel', '--enable-vhost-net', '--enable-vhost-user',
    '--enable-vhost-vdpa', '--enable-vhost-crypto',
    # Function names and lines for backtraces; all of -g takes 17 % more time to compile.
    '--disable-debug-info', '--extra-cflags=-g1',
    # At a fixed address: moving all the pointers in its data is a fifth of a QEMU's start. Objects
    # are compiled as ever.
    '--extra-ldflags=-no-pie')


class Kind(typing.NamedTuple):
    """How a QEMU is configured."""
    options: tuple = OPTIONS
    targets: tuple = TARGETS    # none: those that QEMU chooses
    source: str = 'qemu'
    compiler: str = 'gcc'
    env: dict = {}              # for configure and ninja


KINDS = {
    'qemu': Kind(targets=TARGETS + OBJECTS),
    # Configured like the custom one, so that ccache serves one from the other
    'stock': Kind(targets=TARGETS + OBJECTS, source='stock'),
    # `pmu bench` compares with it: plugins are off in the others, since no PMU needs them
    'plugins': Kind((*OPTIONS, '--enable-plugins'), TARGETS[-1:], 'stock'),
    'gcov': Kind((*OPTIONS, '--enable-gcov')),
    'fuzz': Kind((*OPTIONS, '--cxx=clang++', '--enable-fuzzing', '--enable-asan',
                  '--enable-ubsan'), FUZZED, compiler='clang'),
}
PROGRAMS = [*(f'qemu-system-{t}' for t in TARGETS), 'qemu-img']
PLUGIN = 'tests/tcg/plugins/libinsn.so'      # counts instructions
PNOR = 'pc-bios/pnv-pnor/'        # the tool for powernv's flash images, its tests, an image
FOR_USERS = [*PROGRAMS, PNOR + 'pnv-pnor', PNOR + 'pnv-pnor-imc.bin']
# For QEMU, unless the user tunes it: a heap of huge pages, which grows by 64 MiB at a time. To fault
# small ones in takes a tenth of a guest's boot, and more than half of a QEMU's start.
HEAP = {'GLIBC_TUNABLES': f'glibc.malloc.hugetlb=1:glibc.malloc.top_pad={64 << 20}'}
PREFIX = pathlib.Path('usr/local')           # QEMU finds its data relative to its binary
FIRMWARE = ('qemu-system-data', 'seabios', 'ipxe-qemu', 'qemu-efi-aarch64')


def folder(kind='qemu'):
    return ui.BUILD / kind / 'build'


def binary(name, kind='qemu'):
    return folder(kind) / name


def environment(kind='qemu'):
    """The build's environment: a recent meson, and a ccache that all trees share."""
    env = {k: v for k, v in os.environ.items() if k not in ('CC', 'CFLAGS', 'LDFLAGS', 'MAKEFLAGS')}
    env.update(PYTHONPATH=str(ui.BUILD / 'tools/usr/lib/python3/dist-packages'),
               CCACHE_DIR=str(ui.CACHE / 'ccache'),
               CCACHE_BASEDIR=str(ui.BUILD), CCACHE_NOHASHDIR='1', CCACHE_DEPEND='1',
               # Every file includes it, each new device changes it, and no code depends on it.
               CCACHE_IGNOREHEADERS='config-poison.h',
               # Else decodetree writes its functions in another order each time.
               PYTHONHASHSEED='0',
               CCACHE_MAXSIZE='3G', PATH=f'/usr/bin:/bin:/usr/sbin:/sbin:{env.get("PATH", "")}',
               LC_ALL='C.UTF-8', **KINDS[kind].env)
    return env


def fetch_tools():
    """Debian 13's meson and pycotap, which QEMU needs and Debian 12 lacks."""
    what = "Debian 13's meson"
    debian.once(ui.BUILD / 'tools', what, lambda: debian.Apt('trixie', 'amd64').fetch(
        'meson', 'python3-pycotap', what=what))


def gather(folder):
    """Move firmware out of the folders that packages have it in."""
    for sub in ('qemu', 'seabios', 'qemu-efi-aarch64'):
        for path in sorted((folder / 'usr/share' / sub).iterdir()):
            if path.is_file() and path.suffix in ('.bin', '.rom', '.fd', '.lid', '.dtb'):
                shutil.copy(path, folder)
    shutil.rmtree(folder / 'usr')


def fetch_firmware():
    """Debian's firmware, all in one folder; returns that folder."""
    return debian.once(ui.BUILD / 'guest' / 'firmware', 'firmware', lambda: debian.Apt(
        'trixie', 'amd64').fetch(*FIRMWARE, what='firmware'), gather)


def full_name(target):
    return target if '-' in target else f'{target}-softmmu'


def our_objects(kind, *targets):
    """The objects of our own files and of those that the series changes, perhaps of targets."""
    names = set(tree.overlay_files()).union(
        *(re.findall(r'^\+\+\+ b/(\S+)', p.read_text(), re.M) for p in tree.series()))
    commands = json.loads((folder(kind) / 'compile_commands.json').read_text())
    where = tuple(f'libqemu-{full_name(target)}.a.p/' for target in targets) or ''
    return [c['output'] for c in commands
            if c['output'].startswith(where) and not c['file'].startswith('tests') and
            os.path.relpath(os.path.join(c['directory'], c['file']), tree.SRC) in names]


def goals(kind):
    """What is built: the emulators, qemu-img, and (custom QEMU) our own tests."""
    if kind == 'plugins':
        return ['qemu-system-x86_64', PLUGIN]
    if kind == 'fuzz':
        return [*(f'qemu-fuzz-{target}' for target in FUZZED),
                *(PNOR + name for name in ('fuzz-pnor', 'fuzz-imc', 'pnv-pnor-imc.bin'))]
    linked = TARGETS if kind in ('qemu', 'stock') else KINDS[kind].targets
    found = [*(f'qemu-system-{t}' for t in linked), 'qemu-img']
    if kind == 'qemu':
        found += our_objects(kind, *OBJECTS)
    if KINDS[kind].source == 'qemu' and set(TARGETS) <= set(KINDS[kind].targets):
        found += [m[1] for f in tree.overlay_files()
                  if (m := re.fullmatch(
                      r'(tests/(?:qtest/[\w/-]*-(?:test|bench)|unit/test-pmu-[\w-]*))\.c', f))]
        found += [PNOR + name for name in ('pnv-pnor', 'test-pnv-pnor', 'pnv-pnor-imc.bin')]
    return found


def configure(kind):
    build, stamp, how = folder(kind), folder(kind).parent / 'configured', KINDS[kind]
    targets = ','.join(map(full_name, how.targets))
    options = [*how.options, *[f'--target-list={targets}'] * bool(targets),
               f'--cc={"ccache " * bool(shutil.which("ccache"))}{how.compiler}']
    if (build / 'build.ninja').exists() and stamp.exists() and \
            stamp.read_text() == '\n'.join(options):
        return
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    ui.need_room(build, 1000)
    with ui.Step(f'configure QEMU ({kind})'):
        where = '..' if how.source == kind else f'../../{how.source}'
        ui.run([f'{where}/src/configure', *options], f'configure-{kind}.log', 'configuring QEMU',
               "'./pmu doctor' says what is missing", cwd=build, env=environment(kind))
    ui.write(stamp, '\n'.join(options))


def link_firmware(kind):
    """Let a build find the firmware, as if both were installed."""
    link = folder(kind) / 'qemu-bundle' / PREFIX / 'share' / 'qemu-firmware'
    firmware = fetch_firmware()
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(firmware, link.parent))


def build(kind, qemu_src=None, wanted=()):
    """Prepare and build this kind of QEMU: what is wanted, or all of goals()."""
    now = tree.prepare(qemu_src)
    if KINDS[kind].source == 'stock':
        with ui.lock(ui.HOME / 'lock', 'preparing the source'):
            tree.checkout(tree.STOCK, now['base'])
    with ui.lock(ui.BUILD / kind / 'lock', f'building QEMU ({kind})'):
        fetch_tools()
        configure(kind)
        with ui.Step(f'build QEMU {now["version"]} ({kind})') as step:
            def progress(line):
                if match := re.match(r'\[(\d+/\d+)\]', line):
                    step.detail = match[1]
            ui.run(['ninja', *(wanted or goals(kind))], f'build-{kind}.log', 'building QEMU',
                   'correct it and run it again', cwd=folder(kind), env=environment(kind),
                   on_line=progress)
        link_firmware(kind)


def fetch_stock():
    """Debian's own build of the source package, laid out like one of ours; returns its folder."""
    name, packages = base.branch(), [f'qemu-system-{x}' for x in ('arm', 'ppc', 'x86')]
    dsc, apt = base.source_package(name), debian.Apt(base.base()['suite'], 'amd64')
    version = re.search(r'(?m)^Version: (\S+)', dsc.read_text())[1]
    what = f"Debian's QEMU {version}"

    def debs():
        needs = [p for p in apt.closure(*packages) if re.match(r'lib|zlib', p)]
        return [*apt.fetch_version(version, *packages, what=what), *apt.fetch(*needs, what=what)]

    def lay_out(folder):
        debian.own_libc(folder, 'usr/bin/qemu-system-*', '-L "$root/../guest/firmware"')
        (folder / 'build').symlink_to('usr/bin')
        (folder / 'usr/bin/pc-bios').symlink_to('../../../qemu/build/pc-bios')

    fetch_firmware()
    return debian.once(ui.BUILD / f'debian-{dsc.stem.partition("_")[2]}', what, debs, lay_out)


def reference(qemu_src=None):
    """Bring BUILD/reference up to date, the stock QEMU that tests compare with: Debian's own build
    of our source, which takes seconds, or ours if Debian has none.
    """
    source, found = tree.prepare(qemu_src)['source'], None
    if not source:
        try:
            found = fetch_stock()
        except ui.Fail as fail:
            why = "Debian's archive has no build of this source" \
                if isinstance(fail, debian.Lacks) else fail.args[0]
            ui.say(f'notice: {why}: the stock QEMU is built here')
    if not found:
        build('stock', qemu_src)
        found = folder('stock').parent
    link = ui.BUILD / 'reference'
    if not link.is_symlink() or os.readlink(link) != found.name:
        with ui.scratch('reference-') as scratch:       # another pmu may use the old one
            (scratch / 'new').symlink_to(found.name)
            (scratch / 'new').replace(link)


def cmd_install(opt):
    """Install the emulators with their data and Debian's firmware."""
    prefix = pathlib.Path(opt.prefix).absolute()
    if not ui.existing(prefix).is_dir():
        raise ui.Fail(f'--prefix {opt.prefix}: {ui.existing(prefix)} is not a folder')
    graph('qemu')
    bundle = folder() / 'qemu-bundle' / PREFIX / 'share'
    files = [*map(binary, PROGRAMS), *(f for f in bundle.rglob('*') if f.is_file()),
             *fetch_firmware().iterdir()]
    ui.need_room(prefix, sum(path.stat().st_size for path in files) / 1e6,
                 'free some space, or give another --prefix')
    with ui.Step(f'install into {prefix}'):
        # It takes the place of programs that run, too.
        ui.run(['install', '-D', '-p', '-t', prefix / 'bin', *map(binary, PROGRAMS)])
        for name in ('qemu', 'qemu-firmware'):
            shutil.copytree(bundle / name, prefix / 'share' / name, dirs_exist_ok=True,
                            ignore_dangling_symlinks=True)
    print(prefix / 'bin')


def cmd_build(opt):
    kind = 'stock' if opt.stock else 'qemu'
    graph(kind, qemu_src=opt.qemu_src)
    for name in PROGRAMS:
        print(ui.show(binary(name, kind)))


def cmd_pnor(opt):
    if opt.list:
        if opt.catalog or opt.base or opt.output:
            opt.error('--list goes without --catalog, --base and -o')
        args = ['--list', opt.list]
    elif opt.catalog and opt.output:
        args = ['--base', opt.base or binary(PNOR + 'pnv-pnor-imc.bin'), '-o', opt.output,
                *(word for catalog in opt.catalog for word in ('--catalog', catalog))]
    else:
        opt.error('neither --list IMG, nor --catalog ID=FILE with -o IMG')
    ui.check_output(opt.output)
    for path in filter(None, [opt.list, opt.base, *(c.partition('=')[2] for c in opt.catalog)]):
        if not os.path.isfile(path):
            raise ui.Fail(f'{path}: {"not a" if os.path.exists(path) else "no such"} file')
    graph('qemu')
    return ui.exit_status('pnv-pnor', subprocess.run([binary(PNOR + 'pnv-pnor'), *args]).returncode)
