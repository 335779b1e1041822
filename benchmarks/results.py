"""Where benchmarks keep the numbers of a figure, and the figure: benchmarks/results, docs/images."""

from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]


def store(name: str, rows: pd.DataFrame) -> None:
    """Keep the numbers, with four digits."""
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(exist_ok=True)
    rows.to_csv(folder / f"{name}.csv", index=False, float_format="%.4g")


def stored(name: str) -> pd.DataFrame:
    """Read what was kept."""
    return pd.read_csv(ROOT / "benchmarks" / "results" / f"{name}.csv")


def picture(name: str, figure: Any) -> None:
    """Save for the documentation."""
    figure.savefig(ROOT / "docs" / "images" / f"{name}.png", dpi=110)
