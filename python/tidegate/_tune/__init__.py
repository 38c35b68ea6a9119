"""Search for parameters: which protocol, with which parameters, on a user's own fabric.

`goals` parses objectives and constraints, `space` makes the searched ranges from the catalog,
`search` tries candidates with Optuna, `answer` measures the finalists on seeds that the search did
not use, and `page` draws the study.
"""
