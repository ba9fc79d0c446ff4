"""Small made-up texts."""

from __future__ import annotations

import json
import pathlib
import pickle

import numpy as np

from script_data import files


def chinese(folder: pathlib.Path) -> None:
    """Sentences of 12 characters with tags of persons and places, and the characters' numbers."""
    random = np.random.RandomState(0)
    characters = [chr(0x4E00 + number) for number in range(60)]
    tags = {0: "B-PER", 1: "I-PER", 2: "B-LOC", 3: "I-LOC"}
    for name, count in (("train_data", 200), ("test_data", 40)):
        sentences = random.randint(0, 60, (count, 12))
        lines = [
            "".join("%s\t%s\n" % (characters[each], tags.get(each % 8, "O")) for each in sentence)
            for sentence in sentences
        ]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    numbers = {"<PAD>": 0, **{each: 1 + number for number, each in enumerate(characters)}}
    numbers["<UNK>"] = len(numbers)
    (folder / "word2id.pkl").write_bytes(pickle.dumps(numbers, 2))


def stories(folder: pathlib.Path) -> None:
    """Two files of questions about where a person went, in the form of the bAbI tasks."""
    random = np.random.RandomState(0)
    people, places = ("Mary", "John", "Daniel", "Sandra"), ("garden", "office", "kitchen", "hall")
    for name, count in (("train", 200), ("test", 60)):
        lines = []
        for _ in range(count):
            went = [(people[random.randint(4)], places[random.randint(4)]) for _ in range(2)]
            lines += ["%d %s went to the %s." % (n + 1, *each) for n, each in enumerate(went)]
            lines.append("3 Where is %s?\t%s\t2" % went[-1])
        (folder / ("qa1_single-supporting-fact_%s.txt" % name)).write_text("\n".join(lines) + "\n")


def news(folder: pathlib.Path) -> None:
    """Texts of ten categories, each with characters of its own."""
    random = np.random.RandomState(0)
    names = ["体育", "财经", "房产", "家居", "教育", "科技", "时尚", "时政", "游戏", "娱乐"]
    for name, count in (("train", 640), ("val", 64), ("test", 64)):
        kinds = random.randint(0, 10, count)
        texts = [
            "".join(chr(0x4E00 + 20 * kind + each) for each in random.randint(0, 30, 50))
            for kind in kinds
        ]
        lines = ["%s\t%s\n" % (names[kind], text) for kind, text in zip(kinds, texts)]
        (folder / ("cnews.%s.txt" % name)).write_text("".join(lines), encoding="utf-8")


def parallel(folder: pathlib.Path) -> None:
    """Sentences of two languages; the second has the first's words in reverse order."""
    random = np.random.RandomState(0)
    for name, count in (("train", 400), ("dev", 40), ("test", 40)):
        rows = [random.randint(0, 40, random.randint(3, 8)) for _ in range(count)]
        for end, step in (("vi", 1), ("en", -1)):
            lines = [" ".join("%s%d" % (end, word) for word in row[::step]) for row in rows]
            (folder / ("%s.%s" % (name, end))).write_text("\n".join(lines) + "\n")
    for end in ("vi", "en"):
        words = ["<unk>", "<s>", "</s>", *("%s%d" % (end, word) for word in range(40))]
        (folder / ("vocab.%s" % end)).write_text("\n".join(words) + "\n")


def masked(folder: pathlib.Path) -> None:
    """Pre-training examples of BERT, of 32 words of 100, and a small model's configuration."""
    random = np.random.RandomState(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    sizes.update(vocab_size=100, num_hidden_layers=2, max_position_embeddings=64)
    (folder / "config.json").write_text(json.dumps(sizes))
    rows = []
    for words in np.sort(random.randint(5, 100, (64, 32))):
        places = np.sort(random.permutation(32)[:5])
        row = {"input_ids": np.where(np.isin(np.arange(32), places), 3, words)}
        row.update(input_mask=np.ones(32, int), segment_ids=(np.arange(32) > 15).astype(int))
        row.update(masked_lm_positions=places, masked_lm_ids=words[places])
        row.update(masked_lm_weights=np.ones(5), next_sentence_labels=[int(words[0] > 7)])
        rows.append(row)
    files.records(folder / "examples.tfrecord", rows)


def electra(folder: pathlib.Path) -> None:
    """Pre-training examples of 16 words of 100, and the words."""
    random = np.random.RandomState(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("word%d" % k for k in range(95))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "pretrain_tfrecords").mkdir(exist_ok=True)
    rows = np.sort(random.randint(5, 100, (64, 16)))
    rows[:, 0], rows[:, -1] = 2, 3
    same = {"input_mask": np.ones(16, int), "segment_ids": np.zeros(16, int)}
    files.records(
        folder / "pretrain_tfrecords" / "pretrain_data.tfrecord-0",
        [dict(same, input_ids=row) for row in rows],
    )


def segments(folder: pathlib.Path) -> None:
    """Segments of 8 words of 40, each with the words one further, as records of Transformer-XL."""
    random = np.random.RandomState(0)
    starts = random.randint(0, 40, 80)
    rows = [(start + 3 * np.arange(9)) % 40 for start in starts]
    name = "train.bsz-4.tlen-8"
    files.records(
        folder / (name + ".tfrecords"), [{"inputs": row[:-1], "labels": row[1:]} for row in rows]
    )
    info = {"filenames": [name + ".tfrecords"], "bin_sizes": [], "num_batch": 20}
    (folder / ("record_info-%s.json" % name)).write_text(json.dumps(info))
    sizes = {"vocab_size": 40, "cutoffs": [0, 40], "dataset": "made"}
    (folder / "corpus-info.json").write_text(json.dumps(sizes))


def permuted(folder: pathlib.Path) -> None:
    """Sentences of 16 words of 40, four of them to be predicted, as records of XLNet."""
    random = np.random.RandomState(0)
    rows = []
    for start in random.randint(0, 40, 80):
        words = (start + 3 * np.arange(17)) % 40
        masked = np.zeros(16, int)
        masked[[2, 5, 9, 12]] = 1
        row = {"input": words[:-1], "target": words[1:], "is_masked": masked, "label": [1]}
        rows.append(dict(row, seg_id=np.arange(16) // 8))
    name = "bsz-4.seqlen-16.reuse-8.uni.alpha-6.beta-1.fnp-4"
    files.records(folder / ("train-0-0.%s.tfrecords" % name), rows)
    info = {"filenames": ["train-0-0.%s.tfrecords" % name], "num_batch": 20}
    (folder / ("record_info-train-0-0.%s.json" % name)).write_text(json.dumps(info))


def named(folder: pathlib.Path) -> None:
    """Sentences with tags of persons, their words, tags and letters, and vectors of the words."""
    random = np.random.RandomState(0)
    names = ["W%s" % chr(97 + number) for number in range(20)]
    tags = {0: "B-PER", 1: "B-LOC"}
    lines = []
    for _ in range(60):
        words = random.randint(0, 20, 7)
        lines += ["%s %s" % (names[word], tags.get(word % 5, "O")) for word in words] + [""]
    (folder / "test.txt").write_text("\n".join(lines) + "\n")
    words = [*(name.lower() for name in names), "$UNK$", "$NUM$"]
    (folder / "words.txt").write_text("\n".join(words))
    (folder / "tags.txt").write_text("O\nB-PER\nB-LOC")
    (folder / "chars.txt").write_text("\n".join("W" + "abcdefghijklmnopqrstuvwxyz"))
    vectors = random.randn(len(words), 300).astype(np.float32)
    np.savez_compressed(str(folder / "glove.6B.300d.trimmed.npz"), embeddings=vectors)


def articles(folder: pathlib.Path) -> None:
    """Articles of 14 classes, in the form of DBpedia's: class, title and content."""
    random = np.random.RandomState(0)
    for name, count in (("train", 4000), ("test", 200)):
        lines = []
        for kind in random.randint(1, 15, count):
            words = " ".join("word%d" % (10 * kind + each) for each in random.randint(0, 10, 12))
            lines.append('%d,"title","%s"\n' % (kind, words))
        (folder / ("%s.csv" % name)).write_text("".join(lines))


def lines(folder: pathlib.Path) -> None:
    """Three files of lines of words, to train, validate and test on."""
    random = np.random.RandomState(0)
    for name, count in (("train", 60), ("valid", 20), ("test", 20)):
        rows = [
            " ".join("abcdefgh"[each:] for each in row) for row in random.randint(0, 7, (count, 9))
        ]
        (folder / ("%s.txt" % name)).write_text("\n".join(rows) + "\n")


def turned(folder: pathlib.Path) -> None:
    """Lines of the ten digits and the same lines backwards, to train, develop and test on."""
    random = np.random.RandomState(0)
    digits = [[str(digit)] for digit in range(10)]
    for part, count in (("train", 640), ("dev", 64), ("test", 64), ("vocab", 0)):
        lines = [random.randint(0, 10, random.randint(5, 12)).tolist() for _ in range(count)]
        (folder / part).mkdir(exist_ok=True)
        files.rows(folder / part / "source.txt", lines or digits, " ")
        files.rows(folder / part / "target.txt", [line[::-1] for line in lines] or digits, " ")


def subwords(folder: pathlib.Path) -> None:
    """Sentences of two languages in pieces, whole sentences of the second, and all the pieces."""
    random = np.random.RandomState(0)
    pieces = ["\u2581%s%s" % pair for pair in zip("abcdefghijklmnopqrst", "uvwxyz" * 4)]
    for name in ("segmented", "prepro"):
        (folder / name).mkdir(exist_ok=True)
    for part, count in (("train", 320), ("eval", 16)):
        lines = [random.randint(0, 20, random.randint(4, 9)).tolist() for _ in range(count)]
        for language, step in (("de", 1), ("en", -1)):
            texts = [" ".join(pieces[each] for each in line[::step]) + "\n" for line in lines]
            written = folder / "segmented" / ("%s.%s.bpe" % (part, language))
            written.write_text("".join(texts), encoding="utf-8")
            whole = "".join(texts).replace("\u2581", "")
            (folder / "prepro" / ("%s.%s" % (part, language))).write_text(whole)
    known = ["<pad>", "<unk>", "<s>", "</s>", *pieces]
    text = "".join("%s\t0\n" % piece for piece in known)
    (folder / "segmented" / "bpe.vocab").write_text(text, encoding="utf-8")
