import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { type Attempt, createAttempts } from './attempts.ts'

const AT = { address: '10.0.0.1', endpointId: 'ep-a', role: 'alice' }

/** Attempts with a clock that the test sets. No token is refilled while it stands still. */
function makeAttempts() {
  const clock = { ms: 0 }
  const attempts = createAttempts(() => clock.ms)
  const checked: string[] = []
  const clients: Socket[] = []
  return {
    clock,
    checked,
    /** Checks a right or wrong password. `checked` contains it once its check has run. */
    show: (password: string, at: Partial<Attempt> = {}): Socket => {
      const client = new Socket()
      clients.push(client)
      const isRight = password.startsWith('right')
      const check = (): void => void checked.push(password)
      attempts.check(client, { ...AT, ...at }, check, () => isRight).catch(() => {})
      return client
    },
    /** Closes all clients, so that no timer is left. */
    end: async (): Promise<void> => {
      for (const client of clients) client.destroy()
      await settle()
    },
  }
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
}

test('a hundred wrong passwords are checked in a burst, then as many as the rate allows', async () => {
  const { show, checked, clock, end } = makeAttempts()
  for (let guess = 0; guess < 300; guess++) show('wrong')
  await settle()
  assert.equal(checked.length, 100)
  for (const seconds of [1, 10]) {
    const before: number = checked.length
    clock.ms += seconds * 1_000
    // A new attempt makes the queue serve earlier ones.
    show('wrong')
    await settle()
    assert.equal(checked.length - before, 4 * seconds)
  }
  await end()
})

test('other endpoints, roles and networks are not slowed down; a /64 counts as one network', async () => {
  const { show, checked, end } = makeAttempts()
  for (let guess = 0; guess < 110; guess++) {
    show('wrong')
    show('wrong', { address: '2001:db8:1:2::1' })
  }
  await settle()
  checked.length = 0
  const others = [{ endpointId: 'ep-b' }, { role: 'bob' }, { address: '10.0.0.2' }, { address: '2001:db8:1:3::1' }]
  for (const other of others) show('other', other)
  for (const same of [{}, { address: '::ffff:10.0.0.1' }, { address: '2001:db8:1:2:ffff::9' }]) show('same', same)
  await settle()
  assert.deepEqual(checked, ['other', 'other', 'other', 'other'])
  await end()
})

test('right passwords keep no token: any number passes with the one that is left', async () => {
  const { show, checked, end } = makeAttempts()
  for (let guess = 0; guess < 99; guess++) show('wrong')
  for (let client = 0; client < 100; client++) show('right')
  await settle()
  assert.equal(checked.length, 199)
  await end()
})

test('clients that hang up leave the queue: the oldest that is still there is next', async () => {
  const { show, checked, clock, end } = makeAttempts()
  for (let guess = 0; guess < 100; guess++) show('wrong')
  const stream = Array.from({ length: 100 }, () => show('gone'))
  show('right')
  for (const client of stream) client.destroy()
  await settle()
  clock.ms += 250
  show('wrong')
  await settle()
  assert.deepEqual(checked.slice(100), ['right', 'wrong'])
  await end()
})

test('all networks together have 500, but for one that has shown the right password lately', async () => {
  const { show, checked, end } = makeAttempts()
  show('right', { address: '10.9.9.9' })
  await settle()
  for (let network = 0; network < 600; network++) show('wrong', { address: `10.1.${network >> 8}.${network & 255}` })
  await settle()
  assert.equal(checked.length, 501)
  show('right again', { address: '10.9.9.9' })
  await settle()
  assert.equal(checked.at(-1), 'right again')
  await end()
})
