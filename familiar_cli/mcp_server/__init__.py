"""The MCP server: the memory as tools for agents."""
