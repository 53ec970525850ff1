"""The content security policy of a page: our files, and the inline scripts that the page was woven with, by their hashes."""

from __future__ import annotations

import base64
import hashlib
import re

_SCRIPT = re.compile(rb"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.DOTALL | re.IGNORECASE)


def inline_hashes(html: bytes) -> list[str]:
    """The `sha256-…` sources of the page's inline scripts, data blocks left out."""
    found = []
    for match in _SCRIPT.finditer(html):
        attributes = match["attributes"]
        if b"src=" in attributes or b"application/json" in attributes or not match["body"].strip():
            continue
        digest = base64.b64encode(hashlib.sha256(match["body"]).digest()).decode()
        found.append(f"'sha256-{digest}'")
    return sorted(set(found))


def page_policy(html: bytes) -> str:
    scripts = " ".join(["'self'", *inline_hashes(html)])
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {scripts}",
            # diagrams, equations and the theme set style attributes; styles cannot run anything
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "object-src 'none'",
        ]
    )
