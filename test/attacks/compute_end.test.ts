import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { codeIn } from '../code_in_compute.ts'
import { type Neap, startNeap } from '../neap.ts'
import { processesOf, until } from '../processes.ts'
import { branchOff, computeOf, endpointOf, firstPlace, type Place, suspend } from '../project.ts'

/*
 * Code in a compute that tries to survive or prevent the compute's stop. A released lock, and a postmaster.pid that
 * names another directory, let a compute outlive its suspend; with the lock it outlived the deletion of its branch and
 * Neap itself.
 */

let neap: Neap
let first: Place

before(async () => {
  neap = await startNeap()
  first = await firstPlace(neap)
  await query(neap, first.uri, 'select 1')
})
after(() => neap?.stop())

/** A branch whose compute has run this script, and the pid of the compute. */
async function attacked(script: string): Promise<{ place: Place; pid: number }> {
  const place = await branchOff(neap, first)
  await query(neap, place.uri, 'select 1')
  const { pid = 0 } = (await computeOf(neap, place)) ?? {}
  assert.ok(existsSync(`/proc/${pid}`))
  const { session, shell } = await codeIn(neap, place)
  await shell(script)
  await session.end()
  return { place, pid }
}

const ATTACKS = {
  'releases its server.lock': `perl -e 'for (3 .. 60) { open(my $f, "+<&=", $_) and flock $f, 8 } 1'`,
  'names another directory in postmaster.pid': `perl -pi -e 's{/pgdata}{/elsewhere} if $. == 2' postmaster.pid`,
}

for (const [what, script] of Object.entries(ATTACKS))
  test(`a compute that ${what} ends at its suspend`, async () => {
    const { place, pid } = await attacked(script)
    await suspend(neap, place)
    assert.equal((await endpointOf(neap, place)).current_state, 'idle')
    await until('its process has ended', () => !existsSync(`/proc/${pid}`))
  })

test('a compute that replaced postmaster.opts with a link starts again', async () => {
  const { place } = await attacked('ln -sfn /etc/passwd postmaster.opts')
  await suspend(neap, place)
  assert.deepEqual(await query(neap, place.uri, 'select 1 as one'), [{ one: 1 }])
})

test('a postmaster.pid of 1 GB is not read into memory', async () => {
  const { place, pid } = await attacked('truncate -s 1G postmaster.pid')
  let mostKib = 0
  const look = setInterval(() => {
    for (const effect of processesOf(neap.ready.data_dir).filter(({ command }) => command.startsWith('perl -e ')))
      mostKib = Math.max(mostKib, residentKib(effect.pid))
  }, 20)
  await suspend(neap, place).finally(() => clearInterval(look))
  await until('its process has ended', () => !existsSync(`/proc/${pid}`))
  assert.ok(mostKib < 100_000, `${mostKib} KiB`)
})

function residentKib(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  } catch {
    return 0
  }
}

test('a branch is deleted after its compute has made a directory inaccessible', async () => {
  const { place } = await attacked('mkdir -p base/closed/in && touch base/closed/in/file && chmod 0 base/closed')
  const { project_id, branch_id } = place
  const path = 'DELETE /projects/:project_id/branches/:branch_id'
  const { operations } = await neap.call(path, { params: { project_id, branch_id } })
  await neap.ended(operations)
})
