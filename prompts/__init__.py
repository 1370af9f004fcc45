"""Prompt variants, as data, and the library that renders them."""
