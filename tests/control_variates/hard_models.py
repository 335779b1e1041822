"""Models that are hard to find the mode of, in numpy: what `Finder` needs of `RecordModel`."""

from types import SimpleNamespace

import numpy as np

from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.records.derivatives import Derivatives
from tests.control_variates.fixed import Identity

ROWS = 4096


class Records:
    """Records with a likelihood in closed form; prior N(0, prior_sd^2) unless a subclass says otherwise."""

    def __init__(self, n, start, prior_sd):
        self.n, self.d, self.start = n, len(start), np.array(start, dtype=float)
        self.prior_sd = np.broadcast_to(np.asarray(prior_sd, dtype=float), self.d)
        self.full_batch = SimpleNamespace(rows=self.quiet_rows)
        self.coordinates = Identity(self.d)

    def quiet_rows(self, theta):
        with np.errstate(all="ignore"):
            return self.rows(theta)

    def derivatives(self, phi, hessians=False):
        for first in range(0, self.n, ROWS):
            some = slice(first, min(first + ROWS, self.n))
            with np.errstate(all="ignore"):
                yield Derivatives(some, *self.first_and_second(phi, some))

    def log_prior(self, theta):
        return -0.5 * float(np.sum((theta / self.prior_sd) ** 2))

    def log_prior_gradient(self, theta):
        return -theta / self.prior_sd**2

    def laplace(self, theta):
        """Mode of the exact posterior, from a point near it, and standard deviations; for phi = theta."""
        for _ in range(30):
            slope, precision = self.log_prior_gradient(theta), prior_curvature(self, theta)
            for part in self.derivatives(theta):
                slope = slope + part.gradient.sum(axis=0)
                precision = precision - part.hessian.sum(axis=0)
            step = np.linalg.solve(precision, slope)
            theta = theta + step
            if step @ precision @ step < 1e-16:
                break
        return theta, np.sqrt(np.diag(np.linalg.inv(precision)))


class Logistic(Records):
    def __init__(self, x, y, prior_sd):
        super().__init__(len(x), np.zeros(x.shape[1]), prior_sd)
        self.x, self.y = x, y

    def rows(self, theta):
        t = self.x @ theta
        return self.y * t - np.logaddexp(0, t)

    def first_and_second(self, theta, some):
        x = self.x[some]
        p = 1 / (1 + np.exp(-x @ theta))
        return (self.y[some] - p)[:, None] * x, -(p * (1 - p))[:, None, None] * x[:, :, None] * x[:, None, :]


class Groups(Logistic):
    """Varying intercepts: mean, log tau, levels, slopes; only the latter two are in the likelihood."""

    def __init__(self, group, x, y):
        levels = np.eye(group.max() + 1)[group]
        super().__init__(np.column_stack([np.zeros((len(x), 2)), levels, x]), y, 2.0)
        self.levels = levels.shape[1]

    def parts(self, theta):
        return theta[0], theta[1], theta[2 : 2 + self.levels], theta[2 + self.levels :]

    def log_prior(self, theta):
        mean, log_tau, level, beta = self.parts(theta)
        z = (level - mean) / np.exp(log_tau)
        return float(
            -(mean**2 + beta @ beta) / 8 - np.exp(2 * log_tau) / 2 + (1 - self.levels) * log_tau - z @ z / 2
        )

    def log_prior_gradient(self, theta):
        mean, log_tau, level, beta = self.parts(theta)
        tau = np.exp(log_tau)
        z = (level - mean) / tau
        of_tau = 1 - self.levels - tau**2 + z @ z
        return np.r_[-mean / 4 + z.sum() / tau, of_tau, -z / tau, -beta / 4]


class Linear(Records):
    """Coefficients and log sigma."""

    def __init__(self, x, y):
        super().__init__(len(x), np.zeros(x.shape[1] + 1), [*[5.0] * x.shape[1], 2.0])
        self.x, self.y = x, y

    def rows(self, theta):
        return -theta[-1] - 0.5 * ((self.y - self.x @ theta[:-1]) * np.exp(-theta[-1])) ** 2

    def first_and_second(self, theta, some):
        x, s = self.x[some], np.exp(-theta[-1])
        e = (self.y[some] - x @ theta[:-1]) * s
        h = np.empty((len(e), self.d, self.d))
        h[:, :-1, :-1] = -(s**2) * x[:, :, None] * x[:, None, :]
        h[:, :-1, -1] = h[:, -1, :-1] = -2 * s * e[:, None] * x
        h[:, -1, -1] = -2 * e**2
        return np.column_stack([s * e[:, None] * x, e**2 - 1]), h


class Banana(Records):
    """x_1 ~ N(theta_1, 20), x_2 ~ N(theta_2 + 20 theta_1^2, 2.5): Räisä (2021), Definition 8."""

    variances, a = (20.0, 2.5), 20.0

    def __init__(self, x, start):
        super().__init__(len(x), start, np.sqrt(1000.0))
        self.x = x

    def left(self, theta, some=slice(None)):
        return self.x[some, 0] - theta[0], self.x[some, 1] - theta[1] - self.a * theta[0] ** 2

    def rows(self, theta):
        return -0.5 * sum(u**2 / v for u, v in zip(self.left(theta), self.variances, strict=True))

    def first_and_second(self, theta, some):
        (u, w), (v, s), k = self.left(theta, some), self.variances, 2 * self.a * theta[0]
        h = np.empty((len(u), 2, 2))
        h[:, 0, 0] = -1 / v - k**2 / s + 2 * self.a * w / s
        h[:, 0, 1] = h[:, 1, 0] = -k / s
        h[:, 1, 1] = -1 / s
        return np.column_stack([u / v + k * w / s, w / s]), h


class StraightBanana(Banana):
    """The same, with derivatives in the coordinates in which the likelihood is normal."""

    identity, size = False, 2

    def __init__(self, x, start):
        super().__init__(x, start)
        self.coordinates = self

    def __call__(self, theta):
        return np.array([theta[0], theta[1] + self.a * theta[0] ** 2])

    def jacobian(self, theta):
        return np.array([[1.0, 0.0], [2 * self.a * theta[0], 1.0]])

    def first_and_second(self, phi, some):
        gradient = (self.x[some] - phi) / self.variances
        return gradient, np.broadcast_to(-np.diag(1 / np.array(self.variances)), (len(gradient), 2, 2))

    def laplace(self, theta):
        return Banana(self.x, theta).laplace(theta)


def bernoulli(r, logits):
    return (r.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(float)


def make(name, n, seed):
    """Records, and the parameters they were simulated with."""
    r = np.random.default_rng(seed)
    if name == "groups":
        group, x, beta = r.integers(20, size=n), 0.6 * r.normal(size=(n, 3)), r.normal(size=3)
        level = -0.5 + 0.8 * r.normal(size=20)
        return Groups(group, x, bernoulli(r, level[group] + x @ beta)), np.r_[-0.5, -0.2, level, beta]
    if name == "separable":
        z = r.normal(size=(n, 5)) / np.sqrt(5)
        x = np.column_stack([np.full(n, 0.7), 0.714 * z / np.maximum(1, np.linalg.norm(z, axis=1))[:, None]])
        truth = np.r_[-1, np.full(5, 25.0)]
        return Logistic(x, bernoulli(r, x @ truth), 10.0), truth
    if name in ("banana", "straight banana"):
        x = r.normal(size=(n, 2)) * np.sqrt(Banana.variances)
        # Three posterior standard deviations off the ridge, one along it.
        off = 3 * np.sqrt(2.5 / n)
        kind = Banana if name == "banana" else StraightBanana
        return kind(x, [np.sqrt(20.0 / n), off - 20 * 20.0 / n]), np.zeros(2)
    sigma = {"linear": 1.5, "large sigma": 30.0, "small sigma": 0.05}[name]
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4))])
    beta = np.r_[2.0, r.normal(size=4)]
    return Linear(x, x @ beta + sigma * r.normal(size=n)), np.r_[beta, np.log(sigma)]
