"""Models whose records have positions, and what is done to them; run as a script, in a process of its own.

``python -m tests.records.position_models WAY NAME ...`` prints one line for each thing that was tried and was
not as it should be, and a last line that says that it came to the end. The way is a method of `Tried`.
"""

import sys
import warnings
from collections.abc import Callable
from operator import call
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.scan.basic import scan

from pymc_dp.errors import ModelRefusedError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel

N, K, L, BAD = 40, 4, 3, 5
RNG = np.random.default_rng(0)
G0, H0 = RNG.integers(0, K, N), RNG.integers(0, L, N)
X0, Y0 = RNG.normal(size=N), RNG.normal(size=N)
PARENT = np.array([0, 1, 2, 0])  # of each group its cluster; public
SWAP = np.array([2, 0, 3, 1])
KNOTS = np.array([-1.0, 0.0, 1.0])
CODES = [-1, -(10**9), K, 10**6, 2**31 - 1, 2**63 - 1, -(2**63)]


def normal(mu: Any, sigma: Any = 1.0) -> None:
    pm.Normal("y", mu, sigma, observed=Y0)


def z(name: str = "z", shape: Any = K) -> Any:
    return pm.Normal(name, shape=shape)


def hierarchy() -> Any:
    return pm.Normal("mean") + pm.HalfNormal("tau") * z()


def scanned(table: Any, g: Any) -> Any:
    def step(t: Any, codes: Any, values: Any) -> Any:
        return (t * values)[codes]

    return scan(step, [pt.arange(1.0, 3.0)], non_sequences=[g, table], return_updates=False).sum(axis=0)


def scanned_state(table: Any, g: Any) -> Any:
    def step(_t: Any, s: Any, codes: Any, values: Any) -> Any:
        return s + values[codes] * 0.5

    out = scan(
        step, [pt.arange(3)], outputs_info=[pt.zeros(N)], non_sequences=[g, table], return_updates=False
    )
    return out[-1]


def one_hot(g: Any) -> Any:
    return pt.extra_ops.to_one_hot(g, K)


def written(g: Any) -> Any:
    return pt.zeros((g.shape[0], K))[pt.arange(g.shape[0]), g].set(1.0)


def added(g: Any) -> Any:
    return pt.inc_subtensor(pt.zeros((g.shape[0], K))[pt.arange(g.shape[0]), g], 2.0)


def small(g: Any, dtype: str) -> Any:
    return pt.cast(g, dtype)


def as_float(g: Any) -> Any:
    """A column of numbers of which some are no number, as tables have it."""
    return pt.switch(pt.lt(pt.abs(g), K), pt.cast(g, "float64"), np.nan)


def knot(x: Any) -> Any:
    return pt.searchsorted(pt.constant(KNOTS), x)


def interpolated(x: Any, heights: Any) -> Any:
    k = pt.searchsorted(pt.constant(KNOTS), x)
    return heights[k - 1] + (heights[k] - heights[k - 1]) * (x - pt.constant(KNOTS)[k - 1])


#: From codes g (of K groups), codes h (of L), and numbers x of records to a likelihood.
MODELS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "groups": lambda g, h, x: normal(z()[g]),
    "hierarchy": lambda g, h, x: normal(hierarchy()[g]),
    "centred by hand": lambda g, h, x: normal(pm.Normal("m") + pm.HalfNormal("t") * z()[g]),
    "slopes": lambda g, h, x: normal(z()[g] + z("w")[g] * x),
    "correlated": lambda g, h, x: normal((z(shape=(K, 2)) @ np.array([[1.0, 0], [0.5, 1]]))[g, 0] * x),
    "crossed": lambda g, h, x: normal(z()[g] + z("w", L)[h]),
    "interaction": lambda g, h, x: normal(z(shape=(K, L))[g, h]),
    "nested": lambda g, h, x: normal(z("w", L)[PARENT][g] + z()[g]),
    "look-up of a look-up": lambda g, h, x: normal(z()[pt.constant(SWAP)[g]]),
    "three deep": lambda g, h, x: normal(z()[pt.constant(SWAP)[pt.constant(SWAP)[g]]]),
    "public table": lambda g, h, x: normal(z()[0] + pt.constant(SWAP * 1.0)[g]),
    "scales": lambda g, h, x: normal(z()[g], pt.exp(z("w"))[g]),
    "take": lambda g, h, x: normal(pt.take(z(), g)),
    "take rows": lambda g, h, x: normal(pt.take(z(shape=(K, 2)), g, axis=0).sum(axis=1)),
    "take columns": lambda g, h, x: normal(z(shape=(2, K))[:, g].sum(axis=0)),
    "take_along_axis": lambda g, h, x: normal(
        pt.take_along_axis(x[:, None] * z()[None, :], g[:, None], axis=1)[:, 0]
    ),
    "own column": lambda g, h, x: normal((x[:, None] * z())[pt.arange(x.shape[0]), pt.maximum(g, h)]),
    "own column by shape": lambda g, h, x: normal((x[:, None] * z())[pt.arange(x.shape[0]), g]),
    "one hot": lambda g, h, x: normal(one_hot(g) @ z()),
    "one hot in halves": lambda g, h, x: normal((one_hot(g) * 0.5 + one_hot(pt.mod(g + 1, K)) * 0.5) @ z()),
    "written": lambda g, h, x: normal(written(g) @ z()),
    "added": lambda g, h, x: normal(added(g) @ z()),
    "written numbers": lambda g, h, x: normal(
        (pt.zeros((g.shape[0], K))[pt.arange(g.shape[0]), g].set(x) * z()).sum(axis=1)
    ),
    "vectorize": lambda g, h, x: normal(pt.vectorize(lambda i, t: t[i], "(),(k)->()")(g, z())),
    "vectorize rows": lambda g, h, x: normal(
        pt.vectorize(lambda i, t: t[i].sum(), "(),(k,l)->()")(g, z(shape=(K, 2)))
    ),
    "scan": lambda g, h, x: normal(scanned(z(), g)),
    "scan with a state": lambda g, h, x: normal(scanned_state(z(), g)),
    "scan of a look-up": lambda g, h, x: normal(scanned(z(), pt.constant(SWAP)[g])),
    "reversed table": lambda g, h, x: normal(z()[::-1][g]),
    "negative steps": lambda g, h, x: normal(z(shape=2 * K)[::-2][g]),
    "from the end": lambda g, h, x: normal(z()[-1 - g]),
    "shifted": lambda g, h, x: normal(z(shape=K + 1)[g + 1]),
    "differences": lambda g, h, x: normal(z(shape=K + 1)[g + 1] - z("w", K + 1)[g]),
    "flat position": lambda g, h, x: normal(z(shape=K * L)[g * L + h]),
    "reshaped": lambda g, h, x: normal(z(shape=K * L).reshape((K, L))[g, h]),
    "embedding of two codes": lambda g, h, x: normal((z(shape=(K, 2))[g] * z("w", (L, 2))[h]).sum(axis=1)),
    "item response": lambda g, h, x: pm.Bernoulli(
        "y", logit_p=pt.exp(z("w", L))[h] * (z()[g] - z("b", L)[h]), observed=(Y0 > 0).astype(int)
    ),
    "cut points by group": lambda g, h, x: pm.OrderedLogistic(
        "y",
        eta=x * pm.Normal("b"),
        cutpoints=(pt.constant([-1.0, 1.0]) + z()[:, None])[g],
        observed=H0,
        compute_p=False,
    ),
    "gathered weights": lambda g, h, x: pm.NormalMixture(
        "y", pm.math.softmax(z(shape=(K, 2)), axis=1)[g], z("w", 2), [1.0, 2.0], observed=Y0
    ),
    "gathered components": lambda g, h, x: pm.NormalMixture(
        "y", [0.3, 0.7], z(shape=(K, 2))[g], [1.0, 2.0], observed=Y0
    ),
    "searchsorted": lambda g, h, x: normal(z()[knot(x * as_float(g))]),
    "knots": lambda g, h, x: normal(
        pt.maximum(x[:, None] - z("k", 3)[None, :], 0)[pt.arange(x.shape[0]), h] + z()[g]
    ),
    "interpolation": lambda g, h, x: normal(interpolated(x, z("heights", 3)) + z()[g]),
    "masked": lambda g, h, x: normal(pt.switch(pt.ge(g, 0) & pt.lt(g, K), z()[g], 0.0)),
    "masked table": lambda g, h, x: normal(z(shape=6)[np.array([1, 1, 0, 1, 0, 1], dtype=bool)][g]),
    "clipped": lambda g, h, x: normal(z()[pt.clip(g, 0, K - 1)]),
    "remainder": lambda g, h, x: normal(z()[g % K]),
    "quotient": lambda g, h, x: normal(z()[g // 2]),
    "remainder by a code": lambda g, h, x: normal(z()[h % g]),
    "quotient by a code": lambda g, h, x: normal(z()[h // g]),
    "power of a code": lambda g, h, x: normal(z()[h**g]),
    "cast to int8": lambda g, h, x: normal(z()[small(g, "int8")]),
    "cast to uint8": lambda g, h, x: normal(z()[small(g, "uint8")]),
    "cast to uint64": lambda g, h, x: normal(z()[small(g, "uint64")]),
    "cast to bool": lambda g, h, x: normal(z()[pt.cast(small(g, "bool"), "int64")]),
    "floor of a number": lambda g, h, x: normal(z()[pt.cast(pt.floor(as_float(g)), "int64")]),
    "floor to uint8": lambda g, h, x: normal(z()[pt.cast(as_float(g), "uint8")]),
    "categorical": lambda g, h, x: pm.Categorical("y", logit_p=x[:, None] * z()[None, :], observed=g),
    "probabilities by hand": lambda g, h, x: pm.CustomDist(
        "y",
        x,
        z(),
        logp=lambda v, x, z: pt.log(pm.math.softmax(x[:, None] * z, axis=1))[pt.arange(N), v],
        dtype="int64",
        observed=g,
    ),
    "categorical by group": lambda g, h, x: pm.Categorical(
        "y", p=pm.math.softmax(z(shape=(K, L)), axis=1)[g], observed=H0
    ),
    "multinomial by group": lambda g, h, x: pm.Multinomial(
        "y", n=3, p=pm.math.softmax(z(shape=(K, 2)), axis=1)[g], observed=np.stack([H0, 3 - H0], axis=1)
    ),
    "Poisson": lambda g, h, x: pm.Poisson("y", pt.exp(z()[g]), observed=H0),
    "binomial of codes": lambda g, h, x: pm.Binomial("y", n=g, p=pm.math.sigmoid(z()[0]), observed=H0 * 0),
    "zero-inflated": lambda g, h, x: pm.ZeroInflatedPoisson(
        "y", psi=pm.math.sigmoid(z("w"))[g], mu=pt.exp(z()[g]), observed=H0
    ),
    "t by group": lambda g, h, x: pm.StudentT("y", nu=4, mu=z()[g], sigma=pt.exp(z("w"))[g], observed=Y0),
    "truncated by group": lambda g, h, x: pm.Truncated(
        "y", pm.Normal.dist(z()[g], 1), lower=-9.0, observed=Y0
    ),
    "censored by group": lambda g, h, x: pm.Censored(
        "y", pm.Normal.dist(z()[g], 1), lower=None, upper=pt.constant(np.arange(K) + 5.0)[g], observed=Y0
    ),
}


class Tried:
    """One model, compiled once, whose record BAD gets one code after the other."""

    def __init__(self, name: str):
        with pm.Model() as model:
            self.g = pytensor.shared(G0, name="g")
            MODELS[name](self.g, pm.Data("h", H0), pm.Data("x", X0))
        self.name, self.records = name, RecordModel(model, verify=False)
        self.theta = np.random.default_rng(1).normal(size=self.records.d) / 2
        self.others = np.arange(N) != BAD

    def rows(self) -> list[np.ndarray]:
        """Log-likelihoods of all records."""
        return [self.records.full_batch.rows(self.theta)]

    def ratios(self) -> list[np.ndarray]:
        """Of some records."""
        return [self.records.ratios(self.theta, 0.9 * self.theta, np.arange(N))]

    def derivatives(self) -> list[np.ndarray]:
        """Scores of each record and of its twins, and their rows."""
        r, found = self.records, []
        for chunk in map(call, r.twins(r.coordinates(self.theta), 1, PrivacyRandom(debug_seed=0))):
            for term in chunk.terms:
                rows = np.broadcast_to(
                    term.rows(np.eye(r.coordinates.size)), (*term.own.T.shape, r.coordinates.size)
                )
                found += [term.own, np.einsum("mk,kmp->mp", term.own, rows)]
        return found

    def differing(self, way: str) -> list[str]:
        """Codes with which another record's numbers are not what they were."""
        compute: Callable[[], list[np.ndarray]] = getattr(self, way)
        self.g.set_value(G0)
        before, found = compute(), []
        for code in CODES:
            codes = G0.copy()
            codes[BAD] = code
            self.g.set_value(codes)
            try:
                after = compute()
            except Exception as error:
                found.append(f"{self.name}: {code} raises {type(error).__name__}: {str(error)[:120]}")
                continue
            for one, other in zip(before, after, strict=True):
                if not np.array_equal(one[self.others], other[self.others], equal_nan=True):
                    found.append(f"{self.name}: {code} moves another record")
        return found


def main(way: str, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    for name in names:
        try:
            tried = Tried(name)
        except ModelRefusedError as error:
            print(f"{name}: refused: {str(error).splitlines()[0]}", flush=True)
            continue
        for line in tried.differing(way):
            print(line, flush=True)
    print("to the end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
