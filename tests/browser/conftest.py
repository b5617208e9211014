from collections.abc import Iterator

import pytest

from browser.chromium import Browser, chromium
from browser.reports import Document, fifty_layers


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def fifty() -> Document:
    return fifty_layers()
