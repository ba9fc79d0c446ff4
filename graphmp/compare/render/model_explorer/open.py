"""Shows original.json and converted.json, which lie beside this file, side by side in Model Explorer; selecting a node selects its counterpart.

It runs on Python 3.9 and later with `pip install ai-edge-model-explorer`, and needs nothing else of what wrote these files.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any, Dict
from urllib.parse import quote, unquote

try:
    import model_explorer  # type: ignore[import-not-found]  # installed where the files are looked at
    from model_explorer.config import ModelExplorerConfig  # type: ignore[import-not-found]
except ImportError as error:
    sys.exit("%s; Model Explorer comes with: pip install ai-edge-model-explorer" % error)

FOLDER = pathlib.Path(__file__).resolve().parent
SIDES = ("original", "converted")


class SideBySide(ModelExplorerConfig):
    """Two panes. The app takes them, and the mode in which they follow each other, from its URL, and has no other way to set them."""

    def to_url_param_value(self) -> str:
        data = json.loads(unquote(super().to_url_param_value()))
        data["uiState"] = {"paneStates": [self._pane(side) for side in SIDES]}
        data["sync"] = {"mode": "match_node_id"}
        return quote(json.dumps(data))

    def _pane(self, side: str) -> Dict[str, Any]:
        return {
            "deepestExpandedGroupNodeIds": [],
            "selectedNodeId": "",
            "selectedGraphId": side + " main",
            "selectedCollectionLabel": side,
            "widthFraction": 0.5,
            "selected": side == SIDES[0],
        }


def main() -> None:
    """Serves the page and opens it in a browser, until Ctrl+C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--no_open_in_browser", action="store_true", help="only print the address")
    arguments = parser.parse_args()
    config = SideBySide()
    for side in SIDES:
        config.add_model_from_path(
            quote(str(FOLDER / (side + ".json")), safe="/:\\")
        )  # the app puts it into a URL as it is
        config.add_node_data(
            "why",
            (FOLDER / ("node_data_%s.json" % side)).read_text(encoding="utf-8"),
            model_name=side,
        )
    model_explorer.visualize_from_config(
        config, port=arguments.port, no_open_in_browser=arguments.no_open_in_browser
    )


if __name__ == "__main__":
    main()
