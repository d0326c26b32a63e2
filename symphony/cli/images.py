"""`symphony images`: lists and removes the images on this machine that symphony built."""

import sys
from typing import Annotated, TextIO

import typer
from rich.filesize import decimal

from symphony.cli import arguments, screen
from symphony.cli.progress import names_of
from symphony.errors import UserError
from symphony.operations.images import BuiltImage, images, matching, remove
from symphony.operations.process import ago
from symphony.plan.problems import count

_HEAD = ("repository", "tag", "digest", "size", "age", "used by")
_DIGITS = 12


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[clean [PATTERN]]", help="`clean` removes images that no stack uses."),
    ] = None,
    yes: arguments.Yes = False,
    dry_run: arguments.DryRun = False,
    as_json: arguments.AsJson = False,
) -> int:
    """List the images on this machine that symphony built, and the stacks that use them.

    `clean` lists unused images, asks, and removes them from this machine; registries keep their copies.

    Examples:
        symphony images
        symphony images clean
        symphony images clean 'localhost:5000/rl:*' --dry-run
    """
    if not words:
        _show(images(), as_json)
        return 0
    if words[0] != "clean" or len(words) > 2:
        raise UserError(
            f"unknown action {' '.join(words)!r}",
            remedy="The only one is clean: `symphony images clean [PATTERN]`",
        )
    arguments.require_yes(as_json=as_json, yes=yes or dry_run)
    listed = matching(words[1]) if len(words) == 2 else images()
    unused = [image for image in listed if not image.used_by]
    if as_json:
        screen.show_json(unused)
    else:
        _show_unused(unused, used=len(listed) - len(unused))
    if dry_run or not unused:
        return 0
    if not yes:
        arguments.confirm(f"Remove {count(len(unused), 'image')}?")
    return _remove(unused, sys.stderr if as_json else sys.stdout)


def _show(listed: list[BuiltImage], as_json: bool) -> None:
    if as_json:
        screen.show_json(listed)
    elif not listed:
        print("This machine has no image built by symphony.")
    else:
        screen.show_table(_HEAD, map(_row, listed), right=(3,))


def _show_unused(unused: list[BuiltImage], *, used: int) -> None:
    if unused:
        screen.show_table(_HEAD[:-1], [_row(image)[:-1] for image in unused], right=(3,))
    kept = f"; {count(used, 'image')} in use" if used else ""
    print(f"{count(len(unused), 'image') if unused else 'No image'} to remove{kept}.")


def _row(image: BuiltImage) -> tuple[str, ...]:
    digest = image.digest.removeprefix("sha256:")[:_DIGITS]
    return (
        image.repository,
        image.tag,
        digest,
        decimal(image.size),
        ago(image.created),
        names_of(image.used_by),
    )


def _remove(unused: list[BuiltImage], output: TextIO) -> int:
    kept = [(image, why) for image in unused if (why := remove(image))]
    for image, why in kept:
        print(screen.clean(f"{image.reference} was not removed: {why}"), file=output)
    print(f"Removed {count(len(unused) - len(kept), 'image')}.", file=output)
    return 1 if kept else 0
