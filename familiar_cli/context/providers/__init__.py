"""Where context comes from, one module a provider."""
