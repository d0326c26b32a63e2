"""The Dockerfile of the usual image: Python, the requirements, caraml, the code.

Parts that seldom change come first: a change of code rebuilds only the last layer.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Sequence

from symphony_docker.context import CARAML, plain_part

# The packages that caraml imports, as pyproject.toml says.
CARAML_NEEDS = ("msgspec>=0.19", "numpy>=1.26", "pyzmq>=26.4")
_HOME = "/opt/symphony"


def python(base: str, requirements: str | None, code: Sequence[str], secrets: Collection[str] = ()) -> str:
    """Return the text of the Dockerfile.

    Args:
        base: The image to begin with, which has Python.
        requirements: A file for pip, as a path in the context; None for none.
        code: Paths and globs in the context.
        secrets: Ids of the secrets that pip may read in /run/secrets; `pip.conf` is its configuration.
    """
    needs = " ".join(f'"{each}"' for each in CARAML_NEEDS)
    install = "python -m pip install --disable-pip-version-check"
    mounts = " ".join(["--mount=type=cache,target=/root/.cache/pip", *map(_secret, sorted(secrets))])
    steps = [
        f"FROM {base}",
        "ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1",
        f"ENV PYTHONPATH={_HOME}${{PYTHONPATH:+:$PYTHONPATH}}",
        "WORKDIR /app",
    ]
    if requirements:
        inside = f"{_HOME}/requirements/{posixpath.basename(requirements)}"
        # With the cache of pip a changed requirement downloads only itself.
        steps += [_copy(requirements, inside), f"RUN {mounts} {install} -r {json.dumps(inside)}"]
    steps += [
        "# Packages that caraml imports; a base or requirements that have them need no package registry.",
        f'RUN {mounts} python -c "import msgspec, numpy, zmq" 2>/dev/null || {install} {needs}',
        f"COPY {CARAML} {_HOME}/caraml",
        *dict.fromkeys(map(_code, code)),
        "# A number, so that the Pod Security level `restricted` sees that it is not root.",
        "USER 1000:1000",
    ]
    return "\n".join([*steps, ""])


def _secret(name: str) -> str:
    target = ",target=/etc/pip.conf" if name == "pip.conf" else ""
    return f"--mount=type=secret,id={name}{target}"


def _code(path: str) -> str:
    """Copy a folder to a folder of its name; only the files that match a glob are in the context."""
    place = plain_part(posixpath.normpath(path))
    return _copy(place, "/app/" if place == "." else f"/app/{place}")


def _copy(source: str, target: str) -> str:
    return f"COPY {json.dumps([source, target])}"
