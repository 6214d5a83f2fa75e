"""The documentation site: `make site` builds it in site/, without a network."""
