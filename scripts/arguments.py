# SPDX-License-Identifier: GPL-2.0-or-later
"""argparse for the options of commands.ini, with one-line errors and no abbreviations."""

import argparse
import configparser
import contextlib
import os
import re
import sys
from argparse import ArgumentTypeError

import ui
from base import bases

FILES = 'FILE|DIR|SCRIPT|IMG'       # words for the value of an option that is a file
NOT_EMPTY = f'{FILES}|N$|NNNN|SIZE|SUBJECT'     # and for those that must not be '', either
NO_BASE = ('records', 'doctor', 'pnor')       # commands that do not depend on it


class Parser(argparse.ArgumentParser):
    def __init__(self, *args, **kw):
        super().__init__(*args, allow_abbrev=False, formatter_class=lambda prog:
                         argparse.HelpFormatter(prog, max_help_position=30, width=79), **kw)

    def error(self, message):
        message = re.sub('^argument .*?: (?=--)', '', message)      # it names the option itself
        ui.say(f"error: {message}; see '{self.prog} --help'")
        sys.exit(2)


# -- values -----------------------------------------------------------------

def number(kind, least, most=10 ** 9):
    def parse(text):
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise ArgumentTypeError(f'{text!r} is not a number from {least} to {most}')
    return parse


def whole(text):
    """A whole number, also with 0x."""
    return int(text, 0)


class NotEmpty(argparse.Action):
    """A value that must not be '', as that of a variable of a shell which is not set."""

    def __call__(self, parser, namespace, value, option_string=None):
        if value == '':
            what = 'a file or a folder' if re.match(FILES, self.metavar) else self.metavar
            parser.error(f"{option_string or self.metavar}: expected {what}, not ''")
        setattr(namespace, self.dest, value)


def word(option, pattern, what):
    """A text of this form."""
    def parse(text):
        if not re.fullmatch(pattern, text):
            raise ArgumentTypeError(f'{option} {text}: expected {what}'.lstrip())
        return text
    return parse


def packages(text):
    package = word('--with', '[a-z0-9][a-z0-9+.-]*[a-z0-9+]', 'the name of a Debian package')
    return [package(name) for name in text.split(',')]


def at_path(option, default=''):
    """(text, guest path, host path) of HOST=/PATH/IN/GUEST"""
    def parse(text):
        source, at, target = text.rpartition('=/')      # a name may have an equals sign
        source, target = (source, f'/{target}') if at else (text, default)
        if not source or not target.startswith('/') or not target.strip('/'):
            raise ArgumentTypeError(f'{option} {text}: expected {"DIR" if default else "FILE"}'
                                    '=/PATH/IN/GUEST')
        if not os.path.isdir(source) and (default or not os.path.isfile(source)):
            raise ui.Fail(f'{option} {source}: {"not a" if os.path.exists(source) else "no such"} '
                          f'{"folder" if default else "file or folder"}')
        if target.endswith('/') and os.path.isfile(source):
            target += os.path.basename(source)          # as cp does
        return text, target, os.path.abspath(source)
    return parse


def module(text):
    """(file, arguments) of --module"""
    match = re.fullmatch(r'(.+?\.ko)(?::(.*))?', text)
    if not match:
        raise ArgumentTypeError(f'--module {text}: expected FILE.ko or FILE.ko:ARGUMENTS')
    if not os.path.isfile(match[1]):
        raise ui.Fail(f'--module {match[1]}: no such file')
    return match[1], match[2] or ''


def from_guest(text):
    """(text, guest path, host path) of --get"""
    path, _, local = text.partition('=')
    local = local or os.path.basename(path.rstrip('/'))
    if not path.startswith('/') or not path.strip('/') or not local or '..' in path.split('/'):
        raise ArgumentTypeError(f'--get {text}: expected /PATH/IN/GUEST or /PATH/IN/GUEST=FILE')
    path = '/' + os.path.normpath(path).lstrip('/')
    if f'{path}/'.startswith(('/proc/', '/sys/')):      # tar believes their sizes, which are 0 or wrong
        raise ui.Fail(f'--get {path}: this is no file on a disk',
                      'let SCRIPT copy it to one, and get that')
    if not os.path.isdir(local):            # whose content a folder of the guest adds to
        ui.check_output(local)
    elif not os.access(local, os.W_OK):
        raise ui.Fail(f'--get {text}: {local} may not be written', 'give another folder')
    return text, path, os.path.abspath(local)


class Paths(argparse.Action):
    """Collect {guest path: host path}."""

    def __call__(self, sub, opt, values, option=None):
        (text, target, path), found = values, getattr(opt, self.dest)
        if option in ('--share', '--get') and target in found:
            sub.error(f'{option} {text}: {target} is taken by {found[target]}')
        if option == '--get' and path in found.values():
            sub.error(f'--get {text}: another --get goes to {path}')
        setattr(opt, self.dest, {**found, target: path})


# -- commands ---------------------------------------------------------------

PATHS = {'action': Paths, 'default': {}}
MORE = {        # arguments of add_argument() that commands.ini does not have
    'bench --rounds': {'type': number(int, 1, 10 ** 4)},
    'boot --get': {'type': from_guest, 'dest': 'gets', **PATHS},
    'boot --initrd-add': {'type': at_path('--initrd-add'), 'dest': 'files', **PATHS},
    'boot --modprobe': {'type': word('--modprobe', r'[\w-]+', 'the name of a module')},
    'boot --module': {'type': module, 'dest': 'modules'},
    'boot --share': {'type': at_path('--share', '/share'), 'dest': 'shares', **PATHS},
    'boot --timeout': {'type': number(float, 0.001)},
    'boot --with': {'type': packages, 'dest': 'packages', 'action': 'extend'},
    'count --tolerance': {'type': number(float, 0)},
    'fuzz --time': {'type': number(int, 1)},
    'install --prefix': {'required': True},
    'kernel --kernel-flavour': {'type': word('--kernel-flavour', '[a-z0-9]*', 'a name')},
    'kernel --release': {'type': word('--release', '([a-z][a-z0-9-]*)?',
                                      'the name of a Debian release, such as bookworm')},
    'pnor -o': {'dest': 'output'},
    'rebase --continue': {'dest': 'go_on'},
    'records --clusters': {'type': number(whole, 1, 255), 'required': True},
    'records --counters': {'type': number(whole, 1, 8), 'required': True},
    'records --offset': {'type': number(whole, 0, 2 ** 63 - 1)},
    'records --records': {'type': number(int, 1), 'default': None},
    'set --events': {'default': None},          # not the same as '', which all events have
    'test --suite': {'choices': ('unit', 'patches', 'qtest', 'functional', 'browser', 'lava')},
    'test -k': {'dest': 'only'},
    # QEMU says what is wrong with the numbers.
    'topdown --mix': {'type': word('--mix', r'([\d.]+(/[\d.]+){3}((/[\d.]+){4})?)?',
                                   '4 or 8 percentages, as 10/60/20/10')},
    'watch --count': {'type': number(int, 1), 'default': None},
    'watch --interval': {'type': number(float, 0.001)},
}
EXCLUSIVE = {'export': ('--patch', '--new-patch'), 'rebase': ('--continue', '--discard')}


def add(sub, group, section, key, text):
    """An option or a word of commands.ini."""
    left, _, default = key.partition(' = ')
    marked, _, metavar = left.partition(' ')
    many, name = marked.endswith('*'), marked.rstrip('*?')
    dashes = name.startswith('-')
    kw = {'help': text.format(cache=str(ui.CACHE).replace('%', '%%')) or argparse.SUPPRESS}
    if not metavar:
        kw['action'] = 'store_true'
    else:
        kw.update(metavar=metavar, default=None if not dashes else [] if many else default)
        if re.fullmatch(r'[a-z0-9_|]+', metavar):
            # `choices` of words that may be left out refuse that.
            kw |= {'type': word('', metavar, metavar)} if many else {'choices': metavar.split('|')}
        if many and dashes:
            kw['action'] = 'append'
        elif re.match(NOT_EMPTY, metavar):
            kw['action'] = NotEmpty
        elif not dashes and marked != name:
            kw['nargs'] = marked[-1]
    where = group if name in EXCLUSIVE.get(section, ()) else sub
    where.add_argument(name, **{**kw, **MORE.get(f'{section} {name}', {})})


def parser():
    top = Parser(prog='pmu', usage='pmu COMMAND [OPTIONS]',
                 epilog="'pmu COMMAND --help' explains a command.",
                 description='Build a QEMU with emulated performance-monitoring units, boot '
                             'unmodified guests on it, and test it.')
    commands = top.add_subparsers(metavar='COMMAND', dest='command', required=True, prog='pmu',
                                  parser_class=Parser)
    known = configparser.ConfigParser(delimiters=(' :',), interpolation=None)
    known.optionxform = str
    known.read(ui.ROOT / 'scripts/commands.ini')
    for command in known.sections():
        if command.startswith('+'):
            continue
        lines = dict(known[command])
        summary = lines.pop('summary')
        sub = commands.add_parser(
            command, help=summary, description=f'{summary[0].upper()}{summary[1:]}.',
            usage=f'pmu {command} {lines.pop("usage")}' if 'usage' in lines else None,
            epilog=lines.pop('epilog', ''))
        sub.set_defaults(args=[], error=sub.error)
        if command not in NO_BASE:
            names = list(bases())
            sub.add_argument('--base', metavar='NAME', choices=names, dest='qemu_base',
                             default=ui.BASE or names[0],
                             help=f'the QEMU release: {" or ".join(names)} (default: {names[0]})')
        group = sub.add_mutually_exclusive_group() if command in EXCLUSIVE else sub
        for key, text in lines.items():
            shared = known[key].items() if key.startswith('+') else ()
            for one in shared or [(key, text)]:
                add(sub, group, key[1:] if shared else command, *one)
    return top
