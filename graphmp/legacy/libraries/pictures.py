"""The functions of `scipy.misc` for images, which SciPy 1.3.0 removed, by Pillow.

Same values as SciPy 1.1's. Only imported if Pillow is installed; the plots of `imshow` and the
filters of `imfilter` are not served.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import numpy as np
from PIL import Image

NAMES = ("bytescale", "fromimage", "imread", "imresize", "imrotate", "imsave", "toimage")
__all__ = list(NAMES)

_RESAMPLINGS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}
_FLAT = (None, "L", "P")
_COLOURED = ("RGB", "RGBA", "YCbCr", "CMYK")
_NO_IMAGE = "'arr' does not have a suitable array shape for any mode."


def imread(name: Any, flatten: bool = False, mode: Optional[str] = None) -> np.ndarray:
    """The pixels of a file; `flatten` makes them grey floats."""
    with Image.open(name) as image:
        return fromimage(image, flatten, mode)


def imsave(name: Any, arr: Any, format: Optional[str] = None) -> None:
    """Write pixels to a file; floats are scaled to 0..255."""
    toimage(arr, channel_axis=2).save(name, *([] if format is None else [format]))


def fromimage(im: Any, flatten: bool = False, mode: Optional[str] = None) -> np.ndarray:
    """The pixels of an image, after a conversion to a mode."""
    if not isinstance(im, Image.Image):
        raise TypeError("Input is not a PIL image.")
    if mode is not None and mode != im.mode:
        im = im.convert(mode)
    elif mode is None and im.mode == "P":
        im = im.convert("RGBA" if "transparency" in im.info else "RGB")
    if flatten:
        im = im.convert("F")
    elif im.mode == "1":  # NumPy would make an array of Booleans of it
        im = im.convert("L")
    return np.array(im)


def bytescale(
    data: Any, cmin: Any = None, cmax: Any = None, high: int = 255, low: int = 0
) -> np.ndarray:
    """Values between `cmin` and `cmax` as bytes between `low` and `high`; bytes stay."""
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    if not 0 <= low <= high <= 255:
        raise ValueError("`low` and `high` should be in 0..255, and `low` not larger")
    cmin, cmax = data.min() if cmin is None else cmin, data.max() if cmax is None else cmax
    if cmax < cmin:
        raise ValueError("`cmax` should be larger than `cmin`.")
    # An unsigned integer less another would wrap around.
    scale = float(high - low) / (float(cmax) - float(cmin) or 1)
    scaled = (data - cmin) * scale + low
    return (scaled.clip(low, high) + 0.5).astype(np.uint8)


def toimage(
    arr: Any,
    high: int = 255,
    low: int = 0,
    cmin: Any = None,
    cmax: Any = None,
    pal: Any = None,
    mode: Optional[str] = None,
    channel_axis: Optional[int] = None,
) -> Any:
    """An image of pixels: of two dimensions, or of three with three or four colours."""
    data = np.asarray(arr)
    if np.iscomplexobj(data):
        raise ValueError("Cannot convert a complex-valued array.")
    if data.ndim == 2:
        return _grey(data, high, low, cmin, cmax, pal, mode)
    if data.ndim != 3 or not {3, 4} & set(data.shape):
        raise ValueError(_NO_IMAGE)
    pixels = np.moveaxis(data, _colours(data.shape, channel_axis), 2)
    mode = mode or ("RGB" if pixels.shape[2] == 3 else "RGBA")
    if mode not in _COLOURED or len(mode.replace("Cb", "b").replace("Cr", "r")) != pixels.shape[2]:
        raise ValueError("%d colours don't make an image of mode %s" % (pixels.shape[2], mode))
    return _of_bytes(mode, bytescale(pixels, cmin, cmax, high, low))


def imresize(arr: Any, size: Any, interp: str = "bilinear", mode: Optional[str] = None) -> Any:
    """Pixels of another size: in percent, as a fraction, or as height and width."""
    image = toimage(arr, mode=mode)
    if np.issubdtype(type(size), np.integer):
        size = size / 100.0
    if np.issubdtype(type(size), np.floating):
        width, height = (int(side * size) for side in image.size)
    else:
        height, width = size[0], size[1]
    return fromimage(image.resize((width, height), resample=_RESAMPLINGS[interp]))


def imrotate(arr: Any, angle: float, interp: str = "bilinear") -> np.ndarray:
    """Pixels turned by degrees, counter-clockwise."""
    return fromimage(toimage(arr).rotate(angle, resample=_RESAMPLINGS[interp]))


def _grey(
    data: np.ndarray, high: int, low: int, cmin: Any, cmax: Any, pal: Any, mode: Optional[str]
) -> Any:
    if mode in _FLAT:
        image = _of_bytes("L", bytescale(data, cmin, cmax, high, low))
        if pal is not None or mode == "P":
            grey = np.arange(256, dtype=np.uint8)[:, None] * np.ones(3, np.uint8)
            image.putpalette(np.asarray(grey if pal is None else pal, np.uint8).tobytes())
        return image
    if mode == "1":
        return Image.fromarray((data > 0).astype(np.uint8) * 255).convert("1")
    if mode == "F":
        return Image.fromarray(data.astype(np.float32))
    if mode != "I":
        raise ValueError("pixels without colours don't make an image of mode %s" % mode)
    cmin, cmax = data.min() if cmin is None else cmin, data.max() if cmax is None else cmax
    scaled = (data * 1.0 - cmin) * (high - low) / (cmax - cmin) + low
    return Image.fromarray(scaled.astype(np.uint32).astype(np.int32))


def _colours(shape: Tuple[int, ...], axis: Optional[int]) -> int:
    """The axis of the colours: the first of size 3, or else of size 4."""
    if axis is None:
        return shape.index(3 if 3 in shape else 4)
    if shape[axis] not in (3, 4):
        raise ValueError("Channel axis dimension is not valid.")
    return axis


def _of_bytes(mode: str, pixels: np.ndarray) -> Any:
    height, width = pixels.shape[:2]
    return Image.frombytes(mode, (width, height), pixels.tobytes())
