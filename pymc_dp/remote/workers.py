"""Objects that hold rows, on the workers of a Dask cluster."""

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Never

from pymc_dp.remote.answers import UnavailableError
from pymc_dp.remote.homes import LOOK, LostError

if TYPE_CHECKING:
    from distributed import Actor, BaseActorFuture, Client


class OnWorker[Q, A]:
    """An actor: an object that stays in the memory of one Dask worker.

    Parameters
    ----------
    client : distributed.Client
    servant : type
        Its class, which the workers can import.
    *arguments : object
        Of its construction.
    worker : str, optional
        Address of the only worker that may have it. Default: whichever has the fewest.
    patience : float
        Seconds to wait for a worker that takes it.

    Notes
    -----
    **Privacy.** The servant raises nothing (`answer`), so that no exception with values is sent or logged by
    Dask. Answers go over the cluster's network: see docs/cluster.
    """

    def __init__(
        self, client: "Client", servant: type, *arguments: object, worker: str | None = None, patience: float
    ):
        self._client, self._servant, self._arguments = client, servant, arguments
        self._worker, self.patience = worker, patience
        self.restart()

    def restart(self) -> None:
        """Make the servant anew, on a worker that is there."""
        self._actor: Actor | None = None
        self._future = self._client.submit(
            self._servant,
            *self._arguments,
            actor=True,
            key=f"pymc-dp-{uuid.uuid4().hex}",
            workers=None if self._worker is None else [self._worker],
        )

    def ask(self, request: Q) -> Callable[[], A]:
        """Send a request to the worker."""
        try:
            if self._actor is None:
                self._actor = self._placed()
            pending = self._actor.answer(request)
        except UnavailableError:
            raise
        except Exception as error:  # Dask says in many ways that a worker is gone
            return partial(_lost, error)
        return lambda: self._wait(pending)

    def _placed(self) -> "Actor":
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._future.result(timeout=min(LOOK, self.patience))
            except TimeoutError:
                status = self._future.status
                # A worker that took it may be too busy to say where it is; if it is gone, the status tells.
                if status == "pending" and time.monotonic() >= deadline:
                    break
                if status not in ("pending", "finished"):
                    raise
        raise UnavailableError(
            f"No worker took a part of the records within {self.patience:g} seconds. What the run reserved "
            "stays spent."
        )

    def _wait(self, pending: "BaseActorFuture[A]") -> A:
        while True:
            there = pending.done()
            try:
                return pending.result(timeout=None if there else LOOK)
            except TimeoutError as error:
                # It may have come since.
                if there or not (pending.done() or self._future.status == "finished"):
                    _lost(error)
            except Exception as error:
                _lost(error)


def _lost(error: Exception) -> Never:
    raise LostError(type(error).__name__) from None
