"""Chat templates beside transformers, character by character."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("jinja2")

from transformers.utils.chat_template_utils import render_jinja_template

import glow_compiler as glow
from glow_compiler.chat_template import ChatTemplate

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "a<b> & 'c' \"é\" 日本 🙂\n\t/"},
    {"role": "user", "content": "hi", "z": 1, "a": [1, 2.5, True]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"name": "f", "arguments": {"y": "<é>", "x": {"b": 1, "a": []}}}],
    },
    {"role": "assistant", "content": "yes", "reasoning": "since"},
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "description": "d & <e>", "parameters": {"z": 1, "a": "é"}},
    }
]
TEMPLATES = [
    "{{ messages|tojson }}",
    "{{ messages|tojson(indent=2) }}",
    "{{ messages|tojson(indent=4,sort_keys=true) }}",
    "{{ messages|tojson(separators=(',',':')) }}",
    "{{ messages|tojson(ensure_ascii=true) }}",
    "{{ messages|tojson(ensure_ascii=True, indent=1)|length }}",
    (
        "{% for m in messages %}\n  {% if loop.index == 2 %}\n    "
        "{% break %}\n  {% endif %}\n  {{ m.role }}\n{% endfor %}\nend"
    ),
    "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.role }};{% endfor %}",
    "{% for m in messages %}{% generation %}\n{{ m.content }}\n{% endgeneration %}\n{% endfor %}",
    (
        "{%- for m in messages -%}\n "
        "{%- generation -%} {{ loop.index if loop is defined else 'no' }} {{ m.content }} "
        "{%- endgeneration -%}{% endfor %}"
    ),
    "{{ strftime_now('%Y') }}|{{ strftime_now('%d %b') }}",
    (
        "{% if tools is not none %}T{% else %}N{% endif %}"
        "{% if documents is none %}n{% endif %}{{ tools is defined }}"
    ),
    (
        "{% if tools %}{{ tools|tojson }}"
        "{% for t in tools %}{{ t.function|tojson(indent=2) }}{% endfor %}{% endif %}"
    ),
    (
        "{% set ns = namespace(x=0, y='') %}{% for m in messages %}"
        "{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}"
    ),
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f('x', b='<') }}",
    "{{ dict(a=1)|tojson }}{{ dict([('q',2)]) }}",
    "{{ messages[2].tool_calls[0].arguments.items()|list }}",
    "{{ messages[0]['content']|trim|upper }}{{ messages[1].content.split('h') }}",
    "   {% if true %}\n x\n   {% endif %}\n\n y {# c #}\n z",
    "{{ messages[1] }}",
    "{{ messages[1].a }}",
    "{{ undefinedx }}|{{ undefinedx is defined }}",
    "{{ '%s-%d'|format('a',3) }}{{ 'x' * 3 }}{{ [1,2]|join('<') }}",
    "{{ 'é<' | e }}",
    "{{ '<b>' | safe | tojson }}",
    "{{ messages|map(attribute='role')|list|tojson }}",
    "{{ range(3)|list|tojson }}",
    "{{ bos_token }}{{ add_generation_prompt }}{{ enable }}{{ messages[::-1][0].role }}",
    (
        "{% for m in messages %}{% generation %}{% set q = 1 %}{{ q }}"
        "{% endgeneration %}{{ q is defined }}{% endfor %}"
    ),
    "{{ cycler('a','b').next() }}{{ lipsum is defined }}",
    "{{ 3.0 }} {{ 1e20 }} {{ none }} {{ true }}",
    "{{ messages[0].content | replace('<','[') | tojson }}",
    "{{ messages[3] }}",
    "{{ ''.__class__ }}",
]
REFUSED = [
    "{{ raise_exception('bad <x>') }}",
    "{{ messages.foo.bar }}",
    "{{ 1/0 }}",
    "{{ messages.append(1) }}",
    "{{ namespace(_a=1) }}",
    "{{ x|tojson }}",
    "{% break %}",
    "{% if %}",
    "{% call(u) f() %}{% endcall %}",
    "{{ 'a'.join(3) }}",
    "{{ 2.0 ** 9999 }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_as_transformers(template: str) -> None:
    """JSON, loops, blocks, white space, variables that are not given."""
    for tools in (None, TOOLS):
        given: dict[str, Any] = {"tools": tools, "add_generation_prompt": True, "bos_token": "<s>"}
        (want,), _ = render_jinja_template([MESSAGES], chat_template=template, **given)
        assert ChatTemplate("x", template).render(given | {"messages": MESSAGES}) == want


@pytest.mark.parametrize("template", REFUSED)
def test_refused(template: str) -> None:
    """What goes wrong in a template is said, whatever it is."""
    with pytest.raises(glow.GlowError, match="^x: the chat template "):
        ChatTemplate("x", template).render({"messages": MESSAGES})


def test_what_is_null_is_not_there() -> None:
    """As clients send it beside calls of tools."""
    messages = [{"role": "assistant", "content": None}]
    assert ChatTemplate("x", "{{ messages[0] }}").render({"messages": messages}) == "{'role': 'assistant'}"
