# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line, `pmu COMMAND`: parse the command line, and call the function of the command."""

import importlib
import shlex

import ui
from arguments import parser
from base import bases

# Commands that are not in a module of their name
MODULES = {'prepare': 'tree', 'clean': 'tree', 'build': 'qemu', 'install': 'qemu', 'pnor': 'qemu',
           'test': 'testing', 'bench': 'benchmarks', 'set': 'steer', 'watch': 'steer'}
# What everything behind `--` is, of commands that have that
BEHIND = {'boot': "QEMU's own options go", 'topdown': 'COMMAND goes', 'count': 'PROGRAM goes'}


def run(argv):
    args, behind = [], BEHIND.get(''.join(argv[:1]))
    if behind and '--' in argv:
        cut = argv.index('--')
        argv, args = argv[:cut], argv[cut + 1:]
    if argv[:1] in ([], ['help']):
        argv = [*argv[1:], '--help']        # of a command, perhaps
    opt, unknown = parser().parse_known_args(argv)
    if unknown:
        opt.error(f'unrecognized arguments: {" ".join(unknown)}'        # with its --help
                  + (f'; {behind} behind --' if behind else ''))
    if behind and opt.command != 'boot':
        if opt.words:
            raise ui.Fail(f'{behind} behind "--"', f'pmu {opt.command} -- {shlex.join(opt.words)}',
                          status=2)
        if not args:
            opt.error(f'no {behind.split()[0]} behind --')
        if not args[0]:
            opt.error("the program behind -- is ''")
    opt.args = args
    known = list(bases())
    base = getattr(opt, 'qemu_base', ui.BASE or known[0])
    if base not in known:                   # argparse checks --base, but not its default
        opt.error(f'QEMU_PMU_BASE: invalid choice: {base!r} (choose from {str(known)[1:-1]})')
    ui.use_base(base if base != known[0] else '')
    # It takes the base's folder from ui.
    module = importlib.import_module(MODULES.get(opt.command, opt.command))
    return getattr(module, f'cmd_{opt.command}')(opt)


if __name__ == '__main__':
    ui.main(run)
