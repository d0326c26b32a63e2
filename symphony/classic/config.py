"""SymphonyConfig: the original's settings that hold for every experiment of a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from symphony.errors import UserError

Handler = Callable[[Any], None]


class SymphonyConfig:
    """The one place of a script's settings: SymphonyConfig() is the same object everywhere."""

    _only: ClassVar[SymphonyConfig | None] = None

    username: str | None
    experiment_folder: Path | None

    def __new__(cls) -> Self:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.reset()
        return cls._only  # pyright: ignore[reportReturnType]

    def reset(self) -> None:
        """Forget every setting and handler."""
        self.username = None
        self.experiment_folder = None
        self._handlers: dict[str, Handler] = {
            "username": self.set_username,
            "experiment_folder": self.set_experiment_folder,
        }

    def set_username(self, name: str) -> None:
        """Put this name before the names of experiments."""
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"username: {name!r} is no name", remedy="Give a text")
        self.username = name

    def set_experiment_folder(self, folder: str | Path) -> None:
        """Save each launched experiment below this folder."""
        if not isinstance(folder, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"experiment_folder: {folder!r} is no folder", remedy="Give its path")
        self.experiment_folder = Path(folder).expanduser()

    def register_handler(self, field: str, handler: Handler) -> None:
        """Let update() pass a field of the user's own to a function."""
        if not callable(handler):
            raise UserError(
                f'the handler of "{field}" is a {type(handler).__name__}', remedy="Give a function"
            )
        self._handlers[field] = handler

    def update(self, settings: Mapping[str, Any]) -> None:
        """Make several settings. UserError: a field that nobody handles; then none is made."""
        for field in settings:
            if field not in self._handlers:
                raise UserError(
                    f'SymphonyConfig has no field "{field}"',
                    remedy=f"The fields are: {', '.join(self._handlers)}",
                )
        for field, value in settings.items():
            self._handlers[field](value)

    def load_config_file(self, path: str | Path) -> None:
        """Make the settings of a YAML or JSON file. UserError: it cannot be read."""
        import yaml

        file = Path(path).expanduser()
        try:
            settings = yaml.safe_load(file.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
            raise UserError(f"cannot be read: {' '.join(str(error).split())}", where=str(file)) from error
        if not isinstance(settings, dict):
            raise UserError("holds no settings", where=str(file), remedy="Write it as `field: value` lines")
        self.update(settings)  # pyright: ignore[reportUnknownArgumentType]

    def prefixed(self, name: str) -> str:
        """The name of an experiment with the user's name before it, once."""
        prefix = f"{self.username}-" if self.username else ""
        # What is no text is for the plan to refuse.
        if not isinstance(name, str) or name.startswith(prefix):  # pyright: ignore[reportUnnecessaryIsInstance]
            return name
        return f"{prefix}{name}"
