"""Sphinx configuration: `make docs`."""

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
suppress_warnings = ["myst.header"]
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
