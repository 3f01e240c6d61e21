"""The memory of plugins over which processes died, shared by all processes of a user."""

from concurrent.futures import ThreadPoolExecutor

from mintact_platform.registry.suspects import Trail


def test_a_trail_that_a_death_left_is_a_suspect_until_it_is_forgiven(tmp_path):
    (tmp_path / "left").write_bytes(b"acme".ljust(255, b"\0"))
    with Trail(tmp_path) as trail:
        assert trail.is_suspect("acme")
        assert not trail.is_suspect("other")
        trail.forgive("acme")
    with Trail(tmp_path) as trail:
        assert not trail.is_suspect("acme")


def test_what_lives_is_no_suspect_and_leaves_nothing(tmp_path):
    with Trail(tmp_path) as first:
        first.enter("acme")
        with Trail(tmp_path) as second:
            assert not second.is_suspect("acme")
    assert list(tmp_path.iterdir()) == []


def test_processes_that_come_and_go_do_not_make_each_other_forget(tmp_path):
    (tmp_path / "left").write_bytes(b"acme".ljust(255, b"\0"))

    def come_and_go(_):
        with Trail(tmp_path) as trail:
            trail.enter("other")
            with Trail(tmp_path) as beside:
                return (
                    trail.is_suspect("acme"),
                    beside.is_suspect("acme"),
                    beside.is_suspect("other"),
                )

    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(come_and_go, range(600)))
    assert seen == {(True, True, False)}
    assert [path.name for path in tmp_path.iterdir()] == ["left"]
