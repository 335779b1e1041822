"""Models that must be accepted, as functions of their private arrays.

A model is a function whose arguments name the private arrays it reads; they come from `pool`. The same
function called on other values of the same shape and type is the same model of other persons: whatever is
decided about it must be the same. Public things (group tables, adjacency, knots, coordinates) are written
inside the functions. `tests/records/leaks.py` holds the models that must be refused.
"""

import inspect
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import scipy.sparse
from pymc.distributions import transforms
from pytensor.scan.basic import scan

N = 43  # a prime, and longer than every public dimension below
LARGE = 1000
GROUPS, CLUSTERS, CATEGORIES, TIMES, KNOTS = 4, 6, 3, 8, 7


def pool(n: int = N, seed: int = 0) -> dict[str, np.ndarray]:
    """Private arrays by name, records on the first axis (but for `XT`)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    p = rng.dirichlet(np.ones(CATEGORIES), size=n)
    return {
        "X": X,
        "XT": np.ascontiguousarray(X.T),
        "Z": rng.normal(size=(n, 2)),
        "B": rng.uniform(size=(n, KNOTS)),  # a spline basis
        "Xb": rng.random((n, 3)) < 0.3,
        "Xi": rng.integers(-3, 4, (n, 3)).astype("int8"),
        "x": rng.normal(size=n),
        "z": rng.normal(size=n),
        "rare": (np.arange(n) == 5).astype(float),
        "treated": rng.random(n) < 0.5,
        "offset": rng.uniform(1, 3, n),
        "w": (rng.random(n) < 0.8).astype(float),
        "y": rng.normal(size=n),
        "y2": rng.normal(size=n),
        "Y": rng.normal(size=(n, 2)),
        "T": rng.normal(size=(n, 2, 5)),
        "pos": rng.gamma(2.0, size=n) + 0.1,
        "unit": rng.uniform(0.05, 0.95, n),
        "angle": rng.uniform(-3, 3, n),
        "P": p,
        "yb": rng.integers(0, 2, n),
        "died": rng.integers(0, 2, n),
        "yc": rng.poisson(2.0, n),
        "y1": rng.poisson(2.0, n) + 1,
        "count": rng.integers(0, 6, n),
        "trials": rng.integers(6, 12, n),
        "M": rng.multinomial(5, [0.2, 0.3, 0.5], size=n),
        "k": rng.integers(0, CATEGORIES, n),
        "g": rng.integers(0, GROUPS, n),
        "h": rng.integers(0, CLUSTERS, n),
        "t": rng.integers(0, TIMES, n),
    }


# Smallest and largest value that is right for the model. Floats may be anything.
VALID: dict[str, tuple[int, int]] = {
    "Xi": (-128, 127),
    "yb": (0, 1),
    "died": (0, 1),
    "yc": (0, 10**9),
    "y1": (1, 10**9),
    "count": (0, 5),
    "trials": (6, 10**6),
    "M": (0, 5),
    "k": (0, CATEGORIES - 1),
    "g": (0, GROUPS - 1),
    "h": (0, CLUSTERS - 1),
    "t": (0, TIMES - 1),
}


@dataclass(frozen=True)
class Entry:
    """A model of some private arrays.

    Attributes
    ----------
    name : str
    arrays : dict of str to ndarray
        The private arrays.
    declare : callable
        Declares the model in the current context, from the arrays.
    valid : dict of str to (int, int)
        Smallest and largest valid value of the integer arrays.
    kwargs : dict
        Arguments of `RecordModel`.
    """

    name: str
    arrays: Mapping[str, np.ndarray]
    declare: Callable[..., None]
    valid: Mapping[str, tuple[int, int]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def build(
        self,
        arrays: Mapping[str, Any] | None = None,
        container: Callable[[str, np.ndarray], Any] = lambda name, array: array,
    ) -> pm.Model:
        """Build the model on its own arrays or on others, each of them in a container."""
        with pm.Model() as model:
            self.declare(**{k: container(k, v) for k, v in (arrays or self.arrays).items()})
        return model


def entry_of(declare, n=N, **kwargs) -> Entry:
    """Make an entry of a function that declares a model from arrays of `pool`."""
    names = list(inspect.signature(declare).parameters)
    values = pool(n)
    return Entry(
        declare.__name__.strip("_"),
        {k: values[k] for k in names},
        declare,
        {k: VALID[k] for k in names if k in VALID},
        kwargs,
    )


ZOO: dict[str, Entry] = {}


def entry(*args, **kwargs):
    """Register a model that must be accepted."""

    def register(declare):
        made = entry_of(declare, **kwargs)
        assert made.name not in ZOO, made.name
        ZOO[made.name] = made
        return declare

    return register(*args) if args else register


def slopes(d=3):
    return pm.Normal("b", 0, 1, shape=d)


# containers of one model: the same decision is due


def _mapped(array):
    with tempfile.NamedTemporaryFile() as file:
        made = np.memmap(file.name, dtype=array.dtype, mode="w+", shape=array.shape)
    made[...] = array
    return made


CONTAINERS: dict[str, Callable[[str, np.ndarray], Any]] = {
    "numpy": lambda name, a: a,
    "pm.Data": lambda name, a: pm.Data(f"data_{name}", a),
    "pt.constant": lambda name, a: pt.constant(a),
    "shared": lambda name, a: pytensor.shared(a, shape=a.shape),
    "shared of unknown shape": lambda name, a: pytensor.shared(a),
    "memory-mapped": lambda name, a: _mapped(a),
    "column-major": lambda name, a: np.asfortranarray(a),
    "a view": lambda name, a: np.repeat(a, 2, axis=a.ndim - 1)[..., ::2] if a.ndim > 1 else a,
    "read-only": lambda name, a: (lambda c: (c.setflags(write=False), c)[1])(a.copy()),
    "float32": lambda name, a: a.astype("float32") if a.dtype.kind == "f" else a,
    "int8": lambda name, a: a.astype("int8"),
    "bool": lambda name, a: a > 0,
}


# regression


@entry
def logit(X, yb):
    pm.Bernoulli("y", logit_p=X @ slopes(), observed=yb)


@entry(n=LARGE)
def logit_1000(X, yb):
    pm.Bernoulli("y", logit_p=pm.Normal("a") + X @ slopes(), observed=yb)


@entry
def logit_of_data(X, yb):
    x = pm.Data("x", X)
    pm.Bernoulli("y", logit_p=pt.dot(x, slopes()), observed=pm.Data("outcome", yb))


@entry
def logit_of_constants(X, yb):
    pm.Bernoulli("y", logit_p=pt.dot(pt.constant(X), slopes()), observed=pt.constant(yb))


@entry
def logit_memory_mapped(X, yb):
    pm.Bernoulli("y", logit_p=pm.math.dot(_mapped(X), slopes()), observed=_mapped(yb))


@entry
def logit_float32(X, yb):
    pm.Bernoulli("y", logit_p=pt.dot(X.astype("float32"), slopes()), observed=yb.astype("int8"))


@entry
def logit_int8(Xi, yb):
    pm.Bernoulli("y", logit_p=pt.dot(Xi, slopes()), observed=yb.astype("int8"))


@entry
def logit_bool(Xb, treated):
    pm.Bernoulli("y", logit_p=pt.dot(Xb, slopes()), observed=treated)


@entry
def logit_rare_covariate(x, rare, yb):
    a, b, c = pm.Normal("a"), pm.Normal("b"), pm.Normal("c")
    pm.Bernoulli("y", logit_p=a + b * x + c * rare, observed=yb)


@entry(n=LARGE)
def logit_rare_covariate_1000(x, rare, yb):
    a, b, c = pm.Normal("a"), pm.Normal("b"), pm.Normal("c")
    pm.Bernoulli("y", logit_p=a + b * x + c * rare, observed=yb)


@entry
def bernoulli_p(X, yb):
    pm.Bernoulli("y", p=pm.math.invlogit(pt.dot(X, slopes())), observed=yb)


@entry
def probit_regression(X, yb):
    pm.Bernoulli("y", p=pm.math.invprobit(pt.dot(X, slopes())), observed=yb)


@entry
def linear(x, y):
    a, b, s = pm.Normal("a"), pm.Normal("b"), pm.HalfNormal("s")
    pm.Normal("y", a + b * x, s, observed=y)


@entry
def linear_columns_of_one_array(X, y):
    """Views of one array at the same records: columns, slices of columns, the transpose."""
    a, b, c = pm.Normal("a"), pm.Normal("c"), slopes(2)
    pm.Normal("y", a * X[:, 0] + b * X[:, 2] + pt.dot(X[:, :2], c) + pt.dot(c, X.T[1:]), 1.0, observed=y)


@entry
def linear_sigma_reads_the_row(x, z, y):
    s = pm.HalfNormal("s")
    pm.Normal("y", pm.Normal("b") * x, s * pm.math.exp(z * pm.Normal("c")), observed=y)


@entry
def linear_sigma_unconstrained(X, y):
    """A check on sigma reads no record: it is kept whatever the data."""
    a = pm.Normal("a", 1.0)
    pm.Normal("y", pt.dot(X, slopes()), a, observed=y)


@entry
def linear_the_mean_may_be_zero(x, y):
    """A check that the likelihood repeats: sigma depends on rows, scale on parameters."""
    a = pm.Normal("a")
    pm.Normal("y", 0.0, a + pm.Normal("b") * x, observed=y)


@entry
def linear_dims(X, y):
    model = pm.modelcontext(None)
    model.add_coords({"person": np.arange(len(X)), "column": ["a", "b", "c"]})
    x = pm.Data("x", X, dims=("person", "column"))
    b = pm.Normal("b", 0, 1, dims="column")
    pm.Normal("y", x @ b, pm.HalfNormal("s"), observed=pm.Data("outcome", y, dims="person"), dims="person")


@entry
def linear_dims_without_data(X, y):
    model = pm.modelcontext(None)
    model.add_coords({"person": np.arange(len(X)), "column": ["a", "b", "c"]})
    b = pm.Normal("b", 0, 1, dims="column")
    pm.Normal("y", pt.dot(X, b), 1.0, observed=y, dims="person")


@entry
def robust_t(X, y):
    nu = pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu=nu, mu=X @ slopes(), sigma=pm.HalfCauchy("s", 1), observed=y)


@entry
def poisson(X, yc):
    pm.Poisson("y", mu=pm.math.exp(X @ slopes()), observed=yc)


@entry
def poisson_offset(X, offset, yc):
    pm.Poisson("y", mu=pm.math.exp(X @ slopes() + np.log(offset)), observed=yc)


@entry
def poisson_exposure(x, offset, yc):
    pm.Poisson("y", mu=pt.constant(offset) * pm.math.exp(pm.Normal("b") * x), observed=yc)


@entry
def negative_binomial(X, yc):
    pm.NegativeBinomial("y", mu=pm.math.exp(X @ slopes()), alpha=pm.HalfNormal("al"), observed=yc)


@entry
def zero_inflated_poisson(X, yc):
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("p", 1, 1), mu=pm.math.exp(X @ slopes()), observed=yc)


@entry
def zero_inflated_rows(X, x, yc):
    psi = pm.math.invlogit(pm.Normal("c") * x)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(X @ slopes()), observed=yc)


@entry
def zero_inflated_negative_binomial(X, yc):
    p = pm.Beta("p", 1, 1)
    pm.ZeroInflatedNegativeBinomial("y", psi=p, mu=pm.math.exp(X @ slopes()), alpha=2.0, observed=yc)


@entry
def zero_inflated_binomial(X, trials, count):
    p = pm.math.invlogit(pt.dot(X, slopes()))
    pm.ZeroInflatedBinomial("y", psi=pm.Beta("p", 1, 1), n=trials, p=p, observed=count)


@entry
def hurdle_poisson(X, yc):
    pm.HurdlePoisson("y", psi=0.5, mu=pm.math.exp(X @ slopes()), observed=yc)


@entry
def hurdle_gamma(x, pos):
    mu = pm.math.exp(pm.Normal("b") * x)
    pm.HurdleGamma("y", psi=pm.Beta("p", 1, 1), mu=mu, sigma=1.0, observed=pos)


@entry
def hurdle_lognormal(x, pos):
    pm.HurdleLogNormal("y", psi=pm.Beta("p", 1, 1), mu=pm.Normal("b") * x, sigma=1.0, observed=pos)


@entry
def beta_regression(X, unit):
    pm.Beta("y", mu=pm.math.invlogit(X @ slopes()), nu=pm.Gamma("nu", 2, 0.1), observed=unit)


@entry
def gamma_regression(X, pos):
    pm.Gamma("y", alpha=pm.HalfNormal("al"), beta=pm.math.exp(X @ slopes()), observed=pos)


@entry
def inverse_gamma(pos):
    pm.InverseGamma("y", alpha=pm.HalfNormal("al") + 1, beta=pm.HalfNormal("be"), observed=pos)


@entry
def weibull(X, pos):
    pm.Weibull("y", alpha=2.0, beta=pm.math.exp(X @ slopes()), observed=pos)


@entry
def weibull_censored(X, pos, offset):
    """Each person has an own end of follow-up."""
    beta = pm.math.exp(X @ slopes())
    pm.Censored(
        "y", pm.Weibull.dist(alpha=pm.HalfNormal("al"), beta=beta), lower=None, upper=offset, observed=pos
    )


@entry
def normal_censored(X, y):
    pm.Censored("y", pm.Normal.dist(X @ slopes(), 1.0), lower=-1.0, upper=1.0, observed=y)


@entry
def normal_truncated(X, y):
    pm.Truncated("y", pm.Normal.dist(X @ slopes(), 1.0), lower=-4.0, upper=4.0, observed=y)


@entry
def truncated_normal(X, y):
    pm.TruncatedNormal("y", mu=X @ slopes(), sigma=pm.HalfNormal("s"), lower=-4.0, upper=4.0, observed=y)


@entry
def truncated_bounds_of_the_row(x, z, y):
    pm.Truncated("y", pm.Normal.dist(pm.Normal("b"), 1.0), lower=x - 5.0, upper=z + 5.0, observed=y)


@entry
def lognormal(X, pos):
    pm.LogNormal("y", mu=X @ slopes(), sigma=pm.HalfNormal("s"), observed=pos)


@entry
def half_normal_observed(pos):
    pm.HalfNormal("y", sigma=pm.HalfNormal("s"), observed=pos)


@entry
def exponential_survival(X, pos):
    pm.Exponential("y", lam=pm.math.exp(X @ slopes()), observed=pos)


@entry
def piecewise_survival(x, died, offset, t):
    """Person-periods: number of events in an interval, baseline hazard by public interval."""
    hazard = pm.Gamma("hazard", 0.1, 0.1, shape=TIMES)
    pm.Poisson("died", hazard[t] * pm.math.exp(pm.Normal("b") * x) * offset, observed=died)


@entry
def wald(x, pos):
    pm.Wald("y", mu=pm.math.exp(pm.Normal("b") * x), lam=pm.HalfNormal("lam"), observed=pos)


@entry
def kumaraswamy(unit):
    pm.Kumaraswamy("y", a=pm.HalfNormal("a") + 0.1, b=pm.HalfNormal("b") + 0.1, observed=unit)


@entry
def exgaussian(X, y):
    pm.ExGaussian("y", mu=X @ slopes(), sigma=1.0, nu=pm.HalfNormal("nu"), observed=y)


@entry
def skew_normal(X, y):
    pm.SkewNormal("y", mu=X @ slopes(), sigma=1.0, alpha=pm.Normal("al"), observed=y)


@entry
def quantile_regression(X, y):
    pm.AsymmetricLaplace("y", mu=X @ slopes(), b=pm.HalfNormal("s"), q=0.9, observed=y)


@entry
def laplace(x, y):
    pm.Laplace("y", mu=pm.Normal("b") * x, b=1.0, observed=y)


@entry
def von_mises(x, angle):
    pm.VonMises("y", mu=2 * pt.arctan(pm.Normal("b") * x), kappa=pm.HalfNormal("k"), observed=angle)


@entry
def gumbel(x, y):
    pm.Gumbel("y", mu=pm.Normal("b") * x, beta=pm.HalfNormal("be"), observed=y)


@entry
def logistic_distribution(x, y):
    pm.Logistic("y", mu=pm.Normal("b") * x, s=pm.HalfNormal("s"), observed=y)


@entry
def dose_response(x, trials, count):
    """Batches of one row each: successes out of as many trials as the row says."""
    p = pm.math.invlogit(pm.Normal("a") + pm.Normal("b") * x)
    pm.Binomial("y", n=trials, p=p, observed=count)


@entry
def binomial_logit(X, trials, count):
    pm.Binomial("y", n=trials, logit_p=X @ slopes(), observed=count)


@entry
def beta_binomial(trials, count):
    pm.BetaBinomial(
        "y", alpha=pm.HalfNormal("a") + 0.1, beta=pm.HalfNormal("b") + 0.1, n=trials, observed=count
    )


@entry
def geometric(x, y1):
    pm.Geometric("y", p=pm.math.invlogit(pm.Normal("b") * x), observed=y1)


@entry
def discrete_uniform_shift(x, yc):
    pm.DiscreteWeibull("y", q=pm.math.invlogit(pm.Normal("b") * x), beta=1.5, observed=yc)


# ordered and categorical


@entry
def ordered_logistic(x, k):
    c = pm.Normal("c", [-1.0, 1.0], 1, transform=transforms.ordered)
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=c, observed=k, compute_p=False)


@entry
def ordered_logistic_initval(x, k):
    c = pm.Normal("c", 0, 1, shape=2, transform=transforms.ordered, initval=[-1, 1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=c, observed=k, compute_p=False)


@entry
def ordered_probit(x, k):
    c = pm.Normal("c", 0, 1, shape=2, transform=transforms.ordered, initval=np.array([-0.5, 0.5]))
    pm.OrderedProbit("y", eta=pm.Normal("b") * x, cutpoints=c, observed=k, compute_p=False)


@entry
def ordered_multinomial(x, M):
    c = pm.Normal("c", 0, 1, shape=2, transform=transforms.ordered, initval=[-1, 1])
    eta = pm.Normal("b") * x
    pm.OrderedMultinomial("y", eta=eta, cutpoints=c, n=M.sum(1), observed=M, compute_p=False)


@entry(exclude_deterministics=["y_probs"])
def ordered_logistic_excluded(x, k):
    c = pm.Normal("c", 0, 1, shape=2, transform=transforms.ordered, initval=[-1, 1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * x, cutpoints=c, observed=k)


@entry
def softmax(X, k):
    W = pm.Normal("W", 0, 1, shape=(3, CATEGORIES))
    pm.Categorical("y", p=pm.math.softmax(X @ W, axis=-1), observed=k)


@entry
def softmax_reference_category(X, k):
    W = pm.Normal("W", 0, 1, shape=(3, CATEGORIES - 1))
    free = pt.dot(X, W)
    eta = pt.concatenate([pt.zeros((X.shape[0], 1)), free], axis=1)
    pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=k)


@entry
def categorical_logits(X, k):
    pm.Categorical("y", logit_p=X @ pm.Normal("W", 0, 1, shape=(3, CATEGORIES)), observed=k)


@entry
def categorical_of_group(g, k):
    p = pm.Dirichlet("p", np.ones(CATEGORIES), shape=(GROUPS, CATEGORIES))
    pm.Categorical("y", p=p[g], observed=k)


@entry
def multinomial(M):
    pm.Multinomial("y", n=5, p=pm.Dirichlet("p", np.ones(CATEGORIES)), observed=M)


@entry
def multinomial_n_of_row(x, M, trials):
    eta = pt.stack([pt.zeros(N), pm.Normal("b") * x, pm.Normal("c") * x], axis=1)
    pm.Multinomial("y", n=trials, p=pm.math.softmax(eta, axis=1), observed=M)


@entry
def dirichlet_multinomial(M):
    pm.DirichletMultinomial("y", n=5, a=pm.HalfNormal("a", shape=CATEGORIES), observed=M)


@entry
def dirichlet_observed(P):
    pm.Dirichlet("y", a=pm.HalfNormal("a", shape=CATEGORIES) + 0.1, observed=P)


# mixtures, several columns


@entry
def normal_mixture(y):
    w = pm.Dirichlet("w", np.ones(2))
    pm.NormalMixture("y", w, pm.Normal("m", 0, 2, shape=2), 1.0, observed=y)


@entry
def mixture_of_different(y):
    w, m = pm.Dirichlet("w", np.ones(2)), pm.Normal("m", 0, 2)
    pm.Mixture("y", w, [pm.Normal.dist(m, 1.0), pm.StudentT.dist(nu=3, mu=m + 1, sigma=1.0)], observed=y)


@entry
def mixture_of_regressions(x, y):
    w = pm.Dirichlet("w", np.ones(2))
    mu = pm.Normal("a", shape=2) + x[:, None] * pm.Normal("b", shape=2)
    pm.NormalMixture("y", w=w, mu=mu, sigma=pm.HalfNormal("s", shape=2), observed=y)


@entry
def mixture_weights_of_row(x, z, y):
    p = pm.math.invlogit(pm.Normal("c") * z)
    w = pt.stack([p, 1 - p], axis=1)
    pm.Mixture("y", w, [pm.Normal.dist(pm.Normal("m") * x, 1.0), pm.Cauchy.dist(0.0, 5.0)], observed=y)


@entry
def zero_one_mixture_by_switch(x, yc):
    lam, p = pm.math.exp(pm.Normal("b") * x), pm.Beta("p", 1, 1)

    def logp(value, lam, p):
        other = pm.logp(pm.Poisson.dist(lam), value)
        return pt.switch(pt.eq(value, 0), pt.logaddexp(pt.log(p), pt.log1p(-p) - lam), pt.log1p(-p) + other)

    pm.CustomDist("y", lam, p, logp=logp, observed=yc, dtype="int64")


@entry
def mv_normal(Y):
    pm.MvNormal("y", pm.Normal("m", 0, 1, shape=2), np.eye(2) + 0.3, observed=Y)


@entry
def mv_normal_lkj(Y):
    chol, _, _ = pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.HalfNormal.dist(shape=2))
    pm.MvNormal("y", pm.Normal("m", 0, 1, shape=2), chol=chol, observed=Y)


@entry
def mv_normal_regression(X, Y):
    pm.MvNormal("y", pt.dot(X, pm.Normal("W", shape=(3, 2))), np.eye(2), observed=Y)


@entry
def mv_student_t(Y):
    pm.MvStudentT("y", nu=4, mu=pm.Normal("m", shape=2), scale=np.eye(2), observed=Y)


@entry
def matrix_observed(Y):
    pm.Normal("y", pm.Normal("m", 0, 1, shape=2), pm.HalfNormal("s"), observed=Y)


@entry
def three_axes_observed(T):
    pm.Normal("y", pm.Normal("m", shape=5), pm.HalfNormal("s", shape=(2, 1)), observed=T)


@entry
def rater_agreement(k, g):
    """Confusion tables by rater, the true class summed out."""
    p = pm.Dirichlet("p", np.ones(2))
    table = pm.Dirichlet("table", np.ones(CATEGORIES), shape=(GROUPS, 2, CATEGORIES))

    def logp(value, p, rows):
        chosen = pt.take_along_axis(rows, pt.cast(value, "int64")[:, None, None], axis=2)[:, :, 0]
        return pt.logsumexp(pt.log(p) + pt.log(chosen), axis=1)

    pm.CustomDist("y", p, table[g], logp=logp, observed=k, dtype="int64", signature="(c),(c,k)->()")


@entry
def two_observed(X, y, yc):
    b = slopes()
    pm.Normal("y", X @ b, pm.HalfNormal("s"), observed=y)
    pm.Poisson("y2", pm.math.exp(X @ b), observed=yc)


@entry
def three_observed(x, y, yb, Y):
    b = pm.Normal("b")
    pm.Normal("y", b * x, 1.0, observed=y)
    pm.Bernoulli("yb", logit_p=b * x, observed=yb)
    pm.Normal("Y", b * x[:, None], 1.0, observed=Y)


@entry
def joint_outcome_is_covariate(x, y, y2):
    """The second outcome is predicted from the first of the same person (mediation)."""
    pm.Normal("y", pm.Normal("a") * x, 1.0, observed=y)
    pm.Normal("y2", pm.Normal("b") * x + pm.Normal("c") * y, 1.0, observed=y2)


@entry
def mediation_through_the_variable(x, y, y2):
    """The same, through the observed variable itself."""
    first = pm.Normal("y", pm.Normal("a") * x, 1.0, observed=y)
    pm.Normal("y2", pm.Normal("b") * x + pm.Normal("c") * first, 1.0, observed=y2)


@entry
def measurement_error_integrated(X, y):
    b, tau = slopes(), pm.HalfNormal("tau")
    pm.Normal("y", X @ b, pt.sqrt(1 + tau**2 * pt.sum(b**2)), observed=y)


# groups


@entry
def best_long(y, treated):
    m, s = pm.Normal("m", 0, 5, shape=2), pm.HalfNormal("s", shape=2)
    nu = pm.Exponential("nu", 1 / 30) + 1
    group = treated.astype(int)
    pm.StudentT("y", nu=nu, mu=m[group], sigma=s[group], observed=y)
    pm.Deterministic("difference", m[1] - m[0])
    pm.Deterministic("effect size", (m[1] - m[0]) / pt.sqrt((s**2).mean()))


@entry
def varying_intercepts(x, g, y):
    a = pm.Normal("a", pm.Normal("mu"), pm.HalfNormal("tau"), shape=GROUPS)
    pm.Normal("y", a[g] + pm.Normal("b") * x, pm.HalfNormal("s"), observed=y)


@entry
def varying_intercepts_noncentred(x, g, yb):
    z = pm.Normal("z", shape=GROUPS)
    a = pm.Deterministic("a", pm.Normal("mu") + pm.HalfNormal("tau") * z)
    pm.Bernoulli("y", logit_p=a[g] + pm.Normal("b") * x, observed=yb)


@entry
def varying_slopes(x, g, y):
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0, shape=2))
    ab = pm.MvNormal("ab", pm.Normal("mu", shape=2), chol=chol, shape=(GROUPS, 2))
    pm.Normal("y", ab[g, 0] + ab[g, 1] * x, 1.0, observed=y)


@entry
def varying_slopes_noncentred(x, g, y):
    z, tau = pm.Normal("z", shape=(GROUPS, 2)), pm.HalfNormal("tau", shape=2)
    ab = (z * tau)[g]
    pm.Normal("y", ab[:, 0] + ab[:, 1] * x, 1.0, observed=y)


@entry
def varying_slopes_of_matrix(X, g, y):
    W = pm.Normal("W", 0, pm.HalfNormal("tau"), shape=(GROUPS, 3))
    pm.Normal("y", (X * W[g]).sum(axis=1), 1.0, observed=y)


@entry
def crossed_effects(g, h, yb):
    a = pm.ZeroSumNormal("a", 1.0, shape=GROUPS)
    c = pm.Normal("c", 0, pm.HalfNormal("tau"), shape=CLUSTERS)
    pm.Bernoulli("y", logit_p=pm.Normal("m") + a[g] + c[h], observed=yb)


@entry
def item_response(g, h, yb):
    ability, difficulty = pm.Normal("ability", shape=GROUPS), pm.Normal("difficulty", shape=CLUSTERS)
    pm.Bernoulli(
        "y", logit_p=pm.HalfNormal("d", shape=CLUSTERS)[h] * (ability[g] - difficulty[h]), observed=yb
    )


@entry
def interaction_table(g, h, y):
    pm.Normal("y", pm.Normal("m", shape=(GROUPS, CLUSTERS))[g, h], 1.0, observed=y)


@entry
def nested_effects(h, y):
    group_of = np.array([0, 0, 1, 2, 3, 3])
    a = pm.Normal("a", pm.Normal("mu", shape=GROUPS)[group_of], 1, shape=CLUSTERS)
    pm.Normal("y", a[h], 1.0, observed=y)


@entry
def group_predictors(x, g, y):
    """A small public table by group, as the level of uranium by county."""
    income = np.array([0.3, -1.2, 0.8, 2.0])
    a = pm.Normal("a", pm.Normal("c") + pm.Normal("d") * income, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Normal("y", a[g] + pt.constant(income)[g] * pm.Normal("e") + pm.Normal("b") * x, 1.0, observed=y)


@entry
def groups_of_labels(g, y):
    model = pm.modelcontext(None)
    model.add_coords({"group": ["a", "b", "c", "d"]})
    index = pm.Data("group_index", g)
    pm.Normal("y", pm.Normal("a", dims="group")[index], 1.0, observed=y)


@entry
def multilevel_poststratification(g, h, t, trials, count):
    a = pm.Normal("a", 0, pm.HalfNormal("sa"), shape=GROUPS)
    b = pm.Normal("b", 0, pm.HalfNormal("sb"), shape=CLUSTERS)
    c = pm.Normal("c", 0, pm.HalfNormal("sc"), shape=TIMES)
    p = pm.math.invlogit(a[g] + b[h] + c[t])
    pm.Binomial("y", n=trials, p=p, observed=count)
    weights = np.full((GROUPS, CLUSTERS), 1.0 / (GROUPS * CLUSTERS))
    pm.Deterministic("share", (weights * pm.math.invlogit(a[:, None] + b)).sum())


ADJACENCY = np.array(
    [
        [0, 1, 0, 0, 0, 1],
        [1, 0, 1, 0, 0, 0],
        [0, 1, 0, 1, 0, 0],
        [0, 0, 1, 0, 1, 0],
        [0, 0, 0, 1, 0, 1],
        [1, 0, 0, 0, 1, 0],
    ]
)


@entry(public=["phi.array_1"])
def car(h, yc):
    phi = pm.CAR("phi", mu=np.zeros(CLUSTERS), W=ADJACENCY, alpha=0.5, tau=pm.Gamma("tau", 2, 2))
    pm.Poisson("y", pm.math.exp(pm.Normal("b") + phi[h]), observed=yc)


@entry(public=["phi.array_1"])
def icar(h, yc):
    phi = pm.ICAR("phi", W=ADJACENCY)
    pm.Poisson("y", pm.math.exp(pm.Normal("b") + phi[h] * pm.HalfNormal("s")), observed=yc)


@entry
def walk_over_time(t, y):
    f = pm.GaussianRandomWalk("f", sigma=0.3, init_dist=pm.Normal.dist(0, 1), shape=TIMES)
    pm.Normal("y", f[t], 1.0, observed=y)


@entry
def autoregression_over_time(t, y):
    f = pm.AR("f", rho=pm.Uniform("rho", -1, 1), sigma=0.5, init_dist=pm.Normal.dist(0, 1), shape=TIMES)
    pm.Normal("y", f[t], 1.0, observed=y)


@entry(public=["density.array_2"])
def gp_over_time(t, y):
    gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, pm.InverseGamma("ls", 5, 5)))
    f = gp.prior("f", X=np.arange(TIMES, dtype=float)[:, None])
    pm.Normal("y", f[t], 1.0, observed=y)


@entry(public=["y.array_2", "y.array_3"])
def gp_by_hand(t, y):
    time = np.arange(TIMES, dtype=float)
    ell = pm.InverseGamma("ls", 5, 5)
    K = pt.exp(-0.5 * (time[:, None] - time[None, :]) ** 2 / ell**2) + 1e-6 * np.eye(TIMES)
    f = pt.linalg.cholesky(K) @ pm.Normal("z", shape=TIMES)
    pm.Normal("y", f[t], 1.0, observed=y)


@entry
def change_point_at_public_time(t, yc):
    rate = pm.Exponential("rate", 1.0, shape=2)
    pm.Poisson("y", pm.math.switch(pt.constant(t) >= 4, rate[1], rate[0]), observed=yc)


@entry
def scan_prior_over_time(t, y):
    e = pm.Normal("e", shape=TIMES)
    f = scan(lambda e, last: 0.9 * last + e, sequences=[e], outputs_info=[pt.zeros(())], return_updates=False)
    pm.Normal("y", f[t], 1.0, observed=y)


# curves


@entry
def hsgp_public_box(x, y):
    """HSGP with L and centre chosen beforehand: PyMC would read both off the data."""
    gp = pm.gp.HSGP(m=[7], L=[4.0], cov_func=pm.gp.cov.ExpQuad(1, ls=pm.InverseGamma("ls", 5, 5)))
    gp._X_center = np.zeros(1)
    phi, psd = gp.prior_linearized(x[:, None])
    pm.Normal("y", phi @ (pm.Normal("b", shape=7) * psd), 1.0, observed=y)


def _free_process(d):
    """A process of d inputs whose scale and length scales are parameters."""
    lengths = pm.InverseGamma("ls", 5, 5, shape=d)
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(d, ls=lengths)
    gp = pm.gp.HSGP(m=[3] * d, L=[4.0] * d, cov_func=cov)
    gp._X_center = np.zeros(d)
    return gp


@entry
def hsgp_of_free_scale_and_lengths(X, y):
    f = _free_process(2).prior("f", X=X[:, :2])
    pm.Normal("y", f, pm.HalfNormal("sigma"), observed=y)


@entry
def hsgp_linearized(x, y):
    phi, psd = _free_process(1).prior_linearized(pm.Data("input", x[:, None]))
    f = pm.Deterministic("f", phi @ (pm.Normal("b", shape=3) * psd))
    pm.Normal("y", f, pm.HalfNormal("sigma"), observed=y)


@entry
def fourier_by_hand(x, y):
    j = np.arange(1, 6)
    basis = pt.sin(pt.constant(x)[:, None] * j)
    pm.Normal("y", pt.dot(basis, pm.Normal("b", shape=5) * pm.HalfNormal("s")), 1.0, observed=y)


@entry
def spline_basis(B, y):
    w = pm.Normal("w", 0, pm.HalfNormal("tau"), shape=KNOTS)
    pm.Normal("y", pm.Normal("a") + pm.math.dot(np.asarray(B, order="F"), w), 1.0, observed=y)


@entry
def spline_of_public_knots(x, y):
    knots = np.linspace(-2, 2, KNOTS)
    hinge = pt.maximum(pt.constant(x)[:, None] - knots, 0)
    pm.Normal("y", pt.dot(hinge, pm.Normal("w", shape=KNOTS)), 1.0, observed=y)


@entry
def random_walk_spline(B, y):
    w = pm.Normal("w", shape=KNOTS)
    pm.Normal("y", pt.dot(B, pt.cumsum(w)), 1.0, observed=y)


@entry
def polynomial(x, y):
    a, b, c = pm.Normal("a"), pm.Normal("b"), pm.Normal("c")
    pm.Normal("y", a + b * x + c * x**2 + a * b * x**3, 1.0, observed=y)


@entry
def polynomial_in_graph(x, y):
    powers = pt.constant(x)[:, None] ** np.arange(4)
    pm.Normal("y", pt.dot(powers, pm.Normal("b", shape=4)), 1.0, observed=y)


@entry
def interaction(x, z, treated, y):
    b = pm.Normal("b", shape=4)
    pm.Normal("y", b[0] * x + b[1] * z + b[2] * x * z + b[3] * x * treated, 1.0, observed=y)


@entry
def michaelis_menten(pos, y):
    v, k = pm.HalfNormal("v"), pm.HalfNormal("k")
    pm.Normal("y", v * pos / (k + pos), pm.HalfNormal("s"), observed=y)


@entry
def nonlinear_growth(pos, g, y):
    top, rate = pm.HalfNormal("top", shape=GROUPS), pm.HalfNormal("rate", shape=GROUPS)
    pm.Normal("y", top[g] * (1 - pm.math.exp(-rate[g] * pos)), pm.HalfNormal("s"), observed=y)


@entry
def neural_network(X, yb):
    hidden = pm.math.tanh(pm.math.dot(X, pm.Normal("W", shape=(3, 5))))
    hidden = pm.math.tanh(pt.dot(hidden, pm.Normal("V", shape=(5, 2))))
    pm.Bernoulli("y", p=pm.math.sigmoid(pt.dot(hidden, pm.Normal("u", shape=2))), observed=yb)


@entry
def monotone_effect(k, y):
    steps = pm.Dirichlet("steps", np.ones(CATEGORIES - 1))
    level = pt.concatenate([[0.0], pt.cumsum(steps)])
    pm.Normal("y", pm.Normal("b") * level[k], 1.0, observed=y)


@entry
def step_function_of_public_cuts(x, y):
    where = pt.searchsorted(pt.constant(np.array([-1.0, 0.0, 1.0])), pt.constant(x))
    pm.Normal("y", pm.Normal("level", shape=4)[where], 1.0, observed=y)


# CustomDist


@entry
def custom_logp(X, y):
    pm.CustomDist("y", X @ slopes(), logp=lambda v, m: -0.5 * (v - m) ** 2, observed=y)


@entry
def custom_dist(X, y):
    def dist(mu, sigma, size):
        return pm.Normal.dist(mu, 1, size=size) * sigma + 1.0

    pm.CustomDist("y", pt.dot(X, slopes()), pm.HalfNormal("s"), dist=dist, observed=y)


@entry
def custom_dist_exponential(X, pos):
    def dist(mu, size):
        return pt.exp(pm.Normal.dist(mu, 1, size=size))

    pm.CustomDist("y", pt.dot(X, slopes()), dist=dist, observed=pos)


@entry
def weights_mask_missing(X, y, w):
    """Weight 0 for what is missing: a column of the record."""
    pm.CustomDist("y", X @ slopes(), w, logp=lambda v, m, w: -0.5 * w * (v - m) ** 2, observed=y)


@entry
def weights_by_where(X, y, w):
    def logp(value, m, w):
        return pt.where(w > 0, pm.logp(pm.Normal.dist(m, 1.0), pt.where(w > 0, value, 0.0)), 0.0)

    pm.CustomDist("y", X @ slopes(), w, logp=logp, observed=y)


@entry
def weibull_right_censored_custom(x, pos, died):
    beta = pm.math.exp(pm.Normal("b") * x)

    def logp(t, beta, died):
        return pt.switch(died, pm.logp(pm.Weibull.dist(1.5, beta), t), -((t / beta) ** 1.5))

    pm.CustomDist("y", beta, died, logp=logp, observed=pos)


@entry
def lookup_by_arange(X, k):
    p = pm.math.softmax(pt.dot(X, pm.Normal("W", shape=(3, CATEGORIES))), axis=1)

    def logp(value, p):
        return pt.log(p[pt.arange(value.shape[0]), pt.cast(value, "int64")])

    pm.CustomDist("y", p, logp=logp, observed=k, dtype="int64", signature="(k)->()")


@entry
def lookup_along_axis(X, k):
    eta = pt.dot(X, pm.Normal("W", shape=(3, CATEGORIES)))

    def logp(value, eta):
        chosen = pt.take_along_axis(eta, pt.cast(value, "int64")[:, None], axis=1)[:, 0]
        return chosen - pt.logsumexp(eta, axis=1)

    pm.CustomDist("y", eta, logp=logp, observed=k, dtype="int64", signature="(k)->()")


# shapes


@entry
def shape_of_outcome(y):
    outcome = pm.Data("outcome", y)
    pm.Normal("y", pt.ones(outcome.shape[0]) * pm.Normal("m"), 1.0, observed=outcome)


@entry
def shape_of_design(X, y):
    x = pm.Data("x", X)
    mu = pt.zeros((x.shape[0],)) + pt.dot(x, slopes())
    pm.Normal("y", mu, 1.0, observed=y, shape=x.shape[0])


@entry
def zeros_like_of_rows(X, y):
    x = pt.constant(X)
    pm.Normal("y", pt.zeros_like(x[:, 0]) + pm.Normal("m") + pt.ones_like(x).sum(axis=1), 1.0, observed=y)


@entry
def intercept_column_in_graph(X, y):
    x = pm.Data("x", X)
    design = pt.concatenate([pt.ones((x.shape[0], 1)), x], axis=1)
    pm.Normal("y", design @ slopes(4), 1.0, observed=y)


@entry
def mutable_dims(X, y):
    model = pm.modelcontext(None)
    model.add_coord("person", length=len(y))
    x, yd = pm.Data("x", X, dims=("person", None)), pm.Data("outcome", y, dims="person")
    pm.Normal("y", x @ slopes(), 1.0, observed=yd, dims="person")


@entry
def records_on_second_axis(XT, y):
    pm.Normal("y", slopes() @ XT, 1.0, observed=y)


@entry
def records_on_second_axis_dot(XT, y):
    pm.Normal("y", pt.dot(slopes(), pt.constant(XT)), 1.0, observed=y)


@entry
def transposed_in_graph(X, y):
    pm.Normal("y", pt.dot(slopes(), pt.constant(X).T), 1.0, observed=y)


@entry
def sum_over_columns(X, y):
    pm.Normal("y", (X * slopes()).sum(axis=1), 1.0, observed=y)


@entry
def einsum(X, y):
    pm.Normal("y", pt.einsum("ij,j->i", pt.constant(X), slopes()), 1.0, observed=y)


@entry
def tensordot(X, y):
    pm.Normal("y", pt.tensordot(pt.constant(X), slopes(), axes=[[1], [0]]), 1.0, observed=y)


@entry
def quadratic_form_einsum(X, y):
    A = pm.Normal("A", shape=(3, 3))
    pm.Normal("y", pt.einsum("ni,ij,nj->n", pt.constant(X), A, pt.constant(X)), 1.0, observed=y)


@entry
def batched_matmul(T, y):
    mu = (pt.constant(T) @ pm.Normal("b", shape=(5, 1)))[:, :, 0].sum(axis=1)
    pm.Normal("y", mu, 1.0, observed=y)


@entry
def cumulative_over_columns(T, y):
    path = pt.cumsum(pt.constant(T) * pm.Normal("b", shape=5), axis=2)
    pm.Normal("y", path.max(axis=(1, 2)) + pt.cumprod(T, axis=1)[:, 1, 0], 1.0, observed=y)


@entry
def concatenate_columns(x, z, X, y):
    design = pt.concatenate([pt.constant(x)[:, None], X, pt.constant(z)[:, None]], axis=1)
    pm.Normal("y", pt.dot(design, slopes(5)), 1.0, observed=y)


@entry
def stack_columns(x, z, y):
    pm.Normal("y", pt.stack([x, z], axis=1) @ slopes(2) + pt.stack([x, z]).sum(axis=0), 1.0, observed=y)


@entry
def reshape_that_keeps_records(T, y):
    pm.Normal("y", pt.dot(pt.constant(T).reshape((N, 10)), slopes(10)), 1.0, observed=y)


@entry
def flatten_that_keeps_records(T, y):
    x = pm.Data("T", T)
    pm.Normal("y", pt.dot(x.reshape((x.shape[0], -1)), slopes(10)), 1.0, observed=y)


@entry
def flatten_ndim(T, y):
    pm.Normal("y", pt.dot(pt.constant(T).flatten(2), slopes(10)), 1.0, observed=y)


@entry
def column_by_reshape(x, Y):
    pm.Normal("y", pt.constant(x).reshape((-1, 1)) * slopes(2), 1.0, observed=Y)


@entry
def logsumexp_over_columns(X, y):
    pm.Normal("y", pt.logsumexp(X + slopes(), axis=1), 1.0, observed=y)


@entry
def sort_within_record(T, y):
    pm.Normal("y", pt.sort(pt.constant(T), axis=2)[:, 0, 1] * pm.Normal("b"), 1.0, observed=y)


@entry
def reversed_columns(T, y):
    x = pt.constant(T)[:, ::-1, 1:]
    pm.Normal("y", (x * slopes(4)).sum(axis=(1, 2)), 1.0, observed=y)


@entry
def standardised_within_record(X, y):
    x = pt.constant(X)
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    pm.Normal("y", pt.dot(x, slopes()), 1.0, observed=y)


@entry
def set_columns(X, y):
    x = pt.set_subtensor(pt.constant(X)[:, 1], 0.5)
    x = pt.inc_subtensor(x[:, 2], pm.Normal("shift"))
    pm.Normal("y", pt.dot(x, slopes()), 1.0, observed=y)


@entry
def where_on_rows(x, z, y):
    pm.Normal("y", pm.math.switch(x > 0, pm.Normal("a") * x, pm.Normal("b") * z), 1.0, observed=y)


@entry
def clip_and_round(x, y):
    x = pt.constant(x)
    pm.Normal("y", pm.Normal("a") * pt.clip(x, -1, 1) + pm.Normal("b") * pt.round(x), 1.0, observed=y)


@entry
def one_hot_in_graph(k, y):
    one_hot = pt.eq(pt.constant(k)[:, None], pt.arange(CATEGORIES))
    pm.Normal("y", pt.dot(one_hot, pm.Normal("a", shape=CATEGORIES)), 1.0, observed=y)


@entry
def observed_expression(x, pos):
    pm.Normal("y", pm.Normal("b") * x, 1.0, observed=pt.log(pm.Data("outcome", pos)))


@entry
def observed_expression_of_columns(X):
    x = pm.Data("x", X)
    pm.Normal("y", x[:, 1] * pm.Normal("b"), 1.0, observed=x[:, 0] + 0.5)


@entry
def observed_column_of_data(X):
    x = pm.Data("x", X)
    pm.Normal("y", pt.dot(x[:, 1:], slopes(2)), 1.0, observed=x[:, 0])


@entry
def scan_over_columns(T, y):
    x = pt.constant(T).dimshuffle(2, 0, 1)
    path = scan(
        lambda x, last: 0.5 * last + x.sum(axis=1),
        sequences=[x],
        outputs_info=[pt.zeros(N)],
        return_updates=False,
    )
    pm.Normal("y", path[-1] * pm.Normal("b"), 1.0, observed=y)


@entry
def op_from_graph(x, y):
    from pytensor.compile.builders import OpFromGraph

    u, v = pt.vector(), pt.scalar()
    pm.Normal("y", OpFromGraph([u, v], [pt.exp(-v * u**2)])(pt.constant(x), pm.Normal("b")), 1.0, observed=y)


# sparse


@entry
def sparse_constant(X, y):
    x = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(X))
    mu = pytensor.sparse.dot(x, slopes().dimshuffle(0, "x"))[:, 0]
    pm.Normal("y", mu, 1.0, observed=y)


@entry
def sparse_shared(X, y):
    x = pytensor.shared(scipy.sparse.csr_matrix(X))
    mu = pytensor.sparse.structured_dot(x, slopes().dimshuffle(0, "x"))[:, 0]
    pm.Normal("y", mu, 1.0, observed=y)


@entry
def sparse_one_hot(h, y):
    one_hot = scipy.sparse.csr_matrix((np.ones(len(h)), h, np.arange(len(h) + 1)), shape=(len(h), CLUSTERS))
    mu = pytensor.sparse.dot(one_hot, pm.Normal("a", shape=(CLUSTERS, 1)))[:, 0]
    pm.Normal("y", mu, 1.0, observed=y)


# parameters only, beside the rows


@entry
def transformed_parameters(X, y):
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Deterministic("odds", pt.exp(b))
    pm.Deterministic("norm", pt.sqrt((b**2).sum()))
    pm.Deterministic("prediction", np.eye(3) @ b)
    pm.Normal("y", X @ b, pm.LogNormal("s"), observed=y)


@entry
def potential_on_parameters(X, y):
    b = slopes()
    pm.Potential("ridge", -0.5 * (b**2).sum())
    pm.Normal("y", X @ b, 1.0, observed=y)


@entry
def bounded_prior(x, y):
    b = pm.Uniform("b", -3, 3)
    c = pm.Truncated("c", pm.Normal.dist(0, 1), lower=0)
    d = pm.Normal("d", 0, 1, transform=transforms.Interval(-5, 5), initval=0.5)
    pm.Normal("y", b * x + d, c, observed=y)


@entry
def interpolated_prior(x, y):
    grid = np.linspace(-3, 3, 11)
    b = pm.Interpolated("b", grid, np.exp(-0.5 * grid**2))
    pm.Normal("y", b * x, 1.0, observed=y)


@entry
def horseshoe(X, y):
    lam, tau = pm.HalfCauchy("lam", 1, shape=3), pm.HalfCauchy("tau", 1)
    b = pm.Deterministic("b", pm.Normal("z", shape=3) * lam * tau)
    pm.Normal("y", X @ b, pm.HalfNormal("s"), observed=y)


@entry
def zero_inflation_prior_chain(X, yc):
    hyper = pm.Gamma("hyper", 2, 2)
    b = pm.Normal("b", 0, 1 / hyper, shape=3)
    pm.Poisson("y", pm.math.exp(X @ b), observed=yc)


@entry(public=["table"])
def public_table_of_n_entries(t, y):
    """A calendar that happens to have as many days as there are records, named as public."""
    table = pm.Data("table", np.linspace(-1, 1, N))
    a = pm.Normal("a", shape=2)
    pm.Normal("y", a[0] + a[1] * table[t], 1.0, observed=y)


@entry(privacy_unit=np.repeat(np.arange(12), 4)[:N])
def rows_of_persons(X, yb):
    pm.Bernoulli("y", logit_p=X @ slopes(), observed=yb)
