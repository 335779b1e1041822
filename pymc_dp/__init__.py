"""Differentially private Markov chain Monte Carlo for PyMC."""

from pymc_dp import privacy, proposals
from pymc_dp.audit import audit
from pymc_dp.bambi import from_bambi
from pymc_dp.errors import (
    BudgetError,
    ModelRefusedError,
    NoisySummaryWarning,
    NotPrivateWarning,
    NotSampledError,
    PrivacyError,
    TooFewRecordsError,
    WeakGuaranteeWarning,
    log_failures,
)
from pymc_dp.evaluation.check import Check, check
from pymc_dp.evaluation.compare import Comparison, compare
from pymc_dp.evaluation.predict import log_likelihood, predict
from pymc_dp.inspection import Inspection, inspect
from pymc_dp.likelihood.expected import expected_width
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.page.report import report
from pymc_dp.planning import FromPrior, expected_accuracy
from pymc_dp.plots import plot_accuracy, plot_check, plot_privacy_profile, plot_privacy_spend
from pymc_dp.prepare import Boolean, Category, Numeric, Prepare
from pymc_dp.privacy.accounting.composition import compare_accountants
from pymc_dp.privacy.budget.ledger_file import Ledger, LedgerError, PrivacyBudgetExceeded
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.budget.pricing import calibrate
from pymc_dp.releasing import release_likelihood
from pymc_dp.remote.owners import Owner
from pymc_dp.remote.shards import Shards
from pymc_dp.report import LedgerReport, PrivacyReport, privacy_report
from pymc_dp.sampling import release, sample
from pymc_dp.steps.barker import DPBarker
from pymc_dp.steps.fast_mh import DPFastMH
from pymc_dp.steps.hmc import DPHMC
from pymc_dp.steps.nuts import DPNUTS
from pymc_dp.steps.penalty import DPPenalty, DPPenaltyMH
from pymc_dp.steps.sghmc import DPSGHMC
from pymc_dp.tester import TradeOffTester

__version__ = "0.1.0"

__all__ = [
    "DPHMC",
    "DPNUTS",
    "DPSGHMC",
    "Boolean",
    "BudgetError",
    "Category",
    "Check",
    "Comparison",
    "DPBarker",
    "DPFastMH",
    "DPPenalty",
    "DPPenaltyMH",
    "FromPrior",
    "Inspection",
    "Ledger",
    "LedgerError",
    "LedgerReport",
    "Likelihood",
    "ModelRefusedError",
    "NoisySummaryWarning",
    "NotPrivateWarning",
    "NotSampledError",
    "Numeric",
    "Owner",
    "Prepare",
    "PrivacyBudgetExceeded",
    "PrivacyError",
    "PrivacyPlan",
    "PrivacyReport",
    "Shards",
    "TooFewRecordsError",
    "TradeOffTester",
    "WeakGuaranteeWarning",
    "audit",
    "calibrate",
    "check",
    "compare",
    "compare_accountants",
    "expected_accuracy",
    "expected_width",
    "from_bambi",
    "inspect",
    "log_failures",
    "log_likelihood",
    "plot_accuracy",
    "plot_check",
    "plot_privacy_profile",
    "plot_privacy_spend",
    "predict",
    "privacy",
    "privacy_report",
    "proposals",
    "release",
    "release_likelihood",
    "report",
    "sample",
]
