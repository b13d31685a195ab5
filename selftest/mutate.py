# Break our code one rule at a time: which changes does no test notice?
#
# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutation testing of our C, for developers: mutate.py [--files PATTERN]... [OPTIONS]

Each mutant changes one constant, operator, condition or entry of a table, or drops a statement. It
is built in a tree of its own (BUILD/mutant); the tests of its file run until one fails. Of QEMU's
own files, only the lines that the series adds are changed. What was found out is kept in
BUILD/mutants.jsonl: run it again to go on. mutants.txt has those that change nothing that can be
seen, and why.
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
import tempfile
import threading
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'scripts'))
import qemu             # noqa: E402
import tree             # noqa: E402
import ui               # noqa: E402

KIND = 'mutant'
SRC, RESULTS = ui.BUILD / KIND / 'src', ui.BUILD / 'mutants.jsonl'
EQUIVALENT = pathlib.Path(__file__).parent / 'mutants.txt'
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
         ('hw/arm/virt.c', 'aarch64', 'hisi_pmcu-test'),
         ('hw/arm/virt-acpi-build.c', 'aarch64', 'hisi_pmcu-test'),
         ('hw/intc/apic.c', 'x86_64', 'x86-pmu-test x86-topdown-test'),
         ('system/*', 'x86_64', 'x86-pmu-test'), ('tcg/*', 'x86_64', 'x86-pmu-test'),
         *((f'pc-bios/pnv-pnor/{file}.c', 'ppc64', 'pc-bios/pnv-pnor/test-pnv-pnor')
           for file in ('catalog', 'pnor')))
OPERATORS = {'==': '!=', '!=': '==', '&&': '||', '||': '&&', '<': '<=', '<=': '<', '>': '>=',
             '>=': '>', '+': '-', '-': '+', '&': '|', '|': '&', '<<': '>>', '>>': '<<', '*': '+',
             '+=': '-=', '-=': '+=', '|=': '&=', '&=': '|=', 'true': 'false', 'false': 'true',
             'MIN': 'MAX', 'MAX': 'MIN', '++': '--', '--': '++'}
TOKEN = re.compile(r'(?<= )([=!<>+|&-]=|&&|\|\||<<|>>|[<>+&|*-])(?=\s)|\b(true|false|MIN|MAX)\b|'
                   r'\+\+|--')
# Not seen by tests: what is printed or freed; few streams are of another version, and a wrong type of
# a helper's argument is the compiler's, or the same.
EXEMPT = re.compile(r'trace_|qemu_log|g_assert|version_id|error_(setg|report|append|pre)|'
                    r'g_set_error|g_free|g_array_free|unref\(|DEF_HELPER|_description\(')


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
    # So do the compiler's checks: one that is weaker is no rule that a test could miss.
    for m in re.finditer(r'BUILD_BUG_ON(?=\()', code):
        end = closing(code, m.end())
        code = code[:m.start()] + re.sub(r'[^\n]', ' ', code[m.start():end]) + code[end:]
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
        if one.end() + 1 == two.start() and text[a:b] != text[c:d] and \
                not re.match(r'\s*/\*', text[a:b]) and not re.match(r'\s*/\*', text[c:d]) and \
                all(closing(f'({text[i:j]})', 0) == j - i + 1 for i, j in ((a, b), (c, d))):
            yield a, d, text[c:d] + text[b:c] + text[a:b]


def added(diff):
    """{file: numbers of the lines that are new} of a diff without context."""
    found = {}
    for line in diff.splitlines():
        if line.startswith('+++ b/'):
            numbers = found.setdefault(line[6:], set())
        elif m := re.match(r'@@ \S+ \+(\d+)(?:,(\d+))? ', line):
            numbers.update(range(int(m[1]), int(m[1]) + int(m[2] or 1)))
    return found


def selected(patterns, limit, seed, patched=()):
    """Yield (file, what changes, the whole new text): a sample of each file's mutants, one of each
    file after the other. Of QEMU's own files, `patched` has the numbers of our lines."""
    samples, ours = [], tree.overlay_files()
    for name in [*ours, *sorted(set(patched) - set(ours))]:
        # No test has KVM.
        if not re.search(r'\.c(\.inc)?$|\.h\.inc$', name) or '/kvm/' in name or not any(
                fnmatch.fnmatch(name, p) for p in patterns) or not tests_of(name):
            continue
        lines = None if name in ours else patched[name]
        text, found = ((ui.ROOT if lines is None else SRC) / name).read_text(), []
        for start, end, new in mutants(text):
            first, last = text.rfind('\n', 0, start) + 1, text.find('\n', end)
            number = text.count('\n', 0, start) + 1
            if text[start:end] != new and not EXEMPT.search(text[first:last]) and (
                    lines is None or number in lines):
                what = f'{text[first:last]}  ==>  {text[first:start]}{new}{text[end:last]}'
                found.append((name, f'{name}:{number}: ' + ' '.join(what.split()),
                              text[:start] + new + text[end:]))
        random.Random(seed).shuffle(found)
        samples.append(found[:limit])
    for i in range(limit):
        yield from (found[i] for found in samples if i < len(found))


def equivalent():
    """Mutants that change nothing, without their lines' numbers: {what: why}."""
    text = re.sub(r'^#.*\n', '', EQUIVALENT.read_text(), flags=re.M)
    return dict(re.findall(r'^(\S.*)\n    (\S.*)$', text, re.M))


def unnumbered(what):
    return re.sub(r'^([^:]+):\d+:', r'\1:', what)


def tests_of(name):
    return [(target, test if '/' in test else f'tests/qtest/{test}') for pattern, target, tests
            in TESTS if fnmatch.fnmatch(name, pattern) for test in tests.split()]


class Test(typing.NamedTuple):
    """A test program, and how many seconds each of its cases takes without a mutant."""
    target: str
    program: str
    cases: dict


class Runner:
    """Runs cases of tests, several at a time, until one fails."""

    def __init__(self):
        self.tests, self.found = {}, collections.defaultdict(collections.Counter)

    def prepare(self, tests):
        """Some tests, built and measured without a mutant when first asked for."""
        if new := [test for test in tests if test not in self.tests]:
            with ui.Step('build and run the tests, unchanged') as step:
                if not build(*(goal for test in new for goal in goals(*test))):
                    raise ui.Fail('the tests do not compile', "see './pmu build'")
                for test in new:
                    step.detail = test[1]
                    self.tests[test] = measured(*test)
        return [self.tests[test] for test in tests]

    def judge(self, name, text, what):
        """What notices that a file has this text: 'compiler', a case of a test, or ''. Unit tests
        come first, since an emulator takes longer to build, then one target after the other."""
        def order(test):
            return test[0], test[1].startswith('tests/qtest/')
        original, all_tests = (SRC / name).read_text(), tests_of(name)
        for now in dict.fromkeys(map(order, all_tests)):
            tests = self.prepare([test for test in all_tests if order(test) == now])
            try:
                with ui.Step(what):
                    (SRC / name).write_text(text)
                    if by := self.noticed(name, tests):
                        return by
            finally:
                (SRC / name).write_text(original)
        return ''

    def noticed(self, name, tests):
        if not build(*(goal for test in tests for goal in goals(test.target, test.program))):
            return 'compiler'
        if by := self.first_failure(self.packets(name, tests)):
            self.found[name][by] += 1
        return by

    def packets(self, name, tests):
        """Which cases to run in one process: those that found mutants of this file come first,
        then short ones."""
        found = self.found[name]
        for known in True, False:
            packets = collections.defaultdict(dict)
            for _, seconds, case, i in sorted(
                    (-found[case], seconds, case, i) for i, test in enumerate(tests)
                    for case, seconds in test.cases.items() if bool(found[case]) == known):
                if packets[i] and sum(packets[i].values()) + seconds > 2:
                    yield tests[i], list(packets.pop(i))
                packets[i][case] = seconds
            yield from ((tests[i], list(packet)) for i, packet in packets.items())

    def first_failure(self, packets):
        """Run packets of cases, as many at a time as there are CPUs, until a case fails."""
        packets, lock, end, failed = iter(packets), threading.Lock(), threading.Event(), []

        def work():
            while not end.is_set():
                with lock:
                    test, cases = next(packets, (None, None))
                if not test:
                    return
                if by := failure(test, cases, end):
                    failed.append(by)
                    end.set()
        workers = [threading.Thread(target=work, daemon=True) for _ in range(os.cpu_count())]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        finally:
            end.set()
        return failed[0] if failed else ''


def build(*what):
    return not subprocess.run(['ninja', *dict.fromkeys(what)], cwd=qemu.folder(KIND),
                              env=qemu.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True).returncode


def goals(target, program):
    """What a test needs, besides itself"""
    qtest = program.startswith('tests/qtest/')
    needs = ('pnv-pnor', 'pnv-pnor-imc.bin') if qtest and target == 'ppc64' else \
        ('pnv-imc-4e0200.dtb', 'pnv-imc-800200.dtb') if program.startswith(qemu.PNOR) else ()
    return [program, *([f'qemu-system-{target}', 'qemu-img'] if qtest else []),
            *(qemu.PNOR + name for name in needs)]


@contextlib.contextmanager
def start(target, program, *options, **kw):
    """A test program that runs, and its end with the QEMUs that it leaves."""
    env = {**os.environ, 'QTEST_QEMU_IMG': './qemu-img',
           'QTEST_QEMU_BINARY': f'./qemu-system-{target}'}
    with subprocess.Popen([f'./{program}', '--tap', *options], cwd=qemu.folder(KIND), env=env,
                          start_new_session=True, stdin=subprocess.DEVNULL, text=True,
                          errors='replace', stderr=subprocess.DEVNULL, **kw) as child:
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def measured(target, program):
    """The test, after a run; a second one if it fails, since a busy host can be the reason. What
    was measured is kept beside the program, as long as that is the same."""
    kept = qemu.folder(KIND) / f'{program}-{target}.times'
    digest = hashlib.sha1((qemu.folder(KIND) / program).read_bytes()).hexdigest()
    if kept.exists() and (times := json.loads(kept.read_text())).pop('', '') == digest:
        return Test(target, program, times)
    for _ in range(2):
        times, last = {}, time.monotonic()
        with start(target, program, stdout=subprocess.PIPE) as child:
            for line in child.stdout:
                if m := re.match(r'ok \d+ (\S+)', line):
                    times[m[1]] = time.monotonic() - last
                    last = time.monotonic()
            if not child.wait() and times:
                kept.write_text(json.dumps({'': digest, **times}))
                return Test(target, program, times)
    raise ui.Fail(f'{program} fails without a mutant', "see './pmu test'")


def failure(test, cases, end, *options):
    """The first of these cases that fails, or takes far too long; None if there is none."""
    limit = time.monotonic() + 20 + 5 * sum(test.cases[case] for case in cases)
    with tempfile.TemporaryFile('w+', errors='replace') as out:
        with start(test.target, test.program, *options, *(f'-p={case}' for case in cases),
                   stdout=out) as child:
            while child.poll() is None and time.monotonic() < limit and not end.wait(0.02):
                pass
            if child.poll() == 0 or end.is_set():
                return None
            hangs = child.poll() is None
        out.seek(0)
        text = out.read()
    passed = re.findall(r'^ok \d+ (\S+)', text, re.M)
    # They run in the order of the options.
    n = next((n for n, case in enumerate(cases) if case not in passed), len(cases) - 1)
    # Once more, since a busy host can have been the reason.
    seed = re.search(r'^# random seed: (\S+)', text, re.M)
    if hangs or options or failure(test, cases[:n + 1], end,
                                   f'--seed={seed[1]}' if seed else '-q'):
        return cases[n]
    return None


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--files', metavar='PATTERN', action='append', help='only these files')
    parser.add_argument('--patched', action='store_true',
                        help="only QEMU's own files, of which our lines are changed")
    parser.add_argument('--limit', metavar='N', type=int, default=20, help='of each file (20)')
    parser.add_argument('--seed', metavar='N', type=int, default=1, help='of the sample (1)')
    parser.add_argument('--again', action='store_true', help='try those that lived again')
    opt = parser.parse_args(argv)
    known, runner, same = {}, Runner(), equivalent()
    if RESULTS.exists():
        for r in map(json.loads, RESULTS.read_text().splitlines()):
            known[r['key']] = r['by']
            runner.found[r['what'].partition(':')[0]][r['by']] += r['by'].startswith('/')
    if opt.again:
        known = {key: by for key, by in known.items() if by}
    tally = collections.defaultdict(collections.Counter)
    with ui.lock(ui.BUILD / KIND / 'lock', 'mutants'), open(RESULTS, 'a') as log:
        now = tree.prepare()
        tree.checkout(SRC, now['tip'])
        lines = added(tree.git('diff', '-U0', now['base'], now['tip']))
        todo = [mutant for mutant in selected(opt.files or ['*'], opt.limit, opt.seed, lines)
                if not opt.patched or mutant[0] not in tree.overlay_files()]
        if not todo:
            raise ui.Fail('there is no such file with tests', 'see TESTS in selftest/mutate.py')
        qemu.fetch_tools()
        qemu.configure(KIND)
        qemu.link_firmware(KIND)
        try:
            for i, (name, what, text) in enumerate(todo, 1):
                key = hashlib.sha1(f'{name}\n{text}'.encode()).hexdigest()
                if unnumbered(what) in same:
                    known[key] = 'equivalent'
                if key not in known:
                    live = sum(by[''] for by in tally.values())
                    known[key] = runner.judge(
                        name, text, f'mutant {i} of {len(todo)}, {live} live: {what}')
                    print(json.dumps({'key': key, 'by': known[key], 'what': what}), file=log)
                    log.flush()
                tally[name][known[key]] += known[key] != 'compiler'
                if not known[key]:
                    print(f'lives: {what}', flush=True)
        finally:                            # also after Ctrl-C
            tally['all'] = sum(tally.values(), collections.Counter())
            for name, by in tally.items():
                print(f'{by.total():5} mutants, {by["equivalent"]} equivalent, {by[""]} live  '
                      f'{name}')


if __name__ == '__main__':
    qemu.KINDS[KIND] = qemu.Kind(source=KIND)
    ui.main(main)
