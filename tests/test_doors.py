"""Ways round the private step: what runs beside it, what is joined to its result, what it is named."""

import copy
import inspect
import json

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.step_methods.arraystep import ArrayStep

import pymc_dp as dp
from pymc_dp import sampling
from pymc_dp.privacy.budget import facts
from pymc_dp.results import digest_of
from tests.conftest import simple_data
from tests.test_release import RELEASED_STATS

ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 2}
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
SAMPLE = pm.sample
PATIENTS = [f"patient-{i:04d}" for i in range(60)]
DATES = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")


@pytest.fixture(scope="module")
def model():
    x, y = simple_data()
    coords = {"patient": PATIENTS, "feature": ["age", "dose"], "date": DATES}
    with pm.Model(coords=coords) as model:
        data = pm.Data("x", x, dims=("patient", "feature"))
        beta = pm.Normal("beta", 0, 2, dims="feature")
        scale = pm.HalfNormal("scale", 1)
        pm.Deterministic("level", beta.sum() + pm.math.stack([scale, -scale]), dims="date")
        pm.Deterministic("positive", beta > 0)
        pm.Bernoulli("y", logit_p=scale * (data @ beta), observed=y, dims="patient")
    return model


def make(model, **kwargs):
    return dp.DPPenaltyMH(**{**ARGS, "model": model, **kwargs})


def run(model, step=None, draws=4, tune=2, chains=2, **kwargs):
    with model:
        return pm.sample(
            draws, tune=tune, chains=chains, cores=1, step=make(model) if step is None else step,
            discard_tuned_samples=False, **QUIET, **kwargs
        )  # fmt: skip


@pytest.fixture(scope="module")
def raw(model):
    return run(model)


@pytest.fixture(scope="module")
def other(model):
    """Another call, with the same settings."""
    return run(model)


def edited(idata, **groups):
    """The object with other groups."""
    kept = {str(name): node.to_dataset() for name, node in idata.children.items()}
    return xr.DataTree.from_dict({**kept, **groups})


def joined(parts, dim="chain"):
    """Results put together along a dimension, as `az.concat` does."""
    groups = sorted(set.intersection(*[set(part.children) for part in parts]))
    datasets = {group: [part[group].to_dataset() for part in parts] for group in groups}
    how = {"data_vars": "all", "coords": "minimal", "compat": "override", "join": "outer"}
    return xr.DataTree.from_dict(
        {group: xr.concat(found, dim, **how) for group, found in datasets.items() if dim in found[0].dims}
    )


# other steps


class Moves(ArrayStep):
    """A step without sampler stats that puts its variables somewhere else."""

    name = "moves"
    stats_dtypes_shapes = {}  # noqa: RUF012

    def __init__(self, vars, **kwargs):
        self.model = pm.modelcontext(None)
        super().__init__([self.model.rvs_to_values[v] for v in vars], [self.model.compile_logp()])

    def astep(self, apoint, *args):
        return apoint + 1.0, [{}]


@pytest.mark.parametrize("first", [True, False], ids=["private first", "other first"])
@pytest.mark.parametrize("kind", [Moves, pm.Slice, "private"])
def test_a_step_beside_the_private_one_is_refused(model, kind, first, monkeypatch):
    """One draw and one chain: the private step never sees that its point was moved, before or after."""
    with model:
        step = make(model, chains=1)
        other = make(model, chains=1) if kind == "private" else kind([model["beta"]])
        steps = [step, other] if first else [other, step]
        for early_check in (True, False):  # PyMC might stop asking for the columns of its progress bar
            if not early_check:
                monkeypatch.setattr(dp.DPPenaltyMH, "_progressbar_config", lambda self, chains=1: ([], {}))
            with pytest.raises(dp.errors.PrivacyError, match="not alone") as caught:
                run(model, steps, draws=1, tune=0, chains=1)
            assert type(other).__name__ in str(caught.value)


def test_a_list_of_the_private_step_is_not_another_step(model):
    idata = run(model, [make(model, chains=1)], draws=1, tune=0, chains=1)
    assert dp.release(idata).posterior.sizes["draw"] == 1


@pytest.mark.parametrize("group", ["posterior", "warmup_posterior"])
@pytest.mark.parametrize("name", ["beta", "scale"])
def test_a_draw_that_the_private_step_did_not_leave_is_refused(raw, group, name):
    """What another step does to the last draw, or an interrupted run's, however it came to run."""
    moved = raw[group].to_dataset().copy(deep=True)
    moved[name][1, -1] += 0.01
    with pytest.raises(dp.errors.PrivacyError, match="not those that the private step left"):
        dp.release(edited(raw, **{group: moved}))


def test_a_release_holds_what_the_step_left_to_the_last_bit(raw):
    """Values too close to tell, and Deterministics, are not refused and not taken from the object either."""
    moved = raw.posterior.to_dataset().copy(deep=True)
    moved["beta"] = moved["beta"] * (1 + 1e-9)
    moved["level"] = moved["level"] + 5
    released = dp.release(edited(raw, posterior=moved)).posterior
    for name in released.data_vars:
        np.testing.assert_allclose(released[name], raw.posterior[name], rtol=1e-14)
        assert released[name].dtype == raw.posterior[name].dtype
    np.testing.assert_array_equal(released["beta"], raw.posterior["beta"])
    assert set(released.data_vars) == {"beta", "scale", "level", "positive"}


@pytest.mark.parametrize("secret", [0.123456789, -7e300, np.nan], ids=str)
def test_sampler_stats_are_those_that_the_step_left(raw, secret):
    """Decisions and noisy shares are what is paid for: what stands in the object is not looked at."""
    released, groups = dp.release(raw), {}
    names = sorted(RELEASED_STATS)
    for group in ("sample_stats", "warmup_sample_stats"):
        put = raw[group].to_dataset().copy(deep=True)
        for name in names:
            put[name] = put[name].astype(float) * 0 + secret
        groups[group] = put
    forged = edited(raw, **groups)
    assert digest_of(dp.release(forged)) == digest_of(released)
    assert dp.privacy_report(forged).clip_fractions == dp.privacy_report(released).clip_fractions
    for group in groups:
        for name in names:
            np.testing.assert_array_equal(released[group][name], raw[group][name])
            assert released[group][name].dtype == raw[group][name].dtype


def test_another_runs_decisions_beside_these_draws_are_not_released(raw, other):
    released = dp.release(raw)
    mixed = raw.sample_stats.to_dataset().assign({name: other.sample_stats[name] for name in RELEASED_STATS})
    assert not np.array_equal(mixed["clip_fraction"][:, -1], raw.sample_stats["clip_fraction"][:, -1])
    assert digest_of(dp.release(edited(raw, sample_stats=mixed))) == digest_of(released)


@pytest.mark.parametrize("where", [slice(None), slice(0, 1), slice(1, 2)], ids=str)
def test_draws_beside_another_calls_facts_are_refused(raw, other, where):
    """All draws, or those of one chain: what was paid for them is not what the facts say."""
    groups = {}
    for group in ("sample_stats", "warmup_sample_stats"):
        mixed = raw[group].to_dataset().copy(deep=True)
        mixed[facts.DRAW][where] = other[group][facts.DRAW].values[where]
        groups[group] = mixed
    with pytest.raises(dp.errors.PrivacyError, match="several runs"):
        dp.release(edited(raw, **groups))


def test_a_variable_that_was_put_there_is_not_released(raw):
    put = raw.posterior.to_dataset().assign(secret=raw.posterior["beta"])
    assert "secret" not in dp.release(edited(raw, posterior=put)).posterior


# joined results


def test_the_parts_of_a_join_are_accepted(raw, other):
    """Control: each by itself, one chain of it, some of its draws, and their release joined."""
    for idata in (raw, other, raw.isel(chain=[1]), raw.isel(draw=slice(1, None, 2)), joined([raw])):
        assert dp.release(idata).posterior["beta"].sizes["feature"] == 2
    assert joined([dp.release(raw), dp.release(other)]).posterior.sizes["chain"] == 4


@pytest.mark.parametrize("settings", [{}, {"epsilon": 1.0}, {"debug_seed": 1}, {"chains": 1}], ids=str)
def test_results_of_two_calls_are_refused(model, raw, other, settings):
    chains = settings.get("chains", 2)
    second = run(model, make(model, **settings), chains=chains) if settings else other
    for dim in ("chain", "draw"):
        first = raw.isel(chain=slice(chains)) if dim == "draw" else raw
        for parts in ([first, second], [second, first]):
            for function in (dp.release, dp.privacy_report):
                with pytest.raises(dp.errors.PrivacyError, match="several runs"):
                    function(joined(parts, dim))


@pytest.mark.parametrize("group", ["sample_stats", "warmup_sample_stats"])
@pytest.mark.parametrize("where", [(1, 0), (0, -1)], ids=str)
def test_one_draw_with_facts_of_its_own_is_refused(raw, group, where):
    """The first chain's first draw is not asked for all."""
    stats = raw[group].to_dataset().copy(deep=True)
    stats[facts.STAT].values[where][-1] ^= 1
    with pytest.raises(dp.errors.PrivacyError, match="their facts differ"):
        dp.release(edited(raw, **{group: stats}))


def spread(long=40_000, draws=200, chains=2, run=0):
    """What two chains carry of facts that are long, and the facts."""
    text = np.random.default_rng(run).bytes(long).hex()
    carried = facts.parts({"text": text}, draws)
    one = np.stack([carried[k % len(carried)] for k in range(draws)])
    return np.stack([one] * chains), facts.encode({"text": text})


def test_long_facts_are_spread_over_draws():
    stored, whole = spread()
    assert stored.nbytes < 2 * 200 * whole.size / 12  # all of them at each draw: the control
    for some in (slice(None), slice(80, None), slice(None, None, 2), slice(3, None, 3)):
        for chains in (slice(None), slice(1, 2)):
            np.testing.assert_array_equal(facts.together([stored[chains, some]]), whole)
    np.testing.assert_array_equal(facts.together([stored[:, :50], stored[:, 50:]]), whole)
    np.testing.assert_array_equal(facts.together([stored[:, :13]]), whole)  # of a run that was interrupted
    with pytest.raises(dp.errors.PrivacyError, match="Too few draws"):
        facts.together([stored[:, :12]])


def test_thinned_draws_have_all_of_long_facts():
    stored, whole = spread(draws=1000, chains=1)
    for step in range(1, 24):  # with one order of parts the 13th draws would have one of them
        np.testing.assert_array_equal(facts.together([stored[:, ::step]]), whole)


@pytest.mark.parametrize("where", [(0, 0, -1), (1, 7, 60), (0, 30, 3), (1, 0, 13)], ids=str)
def test_damaged_parts_are_refused(where):
    stored, _ = spread()
    stored[where] ^= 1
    with pytest.raises(dp.errors.PrivacyError, match="facts differ"):
        facts.together([stored])
    with pytest.raises(dp.errors.PrivacyError):
        facts.together([stored[where[0] : where[0] + 1, where[1] : where[1] + 13]])


def test_parts_of_two_runs_are_refused():
    with pytest.raises(dp.errors.PrivacyError, match="several runs"):
        facts.together([spread()[0], spread(run=1)[0]])
    with pytest.raises(dp.errors.PrivacyError, match="several runs"):
        facts.together([spread()[0], spread(long=100)[0]])
    with pytest.raises(dp.errors.PrivacyError, match=r"damaged|several runs"):
        facts.together([spread()[0][:, :, :0]])


def test_few_draws_have_all_of_long_facts():
    stored, whole = spread(draws=4)
    np.testing.assert_array_equal(facts.together([stored[:, 2:3]]), whole)


@pytest.mark.parametrize("dim", ["chain", "draw"])
def test_a_draw_is_released_once(raw, dim):
    with pytest.raises(dp.errors.PrivacyError, match="twice"):
        dp.release(joined([raw, raw], dim))


def test_warm_up_beside_the_draws_is_paid_for_and_counted_once(raw):
    pairs = {name: [raw[f"warmup_{name}"].to_dataset(), raw[name].to_dataset()] for name in
             ("posterior", "sample_stats")}  # fmt: skip
    both = xr.DataTree.from_dict({name: xr.concat(pair, "draw") for name, pair in pairs.items()})
    assert dp.release(both).posterior.sizes["draw"] == 6
    warm_up = {f"warmup_{name}": pair[0] for name, pair in pairs.items()}
    with pytest.raises(dp.errors.PrivacyError, match="twice"):
        dp.release(edited(both, **warm_up))


def stamped(raw, **changes):
    """The result with other facts."""
    known = dp.results.facts_of(raw)
    array = facts.encode({**known, "plan": {**known["plan"], **changes.pop("plan", {})}, **changes})
    groups = {}
    for name in ("sample_stats", "warmup_sample_stats"):
        stats = raw[name].to_dataset().drop_vars([facts.STAT, "privacy_facts_dim_0"], errors="ignore")
        dims = ("chain", "draw", "privacy_facts_dim_0")
        groups[name] = stats.assign({facts.STAT: (dims, np.tile(array, (2, stats.sizes["draw"], 1)))})
    return edited(raw, **groups)


@pytest.mark.parametrize("plan", [{"chains": 1}, {"draws": 3}, {"tune": 0, "draws": 5}], ids=str)
def test_no_more_chains_and_draws_than_the_plan_has(raw, plan):
    dp.release(stamped(raw))  # control
    with pytest.raises(dp.errors.PrivacyError, match="not paid for"):
        dp.release(stamped(raw, plan=plan))


def test_facts_of_another_format_are_refused(raw):
    for wrong in (*range(1, facts.FORMAT), facts.FORMAT + 1, None):
        with pytest.raises(dp.errors.PrivacyError, match="format"):
            dp.release(stamped(raw, format=wrong))


@pytest.mark.parametrize("lost", sorted(facts.Facts.__required_keys__))
def test_facts_that_lack_an_entry_are_refused(raw, lost):
    text = json.dumps(
        {k: v for k, v in {"format": facts.FORMAT, **dp.results.facts_of(raw)}.items() if k != lost}
    )
    with pytest.raises(dp.errors.PrivacyError, match="damaged"):
        facts.read(text)


@pytest.mark.parametrize(
    "text", ["", "7", "null", "[]", "{}", "{", '{"format": 4}', '{"format": 4, "plan": 3}']
)
def test_damaged_facts_are_refused(raw, text):
    with pytest.raises(dp.errors.PrivacyError):
        facts.read(text)
    broken = raw.copy()
    broken.attrs[facts.STAT] = text
    dp.release(broken)  # the stats count, not the attributes
    for function in (dp.release, dp.privacy_report):
        with pytest.raises(dp.errors.PrivacyError):
            function(xr.DataTree(xr.Dataset(attrs={facts.STAT: text})))


def test_damaged_records_of_draws_are_refused(raw):
    stats = raw.sample_stats.to_dataset()
    short = stats.isel({dim: slice(-1) for dim in stats[facts.DRAW].dims[2:]})
    floats = stats.assign({facts.DRAW: stats[facts.DRAW].astype(float)})
    for damaged in (short, floats):
        with pytest.raises(dp.errors.PrivacyError, match="damaged"):
            dp.release(edited(raw, sample_stats=damaged))
    with pytest.raises(dp.errors.PrivacyError, match="does not say"):
        dp.release(edited(raw, sample_stats=stats.drop_vars(facts.DRAW)))
    for name in (facts.STAT, facts.DRAW):
        with pytest.raises(dp.errors.PrivacyError):
            dp.release(edited(raw, sample_stats=stats.assign({name: stats[name].isel(draw=0)})))
    with pytest.raises(dp.errors.PrivacyError, match="isel"):
        dp.release(raw.isel(chain=0))
    with pytest.raises(dp.errors.PrivacyError, match="has shape"):
        dp.release(edited(raw, posterior=raw.posterior.to_dataset().isel(feature=[0])))


def test_attributes_are_no_way_round(raw, other):
    released = dp.release(raw)
    exact = xr.DataTree.from_dict({"posterior": raw.posterior.to_dataset() + 1})  # of another sampler
    exact.attrs = dict(released.attrs)
    stripped = edited(raw, sample_stats=raw.sample_stats.to_dataset().drop_vars([facts.STAT, facts.DRAW]))
    stripped.attrs = dict(released.attrs)
    changed = released.copy(deep=True)
    changed["posterior"]["beta"][0, 0] += 1
    grown = edited(released, observed_data=raw.observed_data.to_dataset())
    grown.attrs = dict(released.attrs)
    renamed = released.copy()
    renamed["posterior"] = released.posterior.to_dataset().assign_coords(feature=["Ann", "Bob"])
    for forged in (exact, stripped, changed, renamed, released.isel(draw=slice(2))):
        with pytest.raises(dp.errors.PrivacyError, match="was changed after it was made"):
            dp.release(forged)
        assert dp.privacy_report(forged).changed
        assert "not what was released" in str(dp.privacy_report(forged))
    # What was added to a release is named, and left out of the next one.
    assert dp.privacy_report(grown).not_released == ["observed_data"]
    with pytest.warns(
        dp.errors.NotPrivateWarning, match="also holds observed_data, which no private step made"
    ):
        again = dp.release(grown)
    assert set(again.children) == set(released.children)
    assert again.attrs[facts.DIGEST] == released.attrs[facts.DIGEST]
    pasted = raw.copy()
    pasted.attrs = dict(dp.release(other).attrs)
    assert dp.privacy_report(pasted).facts["call"] == dp.privacy_report(raw).facts["call"]


def test_a_release_may_be_released_again_and_read_from_a_file(raw, tmp_path):
    released = dp.release(raw)
    released.to_netcdf(tmp_path / "released.nc", engine="netcdf4")
    from_file = xr.open_datatree(tmp_path / "released.nc", engine="netcdf4")
    from_file["posterior"]["beta"].attrs["note"] = "Ann"
    from_file["posterior"].attrs["note"] = "Ann"
    for again in (dp.release(released), dp.release(from_file)):
        assert digest_of(again) == released.attrs[facts.DIGEST]
        assert not dp.privacy_report(again).changed
        assert "Ann" not in json.dumps(again.to_dict(), default=str)


@pytest.mark.parametrize("secret", ["Ann", 41.5, np.arange(3.0)], ids=str)
def test_nothing_that_was_put_on_a_release_survives_a_second_one(raw, secret):
    """Encodings, attributes, what a type is told, digits beyond double precision."""
    released = dp.release(raw)
    put = released.copy(deep=True)
    for group in put.children:
        dataset = put[group].to_dataset()
        for name in list(dataset.variables):
            if dataset[name].dtype == np.float64 and name in dataset.data_vars:
                told = np.dtype(np.float64, metadata={"note": secret})
                finer = dataset[name].values * (1 + np.finfo(np.longdouble).eps)
                values = finer if name == "scale" else dataset[name].values.astype(told)
                dataset[name] = (dataset[name].dims, values)
            dataset[name].encoding["note"] = dataset[name].attrs["note"] = secret
        dataset.encoding["note"] = dataset.attrs["note"] = secret
        put[group] = xr.DataTree(dataset)
    put.encoding["note"] = put.attrs["note"] = secret
    again = dp.release(put)
    assert digest_of(again) == released.attrs[facts.DIGEST]
    for node in again.subtree:
        assert not node.encoding
        for variable in node.dataset.variables.values():
            assert not variable.encoding and not variable.attrs
            assert not variable.dtype.metadata
    assert json.dumps(again.to_dict(), default=str) == json.dumps(released.to_dict(), default=str)


@pytest.mark.parametrize("wrong", [None, {}, np.zeros(3), xr.Dataset()], ids=lambda w: type(w).__name__)
def test_what_is_no_result_is_refused(wrong):
    for function in (dp.release, dp.privacy_report):
        with pytest.raises(TypeError, match=r"takes the xarray\.DataTree"):
            function(wrong)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:Tuning samples:UserWarning")
def test_a_multitrace_is_refused_with_advice(model):
    trace = run(model, make(model, chains=1), draws=2, tune=0, chains=1, return_inferencedata=False)
    with pytest.raises(TypeError, match="return_inferencedata=False"):
        dp.release(trace)


# names


@pytest.fixture(scope="module")
def named(model):
    """A result with names that were given when it was sampled."""
    kwargs = {
        "coords": {"feature": ["Ann", "Bob"], "person": ["Carol", "Dave"]},
        "dims": {"level": ["person"], "positive": ["feature"]},
    }
    return run(model, idata_kwargs=kwargs)


def test_names_are_those_that_the_model_declares(named, raw):
    assert {"Ann", "Carol"} <= set(
        np.ravel([*named.posterior["feature"].values, *named.posterior["person"].values])
    )
    for idata in (named, raw):
        released = dp.release(idata)
        text = json.dumps(released.to_dict(), default=str)
        assert not any(name in text for name in ("Ann", "Bob", "Carol", "Dave", "person", "patient"))
        assert list(released.posterior["feature"].values) == ["age", "dose"]
        assert released.posterior["level"].dims == ("chain", "draw", "date")
        np.testing.assert_array_equal(released.posterior["date"], DATES)
        assert released.posterior["date"].dtype == DATES.dtype
        assert released.posterior["positive"].dims == ("chain", "draw", "positive_dim_0")


def test_no_name_is_taken_from_the_object(raw):
    """Chains and draws that are called after persons, attributes, coordinates without a dimension."""
    groups = {}
    for name, node in raw.children.items():
        dataset = node.to_dataset().assign_coords(who=7) if "draw" in node.dims else node.to_dataset()
        if "chain" in dataset.dims:
            dataset = dataset.assign_coords(chain=[11111, 22222])
        dataset.attrs |= {"created_at": "Ann", "tuning_steps": 33333, "inference_library": "Ann"}
        groups[str(name)] = dataset
    text = json.dumps(dp.release(edited(raw, **groups)).to_dict(), default=str)
    assert not any(secret in text for secret in ("Ann", "who", "11111", "33333"))


@pytest.mark.parametrize(
    "values",
    [["a", "b"], [1, 2], [1.5, 2.5], [True, False], DATES, [("a", 1), ("b", 2)], ["a", 3], [None, "b"]],
    ids=str,
)
def test_coordinates_survive_as_numbers_dates_or_text(values):
    stored = json.loads(json.dumps(facts.encode_coordinate(values)))
    found = facts.decode_coordinate(stored)
    plain = np.asarray(values, dtype=object).ndim == 1 and np.asarray(values).dtype.kind in "biufM"
    np.testing.assert_array_equal(found, np.asarray(values) if plain else [str(v) for v in values])


# copies, and models that change


def test_a_step_is_not_copied(model):
    step = make(model)
    for function in (copy.copy, copy.deepcopy):
        with pytest.raises(dp.errors.BudgetError, match="Make a new step"):
            function(step)


def test_a_stored_step_does_not_outlive_its_original(model):
    step = make(model)
    stored = cloudpickle.dumps(step)
    step._call._finalizer()  # what the end of the original does
    with pytest.raises(dp.errors.BudgetError, match=r"was stored.*Make a new step"):
        dp.sample(cloudpickle.loads(stored), draws=2, tune=0, **QUIET)


def test_a_stored_step_and_its_original_have_one_budget(model):
    step = make(model, chains=1)
    stored = cloudpickle.loads(cloudpickle.dumps(step))
    rng = np.random.default_rng(0)
    stored.setup_chain(rng, 0, 2)
    for again in (step, cloudpickle.loads(cloudpickle.dumps(step))):
        with pytest.raises(dp.errors.BudgetError, match="already used"):
            again.setup_chain(rng, 0, 2)


def test_another_model_is_refused(model):
    with pytest.raises(ValueError, match="another model"):
        dp.sample(make(model), draws=2, tune=0, model=pm.Model(), **QUIET)


@pytest.mark.parametrize("add", ["variable", "potential"])
def test_a_model_that_grew_is_refused(add):
    x, y = simple_data()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        step = make(model)
        if add == "variable":
            pm.Normal("later")
        else:
            pm.Potential("later", -(beta[0] ** 2))
    for sample in (dp.sample, lambda step, **kwargs: pm.sample(step=step, model=model, **kwargs)):
        with pytest.raises(dp.errors.ModelRefusedError, match="later added"):
            sample(step, draws=2, tune=0, chains=2, cores=1, **QUIET)


REFUSED = {"nuts_sampler", "trace", "return_inferencedata", "idata_kwargs"}
OWN = {"draws", "tune", "chains", "step", "model", "kwargs"}  # dp.sample's own, or checked against the step


def test_sample_takes_what_pymc_takes(monkeypatch):
    """Every argument of this PyMC's pm.sample goes on to it as it is, or is refused by name."""
    with pm.Model():
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1, observed=np.zeros(50))
        step = dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=1.0, chains=1)
    given = {}
    monkeypatch.setattr(pm, "sample", lambda *args, **kwargs: given.update(kwargs))
    monkeypatch.setattr(sampling, "release", lambda result: result)
    names = set(inspect.signature(SAMPLE).parameters) - OWN
    assert {"cores", "random_seed", "initvals", "callback", "compile_kwargs", "quiet"} <= names
    for name in names:
        value = object()
        if name in REFUSED:
            with pytest.raises(TypeError, match=name):
                dp.sample(step, **{name: value})
            continue
        dp.sample(step, **{name: value})
        assert given.pop(name) is value


def test_any_character_of_a_label_changes_the_digest():
    """NumPy's texts lose zeros at their ends."""

    def digest(label):
        labels = {"who": np.array(["a", label], dtype=object)}
        return digest_of(xr.DataTree.from_dict({"posterior": xr.Dataset({"x": ("who", [1.0, 2.0])}, labels)}))

    assert len({digest("b"), digest("b\0"), digest("b ")}) == 3
