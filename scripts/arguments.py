# How the command line is read and explained.
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""argparse with one-line errors, and no abbreviations."""

import argparse
import re
import sys


class Help(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=30, width=79)

    def add_usage(self, usage, actions, groups, prefix=None):
        super().add_usage(usage, actions, groups, prefix or 'usage: ')


class Parser(argparse.ArgumentParser):
    def __init__(self, *args, **kw):
        super().__init__(*args, formatter_class=Help, allow_abbrev=False, **kw)

    def parse_known_args(self, args=None, namespace=None):
        # Each command reports its own unknown options, with its own --help.
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f'unrecognized arguments: {" ".join(unknown)}')
        return found, unknown

    def error(self, message):
        print(f"pmu: error: {message}; see '{self.prog} --help'", file=sys.stderr)
        sys.exit(2)


def positive(kind):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < float('inf'):
            raise argparse.ArgumentTypeError(f'{text!r} is not a number above 0')
        return value
    return parse


def at_least_0(text):
    return 0 if re.fullmatch(r'0+(\.0*)?', text) else positive(float)(text)


def between(least, most):
    """A whole number, also with 0x."""
    def parse(text):
        try:
            value = int(text, 0)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f'{text!r} is not a number from {least} to {most}')
        return value
    return parse
