"""Shows symphony the folder `shared` beside it as it was up to two seconds ago; loaded as sitecustomize.

It imitates a shared disk that caches attributes: each process acts as a machine with a cache of its own, and
sees its own changes at once.
"""

import time
from pathlib import Path

from symphony import files

_SECONDS = 2.0
_SHARED = str(Path(__file__).parent / "shared")
_KNOWN = {}


def _late(read):
    def answer(*words, **options):
        where = str(words[0])
        if not where.startswith(_SHARED):
            return read(*words, **options)
        answers = _KNOWN.setdefault(where, {})
        at, result, error = answers.get(words[1:], (-_SECONDS, None, None))
        if time.monotonic() - at >= _SECONDS:
            try:
                result, error = read(*words, **options), None
            except OSError as refused:
                result, error = None, refused
            answers[words[1:]] = time.monotonic(), result, error
        if error is not None:
            raise error
        return result

    return answer


def _known(change):
    def changed(path, *words, **options):
        try:
            return change(path, *words, **options)
        finally:
            for where in (str(path), str(Path(path).parent)):
                _KNOWN.pop(where, None)

    return changed


for name in ("read", "matching"):
    setattr(files, name, _late(getattr(files, name)))
for owner, name in (
    *((files, name) for name in ("replace", "create", "remove", "touch", "own_folder")),
    (Path, "unlink"),
):
    setattr(owner, name, _known(getattr(owner, name)))
