"""What the functions of `scipy.misc` make of small images."""

from __future__ import annotations

import pathlib
from typing import Any, Dict

import numpy as np


def images() -> Dict[str, np.ndarray]:
    """Pixels of each form: grey, coloured, of bytes, of integers, with the colours first."""
    random = np.random.RandomState(0)
    return {
        "grey": random.rand(5, 7),
        "colour": random.rand(5, 7, 3) * 3 - 1,
        "bytes": random.randint(0, 256, (4, 6, 4)).astype(np.uint8),
        "integers": random.randint(0, 1000, (6, 4)).astype(np.uint16),
        "first": random.rand(3, 4, 5),
    }


def made(misc: Any, folder: pathlib.Path) -> Dict[str, Any]:
    """The pixels that each function makes, by name; files go to a folder."""
    given = images()
    grey, colour, integers = given["grey"], given["colour"], given["integers"]
    found = {
        "scaled": misc.bytescale(colour),
        "scaled_to": misc.bytescale(integers, cmin=10, cmax=500, high=200, low=20),
        "scaled_flat": misc.bytescale(np.ones((2, 2))),
        "of_floats": misc.imresize(grey, (3, 3), mode="F"),
        "mode_i": misc.fromimage(misc.toimage(integers, mode="I")),
        "mode_p": misc.fromimage(misc.toimage(grey, mode="P")),
        "mode_ycbcr": misc.fromimage(misc.toimage(colour, mode="YCbCr")),
        "limits": misc.fromimage(misc.toimage(grey, cmin=0.2, cmax=0.7, high=100, low=10)),
    }
    for name, pixels in given.items():
        found["image_" + name] = misc.fromimage(misc.toimage(pixels))
        found["percent_" + name] = misc.imresize(pixels, 50)
        found["fraction_" + name] = misc.imresize(pixels, 1.5)
        found["size_" + name] = misc.imresize(pixels, (3, 8), interp="nearest")
        found["turned_" + name] = misc.imrotate(pixels, 30)
        if name != "first":
            path = str(folder / "image.png")
            misc.imsave(path, pixels)
            found["read_" + name] = misc.imread(path)
            found["flat_" + name] = misc.imread(path, flatten=True)
            found["grey_" + name] = misc.imread(path, mode="L")
    return {name: np.asarray(pixels).tolist() for name, pixels in found.items()}
