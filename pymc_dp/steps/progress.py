"""What PyMC's progress bar shows of a private step: decisions and budget."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.progress import TextColumn
from rich.table import Column


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
