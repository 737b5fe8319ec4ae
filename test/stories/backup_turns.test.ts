import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { peer } from '../clients/peers.ts'
import { query } from '../clients.ts'
import { envOf, type Neap, neapRun, startNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, newProject, type Place } from '../project.ts'

/* Backups that stand still, beside those of another project. */

const elsewhere = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
const PROGRAM = { NEAP_PGBACKREST: join(elsewhere, 'pgbackrest') }
const heldFile = ({ branch_id }: Place) => join(elsewhere, `held-${branch_id}`)

let neap: Neap

before(async () => {
  // Runs pgBackRest once the file of the branch that it is called for is gone.
  const script = `#!/bin/sh
for each in ${elsewhere}/held-*; do
  case "$*" in *" backup "*"\${each#*/held-}"*) while [ -e "$each" ]; do echo begun > "$each"; sleep 0.1; done ;; esac
done
exec ${peer('pgbackrest/pgbackrest')} "$@"
`
  writeFileSync(PROGRAM.NEAP_PGBACKREST, script)
  chmodSync(PROGRAM.NEAP_PGBACKREST, 0o755)
  neap = await startNeap({ env: PROGRAM })
})

after(async () => {
  await neap?.stop()
  rmSync(elsewhere, { recursive: true, force: true })
})

test('backups of one project that stand still delay no other project', async () => {
  const main = await firstPlace(neap)
  const places = [main, await branchOff(neap, main), await branchOff(neap, main)]
  for (const place of places) writeFileSync(heldFile(place), '')
  const command = (...args: string[]) => neapRun(['backup', ...args], envOf(neap.ready.data_dir, PROGRAM))
  const init = await command('init', join(elsewhere, 'repository'))
  assert.equal(init.code, 0, init.stderr)
  await until(
    'all places are taken',
    () => places.filter((each) => readFileSync(heldFile(each)).length > 0).length === 2,
  )
  const other = await newProject(neap)
  await query(neap, other.uri, 'create table kept as select 1 as id')
  const backupOf = async ({ branch_id }: Place) => {
    const { branches } = JSON.parse((await command('status', '--json')).stdout) as {
      branches: { branch_id: string; made_at: string | null }[]
    }
    return branches.find((each) => each.branch_id === branch_id)?.made_at ?? undefined
  }
  await until('the other project has a backup', () => backupOf(other))
  for (const place of places) assert.equal(await backupOf(place), undefined)
  for (const place of places) rmSync(heldFile(place))
  for (const place of places) await until('its own backups are made', () => backupOf(place))
})
