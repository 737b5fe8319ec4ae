"""What test/clients/drivers.test.ts asks of each driver, by asyncpg: a JSON line for each step."""

import asyncio
import json
import sys

import asyncpg


def say(step, value):
    print(json.dumps({"step": step, "value": value}), flush=True)


def line():
    return asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def state_of(work):
    """The SQLSTATE that this work fails with; a connection that is found closed has none of its own."""
    try:
        await work
        return None
    except asyncpg.PostgresError as error:
        return error.sqlstate
    except (asyncpg.InterfaceError, ConnectionError):
        return "closed"


async def rolled_back(connection):
    async with connection.transaction():
        await connection.execute("insert into asyncpg_item values (-3, '')")
        await connection.execute("insert into asyncpg_item values (-3, '')")


async def main(uri):
    connection = await asyncpg.connect(uri)
    await connection.execute("drop table if exists asyncpg_item")
    await connection.execute("create table asyncpg_item (n int primary key, t text)")

    say("prepared", sum([await connection.fetchval("select $1::int", n) for n in range(100)]))

    rows = [(n, "x" * 100) for n in range(20_000)]
    await connection.copy_records_to_table("asyncpg_item", records=rows)
    lines = []

    async def take(data):
        lines.append(data.count(b"\n"))

    await connection.copy_from_table("asyncpg_item", output=take)
    say("copy", sum(lines))

    # What asyncpg sends without waiting in between is the arguments of one statement.
    doubled = await connection.fetchmany("select $1::int * 2", [(n,) for n in range(200)])
    say("pipeline", sum(row[0] for row in doubled))
    failing = connection.executemany("insert into asyncpg_item values (10 / $1 - 100, '')", [(1,), (0,), (2,)])
    say("failed_pipeline", await state_of(failing))

    say("transaction", await state_of(rolled_back(connection)))
    say("left", await connection.fetchval("select count(*) from asyncpg_item where n < 0"))

    # A task that is cancelled makes asyncpg send a request to cancel.
    sleeping = asyncio.create_task(connection.execute("select pg_sleep(60)"))
    say("cancel_soon", None)
    await line()
    sleeping.cancel()
    try:
        await sleeping
    except asyncio.CancelledError:
        say("cancel", "57014")
    say("after_cancel", await connection.fetchval("select 1"))

    say("suspend_now", None)
    await line()
    say("after_suspend", await state_of(connection.execute("select 1")))
    connection.terminate()
    again = await asyncpg.connect(uri)
    say("again", await again.fetchval("select count(*) from asyncpg_item where n >= 0"))
    await again.close()


asyncio.run(main(sys.argv[1]))
