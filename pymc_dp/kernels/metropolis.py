"""One iteration of Metropolis-Hastings on a log-ratio that may be noisy: propose, compare, decide."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np


class State[K](NamedTuple):
    """The current point of a chain.

    Attributes
    ----------
    theta : ndarray, shape (d,)
    kept : object
        What a `Ratio` keeps of this point, such as each record's log-likelihood. Private.
    log_prior : float
        Log-prior of the point; does not depend on the data.
    """

    theta: np.ndarray
    kept: K
    log_prior: float


class LogRatio[K](NamedTuple):
    """Log-likelihood ratio of a proposal and the current point.

    Attributes
    ----------
    value : float
        Tempered log-likelihood ratio in nats, with its noise if it has any. Private unless paid for.
    noise_std : float
        Standard deviation of the noise, in the same nats. Public.
    clipped : float
        Number of records whose ratio was clipped (0 where it is not used). Private.
    kept : object
        Value of `State.kept` if the proposal is accepted. Private.
    log_prior : float
        Log-prior of the proposal; does not depend on the data.
    """

    value: float
    noise_std: float
    clipped: float
    kept: K
    log_prior: float


class Move(NamedTuple):
    """A proposal.

    Attributes
    ----------
    new : ndarray, shape (d,)
        The proposed point.
    clip_bound : float
        Bound on each record's untempered log-likelihood ratio for this move and its reverse, in nats.
    log_public : callable
        Function of the `LogRatio` that returns the terms of the Metropolis-Hastings ratio that read no
        record: the difference of log-priors, with that of kinetic energies, or 0 where the move leaves a
        public density invariant.
    """

    new: np.ndarray
    clip_bound: float
    log_public: Callable[[LogRatio], float]


class Info[K](NamedTuple):
    """A proposal, its log-ratio, and the decision."""

    accepted: bool
    move: Move
    ratio: LogRatio[K]


class Randomness(Protocol):
    """Source of the randomness of an accept test."""

    def exponential(self) -> float:
        """Return a standard exponential draw."""


class Ratio[K, R](Protocol):
    """A source of log-likelihood ratios (`pymc_dp.ratios`): compares two points on the records."""

    def at(self, theta: np.ndarray) -> tuple[K, float]:
        """Return what is kept of a starting point (private), and its log-prior."""

    def __call__(self, state: State[K], move: Move, random: R) -> LogRatio[K]:
        """Compare the proposal with the state; a record's untempered ratio is clipped at the move's bound."""


type Propose[K] = Callable[[np.random.Generator, State[K]], Move]
#: An accept test: a function of a log-ratio, the standard deviation of its noise, and the privacy randomness
#: that returns the decision; False for NaN. `tests/privacy/test_accept_tests.py` checks each test against the
#: events by which its mechanisms are charged.
type Accept[R] = Callable[[float, float, R], bool]


def metropolis[K, R](
    state: State[K],
    propose: Propose[K],
    compare: Ratio[K, R],
    accept: Accept[R],
    rng: np.random.Generator,
    random: R,
) -> tuple[State[K], Info[K]]:
    """Make one iteration.

    Parameters
    ----------
    state : State
    propose : callable
        ``propose(rng, state)`` gives a `Move`.
    compare : callable
        Source of the log-ratio: the only argument that reads records.
    accept : callable
        ``accept(log_ratio, noise_std, random)``.
    rng : numpy.random.Generator
        Randomness of the proposals; public.
    random : PrivacyRandom
        Randomness of batches, noise and decision; secret.

    Returns
    -------
    State
        The next state: that of the proposal if it was accepted, otherwise the same as before.
    Info

    Notes
    -----
    **Privacy.** The outputs that may be released are the point and the decision. Everything else in `Info` is
    for the caller alone.
    """
    move = propose(rng, state)
    found = compare(state, move, random)
    accepted = accept(found.value + move.log_public(found), found.noise_std, random)
    return (State(move.new, found.kept, found.log_prior) if accepted else state), Info(accepted, move, found)


def prior_change(state: State) -> Callable[[LogRatio], float]:
    """Return `Move.log_public` of a symmetric proposal: the difference of log-priors."""
    return lambda found: found.log_prior - state.log_prior


def penalty(log_ratio: float, variance: float, exponential: float) -> bool:
    """Decide by the penalty test (Ceperley & Dewing 1999): accept when ``ln u < log_ratio - variance / 2``.

    Parameters
    ----------
    log_ratio : float
        Unbiased Gaussian estimate of ln [posterior(proposal) q(point | proposal) / posterior(point)
        q(proposal | point)].
    variance : float
        Variance of its noise.
    exponential : float
        A standard exponential draw; ``ln u`` is minus this.

    Returns
    -------
    bool
        False for NaN: a move to a point where the density is not a number is never made.
    """
    return -exponential < log_ratio - 0.5 * variance


def accept_penalty(log_ratio: float, noise_std: float, random: Randomness) -> bool:
    """Decide by `penalty`, with a draw of `random`."""
    return penalty(log_ratio, noise_std * noise_std, random.exponential())


def accept_barker(log_ratio: float, noise_std: float, random: Randomness) -> bool:
    """Decide by `barker`, with draws of `random`; `noise_std` is not used."""
    return barker(log_ratio, random.exponential(), random.exponential())


def barker(log_ratio: float, first: float, second: float) -> bool:
    """Decide by Barker's test (Barker 1965): accept with probability ``1 / (1 + exp(-log_ratio))``.

    Parameters
    ----------
    log_ratio : float
        ln [posterior(proposal) q(point | proposal) / posterior(point) q(proposal | point)], or what
        `pymc_dp.ratios.tuna` uses in place of it.
    first, second : float
        Independent standard exponential draws: the logarithm of their quotient is logistic.

    Returns
    -------
    bool
        False for NaN: a move to a point where the density is not a number is never made.
    """
    return first < math.exp(min(log_ratio, 700.0)) * second
