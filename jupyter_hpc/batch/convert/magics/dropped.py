"""Line magics that a script does without, each with the reason that the report gives."""

from __future__ import annotations

ONLY_SCREEN = "it only changes what a screen shows"
ONLY_HELP = "it shows help to a person"

#: Magics without any effect on what the notebook computes.
DROPPED = {
    **dict.fromkeys(
        ("pinfo", "pinfo2", "pdoc", "pdef", "psource", "pfile", "pycat", "quickref", "magic"),
        ONLY_HELP,
    ),
    **dict.fromkeys(("lsmagic", "page", "psearch"), ONLY_HELP),
    **dict.fromkeys(("colors", "xmode", "pprint", "doctest_mode", "gui", "tb"), ONLY_SCREEN),
    **dict.fromkeys(("tensorboard", "wandb", "watermark", "version_information"), ONLY_SCREEN),
    **dict.fromkeys(("autosave", "autocall", "automagic", "autoawait"), ONLY_SCREEN),
    **dict.fromkeys(("logstart", "logstop", "logon", "logoff", "logstate"), "the job has a log"),
    **dict.fromkeys(("autoreload", "aimport"), "modules do not change while a job runs"),
    **dict.fromkeys(("load_ext", "reload_ext", "unload_ext"), "extensions serve a notebook"),
    **dict.fromkeys(("pdb", "connect_info", "qtconsole"), "nobody is there to type"),
    **dict.fromkeys(("load", "loadpy", "rehashx", "alias", "unalias"), ONLY_SCREEN),
    **dict.fromkeys(("tensorflow_version", "killbgscripts", "dhist", "dirs"), ONLY_SCREEN),
    **dict.fromkeys(("nb_black", "blackcellmagic", "flake8_on", "pycodestyle_on"), ONLY_SCREEN),
    **dict.fromkeys(("flake8_off", "pycodestyle_off", "bookmark", "code_wrap"), ONLY_SCREEN),
}

#: Those of them that print something, whatever is done to what they print.
PRINTING = frozenset(
    {"lsmagic", "colors", "xmode", "pprint", "doctest_mode", "tensorboard", "wandb", "watermark"}
) | {"version_information", "autosave", "autocall", "automagic", "logstart", "logstate", "pdb"}
PRINTING |= {"load_ext", "reload_ext", "connect_info", "alias", "dhist", "dirs", "bookmark"}

#: Those that give a value, which only a notebook knows.
VALUED = frozenset({"lsmagic", "alias", "dirs"})
