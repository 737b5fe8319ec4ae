import { deepEqual, equal, ok } from 'node:assert/strict'
import { existsSync, mkdirSync, rmdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { freshHost, PG_VERSION, settled } from '../../test/local_host.ts'
import { processesOf } from '../../test/processes.ts'

const local = freshHost()
const { storage, next, home, options } = local

before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

const deletions = () => processesOf(options.dataDir).filter(({ command }) => /^rm -rf|^sh -c find/.test(command))

test('a removal that takes long is waited for, and not begun again beside itself', async () => {
  const branch = local.branch('large')
  await settled(() => storage.create(branch, next()))
  const files = join(home(branch), 'pgdata', 'files')
  mkdirSync(files)
  for (let number = 0; number < 60_000; number++) writeFileSync(join(files, String(number)), '')
  const fence = next()
  const first = storage.remove(branch, fence)
  let [deletion] = deletions()
  for (; !deletion; [deletion] = deletions()) await turn()
  process.kill(deletion.pid, 'SIGSTOP')
  try {
    equal(await first, 'pending')
    equal(await storage.remove(branch, fence), 'pending')
    deepEqual(
      deletions().map(({ pid }) => pid),
      [deletion.pid],
    )
  } finally {
    process.kill(deletion.pid, 'SIGCONT')
  }
  await settled(() => storage.remove(branch, fence))
  deepEqual(await storage.list(), [])
})

test('a note of a removal goes when it is old, and not before', async () => {
  const [old, young] = [local.branch('old'), local.branch('young')]
  const noteOf = ({ id }: typeof old) => join(options.dataDir, 'removed', id)
  for (const branch of [old, young]) {
    await settled(() => storage.create(branch, next()))
    await settled(() => storage.remove(branch, next()))
  }
  const eightDaysAgo = Date.now() / 1000 - 8 * 86_400
  utimesSync(noteOf(old), eightDaysAgo, eightDaysAgo)
  await storage.tidy()
  deepEqual([existsSync(noteOf(old)), existsSync(noteOf(young))], [false, true])
})

test('stores are visited in batches, however many there are, and each once', async () => {
  const ids = Array.from({ length: 2_500 }, (_, number) => `br-many-${String(number).padStart(8, '0')}`)
  const made = [...ids, 'br-only-its-log-1'].map((id) => join(options.dataDir, 'logs', id))
  made.push(...ids.map((id) => join(options.dataDir, 'branches', id)))
  for (const path of made) mkdirSync(path, { recursive: true })
  const batches: string[][] = []
  await storage.visit(async (batch) => void batches.push(batch))
  for (const path of made) rmdirSync(path)
  ok(batches.every(({ length }) => length <= 1_000))
  deepEqual(batches.flat().sort(), [...ids, 'br-only-its-log-1'])
})
