"""What happened: events, validated, with the neighbouring relation they are stated for, and their JSON form.

`dp_accounting` events are used where one is exact: `GaussianDpEvent` (sums of clipped ratios or gradients),
`PoissonSampledDpEvent` and `SampledWithoutReplacementDpEvent` of a Gaussian (DPSGHMC; the subsampled
penalty), `ComposedDpEvent`, `SelfComposedDpEvent`, `NoOpDpEvent`, `NonPrivateDpEvent`. The classes here are
for the rest.

Policy: the meaning of a class and of its fields never changes; a different mechanism is a new class.

One convention for all: a noise multiplier is the noise standard deviation over the sensitivity *under the
neighbouring relation of the set*: 2 * clip_bound under "substitute", clip_bound under "add_remove".
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event as base

from pymc_dp.bounds import LARGEST_BOUND, SMALLEST_BOUND
from pymc_dp.privacy.accounting.values import check_relation, is_number

FORMAT = 1
# Counts are multiplied by costs as floats: up to here they are exact.
_MOST_EVENTS = 2**53


def _positive(instance: Any, attribute: "attr.Attribute[Any]", value: Any) -> None:
    name = f"{type(instance).__name__}.{attribute.name}"
    _check_number(name, value)
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {value!r}.")


def _non_negative(instance: Any, attribute: "attr.Attribute[Any]", value: Any) -> None:
    name = f"{type(instance).__name__}.{attribute.name}"
    _check_number(name, value)
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, got {value!r}.")


def _count(instance: Any, attribute: "attr.Attribute[Any]", value: Any) -> None:
    _check_count(f"{type(instance).__name__}.{attribute.name}", value, least=1)


def _check_number(name: str, value: Any) -> None:
    try:
        finite = is_number(value) and not isinstance(value, np.longdouble) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        finite = False
    if not finite:
        raise ValueError(f"{name} must be a finite number, got {value!r}.")
    if value and not SMALLEST_BOUND <= abs(value) <= LARGEST_BOUND:
        raise ValueError(
            f"{name} must be between 1e-100 and 1e100, got {value!r}: squares of others are not "
            "ordinary numbers."
        )


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDecisionDpEvent(base.DpEvent):
    """A decision whose log-odds differ by at most `eta` between neighbouring data sets.

    Parameters
    ----------
    eta : float
        In nats, >= 0. Barker's test on the full batch: tempering times sensitivity.

    Notes
    -----
    **Privacy.** Released: the decision. eta-DP, eta^2 / 8-zCDP; docs/proofs/decision_accounting, Proposition
    1.
    """

    eta: float = attr.ib(validator=_non_negative)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PenaltyDecisionDpEvent(base.DpEvent):
    """An accept decision of the full-batch penalty test; the noisy log-ratio is not released.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of the log-ratio over its sensitivity, > 0.

    Notes
    -----
    **Privacy.** Released: the decision and the uniform of the test; the noise scale may be any public number.
    docs/proofs/decision_accounting, Theorem 2.
    """

    noise_multiplier: float = attr.ib(validator=_positive)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FixedScalePenaltyDecisionDpEvent(base.DpEvent):
    """A penalty accept decision with a noise scale fixed before the run (fixed-radius proposals).

    Parameters
    ----------
    noise_std : float
        Standard deviation s of the noise of the tempered log-ratio, in nats, > 0.
    shift : float
        Sensitivity of the tempered log-ratio, in nats, > 0.

    Notes
    -----
    **Privacy.** Released: the decision. docs/proofs/decision_accounting, Theorem 3.
    """

    noise_std: float = attr.ib(validator=_positive)
    shift: float = attr.ib(validator=_positive)

    def __attrs_post_init__(self) -> None:
        _check_number("FixedScalePenaltyDecisionDpEvent.noise_std / shift", self.noise_multiplier)

    @property
    def noise_multiplier(self) -> float:
        """``noise_std / shift``."""
        return self.noise_std / self.shift


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PoissonMixtureDpEvent(base.DpEvent):
    """A DP-Fast-MH log-ratio with Gaussian noise: a record enters a Poisson number of times.

    Parameters
    ----------
    rate : float
        lambda / N of TunaMH: expected base number of draws of a record, > 0.
    clip_bound : float
        B, in nats of the tempered log-ratio: the record's clipped ratio w lies in [-B, B].
    noise_std : float
        Standard deviation of the noise, in nats.

    Notes
    -----
    **Privacy.** A record with ratio w adds K t, K ~ Poisson(rate + (B - w) / 2), t = log1p(w / (rate + (B -
    w) / 2)). Released: at most the noisy sum. docs/proofs/decision_accounting, Theorem 7.
    """

    rate: float = attr.ib(validator=_positive)
    clip_bound: float = attr.ib(validator=_positive)
    noise_std: float = attr.ib(validator=_positive)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PoissonBarkerDecisionDpEvent(base.DpEvent):
    """A Barker decision on a TunaMH batch (fast MH): a record enters the log-ratio a Poisson number of times.

    Parameters
    ----------
    rate : float
        lambda / N of TunaMH: expected base number of draws of a record, > 0.
    clip_bound : float
        B, in nats of the tempered log-ratio: the record's clipped ratio w lies in [-B, B].

    Notes
    -----
    **Privacy.** A record with ratio w adds K t, K ~ Poisson(rate + (B - w) / 2), t = log1p(w / (rate + (B -
    w) / 2)). Released: the decision alone. docs/proofs/fast_mh, Theorem 5.
    """

    rate: float = attr.ib(validator=_positive)
    clip_bound: float = attr.ib(validator=_positive)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BarkerMinibatchDpEvent(base.DpEvent):
    """An accept decision of minibatch DP Barker (Heikkilä et al. 2019; Räisä 2021, Algorithm 2).

    Parameters
    ----------
    batch_size, dataset_size : int
        The batch is drawn without replacement; ratios clipped to ``sqrt(batch_size) / (T dataset_size)``;
        noise variance 2, less at most the variance of the batch's log-ratio with divisor ``batch_size``.

    Notes
    -----
    **Privacy.** "substitute" only. Released: the decision; docs/proofs/barker, Theorem 4. The noisy log-ratio
    behind it: Räisä 2021, Theorem 8, for orders below batch_size / 5.
    """

    batch_size: int = attr.ib(validator=_count)
    dataset_size: int = attr.ib(validator=_count)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.dataset_size:
            raise ValueError("BarkerMinibatchDpEvent.batch_size is larger than dataset_size.")
        if self.batch_size <= 10:
            raise ValueError(
                "BarkerMinibatchDpEvent.batch_size must be above 10: "
                "Theorem 8 needs an order 2 <= alpha < batch_size / 5."
            )


def subsampled_penalty(tau: float, batch_size: int, dataset_size: int) -> base.DpEvent:
    """Event of one subsampled penalty iteration (Räisä 2021, Theorem 9).

    Parameters
    ----------
    tau : float
        Noise variance over the squared sensitivity c^2 (Lemma 1), > 0.
    batch_size, dataset_size : int
        The batch is drawn without replacement.

    Returns
    -------
    DpEvent
        A Gaussian of noise multiplier ``sqrt(tau)``, sampled without replacement.
    """
    if not (tau > 0 and math.isfinite(tau)):
        raise ValueError(f"tau must be positive and finite, got {tau!r}.")
    event = base.SampledWithoutReplacementDpEvent(
        dataset_size, batch_size, base.GaussianDpEvent(math.sqrt(tau))
    )
    check_event(event, "substitute")
    return event


#: Every class an event may have; JSON names outside it are refused.
REGISTRY: dict[str, type[base.DpEvent]] = {
    cls.__name__: cls
    for cls in (
        base.NoOpDpEvent,
        base.NonPrivateDpEvent,
        base.GaussianDpEvent,
        base.PoissonSampledDpEvent,
        base.SampledWithoutReplacementDpEvent,
        base.SelfComposedDpEvent,
        base.ComposedDpEvent,
        BoundedRangeDecisionDpEvent,
        PenaltyDecisionDpEvent,
        FixedScalePenaltyDecisionDpEvent,
        PoissonMixtureDpEvent,
        PoissonBarkerDecisionDpEvent,
        BarkerMinibatchDpEvent,
    )
}


def check_event(event: base.DpEvent, neighboring_relation: str) -> None:
    """Raise unless `event` is known, has fields in range, and is defined under the relation.

    Parameters
    ----------
    event : DpEvent
    neighboring_relation : {"substitute", "add_remove"}

    Raises
    ------
    ValueError
        What is wrong with it. (`dp_accounting` events accept any number: they are checked here.)
    """
    if REGISTRY.get(type(event).__name__) is not type(event):
        raise ValueError(f"unknown event {type(event).__name__}: no accountant here can charge for it.")
    if isinstance(event, base.GaussianDpEvent):
        _check_number("GaussianDpEvent.noise_multiplier", event.noise_multiplier)
        if not event.noise_multiplier >= 0:
            raise ValueError(
                f"GaussianDpEvent.noise_multiplier must be at least 0, got {event.noise_multiplier!r}."
            )
    elif isinstance(event, base.PoissonSampledDpEvent):
        _check_number("PoissonSampledDpEvent.sampling_probability", event.sampling_probability)
        if not 0 <= event.sampling_probability <= 1:
            raise ValueError(f"sampling_probability must be in [0, 1], got {event.sampling_probability!r}.")
        _check_inner(event.event, neighboring_relation)
    elif isinstance(event, base.SampledWithoutReplacementDpEvent):
        _check_count("SampledWithoutReplacementDpEvent.source_dataset_size", event.source_dataset_size, 1)
        _check_count("SampledWithoutReplacementDpEvent.sample_size", event.sample_size, 1)
        if event.sample_size > event.source_dataset_size:
            raise ValueError("sample_size is larger than source_dataset_size.")
        _check_inner(event.event, neighboring_relation)
    if isinstance(event, base.SampledWithoutReplacementDpEvent | BarkerMinibatchDpEvent):
        if neighboring_relation != "substitute":
            raise ValueError(f"{type(event).__name__} is defined for neighboring_relation='substitute' only.")


def _check_inner(event: base.DpEvent, neighboring_relation: str) -> None:
    if not isinstance(event, base.GaussianDpEvent):
        raise ValueError(f"sampling is accounted for Gaussian releases only, not for {type(event).__name__}.")
    check_event(event, neighboring_relation)


@attr.s(frozen=True, init=False, hash=False)
class EventSet:
    """Events on one data set under one neighbouring relation.

    Parameters
    ----------
    events : DpEvent, EventSet, list, tuple or mapping
        One event or set of events; a list or tuple of them, or of pairs (event, count); or a mapping of event
        to count. Nothing else: a `set` holds equal events once, and an iterator is empty the second time.
    neighboring_relation : {"substitute", "add_remove"}, optional
        Needed unless `events` holds an `EventSet`.

    Attributes
    ----------
    counts : mapping of DpEvent to int
        Number of times each distinct leaf event happened.
    neighboring_relation : str

    Raises
    ------
    ValueError
        An event or a count is invalid, or event sets of different neighbouring relations are mixed.
    """

    counts: Mapping[base.DpEvent, int] = attr.ib()
    neighboring_relation: str = attr.ib()

    def __init__(self, events: Any, neighboring_relation: str | None = None):
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
        check_relation(relation)
        counts: Counter[base.DpEvent] = Counter()
        for item, times in items:
            _check_count("the count of an event", times, least=0)
            for event, count in item.counts.items() if isinstance(item, EventSet) else [(item, 1)]:
                _check_count("the count of an event", count, least=0)
                _flatten(event, int(times) * int(count), relation, counts)
        if sum(counts.values()) > _MOST_EVENTS:
            raise ValueError("more than 2**53 events: no accountant here can charge for so many.")
        object.__setattr__(self, "counts", dict(counts))
        object.__setattr__(self, "neighboring_relation", relation)

    def __hash__(self) -> int:
        return hash((frozenset(self.counts.items()), self.neighboring_relation))

    def __add__(self, other: "EventSet") -> "EventSet":
        return EventSet([self, other])

    def repeated(self, times: int) -> "EventSet":
        """The same events, `times` times over."""
        _check_count("times", times, least=0)
        return EventSet(
            {event: count * int(times) for event, count in self.counts.items()}, self.neighboring_relation
        )

    def to_json(self) -> str:
        """JSON text that `from_json` reads."""
        events = [{"count": count, "event": _encode(event)} for event, count in self.counts.items()]
        return json.dumps(
            {"format": FORMAT, "neighboring_relation": self.neighboring_relation, "events": events},
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> "EventSet":
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            Unknown class or field, missing field, value out of range, other format. Nothing is ever imported.
        """
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r} is not {FORMAT}")
            relation, rows = content.pop("neighboring_relation"), content.pop("events")
            events = [(_decode(row.pop("event")), row.pop("count")) for row in rows]
        except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"not a set of privacy events: {error!r}.") from error
        if set(content) != {"format"} or any(rows):
            raise ValueError("not a set of privacy events: it has fields that are not known.")
        return cls(events, relation)


def _counted(events: Any) -> list[tuple[Any, Any]]:
    """Pairs of an event, or a set of events, and how often; not checked yet."""
    if isinstance(events, base.DpEvent | EventSet):
        return [(events, 1)]
    if isinstance(events, Mapping):
        return list(events.items())
    if isinstance(events, list | tuple):
        return [item if isinstance(item, tuple) and len(item) == 2 else (item, 1) for item in events]
    raise ValueError(f"{_FORMS}, got {type(events).__name__}.")


_FORMS = (
    "events are a DpEvent, an EventSet, a list or tuple of these or of pairs (event, count), or a mapping of "
    "event to count"
)


def _flatten(event: Any, times: int, relation: str, counts: Counter[base.DpEvent]) -> None:
    if isinstance(event, base.SelfComposedDpEvent):
        _check_count("SelfComposedDpEvent.count", event.count, least=0)
        _flatten(event.event, times * int(event.count), relation, counts)
    elif isinstance(event, base.ComposedDpEvent):
        if not isinstance(event.events, list | tuple):
            raise ValueError(f"ComposedDpEvent.events must be a list, got {type(event.events).__name__}.")
        for inner in event.events:
            _flatten(inner, times, relation, counts)
    elif not isinstance(event, base.DpEvent):
        raise ValueError(f"{_FORMS}; one of them is of type {type(event).__name__}.")
    else:
        check_event(event, relation)
        if times and not isinstance(event, base.NoOpDpEvent):
            counts[event] += times


def _encode(event: base.DpEvent) -> dict[str, Any]:
    values: dict[str, Any] = {"class": type(event).__name__}
    for field in attr.fields(type(event)):
        value = getattr(event, field.name)
        if isinstance(value, base.DpEvent):
            value = _encode(value)
        elif isinstance(value, np.generic):
            value = value.item()
        values[field.name] = value
    return values


def _decode(values: Any) -> base.DpEvent:
    if not isinstance(values, dict) or values.get("class") not in REGISTRY:
        name = values.get("class") if isinstance(values, dict) else values
        raise ValueError(f"unknown event class {name!r}: the registry is closed.")
    cls = REGISTRY[values["class"]]
    known = {field.name for field in attr.fields(cls)}
    given = set(values) - {"class"}
    if given != known:
        raise ValueError(f"{values['class']} has fields {sorted(known)}, got {sorted(given)}.")
    decoded = {
        key: _decode(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if key != "class"
    }
    return cls(**decoded)
