"""The review room: plans that await approval, hunk by hunk, and what a person rejected."""
