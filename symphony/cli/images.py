"""`symphony images`: what was built and is on this machine; `clean` removes what no stack uses."""

from __future__ import annotations

from typing import Annotated

import typer

from symphony.cli import choose, options, screen
from symphony.cli.progress import names_of
from symphony.errors import UserError
from symphony.operations.images import BuiltImage, images, matching, remove
from symphony.operations.times import ago
from symphony.plan.problems import count

_HEAD = ("repository", "tag", "digest", "size", "age", "used by")
_DIGITS = 12


def command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[clean [PATTERN]]", help="clean removes those of no stack.")
    ] = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> int:
    """List the images that symphony built and this machine has, and which process uses each.

    `clean` shows those that no stack uses, asks, and removes them here; a registry keeps its own.

    Examples:
        symphony images
        symphony images clean
        symphony images clean 'localhost:5000/rl:*' --dry-run
    """
    if not words:
        _show(images(), as_json)
        return 0
    if words[0] != "clean" or len(words) > 2:
        raise UserError(f"invalid value {' '.join(words)!r}", remedy="Run `symphony images clean [PATTERN]`")
    listed = matching(words[1]) if len(words) == 2 else images()
    wanted = [each for each in listed if not each.used_by]
    if as_json:
        screen.show_json([each.to_json() for each in wanted])
    else:
        _show_plan(wanted, used=len(listed) - len(wanted))
    if dry_run or not wanted:
        return 0
    if not yes:
        choose.require_terminal()
        if not choose.confirmed(f"Remove {count(len(wanted), 'image')}?"):
            print("Nothing was removed.")
            return 1
    return _remove(wanted)


def _show(listed: list[BuiltImage], as_json: bool) -> None:
    if as_json:
        screen.show_json([each.to_json() for each in listed])
    elif not listed:
        print("No images that symphony built are on this machine.")
    else:
        screen.show_table(_HEAD, [_row(each) for each in listed], right=(3,))


def _show_plan(wanted: list[BuiltImage], *, used: int) -> None:
    if wanted:
        screen.show_table(_HEAD[:-1], [_row(each)[:-1] for each in wanted], right=(3,))
    stay = f"; {count(used, 'image')} in use {'stays' if used == 1 else 'stay'}" if used else ""
    print(f"{count(len(wanted), 'image') if wanted else 'No image'} to remove{stay}.")


def _row(each: BuiltImage) -> tuple[str, ...]:
    digest = each.digest.removeprefix("sha256:")[:_DIGITS]
    return (
        each.repository,
        each.tag,
        digest,
        f"{each.size / 1e6:.0f} MB",
        ago(each.created),
        names_of(each.used_by),
    )


def _remove(wanted: list[BuiltImage]) -> int:
    kept = [(each, why) for each in wanted if (why := remove(each))]
    for each, why in kept:
        print(screen.clean(f"{each.reference} stays: {why}"))
    print(f"{count(len(wanted) - len(kept), 'image')} removed.")
    return 1 if kept else 0
