"""Questions to people: what is asked, how answers are checked, and who may give them.

Requests to pause or cancel a run are appended the same way and are here, too. How a flow asks
belongs in `holdfast.workflow`, `graph` and `pipeline`.
"""
