"""From plain JSON values to frozen dataclasses, by their annotations."""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from familiar_cli.clock import parse_iso

T = TypeVar("T")


class Malformed(ValueError):  # noqa: N818  # it says what the value is
    """A value is not of the shape that was asked for."""


def decode(kind: type[T], value: object) -> T:
    """Return `value` as an instance of the dataclass `kind`; keys it does not know are passed over.

    A key that is missing stands for its default.

    Raises:
        Malformed: A key without a default is missing, or one holds something else; the message
            names it.
    """
    found: T = _decode(kind, value, "it")
    return found


def _decode(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401  # any JSON, any annotation
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind)[0], value, where)
    if origin is Literal:
        return _expect(value in get_args(kind), value, where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    return _decode_plain(kind, value, where)


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    _expect(isinstance(value, dict), value, where)
    hints = get_type_hints(kind)
    for field in fields(kind):
        present = field.name in value or _has_default(field)
        _expect(present, value, f"{where} has no {field.name!r}, or")
    given = [f.name for f in fields(kind) if f.name in value]
    return kind(**{name: _decode(hints[name], value[name], repr(name)) for name in given})


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _decode_tuple(item: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    _expect(isinstance(value, list | tuple), value, where)
    return tuple(_decode(item, entry, where) for entry in value)


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:  # noqa: ANN401
    if value is None and types.NoneType in kinds:
        return None
    return _decode(next(k for k in kinds if k is not types.NoneType), value, where)


def _decode_plain(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401
    if kind is datetime or issubclass(kind, Enum):
        try:
            return parse_iso(value) if kind is datetime else kind(value)
        except (TypeError, ValueError) as error:
            raise Malformed(f"{where} holds something else") from error
    if kind is float:
        return _decode_float(value, where)
    is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _expect(is_kind, value, where)


def _decode_float(value: Any, where: str) -> float:  # noqa: ANN401
    _expect(isinstance(value, int | float), value, where)
    try:
        return float(value)
    except OverflowError as error:
        raise Malformed(f"{where} holds too large a number") from error


def _expect(met: bool, value: Any, where: str) -> Any:  # noqa: ANN401, FBT001
    if not met:
        raise Malformed(f"{where} holds something else")
    return value
