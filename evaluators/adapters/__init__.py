"""Formats that tasks come in besides our own folders."""
