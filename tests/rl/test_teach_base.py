"""The embedded model's own school: every lesson is true, and the command goes through to a model that loads."""

from __future__ import annotations

import json
import random
import sys

import pytest

import scenarios
from game.sim.observation import legal_actions
from npc.models import load, load_folder
from rl import teach_base
from scenarios import lessons

FETCH = scenarios.get("fetch_item")


@pytest.fixture
def seen():
    dice = random.Random(3)
    stream = lessons.visited(FETCH, dice)
    return [next(stream) for _ in range(200)] + [lessons.imagined(dice) for _ in range(200)]


def test_orders_are_followed_by_legal_phrases_that_are_the_first_that_can_be_done(seen):
    dice = random.Random(4)
    for observation in seen:
        legal = {action.phrase() for action in legal_actions(observation)}
        can = lessons.steps(observation)
        assert {action.phrase() for action in can.values()} <= legal
        names, phrase = lessons.order(observation, dice)
        listed = names.split()
        assert len(listed) <= lessons.LONGEST_ORDER
        assert phrase == next(can[name] for name in listed if name in can).phrase()


def test_answers_are_read_off_the_text(seen):
    for observation in seen:
        words = observation.text().split(" ")
        for question, answer in lessons.reading_questions(observation):
            if question.startswith("say") and answer != "none":
                assert all(word in words for word in answer.split()), (question, answer)


def test_every_word_of_a_lesson_is_one_token(seen):
    tokenizer = teach_base.nano_tokenizer()
    dice = random.Random(5)
    for observation in seen:
        given = lessons.lesson(observation, dice, 8)
        assert len(tokenizer.encode(f" {given.text}")) == len(given.text.split(" "))
        for question, _ in given.questions:
            assert len(tokenizer.encode(f" {question}")) == len(question.split(" "))


def test_recall_asks_for_what_was_told():
    row = lessons.recall_row(("a", "b", "c", "d", "e"), random.Random(0), 4)
    assert sorted(row[:4]) == sorted(row[4:])
    assert len({name for name, _ in row[:4]}) == 4


def test_lessons_use_train_seeds_only(monkeypatch):
    built = []
    build = type(FETCH).build

    def watched(self, seed, options=None):
        built.append(seed)
        return build(self, seed, options)

    monkeypatch.setattr(type(FETCH), "build", watched)
    stream = lessons.visited(FETCH, random.Random(6))
    for _ in range(300):
        next(stream)
    assert len(built) > 10
    assert all(seed in FETCH.splits["train"] for seed in built)


def test_the_command_goes_through_and_leaves_a_model(tmp_path, monkeypatch, capsys):
    out = tmp_path / "nano"
    small = "--steps 4 --recall-steps 2 --forget-steps 1 --rows 4 --hidden 16 --layers 1 --heads 2 --intermediate 32"
    monkeypatch.setattr(sys, "argv", ["teach_base", "--out", str(out), "--workers", "1", *small.split()])
    teach_base.main()
    brain = load_folder(out, "nano")
    assert brain.config.hidden_size == 16
    recipe = json.loads((out / "teaching.json").read_text())
    assert recipe["step"] == 5
    assert "out" not in recipe
    assert sorted(path.name for path in out.iterdir()) == [
        "config.json", "model.safetensors", "teaching.json", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip


def test_what_ships_is_what_the_tokenizer_of_today_reads():
    assert load("nano").tokenizer_hash == teach_base.nano_tokenizer().hash
