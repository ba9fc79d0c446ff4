"""The data of an audit's page."""

from __future__ import annotations

import base64
import gzip
import json
import re


def page_json(page):
    return json.loads(
        gzip.decompress(
            base64.b64decode(re.search(r'<script id="data"[^>]*>([^<]*)<', page).group(1))
        ).decode("ascii")
    )
