"""Where the objects that hold rows live, and how they are asked: here, or in a process of their own."""

import multiprocessing
import os
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

# Seconds between looks at whether a process is still alive.
LOOK = 1.0


class LostError(Exception):
    """What was asked is gone: its process ended. Holds the kind of error that told so."""


class Servant[Q, A](Protocol):
    """An object that holds rows and answers requests."""

    def answer(self, request: Q) -> A:
        """Answer a request; raises nothing."""


class Home[Q, A](Protocol):
    """Where one servant lives."""

    def ask(self, request: Q) -> Callable[[], A]:
        """Send a request; the result waits for the answer, or raises `LostError`."""

    def restart(self) -> None:
        """Make the servant anew, after it was lost."""


class Here[Q, A]:
    """In this process.

    Parameters
    ----------
    servant : Servant
    """

    def __init__(self, servant: Servant[Q, A]):
        self.servant = servant

    def ask(self, request: Q) -> Callable[[], A]:
        """Answer when the result is called."""
        return lambda: self.servant.answer(request)

    def restart(self) -> None:
        """What is in this process is not lost alone."""


class OwnProcess:
    """In a new process of this machine; requests and answers are text.

    Parameters
    ----------
    make : callable
        Makes the servant; picklable.

    Notes
    -----
    **Privacy.** Two pipe ends are all that is shared. A text is the only thing either side receives: what the
    process prints, warns or dies of does not come out on this process's terminal.
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
        """Send a text; not while another answer is on its way, which would be taken for this one's."""
        if self._waiting:
            return self._lost
        self._waiting = True
        try:
            self._connection.send_bytes(request.encode())
        except OSError:
            return self._lost
        return self._receive

    def restart(self) -> None:
        """Nothing is made anew: what the process knew is gone.

        Raises
        ------
        LostError
        """
        self._lost()

    def _receive(self) -> str:
        try:
            while not self._connection.poll(LOOK):
                if not self._process.is_alive() and not self._connection.poll(0):
                    self._lost()
            received = self._connection.recv_bytes().decode()
        except (EOFError, OSError):
            return self._lost()
        self._waiting = False
        return received

    def _lost(self) -> str:
        raise LostError("no answer")


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
