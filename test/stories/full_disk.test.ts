import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { query } from '../clients.ts'
import { leaveNothing, type Neap, startNeap } from '../neap.ts'
import { kill, postmastersOf, until } from '../processes.ts'
import { branchOff, firstPlace, type Place } from '../project.ts'
import {
  drainDisk,
  fillDisk,
  mountFilesystem,
  mountSmallDisk,
  type SmallDisk,
  withoutFilesystems,
  withoutMounts,
} from '../small_disk.ts'

/* A disk without a byte left can be emptied through the API; one that became read-only is told of. */

const cannotMount = withoutMounts()
const base = mkdtempSync(join(tmpdir(), 'neap-full-disk-'))
const dataDir = join(base, 'data')
const reservesOf = (directory: string) => [1, 2].map((number) => join(directory, 'catalog', `reserve.${number}`))
const isReserved = (directory = dataDir) => reservesOf(directory).every((file) => existsSync(file))
const hasInodes = () => reservesOf(dataDir).every((file) => existsSync(join(`${file}.inodes`, '64')))
let disk: SmallDisk
let neap: Neap

before(async () => {
  if (cannotMount) return
  // Computes run as other users.
  chmodSync(base, 0o711)
  disk = mountSmallDisk(dataDir, 1000)
  neap = await startNeap({ dataDir })
})

after(async () => {
  if (cannotMount) return
  disk.drain()
  await neap?.stop({ keep: true })
  disk.unmount()
  rmSync(base, { recursive: true })
})

const freeBytes = () => statfsSync(dataDir).bavail * statfsSync(dataDir).bsize

const remove = async ({ project_id, branch_id }: Place, from = neap) => {
  const params = { project_id, branch_id }
  const { operations } = await from.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  return from.ended(operations)
}

const catalogOf = (directory: string) =>
  postmastersOf(directory).find((server) => server.directory.endsWith('/catalog/pgdata'))?.pid

test('a branch can be deleted at 0 bytes free, and the reserve is made again', { skip: cannotMount }, async () => {
  const place = await firstPlace(neap)
  const [branch, kept] = [await branchOff(neap, place), await branchOff(neap, place)]
  await query(
    neap,
    branch.uri,
    'create table large as select repeat(md5(n::text), 30) from generate_series(1, 20000) n',
  )
  await query(neap, kept.uri, 'create table kept as select 1 as one')
  await until('room is reserved', () => isReserved())
  disk.fill()
  assert.ok(freeBytes() < 4096)
  await remove(branch)
  assert.ok(!isReserved())
  assert.ok(!existsSync(join(dataDir, 'branches', branch.branch_id)))
  disk.drain()
  await until('room is reserved again', () => isReserved())
  assert.deepEqual(await query(neap, kept.uri, 'select one from kept'), [{ one: 1 }])
})

test('a catalog that ended on a full disk starts with room from the reserve', { skip: cannotMount }, async () => {
  const { project_id } = await firstPlace(neap)
  await until('room is reserved', () => isReserved())
  disk.fill()
  await kill(catalogOf(dataDir))
  await until('the catalog answers', async () => {
    const answered = await neap.call('GET /projects/:project_id', { params: { project_id } }).catch(() => undefined)
    return answered !== undefined
  })
  disk.drain()
})

test(
  'a Neap that was killed whole starts at 0 bytes free, where a branch can be deleted',
  { skip: cannotMount },
  async () => {
    const branch = await branchOff(neap, await firstPlace(neap))
    await until('room is reserved', () => isReserved())
    disk.fill()
    await neap.kill()
    await kill(...postmastersOf(dataDir).map(({ pid }) => pid))
    assert.ok(freeBytes() < 4096)
    neap = await startNeap({ dataDir })
    await remove(branch)
    disk.drain()
  },
)

test(
  'a Neap that was killed whole starts with no inode left, where a branch can be deleted',
  { skip: cannotMount },
  async () => {
    const place = await firstPlace(neap)
    const branch = await until('a branch can be made again', () => branchOff(neap, place).catch(() => undefined))
    await until('inodes are reserved', hasInodes)
    disk.useInodes()
    await neap.kill()
    await kill(...postmastersOf(dataDir).map(({ pid }) => pid))
    neap = await startNeap({ dataDir })
    await remove(branch)
    disk.drain()
    await until('inodes are reserved again', hasInodes)
  },
)

const WITHOUT_BTRFS = withoutFilesystems('btrfs')

test('on a full Btrfs the catalog runs on, and a branch can be deleted', { skip: WITHOUT_BTRFS }, async () => {
  const directory = join(base, 'btrfs')
  const unmount = mountFilesystem('btrfs', directory, join(base, 'image'), 2500)
  const other = await startNeap({ dataDir: directory })
  try {
    const place = await firstPlace(other)
    const branch = await branchOff(other, place)
    await until('room is reserved', () => isReserved(directory))
    const catalog = catalogOf(directory)
    fillDisk(directory)
    const params = { project_id: place.project_id }
    for (let turn = 0; turn < 20; turn++)
      await other
        .call('PATCH /projects/:project_id', { params, body: { project: { name: `turn ${turn}` } } })
        .catch((error: unknown) => assert.match(String(error), /The disk of the catalog is full/))
    await remove(branch, other)
    assert.equal(catalogOf(directory), catalog)
  } finally {
    drainDisk(directory)
    await other.stop({ keep: true })
    unmount()
  }
})

test('on a disk that became read-only a request is told so', { skip: withoutFilesystems('ext4') }, async () => {
  const directory = join(base, 'ext4')
  const unmount = mountFilesystem('ext4', directory, join(base, 'image.ext4'), 2000)
  const other = await startNeap({ dataDir: directory })
  try {
    const { project_id } = await firstPlace(other)
    // As after an error of the disk.
    execFileSync('mount', ['-o', 'remount,abort', directory])
    await assert.rejects(
      other.call('PATCH /projects/:project_id', { params: { project_id }, body: { project: { name: 'other' } } }),
      /The disk of the catalog is read-only/,
    )
  } finally {
    await other.kill()
    await kill(...postmastersOf(directory).map(({ pid }) => pid))
    await leaveNothing(directory, { keep: true })
    // A process that is ending may have files open.
    await until('the disk is not in use', () => {
      try {
        unmount()
        return true
      } catch {
        return false
      }
    })
  }
})
