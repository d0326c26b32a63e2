"""Runs the user's program for the engine, in the interpreter of the project.

    python -P -m symphony.engine.run.program_host FOLDER [--skips-checkpoints]

The engine asks for it through the socket on standard input, as it asks a program of Pulumi's Automation API.
The output of the program goes to the engine as messages.
"""

import os
import queue
import runpy
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, cast

import grpc
import pulumi
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, language_pb2_grpc

from symphony import own_user_server, run_request, socket_relay
from symphony.engine.run import checkpoints
from symphony.errors import suggestion

OPTIONS = [(f"grpc.max_{way}_message_length", 400 * 1024 * 1024) for way in ("receive", "send")]
SKIPS_CHECKPOINTS = "--skips-checkpoints"
# The attributes that an experiment and a cluster set on their stack.
_EXPERIMENT, _CLUSTER = "_symphony_run", "_symphony_cluster"
_END_OF_OUTPUT = b"\0symphony: the program has ended\n"


class ProgramServer(LanguageServer):
    """The Automation API's server of a program, for an engine that may be in a network namespace."""

    def __init__(self, folder: str, program: Callable[[], Any]) -> None:
        super().__init__(program)
        self._folder = folder

    def Run(self, request: Any, context: Any) -> Any:
        request.monitor_address = socket_relay.relayed_address(self._folder, request.monitor_address)
        request.args[0] = socket_relay.relayed_address(self._folder, request.args[0])
        return self.run(request, context)

    def run(self, request: Any, context: Any) -> Any:
        return super().Run(request, context)  # pyright: ignore[reportUnknownMemberType]


class _FileServer(ProgramServer):
    """Runs the program of a project: in the main thread, as Python runs a script."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, lambda: run_file(self._file))
        self._file = "."
        self._requests: queue.SimpleQueue[tuple[Any, Any, Future[Any]]] = queue.SimpleQueue()

    def run(self, request: Any, context: Any) -> Any:
        answer: Future[Any] = Future()
        self._requests.put((request, context, answer))
        return answer.result()

    def serve(self) -> None:
        """Run the program when the engine asks, once in a run; the process ends with the engine."""
        while True:
            request, context, answer = self._requests.get()
            self._file = request.program or "."
            try:
                os.chdir(request.pwd)
                with _Output(request.args[0]):
                    answer.set_result(super().run(request, context))
            except Exception as error:
                # Without an answer the engine would wait for ever.
                answer.set_exception(error)


class _Output:
    """Sends what this process and its children print to the engine, within a `with` block."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def __enter__(self) -> None:
        reader, writer = os.pipe()
        for descriptor in (1, 2):
            os.dup2(writer, descriptor)
        os.close(writer)
        args = (os.fdopen(reader, "rb"), self._engine)
        self._forwarder = threading.Thread(target=_forward, args=args, daemon=True)
        self._forwarder.start()

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        # A child of the program may hold the pipe open for longer.
        os.write(1, _END_OF_OUTPUT)
        self._forwarder.join()


def _forward(output: IO[bytes], engine: str) -> None:
    """Send lines to the engine as messages, up to the end of the program."""
    with grpc.insecure_channel(engine) as channel:
        stub: Any = engine_pb2_grpc.EngineStub(channel)
        for line in output:
            text, _, rest = line.partition(_END_OF_OUTPUT)
            if message := text.decode(errors="replace").rstrip("\n"):
                stub.Log(engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message))
            if rest or line.endswith(_END_OF_OUTPUT):
                return


def run_file(file: str) -> None:
    """Run a folder as `python FOLDER` does, or a file, whose folder runpy does not add to sys.path.

    Raises:
        pulumi.RunError: The program failed, or declares no experiment where a command asks for one.
    """
    if SKIPS_CHECKPOINTS in sys.argv:
        pulumi.runtime.register_stack_transformation(_refuse_foreign)
    sys.argv = [file]
    try:
        runpy.run_path(file, run_name="__main__")
    except pulumi.RunError:
        raise
    except SystemExit as ended:
        if ended.code not in (None, 0):
            code = ended.code
            how = f"exited with {code}" if isinstance(code, int) else f"ended itself: {code}"
            raise pulumi.RunError(f"the program of {pulumi.get_stack()} {how}") from None
    except Exception as error:
        trace = traceback.format_exc().rstrip() + suggestion(error)
        raise pulumi.RunError(f"Program failed with an unhandled exception:\n{trace}\n") from None
    root: Any = pulumi.runtime.get_root_resource()  # pyright: ignore[reportUnknownMemberType]
    if hasattr(root, _EXPERIMENT):
        getattr(root, _EXPERIMENT).require_launched()
    elif run_request.VARIABLE in os.environ and not hasattr(root, _CLUSTER):
        # An `up` without an experiment would stop all processes. ReportedDeclaration.require_declaration
        # refuses it too, but with -y only after the run.
        raise pulumi.RunError(
            f"the program of {pulumi.get_stack()} launches no experiment."
            ' Declare one in it: "with Experiment(...) as experiment:"'
        )


def _refuse_foreign(args: pulumi.ResourceTransformationArgs) -> None:
    props = cast("Mapping[str, Any]", args.props)
    if isinstance(args.resource, pulumi.CustomResource) and not checkpoints.is_ours(args.type_, props):
        raise pulumi.RunError(f"{args.name} ({args.type_}) {checkpoints.NEEDED}")


def main() -> None:
    server: Any = grpc.server(ThreadPoolExecutor(max_workers=4), options=OPTIONS)
    program = _FileServer(sys.argv[1])
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(program, server)
    # The socket is in a private folder.
    listener = socket.socket(fileno=os.dup(0))
    own_user_server.serve(server, listener, sys.argv[1], own_user_only=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    server.start()
    socket_relay.end_with_relay(sys.argv[1])
    program.serve()


if __name__ == "__main__":
    main()
