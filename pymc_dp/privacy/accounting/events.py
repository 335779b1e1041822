"""Events: descriptions of releases, one class for each kind, with checked numbers; costs are in `costs.py`.

`dp_accounting` events are used where one is exact: `GaussianDpEvent` (sums of clipped ratios or gradients),
`PoissonSampledDpEvent` and `SampledWithoutReplacementDpEvent` of a Gaussian (DPSGHMC; the subsampled
penalty), `ZCDpEvent` (discrete Gaussian noise), `ComposedDpEvent`, `SelfComposedDpEvent`, `NoOpDpEvent`,
`NonPrivateDpEvent`. The classes here are for the rest.

Policy: the meaning of a class and of its fields never changes; a different mechanism gets a new class, and a
new line of `costs.COSTS`.

Convention: a noise multiplier is the noise standard deviation over the sensitivity *under the neighbouring
relation of the set*: 2 * clip_bound under "substitute", clip_bound under "add_remove".
"""

import attr
from dp_accounting import dp_event as base

from pymc_dp.bounds import LARGEST_BOUND, SMALLEST_BOUND, check_count, is_number


def _positive(instance: object, attribute: "attr.Attribute[float]", value: float) -> None:
    _non_negative(instance, attribute, value)
    if value == 0:
        raise ValueError(f"{type(instance).__name__}.{attribute.name} must be positive, got {value!r}.")


def _non_negative(instance: object, attribute: "attr.Attribute[float]", value: float) -> None:
    check_number(f"{type(instance).__name__}.{attribute.name}", value)


def _count(instance: object, attribute: "attr.Attribute[int]", value: int) -> None:
    check_count(f"{type(instance).__name__}.{attribute.name}", value)


def check_number(name: str, value: object) -> None:
    """Raise ValueError unless `value` is 0 or a number from 1e-100 to 1e100."""
    if not (is_number(value) and (value == 0 or SMALLEST_BOUND <= value <= LARGEST_BOUND)):
        raise ValueError(
            f"{name} must be 0 or a finite number from 1e-100 to 1e100, in double precision, got {value!r}: "
            "squares of others are not ordinary numbers."
        )


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDecisionDpEvent(base.DpEvent):
    """A decision whose log-odds differ by at most `eta` between neighbouring data sets.

    Parameters
    ----------
    eta : float
        In nats, >= 0. For Barker's test on the full batch: tempering times sensitivity.

    Notes
    -----
    **Privacy.** Released: the decision. It is eta-DP, and eta^2 / 8-zCDP (docs/proofs/decision_accounting,
    Proposition 1).
    """

    eta: float = attr.ib(validator=_non_negative)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PenaltyDecisionDpEvent(base.DpEvent):
    """A decision of the full-batch penalty test, or of another on the same noisy sum, which is not released.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of the log-ratio over its sensitivity, > 0.

    Notes
    -----
    **Privacy.** Released: the decision and the uniform of the test; the noise scale may be any public number.
    The same holds for the decision whether the noisy sum is above any threshold that does not depend on a
    record. docs/proofs/decision_accounting, Theorem 2.
    """

    noise_multiplier: float = attr.ib(validator=_positive)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class FixedScalePenaltyDecisionDpEvent(base.DpEvent):
    """A penalty accept decision with a noise scale that is fixed before the run (fixed-radius proposals).

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
        check_number("FixedScalePenaltyDecisionDpEvent.noise_std / shift", self.noise_multiplier)

    @property
    def noise_multiplier(self) -> float:
        """``noise_std / shift``."""
        return self.noise_std / self.shift


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PoissonMixtureDpEvent(base.DpEvent):
    """A DP-Fast-MH log-ratio with Gaussian noise, which a record enters a Poisson number of times.

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
    """A Barker decision on a TunaMH batch (fast MH); a record enters its log-ratio a Poisson number of times.

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
class _OnBatchDpEvent(base.DpEvent):
    """Base class of events on a batch that is drawn without replacement."""

    batch_size: int = attr.ib(validator=_count)
    dataset_size: int = attr.ib(validator=_count)

    def __attrs_post_init__(self) -> None:
        if self.batch_size > self.dataset_size:
            raise ValueError(f"{type(self).__name__}.batch_size is larger than dataset_size.")


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BatchPenaltyDecisionDpEvent(_OnBatchDpEvent):
    """An accept decision of the subsampled penalty test; the noisy log-ratio is not released.

    Parameters
    ----------
    batch_size, dataset_size : int
        The batch is drawn without replacement.
    noise_multiplier : float
        Standard deviation of the noise of the log-ratio, divided by the most by which one record of the batch
        moves it, > 0.

    Notes
    -----
    **Privacy.** "substitute" only. Released: the decision and the uniform of the test. docs/proofs/barker,
    Theorem 6.
    """

    noise_multiplier: float = attr.ib(validator=_positive)

    @property
    def sampling_probability(self) -> float:
        """Batch size divided by the number of records."""
        return self.batch_size / self.dataset_size


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BarkerMinibatchDpEvent(_OnBatchDpEvent):
    """An accept decision of minibatch DP Barker (Heikkilä et al. 2019; Räisä 2021, Algorithm 2).

    Parameters
    ----------
    batch_size, dataset_size : int
        The batch is drawn without replacement, and ratios are clipped to ``sqrt(batch_size) / (T
        dataset_size)``. The noise variance is 2, minus at most the variance of the batch's log-ratio with
        divisor ``batch_size``.

    Notes
    -----
    **Privacy.** "substitute" only. Released: the decision; docs/proofs/barker, Theorem 4.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.batch_size <= 10:
            raise ValueError(
                "BarkerMinibatchDpEvent.batch_size must be above 10: smaller batches have hardly a bound."
            )


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ApproximateZCDpEvent(base.DpEvent):
    """A release that is rho-zCDP outside of events of probability delta, such as counts above a threshold.

    Parameters
    ----------
    rho : float
        Parameter of zCDP, >= 0.
    delta : float
        In (0, 1/2).

    Notes
    -----
    **Privacy.** delta-approximate rho-zCDP (Bun & Steinke 2016, Definition 8.1): for each of two neighbouring
    data sets there is an event of probability at least 1 - delta, such that the results given these events
    have Renyi divergences of at most ``rho * order``. docs/proofs/prepare, section 3.
    """

    rho: float = attr.ib(validator=_non_negative)
    delta: float = attr.ib(validator=_positive)

    def __attrs_post_init__(self) -> None:
        if not self.delta < 0.5:
            raise ValueError(f"ApproximateZCDpEvent.delta must be below 1/2, got {self.delta!r}.")

    @property
    def excluded(self) -> float:
        """Probability p with ``P(A) <= exp(epsilon) P'(A) + (1 + exp(epsilon)) p + delta'`` for all A."""
        return self.delta / (1 - self.delta) * (1 + 1e-12)
