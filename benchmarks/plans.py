"""How much of a budget plans spend: random calls of all samplers, none above its target.

    python -m benchmarks.plans [number of plans]

A row a kind of plan: the largest and the smallest share of epsilon that is spent, how many spend less than
.97 for a known reason and without one, and the seconds of processor that a plan takes. The reasons: a given
batch allows no longer moves (B stops at x = 10), or the friction that was asked for has noise enough. Nothing
is sampled, no data are read.
"""

import collections
import sys
import time
import warnings

import numpy as np

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting.calibration import epsilon_of
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.iterations import Friction, OnTunaBatches
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, PoissonBatches

SEED, FEW = 20_261_122, 0.97


def call(rng, relation=None, most=20_000):
    """A call with a random budget."""
    relation = relation or str(rng.choice(["substitute", "add_remove"]))
    length = int(10 ** rng.uniform(1, np.log10(most)))
    tune = int(rng.integers(0, length))
    epsilon, delta = float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-12, -2))
    return Call(epsilon, delta, relation, int(rng.integers(1, 5)), tune, max(length - tune, 1))


def number(rng, low, high):
    """One of the given magnitude."""
    return float(10 ** rng.uniform(low, high))


def fast_mh(rng, noise_std):
    """DPFastMH: the default batch, or a given one."""
    n = int(10 ** rng.uniform(3.5, 6))
    inclusion = None if rng.random() < 0.5 else number(rng, -2.5, -0.4)
    one_scale = noise_std is not None and bool(rng.random() < 0.5)
    return pricing.fast_mh(
        call(rng),
        n=n,
        d=int(rng.integers(1, 30)),
        noise_std=noise_std,
        one_scale=one_scale,
        inclusion=inclusion,
    )


def friction(rng):
    """DPSGHMC: steps of one size, or falling."""
    q = number(rng, -3, -0.5)
    decay = float(rng.choice([0.0, 0.33]))
    found = call(rng, most=1000)
    dynamics = Dynamics(
        batches=PoissonBatches(q),
        clip_bound=1.0,
        step_size=number(rng, -3, -1),
        decay=decay,
        friction=number(rng, -1, 1),
    )
    return pricing.friction(found, dynamics, int(rng.integers(1, 5)))


def on_batches(rng):
    """DPPenaltyMH(batch_size=...)."""
    n = int(10 ** rng.uniform(3, 6))
    batches = FixedSizeBatches(n, max(int(n * number(rng, -3, -0.3)), 11))
    release = "decisions" if rng.random() < 0.8 else "noisy_ratio"
    return pricing.penalty_on_batches(call(rng, "substitute", 3000), batches, release=release)


KINDS = {
    "penalty": lambda rng: pricing.penalty(call(rng), clip_fraction=bool(rng.random() < 0.5)),
    "penalty, known noise": lambda rng: pricing.penalty(call(rng), noise_std=number(rng, -2.5, 1)),
    "penalty, known shift": lambda rng: pricing.penalty(call(rng), shift=number(rng, -5, -1)),
    "penalty, ratios released": lambda rng: pricing.penalty(call(rng), release="noisy_ratio"),
    "penalty, batches": on_batches,
    "Barker": lambda rng: pricing.barker(call(rng), number(rng, -1, 0)),
    "HMC": lambda rng: pricing.hamiltonian(call(rng), int(rng.integers(1, 20)), float(rng.uniform(0.2, 0.9))),
    "fast MH, Barker": lambda rng: fast_mh(rng, None),
    "fast MH, penalty": lambda rng: fast_mh(rng, number(rng, -0.5, 0.8)),
    "SGHMC": friction,
}


def reason(plan):
    """Why a budget is not spent, where that is known."""
    mechanism = plan.mechanism
    if isinstance(mechanism, OnTunaBatches):
        most = mechanism.batches.inclusion * pricing.LARGEST_X / (1 + pricing.LARGEST_X)
        return "x = 10" if mechanism.batches.clip_bound >= 0.9999 * most else ""
    if isinstance(mechanism, Friction):
        own = mechanism.dynamics.noise_multipliers(plan.length, plan.neighboring_relation)
        return "own friction" if mechanism.noise_multiplier == own.min() else ""
    return ""


def main(plans: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(SEED)
    rows = collections.defaultdict(list)
    names = list(KINDS)
    for number_of_plan in range(plans):
        name = names[number_of_plan % len(names)]
        start = time.process_time()
        try:
            plan = KINDS[name](rng)
        except BudgetError as error:
            rows[name].append((np.nan, time.process_time() - start, str(error)[:60]))
            continue
        seconds = time.process_time() - start
        spent = epsilon_of(plan.events, plan.delta) / plan.epsilon
        rows[name].append((spent, seconds, plan))
        if spent > 1 or (spent < FEW and not reason(plan)):
            print(
                f"{name}: {spent:.3f} of {plan.epsilon:.3g} at {plan.delta:.1e}: {plan.mechanism}", flush=True
            )
    columns = [
        "plan",
        "number",
        "most spent",
        "least",
        f"< {FEW}, reason",
        "none",
        "refused",
        "seconds",
        "most",
    ]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for name, found in rows.items():
        spent, seconds = np.array([row[0] for row in found]), np.array([row[1] for row in found])
        shares = spent[np.isfinite(spent)]
        low = [bool(reason(plan)) for share, _, plan in found if share < FEW]
        cells = [
            name,
            len(found),
            f"{shares.max():.6f}",
            f"{shares.min():.3f}",
            sum(low),
            len(low) - sum(low),
        ]
        cells += [int(np.sum(np.isnan(spent))), f"{seconds.mean():.2f}", f"{seconds.max():.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
