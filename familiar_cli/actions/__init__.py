"""What a person can do with a familiar; each module serves the commands of its name."""
