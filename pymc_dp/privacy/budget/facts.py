"""Encoding of what is stored with the draws of a run: its facts, and each draw's own record."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.budget.known import Coordinate, Facts
from pymc_dp.privacy.budget.plan import PrivacyPlan

# Name of the sampler stat with the facts of the run.
STAT = "privacy_facts"
# Name of the sampler stat with the record that the private step writes at each draw.
DRAW = "privacy_draw"
# Name of the attribute of a release that holds a checksum: facts in attributes are then not accepted with
# other draws.
DIGEST = "privacy_digest"
# Version of the format of facts.
FORMAT = 6

# Header of a draw's record, before stats and values: its call, the slot of its chain, and its iteration.
_HEADER = np.dtype([("call", "S32"), ("slot", "<i8"), ("iteration", "<i8")])
# Possible numbers of parts. The first one that is at most a third of a chain's draws is taken. They are
# primes, so that parts can be permuted by multiplication, and small, since a run that is interrupted before
# all parts were stored is lost.
_NUMBERS = (13, 7, 3)
# Header of a part: a marker, the number of parts, the index of this one, the size of the whole, and its
# SHA-256.
_PART = np.dtype([("sign", "S4"), ("number", "<i4"), ("which", "<i4"), ("size", "<i8"), ("digest", "V32")])
# The marker of a part.
_SIGN = b"PART"


def encode(facts: Facts) -> np.ndarray:
    """Encode facts as compressed JSON, in an array of bytes."""
    return np.frombuffer(zlib.compress(json.dumps({"format": FORMAT, **facts}).encode()), dtype=np.uint8)


def parts(facts: Facts, draws: int) -> list[np.ndarray]:
    """Encode facts as the arrays that draws carry in turn: all of the facts, or parts of them if long.

    PyMC gives a step no way to write attributes into its result, but sampler stats survive slicing, thinning
    and saving. As they are stored at every draw, the coordinates of 10,000 groups would take a gigabyte
    without the split.

    Parameters
    ----------
    facts : dict
    draws : int
        Number of draws of a chain, after tuning.
    """
    whole = encode(facts)
    number = next((k for k in _NUMBERS if 3 * k <= draws), 1)
    # Size in bytes up to which encoded facts are stored whole at each draw. Larger ones are split.
    short = 2**14
    if whole.size <= short or number == 1:
        return [whole]
    size, digest = -(-whole.size // number), hashlib.sha256(whole.tobytes()).digest()
    made = []
    for k in range(number):
        head = np.array((_SIGN, number, k, whole.size, digest), _PART).tobytes()
        part = whole[k * size : (k + 1) * size].tobytes().ljust(size, b"\0")
        made.append(np.frombuffer(head + part, np.uint8))
    # Each sequence of `number` draws has every part once, and the order differs between sequences, so that
    # thinned draws still have all parts.
    return [
        made[(place * (1 + turn % (number - 1)) + turn) % number]
        for turn in range(number * (number - 1))
        for place in range(number)
    ]


def together(stored: Sequence[np.ndarray]) -> np.ndarray:
    """Join encoded facts from the arrays that draws carry, each of shape (chains, draws, bytes).

    Raises
    ------
    PrivacyError
        The arrays are of several runs or damaged, or parts are missing.
    """
    if any(array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] == 0 for array in stored):
        raise _damaged()  # joined results of several runs, in which xarray filled missing values
    if len({array.shape[2] for array in stored}) > 1:
        raise _differ()
    rows = sorted({row.tobytes() for array in stored for row in array.reshape(-1, array.shape[2])})
    if not rows:
        raise _damaged()
    start = _PART.itemsize
    if not rows[0].startswith(_SIGN) or len(rows[0]) < start:
        if len(rows) > 1:
            raise _differ()
        return np.frombuffer(rows[0], np.uint8)
    heads = np.frombuffer(b"".join(row[:start] for row in rows), _PART)
    head, found = heads[0], dict(zip(heads["which"].tolist(), rows, strict=True))
    alike = all(np.all(heads[name] == head[name]) for name in ("sign", "number", "size", "digest"))
    if not alike or len(found) < len(rows):
        raise _differ()
    number = int(head["number"])
    if number not in _NUMBERS:
        raise _damaged()
    if not found.keys() >= set(range(number)):
        raise PrivacyError(
            "Too few draws of this result are left: what is known of its privacy is spread over "
            f"{number} draws of a chain.\n  How to fix it: release the result first, then select from it."
        )
    whole = b"".join(found[k][start:] for k in range(number))[: head["size"]]
    if hashlib.sha256(whole).digest() != head["digest"].tobytes():
        raise _differ()
    return np.frombuffer(whole, np.uint8)


def _differ() -> PrivacyError:
    return PrivacyError(
        "The draws of this result come from several runs, or are damaged: their facts differ.\n"
        "  Why this is refused: a guarantee is for one call, and its epsilon not that of several.\n"
        "  How to fix it: release each result by itself, and join the releases."
    )


def decode(values: np.ndarray) -> Facts:
    """Decode the output of `encode`.

    Raises
    ------
    PrivacyError
        See `read`.
    """
    try:
        text = zlib.decompress(values.tobytes()).decode()
    except (zlib.error, ValueError) as error:
        raise _damaged() from error
    return read(text)


def read(text: str) -> Facts:
    """Read facts from JSON text.

    Raises
    ------
    PrivacyError
        They are damaged, or of another format.
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
    if not facts.keys() >= Facts.__required_keys__:
        raise _damaged()
    return facts


def _damaged() -> PrivacyError:
    return PrivacyError(
        "The record of privacy facts in this result is damaged, or put together from several runs: what was "
        "guaranteed cannot be known. Go back to the object that one call of pm.sample or dp.sample returned."
    )


def encode_draw(call: str, slot: int, iteration: int, stats: Iterable[float], values: bytes) -> np.ndarray:
    """Encode a draw's record, which the private step writes, as an array of bytes.

    Parameters
    ----------
    call : str
        Name of the call that paid, at most 32 letters.
    slot, iteration : int
        Number of the chain, and of the iteration in it.
    stats : iterable of float
        Sampler stats, in the order of the facts' `stats`.
    values : bytes
        Values of the variables, in the order of the facts' `variables`.
    """
    header = np.array((call.encode(), slot, iteration), _HEADER)
    numbers = np.fromiter(stats, "<f8")  # whatever types the stats have
    return np.frombuffer(header.tobytes() + numbers.tobytes() + values, dtype=np.uint8)


class Draws(NamedTuple):
    """Decoded records of draws.

    Attributes
    ----------
    header : structured ndarray, shape (chains, draws)
        Fields `call`, `slot` and `iteration`.
    stats : dict of str to ndarray, shape (chains, draws)
    values : dict of str to ndarray, shape (chains, draws, ...)
    """

    header: np.ndarray
    stats: dict[str, np.ndarray]
    values: dict[str, np.ndarray]


def decode_draws(records: np.ndarray, known: Facts) -> Draws:
    """Decode the output of `encode_draw`, for all draws.

    Parameters
    ----------
    records : ndarray of uint8, shape (chains, draws, bytes)
    known : dict
        The facts, with the name of the call and the stats and variables of the draws.

    Raises
    ------
    PrivacyError
        The records have another length, or are of another call.
    """
    numbers = np.dtype([(name, "<f8") for name in known["stats"]])
    variables = np.dtype([(v["name"], v["dtype"], tuple(v["shape"])) for v in known["variables"]])
    whole = np.dtype([("header", _HEADER), ("stats", numbers), ("values", variables)])
    if records.dtype != np.uint8 or records.ndim != 3 or records.shape[2] != whole.itemsize:
        raise _damaged()
    found = np.ascontiguousarray(records).view(whole)[:, :, 0]
    header = found["header"]
    if np.any(header["call"] != str(known["call"]).encode()):
        raise _differ()
    stats = {name: found["stats"][name].astype(dtype) for name, dtype in known["stats"].items()}
    values = {v["name"]: np.ascontiguousarray(found["values"][v["name"]]) for v in known["variables"]}
    return Draws(np.ascontiguousarray(header), stats, values)


def encode_coordinate(values: Sequence[object]) -> Coordinate:
    """Encode coordinates of one dimension for JSON. Those that are neither numbers nor dates become text."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biufMm":
        array = np.array([str(value) for value in values])
    stored = array.astype(np.int64) if array.dtype.kind in "Mm" else array
    return {"dtype": array.dtype.str, "values": stored.tolist()}


def decode_coordinate(stored: Coordinate) -> np.ndarray:
    """Decode the output of `encode_coordinate`, as an array."""
    dtype = np.dtype(stored["dtype"])
    return np.array(stored["values"], dtype=np.int64 if dtype.kind in "Mm" else dtype).astype(dtype)
