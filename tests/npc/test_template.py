"""The form of a prompt: plain for what ships, by the chat template for other chat models, and never mixed up."""

import json

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from npc import adapters, template
from npc.errors import AdapterError, ModelError, PolicyError
from npc.models import load
from npc.policy import ClosedPolicy
from npc.template import PLAIN
from npc.tokenizer import TextTokenizer
from npc.tree import PhraseTable, build_layout
from tests.npc.foreign_making import ENDS, STARTS, TEMPLATE, folder, tokenizer
from tests.npc.making import WORDS


def set_template(at, source):
    path = at / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": source}))


def test_a_turn_is_one_message_whose_ids_are_those_of_the_whole_template(tmp_path):
    from transformers import AutoTokenizer

    at = folder(tmp_path / "model", "qwen3", chat=True)
    acting = ClosedPolicy(load(at), " mara rope")
    ids = [*acting.prefix_ids, *acting.encode("inn dock")]
    message = [{"role": "user", "content": " mara rope inn dock"}]
    said = AutoTokenizer.from_pretrained(at).apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    assert said == acting.brain.tokenizer.decode(ids)
    assert ids == acting.brain.tokenizer.encode_marked(said)
    assert acting.table.ids("go")[-1] == acting.brain.tokenizer.id_of(ENDS) == acting.brain.tokenizer.eos_id
    assert acting.brain.tokenizer.decode(acting.table.ids("wait")[:-1]) == "wait"


def test_what_is_read_in_a_turn_is_never_a_special_token(tmp_path):
    acting = ClosedPolicy(load(folder(tmp_path / "model", "qwen3", chat=True)), "")
    special = {acting.brain.tokenizer.id_of(STARTS), acting.brain.tokenizer.id_of(ENDS)}
    turn = acting.encode(f"rope{ENDS}{STARTS}")
    assert turn[-len(acting.brain.form.tail_ids) :] == list(acting.brain.form.tail_ids)
    assert not special & set(turn[: -len(acting.brain.form.tail_ids)])


def test_models_that_ship_keep_their_prompts():
    made = load("nano")
    acting = ClosedPolicy(made, "a b")
    assert made.form is PLAIN and made.form.name == "plain"
    assert acting.prefix_ids == made.tokenizer.encode("a b")
    assert acting.encode("rope") == made.tokenizer.encode(" rope do")


def test_a_base_model_begins_as_its_tokenizer_says(tmp_path):
    at = folder(tmp_path / "model", "qwen3")
    stored = Tokenizer.from_file(str(at / "tokenizer.json"))
    stored.post_processor = TemplateProcessing(single="<pad> $A", special_tokens=[("<pad>", 0)])
    stored.save(str(at / "tokenizer.json"))
    made = load(at)
    assert made.form.kind == "text" and made.prefix_ids(" rope")[0] == 0
    assert made.prefix_ids(" rope")[1:] == made.tokenizer.encode(" rope")


def test_an_adapter_is_refused_with_another_form_of_prompt(tmp_path):
    at = folder(tmp_path / "model", "qwen3", chat=True)
    made = load(at)
    adapters.attach(made, 2)
    adapters.save_adapter(made, tmp_path / "adapter")
    for name, source in (("other", TEMPLATE.replace("You help.", "You are of no help.")), ("none", "")):
        set_template(at, source)
        with pytest.raises(AdapterError, match=r"provenance\.json: it learned from .* the form 'chat:") as caught:
            adapters.load_adapter(load(at), tmp_path / "adapter")
        assert "\n" not in str(caught.value), name
    provenance = json.loads((tmp_path / "adapter" / "provenance.json").read_text())
    del provenance["prompt"]  # of a time when every prompt was plain
    (tmp_path / "adapter" / "provenance.json").write_text(json.dumps(provenance))
    adapters.load_adapter(load(at), tmp_path / "adapter")


def test_a_date_is_the_same_every_day(tmp_path):
    at = folder(tmp_path / "model", "qwen3", chat=True)
    set_template(at, "Today: {{ strftime_now('%d %b %Y') }}\n" + TEMPLATE)
    made = load(at)
    assert made.tokenizer.decode(made.form.head_ids).startswith("Today: 26 Jul 2024\n")
    assert template.TODAY.year == 2024


THOUGHTS = TEMPLATE.replace(
    "{{ '<|im_start|>assistant\\n' }}",
    "{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined and enable_thinking is false %}"
    "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}",
)
FORMS = {
    "thinks": (THOUGHTS, "assistant\n<think>\n\n</think>\n\n"),
    "marks what is said": ("{% generation %}" + TEMPLATE + "{% endgeneration %}", "assistant\n"),
    "has tools": ("{% if tools is not none or documents is not none %}tools{% endif %}" + TEMPLATE, "assistant\n"),
    "breaks off": ("{% for i in range(9) %}{% if i %}{% break %}{% endif %}{% endfor %}" + TEMPLATE, "assistant\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_templates_are_written_with_is_understood(form, tmp_path):
    at = folder(tmp_path / "model", "qwen3", chat=True)
    plain = load(at).form
    set_template(at, FORMS[form][0])
    made = load(at)
    assert made.form.head_ids == plain.head_ids
    assert made.tokenizer.decode(made.form.tail_ids).endswith(FORMS[form][1])
    assert (made.form.name == plain.name) == (form != "thinks")


FAULTS = {
    "dice": ("{{ ['a', 'b'] | random }}" + TEMPLATE, "No filter named 'random'"),
    "no message": ("hello", "doesn't give a message back once"),
    "twice": (TEMPLATE + "{{ messages[0]['content'] }}", "doesn't give a message back once"),
    "its own refusal": ("{{ raise_exception('only for two') }}", "only for two"),
    "not a template": ("{% if %}", "can't be used"),
    "a number": (7, "neither a text nor a list"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_template_that_gives_no_fixed_text_is_refused(fault, tmp_path):
    at = folder(tmp_path / "model", "qwen3", chat=True)
    set_template(at, FAULTS[fault][0])
    with pytest.raises(ModelError, match=FAULTS[fault][1]) as caught:
        load(at)
    assert "tokenizer_config.json" in str(caught.value)


def test_a_template_of_its_own_file_or_by_name_counts(tmp_path):
    at = folder(tmp_path / "model", "qwen3", chat=True)
    wanted = load(at).form
    set_template(at, [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}])
    assert load(at).form == wanted
    set_template(at, "")
    (at / "chat_template.jinja").write_text(TEMPLATE)
    assert load(at).form == wanted


def words_only(lower=False, unknown="<unk>"):
    vocab = {text: at for at, text in enumerate(["<eos>", "<unk>", *WORDS])}
    made = Tokenizer(models.WordLevel(vocab, unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if lower:
        made.normalizer = normalizers.Lowercase()
    made.add_special_tokens(["<eos>"])
    return TextTokenizer(made)


def test_a_tokenizer_that_cant_speak_the_actions_is_named():
    table = PhraseTable(words_only())
    assert len(table.ids("take the rope")) == 4
    with pytest.raises(PolicyError, match="' take the ladder' holds something that this model has no token for"):
        table.ids("take the ladder")
    with pytest.raises(PolicyError, match="turns the phrase 'ask Tom' into 'ask tom': it can't say it"):
        PhraseTable(words_only(lower=True)).ids("ask Tom")


def test_phrases_that_come_back_otherwise_are_named():
    table = PhraseTable(words_only())
    with pytest.raises(PolicyError, match="'go  to' into 'go to': it can't say it"):
        table.layout(("go to", "go  to"))


def test_phrases_with_equal_ids_are_named():
    with pytest.raises(PolicyError, match="'go to' and 'go too' have the same ids"):
        build_layout(("go to", "wait", "go too"), [[1, 2, 0], [3, 0], [1, 2, 0]])


@pytest.mark.parametrize("prepends", [False, True])
def test_a_vocabulary_of_characters_with_bytes_to_fall_back_on_speaks(prepends, tmp_path):
    """As Gemma's (spaces are letters) and Llama 2's (a text begins with one) are written."""
    letters = ["<eos>", "<bos>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz"]
    made = Tokenizer(models.BPE({text: at for at, text in enumerate(letters)}, [], byte_fallback=True, fuse_unk=True))
    first = [normalizers.Prepend("▁")] if prepends else []
    made.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prepends else steps)
    made.add_special_tokens(["<eos>", "<bos>"])
    made.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    acting = ClosedPolicy(load(folder(tmp_path / "model", "gemma3_text", like=TextTokenizer(made))), " go Ünder")
    assert acting.brain.form.kind == "text" and acting.prefix_ids[0] == 1
    acting.brain.check_speaks(["lantern", "Ünder", "2048"])
    legal = ("go to the inn", "go to", "wait", "take 2")
    (decision,) = acting.decide(["rope 12"], [legal])
    assert sum(decision.probs) == pytest.approx(1) and decision.phrase in legal


def test_special_tokens_that_no_prompt_holds_need_no_row(tmp_path):
    words = tokenizer(chat=True)
    load(folder(tmp_path / "plain", "qwen3", like=words, vocab_size=words.vocab_size - 2))
    with pytest.raises(ModelError, match=f"vocab_size {words.vocab_size - 1} is too small .* up to"):
        load(folder(tmp_path / "chat", "qwen3", chat=True, vocab_size=words.vocab_size - 1))
