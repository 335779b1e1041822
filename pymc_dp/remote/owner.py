"""A data owner's side: its rows, noise and budget. All that leaves it is the text that `answer` returns."""

import json
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from pymc_dp.clipping import Clip, as_clip
from pymc_dp.errors import PrivacyBudgetExceeded
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.pricing import penalty
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records.sums import GRID
from pymc_dp.remote.answers import Refusal
from pymc_dp.remote.measurements_of_owners import OwnMeasurements
from pymc_dp.remote.shard import Recipe, Shard
from pymc_dp.remote.template import Agreement, check_agreement


@dataclass(frozen=True)
class Terms:
    """The terms under which an owner answers; public.

    Attributes
    ----------
    epsilon, delta : float
        Budget of one call.
    lipschitz, clip_bound : float or None
        Exactly one of them, as in `DPPenaltyMH`; for a likelihood neither.
    neighboring_relation : {"substitute", "add_remove"}
    unit : str
        "row", or the name of the privacy unit.
    """

    epsilon: float
    delta: float
    lipschitz: float | None
    clip_bound: float | None
    neighboring_relation: str
    unit: str = "row"

    @cached_property
    def clip(self) -> Clip:
        """Bound on a record's ratio."""
        return as_clip(self.lipschitz, self.clip_bound)

    @property
    def sensitivity(self) -> float:
        """Sensitivity of a sum of clipped ratios, in units of the clip bound."""
        return ExactSum.sensitivity(self.neighboring_relation)

    def price(self, chains: int, tune: int, draws: int) -> PrivacyPlan:
        """Plan the noise of the owner's sums: one Gaussian release for each iteration of each chain."""
        call = Call(self.epsilon, self.delta, self.neighboring_relation, chains, tune, draws)
        return penalty(call, clip_fraction=False, release="noisy_ratio")

    def spending(self) -> Spending:
        """Make the budget of a released likelihood: Gaussian releases that are chosen one after the other."""
        return Spending(self.epsilon, self.delta, [1.0], self.neighboring_relation)


class DataOwner:
    """Answers questions about its rows with noisy sums.

    Parameters
    ----------
    recipe : Recipe or bytes
        Pickled for another process.
    terms : Terms
    ledger : str, optional
        Path of a ledger where the owner is; the call is charged to it before anything is released.
    log : str, optional
        Path of a file where the owner is, for what is printed and raised while it reads rows. Default: that
        is dropped.

    Notes
    -----
    **Privacy.** Event: for each iteration one Gaussian release of the sum of clipped ratios between two
    points, with the noise multiplier that follows from the owner's own (epsilon, delta) and the length of the
    call. Points may be chosen by an adversary who has seen all earlier answers (Yıldırım & Ermiş 2019,
    section 3.2.2): the clip bound follows from the two points, or is any public number, and iterations are
    counted here. Or, for a likelihood, Gaussian releases that are chosen one after the other and together
    cost one Gaussian release of the owner's (epsilon, delta); points, metric, bounds and shares in a question
    may be anything. A call is one or the other.

    Simultaneous questions from several threads are answered one after the other; a copy of the process (a
    fork) would have the budget again, and answers none. Noise and twins come from a random stream of this
    process, which nobody can seed. Besides the sums, an answer is the number of records (under substitute,
    where it is public), the noise multiplier or, in place of an answer, a code of a fixed list. Texts, names
    and numbers of an error, of a warning or of what `build` prints are not sent. An error in the computation
    of a sum may be about one record, and anybody may ask: it ends the call, since the code would otherwise be
    an answer without noise that can be had repeatedly. Proofs: docs/proofs/penalty, docs/proofs/twins.
    """

    def __init__(
        self, recipe: Recipe | bytes, terms: Terms, ledger: str | None = None, log: str | None = None
    ):
        self._recipe, self._terms, self._ledger_path, self._log = recipe, terms, ledger, log
        self._plan: PrivacyPlan | None = None
        self._likelihood = False  # whether the call is for a likelihood
        self._failed = False  # whether a sum could not be made
        self._measurements: OwnMeasurements | None = None
        self._left = 0
        self._one_at_a_time, self._process = threading.Lock(), os.getpid()

    def answer(self, request: str) -> str:
        """Answer ``[question, arguments]`` in JSON: ``{"answer": ...}``, or ``{"refused": code}``."""
        code = "log"
        try:
            with self._one_at_a_time, _kept(self._log):
                code = "failed"
                try:
                    return json.dumps({"answer": self._reply(request)})
                except Exception as error:
                    traceback.print_exc()
                    code = error.code if isinstance(error, Refusal) else "failed"
        except OSError:  # of the log
            pass
        return json.dumps({"refused": code})

    def __reduce__(self):
        raise TypeError("the budget of a data owner is never copied or stored")

    def _reply(self, request: str) -> object:
        if self._failed or os.getpid() != self._process:
            raise Refusal("failed")
        question, arguments = json.loads(request)
        questions: dict[str, Callable[..., object]]
        questions = {"open": self._open, "begin": self._begin, "compare": self._compare}
        questions |= {"begin_likelihood": self._begin_likelihood, "end": self._end}
        measured = (
            OwnMeasurements.count_unknown_bounds,
            OwnMeasurements.scales,
            OwnMeasurements.compare_with_twins,
        )
        questions |= {method.__name__: partial(self._measure, method) for method in measured}
        if question not in questions:
            raise Refusal("question")
        return questions[question](**arguments)

    def _open(self, agreement: Agreement) -> dict[str, object]:
        """Make and check the model; return n where it is public."""
        with _refusing("records"):
            shard = Shard(self._recipe)
            facts = shard.read()
        with _refusing("agreement"):
            check_agreement(shard.records, agreement)
        own = shard.records.neighboring_relation, shard.unit
        if own != (self._terms.neighboring_relation, self._terms.unit):
            raise Refusal("terms")
        self._shard, self._d = shard, shard.records.d
        return {"n": facts.n if self._terms.neighboring_relation == "substitute" else None}

    def _begin(self, chains: int, tune: int, draws: int) -> dict[str, float]:
        """Charge a call, once; return the noise multiplier."""
        plan = self._terms.price(chains, tune, draws)
        if self._likelihood:
            raise Refusal("call")
        if self._plan is None:
            self._charge(plan.events, "DPPenaltyMH, as one of several owners")
            self._plan, self._left = plan, plan.iterations
            self._random = PrivacyRandom()
        elif plan.events != self._plan.events:
            raise Refusal("call")
        return {"noise_multiplier": plan.noise_multiplier}

    def _begin_likelihood(self) -> dict[str, float]:
        """Charge a likelihood, once; return the noise multiplier of the whole budget."""
        if self._plan is not None or self._likelihood:
            raise Refusal("call")
        spending, records = self._terms.spending(), self._shard.records
        self._charge(spending.events, "release_likelihood, as one of several owners")
        spending.pay(quiet=True)  # warnings are shown in the coordinator's process
        self._likelihood = True
        source = RecordsHere(records.twins, spending.random)
        self._measurements = OwnMeasurements(Measurements(source, spending))
        return {"noise_multiplier": spending.multipliers[0]}

    def _measure(
        self, method: Callable[..., Callable[[], dict[str, object]]], **question: object
    ) -> dict[str, object]:
        """Compute the next noisy sum for a likelihood."""
        if self._measurements is None:
            raise Refusal("question")
        with _refusing("question"):
            measured = method(self._measurements, **question)
        with self._once():
            return measured()

    def _end(self) -> None:
        """End a likelihood's call: no further question is answered."""
        if self._measurements is None:
            raise Refusal("question")
        self._measurements = None
        if self._ledger is not None:
            self._ledger.confirm(self._entry)

    def _charge(self, events: EventSet, label: str) -> None:
        self._ledger: Ledger | None = None
        if self._ledger_path is None:
            return
        refusal = ""
        with _refusing("ledger"):
            ledger = Ledger(self._ledger_path)
            if ledger.neighboring_relation != self._terms.neighboring_relation:
                refusal = "relation"
            elif ledger.privacy_unit != self._terms.unit:
                refusal = "unit"
            else:
                try:
                    self._entry = ledger.reserve(events, label=label)
                except PrivacyBudgetExceeded:
                    refusal = "budget"
        if refusal:
            raise Refusal(refusal)
        self._ledger = ledger

    def _compare(self, point: list[float], proposal: list[float]) -> float:
        """Compute the noisy sum of clipped ratios, in units of the clip bound."""
        if self._plan is None or self._left < 1:
            raise Refusal("iteration")
        theta, new = (np.array(x, dtype=float) for x in (point, proposal))
        if theta.shape != (self._d,) or new.shape != (self._d,):
            raise Refusal("question")
        self._left -= 1
        with np.errstate(all="ignore"):  # an adversary's points may be anything; ratios are clipped anyway
            clip = self._terms.clip.bound(new - theta)
        with self._once():
            total, _ = self._shard.compare(theta, new, clip)
        noise = Gaussian(self._plan.noise_multiplier * self._terms.sensitivity)
        noisy = float(noise.release(ExactSum(total / GRID), self._random))
        if self._left == 0 and self._ledger is not None:
            self._ledger.confirm(self._entry)
        return noisy

    @contextmanager
    def _once(self) -> Iterator[None]:
        """Answer no further question after an error in the block."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise


@contextmanager
def _refusing(code: str) -> Iterator[None]:
    """Turn any error in the block into a refusal: texts and classes of errors may reveal values."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit, too
        raise Refusal(code) from error


@contextmanager
def _kept(log: str | None) -> Iterator[None]:
    """Redirect all output, warnings and errors to a file at the owner's side, or drop them."""
    path = os.devnull if log is None else log
    with open(path, "a", encoding="utf-8", errors="backslashreplace", opener=_private) as file:
        with redirect_stdout(file), redirect_stderr(file):
            yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
