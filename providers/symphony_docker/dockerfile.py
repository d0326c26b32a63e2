"""The Dockerfile of a researcher's usual image: Python, what the requirements name, caraml, the code.

Pure. What changes seldom comes first: a change of code rebuilds only the last layer.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence

from symphony_docker.context import CARAML
from symphony_docker.ignore import plain_part

# What caraml imports, as pyproject.toml says.
CARAML_NEEDS = ("msgspec>=0.19", "numpy>=1.26", "pyzmq>=26.4")
_HOME = "/opt/symphony"


def python(base: str, requirements: str | None, code: Sequence[str]) -> str:
    """The text of the Dockerfile; requirements and code are paths in the context, code also globs."""
    needs = " ".join(f'"{each}"' for each in CARAML_NEEDS)
    install = "python -m pip install --no-cache-dir --disable-pip-version-check"
    steps = [
        f"FROM {base}",
        "ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1",
        f"ENV PYTHONPATH={_HOME}${{PYTHONPATH:+:$PYTHONPATH}}",
        "WORKDIR /app",
    ]
    if requirements:
        inside = f"{_HOME}/requirements/{posixpath.basename(requirements)}"
        steps += [_copy(requirements, inside), f"RUN {install} -r {json.dumps(inside)}"]
    steps += [
        "# What caraml imports; a base or requirements that have it need no package registry.",
        f'RUN python -c "import msgspec, numpy, zmq" 2>/dev/null || {install} {needs}',
        f"COPY {CARAML} {_HOME}/caraml",
        *dict.fromkeys(map(_code, code)),
        "# A number, so that the Pod Security level `restricted` sees that it is not root.",
        "USER 1000:1000",
    ]
    return "\n".join([*steps, ""])


def _code(path: str) -> str:
    """A folder stays a folder of its name; of a glob's folder only what matches is sent."""
    place = plain_part(posixpath.normpath(path))
    return _copy(place, "/app/" if place == "." else f"/app/{place}")


def _copy(source: str, target: str) -> str:
    return f"COPY {json.dumps([source, target])}"
