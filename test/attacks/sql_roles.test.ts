import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place, suspend } from '../project.ts'

/*
 * Roles that a tenant creates by SQL: the catalog stores only as many as a branch may have, and no reserved name.
 * Formerly 3,000 were stored despite a limit of 500.
 */

const LIMIT = 20

let neap: Neap
let place: Place

before(async () => {
  neap = await startNeap({ env: { NEAP_ROLES_LIMIT: String(LIMIT) } })
  place = await firstPlace(neap)
  const made = `do $$ begin
    for i in 1..60 loop execute format('create role r%s login password %L', i, 'secret'); end loop;
  end $$`
  await query(neap, place.uri, made)
  await query(neap, place.uri, `create role neap_mine login superuser password 'x'`).catch(() => {})
  await query(neap, place.uri, `create role neap_mine login password 'secret'`)
})
after(() => neap?.stop())

const listed = async (): Promise<string[]> => {
  const { project_id, branch_id } = place
  const { roles } = await neap.call('GET /projects/:project_id/branches/:branch_id/roles', {
    params: { project_id, branch_id },
  })
  return roles.map(({ name }) => name)
}

test('the catalog stores roles up to the limit of a branch, and no reserved name', async () => {
  assert.equal((await listed()).length, LIMIT)
  await suspend(neap, place)
  const rows = await catalogQuery<{ name: string }>(neap, 'select name from role where branch_id = $1', [
    place.branch_id,
  ])
  assert.equal(rows.length, LIMIT)
  assert.ok(rows.every(({ name }) => !name.startsWith('neap_')))
  assert.ok(rows.some(({ name }) => name === new URL(place.uri).username))
})

test('a role with a reserved name cannot log in', async () => {
  const uri = new URL(place.uri)
  uri.username = 'neap_mine'
  uri.password = 'secret'
  await assert.rejects(query(neap, uri.href, 'select 1'), /password authentication failed/)
})
