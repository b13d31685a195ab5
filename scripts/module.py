# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the kernel module of a folder against the kernel that a guest boots.

Debian's headers packages expect to be installed on a Debian of the same release.
headers() unpacks them into BUILD/guest/ARCH/headers-RELEASE instead, next to the C library
that their programs need, and changes what refers to the place of an installation.
"""

import os
import pathlib
import re
import shutil

import debian
import guest
import kernels
import ui
from graph import graph

DRIVERS = guest.SOURCES / 'drivers'
# What the kernel was built with and the host may lack: options of its compiler, which is newer,
# and pahole, which describes the module's types for BPF. A module works without them.
WITHOUT = ('CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=', 'CONFIG_DEBUG_INFO_BTF_MODULES=')


def headers(arch, kernel):
    """The folder to give to "make -C" for a kernel; fetches the packages of Debian's."""
    if not kernel.origin():
        return kernel.folder
    suite, found, version, _ = kernel.origin()
    sources = f'usr/src/linux-headers-{found}'

    def debs():
        target, host = kernel.apt(arch), debian.Apt(suite, 'amd64')
        libraries = debian.Apt(suite.removesuffix('-backports'), 'amd64')
        package = f'linux-headers-{found}'
        [common] = target.dependencies(package, 'linux-headers-.*-common.*')
        [kbuild] = target.dependencies(package, 'linux-kbuild-.*')
        debs = target.fetch_version(version, package, common, what=f'headers of kernel {found}')
        what = 'programs that build kernel modules'
        debs += host.fetch(kbuild, what=what)
        needs = libraries.closure(*host.dependencies(kbuild, '(lib|zlib).*'))
        return debs + libraries.fetch(*(p for p in needs if p.startswith(('lib', 'zlib'))),
                                      what=what)

    def change(folder):
        for old in ('lib', 'lib64'):        # before Debian 13
            if (folder / old).is_dir():
                shutil.copytree(folder / old, folder / 'usr' / old, symlinks=True,
                                dirs_exist_ok=True)
        debian.own_libc(folder, 'usr/lib/linux-kbuild-*/**/*')
        # The package's file has the absolute paths of an installation.
        makefile = folder / sources / 'Makefile'
        ui.write(makefile, makefile.read_text().replace(
            '/usr/src/', '$(dir $(lastword $(MAKEFILE_LIST)))../'))
    return debian.once(kernel.folder / f'headers-{found}', f'the headers of kernel {found}', debs,
                       change) / sources


# By make, here or beside the sources; and what belongs to git
MADE = '.* *.o *.ko *.a *.mod *.mod.c Module.symvers modules.order'.split()


def check_source(source):
    """The absolute path of a module's folder; refuse what cannot be one."""
    source = pathlib.Path(os.path.abspath(source))      # its name becomes one of ours: no `..`
    if not source.is_dir():
        raise ui.Fail(f'{ui.show(source)}: {"not a" if source.exists() else "no such"} folder')
    if not any((source / kbuild).is_file() for kbuild in ('Kbuild', 'Makefile')):
        raise ui.Fail(f'{ui.show(source)} has no Kbuild file and no Makefile',
                      'give the folder of a kernel module')
    return source


def copy_sources(source, scratch, where):
    """Make scratch hold the sources that `source` has; make's own files stay."""
    mark, now = scratch / '.source', os.fsencode(f'{source}\0{os.path.abspath(where)}')
    if not mark.exists() or mark.read_bytes() != now:
        shutil.rmtree(scratch, ignore_errors=True)      # of another module, or another kernel
        ui.write(mark, now)
    ours = os.path.relpath(ui.HOME, os.path.realpath(source))       # may be in the user's folder
    # A file whose content is the same keeps its time, for make.
    ui.run(['rsync', '--recursive', '--copy-links', '--checksum', '--delete',
            *(f'--exclude={name}' for name in [*MADE, f'/{ours}'] if name[:3] != '/..'),
            f'{source}/', scratch])


def build(name, source, kernel=None):
    """Build what the Kbuild file in the folder `source` says; returns the .ko files.

    make runs in a copy, because it leaves its files beside the sources.
    """
    arch, source = guest.ARCHES[name], check_source(source)
    kernel = kernel or kernels.debian_kernel(name)
    where, top = headers(arch, kernel), kernel.folder / 'modules'
    if not kernel.origin():             # a tree of the user's is not ours to write to
        top = ui.BUILD / 'guest' / name / 'own' / 'modules'
    # gcc 12 puts the bytes that ftrace patches between a function's beginning and the code that
    # computes the TOC pointer relative to it. Our modules are not traced then.
    version = ui.run([f'{arch.triplet}-gcc', '-dumpversion'])[0].split('.')[0]
    broken = name == 'power' and int(version) < 13
    # English messages, and nothing of a make that may have called us
    env = {k: v for k, v in os.environ.items()
           if not re.match('MAKE|MFLAGS|KCFLAGS|KBUILD_|LLVM', k)} | {'LC_ALL': 'C.UTF-8'}
    # make splits paths at blanks and colons, and expands what is behind a dollar sign.
    plain = re.sub(r'[^\w.+-]', '_', source.name)
    scratch, log = top / plain, ui.LOGS / f'module-{name}-{plain}.log'
    with ui.lock(top.with_name('modules.lock'), f'modules of the {name} guest'):
        copy_sources(source, scratch, where)
        with ui.Step(f'build the module {source.name} for the {name} guest'):
            try:
                ui.run(['make', '-C', where, f'M={scratch}', f'ARCH={arch.kbuild}',
                        f'CROSS_COMPILE={arch.triplet}-', f'CC={arch.triplet}-gcc', *WITHOUT,
                        *['CONFIG_FUNCTION_TRACER='] * broken, 'modules'], log.name, env=env)
            except ui.Fail as fail:
                raise ui.Fail(f'building the module {source.name} failed: {reason(log, fail)}'
                              .replace(str(scratch), ui.show(source)),
                              'correct the source and run the same command again', log)
        # A module that has not changed stays as it is: a guest may be starting with it.
        order = scratch / 'modules.order'
        made = {pathlib.Path(line).stem for line in order.read_text().split()}
        for old in scratch.rglob('*.ko'):
            if old.stem not in made:
                old.unlink()
    found = sorted(scratch.rglob('*.ko'))
    if not found:
        raise ui.Fail(f'{ui.show(source)} makes no module', 'has its Kbuild file an obj-m?', log)
    return found


def reason(log, fail):
    """The first error of the compiler, modpost or Kbuild; what make says of a target comes later."""
    for line in log.read_text().splitlines():
        if re.search(r'(^|\s)(fatal )?error: |^ERROR: |\*\*\* (?!\[)', line):
            return line
    return fail.args[0]


def cmd_module(opt):
    check_source(opt.folder)
    kernels.check_options(opt)
    if opt.kernel and not os.path.isdir(opt.kernel):
        raise ui.Fail(f'--kernel {opt.kernel}: not a folder',
                      'give the one in which that kernel was built')
    graph(f'guest-{opt.arch}')
    for path in build(opt.arch, opt.folder, kernels.wanted(opt)):
        ui.say(f'vermagic: {kernels.module_info(path.read_bytes(), "vermagic")}')
        print(ui.show(path))
