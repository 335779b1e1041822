"""Noise and draws that are the same each time, in tests: no test fails by chance.

The keys of noise and of generators without a seed come from the operating system. Here they come from a name
and a counter. What is tested does not know: it asks for a key as always, and no debug seed is set. Child
processes keep the operating system's keys, as two with the same noise would not be what is tested.
"""

import contextlib
import hashlib
import itertools
import os
import secrets
from unittest import mock

from numpy.random import bit_generator


@contextlib.contextmanager
def known_noise(name):
    """A context in which keys follow from a name and their number."""
    number, process = itertools.count(), os.getpid()
    token_bytes, randbits = secrets.token_bytes, bit_generator.randbits

    def known(size):
        return hashlib.shake_256(f"{name} {next(number)}".encode()).digest(size)

    def known_bytes(size=32):
        return known(size) if os.getpid() == process else token_bytes(size)

    def known_bits(bits):
        return int.from_bytes(known(bits // 8), "little") if os.getpid() == process else randbits(bits)

    with (
        mock.patch.object(secrets, "token_bytes", known_bytes),
        mock.patch.object(bit_generator, "randbits", known_bits),
    ):
        yield
