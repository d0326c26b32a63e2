"""An engine run of a program that lives in this process: the door of plain scripts, `cluster.launch()`.

    with InlineRun("up", workspace, "rl", program=expand) as run:
        for event in run:
            ...
    errors.check(run.outcome)

The same single `pulumi` process as in run.py, only that it asks this process, over gRPC, to run the program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from symphony.engine import workspace as workspaces
from symphony.engine.run import start
from symphony.engine.run.outcome import Verb
from symphony.engine.run.run import Run
from symphony.engine.workspace import Workspace

Program = Callable[[], object]


class InlineRun(Run):
    """A Run whose program is a callable; it runs in a thread, once for each run."""

    def __init__(
        self,
        verb: Verb,
        workspace: Workspace,
        stack: str,
        *,
        program: Program,
        extra: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        fetch_plugins: bool = False,
    ) -> None:
        super().__init__(
            verb,
            workspace,
            stack,
            extra={**_python(), **(extra or {})},
            options=options,
            fetch_plugins=fetch_plugins,
        )
        self._program = program
        self._server: Any = None

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self._stop_server()
            raise

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--exec-kind=auto.inline"]

    def _serve_program(self, folder: Path) -> bool:
        import grpc
        from pulumi.runtime.proto import language_pb2_grpc

        from symphony.engine.run.program_host import OPTIONS, ProgramServer

        self._stop_server()
        server: Any = grpc.server(ThreadPoolExecutor(max_workers=4), options=OPTIONS)
        program = ProgramServer(str(folder), self._guarded)
        language_pb2_grpc.add_LanguageRuntimeServicer_to_server(program, server)
        # A port could be dialed by every user of the machine; the folder is private.
        server.add_insecure_port(f"unix:{folder / start.PROGRAM}")
        server.start()
        self._server = server
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._stop_server()

    def _guarded(self) -> None:
        """The program; of its error the engine is told one line instead of our traceback."""
        from pulumi import RunError

        try:
            self._program()
        except RunError:
            raise
        except BaseException as error:
            raise RunError(str(error)) from error

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop(0)


def workspace_for(stack: str) -> Workspace:
    """The project of the folder a script runs in, else the hidden project `symphony`."""
    return workspaces.find() or workspaces.hidden(workspaces.DEFAULT_PROJECT, stack, main=Path.cwd())


def _python() -> dict[str, str]:
    """Lets the host of dynamic providers import what this process can: interpreter and script's folder."""
    folder = sys.path[0] if sys.path and sys.path[0] else str(Path.cwd())
    above = os.environ.get("PYTHONPATH", "")
    return {
        "PULUMI_PYTHON_CMD": sys.executable,
        "PYTHONPATH": f"{folder}{os.pathsep}{above}" if above else folder,
    }
