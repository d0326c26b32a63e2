"""The container of a process: image, command, variables, claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symphony.backends.kubernetes.manifests import labels, volumes
from symphony.backends.kubernetes.manifests.merge import merged
from symphony.backends.kubernetes.settings import Settings
from symphony.plan.plan import Plan, PlannedProcess
from symphony.plan.services import file_variables, used_variables
from symphony.spec.mounts import GitRepoMount
from symphony.spec.process import Resources

ROLE = "SYMPHONY_ROLE"
GPU = "nvidia.com/gpu"
_NOBODY = 65534

_CLONE = """
git init -q . || exit
git fetch -q --depth=1 -- "$1" "$2" && git checkout -qf FETCH_HEAD && exit
git fetch -q --tags -- "$1" '+refs/heads/*:refs/remotes/origin/*' && git checkout -qf "$2" --
""".strip()
# The folder belongs to root whoever clones, and git refuses the folder of another.
_CLONE_ENV = {
    "HOME": "/tmp",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def container(plan: Plan, process: PlannedProcess, settings: Settings, key: bytes) -> dict[str, Any]:
    """The manifest of one process's container; key: that of the digests of secret_env.

    The variables of the services that the process uses stand in it, so that it is started again when one of
    them moves. Those of all services come from a ConfigMap: a service that the process does not use can come
    and go without replacing its pod, and every process sees all services that exist when it starts.
    """
    mounts = [*volumes.mounted(process.mounts), *volumes.files_mounts(plan)]
    rendered: dict[str, Any] = {
        "name": process.name,
        "image": process.image,
        "imagePullPolicy": process.image_pull_policy,
        "command": [literal(word) for word in _command(process)],
        "args": [literal(word) for word in process.args],
        "workingDir": process.start_dir,
        "env": [
            *_env(
                {
                    ROLE: process.name,
                    # A Python that is killed has printed all that it said.
                    "PYTHONUNBUFFERED": "1",
                    **process.env,
                    **used_variables(plan, process),
                    **file_variables(plan, volumes.SECRETS_FOLDER, volumes.CONFIGS_FOLDER),
                }
            ),
            *(
                _secret(name, settings.named(labels.SECRET_ENV), each.digest(key))
                for name, each in process.secret_env.items()
            ),
        ],
        "envFrom": [{"configMapRef": {"name": settings.named(labels.SERVICES_MAP)}}],
        "resources": _resources(process),
        "volumeMounts": mounts,
        "securityContext": security(settings),
        # The last lines of a process that fails stand in its status: nobody has to fetch its log to say why.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return merged(without_nothing(rendered), process.container_yml)


def _command(process: PlannedProcess) -> tuple[str, ...]:
    """Shell lines are run by the image's own shell."""
    lines = "\n".join((*process.preamble_cmds, *process.cmds))
    return ("sh", "-c", lines) if process.cmds else process.command


def clone(
    name: str, volume: str, repository: GitRepoMount, settings: Settings, *, user: bool
) -> dict[str, Any]:
    """The init container that puts a git repository into a volume; user: the pod says who it runs as."""
    may = security(settings)
    if may.get("runAsNonRoot") and not user:
        # Images with git run as root, unless they are told not to.
        may["runAsUser"] = _NOBODY
    return {
        "name": name,
        "image": settings.git_image,
        "command": [
            "sh",
            "-c",
            _CLONE,
            "clone",
            literal(repository.repository),
            literal(repository.revision),
        ],
        "workingDir": "/repository",
        "env": _env(_CLONE_ENV),
        "volumeMounts": [{"name": volume, "mountPath": "/repository"}],
        "securityContext": may,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def security(settings: Settings) -> dict[str, Any]:
    """What a container may not do, at the Pod Security level of the experiment."""
    if settings.pod_security == "restricted":
        return {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        }
    return {"allowPrivilegeEscalation": False}


def secured(container: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """A container as the user's own words left it, with what keeps it in its box where they say nothing."""
    own: Mapping[str, Any] = container.get("securityContext") or {}
    may = {**security(settings), **{name: value for name, value in own.items() if value is not None}}
    if own.get("privileged"):
        # The API server refuses one with the other.
        may.pop("allowPrivilegeEscalation")
    return {**container, "securityContext": may}


def literal(text: str) -> str:
    """A text that Kubernetes passes on as it is: it would put a variable's value in place of $(NAME).

    >>> literal("cost: $5"), literal("$(HOME) $$")
    ('cost: $5', '$$(HOME) $$$$')
    """
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are there: a manifest says nothing of what is not set."""
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}


def _env(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": literal(value)} for name, value in values.items()]


def _secret(name: str, secret: str, digest: str) -> dict[str, Any]:
    """A variable whose value is in a Secret under its digest: another value is another container."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": digest}}}


def _resources(process: PlannedProcess) -> dict[str, Any]:
    claims = {"requests": _amounts(process.resource_request), "limits": _amounts(process.resource_limit)}
    return without_nothing(claims)


def _amounts(resources: Resources) -> dict[str, str]:
    amounts = {"cpu": resources.cpu, "memory": resources.memory, GPU: resources.gpu}
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}
