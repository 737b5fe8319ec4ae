/**
 * Tests the checks of `make chaos` on a deliberately broken Neap: each deed has the effect of a bug of one kind,
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
import { enter } from './data.ts'
import { audited, discreet, gone, inspect, justified, operationsEnd } from './finale.ts'
import { sameReply } from './requests.ts'
import { apart, ended, paged, single } from './watch.ts'
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

const SECRET = 'not to be told'

/** Whether to terminate sessions within their transactions. */
let striking = false

/**
 * For each invariant, its check unless it runs continuously, and a deed that violates it. The deed returns its undo, if
 * later tests need that.
 */
const DEEDS: Record<Invariant, { look?: () => Promise<void> | void; deed: () => Promise<(() => unknown) | void> }> = {
  durable: {
    look: () => inspect(world, firstOf(world)),
    deed: async () => void (await asOwner(`delete from entry where number = 1`)),
  },
  balanced: {
    look: () => inspect(world, firstOf(world)),
    deed: async () => void (await asOwner('update account set balance = balance + 1 where id = 1')),
  },
  isolated: {
    look: () => inspect(world, firstOf(world)),
    deed: async () => void (await asOwner(`insert into entry values ('stray', 1, 'br-of-somebody-else')`)),
  },
  single: {
    look: () => single(world),
    async deed() {
      const second = join(world.dataDir, 'branches', firstOf(world).branch_id, 'pgdata')
      const running = ['one', 'other'].map((name) => posing(`/${name}/postgres -D ${second}`))
      await until('both', () => {
        const there = postmastersOf(world.dataDir).map(({ pid }) => pid)
        return running.every(({ pid }) => pid !== undefined && there.includes(pid))
      })
      return () => kill(...running.map(({ pid }) => pid))
    },
  },
  ended: {
    look: () => ended(world),
    async deed() {
      await inCatalog(`
        insert into operation (id, account_id, project_id, seq, action, excludes, shares, step, deadline_seconds, deadline_at, created_at)
        select gen_random_uuid(), account_id, project_id, -1, 'stuck', '{}', '{}', 'begun', 1, now() - interval '1 hour', now() - interval '1 hour'
          from operation limit 1`)
      return () => inCatalog(`delete from operation where action = 'stuck'`)
    },
  },
  justified: {
    look: () => justified(world),
    deed: async () =>
      inCatalog(
        `update operation set status = 'failed', error = 'a bug' where id = (select id from operation where finished_at is not null limit 1)`,
      ),
  },
  once: {
    look: async () => sameReply(world, 'role_one', ...(await asked('role_one'))),
    async deed() {
      const first = await asked('role_two')
      await inCatalog('delete from idempotency_key')
      sameReply(world, 'role_two', first[0], (await asked('role_two'))[0])
    },
  },
  admitted: {
    async deed() {
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
    async look() {
      if (striking)
        await asOwner(
          'select pg_terminate_backend(pid) from pg_stat_activity where usename = current_user and pid <> pg_backend_pid() and state <> $$idle$$',
        )
    },
    async deed() {
      striking = true
      return () => (striking = false)
    },
  },
  answered: {
    look: async () => void (await asked('role_three')),
    async deed() {
      await kill(world.neap.part('api'))
      await asked('role_four')
    },
  },
  gone: {
    async look() {
      await operationsEnd(world)
      await gone(world)
    },
    async deed() {
      const left = join(world.dataDir, 'branches', 'br-left-over-00000000')
      mkdirSync(left)
      return () => rmdirSync(left)
    },
  },
  apart: {
    look: () => apart(world, other),
    async deed() {
      other = { ...other, key: world.key }
    },
  },
  audited: {
    look: () => audited(world),
    deed: async () => inCatalog('delete from audit where request_id = $1', [[...world.answered.keys()][0]]),
  },
  discreet: {
    look: () => discreet(world, [SECRET]),
    deed: async () => asSuperuser(`do $$ begin raise log '%', 'not to be ' || 'told'; end $$`),
  },
  paged: {
    look: () => paged(world),
    async deed() {
      await inCatalog('alter table operation drop constraint operation_project_id_created_at_key')
      await inCatalog(`
        insert into operation (id, account_id, project_id, seq, action, status, excludes, shares, step, deadline_seconds, created_at, finished_at)
        select gen_random_uuid(), account_id, project_id, -100 - n, 'many', 'finished', '{}', '{}', 'begun', 1, now(), now()
          from (select * from operation limit 1) o, generate_series(1, 150) n`)
    },
  },
}

for (const invariant of Object.keys(INVARIANTS) as Invariant[]) {
  const { look, deed } = DEEDS[invariant]
  test(`${INVARIANTS[invariant]}: what breaks it is found`, async () => {
    const found = () => world.checks.violations.filter((violation) => violation.invariant === invariant).length
    const earlier = found()
    await look?.()
    assert.equal(found(), earlier, 'nothing is wrong yet')
    const mend = await deed()
    await until(`a violation of ${invariant}`, async () => {
      await look?.()
      return found() > earlier
    })
    assert.ok(world.checks.violations.at(-1)?.history.length)
    await mend?.()
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
const posing = (command: string): ChildProcess =>
  spawn('perl', ['-e', '$0 = shift; sleep 60', command], {
    stdio: 'ignore',
    env: { ...process.env, DIR: world.dataDir },
  })
