"""A backend of plain child processes, each with a supervisor that keeps its log and how it ended."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from symphony.backends.access import Access
    from symphony.backends.expand import Expander
    from symphony.backends.observe import Observer
    from symphony.backends.prerequisites import Prerequisites
    from symphony_subprocess import access, expand, observe, prerequisites

    _DOORS: tuple[Expander, Observer, Access, Prerequisites] = (expand, observe, access, prerequisites)
