"""HTTP: routes, fragments, embeds, the API, downloads, errors and security headers. No arithmetic.

A module a kind of answer; `app.main` puts them together.
"""
