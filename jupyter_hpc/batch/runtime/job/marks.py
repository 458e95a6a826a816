"""Names and codes by which the end of a run is known to whoever looks at its folder."""

from __future__ import annotations

#: Names the files that did not come back, beside those that did.
MISSING = "MISSING.txt"
#: The code of the sidecar when files did not come back, and of a job whose program ended well then.
INCOMPLETE = 74
