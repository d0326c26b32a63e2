"""Settings: the fields of a spec that users set, with their converters and defaults.

To add one, write a field in the class of the spec, and code in each backend that supports it. If
`new_process` and similar methods take it as a keyword, set keyword=True and add a line to the TypedDict of
that spec's options. If only some backends support it, set varies=True and add its name to `settings` of their
Backend. If its value has settings itself, set part= to its class.
"""

import dataclasses
import numbers
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal, Protocol, cast, get_args, get_origin, runtime_checkable

import msgspec

from symphony.errors import UserError
from symphony.placement.quantities import QUANTITY_REMEDY, amount
from symphony.spec.location import caller

# A converter takes a value and the name of its setting for the error.
Converter = Callable[[Any, str], Any]
Scalar = bool | int | float | str
_BOUND = re.compile(
    r"Expected `(?:int|float)` (?P<relation>[<>]=?) (?P<limit>[^ ]+)(?: - at `\$(?P<part>.*)`)?$"
)
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_MISMATCH = re.compile(r"Expected `(?P<expected>.+?)`, got `(?P<got>.+?)`(?: - at `\$(?P<part>.*)`)?")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "null": "None",
    "array": "a list",
    "object": "a mapping",
}


class WrongTypeError(UserError, TypeError):
    """A value has a type that its setting does not take, or is out of its bounds."""


@runtime_checkable
class Output(Protocol):
    """A pulumi.Output, which this module does not import."""

    @property
    def apply(self) -> Callable[..., Any]: ...
    @property
    def future(self) -> Callable[..., Any]: ...
    @property
    def is_known(self) -> Callable[..., Any]: ...


def convert(value: Any, type: Any, setting: str) -> Any:
    """Return the value as an instance of `type`, which msgspec understands.

    >>> convert((7000, 7999), tuple[int, int], "port_range")
    (7000, 7999)
    """
    try:
        return msgspec.convert(builtin(value), type)
    except msgspec.ValidationError as error:
        raise _wrong(str(error), type, setting, value) from None


def builtin(value: Any) -> Any:
    """Return the value in Python's own types: numpy scalars as numbers, paths and Decimals as text.

    Other values are returned unchanged; `convert` refuses them.
    """
    if value is None or type(value) in (str, bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None)):
        return value.item()
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {builtin(key): builtin(item) for key, item in items}
    if isinstance(value, (list, tuple, range)):
        return [builtin(item) for item in cast("list[Any]", value)]
    return value


def text(value: Any, setting: str) -> str:
    """Return a string, number, bool or path as text."""
    # str(float32(0.1)) is "0.1"; converted to a float first, it would be "0.10000000149011612".
    return str(value) if isinstance(value, numbers.Real) else str(convert(value, Scalar, setting))


def strict_text(value: Any, setting: str) -> str:
    """Return a string or a path as text; refuse a number."""
    return convert(value, str, setting)


def optional(converter: Converter) -> Converter:
    """Return a converter that lets None pass."""
    return lambda value, setting: None if value is None else converter(value, setting)


def of_type(type: Any) -> Converter:
    """Return a converter to a type that msgspec understands."""
    return lambda value, setting: convert(value, type, setting)


def instance_of(kind: type[Any], made_by: str = "") -> Converter:
    """Return a converter that takes an instance of a class, or an object whose `spec` is one."""

    def check(value: Any, setting: str) -> Any:
        spec = getattr(value, "spec", value)
        if not isinstance(spec, kind):
            raise wrong_type(setting, value, made_by or f"{kind.__name__}(...)")
        return spec

    return check


def all_of(converter: Converter) -> Converter:
    """Return a converter of a list, or of a single item, to a tuple."""

    def check(value: Any, setting: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            return (converter(value, setting),)
        items = enumerate(cast("list[Any]", value))
        return tuple(converter(item, f"{setting}[{i}]") for i, item in items)

    return check


def output_or(converter: Converter) -> Converter:
    """Return a converter that lets an Output of Pulumi pass."""
    return lambda value, setting: value if isinstance(value, Output) else converter(value, setting)


def texts(value: Any, setting: str) -> tuple[str, ...]:
    """Return a list of strings, or a single string, as a tuple."""
    return () if value is None else _TEXTS(value, setting)


def arguments(value: Any, setting: str) -> tuple[Any, ...]:
    """Return a list of strings and Outputs, or a single one, as a tuple."""
    return () if value is None else _ARGUMENTS(value, setting)


def duration(value: Any, setting: str) -> float | None:
    """Return a duration in seconds; the value is a number of seconds or text such as "30m"."""
    number_or_text: float | str | None = convert(value, float | str | None, setting)
    try:
        number = seconds(number_or_text) if isinstance(number_or_text, str) else number_or_text
    except UserError as error:
        raise UserError(f"{setting}: {error.what}", where=str(caller()), remedy=error.remedy) from None
    if number is not None and number < 0:
        remedy = "Give 0 seconds or more"
        raise UserError(f"{setting}: {value} is negative", where=str(caller()), remedy=remedy)
    return number


def seconds(duration: str) -> float:
    """Return the seconds of `90s`, `5m`, `1h30m`, `2d` or `90`; raise UserError for other text."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        if duration.replace(".", "", 1).isdecimal():
            return float(duration)
        raise UserError(f'"{duration:.60}" is not a duration', remedy="Write it as 90s, 5m, 1h30m or 2d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def quantity(value: Any, setting: str) -> Scalar | None:
    """Return an amount of cpu or memory, a number or text such as "500m" and "8Gi"."""
    number_or_text: Scalar | None = convert(value, float | int | str | None, setting)
    if number_or_text is not None and amount(number_or_text) is None:
        remedy = f"{QUANTITY_REMEDY[0].upper()}{QUANTITY_REMEDY[1:]}"
        what = f"{setting} is {number_or_text!r:.40}, which is not a quantity"
        raise UserError(what, where=str(caller()), remedy=remedy)
    return number_or_text


def words(value: Any, setting: str) -> tuple[Any, ...] | None:
    """Return a command as a tuple of words; a string is split as a shell would."""
    if not isinstance(value, str):
        return None if value is None else arguments(value, setting)
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise UserError(
            f"{setting} cannot be split into words: {error}",
            where=str(caller()),
            remedy='Balance its quotes, or pass a list such as ["python", "train.py"]',
        ) from None


def mapping_of(converter: Converter) -> Converter:
    """Return a converter of a mapping from names to values of another converter."""

    def check(value: Any, setting: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise wrong_type(setting, value, "a mapping from names to values")
        items = cast("Mapping[Any, Any]", value).items()
        return {
            strict_text(name, f"a name in {setting}"): converter(item, f"{setting}[{name!r:.60}]")
            for name, item in items
        }

    return check


def manifest(value: Any, setting: str) -> dict[str, Any]:
    """Return a copy of a mapping that YAML can hold."""
    if not isinstance(value, Mapping):
        raise wrong_type(setting, value, "a mapping")
    return _plain(value, setting)


def _plain(value: Any, setting: str) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {
            strict_text(name, f"a name in {setting}"): _plain(item, f"{setting}.{name}")
            for name, item in items
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{setting}[{i}]") for i, item in enumerate(cast("list[Any]", value))]
    return convert(value, Scalar | None, setting)


def wrong_type(setting: str, value: object, expected: str) -> WrongTypeError:
    """Return the error for a value of a wrong type, with the line of the user's program."""
    got = "None" if value is None else type(value).__name__
    return WrongTypeError(f"{setting} has the type {got}", where=str(caller()), remedy=f"Give {expected}")


def wrong_value(what: str, remedy: str) -> WrongTypeError:
    """Return the error for a value of the right type, with the line of the user's program."""
    return WrongTypeError(what, where=str(caller()), remedy=remedy)


def _wrong(message: str, kind: Any, setting: str, value: Any) -> WrongTypeError:
    """Return the error for a message of msgspec; setting: what the user's line sets, `a: restart_policy`."""
    if bound := _BOUND.match(message):
        words = _BOUNDS[bound["relation"]]
        return wrong_value(
            f"{setting}{bound['part'] or ''} must be {words} {bound['limit']}", "Give such a number"
        )
    if (match := _MISMATCH.fullmatch(message)) is None:
        literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
        choices = ", ".join(str(choice) for literal in literals for choice in get_args(literal))
        remedy = f"Give one of: {choices}" if choices else "Give a value that meets this condition"
        what = message.replace("Invalid enum value", "invalid value")
        return WrongTypeError(f"{setting}: {what}", where=str(caller()), remedy=remedy)
    expected = " or ".join(_WORDS.get(name, name) for name in match["expected"].split(" | "))
    # msgspec calls a mapping an object, as well as anything that it does not know.
    other = "dict" if match["part"] else type(value).__name__
    got = {"null": "None", "array": "list", "object": other}.get(match["got"], match["got"])
    what = f"{setting}{match['part'] or ''} has the type {got}"
    return WrongTypeError(what, where=str(caller()), remedy=f"Give {expected}")


_TEXTS = all_of(text)
_ARGUMENTS = all_of(output_or(text))
variables = mapping_of(text)
environment = mapping_of(output_or(text))
OPTIONAL_TEXT = optional(strict_text)
PORT = Annotated[int, msgspec.Meta(ge=1, le=65535)]
NUMBER = of_type(int | None)
GPUS = optional(of_type(Annotated[int, msgspec.Meta(ge=0)]))
FLAG = of_type(bool)


_KEY = "setting"
_REQUIRED: Any = object()


@dataclass(frozen=True)
class Setting:
    """A field of a spec that users set.

    Attributes:
        name: The name of the field.
        convert: Returns a value of the setting's type, or raises UserError.
        default: The value of a setting that the program does not set.
        keyword: Whether `new_process` and its like pass it on by this name; container_yml, pod_yml, resources
            and limits reach the spec in other ways.
        varies: Whether only some backends support it; `Backend.settings` has the names of these settings.
        part: The class of its value, or of the items in its value, if that class has settings itself.
    """

    name: str
    convert: Converter
    default: Any = _REQUIRED
    keyword: bool = False
    varies: bool = False
    part: type[Any] | None = None

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


def setting(convert: Converter, default: Any = None, **more: Any) -> Any:
    """Return a dataclass field that is a setting; more: other attributes of `Setting`."""
    metadata = {_KEY: {"convert": convert, "default": default, **more}}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict[str, Any], metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def required(convert: Converter) -> Any:
    """Return a dataclass field that is a setting without a default."""
    return dataclasses.field(metadata={_KEY: {"convert": convert}})


@cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings of a class by name, in the order of its fields."""
    return {
        field.name: Setting(field.name, **field.metadata[_KEY])
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    }


def explicit_settings(spec: Any) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings of a spec that differ from their defaults, with their values."""
    for name, spec_setting in settings_of(cast("type[Any]", type(spec))).items():
        value = getattr(spec, name)
        if spec_setting.required or value != spec_setting.default:
            yield spec_setting, value


class Checked:
    """Base of dataclasses that convert their settings when they are created."""

    def __post_init__(self) -> None:
        for name, spec_setting in settings_of(type(self)).items():
            object.__setattr__(self, name, spec_setting.convert(getattr(self, name), name))
