"""Checks of where a step runs: that it is the only step, and that the model has not been changed."""

import sys
from collections.abc import Sequence
from types import FrameType

import pymc as pm
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps
from pymc.util import get_value_vars_from_user_vars
from pytensor.graph import Variable

from pymc_dp.errors import ModelRefusedError, PrivacyError

# Error message for a point that differs from the one that the step returned last.
MOVED = (
    "Something other than this step moved the parameters: another step that samples the same variables reads "
    "the exact likelihood. Pass the private step alone."
)


def all_free_variables(vars: Sequence[Variable] | None, model: pm.Model) -> list[Variable]:
    """Return all value variables of the model, which a private step samples together.

    Raises
    ------
    ModelRefusedError
        `vars` leaves some out.
    """
    given = model.value_vars if vars is None else get_value_vars_from_user_vars(vars, model)
    missing = [v.name for v in model.value_vars if v not in given]
    if missing:
        raise ModelRefusedError(
            f"The step does not sample {', '.join(missing)}.",
            "PyMC would give the other variables a step of its own, which reads the exact likelihood.",
            "leave vars= and blocked= alone: a private step samples all free variables together.",
        )
    return list(model.value_vars)


def density_parts(model: pm.Model) -> list[Variable]:
    """Return the variables and Potentials that a model's density is made of."""
    return [*model.basic_RVs, *model.potentials]


def check(step: BlockedStep, model: pm.Model, parts: Sequence[Variable]) -> None:
    """Refuse a model that was changed since the step was made, and other steps beside it.

    Raises
    ------
    ModelRefusedError
        A variable or Potential was added or removed.
    PrivacyError
        See `check_alone`.
    """
    now = density_parts(model)
    named = {
        "added": [str(v.name) for v in now if v not in parts],
        "removed": [str(v.name) for v in parts if v not in now],
    }
    changed = [f"{', '.join(names)} {what}" for what, names in named.items() if names]
    if changed:
        raise ModelRefusedError(
            f"The model was changed after the step was made: {'; '.join(changed)}.",
            "the step was checked, and its budget planned, for another model.",
            "make the step last, when the model is complete.",
        )
    check_alone(step)


def check_alone(step: BlockedStep) -> None:
    """Refuse a step that PyMC runs together with others.

    Another step for the same variables reads the exact likelihood. It may move them before the private step
    sees its first point, and after its last. The arguments of a step do not show this, so the call stack is
    searched for PyMC's list of steps.

    Raises
    ------
    PrivacyError
        There is another step.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        together = flatten_steps(caller) if isinstance(caller, CompoundStep) else []
        others = [type(other).__name__ for other in together if other is not step]
        if step in together and others:
            raise PrivacyError(
                f"The private step is not alone: pm.sample also runs {', '.join(others)}.\n"
                "  Why this is refused: something other than this step that samples the same variables reads "
                "the exact likelihood, and a second private step has a budget of its own.\n"
                "  How to fix it: pass the private step alone, pm.sample(step=step); it samples all "
                "variables."
            )
        frame = frame.f_back
