"""The graph of imports has no cycle."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp

from tests.sandbox import ROOT


def find_cycle(*packages: str) -> list[str]:
    """Return one import cycle, also through imports in functions and for types, or an empty list."""
    graph = grimp.build_graph(*packages)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_are_no_import_cycles() -> None:
    providers = [each.name for each in (ROOT / "providers").iterdir()]
    assert find_cycle("symphony", "caraml", "toolchain", *providers) == []


def test_an_import_cycle_is_detected(tmp_path, monkeypatch) -> None:
    package = tmp_path / "round_about"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from round_about import two\n")
    (package / "two.py").write_text("def later():\n    import round_about.one\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {*find_cycle("round_about")} == {"round_about.one", "round_about.two"}
