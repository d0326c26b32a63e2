"""The programs of the one-machine cluster, from the Go modules in `modules/`."""

from pathlib import Path

from toolchain import golang
from toolchain.golang import Module, Say
from toolchain.kubernetes.calls import ToolchainError

_MODULES = Path(__file__).parent / "modules"
_VERSION = "k8s.io/component-base/version"
# Without the version the API server calls itself v0.0.0 and clients refuse features by it. A change
# of it builds the programs again.
_STAMP = f"-s -w -X {_VERSION}.gitVersion=v1.34.0 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=34"
# The programs that the tool lines of modules/kubernetes/go.mod name, too.
_KUBERNETES = (
    "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"
)  # fmt: skip
ALL = (
    Module(_MODULES / "etcd", ("etcd",), built_as="server"),
    Module(_MODULES / "kubernetes", _KUBERNETES, ("-trimpath", f"-ldflags={_STAMP}")),
    Module(_MODULES / "coredns", ("coredns",)),
    Module(_MODULES / "kwok", ("kwok",)),
    Module(_MODULES / "pause", ("pause",)),
)


def programs(say: Say) -> dict[str, Path]:
    """Return the path of every program by its name; build those that are not in the cache."""
    result: dict[str, Path] = {}
    for number, module in enumerate(ALL, 1):
        folder = golang.programs(module, say, f"{module.name} ({number} of {len(ALL)})")
        result.update({name: folder / name for name in module.programs})
    return result


def kubectl() -> Path:
    """Return the path of the kubectl that belongs to the cluster."""
    return golang.cached(ALL[1]) / "kubectl"


def is_possible() -> bool:
    """Return whether all programs are built or can be built."""
    if all(golang.cached(module).is_dir() for module in ALL):
        return True
    try:
        return bool(golang.compiler())
    except ToolchainError:
        return False
