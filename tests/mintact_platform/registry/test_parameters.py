"""Parameters of a target are its keyword-only arguments."""

import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.parameters import bind, check


async def judge(task, trajectory, *, threshold: float = 0.5, names: tuple[str, ...] = ()): ...


class Engine:
    def __init__(self, *, port: int) -> None:
        self.port = port


def test_defaults_are_filled_in_and_types_converted():
    assert check(judge, {"names": ["a"]}, where="judge") == {"threshold": 0.5, "names": ("a",)}


def test_a_class_binds_and_is_called_for_an_instance():
    assert bind(Engine, {"port": "8000"}, where="engine")().port == 8000


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"treshold": 1}, "judge 'x': unknown parameter 'treshold'; did you mean 'threshold'?"),
        ({"threshold": "high"}, "judge 'x': parameter 'threshold': .*got 'high'"),
    ],
)
def test_a_wrong_name_or_type_is_one_line_that_names_the_plugin(params, message):
    with pytest.raises(ConfigurationError, match=message.replace("?", r"\?")) as caught:
        check(judge, params, where="judge 'x'")
    assert "\n" not in str(caught.value)


def test_a_missing_parameter_is_said():
    with pytest.raises(ConfigurationError, match="parameter 'port': field required"):
        bind(Engine, {}, where="engine 'e'")
