"""Where objects that hold rows live, and how requests reach them: here, in a process, on a Dask worker."""

import multiprocessing
import os
import time
import uuid
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Never, Protocol

from pymc_dp.remote.answers import UnavailableError

if TYPE_CHECKING:
    from distributed import Actor, BaseActorFuture, Client


# Seconds between checks whether a process is still alive.
LOOK = 1.0


class LostError(Exception):
    """The servant is gone: its process ended. The message is the kind of error by which this was noticed."""


class Servant[Q, A](Protocol):
    """An object that holds rows and answers requests."""

    def answer(self, request: Q) -> A:
        """Answer a request; raises nothing."""


class Home[Q, A](Protocol):
    """The place where one servant lives.

    Notes
    -----
    `ShardedRecords` relies on five properties:

    1. The first request is `Shard.open`, and its answer is a `ShardFacts`.
    2. `ask` does no more than send the request. Work that takes time or memory in this process is done when
       its result is called, so that one part after the other is worked on.
    3. A failure is an answer (a `PrivacyError`) and is not raised: an exception may carry values.
    4. Only `LostError` leads to a restart. The part is then opened again, must have the same digest as
       before, and gets the request again: an answer is a function of the request and of the rows.
    5. A request is a method of `Shard` with its arguments (`shards.py: Request`). Any `Shard` of the same
       rows may answer it, once it has been opened.
    """

    def ask(self, request: Q) -> Callable[[], A]:
        """Send a request; the returned function waits for the answer, or raises `LostError`."""

    def restart(self) -> None:
        """Make a new servant, after the old one was lost."""


class Here[Q, A]:
    """The home of a servant in this process.

    Parameters
    ----------
    servant : Servant
    """

    def __init__(self, servant: Servant[Q, A]):
        self.servant = servant

    def ask(self, request: Q) -> Callable[[], A]:
        """Return a function that computes the answer when it is called."""
        return lambda: self.servant.answer(request)

    def restart(self) -> None:
        """Do nothing: a servant in this process cannot be lost alone."""


class OwnProcess:
    """The home of a servant in a new process of this machine; requests and answers are text.

    Parameters
    ----------
    make : callable
        Makes the servant; picklable.

    Notes
    -----
    **Privacy.** The processes share a pipe only, and either side receives nothing but text: output, warnings
    and crashes of the servant's process do not appear on this process's terminal.
    """

    def __init__(self, make: Callable[[], Servant[str, str]]):
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(make, other), daemon=True)
        self._process.start()
        other.close()
        self._finalizer = weakref.finalize(self, _stop, self._process, self._connection)
        self._waiting = False

    def ask(self, request: str) -> Callable[[], str]:
        """Send a text, unless another answer is outstanding, which could be mistaken for this one's."""
        if self._waiting:
            return self.restart
        self._waiting = True
        try:
            self._connection.send_bytes(request.encode())
        except OSError:
            return self.restart
        return self._receive

    def restart(self) -> Never:
        """Raise: the process cannot be replaced, since its state (the budget that is left) is lost.

        Raises
        ------
        LostError
        """
        raise LostError("no answer")

    def _receive(self) -> str:
        try:
            while not self._connection.poll(LOOK):
                if not self._process.is_alive() and not self._connection.poll(0):
                    self.restart()
            received = self._connection.recv_bytes().decode()
        except (EOFError, OSError):
            self.restart()
        self._waiting = False
        return received


def _serve(make: Callable[[], Servant[str, str]], connection: Connection) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    for inherited in (1, 2):  # standard output and errors, of compiled code and of a crash too
        os.dup2(silence, inherited)
    servant = make()
    while True:
        try:
            request = connection.recv_bytes().decode()
        except (EOFError, OSError):
            return
        connection.send_bytes(servant.answer(request).encode())


def _stop(process: BaseProcess, connection: Connection) -> None:
    connection.close()
    process.join(timeout=5)
    if process.is_alive():
        process.kill()
        process.join(timeout=5)


class OnWorker[Q, A]:
    """The home of a servant as a Dask actor: an object that stays in the memory of one worker.

    Parameters
    ----------
    client : distributed.Client
    servant : type
        The servant's class, which the workers can import.
    *arguments : object
        Arguments of its constructor.
    worker : str, optional
        Address of the only worker that may hold it. Default: the worker with the fewest.
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
        """Make a new servant, on an available worker."""
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
        except Exception as error:  # Dask raises many kinds of errors when a worker is gone
            return partial(_lost, error)
        return lambda: self._wait(pending)

    def _placed(self) -> "Actor":
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._future.result(timeout=min(LOOK, self.patience))
            except TimeoutError:
                status = self._future.status
                # A worker that took it may be too busy to respond; if it is gone, the status changes.
                if status == "pending" and time.monotonic() >= deadline:
                    raise UnavailableError(
                        f"No worker took a part of the records within {self.patience:g} seconds. What the "
                        "run reserved stays spent."
                    ) from None
                if status not in ("pending", "finished"):
                    raise

    def _wait(self, pending: "BaseActorFuture[A]") -> A:
        while True:
            there = pending.done()
            try:
                return pending.result(timeout=None if there else LOOK)
            except TimeoutError as error:
                # The answer may have arrived meanwhile.
                if there or not (pending.done() or self._future.status == "finished"):
                    _lost(error)
            except Exception as error:
                _lost(error)


def _lost(error: Exception) -> Never:
    raise LostError(type(error).__name__) from None
