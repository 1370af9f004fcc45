"""Problem folders in GPU MODE's reference-kernels format."""
