"""Numbers people compare, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.show.switches import switch_notes, switch_state
from node.core.streams.ticks import TICK_END, TICK_MIN
from node.rpc import control_pb2 as pb

#: Columns of names, which are never broken on a small terminal: everything else can be.
_NAMES = ("site", "stream", "from", "to", "id", "home")


def table(title: str, *columns: str) -> Table:
    """A plain table; columns whose name starts with '>' are right-aligned."""
    out = Table(title=title, title_justify="left", header_style="bold")
    for column in columns:
        right = column.startswith(">")
        out.add_column(
            column.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=column in _NAMES,
            overflow="fold",  # what does not fit goes on in the next line
        )
    return out


def show_status(console: Console, tau_ms: int, statuses: Mapping[str, pb.StatusReply | str]) -> None:
    """Sites, streams, links, windows, copies and probes; a site that does not answer is shown with the reason."""
    _sites(console, statuses)
    answering = {site: status for site, status in statuses.items() if isinstance(status, pb.StatusReply)}
    _sparks(console, answering)
    _streams(console, tau_ms, answering)
    _links(console, answering)
    _windows(console, tau_ms, answering)
    _copies(console, tau_ms, answering)
    _probes(console, answering)
    _running(console, answering)


def show_words(console: Console, title: str, lines: Sequence[str]) -> None:
    """Lines under a title, as they are: other people's words in them are no markup."""
    console.print(f"[italic]{title}[/italic]")
    for line in lines:
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    console.print()


def _running(console: Console, statuses: Mapping[str, pb.StatusReply]) -> None:
    """Queries that run, at their homes, with their plans in brief: narrows explain ID says more."""
    rows = [(site, query) for site, status in statuses.items() for query in status.queries]
    if not rows:
        return
    out = table("Queries", "query", "home", "state", ">rows", "readers", "plan")
    for site, query in rows:
        readers = "\n".join(reader_text(reader, query.rows) for reader in query.readers)
        out.add_row(
            query.query_id,
            site,
            escape(switch_state(query)),
            f"{query.rows:,}",
            escape(readers),
            query.plan_brief,
        )
    console.print(out)


def _sites(console: Console, statuses: Mapping[str, pb.StatusReply | str]) -> None:
    out = table("Sites", "site", "state", "engine", ">up", ">busy", ">memory peak")
    for site, status in statuses.items():
        if isinstance(status, str):
            reason = escape(status.removeprefix(f"site {site} "))
            out.add_row(site, f"[red]{reason}[/red]", "", "", "", "")
        else:
            busy = status.engine_seconds + status.core_seconds
            up = str(timedelta(seconds=round(status.uptime_seconds)))
            out.add_row(site, "running", status.engine.name, up, f"{busy:.1f} s", size_text(status.rss_bytes))
    console.print(out)


def _sparks(console: Console, statuses: Mapping[str, pb.StatusReply]) -> None:
    """How the sites' Sparks do; busy and memory above are those of the daemons, not of these."""
    rows = [(site, status.engine) for site, status in statuses.items() if status.engine.version]
    if not rows:
        return
    columns = ("site", "master", "version", ">jobs", ">median job", ">last job", ">windows rebuilt", ">restarts")
    out = table("Spark", *columns)
    for site, engine in rows:
        median = f"{engine.job_ms_median:,.1f} ms" if engine.HasField("job_ms_median") else ""
        last = f"{engine.job_ms_last:,.1f} ms" if engine.HasField("job_ms_last") else ""
        counts = (f"{count:,}" for count in (engine.rebuilt, engine.restarts))
        out.add_row(site, escape(engine.master), engine.version, f"{engine.jobs:,}", median, last, *counts)
    console.print(out)


def _streams(console: Console, tau_ms: int, statuses: Mapping[str, pb.StatusReply]) -> None:
    out = table("Streams", "stream", "site", "state", ">tuples", ">per second", "frontier", ">set aside", ">logged")
    for site, status in statuses.items():
        for stream in status.streams:
            state = stream.state + (f": {escape(stream.reason)}" if stream.reason else "")
            out.add_row(
                stream.name,
                site,
                state,
                f"{stream.rows:,}",
                f"{stream.rows_per_second:,.0f}",
                tick_time(stream.frontier, tau_ms),
                f"{stream.aside:,}",
                size_text(stream.logged_bytes) if stream.logged_rows else "",
            )
    if out.row_count:
        console.print(out)


def _links(console: Console, statuses: Mapping[str, pb.StatusReply]) -> None:
    out = table("Links", "from", "to", "state", ">round trip", ">bandwidth", ">sent", ">waiting", ">reconnects")
    for site, status in statuses.items():
        for link in status.links:
            state = link.state if link.state == "up" else f"[red]{link.state}[/red] {escape(link.trouble)}"
            rtt = f"{link.rtt_us / 1000:.1f} ms" if link.HasField("rtt_us") else ""
            rate = f"{size_text(round(link.bytes_per_s))}/s" if link.HasField("bytes_per_s") else ""
            sent = size_text(sum(link.sent_bytes.values()))
            out.add_row(site, link.peer, state, rtt, rate, sent, size_text(link.backlog_bytes), str(link.reconnects))
    if out.row_count:
        console.print(out)


def _windows(console: Console, tau_ms: int, statuses: Mapping[str, pb.StatusReply]) -> None:
    rows = [(site, window) for site, status in statuses.items() for window in status.windows]
    if not rows:
        return
    columns = ("site", "window of", "indexed by", ">tuples", ">size", "sealed to", ">walks waiting")
    out = table("Windows", *columns, "queries")
    for site, window in rows:
        out.add_row(
            site,
            window.stream,
            # A window that is only read through has an index without keys.
            "; ".join(keys for keys in window.indexes if keys),
            f"{window.rows:,}",
            size_text(window.nbytes),
            tick_time(window.frontier, tau_ms),
            str(window.waiting_walks),
            ", ".join(window.users),
        )
    console.print(out)


def _copies(console: Console, tau_ms: int, statuses: Mapping[str, pb.StatusReply]) -> None:
    """Those of running queries: what an ended one held is in its stats.json, not in memory."""
    rows = [(site, copy) for site, status in statuses.items() for copy in status.copies if not copy.ended]
    if not rows:
        return
    columns = ("site", "copy of", "kind", "half", "other site", ">keys", ">full tuples", ">memory", "sealed to")
    out = table("Copies", *columns, "queries")
    for site, copy in rows:
        out.add_row(
            site,
            copy.stream,
            copy.kind,
            copy.role,
            copy.peer,
            f"{copy.keys:,}",
            f"{copy.tuples:,}",
            size_text(copy.nbytes),
            tick_time(copy.frontier, tau_ms),
            ", ".join([copy.query_id, *copy.users]),
        )
    console.print(out)


def _probes(console: Console, statuses: Mapping[str, pb.StatusReply]) -> None:
    """Queries under policy ``delta``, ended ones too: that rows may be wrong does not end with the query."""
    rows = [(site, probes) for site, status in statuses.items() for probes in status.probes if probes.delta_us]
    if not rows:
        return
    out = table("Policy delta", "site", "query", ">delta", ">probes too early", ">too late")
    for site, probes in rows:
        delta = f"{probes.delta_us / 1000:,.1f} ms"
        out.add_row(site, probes.query_id, delta, f"{probes.early:,}", f"{probes.late:,}")
    console.print(out)


def show_queries(console: Console, queries: list[pb.QueryInfo]) -> None:
    """One line per query."""
    out = table("Queries", "id", "home", "state", "complete from", ">rows", "readers", "query")
    for query in queries:
        state = switch_state(query) + (f": {query.reason}" if query.reason else "")
        text = escape(" ".join(query.text.split()))  # a window in lower case would else be markup, and vanish
        readers = "\n".join(reader_text(reader, query.rows) for reader in query.readers)
        begin = begin_time(query.complete_from)
        out.add_row(query.query_id, query.home, escape(state), begin, f"{query.rows:,}", escape(readers), text)
    console.print(out)
    for note in switch_notes(queries):
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def reader_text(reader: pb.ReaderStatus, rows: int) -> str:
    """Who it is, and how far."""
    where = f" to {reader.file}" if reader.file else ", connected" if reader.attached else ""
    lag = f", {reader.lag_rows:,} behind" if reader.lag_rows else ""
    trouble = f" ({reader.trouble})" if reader.trouble else ""
    return f"{reader.name}{where}: {reader.taken:,} of {rows:,} taken{lag}{trouble}"


def tick_time(tick: int, tau_ms: int) -> str:
    """The event time a frontier stands at."""
    if tick <= TICK_MIN:
        return "not started"
    if tick >= TICK_END:
        return "end"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=tick * tau_ms)
    except OverflowError:
        return f"{tick * tau_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def moment(event_ms: int) -> str:
    """An event time in UTC, without what is nothing."""
    return tick_time(event_ms, 1).removesuffix(".000")


def begin_time(said: pb.CompleteFrom) -> str:
    """From which event time on the rows of a query are complete; nothing while it is not known."""
    if not said.HasField("first_tick"):
        return ""
    if said.first_tick <= TICK_MIN:
        return "the beginning"
    if said.lacking and not said.HasField("from_ms"):
        return f"some time after {moment(said.begin_ms)}"
    return moment(said.from_ms) if said.HasField("from_ms") else "the end"


def size_text(nbytes: int) -> str:
    """Bytes for people."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.2f} GB"
