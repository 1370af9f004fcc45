"""What a planner and a coder reply, for searches with the scripted evaluator."""

import json


def plan(*titles: str, parent: str = "root") -> str:
    """A planner's reply that inserts intents, the first one the most urgent."""
    edits = [
        {"kind": "insert", "parent": parent, "title": title, "description": f"Do {title}.", "priority": 0.9 - at / 10,
         "predicted_gain": 1.5, "confidence": 0.5}
        for at, title in enumerate(titles)
    ]  # fmt: skip
    return json.dumps({"reason": "so", "summary": "known so far", "edits": edits})


def program(mark: str, number: int) -> str:
    """A coder's reply: a program of which the evaluator says what `mark` says."""
    return f'```cpp\n// scripted: {mark}\nint sample_{number};\nextern "C" void scripted() {{}}\n```\n'
