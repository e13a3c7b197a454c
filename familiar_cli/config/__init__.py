"""The config room: where things are, and what a person has set."""
