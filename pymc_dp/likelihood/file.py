"""The file of a likelihood: JSON, which can be read without this package."""

import hashlib
import json
from collections.abc import Iterable, Mapping

import numpy as np

from pymc_dp.bounds import check_count, is_number
from pymc_dp.errors import PrivacyError
from pymc_dp.likelihood.public_model import Part
from pymc_dp.privacy.budget.known import LikelihoodFacts

FORMAT = 1


def encode(parts: Iterable[Part], arrays: Mapping[str, np.ndarray], facts: LikelihoodFacts) -> str:
    """Write a likelihood as JSON text, such that every number is read back exactly."""
    content = {
        "format": FORMAT,
        "coordinates": [{**part._asdict(), "shape": list(part.shape)} for part in parts],
        **{name: array.tolist() for name, array in arrays.items()},
        "facts": facts,
    }
    return json.dumps({**content, "digest": digest(content)}, allow_nan=False, indent=1)


def decode(text: str) -> tuple[list[Part], np.ndarray, np.ndarray, np.ndarray, LikelihoodFacts]:
    """Read what `encode` wrote; returns arguments of `Likelihood`.

    Raises
    ------
    PrivacyError
        The text has another format, is damaged, or was edited.
    """
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
        found = content["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged("it is not the JSON text that Likelihood.save writes") from error
    if found != FORMAT or isinstance(found, bool):
        raise PrivacyError(
            f"The file has format {found!r}, and this version of pymc_dp reads format {FORMAT}: read it with "
            "the version that wrote it."
        )
    fields = {"format", "coordinates", "point", "gradient", "information", "facts", "digest"}
    if set(content) != fields:
        raise damaged(f"it has the fields {sorted(content)}, and not {sorted(fields)}")
    if content.pop("digest") != digest(content):
        raise damaged("its content is not what was written: it does not agree with its digest")
    try:
        parts = [
            Part(str(one["name"]), _shape(one["shape"]), str(one["expression"]))
            for one in content["coordinates"]
        ]
        point, gradient = (np.array(list(map(_number, content[name]))) for name in ("point", "gradient"))
        information = np.array([list(map(_number, row)) for row in content["information"]])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise damaged("its coordinates or numbers cannot be read") from error
    return parts, point, gradient, information, content["facts"]


def digest(content: dict[str, object]) -> str:
    """Compute the SHA-256 of all fields except the digest, as compact JSON with sorted keys."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def _number(value: object) -> float:
    if not is_number(value):
        raise TypeError("not a number")
    return float(value)


def _shape(sizes: list[int]) -> tuple[int, ...]:
    for size in sizes:
        check_count("a size", size, 0)
    return tuple(sizes)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


def damaged(why: str) -> PrivacyError:
    """Build the error about a file that cannot be relied on."""
    return PrivacyError(
        f"The file of this likelihood is damaged, or was edited: {why}.\n"
        "  Why this is refused: what it says of its guarantee and of the data cannot be relied on.\n"
        "  How to fix it: go back to the file that Likelihood.save wrote."
    )
