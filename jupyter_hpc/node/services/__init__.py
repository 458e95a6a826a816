"""State and caches behind the verbs; nothing here knows about HTTP."""
