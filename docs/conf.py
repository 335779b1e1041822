"""Sphinx settings of the site: ``python -m sphinx -W --keep-going docs docs/_build/html``."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Nothing is computed while the site is built: notebooks bring their outputs, and no graph is compiled.
os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=")

import pymc_dp

project = "pymc_dp"
author = "The pymc_dp developers"
copyright = "2026, the pymc_dp developers"
version = release = pymc_dp.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "gallery",
]
exclude_patterns = ["_build", "_ext", "jupyter_execute", "**/.ipynb_checkpoints"]
default_role = "autolink"  # of docstrings: a name becomes a link where there is a page
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(arviz_plots|dp_accounting)\..*"),  # other projects' pages
    (r"py:obj", r".*"),  # names between backticks: arguments too
]

# Pages. Notebooks are stored with what they printed; tests/test_notebooks.py runs them.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]

# Reference.
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# Looks.
html_theme = "pydata_sphinx_theme"
html_title = "pymc_dp"
templates_path = ["_templates"]
html_static_path = ["_static", "images"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "glossary": [], "which_models": []}
html_theme_options = {
    "logo": {"text": "pymc_dp"},
    "navbar_align": "left",
    "show_nav_level": 1,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
copybutton_exclude = ".linenos, .gp, .go"
