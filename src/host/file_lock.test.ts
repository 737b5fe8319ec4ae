import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { takeFileLock, withFileLock } from './file_lock.ts'

let directory: string

before(() => {
  directory = mkdtempSync(join(tmpdir(), 'neap-lock-'))
})
after(() => rmSync(directory, { recursive: true }))

test('a file lock has one owner, and the next takes it after its release', async () => {
  const path = join(directory, 'release')
  const lock = await takeFileLock(path, 1)
  assert.ok(lock)
  assert.equal(await takeFileLock(path, 1), undefined)
  const next = takeFileLock(path, 60)
  await lock.release()
  await (await next)?.release()
  assert.ok(await next)
})

test('work under one lock does not overlap', async () => {
  const path = join(directory, 'work')
  const log: string[] = []
  const work = (name: string) =>
    withFileLock(path, 60, async () => {
      log.push(`${name} begins`)
      await new Promise(setImmediate)
      log.push(`${name} ends`)
    })
  await Promise.all([work('one'), work('one')])
  assert.deepEqual(log, ['one begins', 'one ends', 'one begins', 'one ends'])
})

test('a lock is released when the work fails', async () => {
  const path = join(directory, 'failure')
  await assert.rejects(
    withFileLock(path, 1, () => Promise.reject(new Error('no room'))),
    { message: 'no room' },
  )
  assert.equal(await withFileLock(path, 1, async () => 'again'), 'again')
})

test('work does not begin while another process has the lock', async () => {
  const path = join(directory, 'taken')
  const lock = await takeFileLock(path, 1)
  let begun = false
  await assert.rejects(
    withFileLock(path, 1, async () => void (begun = true)),
    { message: `${path} stays locked by another process` },
  )
  assert.equal(begun, false)
  await lock?.release()
})
