"""The plan file: what the program of a run writes, and the symphony command that waits for it reads.

It lies in a private folder that goes with the command, for it holds the values of environment variables.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from symphony import paths
from symphony.errors import SymphonyError, UserError
from symphony.plan.code import CodeSets, unpacked
from symphony.plan.plan import Plan, whole
from symphony.plan.problems import PlanError, Problem
from symphony.spec.location import Location

VARIABLE = "SYMPHONY_PLAN_FILE"
_REQUEST = "request.json"
# Of the program that runs in this context: a script may launch several at once.
_answer: ContextVar[Path | None] = ContextVar("answer", default=None)


@dataclass(frozen=True)
class Restarted:
    """Processes that are started again, by their paths.

    experiment, outputs: the name of theirs, and what the state goes on having of it.
    """

    experiment: str
    outputs: Mapping[str, Any]
    paths: Sequence[str]


# the program's side


def answer_in(file: Path) -> None:
    """What the program of this context writes from now on goes there, not where the environment says."""
    _answer.set(file)


def is_asked() -> bool:
    """Whether a symphony command waits for the plan; plain `pulumi` does not."""
    return _file() is not None


def recorded() -> frozenset[str] | None:
    """The uids of what the state records, as the command told; None where none did."""
    request = _request()
    return frozenset(request["uids"]) if request else None


def runs_on() -> str | None:
    """The backend on which the stack is up, as the command told; None where it is not, or none did."""
    return _request().get("runs_on")


def wants_manifests() -> bool:
    """Whether the command asks for the manifests, too."""
    return _request().get("manifests", False)


def lacks_plugins() -> bool:
    """Whether the command runs the engine without the plugins of Pulumi."""
    return not _request().get("plugins", True)


def ask_for_plugins() -> None:
    """Have the command run the program again, with the plugins of Pulumi."""
    _write({"needs_plugins": True})


def code_in_use() -> CodeSets:
    """What the state goes on having of the code that processes may run on with, if this run fails."""
    return unpacked(_request().get("code", ""))


def restarted() -> Restarted | None:
    """What this run starts again, leaving all else as it is; None in any other."""
    asked = _request().get("restarted")
    return Restarted(**asked) if asked else None


def would_move(stack: str, runs_on: str, backend: str, back: str = "", where: str = "") -> UserError:
    """It would stop in one backend and start in another, which is hardly ever meant."""
    back = back or f"Set `symphony:backend: {runs_on}`"
    return UserError(
        f"{stack} runs on {runs_on} and would move to {backend}",
        where=where,
        remedy=f"{back}, or end it first: `symphony delete {stack}`",
    )


def _request() -> dict[str, Any]:
    """What the command asks; nothing where none did."""
    if (file := _file()) is None or not (request := file.with_name(_REQUEST)).exists():
        return {}
    return json.loads(request.read_text())


def write_plan(
    plan: Plan,
    inputs: Mapping[str, Mapping[str, Any]],
    program: Mapping[str, str],
    manifests: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The plan, the inputs of each process as its backend renders them, the files of the program, and the
    manifests if wanted.
    """
    unused = [str(each) for each in plan.unused]
    written = {"plan": plan.to_dict(), "inputs": inputs, "unused": unused, "code": plan.code}
    _write({**written, "program": program, "manifests": manifests})


def write_cluster(cluster: Mapping[str, Any]) -> None:
    """The cluster that the program declares in the place of an experiment, and its pools."""
    _write({"cluster": cluster})


def write_problems(error: PlanError) -> None:
    """Why the experiment cannot run."""
    problems = [problem.to_json() for problem in error.problems]
    _write({"experiment": error.experiment, "problems": problems})


def write_failure(error: SymphonyError) -> None:
    """What failed and is not the user's mistake: a RunError alone would not say whose it is."""
    _write({"failure": {"what": error.what, "where": error.where, "remedy": error.remedy}})


def _write(data: dict[str, Any]) -> None:
    if (file := _file()) is not None:
        partial = file.with_name(f"{file.name}.partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(data))
        partial.replace(file)


def _file() -> Path | None:
    named = os.environ.get(VARIABLE)
    return _answer.get() or (Path(named) if named else None)


# the command's side


@dataclass(frozen=True)
class WrittenPlan:
    """The plan as plain values, the inputs of each process as its backend renders them, the files of code and
    those of the program.
    """

    plan: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]]
    unused: tuple[str, ...]
    code: CodeSets
    program: Mapping[str, str]
    manifests: tuple[Mapping[str, Any], ...] = ()

    @property
    def backend(self) -> str:
        return str(self.plan["backend"])


@dataclass(frozen=True)
class WrittenCluster:
    """A cluster as plain values: its name, location and project, and the pools."""

    name: str
    location: str
    project: str
    pools: Sequence[Mapping[str, Any]]


class PlanFile:
    """Where a run of the program finds what the command asks, and puts its plan.

    plugins: whether the engine is to run with the plugins of Pulumi.
    """

    def __init__(self, file: Path, request: Mapping[str, Any]) -> None:
        self.file = file
        self.environment = {VARIABLE: str(file)}
        self._request = dict(request)
        self._ask()

    @property
    def plugins(self) -> bool:
        return bool(self._request["plugins"])

    def _ask(self) -> None:
        self.file.with_name(_REQUEST).write_text(json.dumps(self._request))

    def needs_plugins(self) -> bool:
        """Whether the program asked to be run again, with the plugins of Pulumi: it will find them there."""
        if not self.file.exists() or "needs_plugins" not in json.loads(self.file.read_text()):
            return False
        self.file.unlink()
        self._request["plugins"] = True
        self._ask()
        return True

    def take_new(self) -> WrittenPlan | None:
        """The plan, as soon as it is there, else None: an engine that ends by itself, as it does on problems,
        would leave its lock if an error interrupted it then.
        """
        data = self._read() or {}
        return self._plan(data) if "plan" in data else None

    def take(self) -> WrittenPlan | None:
        """The plan, once the engine has ended; None when nothing was handed over.

        PlanError: the program has problems. SymphonyError: what it asked of its backend failed.
        """
        data = self._read() or {}
        if failure := data.get("failure"):
            raise SymphonyError(failure["what"], where=failure["where"], remedy=failure["remedy"])
        if "problems" in data:
            raise PlanError(data["experiment"], [problem(each) for each in data["problems"]])
        return self._plan(data) if "plan" in data else None

    def _plan(self, data: dict[str, Any]) -> WrittenPlan:
        given = whole(data["plan"]), data["inputs"], tuple(data["unused"]), data["code"], data["program"]
        return WrittenPlan(*given, manifests=tuple(data["manifests"]))

    def take_cluster(self) -> WrittenCluster | None:
        """The cluster that the program declares; None where it declares none."""
        data = self._read() or {}
        return WrittenCluster(**data["cluster"]) if "cluster" in data else None

    def _read(self) -> dict[str, Any] | None:
        try:
            return json.loads(self.file.read_text())
        except FileNotFoundError:
            return None


@contextmanager
def plan_file(
    recorded: Collection[str] = (),
    runs_on: str | None = None,
    *,
    code: str = "",
    plugins: bool = True,
    manifests: bool = False,
    restarted: Restarted | None = None,
) -> Generator[PlanFile]:
    """A private place for the plan while the block runs; what a killed command left of that kind goes, too.

    recorded: the uids of what the state records, runs_on: the backend on which it is up, code: the files of
    the code it has, packed; for the program.
    plugins: whether the engine has those of Pulumi; manifests: whether the program is to write them, too.
    restarted: what the run starts again, if it leaves all else as it is.
    """
    home = paths.private_folder(paths.home())
    prefix = f"plan-{paths.host()}-"
    for left in home.glob(f"{prefix}*"):
        if not _is_running(left.name.removeprefix(prefix).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", dir=home) as folder:
        again = asdict(restarted) if restarted else None
        about = {"uids": sorted(recorded), "runs_on": runs_on, "code": code, "restarted": again}
        request = {**about, "plugins": plugins, "manifests": manifests}
        yield PlanFile(Path(folder) / "plan.json", request)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def problem(data: Mapping[str, Any]) -> Problem:
    """One that was handed over."""
    return Problem(data["what"], data["remedy"], tuple(map(_location, data["where"])))


def _location(data: Mapping[str, Any]) -> Location:
    return Location(data["file"], data["line"], tuple(map(_location, data["called_from"])))
