"""Remarks: warnings about declarations that are valid but most likely a mistake."""

import re
from collections.abc import Callable, Iterator

from symphony.plan.names import quoted
from symphony.plan.problems import Problem
from symphony.spec.experiment import ExperimentSpec, path_of

# The word must end the name or precede an underscore, so that TOKENIZERS_PARALLELISM does not match.
_SECRET_NAME = re.compile(r"(?i).*(TOKEN|KEY|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIALS?)(_.*)?")
# A path, a number or a flag is not a secret.
_NO_SECRET = re.compile(r"[~./].*|[\d.]*|(?i:true|false|none|yes|no|on|off)")
_SHELLS = re.compile(r"(.*/)?((ba|da|z|k|fi)?sh|ssh)")
_SHELL_WORD = re.compile(r"\d*(>>?|<)(&\d|[\w./-]+)?|&>>?|\|\|?|&&?|\S*;|\S*\$(\{[A-Z_]\w*\}|[A-Z_]\w*)\S*")
_EXPANDED_BY_SHELLS = re.compile(r"^~(/|$)|:~/|\$(\{[A-Z_]\w*\}|[A-Z_]\w*)")
# Programs that do nothing useful without arguments.
_NEEDS_MORE = re.compile(r"(.*/)?(python[\d.]*|sleep|echo|cat|torchrun|((ba|da|z)?sh))")
_NO_COMMAND = re.compile(r"-.*|[\d.]+|\w+\.\w+")


def remarks(spec: ExperimentSpec) -> tuple[Problem, ...]:
    """Return all remarks, kind by kind."""
    return tuple(remark for kind in _KINDS for remark in kind(spec))


def _plain_secrets(spec: ExperimentSpec) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for name, value in owner.env.items():
            if _SECRET_NAME.fullmatch(name) and not _NO_SECRET.fullmatch(value):
                yield Problem(
                    f"{owner_name} has {name} in env: its value is plain text in the state and the plan",
                    f'write the value to a file, and set secret_env={{"{name}": "FILE"}}',
                    (owner.at(f"env {name}"),),
                )


def _unexpanded_env(spec: ExperimentSpec) -> Iterator[Problem]:
    for owner_name, owner in spec.owners():
        for name, value in owner.env.items():
            if _EXPANDED_BY_SHELLS.search(value):
                yield Problem(
                    f"{owner_name} sets {name} to {quoted(value, 30)}, which no shell expands",
                    "expand it in Python with os.path.expandvars or os.path.expanduser",
                    (owner.at(f"env {name}"),),
                )


def _words_of_a_shell(spec: ExperimentSpec) -> Iterator[Problem]:
    for group, process in spec.members():
        words = (*(process.command or ()), *process.args)
        if any(map(_SHELLS.fullmatch, words)) or "-exec" in words:
            continue
        for setting, texts in (("command", process.command or ()), ("args", process.args)):
            if word := next(filter(_SHELL_WORD.fullmatch, texts), None):
                yield Problem(
                    f"{path_of(group, process)} has {quoted(word, 30)} in {setting}, which no shell reads",
                    'use cmds=["..."] for shell syntax',
                    (process.at(setting),),
                )


def _one_command_in_lines(spec: ExperimentSpec) -> Iterator[Problem]:
    for group, process in spec.members():
        first, *rest = process.cmds or ("",)
        single = not any(re.search(r"\s", line) for line in process.cmds)
        if rest and single and (_NEEDS_MORE.fullmatch(first) or any(map(_NO_COMMAND.fullmatch, rest))):
            yield Problem(
                f"{path_of(group, process)} has {len(process.cmds)} shell lines,"
                f" {quoted(first, 20)} and {quoted(rest[0], 20)}{', ...' if rest[1:] else ''}",
                f"did you mean command={quoted(' '.join(process.cmds), 60)}?",
                (process.at("cmds"),),
            )


_KINDS: tuple[Callable[[ExperimentSpec], Iterator[Problem]], ...] = (
    _plain_secrets,
    _unexpanded_env,
    _words_of_a_shell,
    _one_command_in_lines,
)
