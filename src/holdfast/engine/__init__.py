"""One run loop behind every front door: executes a `Program`, records each step, resumes it."""
