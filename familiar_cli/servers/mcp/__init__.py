"""The MCP server: memory for agents as tools, resources and prompts."""
