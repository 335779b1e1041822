"""Differentially private Markov chain Monte Carlo for PyMC."""

from pymc_dp import errors, plots, privacy, proposals
from pymc_dp.bambi import from_bambi
from pymc_dp.errors import log_failures
from pymc_dp.evaluation.check import check
from pymc_dp.evaluation.compare import compare
from pymc_dp.evaluation.predict import predict
from pymc_dp.inspection import inspect
from pymc_dp.likelihood.efficiency import expected_width
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.page.report import report
from pymc_dp.planning import FromPrior, expected_accuracy
from pymc_dp.prepare import Boolean, Category, Numeric, Prepare
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.pricing import calibrate
from pymc_dp.releasing import release_likelihood
from pymc_dp.remote.owners import Owner
from pymc_dp.remote.shards import Shards
from pymc_dp.report import privacy_report
from pymc_dp.sampling import release, sample
from pymc_dp.steps.barker import DPBarker
from pymc_dp.steps.fast_mh import DPFastMH
from pymc_dp.steps.hmc import DPHMC
from pymc_dp.steps.nuts import DPNUTS
from pymc_dp.steps.penalty import DPPenaltyMH
from pymc_dp.steps.sghmc import DPSGHMC

__version__ = "0.1.0"

DPPenalty = DPPenaltyMH

__all__ = [
    "DPHMC",
    "DPNUTS",
    "DPSGHMC",
    "Boolean",
    "Category",
    "DPBarker",
    "DPFastMH",
    "DPPenalty",
    "DPPenaltyMH",
    "FromPrior",
    "Ledger",
    "Likelihood",
    "Numeric",
    "Owner",
    "Prepare",
    "Shards",
    "calibrate",
    "check",
    "compare",
    "errors",
    "expected_accuracy",
    "expected_width",
    "from_bambi",
    "inspect",
    "log_failures",
    "plots",
    "predict",
    "privacy",
    "privacy_report",
    "proposals",
    "release",
    "release_likelihood",
    "report",
    "sample",
]
