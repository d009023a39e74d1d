"""Sphinx configuration (`make docs`). Neither building nor reading the site needs a network."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from bohb._version import __version__

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from architecture import tables  # noqa: E402 - tools/ is not a package
from docstrings import as_rst  # noqa: E402
from gallery import gallery  # noqa: E402

project = "bohb"
version = release = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["results/README.md"]

nb_execution_mode = "force"  # the notebooks are stored without outputs
nb_execution_in_temp = True
nb_execution_timeout = 240
nb_execution_raise_on_error = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# Docstrings are plain text with `code`; names in the reference become links.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries = False

html_theme = "furo"
html_title = "bohb"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"}}


def _docstring(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Convert a docstring to reStructuredText."""
    lines[:] = as_rst(lines, title=what == "module")


def _outside(_app: Any, docname: str, source: list[str]) -> None:
    """Include CONTRIBUTING.md and the lists of modules and examples, and turn links to other files into downloads."""
    text = source[0].replace("<!-- modules -->", tables()).replace("<!-- examples -->", gallery())
    if docname == "contributing":
        text = (ROOT / "CONTRIBUTING.md").read_text()
        text = re.sub(r"\]\((?=[a-z])(?!docs/|https?:)", "](../", text).replace("](docs/", "](")
    if docname.startswith("results/") and not text.startswith("# "):  # a page without a title, written by a script
        text = f"# {docname.removeprefix('results/').replace('_', ' ')}\n\n{text}"
    text = text.replace("](../CONTRIBUTING.md", "](contributing.md")
    source[0] = re.sub(r"\]\((\.\./[^)#]+\.(?:py|toml|awk|txt|sh|mjs))\)", r"](path:\1)", text)


def setup(app: Any) -> None:
    """Register the hooks; Sphinx calls this."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("source-read", _outside)
