"""`symphony setup`: installs the prerequisites of this machine."""

from symphony.backends import registry
from symphony.backends.registry import Finding, Prerequisites
from symphony.cli import arguments, screen
from symphony.engine import binary, setup
from symphony.errors import SymphonyError


def command(as_json: arguments.AsJson = False) -> None:
    """Install missing prerequisites on this machine: tmux and the Pulumi engine.

    Examples:
        symphony setup
    """

    def report(text: str) -> None:
        if not as_json:
            print(f"  {screen.clean(text)}", flush=True)

    findings = [finding for backend in registry.every() for finding in install(backend.prerequisites, report)]
    engine = setup.engine(report)
    findings.append(Finding("pulumi", True, ".".join(map(str, binary.version(engine))), str(engine.pulumi)))
    if as_json:
        names = ("name", "version", "place")
        screen.show_json([{name: getattr(finding, name) for name in names} for finding in findings])
        return
    for finding in findings:
        print(f"{finding.name} {screen.clean(finding.version)}  {screen.clean(finding.place)}".rstrip())


def install(prerequisites: Prerequisites, report: setup.Report) -> list[Finding]:
    """Install what a backend needs, and return it; raise SymphonyError for the first that is missing."""
    for finding in _needed_findings(prerequisites):
        if not finding.there and not finding.version and finding.package:
            setup.debian_package(finding.package, report)
    needed = _needed_findings(prerequisites)
    for finding in needed:
        if not finding.there:
            reason = f": {finding.version}" if finding.version else " is not installed"
            what = f"{finding.name}{reason}"
            raise SymphonyError(what, where=finding.place, remedy=f"To install it: {finding.get}")
    return needed


def _needed_findings(prerequisites: Prerequisites) -> list[Finding]:
    return [finding for finding in prerequisites.findings() if finding.needed]
