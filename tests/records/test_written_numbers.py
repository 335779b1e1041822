"""Rows that a loop writes into priors, Potentials, transforms or Deterministics are refused."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Chain

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.model import RecordModel
from pymc_dp.records.written_numbers import Written, count

N = 300
Y = np.random.default_rng(0).normal(size=N)
K = np.random.default_rng(1).integers(0, 4, size=N)


def chunks(size=20):
    return [Y[k : k + size] for k in range(0, N, size)]


def squares(v, rows):
    return sum(-0.5 * (v - row) ** 2 for row in rows)


def by_density(rows):
    """A density that a loop over rows adds up."""
    return lambda: pm.CustomDist("b", logp=lambda v: squares(v, rows))


def of_chunks():
    def logp(v):
        return sum(pm.logp(pm.Normal.dist(v, 1), pt.constant(part)).sum() for part in chunks())

    return pm.CustomDist("b", logp=logp)


def drawn():
    def dist(size):
        return pm.Normal.dist(sum(pt.constant(row) for row in Y) / N, 0.01, size=size)

    return pm.CustomDist("b", dist=dist)


class Shifted(pm.logprob.transforms.Transform):
    name = "shifted"

    def forward(self, value, *inputs):
        return value - sum(pt.constant(part).sum() for part in chunks())

    def backward(self, value, *inputs):
        return value + sum(pt.constant(part).sum() for part in chunks())

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value)


def potential(rows):
    def make():
        b = pm.Normal("b")
        pm.Potential("p", squares(b, rows))
        return b

    return make


def potentials():
    b = pm.Normal("b")
    for k, part in enumerate(chunks(60)):
        pm.Potential(f"p{k}", squares(b, part.tolist()))
    return b


def operations():
    """Outcomes are operations, and no number."""
    b = pm.Beta("b", 1, 1)
    pm.Potential("p", sum(pt.log(b) if one else pt.log1p(-b) for one in Y > 0))
    return b


def positions():
    theta = pm.Dirichlet("theta", np.ones(4))
    pm.Potential("p", sum(pt.log(theta[int(k)]) for k in K))
    return theta[0]


def deterministics():
    b = pm.Normal("b")
    for k, row in enumerate(Y):
        pm.Deterministic(f"d{k}", b * row)
    return b


def priors():
    b = pm.Normal("b")
    for k, row in enumerate(Y):
        pm.Normal(f"x{k}", row, 1)
    return b


def arrays_of_positions():
    """Means of effects by school, in arrays of few positions each."""
    theta = pm.Normal("theta", shape=4)
    for k, part in enumerate(np.split(K, 15)):
        pm.Deterministic(f"d{k}", theta[part.copy()].mean())
    return theta[0]


def likelihood_of_parts():
    """A public number that copies of parts of the rows add up to."""
    b = pm.Normal("b")
    return sum((b * pt.constant(part.copy())).sum() for part in chunks())


def classmates():
    """A contextual effect, by a loop over schools."""
    theta = pm.Normal("theta", shape=4)
    means = pt.stack([theta[part.copy()].mean() for part in np.split(K, 15)])
    return means[np.arange(N) % 15]


def within(law):
    """A law of the user's as a component of another one."""
    return law(pm.CustomDist.dist(logp=lambda v: squares(v, Y.tolist()), logcdf=lambda v: v * 0.0))


ROWS = {
    "arrays of positions": arrays_of_positions,
    "likelihood": likelihood_of_parts,
    "positions in the likelihood": classmates,
    "component of a mixture": lambda: within(
        lambda law: pm.Mixture("b", np.ones(2) / 2, [law, pm.Normal.dist()])
    ),
    "truncated density": lambda: within(lambda law: pm.Truncated("b", law, lower=-9.0, upper=9.0)),
    "chained transform": lambda: pm.Normal(
        "b", transform=Chain([Shifted(), Shifted()]), default_transform=None
    ),
    "density": by_density(Y.tolist()),
    "density, chunks": of_chunks,
    "dist": drawn,
    "transform": lambda: pm.Normal("b", transform=Shifted(), default_transform=None),
    "mean": lambda: pm.Normal("b", pt.stack([pt.constant(row) for row in Y]).mean(), 1),
    "potential": potential(Y.tolist()),
    "potentials": potentials,
    "whole numbers": potential([int(1e6 * row) for row in Y]),
    "zeros and ones": potential([int(row > 0) for row in Y]),
    "complex": lambda: pm.Normal("b", pt.real(sum(pt.constant(row + 0j) for row in Y)), 1),
    "operations": operations,
    "positions": positions,
    "deterministics": deterministics,
    "priors": priors,
}


def model_of(make):
    with pm.Model() as model:
        pm.Normal("y", make(), 1, observed=Y)
    return model


def read(make, **kwargs):
    return RecordModel(model_of(make), verify=False, **kwargs)


@pytest.mark.parametrize("name", ROWS)
def test_rows_one_by_one_are_refused(name):
    """Whatever type they have, however few different ones there are, and in however many variables."""
    with pytest.raises(
        ModelRefusedError, match="more than 200 numbers, or 1000 inputs of operations"
    ) as found:
        read(ROWS[name])
    assert repr(float(Y[0])) not in str(found.value)


def many_laws():
    laws = [pm.TruncatedNormal.dist(k, 1, lower=0) for k in range(3)]
    return pm.Mixture("b", np.ones(3) / 3, laws)


def quantiles():
    b = pm.Normal("b")
    for k in range(8):
        pm.Potential(f"p{k}", pm.logp(pm.StudentT.dist(nu=3, mu=k, sigma=1), b))
    return b


def factors(number, levels):
    """Effects with a level of zero put in front of each, which rows look up."""
    effects = [pm.Normal(f"e{k}", shape=levels) for k in range(number)]
    codes = np.random.default_rng(2).integers(0, levels + 1, size=(number, N))
    return sum(pt.concatenate([[0.0], one])[code] for one, code in zip(effects, codes, strict=True))


HONEST = {
    "density": by_density([0.5, -1.0]),
    "polynomial": lambda: pm.Deterministic("d", sum(k * pm.Normal(f"b{k}") ** k for k in range(40))),
    "mixture": lambda: pm.NormalMixture("b", np.ones(12) / 12, np.arange(12.0), np.ones(12)),
    "truncated laws": many_laws,
    "quantiles": quantiles,
    "factor": lambda: pm.LKJCholeskyCov("c", n=6, eta=2, sd_dist=pm.HalfNormal.dist(1))[0].sum(),
    "levels of factors": lambda: factors(8, 25),
    "many priors": lambda: sum(pm.StudentT(f"b{k}", nu=3, mu=0, sigma=2.5) for k in range(30)),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_priors_have_is_accepted(name):
    """Control."""
    assert read(HONEST[name]).reading.log_priors


@pytest.mark.parametrize("name", ["potential", "deterministics", "priors"])
def test_what_is_declared_does_not_count(name):
    """Variables by name; it is said wherever what is public is listed."""
    variables = {"potential": ["p"], "deterministics": [f"d{k}" for k in range(N)]}.get(name)
    names = variables or [f"x{k}" for k in range(N)]
    records = read(ROWS[name], public=names)
    assert {a.label for a in records.reading.public_arrays} >= set(names)


def test_deterministics_of_the_likelihood_that_are_declared_do_not_count():
    """What the refusal of a likelihood says to write."""

    def make():
        theta = pm.Normal("theta", shape=4)
        means = pt.stack([theta[part.copy()].mean() for part in np.split(K, 15)])
        return pm.Deterministic("means", means)[np.arange(N) % 15]

    with pytest.raises(ModelRefusedError, match="most of them in 'means'"):
        read(make)
    assert "means" in {a.label for a in read(make, public=["means"]).reading.public_arrays}


def test_laws_of_the_users_do_not_count_for_others():
    """Constants that PyMC puts into densities are no one's rows."""

    def make():
        scale = pm.CustomDist("scale", logp=lambda v: -v)
        laws = [pm.TruncatedNormal.dist(k, pt.exp(scale), lower=0) for k in range(12)]
        return pm.Mixture("b", np.ones(12) / 12, laws)

    assert read(make).reading.log_priors


def test_arrays_that_are_declared_do_not_count():
    def make():
        return pm.Normal("b", sum(pt.constant(part).sum() for part in parts), 1)

    parts = [row.copy() for row in chunks()]
    with pytest.raises(ModelRefusedError, match="most of them in 'b'"):
        read(make)
    assert read(make, public=parts).reading.log_priors
    assert "most of them in 'b'" in str(dp.inspect(model_of(make)))


def test_positions_and_sizes_are_no_numbers():
    v = pt.vector()
    found = count([v[3] + v[4:9].sum() + pt.zeros(7).sum() + v.reshape((2, 5))[0, 1]], set())
    assert found.numbers < 4 < found.inputs
    assert count([v[np.array([0, 2, 1])]], set()).numbers == 3  # an array of positions may be one of codes
    assert count([2.0 * v + 1.0 * v + pt.stack([v[0], 3.0, 4.0]).sum()], set()).numbers >= 4
    assert Written(3, 5).exceeds(Written(2, 9)) and not Written(3, 5).exceeds(Written(3, 5))
