"""Words to numbers, as `tf.contrib.learn.preprocessing` does it. Own code: no successor exists."""

from __future__ import annotations

import collections
import pickle
import re
from typing import Any, Callable, Counter, Dict, Iterable, Iterator, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

# Single capitals, a capitalised word directly followed by another, or letters, digits, hyphens and
# apostrophes.
_TOKEN = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[List[str]]:
    """The words of each text."""
    return (_TOKEN.findall(text) for text in iterator)


class CategoricalVocabulary:
    """Numbers for words, in order of appearance; 0 is for unknown words."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True):
        self._unknown_token = unknown_token
        self._support_reverse = support_reverse
        self._words: List[Any] = [unknown_token]
        self._numbers: Dict[Any, int] = {unknown_token: 0}
        self._counts: Counter[Any] = collections.Counter()
        self._frozen = False

    def __len__(self) -> int:
        return len(self._numbers)

    def freeze(self, freeze: bool = True) -> None:
        """Treat new words as unknown from now on, or not any more."""
        self._frozen = freeze

    def get(self, category: Any) -> int:
        """The number of a word; a new one gets the next number, or 0 in a frozen vocabulary."""
        if category not in self._numbers and not self._frozen:
            self._numbers[category] = len(self._words)
            self._words.append(category)
        return self._numbers.get(category, 0)

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a word."""
        if self.get(category) > 0:
            self._counts[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep words whose frequency is above one bound and, if positive, below the other.

        Numbers are then in order of frequency.
        """
        alphabetical = sorted(
            self._counts.items(), key=lambda item: (isinstance(item[0], str), item[0])
        )
        kept = [
            (word, n)
            for word, n in alphabetical
            if n > min_frequency and not 0 < max_frequency <= n
        ]
        kept.sort(key=lambda item: -item[1])
        self._counts = collections.Counter(dict(kept))
        self._words = [self._unknown_token] + [word for word, _ in kept]
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def reverse(self, class_id: int) -> Any:
        """The word of a number.

        Raises:
            ValueError: the vocabulary was made without `support_reverse`.
        """
        if not self._support_reverse:
            raise ValueError(
                "This vocabulary wasn't initialized with support_reverse to support reverse()"
                " function."
            )
        return self._words[class_id]


class VocabularyProcessor:
    """Texts as rows of word numbers of equal length, truncated or padded with zeros.

    Attributes:
        vocabulary_: the words seen.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: Optional[CategoricalVocabulary] = None,
        tokenizer_fn: Optional[Callable[[Iterable[str]], Iterable[List[str]]]] = None,
    ):
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of texts, and freezes the vocabulary."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(
        self, raw_documents: Iterable[str], unused_y: Any = None
    ) -> Iterator[np.ndarray]:
        """Learn the words of texts and return the rows of these texts."""
        return self.fit(raw_documents).transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[np.ndarray]:
        """The row of each text, int64."""
        for tokens in self._tokenizer(raw_documents):
            numbers = [
                self.vocabulary_.get(token) for token in list(tokens)[: self.max_document_length]
            ]
            yield np.array(numbers + [0] * (self.max_document_length - len(numbers)), np.int64)

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """The words of each row, as one text."""
        return (" ".join(self.vocabulary_.reverse(number) for number in row) for row in documents)

    def save(self, filename: str) -> None:
        """Writes a file for `restore`."""
        with tf.gfile.Open(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Read a file written by `save` on TensorFlow 2.

        A file of TensorFlow 1's own class needs that version.
        """
        with tf.gfile.Open(filename, "rb") as file:
            return pickle.loads(file.read())
