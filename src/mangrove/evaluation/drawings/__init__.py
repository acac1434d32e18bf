"""Pictures of the scenarios, the planners' results and the disasters."""
