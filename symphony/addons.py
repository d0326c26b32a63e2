"""DockerBuilder and clean_images, where programs for the original Symphony import them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symphony.classic.docker_builder import DockerBuilder as DockerBuilder
    from symphony.classic.docker_builder import clean_images as clean_images

__all__ = ["DockerBuilder", "clean_images"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("symphony.classic.docker_builder"), name)
