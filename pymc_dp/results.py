"""Reading of a private step's result: its facts, and what the step recorded at each draw."""

import hashlib
import json

import numpy as np
from xarray import DataArray, Dataset, DataTree

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.mechanisms.iterations import NoDecision

# Groups of draws, and the groups in which PyMC keeps their sampler stats.
GROUPS = {"posterior": "sample_stats", "warmup_posterior": "warmup_sample_stats"}
AT_PUBLIC_INPUTS = "dp.predict draws at public inputs."


def facts_of(idata: DataTree) -> Facts:
    """Read the facts of a run, from a result of `pymc.sample`, `sample` or `release`, or a saved one.

    Raises
    ------
    TypeError
        `idata` is no result.
    PrivacyError
        There are no facts, they are damaged, or the draws come from several runs.
    """
    if not isinstance(idata, DataTree):
        kind = type(idata)
        advice = " Leave out return_inferencedata=False." if kind.__name__ == "MultiTrace" else ""
        raise TypeError(
            f"This takes the xarray.DataTree that pm.sample(step=step) or dp.sample(step) returns, got "
            f"{kind.__module__}.{kind.__name__}.{advice}"
        )
    stored = [
        idata[stats].data_vars[facts.STAT] for stats in GROUPS.values() if _has(idata, stats, facts.STAT)
    ]
    if stored:
        return facts.decode(facts.together([_in_order(array) for array in stored]))
    if facts.STAT in idata.attrs:
        return facts.read(idata.attrs[facts.STAT])
    at_rows = "posterior_predictive" in idata.children or "log_likelihood" in idata.children
    raise PrivacyError(
        "This result does not come from a private step of pymc_dp: it has no record of its privacy."
        + (" It was computed at the rows of the model: do not publish it. " + AT_PUBLIC_INPUTS) * at_rows
    )


def digest_of(idata: DataTree) -> str:
    """Compute the SHA-256 of facts, names, dimensions, coordinates and values of a release or of predictions.

    Groups that belong to neither, such as a log-likelihood that was added later, are left out: no guarantee
    covers them.
    """
    found = hashlib.sha256(str(idata.attrs.get(facts.STAT)).encode())
    for group in covered(idata):
        dataset = idata[group].to_dataset()
        for name in sorted(dataset.variables, key=str):
            variable = dataset.variables[name]
            what = repr((group, str(name), [str(dim) for dim in variable.dims], variable.shape))
            found.update(what.encode() + _bytes(variable.values))
    return found.hexdigest()


def stamp(made: DataTree, known: Facts, notice: str) -> DataTree:
    """Attach to a release, or to predictions from one, its facts, a digest of all, and a notice."""
    made.attrs[facts.STAT] = json.dumps(known)
    made.attrs[facts.DIGEST] = digest_of(made)
    made.attrs["privacy"] = notice
    return made


def covered(idata: DataTree) -> list[str]:
    """Return the groups that the guarantee of a release covers: draws and their stats, or predictions."""
    try:
        predicted = "predictions" in json.loads(idata.attrs.get(facts.STAT, "{}"))
    except (ValueError, TypeError):
        predicted = False
    predictions = ("predictions", "predictions_constant_data")
    names = predictions if predicted else (*GROUPS, *GROUPS.values())
    return sorted(str(group) for group in idata.children if group in names)


def added_groups(idata: DataTree, released: bool) -> list[str]:
    """Return the groups that neither a private step nor `release` made, such as log-likelihoods."""
    of_rows = () if released else ("observed_data", "constant_data")  # PyMC stores these beside its draws
    own = {*covered(idata), *of_rows}
    return sorted(str(group) for group in idata.children if group not in own)


def is_release(idata: DataTree) -> bool:
    """Whether the covered groups are unchanged since `release` or `predict` made them; see `covered`."""
    return facts.STAT in idata.attrs and idata.attrs.get(facts.DIGEST) == digest_of(idata)


def _bytes(values: np.ndarray) -> bytes:
    """Return bytes that stay the same if values were in a file, where texts and dates change their types."""
    kind = values.dtype.kind
    if kind in "biuf":
        return values.astype(np.float64 if kind == "f" else np.int64).tobytes()
    if kind == "M":
        values = values.astype("datetime64[ns]")
    return json.dumps([str(value) for value in values.ravel()]).encode()


def plain(dataset: Dataset) -> Dataset:
    """Copy names, dimensions and values of a dataset, as far as `digest_of` reads them, and nothing else.

    Left out, since nobody has checked them, are attributes, encodings, names and metadata of types and
    indexes, and digits beyond double precision.
    """
    parts = {
        str(name): ([str(dim) for dim in variable.dims], _plain(variable.values))
        for name, variable in dataset.variables.items()
    }
    return Dataset(parts).set_coords(list(map(str, dataset.coords)))


def _plain(values: np.ndarray) -> np.ndarray:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind not in "biufM":
        return np.array([str(value) for value in values.ravel()]).reshape(values.shape)
    made = np.empty(values.shape, "M8[ns]" if kind == "M" else f"{kind}{min(size, 8)}")  # 8: double precision
    made[...] = values  # a cast would keep metadata of the type
    return made


def named(values: dict[str, np.ndarray], known: Facts) -> Dataset:
    """Return the draws, with the dimensions and coordinates that the model declares and that are public."""
    arrays: dict[str, DataArray] = {}
    coords: dict[str, np.ndarray] = {}
    for one in known["variables"]:
        if one["name"] not in values:
            continue
        own = [dim or f"{one['name']}_dim_{i}" for i, dim in enumerate(one["dims"])]
        array = arrays[one["name"]] = DataArray(values[one["name"]], dims=["chain", "draw", *own])
        for dim, size in zip(map(str, array.dims), array.shape, strict=True):
            if dim in known["coords"]:
                coords[dim] = facts.decode_coordinate(known["coords"][dim])
            elif dim not in known["withheld_dims"]:
                coords[dim] = np.arange(size)
    return Dataset(arrays, coords=coords)


def draws_of(idata: DataTree, known: Facts) -> dict[str, facts.Draws]:
    """Read what the private step recorded at each draw, and check it against the draws.

    Returns
    -------
    dict of str to Draws
        By group of draws. `values` has the variables that the group has, and none if only the group of stats
        is there.

    Raises
    ------
    PrivacyError
        Some draws have no such record or other values than it, or there are more draws than were paid for.
    """
    headers, found = [], {}
    for group, stats in GROUPS.items():
        if group not in idata.children and stats not in idata.children:
            continue
        if not _has(idata, stats, facts.DRAW) or not _has(idata, stats, facts.STAT):
            if facts.DIGEST in idata.attrs:
                raise PrivacyError(
                    "This release was changed after it was made: its numbers, names or shapes are others.\n"
                    "  Why this is refused: a release is made of what was released, and of nothing else.\n"
                    "  How to fix it: take it as dp.sample or dp.release returned it; what is computed from "
                    "that needs no second release."
                )
            raise PrivacyError(
                f"The {group} of this result does not say what the private step left at each draw.\n"
                "  Why this is refused: a release is made of that, and of nothing else.\n"
                "  How to fix it: give dp.release the whole object that pm.sample(step=step) returned. What "
                "dp.sample or dp.release returned needs no second release, and neither does what was "
                "computed from it."
            )
        stored = _in_order(idata[stats].data_vars[facts.DRAW])
        left = facts.decode_draws(stored, known)
        headers.append(left.header)
        values = _stored(idata, group, known, left.values) if group in idata.children else {}
        found[group] = left._replace(values=values)
    _check_paid(headers, known)
    return found


def stats_of(idata: DataTree, known: Facts) -> dict[str, np.ndarray]:
    """Read the sampler stats of a release, or those that the private step recorded in a result.

    Returns
    -------
    dict of str to ndarray, shape (chains, draws)
        Empty if the object has none.
    """
    if "sample_stats" not in idata.children:
        return {}
    stats = idata["sample_stats"].data_vars
    if _has(idata, "sample_stats", facts.DRAW):
        return facts.decode_draws(_in_order(stats[facts.DRAW]), known).stats
    return {str(name): np.asarray(array) for name, array in stats.items()}


def _stored(
    idata: DataTree, group: str, known: Facts, values: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the recorded values of a group's variables; refuse a group with other values than those."""
    variables, kept = idata[group].data_vars, {}
    for one in known["variables"]:
        name = one["name"]
        if name not in variables:
            continue
        held = _in_order(variables[name])
        if held.shape != values[name].shape:
            raise PrivacyError(
                f"{name!r} has shape {held.shape} in this result, and the private step left "
                f"{values[name].shape} (chains, draws, ...): release the result first, then select from it."
            )
        # They need not agree to the last bit: trace and step computed them by separately compiled functions.
        if one["free"] and not np.allclose(held, values[name], equal_nan=True):
            raise PrivacyError(
                f"The draws of {name!r} are not those that the private step left.\n"
                "  Why this is refused: something other than this step moved the parameters after it; "
                "another sampler reads the exact likelihood.\n"
                "  How to fix it: pass the private step alone, pm.sample(step=step), and release what that "
                "returns."
            )
        kept[name] = values[name]
    return kept


def _check_paid(headers: list[np.ndarray], known: Facts) -> None:
    """Refuse draws of chains or iterations that are not in the plan, and draws that occur twice."""
    plan = known["plan"]
    draws_are_free = isinstance(PrivacyPlan.from_dict(plan).mechanism, NoDecision)
    left = [pair for header in headers for pair in header[["slot", "iteration"]].ravel().tolist()]
    paid = all(
        (draws_are_free or 0 <= slot < plan["chains"]) and 1 <= iteration <= plan["tune"] + plan["draws"]
        for slot, iteration in left
    )
    if not paid or len(set(left)) < len(left):
        raise PrivacyError(
            f"This result holds draws twice, or draws that were not paid for: the call was for "
            f"{plan['chains']} chain(s) of {plan['tune']} + {plan['draws']} iterations.\n"
            "  How to fix it: release the object that pm.sample returned, before it is joined."
        )


def _has(idata: DataTree, group: str, name: str) -> bool:
    return group in idata.children and name in idata[group].data_vars


def _in_order(array: DataArray) -> np.ndarray:
    """Return the values of an array, with chains and draws as the first axes."""
    if not {"chain", "draw"} <= set(array.dims):
        raise PrivacyError(
            "This result has lost its dimensions chain and draw: select with lists, as in isel(chain=[0]), "
            "or release it first."
        )
    return array.transpose("chain", "draw", ...).values
