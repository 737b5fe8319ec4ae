import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pino from 'pino'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { sql } from '../../src/catalog/sql.ts'
import { insertWebhook } from '../../src/catalog/webhook.ts'
import { insertDelivery } from '../../src/catalog/webhook_delivery.ts'
import type { WorkerContext } from '../../src/context.ts'
import { startWebhookLoop } from '../../src/loops/webhooks.ts'
import { type Catalogs, startCatalogs } from './catalogs.ts'
import { newProject } from './operations.ts'

let catalogs: Catalogs
before(async () => {
  catalogs = await startCatalogs()
})
after(() => catalogs.close())

test('a delivery that becomes due during a look is claimed by it', () =>
  catalogs.with(async ({ catalog }) => {
    const { account_id } = await newProject(catalog)
    const id = randomUUID()
    const webhook = { id, account_id, project_id: null, url: 'https://localhost', events: [], secret: Buffer.alloc(0) }
    await insertWebhook(catalog, { ...webhook, enabled: false })
    const delivery = await insertDelivery(catalog, id, 'webhook.test', {})
    await catalog.rows(sql`update webhook_delivery set due_at = clock_timestamp() + interval '2 seconds'`)
    const isDue = async () => {
      const row = await catalog.row<{ due: boolean }>(
        sql`select due_at < clock_timestamp() as due from webhook_delivery`,
      )
      return row?.due ?? true
    }
    const claims: number[] = []
    const looked = Promise.withResolvers<void>()
    /** Says when the next delivery is due only once it is. */
    const slow: Catalog = {
      ...catalog,
      async row<R>(statement: ReturnType<typeof sql>) {
        while (claims.length === 0 && !(await isDue())) await sleep(50)
        return catalog.row<R>(statement)
      },
      async rows<R>(statement: ReturnType<typeof sql>) {
        const rows = await catalog.rows<R>(statement)
        claims.push(rows.length)
        looked.resolve()
        return rows
      },
    }
    const context = { catalog: slow, config: { webhookAllow: [], webhookTimeout: 1 }, log: pino({ level: 'silent' }) }
    const loop = await startWebhookLoop(context as unknown as WorkerContext, () => ({}))
    await looked.promise
    await loop.stop()
    assert.equal(claims[0], 1, `the delivery ${delivery.id} was not claimed`)
  }))
