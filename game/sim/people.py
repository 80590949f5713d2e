"""What the characters do of themselves, a tick at a time. All of it is rules; none of it is scenery."""

from __future__ import annotations

from game.sim.cast import PLACES, ROUTINES
from game.sim.rng import below, chance
from game.sim.world import Person, World

FOREVER = 1 << 30


def step_people(world: World) -> None:
    """One tick for every character, in the order of the cast."""
    state, ways = world.state, world.ways
    tick, spots, onward, width = state.tick, ways.spots, ways.onward, ways.width
    summoning = 0 <= state.summon_at <= tick
    for person in state.people:
        to_x, to_y = spots[person.dest]
        if person.x != to_x or person.y != to_y:
            person.x, person.y = onward[person.dest][person.y * width + person.x]
            if person.x == to_x and person.y == to_y:
                _on_arrival(world, person)
        elif tick >= person.until or (summoning and person.name == "Ada" and _seeks_asker(world)):
            _choose(world, person)
        if summoning and person.name == "Ada":
            _ada_summons(world, person)


def send(world: World, person: Person, place: str) -> None:
    """The character sets out for `place`; how long it stays there is drawn when it arrives."""
    look_around(world, person)
    person.dest = place
    person.moves += 1


def look_around(world: World, person: Person) -> None:
    """A character at a place learns what lies there, and that what it thought lay there doesn't."""
    if not world.arrived(person):
        return
    here, lying, knows = person.dest, world.state.lying, person.knows
    if here in knows.values():
        for item in [item for item, where in knows.items() if where == here and lying.get(item) != here]:
            del knows[item]
    for item, where in lying.items():
        if where == here:
            knows[item] = here


def put_down(world: World, person: Person, place: str) -> None:
    """What the character carries lies at `place` from now on."""
    lay(world, person.carries, place)
    person.carries = ""


def lay(world: World, item: str, place: str) -> None:
    world.state.lying[item] = place
    world.state.lying = dict(sorted(world.state.lying.items()))


def _roll(world: World, person: Person, stream: str, n: int) -> int:
    return below(n, world.state.seed, stream, world.state.tick, person.name, person.moves)


def _lucky(world: World, person: Person, stream: str, percent: int) -> bool:
    return chance(percent, world.state.seed, stream, world.state.tick, person.name, person.moves)


def _elsewhere(world: World, person: Person, stream: str) -> str:
    places = [place for place in PLACES if place != person.dest]
    return places[_roll(world, person, stream, len(places))]


def _on_arrival(world: World, person: Person) -> None:
    state = world.state
    look_around(world, person)
    if person.name == state.errand.asker:
        person.until = FOREVER
    elif person.name == "Bram":
        person.until = state.tick + 4
    elif person.name == "Pip":
        if person.carries:
            put_down(world, person, person.dest)
            look_around(world, person)
        person.until = state.tick + 6 + _roll(world, person, "stay", 10)
    elif person.name == "Olin":
        if person.carries and person.dest == "market":
            put_down(world, person, "market")
            look_around(world, person)
        person.until = state.tick + 10 + _roll(world, person, "stay", 15)
    else:
        person.until = state.tick + 20 + _roll(world, person, "stay", 30)


def _choose(world: World, person: Person) -> None:
    """The character's stay is over: where to next, and what to take along."""
    name = person.name
    if name == "Bram":
        send(world, person, PLACES[(PLACES.index(person.dest) + 1) % len(PLACES)])
    elif name == "Pip":
        _pilfer(world, person, world.state.rules.pilfer)
        send(world, person, _elsewhere(world, person, "roam"))
    elif name == "Olin":
        if person.dest == "market":
            send(world, person, _elsewhere(world, person, "roam"))
        else:
            _pilfer(world, person, 40)
            send(world, person, "market")
    elif name == "Ada" and _seeks_asker(world):
        asker = world.person(world.state.errand.asker)
        assert asker is not None
        send(world, person, asker.dest)
    else:
        home, second = ROUTINES[name]
        send(world, person, second if person.dest == home else home)


def _pilfer(world: World, person: Person, percent: int) -> None:
    """Takes one thing that lies here, unless the guard is here to see it. The item that is wanted tempts Pip most."""
    state = world.state
    if person.carries:
        return
    bram = world.person("Bram")
    if bram is not None and (bram.x, bram.y) == (person.x, person.y):
        return
    here = world.items_at(person.dest)
    tempted = person.name == "Pip" and state.errand.item in here and chance(state.rules.theft, state.seed, "tempted")
    if not here or not (tempted or _lucky(world, person, "pilfer", percent)):
        return
    item = state.errand.item if tempted else here[_roll(world, person, "which", len(here))]
    del state.lying[item]
    person.carries = item


def try_snatch(world: World) -> str:
    """Pip, beside the runner and out of the guard's sight, may take what it holds; the place he runs to, or ""."""
    state = world.state
    runner = state.runner
    pip = world.person("Pip")
    if pip is None or not runner.hold or pip.carries or state.snatched >= state.rules.snatches:
        return ""
    if not world.is_beside_runner(pip) or any(person.name == "Bram" for person in world.beside_runner()):
        return ""
    if not _lucky(world, pip, "snatch", state.rules.snatch):
        return ""
    pip.carries = runner.hold
    runner.hold = ""
    state.snatched += 1
    send(world, pip, _elsewhere(world, pip, "flee"))
    return pip.dest


def _seeks_asker(world: World) -> bool:
    state = world.state
    if not 0 <= state.summon_at <= state.tick:
        return False
    asker = world.person(state.errand.asker)
    ada = world.person("Ada")
    return asker is not None and ada is not None and asker.dest != ada.dest


def _ada_summons(world: World, ada: Person) -> None:
    """Ada, whose time has come to send the asker to another place, does so once she stands beside it."""
    state = world.state
    asker = world.person(state.errand.asker)
    if asker is None or (asker.x, asker.y) != (ada.x, ada.y) or not world.arrived(ada):
        return
    state.summon_at = -1
    ada.until = state.tick + 20
    send(world, asker, _elsewhere(world, asker, "summoned"))
