import { deepEqual, equal } from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
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
