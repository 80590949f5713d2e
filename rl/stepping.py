"""Episodes to step through on a page: the village drawn turn by turn, or, for what isn't played there, observations.

Everything is in the page: pictures as data URIs, positions as JSON, and a short script without any library. Without
scripts the page still tells every turn in words.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import scenarios
from recorder import Episode
from scenarios.contract import ScenarioError
from scenarios.pictures import ground, scenes

STYLE = """
.film{margin:8px 0}
.film canvas{display:block;width:100%;height:auto;border-radius:6px;image-rendering:pixelated;background:#233}
.film pre{min-height:6em;margin:0;background:var(--ground)}
.film .keys{display:flex;gap:8px;align-items:center;margin-top:6px}
.film .keys input{flex:1;min-width:60px}
.film button{font:inherit;padding:1px 10px;border:1px solid var(--grid);border-radius:6px;background:var(--ground);
color:var(--ink);cursor:pointer}
.film .now{margin:4px 0 0;min-height:2.6em;font-size:13.5px;line-height:1.3}
.film+ol{position:relative;max-height:440px;overflow-y:auto}
.film+ol li{cursor:pointer}
li.now{background:var(--grid);border-radius:4px}
"""


class Films:
    """The episodes of one page. `add` gives the HTML of one; `script` the data and the code for all of them."""

    def __init__(self) -> None:
        self._films: list[dict[str, Any]] = []

    def add(self, episode: Episode, captions: Sequence[str], ending: str) -> str:
        """A box to step through `episode`: `captions` says what happens in each turn, `ending` how it ended."""
        film = film_of(episode) | {"captions": [*captions, ending]}
        number = len(self._films)
        self._films.append(film)
        screen = "<pre></pre>" if film["scenes"] is None else '<canvas width="960" height="640"></canvas>'
        keys = ('<div class="keys"><button type="button" aria-label="back">◀</button>'
                f'<input type="range" min="0" max="{len(captions)}" value="0" aria-label="turn">'
                '<button type="button" aria-label="on">▶</button></div>')  # fmt: skip
        return f'<div class="film" data-film="{number}" hidden>{screen}{keys}<p class="now"></p></div>'

    def script(self) -> str:
        """Data and code; empty for a page without films."""
        if not self._films:
            return ""
        drawn = any(film["scenes"] is not None for film in self._films)
        data = {"films": self._films, "ground": _ground() if drawn else None}
        # "<" would end the script wherever somebody's text holds a closing tag
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        return f"<script>const DATA={text};\n{SCRIPT}</script>"


def film_of(episode: Episode) -> dict[str, Any]:
    """What there is to see before each turn and after the last: scenes, or None and the observations."""
    begin = episode.begin
    texts = [turn.observation for turn in episode.turns]
    try:
        scenario = scenarios.get(begin.scenario)
        phrases = [turn.executed for turn in episode.turns]
        found = scenes(scenario, begin.seed, begin.options, phrases, [turn.digest_after for turn in episode.turns])
    except ScenarioError:  # a log of a scenario, or of an option, that this version doesn't have
        found = None
    if found is None:
        return {"scenes": None, "texts": [*texts, texts[-1] if texts else ""]}
    return {"scenes": [scene._asdict() for scene in found]}


def _ground() -> dict[str, Any]:
    shown = ground()._asdict()
    shown["pictures"] = {
        name: "data:image/png;base64," + base64.b64encode(data).decode() for name, data in shown["pictures"].items()
    }
    return shown


SCRIPT = """
const SCALE = 2, GOLD = "#ffd76a", GREEN = "#8be08b", INK = "#f4f0e6";

function picture(address) {
  return new Promise((done) => {
    const image = new Image();
    image.onload = () => done(image);
    image.src = address;
  });
}

function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

function drawGround(ground, tiles) {
  const side = ground.tile * SCALE;
  const canvas = canvasOf(ground.columns * side, ground.rows * side);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  for (const layer of ground.layers) {
    layer.forEach((number, at) => {
      if (!number) return;
      const from = number - 1, column = from % ground.sheet_columns, row = Math.floor(from / ground.sheet_columns);
      const x = at % ground.columns, y = Math.floor(at / ground.columns);
      pen.drawImage(tiles, column * ground.tile, row * ground.tile, ground.tile, ground.tile,
        x * side, y * side, side, side);
    });
  }
  for (const [name, x, y] of ground.places) word(pen, name, (x + 0.5) * side, (y + 1) * side + 14, INK, 19);
  return canvas;
}

function word(pen, text, x, y, colour, size) {
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.lineWidth = 3;
  pen.strokeStyle = "rgba(20,16,24,.85)";
  pen.strokeText(text, x, y);
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

function item(pen, ground, images, name, x, y, size) {
  const at = ground.items.indexOf(name), side = images.items.height;
  if (at >= 0) pen.drawImage(images.items, at * side, 0, side, side, x, y, size, size);
}

function drawScene(pen, ground, images, back, scene) {
  const side = ground.tile * SCALE;
  const spot = (x, y) => [(x + 0.5) * side, (y + 0.5) * side];
  pen.imageSmoothingEnabled = false;
  pen.drawImage(back, 0, 0);
  const heaps = {};
  for (const [name, x, y] of scene.lying) {
    const key = `${x},${y}`, count = heaps[key] = (heaps[key] || 0) + 1;
    const left = (x + 0.5) * side - 16 + (count - 1) * 26 - 26, top = (y + 1) * side + 14;
    if (name === scene.wanted) {
      pen.fillStyle = "rgba(255,215,106,.55)";
      pen.beginPath();
      pen.arc(left + 14, top + 14, 17, 0, 7);
      pen.fill();
    }
    item(pen, ground, images, name, left, top, 28);
  }
  if (scene.path.length > 1) {
    pen.strokeStyle = GOLD;
    pen.lineWidth = 4;
    pen.setLineDash([9, 7]);
    pen.beginPath();
    scene.path.forEach(([x, y], at) => at ? pen.lineTo(...spot(x, y)) : pen.moveTo(...spot(x, y)));
    pen.stroke();
    pen.setLineDash([]);
  }
  const together = {};
  scene.figures.forEach((figure) => (together[`${figure[1]},${figure[2]}`] ||= []).push(figure[0]));
  const placed = scene.figures.map(([name, x, y, carries]) => {
    const crowd = together[`${x},${y}`], at = crowd.indexOf(name), row = Math.floor(at / 3);
    const wide = Math.min(crowd.length - row * 3, 3);
    const [cx, cy] = spot(x, y);
    return {name, carries, lift: at % 2 * 18, x: cx + (at % 3 - (wide - 1) / 2) * 44, y: cy + side / 2 - row * 30};
  });
  placed.sort((a, b) => a.y - b.y);
  for (const one of placed) {
    const sheet = images[one.name.toLowerCase()];
    if (!sheet) continue;
    const wide = ground.tile, tall = sheet.height / 4;  // the third of four rows looks south
    pen.drawImage(sheet, 0, 2 * tall, wide, tall, one.x - wide, one.y - 2 * tall - 4, wide * 2, tall * 2);
    if (one.carries) item(pen, ground, images, one.carries, one.x + 6, one.y - 22, 20);
  }
  for (const one of placed) {
    const colour = one.name === "runner" ? GOLD : one.name === scene.asker ? GREEN : INK;
    word(pen, one.name, one.x, one.y - 46 - one.lift, colour, 19);
  }
}

async function start() {
  const ground = DATA.ground, images = {};
  let back = null;
  if (ground) {
    for (const [name, address] of Object.entries(ground.pictures)) images[name] = await picture(address);
    back = drawGround(ground, images.tiles);
  }
  document.querySelectorAll(".film").forEach((box) => {
    const film = DATA.films[box.dataset.film], last = film.captions.length - 1;
    const canvas = box.querySelector("canvas"), text = box.querySelector("pre"), bar = box.querySelector("input");
    const [earlier, later] = box.querySelectorAll("button"), told = box.querySelector("p.now");
    const lines = box.parentElement.querySelectorAll("li");
    if (canvas) {
      canvas.width = back.width;
      canvas.height = back.height;
    }
    function show(at) {
      bar.value = at;
      if (canvas) drawScene(canvas.getContext("2d"), ground, images, back, film.scenes[at]);
      else text.textContent = film.texts[at];
      told.textContent = (at < last ? `Turn ${at + 1} of ${last}: ` : "") + film.captions[at];
      lines.forEach((line, number) => line.classList.toggle("now", number === at));
      if (lines[at]) lines[at].parentElement.scrollTop = lines[at].offsetTop - 150;
      earlier.disabled = at === 0;
      later.disabled = at === last;
    }
    bar.addEventListener("input", () => show(Number(bar.value)));
    earlier.addEventListener("click", () => show(Math.max(0, Number(bar.value) - 1)));
    later.addEventListener("click", () => show(Math.min(last, Number(bar.value) + 1)));
    lines.forEach((line, number) => line.addEventListener("click", () => show(number)));
    box.hidden = false;
    show(0);
  });
}
start();
"""
