"""Rules of readiness and liveness probes."""

from __future__ import annotations

from collections.abc import Iterator

from symphony.plan.names import did_you_mean, quoted
from symphony.plan.problems import Problem
from symphony.plan.target import Target
from symphony.spec.experiment import ExperimentSpec, path_of
from symphony.spec.process import ProcessSpec

PROBES = ("readiness_probe", "liveness_probe")


def probes_check_own_services(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse a probe of a service that its process does not bind, and an http probe without a clear port."""
    for group, process in spec.members():
        path, served = path_of(group, process), services_of(process)
        for setting in PROBES:
            probe = getattr(process, setting)
            if probe is None:
                continue
            port = probe.tcp if probe.http is None else probe.port
            where = (process.at(setting),)
            if probe.http is not None and port is None and len(served) != 1:
                what = f"the {setting} of {path} has http without a port"
                example = f'port="{served[0]}"' if served else "port=8080"
                yield Problem(what, f"add {example}", where)
            if isinstance(port, str) and port not in served:
                listed = f"use one of: {', '.join(served)}" if served else "bind that service, or give a port"
                remedy = did_you_mean(port, served, listed)
                yield Problem(
                    f"the {setting} of {path} checks {quoted(port)}, which {path} does not bind",
                    remedy,
                    where,
                )


def liveness_probes_read_no_logs(spec: ExperimentSpec, _target: Target) -> Iterator[Problem]:
    """Refuse a liveness probe by log: an old line does not show that the process works now."""
    for group, process in spec.members():
        if process.liveness_probe is not None and process.liveness_probe.log is not None:
            path = path_of(group, process)
            what = (
                f"the liveness_probe of {path} reads the log, which cannot show that the process still works"
            )
            yield Problem(what, "use tcp, http or exec", (process.at("liveness_probe"),))


def services_of(process: ProcessSpec) -> list[str]:
    """Return the services that a process binds, or exposes if it binds none."""
    return list(dict.fromkeys(use.name for use in process.binds or process.exposes))
