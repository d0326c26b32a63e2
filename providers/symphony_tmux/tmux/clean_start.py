"""Starts the tmux server without the limits, signals and niceness of its caller: `clean_start.py PROGRAM...`.

It is run by path, in a Python without site packages. A shell cannot restore signals that were ignored at its
start.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress

# More processors than any machine has: the kernel uses those that exist.
PROCESSORS = range(4096)


def reset_server_settings() -> None:
    """Set all processors, niceness 0, default signals, the hard limits and no core files for the server.

    launch_file and supervise.pl restore the caller's limits, niceness, processors and umask for each process.
    """
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
    reset_server_settings()
    # Python sets it if the locale is C.
    os.environ.pop("LC_CTYPE", None)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
