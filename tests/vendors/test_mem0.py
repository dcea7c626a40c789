"""mem0, for real: on a Qdrant folder and on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.vendors.contract import OnPostgres, Played, VendorContract

pytestmark = pytest.mark.vendor


class TestOnQdrant(VendorContract):
    vendor, url = "mem0", "mem0://default"


class TestOnPostgres(OnPostgres):
    vendor, url = "mem0", "mem0+postgresql://"


class TestQuipuOverQdrant(Played):
    vendor, url = "mem0", "mem0://default"


class TestQuipuOverPostgres(Played):
    vendor, url = "mem0", "mem0+postgresql://"
