#!/usr/bin/env python3
"""Regenerate the pictures of the README and docs/.

The page of a diff, light and dark, and the terminal.

usage: screenshots.py [-o docs]

    python tools/screenshots.py

Converts examples/simple_cnn.py with `python -m graphmp convert` in a temporary folder, opens the
page in headless Chromium (Debian's chromium and chromium-driver, and selenium), and captures the
output of `graphmp diff` on a terminal. pictures.json has the text in each picture, which tests
compare with the current output. Exit status 2 if there is no browser.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import zlib
from typing import Any, Dict, List, NamedTuple, Optional

from parts import browser
from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.conversion.quiet import quiet_stderr

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "simple_cnn.py"
CONVERT = ["convert", str(EXAMPLE), "-o", "out"]
DIFF = ["diff", "out/original.meta", "out/converted.meta"]
# Each picture of the page: its colour scheme, and the URL fragment.
PAGES = {
    "diff-page.png": ("light", "node=hidden/MatMul"),
    "diff-page-dark.png": ("dark", "node=graphmp/loss_scale/unscale_3&kind=scale,unscale"),
}
ON_A_TERMINAL = "diff-terminal.png"
TEXTS = "pictures.json"
SIZE = (1280, 900)  # pixels
COLUMNS, ROWS = 152, 49
BACKGROUND, FOREGROUND = (22, 24, 29), (216, 218, 223)
# Black, red, green, yellow, blue, magenta, cyan, white.
COLOURS = [
    BACKGROUND,
    (240, 113, 120),
    (126, 200, 140),
    (229, 192, 123),
    (97, 175, 239),
    (198, 160, 246),
    (102, 204, 214),
    FOREGROUND,
]
TERMINAL = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px 20px; overflow: hidden; }}
body {{ background: {background}; color: {foreground}; }}
pre {{ margin: 0; font: 13.5px/17.5px "DejaVu Sans Mono", monospace; }}
</style><pre>{code}</pre>"""


class Picture(NamedTuple):
    """A picture as PNG, and the lines of text of its page, the title first."""

    data: bytes
    text: List[str]


def main(argv: Optional[List[str]] = None) -> int:
    """Make the pictures. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "-o",
        "--output",
        type=pathlib.Path,
        default=ROOT / "docs",
        metavar="FOLDER",
        help="output folder (default: docs)",
    )
    args = parser.parse_args(argv)
    reason = browser.missing()
    if reason:
        print("screenshots: %s" % reason, file=sys.stderr)
        return 2
    args.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tensorflow = converted(folder)
        pictures = photographed(folder)
    for name, picture in pictures.items():
        (args.output / name).write_bytes(picture.data)
        print("%s %d kB" % (args.output / name, len(picture.data) / 1000))
    texts = {
        "tensorflow": tensorflow,
        "text": {name: picture.text for name, picture in pictures.items()},
    }
    (args.output / TEXTS).write_text(
        json.dumps(texts, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return 0


def converted(folder: pathlib.Path) -> str:
    """Make all that the pictures show, in a folder. Return the version of TensorFlow."""
    subprocess.run(
        command(CONVERT),
        check=True,
        cwd=str(folder),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    (folder / "terminal.html").write_text(
        terminal_page(on_a_terminal(DIFF, folder)), encoding="utf-8"
    )
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    return str(report["tensorflow_version"])


def command(arguments: List[str]) -> List[str]:
    """A command line of graphmp, of this checkout."""
    return [sys.executable, "-m", "graphmp", *arguments]


def environment() -> Dict[str, str]:
    """The environment of the commands: this checkout, and a terminal of the picture's size."""
    return dict(
        os.environ,
        PYTHONPATH=str(ROOT),
        TERM="xterm-256color",
        COLUMNS=str(COLUMNS),
        LINES=str(ROWS),
    )


def on_a_terminal(arguments: List[str], folder: pathlib.Path) -> str:
    """The output of a graphmp command on a terminal, colours included."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(arguments),
        cwd=str(folder),
        env=environment(),
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ):
        os.close(theirs)
        data = b"".join(iter(lambda: received(ours), b""))
    os.close(ours)
    return data.decode("utf-8").replace("\r\n", "\n")


def received(descriptor: int) -> bytes:
    """The next bytes of a terminal; empty at the end."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the end, on Linux
        return b""


def terminal_page(output: str) -> str:
    """A page with the first lines of a terminal, below the command that wrote them."""
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, highlight=False
    )
    console.print("$ graphmp " + " ".join(DIFF), style="bold")
    for line in list(AnsiDecoder().decode(output))[: ROWS - 1]:
        line.truncate(COLUMNS, overflow="ellipsis")
        console.print(line, soft_wrap=True)
    theme = TerminalTheme(BACKGROUND, FOREGROUND, COLOURS)
    return console.export_html(theme=theme, code_format=TERMINAL, inline_styles=True)


def photographed(folder: pathlib.Path) -> Dict[str, Picture]:
    """All pictures by name, from the files in a folder."""
    driver = browser.start(folder / "profile")
    browser.resize(driver, *SIZE)
    try:
        result = {}
        for picture, (scheme, state) in PAGES.items():
            browser.prefer(driver, scheme)
            browser.open_page(driver, folder / "out" / "diff.html", state)
            result[picture] = settled(driver)
        driver.get((folder / "terminal.html").as_uri())
        result[ON_A_TERMINAL] = settled(driver)
        return result
    finally:
        driver.quit()


def settled(driver: Any) -> Picture:
    """A picture of the page once it is fully painted."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => "
        "setTimeout(done, 100)));"
    )
    text = driver.execute_script("return document.body.innerText").splitlines()
    return Picture(
        packed(driver.get_screenshot_as_png()),
        list(filter(None, map(str.strip, [driver.title, *text]))),
    )


def packed(png: bytes) -> bytes:
    """The same picture in fewer bytes: text packs better without the filters of browsers."""
    with quiet_stderr():  # TensorFlow writes to stderr when imported
        import tensorflow.compat.v1 as tf

        with tf.Graph().as_default(), tf.Session() as session:
            pixels = session.run(tf.image.decode_png(png, channels=3))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: no filter
    header = struct.pack(">2I5B", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


if __name__ == "__main__":
    sys.exit(main())
