"""How long, in words that fit a column."""

from __future__ import annotations

import time


def ago(since: float | None) -> str:
    """How long it is since a moment: `12s`, `14m`, `3h 12m`, `2d`; nothing where nobody knows."""
    return "" if since is None else lasting(time.time() - since)


def lasting(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m" + (f" {whole % 60}s" if whole < 600 and whole % 60 else "")
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d" + (f" {whole % 86400 // 3600}h" if whole < 864000 else "")
