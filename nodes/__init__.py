"""The nodes of the graph, one file each, and the planner and coder that they call."""
