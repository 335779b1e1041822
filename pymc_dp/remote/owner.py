"""A data owner's side: its rows, its noise, its budget. All that it says goes through `answer`, as text."""

import json
import math
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_dp.clipping import Clip, as_clip
from pymc_dp.control_variates.releases import Releases, surrogate_events
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.ledger_file import Ledger, PrivacyBudgetExceeded
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.pricing import penalty
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records.sums import GRID
from pymc_dp.remote.answers import Refusal
from pymc_dp.remote.recipe import Recipe, load
from pymc_dp.remote.releases_of_owners import check_surrogate, joint, received, settings_from
from pymc_dp.remote.shard import Shard


@dataclass(frozen=True)
class Terms:
    """What an owner allows; public.

    Attributes
    ----------
    epsilon, delta : float
        Budget of one call.
    lipschitz, clip_bound : float or None
        Exactly one of them; as in `DPPenaltyMH`. With control variates neither need be given.
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
        """Of a sum of clipped ratios, in units of the clip bound."""
        return ExactSum.sensitivity(self.neighboring_relation)

    def price(
        self, chains: int, tune: int, draws: int, settings: ControlVariates | None = None
    ) -> PrivacyPlan:
        """Noise of the owner's sums: one Gaussian release for each iteration of each chain.

        With control variates, those of the surrogate besides, once.
        """
        call = Call(self.epsilon, self.delta, self.neighboring_relation, chains, tune, draws)
        if settings is None:
            return penalty(call, clip_fraction=False, release="noisy_ratio")
        once = EventSet(surrogate_events(settings, self.epsilon, self.delta), self.neighboring_relation)
        return penalty(call, clip_fraction=False, release="noisy_ratio", once=once)


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
    points, noise multiplier from the owner's own (epsilon, delta) and the length of the call. Points may be
    chosen by an adversary who has seen all earlier answers (Yıldırım & Ermiş 2019, section 3.2.2): the clip
    bound follows from the two points, or is any public number, and iterations are counted here. With control
    variates, besides, the Gaussian releases of a surrogate's schedule, each once and in its order; what is
    asked about (points, metric, bounds) may be anything. The noise comes from a stream of this
    process, which nobody can seed. Besides the sums, the number of records (under substitute, where it is
    public), the noise multiplier and, in place of an answer, a code of a fixed list are told. Texts, names
    and numbers of an error, of a warning or of what `build` prints are not. Proof: docs/proofs/penalty.
    """

    def __init__(
        self, recipe: Recipe | bytes, terms: Terms, ledger: str | None = None, log: str | None = None
    ):
        self._recipe, self._terms, self._ledger_path, self._log = recipe, terms, ledger, log
        self._plan: PrivacyPlan | None = None
        self._releases: Releases | None = None
        self._surrogate = ""  # the last one that was checked
        self._left = 0

    def answer(self, request: str) -> str:
        """Answer ``[question, arguments]`` in JSON: ``{"answer": ...}``, or ``{"refused": code}``."""
        code = "log"
        try:
            with _kept(self._log):
                code = "failed"
                try:
                    return json.dumps({"answer": self._reply(request)})
                except Exception as error:
                    traceback.print_exc()
                    code = error.code if isinstance(error, Refusal) else "failed"
        except OSError:  # of the log
            pass
        return json.dumps({"refused": code})

    def _reply(self, request: str) -> Any:
        question, arguments = json.loads(request)
        questions: dict[str, Callable[..., Any]]
        questions = {"open": self._open, "begin": self._begin, "compare": self._compare}
        questions |= {"release": self._release, "split": self._split}
        if question not in questions:
            raise Refusal("question")
        return questions[question](**arguments)

    def _open(self, agreement: dict[str, Any]) -> dict[str, Any]:
        """Make and check the model; tell n where it is public."""
        with _refusing("records"):
            shard = Shard(load(self._recipe))
            facts = shard.read()
        with _refusing("agreement"):
            shard.agree(agreement)
        self._shard, self._d = shard, shard.records.d
        return {"n": facts.n if self._terms.neighboring_relation == "substitute" else None}

    def _begin(
        self, chains: int, tune: int, draws: int, control_variates: dict[str, Any] | None = None
    ) -> dict[str, float]:
        """Charge a call, once; tell the noise multiplier."""
        settings = None if control_variates is None else settings_from(control_variates)
        plan = self._terms.price(chains, tune, draws, settings)
        if self._plan is None:
            self._charge(plan)
            self._plan, self._left = plan, plan.iterations
            self._random = PrivacyRandom()
            if settings is not None:
                self._releases = self._releases_of(settings)
        elif plan.events != self._plan.events:
            raise Refusal("call")
        return {"noise_multiplier": plan.noise_multiplier}

    def _charge(self, plan: PrivacyPlan) -> None:
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
                    self._entry = ledger.reserve(plan.events, label="DPPenaltyMH, as one of several owners")
                except PrivacyBudgetExceeded:
                    refusal = "budget"
        if refusal:
            raise Refusal(refusal)
        self._ledger = ledger

    def _releases_of(self, settings: ControlVariates) -> Releases:
        """The surrogate's releases of these records, at the owner's own budget."""
        terms, records = self._terms, self._shard.records
        squared = joint([(terms.epsilon, terms.delta)])
        return Releases(records, settings, squared, self._random, None, terms.neighboring_relation)

    def _release(self, kind: str, arguments: list[Any]) -> list[float]:
        """Next noisy sum of the surrogate's schedule."""
        if self._releases is None:
            raise Refusal("question")
        records = self._shard.records
        given = received(kind, arguments, records.coordinates.size, records.d)
        return self._releases.release(kind, *given)[0].tolist()

    def _split(self, first: float) -> None:
        """How a Hessian and a gradient share their budget."""
        if self._releases is None:
            raise Refusal("question")
        self._releases.split(first)

    def _check(self, theta: np.ndarray, new: np.ndarray, surrogate: str) -> None:
        """Before a record is read, whether a comparison is one that records can answer, each by itself."""
        if theta.shape != (self._d,) or new.shape != (self._d,):
            raise ValueError("shape")
        if bool(surrogate) != (self._releases is not None):
            raise ValueError("surrogate")
        if self._releases is not None and surrogate != self._surrogate:
            check_surrogate(surrogate, self._releases.structure, self._d)
            self._surrogate = surrogate

    def _compare(
        self, point: list[float], proposal: list[float], surrogate: str = "", bound: float | None = None
    ) -> float:
        """Noisy sum of clipped ratios, in units of the clip bound: the owner's, or `bound` of residuals."""
        if self._plan is None or self._left < 1:
            raise Refusal("iteration")
        theta, new = (np.array(x, dtype=float) for x in (point, proposal))
        with _refusing("question"):
            self._check(theta, new, surrogate)
        self._left -= 1
        with np.errstate(all="ignore"):  # an adversary's points may be anything; a sum is clipped regardless
            clip = bound if surrogate else self._terms.clip.bound(new - theta)
        if clip is None or (surrogate and not 0 < clip < math.inf):
            raise Refusal("question")
        total, _ = self._shard.compare(theta, new, clip, surrogate)
        noise = Gaussian(self._plan.noise_multiplier * self._terms.sensitivity)
        noisy = float(noise.release(ExactSum(total / GRID), self._random))
        if self._left == 0 and self._ledger is not None:
            self._ledger.confirm(self._entry)
        return noisy


@contextmanager
def _refusing(code: str) -> Iterator[None]:
    """Whatever is raised inside becomes a refusal: texts and classes of errors may hold values."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit, too
        raise Refusal(code) from error


@contextmanager
def _kept(log: str | None) -> Iterator[None]:
    """Keep what is printed, warned and raised at the owner's side."""
    path = os.devnull if log is None else log
    with open(path, "a", encoding="utf-8", errors="backslashreplace", opener=_private) as file:
        with redirect_stdout(file), redirect_stderr(file):
            yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
