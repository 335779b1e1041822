"""Sets of events on one data set, under one neighbouring relation, and their JSON form."""

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event as base

from pymc_dp.bounds import check_count, check_relation
from pymc_dp.privacy.accounting.costs import COSTS

FORMAT = 1


def _registry() -> tuple[type[base.DpEvent], ...]:
    """Return the event classes that JSON may name."""
    return (*COSTS, base.NoOpDpEvent, base.SelfComposedDpEvent, base.ComposedDpEvent)


def check_event(event: base.DpEvent, neighboring_relation: str) -> None:
    """Raise unless `event` has a price, has fields in range, and is defined under the relation.

    Parameters
    ----------
    event : DpEvent
    neighboring_relation : {"substitute", "add_remove"}

    Raises
    ------
    ValueError
        The event has no price, a field out of range, or another relation. (Classes of `dp_accounting` accept
        any number, so their fields are checked here.)
    """
    costs, name = COSTS.get(type(event)), type(event).__name__
    if costs is None:
        raise ValueError(f"unknown event {name}: no accountant here can charge for it.")
    costs.check(event)
    if neighboring_relation not in costs.relations:
        relations = " or ".join(f"'{one}'" for one in costs.relations)
        raise ValueError(f"{name} is defined for neighboring_relation={relations} only.")


@attr.s(frozen=True, init=False, hash=False)
class EventSet:
    """Events on one data set under one neighbouring relation.

    Parameters
    ----------
    events : DpEvent, EventSet, list, tuple or mapping
        One event or set of events; a list or tuple of them, or of pairs (event, count); or a mapping of event
        to count. Other types are refused: a `set` holds equal events once, and an iterator is empty the
        second time.
    neighboring_relation : {"substitute", "add_remove"}, optional
        Needed unless `events` holds an `EventSet`.

    Attributes
    ----------
    counts : mapping of DpEvent to int
        Number of occurrences of each distinct event, with compositions expanded.
    neighboring_relation : str

    Raises
    ------
    ValueError
        An event or a count is invalid, or event sets of different neighbouring relations are mixed.
    """

    counts: Mapping[base.DpEvent, int] = attr.ib()
    neighboring_relation: str = attr.ib()

    def __init__(self, events: "Events", neighboring_relation: str | None = None):
        items = _counted(events)
        relations = {item.neighboring_relation for item, _ in items if isinstance(item, EventSet)}
        if neighboring_relation is not None:
            check_relation(neighboring_relation)
            relations.add(neighboring_relation)
        if not relations:
            raise ValueError("neighboring_relation is missing: 'substitute' or 'add_remove'.")
        if len(relations) > 1:
            raise ValueError(
                f"events of different neighbouring relations ({', '.join(sorted(relations))}) "
                "cannot be composed."
            )
        (relation,) = relations
        counts: Counter[base.DpEvent] = Counter()
        for item, times in items:
            check_count("the count of an event", times, least=0)
            for event, count in item.counts.items() if isinstance(item, EventSet) else [(item, 1)]:
                check_count("the count of an event", count, least=0)
                _flatten(event, int(times) * int(count), relation, counts)
        # Counts are multiplied by costs as floats, which are exact up to 2**53.
        if sum(counts.values()) > 2**53:
            raise ValueError("more than 2**53 events: no accountant here can charge for so many.")
        object.__setattr__(self, "counts", dict(counts))
        object.__setattr__(self, "neighboring_relation", relation)

    @classmethod
    def unlimited(cls, neighboring_relation: str) -> "EventSet":
        """Return the events of a release without any guarantee."""
        return cls(base.NonPrivateDpEvent(), neighboring_relation)

    def __hash__(self) -> int:
        return hash((frozenset(self.counts.items()), self.neighboring_relation))

    def __add__(self, other: "EventSet") -> "EventSet":
        return EventSet([self, other])

    def repeated(self, times: int) -> "EventSet":
        """Return the same events, each count multiplied by `times`."""
        return EventSet([(self, times)])

    def to_json(self) -> str:
        """Return JSON text that `from_json` reads."""
        rows = self.counts.items()
        events = [{"count": count, "event": encode(event, _registry())} for event, count in rows]
        return json.dumps(
            {"format": FORMAT, "neighboring_relation": self.neighboring_relation, "events": events},
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> "EventSet":
        """Read JSON text from `to_json`.

        Raises
        ------
        ValueError
            A class or field is unknown, a field is missing, a value is out of range, or the format is another
            one. Nothing is ever imported.
        """
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r} is not {FORMAT}")
            relation, rows = content.pop("neighboring_relation"), content.pop("events")
            events = [(decode(row.pop("event"), _registry()), row.pop("count")) for row in rows]
        except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"not a set of privacy events: {error!r}.") from error
        if set(content) != {"format"} or any(rows):
            raise ValueError("not a set of privacy events: it has fields that are not known.")
        return cls(events, relation)


#: Types of events that can be composed; see `EventSet`.
type Events = (
    base.DpEvent
    | EventSet
    | Sequence[base.DpEvent | EventSet | tuple[base.DpEvent | EventSet, int]]
    | Mapping[base.DpEvent, int]
)


def _counted(events: Events) -> list[tuple[base.DpEvent | EventSet, int]]:
    """Return pairs of an event, or a set of events, and its count; not checked yet."""
    if isinstance(events, base.DpEvent | EventSet):
        return [(events, 1)]
    if isinstance(events, Mapping):
        return list(events.items())
    if isinstance(events, list | tuple):
        return [item if isinstance(item, tuple) and len(item) == 2 else (item, 1) for item in events]
    raise _no_events(events)


def _no_events(given: object) -> ValueError:
    return ValueError(
        "events are a DpEvent, an EventSet, a list or tuple of these or of pairs (event, count), or a "
        f"mapping of event to count, got {type(given).__name__}."
    )


def _flatten(event: base.DpEvent, times: int, relation: str, counts: Counter[base.DpEvent]) -> None:
    if isinstance(event, base.SelfComposedDpEvent):
        check_count("SelfComposedDpEvent.count", event.count, least=0)
        _flatten(event.event, times * int(event.count), relation, counts)
    elif isinstance(event, base.ComposedDpEvent):
        if not isinstance(event.events, list | tuple):
            raise ValueError(f"ComposedDpEvent.events must be a list, got {type(event.events).__name__}.")
        for inner in event.events:
            _flatten(inner, times, relation, counts)
    elif not isinstance(event, base.DpEvent):
        raise _no_events(event)
    elif type(event) is not base.NoOpDpEvent:
        check_event(event, relation)
        if times:
            counts[_in_plain_numbers(event)] += times


def _in_plain_numbers(event: base.DpEvent) -> base.DpEvent:
    """Return the same event with Python's numbers: equal events then share cached results."""
    values = {name: getattr(event, name) for name in names_of(type(event))}
    made = {
        name: _in_plain_numbers(value) if isinstance(value, base.DpEvent) else plain(value)
        for name, value in values.items()
    }
    return event if all(made[name] is value for name, value in values.items()) else type(event)(**made)


def plain(value: object) -> object:
    """Convert NumPy's numbers, whose products may overflow, to Python's; return anything else as it is."""
    return value.item() if isinstance(value, np.integer | np.float64) else value


def names_of(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of an attrs class or dataclass, in order; none for other classes."""
    if attr.has(cls):
        return tuple(one.name for one in attr.fields(cls))
    return tuple(one.name for one in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


def encode(one: object, classes: Collection[type]) -> object:
    """Encode an object of one of `classes`, and the objects in its fields, as values for JSON; NaN as None.

    Raises
    ------
    TypeError
        `decode` could not read the object again, so that a result would be paid for, and lost.
    """
    cls = type(one)
    if cls in classes:
        return {"class": cls.__name__} | {name: encode(getattr(one, name), classes) for name in names_of(cls)}
    if names_of(cls):
        raise TypeError(f"{cls.__name__} is not listed.")
    return plain(one) if one == one else None


def decode(values: object, classes: Collection[type]) -> Any:
    """Decode the output of `encode`.

    Raises
    ------
    ValueError
        The class is not listed, or there are too many or too few fields. Nothing is ever imported.
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
