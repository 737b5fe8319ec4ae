import { deepEqual, equal } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { pino } from 'pino'
import { freshHost, PG_VERSION, query, settled } from '../../test/local_host.ts'
import { until } from '../../test/processes.ts'
import { createCpuShares } from './cpu_shares.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())
const skip = (await computes.whyNoLimits()) ?? false

const BUSY = `do $$ declare till timestamptz := clock_timestamp() + interval '10 seconds'; n bigint := 0; begin
  while clock_timestamp() < till loop n := n + 1; end loop; end $$`

test('idle computes are not read one by one, and the heavy ones of busy computes come last', { skip }, async () => {
  const running: { compute_id: string; cu: number; host: string }[] = []
  const branches = ['one', 'two', 'three'].map((name) => local.branch(name))
  for (const branch of branches) {
    await settled(() => storage.create(branch, next()))
    const { id, address } = await local.start(branch, next())
    running.push({ compute_id: id, cu: 0.25, host: address.host })
  }
  let reads = 0
  const last = new Set<string>()
  const counting = {
    readTotalCpuTime: () => computes.readTotalCpuTime(),
    readCpuTime: (id: string) => {
      reads++
      return computes.readCpuTime(id)
    },
    weigh: (id: string, how: { readonly cu: number; readonly comesFirst: boolean }) => {
      if (how.comesFirst) last.delete(id)
      else last.add(id)
      return computes.weigh(id, how)
    },
  }
  // Of a small machine, since other programs may take most of this one.
  const share = createCpuShares({ log: pino({ enabled: false }), computes: counting }, 0.2)
  await share(running)
  await until('they rest', async () => {
    const earlier = reads
    await share(running)
    return reads === earlier
  })
  const [heavy] = running
  const sessions = Array.from({ length: 8 }, () => query({ host: heavy?.host ?? '', port: 5432, store: '' }, BUSY))
  for (const session of sessions) session.catch(() => undefined)
  await until('one is heavy', async () => {
    await share(running)
    return last.size > 0
  })
  deepEqual([...last], [heavy?.compute_id])
  equal(reads > 0, true)
  for (const branch of branches) await settled(() => computes.stop(branch, next()))
})
