"""Looking inside a trained model: what its attention does, measured and drawn."""
