"""The graph of imports has no circle."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp

from tests.sandbox import ROOT


def circle(*packages: str) -> list[str]:
    """Return one circle of imports, also of those inside functions and for types; empty if there is none."""
    graph = grimp.build_graph(*packages)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_what_imports_it() -> None:
    providers = [each.name for each in (ROOT / "providers").iterdir()]
    assert circle("symphony", "caraml", "toolchain", *providers) == []


def test_a_circle_is_found(tmp_path, monkeypatch) -> None:
    package = tmp_path / "round_about"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from round_about import two\n")
    (package / "two.py").write_text("def later():\n    import round_about.one\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {*circle("round_about")} == {"round_about.one", "round_about.two"}
