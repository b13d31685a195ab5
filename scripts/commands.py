# The commands, a function each.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Check what the options say together, let the build graph make what is needed, and go."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import base
import boot
import count
import coverage
import demo
import fuzz
import guest
import junit
import kernels
import module
import monitor
import qemu
import records
import steer
import testing
import topdown
import tree
import ui
import verify
from benchmarks import cmd_bench
from doctor import cmd_doctor
from export import cmd_export
from graph import graph
from rebase import cmd_rebase
from steer import cmd_watch


def cmd_prepare(opt):
    if opt.discard:
        tree.prepare(opt.qemu_src, discard=True)
    graph('prepare', qemu_src=opt.qemu_src)


def cmd_build(opt):
    kind = 'stock' if opt.stock else 'qemu'
    graph(kind, qemu_src=opt.qemu_src)
    for name in qemu.PROGRAMS:
        print(ui.show(qemu.binary(name, kind)))


def cmd_install(opt):
    graph('qemu')
    print(qemu.install(opt.prefix))


def cmd_verify(opt):
    try:
        verify.verify()
    except ui.Fail as fail:
        if not opt.or_skip or fail.status != base.GONE:
            raise
        print(f'1..0 # SKIP {fail}')


def check_kernel(opt):
    """Refuse what cannot name a kernel, before anything is built."""
    if opt.kernel and (opt.release or opt.kernel_flavour):
        opt.error('--kernel, and --release or --kernel-flavour, both name a kernel')
    if opt.kernel:
        kernels.own(opt.kernel, guest.ARCHES[opt.arch])


def cmd_boot(opt):
    if opt.junit and not opt.run:
        opt.error('--junit needs --run')
    if opt.repeatable and opt.arch == 'power':
        opt.error("--repeatable is for arm and x86: powernv's BMC tells the host's time")
    if opt.acpi and opt.arch != 'arm':
        raise ui.Fail(f'--acpi is for arm; the {opt.arch} guest boots with its own firmware')
    if opt.snapshot and (opt.arch == 'power' or opt.shares or opt.ssh or opt.gdb or opt.acpi
                         or opt.repeatable or not opt.run):
        opt.error('--snapshot needs --run, is for arm and x86, and goes without --share, --ssh, '
                  '--gdb, --acpi and --repeatable')
    if opt.symbols and (opt.kernel or not opt.gdb):
        opt.error("--symbols needs --gdb, and is for Debian's kernels: it goes without --kernel")
    check_kernel(opt)
    if not opt.run and not opt.shell and not sys.stdin.isatty():
        raise ui.Fail('no terminal for a shell', "use --run SCRIPT; see 'pmu boot --help'",
                      status=2)
    if opt.run:
        guest.check_script(opt.run)
    if opt.ssh and not shutil.which('ssh-keygen'):
        raise ui.Fail('--ssh needs ssh-keygen on this host', 'apt-get install openssh-client')
    graph('stock' if opt.stock else 'qemu', f'guest-{opt.arch}')
    if not opt.run:
        return boot.shell(opt)
    return as_junit(opt) if opt.junit else boot.run(opt)


def as_junit(opt):
    """Run a guest's script, and write the results of tests that it prints as JUnit."""
    lines, name = [], os.path.basename(opt.run)

    def echo(line):
        boot.show(line)
        lines.append(line)

    end = junit.Case('exit status', 'failed', 'the guest did not come to its end')
    try:
        status = boot.run(opt, echo)
        end = junit.Case(end.name, 'failed' if status else 'passed', str(status))
    finally:
        junit.write(opt.junit, {name: [*junit.read(lines), end]})
    return status


def cmd_module(opt):
    module.check_source(opt.folder)
    check_kernel(opt)
    graph(f'guest-{opt.arch}')
    for path in module.build(opt.arch, opt.folder, boot.the_kernel(opt)):
        ui.say(f'vermagic: {kernels.module_info(path.read_bytes(), "vermagic")}')
        print(ui.show(path))


def cmd_records(opt):
    if opt.comp and opt.counters > records.MAX_COUNTERS_COMP:
        opt.error(f'--counters {opt.counters}: compatibility mode has at most '
                  f'{records.MAX_COUNTERS_COMP}')
    records.show(opt.file, records.Layout(opt.clusters, opt.counters, opt.comp), opt.offset,
                 opt.records, opt.all, opt.csv)


def cmd_demo(opt):
    folder = opt.report and pathlib.Path(opt.report)
    if folder and folder.exists() and not folder.is_dir():
        raise ui.Fail(f'--report {folder}: not a folder')
    return demo.run(opt.arch, folder)


def cmd_topdown(opt):
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
        import report                       # with matplotlib
        if opt.svg:
            report.write(opt.svg, report.shares(found, options.title))
        if opt.html:
            report.write(opt.html, report.topdown_page(options.title, options.note(found), found,
                                                       timeline))
    return status


def cmd_set(opt):
    if opt.events is not None and opt.settings:
        opt.error('--events goes without settings')
    with ui.scratch('set-') as scratch, monitor.of_guest(opt.guest) as qmp:
        target = steer.Guest(qmp, scratch)
        if opt.events is not None:
            for unit, event, _, _ in target.catalog():
                if opt.events.lower() in f'{unit}/{event}'.lower():
                    print(f'{unit}/{event}')
        elif opt.settings:
            steer.assign(target, opt.settings)
        else:
            steer.show(target)


def cmd_count(opt):
    if not opt.args:
        opt.error('no PROGRAM behind --')
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
    if opt.list:
        if opt.catalog or opt.base or opt.output:
            opt.error('--list goes without --catalog, --base and -o')
        args = ['--list', opt.list]
    elif opt.catalog and opt.output:
        args = ['--base', opt.base or qemu.binary(qemu.PNOR + 'pnv-pnor-imc.bin'), '-o', opt.output,
                *(word for catalog in opt.catalog for word in ('--catalog', catalog))]
    else:
        opt.error('neither --list IMG, nor --catalog ID=FILE with -o IMG')
    graph('qemu')
    return subprocess.run([qemu.binary(qemu.PNOR + 'pnv-pnor'), *args]).returncode


def cmd_test(opt):
    if opt.coverage and (opt.suite or opt.list or opt.no_rebuild):
        raise ui.Fail('--coverage goes without --suite, --list and --no-rebuild',
                      "name tests of the suite qtest, or none for all; see 'pmu test --list'",
                      status=2)
    graph()
    if opt.coverage:
        opt.suite, os.environ['QEMU_PMU_KIND'] = ['qtest'], coverage.KIND
    found = list(testing.selected(opt.suite, opt.tests, opt.device))
    if opt.only:                                # the other suite is one test
        found = [test for test in found if test[0] != 'patches']
    if opt.list:
        for suite, name, _ in found:
            print(f'{suite:12} {name}')
        return 0
    if opt.coverage:
        graph(coverage.KIND)
        coverage.reset()
    elif not opt.no_rebuild:
        graph(*sorted({t for _, _, targets in found for t in targets}))
    status = testing.run([name for _, name, _ in found], opt.only, opt.verbose, opt.junit)
    if opt.times:
        testing.times()
    if opt.coverage:
        coverage.report()
    return status


def cmd_fuzz(opt):
    graph(fuzz.KIND)
    return fuzz.run(list(dict.fromkeys(opt.names or fuzz.TARGETS)), opt.time, opt.keep)


def cmd_clean(opt):
    if ui.BUILD.exists() and not ui.MARK.exists() and ui.HOME != ui.ROOT / 'build':
        raise ui.Fail(f'{ui.show(ui.HOME)} had files before pmu used it (it has no '
                      f'{ui.MARK.name})', 'remove the files of pmu by hand')
    if not opt.force and tree.REPO.exists():
        for build in [ui.BUILD] if ui.BASE else [ui.HOME, *(ui.HOME / b for b in tree.bases())]:
            tree.refuse_edits(build, '--force')
    for folder in [ui.BUILD] + [ui.CACHE] * opt.downloads:
        if folder.exists():
            print(f'removing {ui.show(folder)}', flush=True)
            shutil.rmtree(folder)
