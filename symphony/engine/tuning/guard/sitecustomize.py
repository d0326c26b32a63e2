"""Python loads this before the program of a run: what would be lost, or empty a stack, is refused in time.

Checkpoints are the most of the time of a large run. Without them the state learns of a run at its end only:
what a killed one made of ours is found again by its mark, but a bucket that the same program made would be in
no state. So without them the program registers nothing but ours; run.py runs it again, with them.

It runs in the Python of the program, so it needs nothing but the SDK.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

FOLDER = os.path.dirname(__file__)  # noqa: PTH120 : every Python that the engine starts loads this
# Set where the run keeps no checkpoints.
GUARDED = "SYMPHONY_WITHOUT_CHECKPOINTS"
NEEDS_CHECKPOINTS = "is only made by a run that keeps checkpoints"

_PROGRAM = "pulumi-language-python-exec"
# The components, and what each provider in providers/ makes; what a stranger's makes bears our mark.
_OURS = ("symphony:", "pulumi-python:dynamic/symphony_tmux:", "pulumi-python:dynamic/symphony_docker:")
# Nothing outside of the state hangs on these.
_BOOKKEEPING = ("pulumi:pulumi:Stack", "pulumi:pulumi:StackReference", "pulumi:providers:")
_MANAGED_BY = "app.kubernetes.io/managed-by"


def is_ours(type_: str, inputs: Mapping[str, Any]) -> bool:
    """Whether a resource is of an experiment, or only the engine's own note."""
    return type_.startswith((*_OURS, *_BOOKKEEPING)) or _managed_by(inputs) == "symphony"


def _managed_by(inputs: Mapping[str, Any]) -> Any:
    result: Any = inputs
    for key in ("metadata", "labels", _MANAGED_BY):
        # What the engine is sent knows no get().
        if not isinstance(result, Mapping) or key not in result:
            return None
        result = cast("Mapping[str, Any]", result)[key]
    return result


def _leave() -> None:
    """Nobody sees that this was here: the path, the environment, a sitecustomize of the user's."""
    sys.path[:] = [folder for folder in sys.path if folder != FOLDER]
    rest = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder != FOLDER]
    if any(rest):
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # pyright: ignore[reportMissingImports, reportUnusedImport] # noqa: F401
    except ImportError:
        sys.modules[__name__] = this


def _guard(*, keeps_checkpoints: bool, is_asked: bool) -> None:
    # The engine runs this process for the program alone: looking for garbage took a sixth of its time.
    gc.set_threshold(50_000, 20, 20)
    try:
        from pulumi.runtime.proto.resource_pb2_grpc import ResourceMonitorStub
        from pulumi.runtime.stack import Stack
    except ImportError:
        return  # The engine says what is missing.
    if not keeps_checkpoints:
        _refuse_others(ResourceMonitorStub)
    if is_asked:
        _refuse_nothing(Stack)


def _refuse_others(monitor: Any) -> None:
    """Every registration of the program goes through it."""
    begin = monitor.__init__

    def begin_guarded(self: Any, channel: Any) -> None:
        begin(self, channel)
        self.RegisterResource = _refusing(self.RegisterResource)

    monitor.__init__ = begin_guarded


def _refusing(register: Callable[..., Any]) -> Callable[..., Any]:
    from pulumi import RunError

    def guarded(request: Any, *arguments: Any, **options: Any) -> Any:
        if (request.custom or request.remote) and not is_ours(request.type, request.object):
            raise RunError(f"{request.name} ({request.type}) {NEEDS_CHECKPOINTS}")
        return register(request, *arguments, **options)

    return guarded


def _refuse_nothing(stack: Any) -> None:
    """A program without an experiment is a mistake: it would stop all that runs."""
    from pulumi import RunError, get_stack

    register_outputs = stack.register_outputs

    def end(self: Any, outputs: Any) -> None:
        is_ours = hasattr(self, "_symphony_run") or hasattr(self, "_symphony_cluster")
        if sys.exc_info()[0] is None and not is_ours:
            raise RunError(
                f"the program of {get_stack()} launches no experiment."
                ' Declare one in it: "with Experiment(...) as experiment:"'
            )
        register_outputs(self, outputs)

    stack.register_outputs = end


if __name__ == "sitecustomize":
    _leave()
    _skips = os.environ.pop(GUARDED, None) is not None
    if any(word.endswith(_PROGRAM) for word in sys.orig_argv):
        _guard(keeps_checkpoints=not _skips, is_asked="SYMPHONY_RUN" in os.environ)
