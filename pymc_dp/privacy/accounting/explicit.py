"""What decisions tell somebody who takes one pair of probabilities throughout: where bounds are looked for.

These are lower bounds of a cost, to a few per cent. They steer grids (`value_iteration`), and are never a
guarantee.
"""

import math

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.corners import Corners

# Counts of outcomes that are looked at: so many standard deviations, and more, about the mean.
_DEVIATIONS, _MORE = 2.0, 60
_HALVINGS, _NEAR = 40, 2.0
_APART, _NEXT = 5, 3


class OnePair:
    """Curve of somebody who takes the pair that tells most, and sees a Gaussian release.

    Parameters
    ----------
    corners : Corners
        Pairs, in both orders of the data sets.
    count : int
        Decisions.
    mu_squared : float
        Of the Gaussian release.
    delta : float
        Where the pair is good.
    """

    def __init__(self, corners: Corners, count: int, mu_squared: float, delta: float):
        self.mu = math.sqrt(mu_squared)
        law = _best(corners, count, delta)
        self._probability, self._loss = law

    def delta(self, epsilon: float) -> float:
        """About as much as that is told."""
        return float(self._probability @ gaussian.delta_anywhere(self.mu, epsilon - self._loss))

    def epsilon(self, delta: float) -> float:
        """Where `delta` is that."""
        if self.mu == 0:
            return max(_epsilon(self._probability, self._loss, delta), 0.0)
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def slope(corners: Corners, count: int, mu_squared: float, delta: float) -> float:
    """How fast the logarithm of delta falls there with epsilon, about."""
    epsilons = []
    for near in (min(delta * math.exp(_NEAR), 0.9), delta * math.exp(-_NEAR)):
        epsilons.append(OnePair(corners, count, mu_squared, near).epsilon(near))
    return 2 * _NEAR / max(epsilons[1] - epsilons[0], 1e-9)


def _best(corners: Corners, count: int, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Law of the losses of the pair that tells most: some are tried, then those next to the best of these."""
    order = np.argsort(corners.lower)
    order = order[corners.lower[order] > 0]
    some = Corners(corners.lower[order], corners.gap[order])
    up, down = some.losses
    # Probability of an outcome, its loss, and the loss of the other one; neighbours are alike.
    pairs = np.concatenate([[some.lower, -up, -down], [some.lower + some.gap, up, down]], axis=1)
    laws: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    epsilons: dict[int, float] = {}
    numbers = {*range(0, pairs.shape[1], _APART), order.size - 1, pairs.shape[1] - 1}
    while numbers:
        for number in sorted(numbers):
            laws[number] = _law(pairs[:, number], count, -math.log(delta))
            epsilons[number] = _epsilon(*laws[number], delta)
        best = sorted(epsilons, key=lambda one: -epsilons[one])[:_NEXT]
        around = {one + step for one in best for step in range(1 - _APART, _APART)}
        numbers = {one for one in around if 0 <= one < pairs.shape[1]} - laws.keys()
    return laws[best[0]]


def _law(pair: np.ndarray, count: int, logarithm: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of total losses, and these, the largest first."""
    p, one, other = pair
    reach = math.sqrt(count * p * (1 - p) * logarithm) * _DEVIATIONS + logarithm + _MORE
    number = np.arange(max(0, int(count * p - reach)), min(count, math.ceil(count * p + reach)) + 1)
    logs = gammaln(count + 1) - gammaln(number + 1) - gammaln(count - number + 1)
    loss = number * one + (count - number) * other
    order = np.argsort(-loss)
    return np.exp(logs + xlogy(number, p) + xlog1py(count - number, -p))[order], loss[order]


def _epsilon(probability: np.ndarray, loss: np.ndarray, delta: float) -> float:
    """Epsilon of one law, from its tails."""
    here = np.cumsum(probability)
    with np.errstate(over="ignore", invalid="ignore"):
        there = np.cumsum(probability * np.exp(-loss))
        enough = here - np.exp(loss) * there > delta  # delta at each loss
    if not enough.any():
        enough[-1] = True
    last = max(int(np.argmax(enough)) - 1, 0)
    left = here[last] - delta
    if not (left > 0 and there[last] > 0):
        return 0.0
    with np.errstate(over="ignore"):
        return math.log(left / there[last])
