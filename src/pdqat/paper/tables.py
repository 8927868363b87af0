"""A table that can be shown in the terminal and written as Markdown and LaTeX."""

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
        """For the terminal."""
        table = new_table(self.title)
        for heading in self.headings:
            table.add_column(heading, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        lines = [self.headings, ("---",) * len(self.headings), *self.rows]
        table = "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{table}\n"

    def latex(self) -> str:
        """For a document that loads booktabs."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
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


def _latex(text: str) -> str:
    for character in "&%_#":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")
