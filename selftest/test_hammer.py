# SPDX-License-Identifier: GPL-2.0-or-later
"""Eight vCPUs, each with a thread of its own, write to their PMUs at once: all counts are right."""

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import functional
from fixtures import wait_for

# Runs from reset in real mode, on all CPUs. A CPU's record is at 1000h + 32 * APIC ID: done,
# failures, PMIs, instructions. Counter 0 and fixed counter 0 count all instructions. Counter 1
# interrupts at random periods; others are switched on and off, and count random events.
X86 = '''
        .intel_syntax noprefix
        .code16
start:  xor     eax, eax
        mov     ds, ax
        mov     ss, ax
        mov     ecx, 0x1b               # x2APIC
        rdmsr
        or      eax, 0xc00
        wrmsr
        mov     ebx, eax
        mov     ecx, 0x802              # APIC ID
        rdmsr
        mov     esi, eax
        mov     ebp, eax
        shl     ebp, 5
        add     ebp, 0x1000
        shl     eax, 9
        lea     esp, [eax + 0x4200]
        xor     edx, edx
        mov     ecx, 0x80f              # spurious interrupts: the APIC is on
        mov     eax, 0x1ff
        wrmsr
        test    ebx, 0x100              # the first CPU
        jz      1f
        mov     dword ptr [8], 0xf0000000 + nmi - start
        mov     ecx, 0x830              # INIT, then SIPI, to all others
        mov     eax, 0xc4500
        wrmsr
        mov     eax, 0xc46f0
        wrmsr
1:      mov     ecx, 0x834              # PMIs are NMIs
        mov     eax, 0x400
        wrmsr
        mov     ecx, 0x38f              # a reset switches counters on
        xor     eax, eax
        wrmsr
        mov     ecx, 0x186              # counters 0 and 1: instructions
        mov     eax, 0x4300c0
        wrmsr
        inc     ecx
        mov     eax, 0x5300c0
        wrmsr
        mov     ecx, 0x38d              # fixed counter 0
        mov     eax, 3
        wrmsr
        mov     ecx, 0x38f              # all at once
        mov     edx, 1
        wrmsr
        mov     edi, ROUNDS
        inc     esi
2:      imul    esi, esi, 1664525       # random
        add     esi, 1013904223
        mov     eax, esi
        shr     eax, 16
        and     eax, 0x3ff
        not     eax
        cdq
        mov     ecx, 0xc2               # next PMI
        wrmsr
        mov     ecx, 0x188              # event of counter 2
        mov     eax, esi
        and     eax, 0x43ffff
        xor     edx, edx
        wrmsr
        mov     ecx, 0x38f              # counters 2 and 3, on or off
        mov     eax, esi
        shr     eax, 20
        and     eax, 0xc
        or      eax, 3
        mov     edx, 1
        wrmsr
        xor     ecx, ecx
        rdpmc
        mov     ebx, eax
        mov     ecx, 0x40000000
        rdpmc
        cmp     eax, [bp + 12]          # it never decreases
        jb      3f
        mov     [bp + 12], eax
        sub     eax, ebx                # three instructions later, or some more with a PMI
        sub     eax, 3
        cmp     eax, 5000
        jb      4f
3:      inc     dword ptr [bp + 4]
4:      dec     edi
        jnz     2b
        inc     dword ptr [bp]
5:      cli
        hlt
        jmp     5b
nmi:    push    eax
        push    ecx
        push    edx
        inc     dword ptr [bp + 8]
        mov     ecx, 0x390
        mov     eax, 2
        xor     edx, edx
        wrmsr
        mov     ecx, 0x834
        mov     eax, 0x400
        wrmsr
        pop     edx
        pop     ecx
        pop     eax
        iret
        .org    0xfff0
        .byte   0xea, 0, 0, 0, 0xf0     # a reset jumps to the start
        .org    0x10000
'''
CPUS, ROUNDS = 8, 10000
# Instructions of a round, of the handler, and of the handler until PMIs are possible again
ROUND, HANDLER, MASKED = 35, 15, 10
TOOLS = 'x86_64-linux-gnu-'
BINARY = functional.emulator('x86_64', os.environ.get('QEMU_PMU_KIND', 'qemu'))
functional.need(BINARY)
if not shutil.which(f'{TOOLS}as'):
    raise unittest.SkipTest(f'this host has no {TOOLS}as')


def pmis(seed):
    """How many PMIs a CPU must get."""
    found, late = 0, False
    for _ in range(ROUNDS):
        seed = (seed * 1664525 + 1013904223) % 2 ** 32
        period = (seed >> 16) % 1024 + 1
        # The handler of a PMI that the last instruction of a round causes is part of the next one.
        hit = period <= ROUND + HANDLER * late and not (late and period <= MASKED)
        found, late = found + hit, hit and period == ROUND + HANDLER * late
    return found


class Hammer(unittest.TestCase):
    def test_x86(self):
        """x86: instructions and interrupts are exact, also while the monitor shows the counters"""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / 'x86.S').write_text(X86.replace('ROUNDS', str(ROUNDS)))
            for tool, *args in (('as', '--32', '-o', folder / 'x86.o', folder / 'x86.S'),
                                ('objcopy', '-O', 'binary', '-j', '.text', folder / 'x86.o',
                                 folder / 'bios')):
                subprocess.run([TOOLS + tool, *args], check=True)
            with functional.Machine(
                    [BINARY, '-L', BINARY.parent / 'pc-bios', '-M', 'q35', '-m', '64M', '-smp',
                     str(CPUS), '-cpu', 'Icelake-Server-v6,pmu=on', '-accel', 'tcg,thread=multi',
                     '-nodefaults', '-display', 'none', '-bios', folder / 'bios']) as machine:
                def records():
                    self.assertEqual(machine.info('pmu').count('CPU '), CPUS)
                    path = folder / 'records'
                    machine.cmd('pmemsave', val=0x1000, size=32 * CPUS, filename=str(path))
                    found = [*struct.iter_unpack('<4I16x', path.read_bytes())]
                    return found if all(done for done, *_ in found) else None

                found = wait_for(records, 'end of the programs', 300)
        for cpu, (_, failures, interrupts, insns) in enumerate(found):
            with self.subTest(cpu=cpu):
                self.assertEqual(failures, 0)
                self.assertEqual(interrupts, pmis(cpu + 1))
                # Up to the last reading; a PMI may come after it.
                self.assertIn(ROUNDS * ROUND - 8 + HANDLER * interrupts - insns, (0, HANDLER))
