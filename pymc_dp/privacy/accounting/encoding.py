"""Events and settings as plain values, and back: of a closed list of classes, with all their fields."""

import dataclasses
from collections.abc import Collection
from typing import Any

import attr

from pymc_dp.privacy.accounting.values import plain


def names_of(cls: type) -> tuple[str, ...]:
    """Fields of a class of attrs or of dataclasses, in order; none of another."""
    if attr.has(cls):
        return tuple(one.name for one in attr.fields(cls))
    return tuple(one.name for one in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


def encode(one: Any, classes: Collection[type]) -> Any:
    """An object of one of some classes, and what it is made of, as JSON-able values.

    Raises
    ------
    TypeError
        What `decode` would not read: a result of it would be paid for, and lost.
    """
    cls = type(one)
    if cls in classes:
        return {"class": cls.__name__} | {name: encode(getattr(one, name), classes) for name in names_of(cls)}
    if names_of(cls):
        raise TypeError(f"{cls.__name__} is not listed.")
    return plain(one)


def decode(values: Any, classes: Collection[type]) -> Any:
    """What `encode` was given.

    Raises
    ------
    ValueError
        Another class, or a field too many or too few. Nothing is ever imported.
    """
    if not isinstance(values, dict):
        return tuple(values) if isinstance(values, list) else values
    name = values.get("class")
    found = [cls for cls in classes if cls.__name__ == name]
    if not found:
        raise ValueError(f"unknown class {name!r}: the registry is closed.")
    known, given = names_of(found[0]), values.keys() - {"class"}
    if given != set(known):
        raise ValueError(f"{name} has fields {sorted(known)}, got {sorted(given)}.")
    return found[0](**{field: decode(values[field], classes) for field in known})
