"""The verbs of the server extension: three lines each, over the services."""
