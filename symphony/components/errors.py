"""A mistake found while the program declares: it ends a Pulumi program with one line; components raise it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pulumi

from symphony.errors import UserError
from symphony.spec.location import caller


class UsageError(UserError, pulumi.RunError):
    """A UserError that Pulumi shows without a traceback, in whichever project the program lives."""


def usage_error(what: str, remedy: str) -> UsageError:
    """The error for the line of the user's program that is running now."""
    return UsageError(what, where=str(caller()), remedy=remedy)


@contextmanager
def as_usage_error() -> Generator[None]:
    """Turn a UserError of the rooms below, and a file that cannot be used, into a UsageError."""
    try:
        yield
    except UserError as error:
        raise UsageError(error.what, where=error.where or str(caller()), remedy=error.remedy) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise usage_error(f"{error.filename}: {reason}", "Check the path") from error
    except UnicodeError as error:
        raise usage_error(f"the file is not UTF-8 text: {error}", "Save the experiment again") from error
