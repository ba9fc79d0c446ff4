"""The memory of a training step, by static shapes.

Activations kept for the backward pass, and the peak.

Only what can be read off the graph: TensorFlow's executor runs nodes beside each other and gives kernels scratch memory.
`graphmp/inspect/memory/measured.py` has what a step takes when it runs.

Buffers (`aliases.py`, `buffers.py`). Tensors that share memory are one buffer: what an Identity, Reshape, Squeeze, Switch,
Enter and the like hand on, what a Stack, TensorArray or TensorList gives back. A cast makes a new buffer. Loop variables are
what the iteration before left; a saved buffer of a loop counts as often as that goes round, any other of a loop once. Of a function that
is called, what it writes into TensorLists counts, and no more.

Kept for the backward pass (`training_step.py`). A buffer that is made before the backward pass and read by it, directly or through
what saves it in a loop. The backward pass is the gradient code that depends on what the gradients start from: what of it
doesn't (shapes, the comparison of a Maximum, the pushes of a loop) runs with the forward pass, and what it makes may be kept
itself. Floats, integers with bools, and feeds are three sums; casts of variables are a fourth. Variables, what reads them, and
constants are in none.

Peak (`liveness.py`). Of the nodes that the updates depend on, in the order of their depth: all sources first, then each node
when the last of its inputs is there, by name among equals. TensorFlow's executor takes ready nodes from the front of a queue
and puts those that become ready at its end, which gives this order on one thread. A buffer lives from the node that makes it
to its last reader; an elementwise op computes in place of an input that ends there. Variables, constants and feeds are there
all the time and are summed apart (`held.py`).

Sizes (`sizes.py`). Shapes that the file records, else those that TensorFlow infers; unknown dimensions count as 32, or as the
batch size given.
"""
