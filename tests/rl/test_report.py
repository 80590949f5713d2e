"""The report: one file, honest figures, episodes in words; the curves; and runs that are not whole."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import scenarios
from rl.charts import Band, Bars, Dots, Level, Line, chart, ticks
from rl.curves import CurveError, curve_of_runs, played, validations
from rl.examples import RULES, choose, mission, situation, tell
from rl.files import CheckpointError, read_run, write_run
from rl.report import main, write_report
from rl.run_folder import read_run_folder, solved
from rl.stepping import Films, film_of
from rl.tree import Tree
from tests.rl.making import FETCH, fake_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(tmp_path_factory.mktemp("report") / "demo")


@pytest.fixture(scope="module")
def html(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_the_page_is_whole_html(html: str) -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br", "input"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    checker = Checker()
    checker.feed(html)
    assert checker.open == []


def test_the_page_fetches_nothing(html: str) -> None:
    plain = html.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    for word in ("http:", "https:", "src=", "<link", "fetch(", "import(", "@import", "url("):
        assert word not in plain
    assert set(re.findall(r"<script[^>]*>", html)) == {"<script>"}


def test_every_chart_is_well_formed(html: str) -> None:
    drawn = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(drawn) == 6
    for svg in drawn:
        ElementTree.fromstring(svg)
        assert "nan" not in svg and "inf" not in svg


def test_the_headline_is_the_summarys_figure_with_its_intervals(run: Path, html: str) -> None:
    summary = json.loads((run / "summary.json").read_text())
    text = words(html)
    for score in (summary["baseline"], summary["trained"]):
        assert (
            f"{100 * score['success']:.1f} % (95 %: {100 * score['ci_low']:.1f} to {100 * score['ci_high']:.1f})"
            in text
        )
    rise = summary["rise"]
    assert f"{100 * rise['difference']:+.1f} points on the same seeds" in text
    assert "2000000 to 2000023" in text
    assert "of 24 held-out episodes" in text


@pytest.mark.parametrize(
    ("rise", "verdict"),
    [
        ({"difference": 0.3, "ci_low": 0.1, "ci_high": 0.5}, "Better: +30.0 points"),
        ({"difference": 0.1, "ci_low": -0.1, "ci_high": 0.3}, "No reliable change: +10.0 points"),
        ({"difference": -0.3, "ci_low": -0.5, "ci_high": -0.1}, "Worse: -30.0 points"),
    ],
)
def test_the_verdict_follows_the_interval(run: Path, tmp_path: Path, rise: dict[str, float], verdict: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    summary = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "rise": rise}))
    assert verdict in words(write_report(copy).read_text(encoding="utf-8"))


def test_the_seed_by_seed_counts_are_those_of_the_log(run: Path, html: str) -> None:
    data = read_run_folder(run)
    before, after = data.played["before"], data.played["after"]
    gained = sum(not solved(before[seed]) and solved(after[seed]) for seed in before)
    assert f"{gained} were failed before and solved after" in words(html)
    assert set(before) == set(after) == set(range(2_000_000, 2_000_024))


def test_the_log_tells_sampled_from_greedy_and_training_from_tests(run: Path) -> None:
    played_by = read_run_folder(run).played
    assert {name: len(episodes) for name, episodes in played_by.items()} == dict.fromkeys(played_by, 24)
    assert all(turn.greedy for episode in played_by["after greedy"].values() for turn in episode.turns)
    assert not any(turn.greedy for episode in played_by["after"].values() for turn in episode.turns)


def test_examples_follow_their_rules(run: Path) -> None:
    data = read_run_folder(run)
    before, after = data.played["before"], data.played["after"]
    examples, none = choose(before, after)
    assert len(examples) + len(none) == len(RULES)
    for example in examples:
        if example.rule == RULES[0][0]:
            assert not solved(example.before) and solved(example.after)
            earlier = [seed for seed in before if seed < example.seed]
            assert not any(not solved(before[seed]) and solved(after[seed]) for seed in earlier)
        if example.rule == RULES[2][0]:
            assert not solved(example.after)


def test_a_rule_that_no_seed_fits_is_said(run: Path) -> None:
    oracle = read_run_folder(run).played["oracle"]
    examples, none = choose(oracle, oracle)
    assert [example.rule for example in examples] == [RULES[1][0]]
    assert none == [RULES[0][0], RULES[2][0]]


def test_a_turn_in_words_says_what_was_chosen_and_how_likely_it_was(run: Path) -> None:
    episode = next(iter(read_run_folder(run).played["after"].values()))
    for turn in episode.turns:
        told = tell("fetch_item", turn)
        assert told.number == turn.turn + 1
        assert told.chose in turn.legal
        assert (
            told.odds == f"{100 * turn.prob_values[turn.legal.index(turn.proposed)]:.0f} % of {len(turn.legal)} choices"
        )
        assert told.outcome == turn.outcome_text
        assert told.reward == pytest.approx(sum(turn.terms.values()))
        assert told.instead == ""


def test_what_has_no_words_is_shown_as_it_stands() -> None:
    assert situation("some_other_game", "score 4 board 2 2") == "score 4 board 2 2"
    assert mission("some_other_game", "score 4") == ""
    for name in scenarios.names():
        assert situation(name, "a text of an older version") == "a text of an older version"
        assert mission(name, "a text of an older version") == ""


def test_what_people_wrote_is_escaped(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    write_run(copy, {**read_run(copy), "model": "<script>alert(1)</script>"})
    assert "<script>alert" not in write_report(copy).read_text(encoding="utf-8")


def test_the_commands_are_those_of_this_run(run: Path, html: str) -> None:
    told = words(html)
    for command in (
        f"python -m rl.train --config {run}/run.toml --out runs/again",
        f"python -m rl.evaluate --scenario fetch_item --policy {run} --against {run}@start --episodes 24",
        f"python -m rl.checkpoints {run} tree",
    ):
        assert command in told


def test_the_tree_shows_every_checkpoint_the_head_and_branches(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    tree = Tree(copy / "checkpoints")
    tree.start_branch("u0002")
    tree.add("u0003b1", {"update": 3, "parent": "u0002", "metrics": {}}, lambda place: None)
    tree.set_head("u0001", by_hand=True)  # which isn't the best
    html = write_report(copy).read_text(encoding="utf-8")
    svg = re.search(r'<svg[^>]*aria-label="the checkpoint tree">.*?</svg>', html, re.DOTALL)
    assert svg is not None
    drawing = ElementTree.fromstring(svg[0])
    titles = [title.text or "" for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.split()[0] for title in titles] == tree.names()
    assert [title.split()[0] for title in titles if "head" in title] == ["u0001"]
    rings = [circle for circle in drawing.iter("{http://www.w3.org/2000/svg}circle") if circle.get("r") == "9"]
    assert len(rings) == 1
    dots = [circle.get("cx") for circle in drawing.iter("{http://www.w3.org/2000/svg}circle") if circle.get("r") == "5"]
    assert rings[0].get("cx") == dots[1]
    assert "branch 1" in svg[0] and "trunk" in svg[0]


def test_a_damaged_checkpoint_is_told_on_the_page(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "checkpoints/u0002/node.json").write_text("{half")
    assert "u0002/node.json: not a readable checkpoint" in words(write_report(copy).read_text(encoding="utf-8"))


def test_every_example_can_be_stepped_through(run: Path, html: str) -> None:
    data = json.loads(re.search(r"const DATA=(.*);$", html, re.MULTILINE)[1])  # type: ignore[index]
    examples, _ = choose(read_run_folder(run).played["before"], read_run_folder(run).played["after"])
    episodes = [episode for example in examples for episode in (example.before, example.after)]
    assert len(data["films"]) == html.count('class="film"') == len(episodes)
    for film, episode in zip(data["films"], episodes, strict=True):
        assert len(film["scenes"]) == len(film["captions"]) == len(episode.turns) + 1
        for turn, caption in zip(episode.turns, film["captions"], strict=False):
            assert caption == f"{turn.proposed} → {turn.outcome_text}"
    assert set(data["ground"]["pictures"]) >= {"tiles", "items", "runner", "mara"}
    assert all(address.startswith("data:image/png;base64,") for address in data["ground"]["pictures"].values())


def test_an_episode_of_a_game_without_pictures_shows_its_observations(run: Path) -> None:
    episode = next(iter(read_run_folder(run).played["after"].values()))
    texts = [turn.observation for turn in episode.turns]
    for change in ({"scenario": "a_game_of_somebody"}, {"options": {"speed": "9"}}):
        other = msgspec.structs.replace(episode.begin, **change)
        film = film_of(msgspec.structs.replace(episode, begin=other))
        assert film == {"scenes": None, "texts": [*texts, texts[-1]]}
    films = Films()
    told = films.add(msgspec.structs.replace(episode, begin=other), ["</script>"] * len(texts), "end")
    assert "<pre>" in told and "<canvas" not in told
    assert films.script().count("</script>") == 1
    assert Films().script() == ""


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    run = fake_run(tmp_path / "open", episodes=4, updates=2, finished=False)
    text = words(write_report(run).read_text(encoding="utf-8"))
    assert "Not finished: 2 of 2 updates" in text
    assert "python -m rl.train --resume" in text
    assert "held-out episodes solved" not in text


def test_a_run_that_has_only_begun_has_a_page(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes((run / "run.toml").read_bytes())
    assert "Not finished: 0 of 4 updates" in words(write_report(tmp_path).read_text(encoding="utf-8"))


def test_a_torn_last_line_of_metrics_is_left_out_and_a_bad_one_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes((run / "run.toml").read_bytes())
    lines = (run / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(lines[:-20])
    assert [line["update"] for line in read_run_folder(tmp_path).metrics] == [1, 2, 3]
    (tmp_path / "metrics.jsonl").write_text("{half\n" + lines)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl: line 1 is not JSON"):
        read_run_folder(tmp_path)


def test_points_of_the_curve_are_where_they_belong(run: Path) -> None:
    data = read_run_folder(run, log=False)
    assert played(data) == [8, 8, 8, 8]
    assert [update for update, _ in validations(data)] == [0, 2, 4]


def test_curves_of_several_seeds_and_of_one(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = fake_run(tmp_path / "seed1", episodes=4, seed=1)
    path = tmp_path / "curve.svg"
    assert main([str(run), str(other), "--curve", str(path)]) == 0
    ElementTree.fromstring(path.read_text())
    assert "mean of 2 trainings" in path.read_text()
    assert capsys.readouterr().out.strip() == str(path)
    assert "95 % interval, n=12" in curve_of_runs([read_run_folder(run, log=False)])


def test_runs_of_different_tasks_are_not_drawn_together(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "harder"
    shutil.copytree(run, copy)
    write_run(copy, {**read_run(copy), "options": FETCH.resolve_options({"difficulty": "5"})})
    with pytest.raises(CurveError, match="draw them apart"):
        curve_of_runs([read_run_folder(run, log=False), read_run_folder(copy, log=False)])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "nowhere: no run.toml in it"),
        (["nowhere", "--curve", "curve.svg"], "nowhere: no run.toml in it"),
        (["nowhere", "--curve", "curve.png"], "name a file that ends in .svg"),
        (["nowhere", "--curve", "no/such/curve.svg"], "no folder no/such"),
    ],
)
def test_bad_input_gets_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_chart_of_single_and_level_values_is_drawn() -> None:
    marks = [Line([1], [0.0], "train"), Bars([1], [0.0], "dead", "dead"), Level(0.0, "random", "random 0 %"),
             Dots([1], [0.0], "valid", "dots"), Band([1], [0.0], [0.0], "train", "band")]  # fmt: skip
    svg = chart("nothing & nobody", marks, "update")
    ElementTree.fromstring(svg)
    assert "nan" not in svg


def test_labels_of_near_levels_don_t_lie_on_each_other() -> None:
    levels = [Level(value, "random", f"level {value}") for value in (0.0, 0.01, 0.02, 0.99, 1.0)]
    svg = chart("levels", [Line([0, 1], [0, 1], "train"), *levels], "update", y_range=(0, 1))
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)" style=', svg))
    assert len(heights) == 5
    assert all(b - a >= 13.9 for a, b in pairwise(heights))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-0.1, 0.95, [0, 0.25, 0.5, 0.75]), (0, 14, [0, 5, 10])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 5) == pytest.approx(expected)
