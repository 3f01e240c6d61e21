import pytest
from mintact_env_micro.browser import browser_path


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(items):
    if browser_path() is None:
        skip = pytest.mark.skip(reason="no Chromium: apt-get install chromium-headless-shell")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def act():
    """Apply a call to a state."""
    return lambda state, call: state.apply(call.name, call.arguments)
