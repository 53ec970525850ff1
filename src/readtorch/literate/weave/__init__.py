"""Weave: the chapters as a site, through mkdocs' own Markdown."""
