"""What PyMC's progress bar shows of a private step: decisions and budget."""

from collections.abc import Callable, Mapping

from rich.progress import TextColumn
from rich.table import Column

_STATS = ("acceptance_rate", "epsilon_spent")


def columns(n_chains: int) -> tuple[list[TextColumn], dict[str, list[float]]]:
    """Columns of the bar, and their values before the first draw."""
    shown = [
        TextColumn("{task.fields[acceptance_rate]:0.2f}", table_column=Column("Accepted", ratio=1)),
        TextColumn("{task.fields[epsilon_spent]:0.3f}", table_column=Column("ε spent", ratio=1)),
    ]
    return shown, {name: [0.0] * n_chains for name in _STATS}


def updates() -> tuple[Callable[[Mapping[str, float]], dict[str, float]]]:
    """Pick what is shown from the stats of a draw."""
    return (lambda stats: {name: stats[name] for name in _STATS},)
