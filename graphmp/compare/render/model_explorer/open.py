"""Show original.json and converted.json, beside this file, in Model Explorer.

Selecting a node selects its counterpart. Runs on Python 3.9 and later with `pip install
ai-edge-model-explorer`, and needs nothing else of the program that wrote these files.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any, Dict
from urllib.parse import quote, unquote

try:
    # installed where the files are looked at
    import model_explorer  # type: ignore[import-not-found]
    from model_explorer.config import ModelExplorerConfig  # type: ignore[import-not-found]
except ImportError as error:
    sys.exit("%s; Model Explorer comes with: pip install ai-edge-model-explorer" % error)

FOLDER = pathlib.Path(__file__).resolve().parent
SIDES = ("original", "converted")


class SideBySide(ModelExplorerConfig):
    """Two panes, and the mode in which they follow each other.

    The app only takes them from its URL.
    """

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
    """Serve the page and open it in a browser, until Ctrl+C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--no_open_in_browser", action="store_true", help="only print the address")
    arguments = parser.parse_args()
    config = SideBySide()
    for side in SIDES:
        config.add_model_from_path(
            quote(str(FOLDER / (side + ".json")), safe="/:\\")
        )  # the app puts it into a URL unchanged
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
