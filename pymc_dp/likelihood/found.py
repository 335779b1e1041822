"""The result of a search: what its releases show together."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import Message
from pymc_dp.likelihood.rounds import Round


class Found(NamedTuple):
    """The result of a search.

    Attributes
    ----------
    point : ndarray, shape (p,)
        Point of the last round; not the posterior mean.
    message : Message
        Normal likelihood of phi.
    rounds : list of Round
        In units of the prior's standard deviations: a round's metric divided by these is the metric of phi.
    shares : list of float
        Shares of the budget: of each count of scales and each round, in their order, without the test of fit.
    information : ndarray, shape (p, p)
        Information that the records would give without privacy, as far as released numbers show: the last
        slope over the part of it that clipping leaves.
    least : ndarray, shape (p, p)
        Lower limit of that information: the message's, times the factor by which noise and clipping of the
        last round would increase the variance with usual scores, made of public numbers.
    one_sided : ndarray, shape (p,)
        Direction in which parameters farther out are as likely as those that the message is about; or zeros.
    """

    point: np.ndarray
    message: Message
    rounds: list[Round]
    shares: list[float]
    information: np.ndarray
    least: np.ndarray
    one_sided: np.ndarray

    @classmethod
    def joined(cls, found: Sequence["Found"]) -> "Found":
        """Combine the results of searches, of which each has zeros for the coordinates of the others."""
        points, messages, rounds, shares, informations, least, one_sided = zip(*found, strict=True)
        return cls(
            np.sum(points, axis=0),
            Message(*(np.sum(each, axis=0) for each in zip(*messages, strict=True))),
            list(chain.from_iterable(rounds)),
            list(chain.from_iterable(shares)),
            np.sum(informations, axis=0),
            np.sum(least, axis=0),
            np.sum(one_sided, axis=0),
        )
