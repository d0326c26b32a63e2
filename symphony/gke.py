"""`python -m symphony.gke convert FILE.tf.json > stacks/gke.py`: takes a cluster of cloudwise along."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping

from symphony.errors import UserError
from symphony.placement import tf_json
from symphony.placement.pool import Pool
from symphony.placement.tf_json import TfCluster

_USAGE = "usage: python -m symphony.gke convert FILE.tf.json > stacks/gke.py"


def main(words: list[str] | None = None) -> int:
    """Write the program of a stack to standard output, and to standard error what is lost in it."""
    given = sys.argv[1:] if words is None else words
    if len(given) != 2 or given[0] != "convert":
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    try:
        cluster = tf_json.read(given[1])
    except UserError as error:
        sys.stderr.write(f"symphony: {error}\n")
        return error.exit_code
    sys.stdout.write(program(cluster))
    sys.stderr.writelines(f"not converted: {each}\n" for each in cluster.lost)
    return 0


def program(cluster: TfCluster) -> str:
    """A program that declares the cluster."""
    lost = [f"#   {each}" for each in cluster.lost]
    lines = [
        f'"""The cluster {cluster.name} on GKE, as cloudwise described it."""',
        "",
        "from symphony import GkeCluster, NodePool",
        "",
        *(["# Not converted:", *lost, ""] if lost else []),
        "GkeCluster(",
        f"    {_text(cluster.name)},",
        f"    location={_text(cluster.location or 'us-central1-a')},",
        "    pools=[",
        *(line for pool in cluster.pools for line in _declared(pool, cluster.disks)),
        "    ],",
        ")",
    ]
    return "\n".join([*lines, ""])


def _declared(pool: Pool, disks: Mapping[str, int]) -> Iterator[str]:
    """A NodePool, without what is so by default."""
    taints = ", ".join(_tuple(each.key, each.value, each.effect) for each in pool.taints)
    given = {
        "accelerator": _tuple(pool.gpu_type, pool.gpus) if pool.gpus else "",
        "min": str(pool.min or ""),
        "max": str(pool.max or ""),
        "spot": "True" if pool.spot else "",
        "disk_gb": str(disks.get(pool.name) or ""),
        "labels": _text(dict(pool.labels)) if pool.labels else "",
        "taints": f"[{taints}]" if taints else "",
        "zones": _text(list(pool.zones)) if pool.zones else "",
    }
    yield "        NodePool("
    yield f"            {_text(pool.name)},"
    yield f"            {_text(pool.machine_type)},"
    yield from (f"            {name}={value}," for name, value in given.items() if value)
    yield "        ),"


def _tuple(*values: str | int) -> str:
    return f"({', '.join(map(_text, values))})"


def _text(value: object) -> str:
    """JSON of texts, numbers, lists and mappings is Python."""
    return json.dumps(value)


if __name__ == "__main__":
    sys.exit(main())
