/**
 * Tests the checks of `make chaos` on a deliberately broken Neap: each violation has the effect of a bug of one kind,
 * outside of the recorded faults, and its check must detect it. Before that, each check must find no violation.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { catalogQuery, superuser } from '../admin.ts'
import { query } from '../clients.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import type { Actor } from '../surface/account.ts'
import { firstOf, openWorld } from './chaos.ts'
import { type Invariant, INVARIANTS } from './checks.ts'
import { enter, holdings } from './data.ts'
import { accounted, audited, confidential, inspect, justified, operationsEnd, removed } from './finale.ts'
import { sameReply } from './requests.ts'
import { spotAfter } from './restore.ts'
import { ended, paged, separated, single } from './watch.ts'
import { request, type World } from './world.ts'
import { write } from './writers.ts'

let opened: Awaited<ReturnType<typeof openWorld>>
let world: World
let other: Actor
let writing: Promise<void>

before(async () => {
  opened = await openWorld(1)
  world = opened.world
  other = opened.other
  writing = write(world, firstOf(world), 'writer')
  await until('some entries', () => (firstOf(world).writers[0]?.acknowledged ?? 0) > 3)
})

after(async () => {
  opened?.rest()
  await writing
  await opened?.close()
})

const SECRET = 'a secret value'

/** Whether to terminate sessions within their transactions. */
let terminating = false

/**
 * For each invariant, its check unless it runs continuously, and a function that violates it. That function returns
 * its undo, if later tests need it.
 */
const VIOLATIONS: Record<
  Invariant,
  { check?: () => Promise<void> | void; violate: () => Promise<(() => unknown) | void> }
> = {
  durable: {
    check: () => inspect(world, firstOf(world)),
    violate: async () => void (await asOwner(`delete from entry where number = 1`)),
  },
  balanced: {
    check: () => inspect(world, firstOf(world)),
    violate: async () => void (await asOwner('update account set balance = balance + 1 where id = 1')),
  },
  isolated: {
    check: () => inspect(world, firstOf(world)),
    violate: async () => void (await asOwner(`insert into entry values ('stray', 1, 'br-of-another-tenant')`)),
  },
  single: {
    check: () => single(world),
    async violate() {
      const second = join(world.dataDir, 'branches', firstOf(world).branch_id, 'pgdata')
      const running = ['one', 'other'].map((name) => startAs(`/${name}/postgres -D ${second}`))
      await until('both', () => {
        const there = postmastersOf(world.dataDir).map(({ pid }) => pid)
        return running.every(({ pid }) => pid !== undefined && there.includes(pid))
      })
      return () => kill(...running.map(({ pid }) => pid))
    },
  },
  ended: {
    check: () => ended(world),
    async violate() {
      await inCatalog(`
        insert into operation
          (id, account_id, project_id, seq, action, excludes, shares, step, deadline_seconds, deadline_at, created_at)
        select gen_random_uuid(), account_id, project_id, -1, 'stuck', '{}', '{}', 'begun', 1,
               now() - interval '1 hour', now() - interval '1 hour'
          from operation limit 1`)
      return () => inCatalog(`delete from operation where action = 'stuck'`)
    },
  },
  justified: {
    check: () => justified(world),
    violate: async () =>
      inCatalog(
        `update operation set status = 'failed', error = 'a bug'
          where id = (select id from operation where finished_at is not null limit 1)`,
      ),
  },
  once: {
    check: async () => sameReply(world, 'role_one', ...(await asked('role_one'))),
    async violate() {
      const first = await asked('role_two')
      await inCatalog('delete from idempotency_key')
      sameReply(world, 'role_two', first[0], (await asked('role_two'))[0])
    },
  },
  admitted: {
    async violate() {
      await inCatalog('update endpoint set disabled = true')
      const entering = enter(world, firstOf(world), () => {})
      return async () => {
        await inCatalog('update endpoint set disabled = false')
        await (await entering)?.end()
      }
    },
  },
  undisturbed: {
    // A lost session is excused when it was idle for long: terminate sessions until one was not.
    async check() {
      if (terminating)
        await asOwner(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where usename = current_user and pid <> pg_backend_pid() and state <> 'idle'`,
        )
    },
    async violate() {
      terminating = true
      return () => (terminating = false)
    },
  },
  answered: {
    check: async () => void (await asked('role_three')),
    async violate() {
      await kill(world.neap.part('api'))
      await asked('role_four')
    },
  },
  removed: {
    async check() {
      await operationsEnd(world)
      await removed(world)
    },
    async violate() {
      const left = join(world.dataDir, 'branches', 'br-left-over-00000000')
      mkdirSync(left)
      return () => rmdirSync(left)
    },
  },
  separated: {
    check: () => separated(world, other),
    async violate() {
      other = { ...other, key: world.key }
    },
  },
  audited: {
    check: () => audited(world),
    violate: async () => inCatalog('delete from audit where request_id = $1', [[...world.answered.keys()][0]]),
  },
  accounted: {
    check: () => accounted(world),
    async violate() {
      const { project_id, branch_id } = firstOf(world)
      await inCatalog(`select count_compute($1, $2, 1, now() - interval '1 day', now())`, [project_id, branch_id])
    },
  },
  confidential: {
    check: () => confidential(world, [SECRET]),
    violate: async () => asSuperuser(`do $$ begin raise log '%', 'a secret ' || 'value'; end $$`),
  },
  paged: {
    check: () => paged(world),
    async violate() {
      await inCatalog('alter table operation drop constraint operation_project_id_created_at_key')
      await inCatalog(`
        insert into operation
          (id, account_id, project_id, seq, action, status, excludes, shares, step, deadline_seconds, created_at,
           finished_at)
        select gen_random_uuid(), account_id, project_id, -100 - n, 'many', 'finished', '{}', '{}', 'begun', 1, now(),
               now()
          from (select * from operation limit 1) o, generate_series(1, 150) n`)
    },
  },
}

test('a preserved copy that was never read is not judged by the past of the restored branch', async () => {
  const client = await enter(world, firstOf(world), () => {})
  assert.ok(client)
  const { inherited } = await holdings(client, firstOf(world).branch_id)
  await client.end()
  const restored = { ...firstOf(world), inherited }
  // The preserved copy is another branch: what was written to the restored one is its past.
  const copy = spotAfter(restored, { name: 'copy', branch_id: 'br-of-the-copy', before: restored })
  const earlier = world.checks.violations.length
  await inspect(world, copy)
  assert.equal(world.checks.violations.length, earlier, world.checks.violations.at(-1)?.what)
})

for (const invariant of Object.keys(INVARIANTS) as Invariant[]) {
  const { check, violate } = VIOLATIONS[invariant]
  test(`${INVARIANTS[invariant]}: a violation is detected`, async () => {
    const found = () => world.checks.violations.filter((violation) => violation.invariant === invariant).length
    const earlier = found()
    await check?.()
    assert.equal(found(), earlier, 'nothing is wrong yet')
    const undo = await violate()
    await until(`a violation of ${invariant}`, async () => {
      await check?.()
      return found() > earlier
    })
    assert.ok(world.checks.violations.at(-1)?.history.length)
    await undo?.()
  })
}

/** Runs a statement as the owner of the tables. */
const asOwner = (text: string) => query(world.neap, firstOf(world).uri, text)

async function asSuperuser(text: string): Promise<void> {
  // The compute may be idle now; its writer will wake it.
  const session = await until('a compute that runs', () => superuser(world.neap, firstOf(world)).catch(() => undefined))
  await session.query(text)
  await session.end()
}

async function inCatalog(sql: string, values: unknown[] = []): Promise<void> {
  await catalogQuery(world.neap, sql, values)
}

/** Sends the same request twice with one idempotency key. */
async function asked(name: string) {
  const { project_id, branch_id } = firstOf(world)
  const once = () =>
    request(world, 'POST', `/projects/${project_id}/branches/${branch_id}/roles`, { role: { name } }, name)
  return [await once(), await once()] as const
}

/** A process with this command line. */
const startAs = (command: string): ChildProcess =>
  spawn('perl', ['-e', '$0 = shift; sleep 60', command], {
    stdio: 'ignore',
    env: { ...process.env, DIR: world.dataDir },
  })
