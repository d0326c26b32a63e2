"""The generated Dockerfile of Image.python(): Python, the requirements, caraml, the code.

Parts that rarely change come first, so that a change of code rebuilds only the layers of the code.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Sequence

from symphony_docker.context import CARAML, plain_part

# The packages that caraml imports, as pyproject.toml says.
CARAML_NEEDS = ("msgpack>=1.1", "msgspec>=0.19", "numpy>=1.26", "pyzmq>=26.4")
_HOME = "/opt/symphony"
_PIP_CACHE = "/root/.cache/pip"


def python(base: str, requirements: str | None, code: Sequence[str], secrets: Collection[str] = ()) -> str:
    """Return the text of the Dockerfile.

    Args:
        base: The base image, which must have Python.
        requirements: The requirements file for pip, relative to the context; None to omit it.
        code: Paths and globs in the context.
        secrets: Ids of the secrets that pip may read in /run/secrets; `pip.conf` is its configuration.
    """
    packages = " ".join(f'"{package}"' for package in CARAML_NEEDS)
    # Named, since the home of root differs between bases.
    install = f"python -m pip install --cache-dir={_PIP_CACHE} --disable-pip-version-check"
    mounts = " ".join([f"--mount=type=cache,target={_PIP_CACHE}", *map(_secret, sorted(secrets))])
    steps = [
        f"FROM {base}",
        "ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1",
        f"ENV PYTHONPATH={_HOME}${{PYTHONPATH:+:$PYTHONPATH}}",
        "WORKDIR /app",
    ]
    if requirements:
        target_file = f"{_HOME}/requirements/{posixpath.basename(requirements)}"
        # The cache of pip keeps a changed requirement from downloading the others again.
        steps += [_copy(requirements, target_file), f"RUN {mounts} {install} -r {json.dumps(target_file)}"]
    steps += [
        "# Packages that caraml imports; a base or requirements that have them need no package registry.",
        f'RUN {mounts} python -c "import msgpack, msgspec, numpy, zmq" 2>/dev/null || {install} {packages}',
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
    """Return the COPY of a path, or of the folder of a glob: the context has only the files that match."""
    folder = plain_part(posixpath.normpath(path))
    return _copy(folder, "/app/" if folder == "." else f"/app/{folder}")


def _copy(source: str, target: str) -> str:
    return f"COPY {json.dumps([source, target])}"
