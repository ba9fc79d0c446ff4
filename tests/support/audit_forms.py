"""Forms of an audit: the data of its page, its lines as a text."""

from __future__ import annotations

import base64
import gzip
import json
import re

from graphmp.audit.render import text


def page_json(page):
    return json.loads(
        gzip.decompress(
            base64.b64decode(re.search(r'<script id="data"[^>]*>([^<]*)<', page).group(1))
        ).decode("ascii")
    )


def rendered(audit, **options):
    """An audit's whole text, each line ended."""
    return "".join(line.text + "\n" for line in text.lines(audit, **options))
