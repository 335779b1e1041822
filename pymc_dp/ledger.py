"""Command line: ``python -m pymc_dp.ledger show study.db``."""

import argparse
import sys
from collections.abc import Sequence

from pymc_dp.errors import LedgerError
from pymc_dp.privacy.budget.ledger_file import Ledger


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments of the command. Default: those of the process.

    Returns
    -------
    int
        Exit code: 0, or 1 if the ledger cannot be read.
    """
    parser = argparse.ArgumentParser(prog="python -m pymc_dp.ledger", description="Read a privacy ledger.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print the budget, what was spent, and every entry")
    show.add_argument("path", help="file of the ledger")
    path = parser.parse_args(arguments).path
    try:
        print(Ledger(path))
    except LedgerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
