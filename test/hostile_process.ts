/**
 * A hostile tenant in a separate process. It starts attacks on `{begin: names}` and answers `end` with their tallies
 * once all have ended. Its own work yields the CPU to all other processes, as if it ran on another machine, so that
 * only the work it causes in Neap counts. That requires a separate session (sched(7), autogroups):
 *
 *   node hostile_process.ts READY PLACE KEY
 */
import { existsSync, writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { attack, type AttackName } from './hostile_tenant.ts'
import type { Neap } from './neap.ts'
import type { Place } from './project.ts'

const LOWEST = 19
const AUTOGROUP = '/proc/self/autogroup'
setPriority(LOWEST)
if (existsSync(AUTOGROUP)) writeFileSync(AUTOGROUP, String(LOWEST))

const [ready = '', place = '', key = ''] = process.argv.slice(2)
const tenant = { neap: { ready: JSON.parse(ready) as Neap['ready'] }, place: JSON.parse(place) as Place, key }
let over = new AbortController()
let attacking: ReturnType<typeof attack> = Promise.resolve({})
process.on('message', (message: { begin: AttackName[] } | 'end') => {
  if (message === 'end') {
    over.abort()
    void attacking.then((tallies) => process.send?.(tallies))
    return
  }
  over = new AbortController()
  attacking = attack(tenant, message.begin, over.signal)
})
process.once('disconnect', () => process.exit())
