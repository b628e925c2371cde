"""The operating system's lock on an open file, which ends with the process, however the process ends.

Unix: `flock`. It belongs to the open file and not to the process, so two threads that open a file separately
exclude each other as two processes do. Linux passes it on to an NFS server, where it excludes other hosts,
unless the mount says `nolock` or `local_lock`. Windows: a locked byte far behind the content, which others
can read; this has never been run.
"""

from __future__ import annotations

import errno
import os

UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EBADF)
"""What file systems without locks answer; EBADF: NFS, for a folder or a file that is open for reading."""

_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
_FAR = 1 << 30
"""The byte that is locked on Windows, where a locked byte cannot be read by others."""


class LocksUnsupportedError(Exception):
    """The file system has no locks."""


def try_lock(descriptor: int) -> bool:
    """Lock an open file, unless it is locked through a different open file; closing it ends the lock.

    Raises:
        LocksUnsupportedError: the file system has no locks.
    """
    try:
        _lock(descriptor)
    except OSError as wrong:
        if wrong.errno in _HELD:
            return False
        if wrong.errno in UNSUPPORTED:
            raise LocksUnsupportedError(os.strerror(wrong.errno)) from None
        raise
    return True


if os.name == "nt":  # pragma: no cover

    def _lock(descriptor: int) -> None:
        import msvcrt

        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _FAR, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)

else:

    def _lock(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def same_file(descriptor: int, path: str | os.PathLike[str]) -> bool:
    """Whether a path still names an open file or folder: it may have been deleted or replaced."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
