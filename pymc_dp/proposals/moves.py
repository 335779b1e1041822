"""What every step's moves have in common."""

from typing import Any


class Moves:
    """How a step proposes, in one chain at a time.

    Attributes
    ----------
    name : str
        For the report.
    step_size : float

    Notes
    -----
    **Privacy.** Reads no data; learns from what is released.
    """

    name = ""
    step_size: float

    def begin(self) -> None:
        """Forget the last chain."""

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt to a decision, during tuning; `iteration` counts from 1."""

    def decided(self, accepted: bool, tune: bool) -> None:
        """Take note of a decision, whether or not the chain is tuning."""

    @property
    def state(self) -> Any:
        """What a resumed chain must remember, besides the step size."""
        return None

    @state.setter
    def state(self, value: Any) -> None:
        pass
