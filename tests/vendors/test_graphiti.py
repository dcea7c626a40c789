"""Graphiti, for real."""

from __future__ import annotations

import pytest

from quipu.testing.scenarios import LEAST
from tests.vendors.contract import Played, VendorContract

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.timeout(900)]


class TestGraphiti(VendorContract):
    vendor, url = "graphiti", "graphiti://quipu"


class TestQuipuOverGraphiti(Played):
    vendor, url = "graphiti", "graphiti://quipu"
    size = LEAST
