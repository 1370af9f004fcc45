"""What a search keeps: checkpoints, the ledger of paid work, content-addressed blobs, threads and their history."""
