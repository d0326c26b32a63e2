"""The ways in which an operation fails, and how each is told to the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from toolchain.plugins.values import to_struct


class Failure(Exception):
    """Something the user is told in one line; nothing was left behind that the state does not know."""


class Unreachable(Failure):
    """No answer from the API server: it says nothing about what exists."""


class Silent(Unreachable):
    """A connection that stays open, over which nothing comes when something should."""


class Canceled(Failure):
    """The user stopped the run."""


@dataclass
class Refused(Failure):
    """The API server answered no."""

    status: int
    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass
class NotLive(Failure):
    """The object exists but did not become what was asked; it must stay in the state."""

    id: str
    outputs: dict[str, Any]
    inputs: dict[str, Any]
    why: str

    def __str__(self) -> str:
        return f"the Kubernetes API server reported that {self.id!r} failed to become live: {self.why}"


@dataclass(frozen=True)
class _Status(grpc.Status):
    code: grpc.StatusCode
    details: str
    trailing_metadata: Any = None


def abort(context: grpc.ServicerContext, failure: Failure) -> NoReturn:
    """End the RPC; what exists although the operation failed goes along, so that the engine keeps it."""
    if isinstance(failure, NotLive):
        context.abort_with_status(_not_live(failure))
    if isinstance(failure, Unreachable):
        context.abort(grpc.StatusCode.UNAVAILABLE, str(failure))
    context.abort(grpc.StatusCode.UNKNOWN, str(failure))
    raise AssertionError("abort returns never")


def _not_live(failure: NotLive) -> _Status:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.id,
        properties=to_struct(failure.outputs),
        inputs=to_struct(failure.inputs),
        reasons=[str(failure)],
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(failure))
    status.details.add().Pack(detail)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    return _Status(grpc.StatusCode.UNKNOWN, str(failure), trailer)
