"""The result of a bench, and its JSON, schema `graphmp.bench/1`.

source, compute_dtype, tensorflow, data, flags: of the bench; flags are the conversion's
device: name, capability (of a GPU, else empty), fast_bfloat16
batch_sizes: those that were timed; null if nothing is fed
steps, warmup, rounds: the fewest of any batch size
seconds: the requested time; 0 if --steps and --rounds determine it
seed, memory_limit: memory_limit in bytes, 0 for none
variants: name -> why it was not timed, or empty; names are "float32", "graphmp" (the conversion),
    "tuned" (the conversion by --costs, if given), "tensorflow" (its own pass)
runs: one for each variant and batch size:
    variant, batch_size
    status, message: "timed", "out of memory", "failed" or "too slow", and what happened
    apart: whether its sessions were opened one after another, for lack of memory
    milliseconds: null if not timed; step: the step time, whose quotients are the speed-ups;
        median, first_quartile, third_quartile, least, most: of all steps of all rounds
    rounds: milliseconds of each step, by round
    speedup: against float32: value, low, high (95%; null with one round); null without both
    examples_per_second: by the step time
    peak_bytes, peak_source: of TensorFlow's tensors; "allocator" or "run metadata" (of one step)
    peak_rss_bytes: of the process
    kernels: milliseconds of one traced step: total, products, casts, scaling, misfits, gpu
    ops: milliseconds in that step by op, of what is no product, no cast and no scaling
only_converted: batch sizes that the conversion runs and float32 has no memory for
causes: batch size -> likely causes of a speed-up below 1.2, the largest first: kind, share (of the
    step), text
input: seconds_a_batch (of --data), waiting (share of a step that waits for the graph's own
    pipeline), message; null: not measured
accumulation: matmul, convolution: the dtype in which products are added up; null without a kernel
notes: remarks on the numbers, in words
next: what to do next
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from graphmp.bench.causes import ENOUGH, Cause, MeasuredStep, causes
from graphmp.bench.kernels.shares import Shares
from graphmp.doctor.devices import Device
from graphmp.timings import NARROW, Ratio, Spread, speedup, spread, step_time

SCHEMA = "graphmp.bench/1"
FLOAT32, GRAPHMP, TUNED, TENSORFLOW = "float32", "graphmp", "tuned", "tensorflow"
VARIANTS = (FLOAT32, GRAPHMP, TUNED, TENSORFLOW)
NAMES = {
    FLOAT32: "float32",
    GRAPHMP: "the converted graph",
    TUNED: "the graph converted by costs",
    TENSORFLOW: "TensorFlow's own rewrite",
}
TIMED, OUT_OF_MEMORY, FAILED, TOO_SLOW = "timed", "out of memory", "failed", "too slow"
_ONE_ROUND = "a single round says nothing of the noise; take more --rounds"
_NO_DIFFERENCE = "the interval includes 1, so no difference is shown; %s"


class ProcessMemory(NamedTuple):
    """The peak memory of a variant, in bytes.

    Attributes:
        peak: of TensorFlow's tensors.
        source: of the peak: "allocator", a GPU's, since the process began; or "run metadata", of
            one step.
        rss: of the process.
    """

    peak: int
    source: str
    rss: int


class Input(NamedTuple):
    """The time that a step waits for its data, if measured.

    Attributes:
        seconds_a_batch: to produce a batch of given data.
        waiting: the share of a float32 step that waits for the graph's own input pipeline.
        message: why that wasn't measured.
    """

    seconds_a_batch: Optional[float] = None
    waiting: Optional[float] = None
    message: str = ""


@dataclass(frozen=True)
class BenchRun:
    """A variant at a batch size.

    Attributes:
        variant: one of VARIANTS.
        batch_size: None if no fed tensor has a batch dimension.
        status: TIMED, OUT_OF_MEMORY, FAILED or TOO_SLOW.
        message: what happened, if it isn't timed.
        rounds: seconds of each step, by round.
        memory: its peak memory.
        shares: shares of a step's time.
        ops: seconds of a step by op, of what the shares don't name.
        apart: whether the variants' sessions were opened one at a time, for lack of memory.
        alone: seconds of a step when it ran alone, from very few steps.
        warmup: steps before the timed ones.
    """

    variant: str
    batch_size: Optional[int]
    status: str
    message: str = ""
    rounds: Sequence[Sequence[float]] = ()
    memory: Optional[ProcessMemory] = None
    shares: Optional[Shares] = None
    ops: Mapping[str, float] = field(default_factory=dict)
    apart: bool = False
    alone: float = 0.0
    warmup: int = 0

    @property
    def step(self) -> Optional[float]:
        """Seconds of a step, the basis of times and speed-ups; None if it isn't timed."""
        return step_time(self.rounds) if self.status == TIMED else None

    @property
    def spread(self) -> Optional[Spread]:
        """The distribution of single steps' seconds; None if it isn't timed."""
        return spread(self.rounds) if self.status == TIMED else None

    @property
    def examples_per_second(self) -> Optional[float]:
        """By the step time."""
        return self.batch_size / self.step if self.batch_size and self.step else None


@dataclass(frozen=True)
class Bench:
    """A bench; the attributes are described with the JSON above."""

    source: str
    compute_dtype: str
    tensorflow: str
    device: Device
    data: str
    steps: int
    warmup: int
    rounds: int
    seed: int
    memory_limit: int
    variants: Mapping[str, str]
    runs: Sequence[BenchRun]
    input: Input
    accumulation: Mapping[str, Optional[str]]
    environment: Mapping[str, Optional[str]]
    notes: Sequence[str]
    fixed: bool = False
    flags: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def batch_sizes(self) -> List[Optional[int]]:
        """Those that were timed, in order."""
        return list(dict.fromkeys(run.batch_size for run in self.runs))

    def run(self, variant: str, batch_size: Optional[int]) -> Optional[BenchRun]:
        """A variant at a batch size; None if missing."""
        return next(
            (run for run in self.runs if (run.variant, run.batch_size) == (variant, batch_size)),
            None,
        )

    def speedup(self, run: BenchRun) -> Optional[Ratio]:
        """The speed-up against float32; None for float32 itself, and if one of them isn't timed."""
        base = self.run(FLOAT32, run.batch_size)
        both = base is not None and base.status == run.status == TIMED and run.variant != FLOAT32
        return speedup(base.rounds, run.rounds) if base is not None and both else None

    def tells_enough(self, ratio: Ratio) -> bool:
        """Whether a speed-up shows a difference, or is known as precisely as rounds make it."""
        return ratio.shows_a_difference or (bool(self.seconds) and ratio.is_narrow)

    @property
    def only_converted(self) -> List[int]:
        """Batch sizes that the conversion has memory for and float32 has not."""
        out = {
            run.batch_size
            for run in self.runs
            if run.variant == FLOAT32 and run.status == OUT_OF_MEMORY
        }
        return [
            run.batch_size
            for run in self.runs
            if run.batch_size in out
            and run.variant == GRAPHMP
            and run.status == TIMED
            and run.batch_size
        ]

    def causes(self, batch_size: Optional[int]) -> Optional[List[Cause]]:
        """Why the conversion is less than 1.2 times as fast at a batch size; None if it isn't."""
        base, ours = self.run(FLOAT32, batch_size), self.run(GRAPHMP, batch_size)
        if (
            base is None
            or ours is None
            or ours.step is None
            or base.shares is None
            or ours.shares is None
        ):
            return None
        ratio = self.speedup(ours)
        if ratio is None or ratio.value >= ENOUGH:
            return None
        return causes(
            MeasuredStep(
                ours.step,
                self.compute_dtype,
                base.shares,
                ours.shares,
                self._waiting(base),
                self.device.on_gpu,
                base.ops,
                ours.ops,
            )
        )

    @property
    def remarks(self) -> List[str]:
        """The notes, and the batch sizes whose numbers show no difference."""
        ratios = [
            (run.batch_size, self.speedup(run)) for run in self.runs if run.variant == GRAPHMP
        ]
        unsure = [
            ("batch size %d: " % size if size else "", ratio)
            for size, ratio in ratios
            if ratio and not ratio.shows_a_difference
        ]
        return [*self.notes, *(head + self._doubt(ratio) for head, ratio in unsure)]

    def _doubt(self, ratio: Ratio) -> str:
        """Why a speed-up shows no difference, and what would."""
        if ratio.low is None:
            return _ONE_ROUND
        if not self.tells_enough(ratio):
            return _NO_DIFFERENCE % (
                "more --seconds narrow it" if self.seconds else "more --rounds or --steps narrow it"
            )
        return (
            "the interval includes 1 and reaches %.0f%% to either side: there is no difference to"
            " speak of" % (100 * NARROW)
        )

    def _waiting(self, base: BenchRun) -> Optional[float]:
        """Seconds that a step waits for batches of --data, and for the graph's own pipeline.

        The latter is assumed to take as long as with float32.
        """
        found = []
        if self.input.seconds_a_batch is not None:
            found.append(self.input.seconds_a_batch)
        if self.input.waiting is not None and base.step:
            found.append(base.step * self.input.waiting / (1 - self.input.waiting))
        return max(found, default=None)

    def to_json(self, following: str) -> str:
        """The document; `following` is what to do next."""
        document = {
            "schema": SCHEMA,
            "source": self.source,
            "compute_dtype": self.compute_dtype,
            "tensorflow": self.tensorflow,
            "device": dict(
                self.device._asdict(), capability=".".join(map(str, self.device.capability))
            ),
            "data": self.data,
            "batch_sizes": self.batch_sizes,
            "fixed": self.fixed,
            "steps": self.steps,
            "warmup": self.warmup,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "seed": self.seed,
            "memory_limit": self.memory_limit,
            "variants": dict(self.variants),
            "runs": [self._run_json(run) for run in self.runs],
            "only_converted": self.only_converted,
            "causes": {
                str(size): [cause._asdict() for cause in self.causes(size) or []]
                for size in self.batch_sizes
            },
            "input": self.input._asdict(),
            "accumulation": dict(self.accumulation),
            "environment": dict(self.environment),
            "notes": self.remarks,
            "flags": dict(self.flags),
            "next": following,
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    def _run_json(self, run: BenchRun) -> Dict[str, Any]:
        ratio, seconds = self.speedup(run), run.spread
        return {
            "variant": run.variant,
            "batch_size": run.batch_size,
            "status": run.status,
            "message": run.message,
            "apart": run.apart,
            "milliseconds": (
                _milliseconds({**seconds._asdict(), "step": step_time(run.rounds)})
                if seconds
                else None
            ),
            "rounds": [[round(1000 * second, 4) for second in steps] for steps in run.rounds],
            "speedup": ratio._asdict() if ratio else None,
            "examples_per_second": run.examples_per_second,
            "peak_bytes": run.memory.peak if run.memory else None,
            "peak_source": run.memory.source if run.memory else None,
            "peak_rss_bytes": run.memory.rss if run.memory else None,
            "kernels": _milliseconds(run.shares._asdict()) if run.shares else None,
            "ops": _milliseconds(run.ops),
        }


def _milliseconds(seconds: Mapping[str, float]) -> Dict[str, float]:
    return {name: 1000 * value for name, value in seconds.items()}
