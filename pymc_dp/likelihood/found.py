"""What all releases of a search say together."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import Message
from pymc_dp.likelihood.rounds import Round


class Found(NamedTuple):
    """What the releases say together.

    Attributes
    ----------
    point : ndarray, shape (p,)
        Around which the last scores were taken: not the mean of what is believed.
    message : Message
        Normal likelihood of phi.
    rounds : list of Round
        In units of the prior's standard deviations: a round's metric over them is that of phi.
    shares : list of float
        Of the budget: of each count of scales and each round, in their order; not of the test of the fit.
    information : ndarray, shape (p, p)
        What records would tell without privacy, as far as released numbers show: the last slope over what
        its clip leaves of it.
    least : ndarray, shape (p, p)
        What they would tell at least: what they tell the message, times what the noise and the clips of the
        last round take of usual scores, which are public numbers.
    one_sided : ndarray, shape (p,)
        A direction in which farther parameters are as likely as those that the message is about; or zeros.
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
        """Of searches of which each has zeros for the coordinates of the others."""
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
