"""`mangrove evaluate fdcc --semantic FILE`: keyword against semantic utility when words differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.measurement.options import plain, report, told
from mangrove.cli.output import stdout_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.cli.measurement.trials.place import Place
    from mangrove.evaluation.fdcc.setting import Setting
    from mangrove.evaluation.fdcc.wording_study import WordingResult


def run_wording(base: Setting, vectors: Path, seeds: Sequence[int], place: Place, *, as_json: bool) -> None:
    """Every comparison of words on the same experiments."""
    from mangrove.evaluation.fdcc.runs import fdcc_trials
    from mangrove.evaluation.fdcc.wording_study import MEANING, summarise_wording, wording_settings
    from mangrove.lake.vector_file import read_vectors

    trials = fdcc_trials(wording_settings(base, read_vectors(vectors)))
    names = list(trials.settings)
    found = place.collect(trials, trials.tasks(seeds, names))
    # An experiment counts if it was played under every setting.
    complete = set.intersection(*(set(found.seeds(name)) for name in names))
    played = {
        name: [one for seed, one in zip(found.seeds(name), found.of(name), strict=True) if seed in complete]
        for name in names
    }
    kept = tuple(seed for seed in found.seeds(MEANING) if seed in complete)
    result = summarise_wording(kept, played)
    report(
        "fdcc", plain(result), result.missed(), lambda: _show(result), as_json=as_json, failed=found.failed
    )


def _show(result: WordingResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "What subscribers get under control, by how they compare words with what they ask for",
        number_column("other words"),
        name_column("compared by"),
        number_column("QoE"),
        number_column("worth/s"),
        number_column("of meaning"),
        number_column("95 %"),
        number_column("good in time"),
        number_column("by random", USEFUL),
        number_column("unheard", USEFUL),
    )
    for one in result.compared:
        low, high = one.of_meaning.mean_95
        table.add(
            f"{one.other_words:.0%}",
            one.comparison.value,
            f"{one.qoe.mean:.4f}",
            f"{one.utility_s.mean:,.0f}",
            f"{one.of_meaning.mean:.1%}",
            f"{low:.1%}–{high:.1%}",
            f"{one.good_in_time:.1%}",
            f"{one.of_random.mean:.2f}",
            f"{one.unheard:.1%}",
        )
    console = stdout_console()
    table.show(console)
    for share, test in result.tests.items():
        console.print(
            f"{share} other words: semantic utility delivers more than keywords in {test.wins} of "
            f"{len(result.seeds)} experiments, p = {test.p:.1e}"
        )
    console.print(
        f"{told(result.seeds)}; what messages are worth goes by their meaning, whatever words they use"
    )
