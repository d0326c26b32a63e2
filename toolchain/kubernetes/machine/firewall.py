"""Removes the iptables chains and rules created by the cluster's programs, and no others."""

import shlex

from toolchain.kubernetes.calls import run
from toolchain.kubernetes.layout import NODE_BRIDGE, POD_BRIDGE

OURS = ("KUBE-", "CNI-")
DOCKER = ("DOCKER",)


def clean(*, with_docker: bool) -> None:
    """Remove the chains and rules of the cluster for IPv4 and IPv6."""
    prefixes = OURS + (DOCKER if with_docker else ())
    bridges = (NODE_BRIDGE, POD_BRIDGE, *(("docker0",) if with_docker else ()))
    for family in ("iptables", "ip6tables"):
        script = removal(run([f"{family}-save"]), prefixes, bridges)
        if script:
            run([f"{family}-restore", "--noflush", "--wait=10"], stdin=script)


def removal(saved: str, prefixes: tuple[str, ...], bridges: tuple[str, ...]) -> str:
    """Return the input for iptables-restore that removes these chains and bridges' rules, or ''."""
    script: list[str] = []
    for table in _tables(saved):
        chains = [line[1:].split()[0] for line in table if line.startswith(":")]
        doomed = [chain for chain in chains if chain.startswith(prefixes)]
        rules = [line for line in table if line.startswith("-A ") and _affects(line, doomed, bridges)]
        if doomed or rules:
            deletions = [line.replace("-A ", "-D ", 1) for line in rules]
            emptied = [f"-F {chain}" for chain in doomed]
            script += [table[0], *deletions, *emptied, *(f"-X {chain}" for chain in doomed), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""


def _affects(rule: str, doomed: list[str], bridges: tuple[str, ...]) -> bool:
    """Return whether a rule outside the chains to delete jumps into one of them or names our bridges."""
    words = shlex.split(rule)
    return words[1] not in doomed and any(word in doomed or word in bridges for word in words[2:])


def _tables(saved: str) -> list[list[str]]:
    tables: list[list[str]] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            tables.append([line])
        elif line.startswith((":", "-A ")):
            tables[-1].append(line)
    return tables
