"""The types that settings take: how each is read from what a user gives, and how it is checked."""

from __future__ import annotations

import numbers
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args

from symphony.spec.inputs.secret import Secret
from symphony.spec.plain import NotPlainError, plain

_Part = TypeVar("_Part")
_Checked = TypeVar("_Checked")


class WrongTypeError(Exception):
    """A value is not of the type its setting takes: what it takes, and which part of the value is wrong.

    name is the part's own, where the value is a mapping; more are the other parts that are wrong.
    """

    more: tuple[WrongTypeError, ...] = ()

    def __init__(self, takes: str, part: str = "", kind: str = "", name: object = None) -> None:
        super().__init__(takes, part, kind, name)
        self.takes = takes
        self.part = part
        self.kind = kind
        self.name = name


def kind_of(value: Any) -> str:
    """What a message calls the type of a value."""
    return "None" if value is None else type(value).__name__


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class ValueType:
    """A type of settings.

    check:   the value as a plain one of its type. WrongTypeError: it is of another.
    read:    what a user gives as what the spec holds; what it cannot read stays, for `check` to refuse.
    empty:   makes the value of a setting that was not made.
    part:    the class of the parts that it is made of; many of them, or one.
    choices: the only texts that mean something.
    instead: the class of what may stand in the place of a text.
    """

    check: Callable[[Any], Any] = _as_it_is
    read: Callable[[Any], Any] = _as_it_is
    empty: Callable[[], Any] = lambda: None
    part: type[Any] | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    instead: type[Any] | None = None


# how a value is read


def read_text(value: Any) -> Any:
    """A number or a path as text; everything else as it is."""
    is_number = isinstance(value, numbers.Real) and value is not True and value is not False
    return str(value) if is_number else read_path(value)


def read_path(value: Any) -> Any:
    """A path as text; everything else as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def read_texts(value: Any) -> Any:
    """A list as a tuple, numbers and paths in it as text, one text as a tuple of one; None is nothing."""
    if value is None:
        return ()
    if isinstance(value, (str, os.PathLike)):
        return (read_text(value),)
    if isinstance(value, (list, tuple)):
        return tuple(read_text(each) for each in cast("list[Any]", value))
    return value


def read_words(value: Any) -> Any:
    """A command as a tuple of words; what cannot be split stays as it is."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError:
            return value
    return read_texts(value)


def read_variables(value: Any) -> Any:
    """A mapping with numbers, paths, True and False as text."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {name: _read_variable(each) for name, each in _items(value)}
    return value


def _read_variable(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else read_text(value)


def _read_paths(value: Any) -> Any:
    """A mapping with paths as text."""
    if value is None:
        return {}
    return {name: read_path(each) for name, each in _items(value)} if isinstance(value, Mapping) else value


def read_ports(value: Any) -> Any:
    """The first and the last port, where they can be told."""
    if isinstance(value, range):
        return (min(value), max(value)) if value else ()
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


# how a value is checked


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongTypeError("text")
    return str.__str__(value)


def _number_or_text(value: Any) -> str | int | float:
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, str)):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if not isinstance(value, str):
        raise WrongTypeError("a number or text")
    return str.__str__(value)


def _as_text(value: Any) -> str:
    return str(_number_or_text(value))


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise WrongTypeError("a whole number")
    return int(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongTypeError("True or False")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise WrongTypeError("a list of texts, or one text with balanced quotes")
    if not isinstance(value, (list, tuple)):
        raise WrongTypeError('a list of texts such as ["python", "train.py"], or one text')
    parts = enumerate(cast("list[Any]", value))
    return tuple(_every(parts, lambda part: _within(f"[{part[0]}]", _as_text, part[1])))


def _variables(value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise WrongTypeError("a mapping from names to texts")
    return dict(_every(_items(value), _variable))


def _variable(item: tuple[Any, Any]) -> tuple[str, str]:
    name, value = item
    return _name(name), _within(f"[{name!r:.60}]", _value, value, name)


def _every(parts: Iterable[_Part], check: Callable[[_Part], _Checked]) -> list[_Checked]:
    """All parts checked. WrongTypeError: of the first that is wrong, with those of the others."""
    checked: list[_Checked] = []
    wrong: list[WrongTypeError] = []
    for part in parts:
        try:
            checked.append(check(part))
        except WrongTypeError as error:
            wrong.append(error)
    if wrong:
        wrong[0].more = tuple(wrong[1:])
        raise wrong[0]
    return checked


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise WrongTypeError("names that are text", f" with the name {name!r:.60}", kind_of(name), name)
    return str.__str__(name)


def _value(value: Any) -> str:
    return str(value) if isinstance(value, bool) else _as_text(value)


def _secrets(value: Any) -> Mapping[str, Secret]:
    if not isinstance(value, Mapping):
        raise WrongTypeError("a mapping from names to files or secret Outputs")
    return {_name(name): _within(f"[{name!r:.60}]", _secret, each, name) for name, each in _items(value)}


def _secret(value: Any) -> Secret:
    if not isinstance(value, Secret):
        raise WrongTypeError("a file or a secret Output")
    return value


def _within(part: str, check: Callable[[Any], Any], value: Any, name: object = None) -> Any:
    """Check a part of a value; the error names the part."""
    try:
        return check(value)
    except WrongTypeError as error:
        raise WrongTypeError(f"{error.takes} there", part, kind_of(value), name) from None


def _plain_mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongTypeError("a mapping")
    try:
        return plain(value)
    except NotPlainError as error:
        raise WrongTypeError(f"{error.takes} there", error.part, error.kind) from None


def _port_range(value: Any) -> tuple[int, int]:
    pair = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    ports = [int(each) for each in pair if isinstance(each, numbers.Integral) and 1 <= int(each) <= 65535]
    if not len(pair) == len(ports) == 2 or ports[0] > ports[1]:
        raise WrongTypeError("the first and the last port, such as (7000, 7999)")
    return ports[0], ports[1]


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return cast("Mapping[Any, Any]", value).items()


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


# the types


TEXT = ValueType(_text, empty=str)
OPTIONAL_TEXT = ValueType(_optional(_text))
PATH = ValueType(_optional(_text), read_path)
TEXTS = ValueType(_texts, read_texts, tuple)
COMMAND = ValueType(_optional(_texts), read_words)
VARIABLES = ValueType(_variables, read_variables, dict)
SECRETS = ValueType(_secrets, _read_paths, dict)
MANIFEST = ValueType(_plain_mapping, empty=dict)
COUNT = ValueType(_whole_number, empty=int)
WHOLE_NUMBER = ValueType(_optional(_whole_number))
QUANTITY = ValueType(_optional(_number_or_text))
FLAG = ValueType(_flag, empty=bool)
OPTIONAL_FLAG = ValueType(_optional(_flag))
PORT_RANGE = ValueType(_optional(_port_range), read_ports)


def one_of(literal: Any) -> ValueType:
    """One of the texts of a Literal, or None."""
    return ValueType(_optional(_text), choices=get_args(literal))


def text_or(kind: type[Any], takes: str) -> ValueType:
    """A text, or what is declared as a thing of its own, whose spec is of this class."""

    def check(value: Any) -> Any:
        if value is None or isinstance(value, kind):
            return value
        try:
            return _text(value)
        except WrongTypeError:
            raise WrongTypeError(takes) from None

    def read(value: Any) -> Any:
        spec = getattr(value, "spec", None)
        return spec if isinstance(spec, kind) else value

    return ValueType(check, read, instead=kind)


def part(kind: type[Any]) -> ValueType:
    """One value of a class that has settings of its own."""
    return ValueType(empty=kind, part=kind)


def parts(kind: type[Any]) -> ValueType:
    """Many values of a class that has settings of its own."""
    return ValueType(empty=tuple, part=kind, many=True)
