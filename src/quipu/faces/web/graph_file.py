"""What is around a memory as one HTML file: drawn as on the page, with nothing from elsewhere and no script."""

from __future__ import annotations

from markupsafe import Markup

from quipu.faces.web import graph_drawing, sheets
from quipu.model.graph import Graph


def html(graph: Graph) -> str:
    """The file's text. A browser shows it anywhere, without a network, and is told to load and run nothing."""
    style = sheets.assets()["quipu.css"].data.decode("utf-8")
    text = (
        sheets.environment()
        .get_template("graph_file.html")
        .render(
            found=graph,
            picture=graph_drawing.picture(graph),
            nodes={node.id: node for node in graph.nodes},
            style=Markup(style),  # noqa: S704  our own style sheet, from the package
        )
    )
    return text.lstrip().encode("utf-8", "replace").decode("utf-8")
