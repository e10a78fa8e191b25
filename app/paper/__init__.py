"""The arithmetic of "Attention Is All You Need" in NumPy, one module a section of the paper.

Every function works in float64 and returns the intermediates it passed through, by the paper's
names. Masks are boolean and mean the same everywhere: **True = may attend**. Nothing here knows of
the web.
"""
