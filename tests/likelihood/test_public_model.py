"""The public part of a model: the same priors, and nothing private in it, whatever the model is."""

import datetime
import enum
import gc
from types import FunctionType, ModuleType

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_dp as dp
from pymc_dp.likelihood import left_out
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.records import gate, graph
from pymc_dp.records.model import RecordModel
from tests.records.zoo import ZOO

N, GROUPS = 60, 5


class Secrets:
    """Private arrays, none of whose numbers may be found anywhere; and names of persons."""

    def __init__(self, **arrays):
        floats = [np.ravel(a) for a in arrays.values() if a.dtype.kind == "f"]
        numbers = np.unique(np.concatenate([np.zeros(1), *floats]))
        # 1, 2.5 and infinity may be anywhere.
        self.numbers = np.array([v for v in numbers if len(repr(float(v))) > 12])
        kinds = [np.float64, np.float32, np.int64]
        self.arrays = [a.astype(t) for a in arrays.values() for t in (a.dtype, *kinds) if a.size > 20]

    def in_bytes(self, data):
        """Whether a number, or a whole array, is in a pickle."""
        for start in range(8):
            found = np.frombuffer(data, "<f8", (len(data) - start) // 8, start)
            if np.any(np.isin(found, self.numbers)):
                return True
        texts = [repr(float(value)).encode() for value in self.numbers]
        return any(text in data for text in texts) or any(a.tobytes() in data for a in self.arrays)

    def in_objects(self, root):
        """Whether an array or number that can be reached from an object is private."""
        seen, stack = set(), [root]
        while stack:
            value = stack.pop()
            if id(value) in seen or isinstance(value, ModuleType | type | FunctionType):
                continue
            seen.add(id(value))
            if isinstance(value, float | np.ndarray) and self._is_private(np.asarray(value)):
                return True
            stack.extend(gc.get_referents(value))
        return False

    def _is_private(self, array):
        if array.dtype.kind == "f" and np.any(np.isin(array, self.numbers)):
            return True
        return any(array.shape == a.shape and np.array_equal(array, a) for a in self.arrays)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(N, 2)),
        "y": rng.normal(size=N),
        "k": rng.integers(3, size=N),
        "group": rng.integers(GROUPS, size=N),
    }


def everything(x, y, k, group):
    """Dimensions, data, initial values, Deterministics, Potentials; y stands for the outcome of a person."""
    coords = {
        "person": [f"Secretperson{i}" for i in range(N)],
        "predictor": ["age", "dose"],
        "site": list("abcde"),
        "unused": ["Secretperson0", "Secretperson1"],
    }
    with pm.Model(coords=coords) as model:
        data = pm.Data("x", x, dims=("person", "predictor"))
        where = pm.Data("group", group, dims="person")
        scale = pm.Data("scale", np.array([0.5, 2.5]), dims="predictor")
        pm.Data("remark", np.arange(3.0))
        mean, tau = pm.Normal("mean", 0, 2, initval=0.25), pm.HalfNormal("tau", 1)
        z = pm.ZeroSumNormal("z", dims="site")
        level = pm.Deterministic("level", mean + tau * z, dims="site")
        slope = pm.Normal("slope", 0, scale, dims="predictor")
        by_shape = pm.Normal("by_shape", shape=data.shape[1])
        pm.Potential("soft", -((mean - slope.sum()) ** 2))
        mu = pm.Deterministic("mu", level[where] + data @ slope + data @ by_shape, dims="person")
        pm.Normal("y", mu, pm.HalfNormal("sigma", initval="prior"), observed=y, dims="person")
    return model


def lkj(x, y, k, group):
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
        pm.MvNormal("x", pm.Normal("mean", shape=2), chol=chol, observed=x)
    return model


def mixture(x, y, k, group):
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        mean = pm.Normal("mean", [-1, 1], 1, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("y", w, mean, 1, observed=y)
    return model


def ordinal(x, y, k, group):
    with pm.Model() as model:
        cut = pm.Normal("cut", [0, 1], 1, transform=pm.distributions.transforms.ordered, initval=[0.0, 1.0])
        pm.OrderedLogistic("k", x @ pm.Normal("b", shape=2), cut, observed=k, compute_p=False)
    return model


def hsgp(x, y, k, group):
    with pm.Model() as model:
        gp = pm.gp.HSGP(m=[4], L=[5.0], cov_func=pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ls", 2, 1)))
        _, sqrt_psd = gp.prior_linearized(np.array([[-5.0], [5.0]]))
        weights = pm.Normal("weights", shape=4)
        waves = pt.sin(np.pi / 10 * np.arange(1, 5) * (x[:, :1] + 5.0))
        pm.Normal("y", waves @ (weights * sqrt_psd), 1, observed=y)
    return model


MODELS = {f.__name__: f for f in (everything, lkj, mixture, ordinal, hsgp)}
KWARGS = {"everything": {"exclude_deterministics": ["mu"], "privacy_unit": np.arange(N) % 25}}


def quadratic(phi):
    """A function of phi that is not the same for any two parts."""
    return sum(-0.5 * (j + 1.5) * ((part - 0.3) ** 2).sum() for j, part in enumerate(phi))


def agree(records, model):
    """The same starting point; the same prior, with the quadratic of phi at a point on top of it."""
    start = model.initial_point(0)
    for name, value in records.reading.start.items():
        np.testing.assert_array_equal(start[name], value)
    seen = records.coordinates
    options = {"mode": gate.CHECK_MODE, "on_unused_input": "ignore"}
    outputs = [records._log_prior, seen.of_theta]
    log_prior, phi = pytensor.function([records._theta], outputs, **options)(theta := point(records))
    phi = PublicModel(records).near_zero.psi(phi)
    parts = np.split(phi, [columns.stop for columns in seen.columns.values()][:-1])
    values = records.unravel(theta)
    found = pytensor.function(model.value_vars, model.logp(), **options)(
        *[values[v.name] for v in model.value_vars]
    )
    np.testing.assert_allclose(found, log_prior + quadratic(parts), rtol=1e-9)


def point(records):
    return records._start + 0.3 * np.random.default_rng(1).normal(size=records.d)


def check(model, secrets, **kwargs):
    records = RecordModel(model, verify=False, **kwargs)
    public = PublicModel(records)
    made = public.model(quadratic)
    agree(records, made)
    for one in (made, public):
        assert not secrets.in_objects(one) and not secrets.in_bytes(cloudpickle.dumps(one))
    assert secrets.in_objects(model)  # control: the walk finds what is there
    return made, public


@pytest.mark.parametrize(
    "name", [m if m == "everything" else pytest.param(m, marks=pytest.mark.slow) for m in MODELS]
)
def test_nothing_private_is_in_it(name):
    private = rows()
    check(MODELS[name](**private), Secrets(**private), **KWARGS.get(name, {}))


# One of each kind of prior, coordinate and table.
KINDS = (
    "logit_of_data linear_dims robust_t zero_inflated_binomial ordered_logistic_initval softmax multinomial "
    "mv_normal_lkj varying_intercepts varying_slopes car walk_over_time gp_over_time hsgp_public_box "
    "random_walk_spline custom_dist shape_of_design sparse_constant interpolated_prior rows_of_persons "
    "potential_on_parameters two_observed"
).split()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_models_of_all_kinds(name):
    entry = ZOO[name]
    check(entry.build(), Secrets(**entry.arrays), **entry.kwargs)


def test_what_it_has():
    """Names, dimensions, coordinates and data; each model is one of its own."""
    model = everything(**rows())
    public = PublicModel(RecordModel(model, verify=False, **KWARGS["everything"]))
    made, other = public.model(quadratic), public.model(quadratic)
    names = ["scale", "mean", "tau", "z", "level", "slope", "by_shape", "soft", "sigma"]
    assert list(made.named_vars) == [*names, "likelihood"]
    assert [v.name for v in made.free_RVs] == [v.name for v in model.free_RVs]
    assert [v.name for v in made.value_vars] == [v.name for v in model.value_vars]
    assert [v.name for v in made.deterministics] == ["level"]
    assert [v.name for v in made.potentials] == ["soft", "likelihood"]
    assert not made.observed_RVs
    assert made.coords == {"predictor": ("age", "dose"), "site": tuple("abcde")}
    dims = {"scale": ("predictor",), "z": ("site",), "level": ("site",), "slope": ("predictor",)}
    assert made.named_vars_to_dims == dims
    assert made.rvs_to_initial_values[made["mean"]] == 0.25
    assert made.rvs_to_initial_values[made["sigma"]] == "prior"
    with made:
        pm.set_data({"scale": [7.0, 8.0]})
    for one in (other, model):
        np.testing.assert_array_equal(one["scale"].get_value(), [0.5, 2.5])


def test_names_in_words():
    parts = PublicModel(RecordModel(everything(**rows()), verify=False, **KWARGS["everything"])).parts
    assert [tuple(part) for part in parts] == [
        ("slope", (2,), "slope"),
        ("by_shape", (2,), "by_shape"),
        ("sigma_log__", (), "log(sigma)"),
        ("level", (5,), "mean + tau * z"),
    ]


def test_a_packed_factor_in_words():
    """What is written into a matrix of zeros."""
    group, x = np.arange(60) % 8, np.linspace(-1, 1, 60)
    with pm.Model() as model:
        mu, z = pm.Normal("mu", shape=2), pm.Normal("z", shape=(2, 8))
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=2))
        b = mu[:, None] + chol @ z
        pm.Normal("y", b[0, group] + b[1, group] * x, 1, observed=x)
    (part,) = PublicModel(RecordModel(model, verify=False)).parts
    assert part.expression == "mu + chol @ z"


def shaped(n):
    """A prior that asks how many columns a private table has; `n` rows."""
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        x = pm.Data("x", rng.normal(size=(n, 2)))
        pm.Normal("y", x @ pm.Normal("b", shape=x.shape[1]), 1, observed=rng.normal(size=n))
    return model


def test_the_number_of_rows_is_not_in_it_where_it_is_private():
    """Of persons that have several rows each."""
    found = [constants(shaped(n), privacy_unit=np.arange(n) % 30) for n in (61, 78)]
    assert found[0] == found[1] and 61 not in found[0]
    assert 61 in constants(shaped(61))  # control: where it is public, it is in


def constants(model, **kwargs):
    model = PublicModel(RecordModel(model, verify=False, **kwargs)).model(quadratic)
    leaves = graph.data_leaves([*model.free_RVs, *model.potentials])
    values = [graph.leaf_value(leaf) for leaf in leaves if hasattr(leaf.type, "ndim")]
    return sorted(float(value) for one in values for value in np.ravel(one))


def test_an_array_that_was_not_typed_is_refused():
    """The last look at the graphs, were the reader to take an array of records for public."""
    private = rows()
    records = RecordModel(mixture(**private), verify=False)
    free = records.reading.opaque.free["mean"]
    records.coordinates.sources[0] = free + pt.constant(private["y"]).sum()
    with pytest.raises(dp.errors.PrivacyError, match="as long as there are records"):
        PublicModel(records)


def test_coordinates_of_persons_are_left_out():
    """Also where a table that is declared as public has their dimension."""
    private, coords = rows(), {"person": [f"Secretperson{k}" for k in range(N)], "predictor": ["a", "b"]}
    with pm.Model(coords=coords) as model:
        table = pm.Data("table", np.ones((N, 2)), dims=("person", "predictor"))
        own = (table @ pm.Normal("b", dims="predictor"))[np.arange(N)[::-1]]
        pm.Normal("y", own, 1, observed=private["y"], dims="person")
    made, _ = check(model, Secrets(**private), public=["table"])
    assert made.named_vars_to_dims == {"table": (None, "predictor"), "b": ("predictor",)}
    assert made.coords == {"predictor": ("a", "b")}


def test_without_zeros_records_are_in_it(monkeypatch):
    """Control: where no zeros stand in for records, they are found in the graphs and in a pickle."""
    private = rows()
    records = RecordModel(everything(**private), verify=False, **KWARGS["everything"])
    for name in ("stand_ins", "read_by_shape"):
        monkeypatch.setattr(left_out, name, lambda given: {})
    public, secrets = PublicModel(records), Secrets(**private)
    assert secrets.in_objects(public.graphs) and secrets.in_bytes(cloudpickle.dumps(public))


PRIVATE = rows()
TABLE = pd.DataFrame({"person": [f"Secretperson{k}" for k in range(N)], "y": PRIVATE["y"]})


def by_site(labels, name="z"):
    with pm.Model(coords={"site": labels}) as model:
        z = pm.Normal(name, dims="site")
        pm.Normal("y", z[PRIVATE["group"]], 1, observed=PRIVATE["y"])
    return RecordModel(model, verify=False)


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
    """They are in what is sampled."""
    records = by_site(labels)
    if fit:
        assert PublicModel(records).parts
        return
    with pytest.raises(dp.errors.PrivacyError, match="Coordinates of 'site' have a") as found:
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
def test_names_are_plain_text(word):
    """A name that is a member of an Enum takes its class along, and what that refers to."""
    found = PublicModel(by_site([word, *"abcd"], word)).model(lambda phi: phi[0].sum())
    assert {type(one) for one in (*found.named_vars, *found.coords, *found.coords["site"])} == {str}
    assert found.free_RVs[0].name == "clinic" and type(found.free_RVs[0].name) is str


SHAPES = {
    "deterministic": lambda b, table: pm.Deterministic("total", b * table.shape[0]),
    "excluded": lambda b, table: pm.Deterministic("excluded", b * table.shape[0]),
    "potential": lambda b, table: pm.Potential("p", b / table.shape[1]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("table", [np.arange(360).reshape(120, 3), np.linspace(0, 1, 360).reshape(120, 3)])
def test_data_of_which_only_the_shape_is_read_is_not_published(name, table):
    with pm.Model() as model:
        b = pm.Normal("b")
        SHAPES[name](b, pm.Data("table", table))
        pm.Normal("y", b, 1, observed=PRIVATE["y"])
    records = RecordModel(model, verify=False, exclude_deterministics={"excluded"} & {*model.named_vars})
    made = PublicModel(records).model(lambda phi: phi[0].sum())
    leaves = graph.data_leaves([*made.basic_RVs, *made.deterministics, *made.potentials])
    values = [graph.leaf_value(v) for v in leaves if np.ndim(graph.leaf_value(v))]
    assert not made.data_vars and not any(np.any(value == table[-1, -1]) for value in values)
    for one in (*made.deterministics, *made.potentials[:-1]):
        assert one.eval({made["b"]: 1.0}) in (120.0, 1 / 3)


def test_data_is_known_by_itself_and_not_by_its_name():
    """Nothing reads this table, and an array that is read has its name."""
    with pm.Model() as model:
        pm.Data("grid", np.linspace(0, 1, 700))
        b = pm.Normal("b", pt.as_tensor(np.array([0.25, 0.75]), name="grid").sum())
        pm.Normal("y", b, 1, observed=PRIVATE["y"])
    assert not PublicModel(RecordModel(model, verify=False)).model(lambda phi: phi[0].sum()).data_vars


def test_time_zones_and_numbers_of_classes_of_the_users_are_no_labels():
    class Zone(datetime.tzinfo):
        def utcoffset(self, when):
            return datetime.timedelta(0)

    class Number(np.float64):
        rows = TABLE

    days = [datetime.datetime(2020, 1, k + 1, tzinfo=datetime.UTC) for k in range(GROUPS)]
    assert PublicModel(by_site(days)).parts  # control
    for labels in ([day.replace(tzinfo=Zone()) for day in days], [Number(k) for k in range(GROUPS)]):
        with pytest.raises(dp.errors.PrivacyError, match="Coordinates of 'site' have a"):
            PublicModel(by_site(labels))
