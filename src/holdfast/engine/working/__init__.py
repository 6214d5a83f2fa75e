"""Workers: processes that execute runs which others submitted, left, or put to sleep."""
