"""Raw numbers, pictures and examples that pages link to are part of the site.

Pages link to `../results/x.json`, which a reader of the repository can follow. On the site such a file stands below
`repository/`, so that the link works there too, also without a network.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()\.\./[^)#\s]+")
_FOLDER = "repository"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every file outside docs/ that a page links to."""
    repository = Path(config.docs_dir).parent
    for page in files.documentation_pages():
        for link in _LINK.findall(page.content_string):
            path = _outside(page, link)
            if path and (repository / path).is_file() and not files.get_file_from_path(f"{_FOLDER}/{path}"):
                source = str(repository / path)
                files.append(File.generated(config, f"{_FOLDER}/{path}", abs_src_path=source))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to files outside docs/ to where they stand on the site."""

    def on_site(match: re.Match[str]) -> str:
        path = _outside(page.file, match[0])
        return posixpath.relpath(f"{_FOLDER}/{path}", posixpath.dirname(page.file.src_uri)) if path else match[0]

    return _LINK.sub(on_site, markdown)


def _outside(page: File, link: str) -> str | None:
    """The path in the repository of what a page links to, if that is outside docs/."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page.src_uri), link))
    return path.removeprefix("../") if path.startswith("../") else None
