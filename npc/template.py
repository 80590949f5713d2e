"""The form in which a model reads its prompt: as plain text, or as one message of a chat.

A chat model's template is rendered once around a marker, and cut there. What lies before the marker begins the static
prefix, what lies behind it ends each turn's prompt. The pieces are tokenised by themselves, at fixed borders: so the
prefix is a true common prefix of all prompts, and nothing that is read in a turn can be taken for a special token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from npc.errors import ModelError
from npc.tokenizer import TextTokenizer, special_text

CUE = " do"
MARKER = "ERRANDMESSAGE"
REPLY = "ERRANDREPLY"
TODAY = date(2024, 7, 26)  # of templates that tell the model a date: the same in every prompt


@dataclass(frozen=True)
class PromptForm:
    """What goes around the texts of a prompt.

    ``head_ids`` begin the static prefix, ``tail_ids`` end a turn's prompt, behind its ``cue``. ``lead`` is what a
    spoken phrase begins with. ``template`` is the source of the chat template, where there is one.
    """

    kind: str = "plain"
    head_ids: tuple[int, ...] = ()
    tail_ids: tuple[int, ...] = ()
    cue: str = CUE
    lead: str = " "
    template: str = ""

    @property
    def name(self) -> str:
        """What is written down with an adapter: equal names are equal prompts for equal texts."""
        if not self.head_ids and not self.tail_ids:
            return self.kind
        parts = [self.head_ids, self.tail_ids, self.cue, self.lead]
        return f"{self.kind}:{hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()}"


PLAIN = PromptForm()


def form_of(folder: Path, tokenizer: TextTokenizer) -> PromptForm:
    """The form of a model folder: by its chat template, else plain text behind what the tokenizer begins a text with.

    A chat model ends what it says by the token its template ends an answer with: that becomes the tokenizer's end.
    Raises ModelError for a template that can't be rendered to one fixed text around a message.
    """
    path, template, specials = _read(folder)
    if not template:
        first = tokenizer.first_ids()
        return PromptForm("text", first) if first else PLAIN
    user = {"role": "user", "content": MARKER}
    asked = _render(path, template, specials, [user], True)
    if asked.count(MARKER) != 1:
        raise ModelError(f"{path}: its chat template doesn't give a message back once, as it is")
    head, tail = asked.split(MARKER)
    answered = _render(path, template, specials, [user, {"role": "assistant", "content": REPLY}], False)
    tokenizer.end_with(answered.rpartition(REPLY)[2])
    return PromptForm(
        "chat", tuple(tokenizer.encode_marked(head)), tuple(tokenizer.encode_marked(tail)), "", "", template
    )


def _read(folder: Path) -> tuple[Path, str, dict[str, str]]:
    """Where the chat template stands, its source, and the special tokens that it may name."""
    path = folder / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    specials = {name: special_text(config.get(name)) or "" for name in names}
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own, own.read_text(encoding="utf-8"), specials
    template = config.get("chat_template") or ""
    if isinstance(template, list):  # several by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default") or ""
    if not isinstance(template, str):
        raise ModelError(f"{path}: chat_template is neither a text nor a list of named ones")
    return path, template, specials


def _render(path: Path, template: str, specials: Mapping[str, str], messages: list, asking: bool) -> str:
    """A template's text for messages, the same on every day: the date is fixed, and there are no dice."""
    import jinja2
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what a model says, for whoever trains on that alone; its text is only text here."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> list:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    rendering = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    rendering.filters.pop("random")
    rendering.globals.pop("lipsum")
    rendering.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    rendering.globals |= {"raise_exception": refuse, "strftime_now": TODAY.strftime}
    given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": asking}
    try:
        return rendering.from_string(template).render(**given, enable_thinking=False, **specials)
    except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ModelError(f"{path}: its chat template can't be used ({error})") from error
