"""The memory of a training step, by static shapes.

Activations kept for the backward pass, and the peak.

Only static facts: TensorFlow's executor runs nodes in parallel and gives kernels scratch memory.
`graphmp/inspect/memory/measured.py` measures an executed step.

Buffers (`aliases.py`, `buffers.py`). Tensors that share memory are one buffer: outputs of Identity,
Reshape, Squeeze, Switch, Enter and similar ops, and reads of a Stack, TensorArray or TensorList. A
cast makes a new buffer. Loop variables are the previous iteration's results; a saved buffer of a
loop counts once for each iteration, any other of a loop once. Of a called function only what it
writes into TensorLists counts.

Kept for the backward pass (`training_step.py`). A buffer that is made before the backward pass and
read by it, directly or after being saved in a loop. The backward pass is the gradient code that
depends on the initial gradients: other gradient code (shapes, the comparison of a Maximum, the
pushes of a loop) runs with the forward pass, and its results may be kept themselves. Floats,
integers with bools, and feeds are three sums; casts of variables are a fourth. Variables, their
reads, and constants are in none.

Peak (`liveness.py`). Of the nodes that the updates depend on, in the order of their depth: all
sources first, then each node when the last of its inputs exists, by name among equals. TensorFlow's
executor takes ready nodes from the front of a queue and appends nodes that become ready, which
gives this order on one thread. A buffer lives from its producer to its last consumer; an
elementwise op computes in place of an input that ends there. Variables, constants and feeds always
exist and are summed separately (`held.py`).

Sizes (`sizes.py`). Recorded shapes, else those inferred by TensorFlow; unknown dimensions count as
32, or as the given batch size.
"""
