"""Data in parts, and the model of a part, for processes that import this file."""

import logging
import os
import sys
from itertools import pairwise

import numpy as np
import pymc as pm

import pymc_dp as dp
from pymc_dp.remote.answers import Refusal
from tests.conftest import simple_data

SECRET = 31415926


def build(part):
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def build_that_fails(part):
    raise ValueError(f"row with the value {SECRET}")


def noisy(message):
    """Say something wherever a process can."""
    print(message)
    print(message, file=sys.stderr)
    print(message, file=sys.__stdout__)
    os.write(1, f"{message}\n".encode())
    os.write(2, f"{message}\n".encode())
    logging.getLogger("pymc").critical(message)
    logging.getLogger("a logger").critical(message)


class SecretError(dp.errors.PrivacyError):
    """As somebody's own, on top of ours."""


class OddError(Exception):
    def __str__(self):
        raise RuntimeError(f"{SECRET}")


def _with_notes():
    error = dp.errors.PrivacyError("a record")
    error.add_note(f"its value is {SECRET}")
    return error


def _caused():
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        wrapped = dp.errors.ModelRefusedError("a", "b", "c")
        wrapped.__cause__ = error
        return wrapped


#: Errors whose message, class, notes, cause or exit code carry a private value.
SECRETIVE = {
    "message": lambda: ValueError(f"row with the value {SECRET}"),
    "class": lambda: type(f"Error{SECRET}", (ValueError,), {})(),
    "class of no Exception": lambda: type(f"Error{SECRET}", (BaseException,), {})(),
    "class of ours": lambda: type(f"Error{SECRET}", (dp.errors.PrivacyError,), {})(),
    "ours": lambda: SecretError(f"row with the value {SECRET}"),
    "a refusal": lambda: dp.errors.ModelRefusedError(f"{SECRET}", f"{SECRET}", f"{SECRET}"),
    "a code": lambda: Refusal(f"{SECRET}"),
    "a code of the list": lambda: Refusal("budget"),
    "budget": lambda: dp.errors.PrivacyBudgetExceeded(SECRET, SECRET, SECRET, SECRET, SECRET),
    "notes": _with_notes,
    "cause": _caused,
    "group": lambda: ExceptionGroup(f"{SECRET}", [ValueError(SECRET)]),
    "exit": lambda: SystemExit(f"{SECRET}"),
    "exit code": lambda: SystemExit(SECRET % 256),
    "no text": OddError,
    "warning": lambda: UserWarning(f"{SECRET}"),
    "stop": lambda: StopIteration(SECRET),
}


def build_that_raises(part):
    """The part is a name in `SECRETIVE`."""
    noisy(f"the first row is {SECRET}")
    raise SECRETIVE[part]()


def made_up():
    """Model of a few rows that are nobody's."""
    return build(simple_data(n=6, seed=99))


def split(part, k):
    """Parts of unequal sizes."""
    n = len(part[0])
    cuts = [0, *(n * np.arange(1, k) // k + np.arange(1, k)), n]
    return [tuple(array[a:b] for array in part) for a, b in pairwise(cuts)]


def make_step(model, draws=80, tune=0, seed=0, **kwargs):
    """A started step whose decisions are far from certain."""
    budget = {"epsilon": 50.0, "delta": 1e-6, "lipschitz": 1.0}
    if "owners" in kwargs:
        budget = {}
    with model:
        step = dp.DPPenaltyMH(**{**budget, "chains": 1, "step_size": 0.3, **kwargs})
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def walk(step, model, iterations, before=None):
    """Draws, shape (iterations, d), and whether each was accepted."""
    point, draws, accepted = model.initial_point(0), [], []
    for i in range(iterations):
        if before is not None:
            before(i)
        point, (stats,) = step.step(point)
        draws.append(step.records.ravel(point))
        accepted.append(stats["accepted"])
    return np.array(draws), np.array(accepted)


#: Persons in all parts together: their effects have so many entries in every part's model.
PERSONS = 40


def build_persons(part):
    """Each with a number of its own, which is integrated: ids are the model's data."""
    x, y, ids = part
    with pm.Model() as model:
        person, beta, tau = pm.Data("person", ids), pm.Normal("beta", 0, 1), pm.HalfNormal("tau", 1)
        own = pm.Normal("own", 0, tau, shape=PERSONS)
        pm.Poisson("y", pm.math.exp(beta * x + own[person]), observed=y)
    return model


def persons(seed=1):
    """Of one to five rows, in the order of persons."""
    r = np.random.default_rng(seed)
    ids = np.repeat(np.arange(PERSONS), r.integers(1, 6, size=PERSONS))
    x = r.normal(size=len(ids))
    return x, r.poisson(np.exp(0.3 * x + 0.7 * r.normal(size=PERSONS)[ids])), ids


def split_persons(part, k):
    """Whole persons in each of k parts, in other orders of rows."""
    of = np.random.default_rng(k).integers(k, size=PERSONS)[part[2]]
    return [tuple(array[of == one] for array in part) for one in range(k)]
