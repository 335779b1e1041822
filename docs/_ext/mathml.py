"""Formulas as MathML, which browsers draw themselves: no script, no request to another site.

Displayed formulas are TeX between dollar signs. In running text the proofs write plain text, as in
``l_i(θ)`` or ``e^(−s²/8)``, quick to read in an editor; here what has ``_`` or ``^`` becomes a formula.
A formula that cannot be read is a warning, and warnings stop the build.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
GREEK = dict(
    zip(
        "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΣΦΨΩ",
        (
            "alpha beta gamma delta varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau varphi "
            "chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
        ).split(),
        strict=True,
    )
)
ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
# One symbol: a letter or a word of few letters, with its accent, strokes and exponents.
SYMBOL = r"[^\W\d_]{1,3}[\u0302\u0303\u0304]?[′*]?[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*"
INDEX = r"(?:[^\W_]+[′]?|\([^()\s]{1,12}\))"
TOKEN = re.compile(rf"(?<![\w`/.]){SYMBOL}(?:[_^]{INDEX})+[′]?[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*(?![\w`])")


def tex(text: str) -> str:
    """TeX of a formula in plain text, such as ``e^(−s²/8)`` or ``θ_i²``."""
    text = re.sub(r"([_^])\(([^()]*)\)", r"\1{\2}", text)
    text = re.sub(r"([_^])(\w{2,})", r"\1{\2}", text)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+", lambda m: "^{" + m[0].translate(SUPERSCRIPTS) + "}", text)
    text = re.sub(r"[₀-₉]+", lambda m: "_{" + m[0].translate(SUBSCRIPTS) + "}", text)
    text = re.sub(r"(\w)([\u0302\u0303\u0304])", lambda m: rf"\{ACCENTS[m[2]]}{{{m[1]}}}", text)
    for letter, name in GREEK.items():
        text = text.replace(letter, rf"\{name} ")
    return text.replace("−", "-").replace("·", r"\cdot ").replace("′", "'").replace("≤", r"\le ")


class PlainFormulas(SphinxTransform):
    """Symbols with ``_`` or ``^`` in the running text of proofs become formulas."""

    default_priority = 700

    def apply(self) -> None:
        if not self.env.current_document.docname.startswith("proofs/"):
            return
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.math | nodes.math_block):
                continue
            parts, end = [], 0
            for match in TOKEN.finditer(text):
                parts += [nodes.Text(text[end : match.start()]), nodes.math(match[0], tex(match[0]))]
                end = match.end()
            if parts:
                text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def mathml(translator, node, display: str) -> None:
    try:
        markup = convert(node.astext().replace("{aligned}", "{align*}"), display=display)
    except Exception as error:
        logger.warning("formula not understood: %s (%r)", node.astext(), error, location=node)
        markup = translator.encode(node.astext())
    translator.body.append(markup if display == "inline" else f'<div class="math">{markup}</div>')
    raise nodes.SkipNode


def setup(app) -> dict:
    app.add_transform(PlainFormulas)
    app.add_html_math_renderer(
        "mathml",
        (lambda self, node: mathml(self, node, "inline"), None),
        (lambda self, node: mathml(self, node, "block"), None),
    )
    app.config.html_math_renderer = "mathml"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
