"""Gets what symphony needs on this machine and says what it got."""

from __future__ import annotations

from symphony.backends import registry
from symphony.backends.prerequisites import Finding, Prerequisites
from symphony.engine import binary, setup
from symphony.engine.setup import Report
from symphony.errors import SymphonyError


def get_everything(report: Report) -> list[Finding]:
    """What the backends cannot do without and the engine, got if they were missing."""
    result = [each for row in registry.every() for each in get_needed(row.prerequisites, report)]
    engine = setup.engine(report)
    version = ".".join(map(str, binary.version(engine)))
    return [*result, Finding("pulumi", True, version, str(engine.pulumi))]


def get_needed(of: Prerequisites, report: Report) -> list[Finding]:
    """The same for one backend. SymphonyError: something is missing and cannot be got."""
    missing = [each.package for each in _needed(of) if not each.there and not each.version and each.package]
    for package in missing:
        setup.debian_package(package, report)
    for each in _needed(of):
        if not each.there:
            what = f": {each.version}" if each.version else " is not on this machine"
            raise SymphonyError(f"{each.name}{what}", where=each.place, remedy=f"Run `{each.get}`")
    return _needed(of)


def _needed(of: Prerequisites) -> list[Finding]:
    return [each for each in of.findings() if each.needed]
