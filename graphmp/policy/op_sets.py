"""Sets of op types with one meaning: versions of an op, its reference and resource forms.

One list of each kind, for all rooms. Properties of single ops are in `traits.txt` and
`state_kinds.txt`.
"""

from __future__ import annotations

# Copies, arithmetic and shapes: the op, and what later versions of TensorFlow renamed it to.
IDENTITIES = frozenset(("Identity", "RefIdentity"))
ADDS = frozenset(("Add", "AddV2"))
ADDS_OF_MANY = frozenset(("AccumulateNV2", "AddN"))
SUMS = ADDS | ADDS_OF_MANY  # of gradients, wherever a variable is used more than once
SELECTS = frozenset(("Select", "SelectV2"))
FINITE_TESTS = frozenset(("IsFinite", "IsInf", "IsNan"))
INEQUALITIES = frozenset(("Greater", "GreaterEqual", "Less", "LessEqual"))
COMPARISONS = INEQUALITIES | {"Equal", "NotEqual"}
FILLS = frozenset(("Fill", "OnesLike"))  # what the first gradient is made with, besides a Const
POOLS = frozenset(("MaxPool", "MaxPool3D", "MaxPoolV2"))
POOL_GRADS = frozenset(("MaxPool3DGrad", "MaxPoolGrad", "MaxPoolGradV2"))  # input 1 is the pool's
SHAPE_OPS = frozenset(("Rank", "Shape", "ShapeN", "Size"))  # integers from a shape, no values

# Loops and conditionals of TensorFlow 1, with their forms for references and XLA's.
ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
SWITCHES = frozenset(("RefSwitch", "Switch"))
MERGES = frozenset(("Merge", "RefMerge", "_XlaMerge"))
NEXT_ITERATIONS = frozenset(("NextIteration", "RefNextIteration"))  # only they close a cycle

# Ops that call functions of the library.
WHILES = frozenset(("StatelessWhile", "While"))
CONDITIONALS = frozenset(("If", "StatelessIf"))
CHOICES = CONDITIONALS | {"Case", "StatelessCase"}  # input 0 is no argument
PLAIN_CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
CALLS = WHILES | CHOICES | PLAIN_CALLS | {"SymbolicGradient"}

# Nodes for a function's arguments and results when its body is held as a graph.
ARGUMENT, RESULT = "_Arg", "_Retval"

# State, and the ops that return or take its reference or handle.
REFERENCE_VARIABLES = frozenset(("AutoReloadVariable", "Variable", "VariableV2"))
VARIABLE_OPS = REFERENCE_VARIABLES | {"VarHandleOp"}
REFERENCE_ACCUMULATORS = frozenset(("ConditionalAccumulator", "SparseConditionalAccumulator"))
ACCUMULATORS = REFERENCE_ACCUMULATORS | {"ResourceConditionalAccumulator"}
REFERENCED = REFERENCE_VARIABLES | REFERENCE_ACCUMULATORS
FED = frozenset(("Placeholder", "PlaceholderV2"))  # no value unless fed
PLACEHOLDERS = FED | {"PlaceholderWithDefault"}
ARGUMENTS = PLACEHOLDERS | {ARGUMENT}
MAY_BE_STATE = VARIABLE_OPS | ACCUMULATORS | ARGUMENTS  # other handles are of no variable
READS = IDENTITIES | ENTERS | {"ReadVariableOp"}  # of a variable, its reference or its handle
OVERWRITES = frozenset(("Assign", "AssignVariableOp"))  # the old value doesn't matter
ROW_OVERWRITES = frozenset(  # the same of rows or a slice
    "%s%s" % (form, op)
    for form in ("", "Resource")
    for op in ("ScatterNdUpdate", "ScatterUpdate", "StridedSliceAssign")
)
ADD_ASSIGNS = frozenset(("AssignAdd", "AssignAddVariableOp"))
TABLE_INITIALIZERS = frozenset(
    (
        "InitializeTable",
        "InitializeTableV2",
        "InitializeTableFromDataset",
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
        "LookupTableImport",
        "LookupTableImportV2",
    )
)
ASSIGNS = OVERWRITES | ADD_ASSIGNS | {"AssignSub", "AssignSubVariableOp"}
UPDATE_PREFIXES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
SAVES = frozenset(("Save", "SaveSlices", "SaveV2"))
RESTORES = frozenset(("Restore", "RestoreSlice", "RestoreV2"))

# Containers in which a loop or its gradient keeps values: the op that takes the handle in slot 0,
# and the slot of the stored value.
STACKS = frozenset(("Stack", "StackV2"))
PUSHES = frozenset(("StackPush", "StackPushV2"))
POPS = frozenset(("StackPop", "StackPopV2"))
GRADIENT_ARRAYS = frozenset(("TensorArrayGradV2", "TensorArrayGradV3", "TensorArrayGradWithShape"))
ARRAYS = GRADIENT_ARRAYS | {"TensorArrayV2", "TensorArrayV3"}
ARRAY_WRITES = {
    "TensorArray%sV%d" % (verb, version): slot
    for verb, slot in (("Scatter", 2), ("Split", 1), ("Write", 2))
    for version in (2, 3)
}
ARRAY_READS = frozenset(
    "TensorArray%sV%d" % (verb, version)
    for verb in ("Concat", "Gather", "Read")
    for version in (2, 3)
)
EMPTY_LISTS = frozenset(("EmptyTensorList", "TensorListReserve"))  # a TensorList of no values yet

# What goes on without an edge, to another run or thread: ops that put values into a container and
# take them out. The container's handle is in slot 0; a staging area has none, but a name.
ACCUMULATOR_PUSHES = frozenset(
    "%sAccumulatorApplyGradient" % form for form in ("", "Resource", "Sparse")
)
ACCUMULATOR_TAKES = frozenset(
    "%sAccumulatorTakeGradient" % form for form in ("", "Resource", "Sparse")
)
ENQUEUES = frozenset(
    "QueueEnqueue%s%s" % (many, form) for many in ("", "Many") for form in ("", "V2")
)
DEQUEUES = frozenset(
    "QueueDequeue%s%s" % (many, form) for many in ("", "Many", "UpTo") for form in ("", "V2")
)
STAGES, UNSTAGES = frozenset(("Stage",)), frozenset(("StagePeek", "Unstage"))
