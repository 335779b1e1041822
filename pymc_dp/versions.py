"""Versions of the packages that a result depends on."""

from functools import cache
from importlib import metadata


@cache
def versions() -> dict[str, str]:
    """Return the installed versions of pymc_dp and of the packages that its guarantee depends on."""
    return {name: metadata.version(name) for name in ("pymc-dp", "pymc", "pytensor", "numpy", "randomgen")}
