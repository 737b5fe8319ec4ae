import { deepEqual } from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'

const local = freshHost()
const { storage, computes, next } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

const ENABLED = 'SELECT subname, subenabled FROM pg_subscription'

test('a clone starts with its subscriptions disabled, and its parent keeps them enabled', async () => {
  const parent = local.branch('subscriber')
  await settled(() => storage.create(parent, next()))
  const { address } = await local.start(parent, next())
  await query(
    address,
    `CREATE SUBSCRIPTION news CONNECTION 'host=127.0.0.1 port=1' PUBLICATION news
       WITH (connect = false, slot_name = 'news')`,
  )
  await query(address, 'ALTER SUBSCRIPTION news ENABLE')
  const ofRunning = local.branch('of-running')
  await settled(() => storage.clone(ofRunning, parent, next()))
  await settled(() => computes.stop(parent, next()))
  const ofResting = local.branch('of-resting')
  await settled(() => storage.clone(ofResting, parent, next()))

  for (const clone of [ofRunning, ofResting]) {
    deepEqual(await query((await local.start(clone, next())).address, ENABLED), [
      { subname: 'news', subenabled: false },
    ])
  }
  deepEqual(await query((await local.start(parent, next())).address, ENABLED), [{ subname: 'news', subenabled: true }])
})
