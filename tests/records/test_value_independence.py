"""What is decided about a model does not depend on a value: the same model of other persons reads the same.

For every model of the zoo and every private array of it: other values, the same decision, message and
structure. And every leak is refused, for its reason, whatever the values are.
"""

import functools
import re

import numpy as np
import pytest
from pytensor.printing import debugprint

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import other_records
from pymc_dp.records.model import RecordModel
from tests.records.derivatives import predictors_of
from tests.records.leaks import LEAKS, LEFT_OUT, REASONS
from tests.records.test_predictors import summary
from tests.records.zoo import CONTAINERS, LARGE, ZOO

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*imputed.*", "ignore:.*rng.*:DeprecationWarning", "ignore:.*axes.*:DeprecationWarning"
)


def replacements(entry, name):
    """Other values of one array: name of the replacement -> array."""
    array = entry.arrays[name]
    rng = np.random.default_rng(0)
    other = array.copy()
    if array.dtype.kind == "b":
        found = {"all False": np.zeros_like(array), "all True": np.ones_like(array)}
        other.flat[0] = ~other.flat[0]
    elif array.dtype.kind == "f":
        constants = {
            "zeros": 0.0,
            "ones": 1.0,
            "inf": np.inf,
            "-inf": -np.inf,
            "1e300": 1e300,
            "-1e300": -1e300,
            "NaN": np.nan,
        }
        found = {k: np.full_like(array, v) for k, v in constants.items()}
        other.flat[0] = 3.5
        for k, v in {"one NaN": np.nan, "one inf": np.inf, "one 1e300": 1e300}.items():
            found[k] = array.copy()
            found[k].flat[1] = v
    else:
        low, high = entry.valid[name]
        found = {"smallest": np.full_like(array, low), "largest": np.full_like(array, high)}
        other.flat[0] = high if other.flat[0] != high else low
        if low <= 0 <= high:
            found["zeros"] = np.zeros_like(array)
        if low <= 1 <= high:
            found["ones"] = np.ones_like(array)
    return found | {"one entry": other, "permuted": rng.permutation(array.ravel()).reshape(array.shape)}


#: The one or two that say most: a constant array is what compilers simplify, extremes are what checks notice.
WORST = {"b": ["all False"], "f": ["zeros", "one NaN"], "i": ["smallest", "one entry"]}


def decision(entry, build):
    """What was decided: the structure, or the words of the refusal."""
    try:
        return "accepted", without_addresses(structure(RecordModel(build(), **entry.kwargs)))
    except ModelRefusedError as refusal:
        return "refused", str(refusal)


def structure(records):
    """Everything that was decided from the graph; the same for all values of the records."""
    reading, seen, found = records.reading, records.coordinates, predictors_of(records)
    stand_ins, rows = other_records.symbolic_rows(records._terms, records._roots, records.n_rows)
    return {
        "arrays": reading.arrays,
        "variables": reading.variables,
        "roots": [(v.name, axis, str(v.type)) for v, axis in records._roots.items()],
        "kept": [debugprint(c, file="str") for c in reading.conditions],
        "stripped": [debugprint(c, file="str") for c in reading.stripped],
        "likelihood": debugprint([rows], file="str"),
        "prior": debugprint([records._log_prior], file="str"),
        "coordinates": (seen.identity, seen.size, [(n, p.start, p.stop) for n, p in seen.names]),
        "inputs": [str(v.type) for v in stand_ins.values()],
        "predictors": None if found is None else summary(found),
        "released": reading.released,
        "withheld_dims": reading.withheld_dims,
        "trusted": reading.trusted,
        "shape": (records.n, records.n_rows, records.d, records.shapes),
    }


def without_addresses(found):
    """The same, without the addresses of Python objects that printed graphs show."""
    if isinstance(found, dict):
        return {key: without_addresses(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(without_addresses, found))
    return re.sub(r"0x[0-9a-f]+", "0x", found) if isinstance(found, str) else found


def with_arrays(entry, changed):
    """Decision on other values; None where PyMC itself makes another model of them.

    A NaN in a NumPy array that is passed as ``observed=`` becomes a parameter (imputation), and `pm.Data`
    refuses one: the graph is another, not what is made of it here.
    """
    try:
        with np.errstate(all="ignore"):
            model = entry.build({**entry.arrays, **changed})
    except NotImplementedError:
        return None
    if any(rv.name.endswith("_unobserved") for rv in model.free_RVs):
        return None
    return decision(entry, lambda: model)


@functools.cache
def own(name):
    entry = ZOO[name]
    return decision(entry, entry.build)


SMALL = [name for name in ZOO if next(iter(ZOO[name].arrays.values())).shape[0] < LARGE]
PAIRS = [(name, array) for name in ZOO for array in ZOO[name].arrays]


#: In the quick part one model in eight; in a run of all tests each.
SLOW = {name for number, name in enumerate(ZOO) if number % 8}


ALL = [(name, number % 2) for number, name in enumerate(ZOO)]
USUAL = [pytest.param(name, k, marks=pytest.mark.slow) if name in SLOW else (name, k) for name, k in ALL]
# What is left out of a run of all tests as well: pytest -m exhaustive.
EXHAUSTIVE = [pytest.mark.slow, pytest.mark.exhaustive]
REST = [pytest.param(name, 1 - k, marks=EXHAUSTIVE) for name, k in ALL]


@pytest.mark.parametrize(("name", "k"), [*USUAL, *REST])
def test_accepted_and_other_values_read_the_same(name, k):
    """All arrays at once, each by one of the two replacements that say most."""
    assert own(name)[0] == "accepted", own(name)[1]
    entry = ZOO[name]
    changed = {}
    for array, values in entry.arrays.items():
        worst = WORST[values.dtype.kind]
        changed[array] = replacements(entry, array)[worst[min(k, len(worst) - 1)]]
    found = with_arrays(entry, changed)
    if found is None:  # imputed: another extreme, then
        floats = {array for array in changed if changed[array].dtype.kind == "f"}
        changed |= {array: replacements(entry, array)["one 1e300"] for array in floats}
        found = with_arrays(entry, changed)
    assert found == own(name)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "array"), PAIRS)
def test_every_replacement_reads_the_same(name, array):
    entry = ZOO[name]
    compared = 0
    for values in replacements(entry, array).values():
        found = with_arrays(entry, {array: values})
        if found is not None:
            assert found == own(name)
            compared += 1
    assert compared >= 3


def test_sizes():
    """What this file looks at, printed with -s."""
    many = sum(len(replacements(ZOO[name], array)) for name, array in PAIRS)
    print(f"\n{len(ZOO)} models, {len(PAIRS)} arrays, {many} replacements; {len(LEAKS)} leaks")
    assert len(ZOO) >= 60 and len(LEAKS) >= 60


# one model in other containers


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize(
    "base",
    [
        "logit",
        *(pytest.param(base, marks=pytest.mark.slow) for base in ("logit_int8", "logit_bool", "robust_t")),
        "varying_intercepts",
    ],
)
def test_containers_read_the_same(base, name):
    entry = ZOO[base]
    put = CONTAINERS[name]
    if name in ("int8", "bool") and base != "logit":
        pytest.skip("another model")
    found, structure = decision(entry, lambda: entry.build(container=put))
    assert found == "accepted", structure
    assert counts(structure) == counts(own(base)[1])


def counts(structure):
    """What does not depend on how an array is called, stored and written into a graph."""
    same = {key: structure[key] for key in ("coordinates", "released", "withheld_dims", "trusted", "shape")}
    axes = sorted(axis for _, axis, _ in structure["roots"])
    variables = [(v.name, v.role) for v in structure["variables"]]
    return same, axes, variables, len(structure["kept"]), len(structure["stripped"])


# leaks

REFUSED = [name for name, leak in LEAKS.items() if leak.reason != LEFT_OUT]


@functools.cache
def own_refusal(name):
    return refusal(LEAKS[name])


def refusal(entry, arrays=None):
    try:
        with np.errstate(all="ignore"):
            model = entry.build(arrays)
        RecordModel(model, **entry.kwargs)
    except ModelRefusedError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", REFUSED)
def test_leak_is_refused_for_its_reason(name):
    leak = LEAKS[name]
    message = own_refusal(name)
    assert message is not None, "accepted"
    assert re.search(REASONS[leak.reason], message, re.DOTALL), message
    values = [f"{v:.3f}" for array in leak.arrays.values() if array.dtype.kind == "f" for v in array.flat]
    assert not any(value in message for value in values)


@pytest.mark.parametrize("name", REFUSED)
def test_leak_is_refused_whatever_the_values(name):
    leak = LEAKS[name]
    if leak.reason == "missing":
        pytest.skip("what is missing is what PyMC makes parameters of")
    changed = {a: replacements(leak, a)[WORST[v.dtype.kind][0]] for a, v in leak.arrays.items()}
    assert refusal(leak, changed) == own_refusal(name)


@pytest.mark.parametrize("name", [name for name in LEAKS if name not in REFUSED])
def test_a_deterministic_that_reads_rows_is_left_out_whatever_the_values(name):
    """Its name is said; it is not released, and what is compiled does not depend on it."""
    leak = LEAKS[name]
    changed = {a: replacements(leak, a)[WORST[v.dtype.kind][0]] for a, v in leak.arrays.items()}
    found = []
    for arrays in (None, changed):
        with np.errstate(all="ignore"):
            records = RecordModel(leak.build(arrays), verify=False, **leak.kwargs)
        roles = {v.name: v.role for v in records.reading.variables}
        (left_out,) = (name for name, role in roles.items() if role == "left out")
        free = [name for name, role in roles.items() if role == "sampled"]
        assert left_out in {d.name for d in records._model.deterministics}
        assert records.released_variables == free
        found.append(structure(records))
    assert found[0] == found[1]
