"""What is shown, as values, for the terminal and the browser."""
