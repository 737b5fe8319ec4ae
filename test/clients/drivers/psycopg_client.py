"""What test/clients/drivers.test.ts asks of each driver, by psycopg 3: a JSON line for each step."""

import json
import logging
import sys
import threading

import psycopg

# It warns where an error that it raises also spoils the end of a pipeline.
logging.getLogger("psycopg").setLevel(logging.ERROR)


def say(step, value):
    print(json.dumps({"step": step, "value": value}), flush=True)


def state_of(work):
    """The SQLSTATE that this work fails with; a connection that is found closed has none of its own."""
    try:
        work()
        return None
    except psycopg.Error as error:
        return error.sqlstate or "closed"


connection = psycopg.connect(sys.argv[1], autocommit=True, prepare_threshold=0)
connection.execute("drop table if exists psycopg_item")
connection.execute("create table psycopg_item (n int primary key, t text)")

say("prepared", sum(connection.execute("select %s::int", [n]).fetchone()[0] for n in range(100)))

with connection.cursor().copy("copy psycopg_item from stdin") as copy:
    for n in range(20_000):
        copy.write_row((n, "x" * 100))
with connection.cursor().copy("copy psycopg_item to stdout") as copy:
    say("copy", sum(1 for _ in copy.rows()))

with connection.pipeline():
    cursors = [connection.execute("select %s::int * 2", [n]) for n in range(200)]
    say("pipeline", sum(cursor.fetchone()[0] for cursor in cursors))


def failing_pipeline():
    with connection.pipeline():
        connection.execute("insert into psycopg_item values (-1, '')")
        connection.execute("select 1 / 0")
        connection.execute("insert into psycopg_item values (-2, '')")


say("failed_pipeline", state_of(failing_pipeline))


def rolled_back():
    with connection.transaction():
        connection.execute("insert into psycopg_item values (-3, '')")
        connection.execute("insert into psycopg_item values (-3, '')")


say("transaction", state_of(rolled_back))
say("left", connection.execute("select count(*) from psycopg_item where n < 0").fetchone()[0])

say("cancel_soon", None)
threading.Thread(target=lambda: (sys.stdin.readline(), connection.cancel_safe())).start()
say("cancel", state_of(lambda: connection.execute("select pg_sleep(60)")))
say("after_cancel", connection.execute("select 1").fetchone()[0])

say("suspend_now", None)
sys.stdin.readline()
say("after_suspend", state_of(lambda: connection.execute("select 1")))
connection.close()
with psycopg.connect(sys.argv[1]) as again:
    say("again", again.execute("select count(*) from psycopg_item where n >= 0").fetchone()[0])
