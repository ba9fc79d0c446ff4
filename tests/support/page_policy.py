"""The content security policy of a page in one file."""

from __future__ import annotations

import base64
import hashlib
import html
import re


def policy(page):
    """The policy that a page states."""
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    return html.unescape(found.group(1))


def own_alone(page):
    """The policy that admits the page's own style and script alone."""
    hashes = [
        hashlib.sha256(re.search("<%s>(.*?)</%s>" % (tag, tag), page, re.DOTALL).group(1).encode())
        for tag in ("style", "script")
    ]
    return (
        "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none';"
        " form-action 'none'" % tuple(base64.b64encode(each.digest()).decode() for each in hashes)
    )
