"""What child processes need: a Python that supervises them."""

from __future__ import annotations

import platform
import sys

from symphony.backends.prerequisites import Finding


def findings() -> list[Finding]:
    return [Finding("subprocess (optional)", True, platform.python_version(), sys.executable, needed=False)]
