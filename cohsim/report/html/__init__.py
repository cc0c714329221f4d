"""One self-contained page for a result: story, tables, plots. ``render_page`` gives its text."""

from cohsim.report.html.page import render_page

__all__ = ["render_page"]
