import assert from 'node:assert/strict'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { lastLine } from './child.ts'
import { proxyCount, rotatePartLogs } from './parts.ts'

const directory = mkdtempSync(join(tmpdir(), 'neap-parts-'))
after(() => rmSync(directory, { recursive: true }))
mkdirSync(join(directory, 'parts'))
const log = join(directory, 'parts', 'api.log')

/** Grows the log to a size without using disk space, and appends a line. */
function grow(bytes: number, line: string): void {
  truncateSync(log, bytes)
  appendFileSync(log, `\n${line}\n`)
}

test('the logs of the parts are rotated by size, and three old ones are kept', async () => {
  for (const turn of ['1', '2', '3', '4']) {
    appendFileSync(log, '')
    grow(11 * 2 ** 20, `turn ${turn}`)
    await rotatePartLogs(directory)
    assert.equal(readFileSync(log, 'utf8'), '')
  }
  for (const [number, turn] of ['4', '3', '2'].entries())
    assert.ok(readFileSync(`${log}.${number + 1}`, 'utf8').endsWith(`turn ${turn}\n`))
  assert.ok(!existsSync(`${log}.4`))
  appendFileSync(log, 'little')
  await rotatePartLogs(directory)
  assert.equal(readFileSync(log, 'utf8'), 'little')
})

test('there is one proxy per two cores, at most four, unless the setting says how many', () => {
  const counts = [1, 2, 3, 4, 8, 64].map((cores) => proxyCount({ proxies: 0 }, cores))
  assert.deepEqual(counts, [1, 1, 1, 2, 4, 4])
  assert.equal(proxyCount({ proxies: 6 }, 2), 6)
})

test('the last message of a part is read from the end of a log larger than memory', () => {
  grow(2 ** 31, '{"level":"error","err":{"message":"the port is taken"},"msg":"did not start"}')
  assert.equal(lastLine(log), 'the port is taken')
})
