"""Timing protocols: their names, and what counts as a tie under them."""

CPU_ABBA = "cpu-abba-1"
"""One thread, baseline and candidate alternating ABBA, ratio of minimum CPU times, fresh-process estimates."""

TIE_MARGIN = 0.03
"""Differences of at most this share are ties: what two measurements of equal programs may differ by."""
