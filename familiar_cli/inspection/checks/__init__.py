"""The doctor's checks: each looks at one part and says how it is and what mends it."""
