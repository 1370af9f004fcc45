"""JSON schemas in the subset that providers' structured output accepts in their strict modes."""

from typing import Any

_KEPT = ("type", "enum", "anyOf", "items", "properties", "required", "additionalProperties", "description")


def strict_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` with references put in place, every property required, and only keywords that are widely known.

    Bounds of numbers and lengths are lost: they are for the validation of the reply. A property that may be left out
    must accept null in the original. `schema` must not refer to itself.
    """
    return _strict(schema, schema.get("$defs", {}))


def _strict(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _strict(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    options = schema.get("oneOf") or schema.get("anyOf")
    if options:
        return {"anyOf": [_strict(option, definitions) for option in options]}
    strict = {key: value for key, value in schema.items() if key in _KEPT}
    if "const" in schema:
        strict["enum"] = [schema["const"]]
    if "items" in schema:
        strict["items"] = _strict(schema["items"], definitions)
    if "properties" in schema:
        strict["properties"] = {name: _strict(item, definitions) for name, item in schema["properties"].items()}
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict
