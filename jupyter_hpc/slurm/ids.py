"""Job ids as words of a command: only what is one may become an argument."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jupyter_hpc.errors import UsageError
from jupyter_hpc.text import printable

#: "123", an array task "35_3", tasks "35_[2-4,9]", a het component "12+1"
_ID = re.compile(r"0*[1-9][0-9]{0,17}(?:_(?:[0-9]{1,18}|\[[0-9,-]{1,4000}\]))?(?:\+[0-9]{1,9})?")


def job_ids(ids: Sequence[str]) -> list[str]:
    """The ids, unchanged; UsageError for anything else.

    Ids come from command lines and from a browser, and one such as "--user=x" would
    be an option of scancel. No job has the number 0, which `scontrol show job` takes for all.
    """
    for job_id in ids:
        if not _ID.fullmatch(job_id):
            raise UsageError(
                f"{printable(job_id, 80)!r} is not a job id.",
                "Write a number such as 123, or 123_4 for one task of an array.",
            )
    return list(ids)
