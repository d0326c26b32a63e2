"""Puts the stand-in where the engine looks for plugins: `python -m toolchain.plugin_kubernetes.install`.

The test fixtures and the benchmarks call `install()`; `symphony setup` leaves the plugin to the engine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from symphony.backends.kubernetes import plugin
from toolchain.plugins import real
from toolchain.plugins.provider import version


def install(name: str = plugin.KUBERNETES) -> Path:
    """Link it into PULUMI_HOME's plugins unless a real one is there; return what the engine will run."""
    result = real.find(name)
    if result is not None:
        return result
    link = plugin.place(name, version(name))
    own = real.own(name).resolve()
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.resolve() != own:
        link.unlink(missing_ok=True)
        link.symlink_to(own)
    return link


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m toolchain.plugin_kubernetes.install", description=__doc__
    ).parse_args()
    sys.stdout.write(f"{install()}\n")
