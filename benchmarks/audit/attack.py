"""Two data sets that differ in one record, moves that the attacker knows, and what is scored."""

import numpy as np
import pymc as pm
from scipy.special import log_ndtr, ndtr

EPSILON, DELTA = 6.0, 1e-5
# A record's standard deviation, and a value whose gradient is 10 nats: ten times what is not clipped.
SD = 100.0
FAR = 10 * SD**2


class Cycle:
    """The same moves in turn, whatever is decided."""

    def __init__(self, *moves):
        self.moves, self.next = np.array(moves, dtype=float), 0

    def move(self, rng, d):
        """Displacement."""
        self.next += 1
        return self.moves[(self.next - 1) % len(self.moves)]


def signs(draws):
    """Direction of each move, as the audited record sees it."""
    return np.where(np.arange(draws) % 2 == 0, 1.0, -1.0)


def neighbors(n, first=FAR, second=-FAR):
    """Two data sets of n records; one differs."""
    return [np.r_[value, np.zeros(n - 1)] for value in (first, second)]


def model(values, tilt=0.0):
    with pm.Model() as built:
        theta = pm.Normal("theta", 0, 1e6, shape=2)
        pm.Potential("tilt", tilt * theta[1])
        pm.Normal("y", theta[0], SD, observed=values)
    return built


WALK = {"proposal": Cycle((1.0, 1.0), (-1.0, 1.0)), "step_size": 1.0, "adapt_step_size": False}
COMMON = {"epsilon": EPSILON, "delta": DELTA, "chains": 1, "debug_seed": 0}


def most_telling(std, variance, shift):
    """Log-ratio at which penalty decisions of two data sets differ most (Hellinger distance).

    Acceptance is ``-E < h + std z - variance / 2``, and the data sets' h are `shift` apart.
    """

    def accepts(h):
        z = (h - variance / 2) / std
        return np.clip(
            ndtr(z) + np.exp(np.minimum(h - variance / 2 + std**2 / 2 + log_ndtr(-z - std), 0)), 0, 1
        )

    h = np.linspace(-60, 60, 24_001)
    a, b = accepts(h - shift / 2), accepts(h + shift / 2)
    return float(h[np.argmin(np.sqrt(a * b) + np.sqrt((1 - a) * (1 - b)))])


def decisions(found):
    """Accepted moves to the right minus those to the left: all that decisions tell, if they are alike."""
    accepted = found["accepted"]
    return accepted @ signs(accepted.shape[1])


def mixture(values, shift, std, q):
    """Log-likelihood ratio of Gaussians that a record enters with probability q, at +shift or -shift."""

    def log_density(centre):
        z = -0.5 * ((values - centre) / std) ** 2
        zero = -0.5 * (values / std) ** 2
        return np.logaddexp(np.log(q) + z, np.log1p(-q) + zero) if q < 1 else z

    return (log_density(shift) - log_density(-shift)).sum(1)


LIPSCHITZ = np.sqrt(0.5)  # the bound is then the distance along each component
SHORTENED = {
    "lipschitz": LIPSCHITZ,
    "proposal": WALK["proposal"],
    "step_size": 100.0,
    "adapt_step_size": False,
}


def bound_of(plan):
    return plan.parameters["clip_bound"]
