"""Records whose derivatives are given, as `Releases` sees them."""

from types import SimpleNamespace

import numpy as np

from pymc_dp.control_variates import releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.records.derivatives import Derivatives

D = 3
METRIC = np.array([[0.5, 0.2, 0.0], [0.0, 1.5, -0.3], [0.1, 0.0, 2.0]])
CENTRE = np.array([0.3, -0.2, 0.5])
POINT = np.zeros(D)


class Identity:
    """Likelihood coordinates that are the parameters."""

    identity = True

    def __init__(self, size):
        self.size = size
        self.names = [(name, slice(i, i + 1)) for i, name in enumerate("abcdefgh"[:size])]

    def __call__(self, theta):
        return theta

    def jacobian(self, theta):
        return np.eye(self.size)


class FixedRecords:
    """n records: gradients (n, d), Hessians (n, d, d), log-likelihoods at any point (n,)."""

    def __init__(self, gradients, hessians, rows):
        self.gradients, self.hessians = gradients, hessians
        self.n, self.d = gradients.shape
        self.coordinates = Identity(self.d)
        # The value at candidates differs from that at POINT by `rows` times the first coordinate.
        self.full_batch = SimpleNamespace(rows=lambda theta: rows * theta[0])

    def derivatives(self, theta, hessians=False):
        half = self.n // 2
        for units in (slice(0, half), slice(half, self.n)):
            hessian = None if hessians is False else self.hessians[units]
            if isinstance(hessians, tuple):
                hessian = hessian[:, *hessians]
            yield Derivatives(units, self.gradients[units], hessian)

    def replaced(self, gradient, hessian, row):
        """A neighbour: the last record is another."""
        g, h, r = self.gradients.copy(), self.hessians.copy(), self.full_batch.rows(np.ones(self.d)).copy()
        g[-1], h[-1], r[-1] = gradient, hessian, row
        return FixedRecords(g, h, r)


def some_records(seed=0, n=40, d=D):
    r = np.random.default_rng(seed)
    h = r.normal(size=(n, d, d))
    return FixedRecords(r.normal(size=(n, d)), h + h.transpose(0, 2, 1), r.normal(size=n))


def every_release(phi, metric, centre, bound, hessian_bound, beyond, line):
    """A call for each kind of release; `line` is where a line search starts, and its candidates."""
    return {
        "gradient": lambda r: r.gradient(phi, metric, centre, bound)[0],
        "hessian": lambda r: packed(r.hessian(phi, metric, hessian_bound)[0]),
        "fisher": lambda r: packed(r.fisher(phi, metric, bound)[0]),
        "histogram": lambda r: r.norms(phi, metric, centre, (4,))[0].counts,
        "direction": lambda r: r.direction(phi, metric, centre, beyond),
        "cut": lambda r: r.cut(phi, metric, centre, bound, 0.4 * bound)[0],
        "line": lambda r: r.line(*line, 0.8)[0],
    }


CANDIDATES = [np.full(D, 2.0), np.full(D, 0.3), np.full(D, -5.0)]
RELEASES = every_release(POINT, METRIC, CENTRE, 0.7, 1.3, 0.5, (POINT, CANDIDATES))
# What one record may move each release by, in its own units: stated in the docstring of `Releases`.
SENSITIVITY = {
    "gradient": 2.0,
    "hessian": 2.0,
    "fisher": np.sqrt(2.0),
    "histogram": np.sqrt(2.0),
    "direction": 2.0,
    "cut": 2.0,
    "line": 2.0 * np.sqrt(3.0),
}


def packed(matrix):
    """Diagonal, and sqrt(2) times what is above it: Euclidean norm = Frobenius norm."""
    above = matrix[np.triu_indices(len(matrix), 1)]
    return np.r_[np.diag(matrix), np.sqrt(2.0) * above]


def release(kind, records, random, mu_squared=np.inf, share=0.25):
    """One release, as if it were the only one of its schedule."""
    made = releases.Releases(records, ControlVariates(), mu_squared, random)
    made._left = [(kind, share)]
    return RELEASES[kind](made)


class LogisticRecords:
    """Logistic regression with prior N(0, 2^2), in numpy: what `Finder` needs of `RecordModel`."""

    def __init__(self, n=400, d=2, seed=0):
        r = np.random.default_rng(seed)
        self.x = r.uniform(-1, 1, size=(n, d)) / np.sqrt(d)
        self.y = (r.random(n) < 1 / (1 + np.exp(-self.x @ np.linspace(1, -1, d)))).astype(float)
        self.n, self.d = n, d
        self.coordinates = Identity(d)
        self.full_batch = SimpleNamespace(rows=self.rows)

    def rows(self, theta):
        t = self.x @ theta
        return self.y * t - np.logaddexp(0, t)

    def derivatives(self, theta, hessians=False):
        p = 1 / (1 + np.exp(-self.x @ theta))
        outer = self.x[:, :, None] * self.x[:, None, :]
        hessian = -(p * (1 - p))[:, None, None] * outer
        if isinstance(hessians, tuple):
            hessian = hessian[:, *hessians]
        yield Derivatives(slice(0, self.n), (self.y - p)[:, None] * self.x, hessian)

    def log_prior(self, theta):
        return -float(theta @ theta) / 8

    def log_prior_gradient(self, theta):
        return -theta / 4
