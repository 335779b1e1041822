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
            f"{', '.join(given)}: no meaning with control_variates=. Proposals are NUTS moves on "
            "prior and surrogate, and clip bounds and noise follow from the budget (docs/control_variates)."
        )
    return settings


def check_kinks(settings: ControlVariates, records: Any) -> None:
    """Refuse what needs second derivatives where they are 0 almost everywhere.

    Raises
    ------
    ValueError
    """
    if records.predictors is None or not records.predictors.kinks:
        return
    given = {
        "privacy_unit=": records.unit_of_row is not None,
        "structure=": settings.structure != "full",
        "third_derivative_bound=": settings.third_derivative_bound is not None,
    }
    for name, wanted in given.items():
        if wanted:
            raise ValueError(
                f"{name}: not with control_variates= and a likelihood with a kink (Laplace, a quantile, a "
                "hinge), whose curvature is spread over posterior standard deviations. Take one that is "
                "smooth (StudentT, a logistic loss), or lipschitz=."
            )
