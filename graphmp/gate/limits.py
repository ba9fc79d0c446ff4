"""Limits on graphs from outside, and what TensorFlow tolerates: the tables of the gate."""

from __future__ import annotations

MOST_NAME = 10_000  # characters of a name
MOST_OUTPUTS = (
    1 << 16
)  # outputs and inputs that attributes declare, besides one a byte of the graph
MOST_CALLS = 100_000  # of functions, with those in functions, which TensorFlow makes one by one
MOST_ELEMENTS = 1 << 63  # elements of a tensor, as in TensorFlow

# Attributes whose value graphmp reads as text; all others may be any bytes.
TEXTS = frozenset(
    {
        "_class",
        "_gradient_op_type",
        "container",
        "data_format",
        "frame_name",
        "padding",
        "shared_name",
        "stack_name",
        "tensor_array_name",
        "var_name",
    }
)

# The kinds of attributes that begin with an underscore, which no OpDef declares.
PRIVATE_KINDS = {"_class": "list(string)"}

# The field of an AttrValue that holds a kind, also in its lists.
FIELDS = {
    "bool": "b",
    "float": "f",
    "func": "func",
    "int": "i",
    "shape": "shape",
    "string": "s",
    "tensor": "tensor",
    "type": "type",
}

# TensorFlow imports, or graphmp converts, and the gate lets pass:
# - a name with other characters than TensorFlow accepts: shown escaped
# - an op that nobody defines: left as it is (GMP109)
# - an attribute that the op doesn't declare: written by another TensorFlow
# - a missing attribute: written by an older TensorFlow; the op's types are then unknown
# - _output_shapes of any content: dropped if TensorFlow's import fails on them
# - a missing collection, or one of an unregistered key: not read
# - a tensor with fewer values than elements: the last value fills it
# - a gradient function that calls its function: it computes the function again
# - two functions of one name with the same body: one function
#
# The gate refuses, in the order of its checks:
# - a name that is longer than MOST_NAME
# - an attribute of another kind than declared
# - text that is not UTF-8, a device string that cannot be parsed, a _class that names no node
# - an unknown dtype, a tensor whose contents don't fit its dtype and shape
# - counts of inputs or outputs that are negative, or larger than the graph itself
# - data inputs behind control inputs, inputs more or fewer than declared, slots that don't exist
# - a function that calls itself, directly or through others; inputs in it that don't exist
# - calls of functions that come to more than MOST_CALLS, with those in functions
# - a context or collection that names no node
# - a cycle outside of while loops
