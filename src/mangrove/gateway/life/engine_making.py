"""Makes the engine of one life; one whose stimuli are recorded, if that is asked for."""

from __future__ import annotations

from pathlib import Path

from mangrove.gateway.stimuli_file import SegmentHead, StimuliFile
from mangrove.gateway.versions import kept_versions
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.stimuli.recorded_engine import RecordedEngine
from mangrove.overlay.trust.trust import KeyTrust
from mangrove.routing.failover.gateway_tables import GatewayTables


def make_engine(
    settings: GatewaySettings,
    epoch: int,
    *,
    tables: GatewayTables | None,
    events_before: int,
    standing_by: bool,
    trust: KeyTrust | None,
) -> tuple[OverlayEngine, StimuliFile | None]:
    """The engine, and the file of its stimuli. `tables` are those of the federation file, if made."""
    federation, domain = settings.federation, settings.domain
    pair = settings.pair
    process = "" if pair is None or pair.number == 1 else pair.process
    kept = kept_versions(settings.versions_path, federation, domain)
    if kept.committed is not None and kept.committed.read().network is not None:
        tables = None  # those of the file are of other domains and links
    if not settings.stimuli_path:
        plain = OverlayEngine(
            federation,
            domain,
            epoch,
            tables=tables,
            events_before=events_before,
            process=process,
            standing_by=standing_by,
            trust=trust,
            kept=kept,
        )
        return plain, None
    head = SegmentHead(
        federation=federation,
        domain=domain,
        epoch=epoch,
        events_before=events_before,
        process=process,
        standing_by=standing_by,
        secured=trust is not None,
        kept=kept,
    )
    stimuli = StimuliFile(Path(settings.stimuli_path), head)
    engine = RecordedEngine(
        federation,
        domain,
        epoch,
        stimuli.record,
        tables=tables,
        events_before=events_before,
        process=process,
        standing_by=standing_by,
        trust=trust,
        kept=kept,
    )
    stimuli.follow(engine)
    return engine, stimuli
