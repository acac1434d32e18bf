"""Themes, their concepts, and the two words that each concept has.

The first word is the one that people ask for, the second the one that instruments and offices publish. No
word stands for two concepts, so whether two words mean the same is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_THEMES = """
sea: tsunami/seismic_wave wave/swell coast/shoreline harbour/port tide/tidal_level boat/vessel
  evacuation/clearance shelter/refuge siren/sounder buoy/float_gauge surge/run_up island/atoll
river: flood/inundation river/watercourse dam/barrage rain/precipitation level/stage bridge/crossing
  mud/sediment bank/levee pump/lifting_plant drain/culvert overflow/spill melt/thaw
earth: quake/earthquake shaking/ground_motion landslide/mass_movement volcano/eruptive_centre ash/tephra
  crack/fissure rubble/debris rescue/extrication sensor/accelerometer depth/hypocentre fault/rupture
  collapse/structural_failure
power: blackout/outage plant/generator cable/conductor voltage/potential load/demand wind/turbine_output
  sun/irradiance battery/storage_unit switch/breaker heat/thermal_load fuel/feedstock price/tariff
traffic: jam/congestion accident/collision road/carriageway car/vehicle lorry/heavy_goods bus/coach
  signal/traffic_light detour/diversion speed/velocity parking/bay_occupancy tunnel/underpass lane/strip
weather: storm/cyclone snow/snowfall frost/freezing fog/low_visibility lightning/electrical_discharge
  cloud/overcast hail/ice_pellets drought/water_deficit gust/peak_wind humidity/moisture
  warmth/air_temperature pressure/barometer
health: illness/disease fever/pyrexia doctor/physician hospital/clinic medicine/drug vaccine/immunisation
  wound/injury ambulance/emergency_transport infection/contagion breathing/respiration blood/haemoglobin
  heart/cardiac
market: share/equity bond/debenture loan/credit bank_rate/discount_rate dealer/broker_firm crash/sell_off
  profit/earnings currency/exchange_rate gold/bullion oil/crude tax/levy_duty debt/liability
fire: blaze/conflagration smoke/particulates forest/woodland firefighter/brigade hydrant/water_point
  spark/ignition burn/combustion gas/volatile alarm/detector escape/egress spread/fire_front ember/firebrand
rail: train/rolling_stock track/permanent_way station/halt delay/lateness driver/locomotive_crew
  ticket/fare points/turnout freight/cargo platform/boarding_edge brake/retarder timetable/schedule
  passenger/traveller
"""

_NEAR = """
rising falling near far early late heavy light sudden slow broken closed open warned measured
reported north south upper lower inner outer first second third main minor local foreign public
private old new wide narrow deep shallow loud silent hot cold wet dry dark bright clean dirty full
empty strong weak hard soft long short high low fast steady careful urgent expected unknown
confirmed repeated partial total daily weekly seasonal annual hourly manual automatic remote nearby
central border
"""

FILLERS = ("the", "and", "with", "from", "over", "after", "before", "about", "still", "again", "now", "there")
OWN_COMPANIONS = 4


class Concept(NamedTuple):
    """Something that is spoken of."""

    asked_for: str
    """The word that subscribers use."""
    published: str
    """The word that publishers use."""
    companions: tuple[str, ...]
    """Words that stand near it, whichever of its own is used; other concepts have other ones."""

    @property
    def words(self) -> tuple[str, str]:
        """Both words."""
        return self.asked_for, self.published


def _read(text: str, near: list[str]) -> dict[str, tuple[Concept, ...]]:
    themes: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for token in text.split():
        if token.endswith(":"):
            name = token[:-1]
        else:
            asked_for, _, published = token.partition("/")
            themes.setdefault(name, []).append((asked_for, published))
    found: dict[str, tuple[Concept, ...]] = {}
    rng = np.random.default_rng(1320)
    for theme, pairs in themes.items():
        concepts = []
        for asked_for, published in pairs:
            own = rng.permutation(len(near))[:OWN_COMPANIONS]
            concepts.append(Concept(asked_for, published, tuple(near[each] for each in own)))
        found[theme] = tuple(concepts)
    return found


THEMES = _read(_THEMES, _NEAR.split())
