# Break our code one rule at a time: which changes does no test notice?
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutation testing of the overlay's C, for developers: mutate.py [--files PATTERN]... [OPTIONS]

Each mutant changes one constant, operator, condition or entry of a table, or drops a statement. It
is built in a tree of its own (BUILD/mutant); the tests of its file run until one fails. What was
found out is kept in BUILD/mutants.jsonl: run it again to go on.
"""

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import qemu             # noqa: E402
import tree             # noqa: E402
import ui               # noqa: E402

KIND = 'mutant'
SRC, RESULTS = ui.BUILD / KIND / 'src', ui.BUILD / 'mutants.jsonl'
# Which tests notice what is wrong with a file: all patterns that fit count
ARM = 'arm-pmu-events-test arm-pmu-topdown-test insn-count-test hisi_pmcu-tcg-test'
TESTS = (('hw/misc/pmu/pmu-synthetic.c', 'aarch64', 'tests/unit/test-pmu-synthetic hisi_pmcu-test'),
         ('hw/*/*pmcu*.c', 'aarch64', 'hisi_pmcu-test hisi_pmcu-tcg-test'),
         ('target/arm/*', 'aarch64', f'tests/unit/test-pmu-arm {ARM} hisi_pmcu-test'),
         ('hw/ppc/*', 'ppc64', 'pnv-imc-test pnv-imc-core-test'),
         ('target/ppc/*', 'ppc64', 'ppc-count-test pnv-imc-core-test'),
         ('target/i386/*', 'x86_64', 'x86-pmu-test x86-topdown-test'),
         ('accel/*', 'aarch64', ARM), ('accel/*', 'ppc64', 'ppc-count-test'),
         ('accel/*', 'x86_64', 'x86-pmu-test'),
         ('pc-bios/*', 'ppc64', 'pc-bios/pnv-pnor/test-pnv-pnor'))
OPERATORS = {'==': '!=', '!=': '==', '&&': '||', '||': '&&', '<': '<=', '<=': '<', '>': '>=',
             '>=': '>', '+': '-', '-': '+', '&': '|', '|': '&', '<<': '>>', '>>': '<<', '*': '+',
             '+=': '-=', '-=': '+=', '|=': '&=', '&=': '|=', 'true': 'false', 'false': 'true',
             'MIN': 'MAX', 'MAX': 'MIN', '++': '--', '--': '++'}
TOKEN = re.compile(r'(?<= )([=!<>+|&-]=|&&|\|\||<<|>>|[<>+&|*-])(?=\s)|\b(true|false|MIN|MAX)\b|'
                   r'\+\+|--')
# Not seen by tests: what is printed or freed; and there is one version of streams.
EXEMPT = re.compile(r'trace_|qemu_log|g_assert|version_id|BUILD_BUG|error_(setg|report|append|pre)|'
                    r'g_free|unref\(')


def closing(code, start):
    """Where the bracket that opens at start is closed."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] in '([{') - (code[i] in ')]}')
        if not depth:
            return i
    return len(code)


def mutants(text):
    """Yield (start, end, new text) of each change to make."""
    # Comments, strings and preprocessor lines become blanks.
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\'|^[ \t]*#(?:.*\\\n)*.*?$',
                  lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S | re.M)
    for m in TOKEN.finditer(code):
        yield *m.span(), OPERATORS[m[0]]
    for m in re.finditer(r'(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?=[uUlL]*\b)', code):
        for step in (1, -1) if m[0].strip('0x') else (1,):
            yield *m.span(), f'({m[0]} {step:+d})'
    for m in re.finditer(r'\bif \(', code):
        end = closing(code, m.end() - 1)
        yield m.end(), end, f'!({text[m.end():end]})'
    for m in re.finditer(r'^ +(?=[\w>.\[\]*-]+ [-+|&^*/%<>]*= |[a-z]\w*\()[^;{}]*;$', code, re.M):
        yield m.end() - len(m[0].lstrip()), m.end(), ';'
    rows = list(re.finditer(r'^ *(?:\{ |\w+\(|\[\w+\] =)(?:.*,)?([^,;\n]+?)(?:\}|\))?,?$', code, re.M))
    for one, two in zip(rows, rows[1:]):
        (a, b), (c, d) = one.span(1), two.span(1)
        if one.end() + 1 == two.start() and text[a:b] != text[c:d]:
            yield a, d, text[c:d] + text[b:c] + text[a:b]


def selected(patterns, limit, seed):
    """Yield (file, what changes, the whole new text): a sample of each file's mutants."""
    for name in tree.overlay_files():
        if not re.search(r'\.c(\.inc)?$|\.h\.inc$', name) or not tests_of(name) or not any(
                fnmatch.fnmatch(name, p) for p in patterns):
            continue
        text, found = (ui.ROOT / name).read_text(), []
        for start, end, new in mutants(text):
            first, last = text.rfind('\n', 0, start) + 1, text.find('\n', end)
            if text[start:end] != new and not EXEMPT.search(text[first:last]):
                what = f'{text[first:last]}  ==>  {text[first:start]}{new}{text[end:last]}'
                found.append((name, f'{name}:{text.count(chr(10), 0, start) + 1}: ' +
                              ' '.join(what.split()), text[:start] + new + text[end:]))
        random.Random(seed).shuffle(found)
        yield from found[:limit]


def tests_of(name):
    return [(target, test if '/' in test else f'tests/qtest/{test}') for pattern, target, tests
            in TESTS if fnmatch.fnmatch(name, pattern) for test in tests.split()]


def build(*goals):
    return not subprocess.run(['ninja', *goals], cwd=qemu.folder(KIND), env=qemu.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True).returncode


def passes(target, test, seconds):
    """Whether a test passes within so many seconds."""
    env = {**os.environ, 'QTEST_QEMU_IMG': './qemu-img',
           'QTEST_QEMU_BINARY': f'./qemu-system-{target}'}
    with subprocess.Popen([f'./{test}', '--tap'], cwd=qemu.folder(KIND), env=env,
                          start_new_session=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            return child.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)        # and QEMUs that it has left


def seconds(target, test):
    """Build a test for code without a mutant, and run it; returns how long a mutant may take."""
    with ui.Step(f'build and run {test}, unchanged'):
        built = build(f'qemu-system-{target}', 'qemu-img', test, *goals_of(target))
        start = time.monotonic()
        if not built or not passes(target, test, 900):
            raise ui.Fail(f'{test} fails without a mutant', "see './pmu test'")
    return 30 + 4 * (time.monotonic() - start)


def goals_of(target):
    return [qemu.PNOR + name for name in ('pnv-pnor', 'pnv-pnor-imc.bin') if target == 'ppc64']


def judge(name, limits):
    """What notices the mutant that is in the tree: 'compiler', a test's name, or '' if nothing."""
    for target, test in tests_of(name):
        if not build(f'qemu-system-{target}', test, *goals_of(target)):
            return 'compiler'
        if not passes(target, test, limits[target, test]):
            return test
    return ''


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--files', metavar='PATTERN', action='append', help='only these files')
    parser.add_argument('--limit', metavar='N', type=int, default=20, help='of each file (20)')
    parser.add_argument('--seed', metavar='N', type=int, default=1, help='of the sample (1)')
    opt = parser.parse_args(argv)
    todo = list(selected(opt.files or ['*'], opt.limit, opt.seed))
    if not todo:
        raise ui.Fail('there is no such file with tests', 'see TESTS in selftest/mutate.py')
    known, limits = {}, {}
    if RESULTS.exists():
        known = {r['key']: r['by'] for r in map(json.loads, RESULTS.read_text().splitlines())}
    tally = collections.defaultdict(collections.Counter)
    with ui.lock(ui.BUILD / KIND / 'lock', 'mutants'), open(RESULTS, 'a') as log:
        tree.checkout(SRC, tree.prepare()['tip'])
        qemu.fetch_tools()
        qemu.configure(KIND, None)
        qemu.link_firmware(KIND)
        for i, (name, what, text) in enumerate(todo, 1):
            key = hashlib.sha1(f'{name}\n{text}'.encode()).hexdigest()
            if key not in known:
                for test in set(tests_of(name)) - set(limits):
                    limits[test] = seconds(*test)
                original = (SRC / name).read_text()
                with ui.Step(f'mutant {i} of {len(todo)}: {what}'):
                    try:
                        (SRC / name).write_text(text)
                        known[key] = judge(name, limits)
                    finally:
                        (SRC / name).write_text(original)
                print(json.dumps({'key': key, 'by': known[key], 'what': what}), file=log)
                log.flush()
            tally[name][known[key]] += known[key] != 'compiler'
            if not known[key]:
                print(f'lives: {what}', flush=True)
    for name, by in [*tally.items(), ('all', sum(tally.values(), collections.Counter()))]:
        print(f'{by.total():5} mutants, {by[""]} live  {name}')


if __name__ == '__main__':
    ui.main(main)
