# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages by an isolated apt per (suite, architecture): resolve, fetch, unpack.

The archive's address, proxies and the like come from the host's own apt
configuration when this runs; only the suite and the architecture are ours.
Downloads land in the user's cache folder under the names that apt gives them,
so that nothing is fetched twice; apt's own downloader resumes and verifies them.
"""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import time

import ui

KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
OFFLINE = ('check that apt can reach a Debian archive ("apt-get update"), then run it again; '
           'finished downloads are kept')
LOCK = ui.CACHE / 'download.lock'       # QEMU_PMU_BUILD may name the same folder, with its `lock`
AGAIN = 'the damaged file was removed; run it again to fetch it anew'

# What apt says if an index has not the size or the sum that is signed: a point release reaches a
# mirror in parts
NOT_SIGNED = r'Mirror sync in progress|Hash Sum mismatch'
# What apt says of a file that the archive lists, but does not have
NOT_THERE = r' 404 +Not Found'
# What apt says of a package, or a version of it, that its index does not list
NOT_LISTED = 'Unable to locate package|was not found'
# Fetch and check the Release file alone, and keep the indexes that are there
NO_INDEXES = ['-o', 'Acquire::IndexTargets::deb::Packages::DefaultEnabled=false',
              '-o', 'Acquire::IndexTargets::deb-src::Sources::DefaultEnabled=false',
              '-o', 'APT::Get::List-Cleanup=false', '--allow-releaseinfo-change']
# Runs a program of a package with the C library of its own release; before Debian 13,
# lib64/ld-linux-x86-64.so.2 is an absolute link, to that of the host. modpost runs another program,
# whose name begins with its own: hence --argv0.
WRAPPER = '''#!/bin/sh
root=$(dirname "$(realpath "$0")")/{root}
libraries=$root/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --argv0 "$0" --library-path "$libraries" "$0.elf" "$@" {more}
'''


def host_archive(folder='/etc/apt'):
    """The address of the Debian archive that this host itself uses."""
    out = ui.output(['apt-get', 'update', '--print-uris', '-o', f'Dir::Etc={folder}'])
    found = [uri for uri in re.findall(r"(?m)^'(\S+)/dists/[a-z]+/main/binary-all/", out)
             if 'security' not in uri]
    if not found:
        raise ui.Fail("found no Debian archive in this host's apt sources",
                      'supported hosts are Debian 12 and 13')
    # Other vendors' archives have a suite "stable" with a "main", too.
    return max(found, key=lambda uri: 'debian' in uri)


class Lacks(ui.Fail):
    """The archive does not have a package, or not its version."""


class NotThere(ui.Fail):
    """The archive lists a package, but does not have it."""


def whole(package):
    """Whether a package is there, and not a part of it, where its download goes on."""
    return not subprocess.call(['dpkg-deb', '--fsys-tarfile', package],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Apt:
    """apt with its own lists, its own (empty) dpkg status and its own cache."""

    def __init__(self, suite, arch, archive=None, trusted=False, lacking=None):
        self.dir = ui.CACHE / 'apt' / f'{suite}-{arch}'
        self.debs = ui.CACHE / 'packages'
        self.suite, self.arch = suite, arch
        self.archive, self.trusted = archive, trusted
        self.lacking = lacking      # what to do if the archive lacks a package
        self.env = dict(os.environ, APT_CONFIG=str(self.dir / 'apt.conf'), LC_ALL='C')

    def _configure(self):
        if not os.path.exists('/usr/bin/apt-get'):
            raise ui.Fail('this host has no apt-get', 'supported hosts are Debian 12 and 13')
        ui.write(self.dir / 'status', '')
        keep = [l for l in ui.output(['apt-config', 'dump']).splitlines()
                if re.match(r'Acquire::(?!IndexTargets|Languages)', l)]
        user = 'root' if os.getuid() == 0 else ''
        ui.write(self.dir / 'apt.conf', '\n'.join(keep + [
            f'Dir::State "{self.dir}";', f'Dir::State::lists "{self.dir}/lists";',
            f'Dir::State::status "{self.dir}/status";', f'Dir::Cache "{self.dir}";',
            f'Dir::Etc::sourcelist "{self.dir}/sources.list";',
            *(f'Dir::Etc::{x} "/dev/null";' for x in
              ('main', 'parts', 'sourceparts', 'preferences', 'preferencesparts')),
            f'APT::Architecture "{self.arch}";', f'APT::Architectures {{ "{self.arch}"; }};',
            'APT::Install-Recommends "false";', f'APT::Sandbox::User "{user}";',
            'Acquire::Languages "none";', 'Acquire::Retries "3";', '']))

    def _sources(self, suite):
        archive = self.archive or host_archive()
        how = 'trusted=yes' if self.trusted else f'signed-by={KEYRING}'
        return ''.join(f'{kind} [{how}] {archive} {suite} main\n' for kind in ('deb', 'deb-src'))

    def _apt(self, *args, what):
        # In a folder of its own: apt-get deletes unfinished downloads of the current one.
        return ui.run(['apt-get', '-q', *args], log='apt.log', what=what, hint=OFFLINE,
                      env=self.env, cwd=self.dir)

    def update(self, max_age_days=30):
        """Fetch the package index, if there is none or it is old."""
        with ui.lock(LOCK, 'a download'):
            self._configure()
            stamp, wanted = self.dir / 'updated', self._sources(self.suite)
            if stamp.exists() and stamp.read_text() == wanted and \
                    time.time() - stamp.stat().st_mtime < max_age_days * 86400:
                return
            ui.need_room(self.dir, 200)
            with ui.Step(f'package index of Debian {self.suite} ({self.arch})'):
                try:
                    self._update(self.suite).replace(self.dir / 'sources.list')
                except ui.Fail as fail:
                    if f"{self.suite} Release' does not have a Release file" in str(fail):
                        raise ui.Fail(f"Debian's archive has no suite {self.suite}",
                                      'give another one, for example bookworm, trixie-backports or '
                                      'sid')
                    if not re.search(NOT_SIGNED, (ui.LOGS / 'apt.log').read_text()):
                        raise
                    self._update_other_name(
                        f'the index of Debian {self.suite} ({self.arch}) is not the signed one')
            stamp.write_text(wanted)

    def _update(self, suite, *options):
        """Fetch the index under dists/`suite`; returns the file that names this source."""
        sources = self.dir / 'sources.new'
        ui.write(sources, self._sources(suite))
        self._apt('update', '--error-on=any', '-o', f'Dir::Etc::sourcelist={sources}', *options,
                  what='apt-get update')
        return sources

    def _names(self, suite):
        """What the signed Release file under dists/`suite` calls itself: {'Suite', 'Codename'}."""
        self._update(suite, *NO_INDEXES)
        text = ''.join(path.read_text(errors='replace') for path in
                       (self.dir / 'lists').glob(f'*_dists_{suite}_*Release'))
        return dict(re.findall(r'(?m)^(Suite|Codename): *(\S+)$', text))

    def _update_other_name(self, trouble):
        """While an archive is being updated, a release may still be whole under its other name.

        A mirror that has a new Release file under dists/CODENAME before the indexes that it signs,
        or before the packages that these list, can still have the last point release, signed and
        complete, under dists/SUITE ("stable").
        """
        names = self._names(self.suite)
        for other in sorted(set(names.values()) - {self.suite}):
            with contextlib.suppress(ui.Fail):
                # Else that name is the next release's by now.
                if self._names(other).get('Codename') == names.get('Codename'):
                    self._update(other).replace(self.dir / 'sources.list')
                    ui.say(f'the archive is being updated: Debian {self.suite} ({self.arch}) is as '
                           f'the signed index of {other} has it')
                    return
        raise ui.Fail(f'{trouble}: the archive is probably being updated',
                      'run it again in some hours', ui.LOGS / 'apt.log')

    def closure(self, *names):
        """The packages that installing `names` on an empty system would bring."""
        self.update()
        try:
            lines = self._apt('-s', 'install', *names, what=f'resolving {" ".join(names)}')
            found = [l.split()[1] for l in lines if l.startswith('Inst ')]
            unknown = [name for name in names if name not in found]     # taken for a pattern
        except ui.Fail as fail:
            unknown = re.findall(r"(?<=Unable to locate package )\S+|(?<=Package ').*(?=' has no)",
                                 str(fail))
            if not unknown:
                raise
        if unknown:
            raise ui.Fail(f'there is no package {unknown[0]} in Debian {self.suite} '
                          f'({self.arch}, main)', 'check its name')
        return found

    def _cache(self, *args):
        self.update()
        return ui.output(['apt-cache', *args], env=self.env)

    def dependencies(self, package, pattern):
        """The dependencies of a package whose names match."""
        found = re.findall(r'Depends: (\S+)', self._cache('depends', package))
        if not found:
            raise Lacks(f'there is no package {package} in Debian {self.suite} ({self.arch})',
                        self.lacking)
        return [name for name in found if re.fullmatch(pattern, name)]

    def names(self, prefix):
        """Packages of the index whose names begin so."""
        return set(self._cache('pkgnames', prefix).split())

    def fetch_version(self, version, *names, what):
        """As fetch(), of one version, which the archive may no longer have, but our cache."""
        try:
            return self.fetch(*(f'{name}={version}' for name in names), what=what)
        except ui.Fail as fail:
            have = [next(filter(whole, self.debs.glob(
                f'{name}_{version.replace(":", "%3a")}_*.deb')), None) for name in names]
            if all(have):
                return have
            if re.search(NOT_LISTED, str(fail)):
                raise Lacks(fail.args[0], self.lacking, fail.log)
            raise

    def _fetch(self, command, names, folder, what):
        """Download what "apt-get COMMAND NAMES" would; returns the files. For `names`, see fetch().

        If that fails, the index may be older than the archive: once more with a new one. If the
        archive lacks what the new one lists, once more with that of the release's other name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(ui.Fail):
            return self._fetch_once(command, names, folder, what)
        self.update(max_age_days=0)
        with contextlib.suppress(NotThere):
            return self._fetch_once(command, names, folder, what)
        with ui.lock(LOCK, 'a download'), \
                ui.Step(f'package index of the last Debian {self.suite} ({self.arch})'):
            self._update_other_name(
                f'Debian {self.suite} ({self.arch}) lists {what}, but does not have it')
        return self._fetch_once(command, names, folder, what)

    def _fetch_once(self, command, names, folder, what):
        self.update()
        if callable(names[0]):
            names = names[0]()
        with ui.lock(LOCK, 'a download'):
            files = [shlex.split(l) for l in self._apt('--print-uris', command, *names, what=what)
                     if l.startswith("'")]          # URI, file name, size, checksum

            def size(name):
                return (folder / name).stat().st_size if (folder / name).is_file() else 0

            # "apt-get download" would start over where this resumes.
            cmd, todo, total = ['/usr/lib/apt/apt-helper', 'download-file'], [], 0
            for uri, name, length, checksum in files:
                if size(name) >= int(length):
                    kind, _, wanted = checksum.partition(':')
                    if digest(folder / name, kind.lower()) == wanted:
                        continue
                    (folder / name).unlink()        # not the beginning of it, but damaged
                cmd += [uri, folder / name, checksum]
                todo.append(name)
                total += int(length) / 1e6
            if todo:
                ui.need_room(folder, total + 10)
                with ui.Step(f'download {what}, {total:.1f} MB',
                             lambda: f'({sum(map(size, todo)) / 1e6:.1f} MB so far)'):
                    try:
                        ui.run(cmd, 'download.log', f'downloading {what}', OFFLINE, env=self.env)
                    except ui.Fail:
                        if re.search(NOT_THERE, (ui.LOGS / 'download.log').read_text()):
                            raise NotThere(f'the archive lists {what}, but does not have it',
                                           'run it again in some hours', ui.LOGS / 'download.log')
                        raise
        return [folder / name for _, name, _, _ in files]

    def fetch(self, *names, what=None):
        """Download packages; returns their .deb files.

        Instead of names, there may be one function that returns them: it is called again when
        another index has been taken.
        """
        return self._fetch('download', names, self.debs, what or ' '.join(names))

    def source(self, package):
        """Download a source package; returns the path of its .dsc."""
        found = self._fetch('source', [package], ui.CACHE / 'source', f'source of {package}')
        return next(path for path in found if path.suffix == '.dsc')


def unpacked(debs, folder):
    """A folder with the files of these packages, and no others: no root, no maintainer scripts."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for deb in debs:
        try:
            ui.run(['dpkg-deb', '-x', deb, folder], what=f'unpacking {deb.name}')
        except ui.Fail as fail:
            if 'No space left' in str(fail):
                raise
            deb.unlink(missing_ok=True)
            raise ui.Fail(str(fail), AGAIN)
    return folder


def own_libc(folder, pattern, more=''):
    """Let unpacked ELF programs run on a host with another C library, with more arguments."""
    for path in sorted(folder.glob(pattern)):
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and \
                path.read_bytes()[:4] == b'\x7fELF':
            path.rename(path.with_name(path.name + '.elf'))
            path.write_text(WRAPPER.format(root=os.path.relpath(folder, path.parent), more=more))
            path.chmod(0o755)


def once(where, what, debs, change=None):
    """The folder `where` with the files of the packages that debs() fetches, as change(folder)
    leaves them; it is made when it is first needed. A folder NAME-RELEASE takes the place of
    those of other releases.
    """
    with ui.lock(where.with_name(f'{where.name}.lock'), f'unpacking {what}'):
        if not where.is_dir():
            found, part = debs(), where.with_name(f'{where.name}.part')
            with ui.Step(f'unpack {what}'):
                for old in where.parent.glob(f'{where.name.partition("-")[0]}-*/'):
                    shutil.rmtree(old)
                unpacked(found, part)
                if change:
                    change(part)
            part.rename(where)
    return where


def digest(path, kind='sha256'):
    with open(path, 'rb') as handle:
        return hashlib.file_digest(handle, kind).hexdigest()


def verify(path, expected):
    """Fail with one line, and remove the file, if its checksum is wrong."""
    found = digest(path)
    if found != expected:
        path.unlink()
        raise ui.Fail(f'bad checksum of {ui.show(path)}: SHA-256 {found[:16]}... '
                      f'instead of {expected[:16]}...', AGAIN)
