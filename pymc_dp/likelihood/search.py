"""The search: releases scores from a public start towards the parameters, and combines all of them."""

import math
from dataclasses import replace

import numpy as np

from pymc_dp.likelihood import shares
from pymc_dp.likelihood.beliefs import Beliefs
from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.concentration import Sizes, largest_sum
from pymc_dp.likelihood.efficiency import (
    Efficiency,
    expected_distance,
    more_than_usual,
    share_of,
    shares_of,
    sharpest_bounds,
    wide_bounds,
)
from pymc_dp.likelihood.identified import NOTHING_PINNED, Pinned
from pymc_dp.likelihood.measurements import NoisySums
from pymc_dp.likelihood.metric import Places
from pymc_dp.likelihood.mixtures import Message, Normal, inverse, symmetric
from pymc_dp.likelihood.near_zero import NO_SPREADS, NearZero
from pymc_dp.likelihood.nested import without_nested
from pymc_dp.likelihood.points import UNBOUNDED, number_of_twins, points_around
from pymc_dp.likelihood.rounds import Found, Round
from pymc_dp.likelihood.score_sizes import Counted
from pymc_dp.likelihood.slopes import Slopes
from pymc_dp.likelihood.step_length import LONGEST_STEP, StepLength, clear_score, shortened

# After a step longer than this, sizes of scores are counted anew, for a first metric at the new point.
_RESTART_STEP = 1.2


class Search:
    """Search for the parameters in the likelihood coordinates, by noisy releases of score and slope.

    Parameters
    ----------
    measurements : NoisySums
    n : float
        Number of records, at least approximately: public.
    mu : float
        Privacy parameter of the whole budget (GDP); inf for no noise.
    prior : Normal
        Approximate prior of the released coordinates.
    near_zero : NearZero, optional
        Map between the released coordinates and those of `measurements`, which are searched.
    longest : float
        Longest step, in standard errors of one record.
    bounds : ndarray, shape (2, p)
        Lower and upper bounds of the coordinates of `measurements`.
    pinned : Pinned, optional
        Means of these coordinates that are held fixed.

    Notes
    -----
    **Privacy.** Every decision is a function of released and of public numbers.
    """

    def __init__(
        self,
        measurements: NoisySums,
        n: float,
        mu: float,
        prior: Normal,
        near_zero: NearZero = NO_SPREADS,
        longest: float = LONGEST_STEP,
        bounds: np.ndarray = UNBOUNDED,
        pinned: Pinned = NOTHING_PINNED,
    ):
        self._measure, self._n, self._mu, self._longest = measurements, float(n), float(mu), longest
        # Coordinates are divided by their prior standard deviations: parameters may have any scale.
        self._unit = np.sqrt(np.diag(inverse(near_zero.of_walk(prior).precision)))
        self._near_zero = replace(near_zero, unit=self._unit)
        self._bounds = bounds / self._unit
        self._pinned = pinned.in_units(self._unit)
        source = measurements.source
        self._rank, self._size = source.rank, source.size
        self._places, self._step_length = Places(source.lookups, self._size, source.sums), StepLength()
        units = prior.in_units(self._unit)
        self._beliefs = Beliefs(units, self._near_zero, source.lookups, self._places.lookups)
        self.shares: list[float] = []
        self._moved, self._more, self._taken = 0.0, 1.0, 1.0

    def __call__(self, start: np.ndarray) -> Found:
        """Make all releases, and return what they show.

        Parameters
        ----------
        start : ndarray, shape (p,)
            Start of the search: public.
        """
        walked = self._near_zero.phi(np.asarray(start, dtype=float) / self._unit)
        self._point = np.clip(walked, *self._bounds)
        self._step = math.inf
        self._scale()
        share = shares.of_first_round(self._mu, self._n, self._touches)
        # In standard errors of one record (`rounds.py`), as all distances here. The search ends when twice
        # this exceeds the last step, and this the distance to the parameters that is expected.
        near = 0.05
        # Without noise, clipping stops once the parameters are expected to be nearer than this.
        arriving = 0.5
        while not shares.is_last(share, self._measure.left):
            self._round(share)
            self._step = self._move()
            if self._step > _RESTART_STEP and shares.is_left_after(self._sizes_share, self._measure.left):
                self._scale()
            after = shares.of_next_round(share, self._step, self._longest)
            is_near = self._distance < near  # the next round is the last one then
            share = self._measure.left if is_near else after
            share = shares.of_far_round(share, self._measure.left, *self._beliefs.is_far)
            self._beliefs.exact |= math.isinf(self._mu) and self._distance < arriving
            self._count_again(shares.at_most(share, self._measure.left))
        self._beliefs.exact = math.isinf(self._mu)
        # Part of the remaining budget that the last round spends: the rest covers rounding.
        spendable = 1 - 1e-9
        self._round(spendable * self._measure.left, last=True)
        (message, direction), unit = self._beliefs.result(shares_of(self._seen)), self._unit
        message = Message(message.information / np.outer(unit, unit), message.vector / unit)
        if not self._beliefs.exact:
            seen = [one.seen_in(np.diag(1 / unit)) for one in self._slopes.released]
            message = without_nested(message, seen, self._measure.source.sums)
        slopes, point = unit * self._near_zero.slopes(self._point), unit * self._near_zero.psi(self._point)
        information = self._more * self._information / np.outer(slopes, slopes)
        least = max(self._taken, 1.0) * message.information
        return Found(point, message, self.rounds, self.shares, information, least, unit * direction)

    @property
    def rounds(self) -> list[Round]:
        """Rounds made so far."""
        return self._beliefs.rounds

    @property
    def _sizes_share(self) -> float:
        return shares.of_sizes(self._mu, self._n, self._measure.source.touched)

    @property
    def _touches(self) -> float:
        """Average number of coordinates that a record touches."""
        return float(self._touched.sum() / self._n) if self.shares else float(self._measure.source.touched)

    def _count(self, share: float) -> Counted:
        """Count the sizes of scores at the point, and the units that each coordinate touches.

        A coordinate whose count is lost in noise is given the median information per unit of the others,
        times the number of units that the noise can hide.
        """
        scales = self._measure.scales(self._unit * self._point, number_of_twins(self._n), share)
        self.shares.append(share)
        seen = scales.sizes(self._measure.source.lookups)
        found, touched, shown = seen.information * self._unit**2, seen.touched, seen.touched > 0
        # The number of units that touch a coordinate which counts do not show is taken to be at most this
        # times the standard deviation of a count's noise.
        hidden = 4.0
        if shown.any():
            most = np.minimum(self._places.hidden(self._n), hidden * scales.noise)
            found = np.where(shown, found, most * np.median(found[shown] / touched[shown]))
        return seen._replace(information=found, error=seen.error * self._unit**2)

    def _scale(self) -> None:
        """Count the sizes of scores at the point, and start beliefs about slope and metric from them."""
        share: float | None = self._sizes_share
        while share is not None:
            counted = self._count(share)
            share = None if counted.touched.all() else shares.of_sizes_again(share, self._measure.left)
        if self.rounds and not counted.touched.any():
            return  # beliefs that came from the last point are better than none
        source = self._measure.source
        self._slopes = Slopes(self._places, self._n, source.touched, counted)
        self._touched, self._information = self._slopes.touched, self._slopes.counted
        self._about = self._information + self._pinned.information(self._slopes.counted)
        self._sizes = Sizes(counted)

    def _count_again(self, share: float) -> None:
        """Count sizes once more, beside a round of this share, if the point has moved.

        If they differ from the information that is believed, the slope is rescaled: a slope that is smaller
        than the counts is due to clipping, not to records with less information.
        """
        part = shares.of_sizes_beside(self._sizes_share, share)
        # Sizes are counted once more when the point has moved by this since the last count.
        recount_distance = 0.05
        if self._sizes.since < recount_distance or part is None:
            return
        counted = self._count(part)
        self._sizes = Sizes(counted)
        self._slopes.count_again(counted)
        factor, error = self._sizes.factor(self._information)
        # The slope is then rescaled if counts and slope differ by more than this factor.
        rescaling_factor = 1.4
        if abs(math.log(factor)) > max(math.log(rescaling_factor), error):
            self._moved = max(self._moved, 1.0)
            self._information, self._about = self._information * factor, self._about * factor
            self._slopes.scale(factor)

    def _metric(self) -> np.ndarray:
        # A metric allows for `more_than_usual` only after a step shorter than this.
        close = 0.3
        about = self._about * (self._more if self._step < close else 1.0)
        return self._places.metric(about, self._beliefs.prior.precision, self._touched)

    def _shrunk(self, efficiency: Efficiency) -> np.ndarray:
        """Return the information for a metric: the expected slope over the part that clipping leaves."""
        last = self.rounds[-1]
        mean, noisy = np.tensordot(last.weights, last.slopes, 1), self._slopes.expected * efficiency.slope
        mean = self._places.shrunk(mean, noisy, self._slopes.sure, last.touched)
        back = np.linalg.inv(last.metric)
        found = symmetric(back @ mean @ back.T) / efficiency.slope
        return found + np.diag(np.maximum(self._slopes.least - np.diag(found), 0.0))

    @property
    def _longer(self) -> float:
        """Squared norm of a unit's score with the weighted sum of groups, over that of the score alone."""
        return 1 + self._places.overall.size / self._touches

    def _round(self, share: float, last: bool = False) -> None:
        """Release a score with its slope, and update beliefs with them."""
        metric, overall, size = self._metric(), self._places.overall, self._longer * self._touches
        held = self._pinned.information(self._slopes.counted)
        pinned = self._pinned.score(self._slopes.counted, self._point)
        distance = expected_distance(self._n, self._mu, self._distance if self.rounds else math.inf)
        best = sharpest_bounds(self._n, self._mu * math.sqrt(share), size, self._rank, distance)
        best = wide_bounds(size) if self._beliefs.exact else best
        self._taken = self._n * best.variance  # variance with noise and clipping, over that without
        efficiency, parts = best.efficiency, (share * (1 - best.part), share * best.part)
        bounds = Bounds(best.clip * math.sqrt(size), efficiency.bound)
        twins = number_of_twins(self._n, last, self._beliefs.exact)
        points, weighted = self._unit * self._points(last, twins), overall.root @ metric * self._unit
        seen = self._measure.compare(points, weighted, bounds, twins, parts)
        by_group = overall.by_group(seen, self._longer)
        rest = self._sizes.rest(
            by_group.comparison, efficiency, metric, self._information, self._places.order
        )
        rest = 1.0 if self._beliefs.exact else rest
        efficiency = efficiency._replace(
            slope=efficiency.slope * rest, variance=efficiency.variance * rest**2
        )
        kept = efficiency.slope * rest**2
        most = self._n * bounds.slope * math.sqrt(self._size)
        largest, moved = (bounds.score, most), (self._moved, self._sizes.since)
        drawn = self._slopes.draw(by_group, metric, held, efficiency, *largest, *moved)
        self._beliefs.learn(
            Round(
                point=self._point,
                metric=metric,
                score=by_group.comparison.score + efficiency.slope * metric @ pinned,
                noise=max(seen.score_noise, 1e-6 * bounds.score),
                spread=overall.spread,
                bound=bounds.score,
                **drawn._asdict(),
                touched=self._touched * kept,
                effective=self._n * kept,
                prior=self._beliefs.prior.variances(metric),
                weights=np.full(len(drawn.volumes), 1 / len(drawn.volumes)),
                records=self._n,
                hidden=self._slopes.hidden,
                most=bounds.score * self._slopes.number,
                groups=self._places.lookups,
                reachable=math.inf
                if self._beliefs.exact
                else largest_sum(seen, efficiency, bounds, self._n, size),
            ),
            last,
        )
        self.shares.append(share)
        self._seen = seen
        self._information = self.rounds[-1].mean / efficiency.slope - held
        if not self._beliefs.exact:
            self._more = more_than_usual(share_of(self._seen), best.clip, size, self._rank)
        self._about = self._shrunk(efficiency)

    def _points(self, last: bool, twins: int) -> np.ndarray:
        """Return the point, shape (1, p), or points spread around it like the parameters, shape (q, p)."""
        if not self.rounds:
            return self._point[None]
        most_scores = 4_000_000 if last else 1_000_000  # of a round, over records, twins and points
        spread, number = self.rounds[-1].length(self._beliefs.around), most_scores / (self._n * (twins + 1))
        steps = points_around(self._beliefs.around, spread, self._n, number, len(self.rounds))
        return np.clip(self._point + steps, *self._bounds)

    def _move(self) -> float:
        """Move towards the posterior mean; return the length of the step before `longest` limits it."""
        one, to_mean = self.rounds[-1], self._beliefs.mean - self._point
        step = self._near_zero.step(shortened(to_mean, self._beliefs.covariance, one.mean / one.effective))
        length = one.length(np.outer(step, step))
        self._moved, step = min(length, self._longest), min(1.0, self._longest / max(length, 1e-300)) * step
        direction = inverse(one.mean + self._beliefs.prior.precision) @ one.back @ clear_score(one)
        longer = self._step_length.step(one.pulling, step, direction, one.mean)
        if self._step_length.is_running:  # sizes of scores may be quite different at the new point
            self._moved = length = max(one.length(np.outer(longer, longer)), 2 * _RESTART_STEP)
        self._point = np.clip(self._point + self._beliefs.brackets.step(longer), *self._bounds)
        self._sizes.since += self._moved
        return length

    @property
    def _distance(self) -> float:
        """Expected distance to the parameters: by the posterior, but at least half of the last step."""
        return max(self._step / 2, self.rounds[-1].length(self._beliefs.covariance))
