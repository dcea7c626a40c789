"""What a procedure's state machine must be to be remembered."""

from typing import Any

from quipu.model import machine

DOOR: dict[str, Any] = {
    "name": "door",
    "initial": "closed",
    "states": ["closed", "open"],
    "transitions": [
        {"trigger": "push", "source": "closed", "dest": "open", "conditions": ["has_key"]},
        {"trigger": "reset", "source": "*", "dest": "closed"},
    ],
}


def test_a_valid_machine_has_no_faults_and_keeps_its_current_state() -> None:
    assert machine.faults(DOOR) == []
    assert machine.machine(DOOR).current == "closed"
    assert '"current":"closed"' in machine.kept_text(DOOR)


def test_every_way_to_name_code_is_refused() -> None:
    callbacks = (
        "before",
        "after",
        "prepare",
        "on_enter",
        "on_exit",
        "on_final",
        "label",
        "queued",
        "send_event",
    )
    for key in callbacks:
        worse = {**DOOR, "transitions": [{**DOOR["transitions"][0], key: "os.system"}]}
        assert machine.faults(worse), key
        assert machine.faults({**DOOR, key: "os.system"}), key
    for guard in ("os.path", "__class__", "a b", "1st", "x" * 65, ""):
        worse = {**DOOR, "transitions": [{**DOOR["transitions"][0], "conditions": [guard]}]}
        assert machine.faults(worse), guard


def test_each_fault_has_its_place() -> None:
    cases: list[tuple[Any, str]] = [
        ("not a machine", "/content"),
        ({}, "/content/name"),
        ({**DOOR, "initial": "ajar"}, "/content/initial"),
        ({**DOOR, "current": "ajar"}, "/content/current"),
        ({**DOOR, "states": ["closed", "closed", "open"]}, "/content/states"),
        ({**DOOR, "states": ["closed", "open", "*"]}, "/content/states/2"),
        ({**DOOR, "transitions": {}}, "/content/transitions"),
        (
            {**DOOR, "transitions": [{"trigger": "t", "source": "ajar", "dest": "open"}]},
            "/content/transitions/0/source",
        ),
        ({**DOOR, "metadata": []}, "/content/metadata"),
        ({**DOOR, "name": "a\nb"}, "/content/name"),
    ]
    for value, pointer in cases:
        assert pointer in [fault.pointer for fault in machine.faults(value)], pointer
        assert {fault.reason for fault in machine.faults(value)} <= {"invalid_procedure", "too_large"}


def test_a_transition_that_could_never_happen_is_refused() -> None:
    twice = [
        {"trigger": "push", "source": "closed", "dest": "open"},
        {"trigger": "push", "source": "closed", "dest": "closed"},
    ]
    assert machine.faults({**DOOR, "transitions": twice})
    guarded = [{**twice[0], "conditions": "has_key"}, twice[1]]
    assert machine.faults({**DOOR, "transitions": guarded}) == []


def test_a_machine_that_is_too_large_is_refused() -> None:
    many = [f"s{number}" for number in range(300)]
    assert "too_large" in {
        fault.reason for fault in machine.faults({**DOOR, "states": many, "initial": "s0"})
    }
    wide = {
        **DOOR,
        "states": many[:256],
        "initial": "s0",
        "transitions": [{"trigger": f"t{n}", "source": "*", "dest": "s0"} for n in range(100)],
    }
    assert "too_large" in {fault.reason for fault in machine.faults(wide)}
