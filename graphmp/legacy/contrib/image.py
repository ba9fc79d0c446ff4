"""Projective transforms and warps of images, as in `tf.contrib.image`.

Own code, on the op ImageProjectiveTransformV2 that TensorFlow kept.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "dense_image_warp",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]

_DTYPES = (tf.uint8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)
_GRADIENT = "tensorflow.python.ops.image_ops"  # registers the op's gradient


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Images, HW, HWC or NHWC, under transforms that map an output point to an input point.

    A transform is [a0, a1, a2, b0, b1, b2, c0, c1]; points outside of an image are zero.

    Raises:
        TypeError: if the images' dtype or rank, or the transforms' rank, is not accepted.
    """
    internals.fetch(_GRADIENT)
    with tf.name_scope(name, "transform"):
        images = tf.convert_to_tensor(images, name="images")
        if images.dtype.base_dtype not in _DTYPES:
            raise TypeError("Invalid dtype %s." % images.dtype)
        rows = _rows(transforms, 8)
        batch = _batched(images)
        size = tf.shape(batch)[1:3] if output_shape is None else tf.convert_to_tensor(output_shape)
        result = tf.raw_ops.ImageProjectiveTransformV2(
            images=batch, transforms=rows, output_shape=size, interpolation=interpolation.upper()
        )
        known = batch.shape[1:3] if output_shape is None else tf.get_static_value(size)
        result.set_shape([batch.shape[0], *(known if known is not None else (None, None)), None])
        result.set_shape([None, None, None, batch.shape[3]])
        return _unbatched(result, images)


def _batched(images: tf.Tensor) -> tf.Tensor:
    """Images as NHWC."""
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("image rank must be statically known")
    if rank == 2:
        return images[None, :, :, None]
    if rank == 3:
        return images[None]
    if rank == 4:
        return images
    raise TypeError("Images should have rank between 2 and 4.")


def _unbatched(batch: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    rank = images.shape.ndims
    return {2: lambda: batch[0, :, :, 0], 3: lambda: batch[0], 4: lambda: batch}[rank]()


def _rows(values: Any, width: int) -> tf.Tensor:
    """Vectors of numbers, one a row; a single one becomes a matrix of one row."""
    values = tf.convert_to_tensor(values, dtype=tf.float32)
    rank = values.shape.ndims
    if rank is None:
        raise TypeError("The rank must be statically known")
    if rank > 2:
        raise TypeError("Expected one vector of length %d, or a matrix of them" % width)
    return values[None] if rank == 1 else values


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: Optional[str] = None
) -> tf.Tensor:
    """Images moved by [dx, dy], one for all or one each."""
    with tf.name_scope(name, "translate"):
        moves = translations_to_projective_transforms(translations)
        return transform(images, moves, interpolation)


def translations_to_projective_transforms(
    translations: Any, name: Optional[str] = None
) -> tf.Tensor:
    """The transform of each move [dx, dy]."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moves = _rows(translations, 2)
        zero, one = tf.zeros_like(moves[:, 0]), tf.ones_like(moves[:, 0])
        return tf.stack([one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero], axis=1)


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: Optional[str] = None
) -> tf.Tensor:
    """Images turned counterclockwise about their centres; angles in radians."""
    with tf.name_scope(name, "rotate"):
        images = tf.convert_to_tensor(images)
        size = tf.cast(tf.shape(_batched(images)), tf.float32)
        turns = angles_to_projective_transforms(angles, size[1], size[2])
        return transform(images, turns, interpolation)


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: Optional[str] = None
) -> tf.Tensor:
    """The transform of each counterclockwise turn about the centre of an image."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = tf.reshape(tf.convert_to_tensor(angles, dtype=tf.float32), [-1])
        right = tf.cast(image_width, tf.float32) - 1
        bottom = tf.cast(image_height, tf.float32) - 1
        cosine, sine = tf.cos(angles), tf.sin(angles)
        shift_x = (right - (cosine * right - sine * bottom)) / 2
        shift_y = (bottom - (sine * right + cosine * bottom)) / 2
        zero = tf.zeros_like(angles)
        return tf.stack([cosine, -sine, shift_x, sine, cosine, shift_y, zero, zero], axis=1)


def compose_transforms(*transforms: Any) -> tf.Tensor:
    """The transforms that apply the given ones to an image, the first one first."""
    with tf.name_scope("compose_transforms"):
        result = flat_transforms_to_matrices(transforms[0])
        for following in transforms[1:]:
            result = tf.matmul(result, flat_transforms_to_matrices(following))
        return matrices_to_flat_transforms(result)


def flat_transforms_to_matrices(transforms: Any) -> tf.Tensor:
    """Transforms, rows of 8 numbers, as 3x3 matrices."""
    with tf.name_scope("flat_transforms_to_matrices"):
        rows = _rows(transforms, 8)
        last = tf.ones([tf.shape(rows)[0], 1])
        return tf.reshape(tf.concat([rows, last], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> tf.Tensor:
    """3x3 matrices as transforms, scaled so that the last number is one."""
    with tf.name_scope("matrices_to_flat_transforms"):
        matrices = tf.convert_to_tensor(transform_matrices, dtype=tf.float32)
        rows = tf.reshape(matrices, [-1, 9])
        return (rows / rows[:, 8:])[:, :8]


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> tf.Tensor:
    """Images, NHWC, whose pixel (j, i) is read at (j, i) - flow, by bilinear interpolation.

    Beyond an image the nearest pixel of its border is read.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        size = tf.shape(image)
        grid = tf.stack(tf.meshgrid(tf.range(size[1]), tf.range(size[2]), indexing="ij"), axis=-1)
        places = tf.cast(grid, flow.dtype) - flow
        last = tf.cast(size[1:3] - 2, flow.dtype)
        corner = tf.clip_by_value(tf.floor(places), tf.zeros_like(last), last)
        weights = tf.cast(tf.clip_by_value(places - corner, 0.0, 1.0), image.dtype)
        result = _interpolated(image, tf.cast(corner, tf.int32), weights)
        result.set_shape(image.shape)
        return result


def _interpolated(image: tf.Tensor, corner: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Bilinear interpolation between the pixels at `corner` and those below and to the right."""

    def pixels(down: int, right: int) -> tf.Tensor:
        return tf.gather_nd(image, corner + [down, right], batch_dims=1)

    down, right = weights[..., :1], weights[..., 1:]
    top = pixels(0, 0) + right * (pixels(0, 1) - pixels(0, 0))
    bottom = pixels(1, 0) + right * (pixels(1, 1) - pixels(1, 0))
    return top + down * (bottom - top)
