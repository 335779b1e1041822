"""The facts about a run that travel with its draws, as bytes in a sampler stat."""

import json
import zlib
from typing import Any

import numpy as np

STAT = "privacy_facts"
FORMAT = 1


def encode(facts: dict[str, Any]) -> np.ndarray:
    """Compressed JSON as an array of bytes.

    PyMC gives a step no way to write attributes into its result; sampler stats survive slicing, thinning
    and saving, so each draw carries a reference to this one array.
    """
    return np.frombuffer(zlib.compress(json.dumps({"format": FORMAT, **facts}).encode()), dtype=np.uint8)


def decode(values: np.ndarray) -> dict[str, Any]:
    """Facts from what `encode` gave.

    Raises
    ------
    ValueError
        The bytes are not facts, or were written by a newer version.
    """
    try:
        facts = json.loads(zlib.decompress(np.asarray(values, dtype=np.uint8).tobytes()))
    except (zlib.error, ValueError) as error:
        raise ValueError("the record of privacy facts in this result is damaged.") from error
    if facts.get("format") != FORMAT:
        raise ValueError(
            f"the privacy facts have format {facts.get('format')!r}, and this version of pymc_dp reads "
            f"format {FORMAT}."
        )
    return facts
