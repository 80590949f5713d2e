"""Tokenizers: the wrapper that the brain reads and writes through, and the builder of the embedded model's
own.

The embedded tokenizer is a byte-level BPE without a splitting pattern. Its alphabet is all 256 bytes, so that
no text can fail. Each known word is one token together with the space before it (" lantern"), reached by a
chain of merges that starts at the space and grows by one byte: a chain can only ever meet itself, so chains
don't collide. Phrases (" go to the") are merges of whole words and rank behind every word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from npc.errors import ModelError, PolicyError

PAD, EOS = "<pad>", "<eos>"


class TextTokenizer:
    """Text to ids and back; special tokens written in a text are only text. ``highest_id`` is the last that a text can
    have.

    ``hash`` covers all that decides ids (vocabulary, merges, splitting), not how the library happens to write
    it.
    """

    def __init__(self, tokenizer: Tokenizer, eos: str = EOS, pad: str | None = PAD) -> None:
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        eos_id = tokenizer.token_to_id(eos)
        if eos_id is None:
            raise ModelError(f"tokenizer has no end token {eos!r}; name the right one in tokenizer_config.json")
        pad_id = tokenizer.token_to_id(pad) if pad is not None else None
        self._tokenizer = tokenizer
        self.eos, self.pad = eos, pad if pad_id is not None else eos
        self.eos_id: int = eos_id
        self.pad_id: int = eos_id if pad_id is None else pad_id
        self.vocab_size: int = tokenizer.get_vocab_size()
        state = json.loads(tokenizer.to_str())
        self.hash = _hash(state)
        self.highest_id = max(eos_id, self.pad_id, *tokenizer.get_vocab(with_added_tokens=False).values())
        # by bytes or by characters; what has no token would be left out, or unknown, without a word
        vocab = tokenizer.get_vocab(with_added_tokens=False) if '"ByteLevel"' in json.dumps(state["decoder"]) else None
        missing = (byte for byte in range(256) if vocab is not None and _BYTE_LETTERS[byte] not in vocab)
        self.unspeakable = bytes(missing)
        unknown = state["model"].get("unk_token")
        self._unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)
        if state["model"].get("unk_id") is not None:
            self._unknown_id = state["model"]["unk_id"]

    def encode(self, text: str) -> list[int]:
        """The ids of ``text`` alone: nothing is put before or after it.

        Raises :class:`~npc.errors.PolicyError` for a character that the vocabulary has no bytes for.
        """
        if self.unspeakable and text.encode().translate(None, self.unspeakable) != text.encode():
            letter = next(c for c in text if c.encode().translate(None, self.unspeakable) != c.encode())
            raise PolicyError(f"{letter!r} can't be written in this model's tokens; leave it out")
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if self._unknown_id is not None and self._unknown_id in ids:
            raise PolicyError(f"{text!r} holds something that this model has no token for")
        return ids

    def encode_marked(self, text: str) -> list[int]:
        """As :meth:`encode`, with special tokens written in the text taken as such."""
        self._tokenizer.encode_special_tokens = False
        try:
            return self._tokenizer.encode(text, add_special_tokens=False).ids
        finally:
            self._tokenizer.encode_special_tokens = True

    def first_ids(self) -> tuple[int, ...]:
        """The special tokens that the tokenizer itself would put before a text."""
        text = "a"
        bare, whole = self._tokenizer.encode(text, add_special_tokens=False).ids, self._tokenizer.encode(text).ids
        before = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), 0)
        return tuple(whole[:before])

    def end_with(self, text: str) -> None:
        """Takes the special token that ``text`` begins with for the end token; leaves it where that is none."""
        added = {token.content: at for at, token in self._tokenizer.get_added_tokens_decoder().items() if token.special}
        for content in sorted(added, key=len, reverse=True):
            if text.lstrip().startswith(content):
                self.eos, self.eos_id = content, added[content]
                return

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def id_of(self, token: str) -> int:
        """The id of a special token. Raises ModelError where there is none of that name."""
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ModelError(f"tokenizer has no token {token!r}")
        return found

    def save(self, folder: Path, chat_template: str = "") -> None:
        """Writes tokenizer.json and the tokenizer_config.json that transformers and mlx-lm read."""
        self._tokenizer.save(str(folder / "tokenizer.json"))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": self.eos,
            "pad_token": self.pad,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 1_000_000,
        }
        if chat_template:
            config["chat_template"] = chat_template
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _hash(state: dict) -> str:
    merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in state["model"].get("merges", [])]
    added = [(token["id"], token["content"]) for token in state["added_tokens"]]
    parts = [state["model"]["vocab"], merges, added, state["pre_tokenizer"], state["normalizer"]]
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def load_tokenizer(folder: Path) -> TextTokenizer:
    """Reads tokenizer.json of a model folder, and its end and pad tokens from tokenizer_config.json."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{path}: missing; a model folder needs config.json, model.safetensors and tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every fault in the file
        raise ModelError(f"{path}: not a readable tokenizer ({error})") from error
    config_path = folder / "tokenizer_config.json"
    try:
        config = json.loads(config_path.read_text(encoding="utf-8")) if config_path.is_file() else {}
    except ValueError as error:
        raise ModelError(f"{config_path}: not JSON ({error})") from error
    eos = special_text(config.get("eos_token")) or _end_by_config(folder, tokenizer) or EOS
    return TextTokenizer(tokenizer, eos, special_text(config.get("pad_token")))


def _end_by_config(folder: Path, tokenizer: Tokenizer) -> str | None:
    """The end token as config.json has it, by its id."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    ends = config.get("eos_token_id")
    first = ends[0] if isinstance(ends, list) and ends else ends
    return tokenizer.id_to_token(first) if isinstance(first, int) else None


def special_text(token: object) -> str | None:
    """A token in tokenizer_config.json is a string or an object with its string under "content"."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def build_nano_tokenizer(
    words: Sequence[str], phrases: Sequence[str] = (), specials: Sequence[str] = (PAD, EOS)
) -> Tokenizer:
    """A tokenizer in which each of ``words`` and each of ``phrases`` is one token together with a space
    before it.

    ``words`` are given without the space and hold none. ``phrases`` are words of the list with single spaces
    between them. ``specials`` get the first ids, in order.

    Raises :class:`ValueError` for a word with a space in it, or a phrase that can't become one token because
    another one takes a part of it first (" to the" before " go to the").
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*specials, *alphabet])}
    merges: list[tuple[str, str]] = []

    def merge(left: str, right: str) -> str:
        if left + right not in vocab:
            vocab[left + right] = len(vocab)
            merges.append((left, right))
        return left + right

    for word in dict.fromkeys(words):
        if not word or " " in word:
            raise ValueError(f"word {word!r}: give words one by one, without spaces")
        piece = _BYTE_LETTERS[ord(" ")]
        for byte in word.encode():
            piece = merge(piece, _BYTE_LETTERS[byte])
    for phrase in sorted(dict.fromkeys(phrases), key=lambda text: (-text.count(" "), text)):
        piece = ""
        for word in phrase.strip().split(" "):
            token = _byte_letters(f" {word}".encode())
            if token not in vocab:
                raise ValueError(f"phrase {phrase!r}: {word!r} is not among the words")
            piece = merge(piece, token) if piece else token

    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    for text in [*words, *phrases]:
        ids = tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids
        if len(ids) != 1:
            raise ValueError(f"{text!r} takes {len(ids)} tokens: another phrase claims a part of it first")
    return tokenizer


def _byte_letters(raw: bytes) -> str:
    """The letters by which a byte-level vocabulary writes bytes."""
    return "".join(_BYTE_LETTERS[byte] for byte in raw)


def _byte_table() -> dict[int, str]:
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    table = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(256 + place) for place, byte in enumerate(others)}


_BYTE_LETTERS = _byte_table()
