"""The web UI and the REST API: `holdfast ui`. Needs the extra `ui`.

`app.py` has the routes and `security.py` decides who gets in; each page is a module of `pages`,
with a template of its name. What they show is made by `holdfast.views`, as for the command line.
"""
