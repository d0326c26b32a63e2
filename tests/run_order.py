"""The test files that take longest, longest first: tests/conftest.py lets workers side by side begin there.

A worker that comes to a long file last works on while the others have nothing left to do.
"""

from __future__ import annotations

# By the seconds of the quickest of several runs; what they are: `--durations=0`. Those not named take less.
SLOWEST_FIRST = (
    # on a cluster too
    "conformance/test_recovery.py",
    "backends/kubernetes/test_runs.py",
    "backends/kubernetes/manifests/test_jobs.py",
    "backends/kubernetes/cluster/test_namespace_faults.py",
    "backends/kubernetes/status/test_pod_faults.py",
    "backends/kubernetes/status/test_troubles.py",
    "backends/kubernetes/diagnosis/test_why.py",
    "conformance/test_changes.py",
    "conformance/test_one_experiment.py",
    "backends/kubernetes/api/test_silent_server.py",
    "toolchain/plugin_kubernetes/test_engine.py",
    "toolchain/test_kills_during_up.py",
    "examples/test_on_kubernetes.py",
    "backends/kubernetes/test_three_doors.py",
    "backends/kubernetes/cluster/test_two_clusters.py",
    "backends/kubernetes/test_outside.py",
    "backends/kubernetes/remote/test_access.py",
    "toolchain/plugin_kubernetes/test_faults.py",
    "toolchain/kubernetes/test_cluster_leaves_nothing.py",
    # on this machine only
    "providers/symphony_tmux/test_engine.py",
    "cli/test_up.py",
    "examples/test_numint.py",
    "engine/run/test_run.py",
    "operations/test_three_doors.py",
    "engine/run/test_run_ends.py",
    "components/test_engine.py",
    "operations/test_repairs.py",
    "cli/test_delete.py",
    "test_readme.py",
    "examples/test_examples.py",
    "cli/test_process.py",
    "operations/test_faults.py",
    "operations/test_settings.py",
    "operations/test_other_resources.py",
    "backends/tmux/test_up.py",
    "backends/tmux/test_services.py",
    "classic/test_cluster.py",
    "cli/test_inside.py",
    "cli/test_ls.py",
    "operations/test_ports.py",
    "operations/test_moves.py",
    "caraml/reliability/test_peers.py",
    "caraml/reliability/test_delivery.py",
    "caraml/reliability/test_malformed.py",
    "test_repository.py",
    "providers/symphony_tmux/processes/test_trees.py",
    "providers/symphony_tmux/resource/test_windows.py",
    "caraml/reliability/test_endings.py",
)
_RANK = {f"tests/{file}": rank for rank, file in enumerate(SLOWEST_FIRST)}


def rank(nodeid: str) -> int:
    """Where the file of a test stands; tests of one file, and of files not named, keep their order."""
    return _RANK.get(nodeid.partition("::")[0], len(_RANK))
