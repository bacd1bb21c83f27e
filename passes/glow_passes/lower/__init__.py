"""From the graph to instructions: decomposition, schedule, IRGen."""
