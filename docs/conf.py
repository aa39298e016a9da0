"""Sphinx configuration: `make docs`."""

import re

from adacorr import __version__

project = "adacorr"
author = "The adacorr developers"
copyright = "The adacorr developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"adacorr {release}"
html_static_path = []
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

_SECTIONS = {"Parameters", "Attributes", "Returns"}


def reshape(app, what, name, obj, options, lines):
    """``name : words`` -> the name, then the words; to napoleon they would be the name of a type.

    A bare | would start a substitution, where our docstrings mean an absolute value.
    """
    section, out = "", []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following and set(following) == {"-"}:
            section = line.strip()
        if line.startswith(">>>") and section in _SECTIONS:  # an example ends the list
            section = "Examples"
            out += ["", section, "-" * len(section)]
        if not line.lstrip().startswith((">>>", "...")):
            pieces = line.split("``")  # every second one is literal
            pieces[::2] = [piece.replace("|", "\\|") for piece in pieces[::2]]
            line = "``".join(pieces)
        entry = re.match(r"(\*{0,2}\w[\w, *]*?) : (.*)", line) if section in _SECTIONS else None
        out += [entry[1], f"    {entry[2]}"] if entry else [line]
    lines[:] = out


def setup(app):
    app.connect("autodoc-process-docstring", reshape, priority=400)  # before napoleon
