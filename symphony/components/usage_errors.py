"""UsageError: a mistake in the user's program, which Pulumi shows as a single line."""

from collections.abc import Generator
from contextlib import contextmanager

import pulumi

from symphony.errors import UserError
from symphony.spec.location import caller


class UsageError(UserError, pulumi.RunError):
    """A UserError that Pulumi shows without a traceback, because it is a RunError."""


def usage_error(what: str, remedy: str) -> UsageError:
    """Return the error with the line of the user's program that is running now."""
    return UsageError(what, where=str(caller()), remedy=remedy)


@contextmanager
def as_usage_error() -> Generator[None]:
    """Convert a UserError to a UsageError with the user's line."""
    try:
        yield
    except UsageError:
        raise
    except UserError as error:
        where = error.where or str(caller())
        raise UsageError(error.what, where=where, remedy=error.remedy) from None
