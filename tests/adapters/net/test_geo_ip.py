"""Where an address is: by a file that MaxMind's own reader reads."""

from __future__ import annotations

import pickle

import pytest
from crawlkit.adapters.net.geo_ip import open_geo_ip
from crawlkit.config import Config, ConfigError, Fetch

from tests.mmdb import make_mmdb

pytest.importorskip("maxminddb")
GERMAN = {"country": {"iso_code": "DE"}, "continent": {"code": "EU"}}


def config(path) -> Fetch:
    return Config.model_validate({"fetch": {"geoip": str(path)}}).fetch


def test_an_address_is_in_its_country_and_continent(tmp_path):
    file = tmp_path / "places.mmdb"
    odd = {"country": "no map", "continent": {"code": {"no": "text"}}}
    file.write_bytes(make_mmdb({"127.90.0.0/24": GERMAN, "127.90.1.0/24": odd}))
    places_of = open_geo_ip(config(file))
    assert places_of is not None
    assert places_of("127.90.0.7") == ("country:DE", "continent:EU")
    for address in ("127.90.2.1", "2001:db8::1", "no address", "127.90.1.9"):
        assert places_of(address) == (), address
    assert pickle.loads(pickle.dumps(places_of))("127.90.0.8")[0] == "country:DE"


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.mmdb").write_bytes(b"no database" * 100)
    for name in ("x.mmdb", "gone.mmdb"):
        with pytest.raises(ConfigError, match=f"fetch.geoip .*{name}"):
            open_geo_ip(config(tmp_path / name))
    assert open_geo_ip(Fetch()) is None
