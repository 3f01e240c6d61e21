import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.simulation.assumptions import (
    changed,
    load,
    parse,
    rate_at,
    sweep,
)

WEB = {"trainer": {"seconds": 9}, "domains": {"web": {"seconds": 60}}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({**WEB, "stesp": 3}, "unknown key 'stesp'; did you mean 'steps'?"),
        ({**WEB, "domains": {"web": {"seconds": 6, "quotas": 3}}}, "did you mean 'quota'"),
        ({**WEB, "schedule": {"flowcontrol": "none"}}, "did you mean 'flow_control'"),
        ({"domains": {"web": {"seconds": 60}}}, "trainer.seconds is missing"),
        ({**WEB, "domains": {"web": {"seconds": 60, "quota": 0}}}, "no domain has a quota"),
        ({**WEB, "domains": {"web": {"seconds": 60, "informative": 1.5}}}, "between 0 and 1"),
        ({**WEB, "domains": {"web": {"seconds": 60, "informative": [[9, 1], [3, 1]]}}}, "growing"),
        ({**WEB, "pauses": [[5, 3]]}, "a window is"),
    ],
)
def test_a_mistake_in_the_assumptions_is_one_line(values, message):
    with pytest.raises(ConfigurationError, match=message.replace("?", r"\?")):
        parse(values)


def test_a_file_is_read_with_overrides(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("trainer.seconds = 9\n[domains.web]\nseconds = 60\n")
    assert load(path, ["domains.web.quota=4"]).quotas == {"web": 4}
    assert changed(load(path), ["schedule.mixture=adaptive"]).schedule.mixture.name == "adaptive"
    with pytest.raises(ConfigurationError, match="no such file of assumptions"):
        load(tmp_path / "none.toml")


def test_a_sweep_makes_every_combination():
    assert list(sweep([])) == [()]
    assert list(sweep(["a=1,2", "b=x,y"])) == [
        ("a=1", "b=x"), ("a=1", "b=y"), ("a=2", "b=x"), ("a=2", "b=y"),
    ]  # fmt: skip
    for wish in ("a", "=1", "a=1,,2"):
        with pytest.raises(ConfigurationError, match="cannot read"):
            list(sweep([wish]))


def test_a_rate_changes_evenly_between_its_points():
    curve = [(10, 0.2), (20, 0.6)]
    assert [rate_at(curve, step) for step in (0, 10, 15, 20, 99)] == pytest.approx(
        [0.2, 0.2, 0.4, 0.6, 0.6]
    )
    assert rate_at(0.5, 7) == 0.5
