"""pdqat in training loops of others: Lightning, and the Trainer of Hugging Face."""
