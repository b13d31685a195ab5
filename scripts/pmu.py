# The command line.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""`pmu COMMAND`: parse the command line, and call the function of the command."""

import ui
from arguments import parser
from base import bases


def run(argv):
    # Everything behind `--` is for QEMU, or a command.
    args = []
    if argv[:1] in (['boot'], ['topdown'], ['count']) and '--' in argv:
        cut = argv.index('--')
        argv, args = argv[:cut], argv[cut + 1:]
    if not argv or argv[0] == 'help':
        parser().print_help()
        return 0
    opt, unknown = parser().parse_known_args(argv)
    if unknown:
        opt.error(f'unrecognized arguments: {" ".join(unknown)}')      # with the command's --help
    opt.args = args
    known = list(bases())
    base = getattr(opt, 'qemu_base', ui.BASE or known[0])
    if base not in known:                   # argparse checks --base, but not its default
        opt.error(f'QEMU_PMU_BASE: invalid choice: {base!r} (choose from {str(known)[1:-1]})')
    ui.use_base(base if base != known[0] else '')
    import commands                         # its modules take the base's folder from ui
    return getattr(commands, f"cmd_{opt.command}")(opt)


if __name__ == '__main__':
    ui.main(run)
