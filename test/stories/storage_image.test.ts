import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, lstatSync, mkdirSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { closeImage, openImage } from '../../src/storage/image/open.ts'
import type { StorageReport } from '../../src/storage/report.ts'
import { query } from '../clients.ts'
import {
  checkClones,
  checkShared,
  dataDirOn,
  hash,
  loopDevices,
  start,
  statusOf,
  stop,
  storage,
  TABLE,
} from '../image_disks.ts'
import { appears } from '../local_host.ts'
import { envOf, neapRun, spawnNeap } from '../neap.ts'
import { until } from '../processes.ts'
import { branchOff, firstPlace, type Place, suspend } from '../project.ts'
import { withoutFilesystems } from '../small_disk.ts'

/* The stores of a data directory in an XFS image, on a disk whose filesystem clones no files. */

const skip = withoutFilesystems('xfs', 'ext4')

test('branches move into an image, where they are cloned; it is mounted again at each start', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'moved', 6144)
  let neap = await start(dataDir)
  const place = await firstPlace(neap)
  await query(neap, place.uri, TABLE)
  const rows = await hash(neap, place)
  const copied = await branchOff(neap, place)
  const report = await statusOf(dataDir)
  assert.equal(report.mode, 'copy')
  assert.match(report.advice ?? '', /neap storage init/)
  assert.match(neap.stderr(), /copied byte by byte.*npx neap storage init/s)
  const refused = await neapRun(['storage', 'init'], envOf(dataDir))
  assert.match(refused.stderr, /end it first/)
  await stop(neap)

  await storage(dataDir, 'init', '--size', '1500M')
  neap = await start(dataDir)
  assert.deepEqual(await hash(neap, place), rows)
  assert.deepEqual(await hash(neap, copied), rows)
  await checkClones(neap, place)
  await checkShared(dataDir, 'image')

  // A second one on the same directory is refused, and leaves the mount alone.
  const second = await neapRun(['up', '--api-port', '0', '--proxy-port', '0'], envOf(dataDir))
  assert.match(second.stderr, /runs already/)
  assert.equal(loopDevices(dataDir).length, 1)

  await storage(dataDir, 'grow', '2G')
  await storage(dataDir, 'trim', '--keep', '100M')
  const trimmed = await statusOf(dataDir)
  assert.equal(trimmed.image?.bytes, 2 ** 31)
  assert.ok(
    trimmed.image.trimmed_bytes > 0 && trimmed.image.reserved_bytes < 2 ** 31 - trimmed.image.trimmed_bytes + 2 ** 20,
  )
  assert.deepEqual(await hash(neap, place), rows)
  await storage(dataDir, 'grow', '2G')
  assert.ok(((await statusOf(dataDir)).image?.reserved_bytes ?? 0) >= 2 ** 31)

  // Killed: computes run on, and the next start finds the mount.
  await stop(neap, 'kill')
  neap = await start(dataDir)
  assert.equal(loopDevices(dataDir).length, 1)
  assert.deepEqual(await hash(neap, place), rows)
  await stop(neap)
  assert.deepEqual(loopDevices(dataDir), [])

  const elsewhere = `${dataDir}-moved`
  renameSync(dataDir, elsewhere)
  neap = await start(elsewhere)
  assert.deepEqual(await hash(neap, place), rows)
  await stop(neap)
})

test('an init that is killed anywhere is undone or completed by the next start', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'killed', 2048)
  mkdirSync(dataDir, { mode: 0o711 })
  for (const id of ['br-one', 'br-two']) {
    mkdirSync(join(dataDir, 'branches', id, 'pgdata'), { recursive: true })
    for (let file = 0; file < 40; file++)
      writeFileSync(join(dataDir, 'branches', id, 'pgdata', String(file)), randomBytes(2 ** 20))
  }
  const content = () =>
    execFileSync('sh', ['-c', "find branches/ -path '*/pgdata/*' -exec md5sum {} + | sort"], { cwd: dataDir })
  const before = content()
  // The link "removed" is the last one, before the copies.
  const steps = ['image.xfs.making', 'image.making', 'branches.aside', 'removed', 'image.xfs']
  for (const step of steps) {
    const init = spawnNeap(['storage', 'init', '--size', '600M'], envOf(dataDir))
    await Promise.race([
      appears(dataDir, () => lstatSync(join(dataDir, step), { throwIfNoEntry: false })),
      once(init, 'exit'),
    ])
    assert.equal(init.exitCode, null, `init ended before ${step}`)
    const ended = once(init, 'exit')
    init.kill('SIGKILL')
    await ended
    await openImage(dataDir)
    assert.deepEqual(content(), before, `after a kill at ${step}`)
    assert.equal(existsSync(join(dataDir, 'branches.aside')), false)
    assert.equal(existsSync(join(dataDir, 'image.xfs.making')), false)
    assert.equal(existsSync(join(dataDir, 'image.xfs')), step === 'image.xfs')
  }
  assert.equal(loopDevices(dataDir).length, 1)
  assert.ok(await closeImage(dataDir))
  assert.equal(await openImage(dataDir), undefined)
  assert.deepEqual(content(), before)
  assert.ok(await closeImage(dataDir))
})

const MIB = 2 ** 20
const bytesOf = (report: StorageReport, id: string) =>
  report.stores.find((store) => store.id === id) ?? assert.fail(`no store ${id}`)
const freeIn = (directory: string): number => {
  const { bsize, bavail } = statfsSync(directory)
  return bsize * bavail
}

test('each branch has the bytes that it writes, and its deletion frees what is said', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'space', 4096)
  await storage(dataDir, 'init', '--size', '2G')
  const neap = await start(dataDir)
  const main = await firstPlace(neap)
  await query(neap, main.uri, TABLE)
  const [one, other] = [await branchOff(neap, main), await branchOff(neap, main)]
  const write = async (place: Place, rows: number) => {
    await query(
      neap,
      place.uri,
      `insert into item select n, repeat(md5(n::text), 30) from generate_series(1, ${rows}) n`,
    )
    await suspend(neap, place)
    return statusOf(dataDir)
  }
  await suspend(neap, other)
  await suspend(neap, main)
  const first = await write(one, 1)
  const second = await write(one, 40_000)
  const own = (report: StorageReport, { branch_id }: Place) => bytesOf(report, branch_id).own_bytes ?? 0
  // 40,000 rows of a kilobyte, and the WAL of them.
  assert.ok(own(second, one) - own(first, one) > 40 * MIB, JSON.stringify([first.stores, second.stores]))
  assert.equal(own(second, other), own(first, other))
  const third = await write(other, 20_000)
  assert.ok(own(third, other) - own(second, other) > 20 * MIB)
  assert.equal(own(third, one), own(second, one))
  assert.ok(own(third, one) < bytesOf(third, one.branch_id).real_bytes)
  assert.ok(third.real_bytes < third.stores.reduce((sum, { real_bytes: real }) => sum + real, 0))

  const params = { project_id: one.project_id, branch_id: one.branch_id }
  const usage = () => neap.call('GET /projects/:project_id/branches/:branch_id/disk_usage', { params })
  const frees = await until('the API tells what was measured last', async () => {
    const { deletion } = (await usage()).disk_usage
    return deletion.frees_bytes === own(third, one) ? deletion.frees_bytes : undefined
  })
  const project = await neap.call('GET /projects/:project_id/disk_usage', { params })
  assert.ok((project.disk_usage.deletion.frees_bytes ?? 0) > own(third, one) + own(third, other))
  execFileSync('sync', ['--file-system', join(dataDir, 'image')])
  const before = freeIn(join(dataDir, 'image'))
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
  await until(`${frees} bytes are free again`, () => {
    execFileSync('sync', ['--file-system', join(dataDir, 'image')])
    const freed = freeIn(join(dataDir, 'image')) - before
    // Its directories and inodes are freed, too.
    return freed > frees - MIB && freed < frees * 1.02 + 3 * MIB
  })
  await stop(neap)
})

test('an image grows by itself, says when it cannot, and gives room back', { skip }, async () => {
  const dataDir = dataDirOn('ext4', 'growing', 4096)
  await storage(dataDir, 'init', '--size', '1G')
  const neap = await start(dataDir, { env: { NEAP_WEBHOOK_ALLOW: '127.0.0.0/8' } })
  const events = ['host.image_resized', 'host.image_short'] as const
  const { webhook } = await neap.call('POST /webhooks', {
    body: { webhook: { url: 'http://127.0.0.1:9/', events: [...events] } },
  })
  const place = await firstPlace(neap)
  await query(neap, place.uri, TABLE)
  const rows = await hash(neap, place)
  const [inside, below] = [join(dataDir, 'image', 'filler'), join(dataDir, 'filler')]
  const fill = (file: string, bytes: number) => execFileSync('fallocate', ['--length', String(Math.floor(bytes)), file])
  const imageOf = async () => (await neap.call('GET /status', {})).hosts[0]?.image ?? assert.fail('no image')

  fill(inside, freeIn(join(dataDir, 'image')) - 100 * MIB)
  await until('it has grown', async () => (await imageOf()).bytes >= 1280 * MIB)
  const grown = await statusOf(dataDir)
  assert.ok(grown.image)
  assert.ok(grown.image.reserved_bytes >= grown.image.bytes, 'its blocks are reserved')
  assert.ok(grown.image.free_bytes > 300 * MIB)

  rmSync(inside)
  await until('it has given room back', async () => (await imageOf()).bytes === 1024 * MIB)
  const given = await statusOf(dataDir)
  assert.equal(given.image?.trimmed_bytes, grown.image.bytes - 1024 * MIB)
  assert.ok(given.image.reserved_bytes < grown.image.reserved_bytes - 200 * MIB)

  fill(below, freeIn(dataDir) - 300 * MIB)
  fill(inside, freeIn(join(dataDir, 'image')) - 100 * MIB)
  await until('it says that it cannot grow', async () => (await imageOf()).problem)
  assert.match((await imageOf()).problem ?? '', /Only .* are free in .*image.xfs, and it cannot grow: the disk of/)
  assert.match((await neapRun(['status'], envOf(dataDir))).stdout, /it cannot grow: the disk of .*Make room there/)
  assert.match((await statusOf(dataDir)).image?.problem ?? '', /cannot grow/)
  const { stdout } = await neapRun(['status', '--json'], envOf(dataDir))
  const { api_metrics_port } = JSON.parse(stdout) as { api_metrics_port: number }
  const metrics = async () => (await fetch(`http://127.0.0.1:${api_metrics_port}/metrics`)).text()
  await until('the metrics say so', async () => /^neap_host_image_short\{host=.* 1$/m.test(await metrics()))
  assert.deepEqual(await hash(neap, place), rows)

  rmSync(below)
  await until('it has grown again', async () => (await imageOf()).problem === undefined)
  assert.ok((await imageOf()).bytes >= 1280 * MIB)
  assert.equal((await statusOf(dataDir)).image?.trimmed_bytes, 0, 'first the room that was given back')
  assert.deepEqual(await hash(neap, place), rows)
  const { deliveries } = await neap.call('GET /webhooks/:webhook_id/deliveries', {
    params: { webhook_id: webhook.id },
    query: { limit: 10 },
  })
  assert.deepEqual(deliveries.map(({ event }) => event).toReversed(), [events[0], events[0], events[1], events[0]])
  await stop(neap)
})
