"""Small made-up tables and graphs."""

from __future__ import annotations

import json
import pathlib
import pickle

import numpy as np

from script_data import files


def empty(folder: pathlib.Path) -> None:
    """Nothing but the folder, which the script expects."""


def knowledge(folder: pathlib.Path) -> None:
    """Ratings of 40 users and 60 items, 0 or 1, and a graph of facts over 100 entities."""
    random = np.random.RandomState(0)
    pairs = [(user, item) for user in range(40) for item in range(60)]
    rated = [(user, item, int((user + item) % 3 == 0)) for user, item in pairs]
    random.shuffle(rated)
    files.rows(folder / "ratings_final.txt", rated[:1500])
    facts = {(item, 0, 60 + item % 40) for item in range(60)}
    facts |= {(item, 1 + item % 3, int(random.randint(100))) for item in range(60)}
    files.rows(folder / "kg_final.txt", sorted(facts))


def sessions(folder: pathlib.Path) -> None:
    """Pickled lists of sessions of items, and of the item that follows each, for 310 items."""
    random = np.random.RandomState(0)
    for name, count in (("train", 300), ("test", 60)):
        starts, lengths = random.randint(1, 290, count), random.randint(2, 7, count)
        clicks = [[int(start + 2 * k) for k in range(n)] for start, n in zip(starts, lengths)]
        following = [session[-1] + 2 for session in clicks]
        (folder / ("%s.txt" % name)).write_bytes(pickle.dumps((clicks, following), 2))


def molecules(folder: pathlib.Path) -> None:
    """Graphs of six to nine nodes in a ring, with five features, whose target is their size."""
    random = np.random.RandomState(0)
    for name, count in (("train", 60), ("valid", 20)):
        made = []
        for size in random.randint(6, 10, count):
            ring = [[k, 1 + k % 4, (k + 1) % int(size)] for k in range(size)]
            features = np.eye(5)[random.randint(0, 5, size)].tolist()
            target = [[float(size - 7.5)]]
            made.append({"graph": ring, "node_features": features, "targets": target})
        (folder / ("molecules_%s.json" % name)).write_text(json.dumps(made))


def traffic(folder: pathlib.Path) -> None:
    """Speeds on 20 roads at 400 times, in waves, and which roads meet."""
    times = np.arange(400)[:, None]
    speeds = 50 + 10 * np.sin(times / 12.0 + np.arange(20))
    roads = [str(number) for number in range(20)]
    meets = np.eye(20, k=1) + np.eye(20, k=-1)
    for place in ("los", "sz"):
        files.rows(folder / ("%s_speed.csv" % place), [roads, *speeds.tolist()], ",")
        files.rows(folder / ("%s_adj.csv" % place), meets.tolist(), ",")


def bought(folder: pathlib.Path) -> None:
    """Lists of the items of 60 users out of 80, to train and to test on, and facts about them."""
    random = np.random.RandomState(0)
    train, test = [], []
    for user in range(60):
        items = random.permutation(80)[:14] if user else np.arange(80)
        train.append([user, *items[:-4].tolist()])
        test.append([user, *items[-4:].tolist()])
    files.rows(folder / "train.txt", train, " ")
    files.rows(folder / "test.txt", test, " ")
    facts = {(item, item % 3, 80 + item % 20) for item in range(80)}
    files.rows(folder / "kg_final.txt", sorted(facts), " ")


def roads(folder: pathlib.Path) -> None:
    """Speeds on 12 roads every five minutes of 44 days, and the roads' distances."""
    times = np.arange(44 * 288)[:, None]
    speeds = 50 + 10 * np.sin(times / 40.0 + np.arange(12))
    files.rows(folder / "PeMSD7_V_12.csv", np.round(speeds, 2).tolist(), ",")
    places = np.arange(12)
    distances = 1000.0 * np.abs(places[:, None] - places)
    files.rows(folder / "PeMSD7_W_12.csv", distances.tolist(), ",")


def visits(folder: pathlib.Path) -> None:
    """Items that 60 users visited, 12 of 40 each, in their order."""
    starts = np.random.RandomState(0).randint(0, 40, 60)
    visited = [
        (user + 1, (start + 3 * k) % 40 + 1) for user, start in enumerate(starts) for k in range(12)
    ]
    files.rows(folder / "made.txt", visited, " ")


def architectures(folder: pathlib.Path) -> None:
    """Networks as lists of 60 numbers below 21, their errors, and the same lists once more."""
    random = np.random.RandomState(0)
    for name, count in (("train", 200), ("test", 20)):
        networks = random.randint(1, 21, (count, 60))
        errors = (networks.mean(1) - 8.0) / 5.0
        files.rows(folder / ("encoder.%s.input" % name), networks.tolist(), " ")
        files.rows(folder / ("decoder.%s.target" % name), networks.tolist(), " ")
        files.rows(folder / ("encoder.%s.target" % name), np.round(errors, 4)[:, None].tolist())
