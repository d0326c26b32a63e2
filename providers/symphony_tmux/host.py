"""Serves dynamic providers as `python -m pulumi.dynamic` does, to this user only; engine/bin starts it.

Pulumi's own host answers every user of the machine, and unpickles what they send.
"""

from __future__ import annotations

import runpy

import grpc

from symphony import peers


def main() -> None:
    """Returns when the engine interrupts it."""
    grpc.server = peers.server
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
