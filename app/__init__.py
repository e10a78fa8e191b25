"""Explorable Attention: "Attention Is All You Need" as pages whose every number can be changed.

A chapter's URL is its whole state; the URL is parsed into parameters, a pure function turns
parameters into every number of the calculation, and a template turns the numbers into HTML.
"""

__version__ = "0.1.0"
