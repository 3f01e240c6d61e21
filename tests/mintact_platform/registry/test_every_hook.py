"""One installed third-party plugin that implements every hook there is."""

from __future__ import annotations

REGISTRATIONS = (
    "register_environments",
    "register_action_spaces",
    "register_judges",
    "register_objectives",
    "register_advantages",
    "register_corrections",
    "register_normalisers",
    "register_presets",
    "register_mixtures",
    "register_flow_controls",
    "register_rollout_engines",
    "register_trainers",
    "register_task_sets",
    "register_demonstrations",
    "register_chat_formats",
    "register_commands",
)
EVERYTHING = "from mintact_platform import hookimpl\n" + "".join(
    f"""
@hookimpl
def {hook}():
    return {{"acme/{hook}": lambda: {hook!r}}}
"""
    for hook in REGISTRATIONS
)
OBSERVERS = """
from mintact_platform import hookimpl

seen = []


@hookimpl(specname="configure")
def configured(config):
    seen.append("configure")


@hookimpl
def trajectory_finished(trajectory):
    seen.append("trajectory_finished")


@hookimpl
def group_finished(group, admitted):
    seen.append(f"group_finished {group} {admitted}")


@hookimpl
def step_finished(step):
    seen.append(f"step_finished {step}")


@hookimpl
def weights_synced(version):
    seen.append(f"weights_synced {version}")


@hookimpl
def environment_failed(lease):
    raise RuntimeError("an observer that breaks")
"""


def test_what_a_plugin_registers_is_found_under_every_kind(site):
    site.install("acme-all", EVERYTHING)
    provides = site.rows()["acme-all"]["provides"]
    assert {item.split(":")[0] for item in provides} == {
        hook.removeprefix("register_") for hook in REGISTRATIONS
    }
    result = site.python(
        f"""
        from mintact_platform.registry.names import Registry
        registry = Registry.discover()
        for hook in {REGISTRATIONS!r}:
            assert registry.get(hook.removeprefix("register_"), f"acme/{{hook}}")() == hook
        """
    )
    assert result.returncode == 0, result.stderr


def test_observers_are_told_what_happened_and_three_errors_silence_one(site):
    site.install("acme-watch", OBSERVERS.replace('@hookimpl(specname="configure")\ndef configured',
                                                 "@hookimpl\ndef configure"))  # fmt: skip
    result = site.python(
        """
        import acme_watch
        from mintact_platform.registry.names import Registry
        from mintact_platform.scheduler.observe import Observers

        registry = Registry.discover()
        registry.manager.hook.configure.call_historic(kwargs={"config": None})
        observers = Observers(registry)
        observers.notify("trajectory_finished", trajectory=None)
        observers.notify("group_finished", group="g", domain="web", admitted=True)
        observers.notify("step_finished", step=3, metrics={})
        observers.notify("weights_synced", version=2)
        for _ in range(3):
            observers.notify("environment_failed", lease="l", failure=None)
        observers.notify("step_finished", step=4, metrics={})
        observers.close()
        print(acme_watch.seen)
        print(next(row.error for row in registry.rows if row.distribution == "acme-watch"))
        """
    )
    assert result.returncode == 0, result.stderr
    seen, error = result.stdout.splitlines()
    assert seen == str(
        [
            "configure",
            "trajectory_finished",
            "group_finished g True",
            "step_finished 3",
            "weights_synced 2",
        ]
    )
    assert error == "observer: RuntimeError: an observer that breaks"


def test_a_plugin_decides_before_the_core_whether_a_group_is_admitted(site):
    code = """
        from mintact_platform import hookimpl

        @hookimpl
        def admit_group(domain, rewards):
            return True if domain == "web" else None
    """
    site.install("acme-admit", code)
    result = site.python(
        """
        from mintact_platform.registry.names import Registry
        hook = Registry.discover().manager.hook
        print(hook.admit_group(domain="web", rewards=(1.0, 1.0)))
        print(hook.admit_group(domain="mobile", rewards=(1.0, 1.0)))
        print(hook.admit_group(domain="mobile", rewards=(1.0, 0.0)))
        """
    )
    assert result.stdout.split() == ["True", "False", "True"], result.stderr
