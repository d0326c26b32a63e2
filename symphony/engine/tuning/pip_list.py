"""Prints the packages of an interpreter as `pip list -v --format json` does; python.sh runs it as a script.

The engine asks on each run, to learn which plugins a program may need; pip takes 0.2 s for it, most of that
to start. Standard library only, and of that nothing that takes long: this file is run by any Python.
"""

from __future__ import annotations

import json
import os
import sys

_ENDINGS = (".dist-info", ".egg-info")


def packages(path: list[str]) -> list[dict[str, str]]:
    """Name, version and folder of every package on an import path, the first of a name as imports find it."""
    result: dict[str, dict[str, str]] = {}
    for location in path:
        for entry in _entries(location):
            if entry.endswith(_ENDINGS) and (package := _read(location, entry)):
                result.setdefault(package["name"].lower().replace("-", "_"), package)
    return list(result.values())


def _entries(location: str) -> list[str]:
    try:
        return sorted(os.listdir(location))  # noqa: PTH208 : pathlib is not worth its import here
    except OSError:
        return []  # What is no folder is a zip, which holds no plugin, or is not there.


def _read(location: str, entry: str) -> dict[str, str] | None:
    """What the head of its metadata says; None where there is none to read."""
    fields: dict[str, str] = {}
    for file in (f"{entry}/METADATA", f"{entry}/PKG-INFO", entry):
        try:
            with open(f"{location}/{file}", encoding="utf-8", errors="replace") as text:  # noqa: PTH123 : as above
                for line in text:
                    if not line.strip():
                        break
                    name, _, value = line.partition(":")
                    fields.setdefault(name.lower(), value.strip())
            break
        except OSError:
            continue
    if not fields.get("name") or not fields.get("version"):
        return None
    return {"name": fields["name"], "version": fields["version"], "location": location}


if __name__ == "__main__":
    # pip runs as a module: it has the folder it was started in where a script has its own.
    json.dump(packages([os.getcwd(), *sys.path[1:]]), sys.stdout)  # noqa: PTH109 : as above
