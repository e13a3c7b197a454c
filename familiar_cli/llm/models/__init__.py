"""The models room: which model files exist, where they come from, how they are fetched."""
