"""Runs the program for an engine in a network namespace, as the language host would: on the machine, outside.

    python -I -m symphony.engine.run.program_host FOLDER PYTHON EXECUTOR

The engine reaches FOLDER/program. What the program writes goes to it as messages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS  # pyright: ignore[reportPrivateUsage]
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, language_pb2, language_pb2_grpc

from symphony.engine.run import relay
from symphony.engine.run.relay import PROGRAM, door

# The exit code of a program that has said itself what is wrong.
_ERROR_SHOWN = 32


class OutsideServer(LanguageServer):
    """Answers an engine in a namespace: what the program dials of it are doors in the folder."""

    def __init__(self, folder: str, program: Callable[[], Any] = lambda: None) -> None:
        super().__init__(program)
        self._folder = folder

    def Run(self, request: Any, context: Any) -> Any:
        if relay.is_open(self._folder):
            request.monitor_address = door(self._folder, request.monitor_address)
            request.args[0] = door(self._folder, request.args[0])
        return self.run(request, context)

    def run(self, request: Any, context: Any) -> Any:
        return super().Run(request, context)  # pyright: ignore[reportUnknownMemberType]


class _ProcessServer(OutsideServer):
    """Starts the program as a process."""

    def __init__(self, folder: str, python: str, executor: str) -> None:
        super().__init__(folder)
        self._python, self._executor = python, executor

    def run(self, request: Any, context: Any) -> Any:
        options = {
            "monitor": request.monitor_address,
            "engine": request.args[0],
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        command = [self._python, "-u", self._executor]
        for name, value in options.items():
            command += [f"--{name}", value] if value else []
        environment = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        with subprocess.Popen(
            [*command, request.program or "."],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=request.pwd,
        ) as program:
            assert program.stdout is not None
            _tell(program.stdout, request.args[0])
        code = program.returncode
        if code == _ERROR_SHOWN:
            return language_pb2.RunResponse(bail=True)
        error = f"program exited with non-zero exit code: {code}" if code else ""
        return language_pb2.RunResponse(error=error)


def _tell(output: IO[bytes], engine: str) -> None:
    """Pass on what the program writes, until it has ended."""
    with grpc.insecure_channel(engine) as channel:
        stub: Any = engine_pb2_grpc.EngineStub(channel)
        for line in output:
            text = line.decode(errors="replace").rstrip("\n")
            stub.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=text))


def main() -> None:
    """Serves until the engine is gone; whoever started the engine ends it with its session."""
    folder, python, executor = sys.argv[1:]
    server: Any = grpc.server(ThreadPoolExecutor(max_workers=4), options=_GRPC_CHANNEL_OPTIONS)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(_ProcessServer(folder, python, executor), server)
    server.add_insecure_port(f"unix:{folder}/{PROGRAM}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
