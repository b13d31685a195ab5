# SPDX-License-Identifier: GPL-2.0-or-later
"""A tiny Debian archive, and a web server on 127.0.0.1 that can misbehave."""

import hashlib
import http.server
import pathlib
import random
import subprocess
import threading

SUITE = 'tiny'


class Archive:
    """Packages of one suite, with the indexes that apt wants."""

    def __init__(self, root):
        self.root, self.packages = pathlib.Path(root), {}
        (self.root / 'pool').mkdir(parents=True)

    def add(self, name, version='1.0', size=1000, path=None):
        """Add a package with a file of `size` bytes that do not compress."""
        tree = self.root.parent / f'{name}.tree'
        file = tree / (path or f'usr/{name}')
        for folder in tree / 'DEBIAN', file.parent:
            folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(random.Random(name + version).randbytes(size))
        control = f'Package: {name}\nVersion: {version}\nArchitecture: amd64\n' \
                  f'Maintainer: Nobody <nobody@localhost>\nDescription: {name}\n'
        (tree / 'DEBIAN' / 'control').write_text(control)
        deb = self.root / 'pool' / f'{name}_{version}.deb'
        subprocess.run(['dpkg-deb', '--build', '--root-owner-group', '-Znone', tree, deb],
                       check=True, capture_output=True)
        self.packages[name] = control + f'Filename: pool/{deb.name}\n' + self.sums(deb)
        self.index()
        return deb

    @staticmethod
    def sums(path):
        data = path.read_bytes()
        return f'Size: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n'

    def source(self, name, version='1.0'):
        """Add a source package of one tarball."""
        tar, dsc = (self.root / 'pool' / f'{name}_{version}.{x}' for x in ('tar.xz', 'dsc'))
        tar.write_bytes(random.Random(name).randbytes(1000))
        files = [f' {hashlib.sha256(tar.read_bytes()).hexdigest()} 1000 {tar.name}\n']
        head = f'Format: 3.0 (native)\nVersion: {version}\nBinary: {name}\nArchitecture: any\n' \
               'Maintainer: Nobody <nobody@localhost>\n'
        dsc.write_text(f'Source: {name}\n{head}Checksums-Sha256:\n{files[0]}')
        data = dsc.read_bytes()
        files.append(f' {hashlib.sha256(data).hexdigest()} {len(data)} {dsc.name}\n')
        self.index(f'Package: {name}\n{head}Directory: pool\nChecksums-Sha256:\n{"".join(files)}')

    def index(self, sources='', name=SUITE, codename=SUITE, suite=SUITE):
        """Write dists/`name` of a release with this code name, also known as `suite`."""
        where, lines = self.root / 'dists' / name, []
        for file, text in (('main/binary-amd64/Packages', '\n'.join(self.packages.values())),
                           ('main/source/Sources', sources)):
            path = where / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            lines.append(f' {hashlib.sha256(path.read_bytes()).hexdigest()} '
                         f'{path.stat().st_size} {file}\n')
        (where / 'Release').write_text(
            f'Suite: {suite}\nCodename: {codename}\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n'
            f'Architectures: amd64\nComponents: main\nSHA256:\n{"".join(lines)}')


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder.  `log` has a (path, first byte) for each request of a file.

    faults: {file name: [fault of the first request, of the second, ...]}, where a
    fault is ('cut', N): N bytes, then the connection ends; ('stall', N): N bytes, then
    nothing until `go` is set; ('corrupt', N): byte N is wrong; or ('status', CODE).
    """

    daemon_threads = True

    def __init__(self, root):
        self.root, self.log, self.faults = pathlib.Path(root), [], {}
        self.go = threading.Event()
        super().__init__(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server_port}'
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.go.set()
        self.shutdown()
        self.server_close()

    def count(self, name):
        return len([p for p, _ in self.log if p.endswith(name)])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_GET(self):
        server, name = self.server, self.path.rpartition('/')[2]
        path = server.root / self.path.lstrip('/')
        asked = self.headers.get('Range', '').removeprefix('bytes=').partition('-')[0]
        start = int(asked or 0)
        faults = server.faults.get(name)
        fault, number = faults.pop(0) if faults else (None, 0)
        server.log.append((self.path, start))
        data = bytearray(path.read_bytes() if path.is_file() else b'')
        code = number if fault == 'status' else 404 if not path.is_file() else \
            206 if start and start < len(data) else 200
        if fault == 'corrupt':
            data[number] ^= 0xff
        body = data[start:] if code == 206 else data if code == 200 else b''
        self.send_response(code)
        self.send_header('Content-Length', len(body))
        self.send_header('Last-Modified', 'Thu, 01 Jan 2026 00:00:00 GMT')
        if code == 206:
            self.send_header('Content-Range', f'bytes {start}-{len(data) - 1}/{len(data)}')
        self.end_headers()
        if fault in ('cut', 'stall'):
            self.wfile.write(body[:number])
            self.wfile.flush()
            if fault == 'stall':
                server.go.wait()
            self.close_connection = True
        else:
            self.wfile.write(body)
