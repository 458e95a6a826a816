"""Names of the environment that never set a parameter."""

from __future__ import annotations

from collections.abc import Iterable

#: Variables that POSIX gives a meaning, and those of shells, launchers and batch systems.
_RESERVED = frozenset(
    """ARFLAGS CC CDPATH CFLAGS CHARSET COLUMNS CXX DATEMSK DEAD DISPLAY EDITOR ENV EXINIT FC
    FCEDIT FFLAGS GET GFLAGS HISTFILE HISTORY HISTSIZE HOME HOST HOSTNAME IFS LANG LDFLAGS LEX
    LFLAGS LINENO LINES LISTER LOGNAME LPDEST MAIL MAILCHECK MAILER MAILPATH MAILRC MAKEFLAGS
    MAKESHELL MANPATH MBOX MORE MSGVERB NLSPATH NPROC OLDPWD OPTARG OPTERR OPTIND PAGER PATH
    PPID PRINTER PROCLANG PROJECTDIR PS1 PS2 PS3 PS4 PWD RANDOM SECONDS SHELL SHLVL TERM
    TERMCAP TERMINFO TMP TMPDIR TEMP TZ UID EUID USER USERNAME VISUAL YACC YFLAGS
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GPU_DEVICE_ORDINAL
    MPLBACKEND VIRTUAL_ENV LOADEDMODULES ARCHIVE PROJECT SCRATCH STORE WORK
    """.split()  # noqa: SIM905 - a word list reads better than a hundred quotes
)
_RESERVED_STARTS = (
    *("LC_", "SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "CUDA_", "OMP_", "JUPYTER_", "CONDA_"),
    *("SSH_", "XDG_", "PMI_", "PMIX_", "OMPI_", "NCCL_", "LD_", "MODULE", "BASH_", "PYTHON"),
    *("ROCR_", "HIP_", "ZE_", "APPTAINER_", "SINGULARITY_", "WANDB_"),
    "PL_TRAINER_",
)


def reserved(name: str, environment: Iterable[str]) -> str:
    """Why a variable of that name is never taken from the environment; empty if it is."""
    if name in _RESERVED or name.startswith(_RESERVED_STARTS):
        return f"{name} has a meaning of its own in every environment"
    if name in environment:
        return f"{name} is already set where the job is submitted from"
    return ""


def other_cases(name: str, environment: Iterable[str]) -> list[str]:
    """The name in other cases that stand for something else, and so never set the parameter."""
    known = set(environment)
    spellings = {variable for variable in known if variable.lower() == name.lower()}
    spellings |= {name.upper(), name.lower()}
    return sorted(other for other in spellings - {name} if reserved(other, known))
