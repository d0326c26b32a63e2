"""Problems of a declared image, its tag, and its platform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from symphony import Experiment, Image
from symphony.backends.kubernetes import expand
from symphony.backends.kubernetes.settings import Settings
from symphony.components.images import Images
from symphony.plan.plan import PlannedImage
from tests.backends.kubernetes.scripted_api import serving
from tests.plans import problems

Declared = Callable[..., tuple[list[str], PlannedImage]]
NODES = {"items": [{"status": {"nodeInfo": {"architecture": "amd64"}}}]}


@pytest.fixture
def declare_image(tmp_path: Path, own_home: Path) -> Declared:
    """Return a function that declares an image and returns the experiment's problems and the image."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")

    def declare_image(
        name: str = "rl", registry: str = "r.io/team/", **settings: Any
    ) -> tuple[list[str], PlannedImage]:
        experiment = Experiment("rl", image=Image(name, **settings))
        experiment.new_process("a")
        context: Any = SimpleNamespace(
            settings=SimpleNamespace(registry=registry),
            backend="tmux",
            folder=folder,
            physical_name="rl-1",
            owner="me",
        )
        spec, (image,), image_problems = Images(context).with_references(experiment.spec)
        result = problems(spec, expand.offline_limits(spec, Settings(), "rl"), image_problems)
        return [each.what for each in result], image

    return declare_image


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"name": "Not legal", "repository": "r.io/rl"}, "image Not legal has an invalid name"),
        ({"registry": ""}, "image rl has no repository"),
        ({"repository": "R/x:1"}, "image rl has an invalid repository: R/x:1"),
        ({"platform": "amd64"}, "image rl has an invalid platform: amd64"),
        *(
            (
                {"build_args": {name: "x"}},
                f"image rl has the build argument {name}, which every user of the image could read",
            )
            for name in ("HF_TOKEN", "github_token", "AWS_SECRET_ACCESS_KEY", "PASSWORD", "DEPLOY_KEY")
        ),
    ],
)
def test_each_image_problem_is_reported_once(
    declare_image: Declared, settings: dict[str, Any], what: str
) -> None:
    assert declare_image(**settings)[0] == [what]


def test_the_tag_has_the_experiment_and_the_digest_of_the_content(declare_image: Declared) -> None:
    result, image = declare_image(build_args={"TOKENIZER": "x", "STEPS": 3})
    assert result == []
    assert image.reference == f"r.io/team/rl:rl-1-{image.inputs['identity'][:12]}"
    assert declare_image()[1].reference != image.reference


@pytest.mark.parametrize(
    ("platform", "what"),
    [
        ("linux/amd64", []),
        ("linux/arm64/v8", ["image rl is built for arm64, but the nodes are amd64"]),
        ("linux/amd64,linux/arm64", []),
        ("linux/arm64,linux/s390x", ["image rl is built for arm64, s390x, but the nodes are amd64"]),
        ("amd64", []),
    ],
)
def test_an_image_platform_without_a_matching_node_is_a_problem(platform: str, what: list[str]) -> None:
    with serving(lambda _: (200, NODES)) as api:
        result = expand.platform_problems(api.client(), [PlannedImage("rl", "r.io/rl:1", platform, {})])
        assert [each.what for each in result] == what
