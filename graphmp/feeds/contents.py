"""Requirements on made-up values, by the ops that read them.

1. Integers for look-ups are below the number of rows, classes or positions, the smallest of
   several.
2. A scalar integer used in a shape is the batch size.
3. Lengths of sequences are from 1 to the number of steps, also where they look up the last step;
   one has all, since masks are as wide as the longest. With a CTC loss all have, and no letter of a
   label is repeated: a label that doesn't fit into its sequence is an error. Values that are added
   up to an integer, such as a mask's, are 1. Ids that are compared with a constant, such as
   padding, differ from it in the first row.
4. Labels of a softmax are one-hot rows, labels of a sigmoid are 0 or 1.
5. Numbers of segments count up. Other integers are 0 or 1, scalars 1; bytes are 0 to 255, bools
   true, strings a letter, or a digit if a number is parsed from them.
6. A learning rate is 0.001. Other scalars are 0.5, which suits dropout rates, keep probabilities
   and weights.
7. Everything else is standard normal.
"""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.feeds.bounds import looked_up
from graphmp.feeds.counts import are_added_up, numbers_segments, paddings
from graphmp.feeds.labels import are_binary, is_log_label, is_rate, is_sigmoid_label, is_single
from graphmp.feeds.partners import joined
from graphmp.feeds.shapes import Guess, Shapes, refined
from graphmp.feeds.sources import needed
from graphmp.feeds.sparse import sparse_parts
from graphmp.feeds.uses import ValueUse, scalar, uses_of_shape, uses_of_values
from graphmp.feeds.wanted import Dimensions, Wanted, port_of, wanted_tensors
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import INEQUALITIES

INTEGERS, SPELLING, LENGTHS, ONE_HOT = (
    "integers",
    "integers, no two neighbours alike",
    "lengths",
    "one-hot",
)
CONSTANT, NORMAL, LETTERS, DIGITS = "constant", "normal", "letters", "digits"
NUMBERS = "numbers"  # of rows, from 0

_SCALAR = 0.5
_LEARNING_RATE = 1e-3
_SOFTMAX_LOSSES = frozenset(
    ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
)
_CTC_LENGTHS = frozenset((("CTCBeamSearchDecoder", 1), ("CTCGreedyDecoder", 1), ("CTCLoss", 3)))
_LENGTHS = _CTC_LENGTHS | {("ReverseSequence", 1)}
_SHAPES = frozenset((
    ("BroadcastTo", 1), ("Fill", 0), ("RandomStandardNormal", 0), ("RandomUniform", 0),
    ("Range", 1), ("Reshape", 1), ("Slice", 2), ("Tile", 1), ("TruncatedNormal", 0),
))  # fmt: skip
_PARSES = frozenset((
    "DecodeAndCropJpeg", "DecodeBmp", "DecodeCSV", "DecodeCompressed", "DecodeGif", "DecodeImage",
    "DecodeJSONExample", "DecodeJpeg", "DecodePaddedRaw", "DecodePng", "DecodeProtoV2", "DecodeRaw",
    "DecodeWav", "DecodeWebP", "DeserializeManySparse", "DeserializeSparse", "ExtractJpegShape",
    "ParseExample", "ParseExampleV2", "ParseSequenceExample", "ParseSequenceExampleV2",
    "ParseSingleExample", "ParseSingleSequenceExample", "ParseTensor",
))  # fmt: skip


class DrawPlan(NamedTuple):
    """How to draw a tensor's values.

    Attributes:
        tensor: the fed tensor.
        sizes: its shape.
        kind: one of the names above.
        low: the smallest integer or length.
        high: the first integer that is too large; the longest length.
        value: the constant.
        avoided: integers that the first row hasn't.
    """

    tensor: Wanted
    sizes: List[int]
    kind: str
    low: int = 0
    high: int = 2
    value: object = 0
    avoided: Tuple[int, ...] = ()


class Contents:
    """Plans for all tensors that a run needs, under one guess of the unknown dimensions.

    Attributes:
        wanted: the tensors.
    """

    def __init__(self, graph: tf.Graph, view: GraphView, targets: Iterable[str], guess: Guess):
        targets = list(targets)
        self.wanted = wanted_tensors(graph, view, targets)
        self._view = view
        self._run = needed(view, targets)
        self._guess = guess
        self._shapes = Shapes(graph, view)
        self._uses = {tensor.name: uses_of_values(view, port_of(tensor)) for tensor in self.wanted}
        self._dimensions = {tensor.name: self._refined(tensor) for tensor in self.wanted}
        if guess.joined:
            self._dimensions = joined(self._shapes, self.wanted, self._dimensions, guess)
        self._sparse = sparse_parts(graph, view, self.wanted, guess)
        seconds = [
            guess.sizes(shape)[1]
            for shape in self._dimensions.values()
            if len(shape) > 1 and shape[1] != 1
        ]
        steps = min(seconds) if seconds else guess.other
        self._steps = max(1, steps // guess.part)  # of sequences

    def plan(self, tensor: Wanted) -> DrawPlan:
        """How to draw one of the tensors.

        Raises:
            GraphmpError: GMP002 for strings that are parsed.
        """
        part = self._sparse.get(tensor.name)
        if part is not None and part.value is not None:
            return DrawPlan(tensor, list(part.value.shape), CONSTANT, value=part.value)
        sizes = (
            self._guess.sizes(self._dimensions[tensor.name]) if part is None else [part.elements]
        )
        if tensor.dtype == tf.bool:
            return DrawPlan(tensor, sizes, CONSTANT, value=True)
        if tensor.dtype == tf.string:
            return DrawPlan(tensor, sizes, self._strings(tensor))
        return (
            self._numbering(tensor, sizes)
            or self._looking_up(tensor, sizes)
            or self._counting(tensor, sizes)
            or self._labelling(tensor, sizes)
            or self._other(tensor, sizes)
        )

    def _refined(self, tensor: Wanted) -> Dimensions:
        """The tensor's shape, completed by its consumers."""
        around = uses_of_shape(self._view, port_of(tensor))
        asked = [self._shapes.asked(use) for use in around]
        if tensor.shape is None:
            labels = [
                use
                for use in around
                if is_sigmoid_label(self._view, use) or is_log_label(self._view, use)
            ]
            asked += [self._shapes.operand(use, 1 - use.slot) for use in labels]
            asked += [
                self._shapes.asked(use)
                for use in self._uses[tensor.name]
                if use.node.op in _SOFTMAX_LOSSES
            ]  # reshaped on the way to it
            asked += self._shapes.hinted(around)
        return refined(tensor.shape, asked)

    def _numbering(self, tensor: Wanted, sizes: List[int]) -> Optional[DrawPlan]:
        numbers = sizes and any(map(numbers_segments, self._uses[tensor.name]))
        return DrawPlan(tensor, sizes, NUMBERS) if numbers else None

    def _looking_up(self, tensor: Wanted, sizes: List[int]) -> Optional[DrawPlan]:
        uses = self._uses[tensor.name]
        ranges = [found for found in map(self._range, uses) if found is not None]
        if not ranges or self._are_lengths(uses):
            return None
        low = max(0, max(low for low, _ in ranges))
        kind = SPELLING if any(use.node.op == "CTCLoss" for use in uses) else INTEGERS
        high = max(low + 1, min(high for _, high in ranges))
        return DrawPlan(tensor, sizes, kind, low, high, avoided=paddings(self._shapes, uses))

    def _are_lengths(self, uses: Sequence[ValueUse]) -> bool:
        """Whether values are lengths of sequences; a look-up of last steps may read them too."""
        return any((use.node.op, use.slot) in _LENGTHS for use in uses) and not any(
            size is not None for use in uses for size in looked_up(self._shapes, use) or ()
        )

    def _range(self, use: ValueUse) -> Optional[Tuple[int, int]]:
        """The range of values that are looked up.

        Without a known bound, the smaller of the guessed dimensions is used.
        """
        dims = looked_up(self._shapes, use)
        if dims is None:
            return None
        known = [size for size in dims if size is not None]
        bound = min(known) if known else min(self._guess.first, self._guess.other)
        return -use.offset, bound - use.offset

    def _counting(self, tensor: Wanted, sizes: List[int]) -> Optional[DrawPlan]:
        uses = self._uses[tensor.name]
        slots = {(use.node.op, use.slot) for use in uses}
        if tensor.dtype.is_integer and not sizes and slots & _SHAPES:
            return DrawPlan(tensor, sizes, CONSTANT, value=self._guess.first)
        lengths = [
            found for found in (self._longest(use, sizes) for use in uses) if found is not None
        ]
        if not lengths:
            return None
        return DrawPlan(
            tensor, sizes, LENGTHS, min(lengths) if slots & _CTC_LENGTHS else 1, min(lengths)
        )

    def _longest(self, use: ValueUse, sizes: List[int]) -> Optional[int]:
        """The longest length at a use that reads lengths of sequences."""
        slot = (use.node.op, use.slot)
        if slot in _LENGTHS:
            sequences = self._shapes.operand(use, 0)
            axis = use.node.attr["seq_dim"].i if "seq_dim" in use.node.attr else 0
            return (sequences[axis] if sequences else None) or self._steps
        if (
            use.node.op in INEQUALITIES
            and len(sizes) == 1
            and self._shapes.holds_integers(use.port)
        ):
            other = self._view.inputs(use.node.name)[1 - use.slot]
            return self._steps if scalar(self._view, other) is None else None
        return None

    def _labelling(self, tensor: Wanted, sizes: List[int]) -> Optional[DrawPlan]:
        uses = self._uses[tensor.name]
        if not sizes:
            return None
        if any((use.node.op, use.slot) == ("SoftmaxCrossEntropyWithLogits", 1) for use in uses):
            return DrawPlan(tensor, sizes, ONE_HOT)
        if are_binary(self._view, uses):
            return DrawPlan(tensor, sizes, INTEGERS)
        if len(sizes) > 1 and any(is_log_label(self._view, use) for use in uses):
            return DrawPlan(tensor, sizes, INTEGERS if sizes[-1] == 1 else ONE_HOT)
        if are_added_up(self._shapes, uses):
            return DrawPlan(tensor, sizes, CONSTANT, value=1)
        return None

    def _other(self, tensor: Wanted, sizes: List[int]) -> DrawPlan:
        if tensor.dtype == tf.uint8:
            return DrawPlan(tensor, sizes, INTEGERS, 0, 256)
        if tensor.dtype.is_integer:
            return (
                DrawPlan(tensor, sizes, INTEGERS)
                if sizes
                else DrawPlan(tensor, sizes, CONSTANT, value=1)
            )
        if (not sizes or is_single(tensor.shape)) and is_rate(self._shapes, tensor):
            return DrawPlan(tensor, sizes, CONSTANT, value=_LEARNING_RATE)
        if not sizes:
            return DrawPlan(tensor, sizes, CONSTANT, value=_SCALAR)
        return DrawPlan(tensor, sizes, NORMAL)

    def _strings(self, tensor: Wanted) -> str:
        uses = [use for use in self._uses[tensor.name] if use.node.name in self._run]
        for use in uses:
            if use.node.op in _PARSES:
                message = (
                    "--random_data: %s goes into %s, a %s, for which no strings can be made up;"
                    " give batches with --data"
                )
                raise GraphmpError("GMP002", message % (tensor, use.node.name, use.node.op))
        return DIGITS if any(use.node.op == "StringToNumber" for use in uses) else LETTERS
