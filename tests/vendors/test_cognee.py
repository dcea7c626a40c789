"""Cognee, for real."""

from __future__ import annotations

import pytest

from quipu.testing.scenarios import LEAST
from tests.vendors.contract import Played, VendorContract

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.timeout(900)]


class TestCognee(VendorContract):
    vendor, url = "cognee", "cognee://quipu"


class TestQuipuOverCognee(Played):
    vendor, url = "cognee", "cognee://quipu"
    size = LEAST
