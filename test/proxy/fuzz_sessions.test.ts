import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Random, randomOf } from '../random.ts'
import { makeScene, type Scene } from './protocol.ts'
import {
  bind,
  call,
  close,
  copyData,
  copyDone,
  copyFail,
  describe,
  execute,
  flush,
  parse,
  query,
  rawClient,
  run,
  sync,
  type Way,
} from './protocol_client.ts'

/*
 * Random conversations with a pooled host, which must answer as Postgres does. NEAP_FUZZ_SEED repeats one run, and
 * NEAP_FUZZ_CONVERSATIONS is the number of conversations.
 */

const SEED = Number(process.env['NEAP_FUZZ_SEED'] ?? Date.now() % 1_000_000)
const CONVERSATIONS = Number(process.env['NEAP_FUZZ_CONVERSATIONS'] ?? 150)
const AT_ONCE = 6

const NAMES = ['a', 'b', 'c']
const PORTALS = ['', '', 'p', 'q']
const TEXTS = [
  'select 1',
  'select $1::text',
  'select $1::int / 3',
  'select 1/0',
  'select nonsense',
  'syntax error',
  '',
  'select generate_series(1, 5)',
  'begin',
  'commit',
  'rollback',
  'savepoint s',
  'rollback to s',
  "set local datestyle = 'German'",
  "select '2001-02-03'::date",
  "do $$ begin raise notice 'x'; end $$",
  'copy (select generate_series(1, 2)) to stdout',
  'values (1), (2)',
]
/*
 * A simple ROLLBACK TO that fails leaves its unnamed portal behind. Postgres (18.4) has freed the statements of that
 * portal: an Execute of it reads them and may crash the server, and all sessions with it.
 */
const SIMPLE = [
  ...TEXTS.filter((text) => text !== 'rollback to s'),
  'savepoint s; rollback to s',
  'select 1; select 2',
  'select 1; select 1/0; select 2',
  'begin; select 1; commit; select 2',
  'begin; select 3',
  '; ;',
  'deallocate all',
  ...NAMES.map((name) => `deallocate ${name}`),
]

/** A part of a conversation that is answered up to one ReadyForQuery. */
type Part = readonly Buffer[]

function batch(random: Random): Part {
  const parsed = new Set<string>()
  const one = (): Buffer => {
    const name = random.chance(0.5) ? '' : random.pick(NAMES)
    const portal = random.pick(PORTALS)
    switch (random.between(1, 9)) {
      case 1:
      case 2:
        // A name given twice before an answer: the proxy does not know yet whether it is taken.
        if (name !== '' && parsed.has(name)) return flush()
        parsed.add(name)
        return parse(name, random.pick(TEXTS))
      case 3:
      case 4:
        return bind(portal, name, ...(random.chance(0.3) ? ['7'] : []))
      case 5:
        return random.chance(0.5) ? describe('S', name) : describe('P', portal)
      case 6:
        return execute(portal, random.pick([0, 0, 2]))
      case 7:
        return random.chance(0.5) ? close('S', name) : close('P', portal)
      case 8:
        return run(random.pick(TEXTS))
      default:
        return random.chance(0.5) ? run(`deallocate ${random.pick(NAMES)}`) : flush()
    }
  }
  return [...Array.from({ length: random.between(0, 8) }, one), sync()]
}

function part(random: Random): Part {
  const kind = random.between(1, 12)
  if (kind <= 7) return batch(random)
  if (kind <= 10) return [query(random.pick(SIMPLE))]
  if (kind === 11) return [call(177, String(random.between(0, 9)), random.pick(['1', 'x']))]
  const data = Array.from({ length: random.between(0, 3) }, () => copyData(random.pick(['x\n', 'a\tb\n', 'half'])))
  const over = random.chance(0.7) ? copyDone() : copyFail('no')
  const ask = 'copy arrived from stdin'
  if (random.chance(0.5)) return [query(`${ask} where false`), ...data, over]
  return [parse('', `${ask} where false`), bind('', ''), execute(), ...data, over, sync()]
}

/**
 * Puts an empty query behind each COPY, so that no second COPY follows at once: its data could not be told from other
 * data.
 */
const once = (messages: Part): readonly Part[] =>
  Buffer.concat(messages).includes('from stdin') ? [messages, [query('')]] : [messages]

/** Holds a conversation, with the client's bytes cut at random. */
async function hold(parts: readonly Part[], way: Way, cuts: Random): Promise<string[][]> {
  const client = await rawClient(way)
  const answers: string[][] = []
  try {
    for (const messages of parts) {
      const bytes = Buffer.concat(messages)
      for (let at = 0; at < bytes.length;) {
        const size = cuts.chance(0.5) ? bytes.length : cuts.between(1, 40)
        client.send(bytes.subarray(at, at + size))
        at += size
        if (cuts.chance(0.3)) await new Promise(setImmediate)
      }
      answers.push(await Promise.race([client.answer(), patience()]))
    }
  } finally {
    client.close()
  }
  return answers
}

/** Resolves after the time limit of an answer. */
const patience = (): Promise<string[]> =>
  new Promise((resolve) => {
    setTimeout(() => resolve(['no answer']), 20_000).unref()
  })

/** Ignores which error is reported in a failed transaction. */
const alike = (answer: string[] = [], earlier: string[] = []): string[] =>
  earlier.at(-1) === 'Z E' ? answer.map((message) => message.replace(/^E .*/s, 'E')) : answer

/**
 * Whether an error comes earlier than from Postgres in a failed transaction: a session cannot prepare there a statement
 * that its client has prepared in another session. The names that such a batch gives and closes differ from then on.
 */
const failsEarlier = (answer: string[], expected: string[] = [], earlier: string[] = []): boolean =>
  earlier.at(-1) === 'Z E' &&
  answer.length < expected.length &&
  answer.at(-1) === 'Z E' &&
  answer.at(-2)?.startsWith('E 25P02') === true &&
  answer.slice(0, -2).every((message, index) => message === expected[index])

let scene: Scene
before(async () => {
  scene = await makeScene(18, 3)
})
after(() => scene.fixture.close())

test(`${CONVERSATIONS} random conversations, seed ${SEED}`, { timeout: 600_000 }, async () => {
  let next = 0
  async function converse(): Promise<void> {
    while (next < CONVERSATIONS) {
      const number = next++
      const random = randomOf(SEED, `conversation ${number}`)
      const parts = Array.from({ length: random.between(1, 12) }, () => part(random)).flatMap(once)
      const expected = await hold(parts, scene.way(), randomOf(SEED, `cuts ${number}`))
      const answers = await hold(parts, scene.way('pooled'), randomOf(SEED, `cuts ${number}`))
      for (const [index, answer] of answers.entries()) {
        const asked = parts.slice(0, index + 1).map((messages) => Buffer.concat(messages).toString('latin1'))
        const context = `seed ${SEED}, conversation ${number}:\n${asked.map((text) => JSON.stringify(text)).join('\n')}`
        const earlier = expected[index - 1]
        if (failsEarlier(answer, expected[index], earlier)) break
        assert.deepEqual(alike(answer, earlier), alike(expected[index], earlier), context)
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, converse))
})
