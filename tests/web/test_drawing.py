"""Pictures: everything that is there has its place."""

from quipu.model.machine import machine
from quipu.web.drawing import machine_drawing


def test_every_shape_of_arrow_is_drawn() -> None:
    arrows = [
        ("on", "a", "b"),
        ("back", "b", "a"),
        ("down", "a", "c"),
        ("side", "c", "b"),
        ("self", "b", "b"),
        ("far", "*", "d"),
    ]
    picture = machine_drawing(
        machine(
            {
                "name": "m",
                "initial": "a",
                "states": ["a", "b", "c", "d", "lost"],
                "transitions": [{"trigger": t, "source": s, "dest": d} for t, s, d in arrows],
                "current": "b",
            }
        )
    )
    assert picture is not None
    assert {box.name for box in picture.boxes} == {"a", "b", "c", "d", "lost", "*"}
    assert [box.name for box in picture.boxes if box.is_current] == ["b"]
    assert len(picture.arrows) == len(arrows)
    assert len({(box.x, box.y) for box in picture.boxes}) == len(picture.boxes)
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - picture.box_width
        assert 0 <= box.y <= picture.height - picture.box_height
