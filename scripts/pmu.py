# The command line.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu COMMAND`: parse the command line and drive the build graph."""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import ui
from arguments import Parser, at_least_0, between, positive
from base import bases
from graph import graph

NO_BASE = ('records', 'doctor', 'pnor')       # commands that do not depend on it
EPILOG = "'pmu COMMAND --help' explains a command."


def cmd_prepare(opt):
    if opt.discard:
        import tree
        tree.prepare(opt.qemu_src, discard=True)
    graph('prepare', qemu_src=opt.qemu_src)


def cmd_build(opt):
    import qemu
    kind = 'stock' if opt.stock else 'qemu'
    graph(kind, qemu_src=opt.qemu_src)
    for name in qemu.PROGRAMS:
        print(ui.show(qemu.binary(name, kind)))


def cmd_install(opt):
    import qemu
    graph('qemu')
    print(qemu.install(opt.prefix))


def cmd_export(opt):
    import export
    export.export(opt.patch, opt.new_patch)


def cmd_rebase(opt):
    import rebase
    rebase.rebase(opt.qemu_src, opt.go_on, opt.discard)


def cmd_verify(opt):
    import export
    export.verify()


def usage(text, command='boot'):
    return ui.Fail(text, f"see 'pmu {command} --help'", status=2)


def at_path(option, item, default=''):
    """(host path, absolute guest path) of HOST=/PATH/IN/GUEST"""
    source, _, target = item.partition('=')
    target = target or default
    if not source or not target.startswith('/') or not target.strip('/'):
        raise usage(f'{option} {item}: expected FILE=/PATH/IN/GUEST')
    return source, target


def check_kernel(opt):
    """Refuse what cannot name a kernel, before anything is built."""
    import guest
    import kernels
    if opt.kernel and (opt.release or opt.kernel_flavour):
        raise usage('--kernel, and --release or --kernel-flavour, both name a kernel', opt.command)
    if not re.fullmatch('([a-z][a-z0-9-]*)?', opt.release):
        raise ui.Fail(f'--release {opt.release}: not the name of a Debian release',
                      'for example bookworm or trixie-backports', status=2)
    if not re.fullmatch('[a-z0-9]*', opt.kernel_flavour):
        raise usage(f'--kernel-flavour {opt.kernel_flavour}: not the name of one', opt.command)
    if opt.kernel:
        kernels.own(opt.kernel, guest.ARCHES[opt.arch])


def files_in(opt):
    """{guest path: host path} of --initrd-add, and [(file, arguments)] of --module"""
    files = {}
    for item in opt.initrd_add:
        source, target = at_path('--initrd-add', item)
        if not os.path.exists(source):
            raise ui.Fail(f'--initrd-add {source}: no such file')
        files[target] = source
    modules = []
    for item in opt.module:
        match = re.fullmatch(r'(.+?\.ko)(?::(.*))?', item)
        if not match:
            raise usage(f'--module {item}: expected FILE.ko or FILE.ko:ARGUMENTS')
        if not os.path.isfile(match[1]):
            raise ui.Fail(f'--module {match[1]}: no such file')
        modules.append((match[1], match[2] or ''))
    return files, modules


def folders(opt):
    """{guest path: host path} of --share, and of --get"""
    shares, gets = {}, {}
    for item in opt.share:
        source, target = at_path('--share', item, '/share')
        if not os.path.isdir(source):
            raise ui.Fail(f'--share {source}: no such folder')
        if target in shares:
            raise usage(f'--share {item}: {target} is taken by {shares[target]}')
        shares[target] = os.path.abspath(source)
    for item in opt.get:
        path, _, local = item.partition('=')
        local = local or os.path.basename(path.rstrip('/'))
        if not path.startswith('/') or not local:
            raise usage(f'--get {item}: expected /PATH/IN/GUEST or /PATH/IN/GUEST=FILE')
        if not os.path.isdir(os.path.dirname(local) or '.'):
            raise ui.Fail(f'--get {item}: there is no folder {os.path.dirname(local)}')
        gets[path.rstrip('/')] = os.path.abspath(local)
    return shares, gets


def cmd_boot(opt):
    import boot
    files, modules = files_in(opt)
    shares, gets = folders(opt)
    packages = [name for item in opt.packages for name in item.split(',')]
    for name in packages:
        if not re.fullmatch(r'[a-z0-9][a-z0-9+.-]*[a-z0-9+]', name):
            raise usage(f'--with {name}: not the name of a Debian package')
    if opt.junit and not opt.run:
        raise usage('--junit needs --run')
    for name in opt.modprobe:
        if not re.fullmatch(r'[\w-]+', name):
            raise usage(f'--modprobe {name}: not the name of a module')
    if opt.repeatable and opt.arch == 'power':
        raise usage("--repeatable is for arm and x86: powernv's BMC tells the host's time")
    if opt.snapshot and (opt.arch == 'power' or opt.share or opt.ssh or opt.gdb or opt.acpi
                         or opt.repeatable or not opt.run):
        raise usage('--snapshot needs --run, is for arm and x86, and goes without --share, --ssh, '
                    '--gdb, --acpi and --repeatable')
    check_kernel(opt)
    if not opt.run and not opt.shell and not sys.stdin.isatty():
        raise ui.Fail('no terminal for a shell', "use --run SCRIPT; see 'pmu boot --help'",
                      status=2)
    if opt.run and not os.path.isfile(opt.run):
        raise ui.Fail(f'--run {opt.run}: no such file')
    if opt.ssh and not shutil.which('ssh-keygen'):
        raise ui.Fail('--ssh needs ssh-keygen on this host', 'apt-get install openssh-client')
    graph('stock' if opt.stock else 'qemu', f'guest-{opt.arch}')
    options = boot.Options(
        opt.arch, smp=opt.smp, machine=opt.machine, cpu=opt.cpu, memory=opt.memory,
        kernel=opt.kernel, release=opt.release, flavour=opt.kernel_flavour, append=opt.append,
        files=files, packages=packages, run=opt.run, acpi=opt.acpi, stock=opt.stock,
        timeout=opt.timeout, modules=modules, modprobe=opt.modprobe, shares=shares, gets=gets,
        net=opt.net, ssh=opt.ssh, gdb=opt.gdb, repeatable=opt.repeatable,
        snapshot=opt.snapshot, args=opt.args)
    if not opt.run:
        return boot.shell(options)
    return report(options, opt.junit) if opt.junit else boot.run(options)


def report(options, path):
    """Run a guest's script, and write the results of tests that it prints as JUnit."""
    import boot
    import junit
    lines, name = [], os.path.basename(options.run)

    def echo(line):
        boot.show(line)
        lines.append(line)

    end = junit.Case('exit status', 'failed', 'the guest did not come to its end')
    try:
        status = boot.run(options, echo)
        end = junit.Case(end.name, 'failed' if status else 'passed', str(status))
    finally:
        junit.write(path, {name: [*junit.read(lines), end]})
    return status


def cmd_module(opt):
    import boot
    import kernels
    import module
    module.check_source(opt.folder)
    check_kernel(opt)
    graph(f'guest-{opt.arch}')
    kernel = boot.the_kernel(boot.Options(opt.arch, kernel=opt.kernel, release=opt.release,
                                          flavour=opt.kernel_flavour))
    for path in module.build(opt.arch, opt.folder, kernel):
        ui.say(f'vermagic: {kernels.module_info(path.read_bytes(), "vermagic")}')
        print(ui.show(path))


def cmd_records(opt):
    import records
    if opt.comp and opt.counters > records.MAX_COUNTERS_COMP:
        raise ui.Fail(f'--counters {opt.counters}: compatibility mode has at most '
                      f'{records.MAX_COUNTERS_COMP}', "see 'pmu records --help'", status=2)
    records.show(opt.file, records.Layout(opt.clusters, opt.counters, opt.comp), opt.offset,
                 opt.records, opt.all, opt.csv)


def cmd_demo(opt):
    import demo
    folder = opt.report and pathlib.Path(opt.report)
    if folder and folder.exists() and not folder.is_dir():
        raise ui.Fail(f'--report {folder}: not a folder')
    return demo.run(opt.arch, folder)


def cmd_topdown(opt):
    import topdown
    if opt.words:
        raise ui.Fail('COMMAND goes behind "--"', f'pmu topdown -- {shlex.join(opt.words)}',
                      status=2)
    options = topdown.Options(opt.args, opt.cpu, opt.level, opt.model, opt.mix, opt.user,
                              100 if opt.html else 0)
    topdown.program(opt.args)               # what cannot run is refused before anything is built
    for path in (opt.svg, opt.json, opt.html):
        if os.path.isdir(path):
            raise ui.Fail(f'{path} is a folder', 'give the name of a file')
    graph('qemu', 'guest-x86')
    status, found, timeline = topdown.run(options)
    print(options.title, f'{options.note(found)}\n', *topdown.tree(found), sep='\n', flush=True)
    if opt.json:
        ui.write(opt.json, topdown.as_json(options, found))
    if opt.svg or opt.html:
        import report
        if opt.svg:
            report.write(opt.svg, report.shares(found, options.title))
        if opt.html:
            report.write(opt.html, report.topdown_page(options.title, options.note(found), found,
                                                       timeline))
    return status


def cmd_set(opt):
    import monitor
    import steer
    with ui.scratch('set-') as scratch, monitor.of_guest(opt.guest) as qmp:
        guest = steer.Guest(qmp, scratch)
        if opt.events is not None:
            for unit, event, _, _ in guest.catalog():
                if opt.events.lower() in f'{unit}/{event}'.lower():
                    print(f'{unit}/{event}')
        elif opt.settings:
            steer.assign(guest, opt.settings)
        else:
            steer.show(guest)


def cmd_watch(opt):
    import steer
    steer.watch(opt.guest, opt.interval, opt.count, opt.only)


def cmd_count(opt):
    import count
    import topdown
    if not opt.args:
        raise usage('no PROGRAM behind --', 'count')
    old = count.baseline(opt.baseline) if opt.baseline else None
    topdown.program(opt.args)               # what cannot run is refused before anything is built
    graph('qemu', 'guest-x86')
    status, counts = count.run(opt.args)
    lines, beyond = count.compare(counts, old, opt.tolerance)
    print(*lines, sep='\n', flush=True)
    if opt.json:
        ui.write(opt.json, count.as_json(opt.args, counts))
    if beyond and not status:
        raise ui.Fail(f'{" and ".join(beyond)} changed by more than {opt.tolerance:g} %',
                      f'if that is as it should be, make {opt.baseline} anew with --json')
    return status


def cmd_pnor(opt):
    import qemu
    if opt.list:
        if opt.catalog or opt.base or opt.output:
            raise ui.Fail('--list goes without --catalog, --base and -o', "see 'pmu pnor --help'",
                          status=2)
        args = ['--list', opt.list]
    elif opt.catalog and opt.output:
        args = ['--base', opt.base or qemu.binary(qemu.PNOR + 'pnv-pnor-imc.bin'), '-o', opt.output]
        for catalog in opt.catalog:
            args += ['--catalog', catalog]
    else:
        raise ui.Fail('neither --list IMG, nor --catalog ID=FILE with -o IMG',
                      "see 'pmu pnor --help'", status=2)
    graph('qemu')
    return subprocess.run([qemu.binary(qemu.PNOR + 'pnv-pnor'), *args]).returncode


def cmd_test(opt):
    import testing
    if opt.coverage:
        return cmd_coverage(opt)
    graph()
    found = list(testing.selected(opt.suite, opt.tests, opt.device))
    if opt.only:                                # the other suite is one test
        found = [test for test in found if test[0] != 'patches']
    if opt.list:
        for suite, name, _ in found:
            print(f'{suite:12} {name}')
        return 0
    if not opt.no_rebuild:
        graph(*sorted({t for _, _, targets in found for t in targets}))
    status = testing.run([name for _, name, _ in found], opt.only, opt.verbose, opt.junit)
    if opt.times:
        testing.times()
    return status


def cmd_coverage(opt):
    import coverage
    import testing
    if opt.suite or opt.list or opt.no_rebuild:
        raise ui.Fail('--coverage goes without --suite, --list and --no-rebuild',
                      "name tests of the suite qtest, or none for all; see 'pmu test --list'",
                      status=2)
    graph(coverage.KIND)
    coverage.reset()
    os.environ['QEMU_PMU_KIND'] = coverage.KIND
    names = [name for _, name, _ in testing.selected(['qtest'], opt.tests, opt.device)]
    status = testing.run(names, opt.only, opt.verbose, opt.junit)
    coverage.report()
    return status


def cmd_bench(opt):
    import benchmarks
    benchmarks.run(opt.names, opt.rounds, [name for name in opt.only.split(',') if name])


def cmd_fuzz(opt):
    import fuzz
    names = fuzz.selected(opt.names)
    graph(fuzz.KIND)
    return fuzz.run(names, opt.time, opt.keep)


def cmd_doctor(opt):
    import doctor
    return doctor.report()


def cmd_clean(opt):
    import export
    if not opt.force:
        export.refuse_if_edited()
    for folder in [ui.BUILD] + [ui.CACHE] * opt.downloads:
        if folder.exists():
            shutil.rmtree(folder)
            print(f'removed {ui.show(folder)}')


# -- the command line -------------------------------------------------------

def parser():
    top = Parser(prog='pmu', usage='pmu COMMAND [OPTIONS]', epilog=EPILOG,
                 description='Build a QEMU with emulated performance-monitoring units, boot '
                             'unmodified guests on it, and test it.')
    commands = top.add_subparsers(metavar='COMMAND', dest='command', required=True, prog='pmu',
                                  parser_class=Parser)

    def command(name, function, summary, usage=None):
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() +
                                  summary[1:] + '.', usage=f'pmu {name} {usage or ""}'.strip())
        sub.set_defaults(function=function)
        if name not in NO_BASE:
            names = list(bases())
            sub.add_argument('--base', metavar='NAME', choices=names, dest='qemu_base',
                             default=ui.BASE or names[0],
                             help=f'the QEMU release: {" or ".join(names)} (default: {names[0]})')
        return sub

    def source_option(sub):
        sub.add_argument('--qemu-src', metavar='DIR|TARBALL',
                         help="take QEMU's source from here, not from Debian's archive "
                              '(remembered until the next "clean")')

    def kernel_options(sub):
        sub.add_argument('--kernel', metavar='FILE|DIR', default='',
                         help="a kernel of yours instead of Debian's, or a tree in which one was "
                              'built')
        sub.add_argument('--release', metavar='SUITE', default='',
                         help="the kernel of another suite of Debian's archive: bookworm (6.1), "
                              'trixie-backports, sid')
        sub.add_argument('--kernel-flavour', metavar='NAME', default='',
                         help='another build of it: generic, cloud, rt, 16k or 64k (default: '
                              'cloud, on power generic)')

    sub = command('demo', cmd_demo, 'show what the emulated PMUs count, in an arm64, an x86 and a '
                  'POWER guest', '[--report DIR] [arm|x86|power]')
    sub.add_argument('arch', nargs='?', choices=('arm', 'x86', 'power'),
                     metavar='arm|x86|power', help='only this guest')
    sub.add_argument('--report', metavar='DIR', default='',
                     help='save a page with plots, DIR/index.html')

    sub = command('test', cmd_test, 'run all tests, or some suites',
                  '[--suite NAME]... [--device NAME] [-k TEXT] [OPTIONS] [TEST]...')
    sub.add_argument('--suite', action='append', default=[], metavar='NAME',
                     choices=('unit', 'patches', 'qtest', 'functional', 'browser', 'lava'),
                     help='unit, patches, qtest or functional; browser or lava, which run only '
                          'if they are named; may be repeated')
    sub.add_argument('--device', metavar='pmcu|x86|imc', choices=('pmcu', 'x86', 'imc'),
                     help='only the tests that look at this device')
    sub.add_argument('-k', metavar='TEXT', dest='only', default='',
                     help='of each test, only the cases whose name or rule has this text')
    sub.add_argument('--junit', metavar='FILE', default='',
                     help='save the results as JUnit XML, which CI systems show')
    sub.add_argument('--list', action='store_true', help='list the tests and do nothing')
    sub.add_argument('--no-rebuild', action='store_true', help='test what is built now')
    sub.add_argument('--coverage', action='store_true',
                     help='run the qtests on a build with gcov, and show which lines and branches '
                          'of our code they execute')
    sub.add_argument('--times', action='store_true', help='say which ten tests took longest')
    sub.add_argument('--verbose', action='store_true', help='show the output of every test')
    sub.add_argument('tests', nargs='*', metavar='TEST', help='names as --list prints them')

    sub = command('bench', cmd_bench, 'measure speed; nothing fails because of a number',
                  '[--rounds N] [--only ROW[,ROW]] [BENCHMARK]...')
    sub.add_argument('--rounds', metavar='N', type=positive(int), default=5,
                     help='of the guests (default: 5, about 8 minutes each)')
    sub.add_argument('--only', metavar='ROW[,ROW]', default='',
                     help='only these rows of the guests, and what they need')
    sub.add_argument('names', nargs='*', metavar='BENCHMARK',
                     help='hisi_pmcu, arm, x86 or power (default: all)')

    sub = command('fuzz', cmd_fuzz, 'throw random accesses at the devices, and random bytes at '
                  'what reads files, on a build with sanitizers',
                  '[--time SECONDS] [--keep] [DEVICE]...')
    sub.add_argument('--time', metavar='SECONDS', type=positive(int), default=300,
                     help='for each device (default: 300)')
    sub.add_argument('--keep', action='store_true',
                     help='add the inputs that reach new code to selftest/corpus')
    sub.add_argument('names', nargs='*', metavar='DEVICE',
                     help='pmcu, imc9, imc10, pnor or catalog (default: all)')

    sub = command('build', cmd_build, 'build the custom QEMU and print where it is',
                  '[--stock] [--qemu-src DIR|TARBALL]')
    sub.add_argument('--stock', action='store_true',
                     help='build the unpatched QEMU beside it, for comparisons')
    source_option(sub)

    sub = command('boot', cmd_boot, "boot Debian's kernel: a shell, or a script's output",
                  '(arm|power|x86) [OPTIONS] [-- QEMU-ARGS]')
    sub.add_argument('arch', choices=('arm', 'power', 'x86'), metavar='arm|power|x86',
                     help='which guest')
    sub.add_argument('--run', metavar='SCRIPT', default='',
                     help="run SCRIPT in the guest, then power off; its exit status is pmu's")
    sub.add_argument('--shell', action='store_true',
                     help='an interactive console (the default on a terminal)')
    sub.add_argument('--smp', metavar='N', default='2', help='CPUs, as in -smp (default: 2)')
    sub.add_argument('--machine', metavar='NAME', default='',
                     help='as in -M (default: virt with pmcu=on, powernv9 or pc)')
    sub.add_argument('--cpu', metavar='MODEL[,PROP=...]', default='',
                     help='as in -cpu (x86: default Icelake-Server-v6,pmu=on)')
    sub.add_argument('--memory', metavar='SIZE', default='', help='as in -m (default: 2G)')
    kernel_options(sub)
    sub.add_argument('--acpi', action='store_true',
                     help='boot through UEFI, so that the kernel uses ACPI (arm)')
    sub.add_argument('--append', metavar='TEXT', default='', help='more kernel parameters')
    sub.add_argument('--initrd-add', metavar='FILE=PATH', action='append', default=[],
                     help='put FILE, or a whole folder, into the guest at PATH; may be repeated')
    sub.add_argument('--module', metavar='FILE.ko[:ARGS]', action='append', default=[],
                     help='load a kernel module of yours, after those that it depends on; may be '
                          'repeated')
    sub.add_argument('--modprobe', metavar='NAME', action='append', default=[],
                     help="load a module of the kernel's own; may be repeated")
    sub.add_argument('--share', metavar='DIR[=PATH]', action='append', default=[],
                     help='let the guest read and write DIR, at PATH (default: /share)')
    sub.add_argument('--get', metavar='PATH[=LOCAL]', action='append', default=[],
                     help="copy a file or folder out of the guest, after the script's end, also "
                          'if it failed (default: into the current folder)')
    sub.add_argument('--net', action='store_true',
                     help="QEMU's user network: the guest reaches what this host does")
    sub.add_argument('--ssh', action='store_true',
                     help='with a login by ssh, whose command is printed')
    sub.add_argument('--gdb', action='store_true',
                     help="let gdb attach to the guest's CPUs, at a port that is printed")
    sub.add_argument('--snapshot', action='store_true',
                     help='keep the booted guest in a file, where later runs with the same '
                          'options start, in a second (arm and x86)')
    sub.add_argument('--repeatable', action='store_true',
                     help='two boots count the same, also in the kernel (arm and x86; slower)')
    sub.add_argument('--with', metavar='PKG[,PKG...]', action='append', default=[],
                     dest='packages',
                     help="add these packages of the guest's Debian, and what they depend on")
    sub.add_argument('--stock', action='store_true', help='boot on the unpatched QEMU')
    sub.add_argument('--junit', metavar='FILE', default='',
                     help='save the TAP and KTAP that SCRIPT prints as JUnit XML')
    sub.add_argument('--timeout', metavar='SECONDS', type=positive(float), default=300,
                     help='give up if user space is not up by then (default: 300)')

    sub = command('module', cmd_module, "build a kernel module for a guest's kernel and print "
                  'where it is', '(arm|power|x86) DIR [OPTIONS]')
    kernel_options(sub)
    sub.add_argument('arch', choices=('arm', 'power', 'x86'), metavar='arm|power|x86',
                     help='which guest')
    sub.add_argument('folder', metavar='DIR', help='its source, with a Kbuild file')

    sub = command('records', cmd_records, 'show the records of a PMCU, out of a dump of the '
                  "guest's memory", 'FILE --clusters N --counters N [OPTIONS]')
    sub.epilog = ("The monitor's pmemsave ADDRESS SIZE \"FILE\" makes a dump. Slots that are 0 in "
                  'all fields are left out; context IDs are hexadecimal.')
    sub.add_argument('file', metavar='FILE', help='the dump')
    sub.add_argument('--clusters', metavar='N', type=between(1, 255), required=True,
                     help='clusters of the die, 1 to 255')
    sub.add_argument('--counters', metavar='N', type=between(1, 8), required=True,
                     help='events of each record: NR_PMU, 1 to 8')
    sub.add_argument('--comp', action='store_true', help='of a run in compatibility mode')
    sub.add_argument('--offset', metavar='N', type=between(0, 2 ** 63), default=0,
                     help='where the first record is in the file, in bytes (default: 0)')
    sub.add_argument('--records', metavar='N', type=positive(int),
                     help='how many (default: as many as the file has)')
    sub.add_argument('--all', action='store_true', help='also slots that are 0')
    sub.add_argument('--csv', action='store_true',
                     help='comma-separated values, all in decimal')

    sub = command('topdown', cmd_topdown, 'run an x86 program in the guest under perf, and show '
                  'what becomes of its slots', '[OPTIONS] -- COMMAND [ARGS]')
    sub.epilog = 'COMMAND with a slash is a static program of yours; without, one of the guest.'
    sub.add_argument('words', nargs='*', help=argparse.SUPPRESS)
    sub.add_argument('--cpu', metavar='MODEL[,PROP=...]', default='SapphireRapids',
                     help='as in -cpu (default: SapphireRapids)')
    sub.add_argument('--level', metavar='1|2', choices=('1', '2'), default='',
                     help='of the tree (default: as many as the CPU has)')
    sub.add_argument('--model', metavar='static|precise|pinned', default='',
                     choices=('static', 'precise', 'pinned'),
                     help='where slots are lost: to averages, to a branch predictor and caches '
                          '(default), or as --mix says')
    sub.add_argument('--mix', metavar='R/BS/FE/BE[/...]', default='',
                     help='the shares of a pinned model in percent: retiring, bad speculation, '
                          'frontend, backend; and of level 2 heavy operations, branch mispredicts, '
                          'fetch latency, memory bound')
    sub.add_argument('--user', action='store_true', help='count in user space only')
    sub.add_argument('--svg', metavar='FILE', default='',
                     help='save a picture')
    sub.add_argument('--html', metavar='FILE', default='',
                     help='save a page with plots, also of the slots over time')
    sub.add_argument('--json', metavar='FILE', default='', help='save the numbers, too')

    sub = command('set', cmd_set, 'change the PMUs of a guest while it runs, or show what can be '
                  'set',
                  '[--guest NAME] [NAME[@N]=VALUE]... | --events TEXT')
    sub.epilog = ('Of events of in-memory collection, a part of the name is enough if it is the '
                  'only one. @N is for one CPU, die or chip.')
    sub.add_argument('--guest', metavar='NAME', default='',
                     help='which, if several run: arm, x86-2')
    sub.add_argument('--events', metavar='TEXT',
                     help='list the events that have TEXT in their name')
    sub.add_argument('settings', nargs='*', metavar='NAME[@N]=VALUE',
                     help='a property, for example topdown-mix@1=70/10/10/10, faults=lose-done or '
                          'nest-synthetic=MCS01*RD*PORT01=rate:40')

    sub = command('watch', cmd_watch, 'show all counters of a guest while it runs',
                  '[--only TEXT] [--interval SECONDS] [--count N] [GUEST]')
    sub.add_argument('--only', metavar='TEXT', default='',
                     help='only counters that have TEXT in their name or place')
    sub.add_argument('--interval', metavar='SECONDS', type=positive(float), default=2,
                     help='between two tables (default: 2)')
    sub.add_argument('--count', metavar='N', type=positive(int), default=0,
                     help='end after so many (default: when the guest ends)')
    sub.add_argument('guest', nargs='?', metavar='GUEST', default='',
                     help='which, if several run: arm, x86-2')
    sub = command('count', cmd_count, 'run a static x86 program in the guest, and count exactly '
                  'what it executes in user space', '[OPTIONS] -- PROGRAM [ARGS]')
    sub.epilog = 'PROGRAM with a slash is a static program of yours; without, one of the guest.'
    sub.add_argument('--json', metavar='FILE', default='', help='save the counts, too')
    sub.add_argument('--baseline', metavar='FILE', default='',
                     help='compare with these counts, which --json saved; a change is status 1')
    sub.add_argument('--tolerance', metavar='PERCENT', type=at_least_0, default=0,
                     help='allow changes up to this (default: 0)')

    sub = command('pnor', cmd_pnor, "put catalogs of IMC counters into powernv's flash image",
                  '--catalog ID=FILE... -o IMG [--base IMG] | --list IMG')
    sub.add_argument('--catalog', metavar='ID=FILE', action='append', default=[],
                     help='a dts or dtb, for processors with this version: 0x4e0200 for powernv9, '
                          '0x800200 for powernv10; it replaces the one that is there')
    sub.add_argument('-o', '--output', metavar='IMG', default='', help='image to write')
    sub.add_argument('--base', metavar='IMG', default='',
                     help='image to add to (default: the built one, with a catalog for each)')
    sub.add_argument('--list', metavar='IMG', default='', help='show what is in an image')

    sub = command('prepare', cmd_prepare, 'lay out the QEMU source: stock + overlay + patches',
                  '[--qemu-src DIR|TARBALL] [--discard]')
    source_option(sub)
    sub.add_argument('--discard', action='store_true', help='drop edits that were not exported')

    sub = command('export', cmd_export, 'fold edits of the prepared source back into the project',
                  '[--patch NNNN | --new-patch SUBJECT]')
    group = sub.add_mutually_exclusive_group()
    group.add_argument('--patch', metavar='NNNN',
                       help='fold edits of QEMU files into this patch (default: the last one '
                            'that changes the same file)')
    group.add_argument('--new-patch', metavar='SUBJECT', help='make a new patch of them')

    sub = command('rebase', cmd_rebase, 'move the series to another QEMU release, patch by patch',
                  '--base NAME [--qemu-src DIR|TARBALL] [--continue | --discard]')
    source_option(sub)
    group = sub.add_mutually_exclusive_group()
    group.add_argument('--continue', action='store_true', dest='go_on',
                       help='the conflict in the prepared source is resolved: go on')
    group.add_argument('--discard', action='store_true',
                       help='start over, and drop edits that were not exported')

    command('verify', cmd_verify, 'prove that overlay and patches are in order: strict apply, '
            'round trip, coding style')
    sub = command('install', cmd_install, 'install the custom QEMU with its firmware',
                  '--prefix DIR')
    sub.add_argument('--prefix', metavar='DIR', required=True, help='where to install')
    command('doctor', cmd_doctor, 'say what is missing on this machine and how to get it')
    sub = command('clean', cmd_clean, 'remove what was built', '[--downloads] [--force]')
    sub.add_argument('--downloads', action='store_true',
                     help=f'remove the download and compiler cache too ({ui.CACHE})')
    sub.add_argument('--force', action='store_true', help='even edits that were not exported')
    return top


def run(argv):
    # Everything behind `--` is for QEMU, or a command.
    args = []
    if argv[:1] in (['boot'], ['topdown'], ['count']) and '--' in argv:
        cut = argv.index('--')
        argv, args = argv[:cut], argv[cut + 1:]
    if not argv or argv[0] == 'help':
        parser().print_help()
        return 0
    opt = parser().parse_args(argv)
    opt.args = args
    if 'qemu_base' in opt:
        ui.use_base('' if opt.qemu_base == next(iter(bases())) else opt.qemu_base)
    return opt.function(opt)


if __name__ == '__main__':
    ui.main(run)
