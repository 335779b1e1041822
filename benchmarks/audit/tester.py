"""Test a claimed (epsilon, delta) curve on samples of what two neighbouring data sets release."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import betainccinv, betaincinv

# Where a claim is evaluated: it holds at all epsilon, so that fewer only make the test weaker.
_EPSILONS = np.concatenate([np.linspace(0, 6, 61), np.geomspace(6.3, 60, 24)])
# Thresholds that are tried on each score, half of them in its tails.
_LEVELS = np.unique(np.concatenate([np.linspace(0, 1, 41), np.geomspace(1e-4, 0.1, 12)]))
# Relative ridge of the discriminant: columns of a chain repeat each other.
_RIDGE = 1e-3


class Claim(Protocol):
    """A guarantee that is claimed: `PrivacyPlan.guarantee`, `compose(...)`, `Approximate`."""

    def delta(self, epsilon: float) -> float:
        """Delta at `epsilon` >= 0."""


@dataclass(frozen=True)
class Approximate:
    """The claim of (epsilon, delta)-differential privacy at one point, and nothing more.

    Parameters
    ----------
    epsilon : float
        >= 0.
    at : float
        Delta, in [0, 1).

    Raises
    ------
    ValueError
        A number is out of range.
    """

    epsilon: float
    at: float

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.at < 1):
            raise ValueError(f"epsilon >= 0 and 0 <= delta < 1, got {self.epsilon!r}, {self.at!r}.")

    def delta(self, epsilon: float) -> float:
        """What (epsilon, delta) implies elsewhere (Kairouz, Oh & Viswanath 2015, Theorem 3.1)."""
        if epsilon >= self.epsilon:
            return self.at
        share = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return self.at + (1 - self.at) * share


@dataclass(frozen=True)
class AuditResult:
    """Outcome of an audit; all it says holds together with probability `confidence`.

    Attributes
    ----------
    violated : bool
        The claim is refuted.
    epsilon_lower : float
        At `delta`, epsilon is at least this; 0 if nothing was found.
    delta : float
    excess : float
        Largest excess of an event's probability over what the claim allows; a violation if positive.
    probability, other_probability : float
        Of an event: at least this under one data set, at most that under the other. The event of the largest
        excess if the claim is refuted, otherwise that of `epsilon_lower`.
    allowed : float
        Largest value that the claim allows for the first of them.
    confidence : float
    runs : int
        Of each data set.
    """

    violated: bool
    epsilon_lower: float
    delta: float
    excess: float
    probability: float
    other_probability: float
    allowed: float
    confidence: float
    runs: int

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not refuted"
        return (
            f"claim {verdict}: an event has probability >= {self.probability:.3g} under one data set and <= "
            f"{self.other_probability:.3g} under its neighbour; the claim allows {self.allowed:.3g}\n"
            f"epsilon({self.delta:g}) >= {self.epsilon_lower:.3g}; {self.runs} runs of each, error "
            f"probability {1 - self.confidence:.1g}"
        )


@dataclass(frozen=True)
class _Event:
    """A half line of a score; `swapped` if it is likelier under the second data set."""

    score: Callable[[np.ndarray], np.ndarray]
    threshold: float
    swapped: bool

    def counts(self, first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
        """Number of samples in it: of the data set where it is likelier, of the other."""
        found = [int(np.sum(self.score(x) > self.threshold)) for x in (first, second)]
        return (found[1], found[0]) if self.swapped else (found[0], found[1])


class TradeOffTester:
    """Test a claimed trade-off curve on samples of two neighbouring data sets.

    An event is chosen on one half of the samples, and its probabilities are bounded on the other half
    (Clopper & Pearson 1934). An excess over the curve at any epsilon refutes the claim.

    Parameters
    ----------
    claim : Claim
        For all events E and epsilon: ``P(E | one) <= e^epsilon P(E | other) + delta(epsilon)``.
    delta : float
        Where a lower bound of epsilon is reported.
    confidence : float
        1 minus the probability that a true claim is refuted.

    Raises
    ------
    ValueError
        `delta` or `confidence` is out of range.

    Notes
    -----
    **Privacy.** For simulated data: an audit of real records is itself a release of them, without any
    guarantee. A claim that is not refuted is not thereby proved.
    """

    def __init__(self, claim: Claim, delta: float = 1e-5, confidence: float = 1 - 1e-6):
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}.")
        if not 0.5 <= confidence < 1:
            raise ValueError(f"confidence must lie in [0.5, 1), got {confidence!r}.")
        self.claim, self.delta, self.confidence = claim, delta, confidence
        self._deltas = np.array([claim.delta(float(e)) for e in _EPSILONS])

    def test(
        self, samples1: np.ndarray, samples2: np.ndarray, failure_probability: float | None = None
    ) -> AuditResult:
        """Choose events on half of the samples, and bound their probabilities on the other half.

        Parameters
        ----------
        samples1, samples2 : array_like, shape (runs, features)
            What was released, under each data set, in independent runs. Infinities and NaN are values like
            others.
        failure_probability : float, optional
            Default: 1 minus the tester's confidence.

        Returns
        -------
        AuditResult

        Raises
        ------
        ValueError
            The samples have different or unusable shapes.
        """
        first, second = (np.asarray(x, dtype=float) for x in (samples1, samples2))
        if first.ndim != 2 or first.shape != second.shape or first.shape[0] < 4 or not first.shape[1]:
            raise ValueError("samples are two arrays of one shape (runs, features), with at least 4 runs.")
        first, second = _finite(first, second)
        error = 1 - self.confidence if failure_probability is None else failure_probability
        runs = first.shape[0]
        half = runs // 2
        events = self._best_events(first[:half], second[:half], error)
        # Two events with two bounds each, which hold together.
        found = [_bounds(*e.counts(first[half:], second[half:]), runs - half, error / 4) for e in events]
        bounds = [(float(low), float(high)) for low, high in found]
        excesses = [low - float(self._allowed(np.array(high))) for low, high in bounds]
        epsilons = [float(self._epsilon(*(np.array(x) for x in b))) for b in bounds]
        excess = max(excesses)
        # Without a violation the first event is often trivial, and the second tells more.
        low, high = bounds[excesses.index(excess)] if excess > 0 else bounds[1]
        allowed = float(self._allowed(np.array(high)))
        return AuditResult(excess > 0, max(epsilons), self.delta, excess, low, high, allowed, 1 - error, runs)

    def _allowed(self, other: np.ndarray) -> np.ndarray:
        """Largest probability of an event that has probability `other` under the neighbour."""
        return np.minimum((np.exp(_EPSILONS) * other[..., None] + self._deltas).min(-1), 1.0)

    def _epsilon(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.maximum(np.log(np.maximum(low - self.delta, 0.0) / high), 0.0)

    def _best_events(self, first: np.ndarray, second: np.ndarray, error: float) -> list[_Event]:
        """The events of the largest excess, and of the largest epsilon, as far as these samples tell."""
        nothing = _Event(lambda x: x[:, 0], math.inf, False)
        best: list[tuple[float, _Event]] = [(-math.inf, nothing), (0.0, nothing)]
        for score in _scores(first, second):
            values = np.sort(score(first)), np.sort(score(second))
            cuts = _cuts(np.concatenate(values))
            hits = [v.size - np.searchsorted(v, cuts, side="right") for v in values]
            for swapped in (False, True):
                low, high = _bounds(hits[swapped], hits[not swapped], len(first), error / 4)
                for which, gain in enumerate((low - self._allowed(high), self._epsilon(low, high))):
                    cut = int(np.argmax(gain))
                    if gain[cut] > best[which][0]:
                        best[which] = (float(gain[cut]), _Event(score, float(cuts[cut]), swapped))
        return [event for _, event in best]


def _bounds(hits: Any, others: Any, runs: int, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower bound of the first probability and upper bound of the second, each at this error."""
    k, m = np.asarray(hits, dtype=float), np.asarray(others, dtype=float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)
    high = np.where(m < runs, betainccinv(m + 1, np.maximum(runs - m, 1), error), 1.0)
    return low, high


def _finite(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A column that is not always finite in two: which kind of value it has, and the finite ones."""
    both = np.concatenate([first, second])
    odd = ~np.isfinite(both)
    some = odd.any(0)
    kind = np.where(np.isnan(both), 3.0, np.sign(both) * np.isinf(both))[:, some]
    both = np.hstack([np.where(odd, 0.0, both), kind])
    return both[: len(first)], both[len(first) :]


def _cuts(values: np.ndarray) -> np.ndarray:
    """Thresholds: every distinct value if they are few, otherwise quantiles."""
    distinct = np.unique(values)
    if distinct.size > 100:
        levels = np.concatenate([_LEVELS, 1 - _LEVELS])
        distinct = np.unique(np.quantile(distinct if distinct.size < 200 else values, levels, method="lower"))
    return distinct[:-1] if distinct.size > 1 else distinct


def _scores(first: np.ndarray, second: np.ndarray) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Each column that varies, and the linear discriminant of them all; with both signs."""
    both = np.concatenate([first, second])
    varies = np.flatnonzero(np.ptp(both, axis=0) > 0)
    weights = list(np.eye(first.shape[1])[varies])
    if varies.size:
        scale = both[:, varies].std(0)
        scale[scale == 0] = 1.0  # a spread that underflows
        means = [x[:, varies].mean(0) / scale for x in (first, second)]
        centred = np.concatenate(
            [x[:, varies] / scale - mean for x, mean in zip((first, second), means, strict=True)]
        )
        covariance = centred.T @ centred / len(centred) + _RIDGE * np.eye(varies.size)
        discriminant = np.zeros(first.shape[1])
        discriminant[varies] = np.linalg.solve(covariance, means[0] - means[1]) / scale
        weights.append(discriminant)
    for vector in weights:
        for sign in (1.0, -1.0):
            yield _projection(sign * vector)


def _projection(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    used = np.flatnonzero(weights)
    return lambda x: x[:, used] @ weights[used]
