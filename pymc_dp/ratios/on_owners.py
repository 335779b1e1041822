"""The log-likelihood ratio from several data owners, each of whom adds its own noise."""

import math
from dataclasses import replace

import numpy as np

from pymc_dp.kernels.metropolis import LogRatio, Move, State
from pymc_dp.privacy.budget.known import OwnerFacts
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.iterations import NoisyRatio
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.ratios.all_records import Fresh
from pymc_dp.remote.answers import finite, read_answers
from pymc_dp.remote.owners import RecordsOfOwners


class OnOwners(Fresh[RecordsOfOwners]):
    """Sum of the owners' noisy sums (Yıldırım & Ermiş 2019, Algorithm 2).

    Parameters
    ----------
    records : RecordsOfOwners
    tempering : float
    plan : PrivacyPlan
        Plan of the call. Every owner charges it to its own budget now, before it releases anything.

    Raises
    ------
    BudgetError
        The call does not fit the remaining budget of an owner's ledger.

    Notes
    -----
    **Privacy.** Only sums with an owner's own noise are received here. Each owner charges one Gaussian
    release for each iteration, whether the noisy ratio is stored or not. The plan of the call has the
    smallest of the owners' noise multipliers: it bounds every record's loss.
    """

    def __init__(self, records: RecordsOfOwners, tempering: float, plan: PrivacyPlan):
        self.records, self.tempering, self.terms = records, tempering, records.owners.terms
        multipliers = [own.noise_multiplier for own in plans(records, plan)]
        records.charge("begin", multipliers, chains=plan.chains, tune=plan.tune, draws=plan.draws)
        # Each owner's standard deviation of noise, and grid of rounding, in units of its clip bound.
        self._noise = [nm * terms.sensitivity for nm, terms in zip(multipliers, self.terms, strict=True)]
        self._grids = [Gaussian(noise).grid for noise in self._noise]

    def bound_of_noise(self, noise_std: float) -> float:
        """Return the largest of the owners' clip bounds at which the noise has a given standard deviation."""
        constants = np.array([terms.clip_bound or terms.lipschitz for terms in self.terms])
        noise = np.array(self._noise) * constants / constants.max()
        return noise_std / (self.tempering * float(np.sqrt(noise @ noise)))

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """Ask every owner for its noisy sum, which it clips at its own bound, and add the sums up."""
        ratio, variance = 0.0, 0.0
        said = self.records.ask("compare", point=state.theta.tolist(), proposal=move.new.tolist())
        sums = read_answers(finite, said)
        for noisy_sum, terms, noise, grid in zip(sums, self.terms, self._noise, self._grids, strict=True):
            scale = self.tempering * terms.clip.bound(move.new - state.theta)
            ratio += scale * noisy_sum
            # Rounding to the grid adds the variance of a uniform error as wide as the grid.
            variance += scale**2 * (noise**2 + grid**2 / 12)
        return LogRatio(ratio, math.sqrt(variance), 0.0, None, self.records.log_prior(move.new))


def plans(records: RecordsOfOwners, call: Call) -> list[PrivacyPlan]:
    """Return each owner's plan of a call."""
    return [terms.price(call.chains, call.tune, call.draws) for terms in records.owners.terms]


def price(records: RecordsOfOwners, call: Call, release: str) -> PrivacyPlan:
    """Return the plan of a call: Gaussian releases with the smallest of the owners' noise multipliers."""
    least = min(plans(records, call), key=lambda plan: plan.noise_multiplier)
    mechanism = NoisyRatio(least.noise_multiplier, release)
    return replace(least, epsilon=call.epsilon, delta=call.delta, mechanism=mechanism)


def facts(records: RecordsOfOwners, plan: PrivacyPlan) -> list[OwnerFacts]:
    """Return the guarantee of each owner, for the report."""
    owners = records.owners
    return [
        {
            "name": owner.name,
            "plan": own.to_dict(),
            "n": n,
            "unit": "row" if owner.privacy_unit is None else "person",
            "clip": str(terms.clip),
            "ledger": owner.ledger is not None,
        }
        for owner, terms, own, n in zip(
            owners.owners, owners.terms, plans(records, plan), records.sizes, strict=True
        )
    ]
