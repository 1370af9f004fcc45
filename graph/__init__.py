"""The search: configuration, state, world model, policies, the LangGraph workflow and the command line."""
