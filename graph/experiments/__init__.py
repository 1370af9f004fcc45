"""Experiments: many searches by one plan, how far they are, and what they say about each other."""
