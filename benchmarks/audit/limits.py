"""What hides below the slack of an audit, computed without sampling."""

import numpy as np
from scipy import stats
from scipy.special import expit, ndtr

import pymc_dp as dp
from benchmarks.audit.attack import COMMON, DELTA, EPSILON, SHORTENED, model
from benchmarks.audit.tester import TradeOffTester
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import TunaBatches
from pymc_dp.ratios import barker_correction, tuna


def largest_excess(claim, accepts, draws):
    """The best event on numbers of accepted moves, without sampling error: its excess, and the log-ratio."""
    tester, found = TradeOffTester(claim), []
    for h in np.linspace(-8, 8, 161):
        a, b = accepts(h, 1.0), accepts(h, -1.0)
        most = np.arange(1, draws + 1)
        up, down = (stats.binom.sf(most - 1, draws, p) for p in (a, b))
        found += [(float(np.max(up - tester._allowed(down))), h)]
        found += [(float(np.max(1 - down - tester._allowed(1 - up))), h)]
    return max(found)


def limits():
    draws = 4
    n, b = 40, 20
    step = dp.DPBarker(**{**COMMON, **SHORTENED, "batch_size": b, "model": model(np.zeros(n))})
    plan = step.cost(draws, 0)
    for name, noise, bound in (("as shipped", 1.0, 1.0), ("noise halved", 0.5, 1.0), ("bound 2B", 1.0, 2.0)):

        def accepts(h, sign, noise=noise, bound=bound):
            normal = noise * np.sqrt(barker_correction.NOISE_VARIANCE)
            return sum(
                p * ndtr((h + x - barker_correction._SORTED) / normal) @ barker_correction._MASS
                for p, x in ((b / n, sign * bound / np.sqrt(b)), (1 - b / n, 0.0))
            )

        excess, h = largest_excess(plan.guarantee, accepts, draws)
        print(f"DPBarker, batches, {name}: largest excess {excess:.4f} (at log-ratio {h:.1f})")
    draws, n, batch = 8, 20, 9
    step = dp.DPFastMH(**{**COMMON, **SHORTENED, "batch_size": batch, "model": model(np.zeros(n))})
    plan = step.cost(draws, 0)
    size, inclusion = plan.parameters["clip_bound"], plan.parameters["inclusion"]
    batches, counts = TunaBatches(inclusion, size), np.arange(40)
    for name, sharpness in (("as shipped", 1.0), ("noise halved", 2.0)):

        def accepts(h, sign, sharpness=sharpness):
            term = sign * tuna.largest_term(size, batches)
            rate = batches.rate + 0.5 * size * (1 - sign)
            return stats.poisson.pmf(counts, rate) @ expit(sharpness * (h + counts * term))

        excess, h = largest_excess(plan.guarantee, accepts, draws)
        print(f"DPFastMH, {name}: largest excess {excess:.4f} (at log-ratio {h:.1f})")
    plan = dp.calibrate(EPSILON, DELTA, draws=draws, tune=0, chains=1, clip_fraction=False)
    mu, epsilons = np.sqrt(draws) / plan.noise_multiplier, np.linspace(0, 10, 101)
    excess = gaussian.delta(mu, epsilons) - [plan.guarantee.delta(e) for e in epsilons]
    print(
        f"noisy ratios at the price of decisions: epsilon {gaussian.epsilon(mu, DELTA):.2f} for {EPSILON:g}; "
        f"largest excess {excess.max():.4f} at epsilon {epsilons[np.argmax(excess)]:.1f}"
    )
