"""Tasks: from examples to a loss, and from a model to answers. One small file each."""
