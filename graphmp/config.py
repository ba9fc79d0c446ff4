"""The options of a conversion: one frozen value, the same for the command line and for Python."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Callable, Dict, Iterable, List, Tuple, Union

from graphmp.errors import GraphmpError
from graphmp.patterns import MOST, pattern

ENGINES = ("auto", "recipe", "rewrite")
COMPUTE_DTYPES = ("float16", "bfloat16", "float32")
FLOAT32_MIN, FLOAT32_MAX = (
    2.0**-126,
    (2.0 - 2.0**-23) * 2.0**127,
)  # of numbers with all their digits
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MOST_STEPS = 2**62
REPEATED = ("keep_float32", "force_compute", "fetch", "loss", "train_op", "gradient_scope")

_SHOWN_IF_GIVEN = ("costs",)  # files converted without them don't mention them

LossScaleOption = Union[None, str, float, Callable[[Any], Any], Any]


@dataclass(frozen=True)
class Config:
    """Options of one conversion; the fields are the command line's flags.

    `loss_scale` is "dynamic", "none" or None, a positive number or, only in Python, a scalar tensor
    or a function from the global step to one. Left empty it is dynamic, and none with bfloat16,
    which has float32's range.
    """

    engine: str = "auto"
    compute_dtype: str = "float16"
    loss_scale: LossScaleOption = ""
    loss_scale_initial: float = 2.0**15
    loss_scale_growth_interval: int = 2000
    loss_scale_growth_factor: float = 2.0
    loss_scale_backoff_factor: float = 0.5
    loss_scale_min: float = 1.0
    clip_norm: float = 0.0
    keep_float32: Tuple[str, ...] = ()
    force_compute: Tuple[str, ...] = ()
    op_policy: str = ""
    ranges: str = ""
    costs: str = ""
    fetch: Tuple[str, ...] = ()
    loss: Tuple[str, ...] = ()
    train_op: Tuple[str, ...] = ()
    gradient_scope: Tuple[str, ...] = ()
    count_skipped_steps: bool = False
    allreduce_half: bool = False
    engine_strict: bool = False

    @classmethod
    def make(cls, **options: Any) -> Config:
        """Check and normalise options.

        Raises:
            GraphmpError: GMP002, naming the option, the given and the accepted values.
        """
        accepted = [f.name for f in fields(cls)]
        unknown = sorted(set(options) - set(accepted))
        if unknown:
            raise GraphmpError(
                "GMP002", "no option %s; accepted: %s" % (", ".join(unknown), ", ".join(accepted))
            )
        config = cls.from_json(
            {name: _tuple(value) if name in REPEATED else value for name, value in options.items()}
        )
        _plain_text(config)
        _one_of("engine", config.engine, ENGINES)
        _one_of("compute_dtype", config.compute_dtype, COMPUTE_DTYPES)
        for name in ("keep_float32", "force_compute"):
            _regexes(name, getattr(config, name))
        config = replace(
            config,
            loss_scale=_loss_scale(config.loss_scale, config.compute_dtype),
            clip_norm=_clip_norm(config.clip_norm),
            loss_scale_initial=_number("loss_scale_initial", config.loss_scale_initial, 2.0**-24),
            loss_scale_growth_interval=_count(
                "loss_scale_growth_interval", config.loss_scale_growth_interval
            ),
            loss_scale_growth_factor=_number(
                "loss_scale_growth_factor", config.loss_scale_growth_factor, 1.0, above=True
            ),
            loss_scale_backoff_factor=_number(
                "loss_scale_backoff_factor",
                config.loss_scale_backoff_factor,
                2.0**-24,
                1.0,
                below=True,
            ),
            loss_scale_min=_number("loss_scale_min", config.loss_scale_min, 2.0**-24),
        )
        if config.loss_scale_min > config.loss_scale_initial:
            text = (
                "--loss_scale_min=%g: it is above --loss_scale_initial=%g, where the scale starts;"
                " accepted is at most that"
            )
            raise GraphmpError("GMP002", text % (config.loss_scale_min, config.loss_scale_initial))
        return config

    @classmethod
    def from_json(cls, values: Dict[str, Any]) -> Config:
        """Restore the fields of a checked Config from JSON."""
        typed: Dict[str, Any] = {
            name: tuple(value) if name in REPEATED else value for name, value in values.items()
        }
        return cls(**typed)

    @property
    def float32_nodes(self) -> Tuple[str, ...]:
        """Regular expressions for the nodes that compute in float32.

        As requested, and fetched ones.
        """
        return self.keep_float32 + tuple(
            "^%s$" % re.escape(name.split(":")[0]) for name in self.fetch
        )

    @property
    def names_training(self) -> str:
        """The first flag that names a part of a built graph's training, for the rewrite.

        Or empty.
        """
        return next(
            (name for name in ("loss", "train_op", "gradient_scope") if getattr(self, name)), ""
        )

    @property
    def names_gradients(self) -> bool:
        """Whether a flag names gradient code of the main graph."""
        return bool(self.loss or self.gradient_scope)

    @property
    def for_built_graphs(self) -> str:
        """The first flag that only the rewrite supports, for built graphs; or empty."""
        return self.names_training or next(
            (name for name in ("ranges", "costs", "allreduce_half") if getattr(self, name)), ""
        )

    @property
    def tries_first_step(self) -> bool:
        """Whether the first step of a dynamic scale measures gradients to find where to start.

        This is so for float16, unless another start than the default is given.
        """
        return (
            self.compute_dtype == "float16" and self.loss_scale_initial == Config.loss_scale_initial
        )

    def as_flags(self) -> Dict[str, Any]:
        """The options as JSON values, by flag name; Python-only values are shown as text."""
        flags = asdict(replace(self, loss_scale=None))
        scale = self.loss_scale
        flags["loss_scale"] = (
            scale if isinstance(scale, (str, float)) else "<%s>" % type(scale).__name__
        )
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in flags.items()
            if name not in _SHOWN_IF_GIVEN or value
        }

    def flagfile_lines(self) -> List[str]:
        """Lines of an absl flagfile that repeats this conversion, without defaults."""
        default = Config.make(compute_dtype=self.compute_dtype).as_flags()
        default["compute_dtype"] = Config.compute_dtype
        lines: List[str] = []
        for name, value in sorted(self.as_flags().items()):
            if value == default.get(name):
                continue
            lines += _as_given(name, value)
        return lines


def in_words(name: str, value: Any) -> str:
    """An option of `as_flags` as on a command line: `--clip_norm=5`, `no --keep_float32`."""
    given = _as_given(name, value) if value not in (None, "", False) else []
    return " ".join(given) or "no --%s" % name


def _as_given(name: str, value: Any) -> List[str]:
    values = value if isinstance(value, list) else [value]
    return ["--%s" % name if v is True else "--%s=%s" % (name, _text(v)) for v in values]


def _text(value: Any) -> str:
    return "%d" % value if isinstance(value, float) and value == int(value) else str(value)


def _tuple(value: Union[str, Iterable[str], None]) -> Tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _plain_text(config: Config) -> None:
    """Refuse texts that a line of a flagfile can't repeat."""
    for name, value in vars(config).items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and (_CONTROL.search(text) or text != text.strip()):
                raise GraphmpError(
                    "GMP002",
                    "--%s=%s: accepted is text without control characters, in UTF-8, that neither"
                    " begins nor ends with a space" % (name, text),
                )


def _one_of(name: str, value: str, accepted: Tuple[str, ...]) -> None:
    if value not in accepted:
        raise GraphmpError(
            "GMP002", "--%s=%s: accepted are %s" % (name, value, ", ".join(accepted))
        )


def _number(
    name: str,
    value: Any,
    low: float,
    high: float = FLOAT32_MAX,
    above: bool = False,
    below: bool = False,
) -> float:
    """A number between two bounds; `above` and `below` exclude the bounds themselves."""
    number = _float(value)
    if not low <= number <= high or (above and number == low) or (below and number == high):
        lower = "%s %s" % ("more than" if above else "at least", _text(low))
        upper = (
            ""
            if high == FLOAT32_MAX
            else " and %s %s" % ("less than" if below else "at most", _text(high))
        )
        raise GraphmpError(
            "GMP002",
            "--%s=%s: accepted is a number that float32 can hold, %s%s"
            % (name, value, lower, upper),
        )
    return number


def _count(name: str, value: Any) -> int:
    number = _float(value)
    if not 1 <= number <= _MOST_STEPS or number != int(number):
        raise GraphmpError(
            "GMP002", "--%s=%s: accepted is a whole number of at least 1" % (name, value)
        )
    return int(number)


def _clip_norm(value: Any) -> float:
    return _number("clip_norm", value, FLOAT32_MIN) if value and _float(value) != 0 else 0.0


def _float(value: Any) -> float:
    """A number, or NaN for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _regexes(name: str, patterns: Tuple[str, ...]) -> None:
    if len(patterns) > MOST:
        text = "--%s: found %s regular expressions; accepted are at most %s"
        raise GraphmpError("GMP002", text % (name, format(len(patterns), ","), format(MOST, ",")))
    for text in patterns:
        try:
            pattern(text)
        except ValueError as error:
            shown = text if len(text) <= 200 else text[:80] + "..."
            raise GraphmpError(
                "GMP002", "--%s=%s: not a regular expression: %s" % (name, shown, error)
            ) from None


def _loss_scale(value: LossScaleOption, compute_dtype: str) -> LossScaleOption:
    """The scale as "dynamic", "none", a float, or the given tensor or function."""
    if value == "" if isinstance(value, str) else False:
        return "none" if compute_dtype == "bfloat16" else "dynamic"
    if value is None:
        return "none"
    if isinstance(value, str) and value in ("dynamic", "none"):
        return value
    if callable(value) or hasattr(value, "graph"):
        return value
    return fixed_scale(value)


def fixed_scale(value: Any) -> float:
    """A number as a fixed loss scale.

    Raises:
        GraphmpError: GMP002 if float32 can't hold it with full precision: NaN, not positive, too
            large or too small.
    """
    number = _float(value)
    if not FLOAT32_MIN <= number <= FLOAT32_MAX:
        text = (
            "--loss_scale=%s: accepted are dynamic, none or a positive number that float32 can"
            " hold, from %.2g to %.2g"
        )
        raise GraphmpError("GMP002", text % (value, FLOAT32_MIN, FLOAT32_MAX))
    return number
