"""A page in one file that loads nothing: parts, content security policy, packed data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import pkgutil
from typing import Any

from graphmp.wording import printable


def resource(package: str, name: str) -> str:
    """A part of a page, from the folder `page` of a package."""
    data = pkgutil.get_data(package, "page/" + name)
    assert data is not None  # package data, installed with this file
    return data.decode("utf-8").replace("\r\n", "\n")


def security_policy(style: str, script: str) -> str:
    """A content security policy that only allows one style sheet and one script, by their text."""
    return (
        "default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'"
        % (_hash(style), _hash(script))
    )


def packed(value: Any) -> str:
    """JSON, compressed by gzip, in base64. The same value always gives the same text."""
    target = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as file:
        file.write(json.dumps(value, separators=(",", ":")).encode("ascii"))
    return base64.b64encode(target.getvalue()).decode("ascii")


def escape(text: str) -> str:
    """Text for HTML, with control characters shown."""
    return html.escape(printable(text))


def _hash(text: str) -> str:
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode(
        "ascii"
    )
