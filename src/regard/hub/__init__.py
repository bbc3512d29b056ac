"""Files that hold models: checked weights, whole folders, and the tables that translate other families' names.

What is unusual: nothing here trusts a file. Every byte is checked before a library parses it, and no pickle is read.
What it does not know: what the tensors mean; that is `regard.model`.
"""
