from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.rules.frontier.regions import region_of, serving

REGIONS = {"eu": ["a.example", "*.de"], "us": ["b.example", "*.com"], "asia": ["*.jp"]}


def config(**fetch) -> Config:
    return Config.model_validate({"fetch": {"regions": REGIONS, **fetch}})


def test_a_domain_is_in_the_region_that_names_it_longest():
    cfg = Config.model_validate(
        {"fetch": {"regions": {"eu": ["*", "x.co.jp"], "asia": ["*.jp"]}}}
    ).fetch
    assert [region_of(d, cfg) for d in ("x.co.jp", "y.co.jp", "y.org")] == ["eu", "asia", "eu"]
    assert (
        region_of("z.org", config().fetch) == "eu" and region_of("z.org", Config().fetch) == ""
    )  # the first; none


def test_the_nearest_that_is_up_takes_its_place():
    assert serving("us", config().fetch) == "us"
    assert serving("us", config(regions_down=["us"]).fetch) == "eu"
    assert serving("us", config(regions_down=["us"], nearest={"us": ["asia"]}).fetch) == "asia"
    assert (
        serving("us", config(regions_down=["us", "asia"], nearest={"us": ["asia"]}).fetch) == "eu"
    )
    for wrong in (
        {"regions_down": ["mars"]},
        {"regions_down": ["eu", "us", "asia"]},
        {"nearest": {"eu": ["mars"]}},
        {"regions": {"a/b": []}},
    ):
        with pytest.raises(ValueError, match="fetch.regions"):
            config(**wrong)


def test_places_decide_where_no_name_does():
    regions = {"us": ["*", "b.example"], "eu": ["*.de", "continent:EU"], "ch": ["country:CH"]}
    cfg = Config.model_validate({"fetch": {"regions": regions}}).fetch
    swiss, french = ("country:CH", "continent:EU"), ("country:FR", "continent:EU")
    assert region_of("x.org", cfg, swiss) == "ch"
    assert region_of("x.org", cfg, french) == "eu"
    assert region_of("x.de", cfg, swiss) == "eu"  # a suffix comes before
    assert region_of("x.org", cfg, ("country:JP",)) == region_of("x.org", cfg) == "us"
