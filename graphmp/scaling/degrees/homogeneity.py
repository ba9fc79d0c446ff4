"""The degree of each value of gradient code: how many times the loss scale is a factor of it.

Gradient code is linear in the gradients that it starts from, so that the scale is a factor of its
results: their degree is 1. Custom gradients need not be linear. Rules, by the op
(`policy/homogeneity.txt`):

1. A product adds degrees, a quotient subtracts them; roots and squares halve and double them.
2. Operands of additions, comparisons and selections must have the same degree: lower ones are
   multiplied up to the highest. Zeros have any degree. A clip `Minimum(g, 1)` becomes `Minimum(S g,
   S)`.
3. An unknown op reads unscaled gradients, and its results are scaled again. So does a call of a
   function whose body would need the scale inside (`called.py`). `PyFunc(g)` becomes `S PyFunc(S g
   / S)`.
4. A matmul or convolution has only degrees 0 and 1: of two scaled factors the one that was computed
   first is unscaled. Any other op with other degrees stays float32.
5. A loop variable has the same degree in all iterations; if that is impossible, its Enter and its
   NextIteration read unscaled values.
6. Values that can't be multiplied in place (TensorLists, TensorArrays, complex numbers) and would
   break a rule are kept unscaled: they are unscaled before a write, and scaled again after a read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Dict, List, Mapping, NamedTuple, Tuple

from graphmp.graph.structure.view import Port
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import ARRAY_WRITES, ENTERS, SWITCHES
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.reason import LOSS_SCALE, Reason
from graphmp.scaling.degrees.code import Carriers, Degree, ScaledCode
from graphmp.scaling.degrees.passes import Choices, Pass

_KEEPS_ITS_ARRAY = ARRAY_WRITES.keys() | ENTERS | SWITCHES | {"Identity"}
_MOST_GUESSES = 2  # of a loop variable's degree: from its Enter, and from its NextIteration


class ScaleEffect(NamedTuple):
    """The effect of the scale on gradient code.

    Attributes:
        of: the degree of each node that depends on a seed.
        multiply: inputs (node, slot) and the power of the scale by which they must be multiplied.
        rescale: nodes whose results must be multiplied by the scale.
        unclear: nodes where rules 2 and 3 can't be applied.
        outputs: degrees of outputs that differ from their node's.
        float32: nodes that must stay float32, with the reason.
    """

    of: Dict[str, int]
    multiply: Dict[Tuple[str, int], int]
    rescale: List[str]
    unclear: List[str]
    outputs: Mapping[Port, int] = MappingProxyType({})
    float32: Mapping[str, Reason] = MappingProxyType({})

    def at(self, port: Port) -> int:
        """The degree of an output as computed by its node: 0 if it is scaled again afterwards."""
        return 0 if port.node in self.rescale else self.outputs.get(port, self.of.get(port.node, 0))


def degrees(code: ScaledCode) -> ScaleEffect:
    """Follow the scale from the seeds through gradient code."""
    return Analysis(code, dict.fromkeys(code.seeds, 1)).degrees


class Analysis:
    """Follows the scale through code, in as many passes as it takes to find choices that hold.

    Attributes:
        degrees: the result.
    """

    def __init__(self, code: ScaledCode, given: Mapping[Port, Degree]):
        """`given`: the initial degrees."""
        self._view = code.view
        self._carriers = Carriers(code, given)
        self._choices = Choices({}, set(), set())
        self._pass = Pass(self._carriers, self._choices)
        while self._settle():
            self._pass = Pass(self._carriers, self._choices)
        self.degrees = self._finished()

    def is_zero(self, name: str) -> bool:
        """Whether a node is zero, or a TensorArray or TensorList of zeros: it has any degree."""
        return self._carriers.is_zero(name)

    def _settle(self) -> bool:
        """Check the guesses, and the rules that couldn't be applied.

        Returns whether another pass with other choices is needed.
        """
        guessed_wrong = [
            name
            for name in self._carriers.loop_variables
            if name not in self._choices.apart and not self._settle_loop(name)
        ]
        before = len(self._choices.apart)
        for name in [*self._pass.unclear, *self._read_outside(), *self._mixed_arrays()]:
            self._choices.apart.update(self._carriers.held_together(name))
        return bool(guessed_wrong) or len(self._choices.apart) > before

    def _settle_loop(self, name: str) -> bool:
        """Return whether a loop variable's Enter and NextIteration both have the guessed degree."""
        known, guessed = self._pass.known(name), self._pass.of[name]
        for slot, port in self._carriers.inputs[name].items():
            degree = known.get(slot, guessed if self._carriers.is_free(port) else 0)
            if degree == guessed:
                continue
            if slot not in known or name in self._choices.unscaled_loops:
                self._pass.multiply(port.node, 0, guessed - degree)
                continue
            other, tried = max(known.values()), self._choices.guesses.setdefault(name, [])
            if len(tried) < _MOST_GUESSES and other not in (*tried, guessed):
                tried.append(other)
            else:
                self._choices.unscaled_loops.add(name)
            return False
        return True

    def _read_outside(self) -> List[str]:
        """Nodes whose lists hold scaled values and are read where nothing divides them."""
        found = []
        for name in self._carriers.inputs:
            for consumer in self._view.consumers(name):
                port = Port(name, consumer.output)
                if (
                    consumer.node in self._carriers.code.nodes
                    or rule(self._view.nodes[consumer.node].op).name == "none"
                ):
                    continue
                if self._pass.degree_of(port) and self._carriers.is_held(port):
                    found.append(name)
        return found

    def _mixed_arrays(self) -> List[str]:
        """Nodes that write scaled values into a TensorArray that also gets unscaled ones."""
        fills = [
            name
            for name in self._carriers.flows
            if name in self._carriers.code.nodes and self._view.nodes[name].op in ARRAY_WRITES
        ]
        scaled, others = [], set()
        for name in fills:
            value = next(port for port in self._view.inputs(name) if self._carriers.carries(port))
            if self._pass.of.get(name) or self._pass.degree_of(value):
                scaled.append(name)
            elif not self._carriers.is_free(value):
                others.add(self._array(name))
        return [name for name in scaled if self._array(name) in others] if others else []

    def _array(self, name: str) -> str:
        """The node that creates the TensorArray that a node writes."""
        return self._view.behind(Port(name, 0), _KEEPS_ITS_ARRAY).node

    def _finished(self) -> ScaleEffect:
        found, allow = self._pass, tensor_core_ops()
        reasons = {
            True: Reason(LOSS_SCALE, "compares with scaled gradients"),
            False: Reason(LOSS_SCALE, "reads unscaled gradients"),
        }
        kept = {name: reasons[power > 0] for (name, _), power in found.multiplied.items()}
        for name in self._carriers.inputs:
            read = [
                degree + found.multiplied.get((name, slot), 0)
                for slot, degree in found.known(name).items()
            ]
            if any(degree not in (0, 1) for degree in [*read, found.of[name]]):
                kept[name] = Reason(LOSS_SCALE, "holds a power of it")
        float32 = {
            name: reason for name, reason in kept.items() if self._view.nodes[name].op not in allow
        }
        return ScaleEffect(
            found.of, found.multiplied, found.rescaled, found.unclear, found.outputs, float32
        )
