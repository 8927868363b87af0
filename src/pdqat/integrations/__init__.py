"""pdqat in training loops of others: a callback for Lightning, a mixin for the Trainer of Hugging Face.

Imported by name, `pdqat.integrations.lightning` or `pdqat.integrations.transformers`, each with the extra of that name.
"""
