"""Bugs in how a query goes over to another plan while it runs."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, returned, then, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {
    "PlanSwitch": "test_switching test_wrong_peers",
    "PlanSwitching": "test_switching test_wrong_peers",
    "QueryRun": "test_switching test_wrong_peers",
    "Successors": "test_switching test_wrong_peers",
    "": "test_switching",
}

MUTANTS = (
    # -- heads
    bug("a head is walked by both plans", "Successors.on_cut", drop("end_head")),
    bug("a head is walked by neither plan", "Successors.on_cut", drop("begin_head")),
    bug("the first tick of a new plan is nobody's", "QueryRun.begin_head", argument("replace", "first", "tick + 1")),
    bug(
        "the last tick of the plan before is walked twice", "QueryRun.end_head", argument("replace", "end", "tick + 1")
    ),
    bug("a new plan walks from its start", "QueryRun.start", assigned("first", "tick")),
    bug(
        "a cut is said to the sites of the new plan alone",
        "Successors.on_switch",
        assigned("sites", "run.plan.sites"),
        "all plans of a query have the same sites today: those of its streams and its sink",
    ),
    bug("a cut lies where the stream has not been", "Successors.on_switch", assigned("tick", "_ + 3")),
    bug("sites hear of cuts that differ", "Successors.on_switch", argument("Cut", 3, "tick + (site != peer)")),
    bug("a site goes over twice", "Successors.on_switch", condition("is_cut", "False")),
    bug("a head is cut twice", "QueryRun.end_head", condition("generation", "False", at=0)),
    bug("the cut of the next plan moves that of the last", "QueryRun.end_head", condition("by", "False", at=1)),
    bug("a head is cut before all are ready", "PlanSwitch.cut", condition("state", "False")),
    bug(
        "a new plan reads what the log has",
        "QueryRun._follow_log",
        condition("is_successor", "False"),
        "rows are right: its heads begin at their cuts whoever brings the batches, and this one reads in vain",
    ),
    # -- what is held
    bug(
        "a copy of the new plan is one tick short",
        "QueryLeases._lease_copy",
        value("begin_of()", "_ + is_successor(self._query_id)"),
    ),
    bug(
        "leases of the plan before end when its heads have gone over",
        "Successors.on_cut",
        then("end_head", "run._leases.release(run._arrangements)"),
    ),
    bug("a new plan holds what comes, not what came", "QueryLeases._needed_here", argument("max", 1, "done[alias]")),
    bug(
        "the plan before ends when heads have gone over", "PlanSwitch.is_over", returned("len(self._cuts) == len(done)")
    ),
    bug("the plan before ends with the first head", "PlanSwitch.is_over", returned("bool(self._cuts)")),
    bug(
        "the plan before ends when the other is prepared", "Participant.prepare", condition("takes_over", "True", at=0)
    ),
    bug("the plan before is never over", "RunEnds.on_floor", drop("void")),
    bug("both plans are over", "RunEnds.on_floor", condition("generation", "True")),
    bug(
        "logs keep what one of the plans needs",
        "Pins.move",
        value("of()", "_[-1:]"),
        "a second line: both need the same of logs, what walks that are not done can see by the query's windows",
    ),
    bug("the new plan does not hear what is done", "Participant.on_done", assigned("runs", "_[:1]")),
    # -- generations
    bug("rows of the new plan are of another generation", "HomeQuery.generations", returned("(self.generation,)")),
    bug("rows of the plan before are of an old generation", "HomeQuery.generations", returned("_[-1:]")),
    bug("a site that is lost before heads have gone over ends nothing", "PlanSwitching.end", begin("return")),
    bug(
        "the new plan answers for walks of the one before",
        "Runs.find",
        assigned("run", "self.by_id.get(message.query_id) or next(iter(self.of(query_of(message.query_id))), None)"),
    ),
    bug("a switch outlives its query", "HomeEnds.keep_end", condition("switch", "False")),
    bug("fences of plans that were given up are kept", "CopyOpenings.forget_older", begin("return")),
    # -- who is ready
    bug("all go over when one is ready", "PlanSwitch.ready", returned("True", at=1)),
    bug(
        "all go over before copies are full",
        "QueryRun.is_level",
        returned("self.started"),
        "rows are right and come later: walks wait for what they look at",
    ),
    bug("nobody says that a copy is full", "OwnedCopies.say_level", begin("return")),
    bug("a plan that some site cannot prepare is gone over to", "PlanSwitching.give_up_for", begin("return False")),
    bug("who takes no part gives another plan up", "PlanSwitching.give_up_for", condition("sites", "False")),
    bug("a switch that is given up leaves a run", "PlanSwitching.give_up", drop("send")),
    bug("a switch waits for ever", "PlanSwitching.give_up_slow", begin("return")),
    bug("a new plan is forgotten at a crash", "PlanSwitching.raise_floor", drop("keep")),
)
