"""Noise is the same each time: no test here fails by chance."""

import pytest

from tests.evaluation.fits import known_noise


@pytest.fixture(autouse=True)
def same_noise():
    with known_noise():
        yield
