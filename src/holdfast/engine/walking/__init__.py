"""Flows that go from node to node along edges: what graphs and pipelines have in common.

`plan` is the flow as data, `program` executes it and joins branches, `states` turns results into
the next state, `versions` reads runs of older versions, `time_travel` goes back, `flow` and
`drawing` show it. How a flow is defined belongs in `holdfast.graph` and `holdfast.pipeline`.
"""
