"""The step that `dp.sample` makes for records elsewhere, from public numbers (docs/which_sampler)."""

import logging
from typing import Any

from pymc_dp.steps.arguments import names_of
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.fast_mh import DPFastMH
from pymc_dp.steps.penalty import DPPenaltyMH

# Where PyMC says which samplers it assigned.
_log = logging.getLogger("pymc.dp")

# Arguments of `pymc.sample` that steps have too; but for the model, which both need.
_OF_SAMPLE = frozenset({"rng", "compile_kwargs", "initial_point", "blocked", "vars"})
# Records (privacy units) from which a pass over all of them takes longer than the rest of an iteration.
MANY = 300_000
_CHAINS = 2


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
    if step.neighboring_relation == "substitute" and step.records.n > MANY:
        step = DPFastMH(epsilon=epsilon, delta=delta, **chosen)
        why = f"more than {MANY:,} records, so that an iteration reads a batch of them"
    if not quiet:
        _log.info(f"{step.title}: {why}. Another: dp.sample(step=...).")
    return step
