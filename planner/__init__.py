"""The planner: queries and plans as values, what plans cost, and the search for a cheap one. It does no IO."""
