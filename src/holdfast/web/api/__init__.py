"""The REST API: what the command line prints with `--json`, over HTTP.

Each endpoint is declared once (`declaring`): its route, the check of what it is given and its part
of the OpenAPI document (`openapi`) all come from that.
"""
