"""How a look at a cluster is shown: tables that fit 80 columns and are drawn again in place, or one line in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cli.show.diagnosis import diagnosis
from cli.show.look import Change
from cli.show.switches import is_over, switch_news, switch_notes
from cli.show.tables import size_text
from node.rpc import control_pb2 as pb

BAR_COLUMNS = 6
#: Of the bars that compare what was sent with everything.
LONG_BAR_COLUMNS = 44


def in_place(console: Console) -> bool:
    """Whether what was printed can be drawn over."""
    return console.is_terminal and not console.is_dumb_terminal


def brief(change: Change) -> str:
    """A look as one line."""
    now, silent = change.now, change.now.silent
    links = [(site, link) for site, status in now.answering.items() for link in status.links]
    down = [f"{site} > {link.peer}" for site, link in links if link.state != "up"]
    parts = [
        f"{len(now.answering)} of {len(now.statuses)} sites",
        *([f"no answer from {', '.join(silent)}"] if silent else []),
        *([f"down: {', '.join(down)}"] if down else []),
        f"read {sum(now.read.values()):,} ({sum(map(change.read_per_s, now.read)):,.0f}/s)",
        f"rows {sum(now.rows.values()):,}",
        f"sent {size_text(sum(now.sent.values()))} ({_per_s(sum(map(change.sent_per_s, now.sent)))})",
        f"shipping everything {size_text(sum(now.everything.values()))}",
        *switch_notes([query for status in now.answering.values() for query in status.queries]),
    ]
    return "  ".join(parts)


def drawn(title: str, change: Change, tau_ms: int, *more: RenderableType) -> Group:
    """A look as tables, what is going on in words, and what else is to be seen below."""
    queries = [query for status in change.now.answering.values() for query in status.queries]
    notes = [*switch_notes(queries)]
    return Group(
        Text(title, style="bold"),
        *(Text(line) for line in diagnosis(change.now.statuses, tau_ms) if line not in notes),
        *switches(queries),
        "",
        sites_table(change),
        "",
        links_table(change),
        "",
        savings(sum(change.now.sent.values()), sum(change.now.everything.values())),
        "",
        queries_table(change),
        *more,
    )


def switches(queries: Sequence[pb.QueryBrief]) -> Iterator[Text]:
    """Queries that go over to another plan, or just did: the reason, and what becomes of what, each on its own line."""
    for query, news in switch_news(queries):
        status = query.last_switch
        yield Text(news, style="bold")
        yield Text(f"  because {status.why}")
        for word, plan in (("from", status.before), ("to  ", status.after)):
            yield Text(f"  {word} {plan}", no_wrap=True, overflow="ellipsis")


def sites_table(change: Change) -> Table:
    """What each site reads and holds."""
    out = _plain("site", "engine", "streams", ">tuples", ">per second", ">windows", ">mem peak")
    for site, status in change.now.statuses.items():
        if isinstance(status, str):
            out.add_row(site, "[red]silent[/red]", f"[red]{escape(status)}[/red]")
            continue
        streams = ", ".join(f"{stream.name} {_state(stream)}" for stream in status.streams)
        windows = size_text(sum(window.nbytes for window in status.windows))
        read, rate = f"{change.now.read[site]:,}", f"{change.read_per_s(site):,.0f}"
        out.add_row(site, status.engine.name, escape(streams), read, rate, windows, size_text(status.rss_bytes))
    return out


def links_table(change: Change) -> Table:
    """Each direction: what it carries, and what it would carry if each stream were shipped to the queries' homes."""
    out = _plain("link", ">trip", ">sent", ">per s", "", ">everything", ">waiting")
    rates = {way: change.sent_per_s(way) for way in change.now.sent}
    most = max([*rates.values(), 1.0])
    everything = change.now.everything
    for site, status in change.now.answering.items():
        for link in status.links:
            way = site, link.peer
            trip = f"{link.rtt_us / 1000:.0f} ms" if link.HasField("rtt_us") else ""
            if link.state != "up":
                trip = f"[red]{link.state}[/red]"
            bar = ProgressBar(most, rates[way], BAR_COLUMNS)
            whole = size_text(everything[way]) if way in everything else ""
            waiting = size_text(link.backlog_bytes) if link.backlog_bytes else ""
            name = f"{site} > {link.peer}"
            out.add_row(name, trip, size_text(change.now.sent[way]), _per_s(rates[way]), bar, whole, waiting)
    return out


def savings(sent: int, everything: int) -> Table:
    """Two bars: what was sent, and what shipping every tuple would have taken."""
    out = Table(box=None, show_header=False, pad_edge=False)
    whole = max(sent, everything, 1)
    share = f"{100 * sent / everything:.1f} %" if everything else ""
    out.add_row("sent", size_text(sent), ProgressBar(whole, sent, LONG_BAR_COLUMNS), share)
    out.add_row("everything", size_text(everything), ProgressBar(whole, everything, LONG_BAR_COLUMNS), "")
    return out


def queries_table(change: Change) -> RenderableType:
    """Queries that run."""
    out = _plain("query", "state", ">rows", ">per second", "plan")
    for status in change.now.answering.values():
        for query in status.queries:
            rate = f"{change.rows_per_s(query.query_id):,.0f}"
            plan = Text(query.plan_brief, no_wrap=True, overflow="crop")
            state = query.state
            if query.HasField("last_switch") and not is_over(query.last_switch):
                state = query.last_switch.state
            out.add_row(query.query_id, state, f"{query.rows:,}", rate, plan)
    return out if out.row_count else Text("no query runs")


def _plain(*columns: str) -> Table:
    """A table without lines, to save room."""
    out = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        justify: JustifyMethod = "right" if right else "left"
        out.add_column(column.removeprefix(">"), justify=justify, no_wrap=right or column == "link")
    return out


def _state(stream: pb.StreamStatus) -> str:
    return f"({stream.state})" if stream.state != "reading" else ""


def _per_s(rate: float) -> str:
    return f"{size_text(round(rate))}/s"
