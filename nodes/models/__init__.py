"""Chat models: what planner and coder ask, made from one string."""
