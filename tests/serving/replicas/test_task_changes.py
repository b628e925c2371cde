"""Changes of tasks among several replicas, in one event loop and without Ray."""

from __future__ import annotations

import asyncio

import pytest

from weft.serving.replicas.task_changes import GONE, TaskChanges


def contents(changes):
    return [(change.name, change.contents) for change in changes]


async def follower(shared, name, made, until=1, version=0):
    """A replica that makes the changes it hears of, until it has made a certain one."""
    while version < until:
        for change in await shared.poll(name, version):
            made.append((name, change.name))
            version = change.version
    await shared.poll(name, version)


def test_publishing_ends_when_all_have_made_the_change():
    async def run():
        shared, made = TaskChanges(), []
        for name in "abc":
            assert await shared.join(name, 0) is None
        others = [asyncio.create_task(follower(shared, name, made)) for name in "bc"]
        assert await shared.turn("a") == 0
        assert await shared.publish("a", "task", b"file") == 1
        assert sorted(made) == [("b", "task"), ("c", "task")]
        for other in others:
            other.cancel()

    asyncio.run(run())


def test_one_replica_changes_tasks_at_a_time():
    async def run():
        shared = TaskChanges()
        for name in "ab":
            await shared.join(name, 0)
        await shared.turn("a")
        second = asyncio.create_task(shared.turn("b"))
        await asyncio.sleep(0.01)
        assert not second.done()
        with pytest.raises(RuntimeError, match="lost its turn"):
            await shared.publish("b", "task", b"file")
        await shared.end_turn("a")
        assert await second == 0

    asyncio.run(run())


def test_a_replica_that_is_gone_is_not_waited_for():
    async def run():
        now = [0.0]
        shared = TaskChanges(lambda: now[0])
        for name in "ab":
            await shared.join(name, 0)
        await shared.turn("b")
        now[0] += GONE + 1
        await shared.join("a", 0)  # b has the turn, and has not been seen since
        assert await shared.turn("a") == 0
        assert await shared.publish("a", "task", b"file") == 1
        assert list(await shared.replicas()) == ["a"]

    asyncio.run(run())


def test_who_joins_late_makes_all_changes_first():
    async def run():
        shared = TaskChanges()
        await shared.join("a", 0)
        for name, file in [("x", b"1"), ("y", b"2"), ("x", b"3"), ("old", None)]:
            await shared.turn("a")
            await shared.publish("a", name, file)
        version, changes = await shared.all_changes()
        assert (version, contents(changes)) == (4, [("x", b"3"), ("y", b"2"), ("old", None)])
        assert contents(await shared.join("b", 2)) == [("x", b"3"), ("old", None)]
        assert await shared.join("b", 4) is None

    asyncio.run(run())


def test_a_removed_task_leaves_nothing_but_its_removal():
    async def run():
        shared = TaskChanges()
        await shared.join("a", 0)
        for name, file in [("x", b"1"), ("y", b"2"), ("x", None), ("x", b"3")]:
            await shared.turn("a")
            await shared.publish("a", name, file)
        assert contents((await shared.all_changes())[1]) == [("y", b"2"), ("x", None), ("x", b"3")]

    asyncio.run(run())


def test_a_replica_that_leaves_ends_its_turn():
    async def run():
        shared = TaskChanges()
        for name in "ab":
            await shared.join(name, 0)
        await shared.turn("a")
        await shared.leave("a")
        assert await shared.turn("b") == 0

    asyncio.run(run())
