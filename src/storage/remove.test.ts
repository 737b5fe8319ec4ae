import { deepEqual, equal } from 'node:assert/strict'
import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
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
