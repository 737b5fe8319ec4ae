import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Catalog } from '../../catalog/catalog.ts'
import { startWaker } from './wake.ts'

test('a catalog that is too busy for a statement is tried again like one that is away', async () => {
  for (const code of ['57014', '40P01', '55P03']) {
    const busy = () => Promise.reject(Object.assign(new Error('canceling statement'), { code }))
    const catalog = { listen: async () => () => {}, row: busy, rows: busy } as unknown as Catalog
    const waker = await startWaker({ catalog, requestStart: busy, wakeTimeoutMs: 1000 })
    await assert.rejects(waker.find('ep-one'), { name: 'ProxyError', reason: 'catalog_away' })
    await assert.rejects(waker.wake({ id: 'ep-one', project_id: 'one' }, undefined), {
      name: 'ProxyError',
      reason: 'catalog_away',
    })
  }
})
