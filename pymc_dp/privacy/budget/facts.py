"""What travels with the draws of a run: its facts, and of each draw what the private step left."""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.budget.plan import PrivacyPlan

STAT = "privacy_facts"
DRAW = "privacy_draw"
# Attribute of a release: a checksum, so that facts in attributes cannot pass for a release of other draws.
DIGEST = "privacy_digest"
FORMAT = 3

# What a release and a report cannot do without.
REQUIRED = {
    "plan",
    "call",
    "is_private",
    "debug_seed_used",
    "released_variables",
    "variables",
    "coords",
    "withheld_dims",
}
# Slot of the chain and number of the iteration, before a draw's values: as they are written, and read.
HEADER = struct.Struct("<qq")
_HEADER = np.dtype([("slot", "<i8"), ("iteration", "<i8")])


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
    PrivacyError
        See `read`.
    """
    values = np.asarray(values)
    if values.dtype != np.uint8:  # results of several runs, joined: xarray fills what is missing
        raise _damaged()
    try:
        text = zlib.decompress(values.tobytes()).decode()
    except (zlib.error, ValueError) as error:
        raise _damaged() from error
    return read(text)


def read(text: str) -> dict[str, Any]:
    """Facts from JSON text.

    Raises
    ------
    PrivacyError
        They are damaged, or of another version.
    """
    try:
        facts = json.loads(text)
        found = facts["format"]
        if found == FORMAT:
            PrivacyPlan.from_dict(facts["plan"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged() from error
    if found != FORMAT:
        raise PrivacyError(
            f"The privacy facts of this result have format {found!r}, and this version of pymc_dp reads "
            f"format {FORMAT}: read it with the version that wrote it."
        )
    if not facts.keys() >= REQUIRED:
        raise _damaged()
    return facts


def _damaged() -> PrivacyError:
    return PrivacyError(
        "The record of privacy facts in this result is damaged, or put together from several runs: what was "
        "guaranteed cannot be known. Go back to the object that one call of pm.sample or dp.sample returned."
    )


def decode_draws(
    records: np.ndarray, variables: Iterable[Mapping[str, Any]]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Slot, iteration and values of draws (`steps.chain`).

    Parameters
    ----------
    records : ndarray of uint8, shape (chains, draws, bytes)
    variables : iterable of dict
        Name, dtype and shape of each variable, in the order of the values.

    Returns
    -------
    header : structured ndarray, shape (chains, draws)
        `slot` and `iteration`.
    values : dict of str to ndarray, shape (chains, draws, ...)

    Raises
    ------
    PrivacyError
        The records have another length.
    """
    records, start = np.ascontiguousarray(records), _HEADER.itemsize
    types = {v["name"]: (np.dtype(v["dtype"]), tuple(v["shape"])) for v in variables}
    sizes = [dtype.itemsize * int(np.prod(shape, dtype=int)) for dtype, shape in types.values()]
    if records.dtype != np.uint8 or records.ndim != 3 or records.shape[2] != start + sum(sizes):
        raise _damaged()
    values = {}
    for (name, (dtype, shape)), size in zip(types.items(), sizes, strict=True):
        part = np.ascontiguousarray(records[:, :, start : start + size])
        values[name] = np.frombuffer(part.tobytes(), dtype).reshape(*records.shape[:2], *shape)
        start += size
    header = np.ascontiguousarray(records[:, :, : _HEADER.itemsize]).tobytes()
    return np.frombuffer(header, _HEADER).reshape(records.shape[:2]), values


def encode_coordinate(values: Any) -> dict[str, Any]:
    """Coordinates of one dimension as JSON-able values; what is no number or date becomes text."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biufMm":
        array = np.array([str(value) for value in values])
    stored = array.astype(np.int64) if array.dtype.kind in "Mm" else array
    return {"dtype": array.dtype.str, "values": stored.tolist()}


def decode_coordinate(stored: Mapping[str, Any]) -> np.ndarray:
    """What `encode_coordinate` was given, as an array."""
    dtype = np.dtype(stored["dtype"])
    return np.array(stored["values"], dtype=np.int64 if dtype.kind in "Mm" else dtype).astype(dtype)
