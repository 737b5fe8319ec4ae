import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGuessLimit } from './guess_limit.ts'

const wrong = async () => false
const right = async () => true
const refused = { code: 'RATE_LIMITED' }

test('a network may guess ten passwords of a person at once, then one in half a minute', async () => {
  let clock = 0
  const limit = createGuessLimit(() => clock)
  for (let guess = 0; guess < 10; guess++) assert.equal(await limit.check('192.0.2.1', 'ada', wrong), false)
  await assert.rejects(limit.check('192.0.2.1', 'ada', right), { ...refused, message: /in 30 s/ })
  clock = 30_000
  assert.equal(await limit.check('192.0.2.1', 'ada', right), true)
})

test('guesses in parallel are counted before they are checked', async () => {
  const limit = createGuessLimit(() => 0)
  const guesses = Array.from({ length: 20 }, () => limit.check('192.0.2.1', 'ada', wrong))
  const outcomes = await Promise.allSettled(guesses)
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10)
})

test('right passwords cost no token', async () => {
  const limit = createGuessLimit(() => 0)
  for (let time = 0; time < 100; time++) assert.equal(await limit.check('192.0.2.1', 'ada', right), true)
})

test('a check that is not made costs no token', async () => {
  const limit = createGuessLimit(() => 0)
  const fails = async () => {
    throw new Error('too many wait')
  }
  for (let time = 0; time < 20; time++)
    await assert.rejects(limit.check('192.0.2.1', 'ada', fails), { message: 'too many wait' })
  assert.equal(await limit.check('192.0.2.1', 'ada', right), true)
})

test('a network may guess passwords of thirty persons at once; addresses of one /64 are one network', async () => {
  const limit = createGuessLimit(() => 0)
  for (let guess = 0; guess < 30; guess++) await limit.check(`2001:db8::${guess}`, `person ${guess}`, wrong)
  await assert.rejects(limit.check('2001:db8::1:1', 'ada', wrong), refused)
  assert.equal(await limit.check('2001:db8:0:1::1', 'ada', wrong), false)
})

test('guesses from many networks do not keep out the network that a person signed in from', async () => {
  const limit = createGuessLimit(() => 0)
  await limit.check('192.0.2.1', 'ada', right)
  for (let network = 0; network < 50; network++) await limit.check(`198.51.100.${network}`, 'ada', wrong)
  await assert.rejects(limit.check('203.0.113.1', 'ada', right), refused)
  assert.equal(await limit.check('192.0.2.1', 'ada', right), true)
})
