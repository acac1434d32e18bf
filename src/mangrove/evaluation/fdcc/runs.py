"""Every arm on every experiment, wherever it is played: the result is the same."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import Trial, run_trial
from mangrove.evaluation.fdcc.workload import draw_workload
from mangrove.evaluation.trials.experiment import Experiment


def run_seed(setting: Setting, seed: int) -> Trial:
    """One workload and every arm on it."""
    return run_trial(draw_workload(seed, setting.ranges), setting)


def fdcc_trials(settings: Mapping[str, Setting]) -> Experiment[Setting, Trial]:
    """The experiment as trials."""
    return Experiment("fdcc", run_seed, settings, Trial)
