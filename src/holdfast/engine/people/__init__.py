"""Questions to people: what is asked, how answers are checked, and who may give them.

Requests to pause or cancel a run come the same way and are here, too.
"""
