"""The first loss or gradient that is not finite is said at once, ten in a row again, whatever
the loss scale: by `graphmp run` and in Python.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.session.live.not_finite.watch import Overflow
from graphmp.session.live.not_finite.words import Words
from tests.support.scripts import OF_LARGE_VALUES

SCRIPT = (
    OF_LARGE_VALUES
    + """    for value in sys.argv[2:]:
        session.run([train, loss] if sys.argv[1] == "loss" else train, {x: np.full((4, 8), float(value))})
"""
)
AGAIN = "Start again from what was good, with "
SKIPS = "--loss_scale=dynamic, which skips such steps"
LOOK = (
    "See which op does it: --debug_overflow; what to keep in float32:"
    " graphmp audit --random_data --fix=FILE DIR/original.meta, after --report=DIR"
)
BELOW = "Loss scales below %d may do, for a large loss: --loss_scale_min=1e-06. "
BEHIND = "a value that loss is computed of is not finite"
WHATEVER = [
    "step 1: %s, whatever the loss scale; step skipped. %s" % (BEHIND, LOOK),
    "10 steps in a row skipped: %s, whatever the loss scale. %s" % (BEHIND, LOOK),
]
NAN = "the step is applied all the same, weights may be NaN from here on. "
TAKEN_APART = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework.function import Defun
tf.disable_v2_behavior()
if sys.argv[1].startswith("v2"):
    tf.enable_control_flow_v2()
x = tf.placeholder(tf.float32, [4, 8], "x")
w = tf.get_variable("w", [8, 8], initializer=tf.ones_initializer(), use_resource=True)

def taken(rows, w):
    rows, w = tf.reshape(rows, [-1, 8]), tf.reshape(w, [8, 8])
    return tf.gradients(tf.reduce_mean(tf.square(tf.matmul(rows, w)), name="loss"), w)[0]

def summed(count, gradient):
    return tf.while_loop(
        lambda i, _: i < count, lambda i, total: (i + 1, total + gradient(i)), [0, tf.zeros([8, 8])]
    )[1]

shape = sys.argv[1].split()[-1]
if shape == "mapped":
    gradient = tf.reduce_mean(tf.map_fn(lambda row: taken(row, w), x), 0)
elif shape == "summed":
    gradient = summed(4, lambda i: taken(x[i], w))
elif shape == "nested":
    gradient = summed(2, lambda i: summed(2, lambda j: taken(x[i + j], w)))
elif shape == "called":
    gradient = Defun(tf.float32, tf.float32, func_name="called")(taken)(x, w.read_value())
elif shape == "branch":
    gradient = tf.cond(tf.reduce_sum(x) > 9e9, lambda: tf.zeros([8, 8]), lambda: taken(x, w))
elif shape == "both":
    gradient = taken(x, w) + summed(4, lambda i: taken(x[i], w))
train = tf.train.GradientDescentOptimizer(1e-6).apply_gradients([(gradient, w)])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for value in sys.argv[2:]:
        session.run(train, {x: np.full((4, 8), float(value))})
"""
SHAPES = [
    "mapped",
    "summed",
    "nested",
    "called",
    "both",
    "branch",
    "v2 mapped",
    "v2 nested",
    "v2 both",
    "v2 branch",
]
CASES = [
    # flags, what a step fetches, its inputs, what is said of steps
    (["--loss_scale=128"], "train", "1 1", []),
    (["--loss_scale=none"], "loss", "1 1", []),
    (["--loss_scale=dynamic"], "loss", "1 1", []),
    (["--loss_scale=1e10"], "train", "1 1", [
        "step 1: a gradient of loss is not finite; the fixed loss scale 1e+10 skips nothing: %sTake a lower --loss_scale, or %s" % (NAN, SKIPS)
    ]),
    (["--loss_scale=128"], "loss", "1 50 1", [
        "step 2: the value of loss is not finite; the fixed loss scale 128 skips nothing: %s%s" % (NAN, LOOK)
    ]),
    (["--loss_scale=none"], "train", "1 " + "50 " * 10, [
        "step 2: %s; without a loss scale nothing is skipped: %s%s" % (BEHIND, NAN, LOOK),
        "10 steps in a row that are not finite: loss learns nothing any more. %s%s. %s" % (AGAIN, SKIPS, LOOK),
    ]),
    (["--loss_scale=none", "--compute_dtype=float32"], "train", "nan", [
        "step 1: %s; without a loss scale nothing is skipped: %s%s" % (BEHIND, NAN, LOOK)
    ]),
    (["--loss_scale=1e30", "--compute_dtype=bfloat16"], "train", "1e9", [
        "step 1: a gradient of loss is not finite; the fixed loss scale 1e+30 skips nothing: %sTake a lower --loss_scale, or %s" % (NAN, SKIPS)
    ]),
    (["--loss_scale_initial=1e30"], "train", "1 " * 11, [
        "step 1: a gradient of loss overflowed at loss scale 1e+30; step skipped, scale lowered to 5e+29",
        "10 steps in a row skipped: the gradients of loss are not finite, the loss scale is still too large. "
        "The scale, 9.76563e+26 now, is lowered after each of them; start lower: --loss_scale_initial=32768",
    ]),
    (["--loss_scale_initial=4", "--loss_scale_min=2"], "train", "50 " * 11, WHATEVER),
    (["--loss_scale_initial=4", "--loss_scale_min=1e-6"], "train", "50 " * 32, WHATEVER),
    (["--loss_scale_initial=1048576", "--loss_scale_min=524288"], "train", "1 " * 11, [
        "step 1: a gradient of loss overflowed at loss scale 1.04858e+06; step skipped, scale lowered to 524288",
        "10 steps in a row skipped: the gradients of loss are not finite, also at loss scale 524288, the lowest. " + BELOW % 524288 + LOOK,
    ]),
    (["--loss_scale_initial=2147483648", "--loss_scale_min=524288"], "train", "1 " * 14, [
        "step 1: a gradient of loss overflowed at loss scale 2.14748e+09; step skipped, scale lowered to 1.07374e+09",
        "10 steps in a row skipped: the gradients of loss are not finite, the loss scale is still too large. "
        "The scale, 2.09715e+06 now, is lowered after each of them; start lower: --loss_scale_initial=524288",
        "13 steps in a row skipped: the gradients of loss are not finite, also at loss scale 524288, the lowest. " + BELOW % 524288 + LOOK,
    ]),
    (["--loss_scale_initial=524288", "--loss_scale_min=524288"], "train", "1", [
        "step 1: a gradient of loss is not finite at loss scale 524288, the lowest; step skipped. " + BELOW % 524288 + LOOK
    ]),
    ([], "train", "50 1 50", WHATEVER[:1]),
    (["--loss_scale_initial=1024"], "loss", "50", ["step 1: the value of loss is not finite, whatever the loss scale; step skipped. " + LOOK]),
]  # fmt: skip


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("scripts") / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize(
    "flags, fetched, inputs, expected",
    CASES,
    ids=[" ".join(case[0] + list(case[1:2])) + "; " + case[2][:8] for case in CASES],
)
def test_a_run_says_it_at_once_and_after_ten(flags, fetched, inputs, expected, script, forks):
    if "--compute_dtype=bfloat16" in flags and tf.__version__ < "2":
        pytest.skip("1.15.5's CPU has no multiplication of bfloat16")
    ended = forks.run(script, fetched, *inputs.split(), flags=flags)
    assert (ended.status, ended.out) == (0, ""), ended.err
    assert [
        line for line in ended.said if line.startswith("step ") or " in a row " in line
    ] == expected
    assert ended.said[-1].startswith("%d training steps" % len(inputs.split()))


OF_A_LARGE_LOSS = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [4, 8], "x")
predicted = tf.matmul(x, tf.get_variable("w", [8, 1]))
loss = tf.reduce_sum(tf.square(predicted - tf.square(316.0)), name="loss")
train = tf.train.GradientDescentOptimizer(1e-6).minimize(loss, name="train")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(6):
        session.run(train, {x: np.ones((4, 8))})
"""


def test_a_first_step_that_overflows_at_scale_1_goes_on_below(forks, tmp_path):
    """The first step measures at a scale of 1; the next ones halve that."""
    path = tmp_path / "large.py"
    path.write_text(OF_A_LARGE_LOSS)
    said = forks.run(str(path), flags=["--loss_scale_min=1e-6"]).said
    text = (
        "step 1: a gradient of loss overflowed at loss scale 1; step skipped, scale lowered to 0.5"
    )
    assert [line for line in said if line.startswith("step ")] == [text]
    assert said[-1] == "6 training steps; loss scale 0.0625; 4 skipped"


def test_the_last_line_counts_them(script, forks):
    fixed = forks.run(script, "train", "1", "1", flags=["--loss_scale=1e10"]).said[-1]
    assert (
        fixed
        == "2 training steps; 2 not finite: nothing was learned. %sa lower --loss_scale, or %s. %s"
        % (AGAIN, SKIPS, LOOK)
    )
    some = forks.run(script, "train", "1", "nan", flags=["--loss_scale=none"]).said[-1]
    assert some == "2 training steps; 1 not finite"
    falling = forks.run(script, "train", "1", "1", flags=["--loss_scale_initial=1e30"]).said[-1]
    assert falling.endswith(
        "2 skipped: nothing was learned. The scale, 2.5e+29 now, is lowered after each of them;"
        " start lower: --loss_scale_initial=32768"
    )


APPLIED = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x, k = tf.placeholder(tf.float32, [4, 8]), tf.placeholder(tf.float32, [])
w = tf.get_variable("w", [8, 8], initializer=tf.ones_initializer())
loss = tf.add(tf.reduce_mean(tf.square(tf.matmul(x, w))), tf.stop_gradient(k), name="loss")
train = tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for value, scale in zip(sys.argv[1::2], sys.argv[2::2]):
        session.run([train, loss], {x: np.full((4, 8), float(value)), k: float(scale)})
"""


@pytest.mark.parametrize(
    "flags, ends",
    [
        (["--loss_scale=dynamic"], "1 skipped"),
        (["--loss_scale=none"], "13 not finite"),
        (["--loss_scale=8"], "13 not finite"),
    ],
    ids=["dynamic", "none", "fixed"],
)
def test_a_step_with_finite_gradients_is_applied_whatever_its_loss(flags, ends, tmp_path, forks):
    """It takes nothing from what is said of a later one that is not."""
    (tmp_path / "train.py").write_text(APPLIED)
    given = ["1", "0"] + ["1", "inf"] * 12 + ["nan", "0"]
    ended = forks.run(str(tmp_path / "train.py"), *given, flags=flags)
    assert ended.status == 0, ended.err
    first, other = (line for line in ended.said if line.startswith("step ") or "in a row" in line)
    assert first == (
        "step 2: the value of loss is not finite; its gradients are finite, and the step is"
        " applied. " + LOOK
    )
    assert other.startswith("step 14: the value of loss is not finite")
    assert ended.said[-1].endswith(ends)


@pytest.fixture(scope="module")
def taken_apart(tmp_path_factory):
    path = tmp_path_factory.mktemp("taken_apart") / "train.py"
    path.write_text(TAKEN_APART)
    return str(path)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "flags, value, begins",
    [
        (["--loss_scale_initial=1e30"], "1", "overflowed at loss scale 1e+30; step skipped"),
        (["--loss_scale=1e10"], "1", "is not finite; the fixed loss scale 1e+10 skips nothing"),
        (
            ["--loss_scale=none", "--compute_dtype=float32"],
            "nan",
            "is not finite; without a loss scale nothing is skipped",
        ),
    ],
    ids=["dynamic", "fixed", "none"],
)
def test_gradients_of_loops_branches_and_functions_are_watched_outside(
    shape, flags, value, begins, taken_apart, forks
):
    """The step lies outside: its flag and the gradients that it applies can be fetched."""
    if shape.startswith("v2") and tf.__version__ < "2":
        pytest.skip("1.15.5 takes no gradients in loops of functions")
    ended = forks.run(taken_apart, shape, *[value] * 10, flags=flags)
    assert (ended.status, ended.out) == (0, ""), ended.err
    first, many = (line for line in ended.said if line.startswith(("step ", "10 steps in a row")))
    assert first.startswith(("step 1: a gradient of ", "step 1: a value that "))
    assert begins in first or "a value that" in first
    assert many.startswith("10 steps in a row ")
    assert shape == "branch" or "graphmp audit" not in ended.err  # it doesn't look into these
    assert ": nothing was learned. " in ended.said[-1]


@pytest.mark.parametrize("shape", ["mapped", "nested", "called", "both", "v2 mapped", "v2 nested"])
def test_debug_overflow_says_that_it_does_not_look_inside(shape, taken_apart, forks):
    if shape.startswith("v2") and tf.__version__ < "2":
        pytest.skip("1.15.5 takes no gradients in loops of functions")
    flags = ["--loss_scale_initial=4", "--loss_scale_min=2", "--debug_overflow"]
    ended = forks.run(taken_apart, shape, "1e4", "1e4", flags=flags)
    said = [line for line in ended.said if line.startswith("step ")]
    assert len(said) == 2 and all("skipped: " in line for line in said)
    inside = "is the first that is not finite outside of loops, branches and functions" in said[0]
    assert inside or shape.endswith("both")  # where a plain gradient isn't finite either
    assert not inside or ": nothing was learned. Look at the data, " in ended.said[-1]


def test_debug_overflow_names_the_op_of_a_fixed_scale(script, forks):
    ended = forks.run(script, "train", "1", "1", flags=["--loss_scale=1e10", "--debug_overflow"])
    (said,) = [line for line in ended.said if line.startswith("step ")]
    assert (
        "(Cast, float16) is the first that is not finite; it reads gradients/loss_grad/truediv in"
        " [2.5e+09, 2.5e+09]" in said
    )
    assert "in float32" not in ended.said[-1]  # nothing is to be kept so: it is the scale


def model(x, options=None):
    """A small net, decorated where options are given."""

    def build(x):
        return tf.reduce_mean(
            tf.square(
                tf.matmul(x, tf.get_variable("w", [8, 1], initializer=tf.ones_initializer()))
            ),
            name="loss",
        )

    loss = (build if options is None else graphmp.mixed_precision(**options)(build))(x)
    return tf.train.GradientDescentOptimizer(1e-6).minimize(loss)


def told(session, train, x, values):
    """The warnings about steps that training on these values gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for value in values:
            session.run(train, {x: np.full((4, 8), value, np.float32)})
    return [
        str(each.message)
        for each in caught
        if issubclass(each.category, RuntimeWarning) and "step" in str(each.message)
    ]


@pytest.mark.parametrize("decorated", [False, True])
@pytest.mark.parametrize(
    "options, values, begins",
    [
        ({"loss_scale": 128.0}, [1, 1], []),
        (
            {"loss_scale": 1e10},
            [1] * 10,
            [
                "step 1: a gradient of loss is not finite; the fixed loss scale 1e+10",
                "10 steps in a row",
            ],
        ),
        (
            {"loss_scale": "none"},
            [1, np.nan],
            ["step 2: %s; without a loss scale nothing is skipped" % BEHIND],
        ),
        (
            {"loss_scale_initial": 1e30},
            [1],
            [
                "step 1: a gradient of loss overflowed at loss scale 1e+30; step skipped, scale"
                " lowered to 5e+29"
            ],
        ),
        ({"loss_scale": "dynamic"}, [1, np.nan, 1, np.nan], ["step 2: "]),
    ],
    ids=["fits", "fixed", "none", "falling", "dynamic"],
)
def test_python_is_warned(graph, options, values, begins, decorated):
    x = tf.placeholder(tf.float32, [4, 8])
    train = model(x, options if decorated else None)
    with tf.Session() if decorated else graphmp.Session(**options) as session:
        session.run(tf.global_variables_initializer())
        graph.finalize()
        said = told(session, train, x, values)
    assert [text[: len(begin)] for text, begin in zip(said, begins)] == begins and len(said) == len(
        begins
    )
    assert not any("--loss_scale" in text or "--debug" in text for text in said)


def test_a_scale_by_the_global_step(graph):
    x, step = tf.placeholder(tf.float32, [4, 8]), tf.train.get_or_create_global_step()
    advance = tf.assign_add(step, 1)
    train = model(x, {"loss_scale": lambda step: tf.pow(10.0, 10 * tf.cast(step, tf.float32))})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert told(session, train, x, [1, 1]) == []
        session.run(advance)
        (said,) = told(session, train, x, [1])
    assert said.startswith(
        "step 3: a gradient of loss is not finite; the fixed loss scale 1e+10 skips nothing"
    )


def test_what_does_not_train_is_not_watched(graph):
    """A decorated graph's gradients, fetched without the update, are the user's own to look at."""
    x = tf.placeholder(tf.float32, [4, 8])
    loss = graphmp.mixed_precision(
        lambda x: tf.reduce_mean(tf.matmul(x, tf.get_variable("w", [8, 1]))), loss_scale=128.0
    )(x)
    gradients = tf.gradients(loss, tf.trainable_variables())
    tf.train.GradientDescentOptimizer(1e-6).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert told(session, gradients, x, [np.nan]) == []


@pytest.mark.parametrize("options", [{"loss_scale": 128.0}, {"loss_scale": "dynamic"}])
def test_each_loss_by_itself_and_a_second_conversion(graph, options):
    """Of two losses only the one that a step trains is watched.

    Code that comes later converts again, without what watched before.
    """
    x = tf.placeholder(tf.float32, [4, 8])
    with tf.variable_scope("one"):
        one = model(x)
    with tf.variable_scope("two"):
        two = model(x)
    with graphmp.Session(**options) as session:
        session.run(tf.global_variables_initializer())
        assert told(session, one, x, [1]) == []
        (said,) = told(session, two, x, [np.nan])
        assert "two/loss" in said
        with tf.variable_scope("three"):
            three = model(x)
        session.run(tf.variables_initializer(tf.global_variables("three")))
        assert told(session, three, x, [1]) == []
        assert graphmp.check_overflow(session, {x: np.ones((4, 8))}, "three/loss:0") is None
        (said,) = told(session, three, x, [np.nan])
        assert "three/loss" in said


def step(**changes):
    given = dict(
        step=10,
        loss="loss",
        kind="dynamic",
        in_a_row=10,
        first=False,
        of_loss=False,
        scale=1.0,
        lowered=1.0,
        floor=1.0,
    )
    return NotFinite(**{**given, "hopeless": True, "turned": False, "overflow": None, **changes})


@pytest.mark.unit
def test_what_is_float32_already_is_not_to_be_kept_so():
    found = Overflow("x", "Exp", "float32", [], ["x"])
    assert (
        Words(python=False).cure(step(overflow=found))
        == "x computes in float32 already: look at the data, lower the learning rate"
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "nodes, what",
    [
        (["x"], "x in float32, and what reads it"),
        (["x", "y"], "x, y in float32, and what reads them"),
    ],
)
def test_the_nodes_to_keep_are_named(nodes, what):
    found = Overflow("x_graphmp_float16", "Cast", "float16", [], nodes)
    said = Words(python=False).cure(step(overflow=found))
    assert said.startswith("Keep %s (--keep_float32); " % what) and "_graphmp_" not in said


@pytest.mark.unit
@pytest.mark.parametrize("kind, lines", [("dynamic", 2), ("fixed", 1), ("none", 1)])
def test_many_steps_are_said_again_only_where_that_is_news(kind, lines):
    """Lower scales stop helping: of a dynamic scale that changes the cure."""
    words = Words(python=False)
    at = {10: step(kind=kind, hopeless=False), 12: step(kind=kind, in_a_row=12, turned=True)}
    said = [text for each in at.values() for text in words.said(each)]
    assert len([text for text in said if " steps in a row" in text]) == lines


@pytest.mark.unit
def test_hundreds_of_skipped_steps_are_said_to_stop_the_global_step():
    """A run up to one of its values would never end, and say nothing more."""
    said = {
        number: list(Words(python=False).said(step(in_a_row=number, stands=True)))
        for number in (99, 100, 200, 1000)
    }
    assert [len(texts) for texts in said.values()] == [0, 1, 0, 1]
    assert said[1000][0].startswith("1000 steps in a row skipped: the gradients of loss")
    assert said[1000][0].endswith(
        ". global_step stands still, and a run up to one of its values never ends:"
        " --count_skipped_steps counts skipped steps too. --compute_dtype=bfloat16, which has the"
        " range of float32, may train it"
    )
    (counted,) = Words(python=True).said(step(in_a_row=100, half="bfloat16"))
    assert "global_step" not in counted and "bfloat16" not in counted
    (stands,) = Words(python=True).said(step(in_a_row=100, stands=True))
    assert " count_skipped_steps=True counts" in stands


@pytest.mark.parametrize("flags, stands", [([], True), (["--count_skipped_steps"], False)])
def test_whether_the_global_step_stands_still_is_known(flags, stands, tmp_path, forks):
    (tmp_path / "train.py").write_text(
        APPLIED.replace("minimize(loss)", "minimize(loss, tf.train.create_global_step())")
    )
    ended = forks.run(str(tmp_path / "train.py"), *["nan", "0"] * 100, flags=flags)
    (said,) = [line for line in ended.said if line.startswith("100 steps in a row")]
    assert ("global_step stands still" in said) == stands


def test_other_fetches_add_nothing_to_the_graph(graph):
    """What watches a step is made once for what the step computes, not for each list of fetches."""
    x = tf.placeholder(tf.float32, [4, 8])
    train = model(x)
    with graphmp.Session(loss_scale=128.0) as session:
        session.run(tf.global_variables_initializer())
        session.run([train, x], {x: np.ones((4, 8))})
        before = len(graph.get_operations())
        session.run([x, train], {x: np.ones((4, 8))})
        session.run([train, x, x * 1], {x: np.ones((4, 8))})
        assert len(graph.get_operations()) == before + 2  # the script's own
