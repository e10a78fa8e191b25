"""Text in, text out: tokens, the Translator and what serves it."""
