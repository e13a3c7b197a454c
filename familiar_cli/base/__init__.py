"""What every room stands on: settings, times, identities, text and files."""
