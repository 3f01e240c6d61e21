"""Discovery with real distributions in a fresh interpreter."""

GRID = """
    from mintact_platform import hookimpl

    @hookimpl
    def register_judges():
        return {"acme/grid": "acme_judge:judge"}

    async def judge(task, trajectory, *, threshold: float = 0.5):
        ...
"""


def test_an_installed_plugin_is_a_row_and_its_name_resolves(site):
    site.install("acme-judge", GRID)
    row = site.rows()["acme-judge"]
    assert row["version"] == "1.0"
    assert row["provides"] == ["judges:acme/grid"]
    assert row["error"] is None
    assert "function judge" in site.ask("judges", "acme/grid")


def test_a_plugin_that_fails_to_import_is_a_row_and_the_others_work(site):
    site.install("acme-broken", "import no_such_module")
    site.install("acme-judge", GRID)
    rows = site.rows()
    assert rows["acme-broken"]["error"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert rows["acme-judge"]["error"] is None


def test_a_plugin_that_calls_exit_on_import_is_a_row(site):
    site.install("acme-rude", "raise SystemExit(3)")
    assert site.rows()["acme-rude"]["error"] == "SystemExit: 3"


def test_a_misspelt_hook_is_an_error_with_the_near_match(site):
    site.install("acme-judge", GRID.replace("register_judges", "register_judgse"))
    error = site.rows()["acme-judge"]["error"]
    assert "unknown hook 'register_judgse'" in error
    assert "did you mean 'register_judges'?" in error


def test_a_wrong_argument_name_in_a_hook_is_an_error(site):
    code = """
        from mintact_platform import hookimpl

        @hookimpl
        def step_finished(step, metrix):
            ...
    """
    site.install("acme-judge", code)
    assert "metrix" in str(site.rows()["acme-judge"]["error"])


def test_a_hook_under_another_name_is_found_by_its_specname(site):
    code = """
        from mintact_platform import hookimpl

        @hookimpl(specname="register_judges")
        def mine():
            return {"acme/grid": print}

        @hookimpl(optionalhook=True)
        def a_hook_of_a_later_core(thing):
            ...
    """
    site.install("acme-judge", code)
    row = site.rows()["acme-judge"]
    assert (row["error"], row["provides"]) == (None, ["judges:acme/grid"])


def test_a_registration_that_raises_is_a_row_error(site):
    site.install(
        "acme-judge", GRID.replace('return {"acme/grid"', 'raise KeyError("x")\n    _ = {""')
    )
    assert "register_judges: KeyError" in site.rows()["acme-judge"]["error"]


def test_a_plugin_for_another_core_is_refused_before_import(site):
    site.install("acme-old", "raise SystemExit", requires="mintact-platform<0.1")
    assert "needs mintact-platform<0.1" in site.rows()["acme-old"]["error"]


def test_a_requirement_of_an_extra_does_not_refuse_a_plugin(site):
    site.install("acme-judge", GRID, requires="mintact-platform[train]>=0.1; extra == 'all'")
    assert site.rows()["acme-judge"]["error"] is None


def test_two_plugins_with_one_entry_point_name_both_load(site):
    site.install("acme-judge", GRID)
    site.install("other-judge", GRID.replace("acme/grid", "other/grid"))
    rows = site.rows()
    assert rows["acme-judge"]["provides"] == ["judges:acme/grid"]
    assert rows["other-judge"]["provides"] == ["judges:other/grid"]


def test_one_name_of_two_plugins_is_an_error_only_when_asked_for(site):
    site.install("acme-judge", GRID)
    site.install("other-judge", GRID)
    assert all(row["error"] is None for row in site.rows().values())
    answer = site.ask("judges", "acme/grid")
    assert answer.startswith(
        "PluginConflict: judge 'acme/grid' comes from acme-judge and other-judge"
    )
    assert "function" in site.ask("judges", "acme/grid", MINTACT_DISABLE_PLUGINS="other-judge")


def test_block_and_allow_lists_name_distributions(site):
    site.install("acme-judge", GRID)
    site.install("other-judge", GRID.replace("acme/grid", "other/grid"))
    row = site.rows(MINTACT_DISABLE_PLUGINS="Acme_Judge, unknown")["acme-judge"]
    assert row["state"] == "left out by MINTACT_DISABLE_PLUGINS"
    assert not row["provides"]
    only = site.rows(MINTACT_PLUGINS="acme-judge")
    loaded = {name for name, row in only.items() if row["state"] == "loaded"}
    assert loaded == {"acme-judge", "mintact-platform"}


def test_a_name_in_a_list_that_is_not_installed_is_told_with_the_near_match(site):
    site.install("acme-judge", GRID)
    result = site.command("plugins", MINTACT_PLUGINS="acme-jugde")
    assert result.stderr.startswith(
        "mintact: MINTACT_PLUGINS names 'acme-jugde', which is not installed; "
        "did you mean 'acme-judge'?"
    )
    answer = site.ask("judges", "acme/grid", MINTACT_DISABLE_PLUGINS="acme-judge")
    assert "acme-judge is left out by MINTACT_DISABLE_PLUGINS" in answer


def test_strict_mode_raises_and_names_the_plugin(site):
    site.install("acme-broken", "import no_such_module")
    result = site.python(
        "from mintact_platform.cli.main import main; raise SystemExit(main(['plugins']))",
        MINTACT_STRICT_PLUGINS="1",
    )
    assert result.returncode == 2
    assert result.stderr.startswith("mintact: plugin acme-broken: failed to load: ModuleNotFound")
    assert result.stderr.count("\n") == 1


def test_a_missing_name_lists_near_matches_and_the_plugins_that_failed(site):
    site.install("acme-judge", GRID)
    site.install("acme-broken", "import no_such_module")
    answer = site.ask("judges", "acme/gird")
    assert "PluginNotFound: no judge named 'acme/gird'; did you mean 'acme/grid'?" in answer
    assert "acme-broken failed to load (ModuleNotFoundError" in answer


def test_a_target_that_cannot_be_imported_names_its_distribution(site):
    site.install("acme-judge", GRID.replace("acme_judge:judge", "acme_judge:jugde"))
    answer = site.ask("judges", "acme/grid")
    assert answer.startswith("PluginError: judge 'acme/grid' of acme-judge: cannot import")


def test_the_same_distribution_twice_on_the_path_is_one_row(site):
    site.install("acme-judge", GRID)
    result = site.python(
        """
        import sys
        sys.path.append(sys.path[1] + "/.")
        from mintact_platform.registry.names import Registry
        print(sum(row.distribution == "acme-judge" for row in Registry.discover().rows))
        """
    )
    assert result.stdout.strip() == "1", result.stderr


def test_plugin_verbs_run_under_their_own_name(site):
    code = """
        from mintact_platform import hookimpl

        @hookimpl
        def register_commands():
            return {"acme": "acme_verb:main"}

        def main(argv):
            print(argv)
            return 7
    """
    site.install("acme-verb", code)
    call = "from mintact_platform.cli.main import main; raise SystemExit(main({}))"
    result = site.python(call.format(["acme", "record", "--fast"]))
    assert (result.returncode, result.stdout.strip()) == (7, "['record', '--fast']"), result.stderr
    assert "acme" in site.python(call.format(["--help"])).stdout.split("verbs of plugins:")[1]
