"""One definition a setting: the keywords that an IDE offers are those of the fields, no more and no less."""

from __future__ import annotations

import pytest

from symphony.spec.experiment import ExperimentOptions, ExperimentSpec, GroupOptions, ProcessGroupSpec
from symphony.spec.process import ProcessOptions, ProcessSpec
from symphony.spec.setting import keywords_of


@pytest.mark.parametrize(
    ("options", "kind", "beside"),
    [
        (ExperimentOptions, ExperimentSpec, set()),
        (GroupOptions, ProcessGroupSpec, set()),
        # cmds may be given by its place, so it stands in the signature.
        (ProcessOptions, ProcessSpec, {"cmds"}),
    ],
)
def test_the_typed_keywords_are_the_settings_of_the_fields(options, kind, beside):
    assert options.__optional_keys__ | beside == set(keywords_of(kind))
