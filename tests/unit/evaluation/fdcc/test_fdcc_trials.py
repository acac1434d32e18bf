"""ePEER's §5.3 in small: the workload, single trials, and that seconds without a change may be skipped."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from mangrove.evaluation.fdcc import trial, workload
from mangrove.evaluation.fdcc.keywords import Quality
from mangrove.evaluation.fdcc.registration import registered
from mangrove.evaluation.fdcc.runs import run_seed
from mangrove.evaluation.fdcc.sensitivity import FILE_LADDER, VARIANTS
from mangrove.evaluation.fdcc.setting import HALF, Setting
from mangrove.evaluation.fdcc.trial import run_control, run_trial
from mangrove.evaluation.fdcc.workload import DAMAGE_S, EDGES, RECOVERY_S, TOPICS, Ranges, draw_workload


def test_a_workload_has_what_the_thesis_prints() -> None:
    for seed in range(1, 11):
        drawn = draw_workload(seed)
        assert len(drawn.topics) == TOPICS == len(drawn.subscribers)
        assert ((drawn.matching_msg_s[1:] >= 20_000) & (drawn.matching_msg_s[1:] <= 30_000)).all()
        assert drawn.matching_msg_s[0] == 1_000_000
        assert drawn.bandwidth_bytes_s[0] == 125e6
        assert ((drawn.bandwidth_bytes_s[1:] >= 37.5e6) & (drawn.bandwidth_bytes_s[1:] <= 62.5e6)).all()
        assert ((drawn.damage >= 0.1) & (drawn.damage <= 0.4)).all()
        assert ((drawn.size_bytes >= 200) & (drawn.size_bytes <= 2000)).all()
        shares = [drawn.quality.count(each) / len(drawn.quality) for each in Quality]
        assert shares == pytest.approx([0.5, 0.25, 0.25], abs=0.005)


def test_classes_of_publishers_are_worth_what_they_are_called() -> None:
    drawn = draw_workload(1)
    utility, quality = drawn.publisher_utility, np.array([str(each) for each in drawn.quality])
    assert utility[quality == "bad"].max() == 0.0
    assert 0.15 < utility[quality == "medium"].mean() < 0.3
    assert 0.35 < utility[quality == "good"].mean() < 0.5
    assert utility.max() <= 1.0


def test_damage_lasts_from_301_to_900() -> None:
    drawn = draw_workload(2)
    whole, left = drawn.bandwidth_bytes_s, drawn.bandwidth_bytes_s * drawn.damage
    for second, expected in ((300, whole), (301, left), (899, left), (900, whole)):
        assert np.array_equal(drawn.bandwidth_at(second), expected)
    assert np.array_equal(drawn.bandwidth_at(500, damaged=False), whole)


def test_registration_keeps_a_topic_together_and_edges_even() -> None:
    drawn = draw_workload(3)
    served = registered(drawn, Setting().balancing)
    assert np.array_equal(served.sum(axis=1), drawn.subscribers)
    assert ((served > 0).sum(axis=1) == 1).all()
    said = np.bincount(drawn.topic_of, weights=drawn.rate_msg_s) * drawn.size_bytes
    used = served.T @ said / drawn.bandwidth_bytes_s[1:]
    assert used.shape == (len(EDGES),)
    assert used.max() < 0.6
    assert used.min() > 0.25


def test_control_serves_the_useful_and_ends_the_overload() -> None:
    for seed in (1, 2):
        found = run_seed(Setting(), seed)
        undamaged, uncontrolled, at_random, fdcc = (found.arms[arm] for arm in trial.ARMS)
        assert undamaged.largest < 0.9
        assert uncontrolled.largest == pytest.approx(1.0)
        assert fdcc.largest < Setting().balancing.high
        assert found.relief_s is not None
        assert found.relief_s <= 5
        assert found.clear_s is not None
        assert found.clear_s <= 15
        assert found.changes == 0, "limits rest while load does"
        assert fdcc.uo < uncontrolled.uo
        assert fdcc.ui < uncontrolled.ui
        assert fdcc.um < uncontrolled.um
        assert at_random.uo_edges == pytest.approx(fdcc.uo_edges), "the same volume"
        assert fdcc.utility_s > 1.2 * at_random.utility_s
        assert fdcc.utility_s > uncontrolled.utility_s
        assert fdcc.qoe > 1.1 * undamaged.qoe
        assert uncontrolled.qoe == pytest.approx(undamaged.qoe), "all are heard, if less often"
        assert fdcc.qoe_probes == pytest.approx(undamaged.qoe), "probes are heard too"
        assert fdcc.good_in_time > at_random.good_in_time
        assert found.longest_silence_s["fdcc"] <= 1.5, "who is stopped still probes"


def test_the_least_useful_are_stopped_or_reduced() -> None:
    drawn = draw_workload(4)
    served = registered(drawn, Setting().balancing)
    bad = np.array([each is Quality.BAD for each in drawn.quality])

    def before_recovery(setting: Setting) -> trial.Span:
        spans = run_control(drawn, served, setting).spans
        return [span for span in spans if span.begin_s < RECOVERY_S][-1]

    stopping = before_recovery(Setting())
    assert stopping.stopped[bad].mean() > 0.5
    good = np.array([each is Quality.GOOD for each in drawn.quality])
    assert stopping.stopped[good].mean() < 0.1
    reducing = before_recovery(Setting().limiting(ladder=FILE_LADDER))
    assert reducing.stopped.mean() < 0.05
    kept_of_bad = reducing.rates[bad].sum() / drawn.rate_msg_s[bad].sum()
    kept_of_good = reducing.rates[good].sum() / drawn.rate_msg_s[good].sum()
    assert kept_of_bad < 0.6 * kept_of_good


def test_nobody_is_limited_without_shortage() -> None:
    found = run_trial(draw_workload(5, Ranges(damage=HALF, load=(0.3, 0.32))), Setting())
    assert found.limited == 0
    assert asdict(found.arms["fdcc"]) == pytest.approx(asdict(found.arms["uncontrolled"]))


def test_skipped_seconds_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "RECOVERY_S", DAMAGE_S + 60)
    monkeypatch.setattr(workload, "RECOVERY_S", DAMAGE_S + 60)
    monkeypatch.setattr(trial, "END_S", DAMAGE_S + 110)
    setting = Setting().drawn(publishers=(1, 4))
    drawn = draw_workload(6, setting.ranges)
    skipping, looking = run_trial(drawn, setting), run_trial(drawn, setting, every_second=True)
    for arm in trial.ARMS:
        assert asdict(skipping.arms[arm]) == pytest.approx(asdict(looking.arms[arm]))
    assert (skipping.relief_s, skipping.clear_s, skipping.limited, skipping.changes) == (
        looking.relief_s,
        looking.clear_s,
        looking.limited,
        looking.changes,
    )


def test_every_variant_changes_one_thing() -> None:
    base, *others = VARIANTS.values()
    assert base == Setting()
    assert len({repr(one) for one in others} | {repr(base)}) == len(VARIANTS)
