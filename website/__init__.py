"""The documentation site: `make docs` builds it in site/, without a network."""
