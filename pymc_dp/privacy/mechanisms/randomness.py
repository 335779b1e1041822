"""The one place where privacy randomness comes from: noise, accept draws, batches."""

import os
import secrets
from typing import Any

import numpy as np
from randomgen import ChaCha

from pymc_dp.errors import PrivacyError


class PrivacyRandom:
    """ChaCha20 stream keyed by the operating system, for one chain in one process.

    Parameters
    ----------
    debug_seed : int, optional
        Makes the stream reproducible, for tests. Whoever knows it can subtract the noise: a run that uses it
        is not private and must say so.
    stream : int, optional
        Number of the chain; keeps the chains of a debug run apart.

    Attributes
    ----------
    generator : numpy.random.Generator

    Notes
    -----
    **Privacy.** The key is 256 bits from the operating system, so neither PyMC's `random_seed` nor anything
    in the result determines the noise. An object of this class cannot be pickled or copied, and refuses to be
    used in a forked child: two chains with one stream would have noise in common, which cancels.
    """

    def __init__(self, debug_seed: int | None = None, stream: int = 0):
        if debug_seed is None:
            key: np.ndarray = np.frombuffer(secrets.token_bytes(32), dtype=np.uint64).copy()
        else:
            key = np.random.SeedSequence([debug_seed, stream]).generate_state(4, np.uint64)
        self.generator = np.random.Generator(ChaCha(key=key, rounds=20))
        self._process = os.getpid()

    def _same_process(self) -> None:
        if os.getpid() != self._process:
            raise PrivacyError(
                "A noise stream was carried into another process: its noise would be used twice."
            )

    def normal(self) -> float:
        """One standard normal draw."""
        self._same_process()
        return self.generator.standard_normal()

    def exponential(self) -> float:
        """One standard exponential draw; minus this is the logarithm of a uniform."""
        self._same_process()
        return self.generator.standard_exponential()

    def uniform(self, size: int) -> np.ndarray:
        """Uniform draws in [0, 1), shape (size,)."""
        self._same_process()
        return self.generator.random(size)

    def normals(self, size: Any) -> np.ndarray:
        """Standard normal draws of a shape."""
        self._same_process()
        return self.generator.standard_normal(size)

    def poisson(self, mean: float) -> int:
        """One Poisson draw."""
        self._same_process()
        return int(self.generator.poisson(mean))

    def binomial(self, n: int, probability: float) -> int:
        """One binomial draw."""
        self._same_process()
        return int(self.generator.binomial(n, probability))

    def integers(self, n: int, size: int) -> np.ndarray:
        """Independent uniform positions 0..n-1 with repeats, shape (size,)."""
        self._same_process()
        return self.generator.integers(n, size=size)

    def without_replacement(self, n: int, size: int) -> np.ndarray:
        """Uniform set of `size` different positions 0..n-1, in no particular order, shape (size,)."""
        self._same_process()
        return self.generator.choice(n, size, replace=False, shuffle=False)

    @property
    def state(self) -> dict[str, Any]:
        """State of the stream; only debug runs store it."""
        return self.generator.bit_generator.state  # type: ignore[return-value]

    @state.setter
    def state(self, value: dict[str, Any]) -> None:
        self.generator.bit_generator.state = value

    def __reduce__(self):
        raise TypeError("a noise stream is never copied or stored")
