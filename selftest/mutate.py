# Break our code one rule at a time: which changes does no test notice?
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutation testing of the overlay's C, for developers: mutate.py [--files PATTERN]... [OPTIONS]

Each mutant changes one thing: a constant by one, an operator, a condition, an entry of a table, or
it drops a statement. It is built in a tree of its own (BUILD/mutant), and the unit tests and qtests
of its file run until one fails. Results are kept in BUILD/mutants.jsonl: run it again to go on.
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
# Which tests notice what is wrong with a file: the first pattern that fits, the quickest test first
ARM = ('arm-pmu-events-test', 'arm-pmu-topdown-test', 'hisi_pmcu-tcg-test', 'insn-count-test')
TESTS = (
    ('hw/misc/pmu-synthetic.c', 'aarch64', ('unit/test-pmu-synthetic', 'hisi_pmcu-test')),
    ('hw/*/*pmcu*.c', 'aarch64', ('hisi_pmcu-test', 'hisi_pmcu-tcg-test')),
    ('target/arm/*', 'aarch64', ('unit/test-pmu-arm', *ARM, 'hisi_pmcu-test')),
    ('hw/ppc/*', 'ppc64', ('pnv-imc-test', 'pnv-imc-core-test')),
    ('target/ppc/*', 'ppc64', ('ppc-count-test', 'pnv-imc-core-test')),
    ('target/i386/*', 'x86_64', ('x86-pmu-test', 'x86-topdown-test')),
    ('accel/*', 'aarch64', ARM), ('accel/*', 'ppc64', ('ppc-count-test',)),
    ('accel/*', 'x86_64', ('x86-pmu-test', 'x86-topdown-test')),
    ('pc-bios/*', 'ppc64', ('pc-bios/pnv-pnor/test-pnv-pnor', 'pnv-imc-test')))
OPERATORS = {'==': '!=', '!=': '==', '&&': '||', '||': '&&', '<': '<=', '<=': '<', '>': '>=',
             '>=': '>', '+': '-', '-': '+', '&': '|', '|': '&', '<<': '>>', '>>': '<<', '*': '+',
             '+=': '-=', '-=': '+=', '|=': '&=', '&=': '|=', 'true': 'false', 'false': 'true',
             'MIN': 'MAX', 'MAX': 'MIN', '++': '--', '--': '++'}
TOKEN = re.compile(r'(?<= )(?:[=!<>+|&-]=|&&|\|\||<<|>>|[<>+&|*-])(?=\s)|\b(?:true|false|MIN|MAX)\b|'
                   r'\+\+|--')
# What is printed is no rule, and the number of a stream's version has no other to be compared with.
EXEMPT = re.compile(r'trace_|qemu_log|g_assert|version_id|BUILD_BUG|error_(setg|report|append|pre)')


def mask(text):
    """The text with blanks instead of comments, strings and preprocessor lines."""
    pattern = r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S | re.M)


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
    code = mask(text)
    for m in TOKEN.finditer(code):
        yield *m.span(), OPERATORS.get(m[0], m[0])
    for m in re.finditer(r'(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?=[uUlL]*\b)', code):
        for step in (1, -1) if int(m[0], 0 if m[0][:2] == '0x' else 10) else (1,):
            yield *m.span(), f'({m[0]} {step:+d})'
    for m in re.finditer(r'\bif \(', code):
        end = closing(code, m.end() - 1)
        yield m.end(), end, f'!({text[m.end():end]})'
    for m in re.finditer(r'^ +(?:[\w>.\[\]*-]+ [-+|&^*/%<>]*= |[a-z]\w*\()[^;{}]*;$', code, re.M):
        yield m.start() + len(m[0]) - len(m[0].lstrip()), m.end(), ';'
    rows = list(re.finditer(r'^ *(?:\{ |\w+\(|\[\w+\] =)(.*?)(?:\}|\))?,?$', code, re.M))
    for one, two in zip(rows, rows[1:]):
        cells = [[*re.finditer(r'[^,]+', row[1])] for row in (one, two)]
        if one.end() + 1 == two.start() and len(cells[0]) == len(cells[1]):
            a, b = [next((row.start(1) + c.start(), row.start(1) + c.end())
                         for c in found[::-1] if c[0].strip() or len(found) == 1)
                    for row, found in zip((one, two), cells)]
            if text[a[0]:a[1]] != text[b[0]:b[1]]:
                yield a[0], b[1], text[b[0]:b[1]] + text[a[1]:b[0]] + text[a[0]:a[1]]


def selected(patterns, limit, seed):
    """Yield (file, line, what changes, the whole new text): a sample of each file's mutants."""
    for name in tree.overlay_files():
        if not re.search(r'\.c(\.inc)?$|\.h\.inc$', name) or not any(
                fnmatch.fnmatch(name, t[0]) for t in TESTS) or not any(
                fnmatch.fnmatch(name, p) for p in patterns or ['*']):
            continue
        text = (ui.ROOT / name).read_text()
        found = [m for m in mutants(text) if text[m[0]:m[1]] != m[2] and not EXEMPT.search(
            text[text.rfind('\n', 0, m[0]):text.find('\n', m[0])])]
        random.Random(seed).shuffle(found)
        for start, end, new in found[:limit]:
            line = text.count('\n', 0, start) + 1
            was = text[text.rfind('\n', 0, start) + 1:text.find('\n', end)]
            now = text[text.rfind('\n', 0, start) + 1:start] + new + text[end:text.find('\n', end)]
            yield name, line, ' '.join(f'{was}  ==>  {now}'.split()), text[:start] + new + text[end:]


def make(*goals):
    return subprocess.run(['ninja', *goals], cwd=qemu.folder(KIND), env=qemu.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)


def path_of(test):
    return test if test.startswith('pc-bios') else f'tests/{test}' if '/' in test \
        else f'tests/qtest/{test}'


def passes(target, test, seconds):
    """Whether a test passes within so many seconds."""
    env = {**os.environ, 'QTEST_QEMU_IMG': './qemu-img',
           'QTEST_QEMU_BINARY': f'./qemu-system-{target}'}
    with subprocess.Popen([f'./{path_of(test)}', '--tap'], cwd=qemu.folder(KIND), env=env,
                          start_new_session=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            return child.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)        # and QEMUs that it has left


def judge(name, limits):
    """What notices the mutant that is in the tree: 'compiler', a test's name, or '' if nothing."""
    for pattern, target, tests in TESTS:
        if fnmatch.fnmatch(name, pattern):
            for test in tests:
                if make(f'qemu-system-{target}', path_of(test)).returncode:
                    return 'compiler'
                if not passes(target, test, limits[target, test]):
                    return test
            if not pattern.startswith('accel'):
                break
    return ''


def prepare(names):
    """Lay out and build the tree; returns the seconds that each test may take."""
    tree.checkout(SRC, tree.prepare()['tip'])
    qemu.fetch_tools()
    qemu.configure(KIND, None)
    limits = {}
    for pattern, target, tests in TESTS:
        for test in tests if any(fnmatch.fnmatch(n, pattern) for n in names) else ():
            if (target, test) in limits:
                continue
            with ui.Step(f'build and run {test}, unchanged'):
                done = make(f'qemu-system-{target}', 'qemu-img', path_of(test),
                            *[qemu.PNOR + 'pnv-pnor-imc.bin', qemu.PNOR + 'pnv-pnor'] *
                            (target == 'ppc64'))
                start = time.monotonic()
                if done.returncode or not passes(target, test, 900):
                    raise ui.Fail(f'{test} fails without a mutant', "see './pmu test'")
                limits[target, test] = 30 + 4 * (time.monotonic() - start)
    return limits


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--files', metavar='PATTERN', action='append', help='only these files')
    parser.add_argument('--limit', metavar='N', type=int, default=20, help='of each file (20)')
    parser.add_argument('--seed', metavar='N', type=int, default=1, help='of the sample (1)')
    opt = parser.parse_args(argv)
    todo = list(selected(opt.files, opt.limit, opt.seed))
    if not todo:
        raise ui.Fail('no such file has tests', "see TESTS in selftest/mutate.py", status=2)
    known = {}
    if RESULTS.exists():
        known = {r['key']: r['by'] for r in map(json.loads, RESULTS.read_text().splitlines())}
    with ui.lock(ui.BUILD / KIND / 'lock', 'mutants'):
        limits = prepare({m[0] for m in todo})
        tally, live = collections.defaultdict(collections.Counter), []
        with ui.Step('mutants') as step, open(RESULTS, 'a') as log:
            for i, (name, line, what, text) in enumerate(todo):
                step.update(f'{i}/{len(todo)}, {len(live)} live, {name}')
                key = hashlib.sha1(f'{name}\n{text}'.encode()).hexdigest()
                if key not in known:
                    original = (SRC / name).read_text()
                    try:
                        (SRC / name).write_text(text)
                        known[key] = judge(name, limits)
                    finally:
                        (SRC / name).write_text(original)
                    print(json.dumps({'key': key, 'by': known[key], 'what': f'{name}:{line}: {what}'}),
                          file=log, flush=True)
                tally[name][known[key] and (known[key] == 'compiler' and 'compiler' or 'test')] += 1
                if not known[key]:
                    live.append(f'{name}:{line}: {what}')
                    print(live[-1], flush=True)
    for name, n in [*tally.items(), ('all', sum(tally.values(), collections.Counter()))]:
        print(f'{n["test"] + n[""]:5} mutants {n[""]:4} live '
              f'{100 * n[""] / max(1, n["test"] + n[""]):5.1f} %  {name}')
    return 0


ui.main(main)
