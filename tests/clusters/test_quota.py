"""What quota programs print."""

from __future__ import annotations

import pytest

from jupyter_hpc.clusters.quota import (
    Mount,
    Quota,
    mount_of,
    read_diskusage_report,
    read_lfs_quota,
    read_mounts,
    read_quota,
)

KIB = 1024

#: The shapes follow the manual pages of lfs-quota(1) and quota(1).
LFS = "       /scratch  1048576       0 2097152       -    1234       0 1000000       -\n"
LFS_FOLDED = """/lustre/a-very-long-file-system-name
                1048576*      0 1000000       6d23h    1234       0       0       -
"""
QUOTA = """Disk quotas for user alice (uid 1001):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
server:/export/home  204800  512000  614400             300       0       0
/dev/sda1  614401* 512000  614400   6days     10     100     200
"""


def test_lfs_quota() -> None:
    assert read_lfs_quota(LFS) == Quota(1048576 * KIB, 2097152 * KIB, 1234, 1000000)


def test_lfs_quota_folded_and_over_the_limit() -> None:
    assert read_lfs_quota(LFS_FOLDED) == Quota(1048576 * KIB, 1000000 * KIB, 1234, None)


def test_quota_by_device() -> None:
    found = read_quota(QUOTA)
    assert found["server:/export/home"] == Quota(204800 * KIB, 512000 * KIB, 300, None)
    assert found["/dev/sda1"] == Quota(614401 * KIB, 512000 * KIB, 10, 100)


def test_raw_grace_times_are_not_taken_for_files() -> None:
    text = "/dev/sda1 100 200 300 0 7 8 9 0\n"
    assert read_quota(text) == {"/dev/sda1": Quota(100 * KIB, 200 * KIB, 7, 8)}


@pytest.mark.parametrize("text", ["", "none\n", "Permission denied.\n", "a b c\n"])
def test_other_texts_are_no_quota(text: str) -> None:
    assert read_lfs_quota(text) is None
    assert read_quota(text) == {}


def test_mounts_and_the_one_that_counts() -> None:
    mounts = read_mounts(
        "rootfs / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n"
        "old /home/my\\040files tmpfs rw 0 0\nnew /home/my\\040files lustre rw 0 0\n"
    )
    assert mount_of("/home/alice", mounts) == Mount("server:/home", "/home", "nfs4")
    assert mount_of("/home/my files/x", mounts) == Mount("new", "/home/my files", "lustre")
    assert mount_of("/homework", mounts) == Mount("rootfs", "/", "ext4")
    assert mount_of("/x", []) is None


#: No recording of ours: the shape follows the Alliance's documentation of its program.
REPORT = """
                             Description                Space         # of files
                       /home (user ada)         280 kB/47 GB            25/500k
                    /scratch (user ada)       4096 B/18.5 TB           1/1000k
              /project (group def-prof)       900 GB/971 GB          7k/500k
              /project (group rrg-prof)        10 GB/971 GB          2/500k
"""


def test_the_alliance_s_report_of_several_areas() -> None:
    assert read_diskusage_report(REPORT, "/home/ada") == Quota(280_000, 47 * 10**9, 25, 500_000)
    scratch = Quota(4096, 18_500 * 10**9, 1, 1_000_000)
    assert read_diskusage_report(REPORT, "/scratch/ada") == scratch
    assert read_diskusage_report(REPORT, "/home/ada/links/scratch") == scratch
    fullest = read_diskusage_report(REPORT, "/project")
    assert fullest == Quota(900 * 10**9, 971 * 10**9, 7000, 500_000)
    assert read_diskusage_report(REPORT, "/elsewhere") is None
    assert read_diskusage_report("command not found", "/home/ada") is None


#: Likewise; the shapes follow what users of Narval, Rorqual, tamIA and others have published.
GIB = """
                            Description                Space         # of files
                       /home (user ada)        20GiB/  25GiB         208K/ 250K
                    /scratch (user ada)        0  B/1024GiB           7 /2000K
--
On some clusters, a break down per user may be available by adding an option.
"""
NO_BYTES = """
                 Description                Space           # of files
         /home (project ada)            2461M/50G             54k/500k
      /project (project ada)              0/2048k               0/1025
 /project (project def-prof)           971G/1000G             7k/1005k
"""


def test_the_report_in_the_spellings_of_the_clusters() -> None:
    gib = 1024**3
    home = Quota(20 * gib, 25 * gib, 208_000, 250_000)
    assert read_diskusage_report(GIB, "/home/ada") == home
    assert read_diskusage_report(GIB, "/scratch/ada") == Quota(0, 1024 * gib, 7, 2_000_000)
    small = Quota(2461 * 1024**2, 50 * gib, 54_000, 500_000)
    assert read_diskusage_report(NO_BYTES, "/home/ada") == small
    group = Quota(971 * gib, 1000 * gib, 7_000, 1_005_000)
    assert read_diskusage_report(NO_BYTES, "/project") == group
