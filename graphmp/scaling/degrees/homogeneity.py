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

import collections
from types import MappingProxyType
from typing import (
    AbstractSet,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.once import remembered
from graphmp.policy.homogeneity import Rule, rule
from graphmp.policy.op_sets import (
    ADDS,
    ARRAY_READS,
    ARRAY_WRITES,
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    SWITCHES,
)
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.reason import LOSS_SCALE, Reason
from graphmp.scaling.degrees.zeros import Zeros

Degree = Optional[int]  # None for zeros, which have any degree
Called = Callable[[str, Sequence[Degree]], Optional[Sequence[Degree]]]

_HANDS_ON = ENTERS | EXITS | MERGES | NEXT_ITERATIONS | SWITCHES | ADDS | {"AddN", "Identity"}
_KEEPS_ITS_ARRAY = ARRAY_WRITES.keys() | ENTERS | SWITCHES | {"Identity"}
_MOST_GUESSES = 2  # of a loop variable's degree: from its Enter, and from its NextIteration


class ScaledCode(NamedTuple):
    """Gradient code through which the scale is followed.

    Attributes:
        view: the graph.
        nodes: the gradient code.
        seeds: its start; their degree is 1.
        is_float: whether an output holds floating-point numbers.
        is_list: whether an output can't be multiplied in place: a TensorList, which may hold
            floating-point numbers, or complex numbers.
        calls: op types that call functions.
        looped: whether a node is in a while loop.
        called: the degrees of a call's results, given those of its inputs; None if they depend on
            more.
    """

    view: GraphView
    nodes: AbstractSet[str]
    seeds: AbstractSet[Port]
    is_float: Callable[[Port], bool]
    is_list: Callable[[Port], bool]
    calls: AbstractSet[str]
    looped: Callable[[str], bool]
    called: Called = lambda name, given: None


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
    """Follows the scale through code.

    Attributes:
        degrees: the result.
    """

    def __init__(self, code: ScaledCode, given: Mapping[Port, Degree]):
        """`given`: the initial degrees."""
        self._code = code
        self._view = code.view
        self._given = {port: degree for port, degree in given.items() if degree is not None}
        free = [port.node for port, degree in given.items() if degree is None]
        self._zeros = Zeros(self._view, self._carries, free)
        self._allow = frozenset(tensor_core_ops())
        self._apart: Set[str] = set()  # nodes of rule 6
        self._guessed: Dict[str, List[int]] = collections.defaultdict(
            list
        )  # degrees of loop variables; the last guess counts
        self._unscaled_loops: Set[str] = set()
        self._flows = _flows(self._view)
        self._scaled = self._dependent()
        self._carried = {
            name: self._floats(name) for name in self._view.in_graph_order(self._scaled)
        }
        self._loop_variables = [name for name in self._carried if self._is_loop_variable(name)]
        self._pass()
        while self._settle():
            self._pass()
        self.degrees = self._finished()

    def is_zero(self, name: str) -> bool:
        """Whether a node is zero, or a TensorArray or TensorList of zeros: it has any degree."""
        return self._zeros.has(name)

    def _pass(self) -> None:
        """Compute degrees in topological order; the degree of a loop variable is guessed."""
        self._of: Dict[str, int] = {}
        self._outputs: Dict[Port, int] = {}
        self._multiplied: Dict[Tuple[str, int], int] = {}
        self._rescaled: List[str] = []
        self._unclear: List[str] = []
        self._place: Dict[str, int] = {}
        waiting = {
            name: sum(port.node in self._scaled for port in carried.values())
            for name, carried in self._carried.items()
        }
        left = collections.OrderedDict((name, None) for name in self._carried)
        ready: Deque[str] = collections.deque(name for name in left if not waiting[name])
        while left:
            if not ready:
                ready.append(self._to_guess(left))
            name = ready.popleft()
            if name not in left:
                continue
            del left[name]
            self._of[name] = self._degree(name)
            self._place[name] = len(self._place)
            for reader in self._readers(name):
                if reader.node in self._scaled:
                    waiting[reader.node] -= 1
                    if not waiting[reader.node]:
                        ready.append(reader.node)

    def _to_guess(self, left: Mapping[str, None]) -> str:
        """The loop variable to guess next in a cycle, preferably with a known initial value."""
        variables = [name for name in self._loop_variables if name in left]
        return next(
            (name for name in variables if self._known(name)),
            variables[0] if variables else next(iter(left)),
        )

    def _settle(self) -> bool:
        """Check the guesses, and the rules that couldn't be applied.

        Returns whether another pass with other choices is needed.
        """
        guessed_wrong = [
            name
            for name in self._loop_variables
            if name not in self._apart and not self._settle_loop(name)
        ]
        before = len(self._apart)
        for name in [*self._unclear, *self._read_outside(), *self._mixed_arrays()]:
            self._apart |= self._held_together(name)
        return bool(guessed_wrong) or len(self._apart) > before

    def _settle_loop(self, name: str) -> bool:
        """Return whether a loop variable's Enter and NextIteration both have the guessed degree."""
        known, guessed = self._known(name), self._of[name]
        for slot, port in self._carried[name].items():
            degree = known.get(slot, guessed if self._is_free(port) else 0)
            if degree == guessed:
                continue
            if slot not in known or name in self._unscaled_loops:
                self._multiply(port.node, 0, guessed - degree)
                continue
            other = max(known.values())
            if len(self._guessed[name]) < _MOST_GUESSES and other not in (
                *self._guessed[name],
                guessed,
            ):
                self._guessed[name].append(other)
            else:
                self._unscaled_loops.add(name)
            return False
        return True

    def _read_outside(self) -> List[str]:
        """Nodes whose lists hold scaled values and are read where nothing divides them."""
        found = []
        for name in self._carried:
            for consumer in self._view.consumers(name):
                port = Port(name, consumer.output)
                if (
                    consumer.node in self._code.nodes
                    or rule(self._view.nodes[consumer.node].op).name == "none"
                ):
                    continue
                if self._degree_of(port) and self._is_held(port):
                    found.append(name)
        return found

    def _mixed_arrays(self) -> List[str]:
        """Nodes that write scaled values into a TensorArray that also gets unscaled ones."""
        fills = [
            name
            for name in self._flows
            if name in self._code.nodes and self._view.nodes[name].op in ARRAY_WRITES
        ]
        scaled, others = [], set()
        for name in fills:
            value = next(port for port in self._view.inputs(name) if self._carries(port))
            if self._of.get(name) or self._degree_of(value):
                scaled.append(name)
            elif not self._is_free(value):
                others.add(self._array(name))
        return [name for name in scaled if self._array(name) in others] if others else []

    def _array(self, name: str) -> str:
        """The node that creates the TensorArray that a node writes."""
        return self._view.behind(Port(name, 0), _KEEPS_ITS_ARRAY).node

    def _finished(self) -> ScaleEffect:
        reasons = {
            True: Reason(LOSS_SCALE, "compares with scaled gradients"),
            False: Reason(LOSS_SCALE, "reads unscaled gradients"),
        }
        kept = {name: reasons[power > 0] for (name, _), power in self._multiplied.items()}
        for name in self._carried:
            read = [
                degree + self._multiplied.get((name, slot), 0)
                for slot, degree in self._known(name).items()
            ]
            if any(degree not in (0, 1) for degree in [*read, self._of[name]]):
                kept[name] = Reason(LOSS_SCALE, "holds a power of it")
        float32 = {
            name: reason
            for name, reason in kept.items()
            if self._view.nodes[name].op not in self._allow
        }
        return ScaleEffect(
            self._of, self._multiplied, self._rescaled, self._unclear, self._outputs, float32
        )

    def _dependent(self) -> Set[str]:
        """Nodes that depend on a given value through ops that pass a factor on."""
        starts = {port for port, degree in self._given.items() if degree}
        first = [
            reader.node
            for port in starts
            for reader in self._readers(port.node)
            if reader.output == port.output
        ]
        return reached(
            first,
            lambda name: [reader.node for reader in self._readers(name)],
            lambda name: rule(self._view.nodes[name].op).name != "none",
        )

    def _readers(self, name: str) -> Iterator[Consumer]:
        for consumer in self._view.consumers(name):
            if consumer.node in self._code.nodes and self._carries(Port(name, consumer.output)):
                yield consumer

    def _carries(self, port: Port) -> bool:
        return self._code.is_float(port) or self._code.is_list(port)

    def _floats(self, name: str) -> Dict[int, Port]:
        return {
            slot: port for slot, port in enumerate(self._view.inputs(name)) if self._carries(port)
        }

    def _known(self, name: str) -> Dict[int, int]:
        """Degrees of the inputs of a node that have one."""
        found = {}
        for slot, port in self._carried[name].items():
            if port in self._given:
                found[slot] = self._given[port]
            elif port.node in self._of:
                found[slot] = self._degree_of(port)
        return found

    def _degree_of(self, port: Port) -> int:
        return self._outputs[port] if port in self._outputs else self._of.get(port.node, 0)

    def _degree(self, name: str) -> int:
        op, known = self._view.nodes[name].op, self._known(name)
        if name in self._apart:
            return self._unscaled(name, known)
        if self._is_loop_variable(name):
            return self._of_loop_variable(name, known)
        if op in self._code.calls:
            return self._of_call(name, known)
        law = rule(op)
        if law.name == "compared":
            return self._compared(name, known)
        if law.name == "unscaled":
            self._unscale(name, known)
            return 0
        if law.name == "each":
            return self._differing(
                name, [known.get(slot, 0) for slot in range(len(self._view.inputs(name)))]
            )
        return self._by_terms(name, law, known)

    def _of_loop_variable(self, name: str, known: Dict[int, int]) -> int:
        """The degree assumed for a loop variable in all iterations."""
        if name in self._unscaled_loops:
            return 0
        return self._guessed[name][-1] if name in self._guessed else max(known.values(), default=1)

    def _by_terms(self, name: str, law: Rule, known: Dict[int, int]) -> int:
        slots = sorted(self._carried[name]) if law.slots is None else law.slots
        terms = law.terms(slots)
        read = {slot: degree for slot, degree in known.items() if slot in slots}
        if not terms or (not any(read.values()) and any(known.values())):
            return self._unscaled(name, known)
        if self._view.nodes[name].op in self._allow:
            read = self._in_half(name, read, law.name == "product")
        degree = sum(term.power * self._one_degree(name, term.slots, read) for term in terms)
        if degree != int(degree):
            return self._unscaled(name, known)
        self._unscale(name, {slot: degree for slot, degree in known.items() if slot not in slots})
        if law.outputs is not None:
            self._outputs.update(
                (Port(name, c.output), 0)
                for c in self._view.consumers(name)
                if c.output not in law.outputs
            )
        return int(degree)

    def _in_half(self, name: str, known: Dict[int, int], is_product: bool) -> Dict[int, int]:
        """Degrees of the inputs of a half-precision matmul or convolution: 0 or 1.

        At most one factor of a product has 1.
        """
        read = {slot: min(max(degree, 0), 1) for slot, degree in known.items()}
        scaled = sorted(
            (slot for slot in read if read[slot]),
            key=lambda slot: self._place.get(self._carried[name][slot].node, -1),
        )
        for slot in scaled[:-1] if is_product else ():
            read[slot] = 0
        for slot, degree in known.items():
            if read[slot] != degree:
                self._multiply(name, slot, read[slot] - degree)
        return read

    def _one_degree(self, name: str, slots: Sequence[int], known: Dict[int, int]) -> int:
        """The highest degree among inputs, to which the others are raised."""
        carried = {slot: self._carried[name][slot] for slot in slots if slot in self._carried[name]}
        found = [known[slot] for slot in carried if slot in known]
        if not found:
            return 0
        free = {slot for slot, port in carried.items() if slot not in known and self._is_free(port)}
        highest = max(found) if len(found) + len(free) == len(carried) else max(*found, 0)
        for slot in carried:
            degree = known.get(slot, highest if slot in free else 0)
            if degree != highest:
                self._multiply(name, slot, highest - degree)
        return highest

    def _is_free(self, port: Port) -> bool:
        """Whether an output without a degree may have any.

        The flow of a TensorArray may not: it doesn't determine the array's contents.
        """
        return port not in self._given and (
            port.node in self._scaled or port.node in self._flows or self.is_zero(port.node)
        )

    def _compared(self, name: str, known: Dict[int, int]) -> int:
        slots = self._carried[name]
        found = {
            known.get(slot, 0)
            for slot, port in slots.items()
            if slot in known or not self._is_free(port)
        }
        if len(found) > 1:
            self._unscale(name, known)
        return 0

    def _differing(self, name: str, found: Sequence[int]) -> int:
        """The highest degree among a node's outputs; the others are recorded."""
        highest = max(found, default=0)
        self._outputs.update(
            (Port(name, output), degree) for output, degree in enumerate(found) if degree != highest
        )
        return highest

    def _of_call(self, name: str, known: Dict[int, int]) -> int:
        given: List[Degree] = []
        for slot, port in enumerate(self._view.inputs(name)):
            given.append(known[slot] if slot in known else None if self._is_free(port) else 0)
        found = self._code.called(name, given)
        if found is not None:
            return self._differing(name, [1 if degree is None else degree for degree in found])
        return self._unscaled(name, known)

    def _unscaled(self, name: str, known: Dict[int, int]) -> int:
        """Let a node read unscaled inputs and scale its results again.

        A list's contents are unscaled.
        """
        self._unscale(name, known)
        ports = {Port(name, reader.output) for reader in self._readers(name)} or {Port(name, 0)}
        held = {port for port in ports if self._is_held(port)}
        if held == ports:
            return 0
        self._outputs.update((port, 0) for port in held)
        self._rescaled.append(name)
        return 1

    def _unscale(self, name: str, known: Dict[int, int]) -> None:
        for slot, degree in known.items():
            if degree:
                self._multiply(name, slot, -degree)

    def _multiply(self, name: str, slot: int, power: int) -> None:
        port = self._view.inputs(name)[slot]
        if self._is_held(port) or not self._code.is_float(port):
            self._unclear.append(name)
        else:
            self._multiplied[name, slot] = self._multiplied.get((name, slot), 0) + power

    def _is_loop_variable(self, name: str) -> bool:
        if self._view.nodes[name].op not in MERGES or not self._code.looped(name):
            return False
        return any(
            self._view.nodes[port.node].op in NEXT_ITERATIONS for port in self._view.inputs(name)
        )

    def _is_held(self, port: Port) -> bool:
        """Whether an output can't be multiplied.

        A TensorList, complex numbers, a TensorArray's flow.
        """
        return self._code.is_list(port) or port.node in self._flows

    def _held_together(self, name: str) -> Set[str]:
        """Nodes that pass on, write or read the same lists, arrays or complex numbers."""

        def beside(name: str) -> Iterator[str]:
            yield from (port.node for port in self._view.inputs(name) if self._is_held(port))
            for reader in self._readers(name):
                if self._is_held(Port(name, reader.output)):
                    yield reader.node

        return reached([name], beside, lambda other: other == name or other in self._scaled)


@remembered
def _flows(view: GraphView) -> Set[str]:
    """Nodes that pass on the flow of a TensorArray; a loop's gradient adds flows up."""

    def is_array(name: str) -> bool:
        op = view.nodes[name].op
        return op.startswith("TensorArray") and op not in ARRAY_READS

    return view.followed(
        filter(is_array, view.nodes),
        lambda name: view.nodes[name].op in _HANDS_ON or is_array(name),
    )
