"""Bugs in how a query goes over to a plan that keeps joins, or from one."""

from __future__ import annotations

from tests.mutants.edits import argument, assigned, begin, condition, drop, value
from tests.mutants.mutant import bug

#: By the first part of a function's name: the files of tests/unit in which a test should notice it.
TESTS = {"": "test_tree_switches"}

MUTANTS = (
    # -- the tick at which all go over
    bug("heads go over where the first stream is held", "PlanSwitch.hold", value("max()", "min(self._held.values())")),
    bug("heads go over before the last stream is held", "PlanSwitch.hold", condition("_streams", "True")),
    bug("what comes of a held stream is walked", "QueryRun.hold_head", begin("return")),
    bug("what is held is forgotten", "QueryRun.go_over", assigned("held", "[]", at=0)),
    bug("the first tick of a tree is nobody's", "QueryRun.go_over", argument("begin_head", 1, "tick + 1")),
    bug("the last tick before a tree is walked twice", "QueryRun.go_over", argument("end_head", 2, "tick + 1")),
    bug("what was held once is held for good", "QueryRun.go_over", drop("clear")),
    # -- what the new plan looks at
    bug("a kept join that begins late is one tick short", "Pins._begins", assigned("seen", "_ + 1", at=0)),
    bug(
        "a component's window is not had by a kept join that begins late",
        "Pins._begins",
        assigned("since", "resumed.since"),
    ),
    bug("logs keep what the plan before needs alone", "Pins.keep_too", begin("return")),
    bug(
        "a new plan forgets by what is done of one head",
        "QueryRun.done_as_told",
        value("min()", "max(told.values())"),
        "a second line: heads go over beyond what is done of any of them, so the new plan needs no more than that",
    ),
    # -- either plan
    bug("what a new plan finds is stored at once", "Issuer.store", condition("holds", "False")),
    bug("what a new plan finds is lost", "PlanSwitch.take", drop("append")),
    bug(
        "the plan before is over when heads go over",
        "PlanSwitch.unfinished",
        condition("over_at", "self.over_at is None"),
    ),
    bug("what a new plan begins with is not kept", "HomeQuery.adopt", drop("_walks_from")),
    bug(
        "after a crash a switch ends with the new plan",
        "PlanSwitching.end",
        condition("holds", "switch.state is SwitchState.PREPARING"),
    ),
    bug(
        "a new plan keeps the name of the one before",
        "PlanSwitching.replan",
        assigned("plan", "owned_by(event.plan, home.query_id)"),
    ),
    bug("what was kept for a plan that is over stays", "KeptJoins.forget_but", begin("return")),
    bug("what was kept for a plan that was given up stays", "KeptJoins.forget_run", begin("return")),
)
