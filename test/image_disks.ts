/** Disks of their own for tests of images, and the Neaps on them; all are gone after the tests of a file. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { StorageReport } from '../src/storage/report.ts'
import { query } from './clients.ts'
import { envOf, type Neap, type NeapOptions, neapRun, startNeap } from './neap.ts'
import { branchOff, type Place } from './project.ts'
import { type DiskFormat, mountFilesystem } from './small_disk.ts'

const base = mkdtempSync(join(tmpdir(), 'neap-image-'))
// Computes run as other users.
chmodSync(base, 0o711)
const undo: (() => void)[] = []
const running = new Set<Neap>()
after(async () => {
  for (const neap of running) await neap.stop({ keep: true }).catch(() => undefined)
  for (const step of undo.toReversed()) step()
  rmSync(base, { recursive: true })
})

export async function start(dataDir: string, options: Pick<NeapOptions, 'through' | 'env'> = {}): Promise<Neap> {
  const neap = await startNeap({ dataDir, ...options })
  running.add(neap)
  return neap
}

/** Ends a Neap as Ctrl-C does, or by SIGKILL, which leaves its computes running. */
export async function stop(neap: Neap, how?: 'kill'): Promise<void> {
  running.delete(neap)
  if (how === 'kill') await neap.kill()
  else await neap.stop({ keep: true })
}

/** The path of a data directory on a disk of its own. */
export function dataDirOn(kind: DiskFormat, name: string, mebibytes: number): string {
  const disk = join(base, name)
  undo.push(mountFilesystem(kind, disk, join(base, `${name}.disk`), mebibytes))
  return join(disk, 'data')
}

/** Runs `neap storage`. Errors: AssertionError, when it fails. */
export async function storage(dataDir: string, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await neapRun(['storage', ...args], envOf(dataDir))
  assert.equal(code, 0, stderr)
  return stdout
}

export const statusOf = async (dataDir: string) =>
  JSON.parse(await storage(dataDir, 'status', '--json')) as StorageReport

/** The loop devices of a data directory's image. */
export const loopDevices = (dataDir: string): string[] =>
  execFileSync('losetup', ['--noheadings', '--list', '--output', 'NAME', '--associated', join(dataDir, 'image.xfs')], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter((line) => line !== '')

export const TABLE = 'create table item as select n as id, md5(n::text) as text from generate_series(1, 200000) n'

export const hash = (neap: Neap, { uri }: Place) =>
  query(neap, uri, 'select md5(string_agg(id || text, $$,$$ order by id)) from item')

/** Branches off: parent and child have the same rows, and a change of one is not seen in the other. */
export async function checkClones(neap: Neap, place: Place): Promise<void> {
  const before = await hash(neap, place)
  const child = await branchOff(neap, place)
  assert.deepEqual(await hash(neap, child), before)
  await query(neap, child.uri, 'delete from item where id % 2 = 0')
  assert.deepEqual(await hash(neap, place), before)
}

/** Two stores share blocks with each other. */
export async function checkShared(dataDir: string, mode: StorageReport['mode']): Promise<void> {
  const report = await statusOf(dataDir)
  assert.equal(report.mode, mode)
  const shared = report.stores.filter(({ own_bytes: own, real_bytes: real }) => own !== null && own < real * 0.75)
  assert.ok(shared.length >= 2, JSON.stringify(report.stores))
}
