"""Makes profiles of streams beside the event loop, from batches that were read or from a look into the source."""

from __future__ import annotations

import logging

from node.core.effects import MeasureStream
from node.core.events import StreamMeasured
from node.core.planning.declared_profile import with_declared
from node.core.planning.profile import profile_of, sample_of
from node.io.sources.source import Source
from planner.model.errors import NarrowsError

log = logging.getLogger(__name__)


def measure(effect: MeasureStream, source: Source, tau_ms: int) -> StreamMeasured:
    """Answer the effect. Blocking: some tenths of a second for a large sample."""
    try:
        sample = sample_of(effect.batches) if effect.batches else source.peek()
        profile = profile_of(effect.query, effect.alias, tau_ms, sample, effect.span_us)
        passed = profile.rows / max(1, sample.rows.num_rows)
        profile = with_declared(profile, source.declared, passed, 1000 * tau_ms)
    except NarrowsError as error:
        return StreamMeasured(effect.request_id, effect.alias, None, f"it cannot be measured: {error}")
    except Exception as error:  # whatever it is, the query can be planned without
        log.exception("stream %s cannot be measured", effect.alias)
        return StreamMeasured(effect.request_id, effect.alias, None, f"it cannot be measured: {error!r}")
    return StreamMeasured(effect.request_id, effect.alias, profile)
