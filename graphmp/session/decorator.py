"""`@graphmp.mixed_precision`: the recipe around a build function, or conversion in its session."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.recipe import decorator
from graphmp.recipe import state as states
from graphmp.recipe.inputs import Call
from graphmp.recipe.say import say
from graphmp.session.live.not_finite import decorated
from graphmp.session.session import convert_sessions_of, is_converted_in_sessions

_plainly: List[
    Callable[[str, Config], None]
] = []  # called with each call before it builds the float32 graph


def leave_plain(told: Callable[[str, Config], None]) -> None:
    """Make decorated functions build without decorator from now on, for `graphmp convert`.

    `told` receives the name and options of each.
    """
    _plainly.append(told)


def mixed_precision(function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """Make a function that builds a training graph build it in mixed precision.

    Use it with or without arguments, on functions and methods:

        @graphmp.mixed_precision(loss_scale=128., clip_norm=5.)
        def build_training_model(inputs, labels, nlabel): ...

    Floating-point tensor arguments that feed a matmul or convolution are cast to the compute dtype;
    variables are stored in float32; everything after the last matmul or convolution is float32,
    especially the loss; gradients of any optimizer built in or after the call are scaled and
    unscaled. The function is called once more, in a scratch graph, to find out which part is which,
    and once to check that the recipe fits. If it doesn't, the function builds its float32 graph,
    and every session of that graph converts it at the first run that trains, as `graphmp.Session`
    does; `engine="recipe"` and `engine_strict=True` raise an error instead.

    Args:
        function: the function, if the decorator is used without arguments.
        **options: fields of `graphmp.config.Config`, which are the command line's flags.

    Returns:
        The decorated function, with the same signature. Its results are the original's: the
        caller's own tensors for returned arguments, float32 for values computed in half precision.

    Raises:
        GraphmpError: GMP002 for a bad option. The decorated function raises GMP011 under eager
            execution; if it may not fall back, GMP012 if the model mixes float32 into its
            half-precision part, GMP014 if a variable would change.
    """
    config = Config.make(**options)
    if config.engine == "rewrite":
        text = (
            "engine=rewrite: a decorated function takes engine=auto or engine=recipe; `graphmp"
            " convert FILE --engine=rewrite` rewrites the graph"
        )
        raise GraphmpError("GMP020", text)
    named = config.for_built_graphs
    if named and (named != "costs" or config.engine == "recipe" or config.engine_strict):
        raise GraphmpError(
            "GMP020",
            "%s=: it is for graphs that are built already; the decorator changes a graph while it"
            " is being built" % named,
        )

    def decorate(target: Any) -> Any:
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(decorate(target.__func__))

        @functools.wraps(target)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return _called(target, config, (args, kwargs))

        return wrapper

    return decorate if function is None else decorate(function)


def _called(function: Callable[..., Any], config: Config, call: Call) -> Any:
    """A call of a decorated function.

    All calls in one graph use one way: a graph that one call left to the sessions is converted
    whole.
    """
    if _plainly:
        for told in _plainly:
            told(_name(function), config)
        return function(*call[0], **call[1])
    decorated.listen()
    graph = None if tf.executing_eagerly() else tf.get_default_graph()
    if graph is not None and is_converted_in_sessions(graph):
        return function(*call[0], **call[1])
    may_fall_back = (
        graph is not None
        and config.engine == "auto"
        and not config.engine_strict
        and not states.of(graph).half_casts
    )

    @contextlib.contextmanager
    def fall_back(reason: GraphmpError) -> Iterator[None]:
        convert_sessions_of(graph, config)
        yield
        say(
            "%s: the recipe does not fit, the graph is converted in its session: %s"
            % (_name(function), reason)
        )

    if may_fall_back and config.costs:
        with fall_back(GraphmpError("GMP020", "costs= is for graphs that are built already")):
            return function(*call[0], **call[1])
    return decorator.build(function, config, call, fall_back=fall_back if may_fall_back else None)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))
