"""Cycles of programs that are short enough to count by hand, and pictures of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.dialects import context
from glow_dialects.instr.memory import InstrFuncOp, instr_function
from glow_dialects.instr.spaces import Memory
from glow_dialects.parse import parse_module
from glow_passes.instr.cheapest import estimated_cycles
from glow_passes.instr.machine import Work
from glow_passes.instr.simulate import Event, Timeline, simulate

NEAR = 'memref<4xf32, "near">'


class Device:
    """Copies of 10 cycles beside relu of 4 and neg of 7."""

    def __init__(self, depth: int = 4) -> None:
        self.depth = depth

    def memories(self) -> Mapping[str, Memory]:
        return {}

    def units(self) -> Mapping[str, int]:
        return {"dma": self.depth, "alu": 1}

    def work(self, op: InstrOp) -> Work:
        cycles = {"start_copy": 10, "copy": 10, "relu": 4, "neg": 7}[op.name.removeprefix("glow_instr.")]
        return Work("dma" if "copy" in op.name else "alu", cycles)


def function(*lines: str) -> InstrFuncOp:
    """Instructions on lines of x and y and on near buffers a, b and c; `start t b` is a copy of x to b."""
    body = [f"%{name} = glow_instr.alloc : {NEAR}" for name in "abc"]
    for line in lines:
        match line.split():
            case ["start", token, buffer]:
                body.append(
                    f"%{token} = glow_instr.start_copy @out %{buffer}, @in %x : {NEAR}, memref<4xf32>"
                )
            case ["copy", buffer]:
                body.append(f"glow_instr.copy @out %{buffer}, @in %x : {NEAR}, memref<4xf32>")
            case ["wait", *tokens]:
                names = ", ".join(f"@after %{token}" for token in tokens)
                kinds = ", ".join("!glow_instr.token" for _ in tokens)
                body.append(f"glow_instr.wait {names} : {kinds}")
            case [name] if name in ("relu", "neg"):
                body.append(f"glow_instr.{name} @out %y, @in %x : memref<4xf32>, memref<4xf32>")
            case _:
                body.append(line)
    body += [f"glow_instr.dealloc @out %{name} : {NEAR}" for name in "abc"]
    program = "\n".join(body)
    text = f"""glow.placeholder @x input : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow_instr.func @main attributes {{memories = {{near = {{size = 1024 : i64}}}}}} declare {{
  %x = glow_instr.weight @x mutable : memref<4xf32>
  %y = glow_instr.weight @y mutable : memref<4xf32>
}} program {{
{program}
}}"""
    return instr_function(parse_module(text, "program", context()), "main")


def test_one_after_another() -> None:
    """What has no token is waited for at once."""
    timeline = simulate(function("copy a", "relu", "neg"), Device())
    assert timeline.events == [
        Event("dma", "copy", 0, 10),
        Event("alu", "relu", 10, 14),
        Event("alu", "neg", 14, 21),
    ]
    assert (timeline.cycles, timeline.stalls, timeline.bound) == (21, 0, 11)
    assert timeline.busy() == {"dma": 10, "alu": 11}


def test_beside_each_other() -> None:
    """A start takes a cycle; the issuer stands still from its wait on."""
    timeline = simulate(function("start t a", "relu", "wait t", "neg"), Device())
    assert timeline.events == [
        Event("dma", "start_copy", 0, 10),
        Event("alu", "relu", 1, 5),
        Event("alu", "neg", 10, 17),
    ]
    assert (timeline.cycles, timeline.stalls) == (17, 5)


def test_a_unit_does_one_thing_at_a_time() -> None:
    """Two starts follow each other on their unit; a copy without a token stands behind them."""
    timeline = simulate(function("start t a", "start u b", "copy c", "wait t u"), Device())
    assert [e[2:] for e in timeline.events] == [(0, 10), (10, 20), (20, 30)]
    assert (timeline.cycles, timeline.stalls) == (30, 18)


def test_the_last_transfer_is_counted() -> None:
    """A program ends when all units have."""
    timeline = simulate(function("relu", "start t a"), Device())
    assert timeline.cycles == 14


@pytest.mark.parametrize(
    ("depth", "starts", "stalls"), [(1, [0, 10, 20], 18), (2, [0, 10, 20], 8), (3, [0, 10, 20], 0)]
)
def test_queues_hold_what_they_hold(depth: int, starts: list[int], stalls: int) -> None:
    """The start of one more waits for the first that ends; what the unit does when is the same."""
    timeline = simulate(function("start t a", "start u b", "start v c", "relu"), Device(depth))
    assert [e.start for e in timeline.events[:3]] == starts
    assert timeline.stalls == stalls
    assert timeline.events[3].start == stalls + 3


def test_loops_hand_on_tokens() -> None:
    """Each turn waits for the transfer that the turn before started, what follows for the last."""
    loop = """%l = glow_instr.for %i = 0 to 6 step 2 carry(%t = %s) {
      glow_instr.wait @after %t : !glow_instr.token
      glow_instr.relu @out %y, @in %a : memref<4xf32>, memref<4xf32, "near">
      %n = glow_instr.start_copy @out %a, @in %x : memref<4xf32, "near">, memref<4xf32>
      glow_instr.yield %n
    }"""
    timeline = simulate(function("start s a", loop, "wait l", "neg"), Device())
    assert [(e.unit, e.start) for e in timeline.events] == [
        *(
            ("dma", 0),
            ("alu", 10),
            ("dma", 14),
            ("alu", 24),
            ("dma", 28),
            ("alu", 38),
            ("dma", 42),
            ("alu", 52),
        ),
    ]
    assert (timeline.cycles, timeline.stalls) == (59, 9 * 4)


def test_estimates_of_cycles() -> None:
    """The longer of transfers and work; of the shorter, what the first and the last of all has beside it."""
    device = Device()
    assert estimated_cycles(function(), device) == 0
    assert estimated_cycles(function("neg", "relu"), device) == 11
    # 20 cycles of transfers in two starts, 11 of work.
    assert (
        estimated_cycles(function("start t a", "start u b", "wait t u", "neg", "relu"), device)
        == 20 + 2 * 11 / 2
    )
    turns = """glow_instr.for %i = 0 to 12 step 3 {
      %n = glow_instr.start_copy @out %a, @in %x : memref<4xf32, "near">, memref<4xf32>
      glow_instr.relu @out %y, @in %x : memref<4xf32>, memref<4xf32>
      glow_instr.wait @after %n : !glow_instr.token
    }"""
    # Four turns, and 7 cycles of work: 40 of transfers, 23 of work, in four starts.
    assert estimated_cycles(function(turns, "neg"), device) == 40 + 2 * 23 / 4
    # More work than transfers.
    assert estimated_cycles(function("start t a", "wait t", "neg", "neg"), device) == 14 + 2 * 10 / 1


TWO = Timeline([Event("dma", "a<b", 0, 10), Event("alu", "c", 10, 15), Event("dma", "d", 20, 40)], 40, 7)


def test_lines_of_text() -> None:
    """A column for so many cycles: # for more than half of them, . for some."""
    assert TWO.text(8).splitlines() == ["alu |  #     | 5 of 40", "dma |##  ####| 30 of 40"]
    assert TWO.text(4).splitlines() == ["alu | .  | 5 of 40", "dma |# ##| 30 of 40"]
    assert Timeline().text() == ""
    assert len(TWO.text().splitlines()[0]) == len("alu || 5 of 40") + 72
    wide = Timeline([Event("dma", "a", 0, 4), Event("vector", "b", 4, 8)], 8)
    short = Timeline([Event("alu", "a", 0, 1), Event("dma", "b", 1, 2)], 2)
    assert short.text(8).splitlines() == ["alu |####    | 1 of 2", "dma |    ####| 1 of 2"]
    assert wide.text(2).splitlines() == ["dma    |# | 4 of 8", "vector | #| 4 of 8"]


def test_traces() -> None:
    """Events by thread, whose names are the units."""
    events = json.loads(TWO.trace())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {0: "alu", 1: "dma"} and {e["pid"] for e in events} == {0}
    shown = [(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert shown == [("dma", "a<b", 0, 10), ("alu", "c", 10, 5), ("dma", "d", 20, 20)]


def test_boxes_of_a_picture() -> None:
    """To scale, a row for each unit, with what they are when pointed at; what is too narrow is left out."""
    picture = ElementTree.fromstring(TWO.svg(400))
    space = "{http://www.w3.org/2000/svg}"
    boxes = picture.findall(f"{space}rect")
    shown = [[box.get(n) for n in ("x", "width", "y")] for box in boxes]
    assert shown == [["350.0", "50.0", "5"], ["250.0", "100.0", "35"], ["450.0", "200.0", "35"]]
    assert [box.findtext(f"{space}title") for box in boxes] == ["c: 10 to 15", "a<b: 0 to 10", "d: 20 to 40"]
    assert len({box.get("fill") for box in boxes}) == 2
    texts = [(t.get("y"), t.text) for t in picture.findall(f"{space}text")]
    assert texts == [
        ("20", "alu: 5 cycles, 12 %"),
        ("50", "dma: 30 cycles, 75 %"),
        ("80", "40 cycles, 7 of them waiting"),
    ]
    assert (picture.get("width"), picture.get("height")) == ("660", "90")
    ticks = Timeline([Event("alu", "tick", n, n + 1) for n in range(10000)], 10000)
    drawn = ElementTree.fromstring(ticks.svg(1000)).findall(f"{space}rect")
    # A tenth of a point each: three together are wide enough; no box overlaps another.
    assert 2500 <= len(drawn) <= 3334
    ends = [(float(box.get("x", 0)), float(box.get("width", 0))) for box in drawn]
    assert all(a + w <= b + 0.11 for (a, w), (b, _) in zip(ends, ends[1:], strict=False))


def test_nothing_is_drawn_of_nothing() -> None:
    """An empty program has no cycles and no boxes."""
    empty = simulate(function(), Device())
    assert (empty.cycles, empty.bound, empty.events) == (0, 0, [])
    assert "<rect" not in empty.svg()
    assert Timeline.joined([]) == Timeline()


def test_joined() -> None:
    """Each part begins where the one before has ended."""
    twice = Timeline.joined([TWO, TWO])
    assert (twice.cycles, twice.stalls) == (80, 14)
    assert [(e.start, e.end) for e in twice.events[3:]] == [(40, 50), (50, 55), (60, 80)]
