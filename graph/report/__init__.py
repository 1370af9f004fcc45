"""What is told to people about a run: pure functions from records to dicts and text."""
