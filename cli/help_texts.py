"""What ``--help`` says beyond the options: what a command does, and lines to copy."""

from __future__ import annotations

from planner.algorithms import SPECS

WHAT_IT_IS = """\
Joins data streams that live at different sites, shipping as little as it can."""

NARROWS = """\
narrows COMMAND --help says more, with examples. The configuration is the file
cluster.toml here, unless --config or the variable NARROWS_CONFIG names another.
  narrows run "SELECT o.id, p.cents FROM orders [RANGE 10 SECONDS] AS o
               JOIN payments [RANGE 10 SECONDS] AS p ON o.id = p.order_id"
Exit codes: 0 done, 1 failed while running, 2 asked for wrongly, 130 Ctrl-C.
"""

EXIT_CODES = """\
exit codes:
  0 done    1 something failed while running    130 Ctrl-C
  2 the command, the configuration or the query is not right; nothing was started
"""

_CHOICES = "\n".join(
    f"  {algorithm.value:6} {spec.words.summary}, join {spec.joined}" for algorithm, spec in SPECS.items()
)
PLAN_CHOICES = f"""
algorithms: a tuple of one stream, here, looks for tuples of the other, there:
{_CHOICES}

policies:
  frontier     wait for what is needed: exact under any delay
  delta        go by the clock: a delay beyond delta, which is measured on the
               links, can make rows wrong; narrows status counts how often
  delta=250ms  the same with this delta
"""

INIT = """\
Writes a configuration with two sites and a comment for each setting, to be
filled in with your own. A file that is there is left alone.
"""
INIT_EXAMPLES = """\
examples:
  narrows init
  narrows init try/cluster.toml --engine native      without Spark, and so without Java
"""

RUN = """\
Starts each site as a process of this machine, replays the streams from the first
tuple to the last, waits until every row of the query is delivered, and stops what
it started. With --out the file appears only if every row is in it.
"""
RUN_EXAMPLES = """\
examples:
  narrows run "SELECT ..."
  narrows run "SELECT ..." --out rows.parquet --stats stats.json --engine native
  narrows run elsewhere/cluster.toml --query "SELECT ..."
"""

EXPLAIN = """\
Shows for every head the sites, algorithms, rows, bytes and time of each step, the
alternatives, and the total beside shipping everything. Nothing is installed and no
stream is read on. With analyze the query runs, to the end of its streams or for a
while, and what was measured is shown beside what was expected.
"""
EXPLAIN_EXAMPLES = """\
examples:
  narrows explain "SELECT ..."                      running daemons plan it
  narrows explain --start "SELECT ..."              daemons are started for it, and stopped
  narrows explain --start analyze "SELECT ..."      and the query is run to its end
  narrows explain --for 30s analyze "SELECT ..."    on running daemons, for a while
  narrows explain frankfurt-1                       a query that runs: expected and measured
"""

NODE = """\
Runs the daemon of one site in the foreground, until Ctrl-C or SIGTERM. A recording
(a stream that replays a file) starts when the first query that reads it starts.
"""
NODE_EXAMPLES = """\
examples:
  narrows node --site frankfurt
  narrows node --site frankfurt --config /etc/narrows/cluster.toml --speed 1
"""

STATUS = "Says in words what is going on, then shows sites, streams, links, windows, copies and queries."
STATUS_EXAMPLES = """\
examples:
  narrows status
  narrows status --json
  narrows status --wait 1min                        in a script that has started the daemons

A site that does not answer is shown as such; if none answers, the exit code is 1.
"""

TOP = "Shows what sites, links and queries do right now, again and again; in a pipe, a line for each look."
TOP_EXAMPLES = """\
examples:
  narrows top
  narrows top --every 5s --times 3
"""

QUERY = """\
Issues a query at a site of a running cluster and follows its rows until its streams
end. Ctrl-C only stops following: the query goes on, narrows follow takes up where you
left, narrows drop ends it.
"""
QUERY_EXAMPLES = """\
examples:
  narrows query "SELECT o.id, p.cents FROM orders [RANGE 10 SECONDS] AS o
                 JOIN payments [RANGE 10 SECONDS] AS p ON o.id = p.order_id"
  narrows query --at virginia --out rows.parquet "SELECT ..."
  narrows query --detach "SELECT ..."               prints the ID, for narrows follow
"""

FOLLOW = """\
Takes the rows of a query that nobody has taken yet, and those to come. One follower
at a time; rows are forgotten at the site once they are taken (but see query --keep).
"""
FOLLOW_EXAMPLES = """\
examples:
  narrows follow frankfurt-1
  narrows follow frankfurt-1 --out rest.csv
"""

QUERIES = "Lists the queries of all sites that answer, those that have ended too, until they are dropped."
QUERIES_EXAMPLES = """\
examples:
  narrows queries
  narrows queries --json
"""

WALKS = """\
Shows every walk that is under way: a batch of a stream, with what was joined to it so
far; the step of the query's plan that comes next; what it waits for, and how long. A
walk that travels between two sites is at neither: narrows status shows what a link has
still to send.
"""
WALKS_EXAMPLES = """\
examples:
  narrows walks
  narrows walks frankfurt-1 --at virginia
  narrows walks --json
"""

DROP = "Ends a query everywhere, if it still runs, and forgets the rows that nobody has taken."
DROP_EXAMPLES = """\
example:
  narrows drop frankfurt-1
"""

COMPLETION = "Prints a script after which the Tab key knows commands, options, files and your sites."
COMPLETION_EXAMPLES = """\
examples:
  eval "$(narrows completion bash)"                 in ~/.bashrc
  eval "$(narrows completion zsh)"                  in ~/.zshrc, after compinit
"""
