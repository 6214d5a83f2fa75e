"""State to bytes and back: values, deltas, compression, envelopes. Knows no store."""
