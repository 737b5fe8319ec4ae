import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { BOUNDS } from '../../src/catalog/pg_setting.ts'
import { ALLOWED } from '../../src/commands/pg_settings.ts'
import { superuser } from '../admin.ts'
import { connect } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, operationsOf, type Place, suspend } from '../project.ts'

/*
 * Every allowed setting of an endpoint, at its extremes, all at once: Neap can still start, configure, suspend, check
 * and clone it. Formerly transaction_timeout=1 and default_transaction_read_only=on prevented all of that, and the
 * PATCH that reverts them.
 */

let neap: Neap

before(async () => {
  neap = await startNeap({ args: ['--no-project'], env: { NEAP_AVAILABILITY_INTERVAL: '2' } })
})
after(() => neap?.stop())

interface Setting {
  readonly name: string
  readonly vartype: string
  readonly min_val: string | null
  readonly max_val: string | null
  readonly enumvals: string[] | null
}

const TEXTS: Readonly<Record<string, readonly [string, string]>> = {
  datestyle: ['SQL, DMY', 'Postgres, MDY'],
  timezone: ['Pacific/Kiritimati', 'Etc/GMT+12'],
  search_path: ['public', '"$user", nowhere'],
}

function extreme({ name, vartype, min_val, max_val, enumvals }: Setting, end: 'least' | 'most'): string {
  const { min, max } = BOUNDS.get(name) ?? {}
  const isLeast = end === 'least'
  if (vartype === 'bool') return isLeast ? 'off' : 'on'
  if (vartype === 'enum') return (isLeast ? enumvals?.[0] : enumvals?.at(-1)) ?? ''
  if (vartype === 'string') return TEXTS[name]?.[isLeast ? 0 : 1] ?? assert.fail(`${name} is not in TEXTS`)
  const value = Number(isLeast ? (min ?? min_val) : (max ?? max_val))
  // 0 disables a timeout.
  return String(isLeast && value === 0 && name.endsWith('_timeout') ? 1 : value)
}

/** Waits until a client's query succeeds, regardless of the endpoint's timeouts. */
async function answers(place: Place): Promise<void> {
  await until('a query is answered', async () => {
    const client = await connect(neap, place.uri)
    try {
      await client.query('set statement_timeout = 0')
      return (await client.query<{ one: number }>('select 1 as one')).rows[0]?.one === 1
    } catch {
      return false
    } finally {
      await client.end().catch(() => {})
    }
  })
}

async function settingsOf(place: Place): Promise<Setting[]> {
  const session = await superuser(neap, place)
  const { rows } = await session.query<Setting>(
    'select lower(name) as name, vartype, min_val, max_val, enumvals from pg_settings where lower(name) = any ($1)',
    [[...ALLOWED]],
  )
  await session.end()
  return rows
}

async function newPlace(pg_version: number): Promise<Place> {
  const made = await neap.call('POST /projects', { body: { project: { pg_version } } })
  await neap.ended(made.operations)
  const [endpoint] = made.endpoints
  const uri = made.connection_uris?.[0]?.connection_uri ?? ''
  return { project_id: made.project.id, branch_id: made.branch.id, endpoint_id: endpoint?.id ?? '', uri }
}

for (const pgVersion of [18, 15]) {
  const absent = pgVersion !== 18 && !existsSync(`/usr/lib/postgresql/${pgVersion}/bin/initdb`)
  const skip = absent && `Postgres ${pgVersion} not installed`
  for (const end of ['least', 'most'] as const)
    test(`an endpoint works with every setting at its ${end}, on Postgres ${pgVersion}`, { skip }, async () => {
      const place = await newPlace(pgVersion)
      const { project_id, branch_id, endpoint_id } = place
      await answers(place)
      const settings = await settingsOf(place)
      assert.ok(settings.length > 90)
      const pg_settings = Object.fromEntries(settings.map((setting) => [setting.name, extreme(setting, end)]))
      const params = { project_id, endpoint_id }
      const path = 'PATCH /projects/:project_id/endpoints/:endpoint_id'
      const set = await neap.call(path, { params, body: { endpoint: { settings: { pg_settings } } } })
      await neap.ended(set.operations)
      const role = await neap.call('POST /projects/:project_id/branches/:branch_id/roles', {
        params: { project_id, branch_id },
        body: { role: { name: 'under_settings' } },
      })
      await neap.ended(role.operations)
      await suspend(neap, place)
      await answers(place)
      await answers(await branchOff(neap, place))
      const before_check = new Date().toISOString()
      await until('it is checked', async () => {
        const all = await operationsOf(neap, place)
        const check = all.find(({ action, created_at }) => action === 'check_availability' && created_at > before_check)
        assert.notEqual(check?.status, 'failed', check?.error)
        return check?.status === 'finished'
      })
      const back = await neap.call(path, { params, body: { endpoint: { settings: { pg_settings: {} } } } })
      await neap.ended(back.operations)
      await answers(place)
      await neap.call('DELETE /projects/:project_id', { params: { project_id } })
      await neap.ended(await operationsOf(neap, place))
    })
}
