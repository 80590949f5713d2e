"""The embedded tokenizer: village words are single tokens, and no text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.errors import ModelError
from npc.tokenizer import EOS, PAD, TextTokenizer, build_nano_tokenizer, load_tokenizer
from tests.npc.making import PHRASES, WORDS, tokenizer

NANO = tokenizer()


@given(st.text())
def test_any_text_comes_back(text):
    assert NANO.decode(NANO.encode(text)) == text


@given(st.lists(st.sampled_from([*WORDS, "lan", "towers", "t", "", "\n", "é"]), max_size=12).map(" ".join))
def test_text_of_words_and_parts_of_words_comes_back(text):
    assert NANO.decode(NANO.encode(text)) == text


@given(st.text(), st.sampled_from([PAD, EOS]), st.text())
def test_text_never_makes_a_special_token(before, special, after):
    assert not {NANO.eos_id, NANO.pad_id} & set(NANO.encode(before + special + after))


@pytest.mark.parametrize("text", [*WORDS, *PHRASES])
def test_words_and_phrases_are_one_token(text):
    assert len(NANO.encode(f" {text}")) == 1


def test_a_word_within_a_longer_word_is_no_word():
    ids = NANO.encode(" tomb")
    assert [NANO.decode([i]) for i in ids] == [" tom", "b"]
    assert [NANO.decode([i]) for i in NANO.encode(" go tom")] == [" go", " tom"]


def test_every_byte_is_in_the_alphabet():
    assert NANO.vocab_size < 1500
    assert len({i for code in range(256) for i in NANO.encode(chr(code))}) >= 128


def test_a_phrase_that_another_one_breaks_is_refused():
    with pytest.raises(ValueError, match="another phrase claims a part"):
        build_nano_tokenizer(["a", "b", "c", "d", "e"], ["b c d e", "a b c"])


def test_words_with_spaces_and_phrases_of_unknown_words_are_refused():
    with pytest.raises(ValueError, match="without spaces"):
        build_nano_tokenizer(["two words"])
    with pytest.raises(ValueError, match="not among the words"):
        build_nano_tokenizer(["go"], ["go up"])


def test_saved_and_loaded_it_is_the_same(tmp_path):
    NANO.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert (again.hash, again.eos_id, again.pad_id) == (NANO.hash, NANO.eos_id, NANO.pad_id)
    assert TextTokenizer(build_nano_tokenizer([*WORDS, "more"], PHRASES)).hash != NANO.hash


def test_transformers_reads_it_the_same_way(tmp_path):
    from transformers import AutoTokenizer

    NANO.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    text = " go to the dock lantern 12 é\n"
    assert theirs.encode(text, add_special_tokens=False) == NANO.encode(text)
    assert (theirs.eos_token_id, theirs.pad_token_id) == (NANO.eos_id, NANO.pad_id)


def test_a_broken_file_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"tokenizer\.json: missing"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer\.json: not a readable tokenizer"):
        load_tokenizer(tmp_path)
