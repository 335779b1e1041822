"""Several releases of one model, which is read and compiled once."""

from unittest import mock

import pymc_dp as dp
from pymc_dp import releasing


def several(model, seeds, epsilon=1, delta=1e-6, **settings):
    """One release after the other, each when it is asked for: what a test changes between them has effect."""
    read, opened = releasing.open_records, []

    def once(*arguments):
        if not opened:
            opened.append(read(*arguments))
        return opened[0]

    for seed in seeds:
        with mock.patch.object(releasing, "open_records", once):
            one = dp.release_likelihood(model, epsilon=epsilon, delta=delta, debug_seed=seed, **settings)
        yield one
