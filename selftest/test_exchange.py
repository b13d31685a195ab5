# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest gets from the host, and what comes out of it."""

import contextlib
import http.server
import io
import pathlib
import re
import shlex
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import functional
import ui

MACHINES = {'arm': 'aarch64', 'power': 'ppc64le', 'x86': 'x86_64'}
for guest, machine in MACHINES.items():
    functional.need(functional.emulator(machine.removesuffix('le')), *functional.guest_files(guest))


class Temporary(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory(dir=ui.BUILD, prefix='exchange ')     # with a space
        self.addCleanup(temp.cleanup)
        self.top = pathlib.Path(temp.name)

    def guest(self, script, name='x86', **options):
        """(status, lines, what ./pmu said) of a script in a guest."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status, lines = functional.in_guest(script, name, **options)
        return status, lines, said.getvalue()


class Everything(Temporary):
    def test_arm(self):
        """arm: folders in, out, and shared; network, ssh and gdb; also when the script fails"""
        self.everything('arm')

    def test_power(self):
        """power: the same"""
        self.everything('power')

    def test_x86(self):
        """x86: the same"""
        self.everything('x86')

    def everything(self, name):
        folder, shared = self.top / 'in', self.top / 'shared'
        ui.write(folder / 'sub/tool', '#!/bin/sh\necho tool runs\n')
        (folder / 'sub/tool').chmod(0o755)
        ui.write(shared / 'from host', 'written by the host\n')

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'a page of the host\n')

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        script = f'''
            /opt/in/sub/tool
            cat "/mnt/a b/from host"
            echo written by the guest > "/mnt/a b/from guest"
            wget -q -O - http://10.0.2.2:{server.server_port}/
            ping -c 1 -w 60 127.0.0.1 | grep received
            grep -c devpts /proc/mounts
            mkdir -p /root/out/sub; ln -s sub /root/out/link
            echo kept > /root/out/sub/file; chmod 750 /root/out/sub/file
            echo alone > /root/single
            echo wait
            for n in $(seq 3000); do [ -e "/mnt/a b/go on" ] && break; sleep 0.1; done
            exit 3'''
        answers, said = [], io.StringIO()

        def hear(line):
            if line != 'wait':
                return
            [ssh] = re.findall(r'(?m)^pmu: (ssh .*)', said.getvalue())
            done = subprocess.run([*shlex.split(ssh), 'uname -m; cat /root/single'], timeout=600,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            answers.append(done.stdout or done.stderr)
            # gdb stops the guest when it attaches; D detaches.
            port = int(re.search(r'gdb: .*:(\d+)', said.getvalue())[1])
            with socket.create_connection(('127.0.0.1', port), timeout=60) as connection:
                for question in b'$?#3f', b'$D#44':
                    connection.sendall(question)
                    answer = b''
                    while not re.search(rb'#..', answer):
                        answer += connection.recv(100) or b'#ended'
                    answers.append(answer)
            ui.write(shared / 'go on', '')

        gets = {'/root/out': self.top / 'got', '/root/single': self.top / 'one',
                '/root/missing': self.top / 'missing'}
        with contextlib.redirect_stderr(said):
            status, lines = functional.in_guest(
                script, name, hear=hear, smp='1', files={'/opt/in': folder}, net=True, ssh=True,
                gdb=True, shares={'/mnt/a b': str(shared)}, gets=gets)
        self.assertEqual((status, lines[:6]), (3, [
            'tool runs', 'written by the host', 'a page of the host',
            '1 packets transmitted, 1 packets received, 0% packet loss', '1', 'wait']))
        self.assertEqual((shared / 'from guest').read_text(), 'written by the guest\n')
        self.assertEqual((self.top / 'one').read_text(), 'alone\n')
        kept = self.top / 'got/sub/file'
        self.assertEqual((kept.read_text(), stat.S_IMODE(kept.stat().st_mode)), ('kept\n', 0o750))
        self.assertEqual((self.top / 'got/link').readlink(), pathlib.Path('sub'))
        self.assertIn('--get /root/missing: the guest has no such file', said.getvalue())
        self.assertEqual(answers[0], f'{MACHINES[name]}\nalone\n')
        self.assertRegex(answers[1], rb'^\+\$[TS]05')
        self.assertRegex(answers[2], rb'^\+\$OK#')
        self.assertEqual(functional.processes('virtiofsd', self.top), [], 'no server is left')


class Recordings(Temporary):
    def test_out_and_in(self):
        """perf.data and a trace of rr come out: read on the host, and replayed in another guest"""
        trace, data = self.top / 'trace', self.top / 'perf.data'
        status, lines, _ = self.guest(
            'echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent\n'
            'perf record -q -e instructions:u -c 74167 -o /root/perf.data shares 500 || exit 8\n'
            'rr record -o /root/trace chaos > /root/said 2> /dev/null; cat /root/said',
            packages=['gdb', 'rr'], gets={'/root/trace': trace, '/root/perf.data': data})
        self.assertEqual(status, 0, lines)
        self.assertEqual(data.read_bytes()[:8], b'PERFILE2')
        (self.top / 'usr/bin').mkdir(parents=True)
        shutil.copy(ui.BUILD / 'guest/x86/bin/shares', self.top / 'usr/bin')
        report = subprocess.run(
            [*functional.perf(), 'report', '-i', data, '--stdio', '-q', '--symfs', self.top],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertRegex(report.stdout, r'(?m)^ +7\d\.\d+% +shares +shares +\[\.\] three_quarters',
                         report.stderr)
        recorded = lines
        self.assertTrue(recorded)
        status, lines, _ = self.guest(
            'perf report -i /root/perf.data --stdio -q 2> /dev/null | grep -c shares; echo replay\n'
            'rr replay -a /root/trace 2> /dev/null; echo "status $?"; echo gdb\n'
            "rr replay /root/trace -- -batch -ex 'break main' -ex continue 2>&1",
            packages=['gdb', 'rr'], files={'/root/trace': trace, '/root/perf.data': data})
        replay = lines.index('replay')
        self.assertGreater(int(lines[replay - 1]), 0)
        self.assertEqual(lines[replay + 1:lines.index('gdb')], [*recorded, 'status 0'])
        stopped = re.compile(r'(Thread \S+ hit )?Breakpoint 1, .*main')
        self.assertTrue([l for l in lines if stopped.match(l)], lines)


class Snapshots(Temporary):
    def resume(self, name, *statuses):
        """Runs that end with these statuses: all have the same count, and the first saves a file."""
        options = {'snapshot': True, 'append': f'norandmaps pmu.test={self.id()}',
                   'args': ['-rtc', 'base=2020-01-01'],
                   'gets': {'/root/out': self.top / 'out'}}
        # On arm, the start of busybox takes a few instructions more or less.
        count = ('pmu_count loop u 8 | cut -d " " -f 2\n' if name == 'arm' else
                 'perf stat -x, -e instructions:u busybox true 2>&1 | cut -d, -f1\n')
        count += 'date +%s\n'
        def remove():
            for old in ui.BUILD.glob(f'snapshots/{name}-*'):
                old.unlink()

        remove()
        self.addCleanup(remove)         # it has the guest's memory
        counts, times = [], []
        for n, status in enumerate(statuses):
            found, lines, _ = self.guest(
                f'echo {n} > /root/out; echo {n}; {count}exit {status}', name, **options)
            self.assertEqual((found, lines[0]), (status, str(n)))
            self.assertEqual((self.top / 'out').read_text(), f'{n}\n')
            counts.append(int(lines[1]))
            self.assertLess(abs(int(lines[2]) - time.time()), 60, 'the clock is of now')
            [kept] = ui.BUILD.glob(f'snapshots/{name}-*')
            times.append(kept.stat().st_mtime_ns)
        self.assertEqual((len({*counts}), len({*times})), (1, 1), counts)
        self.assertGreater(counts[0], 10000)

    def test_arm(self):
        """arm: a second run goes on from a snapshot: another script, files out, the same counts"""
        self.resume('arm', 0, 7)

    def test_x86(self):
        """x86: the same, with a third run"""
        self.resume('x86', 0, 0, 7)
