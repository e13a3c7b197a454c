"""`familiar doctor`: each check looks at one part, and says how it is and how to fix it."""
