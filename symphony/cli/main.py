"""The entry point of `symphony`: runs a command, prints an error and its details, returns the exit code."""

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from symphony.cli.screen import DEBUG_VARIABLE, show_error, silence
from symphony.errors import SymphonyError

if TYPE_CHECKING:
    from io import TextIOWrapper

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    if arguments is None:
        warnings.showwarning = _warn
    # Names may have bytes that cannot be encoded.
    with contextlib.suppress(AttributeError, ValueError):
        cast("TextIOWrapper", sys.stdout).reconfigure(errors="replace")
    code = 0
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        # A caller may have closed standard output.
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]
            sys.stdout.flush()
    except OSError as error:
        is_of_output = isinstance(error, BrokenPipeError) or error.errno == errno.ENOSPC
        if error.filename is not None or (_debugs() and not is_of_output):
            raise  # with --debug
        # `| head` closed the pipe, or the disk is full; the flush at exit must not fail again.
        silence()
        if isinstance(error, BrokenPipeError):
            return code
        show_error(f"cannot write to standard output or to a file: {error.strerror}.")
        return 1
    return code


def _run(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        show_error("interrupted.")
        return INTERRUPTED
    except SymphonyError as error:
        if _debugs():
            raise
        show_error(error.line, error.details)
        return error.exit_code
    except OSError as error:
        # Without a file name, a write failed, most likely of the output: main() handles it.
        if (
            isinstance(error, BrokenPipeError)
            or (error.errno == errno.ENOSPC and not error.filename)
            or _debugs()
        ):
            raise
        reason = f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
        if error.errno in (errno.EROFS, errno.EACCES):
            remedy = (
                "Make it accessible (chmod, mount), or use another folder (SYMPHONY_HOME for symphony's own)"
            )
        else:
            remedy = "Run the command again with --debug to see where"
        show_error(f"{reason}. {remedy}.")
        return 1
    except Exception as error:
        if _debugs():
            raise
        text = " ".join(str(error).split())
        what = f"this is a bug in symphony: {type(error).__name__}: {text}"
        show_error(f"{what}. Run the command again with --debug, and report the traceback.")
        return 1


def _warn(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object) -> None:
    show_error(str(message))


def _debugs() -> bool:
    return bool(os.environ.get(DEBUG_VARIABLE))


def _dispatch(words: list[str]) -> int:
    # Imported here, so that Ctrl-C during the import is handled too.
    import typer

    from symphony.cli.commands import app

    try:
        code = app()(args=words, prog_name="symphony", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        name = context.command_path if context else "symphony"
        show_error(f"{error.format_message().rstrip('.')}. See `{name} --help`.")
        return 2
    except typer.Abort:
        show_error("interrupted.")
        return INTERRUPTED
    except SystemExit as end:
        if end.code:
            # The parser exits when the reader of the pipe is gone.
            raise BrokenPipeError from end
        return 0
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
