"""Comparing results, as the format's problems do."""

import torch


def mismatches(got, expected, rtol=1e-5, atol=1e-8, most=5):
    """Return words for what differs, none when all is right: shape, NaN, infinity, |d| <= atol + rtol |expected|."""
    if got.shape != expected.shape:
        return [f"size mismatch: got {list(got.shape)}, expected {list(expected.shape)}"]
    difference = (got.to(torch.float32) - expected.to(torch.float32)).abs()
    wrong = ~(difference <= atol + rtol * expected.abs())
    same = (got == expected) | (torch.isnan(got) & torch.isnan(expected))
    wrong &= ~same
    count = int(wrong.sum())
    if count == 0:
        return []
    places = torch.nonzero(wrong)[:most].tolist()
    words = [
        f"at {place}: got {got[tuple(place)].item()}, expected {expected[tuple(place)].item()}" for place in places
    ]
    return [f"{count} mismatched elements", *words]


def make_match_reference(reference, rtol=1e-5, atol=1e-8):
    """Return a check of (data, output) against `reference(data)`: (whether it is right, what is wrong)."""

    def check(data, output):
        found = mismatches(output, reference(data), rtol, atol)
        return (not found, "; ".join(found))

    return check
