import { equal, rejects } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { forkEffect } from './spawner.ts'

let home: string

before(() => {
  home = mkdtempSync(join(tmpdir(), 'neap-spawner-'))
})
after(() => rmSync(home, { recursive: true }))

const FREE = 0
const ABSENT = 82

/** The spawner processes of this process. */
const spawners = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => commandOf(pid).endsWith('\0--\0serve\0') && parentOf(pid) === process.pid)

const parentOf = (pid: number): number => Number(/^PPid:\s+(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1])
const commandOf = (pid: number): string => read(`/proc/${pid}/cmdline`)

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

test('effects run concurrently, each with its own exit code and error output', async () => {
  const file = join(home, 'a file\n with 100 % of ünusual characters')
  writeFileSync(file, '')
  const ends = await Promise.all([
    forkEffect(['wait', home, '0']).ended,
    forkEffect(['wait', join(home, 'absent'), '0']).ended,
    forkEffect(['wait', file, '0']).ended,
    forkEffect(['no such action']).ended,
  ])
  equal(ends[0]?.code, FREE)
  equal(ends[1]?.code, ABSENT)
  equal(ends[2]?.code, ABSENT)
  equal(ends[3]?.complaint, 'unknown action\n')
  equal(spawners().length, 1)
})

test('input to an effect that has ended is ignored', async () => {
  const effect = forkEffect(['wait', home, '0'])
  await effect.ended
  effect.tell('too late\n')
  equal((await forkEffect(['wait', home, '0']).ended).code, FREE)
  equal(spawners().length, 1)
})

test('killing the spawner fails its running effects, and the next effect starts a new spawner', async () => {
  const [pid = 0] = spawners()
  process.kill(pid, 'SIGSTOP')
  const { ended } = forkEffect(['wait', home, '0'])
  process.kill(pid, 'SIGKILL')
  await rejects(ended, /The process that starts effects has ended/)
  equal((await forkEffect(['wait', home, '0']).ended).code, FREE)
})
