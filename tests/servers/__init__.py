"""Private, real servers for tests: started when first asked for, stopped when the tests end."""
