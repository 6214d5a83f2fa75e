"""What several stores share, one piece a module. Not for users, and nothing of one store only.

`table` a table of entries · `sql`, `connections`, `pool`, `work` SQL servers · `documents`,
`document_store` databases of documents · `journals` pages and totals · `fields` entries as bytes ·
`address` URLs · `errors` driver errors · `schema` versions · `disk` durable directories.
"""
