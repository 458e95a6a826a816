"""Names, codes and owners by which a run is known to whoever looks at its folder."""

from __future__ import annotations

#: Names the files that did not come back, beside those that did.
MISSING = "MISSING.txt"
#: The code of the sidecar when files did not come back, and of a job whose program ended well then.
INCOMPLETE = 74
#: The owners that some file servers show for files of everybody.
NOBODY = (65534, 4294967294)
#: Holds what the job found installed; in its output, but no result.
ENVIRONMENT = ".environment.json"
