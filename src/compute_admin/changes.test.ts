import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, test } from 'node:test'
import { freshHost, query, SECRETS, settled } from '../../test/local_host.ts'
import { SHARE } from '../../test/sample.ts'
import type { ComputeAddress } from '../compute/compute.ts'
import type { Change, ConfigChange } from '../catalog/config_change.ts'
import { applyChanges } from './changes.ts'
import { readConfig } from './roles.ts'
import { type AdminSession, withAdminSession } from './session.ts'

/* Each change is applied once, wherever it is interrupted: at real servers of the oldest and the newest version. */

const local = freshHost()
const { storage, next } = local
after(() => local.dispose())

class Lost extends Error {}

/** A session that is lost right after `statements` statements. */
function losing(session: AdminSession, statements: number): AdminSession {
  let left = statements
  return {
    ...session,
    async query(text, values) {
      const rows = await session.query<never>(text, values)
      left -= 1
      if (left === 0) throw new Lost()
      return rows
    },
  }
}

const VERIFIER =
  'SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==' +
  '$D6yvOyHZIxyLdGcmqFpWcgdmDiPRZPgXyRzBDLqZfxI=:D6yvOyHZIxyLdGcmqFpWcgdmDiPRZPgXyRzBDLqZfxI='

/** Names are reused, so that a repeated change would show. */
const WANTED: readonly Change[] = [
  { kind: 'create_role', name: 'r', verifier: VERIFIER },
  { kind: 'create_database', name: 'x', owner: 'r' },
  { kind: 'drop_database', name: 'x' },
  { kind: 'drop_role', name: 'r' },
  { kind: 'create_role', name: 'r', verifier: null },
  { kind: 'create_role', name: 's', verifier: VERIFIER },
  { kind: 'create_database', name: 'x', owner: 'r' },
  { kind: 'rename_database', name: 'x', to: 'y' },
  { kind: 'create_database', name: 'x', owner: 'r' },
  { kind: 'set_database_owner', name: 'y', owner: 's' },
]
const CLEARED: readonly Change[] = [
  { kind: 'drop_database', name: 'x' },
  { kind: 'drop_database', name: 'y' },
  { kind: 'drop_role', name: 'r' },
  { kind: 'drop_role', name: 's' },
]

const LIMITS = { rolesLimit: 500, databasesLimit: 500 }
let lastId = 0
const numbered = (changes: readonly Change[]): ConfigChange[] =>
  changes.map((change) => ({ id: (lastId += 1), change, operation_id: null }))

const at = <T>(address: ComputeAddress, work: (session: AdminSession) => Promise<T>) =>
  withAdminSession(address, SECRETS, { purpose: 'test' }, work)

async function applyAll(address: ComputeAddress, changes: readonly ConfigChange[]): Promise<void> {
  for (let isUnfinished = true; isUnfinished;) {
    const { refused, postponed, unfinished } = await at(address, (session) => applyChanges(session, changes))
    assert.deepEqual([refused, postponed], [[], []])
    isUnfinished = unfinished
  }
}

/** Of so many places one is tried. */
const STRIDES =
  SHARE < 1
    ? ([
        [18, 5],
        [15, 13],
      ] as const)
    : ([
        [18, 1],
        [15, 4],
      ] as const)

for (const [pgVersion, stride] of STRIDES) {
  const absent = pgVersion !== 18 && !existsSync(`/usr/lib/postgresql/${pgVersion}/bin/initdb`)
  const skip = absent && `Postgres ${pgVersion} not installed`

  test(`each change is applied once wherever its session is lost, on Postgres ${pgVersion}`, { skip }, async () => {
    await storage.prepare(pgVersion)
    const branch = { ...local.branch(`changes-${pgVersion}`), pgVersion }
    await settled(() => storage.create(branch, next()))
    const { address } = await local.start(branch, next())
    let cuts = 1
    for (let whole = false; !whole;) {
      const changes = numbered(WANTED)
      whole = await at(address, (session) => applyChanges(losing(session, cuts), changes)).then(
        () => true,
        (error: unknown) => {
          if (!(error instanceof Lost)) throw error
          return false
        },
      )
      // Meanwhile a client writes to the databases that will stay.
      const names = (await at(address, (session) => readConfig(session, LIMITS))).databases.map(({ name }) => name)
      const written = names.includes('y') ? names : []
      for (const database of written) await query(address, 'create table kept as select 1 as n', { database })
      await applyAll(address, changes)
      await applyAll(address, changes)
      for (const database of written)
        assert.deepEqual(await query(address, 'select n from kept', { database }), [{ n: 1 }], `cut ${cuts}`)
      const { roles, databases } = await at(address, (session) => readConfig(session, LIMITS))
      assert.deepEqual(
        [
          roles.map(({ name, login }) => `${name} ${String(login)}`).sort(),
          databases.map(({ name, owner_name }) => `${name} of ${owner_name}`).sort(),
        ],
        [
          ['r false', 's true'],
          ['x of r', 'y of s'],
        ],
        `cut ${cuts}`,
      )
      await applyAll(address, numbered(CLEARED))
      cuts += stride
    }
    assert.ok(cuts > 30, `only ${cuts} statements`)
    assert.deepEqual(await at(address, (session) => readConfig(session, LIMITS)), { roles: [], databases: [] })
  })
}

test('a change that must wait postpones only the changes that depend on it', async () => {
  await storage.prepare(18)
  const branch = local.branch('held')
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  await applyAll(address, numbered(WANTED))
  const changes = numbered([
    { kind: 'rename_database', name: 'x', to: 'z' },
    { kind: 'set_database_owner', name: 'z', owner: 's' },
    { kind: 'set_database_owner', name: 'nowhere', owner: 's' },
    { kind: 'create_role', name: 't', verifier: null },
  ])
  await at(address, async (other) => {
    await other.query('begin')
    await other.query(`comment on database x is 'locked'`)
    const outcome = await at(address, (session) => applyChanges(session, changes))
    assert.deepEqual(
      outcome.postponed.map(({ message }) => message.split(':')[0]),
      ['rename_database "x"'],
    )
    assert.deepEqual(
      outcome.refused.map(({ message }) => message.split(':')[0]),
      ['set_database_owner "nowhere"'],
    )
    assert.deepEqual(
      outcome.settled.map((id) => changes.findIndex((change) => change.id === id)),
      [2, 3],
    )
  })
  await applyAll(address, changes)
  const { databases } = await at(address, (session) => readConfig(session, LIMITS))
  assert.deepEqual(databases.map(({ name, owner_name }) => `${name} of ${owner_name}`).sort(), ['y of s', 'z of s'])
})
