"""Profiles as text: written, read back, and changed without losing what a person wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from jupyter_hpc import clusters
from jupyter_hpc.cli.clusters import clusters as command
from jupyter_hpc.clusters import user_file
from jupyter_hpc.clusters.draft import Facts, draft
from jupyter_hpc.clusters.json_schema import profile_schema
from jupyter_hpc.clusters.loading import describe, parse_toml
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.errors import ProfileError, UsageError
from jupyter_hpc.slurm.models import Association, GpuCount, Partition
from tests.clusters.test_builtin import BUILT_IN

Write = Callable[..., Path]
NAMES = sorted(file.stem for file in BUILT_IN.glob("*.toml"))


def invoke(*words: str) -> str:
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_can_be_copied(name: str) -> None:
    shown = invoke("show", name)
    values = check_profile(parse_toml(shown, "shown"), "shown")
    assert values == {key: value for key, value in describe(name).values.items() if value != {}}
    jsonschema.validate(parse_toml(shown, "shown"), profile_schema())


def test_show_says_where_each_value_comes_from(write: Write) -> None:
    path = write("fir", 'extends = "fir"\n[login]\nuser = "ada"\n')
    shown = invoke("show", "fir")
    assert f'user = "ada"  # {path}' in shown
    assert 'gpu_type = "h100"  # fir, built in' in shown
    assert 'time = "03:00:00"  # narval, built in' in shown
    assert "port = 20808  # fir, built in; unsure" in shown
    found = json.loads(invoke("show", "fir", "--json"))
    assert found["sources_of_values"]["login.user"] == str(path)
    assert found["login"]["user"] == "ada"


def test_a_file_is_checked_with_all_that_it_builds_on(write: Write, tmp_path: Path) -> None:
    good = tmp_path / "anywhere.toml"
    good.write_text('extends = "narval"\n[allocation]\naccount = "def-x"\n', encoding="utf-8")
    assert "fine. Narval (Alliance)" in invoke("check", str(good))
    for text, words in (
        ("[login]\nhots = 1\n", "there is no key login.hots"),
        ("", "has no login.host"),
        ('extends = "tamia"\n[allocation]\ngpus = 1\n', "takes no jobs with 1 h100 GPU"),
        ('extends = "narval"\n[presets.x]\ntime = "9-0:0:0"\n', "longer than Narval"),
        ("[login\n", "not valid TOML"),
    ):
        good.write_text(text, encoding="utf-8")
        result = CliRunner().invoke(command, ["check", str(good)])
        assert isinstance(result.exception, UsageError) and words in str(result.exception)
    gone = CliRunner().invoke(command, ["check", str(tmp_path / "gone.toml")])
    assert "There is no file" in str(gone.exception) and "gone.toml" in str(gone.exception)


def test_check_names_every_fault(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(
        'titel = "x"\n[login]\nhots = "a"\nport = "abc"\n[presets.a]\ngpus = -1\n'
        "[presets.b]\nbad = 1\n",
        encoding="utf-8",
    )
    found = str(CliRunner().invoke(command, ["check", str(bad)]).exception)
    assert "5 faults" in found
    for words in ("key titel", "key login.hots", "login.port is 'abc'", "presets.a.gpus", "b.bad"):
        assert words in found


def test_edit_makes_a_file_that_builds_on_the_profile(jupyter_home: Path) -> None:
    path = user_file.user_file("ulysses")
    output = invoke("edit", "ulysses")
    assert str(path) in output and "clusters check" in output
    began = '#:schema ../profile.schema.json\nextends = "ulysses"'
    assert path.read_text("utf-8").startswith(began)
    assert clusters.load("ulysses").login.host
    schema = json.loads((jupyter_home / "config/hpc/profile.schema.json").read_text("utf-8"))
    assert schema == profile_schema() == json.loads(invoke("schema"))
    path.write_text("# mine\n", encoding="utf-8")
    invoke("edit", "ulysses")
    assert path.read_text("utf-8") == "# mine\n", "nothing is overwritten"
    bad = CliRunner().invoke(command, ["edit", "../x"])
    assert "cannot be the name" in str(bad.exception)


def test_new_does_not_hide_a_profile_that_is_there() -> None:
    result = CliRunner().invoke(command, ["new", "narval.alliancecan.ca"])
    assert isinstance(result.exception, ProfileError)
    assert "jupyter-hpc connect narval" in result.exception.hint


def test_answers_go_into_the_table_that_is_there(write: Write) -> None:
    head = '# mine\nextends = "ulysses"\n[allocation]  # what I like\n'
    path = write("ulysses", head + 'gpus = 2\n\n[login]\nuser = "u"')
    path.chmod(0o640)
    user_file.remember(
        "ulysses", {"allocation.partition": "gpu2", "environment.setup": ["a 'b'", 'c "d"']}
    )
    assert path.read_text("utf-8") == (
        f'{head}partition = "gpu2"\ngpus = 2\n\n'
        '[login]\nuser = "u"\n\n[environment]\nsetup = ["a \'b\'", "c \\"d\\""]\n'
    )
    assert path.stat().st_mode & 0o777 == 0o640
    profile = clusters.load("ulysses")
    assert profile.allocation.partition == "gpu2" and profile.environment.setup[1] == 'c "d"'


def test_what_cannot_be_written_is_said_and_nothing_changes(write: Write) -> None:
    text = '[login]\nhost = "h"\n[allocation]\npartition = "a"\n'
    path = write("mine", text)
    with pytest.raises(ProfileError, match="could not be written") as caught:
        user_file.remember("mine", {"allocation.partition": "b"})
    assert caught.value.hint == 'Write there: [allocation] partition = "b"'
    assert path.read_text("utf-8") == text


def test_the_schema_knows_every_kind_and_finds_mistakes() -> None:
    schema = profile_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    shown = schema["properties"]["batch"]["properties"]["run_dir"]["description"]
    assert shown.endswith(" Needed by: trillium.")
    for wrong in (
        {"login": {"hots": "x"}},
        {"allocation": {"gpus": "two"}},
        {"allocation": {"time": "soon"}},
        {"presets": {"a": {"use": "both"}}},
        {"login": {"credential": ["magic"]}},
        {"confidence": {"login.host": "maybe"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def partition(name: str, *gpus: GpuCount, default: bool = False) -> Partition:
    return Partition(
        name, default, True, "UP", 43200, 600, None, 1, 4, 64, 16, 64000, gpus, gpus, "n[1-4]"
    )


def test_a_draft_of_everything_and_of_nothing_is_a_profile() -> None:
    mine = Association("lab", "ada", "", (), "", None, None, None, "", "", default=True)
    facts = Facts(
        host="login.example",
        release="24.11",
        partitions=[partition("cpu", default=True), partition("gpu", GpuCount("A40", 2))],
        accounts=[mine],
        modules="Lmod",
        variables={"SCRATCH": '/scratch/"ada"'},
        programs={"diskusage_report": "/bin/x", "saldo": "/bin/s"},
        environments=[("/home/ada/lab", ["source /home/ada/lab/bin/activate"])],
        transport="srun",
        internet="proxy",
        unknown=["QOS: no\x1b[2Jtold"],
    )
    text = draft(facts, {"host": "login.example"}, "head")
    values = check_profile(parse_toml(text, "draft"), "draft")
    assert values["allocation"]["partition"] == "gpu" and values["allocation"]["gpus"] == 1
    assert values["jupyter"]["transport"] == "srun" and values["environment"]["internet"] == "proxy"
    assert values["storage"]["scratch"]["path"] == "$SCRATCH"
    assert values["storage"]["home"]["quota_format"] == "diskusage_report"
    assert "# gpu: 12:00:00, 4 nodes, up to 2 A40 in a node" in text and "\x1b" not in text
    text = draft(Facts("h"), {"host": "h"})
    bare = check_profile(parse_toml(text, "draft"), "draft")
    for what in ("nodes reach the Internet", "nodes take SSH"):
        assert f"# Whether {what} needs a job: jupyter-hpc clusters new --job\n" in text
    assert bare["allocation"]["gpus"] == 0 and "partition_rule" not in bare["slurm"]


@pytest.mark.parametrize(
    ("select_type", "gpus", "flag", "said"),
    [
        ("cons_tres", True, "gpus-per-node", "guide says --gres"),
        ("cons_tres", False, "gpus-per-node", 'gpu_flag = "none"'),
        ("cons_res", True, "gres", "SelectType is cons_res"),
        ("linear", True, "gres", "SelectType is linear"),
        ("", True, "gpus-per-node", 'gpu_flag = "gres"'),
    ],
)
def test_a_draft_asks_for_gpus_as_this_slurm_takes_it(
    select_type: str, gpus: bool, flag: str, said: str
) -> None:
    has = [GpuCount("A40", 2)] if gpus else []
    facts = Facts("h", partitions=[partition("a", *has)], select_type=select_type)
    text = draft(facts, {"host": "h"})
    assert check_profile(parse_toml(text, "draft"), "draft")["slurm"]["gpu_flag"] == flag
    assert said in text
