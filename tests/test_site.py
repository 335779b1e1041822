"""The site: every public name is in its reference, every page in its navigation, and answers are near."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import pymc_dp

DOCS = Path(__file__).parents[1] / "docs"
SOURCES = [
    path
    for kind in ("*.md", "*.rst", "*.ipynb")
    for folder in (DOCS, DOCS.parent / "notebooks")  # the site's copy of these is not looked at
    for path in sorted(folder.rglob(kind))
    if not {"_build", "_templates", "generated"} & set(path.parts) and DOCS / "notebooks" not in path.parents
]


def listed(page):
    """Names in the autosummaries of a page of the reference."""
    text = (DOCS / "reference" / page).read_text()
    return set(re.findall(r"^   ([\w.]+)$", "".join(text.split(":nosignatures:")[1:]), re.MULTILINE))


def public_names():
    yield from ((pymc_dp, name, "index.rst") for name in pymc_dp.__all__)
    for module in (pymc_dp.errors, pymc_dp.plots, pymc_dp.privacy, pymc_dp.proposals):
        yield from ((module, name, f"{module.__name__.rpartition('.')[2]}.rst") for name in module.__all__)


def missing_names():
    """Public names without a line in the reference; those that two modules share have one in the first."""
    seen = set()
    for module, name, page in public_names():
        value = getattr(module, name)
        if name in listed(page) or id(value) in seen:
            seen.add(id(value))
        elif getattr(value, "__name__", "") != "pymc_dp.privacy.accounting.gaussian":
            yield f"{module.__name__}.{name}: add it to docs/reference/{page}"


def test_every_public_name_is_in_the_reference():
    assert list(missing_names()) == []


def test_a_name_that_is_not_in_the_reference_is_noticed(monkeypatch):
    monkeypatch.setattr(pymc_dp, "brand_new", lambda: None, raising=False)
    monkeypatch.setattr(pymc_dp, "__all__", [*pymc_dp.__all__, "brand_new"])
    assert "pymc_dp.brand_new: add it to docs/reference/index.rst" in list(missing_names())


def test_every_name_in_the_reference_exists():
    for page in ("index.rst", "errors.rst", "plots.rst", "privacy.rst", "proposals.rst"):
        modules = [pymc_dp if page == "index.rst" else getattr(pymc_dp, page.removesuffix(".rst"))]
        modules.append(pymc_dp.privacy.gaussian)
        for path in listed(page):
            inner, _, name = path.rpartition(".")
            places = [importlib.import_module(f"pymc_dp.{inner}")] if inner else modules
            assert any(hasattr(place, name) for place in places), f"{path} in {page}"


def test_a_name_that_moved_is_found_with_a_warning():
    """Those that notebooks and pages used; no other."""
    for name, place in {"PrivacyError": "errors", "plot_check": "plots"}.items():
        with pytest.warns(DeprecationWarning, match=rf"pymc_dp\.{name} is pymc_dp\.{place}\.{name} now"):
            assert getattr(pymc_dp, name) is getattr(getattr(pymc_dp, place), name)
    with pytest.raises(AttributeError, match="no attribute 'plot_nothing'"):
        _ = pymc_dp.plot_nothing


def children(page):
    """Pages in a page's toctrees."""
    text = page.read_text()
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"\.\. toctree::\n(.*?)(?=\n\S|\Z)", text, re.DOTALL)
    for line in "\n".join(blocks).splitlines():
        entry = line.strip()
        if entry and not entry.startswith(":"):
            target = re.sub(r".*<(.*)>", r"\1", entry)
            found = [page.parent / (target + kind) for kind in (".md", ".rst", ".ipynb")]
            yield next(path.resolve() for path in found if path.exists())


def test_every_page_is_in_the_navigation():
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            todo += children(page)
    assert {str(path) for path in SOURCES} - {str(path) for path in reached} == set()


# Four questions, each with a page that answers it and words that the answer has.
QUESTIONS = {
    "My model has a scale parameter: does it work?": ("which_models.md", r"\*\*Scales and shapes work\*\*"),
    "What is published?": ("promise.md", r"what is released"),
    "What does epsilon = 1 mean for one person?": ("epsilon.md", r"\*\*8\*\*"),
    "How do I use it twice?": ("ledger.md", r"A budget that survives the session"),
}


def links(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#\s:]+)", text) + re.findall(r"^:link: (\S+)$", text, re.MULTILINE):
        found = page.parent / target
        yield (found if found.suffix else found.with_name(found.name + ".md")).resolve()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_at_most_two_clicks_from_the_first_page(question):
    page, words = QUESTIONS[question]
    assert re.search(words, (DOCS / page).read_text())
    first = set(links(DOCS / "index.md"))
    second = {link for page in first if page.suffix == ".md" and page.exists() for link in links(page)}
    assert DOCS / page in first | second


@pytest.mark.parametrize("word", ["hierarchical", "A/B test", "missing"])
def test_what_people_search_for_is_on_a_page_about_it(word):
    assert any(word.lower() in path.read_text().lower() for path in SOURCES if path.parent.name != "proofs")


def test_formulas_of_proofs_are_read():
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        mathml = pytest.importorskip("mathml")
    finally:
        sys.path.pop(0)
    found = [match[0] for match in mathml.TOKEN.finditer("that l_i(θ) and e^(−s²/8) are, in `a_b` and max_x")]
    assert found == ["l_i", "e^(−s²/8)", "max_x"]
    assert mathml.tex("e^(−s²/8)") == "e^{-s^{2}/8}"
    assert mathml.tex("g_ab") == "g_{ab}"
