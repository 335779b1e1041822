"""More draws from a surrogate that was released: they read no data and cost nothing."""

import numpy as np
import pymc as pm
from xarray import Dataset, DataTree

from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.errors import PrivacyError
from pymc_dp.records.gate import compile_graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.public_density import PublicDensity
from pymc_dp.records.public_moves import PublicTransitions
from pymc_dp.results import facts_of, named


def surrogate_of(idata: DataTree) -> Surrogate:
    """Surrogate that was released with a result.

    Parameters
    ----------
    idata : DataTree
        A result of a step with control variates, as sampled, released, or read from a file.

    Returns
    -------
    Surrogate

    Raises
    ------
    PrivacyError
        The result has none.

    Notes
    -----
    **Privacy.** Reads what is released only.
    """
    text = facts_of(idata).get("surrogate")
    if text is None:
        raise PrivacyError("This result has no surrogate: it was not made with control_variates=.")
    return Surrogate.from_json(text)


def surrogate_draws(
    idata: DataTree, model: pm.Model, draws: int = 1000, *, random_seed: int | None = None
) -> Dataset:
    """Draws from prior times surrogate: an approximation of what the chain sampled, at no cost.

    Parameters
    ----------
    idata : DataTree
        A result of a step with control variates.
    model : pymc.Model
        The model it was made with; the values of its data have no influence.
    draws : int
        Number of draws, one after another in a Markov chain (they are correlated a little).
    random_seed : int, optional

    Returns
    -------
    xarray.Dataset
        The released variables, with dimensions ``("chain", "draw", ...)`` and coordinates as the result has
        them. Its attribute ``target`` says what the draws are of.

    Raises
    ------
    PrivacyError
        The result has no surrogate, or one of another model.
    ValueError
        `draws` is not positive.

    Notes
    -----
    **Privacy.** Post-processing of the released surrogate, the result's facts and the public prior: the
    draws do not depend on a record's value, so that any number of them costs nothing. The chain's own law has
    one factor more, what the surrogate leaves of the likelihood (docs/proofs/control_variates, section 2):
    these draws are not a continuation of the chain.
    """
    if draws < 1:
        raise ValueError(f"draws must be positive, got {draws!r}.")
    surrogate, facts = surrogate_of(idata), facts_of(idata)
    excluded = facts["excluded_deterministics"]
    records = RecordModel(model, exclude_deterministics=excluded)
    seen, point = records.coordinates, surrogate.point
    same = records.d == point.size and records.released_variables == facts["released_variables"]
    if not same or seen.size != surrogate.phi.size or not np.allclose(seen(point), surrogate.phi):
        raise PrivacyError("The surrogate is of another model: their variables differ.")
    names = records.released_variables
    variables = [v for v in model.unobserved_value_vars if v.name in names]
    values = compile_graph(model.value_vars, variables, private=(), as_pymc=True)
    target = PublicDensity(records)
    target.set(surrogate.phi, *surrogate.public())
    precision = surrogate.precision(prior_curvature(records, point), seen.jacobian(point))
    move = PublicTransitions(target, np.linalg.inv(precision))
    rng = np.random.default_rng(random_seed)
    theta, found = move.tune(rng, point), []
    for _ in range(draws):
        theta = move(rng, theta)
        values_of = records.unravel(theta)
        found.append(values(*[values_of[v.name] for v in model.value_vars]))
    arrays = {v.name: np.stack([f[k] for f in found])[None] for k, v in enumerate(variables)}
    said = "prior times released surrogate; no data were read"
    return named(arrays, facts).assign_attrs(target=said)
