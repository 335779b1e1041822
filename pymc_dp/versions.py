"""Versions of what a result depends on."""

from functools import cache
from importlib import metadata


@cache
def versions() -> dict[str, str]:
    """Installed versions of pymc_dp and of the packages its guarantee rests on."""
    return {name: metadata.version(name) for name in ("pymc-dp", "pymc", "pytensor", "numpy", "randomgen")}
