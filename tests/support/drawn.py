"""How hypothesis draws values here: the same in each run, or by the seed of a command line."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def draw(seed):
    """Sets how values are drawn, for settings that are made afterwards.

    Args:
        seed: of pytest's option `--hypothesis-seed`, None without it. `derandomize` would have
            hypothesis ignore it.
    """
    slow_or_large = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ]
    settings.register_profile(
        "here",
        deadline=None,
        derandomize=seed is None,
        database=None,
        print_blob=True,
        suppress_health_check=slow_or_large,
    )
    settings.load_profile("here")
