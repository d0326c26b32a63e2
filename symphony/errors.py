"""The errors that symphony raises for users; the command line prints each as one line, then its details."""

import sys


class SymphonyError(Exception):
    """A failure that is not the user's mistake.

    Attributes:
        what: The failure, without a full stop.
        where: The user's file:line, a process path, or a folder; may be empty.
        remedy: The next step for the user, without a full stop; may be empty.
        details: More lines, shown below the first.

    Example:
        SymphonyError("the image cannot be pulled", where="agent-0", remedy="Check its name")
    """

    exit_code = 1
    details: tuple[str, ...] = ()

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", details: tuple[str, ...] = ()
    ) -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        if details:
            self.details = details
        super().__init__(what, where, remedy)

    @property
    def line(self) -> str:
        """The error in one line."""
        place = f" ({self.where})" if self.where else ""
        parts = [f"{self.what}{place}", self.remedy]
        return " ".join(part if part[-1] in ".?!" else f"{part}." for part in parts if part)

    def __str__(self) -> str:
        return "\n".join([self.line, *self.details])


class UserError(SymphonyError, ValueError):
    """A mistake of the user: exit code 2. Nothing was started, unless a provider found it during an `up`.

    It has the attributes of SymphonyError: what, where, remedy and details.

    Example:
        try:
            cluster.delete("rl")
        except UserError as error:
            print(error.remedy)
    """

    exit_code = 2


class ResourceExistsError(UserError):
    """An experiment with this name already exists."""


def suggestion(error: Exception) -> str:
    """Return Python's "Did you mean" of an AttributeError, which `traceback` has only since Python 3.12."""
    if sys.version_info >= (3, 12) or not isinstance(error, AttributeError) or not error.name:
        return ""
    # Imported here: few programs fail.
    import difflib

    near = difflib.get_close_matches(error.name, dir(error.obj), n=1)
    return f". Did you mean: {near[0]!r}?" if near else ""
