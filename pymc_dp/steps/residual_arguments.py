"""Which arguments of a step go with control variates."""

from typing import Any

from pymc_dp.control_variates.settings import ControlVariates, as_control_variates


def settings_of(control_variates: Any, **own: Any) -> ControlVariates | None:
    """Settings of the argument ``control_variates=`` of a step.

    Parameters
    ----------
    control_variates : bool or ControlVariates or None
    **own : object
        Arguments of the step that have no meaning with control variates: None, or their default.

    Returns
    -------
    ControlVariates or None
        None: without.

    Raises
    ------
    ValueError
        An argument has no meaning with control variates.
    """
    settings = as_control_variates(control_variates)
    if settings is None:
        return None
    given = [f"{name}=" for name, value in own.items() if value is not None]
    if given:
        raise ValueError(
            f"{', '.join(given)}: no meaning with control_variates=. Proposals are Hamiltonian moves on "
            "prior and surrogate, and clip bounds and noise follow from the budget (docs/control_variates)."
        )
    return settings
