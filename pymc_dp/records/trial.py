"""A trial of twins on made-up records, before anything is paid: outcomes of the model must have scores."""

from collections.abc import Sequence

import numpy as np

from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.records import gate, other_records
from pymc_dp.records.draws import Draw
from pymc_dp.records.effect_scores import EffectScores
from pymc_dp.records.outcome_scores import OutcomeScores, Scored
from pymc_dp.records.sums import compiled, guarded
from pymc_dp.records.verification import MADE_UP_NUMBERS, made_up

# Number of made-up records for each set of numbers.
_RECORDS = 64


def refuse_without_scores(
    records: Scored, scores: OutcomeScores | EffectScores, draws: Sequence[Draw], count: int | None
) -> None:
    """Refuse a model if outcomes that it draws for made-up records have no scores where a search starts.

    Not tried are effects of persons, and outcomes that are compared in intervals. If made-up numbers do not
    suit the model, so that nothing can be drawn, the model passes.

    Parameters
    ----------
    records : RecordModel
    scores : OutcomeScores or EffectScores
    draws : sequence of Draw
        Draws of the observed variables of `scores`, in their order; unused where all outcomes are taken.
    count : int or None
        Number of possible outcomes, if all are taken.

    Raises
    ------
    ModelRefusedError

    Notes
    -----
    **Privacy.** No value of a record is read. Seeds are fixed, so that a model is always treated alike.
    """
    if not isinstance(scores, OutcomeScores) or scores.bounded or not (draws or count):
        return
    # Graphs that are compiled quickly are not always as stable as those of a release.
    for one in (scores.in_mode(gate.CHECK_MODE), scores):
        if _have_scores(records, one, draws, count):
            return
    raise _refuse(scores.names)


def _have_scores(records: Scored, scores: OutcomeScores, draws: Sequence[Draw], count: int | None) -> bool:
    phi, tried = records.coordinates(records._start), False
    # Part of the outcomes drawn that must have scores. A record counts if its outcome and those of its twins
    # all have one: of records with three twins this is the fourth power, .3.
    least = 0.75
    # The last set is for models with many covariates that are mostly zero, as words of documents are.
    for numbers in (*MADE_UP_NUMBERS, (0.0, 0.1, 0)):
        rng = np.random.default_rng(0)
        data = made_up(records._roots, records._roots, _RECORDS, numbers=numbers, rng=rng)
        try:
            if count is None:
                outcomes, fit = _draw(records, draws, phi, data, rng)
                found, *_ = scores.at(phi[None], data, _RECORDS)([outcomes], _RECORDS)
            else:
                found, weights = scores.at(phi[None], data, _RECORDS).all_outcomes(_RECORDS)
                fit = np.isfinite(weights).all(axis=0)
        except PrivacyError:
            continue  # the model cannot be evaluated with these numbers
        exist = np.isfinite(found).all(axis=(0, 2))
        if fit.any() and exist[fit].mean() >= least:
            return True
        tried |= bool(fit.any())
    return not tried


def _draw(
    records: Scored,
    draws: Sequence[Draw],
    phi: np.ndarray,
    data: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Draw outcomes of made-up records, and note which exist for all variables."""
    outcomes, fit = [], np.ones(_RECORDS, dtype=bool)
    for draw in draws:
        stand_ins, graphs = other_records.with_any_number(
            [draw.outcome, draw.fit], records._roots, records.n_rows
        )
        inputs = [records.coordinates.vector, *stand_ins.values(), *draw.generators]
        function = compiled(
            inputs,
            records.coordinates.joined(graphs),
            {"mode": gate.PLAIN_MODE, "random": True},
            private=list(stand_ins.values()),
        )
        drawn, good = guarded(function, phi, *data, *rng.spawn(len(draw.generators)))
        outcomes.append(drawn)
        fit &= good
    return outcomes, fit


def _refuse(names: Sequence[str]) -> ModelRefusedError:
    """Build the error for outcomes that a model draws, and that have no derivatives where a search starts."""
    return ModelRefusedError(
        f"At the model's initial point the log-likelihood of {', '.join(names)} has no finite derivative "
        "for many of the outcomes that the model itself draws (for made-up records).",
        "records with such outcomes say nothing, and the budget would be spent for little or nothing. PyMC's "
        "samplers have no gradient there either.",
        "give initial values within the parameters' range (initval=); write point masses as pm.Hurdle... or "
        "pm.ZeroInflated..., or as an observed indicator beside the rest, and not as pm.DiracDelta in a "
        "mixture with a density.",
    )
