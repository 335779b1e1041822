"""The step that `dp.sample` makes where it is given none, from public numbers (docs/which_sampler)."""

import logging
import math
from typing import Any

from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.errors import BudgetError, TooFewRecordsError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.steps.arguments import names_of
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.fast_mh import DPFastMH
from pymc_dp.steps.penalty import DPPenaltyMH
from pymc_dp.steps.residual_budget import check_few

# Where PyMC says which samplers it assigned.
_log = logging.getLogger("pymc.dp")

# Arguments of `pymc.sample` that steps have too; but for the model, which both need.
_OF_SAMPLE = frozenset({"rng", "compile_kwargs", "initial_point", "blocked", "vars"})
# Records (privacy units) from which a pass over all of them takes longer than the rest of an iteration.
MANY = 300_000
# Records times mu, over parameters, below which weighted scores are taken for a logistic regression.
FEW = 1000
_CHAINS = 2


def _is_for_few(step: DPStep) -> bool:
    """Whether weighted scores are for such a model and call."""
    try:
        check_few("penalty", step.records, step.tempering, step.neighboring_relation, None)
    except ValueError:
        return False
    return True


def _few(step: DPStep) -> bool:
    """Whether they were sharper where both were measured (docs/control_variates, few records)."""
    mu = float(gaussian.mu(step.epsilon, step.delta)) if math.isfinite(step.epsilon) else math.inf
    return step.records.n * mu < FEW * step.records.coordinates.size


def _too_few(step: DPStep) -> bool:
    """Whether no call with so few records can succeed: a function of public numbers."""
    try:
        step.cost(draws=1, tune=0, chains=1)
    except TooFewRecordsError:
        return True
    except BudgetError:
        pass
    return False


def default_step(epsilon: float, delta: float, kwargs: dict[str, Any], quiet: bool) -> DPStep:
    """A step with control variates: of all records an iteration, or of batches where they are many.

    Parameters
    ----------
    epsilon, delta : float
    kwargs : dict
        Arguments of `dp.sample`; those of steps are taken out.
    quiet : bool
        Whether nothing is said of the choice.

    Returns
    -------
    DPPenaltyMH or DPFastMH

    Notes
    -----
    **Privacy.** Chosen by the number of records, which is public (under add/remove, where it is not, all
    records are read an iteration), before a row is read.
    """
    names = names_of(DPPenaltyMH) & names_of(DPFastMH) - _OF_SAMPLE
    chosen = {"control_variates": True, "chains": _CHAINS} | {
        name: kwargs.pop(name) for name in sorted(names & kwargs.keys()) if name != "model"
    }
    chosen |= {name: kwargs[name] for name in ("model", "compile_kwargs") if name in kwargs}
    step: DPStep = DPPenaltyMH(epsilon=epsilon, delta=delta, **chosen)
    why = "every record in each iteration"
    if chosen["control_variates"] is True and _is_for_few(step) and (_few(step) or _too_few(step)):
        few = ControlVariates(few=True)
        step = DPPenaltyMH(epsilon=epsilon, delta=delta, **(chosen | {"control_variates": few}))
        why = "few records: weighted scores of a logistic regression, and no decisions"
    if step.neighboring_relation == "substitute" and step.records.n > MANY:
        step = DPFastMH(epsilon=epsilon, delta=delta, **chosen)
        why = f"more than {MANY:,} records, so that an iteration reads a batch of them"
    if not quiet:
        _log.info(f"{step.title}: {why}. Another: dp.sample(step=...).")
    return step
