"""The databases of LangGraph's own savers, read row by row, without LangGraph.

`rows` says what is read, `sqlite` and `postgres` read it. Both look at the tables first, and
refuse what they don't know. Nothing is written, no class is imported, nothing is unpickled. Not
here: what becomes of the rows (`holdfast.integrations.langgraph.importing`).
"""
