# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact counts of a program whose every instruction is known, and a baseline of them."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import functional
import ui

functional.need(functional.emulator('x86_64'), *functional.guest_files('x86'))

# Nine instructions, and two in each turn of the loop. "rep movsb" is one instruction with one
# load and one store, however much it copies; there is one more load, so that a count of stores
# differs from one of loads. The system call is a branch, too.
PROGRAM = '''
.globl _start
.bss
buffer: .skip 2000000
.text
_start:
    lea buffer(%rip), %rsi
    lea buffer+1000000(%rip), %rdi
    mov $1000000, %ecx
    rep movsb
    mov (%rsi), %eax
    mov $TURNS, %ecx
1:  dec %ecx
    jnz 1b
    mov $60, %eax
    xor %edi, %edi
    syscall
'''


def known(turns):
    return {'instructions': 9 + 2 * turns, 'branches': turns + 1, 'loads': 2, 'stores': 1}


class Exact(unittest.TestCase):
    def test_known(self):
        """each count is what the program's text says; a baseline tells a longer loop"""
        with tempfile.TemporaryDirectory(dir=ui.BUILD) as folder:
            program, saved = pathlib.Path(folder, 'program'), pathlib.Path(folder, 'saved.json')
            source = program.with_suffix('.S')

            def build(turns):
                source.write_text(PROGRAM.replace('TURNS', str(turns)))
                subprocess.run(['gcc', '-static', '-nostdlib', '-o', program, source], check=True)

            build(1000000)
            done = functional.pmu('count', '--json', saved, '--', program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(saved.read_text())['counts'], known(1000000))
            self.assertEqual({l.split()[0]: int(l.split()[1].replace(',', ''))
                              for l in done.stdout.splitlines()}, known(1000000))
            build(1010000)
            done = functional.pmu('count', '--baseline', saved, '--tolerance', '0.5', '--', program)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn('instructions and branches changed by more than 0.5 %', done.stderr)
            self.assertRegex(done.stdout, r'instructions +2,020,009 +\+1\.0000 %  <-')
