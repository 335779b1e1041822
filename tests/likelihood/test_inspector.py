"""What may travel with a likelihood: no table of records, whatever holds it, but all that models have."""

import dataclasses
import datetime
import enum
import functools
import threading
import types
from functools import cache

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor.compile.builders import OpFromGraph

from pymc_dp.errors import PrivacyError
from pymc_dp.likelihood.inspector import Inspector
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.records.model import RecordModel

N, GROUPS = 400, 120
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 2)), RNG.normal(size=N)
NAMES = [f"Secretperson{k:03d}" for k in range(N)]
LABELS = [("north", "south")[k % 2] for k in range(N)]
TABLE = pd.DataFrame({"person": NAMES, "y": Y, "sick": Y > 0})
ARROW = TABLE.convert_dtypes(dtype_backend="pyarrow")
KNOTS = RNG.uniform(size=60)
LOWER = -5.0


class Region(enum.Enum):
    """Of a person."""

    north = 1
    south = 2


class Person:
    """Of the user's."""

    def __init__(self, value):
        self.value = value


class Rows(np.ndarray):
    """An array that has something beside its numbers."""

    def __reduce__(self):
        new, arguments, state = super().__reduce__()
        return new, arguments, (state, self.__dict__)


class Feed:
    """An object that is made of what an iterator returns."""

    def __reduce__(self):
        return list, (), None, iter(Y.tolist())


def with_rows():
    array = np.zeros(3).view(Rows)
    array.rows = Y.tolist()
    return array


def documented(make):
    held = make()
    held.__doc__ = " ".join(map(repr, Y.tolist()))
    return held


def linked(k=0):
    return types.SimpleNamespace(values=Y[k : k + 40].tolist(), next=linked(k + 40) if k + 40 < N else None)


def default_of(values):
    def function(value=values):
        return value

    return function


def noted():
    op = pt.exp(pt.scalar()).owner.op
    op = type(op)(op.scalar_op)
    op.notes = {f"a{k}": k for k in range(N)}
    return op


CARRIERS = {
    "array": lambda: Y[:100],
    "array as long as a variable": lambda: Y[:GROUPS],
    "groups": lambda: [Y[k : k + 40] for k in range(0, N, 40)],
    "groups by name": lambda: {f"group{k}": Y[k : k + 40].tolist() for k in range(0, N, 40)},
    "nodes of a list": linked,
    "defaults of functions": lambda: [default_of(Y[k : k + 40].tolist()) for k in range(0, N, 40)],
    "attributes of a function": lambda: setattr(f := lambda: 0, "rows", Y.tolist()) or f,
    "constants": lambda: [pt.constant(Y[k : k + 40]) for k in range(0, N, 40)],
    "shared": lambda: [pytensor.shared(Y[k : k + 40]) for k in range(0, N, 40)],
    "truths": lambda: (Y > 0).tolist(),
    "small numbers": lambda: [k % 7 for k in range(N)],
    "labels": lambda: LABELS,
    "labels of a class": lambda: [Region[label] for label in LABELS],
    "labels as objects": lambda: [*map(Person, (1, 2))] * (N // 2),
    "persons": lambda: [Person(value) for value in Y.tolist()],
    "names": lambda: NAMES[:60],
    "text of Arrow": lambda: TABLE["person"].unique(),
    "index of Arrow": lambda: pd.Index(TABLE["person"].unique()),
    "numbers of Arrow": lambda: ARROW["y"][:60],
    "truths of Arrow": lambda: ARROW["sick"][:60].array,
    "series": lambda: TABLE["y"][:60],
    "frame": lambda: TABLE[:40],
    "categories": lambda: pd.Categorical(LABELS),
    "sparse": lambda: [scipy.sparse.csr_matrix(Y[k : k + 40]) for k in range(0, N, 40)],
    "masked": lambda: np.ma.array(Y[:60], mask=True),
    "structure": lambda: Y.view([("rows", "f8", (N,))]),
    "void": lambda: np.frombuffer(Y.tobytes(), dtype=f"V{8 * N}"),
    "text of NumPy": lambda: np.array(["; ".join(NAMES)], dtype=np.dtypes.StringDType()),
    "metadata": lambda: np.zeros(3, dtype=np.dtype("f8", metadata={"rows": Y.tolist()})),
    "own array": with_rows,
    "own pickle": Feed,
    "iterator": lambda: iter(Y.tolist()),
    "bytes": Y.tobytes,
    "large number": lambda: int.from_bytes(Y.tobytes()),
    "dates": lambda: [datetime.timedelta(days=value) for value in Y.tolist()],
    "partial": lambda: functools.partial(print, *Y.tolist()),
    "documentation of a function": lambda: documented(lambda: lambda: 0),
    "documentation of a class": lambda: documented(lambda: type("A", (), {})),
    "attributes of a class": lambda: type("A", (), {f"a{k}": value for k, value in enumerate(Y.tolist())}),
    "note of an operation": noted,
    "metaclass": lambda: type("Registry", (type,), {"seen": Y.tolist()})("Config", (), {}),
    "bases of a member": lambda: (
        enum.Enum("Level", {"low": 1}, type=type("Mixin", (), {"seen": Y.tolist()})).low
    ),
    "field of a dataclass": lambda: dataclasses.make_dataclass(
        "Setting", [("scale", float, dataclasses.field(default=1.0, metadata={"of": Y.tolist()}))]
    ),
    "function that says it is PyMC's": lambda: functools.wraps(pm.logp)(lambda: Y),
}


def held_by_a_prior(held):
    def bounds(*_):
        return pt.constant(LOWER - 0.0 * (held is None)), None

    interval = pm.distributions.transforms.Interval(bounds_fn=bounds)
    return pm.Normal("b", transform=interval, default_transform=None)


def public(prior, **kwargs):
    with pm.Model() as model:
        z = pm.Normal("z", shape=GROUPS, initval=np.linspace(-1, 1, GROUPS))
        pm.Normal("y", prior() + z[np.arange(N) % GROUPS] * X[:, 0], 1, observed=Y)
    return PublicModel(RecordModel(model, verify=False, **kwargs))


@pytest.mark.parametrize("name", CARRIERS)
def test_what_holds_a_table_is_refused(name):
    """A part of a table, in pieces or as a whole, that a function of a prior refers to."""
    with pytest.raises(
        PrivacyError, match=r"holds more than a few numbers or names.*function bounds"
    ) as found:
        public(lambda: held_by_a_prior(CARRIERS[name]()))
    assert not any(word in str(found.value) for word in ("Secretperson", "north", repr(float(Y[0]))))


class Softplus(pm.logprob.transforms.Transform):
    """A transform that maps positive numbers to the real line, by the inverse of the softplus function.

    It is smoother than the logarithm, and its Jacobian is a logistic function. Its parameters are attributes,
    so that the sharpness can be chosen: one is what most people want.
    """

    name = "softplus"

    def __init__(self, sharpness=1.0, lower=0.0):
        self.sharpness, self.lower = sharpness, lower

    def forward(self, value, *inputs):
        return pt.log(pt.expm1(self.sharpness * (value - self.lower)))

    def backward(self, value, *inputs):
        return pt.softplus(value) / self.sharpness + self.lower

    def log_jac_det(self, value, *inputs):
        return -pt.softplus(-value)


class Twice(OpFromGraph):
    """An operation of the user's."""

    __props__ = ("axis", "name")

    def __init__(self, axis):
        v = pt.scalar()
        super().__init__([v], [2 * v], inline=False)
        self.axis, self.name = axis, f"twice along {axis}"


@dataclasses.dataclass
class Setting:
    """What a user's program holds its numbers in."""

    lower: float = 0.0
    upper: float = 1.0
    name: str = "size of a tumour"


def draws(mu, sigma, rng=None, size=None):
    """Draw from a scaled t distribution.

    Parameters
    ----------
    mu, sigma : float
    """
    if np.any(sigma <= 0):
        raise ValueError(f"sigma must be larger than zero, and not {sigma}")
    return mu + sigma * rng.standard_t(4.0, size=size)


def custom():
    priors = [
        pm.CustomDist(f"b{k}", 0.0, 1.0, logp=lambda value, mu, sigma: -(value**2), random=draws)
        for k in range(8)
    ]
    return sum(priors)


def operations():
    prior = pm.Normal("b")
    for k in range(20):
        pm.Deterministic(f"twice {k}", Twice(k)(prior))
    return prior


def compiled_operation():
    """What PyTensor compiled of it has its own notes, and the last numbers that it was given."""
    v = pt.scalar()
    op = OpFromGraph([v], [pt.tanh(v) + v**2])
    assert float(op(pt.constant(0.5, dtype="float64")).eval()) > 0 and op._fn is not None
    function = op._fn
    op._fn = lambda *given, rows=tuple(Y): function(*given)
    return pm.Deterministic("d", op(pm.Normal("b")))


HONEST = {
    "numbers": lambda: held_by_a_prior(np.arange(20.0)),
    "a few of several kinds": lambda: held_by_a_prior(
        {"age": 0.5, "dose": np.float64(2), "site": ["n", "s"]}
    ),
    "settings": lambda: held_by_a_prior(Setting()),
    "a generator": lambda: held_by_a_prior(np.random.default_rng(1)),
    "an operation that was compiled": compiled_operation,
    "custom": custom,
    "transforms": lambda: sum(
        pm.HalfNormal(f"b{k}", transform=Softplus(), default_transform=None) for k in range(10)
    ),
    "one transform for all": lambda: sum(
        pm.HalfNormal(f"b{k}", transform=one, default_transform=None)
        for one in [Softplus()]
        for k in range(60)
    ),
    "initial values": lambda: sum(pm.Normal(f"b {k}|site[{k}]", initval=0.5) for k in range(60)),
    "groups that add up to zero": lambda: sum(
        pm.ZeroSumNormal(f"b{k}", shape=4)[np.arange(N) % 4] for k in range(20)
    ),
    "factors": lambda: sum(
        pm.LKJCholeskyCov(f"b{k}", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))[0].sum() for k in range(6)
    ),
    "operations": operations,
    "truncated": lambda: pm.Truncated("b", pm.Normal.dist(0, 1), lower=-1, upper=2),
    "weights": lambda: pm.Normal("b", pt.dot(KNOTS[:30], np.linspace(0, 1, 30)), 1),
    "walk": lambda: pm.AR("b", rho=[0.5, 0.2], sigma=1, steps=20, init_dist=pm.Normal.dist()).sum(),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_models_have_is_accepted(name, monkeypatch):
    """Control. As where it is defined in a notebook: with its code and not by its name."""
    for one in (Setting, Softplus, Twice, draws):
        monkeypatch.setattr(one, "__module__", "__main__")
    assert public(HONEST[name]).parts


@pytest.mark.parametrize(
    "start", [lambda: pd.Series(Y[:60], index=NAMES[:60]), lambda: np.array([*NAMES[:60]])]
)
def test_what_an_initial_value_has_beside_its_numbers_is_refused(start):
    """Control: a list of as many numbers, which is public as the initial value that it is."""
    assert public(lambda: pm.Normal("b", shape=60, initval=np.linspace(0, 1, 60).tolist()).sum()).parts
    graphs = PublicModel(few_records(N)).graphs
    free = {"b": graphs.free["b"]._replace(initial=start())}
    with pytest.raises(PrivacyError, match="more than a few"):
        Inspector(few_records(N)).inspect(graphs._replace(free=free).beside)


def test_what_a_function_refers_to_later_is_not_released():
    """A cache that was empty, and was filled when the likelihood had been released, went along with it."""
    cache = {}
    found = public(lambda: held_by_a_prior(cache))
    cache.update(zip(NAMES, Y.tolist(), strict=True))
    assert b"Secretperson" in cloudpickle.dumps(lambda: cache), "control"
    model = found.model(lambda phi: phi[0].sum())
    for one in (found, model.rvs_to_transforms[model["b"]]):
        assert b"Secretperson" not in cloudpickle.dumps(one)


@pytest.mark.parametrize(
    ("labels", "fit"),
    [
        ([f"clinic {k}" for k in range(GROUPS)], True),
        (np.arange(GROUPS), True),
        ([*TABLE.groupby(np.arange(N) % GROUPS)], False),
        (TABLE[:GROUPS].to_dict("records"), False),
        ([*TABLE[:GROUPS].to_records()], False),
    ],
    ids=["names", "numbers", "groups", "rows", "records"],
)
def test_coordinates_are_names_or_numbers(labels, fit):
    with pm.Model(coords={"clinic": labels}) as model:
        z = pm.Normal("z", dims="clinic")
        pm.Normal("y", z[np.arange(N) % GROUPS], 1, observed=Y)
    records = RecordModel(model, verify=False)
    if fit:
        assert PublicModel(records).parts
        return
    with pytest.raises(PrivacyError, match="Coordinates of 'clinic' have a") as found:
        PublicModel(records)
    assert "Secretperson" not in str(found.value)


class Column(enum.StrEnum):
    """Names of columns, and what reads one of them."""

    CLINIC = "clinic"

    def values(self):
        return TABLE["y"]


class Named(str):
    table = TABLE


@pytest.mark.parametrize("word", [Column.CLINIC, Named("clinic")], ids=["Enum", "text"])
def test_names_are_plain_text(word, monkeypatch):
    """A name that is a member of an Enum took its class along, and what that refers to."""
    monkeypatch.setattr(type(word), "__module__", "__main__")
    monkeypatch.setattr(Column.values, "__module__", "__main__")
    with pm.Model(coords={"group": [word, "other"]}) as model:
        z = pm.Normal(word, dims="group")
        pm.Deterministic(type(word)("sum") if type(word) is Named else "sum", z.sum())
        pm.Normal("y", z[np.arange(N) % 2], 1, observed=Y)
    found = PublicModel(RecordModel(model, verify=False))
    assert cloudpickle.dumps(word).count(b"Secretperson") > 100, "control"
    assert b"Secretperson" not in cloudpickle.dumps(found)
    assert [type(one) for one in (*found._order, *found._coords["group"])] == [str] * 5
    assert found.model(lambda phi: phi[0].sum()).free_RVs[0].name == "clinic"


def test_a_class_of_the_users_is_read_as_another_one(monkeypatch):
    """A cache of a transform's class, made after the release, was in the model that was read from it."""
    monkeypatch.setattr(Softplus, "__module__", "__main__")
    found = public(lambda: pm.HalfNormal("b", transform=Softplus(), default_transform=None))
    monkeypatch.setattr(Softplus, "seen", TABLE, raising=False)
    model = found.model(lambda phi: phi[0].sum())
    transform = model.rvs_to_transforms[model["b"]]
    assert type(transform) is not Softplus and not hasattr(transform, "seen")
    assert Softplus.seen is TABLE, "nor is the program's own changed"


@pytest.mark.parametrize("rows", [80, N])
def test_rows_one_by_one_are_a_table(rows):
    with pytest.raises(PrivacyError, match="more numbers written into it than its priors need"):
        public(lambda: pm.Normal("b", pt.stack([pt.constant(v) for v in Y[:rows]]).mean(), 1))
    assert public(lambda: pm.Normal("b", pt.stack([pt.constant(v) for v in Y[:20]]).mean(), 1)).parts


def test_what_cannot_be_written_is_refused_in_words():
    with pytest.raises(PrivacyError, match=r"cannot be written.*the function bounds"):
        public(lambda: held_by_a_prior(threading.Lock()))


@cache
def few_records(n):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b"), 1, observed=np.linspace(-1, 1, n))
    return RecordModel(model, verify=False)


@pytest.mark.parametrize(("n", "most"), [(400, 50), (51, 50), (30, 29), (22, 21), (20, 20), (5, 20)])
def test_fewer_numbers_than_there_are_records(n, most):
    Inspector(few_records(n)).inspect([1.5 * k for k in range(most)])
    for held in ([1.5 * k for k in range(most + 1)], [np.ones(most), np.ones(1)]):
        with pytest.raises(PrivacyError, match="more than a few"):
            Inspector(few_records(n)).inspect(held)


def test_what_is_declared_is_public_and_what_looks_like_it_is_not():
    """The array itself or its numbers, also sparse ones; of the same shape, others are none of it."""
    weights, near = RNG.normal(size=GROUPS), scipy.sparse.random(60, 60, 0.1, format="csr", random_state=1)

    def prior(held):
        total = pytensor.sparse.structured_dot(pytensor.sparse.as_sparse(near), pt.ones((60, 1))).sum()
        return held_by_a_prior(held) + pm.Normal("c", pt.as_tensor(weights).sum() + total)

    declared = {"public": [weights, "c.array_1"]}
    assert public(lambda: prior([weights, weights.copy(), near.copy()]), **declared).parts
    for other in (Y[:GROUPS], weights + 1e-9, near * 2):
        with pytest.raises(PrivacyError, match="more than a few"):
            public(lambda held=other: prior(held), **declared)


def test_zeros_that_stand_in_for_records_make_no_array_public():
    """A prior asks how many columns there are: zeros take the place of the table."""

    def prior(held):
        return held_by_a_prior(held) + pm.Normal("c", shape=pm.Data("x", X).shape[1]).sum()

    assert public(lambda: prior(None)).parts  # control
    with pytest.raises(PrivacyError, match="more than a few"):
        public(lambda: prior(np.zeros(X.shape)))


def test_knots_of_a_distribution_of_the_users():
    """Its graph reads them, and the function that made the graph refers to them."""

    def prior():
        return pm.CustomDist(
            "b", 1.0, dist=lambda s, size: pm.Normal.dist(pt.as_tensor(KNOTS).sum(), s, size=size)
        )

    assert public(prior, public=[KNOTS]).parts
