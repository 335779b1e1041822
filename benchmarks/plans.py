"""How much of a budget plans spend: random calls of all samplers, none above its target.

    python -m benchmarks.plans [number of plans] [--first NUMBER] [--kind NAME]

A row a plan in benchmarks/results/plans.csv, and a table of a row a kind: the largest and the smallest share
of epsilon that is spent, how many spend less than .97 for a known reason and without one, and the seconds of
processor of a whole `cost()` and its epsilon. The reasons are those of `reason`. Nothing is sampled, no data
are read. A plan has its own random numbers, so that parts may run at the same time: with `--first`, other
rows of the file are kept.
"""

import time
from dataclasses import fields

import numpy as np
import pandas as pd

from benchmarks import results
from benchmarks.running import parser, silence
from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import composition, decisions
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.remaining import Budget
from pymc_dp.privacy.mechanisms.gradients import Dynamics, Friction
from pymc_dp.privacy.mechanisms.iterations import BarkerOnBatches, OnTunaBatches
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, PoissonBatches

SEED, FEW = 20_261_122, 0.97


def number(rng, low, high):
    """One of the given magnitude."""
    return float(10 ** rng.uniform(low, high))


def call(rng, relation=None, most=20_000):
    """A call with a random budget."""
    relation = relation or str(rng.choice(["substitute", "add_remove"]))
    length = int(number(rng, 1, np.log10(most)))
    tune = int(rng.integers(0, length))
    epsilon, delta = number(rng, -1, 1), number(rng, -12, -2)
    return Call(epsilon, delta, relation, int(rng.integers(1, 5)), tune, max(length - tune, 1))


def fast_mh(rng, noise_std):
    """DPFastMH: the default batch, or a given one."""
    n = int(number(rng, 3.5, 6))
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
    found = call(rng, most=1000)
    dynamics = Dynamics(
        batches=PoissonBatches(number(rng, -3, -0.5)),
        clip_bound=1.0,
        step_size=number(rng, -3, -1),
        decay=float(rng.choice([0.0, 0.33])),
        friction=number(rng, -1, 1),
    )
    return pricing.friction(found, dynamics, int(rng.integers(1, 5)))


def fixed_size(rng):
    """A batch without replacement."""
    n = int(number(rng, 3, 6))
    return FixedSizeBatches(n, max(int(n * number(rng, -3, -0.3)), 11))


def on_batches(rng):
    """DPPenaltyMH(batch_size=...)."""
    release = "decisions" if rng.random() < 0.8 else "noisy_ratio"
    return pricing.penalty_on_batches(call(rng, "substitute", 3000), fixed_size(rng), release=release)


def barker_on_batches(rng):
    """DPBarkerMH(batch_size=...), whose price follows from the sizes: the largest batch that is taken."""
    found, n = call(rng, "substitute", 300), int(number(rng, 3, 6))
    budget = Budget(found)

    def fits(size):
        return budget.fits(BarkerOnBatches(FixedSizeBatches(n, size), 1.0))

    tried = [max(int(n / 1.5**i), 11) for i in range(40)]
    taken = [fits(size) for size in tried]
    if not any(taken):
        raise BudgetError("no size of a batch")
    first = taken.index(True)
    good, bad = tried[first], tried[max(first - 1, 0)]
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return pricing.barker_on_batches(found, FixedSizeBatches(n, good), 1.0)


def forget():
    """Nothing is known of what was asked before."""
    composition._smallest.cache_clear()
    composition._trade_off.cache_clear()
    decisions.subset_barker_rdp.cache_clear()


def once_more(plan):
    """The price of a given batch: to look for the largest one is no part of a call."""
    own = Call(**{one.name: getattr(plan, one.name) for one in fields(Call)})
    return pricing.barker_on_batches(own, plan.mechanism.batches, plan.mechanism.clip_bound)


KINDS = {
    "penalty": lambda rng: pricing.penalty(call(rng), clip_fraction=bool(rng.random() < 0.5)),
    "penalty, known noise": lambda rng: pricing.penalty(call(rng), noise_std=number(rng, -2.5, 1)),
    "penalty, known shift": lambda rng: pricing.penalty(call(rng), shift=number(rng, -5, -1)),
    "penalty, ratios released": lambda rng: pricing.penalty(call(rng), release="noisy_ratio"),
    "penalty, batches": on_batches,
    "Barker": lambda rng: pricing.barker(call(rng), number(rng, -1, 0)),
    "Barker, batches": barker_on_batches,
    "HMC": lambda rng: pricing.hamiltonian(call(rng), int(rng.integers(1, 20)), float(rng.uniform(0.2, 0.9))),
    "fast MH, Barker": lambda rng: fast_mh(rng, None),
    "fast MH, penalty": lambda rng: fast_mh(rng, number(rng, -0.5, 0.8)),
    "SGHMC": friction,
}


def reason(plan: PrivacyPlan) -> str:
    """Why a budget is not spent, where that is known."""
    mechanism, why, holds = plan.mechanism, "", False
    if isinstance(mechanism, OnTunaBatches):
        why = "the given batch allows no longer moves"
        most = mechanism.batches.inclusion * pricing.LARGEST_X / (1 + pricing.LARGEST_X)
        holds = mechanism.batches.clip_bound >= 0.9999 * most
    elif isinstance(mechanism, Friction):
        why = "the friction that was asked for has noise enough"
        own = mechanism.dynamics.noise_multipliers(plan.length, plan.neighboring_relation)
        holds = mechanism.noise_multiplier == own.min()
    elif isinstance(mechanism, BarkerOnBatches):
        why = "one record more in the batch would cost too much"
        n, size = mechanism.batches.dataset_size, mechanism.batches.batch_size
        larger = FixedSizeBatches(n, min(size + 1, n))
        if size == n:
            return "all records are in the batch"
        holds = not Budget(plan).fits(BarkerOnBatches(larger, mechanism.clip_bound))
    return why if holds else ""


def row(index: int, name: str) -> dict:
    """One plan."""
    rng = np.random.default_rng([SEED, index])
    found = {"number": index, "plan": name, "spent": np.nan}
    start = time.process_time()
    try:
        plan = KINDS[name](rng)
        if isinstance(plan.mechanism, BarkerOnBatches):
            forget()
            start = time.process_time()
            plan = once_more(plan)
        spent = plan.epsilon_at(plan.delta) / plan.epsilon
    except BudgetError as error:
        return found | {"seconds": time.process_time() - start, "reason": f"refused: {error}"[:60]}
    seconds = time.process_time() - start
    why = reason(plan) if spent < FEW else ""
    own = {key: getattr(plan, key) for key in ("neighboring_relation", "epsilon", "delta", "iterations")}
    result = found | own | {"accountant": plan.guarantee.accountant, "spent": spent}
    if spent > 1 or (spent < FEW and not why):
        print(
            f"{index}, {name}: {spent:.3f} of {plan.epsilon:.3g} at {plan.delta:.1e}: {plan.mechanism}",
            flush=True,
        )
    return result | {"settings": plan.settings(), "seconds": seconds, "reason": why}


def table(rows: pd.DataFrame) -> str:
    """A line a kind of plan."""
    lines = []
    for name, group in rows.groupby("plan", sort=False):
        few = group[group.spent < FEW]
        known = (few.reason != "").sum()
        cells = [
            name,
            len(group),
            f"{group.spent.max():.6f}",
            f"{group.spent.min():.3f}",
            known,
            len(few) - known,
        ]
        cells += [group.spent.isna().sum(), f"{group.seconds.mean():.2f}", f"{group.seconds.max():.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    columns = "plan,number,most spent,least,below .97: reason,none,refused,seconds,most".split(",")
    return "\n".join(["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *lines])


def main() -> None:
    """Solve, store, print."""
    arguments = parser(__doc__)
    arguments.add_argument("plans", type=int, nargs="?", default=1000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--kind", choices=list(KINDS))
    chosen = arguments.parse_args()
    names = list(KINDS)
    numbers = range(chosen.first, chosen.first + chosen.plans)
    if chosen.kind:  # a look at one, which is not kept
        print(table(pd.DataFrame([row(one, chosen.kind) for one in numbers])))
        return
    try:
        others = results.stored("plans").fillna({"reason": ""})[lambda old: ~old.number.isin(numbers)]
    except FileNotFoundError:
        others = pd.DataFrame()
    kept = others if chosen.first else others[:0]
    rows = []
    for one in numbers:
        rows.append(row(one, names[one % len(names)]))
        if one == numbers[-1] or len(rows) % 20 == 0:
            results.store("plans", pd.concat([kept, pd.DataFrame(rows)]).sort_values("number"))
    print(table(results.stored("plans").fillna({"reason": ""})))


if __name__ == "__main__":
    silence()
    main()
