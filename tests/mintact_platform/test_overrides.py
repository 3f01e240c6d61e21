import tomllib

import pytest

from mintact_platform.config import read
from mintact_platform.errors import ConfigurationError
from mintact_platform.overrides import read_override

RUN_FILE = """
name = "run"
[domains."micro.web"]
environment = "micro/web"
tasks = "micro/web:train"
judge = { name = "panel", params = { of = 3 } }
[domains.tools]
environment = "micro/tools"
tasks = "micro/tools:train"
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(RUN_FILE)
    return file


@pytest.mark.parametrize("key", ['domains."micro.web".quota', "domains.'micro.web'.quota"])
def test_quotes_reach_a_domain_whose_name_has_a_dot(path, key):
    domains = read(path, [f"{key}=2"])["domains"]
    assert domains["micro.web"]["quota"] == 2
    assert set(domains) == {"micro.web", "tools"}


def test_a_plugin_of_a_domain_with_a_dot_is_exchanged_whole(path):
    words = ['domains."micro.web".judge.params.model=m', 'domains."micro.web".judge.name=vlm']
    judge = read(path, words)["domains"]["micro.web"]["judge"]
    assert judge == {"name": "vlm", "params": {"model": "m"}}


def test_a_name_with_a_dot_and_without_quotes_is_refused_with_them(path):
    with pytest.raises(ConfigurationError) as caught:
        read(path, ["domains.micro.web.quota=2"])
    assert str(caught.value) == (
        "domains.micro.web.quota=2: no domain 'micro'; "
        "a name with a dot takes quotes: 'domains.\"micro.web\".quota=2'"
    )


def test_what_is_said_to_write_can_be_written(path):
    with pytest.raises(ConfigurationError) as caught:
        read(path, ["domains.micro.web.judge.params.of=a=b"])
    advised = caught.value.next.partition(": ")[2].strip("'")
    assert read(path, [advised])["domains"]["micro.web"]["judge"]["params"] == {"of": "a=b"}


@pytest.mark.parametrize("word", ['domains."micro.wbe".quota=2', "domains.micro.wbe.quota=2"])
def test_a_dotted_name_that_there_is_not_is_refused_with_the_near_one(path, word):
    with pytest.raises(ConfigurationError, match=r"no domain 'micro.*did you mean 'micro\.web'"):
        read(path, [word])


@pytest.mark.parametrize("text", [
    "trainer.lr", "=1", "trainer.=1", ".lr=1", " .lr=1", 'domains."micro.web.quota=2',
    'domains."micro"web.quota=2', 'domains."\\q".quota=2',
])  # fmt: skip
def test_what_is_no_key_and_value_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"cannot read .*; write key=value"):
        read_override(text)


@pytest.mark.parametrize("key", [
    "a", "a.b", ' a . "b.c" ', "a.'b \"c'", 'a."b\\"=\\u00e9".c',
])  # fmt: skip
def test_a_key_is_read_as_toml_reads_it(key):
    theirs, ours = tomllib.loads(f"{key} = 1"), read_override(f"{key}=1")
    for part in ours.path:
        theirs = theirs[part]
    assert theirs == ours.value == 1


def test_names_that_toml_would_quote_need_none_where_they_have_no_dot():
    assert read_override("domains.my shop+1.quota=2").path == ("domains", "my shop+1", "quota")


@pytest.mark.parametrize("bare", ["domains.tools.judge=vlm", "domains.tools.judge.name=vlm"])
def test_a_judge_chosen_by_its_bare_name_takes_details_whichever_comes_first(path, bare):
    details = ["domains.tools.judge.params.model=m", "domains.tools.judge.retries=3"]
    for words in ([bare, *details], [*details, bare]):
        judge = read(path, words)["domains"]["tools"]["judge"]
        assert judge == {"name": "vlm", "params": {"model": "m"}, "retries": 3}


def test_a_bare_name_in_the_file_takes_details(tmp_path):
    file = tmp_path / "bare.toml"
    file.write_text('[domains.web]\njudge = "vlm"\n[schedule]\nmixture = "adaptive"\n')
    values = read(file, ["domains.web.judge.retries=3", "schedule.mixture.params.floor=1"])
    assert values["domains"]["web"]["judge"] == {"name": "vlm", "retries": 3}
    assert values["schedule"]["mixture"] == {"name": "adaptive", "params": {"floor": 1}}


@pytest.mark.parametrize("text", ["1\nseed=2", '"a"\nb = 3\n[c]'])
def test_a_value_of_several_lines_is_one_string(path, text):
    assert read(path, [f"name={text}"])["name"] == text
