"""What a plan is expected to cost: by our model of the wire, or by the paper's formulas."""
