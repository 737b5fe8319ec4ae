import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { withPlace } from './reading_places.ts'

const TOO_MANY = {
  code: 'UNAVAILABLE',
  message: /^\d databases are being read, as many as may be at once\. Try again\.$/,
}

function makeReads() {
  const started: string[] = []
  const ends = new Map<string, PromiseWithResolvers<void>>()
  const stay = new AbortController().signal
  return {
    started,
    /** Starts a read of a project of the account `account`, a letter. */
    read: async (account: string, project: string, name: string, signal = stay) => {
      const end = Promise.withResolvers<void>()
      await withPlace({ account_id: account, project_id: account + project }, signal, () => {
        started.push(name)
        ends.set(name, end)
        return end.promise
      })
    },
    end: async (name: string, error?: Error) => {
      const { resolve, reject } = ends.get(name) ?? assert.fail(`${name} does not run`)
      ends.delete(name)
      if (error) reject(error)
      else resolve()
      await setImmediate()
    },
    /** Ends the reads that run, and those that start because of that. */
    endAll: async () => {
      for (; ends.size > 0; await setImmediate()) {
        for (const { resolve } of ends.values()) resolve()
        ends.clear()
      }
    },
  }
}

test('reads of a project wait for one of its two places, in order', async () => {
  const { started, read, end, endAll } = makeReads()
  const reads = ['1', '2', '3', '4', '5'].map((name) => read('a', 'x', name))
  await setImmediate()
  assert.deepEqual(started, ['1', '2'])
  await end('2')
  assert.deepEqual(started, ['1', '2', '3'])
  await end('1')
  assert.deepEqual(started, ['1', '2', '3', '4'])
  await endAll()
  await Promise.all(reads)
  assert.deepEqual(started, ['1', '2', '3', '4', '5'])
})

test('a read passes those of projects and accounts at their limit', async () => {
  const { started, read, end, endAll } = makeReads()
  const places = ['a x', 'a x', 'a x', 'a y', 'a y', 'a z', 'b x', 'b x', 'b y', 'b y', 'c x']
  const reads = places.map((place, index) => {
    const [account = '', project = ''] = place.split(' ')
    return read(account, project, `${place} ${index}`)
  })
  await setImmediate()
  assert.deepEqual(started, ['a x 0', 'a x 1', 'a y 3', 'a y 4', 'b x 6', 'b x 7', 'b y 8', 'b y 9'])
  await end('b x 6')
  assert.equal(started.at(-1), 'c x 10')
  await end('a y 3')
  assert.equal(started.at(-1), 'a z 5')
  await end('a x 0')
  assert.equal(started.at(-1), 'a x 2')
  await endAll()
  await Promise.all(reads)
})

test('a read that fails frees its place', async () => {
  const { started, read, end, endAll } = makeReads()
  const reads = ['1', '2', '3'].map((name) => read('a', 'x', name))
  await setImmediate()
  const failed = assert.rejects(reads[0] ?? assert.fail(), /the compute died/)
  await end('1', new Error('the compute died'))
  await failed
  assert.deepEqual(started, ['1', '2', '3'])
  await endAll()
})

test('an aborted wait ends at once, and leaves the queue', async () => {
  const { started, read, end, endAll } = makeReads()
  const caller = new AbortController()
  const reads = ['1', '2'].map((name) => read('a', 'x', name))
  const left = assert.rejects(read('a', 'x', '3', caller.signal), { code: 'UNAVAILABLE', message: /was not read/ })
  const last = read('a', 'x', '4')
  await setImmediate()
  caller.abort()
  await left
  await assert.rejects(read('a', 'x', '5', caller.signal), { code: 'UNAVAILABLE', message: /was not read/ })
  await end('1')
  assert.deepEqual(started, ['1', '2', '4'])
  await endAll()
  await Promise.all([...reads, last])
})

test('a wait ends after half a minute', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { started, read, end, endAll } = makeReads()
  const reads = ['1', '2'].map((name) => read('a', 'x', name))
  let isOver = false
  const late = assert.rejects(read('a', 'x', '3'), TOO_MANY).then(() => (isOver = true))
  t.mock.timers.tick(29_999)
  await setImmediate()
  assert.equal(isOver, false)
  t.mock.timers.tick(1)
  await late
  await end('1')
  assert.deepEqual(started, ['1', '2'])
  await endAll()
  await Promise.all(reads)
})

test('32 reads of a project, 128 of an account and 256 in all may wait', async () => {
  const floods: [accounts: number, projects: number, each: number, served: number][] = [
    [1, 1, 40, 2 + 32],
    [1, 10, 30, 4 + 128],
    [5, 10, 10, 8 + 256],
  ]
  for (const [accounts, projects, each, served] of floods) {
    const { started, read, endAll } = makeReads()
    const reads = Array.from({ length: accounts * projects * each }, (_, index) =>
      read(`${index % accounts} `, String(index % (accounts * projects)), String(index)),
    )
    const settled = Promise.allSettled(reads)
    await setImmediate()
    await endAll()
    const refusals = (await settled).filter((result) => result.status === 'rejected')
    assert.deepEqual([started.length, refusals.length], [served, reads.length - served])
    for (const { reason } of refusals) assert.match(String(reason), /databases are being read/)
  }
})
