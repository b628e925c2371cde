"""The Hugging Face hub: publishing a bundle with a model card.

Loading is in `weft.bundle.from_hub`: every function and command that takes a bundle also takes `user/name`.
Nothing is imported here: `weft.push` and `weft push` are the ways in.
"""
