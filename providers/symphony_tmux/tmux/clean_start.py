"""Starts the tmux server free of the limits, signals and niceness of its caller: `clean_start.py PROGRAM...`.

Run by path, in a Python without site packages: a shell cannot take back signals that it was told to ignore.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress

# Far more processors than any machine has: the kernel takes those that are there and allowed.
PROCESSORS = range(4096)


def forget_the_caller() -> None:
    """Take all processors, no niceness, default signals and the highest limits, but no core files."""
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            with suppress(OSError, ValueError):
                resource.setrlimit(number, (0 if name == "RLIMIT_CORE" else hard, hard))
    with suppress(OSError, AttributeError):
        os.sched_setaffinity(0, PROCESSORS)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o077)


if __name__ == "__main__":
    forget_the_caller()
    # Python puts it there where the locale is that of C.
    os.environ.pop("LC_CTYPE", None)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
