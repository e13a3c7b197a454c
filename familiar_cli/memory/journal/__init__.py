"""The journal of the memory: a bare git repository that knows every change, and finishes each."""
