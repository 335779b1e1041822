"""How much of the budget each count of sizes, and each round, of a search has."""

# Sizes are counted with so much that the counts of all records stand out: noise of a count over the number of
# records,
_COUNT_NOISE = 0.05
# at least
_LEAST_SIZES = 0.002
# and at most so much of the budget.
_MOST_SIZES = 0.06
# Where some coordinate does not stand out, they are counted again with so much more.
_MORE = 3.0
# They are counted once more, later, with this part of the first count's share,
_ROUGHLY = 0.25
# beside a round of whose share that is at most this part.
_BESIDE = 0.125
# A count is left out where less than that would be left.
_LATE = 0.62
# An early round has so much that its step is known to this distance, in units of what one record tells,
_STEP_NOISE = 0.4
# at least
_LEAST_EARLY = 0.004
# and at most so much of the budget.
_MOST_EARLY = 0.06
# After a step that was shorter than this
_SHORT = 0.5
# the next round has so many times the last one's share,
_GROWTH = 2.0
# and else so many times.
_AGAIN = 1.15
# The last round is that which would have more than this part of what is left.
_MOST_OF_REST = 0.5


def of_sizes(mu: float, records: float, touched: float) -> float:
    """Of the first count, with this many coordinates of a record."""
    return min(max(2 * touched / (mu * _COUNT_NOISE * records) ** 2, _LEAST_SIZES), _MOST_SIZES)


def of_sizes_again(share: float, left: float) -> float | None:
    """Of a second count, where the first did not show all; None if it would be too much."""
    more = _MORE * share
    return more if is_left_after(more, left) and more <= _MOST_SIZES else None


def of_sizes_beside(first: float, share: float) -> float | None:
    """Of a count beside a round with this share; None if it would be too much."""
    part = max(_ROUGHLY * first, _LEAST_SIZES)
    return part if part <= _BESIDE * share else None


def is_left_after(share: float, left: float) -> bool:
    """Whether a count with this share leaves enough for the rounds."""
    return left - share > _LATE


def of_first_round(mu: float, records: float, touched: float) -> float:
    """Noise of its step is ``sqrt(p) 2 C / (mu sqrt(share) n)``, with C about ``sqrt(p)``."""
    level = (2 * touched / (0.8 * _STEP_NOISE * mu * records)) ** 2
    return min(max(level, _LEAST_EARLY), _MOST_EARLY)


def of_next_round(share: float, step: float, longest: float) -> float:
    """After one with this share and a step of this length; what is longer than the longest was cut short."""
    return share * (_GROWTH if step < min(_SHORT, longest) else _AGAIN)


def is_last(share: float, left: float) -> bool:
    """Whether a round that would have this share has all that is left."""
    return share >= _MOST_OF_REST * left


def at_most(share: float, left: float) -> float:
    """A round's share, if it is the last one or not: what counts beside it go by."""
    return min(share, _MOST_OF_REST * left)
