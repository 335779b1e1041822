"""Loss distributions of records that enter a noisy sum a Poisson number of times, against pooled laws.

To pool is a post-processing, losses are rounded down, and the ratios are the same throughout: lower bounds.
No code in common.
"""

import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.special import ndtr
from scipy.stats import poisson

from pymc_dp import privacy
from pymc_dp.privacy.accounting.composition import privacy_loss_distribution


def cells(event, ratio, cut):
    """Probabilities of the noisy sum, in units of the noise, between cuts; None for no record."""
    mean = 0.0 if ratio is None else event.rate + (event.clip_bound - ratio) / 2
    jump = 0.0 if ratio is None else math.log1p(ratio / mean) / event.noise_std
    found = np.zeros(cut.size - 1)
    for k in range(60):
        if (weight := poisson.pmf(k, mean)) > 1e-25:
            at = cut - k * jump
            upper = ndtr(-at[:-1]) - ndtr(-at[1:])
            found += weight * np.where(at[:-1] > 0, upper, ndtr(at[1:]) - ndtr(at[:-1]))
    return found


def delta(first, second, count, epsilon):
    """Of `count` results between the two laws, from below."""
    some, step = (first > 1e-22) & (second > 1e-25), max(epsilon / 3000, 1e-6)
    place = np.floor(np.log(first[some] / second[some]) / step).astype(int)
    mass = np.bincount(place - place.min(), weights=first[some])
    total = np.ones(1)
    for _ in range(count):
        total = np.maximum(fftconvolve(total, mass), 0.0)
    loss = (place.min() * count + np.arange(total.size)) * step
    return float(total[loss > epsilon] @ -np.expm1(epsilon - loss[loss > epsilon]))


@pytest.mark.parametrize(
    ("rate", "bound", "noise", "count", "target"),
    [
        (0.18, 0.12, 0.58, 9, 6.6e-7),
        (0.0121, 0.0105, 0.5, 5, 8.7e-7),
        (0.0653, 0.0672, 1.766, 2, 4.4e-6),
        (0.0064, 0.0189, 1.032, 8, 6.9e-5),
        (0.8, 0.08, 0.5, 6, 1e-3),
    ],
)
@pytest.mark.parametrize("relation", ["add_remove", "substitute"])
def test_epsilon_is_above_that_of_every_pair_of_ratios(rate, bound, noise, count, target, relation):
    event = privacy.PoissonMixtureDpEvent(rate, bound, noise)
    found = privacy_loss_distribution(privacy.EventSet([(event, count)], relation)).epsilon(target)
    far = 14 + 12 * math.log1p(bound / rate) / noise
    cut = np.concatenate([[-np.inf], np.linspace(-far, far, 2001), [np.inf]])
    ratios = [None] if relation == "add_remove" else [-bound, -bound / 2, bound]
    laws = {ratio: cells(event, ratio, cut) for ratio in {*ratios, -bound, bound / 2, bound}}
    pairs = [(one, other) for one in laws for other in ratios if one != other]
    pairs += [(other, one) for one, other in pairs]
    worst = max(delta(laws[one], laws[other], count, found) for one, other in pairs)
    assert 0 < worst <= target * (1 + 1e-6)
    if relation == "add_remove":  # the bound is of the worst pair: nothing less would do, a control
        assert delta(laws[-bound], laws[None], count, 0.97 * found) > target or (
            delta(laws[None], laws[-bound], count, 0.97 * found) > target
        )
