"""Which plan: the searches, and the choice among what they find."""
