"""Tasks, solutions, evaluations, and the evaluators that turn a task and a solution into an evaluation."""
