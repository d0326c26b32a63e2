"""`symphony setup` installs the prerequisites of a backend (with fake tools)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symphony.backends.tmux import prerequisites
from symphony.cli import setup
from symphony.errors import SymphonyError
from symphony_tmux.tmux import program


def quiet(progress: object) -> None:
    """Ignore the progress."""


def test_a_missing_tmux_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SymphonyError, match="tmux is not installed"):
        setup.install(prerequisites, quiet)


def test_an_old_tmux_is_an_error_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmux").write_text("#!/bin/sh\necho tmux 2.9")
    (tmp_path / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SymphonyError, match=r"tmux: 2\.9, too old") as raised:
        setup.install(prerequisites, quiet)
    assert raised.value.where == str(tmp_path / "tmux")


def test_setup_installs_tmux_with_apt_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").write_text(f"""#!/bin/sh
echo "$@" >>{tmp_path}/log
[ "$1" = update ] && touch {tmp_path}/updated
[ -e {tmp_path}/updated ] || {{ echo "E: Unable to locate package tmux"; exit 100; }}
[ "$1" = install ] || exit 0
printf '#!/bin/sh\\necho tmux 3.3a\\n' >{tmp_path}/tmux
/bin/chmod 755 {tmp_path}/tmux
""")
    (tmp_path / "apt-get").chmod(0o755)
    (tmp_path / "touch").symlink_to("/usr/bin/touch")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (result,) = setup.install(prerequisites, quiet)
    assert (result.name, result.version) == ("tmux", "3.3a")
    log = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[0] for line in log] == ["install", "update", "install"]
    assert program.install_step() == "run `apt-get install tmux`"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert program.install_step() == "run `sudo apt-get install tmux`"


@pytest.mark.parametrize(
    ("text", "recent"),
    [("3.3a", True), ("2.9", False), ("next-3.6", True), ("3.1c", False), ("3.2", True), ("master", True)],
)
def test_minimum_tmux_version(text: str, recent: bool) -> None:
    assert program.is_recent(text) is recent
