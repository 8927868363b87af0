"""Equations, written in TeX between dollars, become MathML.

Browsers draw MathML themselves, so pages need neither a script nor a network. MathJax and KaTeX would need both, or
megabytes of fonts beside the pages.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Draw what the extension `arithmatex` marked."""
    return _EQUATION.sub(_drawn, content)


def _drawn(match: re.Match[str]) -> str:
    element, tex = match.groups()
    display = "block" if element == "div" else "inline"
    return f'<{element} class="equation">{convert(html.unescape(tex).strip(), display=display)}</{element}>'
