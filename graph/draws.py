"""Random choices without random state: each is a hash of what it is for, so a resumed or branched run repeats it."""

import hashlib


def draw(seed: int, purpose: str, round: int, index: int) -> float:
    """Return a number in [0, 1) that depends on the four arguments only.

    Uniform to 53 bits: the first 53 bits of the sha256 of the arguments. `index` tells draws of one purpose and
    round apart.
    """
    text = f"{seed}\n{round}\n{index}\n{purpose}"
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11
    return bits / 2**53
