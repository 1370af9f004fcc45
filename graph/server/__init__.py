"""The search served by LangGraph: the graph factory for `langgraph dev`."""
