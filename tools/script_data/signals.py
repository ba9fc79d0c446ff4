"""Small made-up sounds and clouds of points."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from script_data import files


def speech(folder: pathlib.Path) -> None:
    """A sound of three seconds whose pitch rises, and the sentence that it is said to be."""
    count = (93638 - 44) // 2
    time = np.arange(count) / 16000.0
    sound = (8000 * np.sin(2 * np.pi * (200 + 100 * time) * time)).astype("<i2").tobytes()
    (folder / "LDC93S1.wav").write_bytes(files.sound(sound))
    text = "0 %d she had your dark suit in greasy wash water all year" % count
    (folder / "LDC93S1.txt").write_text(text.ljust(61)[:61] + "\n")


def clouds(folder: pathlib.Path) -> None:
    """Clouds of 64 points in files of h5py: ellipsoids of 40 kinds."""
    import h5py  # only this kind needs it

    random = np.random.RandomState(0)
    for name, count in (("train", 64), ("test", 16)):
        kinds = random.randint(0, 40, (count, 1))
        axes = 0.2 + np.stack([kinds % 5, kinds // 5 % 4, kinds // 20], -1) / 5.0
        with h5py.File(str(folder / ("%s.h5" % name)), "w") as file:
            file["data"] = (random.randn(count, 64, 3) * axes).astype(np.float32)
            file["label"] = kinds.astype(np.uint8)
        (folder / ("%s_files.txt" % name)).write_text("%s\n" % (folder / ("%s.h5" % name)))


def spoken(folder: pathlib.Path) -> None:
    """Spectrograms of 16 sentences, 20 to 35 frames each, and a list of them."""
    random = np.random.RandomState(0)
    lines = []
    for number in range(16):
        frames = 20 + number
        names = ["%s-%d.npy" % (kind, number) for kind in ("spec", "mel")]
        for name, bands in zip(names, (1025, 80)):
            wave = np.sin(np.arange(frames)[:, None] / 5.0 + np.arange(bands) / 20.0 + number)
            noise = 0.05 * random.rand(frames, bands)
            np.save(str(folder / name), (0.5 + 0.4 * wave + noise).astype(np.float32))
        lines.append("%s|%s|%d|said number %d\n" % (*names, frames, number))
    (folder / "train.txt").write_text("".join(lines))


def voices(folder: pathlib.Path) -> None:
    """Four sounds of a second, of two speakers, and the sizes of a small WaveNet."""
    time = np.arange(16000) / 16000.0
    for number in range(4):
        sound = 8000 * np.sin(2 * np.pi * (200 + 100 * number) * time)
        name = "p%d_%03d.wav" % (225 + number // 2, number)
        (folder / name).write_bytes(files.sound(sound.astype("<i2").tobytes()))
    sizes = {"filter_width": 2, "sample_rate": 16000, "dilations": [1, 2, 4, 8, 1, 2, 4, 8]}
    sizes.update(residual_channels=8, dilation_channels=8, skip_channels=16)
    sizes.update(quantization_channels=256, initial_filter_width=32)
    sizes.update(use_biases=True, scalar_input=False)
    (folder / "wavenet.json").write_text(json.dumps(sizes))
