"""A graph as a picture: Mermaid text, which notebooks and Markdown viewers draw."""

from __future__ import annotations

from holdfast.graph.plan import END, Plan


def mermaid(plan: Plan) -> str:
    """The graph in Mermaid's words; dashed edges are decided on the way."""
    ids = {name: f"n{index}" for index, name in enumerate((*plan.nodes, END))}
    lines = ["flowchart TD", '    start(["start"])']
    lines += [f'    {ids[name]}["{_text(name)}"]' for name in plan.nodes]
    lines.append(f'    {ids[END]}(["end"])')
    lines.append(f"    start --> {ids[plan.entry]}")
    for source, targets in plan.edges.items():
        lines += [f"    {ids[source]} --> {ids[target]}" for target in targets]
    for source, route in plan.routes.items():
        if route.targets is None:
            lines.append(f'    {ids[source]} -.-> any{ids[source]}["anywhere"]')
        for target in dict.fromkeys(route.targets or ()):
            words = [str(word) for word, node in (route.mapping or {}).items() if node == target]
            word = f'|"{_text(", ".join(words))}"|' if words else ""
            lines.append(f"    {ids[source]} -.->{word} {ids[target]}")
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    """A name that can't end the quotes it stands in, or be taken for markup."""
    safe = "".join(
        char if char.isalnum() or char in " _-.:,+/" else f"#{ord(char)};" for char in name
    )
    return safe or " "
