"""Names and options: from a configuration to a problem and batches, from a run folder to a trained model."""
