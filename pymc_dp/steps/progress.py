"""What PyMC's progress bar shows of a private step: decisions and budget; a bar before that."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.errors import LiveError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column


class SurrogateBar:
    """A bar while a surrogate is made, before the first draw.

    Parameters
    ----------
    shown : bool
        Nothing is shown otherwise, nor where the output is no terminal and no notebook.

    Notes
    -----
    **Privacy.** Shows how many of a number of passes are done that is known beforehand from the settings. How
    long a pass takes is not hidden: docs/limits.
    """

    def __init__(self, shown: bool):
        self._shown = shown
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "SurrogateBar":
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Show so many passes of all."""
        if not self._shown:
            return
        if self._bar is None:
            self._start(total)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)

    def _start(self, total: int) -> None:
        columns = TextColumn("Surrogate: passes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        bar = Progress(*columns, transient=True)
        if not (bar.console.is_terminal or bar.console.is_jupyter):
            self._shown = False
            return
        try:
            bar.start()
        except LiveError:  # PyMC's bar is there, and this version of rich shows one at a time
            self._shown = False
            return
        self._bar, self._task = bar, bar.add_task("", total=total)


def columns(n_chains: int) -> tuple[list[TextColumn], dict[str, list[float]]]:
    """Columns of the bar, and their values before the first draw."""
    shown = [
        TextColumn("{task.fields[acceptance_rate]:0.2f}", table_column=Column("Accepted", ratio=1)),
        TextColumn("{task.fields[epsilon_spent]:0.3f}", table_column=Column("ε spent", ratio=1)),
    ]
    return shown, {"acceptance_rate": [0.0] * n_chains, "epsilon_spent": [0.0] * n_chains}


def updates() -> tuple[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """Pick what is shown from the stats of a draw."""

    def update(stats: Mapping[str, Any]) -> dict[str, Any]:
        return {name: stats[name] for name in ("acceptance_rate", "epsilon_spent")}

    return (update,)
