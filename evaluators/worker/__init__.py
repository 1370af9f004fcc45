"""Everything below the Evaluation record: needs the standard library, numpy and torch, and nothing of ours outside."""
