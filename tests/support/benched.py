"""Results of a bench, made by hand."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.bench.bench import (
    FLOAT32,
    GRAPHMP,
    TENSORFLOW,
    TIMED,
    Bench,
    BenchRun,
    Input,
    ProcessMemory,
)
from graphmp.bench.kernels.shares import Shares
from graphmp.doctor.devices import Device

TF1 = tf.__version__ < "2"


CPU = Device("CPU with AMX_BF16", (), True)


PLAIN_CPU = Device("CPU without bfloat16 instructions")


ROUNDS = [[0.01, 0.012, 0.011], [0.02, 0.021, 0.02], [0.01, 0.01, 0.03]]


FAST = Shares(total=0.010, products=0.009)


MEMORY = ProcessMemory(10**6, "run metadata", 10**8)


def a_bench(*runs, **changes):
    """A bench with these runs."""
    fields = dict(
        source="model.meta",
        compute_dtype="bfloat16",
        tensorflow="2.21.0",
        device=CPU,
        data="random, seed 0",
        runs=runs,
        input=Input(),
    )
    fields.update(
        steps=3,
        warmup=1,
        rounds=3,
        seed=0,
        memory_limit=0,
        variants=dict.fromkeys((FLOAT32, GRAPHMP, TENSORFLOW), ""),
    )
    return Bench(**dict(dict(fields, accumulation={}, environment={}, notes=[]), **changes))


def timed(variant, size, factor=1.0, parts=FAST, **changes):
    """A run that is `factor` times as fast as float32."""
    rounds = [[second / factor for second in steps] for steps in ROUNDS]
    return BenchRun(
        **dict(
            dict(
                variant=variant,
                batch_size=size,
                status=TIMED,
                rounds=rounds,
                memory=MEMORY,
                shares=parts,
            ),
            **changes,
        )
    )
