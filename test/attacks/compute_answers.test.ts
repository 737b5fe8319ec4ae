import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { ADMIN, endSession, ownSession } from '../../src/postgres/own_session.ts'
import { superuser } from '../admin.ts'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, operationsOf, type Place, suspend } from '../project.ts'

/*
 * Malicious answers of a compromised compute to Neap's own sessions. Without limits, a verifier of 600 MiB made a proxy
 * use 1.1 GiB, an error of 60 MiB was stored in the catalog and sent in each answer of the API, and a session that
 * never answers blocked a worker's step forever.
 */

const MIB = 2 ** 20

let neap: Neap
let first: Place

before(async () => {
  neap = await startNeap()
  first = await firstPlace(neap)
  await query(neap, first.uri, 'select 1')
})
after(() => neap?.stop())

test('Neap closes its session at a compute when an answer is too large', async () => {
  const session = await superuser(neap, first)
  const { host, port, password } = session
  await session.end()
  const own = await ownSession({ host, port, user: ADMIN, passwords: [password ?? ''], name: 'test' })
  assert.equal((await own.query(`select repeat('x', ${MIB}) as text`)).rows.length, 1)
  await assert.rejects(own.query(`select repeat('x', ${64 * MIB}) as text`), /over 4 MiB/)
})

/** The pid on this machine of a backend, by the one that it has in its compute. */
function backendOf(pid: number): number {
  const found = readdirSync('/proc').find((each) => {
    try {
      const [, inner] = /^NSpid:.*\s(\d+)$/m.exec(readFileSync(`/proc/${each}/status`, 'utf8')) ?? []
      const command = readFileSync(`/proc/${each}/cmdline`, 'utf8')
      return Number(inner) === pid && command.startsWith(`postgres: ${ADMIN} neap`)
    } catch {
      return false
    }
  })
  return Number(found)
}

test('Neap leaves no connection to a compute that does not end its session', async () => {
  const session = await superuser(neap, first)
  const { host, port, password } = session
  await session.end()
  const own = await ownSession({ host, port, user: ADMIN, passwords: [password ?? ''], name: 'test' })
  const { rows } = await own.query<{ pid: number }>('select pg_backend_pid() as pid')
  const backend = backendOf(rows[0]?.pid ?? 0)
  process.kill(backend, 'SIGSTOP')
  try {
    await endSession(own)
    const { stream } = (own as unknown as { connection: { stream: { destroyed: boolean } } }).connection
    assert.equal(stream.destroyed, true)
  } finally {
    process.kill(backend, 'SIGCONT')
  }
})

test('the error of an operation is truncated', async () => {
  const place = await branchOff(neap, first)
  await query(neap, place.uri, 'select 1')
  const session = await superuser(neap, place)
  await session.query(`
    create table if not exists public.config_change
      (id bigint primary key, target oid, done boolean not null, at timestamptz not null default clock_timestamp());
    create function public.shout() returns trigger language plpgsql as $$
      begin raise exception '%', repeat('x', ${3 * MIB}); end $$;
    create trigger shout before insert on public.config_change for each row execute function public.shout()`)
  const { project_id, branch_id } = place
  const path = 'POST /projects/:project_id/branches/:branch_id/roles'
  await neap.call(path, { params: { project_id, branch_id }, body: { role: { name: 'late' } } })
  const failed = await until('the change has failed', async () =>
    (await operationsOf(neap, place)).find(({ action, error }) => action === 'apply_config' && error),
  )
  assert.ok((failed.error?.length ?? 0) <= 2_000, `${failed.error?.length} characters`)
  await session.query('drop trigger shout on public.config_change')
  await session.end()
})

test("the start of a clone fails when Neap's sessions at it hang", async () => {
  const place = await branchOff(neap, first)
  await query(
    neap,
    place.uri,
    `create subscription s connection 'host=/nowhere dbname=x user=x password=x' publication p
       with (connect = false, slot_name = 's')`,
  )
  const session = await superuser(neap, place)
  await session.query(`
    create function public.wait_long() returns event_trigger language plpgsql as $$
      begin perform pg_sleep(100000); end $$;
    create event trigger wait_long on login execute function public.wait_long();
    alter event trigger wait_long enable always`)
  await session.end()
  await suspend(neap, place)
  const { branch, operations } = await neap.call('POST /projects/:project_id/branches', {
    params: { project_id: place.project_id },
    body: { branch: { parent_id: place.branch_id }, endpoints: [{ type: 'read_write' }] },
  })
  await until('the start has failed once', async () =>
    (await operationsOf(neap, place)).some(
      ({ action, branch_id, error }) => action === 'start_compute' && branch_id === branch.id && error,
    ),
  )
  assert.ok(operations.length > 0)
  const path = 'DELETE /projects/:project_id/branches/:branch_id'
  const params = { project_id: place.project_id, branch_id: branch.id }
  await neap.ended((await neap.call(path, { params })).operations)
})
