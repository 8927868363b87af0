"""A table that can be shown in the terminal and written as Markdown and LaTeX."""

import re
from dataclasses import dataclass

from rich.table import Table

from pdqat.terminal import new_table


@dataclass(frozen=True)
class Grid:
    """Cells of text under headings."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        """The table for the terminal."""
        table = new_table(self.title)
        for heading in self.headings:
            table.add_column(heading, no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """The table in Markdown, below its title."""
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        table = "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{table}\n"

    def latex(self) -> str:
        """The table in LaTeX, for a document that loads booktabs."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering\footnotesize",
                r"\begin{tabular}{" + "l" * len(self.headings) + "}",
                r"\toprule",
                " & ".join(map(_latex, self.headings)) + r" \\",
                r"\midrule",
                *lines,
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{_latex(self.title)}}}",
                r"\end{table}",
                "",
            ]
        )


SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%_#${}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
    }
)


def _latex(text: str) -> str:
    arrow, minus = "\uf000", "\uf001"  # of the private area, so that no text has them
    text = re.sub(r"(?<![\w)])-(?=[\d ])", minus, text.replace("->", arrow)).translate(SPECIAL)
    return text.replace(arrow, r"$\to$").replace(minus, "$-$")
