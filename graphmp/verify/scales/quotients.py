"""Who reads what is divided by a loss scale, and what isn't.

Each division has a reader, or else its gradient is read while it is scaled. A copy of a gradient
outside of gradient code, which a program can only fetch, is one of the quotient. Where there is a
scale, no write takes a gradient in half precision that was never multiplied by one.
"""

from __future__ import annotations

from typing import Any, Iterator

from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.policy.policy import tensor_core_ops
from graphmp.verify.sides import Fault

# How a flag or the norm of a clip begins, which look at gradients and hand none on.
_LOOKS = frozenset(("Abs", "IsFinite", "L2Loss", "Reshape", "Shape", "Sum"))


def unread_quotients(body: Any) -> Iterator[Fault]:
    """Divisions by a scale that nothing but flags and norms reads.

    Args:
        body: the body, from body.py.
    """
    for port in body.erasure.divisions():
        found = reached([port], lambda each: _handed_on(body, each))
        if not any(_is_read(body, each) for each in found):
            yield Fault(port.node, "divides by a loss scale, and nobody reads the quotient")


def scaled_copies(body: Any) -> Iterator[Fault]:
    """Unread copies of a gradient that are multiplied by a scale, where others get it divided.

    Args:
        body: the body, from body.py.
    """
    view = body.sides.after.view
    added, gradients = body.sides.added, gradient_nodes(body.sides.before.view)
    sources = {body.erasure.through(port) for port in body.erasure.divisions()}
    for source in sorted(sources):
        while source.node in added and view.nodes[source.node].op == "Cast":
            source = view.inputs(source.node)[0]
        for name in _readers(body, source):
            ends = not view.consumers(name) and not view.control_consumers(name)
            is_own = name not in added and name not in gradients
            if ends and is_own and view.nodes[name].op == "Identity":
                yield Fault(
                    name, "is a gradient that is multiplied by a loss scale, and divided for others"
                )


def unscaled_gradients(body: Any) -> Iterator[Fault]:
    """Writes of gradients that half-precision gradient code has made of a seed without a scale.

    Gradients that go into a matmul or convolution of the model are what a loss is made of.

    Args:
        body: the body, from body.py.
    """
    sides, divided = body.sides, body.erasure.divisions()
    if not divided or any(body.called):
        return
    view, code = sides.after.view, gradient_nodes(sides.before.view)
    products = {port.node for port in body.erasure.products()}
    unscaled = code - products - view.descendants(products, control=False)
    taken = view.followed(
        unscaled & sides.became_half.keys(),
        lambda name: (
            name in unscaled or (name not in code and view.nodes[name].op not in tensor_core_ops())
        ),
    )
    own = body.ways.reached(divided.keys(), frozenset())
    for name in sorted(sides.after.state.writes):
        is_update = name in own or view.nodes[name].op.startswith(UPDATE_PREFIXES)
        if is_update and name in taken:
            yield Fault(name, "takes a gradient in half precision that no loss scale multiplies")


def _readers(body: Any, port: Port) -> Iterator[str]:
    """The nodes that read an output, directly or through added casts."""
    view = body.sides.after.view
    for consumer in view.consumers(port.node):
        if consumer.output == port.output:
            yield consumer.node
            if consumer.node in body.sides.added and view.nodes[consumer.node].op == "Cast":
                yield from _readers(body, Port(consumer.node, 0))


def _handed_on(body: Any, port: Port) -> Iterator[Port]:
    """Added nodes that give the value of an output: casts, copies, clips."""
    for consumer in body.sides.after.view.consumers(port.node):
        if consumer.node in body.sides.added:
            result = Port(consumer.node, 0)
            if body.erasure.through(result) == port:
                yield result


def _is_read(body: Any, port: Port) -> bool:
    view, added = body.sides.after.view, body.sides.added
    handed_on = set(_handed_on(body, port))
    return any(
        consumer.output == port.output
        and Port(consumer.node, 0) not in handed_on
        and (consumer.node not in added or view.nodes[consumer.node].op not in _LOOKS)
        for consumer in view.consumers(port.node)
    )
