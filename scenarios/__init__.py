"""The scenario contract and one file a scenario."""
