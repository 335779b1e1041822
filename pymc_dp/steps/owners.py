"""The penalty test's noisy ratio from several data owners, each of whom adds its own noise."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.clip_fraction import rounding_grid
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.remote.owners import Owners, RecordsOfOwners, points
from pymc_dp.steps.noisy_ratios import Comparison, NoisyRatio


class OnOwners(NoisyRatio):
    """Sum of the owners' noisy sums (Yıldırım & Ermiş 2019, Algorithm 2).

    Parameters
    ----------
    records : RecordsOfOwners
    tempering : float

    Notes
    -----
    **Privacy.** Only sums with an owner's own noise are seen here. Each owner is charged for one Gaussian
    release an iteration, whether the noisy ratio is stored or not. The plan of the call has the smallest of
    the owners' noise multipliers: it bounds every record's loss.
    """

    mechanism = f"each data owner adds Gaussian noise: {NoisyRatio.mechanism}"

    def __init__(self, records: RecordsOfOwners, tempering: float):
        self.records, self.tempering = records, tempering
        self.terms = records.owners.terms

    def _plans(self, call: Call) -> list[PrivacyPlan]:
        return [terms.price(call.chains, call.tune, call.draws) for terms in self.terms]

    def price(self, call: Call, *, release: str, clip_fraction: bool, **scale: Any) -> PrivacyPlan:
        """Gaussian releases with the noise of the owner who adds least."""
        least = min(self._plans(call), key=lambda plan: plan.noise_multiplier)
        return replace(least, epsilon=call.epsilon, delta=call.delta, release=release)

    def facts(self, plan: PrivacyPlan) -> dict[str, Any]:
        """What each owner is guaranteed, for the report."""
        owners, sizes = self.records.owners.owners, self.records.sizes
        return {
            "owners": [
                {
                    "name": owner.name,
                    "plan": own.to_dict(),
                    "n": n,
                    "unit": "row" if owner.privacy_unit is None else "id",
                    "clip": str(terms.clip),
                    "ledger": owner.ledger is not None,
                }
                for owner, terms, own, n in zip(owners, self.terms, self._plans(plan), sizes, strict=True)
            ]
        }

    def start(self, plan: PrivacyPlan) -> None:
        """Have every owner charge the call, before it releases anything.

        Raises
        ------
        BudgetError
            An owner's ledger has no room.
        """
        said = self.records.ask("begin", chains=plan.chains, tune=plan.tune, draws=plan.draws)
        multipliers = [one["noise_multiplier"] for one in said]
        if multipliers != [own.noise_multiplier for own in self._plans(plan)]:
            raise PrivacyError("An owner adds other noise than its terms say: is its version another?")
        # Standard deviations of noise, and grids of rounding, in units of the clip bounds.
        self._noise = [nm * terms.sensitivity for nm, terms in zip(multipliers, self.terms, strict=True)]
        self._grids = [rounding_grid(noise) for noise in self._noise]

    def bound_of_noise(self, noise_std: float, noise_multiplier: float) -> float:
        """Largest of the owners' clip bounds at which the noise has a given standard deviation."""
        constants = np.array([terms.clip_bound or terms.lipschitz for terms in self.terms])
        noise = np.array(self._noise) * constants / constants.max()
        return noise_std / (self.tempering * float(np.sqrt(noise @ noise)))

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the log-prior: rows stay with their owners."""
        return None, self.records.log_prior(theta)

    def compare(
        self,
        theta: np.ndarray,
        new: np.ndarray,
        kept: None,
        bound: float,
        noise_multiplier: float,
        random: PrivacyRandom,
    ) -> Comparison:
        """Ask every owner; each clips at its own bound."""
        ratio, variance = 0.0, 0.0
        sums = self.records.ask("compare", **points(theta, new))
        for noisy_sum, terms, noise, grid in zip(sums, self.terms, self._noise, self._grids, strict=True):
            scale = self.tempering * terms.clip.bound(new - theta)
            ratio += scale * noisy_sum
            # Rounding adds the variance of a uniform error of the grid's width.
            variance += scale**2 * (noise**2 + grid**2 / 12)
        return Comparison(None, self.records.log_prior(new), ratio, math.sqrt(variance), 0.0)


def settings(owners: Any, kwargs: dict[str, Any], **own: Any) -> tuple[Any, Any, Any, Any]:
    """Budget and clip bound of a step; with owners, the largest of theirs, and their data into `kwargs`.

    Parameters
    ----------
    owners : sequence of Owner or None
    kwargs : dict
        Arguments for `DPStep`; changed.
    **own : object
        The step's own epsilon, delta, lipschitz, clip_bound, and what else does not go with owners.

    Returns
    -------
    epsilon, delta, lipschitz, clip_bound

    Raises
    ------
    TypeError
        The step's own budget is missing.
    ValueError
        With owners, something was given to the step that each of them has for itself.
    """
    if owners is None:
        if own["epsilon"] is None or own["delta"] is None:
            raise TypeError("epsilon= and delta= are required: the guarantee of the whole call.")
        return own["epsilon"], own["delta"], own["lipschitz"], own["clip_bound"]
    given = own | {name: kwargs.get(name) for name in ("ledger", "privacy_unit", "data")}
    refused = [name for name, argument in given.items() if argument is not None]
    if refused:
        raise ValueError(f"With owners=, leave out {', '.join(refused)}: each owner has its own.")
    joint = Owners(owners, kwargs.get("neighboring_relation", "substitute"))
    kwargs.update(data=joint, clip_fraction=False)
    return joint.epsilon, joint.delta, joint.lipschitz, joint.clip_bound
