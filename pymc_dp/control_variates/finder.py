"""From a public start to a private centre, and the surrogate there (docs/control_variates)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_dp.control_variates.curvature import (
    NoisyCurvature,
    at_least,
    prior_curvature,
    symmetric,
)
from pymc_dp.control_variates.histograms import Histogram
from pymc_dp.control_variates.places import Places
from pymc_dp.control_variates.releases import releases_of
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.sums import Point, Sums, combined
from pymc_dp.control_variates.surrogate import LARGEST_HESSIAN_NOISE, NOT_FOUND, Surrogate
from pymc_dp.control_variates.tails import Tail, put_back
from pymc_dp.control_variates.verdict import judge_gradients, records_needed
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

# Records that a tail direction looks at: so many times the length of its noise, within these shares.
_STANDS_OUT, _TAIL = 4.0, (0.003, 0.05)
# Share of the excess of gradients taken to point in one direction, before that is measured; of Hessians'.
_ALIGNED = 0.5
# Cells of an octave of histograms: in early rounds, where the centre moves and of Hessians, of tails.
_COARSE, _MIDDLE, _FINE = 2, 4, 3
# Weight of the last Hessian's noise against its bias, which the residuals mend.
_MENDED = 5.0
# Noise of the Hessian that its share aims at, where that is the smaller problem, over what is refused.
_HESSIAN_AIM = 0.8
# Curvature of a step near the mode, in units of the Fisher matrix, at least.
_POLISH_LEAST = 0.5
# Early rounds, the last ones, that look for records that the curvature says are far out. Before, scales may
# be far too large, and all records nearer than the curvature has it.
_FAR = 2
# How much further than nearly all records the bound of Fisher's matrix may be for them.
_FURTHER = 256.0


class Finder:
    """Looks for the centre, and releases the surrogate there.

    Parameters
    ----------
    records : RecordModel
        Or its interface: `coordinates`, `derivatives`, `full_batch.rows`, `log_prior`, `log_prior_gradient`,
        n, d.
    settings : ControlVariates
    mu_squared : float
        Budget of the whole call; inf for no noise.
    random : PrivacyRandom
    tempering : float
    epsilon : float
        For advice.
    lipschitz : float, optional
        Upper bound of the norm of a record's gradient: clip bounds are not chosen beyond it where likelihood
        coordinates are the parameters. Privacy does not depend on it.
    progress : callable, optional
        See `Releases`.
    neighboring_relation : {"substitute", "add_remove"}
        With the latter n is private: it is not used, and `settings` do not move the centre of the clip.
    """

    def __init__(
        self,
        records: Any,
        settings: ControlVariates,
        mu_squared: float,
        random: PrivacyRandom,
        tempering: float,
        epsilon: float,
        lipschitz: float | None = None,
        progress: Callable[[int, int], None] | None = None,
        neighboring_relation: str = "substitute",
    ):
        self.records, self.settings, self.tempering, self.epsilon = records, settings, tempering, epsilon
        self.lipschitz, self.mu_squared = lipschitz, mu_squared
        self.releases = releases_of(records, settings, mu_squared, random, progress, neighboring_relation)
        # 0 where it is private; a centre of the clip other than 0 would need it.
        self._n: int = records.n if neighboring_relation == "substitute" else 0
        self.structure = self.releases.structure
        self._align = _ALIGNED
        self._last: Sums | None = None
        self._missing = self._hessian_left = 0.0

    def __call__(self, start: np.ndarray) -> Surrogate:
        """Make every release of the schedule.

        Raises
        ------
        TooFewRecordsError
            Noise dominates; what to change is in the message.
        ContradictionError
            The last two gradients differ by more than their noise.
        """
        try:
            return self._search(start)
        except np.linalg.LinAlgError:
            # Numbers that no matrix can be made of: a function of what is released.
            raise TooFewRecordsError(NOT_FOUND) from None

    def _search(self, start: np.ndarray) -> Surrogate:
        s = self.settings
        self.places = Places(self.records, start, self.structure, self.tempering)
        at = self.places.first(start.copy())
        for k, r in enumerate(s.early):
            at = self._early_round(at, r, k >= len(s.early) - _FAR)
        rounds: list[Sums] = []
        for k in range(len(s.late)):
            if s.recentres(k):
                at = self._recentred(at, k + 2 - len(s.late))
            rounds.append(self._late_round(at, k))
            if k < len(s.late) - 1:
                at = self._polished(rounds[-1], self._fisher(at, rounds[-1].gradient_bound))
        seen, seen_noise = self._seen(at, rounds[-1].gradient_bound)
        sums, self.disagreement = combined(rounds[-2:], self.structure.mask)
        if not self.releases.finished:
            raise PrivacyError("The surrogate made fewer releases than were paid for.")
        noise = symmetric(sums.gradient_noise + sums.left)
        surrogate = Surrogate(
            point=at.theta,
            phi=at.phi,
            metric=at.metric,
            centre=at.centre,
            gradient_bound=sums.gradient_bound,
            hessian_bound=sums.hessian_bound,
            gradient=sums.gradient,
            gradient_noise=noise,
            hessian=sums.hessian,
            hessian_noise=sums.hessian_noise,
            tempering=self.tempering,
            noise_aware=s.noise_aware,
            blocks=None if self.structure.full else self.structure.labels,
            put_back=sums.put_back if np.any(noise) else None,
            cut_left=sums.left,
            seen=seen if np.any(noise) else None,
            seen_noise=seen_noise,
            missing=self._missing,
            hessian_left=self._hessian_left,
        )
        slope = self.records.log_prior_gradient(at.theta)
        curvature, jacobian = prior_curvature(self.records, at.theta), self.places.jacobian(at.theta)
        surrogate = surrogate.with_hessian_noise(curvature, slope, jacobian)
        found = surrogate.problem(curvature, slope, jacobian, self._n or None, self.epsilon)
        if found is not None:
            raise TooFewRecordsError(found)
        judge_gradients(self.disagreement, at.phi.size)
        return surrogate

    def _early_round(self, at: Point, r: float, far: bool) -> Point:
        """Step with two curvatures and several lengths, the best by a noisy line search."""
        sums, fisher = self._derivatives(at, _COARSE, r, far)
        newton, safe = self._curvatures(sums, fisher, 1.0)
        metric = at_least(fisher.weakest(), self._newton(sums).surely(), 1.0)
        slope = self.places.slope(sums)
        # Newton's where curvature is far from Fisher's (scales far off), Fisher's where it is not definite.
        steps = [
            self.places.held(at.theta, np.linalg.solve(self.places.precision(c, at.theta), slope))
            for c in (newton, safe)
        ]
        candidates = [at.theta + length * step for length in self.settings.line_steps for step in steps]
        ratios, noise = self.releases.line(at.theta, candidates, self.tempering)
        log_prior = self.records.log_prior
        with np.errstate(invalid="ignore"):
            here = log_prior(at.theta)
            scores = np.nan_to_num(ratios + [log_prior(c) - here for c in candidates], nan=-np.inf)
        # The longest step that is not clearly worse than the best; none when all are worse than staying.
        candidates, scores = [*candidates, at.theta], np.r_[scores, 0.0]
        chosen = int(np.flatnonzero(scores >= scores.max() - 3 * noise)[0])
        return self.places.next(at, candidates[chosen], metric)

    def _late_round(self, at: Point, k: int) -> Sums:
        """Hessian and gradient, clipped where noise balances what may be cut, and what is."""
        shares, size = self.settings.late_shares(k), at.phi.size
        gradients, hessians = self._tails(*self._norms(at, _FINE, _MIDDLE))
        if self._last is not None:
            last = self._last
            gradients.expect(*self._information(at, last.hessian, last.hessian_noise, last.at.metric))
            self._missing = gradients.missing
        layer = shares.cut / shares.pair
        least = self.settings.hessian_least
        bound, hessian_bound = self._limited(
            at,
            gradients.best_bound(self._multiplier((1 - least) * shares.pair), size, layer),
            hessians.best_bound(_MENDED * self._multiplier(least * shares.pair), size),
        )
        self._hessian_left = hessians.excess(hessian_bound)[1]
        depth = layer * bound
        where, last_round = (at.phi, at.metric), k == len(self.settings.late) - 1
        self.releases.ahead(
            ("cut", *where, at.centre, bound, depth),
            ("hessian", *where, hessian_bound),
            ("gradient", *where, at.centre, bound),
            ("fisher", *where, self._shown(at, bound) if last_round else bound),
        )
        found, noise = self.releases.cut(at.phi, at.metric, at.centre, bound, depth)
        cut = put_back(depth * found, depth * noise, gradients, bound, depth, self.structure.mask)
        # Least noise of the gradient squared plus that of the Hessian times hessian_weight.
        weight = self.settings.hessian_weight * hessian_bound / bound
        # More for the Hessian where its noise would be refused otherwise.
        level = self.tempering * hessian_bound * self.structure.noise_norm * self._multiplier(shares.pair)
        needed = (level / (_HESSIAN_AIM * LARGEST_HESSIAN_NOISE)) ** 2
        self.releases.split(float(np.clip(max(weight / (1 + weight), needed), least, 0.5)))
        hessian, scale = self._hessian(at, hessian_bound)
        sums = self._gradient(at, bound, hessian, scale, hessian_bound)
        inverse = np.linalg.inv(at.metric)
        back = inverse @ cut.put_back
        return replace(
            sums,
            gradient=sums.gradient + back,
            gradient_noise=sums.gradient_noise + cut.noise**2 * inverse @ inverse.T,
            left=inverse @ cut.left @ inverse.T,
            put_back=back,
        )

    def _polished(self, sums: Sums, fisher: NoisyCurvature) -> Point:
        """Newton's step."""
        curvature = self._curvatures(sums, fisher, _POLISH_LEAST)[1]
        precision = self.places.precision(curvature, sums.at.theta)
        theta = sums.at.theta + np.linalg.solve(precision, self.places.slope(sums))
        # Fisher's matrix is clipped like the gradient, and small where that cuts; a Hessian may be all noise.
        known = self.tempering * sums.hessian_noise * self.structure.noise_norm < LARGEST_HESSIAN_NOISE
        surely = at_least(fisher.weakest(), self._newton(sums).surely(), 1.0)
        return self.places.next(sums.at, theta, curvature if known else surely)

    # bounds

    def _norms(self, at: Point, cells: int, hessian_cells: int | None = None) -> list[Histogram]:
        return self.releases.norms(at.phi, at.metric, at.centre, (cells, hessian_cells or cells))

    def _tails(self, gradients: Histogram, hessians: Histogram) -> tuple[Tail, Tail]:
        align = max(self.settings.align, min(self._align, 1.0))
        return Tail(gradients, self._top(gradients, far=True), align), Tail(
            hessians, self._top(hessians), _ALIGNED
        )

    def _multiplier(self, share: float) -> float:
        """Noise of a sum of clipped vectors, of this share of the budget, in clip bounds."""
        return self.releases.multiplier(share)

    @property
    def _exact(self) -> bool:
        return bool(np.isinf(self.mu_squared))

    def _top(self, histogram: Histogram, far: bool = False) -> int:
        top = histogram.top(self.settings.significance, far)
        if top is None:
            enough = max(records_needed(self.settings, self.mu_squared)[1], 1.5 * self._n)
            advice = f"About {enough:,.0f} records would do, or a larger" if self._n else "A larger"
            raise TooFewRecordsError(
                "Too few records for this budget: no cell of a histogram of all records stands out of its "
                f"noise. {advice} epsilon."
            )
        return top

    def _outer(self, histogram: Histogram) -> float:
        """Clip bound that holds for nearly all records."""
        return histogram.edge(self._top(histogram) + 1)

    def _limited(self, at: Point, bound: float, hessian_bound: float) -> tuple[float, float]:
        """Not beyond what the user's bounds, which are of derivatives by theta, allow in this metric."""
        if not self.records.coordinates.identity:
            return bound, hessian_bound
        largest = float(np.linalg.norm(at.metric, 2))
        if self.lipschitz is not None:
            reach = largest * self.lipschitz + float(np.linalg.norm(at.metric @ at.centre))
            bound = min(bound, reach)
        if self.settings.hessian_bound is not None:
            hessian_bound = min(hessian_bound, largest**2 * self.settings.hessian_bound)
        return bound, hessian_bound

    def _recentred(self, at: Point, done: int) -> Point:
        """Move the centre of the clip towards the records furthest from it: Badoiu and Clarkson's step."""
        (histogram,) = self.releases.norms(at.phi, at.metric, at.centre, (_MIDDLE,))
        noise = self._multiplier(self.settings.tail_direction) * float(np.sqrt(at.phi.size))
        top, number = (
            self._top(histogram),
            float(np.clip(_STANDS_OUT * noise, _TAIL[0] * self._n, _TAIL[1] * self._n)),
        )
        cell = histogram.upper(top, number)
        beyond = histogram.edge(cell)
        direction = self.releases.direction(at.phi, at.metric, at.centre, beyond)
        found = max(float(histogram.counts[cell : top + 1].sum()), number)
        # Less, where it is hardly longer than its noise (James and Stein).
        length = float(np.linalg.norm(direction))
        direction = direction * max(0.0, 1 - (noise / max(length, 1e-300)) ** 2) / max(found, length)
        self._align = float(np.linalg.norm(direction))
        move = np.linalg.solve(at.metric, beyond * direction / (done + 2))
        return replace(at, centre=at.centre + move)

    # sums

    def _derivatives(self, at: Point, cells: int, r: float, far: bool) -> tuple[Sums, NoisyCurvature]:
        """Gradient, clipped where noise balances what may be cut; Hessian and Fisher matrix.

        `far`: whether the curvature is asked how many records there may be beyond those that are seen.
        """
        norms = self._norms(at, cells)
        outer, hessian_bound = self._limited(at, *[self._outer(h) for h in norms])
        tail = Tail(norms[0], self._top(norms[0], far=True), self.settings.align)

        def bounds() -> tuple[float, float]:
            """Of gradients, and of their products, which are rounded to a grid that goes by their bound."""
            best = tail.best_bound(self._multiplier(self.settings.early_gradient * r), at.phi.size)
            bound, _ = self._limited(at, max(best, outer), hessian_bound)
            further = min(bound, _FURTHER * outer) if tail.missing else outer
            return bound, max(outer, further)

        where = at.phi, at.metric
        if not far:
            bound, products = bounds()
            self.releases.ahead(
                ("hessian", *where, hessian_bound),
                ("gradient", *where, at.centre, bound),
                ("fisher", *where, products),
            )
        hessian, noise = self._hessian(at, hessian_bound)
        if far:
            tail.expect(*self._information(at, hessian, noise, at.metric))
            bound, products = bounds()
            self.releases.ahead(("gradient", *where, at.centre, bound), ("fisher", *where, products))
        sums = self._gradient(at, bound, hessian, noise, hessian_bound)
        return sums, self._fisher(at, products)

    def _hessian(self, at: Point, bound: float) -> tuple[np.ndarray, float]:
        """Sum of Hessians, and the scale of its noise in the metric."""
        inverse = np.linalg.inv(at.metric)
        value, std = self.releases.hessian(at.phi, at.metric, bound)
        return inverse @ (bound * value) @ inverse.T, bound * std

    def _gradient(
        self, at: Point, bound: float, hessian: np.ndarray, scale: float, hessian_bound: float
    ) -> Sums:
        """Sum of gradients, with the Hessian."""
        inverse, nothing = np.linalg.inv(at.metric), np.zeros_like(at.metric)
        value, std = self.releases.gradient(at.phi, at.metric, at.centre, bound)
        gradient = inverse @ (bound * value) + self._n * at.centre
        noise, back = (bound * std) ** 2 * inverse @ inverse.T, np.zeros_like(gradient)
        self._last = Sums(at, gradient, noise, nothing, back, hessian, scale, bound, hessian_bound)
        return self._last

    def _information(
        self, at: Point, hessian: np.ndarray, scale: float, metric: np.ndarray
    ) -> tuple[float, float, float]:
        """Trace of the information in the metric, its noise, and what the centre adds: for `Tail.expect`."""
        trace = -float(np.trace(at.metric @ hessian @ at.metric.T))
        between = at.metric @ np.linalg.inv(metric)
        noise = scale * float(np.linalg.norm(between.T @ between))
        return trace, noise, self._n * float(np.sum((at.metric @ at.centre) ** 2))

    def _fisher(self, at: Point, bound: float) -> NoisyCurvature:
        value, std = self.releases.fisher(at.phi, at.metric, bound)
        noise = bound**2 * std * self.structure.noise_norm
        return NoisyCurvature(bound**2 * value, noise, at.metric, self.tempering)

    def _seen(self, at: Point, bound: float) -> tuple[np.ndarray, float]:
        """Sum of outer products of clipped gradients in the metric, and its noise."""
        bound = self._shown(at, bound)
        value, std = self.releases.fisher(at.phi, at.metric, bound)
        return bound**2 * value, bound**2 * std

    def _shown(self, at: Point, bound: float) -> float:
        """Clip bound of gradients whose centre is 0."""
        return bound + float(np.linalg.norm(at.metric @ at.centre))

    def _curvatures(self, sums: Sums, fisher: NoisyCurvature, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Newton's curvature with absolute eigenvalues; the same, but at least `least` of Fisher's."""
        newton = self._newton(sums).absolute()
        return newton, at_least(newton, fisher.positive(), least)

    def _newton(self, sums: Sums) -> NoisyCurvature:
        metric = sums.at.metric
        matrix = symmetric(-metric @ sums.hessian @ metric.T)
        return NoisyCurvature(matrix, sums.hessian_noise * self.structure.noise_norm, metric, self.tempering)
