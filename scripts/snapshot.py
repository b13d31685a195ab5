# SPDX-License-Identifier: GPL-2.0-or-later
"""Save a guest that waits for its script, and let later runs start there.

The file is a migration stream. Its name is a digest of what the guest was started with; one is
kept for each architecture.
"""

import base64
import contextlib
import hashlib
import os
import re
import time

import monitor
import ui


class Snapshot:
    def __init__(self, opt, cmd, scratch):
        self.name, self.part = opt.arch, scratch / 'snapshot'
        words = [word.replace(str(scratch), '') for word in cmd]
        # Options of QEMU's own may name files, too, from this folder on.
        words += [ui.HERE] if opt.args else []
        given = [name for word in opt.args for name in re.split('[,=]', word)]
        files = [os.stat(name) for name in (cmd[0], cmd[cmd.index('-kernel') + 1],
                                            *filter(os.path.isfile, given))]
        words += [f'{status.st_size} {status.st_mtime_ns}' for status in files]
        with open(cmd[cmd.index('-initrd') + 1], 'rb') as handle:
            digest = hashlib.file_digest(handle, 'sha256')
        digest.update(os.fsencode('\0'.join(words)))
        self.path = ui.BUILD / 'snapshots' / f'{opt.arch}-{digest.hexdigest()[:16]}'
        self.saved = self.path.exists()

    def args(self):
        return ['-incoming', f'file:{self.path}'] if self.saved else []

    @staticmethod
    def _until(qmp, command, waiting):
        while (answer := qmp.cmd(command))['status'] in waiting:
            time.sleep(0.02)
        return answer

    def resume(self, name):
        """Let a guest go on where it was saved."""
        try:
            with ui.Step(f'resume the {self.name} guest'), monitor.of_guest(name) as qmp:
                self._until(qmp, 'query-status', ['inmigrate'])
                qmp.cmd('cont')
        except ui.Fail as fail:
            self.path.unlink(missing_ok=True)
            raise ui.Fail(f'resuming the snapshot failed: {fail}',
                          'the snapshot was removed: run it again to boot anew')

    def save(self, name):
        """Save a guest, and let it go on."""
        with ui.Step(f'save the {self.name} guest'), monitor.of_guest(name) as qmp:
            qmp.cmd('stop')
            qmp.cmd('migrate', uri=f'file:{self.part}')
            found = self._until(qmp, 'query-migrate', ['none', 'setup', 'active', 'device'])
            if found['status'] != 'completed':
                raise ui.Fail('this guest cannot be saved: '
                              f'{found.get("error-desc", found["status"])}',
                              'boot it without --snapshot')
            self.path.parent.mkdir(exist_ok=True)
            self.part.replace(self.path)
            self.saved = True
            for old in set(self.path.parent.glob(f'{self.name}-*')) - {self.path}:
                old.unlink(missing_ok=True)
            self._until(qmp, 'query-status', ['finish-migrate'])     # QEMU refuses cont until then
            qmp.cmd('cont')

    @staticmethod
    def send(stdin, script):
        """Type a script into the console of a guest that waits for it."""
        with open(script, 'rb') as handle, \
                contextlib.suppress(BrokenPipeError):       # the console tells how QEMU ended
            stdin.write(b'%d\n' % time.time())      # the guest's clock is that of the day of save()
            stdin.write(base64.encodebytes(handle.read()) + b'\4')      # Ctrl-D
            stdin.flush()
