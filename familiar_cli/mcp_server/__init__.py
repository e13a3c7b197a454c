"""The memory for agents, by the Model Context Protocol: tools, resources and prompts."""
