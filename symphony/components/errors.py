"""UsageError: a mistake of the user's program that ends it with one line."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pulumi

from symphony.errors import UserError
from symphony.spec.location import caller


class UsageError(UserError, pulumi.RunError):
    """A UserError that Pulumi shows without a traceback, in whichever project the program lives."""


def usage_error(what: str, remedy: str) -> UsageError:
    """Return the error for the line of the user's program that is running now."""
    return UsageError(what, where=str(caller()), remedy=remedy)


@contextmanager
def as_usage_error() -> Generator[None]:
    """Turn a UserError of the modules below into a UsageError with the user's line."""
    try:
        yield
    except UsageError:
        raise
    except UserError as error:
        where = error.where or str(caller())
        raise UsageError(error.what, where=where, remedy=error.remedy) from None
