"""FlashInfer-Bench: its folders of definitions, workloads, solutions and traces, read and written."""
