"""The old home of DockerBuilder and clean_images: programs for the original import them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Those that are there: `import *` takes no name that only says that it is not.
__all__: list[str] = []

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in ("DockerBuilder", "clean_images"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from symphony import classic

        return getattr(classic, name)
