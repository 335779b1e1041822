"""What goes together among the arguments of `DPPenaltyMH`."""

from typing import Any

from pymc_dp.clipping import Clip, as_clip
from pymc_dp.ratios.on_statistics import StatisticClip
from pymc_dp.remote.owners import Owners


def clip_of(
    statistics: Any, lipschitz: Any, clip_bound: Any, batch_size: int | None, kwargs: dict[str, Any]
) -> Clip:
    """Clip of a step: of its sufficient statistics if it has some, otherwise of ratios (see `as_clip`).

    Raises
    ------
    ValueError
        An argument is missing, out of range, or does not go with the others.
    """
    if statistics is None:
        return as_clip(lipschitz, clip_bound, by_part=True)
    if clip_bound is None:
        raise ValueError(
            "With sufficient_statistics=, give clip_bound=: a public bound on the norm of a record's "
            "statistic (docs/exponential_families)."
        )
    others = {"lipschitz": lipschitz, "batch_size": batch_size}
    others |= {name: kwargs.get(name) for name in ("privacy_unit", "data")}
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(f"With sufficient_statistics=, leave out {', '.join(given)}.")
    return StatisticClip(statistics, clip_bound)


def settings(owners: Any, kwargs: dict[str, Any], **own: Any) -> tuple[Any, Any, Any, Any]:
    """Budget and clip bound of a step; with owners, the largest of theirs, and their data into `kwargs`.

    Parameters
    ----------
    owners : sequence of Owner or None
    kwargs : dict
        Arguments for `DPStep`; changed.
    **own : object
        The step's own epsilon, delta, lipschitz, clip_bound, and what else does not go with owners.

    Returns
    -------
    epsilon, delta, lipschitz, clip_bound

    Raises
    ------
    TypeError
        The step's own budget is missing.
    ValueError
        With owners, something was given to the step that each of them has for itself.
    """
    if owners is None:
        if own["epsilon"] is None or own["delta"] is None:
            raise TypeError("epsilon= and delta= are required: the guarantee of the whole call.")
        return own["epsilon"], own["delta"], own["lipschitz"], own["clip_bound"]
    given = own | {name: kwargs.get(name) for name in ("ledger", "privacy_unit", "data")}
    refused = [name for name, argument in given.items() if argument is not None]
    if refused:
        raise ValueError(f"With owners=, leave out {', '.join(refused)}: each owner has its own.")
    joint = Owners(owners, kwargs.get("neighboring_relation", "substitute"))
    kwargs.update(data=joint, clip_fraction=False)
    return joint.epsilon, joint.delta, joint.lipschitz, joint.clip_bound
