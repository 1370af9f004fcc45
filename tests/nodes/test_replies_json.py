"""JSON in replies, one class of trouble after the other; each case says what comes of it."""

import json

import pytest

from evaluators.errors import ReplyError
from nodes.replies.json_reply import find_json

FENCE = "```"


WANTED = {"reason": "because", "edits": [{"kind": "prune", "node": "n2"}]}
PLAIN = '{"reason": "because", "edits": [{"kind": "prune", "node": "n2"}]}'
INDENTED = json.dumps(json.loads(PLAIN), indent=2)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"\n\n  {PLAIN}\r\n",
        f"Here are my edits.\n\n{INDENTED}\n\nI hope this helps!",
        f"{PLAIN} Let me know if {{you}} want more.",
        f"The set {{n1, n2}} is exhausted, so:\n{PLAIN}",
        f"As f(x) = {{x > 0}} shows {{ {PLAIN} }} is right",
        f'For instance {{"kind": "prune", "node": "n9"}} would be one edit. My answer: {INDENTED}',
        f'{INDENTED}\n\n(In short: {{"reason": "because"}})',
    ],
)
def test_prose_around_json(text: str) -> None:
    assert find_json(text) == WANTED


@pytest.mark.parametrize(
    "text",
    [
        f"{FENCE}json\n{INDENTED}\n{FENCE}",
        f"{FENCE}\n{PLAIN}\n{FENCE}\n",
        f"~~~JSON\n{PLAIN}\n~~~",
        f"Sure:\n\n{FENCE}json {PLAIN} {FENCE}",
        f"{FENCE}json\n{PLAIN}",
        f"1. My edits\n\n   {FENCE}json\n   {PLAIN}\n   {FENCE}\n\n2. nothing else",
    ],
)
def test_code_blocks(text: str) -> None:
    assert find_json(text) == WANTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{FENCE}markdown\n{FENCE}json\n{{"reason": "a"}}\n{FENCE}\n{FENCE}', "a"),
        (f'{FENCE}json\n{{"reason": "\\n{FENCE}cpp\\nint x;\\n{FENCE}"}}\n{FENCE}', f"\n{FENCE}cpp\nint x;\n{FENCE}"),
        (f'{{"reason": "end with {FENCE}"}}', f"end with {FENCE}"),
        (f'````\n{FENCE}json\n{{"reason": "b"}}\n{FENCE}\n````', "b"),
        (f'{FENCE}json\n{FENCE}json\n{{"reason": "c"}}\n{FENCE}\n{FENCE}', "c"),
        (f'{{"reason": "a raw\n{FENCE}\nfence and {{braces"}}', f"a raw\n{FENCE}\nfence and {{braces"),
    ],
)  # fmt: skip
def test_fences_in_fences(text: str, reason: str) -> None:
    assert find_json(text) == {"reason": reason}


@pytest.mark.parametrize(
    "text",
    [
        '{"reason": "because", "edits": [{"kind": "prune", "node": "n2"},]}',
        '{"reason": "because", "edits": [{"kind": "prune", "node": "n2",},],}',
        '{"reason": "because", "edits": [{"kind": "prune", "node": "n2"} , \n ] , \n }',
        '{"reason": "because", "edits": [{"kind": "prune", "node": "n2"}, // the worst\n ], /* done */ }',
        '{ // my reply\n "reason": "because", # why\n "edits": [{"kind": "prune", "node": "n2"}]}',
        '{"reason": /* short } */ "because", "edits": [{"kind": "prune", "node": "n2", /* last */}]}',
    ],
)
def test_trailing_commas_and_comments(text: str) -> None:
    assert find_json(text) == WANTED


def test_marks_of_comments_and_commas_within_strings_stay() -> None:
    text = '{"reason": "see https://x.y/z, #3 /* not */ a \\"quoted,}\\" one ,]",}'
    assert find_json(text) == {"reason": 'see https://x.y/z, #3 /* not */ a "quoted,}" one ,]'}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"reason": "because", "edits": [{"kind": "prune", "node": "n2"}', "line 1 is never closed"),
        ('Here:\n{"reason": "beca', "line 2 is never closed"),
        (f"{FENCE}json\n{INDENTED[:-3]}", "line 2 is never closed"),
        ('{"reason": "because", "edits": [', "never closed"),
        ("{", "begins '{'"),
        ('{"reason": "because" /* and then', "never closed"),
        (f'{{"kind": "prune"}} then {PLAIN[:-1]}', "never closed"),
    ],
)
def test_truncated(text: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        find_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "As an AI model I cannot plan searches {of this kind}.",
        "No further edits are needed.",
        "**Refused**: this request may violate a policy.\n\n- policy: {unknown}",
        "I would need more information. Could you share the profile?",
    ],
)
def test_refusals(text: str) -> None:
    with pytest.raises(ReplyError, match="holds no JSON object; it begins"):
        find_json(text)


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\r\n", "\u00a0\u2003", "\ufeff \n"])
def test_empty(text: str) -> None:
    with pytest.raises(ReplyError, match="the reply is empty"):
        find_json(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"reason": "a" "edits": []}', "line 1 is wrong: Expecting ',' delimiter"),
        ("{'reason': 'a'}", "holds no JSON object"),
        ('{"reason": NaN}', "NaN is no JSON number"),
        ('{"reason": 1e999}', "1e999 is too large a number"),
        ('{"reason": ' + "9" * 5000 + "}", "wrong: Exceeds the limit"),
        ('["reason", "a"]', "holds no JSON object"),
        ('{"reason": ' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64"),
        ('{"reason": "a\0b"}', "NUL"),
        ('{"reason": "\ud83d"}', "half a surrogate pair"),
    ],
)
def test_what_is_wrong_is_told(text: str, says: str) -> None:
    with pytest.raises(ReplyError, match=says):
        find_json(text)


def test_an_error_in_the_long_object_is_not_hidden_by_a_small_one_within() -> None:
    with pytest.raises(ReplyError, match="Expecting ',' delimiter"):
        find_json('{"reason": "a", "edits": [{"kind": "prune", "node": "n2"} {"kind": "prune", "node": "n3"}]}')
