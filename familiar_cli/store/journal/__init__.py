"""The memory's journal: a bare git repository that records and completes every change."""
